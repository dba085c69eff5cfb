// SPDX-License-Identifier: Apache-2.0
// Ahead-of-time C: a function that runs the whole model over memory that is planned and static, for devices
// without a heap.
#pragma once
#include "codegen/c/c.h"

namespace tenon::codegen {

/// C text to stand behind the kernels (c_source): constants, static memory, the functions of the model,
/// `PREFIX_run`, and a `main` under TENON_MAIN. T0924 says why when C cannot express the model: sizes that
/// only a run tells, recursion, values of data types, calls of packed functions. With a name in `system`,
/// also what registers the model with the runtime under it, which runs what C cannot (a comment says so);
/// T0924 when its constants are too large for text.
std::string c_entry(const Executable& executable, const IRModule& lowered, const std::string& system,
                    const TextOptions& options);
/// The header of `PREFIX_run`; "" when there is none.
std::string c_header(const Executable& executable, const std::string& system, const TextOptions& options);

}  // namespace tenon::codegen
