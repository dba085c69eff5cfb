// SPDX-License-Identifier: Apache-2.0
// Kernels extracted, edited and put back: what is proved or tried, what is refused and with which words, and
// that the model then computes what it did.
#include <fstream>

#include "base/temporary_folder.h"
#include "pipeline/emit.h"
#include "pipeline/evaluator.h"
#include "schedule/schedule.h"
#include "support.h"
#include "tools/extract_kernel.h"
#include "tools/module_text.h"

namespace tenon::graph::testing_graph {
namespace {

const char* const kProduct = R"(
@R.function
def main(x: R.Tensor((8, 20), "float32"), w: R.Tensor((24, 20), "float32")) -> R.Tensor((8, 24), "float32"):
    d = R.nn.dense(x, w)
    y = R.nn.relu(d)
    return y
)";
const char* const kSum = R"(
@R.function
def main(x: R.Tensor((4, 5), "float32"), y: R.Tensor((4, 5), "float32")) -> R.Tensor((4, 5), "float32"):
    z = R.maximum(x, y)
    return z
)";

/// A program of one block over the 4 × 5 tensors of kSum.
std::string pointwise(const std::string& name, const std::string& value) {
  return "@T.prim_func\ndef " + name +
         R"((x: T.Buffer((4, 5), "float32"), y: T.Buffer((4, 5), "float32"), z: T.Buffer((4, 5), "float32")):
    for j, i in T.grid(5, 4):
        with T.block("z"):
            vj, vi = T.axis.remap("SS", [j, i])
            z[vi, vj] = )" +
         value + "\n";
}

class OverrideKernels : public testing::Test {
 protected:
  TemporaryFolder folder{"the test"};

  void write(const std::string& name, const std::string& text) const {
    std::ofstream(folder.path / name) << text;
  }
  static CompileOptions plain(int level = 2) {
    CompileOptions o;
    o.opt_level = level;
    o.code = CodeForm::objects;
    return o;
  }
  CompileOptions overriding(int level = 2) const {
    CompileOptions o = plain(level);
    o.overrides = Array<std::string>{folder.path.string()};
    return o;
  }
  /// The only kernel's name.
  static std::string kernel_of(const std::string& text, int level = 2) {
    const IRModule m = module_in_front_of(load_model_bytes(text, "model"), plain(level), "plan_memory");
    std::string name;
    for (const auto& [other, f] : m.functions())
      if (f.is<tir::PrimFuncNode>()) name = other;
    return name;
  }
  static std::vector<NDArray> results(const Compiled& compiled, const std::vector<NDArray>& inputs) {
    Session session(jit_artifact(compiled));
    return session.invoke(inputs);
  }
  /// How the kernel was found to be the same; the model must compute what it does without.
  std::string how(const std::string& text, const std::string& kernel, const std::vector<NDArray>& inputs,
                  double tolerance, int level = 2) const {
    const Compiled with = compile(load_model_bytes(text, "model"), overriding(level));
    expect_close(results(compile(load_model_bytes(text, "model"), plain(level)), inputs),
                 results(with, inputs), tolerance);
    for (const auto& [key, value] : with.executable.metadata)
      if (key == "override." + kernel) return value;
    return {};
  }
  /// What a compilation is refused with.
  std::vector<Diagnostic> refused(const std::string& text) const {
    try {
      (void)compile(load_model_bytes(text, "model"), overriding());
    } catch (const DiagnosticError& e) {
      return e.diagnostics;
    }
    ADD_FAILURE() << "nothing was refused";
    return {};
  }
};

TEST_F(OverrideKernels, AnExtractedKernelIsProvedByItsSchedule) {
  const std::vector<NDArray> inputs{random_array({8, 20}), random_array({24, 20}, f32, 9)};
  const std::string kernel = kernel_of(kProduct);
  const ExtractedKernel made = extract_kernel(load_model_bytes(kProduct, "model"), plain(), kernel, inputs);
  EXPECT_NE(made.trace.find("split"), made.trace.npos);
  write(kernel + ".tir", module_text("tir", made.scheduled));
  EXPECT_NE(how(kProduct, kernel, inputs, 0).find(".tir: proved by its schedule"), std::string::npos);
  // By hand in another way: other loops, the same steps no more.
  write(kernel + ".tir", module_text("tir", made.unscheduled));
  EXPECT_NE(how(kProduct, kernel, inputs, 1e-5).find("proved by its structure"), std::string::npos);
}

