// SPDX-License-Identifier: Apache-2.0
// Calls without end that every run of a model makes.
#pragma once
#include "base/diagnostic.h"
#include "ir/module.h"

namespace tenon::graph {

/// T1109 for each call, of those that an entry makes whatever it is given, of a function that waits for it:
/// the run would only end at the limit of nested calls. Calls under a condition are left to the run.
void find_endless_calls(const IRModule& module, DiagnosticList& problems);

}  // namespace tenon::graph
