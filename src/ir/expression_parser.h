// SPDX-License-Identifier: Apache-2.0
// Below parse_syntax: tokens and the expressions made of them, with a bound on nesting.
#pragma once
#include <fmt/format.h>

#include "ir/parse_syntax.h"
#include "ir/token_cursor.h"
#include "ir/verify.h"

namespace tenon::script {

/// One level of brackets or blocks may be a few levels of recursion; text of every module that the verifier
/// admits stays below.
constexpr int kMaxDepth = kMaxNesting + 200;

class ExpressionParser : protected TokenCursor<Token> {
 protected:
  ExpressionParser(std::string_view text, const std::string& name, DiagnosticList& problems)
      : problems_(problems), tree_(std::make_unique<Tree>()) {
    tree_->source = std::make_shared<SourceText>(name, std::string(text));
    tokens_ = lex(tree_->source, problems);
  }

  static std::string shown(const Token& t);
  [[noreturn]] void fail(std::string code, std::string message, std::string hint = {});
  void expect_op(std::string_view s, std::string_view where) {
    if (!take_op(s))
      fail("T0206", fmt::format("{} stands where `{}` was expected ({})", shown(peek()), s, where));
  }
  Ast* node(ExprKind kind, uint32_t begin);
  Ast* done(Ast* n) {
    n->end = last_end();
    return n;
  }
  struct Deeper {
    explicit Deeper(ExpressionParser& p) : p(p) {
      if (++p.depth_ > kMaxDepth) {
        --p.depth_;
        p.too_deep();
      }
    }
    ~Deeper() { --p.depth_; }
    ExpressionParser& p;
  };
  [[noreturn]] void too_deep() {
    fail("T0209", fmt::format("the text is nested more than {} levels deep", kMaxDepth));
  }
  /// A chain of operators or calls becomes a tree as deep as it is long.
  [[noreturn]] void too_long() {
    fail("T0209", fmt::format("a chain of more than {} operators or calls", kMaxDepth),
         "give parts of it a name");
  }

  // ---- expressions
  const Ast* expression_list();  // `a, b` without brackets
  const Ast* expression();
  /// Level of the operator at hand: or 1, and 2, not 3 (prefix), comparisons 4, | 5, ^ 6, & 7, shifts 8, + -
  /// 9, * / // % 10.
  int level() const;
  const Ast* binary(int least);
  const Ast* unary();
  const Ast* starred();  // `*list`, or one value
  const Ast* postfix();
  const Ast* index();
  const Ast* atom();

  DiagnosticList& problems_;
  std::unique_ptr<Tree> tree_;
  int errors_ = 0;
};

}  // namespace tenon::script
