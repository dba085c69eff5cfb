// SPDX-License-Identifier: Apache-2.0
// --verify: the model is run around every pass, and the first pass that changes a result is named.
#pragma once
#include <memory>

#include "ir/pass.h"

namespace tenon {

struct VerifyPassesOptions {
  std::string function = "main";
  uint64_t seed = 1;
  double relative = 1e-3,
         absolute = 1e-4;        ///< of floating results; others must be equal. A pass that rounds may
                                 ///< do to results what errors as large in the inputs do (Pass::rounds)
  int64_t symbolic_size = 3;     ///< value of symbolic dimensions that are not fixed
  std::vector<Any> inputs = {};  ///< what to run on; drawn when these are not one for each parameter
};

/// An instrument for PassContext::instruments. Runs `function` on its inputs at first and after each pass
/// that changed the module and left it runnable (graph functions over programs without the packed ABI). Error
/// (comparison) "T1010" names the pass, the output and the elements that differ. In a module without graph
/// functions each tensor program runs by itself, on tensors of its own.
/// `evaluate` (optional): runs programs compiled; without it the interpreter runs everything.
std::unique_ptr<PassInstrument> verify_passes(Evaluate evaluate = {}, VerifyPassesOptions options = {});

/// How `got` differs from what the module computes by itself on the seeded inputs; "" when it does not.
std::string result_difference(const IRModule& module, const std::vector<NDArray>& got,
                              const VerifyPassesOptions& options = {}, const Evaluate& evaluate = {});

/// Inputs for the parameters of a function: values in [-1, 1), integers in [0, 4), from the seed.
std::vector<Any> seeded_inputs(const Ref<graph::Function>& f, uint64_t seed, int64_t symbolic_size);

}  // namespace tenon
