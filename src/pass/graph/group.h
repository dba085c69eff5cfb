// SPDX-License-Identifier: Apache-2.0
// Bindings cut out of a body as a closed function: what fusion makes and what one kernel computes.
#pragma once
#include "pass/graph/rewriter.h"

namespace tenon::graph {

struct Group {
  Ref<Function> function;  ///< parameters in order of first use, then one Shape for sizes no parameter shows
  Array<Expr> args;        ///< of the call, in the same order
};

/// The function that computes `result` (bound by one of `members`, in order). Variables and tensors from
/// outside become parameters; constants of one element stay inside. Its symbolic sizes are its own.
Group make_group(const std::vector<Binding>& members, const VarRef& result);

/// A symbolic size and its value where the function is called.
struct SymbolValue {
  tir::VarRef symbol;
  PrimExpr value;
};
/// Symbolic sizes of the function's parameters in order of appearance, with their values in the caller's
/// terms when it is called with `args`.
std::vector<SymbolValue> match_symbols(const Function& function, const Array<Expr>& args);

/// e with symbolic sizes replaced, in shapes, types and attributes.
Expr substitute_symbols(const Expr& e, const tir::VarMap& map);
Type substitute_symbols(const Type& t, const tir::VarMap& map);
/// Symbolic sizes in a type, in order of appearance, appended when new.
void symbols_of(const ObjectRef& type, std::vector<tir::VarRef>& out);

/// The function with symbolic sizes replaced, types included.
Ref<Function> with_sizes(const Ref<Function>& f, const tir::VarMap& map);

/// "fused_conv2d_add_relu": at most 80 characters, longer ones are cut and marked by a hash.
std::string kernel_name(const std::string& prefix, const std::vector<Binding>& members);
/// The function attribute "primitive" is set.
bool is_primitive(const Function& function);

}  // namespace tenon::graph
