// SPDX-License-Identifier: Apache-2.0
// Script text that stands in a program of another language and uses its values, by Python's rules for names:
// what a function binds anywhere is its own, everything else is looked for outside.
#pragma once
#include <map>

#include "base/function.h"
#include "ir/text.h"

namespace tenon {

/// The values around a text. An expression over them alone is evaluated there, once, and its value is
/// written in its place: a number, text, data type, tuple or map as if it stood in the text; an expression,
/// buffer, type, tensor or function of a program as the object; a function of the other language is called
/// where the text calls it, with expressions.
struct CapturedValues {
  std::function<bool(const std::string& name)> has;
  /// `place`: "file:line:column" of the expression, for messages. What it throws passes the parser.
  std::function<Any(const std::string& expression, const std::string& place)> evaluate;
  std::map<std::string, std::string> aliases;  ///< names of the script's own modules: "tir" → "T", R or I
};

/// As `parse_module`, of text in a program of another language. The text may be indented as a whole.
/// Functions of programs that it names become functions of the module.
IRModule parse_module(std::string_view text, const ParseOptions& options, const CapturedValues& captured);
/// An expression of a tensor program, a graph value or a type, over captured values.
ObjectRef parse_value(std::string_view text, const CapturedValues& captured);

/// Statements that are put where the macro is called, with the arguments in place of its parameters; in a
/// graph function the call stands for what the macro returns.
struct MacroObj : Object {
  static constexpr std::string_view type_key = "script.Macro";
  std::string text;  ///< of the function
  ParseOptions options;
  CapturedValues captured;
  bool hygienic = true;  ///< its other names are those around the macro; else those around the call, first
};

}  // namespace tenon
