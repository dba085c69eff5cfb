// SPDX-License-Identifier: Apache-2.0
// Tiles of narrow types: contractions that the target's dot instructions compute, several steps of the sum at
// once. What is needed of the program is a product of two loads, widened; its operands are used as they lie
// when groups of the sum are neighbours (panels that pack_weights made), and are laid out anew otherwise.
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

/// Elements that an operand has; iterators of a window meet the same ones.
int64_t elements_of(const Facts& f, const Access& l) {
  int64_t n = 1, held = 1;
  for (const PrimExpr& d : l.buffer->shape) held *= std::max<int64_t>(1, as_int(d).value_or(1 << 12));
  for (size_t i = 0; i < l.stride.size(); ++i)
    if (l.stride[i] != 0) n = f.extent[i] == kUnknown ? n * 64 : n * f.extent[i];
  return std::min(n, held);
}

struct Plan {
  DotForm form;
  int v = -1, k = -1;            ///< the iterators of lanes and groups
  size_t along = 0, shared = 0;  ///< positions among the loads
};

/// Iterators and operands for a dot instruction; null when the contraction has no such form.
std::optional<Plan> plan_of(const Facts& f, const Product& p, const Target& target) {
  Plan plan;
  // Lanes are neighbours in the result.
  for (int i : f.spatial)
    if (f.write.stride[size_t(i)] == 1 && f.extent[size_t(i)] != 1) plan.v = i;
  if (plan.v < 0 || f.extent[size_t(plan.v)] == kUnknown || f.extent[size_t(plan.v)] < 4) return std::nullopt;
  const size_t v = size_t(plan.v);
  if ((f.loads[0].stride[v] != 0) == (f.loads[1].stride[v] != 0)) return std::nullopt;
  plan.along = f.loads[0].stride[v] != 0 ? 0 : 1;
  plan.shared = 1 - plan.along;
  const Access &along = f.loads[plan.along], &shared = f.loads[plan.shared];
  if (along.buffer.same_as(shared.buffer) ||
      !(p.a->buffer.same_as(along.buffer) || p.b->buffer.same_as(along.buffer)))
    return std::nullopt;
  auto form = dot_form(target, shared.buffer->dtype, along.buffer->dtype, f.write.buffer->dtype);
  if (!form) return std::nullopt;
  plan.form = *form;
  // The sum's axis that both have; where one lies in groups already it is that one.
  int64_t best = -1;
  for (int i : f.reduce) {
    const int64_t extent = f.extent[size_t(i)];
    if (extent == kUnknown || extent < 2 || shared.stride[size_t(i)] == 0 || along.stride[size_t(i)] == 0)
      continue;
    const int64_t rank = (along.step(i, form->group) == 1 ? 1 << 30 : 0) +
                         (shared.step(i, form->group) == 1 ? 1 << 29 : 0) +
                         std::min<int64_t>(extent, 1 << 28);
    if (rank > best) best = rank, plan.k = i;
  }
  return plan.k < 0 ? std::nullopt : std::optional(plan);
}

/// Does the operand lie in groups, with lanes side by side over tiles of `width`?
bool lies_along(const Access& l, const Plan& plan, int64_t width) {
  return l.step(plan.v, width) == plan.form.group && l.step(plan.k, plan.form.group) == 1;
}

/// The contraction as the instruction sees it: a step is a group, and lanes of groups are neighbours.
Facts in_groups(const Facts& f, const Plan& plan) {
  Facts g = f;
  g.extent[size_t(plan.k)] = ceil_div(f.extent[size_t(plan.k)], plan.form.group);
  for (Access& l : g.loads) l.group = plan.form.group;
  Access& along = g.loads[plan.along];
  const size_t v = size_t(plan.v);
  if (along.stride[v] == kIrregular) {
    along.panel_stride[v] = along.panel_stride[v] == plan.form.group ? 1 : kIrregular;
    if (along.panel[v] > 0) along.room = ceil_div(f.extent[v], along.panel[v]) * along.panel[v];
  } else {
    if (lies_along(along, plan, 1))
      along.room = as_int(along.buffer->shape[along.buffer->shape.size() - 1]).value_or(0) / plan.form.group;
    along.stride[v] = 1;
  }
  return g;
}

/// A copy of the operand of the lanes in panels as wide as the tile, of the other with the groups innermost.
BlockRV lay_out(Schedule& t, BlockRV reduction, const Facts& f, const Plan& plan, bool along, int64_t width) {
  const Buffer source = f.loads[along ? plan.along : plan.shared].buffer;
  const Ref<Block> b = t.get(reduction);
  int at = -1;
  for (size_t i = 0; i < b->reads.size(); ++i)
    if (b->reads[i]->buffer.same_as(source)) at = int(i);
  if (at < 0) throw ScheduleError(ErrorKind::model, "T0799", "an operand of a dot product was not found");
  const BlockRV copy = t.reindex(reduction, at);
  for (BlockRV p : t.get_producers(copy))
    if (t.get_consumers(p).size() == 1) attempt(t, [&](Schedule& x) { x.compute_inline(p); });
  // The copy's dimensions are the iterators that its index has: those of the reduction first.
  const Access& l = f.loads[along ? plan.along : plan.shared];
  std::vector<int> dims;
  for (const std::vector<int>* list : {&f.reduce, &f.spatial})
    for (int i : *list)
      if (l.stride[size_t(i)] != 0) dims.push_back(i);
  const int64_t group = plan.form.group;
  t.transform_layout(
      copy, 0, BufferIndexType::write, index_map(int(dims.size()), [&](const Array<VarRef>& x) {
        Array<PrimExpr> out;
        PrimExpr k, v;
        for (size_t d = 0; d < dims.size(); ++d) {
          if (dims[d] == plan.k)
            k = x[d];
          else if (dims[d] == plan.v)
            v = x[d];
          else
            out.push_back(x[d]);
        }
        if (along) {
          out.push_back(floordiv(v, PrimExpr(width)));
          out.push_back(floordiv(k, PrimExpr(group)));
          out.push_back(floormod(v, PrimExpr(width)) * PrimExpr(group) + floormod(k, PrimExpr(group)));
        } else {
          out.push_back(k);
        }
        return out;
      }));
  return copy;
}

}  // namespace