TEST_F(OverrideKernels, AnotherScheduleIsProvedAndKept) {
  const std::vector<NDArray> inputs{random_array({8, 20}), random_array({24, 20}, f32, 9)};
  const std::string kernel = kernel_of(kProduct);
  const ExtractedKernel made = extract_kernel(load_model_bytes(kProduct, "model"), plain(), kernel, inputs);
  const auto f = made.unscheduled.find(kernel).cast<tir::PrimFuncNode>();
  Schedule s(f);
  const BlockRV last = s.get_output_blocks().back();
  s.parallel(s.get_loops(last)[0]);
  tir::PrimFunc scheduled = s.function();
  scheduled.edit()->attrs.set("tenon.trace", Any(s.trace().to_json()));
  IRModule m = IRModule::create();
  m.set(kernel, scheduled);
  write(kernel + ".tir", module_text("tir", m));
  EXPECT_NE(how(kProduct, kernel, inputs, 1e-5).find("proved by its schedule"), std::string::npos);
  const Compiled with = compile(load_model_bytes(kProduct, "model"), overriding());
  const auto kept = with.planned.find(kernel).cast<tir::PrimFuncNode>();
  EXPECT_EQ(kept->attrs.at("tenon.trace").as<std::string>(), s.trace().to_json());
}

TEST_F(OverrideKernels, WhatIsWrittenByHandIsProvedOrTried) {
  const std::string kernel = kernel_of(kSum);
  const std::vector<NDArray> inputs{random_array({4, 5}), random_array({4, 5}, f32, 9)};
  write("mine.tir", pointwise(kernel, "T.max(y[vi, vj], x[vi, vj])"));
  EXPECT_NE(how(kSum, kernel, inputs, 0).find("mine.tir: proved by its values"), std::string::npos);
  write("mine.tir", pointwise(kernel, "T.max(T.max(y[vi, vj], x[vi, vj]), y[vi, vj])"));
  EXPECT_NE(how(kSum, kernel, inputs, 0).find("mine.tir: equal on 7 random and corner inputs"),
            std::string::npos);
}

// What the schedule made, edited: its trace does not make it any more.
TEST_F(OverrideKernels, EditedLoopsAreProved) {
  const std::vector<NDArray> inputs{random_array({8, 20}), random_array({24, 20}, f32, 9)};
  const std::string kernel = kernel_of(kProduct);
  const ExtractedKernel made = extract_kernel(load_model_bytes(kProduct, "model"), plain(), kernel, inputs);
  std::string text = module_text("tir", made.scheduled);
  for (size_t at; (at = text.find("T.vectorized(")) != text.npos;) text.replace(at, 13, "T.unroll(");
  write(kernel + ".tir", text);
  EXPECT_NE(how(kProduct, kernel, inputs, 1e-5).find("proved by its values"), std::string::npos);
}

TEST_F(OverrideKernels, RefusedWithTheFirstInputThatDiffers) {
  const std::string kernel = kernel_of(kSum);
  const struct {
    const char *value, *on, *where;
  } cases[] = {
      {"T.min(x[vi, vj], y[vi, vj])", "on whole numbers: ", "` at [0, "},
      // One column only.
      {"T.if_then_else(vj == 4, x[vi, vj], T.max(x[vi, vj], y[vi, vj]))", "on whole numbers: ", ", 4] is "},
      // Only a NaN tells them apart.
      {"T.Select(x[vi, vj] > y[vi, vj], x[vi, vj], y[vi, vj])",
       "on one NaN among whole numbers: ", "not nan"},
      // Only large numbers do.
      {"T.max(x[vi, vj], y[vi, vj]) * T.float32(2) * T.float32(0.5)", "on the largest, ", "is inf, not "},
  };
  for (const auto& c : cases) {
    write("mine.tir", pointwise(kernel, c.value));
    const std::vector<Diagnostic> problems = refused(kSum);
    ASSERT_EQ(problems.size(), 1u) << c.value;
    EXPECT_EQ(problems[0].code, "T1037");
    EXPECT_NE(problems[0].message.find(c.on), std::string::npos) << problems[0].message;
    EXPECT_NE(problems[0].message.find(c.where), std::string::npos) << problems[0].message;
    EXPECT_NE(problems[0].location.find("mine.tir"), std::string::npos) << problems[0].location;
  }
}

