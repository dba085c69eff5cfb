// SPDX-License-Identifier: Apache-2.0
// Each pragma has its effect, in text and from schedules, or is refused by name; the page says what the table
// of them does.
#include <filesystem>
#include <fstream>
#include <sstream>

#include "alike.h"
#include "codegen/llvm/llvm.h"
#include "pass/tensor/pragmas.h"
#include "pipeline/te_build.h"
#include "schedule/te/te_schedule.h"

namespace tenon::testing_programs {
namespace {

using tensor_detail::Pragma;
using tensor_detail::pragmas;
using Ints = std::vector<int64_t>;

std::string program(const std::string& body) {
  return "@T.prim_func\ndef main(A: T.Buffer((12,), \"int32\"), B: T.Buffer((12,), \"int32\")):\n" + body;
}
const Ints kValues{3, 1, 4, 1, 5, 9, 2, 6, 5, 3, 5, 8};

/// The program behind the passes up to `last`, which computes what it computed.
std::string lowered(const std::string& text, const std::string& last) {
  const IRModule module = parse_module(text);
  PassContext context;
  IRModule out = module;
  for (const Pass& pass : tensor_passes()) {
    out = pass.run(out, context);
    if (pass.name == last) break;
  }
  const std::vector<NDArray> inputs{ints(kValues)};
  expect_same_bits(interpreted(module, inputs), interpreted(out, inputs), last);
  return print(out);
}
size_t count(const std::string& text, const std::string& word) {
  size_t n = 0;
  for (size_t at = text.find(word); at != text.npos; at = text.find(word, at + 1)) ++n;
  return n;
}
const std::string kNest = R"(
    for i in T.serial(4, annotations={NOTES}):
        for j in range(3):
            B[i * 3 + j] = A[i * 3 + j] + 1
)";
std::string nest(const std::string& notes) {
  std::string body = kNest;
  return program(body.replace(body.find("{NOTES}"), 7, "{" + notes + "}"));
}

TEST(Pragmas, AutoUnrollMakesNoMoreStatementsThanItSays) {
  for (const auto& [limit, loops, stores] :
       {std::tuple(2, 2, 1), {3, 1, 3}, {11, 1, 3}, {12, 0, 12}, {100, 0, 12}}) {
    const std::string text =
        lowered(nest("\"pragma_auto_unroll_max_step\": " + std::to_string(limit)), "unroll_loop");
    EXPECT_EQ(count(text, "for "), size_t(loops)) << text;
    EXPECT_EQ(count(text, "] = A_1["), size_t(stores)) << text;
  }
}

TEST(Pragmas, AutoUnrollOfAttributesAndBlocks) {
  EXPECT_EQ(count(lowered(program(R"(
    with T.attr(0, "pragma_auto_unroll_max_step", 16):
        for i in range(12):
            B[i] = A[i]
)"),
                          "unroll_loop"),
                  "] = A_1["),
            12u);
  EXPECT_EQ(count(lowered(program(R"(
    with T.block("root"):
        T.block_attr({"pragma_auto_unroll_max_step": 16})
        for i in range(12):
            with T.block("b"):
                v = T.axis.spatial(12, i)
                B[v] = A[v]
)"),
                          "unroll_loop"),
                  "] = A_1["),
            12u);
}

TEST(Pragmas, UnrollAndWhoUnrolls) {
  EXPECT_EQ(count(lowered(nest("\"pragma_unroll\": 1"), "unroll_loop"), "for "), 4u);
  const std::string kept =
      lowered(nest("\"pragma_unroll\": True, \"pragma_unroll_explicit\": 0"), "unroll_loop");
  EXPECT_EQ(count(kept, "T.unroll("), 1u) << kept;
  EXPECT_EQ(
      count(lowered(nest("\"pragma_auto_unroll_max_step\": 100, \"pragma_no_unroll\": 1"), "unroll_loop"),
            "for "),
      1u);
  run_alike(nest("\"pragma_unroll\": 1, \"pragma_unroll_explicit\": 0"), {ints(kValues)});
  CompileOptions options;
  options.code = CodeForm::none;
  const auto ir = [&](const std::string& notes) {
    const Compiled c =
        compile(with_entry(parse_module(program("    for i in T.serial(12, annotations={" + notes +
                                                "}):\n"
                                                "        B[i] = A[A[i]]\n"))),
                options);
    return codegen::llvm_ir(c.lowered, c.target, 0);
  };
  EXPECT_NE(ir("\"pragma_no_unroll\": 1").find("llvm.loop.unroll.disable"), std::string::npos);
  EXPECT_NE(ir("\"pragma_unroll\": 1, \"pragma_unroll_explicit\": 0").find("llvm.loop.unroll.full"),
            std::string::npos);
  EXPECT_EQ(ir("").find("llvm.loop.unroll"), std::string::npos);
}

TEST(Pragmas, RowsOfAnyNumberOfVectorsAreNotUnrolled) {
  CompileOptions options;
  options.code = CodeForm::none;
  options.context.disabled.insert("few_vectors");
  const auto kept = [&](const std::string& rows) {
    const Compiled c = compile(with_entry(parse_module(R"(
@T.prim_func
def main(A: T.Buffer((40, n), "float32"), B: T.Buffer((40, n), "float32"), n: T.int64):
    for y in range()" + rows + R"():
        for i in range(n // 8):
            B[y, T.Ramp(i * 8, 1, 8)] = A[y, T.Ramp(i * 8, 1, 8)]
)")),
                               options);
    return codegen::llvm_ir(c.lowered, c.target, 0).find("llvm.loop.unroll.runtime.disable") !=
           std::string::npos;
  };
  EXPECT_TRUE(kept("40"));
  EXPECT_FALSE(kept("1")) << "one long row";
}

TEST(Pragmas, Vectorize) {
  const std::string text = program(R"(
    for i in range(3):
        for j in T.serial(4, annotations={"pragma_vectorize": 1}):
            B[i * 4 + j] = A[i * 4 + j] * 3
)");
  EXPECT_NE(lowered(text, "vectorize_loop").find("A_1[T.Ramp(i * 4, 1, 4)]"), std::string::npos)
      << lowered(text, "vectorize_loop");
  run_alike(text, {ints(kValues)});
  const std::string sum = refusal(program(R"(
    B[0] = 0
    for j in T.serial(12, annotations={"pragma_vectorize": 1}):
        B[0] = B[0] + A[j]
)"));
  EXPECT_TRUE(sum.starts_with("T0823") && sum.find("not independent") != sum.npos &&
              sum.find(":5:5") != sum.npos)
      << sum;
}

TEST(Pragmas, ParallelChunks) {
  const std::string text = program(R"(
    for i in T.parallel(12, annotations={"pragma_parallel_chunk": 5, "pragma_parallel_barrier_when_finish": 1}):
        B[i] = A[i] * 2
)");
  const std::string chunked = lowered(text, "apply_pragmas");
  EXPECT_NE(chunked.find("in T.parallel(3)"), std::string::npos) << chunked;
  EXPECT_NE(chunked.find("T.min(12 - i_chunk * 5, 5)"), std::string::npos) << chunked;
  EXPECT_EQ(values(run_alike(text, {ints(kValues)}).at(0)), (Ints{6, 2, 8, 2, 10, 18, 4, 12, 10, 6, 10, 16}));
}

TEST(Pragmas, ImportedTexts) {
  const std::string body = R"(
        assert T.call_extern("int32", "thrice", A.access_ptr("r"), B.access_ptr("w"), 12) == 0, "no"
)";
  const std::string c =
      "int thrice(const int* a, int* b, long n) { for (long i = 0; i < n; ++i) b[i] = 3 * a[i]; return 0; }";
  const IRModule module =
      parse_module(program("    with T.attr(0, \"pragma_import_c\", \"" + c + "\"):" + body));
  Ints want;
  for (const int64_t v : kValues) want.push_back(3 * v);
  for (const char* target : {"llvm", "c"})
    EXPECT_EQ(values(compiled_run(module, {ints(kValues)}, target, 2).at(0)), want) << target;
}

TEST(Pragmas, PartitionHintCutsLargeLoopsThatHoldOthers) {
  constexpr size_t kInside = 40;  // more than are cut without being asked
  const auto text = [](const std::string& notes, size_t loops) {
    std::string body = "    for i in T.serial(12, annotations={" + notes + "}):\n        B[i] = 0\n";
    for (size_t k = 0; k < loops; ++k)
      body += R"(        for j in range(3):
            if i >= 2:
                B[i] = B[i] + A[i - 2] * T.int32(j)
)";
    return program(body);
  };
  EXPECT_EQ(count(lowered(text("", 1), "loop_partition"), "if "), 0u);
  EXPECT_EQ(count(lowered(text("", kInside), "loop_partition"), "if "), 1u);
  EXPECT_EQ(count(lowered(text("\"pragma_loop_partition_hint\": 1", kInside), "loop_partition"), "if "), 0u);
}

TEST(Pragmas, AScopeInOrder) {
  const auto scope = [](const std::string& value, const std::string& loop) {
    return program("    with T.attr(0, \"pragma_scope\", " + value +
                   "):\n        B[0] = A[0]\n        for i in " + loop + ":\n            B[i] = 1\n");
  };
  EXPECT_EQ(refusal(scope("\"seq\"", "range(3)")), "runs");
  EXPECT_NE(refusal(scope("\"par\"", "range(3)")).find("takes the text \"seq\""), std::string::npos);
  EXPECT_NE(refusal(scope("\"seq\"", "T.parallel(3)")).find("holds the loop `i`"), std::string::npos);
}

TEST(Pragmas, WhatHasNoEffectIsRefusedByName) {
  const auto starts = [](const std::string& notes, const std::string& words) {
    const std::string got = refusal(nest(notes));
    EXPECT_TRUE(got.starts_with("T0823") && got.find(words) != got.npos && got.find(":4:") != got.npos)
        << got;
  };
  starts("\"pragma_banana\": 1", "`pragma_banana` is no pragma");
  starts("\"pragma_auto_unroll_max_step\": -1", "takes a number of 0 or more");
  starts("\"pragma_auto_unroll_max_step\": \"many\"", "takes a number");
  starts("\"pragma_unroll\": 4", "takes 0 or 1");
  starts("\"pragma_parallel_chunk\": 4", "not parallel");
  starts("\"pragma_parallel_barrier_when_finish\": 1", "not parallel");
  starts("\"pragma_unroll\": 1, \"pragma_vectorize\": 1", "exclude each other");
  starts("\"pragma_import_c\": 5", "takes a text");
  starts("\"software_pipeline_async_stages\": [0]", "`software_pipeline_async_stages` has no meaning here");
  for (const Pragma& p : pragmas())
    if (!p.refused.empty())
      starts("\"pragma_" + std::string(p.key) + "\": 1", "has no meaning here: " + std::string(p.refused));
  const std::string around =
      refusal(program("    with T.attr(0, \"pragma_unroll\", 1):\n        B[0] = A[0]\n        for i in "
                      "range(3):\n            B[i] = 1\n"));
  EXPECT_TRUE(around.starts_with("T0823") && around.find("stands around no loop") != around.npos) << around;
}

TEST(Pragmas, OfSchedules) {
  te::Tensor a = te::placeholder({12, 4}, f32, "A");
  te::Tensor b = te::compute({12, 4}, [&](const auto& i) { return a({i[0], i[1]}) + 1.0; }, "B");
  te::Schedule good = te::create_schedule(b->op);
  good[b].pragma(b->op->axis[0], "auto_unroll_max_step", Any(8)).vectorize(b->op->axis[1]);
  EXPECT_NO_THROW(te::build(good, {a, b}));
  te::Schedule bad = te::create_schedule(b->op);
  bad[b].pragma(b->op->axis[0], "banana", Any(8));
  try {
    te::build(bad, {a, b});
    FAIL();
  } catch (const Error& e) {
    EXPECT_EQ(e.code, "T0823");
    EXPECT_NE(std::string(e.what()).find("`pragma_banana`"), std::string::npos) << e.what();
  }
}

TEST(Pragmas, ArePrintedInTheDocs) {
  std::string page = "| pragma | takes | what it does |\n|---|---|---|\n";
  for (const Pragma& p : pragmas()) {
    constexpr std::string_view takes[] = {"0 or 1", "a number", "a text"};
    page += "| `pragma_" + std::string(p.key) + "` | " + std::string(takes[size_t(p.value)]) + " | " +
            (p.refused.empty() ? std::string(p.effect) : "refused: " + std::string(p.refused)) + " |\n";
  }
  std::ifstream in(std::filesystem::path(TENON_SOURCE_DIR) / "docs/schedule.md");
  std::stringstream text;
  text << in.rdbuf();
  EXPECT_NE(text.str().find("<!-- pragmas -->\n" + page + "<!-- end pragmas -->"), std::string::npos)
      << "docs/schedule.md between its marks has to be\n"
      << page;
}

}  // namespace
}  // namespace tenon::testing_programs
