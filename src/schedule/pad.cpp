// SPDX-License-Identifier: Apache-2.0
// pad_iteration: a block runs on to the next multiple of a number. What would leave a buffer is masked (or
// clamped), so that tiles are whole and accumulators in registers need no masks.
#include <fmt/format.h>

#include <cmath>

#include "ir/find_node.h"
#include "ir/intrinsic.h"
#include "schedule/define.h"

namespace tenon::sched {

using namespace tir;

namespace {

/// What added to (multiplied with, …) an accumulator leaves it as it is; null for another combination.
PrimExpr neutral(const PrimExpr& value) {
  const DataType t = value.dtype();
  if (value.is<Add>()) return const_of(t, 0);
  if (value.is<Mul>()) return const_of(t, 1);
  if (value.is<Max>()) return t.is_float() ? PrimExpr::float_imm(-INFINITY, t) : min_value(t);
  if (value.is<Min>()) return t.is_float() ? PrimExpr::float_imm(INFINITY, t) : max_value(t);
  return {};
}

/// Divides by something that a mask could make 0: a value from memory, or what moves with the iterator. A
/// size is not: it stays what it is.
bool divides_integers(const PrimExpr& e, const Var* v) {
  bool found = false;
  auto masked = [&](const PrimExpr& divisor) {
    return any_node(divisor,
                    [&](const ObjectRef& n) { return n.get() == v || n.is<BufferLoad>() || n.is<Call>(); });
  };
  pre_order(e, [&](const ObjectRef& n) {
    auto check = [&](const auto* d) {
      if (d && d->dtype.is_integer() && !as_int(d->b) && masked(d->b)) found = true;
    };
    check(n.as<Div>()), check(n.as<Mod>()), check(n.as<FloorDiv>()), check(n.as<FloorMod>());
    return !n.is<BufferNode>();
  });
  return found;
}

}  // namespace

static void pad_iteration(State& s, int32_t id, int iterator, int64_t multiple, bool clamp) {
  Ref<BlockRealize> r = s.realize(id);
  Ref<Block> block = r->block;
  const int32_t scope_id = s.scope_of(id);
  require_root_scope(s, id);
  if (iterator < 0 || size_t(iterator) >= block->iter_vars.size())
    s.refuse("T0782", id,
             fmt::format("it has {} iterators, there is no number {}", block->iter_vars.size(), iterator));
  if (multiple < 1) s.refuse("T0782", id, fmt::format("{} is no usable multiple", multiple));
  const IterVar iter = block->iter_vars[size_t(iterator)];
  const Var* v = iter->var.get();
  // The iterator must be one whole loop around nothing but this block.
  int32_t loop_id = -1;
  for (int32_t l : s.loops_of(id))
    if (s.loop(l)->loop_var.get() == r->iter_values[size_t(iterator)].get()) loop_id = l;
  if (loop_id < 0 || !is_zero(iter->dom->min))
    s.refuse("T0783", id, fmt::format("iterator '{}' is not bound to a loop of its own", v->name),
             "pad before split and fuse");
  Ref<For> loop = s.loop(loop_id);
  Analyzer a = s.analyzer();
  bind_loops(s, a, s.parent(loop_id));
  if (!is_zero(loop->min) || !a.can_prove_equal(loop->extent, iter->dom->extent) ||
      loop->kind != ForKind::serial || s.blocks_below(loop_id).size() != 1)
    s.refuse("T0783", id,
             fmt::format("{} is not a plain loop over all of '{}' around this block alone",
                         s.describe(loop_id), v->name));
  for (size_t i = 0; i < block->iter_vars.size(); ++i)
    if (int(i) != iterator && uses(r->iter_values[i], loop->loop_var.get()))
      s.refuse("T0783", id, fmt::format("{} is bound to two iterators", s.describe(loop_id)));
  // Where the predicate holds for what is beyond the end, it need not for the last element.
  if (clamp && uses(r->predicate, loop->loop_var.get()))
    s.refuse("T0742", id, fmt::format("it is restricted by a predicate on '{}'", v->name),
             "pad before what made the predicate");
  const PrimExpr size = iter->dom->extent,
                 padded = a.simplify(ceildiv(size, PrimExpr(multiple)) * PrimExpr(multiple));
  if (a.can_prove_equal(size, padded)) return;
  // A mask may be there already: of another iterator that was padded.
  if (!block->body.as<BufferStore>() || !block->match_buffers.empty() || !block->alloc_buffers.empty())
    s.refuse("T0731", id, "its body is not a single store");
  const BufferStore store = *block->body.as<BufferStore>();
  if (has_effects(store.value)) s.refuse("T0731", id, "its value has effects or takes an address");
  if (divides_integers(store.value, v))
    s.refuse("T0784", id, "it divides integers, and a masked divisor would be 0");
  const Buffer out = store.buffer;
  const bool reduce = iter->kind == IterKind::reduce;
  if (!reduce && iter->kind != IterKind::spatial)
    s.refuse("T0784", id, fmt::format("iterator '{}' is neither spatial nor a reduction", v->name));
  auto positions = trivial_indices(store.indices, block->iter_vars, out);

  const PrimExpr inside = lt(iter->var, size);
  auto fits = [&](const BufferLoad& l) {  // even beyond the old end
    Analyzer b = s.analyzer();
    bind_loops(s, b, s.parent(loop_id));
    for (const IterVar& x : block->iter_vars)
      b.bind(x->var, x->var.get() == v ? range(PrimExpr(0), padded) : x->dom, true);
    for (size_t d = 0; d < l.indices.size(); ++d)
      if (uses(l.indices[d], v) &&
          !(b.can_prove(lt(l.indices[d], l.buffer->shape[d])) && b.can_prove(ge(l.indices[d], PrimExpr(0)))))
        return false;
    return true;
  };
  auto guarded = [&](const BufferLoad* l) {
    return l && !l->buffer.same_as(out) && uses(l->indices, v) && !fits(*l);
  };
  // Clamped, the whole value is that of the last iteration: conditions around a load hold for what it reads.
  auto clamped = [&](const PrimExpr& e) -> PrimExpr {
    if (!any_node(e, [&](const ObjectRef& n) { return guarded(n.as<BufferLoad>()); })) return e;
    const PrimExpr last = min(iter->var, size - 1);
    return rewrite_any(
               e, [&](const ObjectRef& n) { return n.get() == v ? ObjectRef(last) : ObjectRef(); },
               [&](const ObjectRef& n) {
                 const auto* l = n.as<BufferLoad>();  // the accumulators stay
                 return n.is<BufferNode>() || (l && l->buffer.same_as(out));
               })
        .cast<PrimExprNode>();
  };
  auto guard_loads = [&](const PrimExpr& e) -> PrimExpr {
    if (clamp) return clamped(e);
    return rewrite_any(e,
                       [&](const ObjectRef& n) -> ObjectRef {
                         const auto* l = n.as<BufferLoad>();
                         if (!guarded(l)) return {};
                         return load(l->buffer, l->indices,
                                     l->predicate ? logical_and(l->predicate, inside) : inside);
                       })
        .cast<PrimExprNode>();
  };
  Array<Buffer> allocs = s.block(scope_id)->alloc_buffers;
  BufferMap enlarged;
  PrimExpr value, mask = store.predicate;
  if (reduce) {
    const PrimExpr zero = neutral(store.value);
    bool left = false, right = false;
    PrimExpr source;
    auto sides = [&](const auto* n) {
      if (!n) return;
      auto own = [&](const PrimExpr& e) {
        const auto* l = e.template as<BufferLoad>();
        return l && l->buffer.same_as(out);
      };
      left = own(n->a), right = own(n->b);
      source = left ? n->b : n->a;
    };
    sides(store.value.as<Add>()), sides(store.value.as<Mul>()), sides(store.value.as<Max>()),
        sides(store.value.as<Min>());
    if (!zero || left == right || !load_indices(source, out).empty())
      s.refuse("T0767", id, "its combination has no known neutral value",
               "sums, products, minima and maxima can be padded");
    const PrimExpr acc = load(out, store.indices), next = select(inside, guard_loads(source), zero);
    auto build = [&](const auto* n) {
      if (n) value = make<std::remove_cvref_t<decltype(*n)>>(left ? acc : next, left ? next : acc);
    };
    build(store.value.as<Add>()), build(store.value.as<Mul>()), build(store.value.as<Max>()),
        build(store.value.as<Min>());
  } else {
    int dim = -1;
    for (size_t d = 0; positions && d < positions->size(); ++d)
      if ((*positions)[d] == iterator) dim = int(d);
    bool private_result = false;
    for (const Buffer& x : allocs) private_result = private_result || x.same_as(out);
    if (private_result && dim < 0)
      s.refuse("T0784", id, fmt::format("iterator '{}' is no index of '{}'", v->name, out->name));
    value = guard_loads(store.value);
    if (block->init)
      pre_order(block->init, [&](const ObjectRef& n) {
        if (const auto* l = n.as<BufferLoad>(); l && uses(l->indices, v))
          s.refuse("T0785", id,
                   fmt::format("its first value reads '{}' along that iterator", l->buffer->name),
                   "pad before fuse_reduction_epilogue");
        return !n.is<BufferNode>();
      });
    bool owned = false;
    for (size_t i = 0; i < allocs.size(); ++i) {
      if (!allocs[i].same_as(out)) continue;
      owned = true;
      Buffer big = out;
      BufferNode* e = big.edit();
      e->data = var(out->data->name, out->data->dtype);
      // Another block of the buffer (its init) may have been padded further.
      const PrimExpr now = out->shape[size_t(dim)];
      const bool keep = a.can_prove(ge(now, padded));
      e->shape.set(size_t(dim), keep                           ? now
                                : a.can_prove(le(now, padded)) ? padded
                                                               : a.simplify(max(now, padded)));
      allocs.set(i, big);
      enlarged[out.get()] = big;
    }
    if (!owned) {
      if (block->init || !load_indices(store.value, out).empty())
        s.refuse("T0785", id, fmt::format("it accumulates in '{}', which cannot grow", out->name),
                 "cache_write first");
      mask = mask ? logical_and(mask, inside) : inside;
    }
  }
  Ref<Block> next = block;
  Block* e = next.edit();
  e->iter_vars.set(size_t(iterator),
                   make<IterVarNode>(range(iter->dom->min, padded), iter->var, iter->kind, iter->thread_tag));
  e->body = tir::store(out, value, store.indices, mask);
  next = with_regions(next);
  Ref<BlockRealize> realize = r;
  realize.edit()->block = next;
  const Object* from = r.get();
  Stmt body =
      rewrite_any(
          s.block(scope_id)->body,
          [&](const ObjectRef& n) -> ObjectRef {
            if (n.get() == from) return realize;
            if (const auto* l = n.as<For>(); l && l->loop_var.get() == loop->loop_var.get()) {
              Ref<For> copy(l);
              copy.edit()->extent = padded;
              return copy;
            }
            return {};
          },
          [&](const ObjectRef& n) { return !n.is<StmtNode>() || (n.is<BlockRealize>() && n.get() != from); })
          .cast<StmtNode>();
  if (!enlarged.empty()) body = replace_buffers(body, enlarged);
  s.replace_body(scope_id, body, allocs);
}

const Define<&Schedule::pad_iteration, pad_iteration> pad_iteration_record{
    {.name = "pad_iteration",
     .reference = "",
     .does = "an iterator runs to the next multiple: a private result grows, accesses of others beyond the "
             "end are masked",
     .legal = "the iterator is bound to a whole loop of its own around a block that stores one value and "
              "divides no integers",
     .parameters = {{"block", "whose iterator"},
                    {"iterator", "its position"},
                    {"multiple", "of which the extent becomes one"},
                    {"clamp", "loads beyond the end repeat the last element instead of giving 0", false}},
     .sample = {samples::matmul, R"(
c = sch.get_block("C")
sch.pad_iteration(c, iterator=0, multiple=4)
)"}}};

}  // namespace tenon::sched
