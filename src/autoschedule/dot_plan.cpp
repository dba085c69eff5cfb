// SPDX-License-Identifier: Apache-2.0
#include "autoschedule/dot_plan.h"

#include <algorithm>

#include "analysis/cost/matrix.h"

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

/// Both operands lie in groups along the lanes (rows by turns, and taps of a window side by side).
std::optional<DotPlan> plan_of_own(const Facts& f, DotPlan plan, const Target& target) {
  const Access &x = f.loads[0], &y = f.loads[1];
  const auto form = dot_form(target, x.buffer->dtype, y.buffer->dtype, f.write.buffer->dtype);
  if (!form || x.buffer->dtype != DataType::bfloat16() || x.buffer.same_as(y.buffer)) return std::nullopt;
  plan.form = *form;
  plan.form.own = true;
  plan.along = 0, plan.shared = 1;
  for (int i : f.reduce)
    if (f.extent[size_t(i)] == form->group && x.step(i, form->group) == 1 && y.step(i, form->group) == 1)
      plan.sum = i;
  if (plan.sum < 0 || !plan.in_groups(x, kMinLanes) || !plan.in_groups(y, kMinLanes)) return std::nullopt;
  return plan;
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
  if (f.loads[0].stride[v] != 0 && f.loads[1].stride[v] != 0) return plan_of_own(f, plan, target);
  if (f.loads[0].stride[v] == 0 && f.loads[1].stride[v] == 0) return std::nullopt;
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
  for (Access& l : g.loads) {
    l.group = group;
    if (plan.form.own) l.stride[size_t(plan.lanes)] = 1;
  }
  if (plan.form.own) return g;
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

/// Lanes that there are for registers, which are loaded whole: those of whole panels, or of panels that a
/// copy will have; a first value from memory has no more than the result.
void limit_lanes(Facts& f, const DotPlan& plan) {
  Access& along = f.loads[plan.along];
  const size_t v = size_t(plan.lanes);
  const int64_t lanes = f.extent[v], panel = along.panel.empty() ? 0 : along.panel[v];
  const auto* init = f.block->init ? f.block->init.as<BufferStore>() : nullptr;
  const bool from_zero = init && (is_zero(init->value) || init->value.is<FloatImm>());
  if (!plan.in_groups(along, kMinLanes)) {
    along.stride[v] = plan.form.group;
    along.lane_limit = lanes + kManySteps;
  } else if (along.stride[v] == kIrregular && panel > 0) {
    along.lane_limit = ceil_div(lanes, panel) * panel;
  } else {
    along.lane_limit = lanes;
  }
  if (!from_zero) along.lane_limit = lanes;
}

}  // namespace

RuleOutcome plan_dot(const Facts& f, const Target& target, DotPlan& plan) {
  const auto product = product_of(f);
  if (!product) return RuleOutcome::no_product;
  const auto found = plan_of(f, *product, target);
  if (!found) return RuleOutcome::no_instruction;
  plan = *found;
  return RuleOutcome::applied;
}

Facts as_if_copied(Facts f, const DotPlan& plan) {
  Access& l = f.loads[plan.along];
  if (plan.in_groups(l, kMinLanes)) return f;
  l.stride[size_t(plan.lanes)] = 1;
  l.stride[size_t(plan.sum)] = kIrregular;  // no limit of lanes is known yet
  l.panel.assign(l.stride.size(), 0);
  return f;
}

DotTile in_matrix_registers(Facts f, const DotPlan& plan, const Target& target) {
  DotTile best;
  if (plan.form.own) return best;
  limit_lanes(f, plan);
  // Rows as one first: fewer edges, and rows of several axes are innermost together.
  std::vector<Fusion> fusions = fusable(f);
  std::ranges::stable_sort(fusions, std::greater<>(), &Fusion::count);
  fusions.push_back(Fusion());
  for (const Fusion& fusion : fusions) {
    if (fusion.any() && plan.lanes >= fusion.first && plan.lanes < fusion.first + fusion.count) continue;
    const cost::MatrixOperands operands{fusion.after(plan.lanes), fusion.after(plan.sum), plan.along,
                                        plan.shared, plan.form.group};
    const cost::MatrixTile m =
        cost::choose_matrix_tile(fusion.any() ? fused(f, fusion) : f, operands, target);
    if (m && (!best.tile || m.tile.time < best.tile.time * kFusedTime))
      best = {m.tile, fusion, m.height, m.steps};
  }
  return best;
}

DotTile in_vector_registers(const Facts& f, const DotPlan& plan, const Target& target) {
  const Facts g = in_groups(f, plan);
  DotTile best{cost::choose_tile(g, target, plan.lanes), {}};
  for (const Fusion& fusion : fusable(f)) {
    if (plan.lanes >= fusion.first && plan.lanes < fusion.first + fusion.count) continue;
    const Tile across = cost::choose_tile(fused(g, fusion), target, fusion.after(plan.lanes));
    if (across && (!best.tile || across.time < best.tile.time * kFusedTime)) best = {across, fusion};
  }
  return best;
}

DotTile choose_dot_tile(const Facts& f, const DotPlan& plan, const Target& target) {
  const DotTile vectors = in_vector_registers(f, plan, target),
                matrices = in_matrix_registers(f, plan, target);
  return matrices.tile && (!vectors.tile || matrices.tile.time < vectors.tile.time) ? matrices : vectors;
}

}  // namespace tenon::rules
