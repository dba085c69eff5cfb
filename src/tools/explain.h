// SPDX-License-Identifier: Apache-2.0
// What became of a tensor program: each of its loops beside the machine loop that it is now, what that is
// made of, and, when it is run, how fast each nest of loops is.
#pragma once
#include <map>

#include "analysis/kernel_work.h"
#include "ir/module.h"
#include "target/target.h"

namespace tenon {

/// Instructions of one round of a machine loop, by what they do. One that reads memory and computes is both.
struct InstructionCounts {
  int64_t total = 0, fma = 0, arithmetic = 0, load = 0, store = 0, spill = 0, reload = 0, move = 0;
  int64_t vector_bits = 0;  ///< widest register that is computed with
  double flop = 0;          ///< operations on floats, of all lanes
};
/// A loop of assembly: its lines, from the label to the jump back.
struct MachineLoop {
  int32_t loop = -1;  ///< the loop of the program that it comes from
  bool innermost = false;
  InstructionCounts counts;
  std::vector<std::string> lines;
  int64_t rounds = 0;  ///< how many iterations of the program's loop one round does; 0: not known
};
/// A loop that no other loop is around.
struct LoopNest {
  int32_t loop = -1;
  KernelWork work;  ///< of one run; 0 when sizes are not constant
  double ms = 0;    ///< the fastest of several runs on one core; 0: not measured
};
struct KernelExplanation {
  std::string name;
  std::string text;                  ///< the program as code generation takes it
  std::vector<int32_t> loop_lines;   ///< line of the text where loop k begins
  std::vector<MachineLoop> machine;  ///< outer ones before those inside
  std::vector<LoopNest> nests;
  std::string note;  ///< why there is no assembly, or no time
};

struct ExplainOptions {
  int opt_level = 2;
  std::string function;                 ///< only this one; empty: all
  bool measure = false;                 ///< run each program on random values
  double seconds = 0.3;                 ///< for the runs of each program; five runs at least
  std::map<std::string, int64_t> dims;  ///< symbolic sizes for that
};
/// Every tensor program of the module, lowered for the target (an LLVM one).
std::vector<KernelExplanation> explain(const IRModule& module, const Target& target,
                                       const ExplainOptions& options);

}  // namespace tenon
