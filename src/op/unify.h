// SPDX-License-Identifier: Apache-2.0
// Types of calls of functions and constructors: what stands for the callee's type parameters and symbolic
// sizes, found from the types of the arguments.
#pragma once
#include "ir/walk.h"
#include "op/infer_context.h"

namespace tenon::op {

/// Matches parameter types with argument types. What is unknown on either side agrees with everything: it is
/// checked at run time.
class Unifier {
 public:
  /// `open`: what is said of them is noted; null: no type is open.
  explicit Unifier(const Array<std::string>& type_params = {}, OpenTypes* open = nullptr);
  /// False when no value has both types. Function types should come last: what they tell counts least.
  bool unify(const graph::Type& param, const graph::Type& arg);
  /// A type of the callee in the caller's terms: what nothing stands for is unknown. `keep`: symbolic sizes
  /// that are no parameter's are the caller's own.
  graph::Type apply(const graph::Type& type, bool keep_sizes = false) const;

 private:
  bool dims(const Array<PrimExpr>& param, const Array<PrimExpr>& arg);
  bool bind(const std::string& name, const graph::Type& arg, bool exact);
  OpenTypes* open_ = nullptr;
  std::map<std::string, graph::Type> types_;
  std::map<std::string, bool> flexible_;
  tir::VarMap sizes_;
  std::unordered_map<const tir::Var*, bool> seen_;  ///< sizes that parameters show
  bool contravariant_ = false;
  int depth_ = 0;
};

/// No value has both types, as far as is known.
bool conflict(const graph::Type& a, const graph::Type& b, OpenTypes* open = nullptr);
/// How much a type tells, to choose between two for one value.
int knowledge(const graph::Type& type);
/// The type as a function of the module has it, from its parameters and its result type (null: unknown).
graph::Type function_type(const graph::Function& f, const OpenTypes* open = nullptr);
/// Type of a constructor: from its fields to its data type.
graph::Type constructor_type(const graph::AdtDef& def, size_t tag);
/// The pattern with types on its variables, those of the matched value; `renamed` is told of each variable
/// that is another then. Null, and a mistake (T1104) noted, when the pattern cannot take such a value.
graph::Pattern typed_pattern(Inference& run, const graph::Pattern& pattern, const graph::Type& value,
                             const Origin& at,
                             FunctionRef<void(const graph::VarRef& old, const graph::VarRef& now)> renamed);

}  // namespace tenon::op
