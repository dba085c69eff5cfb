// SPDX-License-Identifier: Apache-2.0
// Primitives about padding: pad_einsum (a contraction runs over whole tiles of padded copies) and
// decompose_padding (a padded copy is a fill and a plain copy of what lies inside).
#include <fmt/format.h>

#include <algorithm>
#include <tuple>

#include "ir/find_node.h"
#include "schedule/define.h"

namespace tenon::sched {

using namespace tir;

namespace {

/// Products (and casts) of loads: what one step of an einsum adds.
bool is_product(const PrimExpr& e, int depth = 0) {
  if (depth > 32) return false;
  if (const auto* m = e.as<Mul>()) return is_product(m->a, depth + 1) && is_product(m->b, depth + 1);
  if (const auto* c = e.as<Cast>()) return is_product(c->value, depth + 1);
  return e.is<BufferLoad>();
}

/// `if inside: to[v] = from[v] else 0`, or a plain copy of the part that `to` has.
Stmt copy_block(const Buffer& from, const Buffer& to, const std::string& name) {
  Array<IterVar> iters;
  Array<PrimExpr> values, at;
  std::vector<VarRef> loops;
  PrimExpr inside = true_();
  for (size_t d = 0; d < to->shape.size(); ++d) {
    VarRef x = var(fmt::format("ax{}", d));
    IterVar v = iter_var(range(PrimExpr(0), to->shape[d]), fmt::format("v{}", d));
    loops.push_back(x);
    iters.push_back(v);
    values.push_back(x);
    at.push_back(v->var);
    if (!from->shape[d].same_as(to->shape[d]) &&
        !(as_int(from->shape[d]) && as_int(to->shape[d]) && *as_int(from->shape[d]) >= *as_int(to->shape[d])))
      inside = logical_and(inside, lt(v->var, from->shape[d]));
  }
  PrimExpr value = load(from, at);
  if (!is_one(inside)) value = if_then_else(inside, value, const_of(from->dtype, 0));
  auto block = make<Block>(iters, Array<BufferRegion>(), Array<BufferRegion>(), name, store(to, value, at),
                           Stmt(), Array<Buffer>(), Array<MatchBufferRegion>(), AttrMap());
  Stmt s = make<BlockRealize>(values, true_(), with_regions(block));
  for (size_t d = loops.size(); d-- > 0;) s = for_(loops[d], PrimExpr(0), to->shape[d], s);
  return s;
}

/// pad_einsum, step by step: every check comes before the one change at the end.
struct EinsumPadding {
  State& s;
  const int32_t id;
  const std::vector<int64_t>& padding;  ///< the multiple of each iterator
  const Ref<BlockRealize> r = s.realize(id);
  const Ref<Block> block = r->block;
  const int32_t scope_id = s.scope_of(id);
  const BufferStore* update = nullptr;  ///< out[…] = out[…] + source
  PrimExpr source;
  mutable Analyzer a = s.analyzer();
  std::vector<PrimExpr> padded;  ///< the new size of each iterator
  std::vector<bool> grows;
  std::unordered_map<const Var*, PrimExpr> loop_extent;  ///< of loops that grow
  std::unordered_map<const Var*, size_t> iter_at;
  /// A buffer that is read, and its copy of padded shape.
  struct Operand {
    Buffer buffer;
    Array<PrimExpr> shape;
  };
  std::vector<Operand> operands;
  Array<PrimExpr> out_shape;
  bool out_larger = false;

