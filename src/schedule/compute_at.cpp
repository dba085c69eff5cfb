// SPDX-License-Identifier: Apache-2.0
// Primitives that move a block under a loop of another: compute_at (to its consumers) and reverse_compute_at
// (to its producers). The block gets new loops over exactly the region that is needed (or made) there.
#include <fmt/format.h>

#include <algorithm>

#include "ir/find_node.h"
#include "schedule/define.h"
#include "schedule/ring.h"

namespace tenon::sched {

using namespace tir;

namespace {

/// Where an iterator runs at the new place: null `lo` means its whole domain.
struct Interval {
  PrimExpr lo, extent;
};

struct Mover {
  State& s;
  int32_t id, loop_id, scope_id;
  Ref<BlockRealize> realize;
  Ref<Block> block;
  std::shared_ptr<const Scope> scope;
  int at;                     // position of the block
  int first = -1, last = -1;  // positions of the blocks under the loop
  int32_t step_loop = -1;     // the loop over the steps of a scan whose step the block is part of
  Analyzer analyzer = s.analyzer();

  Mover(State& state, int32_t block_id, int32_t loop) : s(state), id(block_id), loop_id(loop) {
    realize = s.realize(id);
    block = realize->block;
    Ref<For> l = s.loop(loop_id);
    scope_id = s.scope_of(id);
    if (s.scope_of(loop_id) != scope_id)
      s.refuse("T0750", id, fmt::format("{} belongs to another block than it", s.describe(loop_id)));
    if (s.inside(id, loop_id))
      s.refuse("T0750", id, fmt::format("it already lies inside {}", s.describe(loop_id)));
    require_no_ring(s, id);
    for (int32_t p = loop_id; p >= 0 && !s.is_block(p); p = s.parent(p))
      if (s.loop(p)->kind == ForKind::vectorized)
        s.refuse("T0751", id, fmt::format("{} is vectorised and can hold nothing more", s.describe(p)),
                 "move the block before vectorising");
    Ref<Block> like = block;  // inside one step of a scan, the step is an iterator as any
    for (size_t i = 0; i < block->iter_vars.size(); ++i) {
      if (block->iter_vars[i]->kind != IterKind::scan) continue;
      for (int32_t l : s.loops_of(id))
        if (uses(realize->iter_values[i], s.loop(l)->loop_var.get())) {
          if (!s.inside(loop_id, l))
            s.refuse("T0752", id,
                     fmt::format("{} is not inside {}, which drives its steps", s.describe(loop_id),
                                 s.describe(l)),
                     "choose a loop inside the loop over the steps");
          step_loop = l;
        }
      IterVar spatial = block->iter_vars[i];
      spatial.edit()->kind = IterKind::spatial;
      like.edit()->iter_vars.set(i, spatial);
    }
    if (!is_complete(like) && !is_reduction(like))
      s.refuse("T0752", id, "it is neither complete nor a reduction with its init",
               "move it before decompose_reduction");
    if (s.guarded.count(block->name))
      s.refuse("T0742", id,
               "the program itself restricts the block by a predicate, which has no meaning elsewhere");
    if (!block->match_buffers.empty()) s.refuse("T0752", id, "it matches regions of buffers");
    scope = s.scope(scope_id);
    at = scope->find(id);
    for (size_t i = 0; i < scope->leaves.size(); ++i)
      if (s.inside(scope->leaves[i].id, loop_id)) {
        if (first < 0) first = int(i);
        last = int(i);
      }
    bind_loops(s, analyzer, loop_id);
  }

  /// Within one step of a scan, what the block reads is none of what block number `w` writes.
  bool other_steps(const BufferRegion& read, int w) {
    if (step_loop < 0 || !s.inside(leaf(w).id, step_loop)) return false;
    Analyzer a = s.analyzer();
    bind_loops(s, a, step_loop);
    const BufferRegion x = region_below(s, leaf(at), read, step_loop, a);
    for (const BufferRegion& y : leaf(w).realize->block->writes) {
      if (!y->buffer.same_as(read->buffer)) continue;
      const BufferRegion made = region_below(s, leaf(w), y, step_loop, a);
      bool apart = false;
      for (size_t d = 0; d < x->region.size(); ++d)
        apart = apart || a.can_prove(le(x->region[d]->min + x->region[d]->extent, made->region[d]->min)) ||
                a.can_prove(le(made->region[d]->min + made->region[d]->extent, x->region[d]->min));
      if (!apart) return false;
    }
    return true;
  }

  const Leaf& leaf(int i) const { return scope->leaves[size_t(i)]; }
  bool under(int i) const { return s.inside(leaf(i).id, loop_id); }

