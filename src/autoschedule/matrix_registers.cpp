// SPDX-License-Identifier: Apache-2.0
// The tile of a contraction whose sums are in matrix registers. The epilogue is what is tiled, and the sums
// of its rows are computed where it reads them: rows that fill no register at the end of an axis are computed
// by a whole tile that begins earlier (Halide's ShiftInwards). Loops over one register are the two innermost
// ones, and say so (kMatrixLoops).
#include "target/matrix_registers.h"

#include <algorithm>

#include "autoschedule/tile_loops.h"

namespace tenon::rules {

namespace {

/// Does the reduction read an operand where a condition holds? Its loops would run one by one.
bool reads_masked(const Schedule& s, BlockRV reduction) {
  bool masked = false;
  pre_order(s.get(reduction)->body, [&](const ObjectRef& n) {
    const auto* l = n.as<tir::BufferLoad>();
    masked = masked || (l && l->predicate);
    return !masked;
  });
  return masked;
}

/// The epilogue in tiles, with the loops around them outermost; false: an axis of the result is none of its.
bool tile_epilogue(Schedule& s, const TilePlan& p, const Target& target, TileLoops& l) {
  const std::vector<LoopRV> loops = s.get_loops(p.epilogue);
  std::vector<LoopRV> inner = loops;
  l.axis.assign(p.nest.extent.size(), LoopRV{-1});
  for (int i : p.nest.spatial) {
    const int e = p.epilogue_iterator(i);
    if (e < 0 && p.nest.extent[size_t(i)] != 1) return false;
    if (e < 0) continue;
    LoopRV& axis = l.axis[size_t(i)] = loops[size_t(e)];
    std::erase(inner, axis);
    if (p.tile.size(i) == 1) continue;
    const std::vector<LoopRV> split = s.split(axis, {-1, p.tile.size(i)});
    axis = split[0];
    inner.push_back(split[1]);
  }
  order_tiles(s, p, target, l);
  std::vector<LoopRV> order = l.outer;
  order.insert(order.end(), inner.begin(), inner.end());
  s.reorder(order);
  return true;
}

/// The loops of the reduction inside of one tile; false: one is not there.
bool order_sum(Schedule& s, const TilePlan& p, TileLoops& l) {
  const std::vector<LoopRV> loops = s.get_loops(p.reduction);
  auto find = [&](int i) {
    const int at = i < 0 ? -1 : loop_of(s, p.reduction, i, loops, l.outer.size());
    return at < 0 ? LoopRV{-1} : loops[size_t(at)];
  };
  const LoopRV lanes = find(p.tile.vector), rows = find(p.tile.rows), rows2 = find(p.tile.rows2),
               grouped = find(p.grouped);
  for (int i : sum_order(p))
    if (const LoopRV loop = find(i); loop.id >= 0) l.steps.push_back(loop);
  if (lanes.id < 0 || rows.id < 0 || grouped.id < 0) return false;
  const std::vector<LoopRV> steps = s.split(grouped, {-1, p.group});
  std::ranges::replace(l.steps, grouped, steps[0]);
  l.group = steps[1];
  const std::vector<LoopRV> across = s.split(lanes, {-1, p.tile.lanes}),
                            down = s.split(rows, {-1, p.matrix_rows});
  if (rows2.id >= 0) l.tile.push_back(rows2);
  l.tile.insert(l.tile.end(), {down[0], across[0], down[1], across[1]});
  std::vector<LoopRV> order = l.steps;
  order.insert(order.end(), l.tile.begin(), l.tile.end());
  order.push_back(l.group);
  s.reorder(order);
  return true;
}

/// All registers of a tile are straight code.
void unroll_registers(Schedule& s, const std::vector<LoopRV>& loops) {
  for (size_t i = 0; i + 2 < loops.size(); ++i) s.unroll(loops[i]);
  s.annotate(loops[loops.size() - 2], kMatrixLoops, Any(true));
}

/// Sums leave the matrix registers by a copy, a register at a time; false: it does not follow their axes.
bool copy_registers(Schedule& s, const TilePlan& p, size_t outer) {
  auto cut = [&](int iterator, int64_t inner) {
    const std::vector<LoopRV> loops = s.get_loops(p.registers);
    const int at = loop_of(s, p.registers, iterator, loops, outer);
    return at < 0 ? LoopRV{-1} : s.split(loops[size_t(at)], {-1, inner})[1];
  };
  const LoopRV rows = cut(p.result_iterator(p.tile.rows), p.matrix_rows),
               lanes = cut(p.result_iterator(p.tile.vector), p.tile.lanes);
  if (rows.id < 0 || lanes.id < 0) return false;
  std::vector<LoopRV> order = s.get_loops(p.registers);
  order.erase(order.begin(), order.begin() + std::ptrdiff_t(outer));
  std::erase(order, rows), std::erase(order, lanes);
  order.push_back(rows), order.push_back(lanes);
  s.reorder(order);
  unroll_registers(s, order);
  return true;
}

}  // namespace

BlockRV copy_rows(Draft& draft, const TilePlan& p) {
  Schedule& s = draft.schedule;
  const Facts& f = p.facts;
  const Access* rows = nullptr;
  for (const Access& l : f.loads)
    if (l.stride[size_t(p.fusion.before(p.tile.vector))] == 0) rows = &l;
  if (!rows) return {-1};
  auto reads = [&](int i) {
    return std::ranges::any_of(rows->index, [&](const cost::Index& x) {
      return std::ranges::find(x.iterators, i) != x.iterators.end();
    });
  };
  // Its iterators as reindex has them, those of the sum first; and as the copy lies, the groups last.
  const int grouped = p.fusion.before(p.grouped);
  std::vector<int> dims, order;
  for (const std::vector<int>* list : {&f.reduce, &f.spatial})
    std::ranges::copy_if(*list, std::back_inserter(dims), reads);
  std::ranges::copy_if(f.spatial, std::back_inserter(order), reads);
  std::ranges::copy_if(f.reduce, std::back_inserter(order), [&](int i) { return i != grouped && reads(i); });
  order.push_back(grouped);
  auto at = [](const std::vector<int>& list, int i) {
    return int(std::ranges::find(list, i) - list.begin());
  };
  const BlockRV copy = copy_operand(draft, p.reduction, *rows);
  if (copy.id < 0) return copy;
  const auto lies = index_map(int(dims.size()), [&](const Array<tir::VarRef>& x) {
    Array<PrimExpr> out;
    for (int i : order) out.push_back(x[size_t(at(dims, i))]);
    return out;
  });
  s.transform_layout(copy, 0, BufferIndexType::write, lies);
  s.transform_block_layout(copy, lies);
  if (p.fusion.any()) {
    s.fuse_iterators(copy, at(order, p.fusion.first), p.fusion.count);
    order.erase(order.begin() + at(order, p.fusion.first) + 1,
                order.begin() + at(order, p.fusion.first) + p.fusion.count);
  }
  for (int& i : order) i = p.fusion.after(i);
  s.pad_iteration(copy, at(order, p.tile.rows), p.tile.row_count);
  return copy;
}

RuleOutcome tile_in_matrices(Draft& draft, const TilePlan& p) {
  Schedule& s = draft.schedule;
  if (reads_masked(s, p.reduction)) return RuleOutcome::masked_rows;
  TileLoops l;
  if (!tile_epilogue(s, p, draft.target, l)) return RuleOutcome::lost_loop;
  const LoopRV tile = l.outer.back();
  const size_t outer = l.outer.size();
  s.compute_at(p.registers, tile, true);
  s.compute_at(p.reduction, tile);
  if (!order_sum(s, p, l) || !copy_registers(s, p, outer)) return RuleOutcome::lost_loop;
  finish_epilogue(draft, p.epilogue, p.epilogue_iterator(p.tile.vector), outer, p.tile.lanes, p.contiguous);
  std::vector<LoopRV> zeros = s.get_loops(s.decompose_reduction(p.reduction, l.steps[0]));
  zeros.erase(zeros.begin(), zeros.begin() + std::ptrdiff_t(outer));
  unroll_registers(s, zeros);
  unroll_registers(s, l.tile);
  place_copies(draft, p, l, fuse_tasks(draft, p, l));
  if (p.row_copy.id >= 0) schedule_copy(draft, p.row_copy);
  prefetch_weights(s, p, draft.target, l);
  return RuleOutcome::applied;
}

}  // namespace tenon::rules
