// SPDX-License-Identifier: Apache-2.0
// Long sums block by block: for one block of steps after the other, all tiles of a group take up what the
// block adds to them. What a block reads of the operand along the lanes stays in the cache, which the whole
// sum would not.
#include <algorithm>

#include "autoschedule/tile.h"

namespace tenon::rules {

using namespace tir;

namespace {

/// The loops of the sum of all blocks: tiles of the result, then blocks, then the tiles of a group.
struct BlockLoops {
  std::vector<LoopRV> outer;  ///< over groups of tiles
  LoopRV block{-1};
  LoopRV vector_tile{-1};  ///< the innermost one around a tile
};

/// The sums of the blocks, each in registers; the reduction adds them up.
BlockRV factor_sum(Schedule& s, const TilePlan& p) {
  const LoopRV axis = s.get_loops(p.reduction)[size_t(p.blocks->axis)];
  const BlockRV sums = s.rfactor(s.split(axis, {-1, p.blocks->length})[0], 0);
  s.set_scope(sums, 0, "local");
  return sums;
}

/// Position of a spatial iterator of the nest in blocks that have spatial ones first.
int position(const TilePlan& p, int i) {
  return int(std::find(p.nest.spatial.begin(), p.nest.spatial.end(), i) - p.nest.spatial.begin());
}

/// Splits the result into groups of tiles and puts the loop over blocks around each; null: a loop is not
/// there.
std::optional<BlockLoops> order_groups(Schedule& s, const TilePlan& p) {
  const std::vector<LoopRV> loops = s.get_loops(p.reduction);
  auto find = [&](int at) {
    const int l = loop_of(s, p.reduction, at, loops, 0);
    return l < 0 ? LoopRV{-1} : loops[size_t(l)];
  };
  BlockLoops out;
  out.block = find(int(p.nest.spatial.size()));
  std::vector<LoopRV> vectors, rows, rows2;
  for (int i : p.nest.spatial) {
    if (p.nest.extent[size_t(i)] == 1) continue;  // bound to no loop
    const LoopRV l = find(position(p, i));
    if (l.id < 0) return std::nullopt;
    const Tile& t = p.tile;
    if (i == t.vector) vectors = s.split(l, {-1, p.blocks->vector_tiles, t.width()});
    if (i == t.rows) rows = s.split(l, {-1, p.blocks->row_tiles, t.row_count});
    if (i == t.rows2) rows2 = s.split(l, {-1, t.row2_count});
    out.outer.push_back(i == t.vector ? vectors[0] : i == t.rows ? rows[0] : i == t.rows2 ? rows2[0] : l);
  }
  if (out.block.id < 0 || vectors.empty() || rows.empty()) return std::nullopt;
  out.vector_tile = vectors[1];
  std::vector<LoopRV> order = out.outer;
  order.insert(order.end(), {out.block, rows[1], vectors[1], rows[2]});
  if (!rows2.empty()) order.push_back(rows2[1]);
  order.push_back(vectors[2]);
  s.reorder(order);
  return out;
}

/// The register tile of the sums of one block, below the `depth` first loops; false: a loop is not there.
bool tile_sums(Schedule& s, const TilePlan& p, BlockRV sums, size_t depth) {
  const std::vector<LoopRV> loops = s.get_loops(sums);
  auto find = [&](int at) {
    const int l = loop_of(s, sums, at, loops, depth);
    return l < 0 ? LoopRV{-1} : loops[size_t(l)];
  };
  std::vector<LoopRV> steps, results;
  LoopRV group{-1};
  for (int i : {p.tile.rows, p.tile.rows2})
    if (const LoopRV l = i < 0 ? LoopRV{-1} : find(position(p, i)); l.id >= 0) results.push_back(l);
  const LoopRV lanes = find(position(p, p.tile.vector));
  for (size_t k = 0; k < p.nest.reduce.size(); ++k) {
    const LoopRV l = find(int(p.nest.spatial.size() + 1 + k));
    if (l.id < 0) continue;
    steps.push_back(l);
    if (p.nest.reduce[k] != p.grouped) continue;
    const std::vector<LoopRV> split = s.split(l, {-1, p.group});
    steps.back() = split[0];
    group = split[1];
  }
  if (lanes.id < 0 || steps.empty()) return false;
  const std::vector<LoopRV> vectors = s.split(lanes, {p.tile.vectors, p.tile.lanes});
  results.push_back(vectors[0]);
  std::vector<LoopRV> order = steps;
  order.insert(order.end(), results.begin(), results.end());
  order.push_back(vectors[1]);
  if (group.id >= 0) order.push_back(group);
  s.reorder(order);
  zero_accumulators(s, sums, steps[0], depth);
  if (group.id >= 0)
    s.tensorize(vectors[1], p.intrin);
  else
    s.vectorize(vectors[1]);
  for (LoopRV l : results) s.unroll(l);
  return true;
}

}  // namespace

RuleOutcome tile_in_blocks(Draft& draft, const TilePlan& p) {
  Schedule& s = draft.schedule;
  const BlockRV sums = factor_sum(s, p);
  const auto loops = order_groups(s, p);
  if (!loops) return RuleOutcome::lost_loop;
  const size_t outer = loops->outer.size(),
               depth = outer + 3;  // the block, the rows and the lanes of a group
  s.compute_at(sums, loops->vector_tile);
  s.reverse_compute_at(p.epilogue, loops->outer.back());
  finish_epilogue(draft, p.epilogue, p.epilogue_iterator(p.tile.vector), outer, p.tile.lanes, p.contiguous);
  if (!tile_sums(s, p, sums, depth)) return RuleOutcome::lost_loop;
  finish_epilogue(draft, p.reduction, position(p, p.tile.vector), depth, p.tile.lanes, true);
  s.decompose_reduction(p.reduction, loops->block);
  draft.parallel(s.fuse(loops->outer));
  return RuleOutcome::applied;
}

}  // namespace tenon::rules
