// SPDX-License-Identifier: Apache-2.0
// Primitives that say how a loop runs: parallel, vectorize, unroll; and when its iterations are independent.
#include <fmt/format.h>

#include "schedule/define.h"

namespace tenon::sched {

using namespace tir;

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
    if (role == LoopRole::spatial && s.binding(b, loops).injective && writes_apart(s, r->block)) {
      if (!step && !reads_own_elements(s, b, {loop_id}))
        s.refuse("T0717", b,
                 fmt::format("an iteration of loop '{}' reads elements that it writes in another one, so it "
                             "cannot be {}",
                             v->name, what));
      continue;
    }
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
        Analyzer a = s.analyzer();
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

static void set_kind(State& s, int32_t loop_id, ForKind kind) {
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

const Define<&Schedule::parallel, [](State& s, int32_t loop) { set_kind(s, loop, ForKind::parallel); }>
    parallel_record{
        {.name = "parallel",
         .does = "a loop's iterations may run on several threads",
         .legal =
             "no iteration writes what another reads or writes, and no loop around is vectorised or bound",
         .parameters = {{"loop", "whose iterations are independent"}},
         .sample = {samples::matmul, R"(
c = sch.get_block("C")
i, j, k = sch.get_loops(c)
sch.parallel(i)
)"}}};
const Define<&Schedule::vectorize, [](State& s, int32_t loop) { set_kind(s, loop, ForKind::vectorized); }>
    vectorize_record{{.name = "vectorize",
                      .does = "a loop's iterations become lanes of vectors",
                      .legal = "no iteration writes what another reads or writes, the extent is a constant "
                               "up to 1024, and no loop inside is parallel, vectorised or bound",
                      .parameters = {{"loop", "whose iterations are independent"}},
                      .sample = {samples::matmul, R"(
d = sch.get_block("D")
i, j = sch.get_loops(d)
sch.vectorize(j)
)"}}};
const Define<&Schedule::unroll, [](State& s, int32_t loop) { set_kind(s, loop, ForKind::unrolled); }>
    unroll_record{{.name = "unroll",
                   .calls = CallOrder::kept,
                   .does = "a loop's iterations are written out",
                   .legal = "the extent is a constant",
                   .parameters = {{"loop", "to write out"}},
                   .sample = {samples::matmul, R"(
c = sch.get_block("C")
i, j, k = sch.get_loops(c)
sch.unroll(k)
)"}}};

}  // namespace tenon::sched
