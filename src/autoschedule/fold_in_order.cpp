// SPDX-License-Identifier: Apache-2.0
// fold_in_order: sums and extremes across memory that walk their operand as it lies there, each row of it
// once: what comes from memory comes as one stream. Rows that fill no vectors are folded several side by
// side; where there are fewer results than cores, each core folds pieces of its own.
#include <algorithm>
#include <numeric>

#include "autoschedule/stages.h"
#include "autoschedule/tile.h"

namespace tenon::rules {

using namespace tir;

namespace {

/// The iterators that lie side by side in a row of the operand, and how often a row is read.
struct Rows {
  Fusion columns;         ///< the spatial iterators of a row
  Fusion steps;           ///< the iterators of the fold
  cost::ColumnFold fold;  ///< with its vectors: whole ones and a part
  int64_t width = 1;      ///< results of a row
};

/// Runs of neighbouring iterators that end at the last one of `list` and that every access walks as one.
Fusion last_run(const Facts& f, const std::vector<int>& list) {
  Fusion out{list.back(), 1};
  for (size_t i = list.size() - 1; i-- > 0 && list[i] + 1 == out.first;) {
    const size_t at = size_t(list[i]);
    if (f.in_value[at] || f.in_value[at + 1] ||
        !std::ranges::all_of(f.loads, [&](const Access& l) { return walks_as_one(f, l, at); }) ||
        (f.write.stride[at + 1] != 0 && !walks_as_one(f, f.write, at)))
      break;
    out = {list[i], out.count + 1};
  }
  return out;
}

int64_t extent_of(const Facts& f, const Fusion& run) { return fused(f, run).extent[size_t(run.first)]; }

Rows rows_of(const Facts& f, const Target& target) {
  Rows out{last_run(f, f.spatial), last_run(f, f.reduce), {}};
  const int64_t lanes = cost::lanes_for(f, target);
  out.width = extent_of(f, out.columns);
  out.fold = {.rows = f.instances(true) / std::max<int64_t>(1, out.width),
              .vectors = cost::ceil_div(out.width, lanes),
              .steps = extent_of(f, out.steps),
              .inner = f.extent[size_t(f.reduce.back())],
              .bytes = double(lanes * f.write.element_bits()) / 8,
              .passes = 1};
  return out;
}

/// The block with the iterators of a run as one, and what it then is.
Facts fuse_run(Schedule& s, const Facts& f, const Fusion& run) {
  if (!run.any()) return f;
  s.fuse_iterators(f.id, run.first, run.count);
  const auto out = facts_of(s, f.id);
  CHECK(out, "a fold that lost its loops");
  return *out;
}

/// Steps of the fold become results of their own, the first of them or those in front of the columns; the
/// iterators and loops of that block in the order of its result.
std::optional<Facts> part_of(Schedule& s, BlockRV b, const std::vector<int64_t>& factors, int which,
                             bool before_columns) {
  const int dims = int(s.get(b)->writes[0]->buffer->shape.size());
  const LoopRV steps = s.get_loops(b).back();
  const BlockRV part = s.rfactor(s.split(steps, factors)[size_t(which)], before_columns ? dims - 1 : 0);
  const Ref<Block> block = s.get(part);
  const auto* store = block->body.as<BufferStore>();
  CHECK(store, "a part of a fold is no store");
  std::vector<int> order;
  for (const PrimExpr& index : store->indices)
    for (size_t i = 0; i < block->iter_vars.size(); ++i)
      if (index.get() == block->iter_vars[i]->var.get()) order.push_back(int(i));
  for (size_t i = 0; i < block->iter_vars.size(); ++i)
    if (block->iter_vars[i]->kind == IterKind::reduce) order.push_back(int(i));
  if (order.size() != block->iter_vars.size()) return std::nullopt;
  if (!std::ranges::is_sorted(order)) s.reorder_block_iter_var(part, order);
  // An iterator of one step is bound to a loop that it does not use.
  std::vector<LoopRV> loops = s.get_loops(part), wanted;
  std::vector<int> at;
  for (size_t i = 0; i < order.size(); ++i) at.push_back(loop_of(s, part, int(i), loops, 0));
  std::vector<LoopRV> still;
  for (size_t l = 0; l < loops.size(); ++l)
    if (std::ranges::find(at, int(l)) == at.end()) still.push_back(loops[l]);
  for (int l : at) {
    if (l < 0 && still.empty()) return std::nullopt;
    wanted.push_back(l < 0 ? still.back() : loops[size_t(l)]);
    if (l < 0) still.pop_back();
  }
  s.reorder(wanted);
  return facts_of(s, part);
}

/// The loops of a fold: rows of results and panels of them outside, then its steps, a few at a time, for a
/// few vectors of results.
void arrange_fold(Draft& draft, const Facts& f, const cost::FoldTile& tile, bool parallel) {
  Schedule& s = draft.schedule;
  const int64_t lanes = cost::lanes_for(f, draft.target);
  const BlockRV copy = private_result(s, f.id, {-1});
  if (f.extent[size_t(f.spatial.back())] % lanes) {
    s.pad_iteration(f.id, f.spatial.back(), lanes);
    s.pad_iteration(copy, int(f.spatial.size()) - 1, lanes);
  }
  std::vector<LoopRV> results = s.get_loops(copy);
  const std::vector<LoopRV> panel = s.split(results.back(), {-1, tile.panel * lanes});
  results.back() = panel[0];
  const LoopRV rows = s.fuse(results);
  s.compute_at(f.id, rows);
  vectorize_inner(draft, copy, 1);
  const std::vector<LoopRV> loops = s.get_loops(f.id);
  const std::vector<LoopRV> c =
      s.split(loops[size_t(loop_of(s, f.id, f.spatial.back(), loops, 1))], {-1, tile.vectors, lanes});
  const std::vector<LoopRV> k =
      s.split(loops[size_t(loop_of(s, f.id, f.reduce.back(), loops, 1))], {-1, tile.steps});
  s.reorder({k[0], c[0], k[1], c[1], c[2]});
  const BlockRV init = s.decompose_reduction(f.id, k[0]);
  vectorize_inner(draft, init, 1);
  s.vectorize(c[2]), s.unroll(c[1]), s.unroll(k[1]);
  if (parallel) draft.parallel(rows);
  draft.set_scheduled(f.id), draft.set_scheduled(copy);
}

/// What puts the parts of a fold together: few steps, in vectors of results.
void arrange_sum(Draft& draft, BlockRV b) {
  attempt(draft, "the sum of parts", [&](Draft& d) {
    const std::vector<LoopRV> loops = d.schedule.get_loops(b);
    if (loops.size() < 2) return RuleOutcome::lost_loop;
    const LoopRV columns = loops[loops.size() - 2], steps = loops.back();
    d.schedule.reorder({steps, columns});
    const BlockRV init = d.schedule.decompose_reduction(b, steps);
    vectorize_inner(d, init, 0);
    vectorize_inner(d, b, 0);
    return RuleOutcome::applied;
  });
  draft.set_scheduled(b);
}

RuleOutcome fold(Draft& draft, const Facts& of) {
  Schedule& s = draft.schedule;
  if (!folds_columns(of) || of.instances(false) == kUnknown || of.reduce.front() < of.spatial.back())
    return RuleOutcome::no_columns;
  const Rows rows = rows_of(of, draft.target);
  if (rows.steps.count != int(of.reduce.size())) return RuleOutcome::no_columns;
  // As for the steps (rows_side_by_side).
  const int64_t side =
      rows.columns.any() ? 1
                         : cost::rows_side_by_side(rows.fold, rows.width, cost::lanes_for(of, draft.target));
  if (side == 1 && !cost::one_stream(rows.fold, draft.target)) return RuleOutcome::stays_near;
  std::vector<BlockRV> sums;
  // The steps lie behind the columns, so that their places stay as they are.
  Facts f = fuse_run(s, fuse_run(s, of, rows.steps), rows.columns);
  if (side > 1) {
    if (rows.fold.steps % side) s.pad_iteration(f.id, f.reduce.back(), side);
    const auto part = part_of(s, f.id, {-1, side}, 1, true);
    if (!part) return RuleOutcome::lost_loop;
    sums.push_back(f.id);
    f = fuse_run(s, *part, {part->spatial[part->spatial.size() - 2], 2});
  }
  const cost::ColumnFold wide = rows_of(f, draft.target).fold;
  if (const int64_t pieces = cost::pieces_of_fold(wide, f.cost, draft.target); pieces > 1) {
    const auto part = part_of(s, f.id, {pieces, -1}, 0, false);
    if (!part) return RuleOutcome::lost_loop;
    sums.push_back(f.id);
    f = *part;
  }
  const cost::ColumnFold all = rows_of(f, draft.target).fold;
  const cost::FoldTile tile = cost::fold_tile(all, draft.target);
  const bool parallel = all.rows * (all.vectors / tile.panel) > 1 &&
                        cost::worth_parallel(double(f.instances(false)) * f.cost, draft.target);
  arrange_fold(draft, f, tile, parallel);
  for (const BlockRV b : sums) arrange_sum(draft, b);
  return RuleOutcome::applied;
}

}  // namespace

RuleOutcome fold_in_order(Draft& draft, const Site& site) {
  if (site.facts->is_reduction()) return fold(draft, *site.facts);
  // What is made of each result alone follows.
  const std::vector<BlockRV> stages = leading_to(draft, site.block, [](BlockRV) { return true; });
  if (stages.size() != 2) return RuleOutcome::no_columns;
  const auto f = facts_of(draft.schedule, stages[0]);
  if (!f || !f->is_reduction() || site.facts->instances(false) == kUnknown ||
      site.facts->instances(false) > f->instances(true))
    return RuleOutcome::no_columns;
  if (const RuleOutcome o = fold(draft, *f); o != RuleOutcome::applied) return o;
  draft.set_scheduled(f->id);
  const auto last = facts_of(draft.schedule, site.block);
  return last ? elementwise(draft, {.block = site.block, .facts = last}) : RuleOutcome::opaque;
}

}  // namespace tenon::rules
