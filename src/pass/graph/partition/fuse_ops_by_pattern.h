// SPDX-License-Identifier: Apache-2.0
// Named patterns, and the parts of a module that match them.
#pragma once
#include "base/function.h"
#include "ir/dataflow_pattern.h"

namespace tenon::graph {

/// A pattern by the name that its composites get: "cutlass.dense". `check` (may be null) gets the function
/// that a match becomes and says whether to take it.
struct NamedPattern {
  std::string name;
  dpl::DFPattern pattern;
  tenon::Function check;
};
/// From (name, pattern[, check]) triples, as other languages and tables give them. DiagnosticError T1152.
std::vector<NamedPattern> named_patterns(const Array<Any>& entries);
/// The table that the registered function "tenon.patterns.NAME" gives. DiagnosticError T1152 when there is
/// none.
std::vector<NamedPattern> pattern_table(const std::string& name);

/// Every match becomes a call of a private function with the attribute Composite. Of patterns that overlap
/// the first one wins, of matches of one pattern the later one; values inside a match are used by it alone.
IRModule fuse_ops_by_pattern(IRModule module, const std::vector<NamedPattern>& patterns,
                             bool bind_constants = false);

/// The function with the callback's value in the place of every match's root: it gets the root's value and
/// the match; null leaves it. Roots are looked at once, in order.
Ref<Function> rewrite_matches(const dpl::DFPattern& pattern, const Ref<Function>& function,
                              FunctionRef<Expr(const VarRef& root, const dpl::PatternMatch&)> callback);

}  // namespace tenon::graph
