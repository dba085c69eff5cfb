// SPDX-License-Identifier: Apache-2.0
// Primitives on loops: split, fuse, reorder, parallel, vectorize, unroll, add_unit_loop.
#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "schedule/state.h"

namespace tenon::sched {

using namespace tir;

void require_plain(const State& s, int32_t id) {
  Ref<For> l = s.loop(id);
  if (l->kind != ForKind::serial)
    s.refuse("T0710", id, "the loop is already parallel, vectorised or unrolled",
             "change its shape first and choose its kind last");
  if (!l->annotations.empty())
    s.refuse("T0711", id,
             fmt::format("the loop carries the annotation '{}'", (*l->annotations.begin()).first),
             "unannotate it first");
}

namespace {

/// `body` with `loop` variables replaced by expressions and `guard` added to the predicates of the blocks
/// directly below; statements outside blocks are guarded by an if. Bindings are simplified under `analyzer`.
Stmt rebind(const Stmt& body, const VarMap& map, const PrimExpr& guard, Analyzer& analyzer) {
  Stmt mapped = substitute(body, map);
  bool outside = false;  // something below is no block
  Stmt out = rewrite_any(
                 mapped,
                 [&](const ObjectRef& n) -> ObjectRef {
                   if (const auto* l = n.as<For>()) {
                     PrimExpr min = analyzer.simplify(l->min), extent = analyzer.simplify(l->extent);
                     if (min.same_as(l->min) && extent.same_as(l->extent)) return {};
                     Ref<For> copy = n.cast<For>();
                     copy.edit()->min = min;
                     copy.edit()->extent = extent;
                     return copy;
                   }
                   return {};
                 },
                 [&](const ObjectRef& n) {
                   if (n.is<BufferStore>() || n.is<Evaluate>()) outside = true;
                   return !n.is<StmtNode>() || n.is<BlockRealize>();
                 })
                 .cast<StmtNode>();
  // Blocks under inner loops know those loops' ranges too: bind them on the way down.
  struct Walk {
    const PrimExpr& guard;
    Analyzer& analyzer;
    bool outside;
    Stmt run(const Stmt& s, int depth) {
      CHECK(depth < 1000, "statements nest too deeply");
      if (const auto* r = s.as<BlockRealize>()) {
        Ref<BlockRealize> copy = s.cast<BlockRealize>();
        Array<PrimExpr> values;
        for (const PrimExpr& v : r->iter_values) values.push_back(analyzer.simplify(v));
        PrimExpr predicate = analyzer.simplify(r->predicate);
        if (guard && !outside) predicate = logical_and(predicate, guard);
        BlockRealize* e = copy.edit();
        e->iter_values = values;
        e->predicate = predicate;
        return copy;
      }
      if (const auto* l = s.as<For>()) analyzer.bind(l->loop_var, range(l->min, l->extent), true);
      ObjectRef next = map_children(s, [&](const ObjectRef& c) -> ObjectRef {
        return c.is<StmtNode>() ? ObjectRef(run(c.cast<StmtNode>(), depth + 1)) : c;
      });
      return next.cast<StmtNode>();
    }
  };
  out = Walk{guard, analyzer, outside}.run(out, 0);
  if (guard && outside) out = make<IfThenElse>(guard, out, Stmt());
  return out;
}

/// Is `inner` the whole body of `outer`?
bool perfectly_nested(const State& s, int32_t outer, int32_t inner) {
  return s.loop(outer)->body.same_as(s.loop(inner));
}

}  // namespace

void require_independent(State& s, int32_t loop_id, ForKind kind, bool across) {
  const std::string_view what = kind == ForKind::vectorized       ? "vectorised"
                                : kind == ForKind::thread_binding ? "bound to threads"
                                                                  : "parallel";
  Ref<For> loop = s.loop(loop_id);
  const Var* v = loop->loop_var.get();
  std::vector<int32_t> blocks = s.blocks_below(loop_id);
  std::unordered_set<const Object*> inside_loop;
  bool raw = false;
  rewrite_any(
      loop->body, [](const ObjectRef&) { return ObjectRef(); },
      [&](const ObjectRef& n) {
        raw = raw || n.is<BufferStore>() || n.is<While>();
        return !n.is<StmtNode>() || n.is<BlockRealize>();
      });
  if (raw)
    s.refuse(
        "T0712", loop_id,
        fmt::format(
            "the loop holds statements outside blocks, whose independence is unknown, so it cannot be {}",
            what));
  auto scope = s.scope(s.scope_of(loop_id));
  if (is_one(loop->extent)) return;
  for (int32_t b : blocks) {
    Ref<BlockRealize> r = s.realize(b);
    const LoopRole role = role_of(r, v);
    bool once = false;  // the block runs in one iteration only
    for (const PrimExpr& c : conjuncts(r->predicate)) {
      if (const auto* l = c.as<LT>())
        once = once || (role == LoopRole::unused && l->a.get() == v && is_one(l->b) && is_zero(loop->min));
      if (const auto* l = c.as<EQ>())
        once = once || (role == LoopRole::unused && l->a.get() == v && as_int(l->b));
    }
    if (once) continue;
    bool step = false;  // of a scan whose loop lies outside
    for (const IterVar& iter : r->block->iter_vars)
      if (iter->kind == IterKind::scan && steps_lie_outside(s, b, {loop_id}))
        step = true;
      else if (iter->kind != IterKind::spatial && iter->kind != IterKind::reduce)
        s.refuse("T0713", b,
                 fmt::format("iterator '{}' is neither spatial nor a reduction, so loop '{}' cannot be {}",
                             iter->var->name, v->name, what));
    if (across && role == LoopRole::reduce && is_reduction(r->block)) {
      for (const BufferRegion& w : r->block->writes)
        for (int at : scope->readers(w->buffer))
          if (const Leaf& reader = scope->leaves[size_t(at)]; reader.id != b && s.inside(reader.id, loop_id))
            s.refuse("T0714", reader.id,
                     fmt::format("it reads '{}' while the threads of loop '{}' still add to it",
                                 w->buffer->name, v->name),
                     "use what is reduced outside that loop");
      continue;
    }
    if (role == LoopRole::reduce || role == LoopRole::mixed)
      s.refuse("T0714", b,
               fmt::format(
                   "loop '{}' carries a reduction: its iterations add to the same elements and cannot be {}",
                   v->name, what),
               "split off a spatial loop, or rfactor the reduction first");
    const bool reduction = r->block->init || [&] {
      for (const BufferRegion& w : r->block->writes)
        for (const BufferRegion& x : r->block->reads)
          if (x->buffer.same_as(w->buffer)) return true;
      return false;
    }();
    if (!is_complete(r->block) && !reduction && !step)
      s.refuse("T0715", b,
               fmt::format("the block is neither complete nor a reduction, so loop '{}' cannot be {}",
                           v->name, what));
    std::vector<int32_t> loops = s.loops_between(b, s.parent(loop_id));
    if (role == LoopRole::spatial && s.binding(b, loops).injective && writes_apart(r->block)) continue;
    // Iterations that write the same elements are apart only when the buffer lives inside one iteration.
    for (const BufferRegion& w : r->block->writes) {
      bool is_private = !is_parameter(s, w->buffer);
      for (const Leaf& leaf : scope->leaves)
        if ((leaf.reads(w->buffer) || leaf.writes(w->buffer)) && !s.inside(leaf.id, loop_id))
          is_private = false;
      if (!is_private || kind == ForKind::vectorized)
        s.refuse("T0716", b,
                 fmt::format(
                     "different iterations of loop '{}' write the same elements of '{}', so it cannot be {}",
                     v->name, w->buffer->name, what),
                 "compute the block at this loop or inside it, or not under it at all");
    }
  }
  // What one iteration writes must not be read by another.
  for (int32_t b : blocks)
    for (const BufferRegion& w : s.block(b)->writes) {
      const Leaf& writer = scope->leaves[size_t(scope->find(b))];
      for (int at : scope->readers(w->buffer)) {
        const Leaf& reader = scope->leaves[size_t(at)];
        if (reader.id == b || !s.inside(reader.id, loop_id)) continue;
        Analyzer a;
        bind_loops(s, a, loop_id);
        BufferRegion made = region_below(s, writer, w, loop_id, a);
        for (const BufferRegion& x : reader.realize->block->reads) {
          if (!x->buffer.same_as(w->buffer)) continue;
          const BufferRegion needed = region_below(s, reader, x, loop_id, a);
          bool covered = surely_writes(s, writer, w->buffer) && region_covers(made, needed, a);
          for (int other : scope->writers(w->buffer)) {  // an init and its update write the same elements
            const Leaf& l = scope->leaves[size_t(other)];
            if (covered || !s.inside(l.id, loop_id) || !surely_writes(s, l, w->buffer)) continue;
            for (const BufferRegion& y : l.realize->block->writes)
              if (y->buffer.same_as(w->buffer))
                covered = covered || region_covers(region_below(s, l, y, loop_id, a), needed, a);
          }
          if (!covered)
            s.refuse("T0717", reader.id,
                     fmt::format("an iteration of loop '{}' reads elements of '{}' that another iteration "
                                 "writes, so it cannot be {}",
                                 v->name, w->buffer->name, what));
        }
      }
    }
}

std::vector<int32_t> split(State& s, int32_t loop_id, std::vector<int64_t> factors) {
  require_plain(s, loop_id);
  Ref<For> loop = s.loop(loop_id);
  if (factors.empty())
    s.refuse("T0718", loop_id, "no factors are given",
             "give one factor for each new loop; one of them may be -1");
  int inferred = -1;
  int64_t product = 1;
  for (size_t i = 0; i < factors.size(); ++i) {
    if (factors[i] == -1) {
      if (inferred >= 0) s.refuse("T0718", loop_id, "two factors are -1, only one can be inferred");
      inferred = int(i);
    } else if (factors[i] < 1 || product > (int64_t(1) << 40) / factors[i]) {
      s.refuse("T0718", loop_id,
               fmt::format("the factor {} is not a usable number of iterations", factors[i]),
               "factors are 1 or more; one may be -1");
    } else {
      product *= factors[i];
    }
  }
  Analyzer analyzer;
  bind_loops(s, analyzer, s.parent(loop_id));
  Array<PrimExpr> extents;
  for (size_t i = 0; i < factors.size(); ++i)
    extents.push_back(int(i) == inferred ? analyzer.simplify(ceildiv(loop->extent, PrimExpr(product)))
                                         : PrimExpr(factors[i]));
  if (inferred < 0 && !analyzer.can_prove(le(loop->extent, PrimExpr(product))))
    s.refuse("T0719", loop_id,
             fmt::format("the factors make {} iterations, which may be fewer than the loop has", product),
             "use -1 for one factor");
  std::vector<VarRef> vars;
  PrimExpr value = PrimExpr(0), total = PrimExpr(1);
  for (size_t i = 0; i < factors.size(); ++i) {
    vars.push_back(var(fmt::format("{}_{}", loop->loop_var->name, i), loop->loop_var->dtype));
    analyzer.bind(vars[i], range(PrimExpr(0), extents[i]), true);
    value = value * extents[i] + vars[i];
    total = total * extents[i];
  }
  value = analyzer.simplify(value);
  PrimExpr guard;
  if (!analyzer.can_prove_equal(total, loop->extent)) guard = lt(value, loop->extent);
  if (guard && analyzer.can_prove(guard)) guard = PrimExpr();
  Stmt body = rebind(loop->body, {{loop->loop_var.get(), is_zero(loop->min) ? value : loop->min + value}},
                     guard, analyzer);
  for (size_t i = factors.size(); i-- > 0;) body = for_(vars[i], PrimExpr(0), extents[i], body);
  s.replace(loop_id, body);
  std::vector<int32_t> out;
  Stmt at = body;
  for (size_t i = 0; i < factors.size(); ++i, at = at.as<For>()->body) out.push_back(s.id_of(at));
  return out;
}

std::vector<int32_t> loop_partition(State& s, int32_t loop_id, std::vector<int64_t> factors) {
  require_plain(s, loop_id);
  Ref<For> loop = s.loop(loop_id);
  s.scope_of(loop_id);
  int inferred = -1;
  int64_t sum = 0;
  for (size_t i = 0; i < factors.size(); ++i) {
    if (factors[i] == -1 && inferred < 0) {
      inferred = int(i);
    } else if (factors[i] < 1 || factors[i] > (int64_t(1) << 40)) {
      s.refuse("T0718", loop_id, fmt::format("{} is not a usable number of iterations", factors[i]),
               "sizes are 1 or more; one may be -1");
    } else {
      sum += factors[i];
    }
  }
  if (factors.size() < 2) s.refuse("T0718", loop_id, "fewer than two parts are given");
  Analyzer analyzer;
  bind_loops(s, analyzer, s.parent(loop_id));
  const PrimExpr rest = analyzer.simplify(loop->extent - sum);
  // Sizes may be 0: a part that always runs must always be there.
  Analyzer any_size;
  for (auto [p, b] : s.function->buffer_map)
    for (const PrimExpr& d : b->shape)
      if (const auto* v = d.as<Var>()) any_size.assume_size(VarRef(v), 0);
  for (int32_t p = s.parent(loop_id); p >= 0; p = s.parent(p))
    if (const auto* l = s.entries[size_t(p)].node.as<For>())
      any_size.bind(l->loop_var, range(l->min, l->extent), true);
  if (inferred < 0 ? !is_zero(rest) : is_zero(rest) || !any_size.can_prove(ge(rest, PrimExpr(0))))
    s.refuse("T0719", loop_id,
             fmt::format("the parts have {} iterations, which is not provably what the loop has", sum),
             "use -1 for one part, and parts that always fit");
  for (int32_t b : s.blocks_below(loop_id)) {
    Ref<Block> block = s.block(b);
    const LoopRole role = role_of(s.realize(b), loop->loop_var.get());
    if (block->init && role != LoopRole::spatial)
      s.refuse(
          "T0714", b,
          fmt::format("loop '{}' carries its reduction, and only the first part would begin with its init",
                      loop->loop_var->name),
          "decompose_reduction first");
  }
  std::vector<VarRef> vars;
  Array<Stmt> parts;
  PrimExpr start = loop->min;
  std::set<std::string> taken;
  for (size_t i = 0; i < factors.size(); ++i) {
    const PrimExpr extent = int(i) == inferred ? rest : PrimExpr(factors[i]);
    VarRef v = var(fmt::format("{}_{}", loop->loop_var->name, i), loop->loop_var->dtype);
    analyzer.bind(v, range(PrimExpr(0), extent), true);
    Stmt body =
        rebind(loop->body, {{loop->loop_var.get(), analyzer.simplify(start + v)}}, PrimExpr(), analyzer);
    if (i > 0) {
      body = rewrite_stmts(rename_definitions(body), [&](const Stmt& n) -> Stmt {
        const auto* b = n.as<Block>();
        if (!b) return {};
        std::string name = s.fresh_block_name(fmt::format("{}_{}", b->name, i));
        for (int k = 1; !taken.insert(name).second; ++k)
          name = s.fresh_block_name(fmt::format("{}_{}_{}", b->name, i, k));
        if (s.guarded.count(b->name)) s.guarded.insert(name);
        Ref<Block> copy = n.cast<Block>();
        copy.edit()->name = name;
        return copy;
      });
    }
    vars.push_back(v);
    parts.push_back(for_(v, PrimExpr(0), extent, body));
    start = analyzer.simplify(start + extent);
  }
  const int32_t above = s.parent(loop_id);
  s.replace(loop_id, seq(parts));
  // The sequence may stand in another one now.
  if (s.is_block(above))
    s.replace_body(above, s.block(above)->body);
  else
    s.replace(above, with_body(s.loop(above), clean(s.loop(above)->body)));
  std::vector<int32_t> out;
  for (const VarRef& v : vars)
    for (size_t id = 0; id < s.entries.size(); ++id)
      if (const auto* l = s.entries[id].node.as<For>(); l && s.entries[id].alive && l->loop_var.same_as(v))
        out.push_back(int32_t(id));
  return out;
}

int32_t fuse(State& s, const std::vector<int32_t>& loops) {
  if (loops.empty()) throw ScheduleError(ErrorKind::model, "T0720", "fuse needs at least one loop");
  for (int32_t l : loops) require_plain(s, l);
  for (size_t i = 0; i + 1 < loops.size(); ++i)
    if (!perfectly_nested(s, loops[i], loops[i + 1]))
      s.refuse("T0720", loops[i + 1],
               fmt::format("it is not the only thing directly inside {}", s.describe(loops[i])),
               "give adjacent loops, outermost first; reorder brings loops together");
  for (size_t i = 0; i < loops.size(); ++i)
    for (size_t j = i + 1; j < loops.size(); ++j) {
      Ref<For> inner = s.loop(loops[j]);
      const Var* outer = s.loop(loops[i])->loop_var.get();
      if (uses(inner->extent, outer) || uses(inner->min, outer))
        s.refuse(
            "T0721", loops[j],
            fmt::format("its bounds depend on {}, so the two do not form a rectangle", s.describe(loops[i])));
    }
  if (loops.size() == 1) return loops[0];
  Analyzer analyzer;
  bind_loops(s, analyzer, s.parent(loops[0]));
  std::string name;
  PrimExpr extent = PrimExpr(1);
  for (int32_t l : loops) {
    Ref<For> loop = s.loop(l);
    name += (name.empty() ? "" : "_") + loop->loop_var->name;
    extent = analyzer.simplify(extent * loop->extent);
  }
  if (name.size() > 40)
    name = s.loop(loops[0])->loop_var->name + "_fused";
  else
    name += "_fused";
  VarRef fused = var(name, s.loop(loops[0])->loop_var->dtype);
  analyzer.bind(fused, range(PrimExpr(0), extent), true);
  VarMap map;
  PrimExpr rest = fused;
  for (size_t i = loops.size(); i-- > 0;) {
    Ref<For> loop = s.loop(loops[i]);
    PrimExpr digit = i == 0 ? rest : floormod(rest, loop->extent);
    if (is_one(loop->extent)) digit = PrimExpr(0);
    map[loop->loop_var.get()] = analyzer.simplify(digit + loop->min);
    if (i > 0) rest = is_one(loop->extent) ? rest : floordiv(rest, loop->extent);
  }
  Stmt body = rebind(s.loop(loops.back())->body, map, PrimExpr(), analyzer);
  Stmt made = for_(fused, PrimExpr(0), extent, body);
  s.replace(loops[0], made);
  return s.id_of(made);
}

void reorder(State& s, const std::vector<int32_t>& order) {
  if (order.size() < 2) return;
  for (size_t i = 0; i < order.size(); ++i) {
    s.loop(order[i]);
    for (size_t j = 0; j < i; ++j)
      if (order[i] == order[j]) s.refuse("T0722", order[i], "it is given twice");
  }
  // The innermost of them: all others lie above it.
  int32_t bottom = order[0];
  for (int32_t l : order)
    if (s.inside(l, bottom)) bottom = l;
  std::vector<int32_t> chain;  // outermost first
  size_t met = 0;
  for (int32_t p = bottom; p >= 0 && !s.is_block(p); p = s.parent(p)) {
    chain.push_back(p);
    if (std::find(order.begin(), order.end(), p) != order.end() && ++met == order.size()) break;
  }
  if (met != order.size())
    for (int32_t l : order)
      if (!s.inside(bottom, l))
        s.refuse("T0722", l, fmt::format("it is not on the same chain of loops as {}", s.describe(bottom)),
                 "reorder takes loops that are nested in one another");
  std::reverse(chain.begin(), chain.end());
  for (size_t i = 0; i + 1 < chain.size(); ++i)
    if (!perfectly_nested(s, chain[i], chain[i + 1]))
      s.refuse("T0723", chain[i], fmt::format("it holds more than {}", s.describe(chain[i + 1])),
               "move the other block with compute_at, or decompose after reordering");
  std::vector<int32_t> next = chain;
  size_t at = 0;
  for (int32_t& c : next)
    if (std::find(order.begin(), order.end(), c) != order.end()) c = order[at++];
  if (next == chain) return;
  for (size_t i = 0; i < next.size(); ++i)
    for (size_t j = i + 1; j < next.size(); ++j) {
      Ref<For> outer = s.loop(next[i]);
      const Var* inner = s.loop(next[j])->loop_var.get();
      if (uses(outer->extent, inner) || uses(outer->min, inner))
        s.refuse("T0724", next[i],
                 fmt::format("its bounds depend on {}, which would come inside it", s.describe(next[j])));
    }
  // Blocks whose instances may run in any order of these loops.
  std::vector<int32_t> blocks = s.blocks_below(chain[0]);
  std::vector<int32_t> below = s.children(bottom);
  for (int32_t b : blocks) {
    Ref<Block> block = s.block(b);
    for (const IterVar& iter : block->iter_vars)
      if (iter->kind != IterKind::spatial && iter->kind != IterKind::reduce &&
          !(iter->kind == IterKind::scan && steps_lie_outside(s, b, chain)))
        s.refuse("T0725", b, fmt::format("iterator '{}' runs in a fixed order", iter->var->name));
    if (is_complete(block)) continue;
    if (!s.binding(b, s.loops_between(b, s.parent(chain[0]))).injective)
      s.refuse("T0725", b, "some of its reduction steps are repeated by these loops, so their order matters",
               "reorder before compute_at");
    if (!block->init) continue;
    // The init must stay first: a loop that moves may not carry both kinds.
    for (size_t i = 0; i < next.size(); ++i)
      if (next[i] != chain[i] && role_of(s.realize(b), s.loop(next[i])->loop_var.get()) == LoopRole::mixed)
        s.refuse(
            "T0725", b,
            fmt::format("{} mixes spatial and reduction iterators, so the init would no longer come first",
                        s.describe(next[i])),
            "do not fuse spatial loops with loops of the reduction, or decompose_reduction first");
  }
  if (blocks.size() > 1) {
    auto scope = s.scope(s.scope_of(bottom));
    for (int32_t b : blocks)
      for (const BufferRegion& w : s.block(b)->writes)
        for (int at2 : scope->readers(w->buffer)) {
          const Leaf& reader = scope->leaves[size_t(at2)];
          if (reader.id == b || !s.inside(reader.id, bottom)) continue;
          const Leaf& writer = scope->leaves[size_t(scope->find(b))];
          Analyzer a;
          bind_loops(s, a, bottom);
          BufferRegion made = region_below(s, writer, w, bottom, a);
          for (const BufferRegion& x : reader.realize->block->reads)
            if (x->buffer.same_as(w->buffer) &&
                !(surely_writes(s, writer, w->buffer) &&
                  region_covers(made, region_below(s, reader, x, bottom, a), a)))
              s.refuse(
                  "T0726", reader.id,
                  fmt::format(
                      "it reads elements of '{}' that an earlier iteration of these loops may have written",
                      w->buffer->name),
                  "reorder before compute_at");
          for (int32_t l : next) {
            LoopRole role = role_of(s.realize(b), s.loop(l)->loop_var.get());
            if (role == LoopRole::reduce || role == LoopRole::mixed)
              s.refuse("T0726", reader.id,
                       fmt::format("it reads '{}' while loop '{}' still adds to it", w->buffer->name,
                                   s.loop(l)->loop_var->name));
          }
        }
  }
  Stmt body = s.loop(bottom)->body;
  for (size_t i = next.size(); i-- > 0;) body = with_body(s.loop(next[i]), body);
  s.replace(chain[0], body);
}

void set_kind(State& s, int32_t loop_id, ForKind kind) {
  Ref<For> loop = s.loop(loop_id);
  if (loop->kind == kind) return;
  if (loop->kind != ForKind::serial) s.refuse("T0710", loop_id, "the loop already has another kind");
  if (kind == ForKind::unrolled || kind == ForKind::vectorized) {
    auto extent = as_int(loop->extent);
    if (!extent)
      s.refuse("T0727", loop_id, "its extent is not a constant",
               "split off a constant factor first; the remainder is guarded by a predicate");
    if (kind == ForKind::vectorized && *extent > 1024)
      s.refuse("T0727", loop_id, fmt::format("{} lanes are too many", *extent),
               "split off 4 to 64 iterations");
  }
  if (kind == ForKind::parallel) {
    require_independent(s, loop_id, kind);
    for (int32_t p = s.parent(loop_id); p >= 0 && !s.is_block(p); p = s.parent(p))
      if (s.loop(p)->kind == ForKind::vectorized || s.loop(p)->kind == ForKind::thread_binding)
        s.refuse("T0728", loop_id,
                 fmt::format("it lies inside {}, which is vectorised or bound to threads", s.describe(p)));
  }
  if (kind == ForKind::vectorized) {
    require_independent(s, loop_id, kind);
    std::vector<int32_t> stack = s.children(loop_id);
    while (!stack.empty()) {
      int32_t c = stack.back();
      stack.pop_back();
      if (s.is_block(c)) continue;
      const ForKind below = s.loop(c)->kind;
      if (below == ForKind::parallel || below == ForKind::vectorized || below == ForKind::thread_binding)
        s.refuse("T0728", loop_id,
                 fmt::format("{}, which is parallel, vectorised or bound, lies inside it", s.describe(c)),
                 "vectorise the innermost loop");
      for (int32_t d : s.children(c)) stack.push_back(d);
    }
  }
  Ref<For> copy = loop;
  copy.edit()->kind = kind;
  s.replace(loop_id, copy);
}

int32_t add_unit_loop(State& s, int32_t block) {
  Ref<BlockRealize> r = s.realize(block);
  s.scope_of(block);
  Stmt made = for_(var("u"), PrimExpr(0), PrimExpr(1), r);
  s.replace(block, made);
  return s.id_of(made);
}

}  // namespace tenon::sched
