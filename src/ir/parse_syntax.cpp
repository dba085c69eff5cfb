// SPDX-License-Identifier: Apache-2.0
// Statements of script text by recursive descent over its tokens.
#include "ir/parse_syntax.h"

#include "ir/expression_parser.h"

namespace tenon::script {
namespace {

constexpr int kMaxErrors = 200;

class SyntaxParser : ExpressionParser {
 public:
  SyntaxParser(std::string_view text, const std::string& name, DiagnosticList& problems)
      : ExpressionParser(text, name, problems) {}

  std::unique_ptr<Tree> module() {
    while (peek().kind != Tok::end) statement_into(tree_->top);
    return std::move(tree_);
  }
  std::unique_ptr<Tree> single() {
    try {
      tree_->expression = expression();
      while (peek().kind == Tok::newline) ++at_;
      if (peek().kind != Tok::end)
        fail("T0206", fmt::format("{} does not continue the expression", shown(peek())));
    } catch (const SyntaxError&) {
    }
    return std::move(tree_);
  }

 private:
  void skip_statement() {
    int blocks = 0;
    for (;; ++at_) {
      const Tok k = peek().kind;
      if (k == Tok::end) return;
      if (k == Tok::indent) ++blocks;
      if (k == Tok::dedent) {
        if (blocks == 0) return;
        if (--blocks == 0) {
          ++at_;
          return;
        }
      }
      if (k == Tok::newline && blocks == 0) {
        ++at_;
        if (peek().kind != Tok::indent) return;
        --at_;
      }
    }
  }
  void statement_into(std::vector<const AstStmt*>& out) {
    const size_t start = at_;
    if (peek().kind == Tok::newline || take_op(";")) {
      if (at_ == start) ++at_;
      return;
    }
    try {
      if (peek().kind == Tok::indent) fail("T0208", "this line is indented although nothing opens a block");
      out.push_back(statement());
    } catch (const SyntaxError&) {
      if (at_ == start && peek().kind == Tok::dedent) {
        ++at_;
        return;
      }
      // What the broken statement would define is not reported as missing below.
      tree_->stmts.emplace_back();
      AstStmt* s = &tree_->stmts.back();
      s->kind = StmtKind::failed;
      s->begin = tokens_[start].begin;
      s->end = tokens_[start].end;
      if (tokens_[start].kind == Tok::name)
        s->name = std::string(tokens_[start].text == "def" ? peek_at(start + 1) : tokens_[start].text);
      out.push_back(s);
      if (++errors_ > kMaxErrors || tree_->gave_up) at_ = tokens_.size() - 1;  // no use in going on
      skip_statement();
    }
  }
  std::string_view peek_at(size_t i) const {
    return i < tokens_.size() ? tokens_[i].text : std::string_view();
  }
  AstStmt* stmt(StmtKind kind, uint32_t begin) {
    tree_->stmts.emplace_back();
    AstStmt* s = &tree_->stmts.back();
    s->kind = kind;
    s->begin = begin;
    return s;
  }
  AstStmt* finish(AstStmt* s) {
    s->end = last_end();
    return s;
  }
  void end_of_line() {
    if (take_op(";")) return;
    if (peek().kind == Tok::newline) {
      ++at_;
      return;
    }
    if (peek().kind == Tok::end || peek().kind == Tok::dedent) return;
    fail("T0206", fmt::format("{} does not continue the statement", shown(peek())));
  }
  std::vector<const AstStmt*> suite() {
    expect_op(":", "before the block");
    std::vector<const AstStmt*> body;
    if (peek().kind != Tok::newline) {  // on the same line
      statement_into(body);
      return body;
    }
    ++at_;
    if (peek().kind != Tok::indent) fail("T0208", "an indented block was expected");
    ++at_;
    while (peek().kind != Tok::dedent && peek().kind != Tok::end) statement_into(body);
    if (peek().kind == Tok::dedent) ++at_;
    return body;
  }
  const Ast* target_list() {
    const uint32_t begin = peek().begin;
    auto one = [&]() -> const Ast* { return postfix(); };
    const Ast* first = one();
    if (!is_op(",")) return first;
    Ast* t = node(ExprKind::tuple, begin);
    t->items.push_back(first);
    while (take_op(",")) {
      if (is_word("in") || is_op("=")) break;
      t->items.push_back(one());
    }
    return done(t);
  }
  const AstStmt* statement() {
    if (depth_ + 4 > kMaxDepth) {  // with room for a condition
      tree_->gave_up = true;       // what stands behind a lost block has no block to belong to
      too_deep();
    }
    Deeper d(*this);
    const Token t = peek();
    if (t.kind == Tok::op && t.text == "@") {
      std::vector<const Ast*> decorators;
      while (take_op("@")) {
        decorators.push_back(expression());
        if (peek().kind == Tok::newline) ++at_;
      }
      if (!is_word("def") && !is_word("class"))
        fail("T0206", "a decorator stands before something that is neither a function nor a class");
      AstStmt* s = const_cast<AstStmt*>(statement());
      s->decorators = std::move(decorators);
      return s;
    }
    if (t.kind == Tok::name) {
      if (t.text == "def") return function();
      if (t.text == "class") {
        ++at_;
        AstStmt* s = stmt(StmtKind::class_, t.begin);
        if (peek().kind != Tok::name) fail("T0206", "the class has no name");
        s->name = std::string(tokens_[at_++].text);
        s->end = tokens_[at_ - 1].end;
        s->type_params = type_parameters();
        if (take_op("(")) {
          while (!is_op(")")) {
            expression();
            if (!take_op(",")) break;
          }
          expect_op(")", "end of the base classes");
        }
        s->body = suite();
        return s;
      }
      if (t.text == "for") {
        ++at_;
        AstStmt* s = stmt(StmtKind::for_, t.begin);
        s->target = target_list();
        if (!take_word("in")) fail("T0206", fmt::format("{} stands where `in` was expected", shown(peek())));
        s->value = expression_list();
        finish(s);
        s->body = suite();
        return s;
      }
      if (t.text == "elif" || t.text == "else") fail("T0206", fmt::format("`{}` follows no `if`", t.text));
      if (t.text == "while" || t.text == "if") {
        ++at_;
        AstStmt* s = stmt(t.text == "while" ? StmtKind::while_ : StmtKind::if_, t.begin);
        s->value = expression();
        finish(s);
        s->body = suite();
        // elif chains of any length: each hangs below the one before, without recursion.
        AstStmt* last = s;
        int chain = 0;
        while (s->kind == StmtKind::if_ && is_word("elif")) {
          AstStmt* next = stmt(StmtKind::if_, peek().begin);
          if (++chain > kMaxDepth) too_deep();
          ++at_;
          next->value = expression();
          finish(next);
          next->body = suite();
          last->orelse.push_back(next);
          last = next;
        }
        if (s->kind == StmtKind::if_ && take_word("else")) last->orelse = suite();
        return s;
      }
      if (t.text == "with") {
        ++at_;
        AstStmt* s = stmt(StmtKind::with, t.begin);
        do {
          s->contexts.push_back(expression());
          s->targets.push_back(take_word("as") ? target_list() : nullptr);
        } while (take_op(","));
        finish(s);
        s->body = suite();
        return s;
      }
      if (t.text == "return") {
        ++at_;
        AstStmt* s = stmt(StmtKind::return_, t.begin);
        if (peek().kind != Tok::newline && peek().kind != Tok::end && !is_op(";"))
          s->value = expression_list();
        finish(s);
        end_of_line();
        return s;
      }
      if (t.text == "assert") {
        ++at_;
        AstStmt* s = stmt(StmtKind::assert_, t.begin);
        s->value = expression();
        if (take_op(",")) s->target = expression();
        finish(s);
        end_of_line();
        return s;
      }
      if (t.text == "pass") {
        ++at_;
        AstStmt* s = finish(stmt(StmtKind::pass, t.begin));
        end_of_line();
        return s;
      }
      if (t.text == "import" || t.text == "from") return import();
      if (t.text == "match" && opens_match()) return match_statement();
    }
    AstStmt* s = stmt(StmtKind::expr, t.begin);
    s->value = expression_list();
    if (take_op(":")) {
      s->kind = StmtKind::assign;
      s->target = s->value;
      s->value = nullptr;
      s->annotation = expression();
      if (take_op("=")) s->value = expression_list();
    } else if (peek().kind == Tok::op && peek().text.size() >= 2 && peek().text.back() == '=' &&
               level() == 0 && peek().text != ":=") {
      s->kind = StmtKind::assign;
      s->name = std::string(peek().text.substr(0, peek().text.size() - 1));
      ++at_;
      s->target = s->value;
      s->value = expression_list();
    } else if (take_op("=")) {
      s->kind = StmtKind::assign;
      s->target = s->value;
      s->value = expression_list();
    }
    finish(s);
    end_of_line();
    return s;
  }
  /// `[A, B]` behind the name of a function or class.
  std::vector<std::string> type_parameters() {
    std::vector<std::string> out;
    if (!take_op("[")) return out;
    while (!is_op("]")) {
      if (peek().kind != Tok::name) fail("T0206", fmt::format("{} is no type parameter", shown(peek())));
      out.emplace_back(tokens_[at_++].text);
      if (!take_op(",")) break;
    }
    expect_op("]", "end of the type parameters");
    return out;
  }
  /// `match` is a name elsewhere: it opens a statement when something follows it and the line ends in a
  /// colon.
  bool opens_match() const {
    const Token& next = tokens_[std::min(at_ + 1, tokens_.size() - 1)];
    if (next.kind == Tok::newline || next.kind == Tok::end) return false;
    if (next.kind == Tok::op && next.text != "(" && next.text != "[") return false;
    size_t i = at_ + 1;
    while (i < tokens_.size() && tokens_[i].kind != Tok::newline && tokens_[i].kind != Tok::end) ++i;
    return tokens_[i - 1].kind == Tok::op && tokens_[i - 1].text == ":";
  }
  const AstStmt* match_statement() {
    AstStmt* s = stmt(StmtKind::match_, peek().begin);
    ++at_;
    s->value = expression_list();
    finish(s);
    expect_op(":", "before the cases");
    if (peek().kind == Tok::newline) ++at_;
    if (peek().kind != Tok::indent) fail("T0208", "indented cases were expected");
    ++at_;
    while (peek().kind != Tok::dedent && peek().kind != Tok::end) {
      AstStmt* c = stmt(StmtKind::case_, peek().begin);
      if (!take_word("case"))
        fail("T0206", fmt::format("{} stands where `case` was expected", shown(peek())));
      c->target = pattern();
      finish(c);
      c->body = suite();
      s->body.push_back(c);
    }
    if (peek().kind == Tok::dedent) ++at_;
    return s;
  }
  /// NAME [":" type] | path ["(" patterns ")"] | "(" patterns ")", as expressions. Types stand in brackets
  /// only.
  const Ast* pattern(bool in_brackets = false) {
    Deeper d(*this);
    const uint32_t begin = peek().begin;
    auto items = [&](Ast* n) {
      bool comma = false;
      while (!is_op(")")) {
        n->items.push_back(pattern(true));
        if (!take_op(",")) break;
        comma = true;
      }
      expect_op(")", "end of the patterns");
      return comma;
    };
    if (take_op("(")) {
      Ast* n = node(ExprKind::tuple, begin);
      const bool comma = items(n);
      if (n->items.size() == 1 && !comma) return n->items[0];
      return done(n);
    }
    if (peek().kind != Tok::name) fail("T0206", fmt::format("{} begins no pattern", shown(peek())));
    Ast* head = node(ExprKind::name, begin);
    head->text = std::string(tokens_[at_++].text);
    done(head);
    while (take_op(".")) {
      Ast* n = node(ExprKind::attribute, begin);
      if (peek().kind != Tok::name) fail("T0206", fmt::format("{} is no name", shown(peek())));
      n->text = std::string(tokens_[at_++].text);
      n->items.push_back(head);
      done(n);
      head = n;
    }
    if (take_op("(")) {
      Ast* n = node(ExprKind::call, begin);
      n->items.push_back(head);
      items(n);
      return done(n);
    }
    // Directly behind `case`, a colon ends the pattern.
    if (in_brackets && head->kind == ExprKind::name && take_op(":")) head->items.push_back(expression());
    return head;
  }
  const AstStmt* function() {
    AstStmt* s = stmt(StmtKind::def, peek().begin);
    ++at_;
    if (peek().kind != Tok::name) fail("T0206", "the function has no name");
    s->name = std::string(tokens_[at_++].text);
    s->type_params = type_parameters();
    expect_op("(", "before the parameters");
    while (!is_op(")")) {
      if (peek().kind != Tok::name) fail("T0206", fmt::format("{} is no parameter name", shown(peek())));
      AstParam p;
      p.begin = peek().begin;
      p.end = peek().end;
      p.name = std::string(tokens_[at_++].text);
      if (take_op(":")) p.annotation = expression();
      s->params.push_back(std::move(p));
      if (!take_op(",")) break;
    }
    expect_op(")", "end of the parameters");
    if (take_op("->")) s->annotation = expression();
    finish(s);
    s->body = suite();
    return s;
  }
  /// `import a.b`, `from a import b as c, d`: targets hold (name, alias) as attribute nodes.
  const AstStmt* import() {
    AstStmt* s = stmt(StmtKind::import, peek().begin);
    const bool from = tokens_[at_++].text == "from";
    auto dotted = [&] {
      std::string path;
      while (peek().kind == Tok::name || is_op(".") || is_op("...")) {
        if (is_word("import") || is_word("as")) break;
        path += tokens_[at_++].text;
      }
      return path;
    };
    s->name = from ? dotted() : "";
    if (from && !take_word("import"))
      fail("T0206", fmt::format("{} stands where `import` was expected", shown(peek())));
    const bool bracket = take_op("(");
    do {
      Ast* n = node(ExprKind::name, peek().begin);
      n->text = is_op("*") ? (++at_, "*") : dotted();
      if (take_word("as") && peek().kind == Tok::name) n->params.emplace_back(tokens_[at_++].text);
      s->targets.push_back(done(n));
    } while (take_op(","));
    if (bracket) expect_op(")", "end of the imports");
    finish(s);
    end_of_line();
    return s;
  }
};

}  // namespace

std::unique_ptr<Tree> parse_syntax(std::string_view text, const std::string& name, DiagnosticList& problems) {
  return SyntaxParser(text, name, problems).module();
}
std::unique_ptr<Tree> parse_expression(std::string_view text, const std::string& name,
                                       DiagnosticList& problems) {
  return SyntaxParser(text, name, problems).single();
}

}  // namespace tenon::script
