// SPDX-License-Identifier: Apache-2.0
// dot_instruction: contractions of narrow types that the target's dot instructions compute, several steps of
// the sum at once. What is needed of the program is a product of two loads, widened; its operands are used as
// they lie when groups of the sum are neighbours (panels that pack_weights made), and are laid out anew
// otherwise.
#include <algorithm>

#include "autoschedule/tile.h"
#include "schedule/dot_intrin.h"

namespace tenon::rules {

using namespace tir;

namespace {

/// The two widened loads of `sum + cast(a) * cast(b)`.
struct Product {
  const BufferLoad *a = nullptr, *b = nullptr;
};
std::optional<Product> product_of(const Facts& f) {
  const auto* store = f.block->body.as<BufferStore>();
  const auto* sum = store ? store->value.as<Add>() : nullptr;
  if (!sum || f.loads.size() != 2) return std::nullopt;
  auto own = [&](const PrimExpr& e) {
    const auto* l = e.as<BufferLoad>();
    return l && l->buffer.same_as(store->buffer);
  };
  const PrimExpr& source = own(sum->a) ? sum->b : sum->a;
  const auto* times = own(sum->a) || own(sum->b) ? source.as<Mul>() : nullptr;
  if (!times) return std::nullopt;
  auto widened = [&](const PrimExpr& e) -> const BufferLoad* {
    const auto* c = e.as<Cast>();
    const auto* l = c ? c->value.as<BufferLoad>() : nullptr;
    return l && !l->predicate ? l : nullptr;
  };
  const Product p{widened(times->a), widened(times->b)};
  return p.a && p.b ? std::optional(p) : std::nullopt;
}

/// A contraction as a dot instruction computes it.
struct DotPlan {
  DotForm form;
  int lanes = -1, sum = -1;      ///< the iterators of lanes and groups
  size_t along = 0, shared = 0;  ///< positions among the loads: of the operand of the lanes, and of the other

