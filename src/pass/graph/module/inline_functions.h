// SPDX-License-Identifier: Apache-2.0
#pragma once
#include "ir/module.h"

namespace tenon::graph {

/// A copy of the function's body over the arguments, whose bindings stand for the call; null when sizes of it
/// cannot be told here.
Expr inlined_body(const Function& f, const Array<Expr>& args);

/// Calls of these functions become their bindings, where their sizes are known; none of them may reach
/// itself.
IRModule inline_calls(IRModule module, const std::map<std::string, Ref<Function>>& functions);

}  // namespace tenon::graph