bool grouped_reduction(Schedule& s, BlockRV reduction, BlockRV epilogue, const Target& target,
                       std::vector<int32_t>& done) {
  auto found = facts_of(s, reduction);
  if (!found || !found->is_reduction() || !found->block->init || !trivial_write(*found)) return false;
  const auto product = product_of(*found);
  if (!product) return false;
  auto plan = plan_of(*found, *product, target);
  if (!plan) return false;
  const int64_t group = plan->form.group;
  std::vector<BlockRV> copies;
  std::optional<Tile> tile;
  std::pair<int, int> join{0, 1};
  Facts facts = *found;
  auto choose = [&] {
    const Facts g = in_groups(facts, *plan);
    tile = choose_tile(g, target, plan->v);
    join = {0, 1};
    for (const std::pair<int, int>& j : joinable(facts)) {
      if (plan->v >= j.first && plan->v < j.first + j.second) continue;
      const int v = plan->v > j.first ? plan->v - (j.second - 1) : plan->v;
      const Tile across = choose_tile(fused(g, j.first, j.second), target, v);
      if (across.vector >= 0 && (tile->vector < 0 || across.time < tile->time * 0.97))
        tile = across, join = j;
    }
    return tile->vector >= 0;
  };
  std::vector<int32_t> finished = done;
  const bool made = attempt(s, [&](Schedule& t) {
    auto refuse = [](const char* why) { throw ScheduleError(ErrorKind::model, "T0799", why); };
    auto again = [&] {
      auto now = facts_of(t, reduction);
      auto p = now ? product_of(*now) : std::nullopt;
      plan = p ? plan_of(*now, *p, target) : std::nullopt;
      if (!plan) refuse("a contraction has lost its form");
      facts = *now;
    };
    // An element is moved one by one; it must serve many products. Bytes gain more: without their instruction
    // they are widened twice.
    auto worth = [&](const Access& l) {
      const int64_t all = facts.instances(false), uses = facts.write.buffer->dtype.is_float() ? 96 : 32;
      if (all != kUnknown && all < uses * elements_of(facts, l)) refuse("a copy would cost what it saves");
    };
    if (facts.extent[size_t(plan->k)] % group != 0) {
      for (const Access& l : facts.loads) worth(l);
      std::vector<int64_t> multiples(facts.extent.size(), 1);
      multiples[size_t(plan->k)] = group;
      const std::vector<BlockRV> before = t.blocks();
      t.pad_einsum(reduction, multiples);
      for (BlockRV p : t.get_producers(reduction))
        if (std::find(before.begin(), before.end(), p) == before.end()) copies.push_back(p);
      again();
    }
    // The tile of what will lie in groups; panels that exist already fix its width.
    Facts wanted = facts;
    {
      Access& l = wanted.loads[plan->along];
      if (!lies_along(l, *plan, 4)) {
        l.stride[size_t(plan->v)] = 1;
        l.stride[size_t(plan->k)] = kIrregular;  // no room is known yet
        l.panel.assign(l.stride.size(), 0);
      }
      std::swap(facts, wanted);
      const bool any = choose();
      std::swap(facts, wanted);
      if (!any) refuse("no tile fits");
    }
    if (!lies_along(facts.loads[plan->along], *plan, 4)) {
      // Panels as wide as the tile, or narrower ones where a single panel would not be whole.
      const int64_t n = facts.extent[size_t(plan->v)];
      int64_t width = tile->lanes * tile->vectors;
      for (int64_t lanes = tile->lanes; n < width && lanes >= 4; lanes /= 2) width = lanes;
      worth(facts.loads[plan->along]);
      copies.push_back(lay_out(t, reduction, facts, *plan, true, width));
      again();
    }
    if (facts.loads[plan->shared].step(plan->k, group) != 1) {
      worth(facts.loads[plan->shared]);
      copies.push_back(lay_out(t, reduction, facts, *plan, false, 1));
      again();
    }
    if (!choose() || !lies_along(facts.loads[plan->along], *plan, tile->lanes)) refuse("no tile fits it");
    tile->intrin = plan->form.intrin(tile->lanes);
    tile->group = group;
    tile->steps = join.second > 1 && plan->k > join.first ? plan->k - (join.second - 1) : plan->k;
    if (!tile_with(t, reduction, epilogue, facts, join, *tile, target, finished))
      refuse("a primitive refused");
    const std::vector<BlockRV> living = t.blocks();
    for (BlockRV c : copies)
      if (std::find(living.begin(), living.end(), c) != living.end() &&
          std::find(finished.begin(), finished.end(), c.id) == finished.end()) {
        if (!elementwise(t, c, target)) fallback(t, c);
        finished.push_back(c.id);
      }
  });
  if (made) done = finished;
  return made;
}

}  // namespace tenon::rules
