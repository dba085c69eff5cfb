// SPDX-License-Identifier: Apache-2.0
#include "autoschedule/tile_loops.h"

#include <algorithm>

#include "target/matrix_registers.h"

namespace tenon::rules {

using namespace tir;

namespace {

/// Planes and blocks of padded rows are the outermost loops; each block is padded just before it is read.
/// The loop over the rows of a block.
LoopRV order_padded_rows(Schedule& s, const PadRows& pad, TileLoops& l) {
  for (int i : pad.planes) l.around.push_back(l.axis[size_t(i)]);
  LoopRV rows = l.axis[size_t(pad.window)];
  if (pad.rows != kUnknown && as_int(s.get(rows)->extent) != pad.rows) {
    const std::vector<LoopRV> split = s.split(rows, {-1, pad.rows});
    l.around.push_back(split[0]);
    rows = split[1];
  }
  l.outer = l.around;
  return rows;
}

/// Elements from one step of an iterator (`count` values of it) to the next; null when indices do not say.
std::optional<int64_t> distance(const Facts& f, const Access& a, int iterator, int64_t count) {
  auto position = [&](int64_t value) {
    VarMap at;
    for (size_t i = 0; i < f.block->iter_vars.size(); ++i)
      at[f.block->iter_vars[i]->var.get()] = PrimExpr(int(i) == iterator ? value : 0);
    std::optional<int64_t> out = 0;
    for (size_t d = 0; d < a.indices.size() && out; ++d) {
      const auto index = as_int(simplify(substitute(a.indices[d], at))), size = as_int(a.buffer->shape[d]);
      out = index && size ? std::optional(*out * *size + *index) : std::nullopt;
    }
    return out;
  };
  const auto from = position(0), to = position(count);
  return from && to ? std::optional(*to - *from) : std::nullopt;
}

/// Cycles of all tiles of one batch of symbolic size, by the model.
double tile_cycles(const TilePlan& p) {
  const int64_t bytes = p.nest.loads[0].element_bits() / 8;
  const int64_t group = p.matrix_rows > 0 ? kMatrixGroupBytes / std::max<int64_t>(1, bytes) : p.group;
  return p.tile.time * p.nest.known_instances() / double(group);
}

}  // namespace

std::vector<int> sum_order(const TilePlan& p) {
  const int lanes = p.fusion.before(p.tile.vector);
  std::vector<const Access*> along;
  for (const Access& l : p.facts.loads)
    if (l.stride[size_t(lanes)] != 0) along.push_back(&l);
  if (along.size() != 1 || p.facts.loads.size() != 2) return p.nest.reduce;
  std::vector<std::pair<int64_t, int>> steps;  // longest first
  for (int i : p.nest.reduce) {
    const auto d = distance(p.facts, *along[0], p.fusion.before(i), i == p.grouped ? p.group : 1);
    if (!d) return p.nest.reduce;
    steps.emplace_back(-std::abs(*d), i);  // sorts the longest step outermost, forwards or back
  }
  std::ranges::stable_sort(steps, {}, &std::pair<int64_t, int>::first);
  std::vector<int> out;
  for (const auto& [distance, i] : steps) out.push_back(i);
  return out;
}

void order_tiles(Schedule& s, const TilePlan& p, const Target& target, TileLoops& l) {
  const LoopRV rows = p.pad ? order_padded_rows(s, *p.pad, l) : LoopRV{-1};
  const bool rows_inside = p.pad && cost::parts_outermost(p.nest, p.tile, target);
  if (p.pad && !rows_inside) l.outer.push_back(rows);
  const int m = p.tile.rows;
  auto placed = [&](int i) { return p.pad && p.pad->moves(i); };
  if (!p.pad && p.panels.id < 0)
    l.row_group = cost::row_group(p.nest, p.tile, p.grouped, tile_cycles(p), target);
  if (l.row_group > 0) {
    for (int i : p.nest.spatial)
      if (i != m && i != p.tile.vector) l.outer.push_back(l.axis[size_t(i)]);
    const std::vector<LoopRV> groups = s.split(l.axis[size_t(m)], {-1, l.row_group});
    l.outer.insert(l.outer.end(), {groups[0], l.axis[size_t(p.tile.vector)], groups[1]});
    l.last_rows = {m};
    return;
  }
  if (m >= 0 && (p.panels.id >= 0 || cost::rows_innermost(p.nest, p.tile, target)))
    l.last_rows = cost::innermost_rows(p.nest, p.tile);
  std::erase_if(l.last_rows, placed);
  if (!p.pad && p.panels.id < 0) l.block = cost::blocks_outermost(p.nest, p.tile, target);
  if (l.block >= 0) l.outer.push_back(l.axis[size_t(l.block)]);
  std::erase(l.last_rows, l.block);  // rows of a tile may be blocks of channels
  const int behind = p.pad || p.panels.id >= 0 || l.block >= 0
                         ? -1
                         : cost::blocks_behind_rows(p.nest, p.tile, tile_cycles(p), target);
  for (int i : p.nest.spatial)
    if (i != l.block && i != behind && !l.walks_last(i) && !placed(i)) l.outer.push_back(l.axis[size_t(i)]);
  if (behind >= 0 && !l.walks_last(behind)) l.outer.push_back(l.axis[size_t(behind)]);
  if (rows_inside) l.outer.push_back(rows);
  for (int i : l.last_rows) l.outer.push_back(l.axis[size_t(i)]);
  for (std::vector<LoopRV>* list : {&l.outer, &l.around})
    std::erase_if(*list, [](LoopRV loop) { return loop.id < 0; });
}

LoopRV fuse_tasks(Draft& draft, const TilePlan& p, const TileLoops& l) {
  const int64_t work = p.nest.instances(false);
  std::vector<LoopRV> tasks = l.around.empty() ? l.outer : l.around;
  // Digits of symbolic sizes are divisions: the last loop stays by itself, and one task is a row of tiles.
  if (l.around.empty() && tasks.size() > 2 && work == kUnknown) tasks.pop_back();
  const LoopRV all = draft.schedule.fuse(tasks);
  if (work == kUnknown || cost::worth_parallel(double(work) * p.nest.cost, draft.target)) draft.parallel(all);
  return all;
}

void place_copies(Draft& draft, const TilePlan& p, const TileLoops& l, LoopRV tasks) {
  std::vector<BlockRV> copies;
  if (p.pad && !l.around.empty()) copies.push_back(p.pad->pad);
  if (p.panels.id >= 0) copies.push_back(p.panels);
  for (BlockRV copy : copies) {
    draft.schedule.compute_at(copy, tasks);
    vectorize_inner(draft, copy, 1);
  }
  // A padding that is placed nowhere is a program of its own, which another rule schedules.
  if (p.pad && !l.around.empty()) draft.set_scheduled(p.pad->pad);
}

void prefetch_weights(Schedule& s, const TilePlan& p, const Target& target, const TileLoops& l) {
  const Access* weights = nullptr;
  for (const Access& load : p.nest.loads) {
    if (load.stride[size_t(p.tile.vector)] == 0) continue;
    if (weights || !is_parameter(s, load.buffer)) return;
    weights = &load;
  }
  LoopRV step{-1};
  for (LoopRV loop : l.steps)
    if (const Ref<For> f = s.get(loop); f->kind == ForKind::serial && !is_one(f->extent)) step = loop;
  if (!weights || step.id < 0) return;
  // One walk (or one for each group of rows): what comes before the lanes, or before their blocks, in the
  // order of the loops has a single value, as a batch of any size most likely has.
  const int block = cost::block_iterator(p.nest, *weights, p.tile.vector);
  if (block >= 0 && l.walks_last(block)) return;
  // Rows of any number are innermost, and each walk around them is a stream of its own. Those of the result's
  // first axis may be one tile, which comes in order anyway.
  const int m = p.tile.rows;
  const bool any_rows = m >= 0 && p.nest.symbolic(m) && p.nest.result_dim(m) > 0;
  int64_t rows = 1;
  for (int i : p.nest.spatial) {
    if (i == p.tile.vector || i == block || p.nest.is_batch(i)) continue;
    const int64_t tiles = ceil_div(p.nest.extent[size_t(i)], p.tile.size(i));
    const bool outside = l.block < 0 && i < (block < 0 ? p.tile.vector : block) && !l.walks_last(i);
    const bool against = any_rows && i != m ? !outside && p.nest.result_dim(i) > 0 : outside;
    if (tiles != 1 && (against || weights->stride[size_t(i)] != 0)) return;
    rows *= l.row_group > 0 && i == m ? l.row_group : tiles;
  }
  const int64_t ahead = cost::stream_ahead(p.nest, *weights, p.tile, any_rows ? kUnknown : rows, target);
  if (ahead == 0) return;
  const std::string key = "stream_" + weights->buffer->name;
  if (!any_rows) return s.annotate(step, key, Any(ahead));
  // Tiles of rows take turns: each announces a line of the next part in each step, as long as there are some.
  const int64_t line = target->line_bytes / weights->buffer->dtype.bytes();
  const int64_t apart = block < 0 ? line : weights->stride[size_t(block)],
                lines = block < 0 ? ceil_div(p.tile.width(), line) : p.tile.size(block);
  s.annotate(step, key, Any(Array<int64_t>{ahead, apart, lines, p.tile.rows, p.tile.row_count}));
}

}  // namespace tenon::rules
