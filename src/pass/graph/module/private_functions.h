// SPDX-License-Identifier: Apache-2.0
// Functions whose callers are all known: what passes may change parameters and results of.
#pragma once
#include <set>

#include "ir/module.h"

namespace tenon::graph {

/// Graph functions that are no entries, are not primitive, have no type parameters, and occur only as the
/// callee of a direct call; by name.
std::map<std::string, Ref<Function>> private_functions(const IRModule& module);

/// Every direct call of one of `names` in the module is replaced: `rewrite` gets the call, the variable it is
/// bound to and a function that binds values before it; null leaves the call as it is.
using EmitBefore = FunctionRef<Expr(Expr value, const std::string& name)>;
IRModule rewrite_calls(IRModule module, const std::set<std::string>& names,
                       FunctionRef<Expr(const Call& call, const VarRef& var, EmitBefore emit)> rewrite);

/// A name for the module's function as it is now, typed.
Expr typed_global(const IRModule& module, const std::string& name);

}  // namespace tenon::graph
