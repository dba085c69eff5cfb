// SPDX-License-Identifier: Apache-2.0
// blockize: a loop and all below it become one block. Each iterator of the block inside is cut into a part
// that the loops outside drive and a part that the loops inside drive.
#include <fmt/format.h>

#include "ir/structural.h"
#include "schedule/define.h"

namespace tenon::sched {

using namespace tir;

namespace {

/// value = outer * step + inner + base, `outer` over the loops outside, `inner` over those inside.
struct Cut {
  PrimExpr outer, inner, step, base;
};

struct Blockizer {
  State& s;
  int32_t loop_id, id;
  Ref<BlockRealize> realize;
  Ref<Block> block;
  std::vector<int32_t> outside, inside;  // loops
  Analyzer analyzer = s.analyzer();

  Blockizer(State& state, int32_t loop, int32_t block_id)
      : s(state), loop_id(loop), id(block_id), realize(state.realize(block_id)), block(realize->block) {
    for (int32_t l : s.loops_of(id)) (s.inside(l, loop_id) ? inside : outside).push_back(l);
    bind_loops(s, analyzer, id);
  }
  VarMap at_min(const std::vector<int32_t>& loops) const {
    VarMap map;
    for (int32_t l : loops) map[s.loop(l)->loop_var.get()] = s.loop(l)->min;
    return map;
  }
  Cut cut(const IterVar& v, const PrimExpr& value) {
    Cut c;
    VarMap all = at_min(outside);
    for (auto& [x, m] : at_min(inside)) all[x] = m;
    c.base = analyzer.simplify(substitute(value, all));
    c.inner = analyzer.simplify(substitute(value, at_min(outside)) - c.base);
    PrimExpr outer = analyzer.simplify(substitute(value, at_min(inside)) - c.base);
    if (!analyzer.can_prove_equal(value, outer + c.inner + c.base))
      s.refuse("T0744", id,
               fmt::format("the binding of iterator '{}' mixes loops outside and inside {}", v->var->name,
                           s.describe(loop_id)),
               "split and reorder so that whole tiles lie inside");
    std::unordered_map<const Var*, IntInterval> domain;
    for (int32_t l : inside) {
      Ref<For> x = s.loop(l);
      domain[x->loop_var.get()] = {x->min, analyzer.simplify(x->min + x->extent - 1)};
    }
    const IntInterval reach = interval_of(c.inner, domain, analyzer);
    if (!reach.min || !reach.max || !analyzer.can_prove(ge(reach.min, PrimExpr(0))))
      s.refuse("T0744", id,
               fmt::format("how far the loops inside drive iterator '{}' is unknown", v->var->name));
    c.step = analyzer.simplify(reach.max + 1);
    // Loops inside that may not run have no tile to count in.
    if (!analyzer.can_prove_ge(c.step, 1)) c.step = max(c.step, PrimExpr(1));
    if (!analyzer.can_prove(ge(outer, PrimExpr(0))))
      s.refuse("T0744", id,
               fmt::format("the loops outside {} drive iterator '{}' up and down", s.describe(loop_id),
                           v->var->name),
               "split and reorder so that whole tiles lie inside");
    if (is_zero(outer)) {
      c.outer = outer;
    } else {
      if (!analyzer.can_prove_equal(floormod(outer, c.step), PrimExpr(0)))
        s.refuse("T0744", id,
                 fmt::format("the loops outside {} do not drive iterator '{}' in whole tiles",
                             s.describe(loop_id), v->var->name),
                 "split and reorder so that whole tiles lie inside");
      c.outer = analyzer.simplify(floordiv(outer, c.step));
    }
    return c;
  }
};

}  // namespace

int32_t blockize(State& s, int32_t loop_id) {
  s.loop(loop_id);
  s.scope_of(loop_id);
  std::vector<int32_t> blocks = s.blocks_below(loop_id);
  if (blocks.size() != 1)
    s.refuse("T0743", loop_id, fmt::format("it holds {} blocks, one is needed", blocks.size()),
             "blockize before compute_at, or after moving the others out");
  Blockizer b(s, loop_id, blocks[0]);
  for (int32_t l : b.inside) {
    Ref<For> x = s.loop(l);
    const auto below = l == b.inside.back() ? Stmt(b.realize) : Stmt(s.loop(s.children(l)[0]));
    if (!x->body.same_as(below)) s.refuse("T0743", l, "it holds statements outside blocks");
    if (x->kind == ForKind::parallel || x->kind == ForKind::thread_binding)
      s.refuse("T0710", l, "the loop is parallel already", "blockize first and choose kinds last");
    for (int32_t o : b.outside)
      if (uses(x->extent, s.loop(o)->loop_var.get()) || uses(x->min, s.loop(o)->loop_var.get()))
        s.refuse("T0744", l, fmt::format("its bounds depend on {}, outside", s.describe(o)));
  }
  for (const IterVar& v : b.block->iter_vars)
    if (v->kind != IterKind::spatial && v->kind != IterKind::reduce)
      s.refuse("T0713", b.id, fmt::format("iterator '{}' is neither spatial nor a reduction", v->var->name));

  // The new block's iterators, and the old ones in terms of them and of the loops inside.
  Array<IterVar> iters;
  Array<PrimExpr> outer_values, values;
  VarMap loop_to_iter;
  PrimExpr outer_predicate = true_();
  for (size_t i = 0; i < b.block->iter_vars.size(); ++i) {
    const IterVar& v = b.block->iter_vars[i];
    const Cut c = b.cut(v, b.realize->iter_values[i]);
    const PrimExpr extent = b.analyzer.simplify(ceildiv(v->dom->min + v->dom->extent - c.base, c.step));
    IterVar o = iter_var(range(PrimExpr(0), extent), v->var->name + "_o", v->kind);
    b.analyzer.bind(o->var, o->dom, true);
    iters.push_back(o);
    outer_values.push_back(c.outer);
    if (!b.analyzer.can_prove(lt(c.outer, extent)))
      outer_predicate = logical_and(outer_predicate, b.analyzer.simplify(lt(c.outer, extent)));
    PrimExpr tile = is_zero(c.outer) && is_one(extent) ? PrimExpr(0) : PrimExpr(o->var) * c.step;
    values.push_back(b.analyzer.simplify(tile + c.inner + c.base));
    if (const auto* x = c.outer.as<Var>()) loop_to_iter.emplace(x, o->var);
  }
  std::unordered_set<const Var*> outside, inside;
  for (int32_t l : b.outside) outside.insert(s.loop(l)->loop_var.get());
  for (int32_t l : b.inside) inside.insert(s.loop(l)->loop_var.get());
  PrimExpr inner_predicate = true_();
  for (const PrimExpr& c : conjuncts(b.realize->predicate)) {
    if (!uses_any(c, inside)) {
      outer_predicate = logical_and(outer_predicate, c);
      continue;
    }
    // Bindings first (the guard of a split compares one of them), then single loops.
    PrimExpr mapped = rewrite_any(c, [&](const ObjectRef& n) -> ObjectRef {
                        if (!n.is<PrimExprNode>() || n.is<IntImm>()) return {};
                        for (size_t i = 0; i < values.size(); ++i)
                          if (structural_equal(n, b.realize->iter_values[i])) return values[i];
                        return {};
                      }).cast<PrimExprNode>();
    mapped = substitute(mapped, loop_to_iter);
    if (uses_any(mapped, outside))
      s.refuse("T0745", b.id,
               fmt::format("its predicate mixes loops outside and inside {}", s.describe(loop_id)),
               "pad_einsum makes whole tiles");
    inner_predicate = logical_and(inner_predicate, mapped);
  }

  // Inside: the old block without its init.
  Ref<Block> inner = b.block;
  inner.edit()->init = Stmt();
  if (b.block->init) inner = with_regions(inner);
  Ref<BlockRealize> inner_realize = b.realize;
  {
    BlockRealize* e = inner_realize.edit();
    e->iter_values = values;
    e->predicate = inner_predicate;
    e->block = inner;
  }
  Stmt body = inner_realize;
  for (size_t i = b.inside.size(); i-- > 0;) body = with_body(s.loop(b.inside[i]), body);
  // The init runs over the tile's spatial part when the new block's reduction begins.
  Stmt init;
  if (b.block->init) {
    std::unordered_set<const Var*> reduce;
    VarMap fresh, at;
    std::vector<Ref<For>> loops;
    for (int32_t l : b.inside) {
      Ref<For> x = s.loop(l);
      const LoopRole role = role_of(b.realize, x->loop_var.get());
      if (role == LoopRole::mixed)
        s.refuse("T0764", b.id, fmt::format("{} mixes spatial and reduction iterators", s.describe(l)),
                 "do not fuse spatial loops with loops of the reduction, or decompose_reduction first");
      if (role != LoopRole::spatial) {
        reduce.insert(x->loop_var.get());
        continue;
      }
      VarRef v = var(x->loop_var->name + "_init", x->loop_var->dtype);
      fresh[x->loop_var.get()] = v;
      loops.push_back(
          for_(v, substitute(x->min, fresh), substitute(x->extent, fresh), Stmt(), x->kind).cast<For>());
    }
    for (const Ref<For>& x : loops)
      if (uses_any(x->extent, reduce) || uses_any(x->min, reduce))
        s.refuse("T0764", b.id, "the bounds of a spatial loop depend on the reduction");
    for (size_t i = 0; i < values.size(); ++i)
      at[b.block->iter_vars[i]->var.get()] = b.block->iter_vars[i]->kind == IterKind::spatial
                                                 ? substitute(values[i], fresh)
                                                 : b.block->iter_vars[i]->dom->min;
    PrimExpr guard = true_();
    std::unordered_set<const Var*> reduce_iters = reduce;
    for (const IterVar& v : iters)
      if (v->kind == IterKind::reduce) reduce_iters.insert(v->var.get());
    for (const PrimExpr& c : conjuncts(inner_predicate)) {
      if (!uses_any(c, reduce_iters)) {
        guard = logical_and(guard, substitute(c, fresh));
        continue;
      }
      bool spatial = false;
      for (auto& [x, v] : fresh) spatial = spatial || uses(c, x);
      for (const IterVar& v : iters)
        spatial = spatial || (v->kind == IterKind::spatial && uses(c, v->var.get()));
      if (spatial) s.refuse("T0764", b.id, "its predicate mixes spatial and reduction loops");
    }
    init = rename_definitions(substitute(b.block->init, at));
    if (!is_one(guard)) init = make<IfThenElse>(guard, init, Stmt());
    for (size_t i = loops.size(); i-- > 0;) init = with_body(loops[i], init);
  }
  const std::string name = s.fresh_block_name(b.block->name + "_o");
  auto outer = make<Block>(iters, Array<BufferRegion>(), Array<BufferRegion>(), name, body, init,
                           Array<Buffer>(), Array<MatchBufferRegion>(), AttrMap());
  Stmt made = make<BlockRealize>(outer_values, outer_predicate, with_regions(outer));
  if (s.guarded.count(b.block->name)) s.guarded.insert(name);
  s.replace(loop_id, made);
  return s.names.at(name);
}

const Define<&Schedule::blockize, blockize> blockize_record{
    {.name = "blockize",
     .does = "a loop and all below it become one block over tiles, which can be scheduled inside and matched "
             "by tensorize; the new block",
     .legal = "the loop holds one block, and the loops outside drive its iterators in whole tiles",
     .parameters = {{"loop", "the outermost of a tile"}},
     .sample = {samples::matmul, R"(
c = sch.get_block("C")
i, j, k = sch.get_loops(c)
tile = sch.blockize(j)
)"}}};

}  // namespace tenon::sched
