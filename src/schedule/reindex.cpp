// SPDX-License-Identifier: Apache-2.0
// Copies laid out by a block's iterators: reindex, reindex_cache_read, reindex_cache_write; and cache_index,
// which computes a block's indices before it.
#include <fmt/format.h>

#include "ir/find_node.h"
#include "ir/structural.h"
#include "schedule/cache_impl.h"
#include "schedule/define.h"

namespace tenon::sched {

using namespace tir;

namespace {

/// The one index at which the block uses `b`, in body and init.
Array<PrimExpr> only_index(const State& s, int32_t id, const Buffer& b, bool of_write) {
  const Ref<Block> block = s.block(id);
  std::vector<Array<PrimExpr>> found;
  auto meet = [&](const Array<PrimExpr>& at) {
    for (const Array<PrimExpr>& x : found)
      if (structural_equal(x, at)) return;
    found.push_back(at);
  };
  for (const Stmt& t : {block->body, block->init})
    if (t)
      pre_order(t, [&](const ObjectRef& n) {
        if (const auto* l = n.as<BufferLoad>(); l && l->buffer.same_as(b)) meet(l->indices);
        if (const auto* w = n.as<BufferStore>(); w && w->buffer.same_as(b)) meet(w->indices);
        return !n.is<BufferNode>();
      });
  if (found.size() != 1)
    s.refuse("T0776", id,
             fmt::format("it {} '{}' at {} places", of_write ? "writes" : "reads", b->name, found.size()),
             "a buffer that is used at one place can be laid out by iterators");
  return found[0];
}

}  // namespace

static int32_t reindex_cache(State& s, int32_t id, int index, bool of_write, const std::string& scope,
                             const IndexMap& map) {
  const Ref<BlockRealize> r = s.realize(id);
  const Ref<Block> block = r->block;
  const int32_t scope_id = s.scope_of(id);
  require_root_scope(s, id);
  require_memory(s, id, scope);
  const Buffer b = region_buffer(s, id, index, of_write);
  for (const BufferRegion& w : of_write ? block->reads : block->writes)
    if (w->buffer.same_as(b))
      s.refuse("T0772", id, fmt::format("it both reads and writes '{}'", b->name), "use cache_inplace");
  if (!plainly_used(r, b))
    s.refuse("T0736", id, fmt::format("it uses '{}' through a mask, a matched region or a pointer", b->name));
  if (s.guarded.count(block->name))
    s.refuse("T0742", id, "the program itself restricts the block by a predicate");
  if (of_write && !is_complete(block) && !is_reduction(block))
    s.refuse("T0752", id, "it is neither complete nor a reduction with its init",
             "use it before decompose_reduction");
  const auto all = s.scope(scope_id);
  const int at = all->find(id);
  const int32_t nest = outermost(s, id);
  auto inside = [&](int x) { return s.inside(all->leaves[size_t(x)].id, nest); };
  if (of_write) {
    require_owned(s, id, b);
    if (all->writers(b).size() != 1)
      s.refuse("T0733", id, fmt::format("'{}' is written by other blocks too", b->name),
               "use it before decompose_reduction");
    for (int x : all->readers(b))
      if (all->leaves[size_t(x)].id != id && (x < at || inside(x)))
        s.refuse("T0773", id,
                 fmt::format("'{}' is read by {} inside the same loops", b->name,
                             s.describe(all->leaves[size_t(x)].id)),
                 "use it before reverse_compute_at");
    if (!writes_apart(s, block))
      s.refuse("T0774", id,
               fmt::format("it does not write each element of '{}' at an index of its own", b->name));
  } else {
    for (int w : all->writers(b))
      if (w > at || inside(w))
        s.refuse("T0773", id,
                 fmt::format("'{}' is written by {} inside the same loops", b->name,
                             s.describe(all->leaves[size_t(w)].id)),
                 "use it before compute_at");
  }
  const Array<PrimExpr> where = only_index(s, id, b, of_write);
  const bool reads_memory = std::any_of(
      where.begin(), where.end(), [](const PrimExpr& e) { return has_node<BufferLoad>(e, not_in_buffers); });
  if (reads_memory)
    s.refuse("T0776", id, fmt::format("the index of '{}' reads memory", b->name),
             "reindex takes gathered reads");
  // The map speaks of the block's iterators; those it uses are the copy's.
  const size_t n = block->iter_vars.size();
  if (map->inputs.size() != n)
    s.refuse(
        "T0778", id,
        fmt::format("the index map takes {} indices, the block has {} iterators", map->inputs.size(), n));
  if (map->outputs.empty()) s.refuse("T0778", id, "the index map gives no index");
  const bool in_init = any_node(block->init, not_in_buffers, [&](const ObjectRef& n) {
    const auto* l = n.as<BufferLoad>();
    return l && l->buffer.same_as(b);
  });
  Array<VarRef> inputs;
  Array<PrimExpr> extents;
  Array<IterVar> iters;
  VarMap to_copy, to_block;
  for (size_t i = 0; i < n; ++i) {
    const IterVar& v = block->iter_vars[i];
    to_block[map->inputs[i].get()] = v->var;
    const bool mapped = [&] {
      for (const PrimExpr& e : map->outputs)
        if (uses(e, map->inputs[i].get())) return true;
      return false;
    }();
    bool needed = false;
    for (const PrimExpr& e : where) needed = needed || uses(e, v->var.get());
    const bool one = is_one(v->dom->extent) && is_zero(v->dom->min);
    if (of_write && v->kind == IterKind::spatial && !one) needed = true;
    if (!mapped) {
      if (needed && !one)
        s.refuse("T0778", id,
                 fmt::format("{} does not use iterator '{}', which tells elements of '{}' apart",
                             to_text(map), v->var->name, b->name));
      to_copy[v->var.get()] = v->dom->min;
      continue;
    }
    if (!is_zero(v->dom->min))
      s.refuse("T0776", id, fmt::format("iterator '{}' does not start at 0", v->var->name));
    if (of_write && v->kind != IterKind::spatial)
      s.refuse("T0778", id,
               fmt::format("{} uses the reduction iterator '{}', over which a result does not vary",
                           to_text(map), v->var->name));
    if (in_init && v->kind == IterKind::reduce)
      s.refuse("T0778", id,
               fmt::format(
                   "{} uses the reduction iterator '{}', and the first value, which reads '{}', knows none",
                   to_text(map), v->var->name, b->name),
               "map the spatial iterators, or decompose_reduction first");
    IterVar copy = iter_var(v->dom, fmt::format("v{}", iters.size()));
    to_copy[v->var.get()] = copy->var;
    inputs.push_back(map->inputs[i]);
    extents.push_back(v->dom->extent);
    iters.push_back(copy);
  }
  Analyzer a = s.analyzer();
  bind_loops(s, a, scope_id);
  for (const IterVar& v : block->iter_vars) a.bind(v->var, v->dom, true);
  for (const IterVar& v : iters) a.bind(v->var, v->dom, true);
  const IndexMap used = make<IndexMapNode>(inputs, map->outputs);
  std::unordered_set<const Var*> known;
  for (const VarRef& v : map->inputs) known.insert(v.get());
  for (const VarRef& p : s.function->params) known.insert(p.get());
  for (auto [p, x] : s.function->buffer_map)
    for (const PrimExpr& d : x->shape)
      for (const VarRef& v : free_vars(d)) known.insert(v.get());
  for (const VarRef& v : free_vars(map->outputs))
    if (!known.count(v.get()))
      s.refuse("T0778", id,
               fmt::format("{} uses '{}', which is neither an input of the map nor a size", to_text(map),
                           v->name));
  const auto inverse = inputs.empty() ? std::nullopt : invert(used, extents, a);
  const auto shape = inverse ? map_shape(used, extents, a) : std::nullopt;
  if (!inverse || !shape)
    s.refuse("T0778", id,
             fmt::format("{} does not provably give each step of the block a place of its own", to_text(map)),
             "outputs are sums of digits (i // c, i % c, i * c + j) in which every iterator is found again");
  for (size_t d = 0; d < where.size(); ++d)
    if (!a.can_prove(ge(where[d], PrimExpr(0))) || !a.can_prove(lt(where[d], b->shape[d])))
      s.refuse("T0776", id,
               fmt::format("it may touch what lies outside '{}', where a copy must not", b->name));
  const Buffer copy =
      buffer(fmt::format("{}_{}", b->name, scope == "global" ? "reindex" : scope), *shape, b->dtype, scope);
  VarMap map_to_copy;
  for (size_t i = 0; i < inputs.size(); ++i) map_to_copy[inputs[i].get()] = iters[i]->var;
  Array<PrimExpr> at_copy, at_block, at_buffer;
  for (const PrimExpr& e : map->outputs) {
    at_copy.push_back(a.simplify(substitute(e, map_to_copy)));
    at_block.push_back(a.simplify(substitute(e, to_block)));
  }
  for (const PrimExpr& e : where) at_buffer.push_back(substitute(e, to_copy));
  const std::string name = s.fresh_block_name(copy->name);
  const Stmt moved = nest_of(
      iters, of_write ? store(b, load(copy, at_copy), at_buffer) : store(copy, load(b, at_buffer), at_copy),
      name);
  auto changed = [&](const Stmt& t) -> Stmt {
    if (!t) return t;
    return rewrite_any(
               t,
               [&](const ObjectRef& x) -> ObjectRef {
                 if (const auto* l = x.as<BufferLoad>(); l && l->buffer.same_as(b))
                   return load(copy, at_block);
                 if (const auto* w = x.as<BufferStore>(); w && w->buffer.same_as(b))
                   return store(copy, w->value, at_block);
                 return {};
               },
               [](const ObjectRef& x) { return x.is<BufferNode>(); })
        .cast<StmtNode>();
  };
  Ref<Block> next = block;
  {
    Block* e = next.edit();
    e->body = changed(block->body);
    e->init = changed(block->init);
  }
  Ref<BlockRealize> realize = r;
  realize.edit()->block = with_regions(next);
  const Stmt body =
      place(s.block(scope_id)->body, r.get(), realize, of_write ? Stmt() : moved, of_write ? moved : Stmt());
  Array<Buffer> allocs = s.block(scope_id)->alloc_buffers;
  allocs.push_back(copy);
  s.replace_body(scope_id, body, allocs);
  return s.names.at(name);
}

static int32_t reindex_write(State& s, int32_t id, int write_index) {
  const Ref<Block> block = s.block(id);
  Array<VarRef> inputs;
  Array<PrimExpr> outputs;
  for (const IterVar& v : block->iter_vars) {
    inputs.push_back(var(v->var->name, v->var->dtype));
    if (v->kind == IterKind::spatial) outputs.push_back(inputs[inputs.size() - 1]);
  }
  return reindex_cache(s, id, write_index, true, "global", make<IndexMapNode>(inputs, outputs));
}

static int32_t reindex_read(State& s, int32_t id, int read_index) {
  Ref<BlockRealize> r = s.realize(id);
  Ref<Block> block = r->block;
  const int32_t scope_id = s.scope_of(id);
  require_root_scope(s, id);
  if (read_index < 0 || size_t(read_index) >= block->reads.size())
    s.refuse("T0771", id,
             fmt::format("it has {} read regions, there is no number {}", block->reads.size(), read_index));
  const BufferRegion region = block->reads[size_t(read_index)];
  const Buffer b = region->buffer;
  for (const BufferRegion& w : block->writes)
    if (w->buffer.same_as(b)) s.refuse("T0772", id, fmt::format("it also writes '{}'", b->name));
  if (!plainly_used(r, b))
    s.refuse("T0736", id,
             fmt::format("it reads '{}' through a mask, a matched region or a pointer", b->name));
  if (s.guarded.count(block->name))
    s.refuse("T0742", id, "the program itself restricts the block by a predicate");
  std::vector<Array<PrimExpr>> loads = load_indices(block->body, b);
  if (loads.size() != 1)
    s.refuse("T0776", id, fmt::format("it reads '{}' at {} places", b->name, loads.size()),
             "reindex takes a buffer that is read at one place");
  auto all = s.scope(scope_id);
  const int at = all->find(id);
  for (int w : all->writers(b))
    if (w > at || s.inside(all->leaves[size_t(w)].id, outermost(s, id)))
      s.refuse("T0773", id,
               fmt::format("'{}' is written by {} inside the same loops", b->name,
                           s.describe(all->leaves[size_t(w)].id)),
               "use reindex before compute_at");
  // What the index itself reads moves along.
  for (const PrimExpr& e : loads[0])
    pre_order(e, [&](const ObjectRef& n) {
      const auto* l = n.as<BufferLoad>();
      if (l)
        for (int w : all->writers(l->buffer))
          if (w > at || s.inside(all->leaves[size_t(w)].id, outermost(s, id)))
            s.refuse("T0773", id,
                     fmt::format("the index of '{}' reads '{}', which {} writes inside the same loops",
                                 b->name, l->buffer->name, s.describe(all->leaves[size_t(w)].id)),
                     "use reindex before compute_at");
      return !n.is<BufferNode>();
    });
  // Iterators of the index: those of the reduction first, so that spatial ones are contiguous.
  Array<IterVar> used;
  for (IterKind kind : {IterKind::reduce, IterKind::spatial})
    for (const IterVar& v : block->iter_vars)
      if (v->kind == kind && uses(loads[0], v->var.get())) used.push_back(v);
  for (const IterVar& v : block->iter_vars)
    if (v->kind != IterKind::reduce && v->kind != IterKind::spatial && uses(loads[0], v->var.get()))
      s.refuse("T0713", id,
               fmt::format("the index of '{}' uses iterator '{}', which is neither spatial nor a reduction",
                           b->name, v->var->name));
  Analyzer a = s.analyzer();
  bind_loops(s, a, scope_id);
  for (const IterVar& v : block->iter_vars) a.bind(v->var, v->dom, true);
  for (const PrimExpr& e : loads[0]) {
    bool foreign = false;
    for (const VarRef& v : free_vars(e)) {
      bool own = false;
      for (const IterVar& x : block->iter_vars) own = own || x->var.same_as(v);
      for (int32_t l : s.loops_of(id)) foreign = foreign || (!own && s.loop(l)->loop_var.same_as(v));
    }
    if (foreign)
      s.refuse("T0776", id, fmt::format("the index of '{}' is not made of its iterators", b->name));
  }
  for (size_t d = 0; d < loads[0].size(); ++d)
    if (!a.can_prove(ge(loads[0][d], PrimExpr(0))) || !a.can_prove(lt(loads[0][d], b->shape[d])))
      s.refuse("T0776", id, fmt::format("it may read outside '{}', where a copy must not", b->name));
  Array<PrimExpr> shape, at_block, values, at_copy;
  Array<IterVar> iters;
  VarMap map;
  std::vector<VarRef> loops;
  for (size_t i = 0; i < used.size(); ++i) {
    if (!is_zero(used[i]->dom->min))
      s.refuse("T0776", id, fmt::format("iterator '{}' does not start at 0", used[i]->var->name));
    shape.push_back(used[i]->dom->extent);
    at_block.push_back(used[i]->var);
    VarRef x = var(fmt::format("ax{}", i));
    IterVar v = iter_var(used[i]->dom, fmt::format("v{}", i));
    map[used[i]->var.get()] = v->var;
    iters.push_back(v);
    loops.push_back(x);
    values.push_back(x);
    at_copy.push_back(v->var);
  }
  Buffer copy = buffer(b->name + "_reindex", shape, b->dtype, "global");
  Array<PrimExpr> from = loads[0].map([&](const PrimExpr& e) { return substitute(e, map); });
  const std::string name = s.fresh_block_name(copy->name);
  auto made = make<Block>(iters, Array<BufferRegion>(), Array<BufferRegion>(), name,
                          store(copy, load(b, from), at_copy), Stmt(), Array<Buffer>(),
                          Array<MatchBufferRegion>(), AttrMap());
  Stmt nest = make<BlockRealize>(values, true_(), with_regions(made));
  for (size_t d = loops.size(); d-- > 0;) nest = for_(loops[d], PrimExpr(0), shape[d], nest);
  Ref<Block> changed = block;
  Block* e = changed.edit();
  const ObjectRef body = rewrite_any(
      block->body,
      [&](const ObjectRef& n) -> ObjectRef {
        const auto* l = n.as<BufferLoad>();
        return l && l->buffer.same_as(b) ? ObjectRef(load(copy, at_block)) : ObjectRef();
      },
      [](const ObjectRef& n) { return n.is<BufferNode>(); });
  e->body = Stmt(body.as<StmtNode>());
  Ref<BlockRealize> next = r;
  next.edit()->block = with_regions(changed);
  Stmt whole = place(s.block(scope_id)->body, r.get(), next, nest, Stmt());
  Array<Buffer> allocs = s.block(scope_id)->alloc_buffers;
  allocs.push_back(copy);
  s.replace_body(scope_id, whole, allocs);
  return s.names.at(name);
}

static int32_t reindex(State& s, int32_t id, std::optional<int> read_index, std::optional<int> write_index) {
  if (read_index.has_value() == write_index.has_value())
    s.refuse("T0771", id, "one region is needed, of those that it reads or of those that it writes",
             "give either read_index or write_index");
  return read_index ? reindex_read(s, id, *read_index) : reindex_write(s, id, *write_index);
}

static std::vector<int32_t> cache_index(State& s, int32_t id, const std::string& scope, int threshold) {
  const Ref<BlockRealize> r = s.realize(id);
  const Ref<Block> block = r->block;
  const int32_t scope_id = s.scope_of(id);
  require_root_scope(s, id);
  require_memory(s, id, scope);
  if (!block->match_buffers.empty() || has_effects(block->body))
    s.refuse("T0731", id, "its body has effects, matches regions or takes an address");
  std::unordered_set<const Var*> own;
  for (const IterVar& v : block->iter_vars) own.insert(v->var.get());
  std::unordered_set<const Var*> around;  // of loops: a buffer before them cannot follow
  for (int32_t l : s.loops_of(id)) around.insert(s.loop(l)->loop_var.get());
  auto worth = [&](const PrimExpr& e) {
    if (e.is<Var>() || e.is<IntImm>() || !e.dtype().is_integer() || e.dtype().lanes != 1) return false;
    if (!uses_any(e, own) || uses_any(e, around)) return false;
    bool plain = true;
    std::unordered_set<const Var*> bound;
    pre_order(e, [&](const ObjectRef& n) {
      plain = plain && !n.is<BufferLoad>() && !n.is<Call>() && !n.is<Let>();
      return plain;
    });
    for (const VarRef& v : free_vars(e))  // lets of the body are not known outside
      if (!own.count(v.get()) && v->dtype.is_handle()) plain = false;
    return plain;
  };
  std::unordered_set<const Object*> defined;  // by lets inside the body
  pre_order(block->body, [&](const ObjectRef& n) {
    if (const auto* l = n.as<LetStmt>()) defined.insert(l->var.get());
    if (const auto* l = n.as<Let>()) defined.insert(l->var.get());
    if (const auto* l = n.as<For>()) defined.insert(l->loop_var.get());
    if (const auto* x = n.as<Block>())
      for (const IterVar& v : x->iter_vars) defined.insert(v->var.get());
    return true;
  });
  auto outer_only = [&](const PrimExpr& e) {
    for (const VarRef& v : free_vars(e))
      if (defined.count(v.get())) return false;
    return true;
  };
  // Every expression inside an index of a load, and how often it is there.
  std::vector<std::pair<PrimExpr, int>> seen;
  std::vector<PrimExpr> indices;
  pre_order(block->body, [&](const ObjectRef& n) {
    if (const auto* l = n.as<BufferLoad>())
      for (const PrimExpr& e : l->indices) {
        indices.push_back(e);
        struct Count {
          std::vector<std::pair<PrimExpr, int>>& seen;
          void run(const ObjectRef& o, FunctionRef<bool(const PrimExpr&)> good, int depth) {
            if (!o.is<PrimExprNode>() || o.is<BufferLoad>() || depth > 100) return;
            const PrimExpr x(o.cast<PrimExprNode>());
            if (good(x)) {
              bool found = false;
              for (auto& [y, n2] : seen)
                if (structural_equal(x, y)) found = true, ++n2;
              if (!found) seen.emplace_back(x, 1);
            }
            for (const ObjectRef& c : tenon::children(o)) run(c, good, depth + 1);
          }
        };
        auto good = [&](const PrimExpr& x) { return worth(x) && outer_only(x); };
        Count{seen}.run(e, good, 0);
      }
    return !n.is<BufferNode>();
  });
  auto often = [&](const PrimExpr& e) {
    for (auto& [x, count] : seen)
      if (structural_equal(x, e)) return count > threshold;
    return false;
  };
  struct Cached {
    PrimExpr value;
    Buffer buffer;
    Array<PrimExpr> at;
    Stmt nest;
    std::string name;
  };
  std::vector<Cached> cached;
  std::unordered_set<std::string> taken;
  auto cache = [&](const PrimExpr& e) -> PrimExpr {
    for (const Cached& c : cached)
      if (structural_equal(c.value, e)) return load(c.buffer, c.at);
    Cached c{e, {}, {}, {}, {}};
    Array<IterVar> iters;
    Array<PrimExpr> shape, at;
    VarMap to_copy;
    for (const IterVar& v : block->iter_vars) {
      if (!uses(e, v->var.get())) continue;
      if (!is_zero(v->dom->min))
        s.refuse("T0776", id, fmt::format("iterator '{}' does not start at 0", v->var->name));
      IterVar copy = iter_var(v->dom, fmt::format("v{}", iters.size()));
      to_copy[v->var.get()] = copy->var;
      iters.push_back(copy);
      at.push_back(copy->var);
      shape.push_back(v->dom->extent);
      c.at.push_back(v->var);
    }
    const std::string hint = fmt::format("{}_index_{}", block->name, cached.size());
    c.buffer = buffer(hint, shape, e.dtype(), scope);
    c.name = s.fresh_block_name(hint);
    for (int k = 1; !taken.insert(c.name).second; ++k)
      c.name = s.fresh_block_name(fmt::format("{}_{}", hint, k));
    c.nest = nest_of(iters, store(c.buffer, substitute(e, to_copy), at), c.name);
    cached.push_back(c);
    return load(c.buffer, c.at);
  };
  struct Walk {
    FunctionRef<bool(const PrimExpr&)> chosen;
    FunctionRef<PrimExpr(const PrimExpr&)> cache;
    /// Largest expressions first.
    ObjectRef index(const ObjectRef& o, int depth) {
      if (!o.is<PrimExprNode>() || depth > 100) return o;
      const PrimExpr e(o.cast<PrimExprNode>());
      if (o.is<BufferLoad>()) return load_of(o, depth);
      if (chosen(e)) return cache(e);
      return map_children(o,
                          [&](const ObjectRef& c) { return c.is<BufferNode>() ? c : index(c, depth + 1); });
    }
    ObjectRef load_of(const ObjectRef& o, int depth) {
      const auto* l = o.as<BufferLoad>();
      Array<PrimExpr> at;
      for (const PrimExpr& e : l->indices) at.push_back(PrimExpr(index(e, depth + 1).cast<PrimExprNode>()));
      return load(l->buffer, at, l->predicate);
    }
    ObjectRef run(const ObjectRef& o, int depth) {
      CHECK(depth < 1000, "statements nest too deeply");
      if (o.is<BufferLoad>()) return load_of(o, 0);
      return map_children(o, [&](const ObjectRef& c) { return c.is<BufferNode>() ? c : run(c, depth + 1); });
    }
  };
  auto chosen = [&](const PrimExpr& e) { return worth(e) && outer_only(e) && often(e); };
  const Stmt body = Walk{chosen, cache}.run(block->body, 0).cast<StmtNode>();
  if (cached.empty())
    s.refuse("T0796", id,
             threshold > 0
                 ? fmt::format("no part of an index is computed more than {} times", threshold)
                 : std::string("its indices are plain iterators, there is nothing to compute before"));
  Ref<Block> next = block;
  next.edit()->body = body;
  Ref<BlockRealize> realize = r;
  realize.edit()->block = with_regions(next);
  Array<Stmt> before;
  Array<Buffer> allocs = s.block(scope_id)->alloc_buffers;
  for (const Cached& c : cached) {
    before.push_back(c.nest);
    allocs.push_back(c.buffer);
  }
  s.replace_body(scope_id, place(s.block(scope_id)->body, r.get(), realize, seq(before), Stmt()), allocs);
  std::vector<int32_t> out;
  for (const Cached& c : cached) out.push_back(s.names.at(c.name));
  return out;
}

const Define<&Schedule::reindex, reindex> reindex_record{
    {.name = "reindex",
     .reference = "ReIndex",
     .does = "a copy of what a block reads, or writes, is laid out by its iterators (those of the reduction "
             "first): strided and gathered operands become contiguous; the copying block",
     .legal = "the block uses the buffer at one place, inside its bounds, and no loop around it holds a "
              "writer (or reader) of it",
     .parameters = {{"block", "the reader or writer"},
                    {"read_index", "which of its read regions", Any()},
                    {"write_index", "or which of its write regions", Any()}},
     .sample = {samples::windows, R"(
d = sch.get_block("D")
copy = sch.reindex(d, read_index=0)
)"}}};
const Define<&Schedule::reindex_cache_read,
             [](State& s, int32_t block, int index, const std::string& scope, const IndexMap& map) {
               return reindex_cache(s, block, index, false, scope, map);
             }>
    reindex_cache_read_record{
        {.name = "reindex_cache_read",
         .does = "as cache_read, the copy laid out by a map of the block's iterators",
         .legal = "the block uses the buffer at one place that reads no memory, the map keeps elements "
                  "apart, and no loop around it holds a writer of it",
         .parameters = {{"block", "the reader"},
                        {"read_index", "which of its read regions"},
                        {"scope", kCopyMemory},
                        {"index_map", "from all iterators of the block to an index of the copy"}},
         .sample = {samples::transpose, R"(
c = sch.get_block("C")
copy = sch.reindex_cache_read(c, read_index=0, scope="local", index_map=lambda i, j: (j, i))
)"}}};
const Define<&Schedule::reindex_cache_write,
             [](State& s, int32_t block, int index, const std::string& scope, const IndexMap& map) {
               return reindex_cache(s, block, index, true, scope, map);
             }>
    reindex_cache_write_record{
        {.name = "reindex_cache_write",
         .does = "as cache_write, the copy laid out by a map of the block's iterators",
         .legal = "the block alone writes the buffer, each element at one index of its own, the map keeps "
                  "elements apart, and no loop around it holds a reader of it",
         .parameters = {{"block", "the writer"},
                        {"write_index", "which of its write regions"},
                        {"scope", kCopyMemory},
                        {"index_map", "from all iterators of the block to an index of the copy"}},
         .sample = {samples::transpose, R"(
c = sch.get_block("C")
copy = sch.reindex_cache_write(c, write_index=0, scope="local", index_map=lambda i, j: (j, i))
)"}}};
const Define<&Schedule::cache_index, cache_index> cache_index_record{
    {.name = "cache_index",
     .does = "indices that a block computes are computed before it, into buffers; the computing blocks",
     .legal = "a part of an index of what the block reads is more than an iterator",
     .parameters = {{"block", "the reader"},
                    {"scope", "memory of the buffers: global, local, shared, warp, matrix"},
                    {"threshold", "only parts that occur more often than this", 0}},
     .sample = {R"(
@T.prim_func
def main(A: T.Buffer((12,), "float32"), B: T.Buffer((3, 4), "float32")):
    for i, j in T.grid(3, 4):
        with T.block("B"):
            vi, vj = T.axis.remap("SS", [i, j])
            B[vi, vj] = A[vj * 3 + vi]
)",
                R"(
b = sch.get_block("B")
index, = sch.cache_index(b, scope="global")
)"}}};

}  // namespace tenon::sched
