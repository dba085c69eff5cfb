// SPDX-License-Identifier: Apache-2.0
#include "autoschedule/dot_operands.h"

#include <algorithm>

#include "target/matrix_registers.h"

#include "analysis/region.h"

namespace tenon::rules {

using namespace tir;

namespace {

/// The iterators of a copy of the operand: those that its index has, of the reduction first.
std::vector<int> copied_iterators(const Facts& f, const Access& operand) {
  std::vector<int> out;
  for (const std::vector<int>* list : {&f.reduce, &f.spatial})
    for (int i : *list)
      if (std::ranges::any_of(operand.index, [&](const cost::Index& x) {
            return std::ranges::find(x.iterators, i) != x.iterators.end();
          }))
        out.push_back(i);
  return out;
}

/// A copy of the operand of the lanes in panels of `width`, of the other (width 0) with the groups innermost.
/// id < 0: the reduction does not read it.
BlockRV lay_out(Draft& draft, BlockRV reduction, const Facts& f, const DotPlan& plan, int64_t width) {
  const Access& l = f.loads[width > 0 ? plan.along : plan.shared];
  const BlockRV copy = copy_operand(draft, reduction, l);
  if (copy.id < 0) return copy;
  const std::vector<int> dims = copied_iterators(f, l);
  const PrimExpr group(plan.form.group), panel(width);
  auto layout = [&](const Array<VarRef>& x) {
    Array<PrimExpr> out;
    PrimExpr k, v;
    for (size_t d = 0; d < dims.size(); ++d) {
      if (dims[d] == plan.sum)
        k = x[d];
      else if (dims[d] == plan.lanes)
        v = x[d];
      else
        out.push_back(x[d]);
    }
    if (width == 0) {
      out.push_back(k);
      return out;
    }
    out.push_back(floordiv(v, panel));
    out.push_back(floordiv(k, group));
    out.push_back(floormod(v, panel) * group + floormod(k, group));
    return out;
  };
  draft.schedule.transform_layout(copy, 0, BufferIndexType::write, index_map(int(dims.size()), layout));
  return copy;
}

constexpr int64_t kGroupRow = 16;  ///< most neighbours of one row in a vector of groups

/// The loops of a copy of the operand of the lanes, so that a store is a vector of groups: rows of the
/// operand are read side by side and shuffled, groups that lie as such in the operand move as they are.
RuleOutcome schedule_groups(Draft& draft, const GroupedCopy& copy, int64_t group) {
  const auto [id, sum, lanes, panel] = copy;
  Schedule& s = draft.schedule;
  const auto f = facts_of(s, id);
  if (!f || f->loads.size() != 1 || f->is_reduction()) return RuleOutcome::opaque;
  const Access& l = f->loads[0];
  std::vector<LoopRV> loops = s.get_loops(id), outer;
  const bool rows = l.stride[size_t(lanes)] == 1, groups = l.stride[size_t(sum)] == 1;
  const int64_t extent = f->extent[size_t(lanes)];
  int64_t width = kGroupRow;
  while (width >= kMinLanes && (panel % width != 0 || extent < width)) width /= 2;
  // The last row of an odd sum is filled up: a condition for a whole row.
  const bool whole = !f->in_value[size_t(sum)], taken = rows ? width >= kMinLanes : groups && whole;
  if (!taken || f->in_value[size_t(lanes)] || f->symbolic(lanes) || f->symbolic(sum) ||
      f->extent[size_t(sum)] % group != 0)
    return RuleOutcome::strided_sum;
  for (size_t i = 0; i < loops.size(); ++i)
    if (int(i) != sum && int(i) != lanes) outer.push_back(loops[i]);
  const std::vector<LoopRV> steps = s.split(loops[size_t(sum)], {-1, group});
  LoopRV vector = steps[1];
  std::vector<LoopRV> order = outer;
  if (rows && extent % width != 0) {
    // The last vector of a row is not whole: its loop is inside, so that loop_partition cuts it there.
    const std::vector<LoopRV> parts = s.split(loops[size_t(lanes)], {-1, width});
    order.insert(order.end(), {steps[0], parts[0], parts[1], steps[1]});
    s.reorder(order);
    vector = s.fuse({parts[1], steps[1]});
    outer.push_back(steps[0]);
  } else if (rows) {
    const bool panels = extent % panel == 0;
    const std::vector<LoopRV> parts = s.split(loops[size_t(lanes)], {-1, panels ? panel / width : 1, width});
    order.insert(order.end(), {parts[0], steps[0], parts[1], parts[2], steps[1]});
    s.reorder(order);
    vector = s.fuse({parts[2], steps[1]});
    outer.push_back(parts[0]);
  } else {
    order.insert(order.end(), {loops[size_t(lanes)], steps[0], steps[1]});
    s.reorder(order);
    outer.push_back(loops[size_t(lanes)]);
  }
  s.vectorize(vector);
  const LoopRV all = s.fuse(outer);
  if (cost::worth_parallel(double(f->instances(true)) * f->cost, draft.target)) draft.parallel(all);
  draft.set_scheduled(id);
  return RuleOutcome::applied;
}

/// Do neighbours along the iterator lie side by side, across the dimensions of the buffer?
bool side_by_side(const Facts& f, const Access& a, int iterator) {
  Analyzer analyzer;
  PrimExpr at(0);
  for (const IterVar& v : f.block->iter_vars) analyzer.bind(v->var, v->dom, true);
  for (size_t d = 0; d < a.indices.size(); ++d) at = at * a.buffer->shape[d] + a.indices[d];
  const VarRef v = f.block->iter_vars[size_t(iterator)]->var;
  const auto form = affine_form(analyzer.simplify(at), {v}, analyzer);
  return form && !uses_var(form->base, v.get()) && form->terms.size() == 1 && form->terms[0].second == 1;
}

/// The sum runs over whole groups; operands are filled up with 0.
RuleOutcome pad_groups(Draft& draft, Operands& o) {
  const int64_t group = o.plan.form.group;
  if (o.facts.extent[size_t(o.plan.sum)] % group == 0) return RuleOutcome::applied;
  for (const Access& l : o.facts.loads)
    if (!cost::worth_filling(o.facts, l, o.grouping(l))) return RuleOutcome::copy_costs;
  std::vector<int64_t> multiples(o.facts.extent.size(), 1);
  multiples[size_t(o.plan.sum)] = group;
  const std::vector<BlockRV> before = draft.schedule.blocks();
  draft.schedule.pad_einsum(o.reduction, multiples);
  for (BlockRV p : draft.schedule.get_producers(o.reduction))
    if (std::find(before.begin(), before.end(), p) == before.end()) o.copies.push_back(p);
  return o.read(draft);
}

RuleOutcome copy_in_groups(Draft& draft, Operands& o, int64_t width) {
  const Access& operand = o.facts.loads[width > 0 ? o.plan.along : o.plan.shared];
  if (!cost::worth_groups(o.facts, operand, o.grouping(operand))) return RuleOutcome::copy_costs;
  if (width > 0) {
    const std::vector<int> dims = copied_iterators(o.facts, operand);
    auto at = [&](int i) { return int(std::ranges::find(dims, i) - dims.begin()); };
    o.grouped.sum = at(o.plan.sum);
    o.grouped.lanes = at(o.plan.lanes);
  }
  o.copies.push_back(lay_out(draft, o.reduction, o.facts, o.plan, width));
  if (width > 0) o.grouped.id = o.copies.back(), o.grouped.panel = width;
  return o.copies.back().id < 0 ? RuleOutcome::lost_loop : o.read(draft);
}

/// Panels as wide as the tile, or narrower ones where a single panel, or the last one, would not be whole.
int64_t panel_width(const Tile& tile, int64_t extent) {
  int64_t width = tile.width();
  for (int64_t lanes = tile.lanes; extent < width && lanes >= kMinLanes; lanes /= 2) width = lanes;
  if (extent % width != 0 && extent % tile.lanes == 0) width = tile.lanes;
  return width;
}

}  // namespace

RuleOutcome Operands::read(Draft& draft) {
  const auto now = facts_of(draft.schedule, reduction);
  if (!now) return RuleOutcome::opaque;
  facts = *now;
  return plan_dot(facts, draft.target, plan);
}

/// Do the channels leave a step of the sum partly empty: one group, or less than a row of a matrix register?
bool leaves_room(const Operands& o, const Target& target) {
  const int64_t channels = o.facts.extent[size_t(o.plan.sum)];
  const Access& shared = o.facts.loads[o.plan.shared];
  if (channels == o.plan.form.group) return true;
  return multiplies_matrices(target, shared.buffer->dtype, o.facts.loads[o.plan.along].buffer->dtype) &&
         channels % o.plan.form.group == 0 && channels * shared.element_bits() < kMatrixRowBytes * 8;
}

RuleOutcome join_taps(Draft& draft, Operands& o) {
  const Facts& f = o.facts;
  const Access &along = f.loads[o.plan.along], &shared = f.loads[o.plan.shared];
  const int taps = o.plan.sum - 1;
  if (taps < 0 || std::ranges::find(f.reduce, taps) == f.reduce.end() || f.symbolic(taps) ||
      f.symbolic(o.plan.sum) || f.extent[size_t(taps)] < 2 || !leaves_room(o, draft.target) ||
      !o.plan.in_groups(along, kMinLanes) || shared.stride[size_t(taps)] != f.extent[size_t(o.plan.sum)] ||
      shared.stride[size_t(o.plan.sum)] != 1)
    return RuleOutcome::no_tile;
  draft.schedule.fuse_iterators(o.reduction, taps, 2);
  if (const RuleOutcome r = o.read(draft); r != RuleOutcome::applied) return r;
  Access& joined = o.facts.loads[o.plan.shared];
  if (o.plan.sum != taps || !side_by_side(o.facts, joined, taps)) return RuleOutcome::strided_sum;
  joined.stride[size_t(taps)] = 1;
  return RuleOutcome::applied;
}

RuleOutcome lay_out_operands(Draft& draft, Operands& o) {
  if (const RuleOutcome r = pad_groups(draft, o); r != RuleOutcome::applied) return r;
  const Tile wanted = choose_dot_tile(as_if_copied(o.facts, o.plan), o.plan, draft.target).tile;
  if (!wanted) return RuleOutcome::no_tile;
  if (!o.plan.in_groups(o.facts.loads[o.plan.along], kMinLanes)) {
    const int64_t width = panel_width(wanted, o.facts.extent[size_t(o.plan.lanes)]);
    if (const RuleOutcome r = copy_in_groups(draft, o, width); r != RuleOutcome::applied) return r;
  }
  if (o.facts.loads[o.plan.shared].step(o.plan.sum, o.plan.form.group) != 1)
    return copy_in_groups(draft, o, 0);
  return RuleOutcome::applied;
}

void schedule_copies(Draft& draft, const Operands& o) {
  const std::vector<BlockRV> living = draft.schedule.blocks();
  for (BlockRV c : o.copies) {
    if (std::find(living.begin(), living.end(), c) == living.end() || draft.is_scheduled(c)) continue;
    auto in_groups = [&](Draft& d) { return schedule_groups(d, o.grouped, o.plan.form.group); };
    if (c.id != o.grouped.id.id || attempt(draft, "copy in groups", in_groups) != RuleOutcome::applied)
      schedule_copy(draft, c);
  }
}

}  // namespace tenon::rules