  /// Does the operand of the lanes lie in groups, neighbours over tiles of `width`?
  bool in_groups(const Access& l, int64_t width) const {
    return l.step(lanes, width) == form.group && l.step(sum, form.group) == 1;
  }
};

/// The axis of the sum that both operands have; where one lies in groups already it is that one, else the
/// longest. -1: none.
int grouped_axis(const Facts& f, const Access& along, const Access& shared, int64_t group) {
  auto rank = [&](int i) {
    return std::tuple(along.step(i, group) == 1, shared.step(i, group) == 1, f.extent[size_t(i)]);
  };
  int best = -1;
  for (int i : f.reduce)
    if (!f.symbolic(i) && f.extent[size_t(i)] >= 2 && shared.stride[size_t(i)] != 0 &&
        along.stride[size_t(i)] != 0 && (best < 0 || rank(i) > rank(best)))
      best = i;
  return best;
}

/// Iterators and operands for a dot instruction; null when the contraction has none.
std::optional<DotPlan> plan_of(const Facts& f, const Product& p, const Target& target) {
  DotPlan plan;
  // Lanes are neighbours in the result.
  for (int i : f.spatial)
    if (f.write.stride[size_t(i)] == 1 && f.extent[size_t(i)] != 1) plan.lanes = i;
  if (plan.lanes < 0 || f.symbolic(plan.lanes) || f.extent[size_t(plan.lanes)] < kMinLanes)
    return std::nullopt;
  const size_t v = size_t(plan.lanes);
  if ((f.loads[0].stride[v] != 0) == (f.loads[1].stride[v] != 0)) return std::nullopt;
  plan.along = f.loads[0].stride[v] != 0 ? 0 : 1;
  plan.shared = 1 - plan.along;
  const Access &along = f.loads[plan.along], &shared = f.loads[plan.shared];
  if (along.buffer.same_as(shared.buffer) ||
      !(p.a->buffer.same_as(along.buffer) || p.b->buffer.same_as(along.buffer)))
    return std::nullopt;
  const auto form = dot_form(target, shared.buffer->dtype, along.buffer->dtype, f.write.buffer->dtype);
  if (!form) return std::nullopt;
  plan.form = *form;
  plan.sum = grouped_axis(f, along, shared, form->group);
  return plan.sum < 0 ? std::nullopt : std::optional(plan);
}

/// The contraction as the instruction sees it: a step is a group, and lanes of groups are neighbours.
Facts in_groups(const Facts& f, const DotPlan& plan) {
  Facts g = f;
  const int64_t group = plan.form.group;
  g.extent[size_t(plan.sum)] = ceil_div(f.extent[size_t(plan.sum)], group);
  for (Access& l : g.loads) l.group = group;
  Access& along = g.loads[plan.along];
  const size_t v = size_t(plan.lanes);
  if (along.stride[v] == kIrregular) {
    along.panel_stride[v] = along.panel_stride[v] == group ? 1 : kIrregular;
    if (along.panel[v] > 0) along.lane_limit = ceil_div(f.extent[v], along.panel[v]) * along.panel[v];
  } else {
    if (plan.in_groups(along, 1))
      along.lane_limit = as_int(along.buffer->shape[along.buffer->shape.size() - 1]).value_or(0) / group;
    along.stride[v] = 1;
  }
  return g;
}

/// The contraction once its operand of the lanes lies in groups.
Facts as_if_copied(Facts f, const DotPlan& plan) {
  Access& l = f.loads[plan.along];
  if (plan.in_groups(l, kMinLanes)) return f;
  l.stride[size_t(plan.lanes)] = 1;
  l.stride[size_t(plan.sum)] = kIrregular;  // no limit of lanes is known yet
  l.panel.assign(l.stride.size(), 0);
  return f;
}

/// The tile of the contraction in groups, across fused axes where that saves time.
struct DotTile {
  Tile tile;
  Fusion fusion;
};
DotTile choose(const Facts& f, const DotPlan& plan, const Target& target) {
  const Facts g = in_groups(f, plan);
  DotTile best{cost::choose_tile(g, target, plan.lanes), {}};
  for (const Fusion& fusion : fusable(f)) {
    if (plan.lanes >= fusion.first && plan.lanes < fusion.first + fusion.count) continue;
    const Tile across = cost::choose_tile(fused(g, fusion), target, fusion.after(plan.lanes));
    if (across && (!best.tile || across.time < best.tile.time * kFusedTime)) best = {across, fusion};
  }
  return best;
}

/// A copy of the operand of the lanes in panels of `width`, of the other (width 0) with the groups innermost.
/// id < 0: the reduction does not read it.
BlockRV lay_out(Draft& draft, BlockRV reduction, const Facts& f, const DotPlan& plan, int64_t width) {
  const Access& l = f.loads[width > 0 ? plan.along : plan.shared];
  const BlockRV copy = copy_operand(draft, reduction, l);
  if (copy.id < 0) return copy;
  // The copy's dimensions are the iterators that its index has: those of the reduction first.
  std::vector<int> dims;
  for (const std::vector<int>* list : {&f.reduce, &f.spatial})
    for (int i : *list)
      if (l.stride[size_t(i)] != 0) dims.push_back(i);
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

/// The contraction while its operands are prepared.
struct Operands {
  BlockRV reduction;
  Facts facts;
  DotPlan plan;
  std::vector<BlockRV> copies = {};

  /// After a step: the facts of the block as it is now.
  RuleOutcome read(Draft& draft) {
    const auto now = facts_of(draft.schedule, reduction);
    if (!now) return RuleOutcome::opaque;
    const auto product = product_of(*now);
    if (!product) return RuleOutcome::no_product;
    const auto found = plan_of(*now, *product, draft.target);
    if (!found) return RuleOutcome::no_instruction;
    facts = *now, plan = *found;
    return RuleOutcome::applied;
  }
};

/// The sum runs over whole groups; operands are filled up with 0.
RuleOutcome pad_groups(Draft& draft, Operands& o) {
  const int64_t group = o.plan.form.group;
  if (o.facts.extent[size_t(o.plan.sum)] % group == 0) return RuleOutcome::applied;
  for (const Access& l : o.facts.loads)
    if (!cost::worth_filling(o.facts, l, o.plan.sum)) return RuleOutcome::copy_costs;
  std::vector<int64_t> multiples(o.facts.extent.size(), 1);
  multiples[size_t(o.plan.sum)] = group;
  const std::vector<BlockRV> before = draft.schedule.blocks();
  draft.schedule.pad_einsum(o.reduction, multiples);
  for (BlockRV p : draft.schedule.get_producers(o.reduction))
    if (std::find(before.begin(), before.end(), p) == before.end()) o.copies.push_back(p);
  return o.read(draft);
}

RuleOutcome copy_in_groups(Draft& draft, Operands& o, int64_t width) {
  if (!cost::worth_groups(o.facts, o.facts.loads[width > 0 ? o.plan.along : o.plan.shared]))
    return RuleOutcome::copy_costs;
  o.copies.push_back(lay_out(draft, o.reduction, o.facts, o.plan, width));
  return o.copies.back().id < 0 ? RuleOutcome::lost_loop : o.read(draft);
}

/// Panels as wide as the tile, or narrower ones where a single panel would not be whole.
int64_t panel_width(const Tile& tile, int64_t extent) {
  int64_t width = tile.width();
  for (int64_t lanes = tile.lanes; extent < width && lanes >= kMinLanes; lanes /= 2) width = lanes;
  return width;
}

/// Operands in groups; panels that exist already fix the width of the tile.
RuleOutcome prepare(Draft& draft, Operands& o) {
  if (const RuleOutcome r = pad_groups(draft, o); r != RuleOutcome::applied) return r;
  const Tile wanted = choose(as_if_copied(o.facts, o.plan), o.plan, draft.target).tile;
  if (!wanted) return RuleOutcome::no_tile;
  if (!o.plan.in_groups(o.facts.loads[o.plan.along], kMinLanes)) {
    const int64_t width = panel_width(wanted, o.facts.extent[size_t(o.plan.lanes)]);
    if (const RuleOutcome r = copy_in_groups(draft, o, width); r != RuleOutcome::applied) return r;
  }
  if (o.facts.loads[o.plan.shared].step(o.plan.sum, o.plan.form.group) != 1)
    return copy_in_groups(draft, o, 0);
  return RuleOutcome::applied;
}

}  // namespace

RuleOutcome dot_instruction(Draft& draft, const Site& site) {
  Operands o{site.reduction, {}, {}};
  if (const RuleOutcome r = o.read(draft); r != RuleOutcome::applied) return r;
  if (!o.facts.block->init) return RuleOutcome::no_reduction;
  if (given_tile(o.facts)) return RuleOutcome::given_tile;
  if (!plain_result(o.facts)) return RuleOutcome::indirect_result;
  if (const RuleOutcome r = prepare(draft, o); r != RuleOutcome::applied) return r;
  const DotTile chosen = choose(o.facts, o.plan, draft.target);
  if (!chosen.tile || !o.plan.in_groups(o.facts.loads[o.plan.along], chosen.tile.lanes))
    return RuleOutcome::no_tile;
  TileRequest request{site.reduction, site.epilogue, o.facts, chosen.fusion, chosen.tile};
  request.intrin = o.plan.form.intrin(chosen.tile.lanes);
  request.group = o.plan.form.group;
  request.grouped = chosen.fusion.after(o.plan.sum);
  if (const RuleOutcome r = make_tile(draft, request); r != RuleOutcome::applied) return r;
  const std::vector<BlockRV> living = draft.schedule.blocks();
  for (BlockRV c : o.copies)
    if (std::find(living.begin(), living.end(), c) != living.end() && !draft.is_scheduled(c))
      schedule_copy(draft, c);
  return RuleOutcome::applied;
}

}  // namespace tenon::rules