  void require_sum_of_products() {
    require_root_scope(s, id);
    if (padding.size() != block->iter_vars.size())
      s.refuse("T0782", id,
               fmt::format("it has {} iterators, {} multiples are given", block->iter_vars.size(),
                           padding.size()));
    for (int64_t p : padding)
      if (p < 1 || p > (1 << 20))
        s.refuse("T0782", id, fmt::format("{} is no usable multiple", p), "1 leaves a size");
    update = only_store(block);
    if (!update) s.refuse("T0786", id, "its body is not a single store");
    const auto* sum = update->value.as<Add>();
    if (!is_reduction(block) || !sum)
      s.refuse("T0786", id, "it is no sum of products with its init",
               "pad_iteration pads other blocks; pad before decompose_reduction");
    auto own = [&](const PrimExpr& e) {
      const auto* l = e.as<BufferLoad>();
      return l && l->buffer.same_as(update->buffer);
    };
    const bool left = own(sum->a);
    source = left ? sum->b : sum->a;
    if ((!left && !own(sum->b)) || !is_product(source))
      s.refuse("T0786", id, "it is no sum of products of loads");
    if (has_node<BufferLoad>(block->init, not_in_buffers))
      s.refuse("T0786", id, "its first value reads memory, beyond whose end padding would lead",
               "pad before fuse_reduction_epilogue");
    if (!is_const_int(r->predicate, 1) || s.guarded.count(block->name))
      s.refuse("T0742", id, "it is restricted by a predicate", "pad before split");
  }

  /// The loop that iterator i, which grows, is: a whole one around this block alone.
  int32_t loop_of(size_t i) const {
    const IterVar& v = block->iter_vars[i];
    int32_t loop_id = -1;
    for (int32_t l : s.loops_of(id))
      if (s.loop(l)->loop_var.get() == r->iter_values[i].get()) loop_id = l;
    if (loop_id < 0 || !is_zero(v->dom->min) || !is_zero(s.loop(loop_id)->min) ||
        !a.can_prove_equal(s.loop(loop_id)->extent, v->dom->extent) ||
        s.loop(loop_id)->kind != ForKind::serial || s.blocks_below(loop_id).size() != 1)
      s.refuse("T0783", id,
               fmt::format("iterator '{}' is not bound to a plain loop of its own", v->var->name),
               "pad before split, fuse and compute_at");
    for (size_t j = 0; j < padding.size(); ++j)
      if (j != i && uses(r->iter_values[j], s.loop(loop_id)->loop_var.get()))
        s.refuse("T0783", id, fmt::format("{} is bound to two iterators", s.describe(loop_id)));
    return loop_id;
  }

  /// False: no size grows.
  bool pad_sizes() {
    bind_loops(s, a, id);
    for (size_t i = 0; i < padding.size(); ++i) {
      const IterVar& v = block->iter_vars[i];
      iter_at[v->var.get()] = i;
      padded.push_back(a.simplify(ceildiv(v->dom->extent, PrimExpr(padding[i])) * PrimExpr(padding[i])));
      grows.push_back(!a.can_prove_equal(padded[i], v->dom->extent));
      if (grows[i]) loop_extent[s.loop(loop_of(i))->loop_var.get()] = padded[i];
    }
    return !loop_extent.empty();
  }

  /// The shape of b with the sizes of the iterators that index it, and whether it is larger. Each dimension
  /// has one iterator or a constant.
  std::pair<Array<PrimExpr>, bool> shape_for(const Buffer& b, const Array<PrimExpr>& at) const {
    Array<PrimExpr> shape = b->shape;
    bool larger = false;
    for (size_t d = 0; d < at.size(); ++d) {
      const auto* v = at[d].as<Var>();
      auto it = v ? iter_at.find(v) : iter_at.end();
      if (it == iter_at.end()) {
        for (size_t i = 0; i < padding.size(); ++i)
          if (grows[i] && uses(at[d], block->iter_vars[i]->var.get()))
            s.refuse("T0786", id,
                     fmt::format("index {} of '{}' is not one iterator alone, so padded reads would leave it",
                                 d, b->name),
                     "use reindex first");
        continue;
      }
      if (!grows[it->second]) continue;
      if (!a.can_prove_equal(b->shape[d], block->iter_vars[it->second]->dom->extent))
        s.refuse("T0786", id,
                 fmt::format("iterator '{}' does not run over the whole dimension {} of '{}'", v->name, d,
                             b->name));
      shape.set(d, padded[it->second]);
      larger = true;
    }
    return {shape, larger};
  }

