// SPDX-License-Identifier: Apache-2.0
// Copies of a part, made where it is needed: read_at and write_at put them into each iteration of a loop.
#include <fmt/format.h>

#include "schedule/cache_impl.h"
#include "schedule/define.h"

namespace tenon::sched {

using namespace tir;

namespace {

/// What both need: a block below a loop, in the root block, without vectorised loops around the copy.
void require_place(State& s, int32_t id, int32_t loop_id, const std::string& scope) {
  s.loop(loop_id);
  s.realize(id);
  require_root_scope(s, id);
  require_memory(s, id, scope);
  if (s.scope_of(loop_id) != s.scope_of(id) || !s.inside(id, loop_id))
    s.refuse("T0761", id, fmt::format("{} is not one of the loops around it", s.describe(loop_id)));
  for (int32_t p = loop_id; p >= 0 && !s.is_block(p); p = s.parent(p))
    if (s.loop(p)->kind == ForKind::vectorized)
      s.refuse("T0751", id, fmt::format("{} is vectorised and can hold nothing more", s.describe(p)),
               "copy before vectorising");
}

/// A block that copies `part` from one buffer to another of the same shape; what lies outside is left out.
Stmt copy_part(const Buffer& from, const Buffer& to, const Array<Range>& part, const std::string& name,
               Analyzer& a, State& s, int32_t loop_id) {
  Array<IterVar> iters;
  Array<PrimExpr> values, at;
  std::vector<Ref<For>> loops;
  PrimExpr guard = true_();
  auto varies = [&](const PrimExpr& e) {
    for (int32_t p = loop_id; p >= 0; p = s.parent(p))
      if (const auto* l = s.entries[size_t(p)].node.as<For>(); l && uses(e, l->loop_var.get())) return true;
    return false;
  };
  for (size_t d = 0; d < part.size(); ++d) {
    PrimExpr extent = part[d]->extent, limit;
    if (varies(extent)) {  // round up: what is too much is cut off
      const ConstBound bound = a.bound(extent);
      limit = extent;
      extent = bound.max == ConstBound::pos_inf ? from->shape[d] : PrimExpr(bound.max);
    }
    VarRef x = var(fmt::format("ax{}", d));
    a.bind(x, range(PrimExpr(0), extent), true);
    IterVar v = iter_var(range(PrimExpr(0), from->shape[d]), fmt::format("v{}", d));
    PrimExpr value = part[d]->min;
    if (!is_one(extent)) {
      loops.push_back(for_(x, PrimExpr(0), extent, Stmt()).cast<For>());
      value = value + x;
    }
    value = a.simplify(value);
    if (limit) guard = logical_and(guard, lt(is_one(extent) ? PrimExpr(0) : PrimExpr(x), limit));
    // Cut off is more than what lies behind the buffer's end: the block does not write all of its box.
    if (limit && !a.can_prove(ge(limit, min(extent, from->shape[d] - part[d]->min)))) s.guarded.insert(name);
    for (const PrimExpr& c : {ge(value, PrimExpr(0)), lt(value, from->shape[d])})
      if (!a.can_prove(c)) guard = logical_and(guard, a.simplify(c));
    iters.push_back(v);
    values.push_back(value);
    at.push_back(v->var);
  }
  AttrMap notes;
  notes.set("auto_copy", Any(1));
  auto block =
      make<Block>(iters, Array<BufferRegion>(), Array<BufferRegion>(), name, store(to, load(from, at), at),
                  Stmt(), Array<Buffer>(), Array<MatchBufferRegion>(), notes);
  Stmt nest = make<BlockRealize>(values, guard, with_regions(block));
  for (size_t d = loops.size(); d-- > 0;) nest = with_body(loops[d], nest);
  return nest;
}

/// The loop's body with the block changed and a copy beside it; threads around must stay independent.
int32_t put(State& s, int32_t id, int32_t loop_id, const Ref<BlockRealize>& next, const Stmt& copy,
            bool before, const Buffer& made, const std::string& name) {
  const Object* old = s.entries[size_t(id)].node.get();
  const Var* target = s.loop(loop_id)->loop_var.get();
  const int32_t scope_id = s.scope_of(id);
  const Stmt body =
      rewrite_any(
          s.block(scope_id)->body,
          [&](const ObjectRef& n) -> ObjectRef {
            if (n.get() == old) return next;
            if (const auto* l = n.as<For>(); l && l->loop_var.get() == target)
              return with_body(Ref<For>(l), before ? seq({copy, l->body}) : seq({l->body, copy}));
            return {};
          },
          [&](const ObjectRef& n) { return !n.is<StmtNode>() || (n.is<BlockRealize>() && n.get() != old); })
          .cast<StmtNode>();
  Array<Buffer> allocs = s.block(scope_id)->alloc_buffers;
  allocs.push_back(made);
  State trial = s;
  trial.facts = std::make_shared<FactCache>();
  trial.replace_body(scope_id, body, allocs);
  for (int32_t p = loop_id; p >= 0 && !trial.is_block(p); p = trial.parent(p))
    if (trial.loop(p)->kind == ForKind::parallel || trial.loop(p)->kind == ForKind::thread_binding)
      require_still_independent(trial, p);
  s = std::move(trial);
  return s.names.at(name);
}

}  // namespace

static int32_t read_at(State& s, int32_t loop_id, int32_t id, int read_index, const std::string& scope) {
  require_place(s, id, loop_id, scope);
  const Buffer b = region_buffer(s, id, read_index, false);
  const Ref<BlockRealize> r = s.realize(id);
  for (const BufferRegion& w : r->block->writes)
    if (w->buffer.same_as(b))
      s.refuse("T0772", id, fmt::format("it also writes '{}'", b->name), "use cache_inplace");
  if (!plainly_used(r->block, b))
    s.refuse("T0736", id,
             fmt::format("it reads '{}' through a mask, a matched region or a pointer", b->name));
  const auto all = s.scope(s.scope_of(id));
  for (int w : all->writers(b))
    if (s.inside(all->leaves[size_t(w)].id, loop_id))
      s.refuse("T0773", id,
               fmt::format("'{}' is written by {} inside the same loop", b->name,
                           s.describe(all->leaves[size_t(w)].id)),
               "choose a loop that does not hold the writer");
  Analyzer a = s.analyzer();
  bind_loops(s, a, loop_id);
  const Leaf& leaf = all->leaves[size_t(all->find(id))];
  const BufferRegion part = region_below(s, leaf, r->block->reads[size_t(read_index)], loop_id, a);
  const Buffer copy = buffer(fmt::format("{}_{}", b->name, scope), b->shape, b->dtype, scope);
  const std::string name = s.fresh_block_name(copy->name);
  Ref<BlockRealize> next = r;
  next.edit()->block = redirect(r->block, b, copy);
  return put(s, id, loop_id, next, copy_part(b, copy, part->region, name, a, s, loop_id), true, copy, name);
}

static int32_t write_at(State& s, int32_t loop_id, int32_t id, int write_index, const std::string& scope) {
  require_place(s, id, loop_id, scope);
  const Buffer b = region_buffer(s, id, write_index, true);
  const Ref<BlockRealize> r = s.realize(id);
  const Ref<Block> block = r->block;
  if (!is_complete(block) && !is_reduction(block))
    s.refuse("T0752", id, "it is neither complete nor a reduction with its init",
             "use it before decompose_reduction");
  if (!plainly_used(block, b))
    s.refuse("T0736", id, fmt::format("it uses '{}' through a mask, a matched region or a pointer", b->name));
  const auto all = s.scope(s.scope_of(id));
  for (const auto& list : {all->writers(b), all->readers(b)})
    for (int x : list)
      if (const Leaf& l = all->leaves[size_t(x)]; l.id != id && s.inside(l.id, loop_id))
        s.refuse("T0773", id, fmt::format("{} inside the same loop uses '{}' too", s.describe(l.id), b->name),
                 "choose a loop further in");
  for (int32_t p = loop_id; p >= 0 && !s.is_block(p); p = s.parent(p)) {
    const LoopRole role = role_of(r, s.loop(p)->loop_var.get());
    if (role == LoopRole::reduce || role == LoopRole::mixed)
      s.refuse("T0755", id,
               fmt::format("it still adds to '{}' over {}, and a copy would be made of each part sum",
                           b->name, s.describe(p)),
               "choose a loop outside the reduction");
  }
  // The copy may hold nothing that this iteration has not written.
  Analyzer a = s.analyzer();
  bind_loops(s, a, loop_id);
  const Leaf& leaf = all->leaves[size_t(all->find(id))];
  const BufferRegion& written = block->writes[size_t(write_index)];
  const Array<Range> box = window_below(s, leaf, written, loop_id, a);
  if (!makes_box(s, leaf, written, loop_id, a))
    s.refuse("T0757", id,
             fmt::format("what it makes in one iteration of {} is not provably a box of '{}'",
                         s.describe(loop_id), b->name),
             "choose a loop whose iteration makes whole rows or tiles");
  const Buffer copy = buffer(fmt::format("{}_{}", b->name, scope), b->shape, b->dtype, scope);
  const std::string name = s.fresh_block_name(copy->name);
  Ref<BlockRealize> next = r;
  next.edit()->block = redirect(block, b, copy);
  return put(s, id, loop_id, next, copy_part(copy, b, box, name, a, s, loop_id), false, copy, name);
}

const Define<&Schedule::read_at, read_at> read_at_record{
    {.name = "read_at",
     .does = "each iteration of a loop begins by copying what the block below reads in it; the copying block",
     .legal = "the block does not write the buffer, and the loop holds no writer of it",
     .parameters = {{"loop", "around the block"},
                    {"block", "the reader"},
                    {"read_index", "which of its read regions"},
                    {"scope", kCopyMemory}},
     .sample = {samples::matmul, R"(
c = sch.get_block("C")
i, j, k = sch.get_loops(c)
copy = sch.read_at(i, c, read_index=0, scope="local")
)"}}};
const Define<&Schedule::write_at, write_at> write_at_record{
    {.name = "write_at",
     .does = "each iteration of a loop ends by copying back what the block below has written in it; the "
             "copying block",
     .legal = "an iteration makes a whole box of the buffer, nothing else in the loop uses it, and the loops "
              "of the block's reduction lie inside",
     .parameters = {{"loop", "around the block"},
                    {"block", "the writer"},
                    {"write_index", "which of its write regions"},
                    {"scope", kCopyMemory}},
     .sample = {samples::matmul, R"(
c = sch.get_block("C")
i, j, k = sch.get_loops(c)
copy = sch.write_at(i, c, write_index=0, scope="local")
)"}}};

}  // namespace tenon::sched
