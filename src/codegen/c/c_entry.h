// SPDX-License-Identifier: Apache-2.0
// Ahead-of-time C: an entry that calls the kernels of a straight-line model in order, over memory that is
// planned and static, for devices without a heap.
#pragma once
#include "ir/module.h"
#include "runtime/executable.h"

namespace tenon {

/// C text to stand behind the kernels (codegen::c_source): constants, arena, workspace, `tenon_run`, and a
/// `main` under TENON_MAIN. A model with control flow, dynamic sizes or calls of packed functions gets a
/// comment that says so, and the kernels alone.
/// With a name in `system`, also what registers the model with the runtime under it; T0924 when its constants
/// are too large for text.
std::string c_entry(const Executable& executable, const IRModule& lowered, const std::string& system = {});

}  // namespace tenon
