// SPDX-License-Identifier: Apache-2.0
// The calling convention of kernels as C declares it.
#pragma once
#include <string>

namespace tenon::codegen {

/// Declarations of what kernels take and give (runtime/kernel.h), once in a C file however often it stands
/// there.
std::string kernel_abi_text();

}  // namespace tenon::codegen
