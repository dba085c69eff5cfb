// SPDX-License-Identifier: Apache-2.0
// What kind of block a block is, and which regions it touches seen from a loop: the facts that legality
// checks ask for.
#include <fmt/format.h>

#include "ir/find_node.h"
#include "ir/intrinsic.h"
#include "ir/structural.h"
#include "schedule/state.h"

namespace tenon::sched {

using namespace tir;

bool uses(const ObjectRef& e, const Var* v) { return mentions(e, v); }
bool uses_any(const ObjectRef& e, const std::unordered_set<const Var*>& vars) {
  return mentions_any(e, vars);
}

bool is_complete(const Ref<Block>& b) {
  if (b->init) return false;
  for (const IterVar& v : b->iter_vars)
    if (v->kind != IterKind::spatial) return false;
  for (const BufferRegion& w : b->writes)
    for (const BufferRegion& r : b->reads)
      if (r->buffer.same_as(w->buffer)) return false;
  return true;
}

bool is_reduction(const Ref<Block>& b) {
  if (!b->init) return false;
  std::unordered_set<const Var*> reduce;
  for (const IterVar& v : b->iter_vars) {
    if (v->kind == IterKind::reduce)
      reduce.insert(v->var.get());
    else if (v->kind != IterKind::spatial)
      return false;
  }
  for (const BufferRegion& w : b->writes) {
    if (uses_any(w->region, reduce)) return false;
    for (const BufferRegion& r : b->reads)
      if (r->buffer.same_as(w->buffer) && !structural_equal(r->region, w->region)) return false;
  }
  return true;
}

bool reads_own_elements(const State& s, int32_t id, const std::vector<int32_t>& loops) {
  const Ref<BlockRealize> r = s.realize(id);
  VarMap values;
  for (size_t i = 0; i < r->iter_values.size(); ++i)
    values[r->block->iter_vars[i]->var.get()] = r->iter_values[i];
  std::vector<std::unordered_set<const Var*>> within;
  for (int32_t l : s.loops_between(id, s.parent(loops[0]))) within.push_back({s.loop(l)->loop_var.get()});
  for (const BufferRegion& w : r->block->writes)
    for (const BufferRegion& x : r->block->reads) {
      if (!x->buffer.same_as(w->buffer)) continue;
      std::unordered_set<const Var*> decided;
      for (int32_t l : loops) decided.insert(s.loop(l)->loop_var.get());
      std::vector<char> counts(w->region.size());
      for (bool grows = true; grows;) {
        grows = false;
        for (size_t d = 0; d < counts.size(); ++d) {
          const PrimExpr place = substitute(w->region[d]->min, values);
          if (counts[d] || !uses_any(place, decided)) continue;
          counts[d] = grows = true;
          for (const auto& variable : within)
            if (uses_any(place, variable)) decided.insert(variable.begin(), variable.end());
        }
      }
      for (size_t d = 0; d < counts.size(); ++d)
        if (counts[d] && !structural_equal(w->region[d], x->region[d])) return false;
    }
  return true;
}

bool steps_lie_outside(const State& s, int32_t id, const std::vector<int32_t>& loops) {
  Ref<BlockRealize> r = s.realize(id);
  std::unordered_set<const Var*> moving;
  for (size_t i = 0; i < r->iter_values.size(); ++i) {
    const IterVar& v = r->block->iter_vars[i];
    if (v->kind != IterKind::scan) {
      moving.insert(v->var.get());
      continue;
    }
    for (int32_t l : loops)
      if (uses(r->iter_values[i], s.loop(l)->loop_var.get())) return false;
  }
  Analyzer a = s.analyzer();
  bind_loops(s, a, id);
  for (const IterVar& v : r->block->iter_vars) a.bind(v->var, v->dom, true);
  for (const BufferRegion& w : r->block->writes)
    for (const BufferRegion& x : r->block->reads) {
      if (!x->buffer.same_as(w->buffer)) continue;
      bool own = structural_equal(x->region, w->region);  // the accumulator of a reduction
      for (size_t d = 0; d < w->region.size() && !own; ++d) {
        const Range &made = w->region[d], &read = x->region[d];
        own = !uses_any(made->min, moving) && !uses_any(read->min, moving) &&
              (a.can_prove(le(read->min + read->extent, made->min)) ||
               a.can_prove(le(made->min + made->extent, read->min)));
      }
      if (!own) return false;
    }
  return true;
}

bool is_parameter(const State& s, const Buffer& b) {
  for (auto [p, buffer] : s.function->buffer_map)
    if (buffer.same_as(b)) return true;
  return false;
}

bool surely_writes(const State& s, const Leaf& leaf, const Buffer& b) {
  const Ref<Block>& block = leaf.realize->block;
  if (!is_const_int(leaf.realize->predicate, 1) && s.guarded.count(block->name)) return false;
  if (!block->match_buffers.empty()) return true;  // what is declared is what an intrinsic does
  std::vector<Stmt> stack{block->body, block->init};
  while (!stack.empty()) {
    const Stmt t = stack.back();
    stack.pop_back();
    if (!t || t.is<IfThenElse>() || t.is<While>()) continue;
    if (const auto* store = t.as<BufferStore>()) {
      if (store->buffer.same_as(b) && !store->predicate) return true;
    } else if (const auto* inner = t.as<BlockRealize>()) {
      if (!inner->block->match_buffers.empty()) return true;
      stack.push_back(inner->block->body);
      stack.push_back(inner->block->init);
    } else {
      for (const ObjectRef& c : tenon::children(t))
        if (c.is<StmtNode>()) stack.push_back(c.cast<StmtNode>());
    }
  }
  return false;
}

Buffer region_buffer(const State& s, int32_t id, int index, bool of_write) {
  const Ref<Block> block = s.block(id);
  const Array<BufferRegion>& regions = of_write ? block->writes : block->reads;
  if (index < 0 || size_t(index) >= regions.size())
    s.refuse("T0771", id,
             fmt::format("it has {} {} regions, there is no number {}", regions.size(),
                         of_write ? "write" : "read", index));
  return regions[size_t(index)]->buffer;
}
int32_t owner_of(const State& s, int32_t id, const Buffer& b) {
  for (int32_t p = s.parent(id); p >= 0; p = s.parent(p))
    if (s.is_block(p))
      for (const Buffer& x : s.block(p)->alloc_buffers)
        if (x.same_as(b)) return p;
  return -1;
}

bool lives_outside(const State& s, int32_t id, const Buffer& b) {
  const int32_t scope = s.scope_of(id);
  return s.parent(scope) >= 0 && owner_of(s, id, b) != scope;
}
void require_owned(const State& s, int32_t id, const Buffer& b) {
  if (lives_outside(s, id, b))
    s.refuse(
        "T0759", id,
        fmt::format("'{}' lives outside {}, where others may use it", b->name, s.describe(s.scope_of(id))),
        "do this before blockize");
}
void require_root_scope(const State& s, int32_t id) {
  const int32_t scope = s.scope_of(id);
  if (s.parent(scope) >= 0 && !s.open.count(s.block(scope)->name))
    s.refuse("T0759", id,
             fmt::format("it lies inside {}, whose regions would no longer be right", s.describe(scope)),
             "do this before blockize");
}

bool has_effects(const ObjectRef& body) {
  return any_node(body, [](const ObjectRef& n) {
    const auto* c = n.as<Call>();
    const Intrinsic* i = c ? find_intrinsic(c->op) : nullptr;
    return c && (!i || !i->pure || c->op == "tir.address_of");
  });
}

namespace {
/// Regions stated by hand take the place of those that were found, where their iterators still exist.
void keep_stated(const Ref<Block>& before, bool of_write, const std::string& key, Block* e) {
  const auto list = before->annotations.find(key);
  if (!list) return;
  Array<BufferRegion>& regions = of_write ? e->writes : e->reads;
  Array<Any> kept;
  for (const Any& x : list->as<Array<Any>>()) {
    const Array<BufferRegion>& old = of_write ? before->writes : before->reads;
    const int at = x.as<int>();
    if (at < 0 || size_t(at) >= old.size()) continue;
    for (size_t i = 0; i < regions.size(); ++i) {
      if (!regions[i]->buffer.same_as(old[size_t(at)]->buffer)) continue;
      bool known = true;
      for (const VarRef& v : free_vars(old[size_t(at)]->region)) {
        bool own = uses(regions[i], v.get());
        for (const IterVar& y : e->iter_vars) own = own || y->var.same_as(v);
        known = known && own;
      }
      if (!known) continue;
      regions.set(i, old[size_t(at)]);
      kept.push_back(Any(int64_t(i)));
    }
  }
  if (kept.empty())
    e->annotations.erase(key);
  else
    e->annotations.set(key, Any(kept));
}
}  // namespace

Ref<Block> with_regions(Ref<Block> b) {
  const Ref<Block> before = b;
  if (!b->match_buffers.empty())
    return b;  // only what is declared says which of them are read, which written
  AccessRegions access = detect_access_regions(b);
  Block* e = b.edit();
  e->writes = access.writes;
  e->reads = Array<BufferRegion>();
  for (const BufferRegion& r : access.reads) {
    bool own = false;  // a reduction's accumulator is no input while the block has its init
    if (e->init)
      for (const BufferRegion& w : access.writes) own = own || w->buffer.same_as(r->buffer);
    if (!own) e->reads.push_back(r);
  }
  keep_stated(before, false, explicit_read_key, e);
  keep_stated(before, true, explicit_write_key, e);
  return b;
}

std::vector<Array<PrimExpr>> load_indices(const ObjectRef& body, const Buffer& b) {
  std::vector<Array<PrimExpr>> out;
  pre_order(body, [&](const ObjectRef& n) {
    if (const auto* l = n.as<BufferLoad>())
      if (l->buffer.same_as(b)) out.push_back(l->indices);
    return !n.is<BufferNode>();
  });
  return out;
}

const BufferStore* only_store(const Ref<Block>& b) {
  const auto* s = b->body.as<BufferStore>();
  return s && !s->predicate && b->match_buffers.empty() && b->alloc_buffers.empty() ? s : nullptr;
}

bool plainly_used(const ObjectRef& body, const Buffer& b) {
  bool plain = true;
  pre_order(body, [&](const ObjectRef& n) {
    if (const auto* l = n.as<BufferLoad>())
      plain = plain && !(l->buffer.same_as(b) && l->predicate);
    else if (const auto* s = n.as<BufferStore>())
      plain = plain && !(s->buffer.same_as(b) && s->predicate);
    else if (const auto* m = n.as<MatchBufferRegionNode>())
      plain = plain && !m->source->buffer.same_as(b);
    else if (const auto* c = n.as<Call>())
      plain = plain && !(c->op == "tir.address_of" && c->args[0].is<BufferLoad>() &&
                         c->args[0].as<BufferLoad>()->buffer.same_as(b));
    else if (n.get() == b->data.get())
      plain = false;
    return plain && !n.is<BufferNode>();
  });
  return plain;
}

std::optional<std::vector<int>> trivial_indices(const Array<PrimExpr>& indices, const Array<IterVar>& iters,
                                                const Buffer& b) {
  std::vector<int> out;
  std::vector<bool> used(iters.size());
  for (size_t d = 0; d < indices.size(); ++d) {
    if (is_zero(indices[d]) && is_one(b->shape[d])) {
      out.push_back(-1);
      continue;
    }
    int at = -1;
    for (size_t i = 0; i < iters.size(); ++i)
      if (iters[i]->var.get() == indices[d].get()) at = int(i);
    if (at < 0 || used[size_t(at)]) return std::nullopt;
    used[size_t(at)] = true;
    out.push_back(at);
  }
  return out;
}

LoopRole role_of(const Ref<BlockRealize>& r, const Var* loop) {
  bool spatial = false, reduce = false;
  for (size_t i = 0; i < r->iter_values.size(); ++i)
    if (uses(r->iter_values[i], loop))
      (r->block->iter_vars[i]->kind == IterKind::spatial ? spatial : reduce) = true;
  return spatial && reduce ? LoopRole::mixed
         : spatial         ? LoopRole::spatial
         : reduce          ? LoopRole::reduce
                           : LoopRole::unused;
}

/// Sizes by which an extent is multiplied: where it is at least 1, each of them is.
static void for_factors(const PrimExpr& extent, FunctionRef<void(const Var*)> f) {
  if (const auto* v = extent.as<Var>()) f(v);
  if (const auto* m = extent.as<Mul>()) for_factors(m->a, f), for_factors(m->b, f);
}

void bind_loops(const State& s, Analyzer& a, int32_t id) {
  std::unordered_set<const Var*> sizes;
  for (auto [p, b] : s.function->buffer_map)
    for (const PrimExpr& d : b->shape)
      if (const auto* v = d.as<Var>()) sizes.insert(v), a.assume_size(VarRef(v));
  // Sizes may be 0, where a loop of few iterations has none; but what is inside of loops runs only where they
  // have some.
  const auto runs = [&](const PrimExpr& extent) {
    for_factors(extent, [&](const Var* v) {
      if (sizes.count(v)) a.assume_size(VarRef(v), 1);
    });
  };
  // Outer ranges are known before inner ones.
  std::vector<const Entry*> path;
  for (int32_t p = id; p >= 0; p = s.parent(p)) path.push_back(&s.entries[size_t(p)]);
  for (size_t i = path.size(); i-- > 0;) {
    if (const auto* l = path[i]->node.as<For>()) {
      runs(l->extent);
      a.bind(l->loop_var, range(l->min, l->extent), true);
    } else if (path[i] != path.front() || !s.is_block(id)) {
      for (const IterVar& v : path[i]->node.as<BlockRealize>()->block->iter_vars) {
        runs(v->dom->extent);
        a.bind(v->var, v->dom, true);
      }
    }
  }
}

Array<Range> window_below(const State& s, const Leaf& leaf, const BufferRegion& region, int32_t above,
                          Analyzer& a) {
  VarMap values;
  for (size_t i = 0; i < leaf.realize->iter_values.size(); ++i)
    values[leaf.realize->block->iter_vars[i]->var.get()] = leaf.realize->iter_values[i];
  Array<Range> ranges;
  for (const Range& r : region->region)
    ranges.push_back(
        range(a.simplify(substitute(r->min, values)), a.simplify(substitute(r->extent, values))));
  std::unordered_map<const Var*, Range> domain;
  for (int32_t l : s.loops_between(leaf.id, above)) {
    Ref<For> loop = s.loop(l);
    domain[loop->loop_var.get()] = range(loop->min, loop->extent);
  }
  const BufferRegion at = make<BufferRegionNode>(region->buffer, ranges);
  return (domain.empty() ? at : union_regions({at}, domain, a))->region;
}

/// Does the predicate cut off nothing but runs outside of the iterators' domains? Splits of splits leave
/// conditions that cut off runs inside of them, which other loops make.
static bool cuts_off_outside(const State& s, const Leaf& leaf) {
  const Ref<BlockRealize>& r = leaf.realize;
  Analyzer a = s.analyzer();
  bind_loops(s, a, leaf.id);
  std::vector<Analyzer::Scope> inside;
  for (size_t i = 0; i < r->iter_values.size(); ++i) {
    const Range& dom = r->block->iter_vars[i]->dom;
    inside.push_back(a.assume(lt(r->iter_values[i], dom->min + dom->extent)));
  }
  const bool holds =
      std::ranges::all_of(conjuncts(r->predicate), [&](const PrimExpr& c) { return a.can_prove(c); });
  while (!inside.empty()) inside.pop_back();
  return holds;
}

bool makes_box(State& s, const Leaf& leaf, const BufferRegion& region, int32_t above, Analyzer& a) {
  const Ref<Block>& block = leaf.realize->block;
  if (s.guarded.count(block->name) || !surely_writes(s, leaf, region->buffer) || !writes_apart(s, block))
    return false;
  const std::vector<int32_t> below = s.loops_between(leaf.id, above);
  PrimExpr instances = PrimExpr(1), elements = PrimExpr(1);
  for (int32_t l : below) {
    const LoopRole role = role_of(leaf.realize, s.loop(l)->loop_var.get());
    if (role == LoopRole::mixed) return false;
    if (role == LoopRole::spatial) instances = instances * s.loop(l)->extent;
  }
  for (const Range& x : region->region) instances = instances * x->extent;
  for (const Range& x : window_below(s, leaf, region, above, a)) elements = elements * x->extent;
  if (!s.binding(leaf.id, below).injective || !a.can_prove_equal(instances, elements)) return false;
  if (is_const_int(leaf.realize->predicate, 1)) return true;
  if (!cuts_off_outside(s, leaf)) return false;
  // What lies outside the iterators' domains must lie behind the buffer's end.
  Array<PrimExpr> mins;
  for (const Range& x : region->region) {
    if (!is_one(x->extent)) return false;
    mins.push_back(x->min);
  }
  const auto positions = trivial_indices(mins, block->iter_vars, region->buffer);
  if (!positions) return false;
  for (size_t d = 0; d < positions->size(); ++d) {
    if ((*positions)[d] < 0) continue;
    const Range& dom = block->iter_vars[size_t((*positions)[d])]->dom;
    if (!is_zero(dom->min) || !a.can_prove_equal(dom->extent, region->buffer->shape[d])) return false;
  }
  return true;
}

BufferRegion region_below(const State& s, const Leaf& leaf, const BufferRegion& region, int32_t above,
                          Analyzer& a) {
  // Nothing outside the buffer is touched: masks and guards see to that.
  Array<Range> inside;
  const Array<Range> window = window_below(s, leaf, region, above, a);
  for (size_t d = 0; d < window.size(); ++d) {
    PrimExpr lo = window[d]->min, extent = window[d]->extent;
    const PrimExpr size = region->buffer->shape[d];
    if (!a.can_prove(ge(lo, PrimExpr(0)))) {
      extent = a.simplify(min(extent, lo + extent));
      lo = a.simplify(max(lo, PrimExpr(0)));
    }
    if (!a.can_prove(le(lo + extent, size))) extent = a.simplify(min(extent, size - lo));
    inside.push_back(range(lo, extent));
  }
  return make<BufferRegionNode>(region->buffer, inside);
}

}  // namespace tenon::sched
