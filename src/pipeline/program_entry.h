// SPDX-License-Identifier: Apache-2.0
// What of a module runs when nothing is named.
#pragma once
#include <string>

#include "ir/module.h"

namespace tenon {

/// The graph function that runs: `main`, or the only one; "" when there is none such.
std::string entry_name(const IRModule& module);

/// A module of tensor programs with a graph function `main` around the only one, or the one named main: its
/// inputs are the program's tensors, its results those that the program stores to, which stand last. Modules
/// with graph functions keep them; an entry that takes tuples of tensors takes their parts instead, `p_0`,
/// `p_1`, `p_1_0`. DiagnosticError "T0928" when it is not clear what to run.
IRModule with_entry(IRModule module);

}  // namespace tenon
