// SPDX-License-Identifier: Apache-2.0
// Primitives that put one block's expression into another: compute_inline (into consumers) and
// reverse_compute_inline (into the producer).
#include <fmt/format.h>

#include "schedule/define.h"
#include "schedule/ring.h"

namespace tenon::sched {

using namespace tir;

namespace {

/// Block bodies of `scope` mapped by f (null: unchanged), and the nest `removed` taken away.
Stmt edit_blocks(const State& s, int32_t scope, int32_t removed,
                 FunctionRef<Ref<Block>(const Ref<Block>&)> f) {
  const Object* gone = removed < 0 ? nullptr : s.entries[size_t(removed)].node.get();
  return rewrite_any(
             s.block(scope)->body,
             [&](const ObjectRef& n) -> ObjectRef {
               if (n.get() == gone) return nothing();
               if (const auto* b = n.as<Block>()) return f(Ref<Block>(b));
               return {};
             },
             [&](const ObjectRef& n) { return !n.is<StmtNode>(); })
      .cast<StmtNode>();
}

Array<Buffer> without(const Array<Buffer>& buffers, const Buffer& b) {
  Array<Buffer> out;
  for (const Buffer& x : buffers)
    if (!x.same_as(b)) out.push_back(x);
  return out;
}

template <class F>
Ref<Block> rewrite_block(const Ref<Block>& b, F rule) {
  auto apply = [&](const Stmt& t) -> Stmt {
    if (!t) return t;
    const ObjectRef r = rewrite_any(
        t, [&](const ObjectRef& n) -> ObjectRef { return rule(n); },
        [](const ObjectRef& n) { return n.is<BufferNode>(); });
    return Stmt(r.as<StmtNode>());
  };
  Ref<Block> copy = b;
  Block* e = copy.edit();
  e->body = apply(b->body);
  e->init = apply(b->init);
  return with_regions(copy);
}

}  // namespace

void compute_inline(State& s, int32_t id) {
  Ref<Block> block = s.block(id);
  const int32_t scope_id = s.scope_of(id);
  auto scope = s.scope(scope_id);
  require_no_ring(s, id);
  if (!is_complete(block))
    s.refuse("T0730", id,
             "the block accumulates or reads what it writes, so its value at one place is no expression",
             "inline element-wise blocks; move reductions with compute_at");
  const BufferStore* store = only_store(block);
  if (!store) s.refuse("T0731", id, "its body is not a single store");
  if (has_effects(store->value))
    s.refuse("T0731", id, "its value has effects or takes an address, so it must be computed exactly once");
  const Buffer& b = store->buffer;
  if (is_parameter(s, b))
    s.refuse("T0732", id, fmt::format("'{}' is a result of the function and must be stored", b->name));
  if (scope->writers(b).size() != 1)
    s.refuse("T0733", id, fmt::format("'{}' is written by other blocks too", b->name));
  auto positions = trivial_indices(store->indices, block->iter_vars, b);
  if (!positions)
    s.refuse(
        "T0734", id,
        fmt::format("it does not write '{}' at an index made of its own iterators, one for each dimension",
                    b->name));
  for (size_t i = 0; i < block->iter_vars.size(); ++i) {
    bool indexed = is_one(block->iter_vars[i]->dom->extent);
    for (int p : *positions) indexed = indexed || p == int(i);
    if (!indexed && uses(store->value, block->iter_vars[i]->var.get()))
      s.refuse("T0734", id,
               fmt::format("its value depends on iterator '{}', which is not an index of '{}'",
                           block->iter_vars[i]->var->name, b->name));
  }
  std::vector<int> readers = scope->readers(b);
  if (readers.empty())
    s.refuse("T0735", id, fmt::format("no block reads '{}'", b->name), "nothing is gained by inlining it");
  bool owned = false;
  for (const Buffer& x : s.block(scope_id)->alloc_buffers) owned = owned || x.same_as(b);
  if (!owned) s.refuse("T0733", id, fmt::format("'{}' is not allocated by the block around", b->name));
  for (int at : readers)
    if (!plainly_used(scope->leaves[size_t(at)].realize, b))
      s.refuse("T0736", scope->leaves[size_t(at)].id,
               fmt::format("it reads '{}' through a mask, a matched region or a pointer", b->name));

  const Buffer buffer = b;
  const PrimExpr value = store->value;
  std::vector<VarRef> vars;
  for (int p : *positions) vars.push_back(p < 0 ? VarRef() : block->iter_vars[size_t(p)]->var);
  VarMap ones;  // iterators of extent 1 that are no index
  for (const IterVar& v : block->iter_vars) ones[v->var.get()] = v->dom->min;
  Analyzer plain = s.analyzer();
  auto rule = [&](const ObjectRef& n) -> ObjectRef {
    const auto* l = n.as<BufferLoad>();
    if (!l || !l->buffer.same_as(buffer)) return {};
    VarMap map = ones;
    for (size_t d = 0; d < vars.size(); ++d)
      if (vars[d]) map[vars[d].get()] = l->indices[d];
    return substitute(value, map);
  };
  Stmt body = edit_blocks(s, scope_id, whole_nest(s, id), [&](const Ref<Block>& c) -> Ref<Block> {
    bool reads = false;
    for (const BufferRegion& r : c->reads) reads = reads || r->buffer.same_as(buffer);
    if (!reads || c->name == block->name) return {};
    return rewrite_block(c, rule);
  });
  s.replace_body(scope_id, body, without(s.block(scope_id)->alloc_buffers, buffer));
}

static void reverse_compute_inline(State& s, int32_t id) {
  Ref<Block> block = s.block(id);
  const int32_t scope_id = s.scope_of(id);
  auto scope = s.scope(scope_id);
  require_no_ring(s, id);
  if (!is_complete(block))
    s.refuse("T0730", id, "only element-wise blocks can be put into their producer",
             "use reverse_compute_at for others");
  const BufferStore* store = only_store(block);
  if (!store) s.refuse("T0731", id, "its body is not a single store");
  // The one buffer it reads that a block of this scope makes.
  Buffer b;
  for (const BufferRegion& r : block->reads) {
    if (scope->writers(r->buffer).empty()) continue;
    if (b && !b.same_as(r->buffer))
      s.refuse("T0737", id,
               fmt::format("it reads both '{}' and '{}', which two blocks make", b->name, r->buffer->name));
    b = r->buffer;
  }
  if (!b) s.refuse("T0737", id, "it reads nothing that a block of the program makes");
  require_owned(s, id, b);
  std::vector<int> writers = scope->writers(b), readers = scope->readers(b);
  if (writers.size() != 1) s.refuse("T0733", id, fmt::format("'{}' is written by several blocks", b->name));
  if (readers.size() != 1) s.refuse("T0738", id, fmt::format("'{}' is read by other blocks too", b->name));
  if (is_parameter(s, b))
    s.refuse("T0732", id, fmt::format("'{}' is a result of the function and must be stored", b->name));
  const Leaf& producer = scope->leaves[size_t(writers[0])];
  Ref<Block> p = producer.realize->block;
  if (!is_complete(p))
    s.refuse("T0739", producer.id,
             fmt::format("'{}' is a reduction: its value is ready only after the last step", p->name),
             "use reverse_compute_at, or cache_write and decompose_reduction");
  const BufferStore* made = only_store(p);
  if (!made) s.refuse("T0731", producer.id, "its body is not a single store");
  auto wrote = trivial_indices(made->indices, p->iter_vars, b);
  if (!wrote)
    s.refuse("T0734", producer.id,
             fmt::format("it does not write '{}' at an index made of its own iterators", b->name));
  if (!plainly_used(block, b))
    s.refuse("T0736", id,
             fmt::format("it reads '{}' through a mask, a matched region or a pointer", b->name));
  std::vector<Array<PrimExpr>> loads = load_indices(store->value, b);
  std::optional<std::vector<int>> read;
  for (const Array<PrimExpr>& l : loads) {
    auto at = trivial_indices(l, block->iter_vars, b);
    if (!at || (read && *read != *at))
      s.refuse("T0734", id,
               fmt::format("it does not read '{}' at one index made of its own iterators", b->name));
    read = at;
  }
  if (!read) s.refuse("T0737", id, fmt::format("it only mentions '{}'", b->name));
  // Same domain on both sides, every iterator of the consumer found again in the producer.
  Analyzer a = s.analyzer();
  bind_loops(s, a, scope_id);
  VarMap map;
  for (size_t i = 0; i < block->iter_vars.size(); ++i) {
    const IterVar& v = block->iter_vars[i];
    int dim = -1;
    for (size_t d = 0; d < read->size(); ++d)
      if ((*read)[d] == int(i)) dim = int(d);
    if (dim < 0) {
      if (!is_one(v->dom->extent))
        s.refuse("T0734", id, fmt::format("iterator '{}' is no index of '{}'", v->var->name, b->name));
      map[v->var.get()] = v->dom->min;
      continue;
    }
    if (!is_zero(v->dom->min) || !a.can_prove_equal(v->dom->extent, b->shape[size_t(dim)]))
      s.refuse("T0740", id,
               fmt::format("iterator '{}' does not run over the whole dimension {} of '{}'", v->var->name,
                           dim, b->name));
    map[v->var.get()] = made->indices[size_t(dim)];
  }
  for (size_t d = 0; d < wrote->size(); ++d) {
    if ((*wrote)[d] < 0) continue;
    const IterVar& v = p->iter_vars[size_t((*wrote)[d])];
    if (!is_zero(v->dom->min) || !a.can_prove_equal(v->dom->extent, b->shape[d]))
      s.refuse("T0740", producer.id,
               fmt::format("iterator '{}' does not run over the whole dimension {} of '{}'", v->var->name, d,
                           b->name));
  }
  if (s.guarded.count(block->name))
    s.refuse("T0742", id, "the program itself restricts the block by a predicate");
  // What else the consumer reads no block makes (T0737), so it is ready at the producer.
  const Buffer buffer = b;
  const PrimExpr produced = made->value;
  PrimExpr value = rewrite_any(substitute(store->value, map), [&](const ObjectRef& n) -> ObjectRef {
                     const auto* l = n.as<BufferLoad>();
                     return l && l->buffer.same_as(buffer) ? ObjectRef(produced) : ObjectRef();
                   }).cast<PrimExprNode>();
  Array<PrimExpr> indices = store->indices.map([&](const PrimExpr& e) { return substitute(e, map); });
  Stmt merged = tir::store(store->buffer, value, indices);
  const std::string producer_name = p->name;
  Stmt body = edit_blocks(s, scope_id, whole_nest(s, id), [&](const Ref<Block>& c) -> Ref<Block> {
    if (c->name != producer_name) return {};
    Ref<Block> copy = c;
    copy.edit()->body = merged;
    return with_regions(copy);
  });
  s.replace_body(scope_id, body, without(s.block(scope_id)->alloc_buffers, buffer));
}

const Define<&Schedule::compute_inline, compute_inline> compute_inline_record{
    {.name = "compute_inline",
     .does = "a block's value is written into its consumers, the block goes",
     .legal = "the block is element-wise, stores one value per element of a buffer that the program "
              "allocates, and some block reads it",
     .parameters = {{"block", "to inline"}},
     .sample = {samples::transpose, R"(
c = sch.get_block("C")
sch.compute_inline(c)
)"}}};
const Define<&Schedule::reverse_compute_inline, reverse_compute_inline> reverse_compute_inline_record{
    {.name = "reverse_compute_inline",
     .does = "a block's value is written into its producer, the block goes",
     .legal = "the block and its only producer are element-wise, and it alone reads all that the producer "
              "makes, at its own index",
     .parameters = {{"block", "to inline"}},
     .sample = {samples::transpose, R"(
d = sch.get_block("D")
sch.reverse_compute_inline(d)
)"}}};

}  // namespace tenon::sched
