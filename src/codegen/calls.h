// SPDX-License-Identifier: Apache-2.0
// What lowered kernels call by name: packed functions of the process, C functions of its libraries.
#pragma once
#include <map>
#include <set>
#include <string>
#include <vector>

#include "base/diagnostic.h"
#include "codegen/codegen.h"
#include "ir/module.h"
#include "ir/packed_call.h"

namespace tenon::codegen {

/// Names by the symbol of the kernel that calls them, each once, in order.
using NamesByKernel = std::vector<std::pair<std::string, std::vector<std::string>>>;
NamesByKernel packed_functions(const IRModule& module);
/// C functions that are neither mathematics nor imported (ir/imported_code.h): found where the code is linked
/// or loaded.
NamesByKernel external_functions(const IRModule& module);

/// The C functions that code for this process calls. T0625 for one that no library of it has.
std::set<std::string> externals_of(const ObjectCode& code);

/// Refuses calls of packed functions in parallel loops, through other programs too, and names of C functions
/// that cannot be symbols of their own. T0801.
void check_calls(const IRModule& module, DiagnosticList* problems);

}  // namespace tenon::codegen
