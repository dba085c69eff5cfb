// SPDX-License-Identifier: Apache-2.0
// Symbolic sizes of functions: where they stand, what they are at a call, others in their place.
#pragma once
#include "ir/graph.h"
#include "ir/walk.h"

namespace tenon::graph {

/// A symbolic size and its value where the function is called.
struct SymbolValue {
  tir::VarRef symbol;
  PrimExpr value;
};
/// Symbolic sizes of the function's parameters in order of appearance, with their values in the caller's
/// terms when it is called with `args`.
std::vector<SymbolValue> match_symbols(const Function& function, const Array<Expr>& args);

/// With symbolic sizes replaced, in shapes, types and attributes. Types are facts beside the fields, so
/// expressions that carry one and are no leaf get theirs again from their maker.
ObjectRef substitute_symbols(const ObjectRef& root, const tir::VarMap& map);
Expr substitute_symbols(const Expr& e, const tir::VarMap& map);
Type substitute_symbols(const Type& t, const tir::VarMap& map);
/// Symbolic sizes in a type, in order of appearance, appended when new.
void symbols_of(const ObjectRef& type, std::vector<tir::VarRef>& out);

/// With symbolic sizes replaced, the types of expressions included.
ObjectRef with_sizes(const ObjectRef& root, const tir::VarMap& map);
Ref<Function> with_sizes(const Ref<Function>& f, const tir::VarMap& map);

/// What is equal as it stands (structural_equal without map_free) has one hash, as with structural_hash,
/// which takes any symbol for any other: [n], [m], … of a model with many symbols would all meet in one
/// bucket. Good for a run only: symbols count by their addresses.
uint64_t symbol_hash(const ObjectRef& e);

}  // namespace tenon::graph

namespace tenon {

/// The scalars that a kernel takes, in order: scalar parameters, then the symbolic dimensions of its buffers
/// that are no parameters, by first appearance. Callers of kernels follow it.
std::vector<tir::VarRef> kernel_scalars(const tir::PrimFunc& f);

}  // namespace tenon
