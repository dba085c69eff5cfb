// SPDX-License-Identifier: Apache-2.0
// Types of calls of functions and constructors: what stands for the callee's type parameters and symbolic
// sizes, found from the types of the arguments.
#pragma once
#include "ir/op.h"
#include "ir/walk.h"

namespace tenon::op {

/// Matches parameter types with argument types. What is unknown on either side agrees with everything: it is
/// checked at run time.
class Unifier {
 public:
  Unifier() = default;
  explicit Unifier(const Array<std::string>& type_params);
  /// False when no value has both types. Function types should come last: what they tell counts least.
  bool unify(const graph::Type& param, const graph::Type& arg);
  /// A type of the callee in the caller's terms: what nothing stands for is unknown. `keep`: symbolic sizes
  /// that are no parameter's are the caller's own.
  graph::Type apply(const graph::Type& type, bool keep_sizes = false) const;

 private:
  bool dims(const Array<PrimExpr>& param, const Array<PrimExpr>& arg);
  bool bind(const std::string& name, const graph::Type& arg, bool exact);
  std::map<std::string, graph::Type> types_;
  std::map<std::string, bool> flexible_;
  tir::VarMap sizes_;
  std::unordered_map<const tir::Var*, bool> seen_;  ///< sizes that parameters show
  bool contravariant_ = false;
  int depth_ = 0;
};

/// Types that the text leaves open, while inference looks for them (pass/graph/types/open_types.h). Each has
/// a name,
/// "?0"; as long as one stands in a type, that type is incomplete.
struct OpenTypes {
  using Site = std::map<std::string, graph::Type>;             ///< what one call says of some of them
  std::unordered_map<const graph::Var*, std::string> names;    ///< of parameters
  std::unordered_map<const graph::Var*, std::string> results;  ///< of closures that call themselves
  Site known;                                                  ///< so far
  std::vector<Site> sites;
  int symbols = 0;  ///< made so far
  /// Those of the inference that runs; null: no type is open.
  static OpenTypes*& current();
  void note(const std::string& name, const graph::Type& type);
  /// What is known of an open type; any other type as it is.
  graph::Type resolved(const graph::Type& type) const;
};
/// The name of an open type, else empty.
std::string open_name(const graph::Type& type);
/// An open or incomplete type stands somewhere in it.
bool has_incomplete(const graph::Type& type);

/// No value has both types, as far as is known.
bool conflict(const graph::Type& a, const graph::Type& b);
/// The type of a recursive call whose function is being inferred: it agrees with everything.
graph::Type incomplete_type();
bool is_incomplete(const graph::Type& type);
/// How much a type tells, to choose between two for one value.
int knowledge(const graph::Type& type);
/// The type of a parameter as callers see it.
graph::Type parameter_type(const graph::VarRef& parameter);
/// The type as a function of the module has it, from its parameters and its result type (null: unknown).
graph::Type function_type(const graph::Function& f);
/// Type of a constructor: from its fields to its data type.
graph::Type constructor_type(const graph::AdtDef& def, size_t tag);
/// Variables of a pattern get the types that follow from the matched value's, where they have none.
/// DiagnosticError "T1104" when the pattern cannot take such a value.
void infer_pattern(const graph::Pattern& pattern, const graph::Type& value, const std::string& location);

}  // namespace tenon::op
