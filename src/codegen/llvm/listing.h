// SPDX-License-Identifier: Apache-2.0
// Assembly text with marks (Emitter::mark_loops) taken apart.
#pragma once
#include "codegen/lowered.h"

namespace tenon::codegen {

/// The functions of `kernels` in the text, with the loop that each instruction comes from.
void read_listing(const std::string& text, const std::vector<Kernel>& kernels,
                  std::vector<MachineFunction>& out);

}  // namespace tenon::codegen
