// SPDX-License-Identifier: Apache-2.0
// The recipe of a register tile: accumulators live in registers while the reduction runs, the epilogue takes
// them from there.
#include "autoschedule/tile_loops.h"

#include <algorithm>

#include "target/matrix_registers.h"

namespace tenon::rules {

using namespace tir;

namespace {

constexpr int64_t kEpilogueCopies = 32;  ///< of its body, when the loops of an epilogue are unrolled
/// Steps of an axis of the sum, and copies of the multiply-add with them, up to which it is unrolled, too.
constexpr int64_t kWindowSteps = 7, kTileCopies = 72;

int64_t extent_of(const Schedule& s, LoopRV loop) { return as_int(s.get(loop)->extent).value_or(kManySteps); }

}  // namespace

// ---------------------------------------------------------------- steps that recipes share
BlockRV private_result(Schedule& s, BlockRV reduction, BlockRV epilogue) {
  if (epilogue.id < 0) return s.cache_write(reduction, 0, "local");
  s.set_scope(reduction, 0, "local");
  return epilogue;
}

int loop_of(const Schedule& s, BlockRV b, int i, const std::vector<LoopRV>& loops, size_t first) {
  const PrimExpr value = s.realize(b)->iter_values[size_t(i)];
  for (size_t l = loops.size(); l-- > first;)
    if (uses_var(value, s.get(loops[l])->loop_var.get())) return int(l);
  return -1;
}

void finish_epilogue(Draft& draft, BlockRV e, int vector, size_t outer, int64_t lanes, bool contiguous) {
  Schedule& s = draft.schedule;
  const std::vector<LoopRV> loops = s.get_loops(e);
  const int at = vector < 0 ? -1 : loop_of(s, e, vector, loops, outer);
  std::vector<LoopRV> others;
  for (size_t l = outer; l < loops.size(); ++l)
    if (int(l) != at) others.push_back(loops[l]);
  if (at >= 0 && contiguous) {
    LoopRV v = loops[size_t(at)];
    const int64_t extent = as_int(s.get(v)->extent).value_or(0);
    if (extent > lanes && extent % lanes == 0) {
      const std::vector<LoopRV> split = s.split(v, {-1, lanes});
      others.push_back(split[0]);
      v = split[1];
    }
    if (extent % lanes == 0 || extent < lanes) {
      std::vector<LoopRV> order = others;
      order.push_back(v);
      if (order.size() > 1) s.reorder(order);
      s.vectorize(v);
    }
  } else if (at >= 0) {
    others.push_back(loops[size_t(at)]);
  }
  int64_t copies = 1;
  for (LoopRV l : others) copies *= extent_of(s, l);
  if (copies <= kEpilogueCopies)
    for (LoopRV l : others) try_step(draft, "unroll", [&](Schedule& t) { t.unroll(l); });
}

void zero_accumulators(Schedule& s, BlockRV reduction, LoopRV loop, size_t outer) {
  const std::vector<LoopRV> loops = s.get_loops(s.decompose_reduction(reduction, loop));
  for (size_t i = outer; i < loops.size(); ++i) {
    if (i + 1 == loops.size())
      s.vectorize(loops[i]);
    else
      s.unroll(loops[i]);
  }
}

BlockRV copy_operand(Draft& draft, BlockRV reduction, const Access& l) {
  const Ref<Block> b = draft.schedule.get(reduction);
  BlockRV copy;
  for (size_t i = 0; i < b->reads.size() && copy.id < 0; ++i)
    if (b->reads[i]->buffer.same_as(l.buffer)) copy = draft.schedule.reindex(reduction, int(i));
  if (copy.id < 0) return copy;
  for (BlockRV p : draft.schedule.get_producers(copy))
    if (draft.schedule.get_consumers(p).size() == 1)
      try_step(draft, "inline", [&](Schedule& s) { s.compute_inline(p); });
  return copy;
}

// ---------------------------------------------------------------- the plan
bool PadRows::moves(int iterator) const {
  return iterator == window || std::find(planes.begin(), planes.end(), iterator) != planes.end();
}

int TilePlan::epilogue_iterator(int i) const {
  auto reader = [&](int iterator) {
    const int dim = facts.result_dim(iterator);
    return dim < 0 ? -1 : reads[size_t(dim)];
  };
  const int at = reader(fusion.before(i));
  // Once they are fused, the first one stands for all, and those behind have moved up.
  return fusion.any() && at > reader(fusion.first) ? at - (fusion.count - 1) : at;
}

int TilePlan::result_iterator(int i) const {
  const int at = facts.result_dim(fusion.before(i));
  return fusion.any() && at > facts.result_dim(fusion.first) ? at - (fusion.count - 1) : at;
}

namespace {

/// Does the epilogue walk the fused iterators as one, as the reduction does?
bool epilogue_fuses(const TilePlan& p, const Facts& e) {
  for (int i = p.fusion.first; i + 1 < p.fusion.first + p.fusion.count; ++i) {
    const int d0 = p.facts.result_dim(i), d1 = p.facts.result_dim(i + 1);
    if (d0 < 0 || d1 < 0) return false;
    const int x = p.reads[size_t(d0)], y = p.reads[size_t(d1)];
    if (x < 0 || y != x + 1 || e.in_value[size_t(x)] || e.in_value[size_t(y)]) return false;
    auto joined = [&](const Access& a) { return walks_as_one(e, a, size_t(x)); };
    if (!joined(e.write) || !std::all_of(e.loads.begin(), e.loads.end(), joined)) return false;
  }
  return true;
}

/// Stages of which a row of the epilogue takes one value (a square root of sums) are no stages: each row
/// computes its own.
void inline_row_values(Draft& draft, const TileRequest& r) {
  const auto e = r.epilogue.id < 0 ? std::nullopt : facts_of(draft.schedule, r.epilogue);
  if (!e || e->extent.empty()) return;
  for (BlockRV b : draft.schedule.blocks()) {
    if (b.id == r.epilogue.id) return;
    const Ref<Block> block = draft.schedule.get(b);
    const auto reads = [&](const Access& l) { return l.buffer.same_as(block->writes[0]->buffer); };
    if (b.id != r.reduction.id && !block->init && block->writes.size() == 1 &&
        std::ranges::any_of(e->loads, reads) &&
        std::ranges::all_of(e->loads, [&](const Access& l) { return !reads(l) || l.stride.back() == 0; }))
      try_step(draft, "computed by each row", [&](Schedule& s) { s.compute_inline(b); });
  }
}

/// How the epilogue follows the reduction. False: it does not, and no tile can be made.
bool plan_epilogue(Schedule& s, TilePlan& p) {
  p.contiguous = p.nest.write.stride[size_t(p.tile.vector)] == 1;
  if (p.epilogue.id < 0) return true;
  const auto e = facts_of(s, p.epilogue);
  if (!e || e->is_reduction()) return false;
  const auto reads = reads_of(*e, p.facts.write.buffer);
  if (!reads) return false;
  p.reads = *reads;
  const int dim = p.facts.result_dim(p.fusion.before(p.tile.vector));
  const int v = dim < 0 ? -1 : p.reads[size_t(dim)];
  p.contiguous = v >= 0 && e->write.stride[size_t(v)] == 1;
  for (const Access& l : e->loads)
    p.contiguous = p.contiguous && (l.stride[size_t(v)] == 1 || l.stride[size_t(v)] == 0);
  return epilogue_fuses(p, *e);
}

// ---------------------------------------------------------------- the steps
/// The result becomes private; the epilogue, or a copy in its place, reads it.
void take_result(Schedule& s, TilePlan& p) {
  p.epilogue = private_result(s, p.reduction, p.epilogue);
  const auto e = facts_of(s, p.epilogue);
  CHECK(e, "an epilogue is no longer one store in loops");
  const auto reads = reads_of(*e, s.get(p.reduction)->writes[0]->buffer);
  CHECK(reads, "an epilogue does not follow its reduction");
  p.reads = *reads;
  if (p.matrix_rows > 0) p.registers = s.cache_write(p.reduction, 0, kMatrixScope);
}

void fuse_axes(Schedule& s, const TilePlan& p) {
  if (!p.fusion.any()) return;
  s.fuse_iterators(p.reduction, p.fusion.first, p.fusion.count);
  s.fuse_iterators(p.epilogue, p.epilogue_iterator(p.fusion.first), p.fusion.count);
  if (p.registers.id >= 0) s.fuse_iterators(p.registers, p.result_iterator(p.fusion.first), p.fusion.count);
}

/// Axes run to whole tiles; rows beyond the end repeat the last one, lanes are masked. (Of matrix registers
/// the last rows are a whole tile that begins earlier, or there is a copy with whole tiles.)
void pad_axes(Schedule& s, const TilePlan& p) {
  auto pad = [&](int i, int64_t step, bool clamp) {
    if (i < 0 || (!p.nest.symbolic(i) && p.nest.extent[size_t(i)] % step == 0)) return;
    s.pad_iteration(p.reduction, i, step, clamp);
    if (p.registers.id >= 0) s.pad_iteration(p.registers, p.result_iterator(i), step);
    if (const int e = p.epilogue_iterator(i); e >= 0) s.pad_iteration(p.epilogue, e, step);
  };
  pad(p.tile.vector, p.tile.width(), false);
  pad(p.tile.rows2, p.tile.row2_count, true);
  if (p.row_copy.id >= 0) return pad(p.tile.rows, p.tile.row_count, false);
  if (p.matrix_rows > 0)
    return s.pad_iteration(p.epilogue, p.epilogue_iterator(p.tile.rows), p.tile.row_count);
  pad(p.tile.rows, p.tile.row_count * (p.blocks ? p.blocks->row_tiles : 1), true);
}

TileLoops split_axes(Schedule& s, const TilePlan& p) {
  TileLoops l{.axis = s.get_loops(p.reduction)};
  // The loops inside a tile along an iterator, whose own loop is over the tiles then; none without one.
  auto split = [&](int i, std::vector<int64_t> factors) {
    if (i < 0) return std::vector<LoopRV>();
    factors.insert(factors.begin(), -1);
    std::vector<LoopRV> made = s.split(l.axis[size_t(i)], factors);
    l.axis[size_t(i)] = made[0];
    made.erase(made.begin());
    return made;
  };
  const std::vector<LoopRV> along = split(p.tile.vector, {p.tile.vectors, p.tile.lanes}),
                            rows = split(p.tile.rows, {p.tile.row_count}),
                            rows2 = split(p.tile.rows2, {p.tile.row2_count});
  for (const auto& loops : {rows, rows2, along}) l.tile.insert(l.tile.end(), loops.begin(), loops.end());
  return l;
}

/// Tiles outside, then the sum, the tile inside.
void order_loops(Schedule& s, const TilePlan& p, const Target& target, TileLoops& l) {
  order_tiles(s, p, target, l);
  // A panel is made for all rows that read it, which are the last loop.
  if (p.panels.id >= 0 && !p.pad) l.around.assign(l.outer.begin(), l.outer.end() - 1);
  for (int i : sum_order(p)) {
    l.steps.push_back(l.axis[size_t(i)]);
    l.sum.push_back(i);
    if (i != p.grouped) continue;
    const std::vector<LoopRV> split = s.split(l.steps.back(), {-1, p.group});
    l.steps.back() = split[0];
    l.group = split[1];
  }
  std::vector<LoopRV> order = l.outer;
  order.insert(order.end(), l.steps.begin(), l.steps.end());
  order.insert(order.end(), l.tile.begin(), l.tile.end());
  if (l.group.id >= 0) order.push_back(l.group);
  s.reorder(order);
}

/// The tile is straight code: lanes or an intrinsic, all accumulators, and the last axes of the sum while
/// they are short, as those of a window are.
void unroll_tile(Schedule& s, const TilePlan& p, const Target& target, const TileLoops& l) {
  if (l.group.id >= 0)
    s.tensorize(l.tile.back(), p.intrin);
  else
    s.vectorize(l.tile.back());
  s.unroll(l.tile[l.tile.size() - 2]);
  for (size_t i = 0; i + 2 < l.tile.size(); ++i) s.unroll(l.tile[i]);
  int64_t copies = p.tile.accumulators();
  for (size_t i = l.steps.size(); i-- > 0;) {
    const int64_t extent = extent_of(s, l.steps[i]);
    if (extent > kWindowSteps || copies * extent > kTileCopies) break;
    if (!cost::fits_unrolled(p.nest, p.tile, l.sum[i], extent, target)) break;
    copies *= extent;
    if (extent > 1) s.unroll(l.steps[i]);
  }
}

RuleOutcome tile_recipe(Draft& draft, TilePlan plan) {
  Schedule& s = draft.schedule;
  take_result(s, plan);
  if (plan.matrix_rows > 0 && plan.nest.symbolic(plan.tile.rows)) {
    plan.row_copy = copy_rows(draft, plan);
    if (plan.row_copy.id < 0) return RuleOutcome::lost_loop;
  }
  fuse_axes(s, plan);
  pad_axes(s, plan);
  if (plan.blocks) return tile_in_blocks(draft, plan);
  if (plan.matrix_rows > 0) return tile_in_matrices(draft, plan);
  TileLoops loops = split_axes(s, plan);
  order_loops(s, plan, draft.target, loops);
  s.reverse_compute_at(plan.epilogue, loops.outer.back());
  finish_epilogue(draft, plan.epilogue, plan.epilogue_iterator(plan.tile.vector), loops.outer.size(),
                  plan.tile.lanes, plan.contiguous);
  zero_accumulators(s, plan.reduction, loops.steps[0], loops.outer.size());  // before the whole sum
  unroll_tile(s, plan, draft.target, loops);
  const LoopRV tasks = fuse_tasks(draft, plan, loops);
  place_copies(draft, plan, loops, tasks);
  if (!plan.pad && plan.panels.id < 0) prefetch_weights(s, plan, draft.target, loops);
  return RuleOutcome::applied;
}

}  // namespace

RuleOutcome make_tile(Draft& draft, const TileRequest& request) {
  TilePlan plan{request};
  plan.nest = fused(request.facts, request.fusion);
  inline_row_values(draft, request);
  if (!plan_epilogue(draft.schedule, plan)) return RuleOutcome::epilogue;
  if (!plan.fusion.any()) plan.pad = pad_rows(draft.schedule, plan.nest, plan.tile, draft.target);
  if (!plan.pad && plan.panels.id < 0 && plan.matrix_rows == 0)
    plan.blocks = cost::sum_blocks(plan.nest, plan.tile, plan.grouped, plan.group, draft.target);
  auto try_recipe = [&](std::string_view step) {
    const RuleOutcome out = attempt(draft, step, [&](Draft& d) { return tile_recipe(d, plan); });
    if (draft.attempts) {
      RuleAttempt& record = draft.attempts->back();
      record.tile = tile_annotation(plan.facts, plan.fusion, plan.tile);
      record.cycles = cost::nest_cycles(plan.nest, plan.tile, draft.target);
    }
    return out;
  };
  if (plan.pad && try_recipe("rows padded where they are read") == RuleOutcome::applied)
    return RuleOutcome::applied;
  plan.pad.reset();
  if (plan.blocks && try_recipe("the sum in blocks") == RuleOutcome::applied) return RuleOutcome::applied;
  plan.blocks.reset();
  return try_recipe("tile");
}

}  // namespace tenon::rules
