// SPDX-License-Identifier: Apache-2.0
// fuse_iterators: neighbouring iterators of a block become one, together with the dimensions of a private
// result, so that a tile may run across rows (7 × 7 becomes 49).
#include <fmt/format.h>

#include "ir/structural.h"
#include "schedule/define.h"

namespace tenon::sched {

using namespace tir;

static int32_t fuse_iterators(State& s, int32_t id, int first, int count) {
  Ref<BlockRealize> r = s.realize(id);
  Ref<Block> block = r->block;
  const int32_t scope_id = s.scope_of(id);
  require_root_scope(s, id);
  const size_t begin = size_t(std::max(first, 0)), end = begin + size_t(std::max(count, 0));
  if (first < 0 || count < 2 || end > block->iter_vars.size())
    s.refuse("T0782", id,
             fmt::format("it has {} iterators, {} from number {} on are none of them",
                         block->iter_vars.size(), count, first));
  if (!block->match_buffers.empty())
    s.refuse("T0752", id, "it matches regions of buffers", "fuse iterators before tensorize");
  if (s.guarded.count(block->name) || !is_const_int(r->predicate, 1))
    s.refuse("T0742", id, "it is restricted by a predicate");
  std::vector<int32_t> loops;
  std::vector<int32_t> around = s.loops_of(id);
  PrimExpr extent = PrimExpr(1);
  for (size_t i = begin; i < end; ++i) {
    const IterVar& v = block->iter_vars[i];
    int32_t loop_id = -1;
    for (int32_t l : around)
      if (s.loop(l)->loop_var.get() == r->iter_values[i].get()) loop_id = l;
    if (loop_id < 0 || !is_zero(v->dom->min) || s.loop(loop_id)->kind != ForKind::serial ||
        !is_zero(s.loop(loop_id)->min) || v->kind != block->iter_vars[begin]->kind)
      s.refuse("T0783", id,
               fmt::format("iterator '{}' is not bound to a plain loop of its own, or is of another kind",
                           v->var->name),
               "fuse iterators before split and fuse");
    if (!loops.empty() && !s.loop(loops.back())->body.same_as(s.loop(loop_id)))
      s.refuse("T0783", id,
               fmt::format("{} is not directly inside {}", s.describe(loop_id), s.describe(loops.back())));
    if (!structural_equal(s.loop(loop_id)->extent, v->dom->extent))
      s.refuse("T0783", id,
               fmt::format("{} does not run over all of '{}'", s.describe(loop_id), v->var->name));
    for (size_t k = 0; k < r->iter_values.size(); ++k)
      if (k != i && uses(r->iter_values[k], s.loop(loop_id)->loop_var.get()))
        s.refuse("T0783", id, fmt::format("{} is bound to two iterators", s.describe(loop_id)));
    loops.push_back(loop_id);
    extent = extent * v->dom->extent;
  }
  if (s.blocks_below(loops[0]).size() != 1)
    s.refuse("T0783", id, fmt::format("{} holds other blocks too", s.describe(loops[0])));

  // A private result indexed by exactly these iterators, in order, gets one dimension for them.
  BufferMap reshaped;
  Buffer from, to;
  size_t dim = 0;
  for (const BufferRegion& w : block->writes) {
    bool owned = false;
    for (const Buffer& b : s.block(scope_id)->alloc_buffers) owned = owned || b.same_as(w->buffer);
    if (!owned || block->writes.size() != 1) continue;
    for (size_t d = 0; d + size_t(count) <= w->region.size(); ++d) {
      bool match = true;
      for (size_t i = 0; i < size_t(count); ++i)
        match = match && w->region[d + i]->min.get() == block->iter_vars[begin + i]->var.get() &&
                structural_equal(w->buffer->shape[d + i], block->iter_vars[begin + i]->dom->extent);
      if (!match) continue;
      auto scope = s.scope(scope_id);
      bool plain = true;
      for (const Leaf& l : scope->leaves) plain = plain && plainly_used(l.realize, w->buffer);
      if (!plain) break;
      from = w->buffer;
      dim = d;
      Array<PrimExpr> shape;
      for (size_t k = 0; k < from->shape.size(); ++k) {
        if (k == d)
          shape.push_back(extent);
        else if (k < d || k >= d + size_t(count))
          shape.push_back(from->shape[k]);
      }
      to = buffer(from->name, shape, from->dtype, from->scope);
      break;
    }
  }
  Analyzer a = s.analyzer();
  bind_loops(s, a, s.parent(loops[0]));
  auto flat = [&](const Array<PrimExpr>& indices) {
    Array<PrimExpr> out;
    PrimExpr joined = PrimExpr(0);
    for (size_t k = 0; k < indices.size(); ++k) {
      if (k < dim || k >= dim + size_t(count)) {
        out.push_back(indices[k]);
        continue;
      }
      joined = joined * from->shape[k] + indices[k];
      if (k + 1 == dim + size_t(count)) out.push_back(a.simplify(joined));
    }
    return out;
  };
  IterVar fused = iter_var(range(PrimExpr(0), extent), block->iter_vars[begin]->var->name + "_fused",
                           block->iter_vars[begin]->kind);
  a.bind(fused->var, fused->dom, true);
  VarMap map;
  PrimExpr rest = fused->var;
  for (size_t i = end; i-- > begin;) {
    const PrimExpr size = block->iter_vars[i]->dom->extent;
    const PrimExpr digit = i == begin ? rest : floormod(rest, size);
    map[block->iter_vars[i]->var.get()] = is_one(size) ? PrimExpr(0) : a.simplify(digit);
    if (i > begin && !is_one(size)) rest = floordiv(rest, size);
  }
  VarRef loop_var = var(s.loop(loops[0])->loop_var->name + "_fused");
  Array<IterVar> iters;
  Array<PrimExpr> values;
  for (size_t i = 0; i < block->iter_vars.size(); ++i) {
    if (i == begin) {
      iters.push_back(fused);
      values.push_back(loop_var);
    } else if (i < begin || i >= end) {
      iters.push_back(block->iter_vars[i]);
      values.push_back(r->iter_values[i]);
    }
  }
  const std::string name = block->name;
  auto simplify_indices = [&](const Array<PrimExpr>& indices) {
    return indices.map([&](const PrimExpr& e) { return a.simplify(e); });
  };
  auto edit = [&](const Stmt& t, bool own) -> Stmt {
    if (!t) return t;
    Stmt u = own ? substitute(t, map) : t;
    return Stmt(rewrite_any(
                    u,
                    [&](const ObjectRef& n) -> ObjectRef {
                      if (const auto* l = n.as<BufferLoad>()) {
                        if (from && l->buffer.same_as(from)) return load(to, flat(l->indices));
                        return own ? ObjectRef(load(l->buffer, simplify_indices(l->indices), l->predicate))
                                   : ObjectRef();
                      }
                      if (const auto* st = n.as<BufferStore>()) {
                        if (from && st->buffer.same_as(from)) return store(to, st->value, flat(st->indices));
                        return own ? ObjectRef(store(st->buffer, st->value, simplify_indices(st->indices),
                                                     st->predicate))
                                   : ObjectRef();
                      }
                      return {};
                    },
                    [](const ObjectRef& n) { return n.is<BufferNode>(); })
                    .as<StmtNode>());
  };
  const Object* top = s.loop(loops[0])->loop_var.get();
  auto make_block = [&](const Ref<Block>& b) -> Ref<Block> {
    const bool own = b->name == name;
    bool touches = own;
    for (const BufferRegion& x : b->reads) touches = touches || (from && x->buffer.same_as(from));
    for (const BufferRegion& x : b->writes) touches = touches || (from && x->buffer.same_as(from));
    if (!touches) return {};
    Ref<Block> copy = b;
    Block* e = copy.edit();
    e->body = edit(b->body, own);
    e->init = edit(b->init, own);
    if (own) e->iter_vars = iters;
    return with_regions(copy);
  };
  Stmt body = rewrite_any(
                  s.block(scope_id)->body,
                  [&](const ObjectRef& n) -> ObjectRef {
                    if (const auto* b = n.as<Block>()) return make_block(Ref<Block>(b));
                    if (const auto* x = n.as<BlockRealize>(); x && x->block->name == name) {
                      Ref<BlockRealize> copy(x);
                      copy.edit()->iter_values = values;
                      return copy;
                    }
                    if (const auto* l = n.as<For>()) {
                      for (size_t i = 1; i < loops.size(); ++i)
                        if (l->loop_var.get() == s.loop(loops[i])->loop_var.get()) return l->body;
                      if (l->loop_var.get() == top) return for_(loop_var, PrimExpr(0), extent, l->body);
                    }
                    return {};
                  },
                  [&](const ObjectRef& n) { return !n.is<StmtNode>(); })
                  .cast<StmtNode>();
  Array<Buffer> allocs = s.block(scope_id)->alloc_buffers;
  for (size_t i = 0; i < allocs.size(); ++i)
    if (from && allocs[i].same_as(from)) allocs.set(i, to);
  s.replace_body(scope_id, body, allocs);
  for (int32_t l : s.loops_of(id))
    if (s.loop(l)->loop_var.get() == loop_var.get()) return l;
  CHECK(false, "the fused loop was not found");
  return -1;
}

const Define<&Schedule::fuse_iterators, fuse_iterators> fuse_iterators_record{
    {.name = "fuse_iterators",
     .reference = "",
     .does = "neighbouring iterators become one, with the matching dimensions of a private result; the fused "
             "loop",
     .legal = "the iterators are of one kind, each bound to a whole loop of its own, around this block alone",
     .parameters = {{"block", "whose iterators"}, {"first", "position of the first"}, {"count", "how many"}},
     .sample = {samples::matmul, R"(
c = sch.get_block("C")
ij = sch.fuse_iterators(c, first=0, count=2)
)"}}};

}  // namespace tenon::sched
