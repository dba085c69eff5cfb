// SPDX-License-Identifier: Apache-2.0
// Lowered functions made by hand, and the back ends that run them: LLVM in this process, the C text through a
// compiler, and the interpreter on the same body.
#pragma once
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "c_text.h"
#include "codegen/elf.h"
#include "codegen/llvm/llvm.h"
#include "interpret/interpret.h"
#include "ir/intrinsic.h"
#include "runtime/kernel.h"

namespace tenon::test {

/// The program in two forms: `lowered` has the kernel signature, `plain` has the buffers as parameters.
struct Program {
  tir::PrimFunc lowered, plain;
};
Program program(const std::string& name, const std::vector<tir::Buffer>& buffers,
                const std::vector<tir::VarRef>& scalars, const tir::Stmt& body, bool noalias = true);
IRModule module_of(const std::vector<tir::PrimFunc>& functions);
/// As code generation takes it: lower_intrin and the legalisations of narrow floats have run for the target.
IRModule as_code_takes_it(const std::vector<tir::PrimFunc>& functions, const Target& target);
tir::Buffer flat(const std::string& name, int64_t size, DataType dtype);

/// The context tests run with: parallel loops in chunks of `chunk` iterations in order, workspaces counted.
struct TestContext {
  TestContext();
  TenonKernelContext context{};
  int64_t chunk = 3, live = 0, allocated = 0, fail_above = INT64_MAX, parallel_calls = 0, last_cost = 0;
};

int32_t run_llvm(const tir::PrimFunc& f, const std::vector<NDArray>& arrays,
                 const std::vector<int64_t>& scalars = {}, int opt_level = 2,
                 const Target& target = host_target(), TestContext* context = nullptr);
/// The C text of functions, compiled and loaded.
class CLibrary {
 public:
  /// compiler: a command with its options, as "gcc -std=c11 -O2"; the text must be clean under -Wall -Wextra
  /// -Werror.
  CLibrary(const std::vector<tir::PrimFunc>& functions, const std::string& compiler);
  ~CLibrary();
  CLibrary(const CLibrary&) = delete;
  CLibrary& operator=(const CLibrary&) = delete;
  TenonKernel find(const std::string& symbol) const;  ///< null when there is none

 private:
  void* handle_ = nullptr;
};
/// compiler: "gcc" or "clang-22"; the text must be clean under -std=c11 -Wall -Wextra -Werror.
int32_t run_c(const tir::PrimFunc& f, const std::string& compiler, const std::vector<NDArray>& arrays,
              const std::vector<int64_t>& scalars = {}, TestContext* context = nullptr);
/// Arguments of any kind copied, so that each run starts from the same values.
std::vector<NDArray> copies(const std::vector<NDArray>& arrays);
/// Runs the program by every back end on copies of `arrays` and compares the results; floats within `ulps` of
/// their type.
void expect_same(const Program& p, const std::vector<NDArray>& arrays,
                 const std::vector<int64_t>& scalars = {}, int64_t ulps = 0, bool c = true);
void expect_close(const NDArray& actual, const NDArray& wanted, int64_t ulps, const std::string& what);
NDArray random_array(std::vector<int64_t> shape, DataType dtype, uint64_t seed);
NDArray array_of(const std::vector<double>& values, DataType dtype);
int64_t ulp_distance(double a, double b, DataType dtype);

}  // namespace tenon::test
