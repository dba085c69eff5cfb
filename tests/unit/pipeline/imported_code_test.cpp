// SPDX-License-Identifier: Apache-2.0
// Programs that call functions of C text and LLVM IR that they import: run for the targets llvm and c, from
// an artifact too, and what is refused.
#include <fmt/format.h>

#include "base/temporary_folder.h"
#include "pipeline/emit.h"
#include "support.h"

namespace tenon::graph::testing_graph {
namespace {

/// Two calls of a program that gives `n` values to a function of the text.
std::string model(const std::string& attribute, const std::string& text, const std::string& other = {}) {
  const auto program = [&](const std::string& name, const std::string& own) {
    return fmt::format(R"(
    @T.prim_func(private=True)
    def {}(A: T.Buffer((n,), "float32"), B: T.Buffer((n,), "float32")):
        T.func_attr({{"{}": "{}"}})
        with T.block("call"):
            T.reads(A[0:n])
            T.writes(B[0:n])
            assert T.call_extern("int32", "scaled", A.data, B.data, n) == 0, "scaled failed"
)",
                       name, attribute, own);
  };
  return "@I.ir_module\nclass Module:" + program("first", text) +
         program("second", other.empty() ? text : other) + R"(
    @R.function
    def main(x: R.Tensor(("n",), "float32")):
        n = T.int64()
        y = R.add(x, x)
        z = R.call_tir(Module.first, (y,), out_sinfo=R.Tensor((n,), "float32"))
        r = R.call_tir(Module.second, (z,), out_sinfo=R.Tensor((n,), "float32"))
        return R.add(r, R.const(1, "float32"))
)";
}
/// Times three; -1 where there is a negative value.
const char* const kC =
    "#include <stdint.h>\\nint32_t scaled(const float* a, float* b, int64_t n) { for (int64_t i = 0; i < n; "
    "++i) "
    "{ if (a[i] < 0) return -1; b[i] = 3 * a[i]; } return 0; }";
const char* const kLlvm =
    "define i32 @scaled(ptr %a, ptr %b, i64 %n) {\\nentry:\\n  %none = icmp eq i64 %n, 0\\n  br i1 %none, "
    "label "
    "%done, label %loop\\nloop:\\n  %i = phi i64 [0, %entry], [%next, %loop]\\n  %p = getelementptr float, "
    "ptr %a, "
    "i64 %i\\n  %v = load float, ptr %p\\n  %w = fmul float %v, 3.0\\n  %q = getelementptr float, ptr %b, "
    "i64 %i\\n"
    "  store float %w, ptr %q\\n  %next = add i64 %i, 1\\n  %more = icmp ult i64 %next, %n\\n  br i1 %more, "
    "label "
    "%loop, label %done\\ndone:\\n  ret i32 0\\n}";

Compiled compiled(const std::string& text, const std::string& target = "llvm", int level = 2) {
  CompileOptions options;
  options.target = target;
  options.opt_level = level;
  options.code = CodeForm::objects;
  return compile(parse_module(text), options);
}
std::string code_of(const std::string& text, const std::string& target = "llvm") {
  try {
    compiled(text, target);
  } catch (const Error& e) {
    return e.code + " " + e.what();
  }
  return "none";
}

void expect_runs(Artifact artifact) {
  Session session(std::move(artifact));
  for (const int64_t n : {5, 1, 0}) {
    const NDArray x = random_array({n});
    for (int64_t i = 0; i < n; ++i) x.set_element(i, std::abs(x.element(i)));
    const NDArray got = session.invoke({x}).at(0);
    ASSERT_EQ(got.size(), n);
    for (int64_t i = 0; i < n; ++i) EXPECT_NEAR(got.element(i), x.element(i) * 2 * 3 * 3 + 1, 1e-4);
  }
}

TEST(ImportedCode, RunsForEveryTargetThatTakesIt) {
  expect_runs(jit_artifact(compiled(model("import_c", kC))));
  expect_runs(jit_artifact(compiled(model("import_c", kC), "llvm", 0)));
  expect_runs(jit_artifact(compiled(model("import_c", kC), "c")));
  expect_runs(jit_artifact(compiled(model("import_llvm", kLlvm))));
}

TEST(ImportedCode, IsPartOfAnArtifact) {
  const TemporaryFolder folder("the test");
  CompileOptions options;
  for (const auto& [attribute, text] : {std::pair("import_c", kC), std::pair("import_llvm", kLlvm)}) {
    const Compiled c = compile(parse_module(model(attribute, text)), options);
    const std::string file = (folder.path / (std::string(attribute) + ".so")).string();
    write_emitted("artifact", file, c);
    expect_runs(Artifact::load(file));
  }
}

