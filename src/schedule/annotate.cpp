// SPDX-License-Identifier: Apache-2.0
// Primitives that leave a word for later stages: annotate and unannotate, on loops and blocks.
#include <fmt/format.h>

#include "schedule/define.h"
#include "schedule/ring.h"

namespace tenon::sched {

using namespace tir;

namespace {
void put(State& s, int32_t id, AttrMap map) {
  const Stmt node = s.entry(id).node;
  if (node.is<For>()) {
    Ref<For> copy = node.cast<For>();
    copy.edit()->annotations = map;
    s.replace(id, copy);
    return;
  }
  Ref<BlockRealize> r = node.cast<BlockRealize>();
  Ref<Block> b = r->block;
  b.edit()->annotations = map;
  r.edit()->block = b;
  s.replace(id, r);
}
AttrMap annotations_of(const State& s, int32_t id) {
  const Entry& e = s.entry(id);
  return e.is_block ? e.node.as<BlockRealize>()->block->annotations : e.node.as<For>()->annotations;
}
}  // namespace

static void annotate(State& s, int32_t id, const std::string& key, const Any& value) {
  AttrMap map = annotations_of(s, id);
  if (key.empty()) s.refuse("T0780", id, "an annotation needs a name");
  if (value.is_object() && !value.try_as<std::string>() && !value.try_as<PrimExpr>() &&
      !value.try_as<Array<Any>>())
    s.refuse("T0780", id,
             fmt::format("'{}' is given a {}, which a trace cannot record", key, value.kind_name()),
             "use numbers, texts, expressions or lists of them");
  map.set(key, value);
  put(s, id, map);
}

static void enter_postproc(State& s) {
  if (s.postproc)
    throw ScheduleError(ErrorKind::model, "T0709",
                        "enter_postproc is refused: the steps that finish were entered before", s.sketch({}),
                        "a schedule enters them once");
  s.postproc = true;
}

static void unannotate(State& s, int32_t id, const std::string& key) {
  AttrMap map = annotations_of(s, id);
  if (!map.contains(key)) s.refuse("T0781", id, fmt::format("it has no annotation '{}'", key));
  if (key == kRing) s.refuse("T0781", id, "the word says that it fills a circular buffer, which stays one");
  map.erase(key);
  put(s, id, map);
}

static void storage_align(State& s, int32_t id, int write_index, int axis, int64_t factor, int64_t offset) {
  Ref<Block> block = s.block(id);
  s.scope_of(id);
  if (write_index < 0 || size_t(write_index) >= block->writes.size())
    s.refuse(
        "T0771", id,
        fmt::format("it has {} write regions, there is no number {}", block->writes.size(), write_index));
  const Buffer b = block->writes[size_t(write_index)]->buffer;
  const int rank = int(b->shape.size());
  if (axis < 0) axis += rank;
  if (axis < 0 || axis >= rank)
    s.refuse("T0788", id, fmt::format("'{}' has {} dimensions, there is no number {}", b->name, rank, axis));
  if (factor < 1 || factor > (1 << 20) || offset < 0 || offset >= factor)
    s.refuse("T0788", id,
             fmt::format("a stride that leaves the remainder {} when divided by {} does not exist", offset,
                         factor),
             "a factor of 1 or more, an offset of 0 or more below it");
  bool owned = false;
  for (int32_t p = s.parent(id); p >= 0; p = s.parent(p))
    if (s.is_block(p))
      for (const Buffer& x : s.block(p)->alloc_buffers) owned = owned || x.same_as(b);
  if (!owned)
    s.refuse("T0788", id,
             fmt::format("'{}' is not allocated by the program: its strides are the caller's", b->name),
             "use cache_write first");
  if (!b->strides.empty()) s.refuse("T0788", id, fmt::format("'{}' has strides already", b->name));
  Array<Any> list;
  if (auto old = block->annotations.find(storage_align_key))
    for (const Any& x : old->as<Array<Any>>()) {
      const Array<Any> one = x.as<Array<Any>>();
      if (one[0].as<int>() != write_index || one[1].as<int>() != axis) list.push_back(x);
    }
  list.push_back(Any(Array<Any>{Any(write_index), Any(axis), Any(factor), Any(offset)}));
  AttrMap map = block->annotations;
  map.set(storage_align_key, Any(list));
  put(s, id, map);
}

const Define<&Schedule::annotate, annotate> annotate_record{
    {.name = "annotate",
     .calls = CallOrder::kept,
     .does = "a word for later stages",
     .legal = "the value is a number, a text, an expression or a list of them",
     .parameters = {{"block_or_loop", "that gets the word"}, {"key", "its name"}, {"value", "what it says"}},
     .sample = {samples::matmul, R"(
c = sch.get_block("C")
sch.annotate(c, key="note", value="fast")
)"}}};
const Define<&Schedule::unannotate, unannotate> unannotate_record{
    {.name = "unannotate",
     .calls = CallOrder::kept,
     .does = "takes a word back",
     .legal = "it is there, and does not mark a circular buffer",
     .parameters = {{"block_or_loop", "that has the word"}, {"key", "its name"}},
     .sample = {samples::matmul, R"(
c = sch.get_block("C")
sch.annotate(c, key="kept", value=1)
sch.annotate(c, key="note", value=2)
sch.unannotate(c, key="note")
)"}}};
const Define<&Schedule::storage_align, storage_align> storage_align_record{
    {.name = "storage_align",
     .calls = CallOrder::moved,
     .does = "in memory, a dimension's stride leaves a remainder",
     .legal = "the program allocates the buffer, which has no strides yet",
     .parameters = {{"block", "a writer of the buffer"},
                    {"write_index", "which of its write regions"},
                    {"axis", "the dimension; negative: from behind"},
                    {"factor", "that the stride is divided by"},
                    {"offset", "the remainder", 0}},
     .sample = {samples::matmul, R"(
c = sch.get_block("C")
sch.storage_align(c, write_index=0, axis=0, factor=16, offset=1)
)"}}};
const Define<&Schedule::enter_postproc, enter_postproc> enter_postproc_record{
    {.name = "enter_postproc",
     .kind = StepKind::marker,
     .calls = CallOrder::kept,
     .does = "marks where steps that finish a schedule begin",
     .legal = "it was not entered before",
     .sample = {samples::matmul, R"(
sch.enter_postproc()
d = sch.get_block("D")
i, j = sch.get_loops(d)
sch.parallel(i)
)"}}};

}  // namespace tenon::sched
