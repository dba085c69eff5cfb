// SPDX-License-Identifier: Apache-2.0
// One small schedule for each instruction: its trace and the program that it makes are kept as text in
// tests/golden/schedule (TENON_UPDATE_GOLDEN=1 rewrites them), the program computes the same as before, and
// the trace replays. docs/schedule.md has one line for each instruction.
#include <fstream>
#include <functional>
#include <set>
#include <sstream>

#include "schedule/instructions.h"
#include "steps.h"

namespace tenon::testing {
namespace {

using tir::VarRef;
using Steps = std::function<void(Schedule&)>;
struct Case {
  Program program;
  Steps steps;
};
IndexMap map_of(int rank, FunctionRef<Array<PrimExpr>(const Array<VarRef>&)> f) { return index_map(rank, f); }
IndexMap swapped() {
  return map_of(2, [](const Array<VarRef>& i) -> Array<PrimExpr> { return {i[1], i[0]}; });
}
LoopRV loop_of(Schedule& s, const char* block, size_t at) { return s.get_loops(s.get_block(block)).at(at); }

const std::map<std::string, std::function<Case()>>& cases() {
  auto product = [] { return matmul(6, 8, 5); };
  auto on = [](std::function<Program()> program, Steps steps) {
    return [program, steps] { return Case{program(), steps}; };
  };
  static const std::map<std::string, std::function<Case()>> table{
      {"sample_categorical", on(product,
                                [](Schedule& s) {
                                  IntRV f = s.sample_categorical({2, 4}, {0.5, 0.5}, 1);
                                  s.split(loop_of(s, "C", 1), Factors({-1, f}));
                                })},
      {"sample_perfect_tile", on(product,
                                 [](Schedule& s) {
                                   LoopRV l = loop_of(s, "C", 1);
                                   s.split(l, s.sample_perfect_tile(l, 2, 4, {2, 4}));
                                 })},
      {"sample_partitioned_tile", on(product,
                                     [](Schedule& s) {
                                       LoopRV l = loop_of(s, "C", 1);
                                       s.split(l, s.sample_partitioned_tile(l, 3, 1, 4, {2, 2, 2}));
                                     })},
      {"sample_compute_location", on(product,
                                     [](Schedule& s) {
                                       s.compute_at(s.get_block("C"),
                                                    s.sample_compute_location(s.get_block("C"), 0));
                                     })},
      {"get_block", on(product, [](Schedule& s) { s.annotate(s.get_block("C"), "found", Any(1)); })},
      {"get_loops", on(product, [](Schedule& s) { s.annotate(loop_of(s, "C", 2), "found", Any(1)); })},
      {"get_child_blocks",
       on(product,
          [](Schedule& s) { s.annotate(s.get_child_blocks(loop_of(s, "D", 0))[0], "found", Any(1)); })},
      {"get_producers",
       on(product, [](Schedule& s) { s.annotate(s.get_producers(s.get_block("D"))[0], "found", Any(1)); })},
      {"get_consumers",
       on(product, [](Schedule& s) { s.annotate(s.get_consumers(s.get_block("C"))[0], "found", Any(1)); })},
      {"get_output_blocks",
       on(product, [](Schedule& s) { s.annotate(s.get_output_blocks()[0], "found", Any(1)); })},
      {"merge", on([] { return elementwise(4, 5); },
                   [](Schedule& s) { s.merge({loop_of(s, "C", 1), loop_of(s, "D", 1)}); })},
      {"fuse",
       on([] { return elementwise(4, 5); }, [](Schedule& s) { s.fuse(s.get_loops(s.get_block("C"))); })},
      {"split", on([] { return elementwise(4, tir::var("m")); },
                   [](Schedule& s) { s.split(loop_of(s, "C", 1), {-1, 4}); })},
      {"loop_partition", on([] { return elementwise(4, 9); },
                            [](Schedule& s) { s.loop_partition(loop_of(s, "C", 1), {1, -1, 2}); })},
      {"reorder", on(product, [](Schedule& s) { s.reorder({loop_of(s, "C", 2), loop_of(s, "C", 0)}); })},
      {"reorder_block_iter_var",
       on(product, [](Schedule& s) { s.reorder_block_iter_var(s.get_block("C"), {2, 1, 0}); })},
      {"add_unit_loop", on(product, [](Schedule& s) { s.add_unit_loop(s.get_block("D")); })},
      {"add_thread_loop", on(product,
                             [](Schedule& s) {
                               s.bind(loop_of(s, "D", 0), "blockIdx.x");
                               s.add_thread_loop(s.get_block("D"), "threadIdx.x", 4, 2);
                             })},
      {"parallel", on(product, [](Schedule& s) { s.parallel(loop_of(s, "C", 0)); })},
      {"vectorize", on(product, [](Schedule& s) { s.vectorize(loop_of(s, "D", 1)); })},
      {"bind", on(product,
                  [](Schedule& s) {
                    s.bind(loop_of(s, "C", 0), "blockIdx.x");
                    s.bind(loop_of(s, "C", 1), "threadIdx.x");
                  })},
      {"unroll", on(product, [](Schedule& s) { s.unroll(loop_of(s, "C", 2)); })},
      {"cache_read", on(product, [](Schedule& s) { s.cache_read(s.get_block("C"), 1, "local"); })},
      {"cache_write", on(product, [](Schedule& s) { s.cache_write(s.get_block("C"), 0, "local"); })},
      {"reindex_cache_read",
       on([] { return transpose(4, 5); },
          [](Schedule& s) { s.reindex_cache_read(s.get_block("T"), 0, "local", swapped()); })},
      {"reindex_cache_write",
       on([] { return transpose(4, 5); },
          [](Schedule& s) { s.reindex_cache_write(s.get_block("T"), 0, "local", swapped()); })},
      {"cache_inplace", on(product,
                           [](Schedule& s) {
                             BlockRV c = s.get_block("C");
                             s.decompose_reduction(c, s.get_loops(c)[0]);
                             for (size_t i = 0; i < s.get(c)->reads.size(); ++i)
                               if (s.get(c)->reads[i]->buffer->name == "C")
                                 return void(s.cache_inplace(c, int(i), "local"));
                           })},
      {"cache_index", on([] { return depth_to_space(2, 3, 2); },
                         [](Schedule& s) { s.cache_index(s.get_block("O"), "global"); })},
      {"reindex",
       on([] { return row_windows(4, 3, 3, 1); }, [](Schedule& s) { s.reindex(s.get_block("O"), 0); })},
      {"read_at",
       on(product, [](Schedule& s) { s.read_at(loop_of(s, "C", 0), s.get_block("C"), 0, "local"); })},
      {"write_at",
       on(product, [](Schedule& s) { s.write_at(loop_of(s, "C", 0), s.get_block("C"), 0, "local"); })},
      {"compute_at", on(product, [](Schedule& s) { s.compute_at(s.get_block("C"), loop_of(s, "D", 0)); })},
      {"reverse_compute_at",
       on(product, [](Schedule& s) { s.reverse_compute_at(s.get_block("D"), loop_of(s, "C", 0)); })},
      {"compute_inline",
       on([] { return elementwise(4, 5); }, [](Schedule& s) { s.compute_inline(s.get_block("C")); })},
      {"reverse_compute_inline",
       on([] { return transpose(4, 5); }, [](Schedule& s) { s.reverse_compute_inline(s.get_block("O")); })},
      {"fuse_reduction_epilogue",
       on([] { return matmul_bias(PrimExpr(4), 5, 6); },
          [](Schedule& s) { s.fuse_reduction_epilogue(s.get_block("C"), s.get_block("D")); })},
      {"decompose_reduction",
       on(product, [](Schedule& s) { s.decompose_reduction(s.get_block("C"), loop_of(s, "C", 2)); })},
      {"rfactor", on([] { return row_sum(4, 6); }, [](Schedule& s) { s.rfactor(loop_of(s, "S", 1), 1); })},
      {"storage_align", on(product, [](Schedule& s) { s.storage_align(s.get_block("C"), 0, 0, 16, 1); })},
      {"set_scope", on(product, [](Schedule& s) { s.set_scope(s.get_block("C"), 0, "shared"); })},
      {"unsafe_set_dtype", on(product, [](Schedule& s) { s.unsafe_set_dtype(s.get_block("C"), 0, f64); })},
      {"blockize", on(product, [](Schedule& s) { s.blockize(loop_of(s, "C", 1)); })},
      {"tensorize", on([] { return elementwise(3, 4); },
                       [](Schedule& s) {
                         BlockRV copy = s.cache_read(s.get_block("C"), 0, "local");
                         s.tensorize(s.get_loops(copy).back(), "test.copy4");
                       })},
      {"annotate",
       on(product, [](Schedule& s) { s.annotate(s.get_block("C"), "pragma_note", Any("fast")); })},
      {"unannotate", on(product,
                        [](Schedule& s) {
                          s.annotate(s.get_block("C"), "kept", Any(1));
                          s.annotate(s.get_block("C"), "note", Any(2));
                          s.unannotate(s.get_block("C"), "note");
                        })},
      {"transform_layout",
       on(product, [](Schedule& s) { s.transform_layout(s.get_block("C"), 0, "write", swapped()); })},
      {"transform_block_layout",
       on([] { return elementwise(4, 5); },
          [](Schedule& s) {
            s.transform_block_layout(
                s.get_block("C"),
                map_of(2, [](const Array<VarRef>& i) -> Array<PrimExpr> { return {i[0] * 5 + i[1]}; }));
          })},
      {"set_axis_separator",
       on(product, [](Schedule& s) { s.set_axis_separator(s.get_block("C"), 0, "write", {1}); })},
      {"decompose_padding",
       on([] { return depthwise(1, 3, 4); },
          [](Schedule& s) { s.decompose_padding(s.get_block("pad"), loop_of(s, "pad", 0)); })},
      {"pad_einsum", on([] { return matmul(6, 7, 5, false); },
                        [](Schedule& s) { s.pad_einsum(s.get_block("C"), {4, 1, 4}); })},
      {"rolling_buffer", on([] { return row_windows(6, 4, 3, 1); },
                            [](Schedule& s) {
                              s.compute_at(s.get_block("T"), loop_of(s, "O", 0));
                              s.rolling_buffer(s.get_block("T"), 0);
                            })},
      {"unsafe_hide_buffer_access",
       on(product, [](Schedule& s) { s.unsafe_hide_buffer_access(s.get_block("D"), "read", {1}); })},
      {"annotate_buffer_access", on(product,
                                    [](Schedule& s) {
                                      s.annotate_buffer_access(
                                          s.get_block("D"), 0, "read",
                                          map_of(2, [](const Array<VarRef>& i) -> Array<PrimExpr> {
                                            return {i[0], i[0] + 1, PrimExpr(0), PrimExpr(8)};
                                          }));
                                    })},
      {"enter_postproc", on(product,
                            [](Schedule& s) {
                              s.enter_postproc();
                              s.parallel(loop_of(s, "D", 0));
                            })},
      {"fuse_iterators", on(product, [](Schedule& s) { s.fuse_iterators(s.get_block("C"), 0, 2); })},
      {"pad_iteration", on(product, [](Schedule& s) { s.pad_iteration(s.get_block("C"), 0, 4); })},
  };
  return table;
}

std::string file_text(const std::string& path) {
  std::ifstream in(path);
  std::ostringstream out;
  out << in.rdbuf();
  return out.str();
}

class ScheduleGolden : public ::testing::TestWithParam<std::string> {};

TEST_P(ScheduleGolden, DoesWhatIsWritten) {
  register_test_intrins();
  auto it = cases().find(GetParam());
  ASSERT_NE(it, cases().end()) << "write a case for it";
  Case c = it->second();
  c.program.sizes = {{"n", 3}, {"m", 6}};
  Schedule s(c.program.function);
  it->second().steps(s);
  const PrimitiveInfo& instruction = *find_instruction(GetParam());
  bool used = false;
  for (const TraceStep& t : s.trace().steps) used = used || t.name == GetParam();
  EXPECT_TRUE(used) << s.trace().to_script();
  if (instruction.kind == StepKind::change) {
    EXPECT_FALSE(structural_equal(s.function(), c.program.function)) << "the program is as it was";
  }
  EXPECT_EQ(problems_of(s.function()), "");
  EXPECT_TRUE(same(run(c.program.function, c.program.sizes), run(reversed(s.function()), c.program.sizes)));
  Schedule again = Schedule::replay(c.program.function, Trace::from_json(s.trace().to_json()));
  EXPECT_TRUE(structural_equal(again.function(), s.function()));
  EXPECT_EQ(again.trace().to_json(), s.trace().to_json());

  IRModule module = IRModule::create();
  module.set("main", s.function());
  const std::string text = s.trace().to_script() + "\n" + print(module);
  const std::string path = std::string(TENON_SOURCE_DIR) + "/tests/golden/schedule/" + GetParam() + ".txt";
  if (std::getenv("TENON_UPDATE_GOLDEN")) std::ofstream(path) << text;
  EXPECT_EQ(file_text(path), text);
}

std::vector<std::string> names() {
  std::vector<std::string> out;
  for (const PrimitiveInfo& i : instructions()) out.emplace_back(i.name);
  return out;
}
INSTANTIATE_TEST_SUITE_P(All, ScheduleGolden, ::testing::ValuesIn(names()),
                         [](const ::testing::TestParamInfo<std::string>& i) { return i.param; });

TEST(ScheduleTable, EveryInstructionHasALine) {
  // The table of docs/schedule.md is this one; TENON_UPDATE_GOLDEN=1 rewrites it.
  std::string table = "| inventory | instruction | kind | what it does | tests |\n|---|---|---|---|---|\n";
  std::set<std::string_view> references;
  for (const PrimitiveInfo& i : instructions()) {
    static const char* kinds[] = {"query", "sample", "change", "marker"};
    EXPECT_FALSE(i.does.empty()) << i.name;
    EXPECT_TRUE(cases().count(std::string(i.name))) << i.name;
    if (!i.reference.empty()) {
      EXPECT_TRUE(references.insert(i.reference).second) << i.reference;
    }
    table += "| " + std::string(i.reference.empty() ? "(ours)" : i.reference) + " | `" + std::string(i.name) +
             "` | " + kinds[int(i.kind)] + " | " + std::string(i.does) +
             " | `All/ScheduleGolden.DoesWhatIsWritten/" + std::string(i.name) + "`" +
             (i.kind == StepKind::query ? "" : ", `RandomSchedules`") + " |\n";
  }
  EXPECT_EQ(references.size(), 53u) << "the inventory's 52, and set_axis_separator";
  const std::string path = std::string(TENON_SOURCE_DIR) + "/docs/schedule.md";
  std::string page = file_text(path);
  const std::string begin = "<!-- instructions -->\n", end = "<!-- end -->\n";
  const size_t from = page.find(begin), to = page.find(end);
  ASSERT_TRUE(from != page.npos && to != page.npos && from < to) << path;
  if (std::getenv("TENON_UPDATE_GOLDEN")) {
    page = page.substr(0, from + begin.size()) + table + page.substr(to);
    std::ofstream(path) << page;
  }
  EXPECT_EQ(page.substr(from + begin.size(), page.find(end) - from - begin.size()), table);
}

}  // namespace
}  // namespace tenon::testing