  /// Iterators that are the indices of `region` (one element each), by dimension; -1 for a constant 0.
  std::optional<std::vector<int>> iterators(const BufferRegion& region) {
    Array<PrimExpr> mins;
    for (size_t d = 0; d < region->region.size(); ++d) {
      if (!is_one(region->region[d]->extent)) return std::nullopt;
      mins.push_back(region->region[d]->min);
    }
    return trivial_indices(mins, block->iter_vars, region->buffer);
  }

  void add(std::vector<Interval>& intervals, const std::vector<int>& iters, const BufferRegion& needed) {
    for (size_t d = 0; d < iters.size(); ++d) {
      if (iters[d] < 0) continue;
      Interval& i = intervals[size_t(iters[d])];
      const Range& r = needed->region[d];
      if (!i.lo) {
        i = {r->min, r->extent};
      } else {
        PrimExpr end = max(i.lo + i.extent, r->min + r->extent);
        i.lo = analyzer.simplify(min(i.lo, r->min));
        i.extent = analyzer.simplify(end - i.lo);
      }
    }
  }

  bool varies(const PrimExpr& e) {
    for (int32_t p = loop_id; p >= 0; p = s.parent(p)) {
      if (const auto* l = s.entries[size_t(p)].node.as<For>()) {
        if (uses(e, l->loop_var.get())) return true;
      }
    }
    return false;
  }

  /// An interval that would run over the end of the iterator's domain begins earlier, so that it is whole.
  void move_inwards(Interval& i, const Range& domain) {
    if (!analyzer.can_prove(le(i.extent, domain->extent))) return;
    i.lo = analyzer.simplify(min(i.lo, domain->min + domain->extent - i.extent));
  }

  /// The block's new loops and realization.
  Stmt nest(std::vector<Interval> intervals, bool inwards = false) {
    Array<PrimExpr> values;
    PrimExpr guard = true_();
    std::vector<Ref<For>> loops;
    int axis = 0;
    for (size_t i = 0; i < block->iter_vars.size(); ++i) {
      const IterVar& v = block->iter_vars[i];
      const PrimExpr dom_lo = v->dom->min, dom_extent = v->dom->extent;
      Interval at_loop = intervals[i];
      bool whole = !at_loop.lo;
      if (!whole) {
        at_loop.lo = analyzer.simplify(at_loop.lo);
        at_loop.extent = analyzer.simplify(at_loop.extent);
        if (varies(at_loop.extent)) {
          // Round up: what is too much is cut off by the guard.
          ConstBound bound = analyzer.bound(at_loop.extent);
          if (bound.max == ConstBound::pos_inf)
            whole = true;
          else
            at_loop.extent = PrimExpr(bound.max);
        }
      }
      if (!whole && analyzer.can_prove(ge(at_loop.extent, dom_extent))) whole = true;
      if (!whole && v->kind == IterKind::reduce) whole = true;
      if (whole) at_loop = {dom_lo, dom_extent};
      if (inwards && !whole) move_inwards(at_loop, v->dom);
      PrimExpr value = at_loop.lo;
      if (!is_one(at_loop.extent)) {
        const std::string name =
            v->kind == IterKind::reduce && v->var->name.size() > 2 && v->var->name.substr(0, 2) == "v_"
                ? v->var->name.substr(2)
                : fmt::format("ax{}", axis);
        VarRef x = var(name, v->var->dtype);
        analyzer.bind(x, range(PrimExpr(0), at_loop.extent), true);
        loops.push_back(for_(x, PrimExpr(0), at_loop.extent, Stmt()).cast<For>());
        value = analyzer.simplify(at_loop.lo + x);
      }
      ++axis;
      if (!whole) {
        PrimExpr below = lt(value, dom_lo + dom_extent), above = ge(value, dom_lo);
        if (!analyzer.can_prove(below)) guard = logical_and(guard, analyzer.simplify(below));
        if (!analyzer.can_prove(above)) guard = logical_and(guard, analyzer.simplify(above));
      }
      values.push_back(value);
    }
    Ref<BlockRealize> r = realize;
    BlockRealize* e = r.edit();
    e->iter_values = values;
    e->predicate = guard;
    Stmt body = r;
    for (size_t i = loops.size(); i-- > 0;) body = with_body(loops[i], body);
    return body;
  }

