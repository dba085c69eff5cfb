// SPDX-License-Identifier: Apache-2.0
// The syntax tree of script text, before it means anything: expressions and statements of the Python subset.
// Private to the parsers of script text: src/ir/parse*, src/schedule/script.cpp.
#pragma once
#include <deque>
#include <map>

#include "ir/lexer.h"
#include "ir/prim_expr.h"
#include "ir/text.h"

namespace tenon {
struct CapturedValues;
}
namespace tenon::script {

enum class ExprKind : uint8_t {
  name,
  integer,
  number,
  string,
  attribute,
  call,
  subscript,
  slice,
  tuple,
  list,
  dict,
  unary,
  binary,
  compare,
  logic,
  conditional,
  lambda,
  star,    ///< `*list` among arguments
  object,  ///< written by `capture`
};

/// One expression. `items` are the operands in order: call (callee, positional…), subscript (base, indices…),
/// attribute (base), slice (start, stop; null when absent), dict (key, value, …), conditional (value,
/// condition, other). In a pattern a name may carry its annotation (one item).
struct Ast {
  ExprKind kind = ExprKind::name;
  uint32_t begin = 0, end = 0;
  std::string text;  ///< name, attribute, operator or string value
  int64_t integer = 0;
  double number = 0;
  std::vector<const Ast*> items;
  std::vector<std::pair<std::string, const Ast*>> named;  ///< keyword arguments
  std::vector<std::string> params;                        ///< of a lambda
  ObjectRef object;  ///< a captured value; `text` is what stands in the source
  bool parenthesised = false;
};

enum class StmtKind : uint8_t {
  expr,
  assign,
  for_,
  while_,
  if_,
  match_,
  case_,
  with,
  def,
  class_,
  return_,
  assert_,
  pass,
  import,
  failed
};

struct AstParam {
  std::string name;
  const Ast* annotation = nullptr;
  uint32_t begin = 0, end = 0;
};

struct AstStmt {
  StmtKind kind = StmtKind::pass;
  uint32_t begin = 0, end = 0;
  const Ast *target = nullptr, *annotation = nullptr,
            *value = nullptr;            ///< condition, iterable or return value too
  std::string name;                      ///< def, class; operator of an augmented assignment
  std::vector<std::string> type_params;  ///< def, class
  std::vector<const Ast*> decorators, contexts,
      targets;  ///< with: contexts and their `as` targets (null when absent)
  std::vector<AstParam> params;
  std::vector<const AstStmt*> body, orelse;
};

struct Tree {
  std::shared_ptr<const SourceText> source;
  std::deque<Ast> exprs;
  std::deque<AstStmt> stmts;
  std::vector<const AstStmt*> top;
  const Ast* expression = nullptr;  ///< of parse_expression
  bool gave_up = false;             ///< a block nested too deep: the rest is not read
};

/// Collects mistakes (T0206 … T0209) and goes on with the next statement.
std::unique_ptr<Tree> parse_syntax(std::string_view text, const std::string& name, DiagnosticList& problems);
std::unique_ptr<Tree> parse_expression(std::string_view text, const std::string& name,
                                       DiagnosticList& problems);
/// Writes captured values into the tree, where the text names them.
void capture(Tree& tree, const CapturedValues& values);
void capture_expression(Tree& tree, const CapturedValues& values);
/// What an expression over named variables means; nothing where it has mistakes, which go to `problems`.
PrimExpr prim_expr(const Tree& tree, const Ast* a, const std::map<std::string, tir::VarRef>& variables,
                   DiagnosticList& problems);
/// parse_module whose mistakes go to `problems`; null where it has some.
IRModule module_of(std::string_view text, const ParseOptions& options, DiagnosticList& problems,
                   const CapturedValues* captured = nullptr);

}  // namespace tenon::script
