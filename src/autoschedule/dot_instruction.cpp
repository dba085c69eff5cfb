// SPDX-License-Identifier: Apache-2.0
// dot_instruction: contractions of narrow types that the target's dot instructions compute, several steps of
// the sum at once. What is needed of the program is a product of two loads, widened; its operands are used as
// they lie when groups of the sum are neighbours (panels that pack_weights made), and are laid out anew
// otherwise.
#include <algorithm>

#include "analysis/cost/matrix.h"
#include "analysis/region.h"
#include "autoschedule/tile.h"
#include "schedule/dot_intrin.h"
#include "target/matrix_registers.h"

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
  int64_t matrix_rows = 0;  ///< of a matrix register that holds sums; 0: they are in vector registers
  int64_t steps = 0;        ///< of the sum, that one instruction takes then
};

/// The same with sums in matrix registers, which a target may have.
DotTile in_matrix_registers(Facts f, const DotPlan& plan, bool more_rows, const Target& target) {
  DotTile best;
  if (plan.form.own) return best;
  Access& along = f.loads[plan.along];
  if (!plan.in_groups(along, kMinLanes))
    along.stride[size_t(plan.lanes)] = plan.form.group;  // once it is copied
  // Rows as one first: fewer edges, and rows of several axes are innermost together.
  std::vector<Fusion> fusions = fusable(f);
  std::ranges::stable_sort(fusions, std::greater<>(), &Fusion::count);
  fusions.push_back(Fusion());
  for (const Fusion& fusion : fusions) {
    if (fusion.any() && plan.lanes >= fusion.first && plan.lanes < fusion.first + fusion.count) continue;
    const cost::MatrixOperands operands{fusion.after(plan.lanes), fusion.after(plan.sum), plan.along,
                                        plan.shared, plan.form.group};
    const cost::MatrixTile m = cost::choose_matrix_tile(fusion.any() ? fused(f, fusion) : f, operands,
                                                        more_rows && !fusion.any(), target);
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

DotTile choose(const Facts& f, const DotPlan& plan, const Target& target) {
  const DotTile vectors = in_vector_registers(f, plan, target),
                matrices = in_matrix_registers(f, plan, false, target);
  return matrices.tile && (!vectors.tile || matrices.tile.time < vectors.tile.time) ? matrices : vectors;
}

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

/// A copy of the operand of the lanes in panels of groups.
struct GroupedCopy {
  BlockRV id = {};           ///< id < 0: there is none
  int sum = -1, lanes = -1;  ///< its iterators
  int64_t panel = 0;         ///< the width of a panel
};

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
  while (width >= kMinLanes && (extent % panel != 0 || panel % width != 0)) width /= 2;
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
  if (rows) {
    const std::vector<LoopRV> parts = s.split(loops[size_t(lanes)], {-1, panel / width, width});
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
  if (cost::worth_parallel(double(f->instances(true)) * f->cost, draft.target)) s.parallel(all);
  draft.set_scheduled(id);
  return RuleOutcome::applied;
}

/// The contraction while its operands are prepared.
struct Operands {
  BlockRV reduction;
  Facts facts;
  DotPlan plan;
  std::vector<BlockRV> copies = {};
  GroupedCopy grouped = {};

  cost::Grouped grouping(const Access& l) const {
    return {plan.sum, l.stride[size_t(plan.lanes)] != 0 ? plan.lanes : -1, plan.form.group};
  }
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

/// Taps of a window whose few channels lie side by side are one step of a matrix register: three taps of four
/// bytes are a row of twelve.
RuleOutcome join_taps(Draft& draft, Operands& o) {
  const Facts& f = o.facts;
  const Access &along = f.loads[o.plan.along], &shared = f.loads[o.plan.shared];
  const int taps = o.plan.sum - 1;
  if (!multiplies_matrices(draft.target, shared.buffer->dtype, along.buffer->dtype) || taps < 0 ||
      std::ranges::find(f.reduce, taps) == f.reduce.end() || f.symbolic(taps) || f.extent[size_t(taps)] < 2 ||
      f.extent[size_t(o.plan.sum)] != o.plan.form.group || !o.plan.in_groups(along, kMinLanes) ||
      shared.stride[size_t(taps)] != o.plan.form.group || shared.stride[size_t(o.plan.sum)] != 1)
    return RuleOutcome::no_tile;
  draft.schedule.fuse_iterators(o.reduction, taps, 2);
  if (const RuleOutcome r = o.read(draft); r != RuleOutcome::applied) return r;
  Access& joined = o.facts.loads[o.plan.shared];
  if (o.plan.sum != taps || !side_by_side(o.facts, joined, taps)) return RuleOutcome::strided_sum;
  joined.stride[size_t(taps)] = 1;
  return RuleOutcome::applied;
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

/// Does a copy of the rows with further ones behind them, which fill matrix registers, save time?
bool fills_rows(const Operands& o, const DotTile& now, const DotTile& filled) {
  constexpr double kFilledTime = 0.9;  ///< what it takes at most, beside the copy
  if (!filled.tile || filled.fusion.any() ||
      o.facts.extent[size_t(filled.tile.rows)] % filled.tile.row_count == 0)
    return false;
  const Access& operand = o.facts.loads[o.plan.shared];
  return (!now.tile || filled.tile.time < now.tile.time * kFilledTime) &&
         cost::worth_groups(o.facts, operand, o.grouping(operand));
}

RuleOutcome fill_rows(Draft& draft, Operands& o, const Tile& tile) {
  const Access operand = o.facts.loads[o.plan.shared];
  // Rows outside, the sum inside, as operand and copy lie.
  std::vector<int> dims = copied_iterators(o.facts, operand), order = dims;
  std::erase(order, o.plan.sum);
  order.push_back(o.plan.sum);
  const BlockRV copy = lay_out(draft, o.reduction, o.facts, o.plan, 0);
  if (copy.id < 0) return RuleOutcome::lost_loop;
  o.copies.push_back(copy);
  draft.schedule.transform_block_layout(
      copy, index_map(int(dims.size()), [&](const Array<VarRef>& x) {
        Array<PrimExpr> out;
        for (int i : order) out.push_back(x[size_t(std::ranges::find(dims, i) - dims.begin())]);
        return out;
      }));
  draft.schedule.pad_iteration(copy, int(std::ranges::find(order, tile.rows) - order.begin()),
                               tile.row_count);
  return o.read(draft);
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

/// The tile, and then the copies.
RuleOutcome finish(Draft& draft, const Site& site, const Operands& o, const DotTile& chosen) {
  if (!chosen.tile || !o.plan.in_groups(o.facts.loads[o.plan.along], chosen.tile.lanes))
    return RuleOutcome::no_tile;
  TileRequest request{site.reduction, site.epilogue, o.facts, chosen.fusion, chosen.tile};
  request.matrix_rows = chosen.matrix_rows;
  if (chosen.matrix_rows == 0) request.intrin = o.plan.form.intrin(chosen.tile.lanes);
  request.group = chosen.matrix_rows > 0 ? chosen.steps : o.plan.form.group;
  request.grouped = chosen.fusion.after(o.plan.sum);
  if (const RuleOutcome r = make_tile(draft, request); r != RuleOutcome::applied) return r;
  const std::vector<BlockRV> living = draft.schedule.blocks();
  for (BlockRV c : o.copies) {
    if (std::find(living.begin(), living.end(), c) == living.end() || draft.is_scheduled(c)) continue;
    auto in_groups = [&](Draft& d) { return schedule_groups(d, o.grouped, o.plan.form.group); };
    if (c.id != o.grouped.id.id || attempt(draft, "copy in groups", in_groups) != RuleOutcome::applied)
      schedule_copy(draft, c);
  }
  return RuleOutcome::applied;
}

}  // namespace

RuleOutcome dot_instruction(Draft& draft, const Site& site) {
  Operands o{site.reduction, {}, {}};
  if (const RuleOutcome r = o.read(draft); r != RuleOutcome::applied) return r;
  if (!o.facts.block->init) return RuleOutcome::no_reduction;
  if (given_tile(o.facts)) return RuleOutcome::given_tile;
  if (!plain_result(o.facts)) return RuleOutcome::indirect_result;
  auto joined = [&](Draft& d) {
    Operands taps = o;
    const RuleOutcome r = join_taps(d, taps);
    return r == RuleOutcome::applied
               ? finish(d, site, taps, in_matrix_registers(taps.facts, taps.plan, false, d.target))
               : r;
  };
  if (attempt(draft, "taps as one row", joined) == RuleOutcome::applied) return RuleOutcome::applied;
  if (const RuleOutcome r = prepare(draft, o); r != RuleOutcome::applied) return r;
  const DotTile chosen = choose(o.facts, o.plan, draft.target),
                filled = in_matrix_registers(o.facts, o.plan, true, draft.target);
  auto with_filled_rows = [&](Draft& d) {
    Operands rows = o;
    const RuleOutcome r = fill_rows(d, rows, filled.tile);
    return r == RuleOutcome::applied ? finish(d, site, rows, choose(rows.facts, rows.plan, d.target)) : r;
  };
  if (fills_rows(o, chosen, filled) &&
      attempt(draft, "rows that fill matrix registers", with_filled_rows) == RuleOutcome::applied)
    return RuleOutcome::applied;
  if (chosen.matrix_rows > 0 && attempt(draft, "sums in matrix registers", [&](Draft& d) {
                                  return finish(d, site, o, chosen);
                                }) == RuleOutcome::applied)
    return RuleOutcome::applied;
  return finish(draft, site, o, in_vector_registers(o.facts, o.plan, draft.target));
}

}  // namespace tenon::rules