  /// A padded step must add 0: a factor that is not padded may be infinite.
  void require_zero_in_padding(const BufferLoad& l) const {
    for (size_t i = 0; i < padding.size(); ++i) {
      if (!grows[i] || block->iter_vars[i]->kind != IterKind::reduce || !l.buffer->dtype.is_float()) continue;
      const Var* v = block->iter_vars[i]->var.get();
      if (std::none_of(l.indices.begin(), l.indices.end(), [&](const PrimExpr& e) { return uses(e, v); }))
        s.refuse("T0786", id,
                 fmt::format("'{}' does not depend on iterator '{}', and 0 times an infinite value is no 0",
                             l.buffer->name, v->name),
                 "pad_iteration masks instead");
    }
  }

  /// The outermost loop around the block in its scope, or the block.
  int32_t nest() const {
    int32_t out = id;
    while (!s.is_block(s.parent(out))) out = s.parent(out);
    return out;
  }

  /// Buffers that are read and grow: each with one shape, and made before the loops around this block.
  void collect_operands() {
    std::vector<const BufferLoad*> loads;
    pre_order(source, [&](const ObjectRef& n) {
      if (const auto* l = n.as<BufferLoad>()) loads.push_back(l);
      return !n.is<BufferNode>() && !n.is<BufferLoad>();
    });
    const auto all = s.scope(scope_id);
    for (const BufferLoad* l : loads) {
      if (l->predicate || l->buffer.same_as(update->buffer))
        s.refuse("T0736", id,
                 fmt::format("it reads '{}' through a mask, or what it writes", l->buffer->name));
      require_zero_in_padding(*l);
      auto [shape, larger] = shape_for(l->buffer, l->indices);
      if (!larger) continue;
      const auto known =
          std::ranges::find_if(operands, [&](const Operand& o) { return o.buffer.same_as(l->buffer); });
      if (known != operands.end()) {
        for (size_t d = 0; d < shape.size(); ++d)
          if (!a.can_prove_equal(shape[d], known->shape[d]))
            s.refuse("T0786", id, fmt::format("it reads '{}' at several places", l->buffer->name));
        continue;
      }
      for (int w : all->writers(l->buffer))
        if (w > all->find(id) || s.inside(all->leaves[size_t(w)].id, nest()))
          s.refuse("T0773", id,
                   fmt::format("'{}' is written by {} inside the same loops", l->buffer->name,
                               s.describe(all->leaves[size_t(w)].id)),
                   "pad before compute_at");
      operands.push_back({l->buffer, shape});
    }
    for (const Operand& o : operands)  // every read of a padded operand is padded
      for (const BufferLoad* l : loads)
        if (l->buffer.same_as(o.buffer) && !shape_for(l->buffer, l->indices).second)
          s.refuse("T0786", id, fmt::format("it reads '{}' at several places", l->buffer->name));
  }

  void require_result() {
    std::tie(out_shape, out_larger) = shape_for(update->buffer, update->indices);
    const Buffer& out = update->buffer;
    for (size_t i = 0; i < padding.size(); ++i) {
      if (!grows[i] || block->iter_vars[i]->kind != IterKind::spatial) continue;
      const VarRef& v = block->iter_vars[i]->var;  // of a size of 1 the index may have become 0
      if (std::none_of(update->indices.begin(), update->indices.end(),
                       [&](const PrimExpr& e) { return e.same_as(v); }))
        s.refuse(
            "T0786", id,
            fmt::format(
                "iterator '{}' is no index of '{}', so further values of it would write the same elements",
                v->name, out->name),
            "leave sizes of 1 as they are");
    }
    if (!out_larger) return;
    require_owned(s, id, out);
    const auto all = s.scope(scope_id);
    if (all->writers(out).size() != 1)
      s.refuse("T0733", id, fmt::format("'{}' is written by other blocks too", out->name));
    for (int x : all->readers(out))
      if (all->leaves[size_t(x)].id != id &&
          (x < all->find(id) || s.inside(all->leaves[size_t(x)].id, nest())))
        s.refuse("T0773", id,
                 fmt::format("'{}' is read by {} inside the same loops", out->name,
                             s.describe(all->leaves[size_t(x)].id)),
                 "pad before reverse_compute_at");
    if (!writes_apart(s, block))
      s.refuse("T0774", id, fmt::format("it does not write all of '{}'", out->name));
  }

