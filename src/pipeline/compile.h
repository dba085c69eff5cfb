// SPDX-License-Identifier: Apache-2.0
// compile(): the one place that knows the whole way, and the ordered pass lists.
#pragma once
#include <map>

#include "codegen/codegen.h"
#include "ir/pass.h"
#include "runtime/executable.h"

namespace tenon {

std::span<const Pass> graph_passes();      ///< typed module → call_tir over PrimFuncs, memory planned
std::span<const Pass> schedule_passes();   ///< default schedule of each PrimFunc
std::span<const Pass> tensor_passes();     ///< blocks → flat loops, packed ABI

struct CompileOptions {
  Target target;                           ///< null: the host
  int opt_level = 2;
  int threads = 0;                         ///< compiler threads; 0: available cores
  std::map<std::string, int64_t> dims;     ///< values of symbolic dimensions (--dim)
  bool specialize_missing_dims = false;    ///< symbolic dimensions without a value become 1
  bool schedule = true;                    ///< false: naive loops, as the evaluator uses
  int64_t memory_limit = 0;                ///< bytes; 0: none. T0902 when the arena is larger
  bool keep_shared_object = true;          ///< link an ELF shared object (artifacts)
  PassContext context;                     ///< dumps, timing, verify …
};

struct Compiled {
  Executable executable;
  ObjectCode object;
  std::string shared_object;               ///< when kept
  IRModule lowered;                        ///< the module behind the last tensor pass
  std::vector<PassTiming> timings;
  double compile_ms = 0;
};
Compiled compile(IRModule module, CompileOptions options);

/// A model file of any kind, told from its content: ONNX bytes or script text ("-": standard input).
IRModule load_model(const std::string& path);

}  // namespace tenon
