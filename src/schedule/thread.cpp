// SPDX-License-Identifier: Apache-2.0
// bind: a loop's iterations become threads of a device. blockIdx: groups of threads; threadIdx: threads of
// one group, which may reduce together; vthread: iterations that one thread interleaves.
#include <fmt/format.h>

#include "schedule/define.h"

namespace tenon::sched {

using namespace tir;

namespace {

enum class Axis { none, grid, thread, interleaved };
Axis axis_of(std::string_view tag) {
  auto dimension = [&](std::string_view prefix) {
    return tag.size() == prefix.size() + 2 && tag.starts_with(prefix) && tag[prefix.size()] == '.' &&
           tag.back() >= 'x' && tag.back() <= 'z';
  };
  return dimension("blockIdx")                      ? Axis::grid
         : dimension("threadIdx")                   ? Axis::thread
         : tag == "vthread" || dimension("vthread") ? Axis::interleaved
                                                    : Axis::none;
}
/// Loops below `id`, through blocks.
std::vector<int32_t> loops_below(const State& s, int32_t id) {
  std::vector<int32_t> out, stack = s.children(id);
  while (!stack.empty()) {
    const int32_t c = stack.back();
    stack.pop_back();
    if (!s.is_block(c)) out.push_back(c);
    for (int32_t d : s.children(c)) stack.push_back(d);
  }
  return out;
}

}  // namespace

bool bound_to_threads(const State& s, int32_t loop) {
  const Ref<For> l = s.loop(loop);
  return l->kind == ForKind::thread_binding && axis_of(l->thread_tag) == Axis::thread;
}

Ref<For> loop_like(const Ref<For>& loop, const VarRef& v) {
  return make<For>(v, loop->min, loop->extent, loop->kind, Stmt(), loop->thread_tag, AttrMap());
}

void require_still_independent(State& s, int32_t loop) {
  require_independent(s, loop, s.loop(loop)->kind, bound_to_threads(s, loop));
}

static void bind(State& s, int32_t loop_id, const std::string& tag) {
  Ref<For> loop = s.loop(loop_id);
  const Axis axis = axis_of(tag);
  if (axis == Axis::none)
    s.refuse("T0705", loop_id, fmt::format("'{}' is no thread axis", tag),
             "axes are blockIdx.x to .z, threadIdx.x to .z and vthread, vthread.x to .z");
  if (loop->kind == ForKind::thread_binding && loop->thread_tag == tag) return;
  if (loop->kind != ForKind::serial) s.refuse("T0710", loop_id, "the loop already has another kind");
  if (axis != Axis::grid) {
    const auto extent = as_int(loop->extent);
    const int64_t most = axis == Axis::thread ? 1024 : 64;
    if (!extent)
      s.refuse("T0727", loop_id, fmt::format("its extent is not a constant, as that of {} must be", tag),
               "split off a constant factor first; the remainder is guarded by a predicate");
    if (*extent > most)
      s.refuse("T0727", loop_id, fmt::format("{} iterations are too many for {}", *extent, tag),
               fmt::format("split off at most {}", most));
  }
  Analyzer a = s.analyzer();
  bind_loops(s, a, s.parent(loop_id));
  auto nested = [&](int32_t other, const char* how) {
    Ref<For> x = s.loop(other);
    if (x->kind != ForKind::thread_binding) return;
    if (x->thread_tag == tag)
      s.refuse("T0705", loop_id,
               fmt::format("{}, {} it, is bound to {} already", s.describe(other), how, tag),
               "choose another axis, or fuse the two loops before binding");
  };
  int32_t top = loop_id;
  for (int32_t p = s.parent(loop_id); p >= 0; p = s.parent(p)) {
    if (s.is_block(p)) continue;
    top = p;
    const ForKind kind = s.loop(p)->kind;
    if (kind == ForKind::vectorized || kind == ForKind::parallel)
      s.refuse("T0728", loop_id,
               fmt::format("it lies inside {}, which is {}", s.describe(p),
                           kind == ForKind::parallel ? "parallel on the host" : "vectorised"));
    nested(p, "around");
    if (kind == ForKind::thread_binding && axis == Axis::grid && axis_of(s.loop(p)->thread_tag) != Axis::grid)
      s.refuse("T0705", loop_id,
               fmt::format("groups of threads cannot lie inside {}, which is bound to {}", s.describe(p),
                           s.loop(p)->thread_tag),
               "reorder first");
  }
  for (int32_t l : loops_below(s, loop_id)) {
    nested(l, "inside");
    const Ref<For> x = s.loop(l);
    if (x->kind == ForKind::parallel)
      s.refuse("T0728", loop_id,
               fmt::format("{}, which is parallel on the host, lies inside it", s.describe(l)));
    if (x->kind == ForKind::thread_binding && axis != Axis::grid && axis_of(x->thread_tag) == Axis::grid)
      s.refuse(
          "T0705", loop_id,
          fmt::format("{}, which is bound to {}, would lie inside threads", s.describe(l), x->thread_tag),
          "reorder first");
  }
  // One launch has one number of threads on each axis.
  for (int32_t l : loops_below(s, top)) {
    const Ref<For> x = s.loop(l);
    if (l == loop_id || x->kind != ForKind::thread_binding || x->thread_tag != tag) continue;
    if (!a.can_prove_equal(x->extent, loop->extent))
      s.refuse("T0705", loop_id,
               fmt::format("{} of the same kernel gives {} another number of threads", s.describe(l), tag),
               "split both by one factor");
  }
  require_independent(s, loop_id, ForKind::thread_binding, axis == Axis::thread);
  Ref<For> copy = loop;
  copy.edit()->kind = ForKind::thread_binding;
  copy.edit()->thread_tag = tag;
  s.replace(loop_id, copy);
}

static int32_t add_thread_loop(State& s, int32_t id, const std::string& tag, int64_t extent, int64_t which) {
  const Ref<BlockRealize> r = s.realize(id);
  s.scope_of(id);
  if (extent < 1 || which < 0 || which >= extent)
    s.refuse("T0705", id, fmt::format("of {} threads none is number {}", extent, which),
             "threads are counted from 0");
  const VarRef v = var("t");
  Ref<BlockRealize> one = r;
  const PrimExpr guard = eq(v, PrimExpr(which));
  one.edit()->predicate = is_const_int(r->predicate, 1) ? guard : logical_and(r->predicate, guard);
  const Stmt made = for_(v, PrimExpr(0), PrimExpr(extent), one);
  State trial = s;  // bind may refuse
  trial.facts = std::make_shared<FactCache>();
  trial.replace(id, made);
  const int32_t loop = trial.id_of(made);
  bind(trial, loop, tag);
  s = std::move(trial);
  return loop;
}

const Define<&Schedule::bind, bind> bind_record{
    {.name = "bind",
     .does = "a loop's iterations become threads of a device",
     .legal = "no iteration writes what another reads or writes, or they reduce together over threadIdx; an "
              "axis is bound once in a nest and has one extent in a kernel",
     .parameters = {{"loop", "whose iterations are independent"},
                    {"thread_axis",
                     "blockIdx.x to .z: groups of threads, threadIdx.x to .z: threads of one group, vthread, "
                     "vthread.x to .z: iterations that one thread interleaves"}},
     .sample = {samples::matmul, R"(
c = sch.get_block("C")
i, j, k = sch.get_loops(c)
sch.bind(i, thread_axis="blockIdx.x")
sch.bind(j, thread_axis="threadIdx.x")
)"}}};
const Define<&Schedule::add_thread_loop, add_thread_loop> add_thread_loop_record{
    {.name = "add_thread_loop",
     .reference = "",
     .does = "threads around a block, of which one runs it",
     .legal = "bind accepts the loop",
     .parameters = {{"block", "that one thread runs"},
                    {"thread_axis", "as for bind"},
                    {"extent", "number of threads"},
                    {"which", "number of the thread that runs the block", 0}},
     .sample = {samples::matmul, R"(
d = sch.get_block("D")
i, j = sch.get_loops(d)
sch.bind(i, thread_axis="blockIdx.x")
t = sch.add_thread_loop(d, thread_axis="threadIdx.x", extent=4, which=2)
)"}}};

}  // namespace tenon::sched