TEST_F(OverrideKernels, LongSumsOfFewValuesAreRoundedAlike) {
  // Whole numbers have nine exponentials, so that the roundings of a sum one by one do not cancel out.
  const char* const text = R"(
@R.function
def main(x: R.Tensor((2, 65536), "float32")) -> R.Tensor((2,), "float32"):
    d = R.subtract(x, R.const(3, "float32"))
    e = R.exp(d)
    y = R.sum(e, axis=[1])
    return y
)";
  const std::string kernel = kernel_of(text);
  write(kernel + ".tir",
        "@T.prim_func\ndef " + kernel + R"((x: T.Buffer((2, 65536), "float32"), y: T.Buffer((2,), "float32")):
    part = T.alloc_buffer((64,), "float32")
    for i in range(2):
        for lane in T.vectorized(64):
            part[lane] = T.float32(0)
        for k in range(1024):
            for lane_1 in T.vectorized(64):
                part[lane_1] = part[lane_1] + T.exp(x[i, k * 64 + lane_1] - T.float32(3))
        y[i] = T.float32(0)
        for lane_2 in range(64):
            y[i] = y[i] + part[lane_2]
)");
  EXPECT_NE(how(text, kernel, {random_array({2, 65536})}, 1e-4).find("equal on"), std::string::npos);
}

TEST_F(OverrideKernels, NamesAndSignaturesThatDoNotFitAreToldAtOnce) {
  const std::string kernel = kernel_of(kSum);
  write("a.tir", pointwise(kernel + "s", "x[vi, vj]"));
  std::string other = pointwise(kernel, "T.max(x[vi, vj], y[vi, vj])");
  for (size_t at; (at = other.find("(4, 5)")) != other.npos;) other.replace(at, 6, "(5, 4)");
  other.replace(other.find("grid(5, 4)"), 10, "grid(4, 5)");
  write("b.tir", other);
  write("c.tir", kSum);
  const std::vector<Diagnostic> problems = refused(kSum);
  ASSERT_EQ(problems.size(), 3u);
  EXPECT_EQ(problems[0].code, "T1035");
  EXPECT_NE(problems[0].hint.find("did you mean `" + kernel + "`"), std::string::npos) << problems[0].hint;
  EXPECT_EQ(problems[1].code, "T1036");
  EXPECT_NE(problems[1].message.find("T.Buffer((5, 4), \"float32\")"), std::string::npos)
      << problems[1].message;
  EXPECT_NE(problems[1].message.find("T.Buffer((4, 5), \"float32\")"), std::string::npos);
  EXPECT_EQ(problems[2].code, "T1035");
  write("a.tir", pointwise(kernel, "T.max(y[vi, vj], x[vi, vj])"));
  write("b.tir", pointwise(kernel, "T.max(y[vi, vj], x[vi, vj])"));
  std::filesystem::remove(folder.path / "c.tir");
  const std::vector<Diagnostic> twice = refused(kSum);
  ASSERT_EQ(twice.size(), 1u);
  EXPECT_NE(twice[0].message.find("given twice"), std::string::npos);
}

TEST_F(OverrideKernels, AFolderWithoutKernels) {
  for (const std::string& path : {folder.path.string(), (folder.path / "absent").string()}) {
    CompileOptions o = plain();
    o.overrides = Array<std::string>{path};
    EXPECT_THROW((void)compile(load_model_bytes(kSum, "model"), o), Error);
  }
}