TEST(ImportedCode, AnErrorEndsTheRun) {
  Session session(jit_artifact(compiled(model("import_c", kC))));
  const NDArray x = NDArray::zeros({3}, f32);
  x.set_element(1, -1);
  try {
    session.invoke({x});
    FAIL();
  } catch (const Error& e) {
    EXPECT_EQ(e.code, "T0509");
    EXPECT_NE(std::string(e.what()).find("scaled failed"), std::string::npos) << e.what();
  }
  x.set_element(1, 1);
  EXPECT_EQ(session.invoke({x}).at(0).element(1), 19);
}

TEST(ImportedCode, WhatCannotBeUsedIsRefused) {
  const auto starts = [](const std::string& got, const std::string& code, const std::string& word) {
    EXPECT_TRUE(got.starts_with(code) && got.find(word) != std::string::npos) << got;
  };
  starts(code_of(model("import_c", "int other(void) { return 0; }")), "T0822", "defines `scaled`");
  starts(code_of(model("import_c", "int scaled( {")), "T0822", "the C compiler");
  starts(code_of(model("import_llvm", "define i32 @scaled( {")), "T0822", "LLVM refuses");
  starts(code_of(model("import_llvm", kLlvm), "c"), "T0801", "import_llvm");
  const std::string twice = std::string(kC) + " /* another text */";
  starts(code_of(model("import_c", kC, twice)), "T0822", "two imported texts define `scaled`");
  // Without a text it is a function of the process, which is looked for where the model is loaded.
  EXPECT_EQ(code_of(model("other", kC)), "none");
  std::string number = model("import_c", "?");
  for (size_t at; (at = number.find("\"?\"")) != std::string::npos;) number.replace(at, 3, "1");
  starts(code_of(number), "T0822", "no text");
}

TEST(ImportedCode, IsCalledAsItIsDeclared) {
  const auto c = [](const std::string& declared) { return model("import_c", declared + " { return 0; }"); };
  // Numbers become those of a wider type, as in C.
  EXPECT_EQ(code_of(c("long long scaled(void* a, void* b, double n)")).substr(0, 5), "T0822");
  const std::string doubles =
      "int scaled(float* a, float* b, double n) { for (long i = 0; i < n; ++i) b[i] = 3 * a[i]; return 0; }";
  std::string narrow = model("import_c", doubles);
  for (size_t at = 0; (at = narrow.find("B.data, n)", at)) != std::string::npos;)
    narrow.replace(at, 10, "B.data, T.Cast(\"int32\", n))");
  expect_runs(jit_artifact(compiled(narrow)));
  for (const char* declared :
       {"int scaled(float* a, float* b)", "int scaled(float* a, float* b, int64_t n, int64_t m)",
        "int scaled(float* a, int64_t b, int64_t n)", "int scaled(float* a, float* b, int n)",
        "int scaled(float* a, float* b, float* n)", "double scaled(float* a, float* b, long n)",
        "void scaled(float* a, float* b, float n)"}) {
    const std::string got = code_of(c(std::string("typedef long int64_t; ") + declared));
    EXPECT_TRUE(got.starts_with("T0822")) << declared << got;
    EXPECT_NE(got.find("`scaled` as (handle, handle, int64) -> int32"), std::string::npos) << declared << got;
  }
  std::string other = kLlvm;
  other.replace(other.find("ptr %b, i64 %n"), 14, "ptr %b, i32 %m");
  other.replace(other.find("entry:"), 6, "entry:\\n  %n = zext i32 %m to i64");
  const std::string got = code_of(model("import_llvm", other));
  EXPECT_TRUE(got.starts_with("T0822") && got.find("i32 (ptr, ptr, i32)") != std::string::npos) << got;
}

TEST(ImportedCode, ProgramsThatImportOtherTextsAreNotMerged) {
  // Each text has the same function for itself; the bodies of both programs are equal.
  const auto text = [](int factor) {
    return fmt::format(
        "static int scaled_by(const float* a, float* b, long n) {{ for (long i = 0; i < n; ++i) b[i] = {} * "
        "a[i]; "
        "return 0; }} ",
        factor);
  };
  const std::string first =
      text(3) + "int scaled(const float* a, float* b, long n) { return scaled_by(a, b, n); }";
  std::string both =
      model("import_c", first,
            text(5) + "int scaled_5(const float* a, float* b, long n) { return scaled_by(a, b, n); }");
  const size_t second = both.rfind("\"scaled\"");
  both.replace(second, 8, "\"scaled_5\"");
  Session session(jit_artifact(compiled(both)));
  const NDArray x = NDArray::zeros({2}, f32);
  x.set_element(0, 1);
  EXPECT_EQ(session.invoke({x}).at(0).element(0), 2 * 3 * 5 + 1);
}

}  // namespace
}  // namespace tenon::graph::testing_graph
