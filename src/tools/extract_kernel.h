// SPDX-License-Identifier: Apache-2.0
// One kernel of a model by itself: its program, what it became, and inputs that it gets.
#pragma once
#include "pipeline/compile.h"

namespace tenon {

struct ExtractedKernel {
  IRModule unscheduled;                  ///< the program alone, as the graph was lowered to it
  IRModule scheduled;                    ///< the same with its loops placed, as it is compiled
  std::string trace;                     ///< how: JSON; "[]" where nothing schedules it
  std::vector<NDArray> inputs, outputs;  ///< in the order of its parameters
  bool from_run =
      false;  ///< the inputs are those of its first call in a run of the model; else they are drawn
};

/// The kernel of that name of a compilation of `module` with these options; `inputs`: what the model is run
/// on, one for each parameter of its entry, or none. Error "T0923" when it has no such kernel, with the
/// nearest name, or those that have most to do.
ExtractedKernel extract_kernel(IRModule module, CompileOptions options, const std::string& kernel,
                               const std::vector<NDArray>& inputs);

}  // namespace tenon
