// SPDX-License-Identifier: Apache-2.0
// What graph functions and their bodies hold: uses, bindings, bodies inside a value.
#pragma once
#include "ir/module.h"

namespace tenon::graph {

/// Stands in argument places as it is: variables, constants, functions by name, shapes, scalars, texts.
bool is_leaf(const Expr& e);
/// Calls f on each part of a value in the order of its fields: operands, and bodies (branches, clauses,
/// condition and body of a loop, a closure's body). What it defines, types, attributes and patterns are no
/// parts, and a sequence, being a body itself, has none.
void for_each_part(const Expr& value, FunctionRef<void(const Expr& part, bool is_body)> f);
/// The value with `f` of each part in its place, type and origin kept; the same object when all stay.
Expr map_parts(const Expr& value, FunctionRef<Expr(const Expr& part, bool is_body)> f);
/// The bodies among the parts.
std::vector<Expr> bodies_of(const Expr& value);
/// The same value over other bodies, as many as it had.
Expr with_bodies(const Expr& value, const std::vector<Expr>& bodies);
/// Calls f on every variable that `value` uses, nested bodies included, in order; repeated uses repeat.
void for_each_use(const Expr& value, FunctionRef<void(const VarRef&)> f);
/// Calls f on every binding of a body, those of nested branches, loops and closures before the binding that
/// holds them. Nesting is bounded (kMaxNesting), length is not.
void for_each_binding(const Expr& body, FunctionRef<void(const Binding&)> f);
/// How often each variable is used in the function, its result included.
std::unordered_map<const Var*, int> count_uses(const Function& function);
/// The constant's element when it is one value (any rank), as a double.
std::optional<double> scalar_constant(const Expr& e);
/// Every element of a constant equals `value`.
bool is_constant_filled(const Expr& e, double value);

/// A body of these bindings that gives `result`.
Expr make_body(const std::vector<Binding>& bindings, const Expr& result);
/// Every graph function as it is now, with its name; safe while the module changes.
std::vector<std::pair<std::string, Ref<Function>>> graph_functions(const IRModule& module);
/// An entry of the module: "main", or with a "global_symbol".
bool is_entry(const std::string& name, const Function& function);
/// The function attribute "primitive" is set.
bool is_primitive(const Function& function);

/// The value with `f` of each of its bodies (bodies_of) in its place; the same object when all stay.
Expr map_bodies(const Expr& value, FunctionRef<Expr(const Expr&)> f);
/// The same for what a binding binds; true when that changed.
bool map_bodies(Binding& binding, FunctionRef<Expr(const Expr&)> f);

}  // namespace tenon::graph
