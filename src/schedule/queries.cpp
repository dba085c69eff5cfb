// SPDX-License-Identifier: Apache-2.0
// Queries: they find blocks and loops and change nothing.
#include <fmt/format.h>

#include "schedule/define.h"

namespace tenon {

namespace sched {
namespace {

using Ids = std::vector<int32_t>;

int32_t get_block(State& s, const std::string& name) {
  if (auto it = s.names.find(name); it != s.names.end()) return it->second;
  std::string known;
  for (const Leaf& l : s.scope(s.id_of(s.function->body))->leaves)
    known += (known.empty() ? "" : ", ") + l.realize->block->name;
  throw ScheduleError(ErrorKind::model, "T0704", fmt::format("the program has no block '{}'", name),
                      s.sketch({}), known.empty() ? "" : "its blocks are " + known);
}
Ids get_loops(State& s, int32_t block) {
  s.realize(block);
  return s.loops_of(block);
}
Ids get_child_blocks(State& s, int32_t loop) {
  s.loop(loop);
  return s.blocks_below(loop);
}
Ids related(State& s, int32_t block, bool producers) {
  const Ref<tir::Block> b = s.block(block);
  Ids out;
  for (const Leaf& l : s.scope(s.scope_of(block))->leaves) {
    if (l.id == block) continue;
    bool related = false;
    for (const tir::BufferRegion& r : producers ? b->reads : b->writes)
      related = related || (producers ? l.writes(r->buffer) : l.reads(r->buffer));
    if (related) out.push_back(l.id);
  }
  return out;
}
Ids get_producers(State& s, int32_t block) { return related(s, block, true); }
Ids get_consumers(State& s, int32_t block) { return related(s, block, false); }
Ids get_output_blocks(State& s) {
  Ids out;
  for (int32_t b : s.leaf_blocks())
    for (const tir::BufferRegion& w : s.block(b)->writes)
      if (is_parameter(s, w->buffer)) {
        out.push_back(b);
        break;
      }
  return out;
}

const Define<&Schedule::get_block, get_block> get_block_record{{.name = "get_block",
                                                                .reference = "GetSBlock",
                                                                .kind = StepKind::query,
                                                                .does = "the block of a name",
                                                                .parameters = {{"name", "of the block"}},
                                                                .sample = {samples::matmul, R"(
c = sch.get_block("C")
sch.annotate(c, key="found", value=1)
)"}}};
const Define<&Schedule::get_loops, get_loops> get_loops_record{
    {.name = "get_loops",
     .kind = StepKind::query,
     .does = "the loops around a block, outermost first",
     .parameters = {{"block", "inside the loops"}},
     .sample = {samples::matmul, R"(
c = sch.get_block("C")
i, j, k = sch.get_loops(c)
sch.annotate(k, key="found", value=1)
)"}}};
const Define<&Schedule::get_child_blocks, get_child_blocks> get_child_blocks_record{
    {.name = "get_child_blocks",
     .kind = StepKind::query,
     .does = "the blocks below a loop",
     .parameters = {{"loop", "around the blocks"}},
     .sample = {samples::matmul, R"(
d = sch.get_block("D")
i, j = sch.get_loops(d)
b, = sch.get_child_blocks(i)
sch.annotate(b, key="found", value=1)
)"}}};
const Define<&Schedule::get_producers, get_producers> get_producers_record{
    {.name = "get_producers",
     .kind = StepKind::query,
     .does = "the blocks that write what a block reads",
     .parameters = {{"block", "the reader"}},
     .sample = {samples::matmul, R"(
d = sch.get_block("D")
c, = sch.get_producers(d)
sch.annotate(c, key="found", value=1)
)"}}};
const Define<&Schedule::get_consumers, get_consumers> get_consumers_record{
    {.name = "get_consumers",
     .kind = StepKind::query,
     .does = "the blocks that read what a block writes",
     .parameters = {{"block", "the writer"}},
     .sample = {samples::matmul, R"(
c = sch.get_block("C")
d, = sch.get_consumers(c)
sch.annotate(d, key="found", value=1)
)"}}};
const Define<&Schedule::get_output_blocks, get_output_blocks> get_output_blocks_record{
    {.name = "get_output_blocks",
     .kind = StepKind::query,
     .does = "the blocks that write results of the function",
     .sample = {samples::matmul, R"(
d, = sch.get_output_blocks()
sch.annotate(d, key="found", value=1)
)"}}};

}  // namespace
}  // namespace sched

}  // namespace tenon