  /// Takes the block from where it is and puts `made` into the loop's body by `place`.
  void move(const Stmt& made, FunctionRef<Stmt(const Stmt& body)> place) {
    const Object* gone = s.entries[size_t(whole_nest(s, id))].node.get();
    const Var* target = s.loop(loop_id)->loop_var.get();
    Stmt body = rewrite_any(
                    s.block(scope_id)->body,
                    [&](const ObjectRef& n) -> ObjectRef {
                      if (n.get() == gone) return nothing();
                      if (const auto* l = n.as<For>())
                        if (l->loop_var.get() == target) return with_body(Ref<For>(l), place(l->body));
                      return {};
                    },
                    [&](const ObjectRef& n) { return !n.is<StmtNode>(); })
                    .cast<StmtNode>();
    (void)made;
    // Threads around the new place must still be independent: judged on a copy.
    std::vector<int32_t> parallel;
    for (int32_t p = loop_id; p >= 0 && !s.is_block(p); p = s.parent(p))
      if (s.loop(p)->kind == ForKind::parallel || s.loop(p)->kind == ForKind::thread_binding)
        parallel.push_back(p);
    if (parallel.empty()) {
      s.replace_body(scope_id, body);
      return;
    }
    State trial = s;
    trial.facts = std::make_shared<FactCache>();
    trial.replace_body(scope_id, body);
    for (int32_t p : parallel) require_still_independent(trial, p);
    s = std::move(trial);
  }
};

bool contains_block(const Stmt& s, const std::vector<std::string>& names) {
  return any_node(s, in_statements, [&](const ObjectRef& n) {
    const auto* b = n.as<Block>();
    return b && std::find(names.begin(), names.end(), b->name) != names.end();
  });
}

}  // namespace

void compute_at(State& s, int32_t id, int32_t loop_id, bool inwards) {
  Mover m(s, id, loop_id);
  std::vector<Interval> intervals(m.block->iter_vars.size());
  std::vector<std::string> consumers;
  for (const BufferRegion& w : m.block->writes) {
    if (is_parameter(s, w->buffer))
      s.refuse("T0753", id, fmt::format("it writes '{}', a result of the function", w->buffer->name),
               "a result's block stays; move its producers to it, or use reverse_compute_at");
    require_owned(s, id, w->buffer);
    if (m.scope->writers(w->buffer).size() != 1)
      s.refuse("T0733", id, fmt::format("'{}' is written by other blocks too", w->buffer->name));
    auto iters = m.iterators(w);
    if (!iters)
      s.refuse(
          "T0734", id,
          fmt::format("it does not write '{}' at an index made of its own iterators, one for each dimension",
                      w->buffer->name));
    std::vector<BufferRegion> needed;
    for (int r : m.scope->readers(w->buffer)) {
      const Leaf& consumer = m.leaf(r);
      if (consumer.id == id) continue;
      if (!m.under(r))
        s.refuse("T0754", consumer.id,
                 fmt::format("it reads '{}' but lies outside {}", w->buffer->name, s.describe(loop_id)),
                 "choose a loop around all consumers");
      if (r < m.at)
        s.refuse("T0754", consumer.id, fmt::format("it reads '{}' before the block runs", w->buffer->name));
      for (const BufferRegion& x : consumer.realize->block->reads)
        if (x->buffer.same_as(w->buffer)) needed.push_back(region_below(s, consumer, x, loop_id, m.analyzer));
      consumers.push_back(consumer.realize->block->name);
    }
    for (const BufferRegion& n : needed) m.add(intervals, *iters, n);
  }
  if (consumers.empty())
    s.refuse("T0754", id, fmt::format("nothing under {} reads what it makes", s.describe(loop_id)));
  // What the block reads must be ready at the new place.
  for (const BufferRegion& r : m.block->reads)
    for (int w : m.scope->writers(r->buffer)) {
      if (w == m.at || m.other_steps(r, w)) continue;
      const Leaf& producer = m.leaf(w);
      if (w > m.at)
        s.refuse("T0741", id,
                 fmt::format("'{}' is written by {} after the block reads it", r->buffer->name,
                             s.describe(producer.id)));
    }  // what is written before the block is written before the loop, which lies behind it
  Stmt made = m.nest(intervals, inwards);
  m.move(made, [&](const Stmt& body) -> Stmt {
    const auto* q = body.as<SeqStmt>();
    if (!q) return seq({made, body});
    Array<Stmt> out;
    bool placed = false;
    for (const Stmt& t : q->seq) {
      if (!placed && contains_block(t, consumers)) {
        out.push_back(made);
        placed = true;
      }
      out.push_back(t);
    }
    return seq(out);
  });
}

static void reverse_compute_at(State& s, int32_t id, int32_t loop_id) {
  Mover m(s, id, loop_id);
  std::vector<Interval> intervals(m.block->iter_vars.size());
  bool found = false;
  for (const BufferRegion& r : m.block->reads) {
    bool own = false;
    for (const BufferRegion& w : m.block->writes) own = own || w->buffer.same_as(r->buffer);
    if (own) continue;
    std::vector<int> writers = m.scope->writers(r->buffer);
    bool here = false;
    for (int w : writers) here = here || m.under(w);
    if (!here) {
      for (int w : writers)
        if (w > m.first)
          s.refuse("T0741", id,
                   fmt::format("{}, which it reads, comes after {}", s.describe(m.leaf(w).id),
                               s.describe(loop_id)));
      continue;
    }
    auto iters = m.iterators(r);
    if (!iters)
      s.refuse("T0734", id,
               fmt::format("it does not read '{}' at one index made of its own iterators", r->buffer->name),
               "only consumers that read where they write can follow the producer");
    for (int w : writers) {
      const Leaf& producer = m.leaf(w);
      if (w > m.at)
        s.refuse("T0741", id, fmt::format("'{}' is written after the block reads it", r->buffer->name));
      if (!m.under(w)) {
        // An init beside its update may stand before the loop; anything else is out of order.
        if (w > m.first)
          s.refuse("T0741", id,
                   fmt::format("{}, which it reads, comes after {}", s.describe(producer.id),
                               s.describe(loop_id)));
        continue;
      }
      for (int32_t p = loop_id; p >= 0 && !s.is_block(p); p = s.parent(p)) {
        LoopRole role = role_of(producer.realize, s.loop(p)->loop_var.get());
        if (role == LoopRole::reduce || role == LoopRole::mixed)
          s.refuse("T0755", id,
                   fmt::format("{} still adds to '{}' over {}", s.describe(producer.id), r->buffer->name,
                               s.describe(p)),
                   "choose a loop outside the reduction");
      }
      if (writers.size() == 1 && !surely_writes(s, producer, r->buffer))
        s.refuse("T0757", id,
                 fmt::format("{} writes '{}' only where a condition holds", s.describe(producer.id),
                             r->buffer->name),
                 "move the block first");
      BufferRegion region;
      for (const BufferRegion& x : producer.realize->block->writes)
        if (x->buffer.same_as(r->buffer)) region = region_below(s, producer, x, loop_id, m.analyzer);
      // Other blocks may have made a part: then this one alone must make all that is read.
      if (writers.size() > 1) {
        Analyzer whole = s.analyzer();
        bind_loops(s, whole, m.scope_id);
        for (const BufferRegion& x : producer.realize->block->writes)
          if (x->buffer.same_as(r->buffer) &&
              !region_covers(region_below(s, producer, x, m.scope_id, whole),
                             region_below(s, m.leaf(m.at), r, m.scope_id, whole), whole))
            s.refuse("T0757", id,
                     fmt::format("{} makes only a part of what it reads of '{}'", s.describe(producer.id),
                                 r->buffer->name),
                     "use it before loop_partition and decompose_padding");
      }
      // Instances beyond the buffer (they store what fills a padded copy up) are driven by no iteration.
      Analyzer outside = s.analyzer();
      bind_loops(s, outside, m.scope_id);
      for (const BufferRegion& x : producer.realize->block->writes) {
        if (!x->buffer.same_as(r->buffer)) continue;
        const BufferRegion all = region_below(s, producer, x, m.scope_id, outside);
        for (size_t d = 0; d < iters->size(); ++d) {
          if ((*iters)[d] < 0) continue;
          const Range& dom = m.block->iter_vars[size_t((*iters)[d])]->dom;
          const Range& made = all->region[d];
          if (outside.can_prove(ge(dom->min, PrimExpr(0))) &&
              outside.can_prove(le(dom->min + dom->extent, r->buffer->shape[d])))
            continue;
          if (!outside.can_prove(le(made->min, dom->min)) ||
              !outside.can_prove(ge(made->min + made->extent, dom->min + dom->extent)))
            s.refuse("T0757", id,
                     fmt::format("iterator '{}' runs over more than {} makes of '{}'",
                                 m.block->iter_vars[size_t((*iters)[d])]->var->name, s.describe(producer.id),
                                 r->buffer->name),
                     "leave padded copies where they are, or use compute_at on the producer");
        }
      }
      // The box must be exactly what this iteration has made.
      std::vector<int32_t> below = s.loops_between(producer.id, loop_id);
      PrimExpr instances = PrimExpr(1), elements = PrimExpr(1);
      std::vector<int32_t> spatial;
      for (int32_t l : below) {
        LoopRole role = role_of(producer.realize, s.loop(l)->loop_var.get());
        if (role == LoopRole::mixed)
          s.refuse("T0757", id,
                   fmt::format("{} mixes spatial and reduction iterators of {}", s.describe(l),
                               s.describe(producer.id)));
        if (role != LoopRole::spatial) continue;
        spatial.push_back(l);
        instances = instances * s.loop(l)->extent;
      }
      for (const Range& x : region->region) elements = elements * x->extent;
      for (const BufferRegion& x : producer.realize->block->writes)  // each instance writes a box
        if (x->buffer.same_as(r->buffer))
          for (const Range& y : x->region) instances = instances * y->extent;
      std::vector<int32_t> digits = below;
      if (!s.binding(producer.id, digits).injective || !writes_apart(s, producer.realize->block) ||
          !m.analyzer.can_prove_equal(instances, elements))
        s.refuse("T0757", id,
                 fmt::format("what {} makes in one iteration of {} is not a box of '{}'",
                             s.describe(producer.id), s.describe(loop_id), r->buffer->name),
                 "choose a loop whose iteration makes whole rows or tiles");
      m.add(intervals, *iters, region);
      found = true;
    }
  }
  if (!found) s.refuse("T0756", id, fmt::format("nothing under {} makes what it reads", s.describe(loop_id)));
  for (size_t i = 0; i < intervals.size(); ++i) {
    const IterVar& v = m.block->iter_vars[i];
    if (v->kind != IterKind::reduce || !intervals[i].lo) continue;
    if (!m.analyzer.can_prove(le(intervals[i].lo, v->dom->min)) ||
        !m.analyzer.can_prove(ge(intervals[i].lo + intervals[i].extent, v->dom->min + v->dom->extent)))
      s.refuse("T0758", id,
               fmt::format("its reduction '{}' needs more than one iteration of {} makes", v->var->name,
                           s.describe(loop_id)),
               "choose a loop outside the dimension that is reduced");
    intervals[i] = {};
  }
  for (const BufferRegion& w : m.block->writes) {
    if (m.scope->writers(w->buffer).size() != 1)
      s.refuse("T0733", id, fmt::format("'{}' is written by other blocks too", w->buffer->name));
    for (int r : m.scope->readers(w->buffer))
      if (r < m.at)
        s.refuse("T0741", id,
                 fmt::format("{} reads '{}' before the block writes it", s.describe(m.leaf(r).id),
                             w->buffer->name));
  }
  Stmt made = m.nest(intervals);
  m.move(made, [&](const Stmt& body) -> Stmt { return seq({body, made}); });
}

static void compute_at_location(State& s, int32_t block, const LoopOrLocation& where, bool inwards) {
  if (const auto* loop = std::get_if<LoopRV>(&where)) return compute_at(s, block, loop->id, inwards);
  const Location& l = s.locations.at(std::get<LocationRV>(where).id);
  switch (l.kind) {
    case Location::Kind::loop:
      return compute_at(s, block, l.loop, inwards);
    case Location::Kind::inlined:
      return compute_inline(s, block);
    case Location::Kind::here:
      s.realize(block);  // it must be a block that is there
  }
}

const Define<&Schedule::compute_at, compute_at_location> compute_at_record{
    {.name = "compute_at",
     .does = "a block is moved into a loop of its consumers and computes what one iteration needs",
     .legal = "all consumers lie inside the loop, the block is complete or a reduction with its init and "
              "writes each element at an index made of its iterators, and what it reads is ready there",
     .parameters =
         {{"block", "to move"},
          {"loop", "around the consumers, or what sample_compute_location chose"},
          {"inwards",
           "a part that would run over the end of an iterator begins earlier and computes again what "
           "the one before has, in place of a condition (known sizes)",
           false}},
     .sample = {samples::matmul, R"(
c = sch.get_block("C")
d = sch.get_block("D")
i, j = sch.get_loops(d)
sch.compute_at(c, i)
)"}}};
const Define<&Schedule::reverse_compute_at, reverse_compute_at> reverse_compute_at_record{
    {.name = "reverse_compute_at",
     .does = "a block is moved into a loop of its producers and consumes what one iteration has made",
     .legal = "an iteration makes a whole box of what the block reads, which lies outside the loops of the "
              "producer's reduction",
     .parameters = {{"block", "to move"}, {"loop", "around a producer"}},
     .sample = {samples::matmul, R"(
d = sch.get_block("D")
c = sch.get_block("C")
i, j, k = sch.get_loops(c)
sch.reverse_compute_at(d, i)
)"}}};

}  // namespace tenon::sched
