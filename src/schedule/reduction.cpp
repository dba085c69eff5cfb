// SPDX-License-Identifier: Apache-2.0
// Primitives on reductions: decompose_reduction (the init becomes a block of its own) and rfactor (a loop of
// the reduction becomes a dimension of partial results).
#include <fmt/format.h>

#include "ir/structural.h"
#include "schedule/combiner.h"
#include "schedule/define.h"

namespace tenon::sched {

using namespace tir;

namespace {

void require_reduction(const State& s, int32_t id) {
  Ref<Block> b = s.block(id);
  if (!b->init) s.refuse("T0760", id, "it has no init: it is no reduction, or was decomposed already");
  if (!is_reduction(b))
    s.refuse(
        "T0760", id,
        "its writes are indexed by a reduction iterator, or an iterator is neither spatial nor a reduction");
}

/// Stmt `t` with fresh iterator variables instead of those of `from`; pairs (old, new) come out in `iters`.
VarMap fresh_iters(const Array<IterVar>& from, IterKind kind, Array<IterVar>& iters) {
  VarMap map;
  for (const IterVar& v : from) {
    if (v->kind != kind) continue;
    IterVar copy = iter_var(v->dom, v->var->name, v->kind);
    map[v->var.get()] = copy->var;
    iters.push_back(copy);
  }
  return map;
}

}  // namespace

static int32_t decompose_reduction(State& s, int32_t id, int32_t loop_id) {
  require_reduction(s, id);
  Ref<BlockRealize> r = s.realize(id);
  Ref<Block> block = r->block;
  s.loop(loop_id);
  if (s.scope_of(loop_id) != s.scope_of(id) || !s.inside(id, loop_id))
    s.refuse("T0761", id, fmt::format("{} is not one of the loops around it", s.describe(loop_id)));
  // What a first value reads must be there before the loop.
  const auto scope_now = s.scope(s.scope_of(id));
  pre_order(block->init, [&](const ObjectRef& n) {
    if (const auto* l = n.as<BufferLoad>())
      for (int w : scope_now->writers(l->buffer))
        if (const Leaf& writer = scope_now->leaves[size_t(w)];
            writer.id != id && s.inside(writer.id, loop_id))
          s.refuse("T0741", id,
                   fmt::format("its init reads '{}', which {} writes inside {}", l->buffer->name,
                               s.describe(writer.id), s.describe(loop_id)),
                   "choose a loop further in");
    return !n.is<BufferNode>();
  });
  for (int32_t p = s.parent(loop_id); p >= 0 && !s.is_block(p); p = s.parent(p)) {
    LoopRole role = role_of(r, s.loop(p)->loop_var.get());
    if (role == LoopRole::reduce || role == LoopRole::mixed)
      s.refuse(
          "T0762", id,
          fmt::format("{} belongs to the reduction and lies outside {}: the init would run again and again",
                      s.describe(p), s.describe(loop_id)),
          "choose a loop outside all loops of the reduction");
  }
  for (int32_t p = loop_id; p >= 0 && !s.is_block(p); p = s.parent(p))
    if (s.loop(p)->kind == ForKind::vectorized)
      s.refuse("T0763", id, fmt::format("{} is vectorised", s.describe(p)), "decompose before vectorising");

  // Loops inside that carry spatial iterators are copied for the init.
  std::vector<int32_t> inner = s.loops_between(id, s.parent(loop_id));
  if (!s.binding(id, inner).injective)
    s.refuse(
        "T0769", id,
        fmt::format("the loops from {} on repeat its steps, which only its init undoes", s.describe(loop_id)),
        "choose a loop further in, or decompose before compute_at");
  VarMap loop_map;
  std::vector<Ref<For>> loops;
  std::unordered_set<const Var*> dropped;
  for (int32_t l : inner) {
    Ref<For> loop = s.loop(l);
    LoopRole role = role_of(r, loop->loop_var.get());
    if (role == LoopRole::mixed)
      s.refuse("T0764", id, fmt::format("{} mixes spatial and reduction iterators", s.describe(l)),
               "do not fuse spatial loops with loops of the reduction");
    if (role != LoopRole::spatial) {
      if (loop->kind == ForKind::thread_binding)
        s.refuse("T0763", id,
                 fmt::format("{} is bound to threads that reduce together, and the init is part of that",
                             s.describe(l)),
                 "decompose before bind");
      dropped.insert(loop->loop_var.get());
      continue;
    }
    VarRef v = var(loop->loop_var->name + "_init", loop->loop_var->dtype);
    loop_map[loop->loop_var.get()] = v;
    Ref<For> made = loop_like(loop, v);
    if (made->kind == ForKind::parallel) made.edit()->kind = ForKind::serial;
    loops.push_back(made);
  }
  for (Ref<For>& l : loops) {
    if (uses_any(l->extent, dropped) || uses_any(l->min, dropped))
      s.refuse("T0764", id, "the bounds of a spatial loop depend on the reduction");
    For* e = l.edit();
    e->min = substitute(e->min, loop_map);
    e->extent = substitute(e->extent, loop_map);
  }
  PrimExpr predicate = true_();
  for (const PrimExpr& c : conjuncts(r->predicate)) {
    bool spatial = false;
    for (auto& [v, x] : loop_map) spatial = spatial || uses(c, v);
    if (!uses_any(c, dropped))
      predicate = logical_and(predicate, substitute(c, loop_map));
    else if (spatial)
      s.refuse("T0764", id, "its predicate mixes spatial and reduction loops");
  }
  Array<IterVar> iters;
  VarMap iter_map = fresh_iters(block->iter_vars, IterKind::spatial, iters);
  Array<PrimExpr> values;
  for (size_t i = 0; i < block->iter_vars.size(); ++i)
    if (block->iter_vars[i]->kind == IterKind::spatial)
      values.push_back(substitute(r->iter_values[i], loop_map));
  auto init_block = make<Block>(iters, Array<BufferRegion>(), Array<BufferRegion>(),
                                s.fresh_block_name(block->name + "_init"),
                                rename_definitions(substitute(block->init, iter_map)), Stmt(),
                                Array<Buffer>(), Array<MatchBufferRegion>(), AttrMap());
  Stmt init = make<BlockRealize>(values, predicate, with_regions(init_block));
  for (size_t i = loops.size(); i-- > 0;) init = with_body(loops[i], init);

  Ref<Block> update = block;
  update.edit()->init = Stmt();
  update = with_regions(update);
  if (!update->match_buffers.empty())  // its regions stay: without the init, what it adds to is read
    for (const BufferRegion& w : update->writes) {
      bool read = false;
      for (const BufferRegion& x : update->reads) read = read || x->buffer.same_as(w->buffer);
      if (!read) update.edit()->reads.push_back(w);
    }
  Ref<BlockRealize> realize = r;
  realize.edit()->block = update;
  const Object* from = r.get();
  Stmt nest =
      rewrite_any(
          s.loop(loop_id),
          [&](const ObjectRef& n) -> ObjectRef { return n.get() == from ? ObjectRef(realize) : ObjectRef(); },
          [&](const ObjectRef& n) { return !n.is<StmtNode>() || (n.is<BlockRealize>() && n.get() != from); })
          .cast<StmtNode>();
  s.replace(loop_id, seq({init, nest}));
  // The sequence may stand in another one now.
  const int32_t scope = s.scope_of(id);
  s.replace_body(scope, s.block(scope)->body);
  return s.names.at(init_block->name);
}

// ---------------------------------------------------------------- rfactor
namespace {

/// `e` with loads of the accumulators replaced by lhs and the sources by rhs.
PrimExpr abstract(const PrimExpr& e, const Combiner& c) {
  return rewrite_any(e,
                     [&](const ObjectRef& n) -> ObjectRef {
                       if (const auto* l = n.as<BufferLoad>())
                         for (size_t i = 0; i < c.buffers.size(); ++i)
                           if (l->buffer.same_as(c.buffers[i])) return c.lhs[i];
                       return {};
                     })
      .cast<PrimExprNode>();
}
bool loads_any(const PrimExpr& e, const std::vector<Buffer>& buffers) {
  for (const Buffer& b : buffers)
    if (!load_indices(e, b).empty()) return true;
  return false;
}
bool is_load_of(const PrimExpr& e, const Buffer& b, const Array<PrimExpr>& indices) {
  const auto* l = e.as<BufferLoad>();
  return l && l->buffer.same_as(b) && structural_equal(l->indices, indices);
}

}  // namespace

std::optional<Combiner> combiner_of(const Ref<Block>& block) {
  Combiner c;
  std::vector<PrimExpr> values;
  Stmt at = block->body;
  VarMap lets;
  while (const auto* l = at.as<LetStmt>()) {
    lets[l->var.get()] = substitute(l->value, lets);
    at = l->body;
  }
  Array<Stmt> stores;
  if (const auto* q = at.as<SeqStmt>())
    stores = q->seq;
  else
    stores.push_back(at);
  for (const Stmt& t : stores) {
    const auto* st = t.as<BufferStore>();
    if (!st || st->predicate) return std::nullopt;
    // Without lets, a second store would see what the first wrote.
    if (stores.size() > 1 && (!st->value.is<Var>() || !lets.count(st->value.as<Var>()))) return std::nullopt;
    c.buffers.push_back(st->buffer);
    c.indices.push_back(st->indices);
    values.push_back(substitute(st->value, lets));
    c.lhs.push_back(var(fmt::format("x{}", c.lhs.size()), st->buffer->dtype));
    c.rhs.push_back(var(fmt::format("y{}", c.rhs.size()), st->buffer->dtype));
  }
  if (c.buffers.empty()) return std::nullopt;
  if (c.buffers.size() == 1) {
    // sum, product, min, max: the accumulator on one side.
    auto binary = [&](const PrimExpr& a, const PrimExpr& b, auto build) -> bool {
      const bool left = is_load_of(a, c.buffers[0], c.indices[0]);
      if (!left && !is_load_of(b, c.buffers[0], c.indices[0])) return false;
      const PrimExpr& source = left ? b : a;
      if (loads_any(source, c.buffers)) return false;
      c.source.push_back(source);
      c.result.push_back(build(c.lhs[0], c.rhs[0]));
      return true;
    };
    const PrimExpr& v = values[0];
    auto use = [&](const auto* n, auto build) { return n && binary(n->a, n->b, build); };
    if (use(v.as<Add>(), [](PrimExpr a, PrimExpr b) { return a + b; }) ||
        use(v.as<Mul>(), [](PrimExpr a, PrimExpr b) { return a * b; }) ||
        use(v.as<Min>(), [](PrimExpr a, PrimExpr b) { return min(a, b); }) ||
        use(v.as<Max>(), [](PrimExpr a, PrimExpr b) { return max(a, b); }) ||
        use(v.as<And>(), [](PrimExpr a, PrimExpr b) { return logical_and(a, b); }) ||
        use(v.as<Or>(), [](PrimExpr a, PrimExpr b) { return logical_or(a, b); }))
      return c;
    return std::nullopt;
  }
  // Tuples that choose (argmax, argmin): value_i = select(condition, accumulator_i, source_i).
  for (size_t i = 0; i < values.size(); ++i) {
    const auto* n = values[i].as<Select>();
    if (!n) return std::nullopt;
    const bool first = is_load_of(n->true_value, c.buffers[i], c.indices[i]);
    if (!first && !is_load_of(n->false_value, c.buffers[i], c.indices[i])) return std::nullopt;
    const PrimExpr& source = first ? n->false_value : n->true_value;
    if (loads_any(source, c.buffers)) return std::nullopt;
    c.source.push_back(source);
  }
  for (size_t i = 0; i < values.size(); ++i) {
    // Top down, so that a source is met before its parts.
    struct Walk {
      const Combiner& c;
      ObjectRef run(const ObjectRef& n, int depth) {
        if (depth > 200 || !n.is<PrimExprNode>()) return n;
        for (size_t k = 0; k < c.source.size(); ++k)
          if (n.get() == c.source[k].get() || structural_equal(n, c.source[k])) return c.rhs[k];
        return map_children(n,
                            [&](const ObjectRef& x) { return x.is<BufferNode>() ? x : run(x, depth + 1); });
      }
    };
    PrimExpr e = Walk{c}.run(abstract(values[i], c), 0).cast<PrimExprNode>();
    bool closed = true;
    pre_order(e, [&](const ObjectRef& n) {
      if (n.is<BufferLoad>()) closed = false;
      if (const auto* v = n.as<Var>()) {
        bool known = false;
        for (size_t k = 0; k < c.lhs.size(); ++k) known = known || c.lhs[k].get() == v || c.rhs[k].get() == v;
        closed = closed && known;
      }
      return closed;
    });
    if (!closed) return std::nullopt;
    c.result.push_back(e);
  }
  return c;
}

Stmt combine_stmt(const Combiner& c, const std::vector<Buffer>& to, const std::vector<Array<PrimExpr>>& at,
                  const std::vector<PrimExpr>& rhs) {
  VarMap map;
  for (size_t i = 0; i < to.size(); ++i) {
    map[c.lhs[i].get()] = load(to[i], at[i]);
    map[c.rhs[i].get()] = rhs[i];
  }
  if (to.size() == 1) return store(to[0], substitute(c.result[0], map), at[0]);
  std::vector<VarRef> lets;
  Array<Stmt> stores;
  for (size_t i = 0; i < to.size(); ++i) {
    lets.push_back(var("v_" + to[i]->name, to[i]->dtype));
    stores.push_back(store(to[i], lets[i], at[i]));
  }
  Stmt body = seq(stores);
  for (size_t i = lets.size(); i-- > 0;) body = make<LetStmt>(lets[i], substitute(c.result[i], map), body);
  return body;
}

static int32_t rfactor(State& s, int32_t loop_id, int factor_axis) {
  Ref<For> loop = s.loop(loop_id);
  std::vector<int32_t> blocks = s.blocks_below(loop_id);
  if (blocks.size() != 1) s.refuse("T0765", loop_id, "it does not hold exactly one block");
  const int32_t id = blocks[0];
  require_reduction(s, id);
  Ref<BlockRealize> r = s.realize(id);
  Ref<Block> block = r->block;
  const int32_t scope_id = s.scope_of(id);
  if (role_of(r, loop->loop_var.get()) != LoopRole::reduce)
    s.refuse("T0766", loop_id, fmt::format("it is not a loop of the reduction in {} alone", s.describe(id)),
             "rfactor takes a loop of the reduction; split one first");
  auto combiner = combiner_of(block);
  if (!combiner)
    s.refuse("T0767", id, "its combination is none that is known to be associative and commutative",
             "sum, product, min, max, and, or, argmax and argmin can be factored");
  const int rank = int(combiner->indices[0].size());
  if (factor_axis < 0) factor_axis += rank + 1;
  if (factor_axis < 0 || factor_axis > rank)
    s.refuse(
        "T0768", id,
        fmt::format("the partial results have {} dimensions, so the axis must be 0 to {}", rank + 1, rank));
  // Each partial result begins with the init: what is added or multiplied must be 0 or 1 then.
  if (combiner->buffers.size() == 1 && (combiner->result[0].is<Add>() || combiner->result[0].is<Mul>())) {
    const auto* first = block->init.as<BufferStore>();
    const double neutral = combiner->result[0].is<Add>() ? 0 : 1;
    const auto* real = first ? first->value.as<FloatImm>() : nullptr;
    const auto integer = first ? as_int(first->value) : std::nullopt;
    if (!(real && real->value == neutral) && !(integer && double(*integer) == neutral))
      s.refuse("T0767", id, "its first value is not neutral, and each partial result would begin with it",
               "rfactor before fuse_reduction_epilogue");
  }
  std::vector<int32_t> loops = s.loops_of(id);
  if (!s.binding(id, loops).injective) s.refuse("T0769", id, "its steps are repeated by the loops around it");
  for (int32_t l : loops) {
    Ref<For> x = s.loop(l);
    if (s.children(l).size() != 1)
      s.refuse("T0765", l, "it holds other blocks too", "rfactor before compute_at");
    if (x->kind != ForKind::serial) s.refuse("T0710", l, "the loop already has a kind", "rfactor first");
    if (role_of(r, x->loop_var.get()) == LoopRole::mixed)
      s.refuse("T0766", l, "it mixes spatial and reduction iterators");
    for (int32_t o : loops)
      if (uses(x->extent, s.loop(o)->loop_var.get()) || uses(x->min, s.loop(o)->loop_var.get()))
        s.refuse("T0766", l, fmt::format("its bounds depend on {}", s.describe(o)));
  }

  // Partial results: one more dimension.
  Analyzer analyzer = s.analyzer();
  bind_loops(s, analyzer, id);
  std::vector<Buffer> partial;
  for (const Buffer& b : combiner->buffers) {
    Array<PrimExpr> shape = b->shape;
    shape.insert(size_t(factor_axis), loop->extent);
    partial.push_back(buffer(b->name + "_rf", shape, b->dtype, "global"));
  }
  // Iterators of the factored block: the spatial ones, one for the factored loop, one for each other
  // reduction loop.
  Array<IterVar> iters;
  Array<PrimExpr> values;
  VarMap iter_map = fresh_iters(block->iter_vars, IterKind::spatial, iters);
  for (size_t i = 0; i < block->iter_vars.size(); ++i)
    if (block->iter_vars[i]->kind == IterKind::spatial) values.push_back(r->iter_values[i]);
  IterVar part = iter_var(range(PrimExpr(0), loop->extent), "v_" + loop->loop_var->name);
  iters.push_back(part);
  values.push_back(is_zero(loop->min) ? PrimExpr(loop->loop_var) : loop->loop_var - loop->min);
  VarMap loop_to_iter{{loop->loop_var.get(), part->var + loop->min}};
  std::unordered_set<const Var*> reduce_loops{loop->loop_var.get()};
  for (int32_t l : loops) {
    Ref<For> x = s.loop(l);
    if (l == loop_id || role_of(r, x->loop_var.get()) != LoopRole::reduce) continue;
    IterVar v = iter_var(range(x->min, x->extent), "v_" + x->loop_var->name, IterKind::reduce);
    iters.push_back(v);
    values.push_back(x->loop_var);
    loop_to_iter[x->loop_var.get()] = v->var;
    reduce_loops.insert(x->loop_var.get());
  }
  for (size_t i = 0; i < block->iter_vars.size(); ++i)
    if (block->iter_vars[i]->kind == IterKind::reduce)
      iter_map[block->iter_vars[i]->var.get()] = substitute(r->iter_values[i], loop_to_iter);
  // A guard on the reduction moves inside: every partial result must get its init.
  PrimExpr outer = true_(), guard = true_();
  for (const PrimExpr& c : conjuncts(r->predicate)) {
    if (!uses_any(c, reduce_loops)) {
      outer = logical_and(outer, c);
      continue;
    }
    for (int32_t l : loops) {
      const Var* v = s.loop(l)->loop_var.get();
      if (!reduce_loops.count(v) && uses(c, v))
        s.refuse("T0769", id, "its predicate mixes spatial and reduction loops");
    }
    guard = logical_and(guard, substitute(c, loop_to_iter));
  }
  std::vector<Array<PrimExpr>> at;
  std::vector<PrimExpr> sources;
  for (size_t i = 0; i < partial.size(); ++i) {
    Array<PrimExpr> indices =
        combiner->indices[i].map([&](const PrimExpr& e) { return substitute(e, iter_map); });
    indices.insert(size_t(factor_axis), part->var);
    at.push_back(indices);
    sources.push_back(substitute(combiner->source[i], iter_map));
  }
  Stmt rf_body = combine_stmt(*combiner, partial, at, sources);
  if (!is_const_int(guard, 1)) rf_body = make<IfThenElse>(guard, rf_body, Stmt());
  BufferMap to_partial;
  Array<Stmt> inits;
  Array<Stmt> old_inits;
  if (const auto* q = block->init.as<SeqStmt>())
    old_inits = q->seq;
  else
    old_inits.push_back(block->init);
  for (const Stmt& t : old_inits) {
    const auto* st = t.as<BufferStore>();
    int which = -1;
    for (size_t i = 0; st && i < combiner->buffers.size(); ++i)
      if (st->buffer.same_as(combiner->buffers[i])) which = int(i);
    if (which < 0) s.refuse("T0767", id, "its init is not one store for each result");
    inits.push_back(store(partial[size_t(which)], substitute(st->value, iter_map), at[size_t(which)]));
  }
  auto rf_block = make<Block>(iters, Array<BufferRegion>(), Array<BufferRegion>(),
                              s.fresh_block_name(block->name + "_rf"), rf_body, seq(inits), Array<Buffer>(),
                              Array<MatchBufferRegion>(), block->annotations);
  Stmt rf = make<BlockRealize>(values, outer, with_regions(rf_block));
  for (size_t i = loops.size(); i-- > 0;) rf = with_body(s.loop(loops[i]), rf);

  // The block itself now combines the partial results; its loops are new.
  Array<IterVar> wb_iters;
  Array<PrimExpr> wb_values;
  VarMap wb_map = fresh_iters(block->iter_vars, IterKind::spatial, wb_iters);
  VarMap wb_loops;
  std::vector<Ref<For>> nest;
  for (int32_t l : loops) {
    Ref<For> x = s.loop(l);
    LoopRole role = role_of(r, x->loop_var.get());
    if (role == LoopRole::reduce && l != loop_id) continue;
    if (role == LoopRole::unused) continue;
    VarRef v = var(x->loop_var->name + "_wb", x->loop_var->dtype);
    wb_loops[x->loop_var.get()] = v;
    nest.push_back(for_(v, l == loop_id ? PrimExpr(0) : x->min, x->extent, Stmt()).cast<For>());
  }
  for (size_t i = 0; i < block->iter_vars.size(); ++i)
    if (block->iter_vars[i]->kind == IterKind::spatial)
      wb_values.push_back(substitute(r->iter_values[i], wb_loops));
  IterVar k = iter_var(range(PrimExpr(0), loop->extent), "v_" + loop->loop_var->name, IterKind::reduce);
  wb_iters.push_back(k);
  wb_values.push_back(wb_loops.at(loop->loop_var.get()));
  std::vector<Array<PrimExpr>> wb_at;
  std::vector<PrimExpr> loads;
  for (size_t i = 0; i < partial.size(); ++i) {
    Array<PrimExpr> indices =
        combiner->indices[i].map([&](const PrimExpr& e) { return substitute(e, wb_map); });
    wb_at.push_back(indices);
    indices.insert(size_t(factor_axis), k->var);
    loads.push_back(load(partial[i], indices));
  }
  auto wb_block =
      make<Block>(wb_iters, Array<BufferRegion>(), Array<BufferRegion>(), block->name,
                  combine_stmt(*combiner, combiner->buffers, wb_at, loads), substitute(block->init, wb_map),
                  Array<Buffer>(), Array<MatchBufferRegion>(), AttrMap());
  Stmt wb = make<BlockRealize>(wb_values, substitute(outer, wb_loops), with_regions(wb_block));
  for (size_t i = nest.size(); i-- > 0;) wb = with_body(nest[i], wb);

  const Object* from = s.entries[size_t(loops[0])].node.get();
  Stmt both = seq({rf, wb});
  Stmt body =
      rewrite_any(
          s.block(scope_id)->body,
          [&](const ObjectRef& n) -> ObjectRef { return n.get() == from ? ObjectRef(both) : ObjectRef(); },
          [&](const ObjectRef& n) { return !n.is<StmtNode>() || (n.is<For>() && n.get() != from); })
          .cast<StmtNode>();
  Array<Buffer> allocs = s.block(scope_id)->alloc_buffers;
  for (const Buffer& b : partial) allocs.push_back(b);
  if (s.guarded.count(block->name)) s.guarded.insert(rf_block->name);
  s.replace_body(scope_id, body, allocs);
  return s.names.at(rf_block->name);
}

const Define<&Schedule::decompose_reduction, decompose_reduction> decompose_reduction_record{
    {.name = "decompose_reduction",
     .does = "a reduction's init becomes a block of its own before a loop; that block",
     .legal =
         "the block is a reduction with its init, and no loop of the reduction lies outside the given one",
     .parameters = {{"block", "the reduction"}, {"loop", "around it, before which the init runs"}},
     .sample = {samples::matmul, R"(
c = sch.get_block("C")
i, j, k = sch.get_loops(c)
init = sch.decompose_reduction(c, k)
)"}}};
const Define<&Schedule::rfactor, rfactor> rfactor_record{
    {.name = "rfactor",
     .reference = "RFactor",
     .does = "a loop of a reduction becomes a dimension of partial results; the block that computes them",
     .legal = "the combination is associative and commutative (a sum, product, minimum, maximum, and, or, "
              "argmax, argmin) with a neutral init, and the loops are serial and hold this block alone",
     .parameters = {{"loop", "of the reduction alone"},
                    {"factor_axis", "position of the new dimension; negative: from behind"}},
     .sample = {samples::matmul, R"(
c = sch.get_block("C")
i, j, k = sch.get_loops(c)
partial = sch.rfactor(k, factor_axis=0)
)"}}};

}  // namespace tenon::sched
