// SPDX-License-Identifier: Apache-2.0
// The symbols under which functions stand in code and for callers: no two share one (T1033).
#pragma once
#include "base/diagnostic.h"
#include "ir/module.h"

namespace tenon {

Diagnostic two_of_symbol(const std::string& symbol, const std::string& first, const std::string& second,
                         const ObjectRef& second_function);
/// Graph functions that say the same symbol. (Of programs only those that become code count.)
void check_graph_symbols(const IRModule& module, DiagnosticList& problems);

}  // namespace tenon
