// SPDX-License-Identifier: Apache-2.0
// rolling_buffer: a producer computed under a loop whose iterations need overlapping windows of its result.
// The window stays in a circular buffer, and each iteration computes only what the one before did not.
#include <fmt/format.h>

#include "analysis/condition.h"
#include "schedule/define.h"
#include "schedule/ring.h"

namespace tenon::sched {

using namespace tir;

void require_no_ring(const State& s, int32_t id) {
  std::unordered_set<const Var*> rings;
  pre_order(s.function->body, [&](const ObjectRef& n) {
    const auto* b = n.as<Block>();
    // A copy of a window (read_at) holds one at a time, as the window does.
    bool ring = b && b->annotations.contains(kRing);
    if (b && b->annotations.contains("auto_copy"))
      for (const BufferRegion& x : b->reads) ring = ring || rings.contains(x->buffer->data.get());
    if (ring)
      for (const BufferRegion& w : b->writes) rings.insert(w->buffer->data.get());
    return n.is<StmtNode>() || n.is<ArrayObj>();
  });
  if (rings.empty()) return;
  const Ref<Block> block = s.block(id);
  for (const auto* list : {&block->reads, &block->writes})
    for (const BufferRegion& x : *list)
      if (rings.count(x->buffer->data.get()))
        s.refuse("T0706", id,
                 fmt::format("it uses the circular buffer '{}', which holds one window at a time",
                             x->buffer->name),
                 "move blocks first, then roll");
}

/// Whether the block leaves elements of its window out that lie inside of the buffer: what is behind the last
/// window would not be all that is new. `moving`: the iterator's value that drives the window on.
static bool leaves_elements_out(State& s, int32_t id, int32_t loop_id, const BufferStore& put,
                                const PrimExpr& moving) {
  const Ref<BlockRealize> r = s.realize(id);
  Analyzer a = s.analyzer();
  bind_loops(s, a, id);
  VarMap bound;
  for (size_t i = 0; i < r->block->iter_vars.size(); ++i)
    bound[r->block->iter_vars[i]->var.get()] = r->iter_values[i];
  std::vector<Analyzer::Scope> inside;
  for (size_t d = 0; d < put.indices.size(); ++d) {
    const PrimExpr at = substitute(put.indices[d], bound);
    inside.push_back(a.assume(ge(at, PrimExpr(0))));
    inside.push_back(a.assume(lt(at, put.buffer->shape[d])));
  }
  std::unordered_set<const Var*> below, drive;
  for (int32_t l : s.loops_of(id)) {
    const Var* v = s.loop(l)->loop_var.get();
    if (l != loop_id && s.inside(l, loop_id)) below.insert(v);
    if (uses(moving, v)) drive.insert(v);
  }
  bool out = false;
  for (const PrimExpr& c : conjuncts(r->predicate))
    out = out || (uses_any(c, below) && uses_any(c, drive) && !a.can_prove(c));
  while (!inside.empty()) inside.pop_back();  // the last first
  return out;
}

static void rolling_buffer(State& s, int32_t id, int write_index) {
  const Ref<BlockRealize> r = s.realize(id);
  const Ref<Block> block = r->block;
  const int32_t scope_id = s.scope_of(id);
  const Buffer b = region_buffer(s, id, write_index, true);
  const char* before = "compute_at a loop over the windows first";
  if (is_parameter(s, b))
    s.refuse("T0732", id, fmt::format("'{}' is a result of the function and must be stored whole", b->name));
  require_owned(s, id, b);
  if (!is_complete(block)) s.refuse("T0752", id, "it accumulates or reads what it writes");
  const BufferStore* put = only_store(block);
  if (!put) s.refuse("T0731", id, "its body is not a single store");
  if (has_effects(put->value)) s.refuse("T0731", id, "its value has effects or takes an address");
  const auto positions = trivial_indices(put->indices, block->iter_vars, b);
  if (!positions)
    s.refuse(
        "T0734", id,
        fmt::format("it does not write '{}' at an index made of its own iterators, one for each dimension",
                    b->name));
  if (s.guarded.count(block->name))
    s.refuse("T0742", id, "the program itself restricts the block by a predicate");
  const auto scope = s.scope(scope_id);
  if (scope->writers(b).size() != 1)
    s.refuse("T0733", id, fmt::format("'{}' is written by other blocks too", b->name));
  const int32_t loop_id = s.parent(whole_nest(s, id));
  if (loop_id < 0 || s.is_block(loop_id))
    s.refuse("T0706", id, "it is not computed inside a loop together with what reads it", before);
  const Ref<For> loop = s.loop(loop_id);
  if (loop->kind != ForKind::serial && loop->kind != ForKind::unrolled)
    s.refuse("T0706", loop_id, "its iterations run at once, and each would need what the one before it left",
             "roll over a serial loop");
  const int at = scope->find(id);
  const std::vector<int> readers = scope->readers(b);
  if (readers.empty()) s.refuse("T0735", id, fmt::format("no block reads '{}'", b->name));
  for (int reader : readers) {
    const Leaf& leaf = scope->leaves[size_t(reader)];
    if (!s.inside(leaf.id, loop_id) || reader < at)
      s.refuse("T0754", leaf.id,
               fmt::format("it reads '{}' but lies outside {}", b->name, s.describe(loop_id)), before);
    if (!plainly_used(leaf.realize, b))
      s.refuse("T0736", leaf.id,
               fmt::format("it reads '{}' through a mask, a matched region or a pointer", b->name));
  }
  // How the window moves.
  Analyzer a = s.analyzer();
  bind_loops(s, a, loop_id);
  const Leaf& me = scope->leaves[size_t(at)];
  const Array<Range> window = window_below(s, me, block->writes[size_t(write_index)], loop_id, a);
  int dim = -1;
  int64_t step = 0;
  for (size_t d = 0; d < window.size(); ++d) {
    if (uses(window[d]->extent, loop->loop_var.get()))
      s.refuse("T0706", id, fmt::format("its window changes size in dimension {}", d), before);
    if (!uses(window[d]->min, loop->loop_var.get())) continue;
    const PrimExpr next = substitute(window[d]->min, {{loop->loop_var.get(), loop->loop_var + 1}});
    const auto moved = as_int(a.simplify(next - window[d]->min));
    if (!moved || dim >= 0)
      s.refuse(
          "T0706", id,
          moved ? fmt::format("{} moves its window in two dimensions", s.describe(loop_id))
                : fmt::format("{} does not move its window by the same step each time", s.describe(loop_id)),
          "split and reorder so that one dimension moves by a constant");
    dim = int(d);
    step = *moved;
  }
  const auto size = dim < 0 ? std::nullopt : as_int(window[size_t(dim)]->extent);
  if (dim < 0 || !size || step < 1 || step >= *size)
    s.refuse("T0706", id,
             dim < 0 ? fmt::format("{} does not move its window", s.describe(loop_id))
             : !size ? std::string("its window has no constant size")
             : step < 1
                 ? std::string("its window moves backwards")
                 : fmt::format("windows of {} that move by {} do not overlap: nothing is computed twice",
                               *size, step),
             "roll over the loop that moves overlapping windows");
  const PrimExpr low = window[size_t(dim)]->min;
  if (!a.can_prove(ge(low, PrimExpr(0))))
    s.refuse("T0706", id, fmt::format("its window may begin before '{}'", b->name));
  for (int reader : readers) {
    const Leaf& leaf = scope->leaves[size_t(reader)];
    for (const BufferRegion& x : leaf.realize->block->reads)
      if (x->buffer.same_as(b) &&
          !region_covers(make<BufferRegionNode>(b, window), region_below(s, leaf, x, loop_id, a), a))
        s.refuse("T0706", leaf.id, fmt::format("it reads more of '{}' than the window", b->name));
  }
  const int position = (*positions)[size_t(dim)];
  CHECK(position >= 0, "what moves over a dimension is one of its indices");
  if (leaves_elements_out(s, id, loop_id, *put, r->iter_values[size_t(position)]))
    s.refuse("T0706", id, fmt::format("a condition leaves elements of its window of '{}' out", b->name),
             "split its loops evenly, or roll first");

  Buffer ring = b;
  {
    BufferNode* e = ring.edit();
    e->shape.set(size_t(dim), PrimExpr(*size));
    e->data = var(b->data->name, b->data->dtype);
    e->axis_separators = Array<int64_t>();
  }
  auto turned = [&](const Array<PrimExpr>& indices) {
    Array<PrimExpr> out = indices;
    out.set(size_t(dim), floormod(indices[size_t(dim)], PrimExpr(*size)));
    return out;
  };
  // What is new begins at the window's start in the first iteration, behind the old window in all others.
  IterVar fresh = iter_var(range(PrimExpr(0), a.simplify(b->shape[size_t(dim)] + *size)), "v_new");
  const VarRef& moving = block->iter_vars[size_t(position)]->var;
  Ref<Block> producer = block;
  {
    Block* e = producer.edit();
    e->iter_vars.push_back(fresh);
    e->annotations.set(kRing, Any(1));
    e->body = make<IfThenElse>(ge(moving, fresh->var), store(ring, put->value, turned(put->indices)), Stmt());
  }
  Ref<BlockRealize> realize = r;
  {
    BlockRealize* e = realize.edit();
    e->iter_values.push_back(
        select(eq(loop->loop_var, loop->min), low, a.simplify(low + PrimExpr(*size - step))));
    e->block = with_regions(producer);
  }
  const Object* old = r.get();
  const Stmt body = rewrite_any(
                        s.block(scope_id)->body,
                        [&](const ObjectRef& n) -> ObjectRef {
                          if (const auto* l = n.as<BufferLoad>(); l && l->buffer.same_as(b))
                            return load(ring, turned(l->indices));
                          if (const auto* x = n.as<Block>()) {
                            for (const BufferRegion& y : x->reads)
                              if (y->buffer.same_as(b)) return with_regions(n.cast<Block>());
                          }
                          return {};
                        },
                        [&](const ObjectRef& n) {
                          return n.get() == old || n.is<BufferNode>() || n.is<BufferRegionNode>();
                        })
                        .cast<StmtNode>();
  // `skip` keeps the old realization as it is: put the new one there.
  const Stmt whole =
      rewrite_stmts(body, [&](const Stmt& n) -> Stmt { return n.get() == old ? Stmt(realize) : Stmt(); });
  Array<Buffer> allocs;
  for (const Buffer& x : s.block(scope_id)->alloc_buffers) allocs.push_back(x.same_as(b) ? ring : x);
  s.replace_body(scope_id, whole, allocs);
}

const Define<&Schedule::rolling_buffer, rolling_buffer> rolling_buffer_record{
    {.name = "rolling_buffer",
     .does =
         "overlapping windows of a moving producer stay in a circular buffer, and each iteration computes "
         "only what is new; the loop stays serial and blocks that use the buffer stay where they are",
     .legal =
         "the block is computed inside a serial loop whose iterations need windows that overlap and move on",
     .parameters = {{"block", "the producer"}, {"write_index", "which of its write regions"}},
     .sample = {samples::windows, R"(
p = sch.get_block("P")
d = sch.get_block("D")
i, j, y = sch.get_loops(d)
sch.compute_at(p, i)
sch.rolling_buffer(p, write_index=0)
)"}}};

}  // namespace tenon::sched
