// SPDX-License-Identifier: Apache-2.0
// Dataflow patterns for other languages.
#include "capi/expressions.h"
#include "capi/methods.h"
#include "ir/bodies.h"
#include "ir/pattern_text.h"
#include "pass/graph/partition/fuse_ops_by_pattern.h"

namespace tenon {
namespace {

/// (pattern, value) of every part of the pattern that stands for one.
Array<Any> pairs_of(const dpl::PatternMatch& found) {
  Array<Any> out;
  for (const auto& [pattern, value] : found.values) out.push_back(Array<Any>{dpl::DFPattern(pattern), value});
  return out;
}

const bool pattern_functions_registered = [] {
  add_function("dpl.wildcard", {}, [] { return dpl::wildcard(); }, "any value");
  add_function("dpl.is_const", {}, [] { return make<dpl::ConstantPattern>(); }, "any constant");
  add_function("dpl.in_sequence", {"left", "right", "only", {"argument", int64_t(-1)}}, dpl::in_sequence,
               "one sequence: the last of the left is an operand of the first of the right");
  add_function("dpl.is_call_tir", {"name", {"args", dpl::DFPattern()}}, dpl::is_call_tir,
               "a call of a tensor program");
  add_function("dpl.is_call_dps_packed", {"name", {"args", dpl::DFPattern()}}, dpl::is_call_dps_packed,
               "a call of a packed function in destination-passing style");
  add_function(
      "dpl.is_call_packed", {"name", {"args", Any()}},
      [](const std::string& name, const Any& args) {
        return dpl::is_call_packed(
            name, args.is_none() ? std::nullopt : std::optional(args.as<Array<dpl::DFPattern>>()));
      },
      "a call of a packed function");
  add_function(
      "dpl.FunctionPattern.new", {"params", "body", {"any_params", Any(false)}},
      [](const Any& params, const dpl::DFPattern& body, bool any_params) {
        const bool any = any_params || params.is_none();
        return make<dpl::FunctionPattern>(any ? Array<dpl::DFPattern>() : params.as<Array<dpl::DFPattern>>(),
                                          body, any);
      },
      "a function by its parameters (None: whatever it takes) and result");
  add_function(
      "dpl.dup", {"pattern"},
      [](const dpl::DFPattern& pattern) {
        dpl::DFPattern other = pattern;
        other.edit();
        return other;
      },
      "an object of its own, which may stand for another value");
  add_function(
      "dpl.parse_patterns", {"text", {"name", "<patterns>"}},
      [](const std::string& text, const std::string& name) { return dpl::parse_patterns(text, name); },
      "a table of patterns from its text (T1155)");
  add_function("dpl.to_text", {"table"}, dpl::to_text, "the text of a table of patterns (T1155)");
  add_function(
      "dpl.match", {"pattern", "value", "function", {"mod", IRModule()}},
      [](const dpl::DFPattern& pattern, const graph::Expr& value, const Ref<graph::Function>& function,
         const IRModule& mod) -> Any {
        const auto found = dpl::match_pattern(pattern, value, dpl::DataflowView(function->body, mod));
        return found ? Any(pairs_of(*found)) : Any();
      },
      "(pattern, value) of every part where the pattern matches, else None (T1150, T1151)");
  add_function(
      "dpl.fuse_ops_by_pattern", {"mod", "patterns", {"bind_constants", false}},
      [](const IRModule& mod, const Array<Any>& patterns, bool bind) {
        return graph::fuse_ops_by_pattern(mod, graph::named_patterns(patterns), bind);
      },
      "every match of (name, pattern[, check]) as a function with the attribute Composite (T1152)");
  add_function(
      "dpl.rewrite", {"pattern", "function", "callback"},
      [](const dpl::DFPattern& pattern, const Ref<graph::Function>& function, const Function& callback) {
        return graph::rewrite_matches(
            pattern, function, [&](const graph::VarRef& root, const dpl::PatternMatch& found) -> graph::Expr {
              const Any made = callback(root, pairs_of(found));
              return made.is_none() ? graph::Expr() : graph_expr_of(made);
            });
      },
      "the function with the callback's values in the place of matches");
  return true;
}();

}  // namespace
}  // namespace tenon
