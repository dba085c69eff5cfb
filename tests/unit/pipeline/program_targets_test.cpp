// SPDX-License-Identifier: Apache-2.0
// Programs of one module for several processors of an architecture: each is made for its own, the artifact
// needs what all of them need, and what cannot be obeyed is refused with its place.
#include <fmt/format.h>

#include "alike.h"
#include "base/temporary_folder.h"
#include "codegen/llvm/llvm.h"

namespace tenon::testing_programs {
namespace {

using graph::testing_graph::random_array;

/// The same program twice, for the targets that are named ("": none), and a graph function over both.
std::string module_text(const std::string& first, const std::string& second) {
  const auto program = [](const std::string& name, const std::string& target) {
    return fmt::format(R"(
    @T.prim_func(private=True)
    def {}(A: T.Buffer((64,), "float32"), B: T.Buffer((64,), "float32")):
{}        for i in range(64):
            with T.block("b"):
                v = T.axis.spatial(64, i)
                B[v] = A[v] * A[v] + T.float32(1)
)",
                       name, target.empty() ? "" : "        T.func_attr({\"target\": " + target + "})\n");
  };
  return "@I.ir_module\nclass Module:" + program("first", first) + program("second", second) + R"(
    @R.function
    def main(x: R.Tensor((64,), "float32")):
        y = R.call_tir(Module.first, (x,), out_sinfo=R.Tensor((64,), "float32"))
        z = R.call_tir(Module.second, (y,), out_sinfo=R.Tensor((64,), "float32"))
        return z
)";
}
CompileOptions options_for(const std::string& target, CodeForm form) {
  CompileOptions options;
  options.target = target;
  options.code = form;
  return options;
}
std::string assembly_of(const Compiled& c, const std::string& kernel) {
  const std::string all = codegen::llvm_assembly(c.lowered, c.target, 2);
  const size_t at = all.find("\n" + kernel + ":");
  EXPECT_NE(at, all.npos) << all;
  return all.substr(at, all.find(".Lfunc_end", at) - at);
}

TEST(ProgramTargets, EachProgramIsForItsOwn) {
  for (const char* spelled : {"\"llvm -mcpu=x86-64-v3\"", "T.target(\"llvm -mcpu=x86-64-v3\")",
                              "T.target({\"kind\": \"llvm\", \"mcpu\": \"x86-64-v3\"})"}) {
    const Compiled c =
        compile(parse_module(module_text("", spelled)), options_for("llvm -mcpu=x86-64", CodeForm::none));
    EXPECT_EQ(assembly_of(c, "first").find("%ymm"), std::string::npos) << spelled;
    EXPECT_NE(assembly_of(c, "second").find("%ymm"), std::string::npos) << spelled;
    const auto& needs = c.executable.needs.features;
    EXPECT_NE(std::find(needs.begin(), needs.end(), "avx2"), needs.end());
  }
  const Compiled c = compile(parse_module(module_text("\"llvm -mcpu=x86-64\"", "")),
                             options_for("llvm -mcpu=x86-64-v3", CodeForm::none));
  EXPECT_EQ(assembly_of(c, "first").find("%ymm"), std::string::npos);
  EXPECT_NE(assembly_of(c, "second").find("%ymm"), std::string::npos);
}

TEST(ProgramTargets, RunFromOneArtifact) {
  if (!host_target()->has("avx2") || !host_target()->has("fma")) GTEST_SKIP() << "this machine has no AVX2";
  const TemporaryFolder folder("the test");
  const std::string file = (folder.path / "both.so").string();
  write_emitted("artifact", file,
                compile(parse_module(module_text("\"llvm -mcpu=x86-64-v2\"", "\"llvm -mcpu=x86-64-v3\"")),
                        CompileOptions()));
  Session session(Artifact::load(file));
  const NDArray x = random_array({64}), got = session.invoke({x}).at(0);
  for (int64_t i = 0; i < 64; ++i) {
    const double y = x.element(i) * x.element(i) + 1;
    EXPECT_NEAR(got.element(i), y * y + 1, 1e-5);
  }
}

TEST(ProgramTargets, WhatCannotBeObeyedIsRefusedWithItsPlace) {
  const auto starts = [](const std::string& target, const std::string& whole, const std::string& words) {
    try {
      compile(parse_module(module_text("", target)), options_for(whole, CodeForm::none));
      ADD_FAILURE() << target;
    } catch (const Error& e) {
      EXPECT_EQ(e.code, "T0949") << e.what();
      EXPECT_NE(std::string(e.what()).find(words), std::string::npos) << e.what();
      EXPECT_NE(e.location.find(":13:9"), std::string::npos) << e.location;
    }
  };
  starts("\"llvm -mtriple=aarch64-linux-gnu\"", "llvm", "whose processor is aarch64");
  starts("\"llvm -mcpu=pentium\"", "llvm", "which is not known");
  starts("\"cuda -arch=sm_90\"", "llvm", "this compilation is for");
  starts("\"c\"", "llvm", "this compilation is for");
  starts("\"llvm\"", "c", "this compilation is for");
}

}  // namespace
}  // namespace tenon::testing_programs