// Every operator is a kernel, the middle one may write over its input. An edited one reads it twice.
TEST_F(OverrideKernels, WhatIsWrittenByHandNeverWritesOverItsInput) {
  const std::string text = R"(
@R.function
def main(x: R.Tensor((4, 5), "float32")) -> R.Tensor((4, 5), "float32"):
    a = R.exp(x)
    b = R.negative(a)
    c = R.exp(b)
    return c
)";
  const IRModule m = module_in_front_of(load_model_bytes(text, "model"), plain(0), "plan_memory");
  std::string kernel;
  for (const auto& [name, f] : m.functions())
    if (f.is<tir::PrimFuncNode>() && name.find("negative") != name.npos) kernel = name;
  ASSERT_FALSE(kernel.empty());
  const Compiled own = compile(load_model_bytes(text, "model"), plain(0));
  ASSERT_FALSE(own.planned.find(kernel).cast<tir::PrimFuncNode>()->attrs.at("tir.noalias").as<bool>())
      << "the model's own is written in place, or this test shows nothing";
  write("mine.tir",
        "@T.prim_func\ndef " + kernel + R"((a: T.Buffer((4, 5), "float32"), b: T.Buffer((4, 5), "float32")):
    for i, j in T.grid(4, 5):
        with T.block("zero"):
            vi, vj = T.axis.remap("SS", [i, j])
            b[vi, vj] = T.float32(0)
    for i, j in T.grid(4, 5):
        with T.block("b"):
            vi, vj = T.axis.remap("SS", [i, j])
            b[vi, vj] = b[vi, vj] - a[vi, vj]
)");
  EXPECT_NE(how(text, kernel, {random_array({4, 5})}, 0, 0).find("equal on "), std::string::npos);
  // A proof is of programs whose results lie apart from their inputs.
  write("mine.tir",
        "@T.prim_func\ndef " + kernel + R"((a: T.Buffer((4, 5), "float32"), b: T.Buffer((4, 5), "float32")):
    for i, j in T.grid(4, 5):
        b[i, j] = T.float32(0)
    for i, j in T.grid(4, 5):
        b[i, j] = b[i, j] + (T.float32(0) - a[i, j])
)");
  EXPECT_FALSE(how(text, kernel, {random_array({4, 5})}, 0, 0).empty());
  // The last row is computed twice, each element from the one at its place.
  write("mine.tir",
        "@T.prim_func\ndef " + kernel + R"((a: T.Buffer((4, 5), "float32"), b: T.Buffer((4, 5), "float32")):
    for i, j in T.grid(5, 5):
        with T.block("b"):
            vi = T.axis.spatial(4, T.min(i, 3))
            vj = T.axis.spatial(5, j)
            b[vi, vj] = T.float32(0) - a[vi, vj]
)");
  EXPECT_NE(how(text, kernel, {random_array({4, 5})}, 0, 0).find("equal on "), std::string::npos);
}

TEST_F(OverrideKernels, SymbolicSizesAreTriedAtSeveral) {
  const std::string text = R"(
@R.function
def main(x: R.Tensor(("n", 3), "float32")) -> R.Tensor(("n", 3), "float32"):
    y = R.exp(x)
    return y
)";
  const std::string kernel = kernel_of(text);
  const auto body = [&](const std::string& rows, const std::string& value) {
    return "@T.prim_func\ndef " + kernel +
           R"((x: T.Buffer((n, 3), "float32"), y: T.Buffer((n, 3), "float32"), n: T.int64):
    for j, i in T.grid(3, )" +
           rows + R"():
        with T.block("y"):
            vj, vi = T.axis.remap("SS", [j, i])
            y[vi, vj] = T.exp()" +
           value + ")\n";
  };
  write("mine.tir", body("n", "x[vi, vj]"));
  EXPECT_NE(how(text, kernel, {random_array({7, 3})}, 0).find("proved by its values"), std::string::npos);
  write("mine.tir", body("n", "x[vi, vj] * T.float32(0.5) + x[vi, vj] * T.float32(0.5)"));
  EXPECT_NE(how(text, kernel, {random_array({7, 3})}, 0).find("equal on 14 "), std::string::npos);
  write("mine.tir", body("n // 8 * 8", "x[vi, vj]"));
  const std::vector<Diagnostic> problems = refused(text);
  ASSERT_EQ(problems.size(), 1u);
  EXPECT_EQ(problems[0].code, "T1037");
  EXPECT_NE(problems[0].message.find("with n = 5"), std::string::npos) << problems[0].message;
  // What is outside at a size of a trial is told as it is in a program of that size.
  write("mine.tir", body("n", "x[vi - n // 8 * 8, vj]"));
  const std::vector<Diagnostic> outside = refused(text);
  ASSERT_EQ(outside.size(), 1u);
  EXPECT_EQ(outside[0].code, "T1037");
  EXPECT_NE(outside[0].message.find("ends with T0"), std::string::npos) << outside[0].message;
  EXPECT_EQ(outside[0].message.find("T0001"), std::string::npos) << outside[0].message;
}

