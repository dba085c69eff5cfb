// SPDX-License-Identifier: Apache-2.0
// tenon lint: what in a model is slow, or may lose its numbers, without compiling it.
#pragma once
#include <string>
#include <vector>

#include "ir/module.h"

namespace tenon {

enum class LintKind : uint8_t {
  slow,     ///< right, but slower than it could be
  numeric,  ///< values may overflow, vanish or be undefined
};
std::string_view to_string(LintKind kind);

/// One remark about a model. `place`: the node or line; empty: the whole model.
struct LintRemark {
  LintKind kind;
  std::string rule;  ///< a name of lint_rules
  std::string message, place, hint;
};

/// The names of the rules and what each looks for.
struct LintRule {
  std::string_view name, doc;
  LintKind kind;
};
std::vector<LintRule> lint_rules();

/// The remarks about a module, those about loops of its programs first, then in the order of its functions
/// and bindings. DiagnosticError: what keeps a program from compiling.
std::vector<LintRemark> lint(const IRModule& module);

}  // namespace tenon
