// SPDX-License-Identifier: Apache-2.0
// Recursive descent over the tokens of Relay text, with a bound on nesting. Private to syntax.h's sources.
#pragma once
#include <fmt/format.h>

#include "import/relay/syntax.h"
#include "ir/token_cursor.h"

namespace tenon::relay {

/// A literal's type is written behind it: 1f16, 3i64; alone f is 32 bits, a whole number int32 where it fits.
struct Literal {
  bool real = false;
  int64_t integer = 0;
  double number = 0;
  DataType dtype;
};

/// A mistake gives up the step or definition at hand, and the next one is looked at too.
class Parser : TokenCursor<Token> {
 public:
  Parser(std::string_view text, const std::string& name, DiagnosticList& problems);
  std::unique_ptr<Tree> run();

 private:
  // ---- parser.cpp: tokens, definitions, types
  static std::string shown(const Token& t);
  Span span(const Placed& p) const { return {tree_->source, p.begin, p.end}; }
  void note(std::string code, std::string message, const Placed& at, std::string hint = {});
  [[noreturn]] void fail(std::string code, std::string message, std::string hint = {});
  [[noreturn]] void expected(std::string_view what);
  void expect_op(std::string_view s);
  std::string expect(Tok kind, std::string_view what);
  void skip_to_definition();
  /// Behind the next `;` of this block, or before its end.
  void skip_step();
  template <class F>
  void list(std::string_view close, F item);  ///< items with commas between them; one may end the list
  void definition();
  void type_definition();
  std::vector<std::string> type_params();
  const TypeAst* type();
  void tensor_type(TypeAst& t);
  Literal literal(bool negative);

  // ---- parse_expr.cpp
  const FunctionAst* function(uint32_t begin);
  /// Steps and a value, up to a closing bracket or the end of the text. `block`: a mistake in a step does not
  /// end it.
  const ExprAst* sequence(bool block);
  StepAst step();
  void free_var();
  const ExprAst* infix();
  const ExprAst* call();
  const ExprAst* atom();
  const ExprAst* tuple();
  const ExprAst* number(bool negative, uint32_t begin);
  const ExprAst* block();
  const ExprAst* if_expr();
  const ExprAst* match_expr();
  const PatternAst* pattern();
  bool at_attributes() const { return peek().kind == Tok::name && is_op("=", 1); }
  std::vector<NamedAttr> attributes();
  const AttrAst* attribute();
  ExprAst* expr(ExprKind kind, uint32_t begin);
  /// The expression is whole: its end and depth are known. T0209 where it is too deep.
  const ExprAst* done(ExprAst* e);

  struct Nested {
    Parser& p;
    explicit Nested(Parser& p);
    ~Nested() { --p.depth_; }
  };

  DiagnosticList& problems_;
  std::unique_ptr<Tree> tree_;
  size_t told_ = size_t(-1);  ///< the token where the last mistake was told
};

template <class F>
void Parser::list(std::string_view close, F item) {
  while (!take_op(close)) {
    item();
    if (!take_op(",") && !is_op(close)) expected(fmt::format("`,` or `{}`", close));
  }
}

}  // namespace tenon::relay