// It would run in this process, and end it.
TEST_F(OverrideKernels, FunctionsThatTheModelDoesNotCallAreNotTried) {
  const std::string kernel = kernel_of(kSum);
  write("mine.tir", pointwise(kernel,
                              "T.if_then_else(x[vi, vj] > T.float32(9), T.call_extern(\"float32\", "
                              "\"abort\"), x[vi, vj] + y[vi, vj])"));
  const std::vector<Diagnostic> problems = refused(kSum);
  ASSERT_EQ(problems.size(), 1u);
  EXPECT_EQ(problems[0].code, "T1037");
  EXPECT_NE(problems[0].message.find("it calls `abort`"), std::string::npos) << problems[0].message;
}

// Indices from data stay inside of what they index.
TEST_F(OverrideKernels, GathersAreTriedOnIndicesThatThereAre) {
  const std::string text = R"(
@R.function
def main(x: R.Tensor((3, 4), "float32"), at: R.Tensor((5,), "int64")) -> R.Tensor((5, 4), "float32"):
    y = R.take(x, at, axis=0)
    return y
)";
  const std::string kernel = kernel_of(text);
  const auto body = [&](const std::string& index) {
    return "@T.prim_func\ndef " + kernel +
           R"((x: T.Buffer((3, 4), "float32"), at: T.Buffer((5,), "int64"), y: T.Buffer((5, 4), "float32")):
    for j, i in T.grid(4, 5):
        with T.block("y"):
            vj, vi = T.axis.remap("SS", [j, i])
            y[vi, vj] = x[)" +
           index + ", vj]\n";
  };
  NDArray at = NDArray::zeros({5}, i64);
  for (int64_t i = 0; i < 5; ++i) at.set_element_int(i, i % 3);
  write("mine.tir", body("T.max(at[vi], T.int64(0))"));
  EXPECT_NE(how(text, kernel, {random_array({3, 4}), at}, 0).find("equal on "), std::string::npos);
  write("mine.tir", body("T.min(at[vi], T.int64(1))"));
  const std::vector<Diagnostic> problems = refused(text);
  ASSERT_EQ(problems.size(), 1u);
  EXPECT_EQ(problems[0].code, "T1037");
}

TEST(ExtractKernel, InputsAreThoseOfARun) {
  const std::string text = R"(
@R.function
def main(x: R.Tensor((4, 5), "float32")) -> R.Tensor((4,), "float32"):
    a = R.exp(x)
    c = R.sum(a, axis=[1])
    return c
)";
  CompileOptions o;
  o.opt_level = 0;  // a kernel for each operator
  const IRModule m = module_in_front_of(load_model_bytes(text, "model"), o, "plan_memory");
  const NDArray x = random_array({4, 5});
  for (const auto& [name, f] : m.functions()) {
    if (!f.is<tir::PrimFuncNode>()) continue;
    const ExtractedKernel made = extract_kernel(load_model_bytes(text, "model"), o, name, {x});
    EXPECT_TRUE(made.from_run);
    ASSERT_EQ(made.inputs.size(), 1u);
    const bool first = name.find("exp") != name.npos;
    EXPECT_NEAR(made.inputs[0].element(7), first ? x.element(7) : std::exp(x.element(7)), 1e-6) << name;
    // Without inputs for the model the kernel's are drawn, and the results are of those.
    const ExtractedKernel drawn = extract_kernel(load_model_bytes(text, "model"), o, name, {});
    EXPECT_FALSE(drawn.from_run);
    const std::vector<NDArray> again = make_evaluator()(drawn.unscheduled, name, drawn.inputs);
    expect_close(drawn.outputs, again, 0);
  }
}

TEST(ExtractKernel, UnknownNamesAreRefusedWithTheNearest) {
  for (const auto& [name, words] :
       {std::pair("op_maximun", "did you mean"), std::pair("zzz", "most to do")}) {
    try {
      (void)extract_kernel(load_model_bytes(kSum, "model"), {}, name, {});
      FAIL() << name;
    } catch (const Error& e) {
      EXPECT_EQ(e.code, "T0923");
      EXPECT_NE(e.hint.find(words), e.hint.npos) << e.hint;
    }
  }
}

}  // namespace
}  // namespace tenon::graph::testing_graph