  /// The block over the padded sizes, on the copies.
  Ref<BlockRealize> over_copies(const BufferMap& to_copy) const {
    Ref<Block> next = block;
    Block* e = next.edit();
    for (size_t i = 0; i < padding.size(); ++i)
      if (grows[i]) {
        const IterVar& v = block->iter_vars[i];
        e->iter_vars.set(i, make<IterVarNode>(range(PrimExpr(0), padded[i]), v->var, v->kind, v->thread_tag));
      }
    e->body = replace_buffers(block->body, to_copy);
    e->init = replace_buffers(block->init, to_copy);
    Ref<BlockRealize> realize = r;
    realize.edit()->block = with_regions(next);
    return realize;
  }

  /// Copies into padded operands, the block, and the copy out of its padded result.
  void change() const {
    Array<Buffer> allocs = s.block(scope_id)->alloc_buffers;
    BufferMap to_copy;
    std::vector<std::string> names;
    auto copy_of = [&](const Buffer& b, const Array<PrimExpr>& shape) {
      const Buffer copy = buffer(b->name + "_pad", shape, b->dtype, b->scope);
      to_copy[b.get()] = copy;
      allocs.push_back(copy);
      std::string name = s.fresh_block_name(copy->name);
      for (int k = 1; std::ranges::find(names, name) != names.end(); ++k)
        name = s.fresh_block_name(fmt::format("{}_{}", copy->name, k));
      names.push_back(name);
      return copy;
    };
    Array<Stmt> before, after;
    for (const Operand& o : operands) {
      const Buffer copy = copy_of(o.buffer, o.shape);
      before.push_back(copy_block(o.buffer, copy, names.back()));
    }
    if (out_larger) {
      const Buffer copy = copy_of(update->buffer, out_shape);
      after.push_back(copy_block(copy, update->buffer, names.back()));
    }
    const Ref<BlockRealize> realize = over_copies(to_copy);
    const Object* from = r.get();
    const auto* q = s.block(scope_id)->body.as<SeqStmt>();
    Array<Stmt> body;
    for (const Stmt& t : q ? q->seq : Array<Stmt>{s.block(scope_id)->body}) {
      const Stmt u = rewrite_any(
                         t,
                         [&](const ObjectRef& n) -> ObjectRef {
                           if (n.get() == from) return realize;
                           if (const auto* l = n.as<For>())
                             if (auto it = loop_extent.find(l->loop_var.get()); it != loop_extent.end()) {
                               Ref<For> longer(l);
                               longer.edit()->extent = it->second;
                               return longer;
                             }
                           return {};
                         },
                         [&](const ObjectRef& n) {
                           return !n.is<StmtNode>() || (n.is<BlockRealize>() && n.get() != from);
                         })
                         .cast<StmtNode>();
      const bool here = !u.same_as(t);
      if (here)
        for (const Stmt& c : before) body.push_back(c);
      body.push_back(u);
      if (here)
        for (const Stmt& c : after) body.push_back(c);
    }
    s.replace_body(scope_id, seq(body), allocs);
  }
};

}  // namespace

static void pad_einsum(State& s, int32_t id, const std::vector<int64_t>& padding) {
  EinsumPadding p{s, id, padding};
  p.require_sum_of_products();
  if (!p.pad_sizes()) return;
  p.collect_operands();
  p.require_result();
  p.change();
}

static int32_t decompose_padding(State& s, int32_t id, int32_t loop_id) {
  Ref<BlockRealize> r = s.realize(id);
  Ref<Block> block = r->block;
  s.loop(loop_id);
  if (s.scope_of(loop_id) != s.scope_of(id) || !s.inside(id, loop_id))
    s.refuse("T0761", id, fmt::format("{} is not one of the loops around it", s.describe(loop_id)));
  const BufferStore* put = is_complete(block) ? only_store(block) : nullptr;
  const auto* choice = put ? put->value.as<Call>() : nullptr;
  const auto* picked = put ? put->value.as<Select>() : nullptr;
  if (!(choice && choice->op == "tir.if_then_else") && !picked)
    s.refuse("T0787", id, "it does not store a value where a condition holds and a number elsewhere",
             "decompose_padding takes blocks like B[i] = if_then_else(1 <= i and i < n, A[i - 1], 0)");
  const PrimExpr condition = choice ? choice->args[0] : picked->condition,
                 value = choice ? choice->args[1] : picked->true_value,
                 fill = choice ? choice->args[2] : picked->false_value;
  if (!fill.is<IntImm>() && !fill.is<FloatImm>() && !free_vars(fill).empty())
    s.refuse("T0787", id, "what it stores outside the condition is no number");
  if (has_effects(put->value)) s.refuse("T0731", id, "its value has effects or takes an address");
  const bool from_memory = has_node<BufferLoad>(condition, not_in_buffers);
  if (from_memory) s.refuse("T0787", id, "the condition reads memory");
  std::vector<int32_t> inner = s.loops_between(id, s.parent(loop_id));
  for (int32_t l : inner) {
    if (s.children(l).size() != 1)
      s.refuse("T0787", l, "it holds other blocks too, which would see the fill alone",
               "choose a loop further in");
    if (s.loop(l)->kind == ForKind::vectorized || s.loop(l)->kind == ForKind::parallel ||
        s.loop(l)->kind == ForKind::thread_binding)
      s.refuse("T0710", l, "the loop is already parallel or vectorised", "decompose first");
  }
  // The fill: the same loops, new.
  VarMap fresh, iter_map;
  std::vector<Ref<For>> loops;
  for (int32_t l : inner) {
    Ref<For> x = s.loop(l);
    VarRef v = var(x->loop_var->name + "_pad", x->loop_var->dtype);
    Ref<For> made = loop_like(x, v);
    made.edit()->min = substitute(x->min, fresh);
    made.edit()->extent = substitute(x->extent, fresh);
    loops.push_back(made);
    fresh[x->loop_var.get()] = v;
  }
  Array<IterVar> iters;
  for (const IterVar& v : block->iter_vars) {
    IterVar copy = iter_var(v->dom, v->var->name, v->kind);
    iter_map[v->var.get()] = copy->var;
    iters.push_back(copy);
  }
  const std::string name = s.fresh_block_name(block->name + "_pad");
  auto filler = make<Block>(
      iters, Array<BufferRegion>(), Array<BufferRegion>(), name,
      store(put->buffer, fill, put->indices.map([&](const PrimExpr& e) { return substitute(e, iter_map); })),
      Stmt(), Array<Buffer>(), Array<MatchBufferRegion>(), AttrMap());
  Stmt made = make<BlockRealize>(r->iter_values.map([&](const PrimExpr& e) { return substitute(e, fresh); }),
                                 substitute(r->predicate, fresh), with_regions(filler));
  for (size_t i = loops.size(); i-- > 0;) made = with_body(loops[i], made);
  // Inside: loops that drive one iterator alone shrink to where the condition holds, the rest is a predicate.
  Analyzer a = s.analyzer();
  bind_loops(s, a, id);
  std::unordered_map<const Var*, std::pair<PrimExpr, PrimExpr>> bounds;  // loop: [low, high)
  VarMap values;
  for (size_t i = 0; i < block->iter_vars.size(); ++i)
    values[block->iter_vars[i]->var.get()] = r->iter_values[i];
  PrimExpr guard = true_();
  for (const PrimExpr& c : conjuncts(condition)) {
    const PrimExpr here = substitute(c, values);
    PrimExpr left, right;
    bool or_equal = false;
    if (const auto* x = here.as<LT>()) left = x->a, right = x->b;
    if (const auto* x = here.as<LE>()) left = x->a, right = x->b, or_equal = true;
    if (const auto* x = here.as<GT>()) left = x->b, right = x->a;
    if (const auto* x = here.as<GE>()) left = x->b, right = x->a, or_equal = true;
    bool done = false;
    for (int32_t l : inner) {
      if (!left || done) break;
      Ref<For> x = s.loop(l);
      // left < right, with the loop on one side alone and with factor 1.
      const PrimExpr rest = a.simplify((right - left) - PrimExpr(x->loop_var)),
                     other = a.simplify((right - left) + PrimExpr(x->loop_var));
      auto constant = [&](const PrimExpr& e) {
        for (const VarRef& v : free_vars(e))
          for (int32_t o : inner)
            if (s.loop(o)->loop_var.same_as(v)) return false;
        return true;
      };
      PrimExpr& low = bounds.try_emplace(x->loop_var.get(), x->min, x->min + x->extent).first->second.first;
      PrimExpr& high = bounds.at(x->loop_var.get()).second;
      if (constant(rest)) {  // 0 < var + rest
        low = max(low, or_equal ? PrimExpr(0) - rest : PrimExpr(1) - rest);
        done = true;
      } else if (constant(other)) {  // var < other
        high = min(high, or_equal ? other + 1 : other);
        done = true;
      }
    }
    if (!done) guard = logical_and(guard, here);
  }
  Ref<Block> next = block;
  next.edit()->body = store(put->buffer, value, put->indices);
  Ref<BlockRealize> realize = r;
  {
    BlockRealize* e = realize.edit();
    e->block = with_regions(next);
    e->predicate = logical_and(r->predicate, a.simplify(guard));
  }
  Stmt body = realize;
  for (size_t i = inner.size(); i-- > 0;) {
    Ref<For> x = s.loop(inner[i]);
    Ref<For> copy = with_body(x, body);
    if (auto it = bounds.find(x->loop_var.get()); it != bounds.end()) {
      For* e = copy.edit();
      const PrimExpr low = a.simplify(it->second.first), extent = a.simplify(it->second.second - low);
      e->extent = a.can_prove(ge(extent, PrimExpr(0))) ? extent : a.simplify(max(extent, PrimExpr(0)));
      if (!is_zero(low)) {
        e->body = substitute(e->body, {{x->loop_var.get(), x->loop_var + low}});
        e->min = PrimExpr(0);
      }
    }
    body = copy;
  }
  s.guarded.insert(block->name);
  s.guarded.insert(name);
  s.replace(loop_id, seq({made, body}));
  const int32_t scope = s.scope_of(id);
  s.replace_body(scope, s.block(scope)->body);
  return s.names.at(name);
}

const Define<&Schedule::pad_einsum, pad_einsum> pad_einsum_record{
    {.name = "pad_einsum",
     .does = "a sum of products runs over multiples: operands are copied and filled up with 0, the result is "
             "copied back",
     .legal = "the block is a sum of products with its init, each iterator that grows bound to a whole loop "
              "of its own",
     .parameters = {{"block", "the sum"}, {"padding", "a multiple for each iterator; 1 leaves it"}},
     .sample = {samples::matmul, R"(
c = sch.get_block("C")
sch.pad_einsum(c, padding=[4, 1, 4])
)"}}};
const Define<&Schedule::decompose_padding, decompose_padding> decompose_padding_record{
    {.name = "decompose_padding",
     .does = "a padded copy becomes a fill before a loop and a plain copy of what lies inside; the fill",
     .legal = "the block stores a value where a condition on its iterators holds and a number elsewhere",
     .parameters = {{"block", "the padded copy"}, {"loop", "around it, before which the fill runs"}},
     .sample = {samples::windows, R"(
p = sch.get_block("P")
i, j = sch.get_loops(p)
fill = sch.decompose_padding(p, i)
)"}}};

}  // namespace tenon::sched
