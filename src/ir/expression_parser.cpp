// SPDX-License-Identifier: Apache-2.0
// Expressions of script text by recursive descent.
#include "ir/expression_parser.h"

#include <charconv>
#include <cstdlib>

namespace tenon::script {

std::string ExpressionParser::shown(const Token& t) {
  switch (t.kind) {
    case Tok::newline:
      return "the end of the line";
    case Tok::indent:
      return "an indented line";
    case Tok::dedent:
      return "the end of the block";
    case Tok::end:
      return "the end of the text";
    default:
      return "`" + std::string(t.text.substr(0, 40)) + "`";
  }
}

void ExpressionParser::fail(std::string code, std::string message, std::string hint) {
  const Token& t = peek();
  if (problems_.all().size() < DiagnosticList::limit)
    problems_.add(std::move(code), std::move(message),
                  Span{tree_->source, t.begin, std::max(t.end, t.begin + 1)}, std::move(hint));
  throw SyntaxError();
}

Ast* ExpressionParser::node(ExprKind kind, uint32_t begin) {
  tree_->exprs.emplace_back();
  Ast* n = &tree_->exprs.back();
  n->kind = kind;
  n->begin = begin;
  return n;
}

const Ast* ExpressionParser::expression_list() {
  const uint32_t begin = peek().begin;
  const Ast* first = expression();
  if (!is_op(",")) return first;
  Ast* t = node(ExprKind::tuple, begin);
  t->items.push_back(first);
  while (take_op(",")) {
    if (peek().kind == Tok::newline || is_op("=") || is_op(":") || is_op(")") || is_word("in")) break;
    t->items.push_back(expression());
  }
  return done(t);
}

const Ast* ExpressionParser::expression() {
  Deeper d(*this);
  const uint32_t begin = peek().begin;
  if (is_word("lambda")) {
    ++at_;
    Ast* l = node(ExprKind::lambda, begin);
    while (!is_op(":")) {
      if (peek().kind != Tok::name) fail("T0206", fmt::format("{} is no parameter name", shown(peek())));
      l->params.emplace_back(tokens_[at_++].text);
      if (!take_op(",")) break;
    }
    expect_op(":", "after the parameters of lambda");
    l->items.push_back(expression());
    return done(l);
  }
  const Ast* value = binary(0);
  if (is_word("if")) {
    ++at_;
    Ast* c = node(ExprKind::conditional, begin);
    c->items = {value, binary(0)};
    if (!take_word("else")) fail("T0206", fmt::format("{} stands where `else` was expected", shown(peek())));
    c->items.push_back(expression());
    return done(c);
  }
  return value;
}

int ExpressionParser::level() const {
  const Token& t = peek();
  if (t.kind == Tok::name) return t.text == "or" ? 1 : t.text == "and" ? 2 : 0;
  if (t.kind != Tok::op) return 0;
  const std::string_view s = t.text;
  if (s == "==" || s == "!=" || s == "<" || s == "<=" || s == ">" || s == ">=") return 4;
  if (s == "|") return 5;
  if (s == "^") return 6;
  if (s == "&") return 7;
  if (s == "<<" || s == ">>") return 8;
  if (s == "+" || s == "-") return 9;
  if (s == "*" || s == "/" || s == "//" || s == "%") return 10;
  return 0;
}

const Ast* ExpressionParser::binary(int least) {
  const uint32_t begin = peek().begin;
  const Ast* left;
  if (is_word("not") && least <= 3) {
    Deeper d(*this);
    ++at_;
    Ast* n = node(ExprKind::unary, begin);
    n->text = "not";
    n->items.push_back(binary(3));
    left = done(n);
  } else {
    left = unary();
  }
  int chain = 0;
  for (int l = level(); l > least; l = level()) {
    if (++chain > kMaxDepth) too_long();
    Ast* n = node(l == 4 ? ExprKind::compare : l <= 2 ? ExprKind::logic : ExprKind::binary, begin);
    n->text = std::string(tokens_[at_++].text);
    const Ast* right = binary(l);
    if (l == 4 && left->kind == ExprKind::compare && !left->parenthesised) {  // a < b < c
      Ast* second = node(ExprKind::compare, left->items[1]->begin);
      second->text = n->text;
      second->items = {left->items[1], right};
      done(second);
      n->kind = ExprKind::logic;
      n->text = "and";
      right = second;
    }
    n->items = {left, right};
    left = done(n);
  }
  return left;
}

const Ast* ExpressionParser::unary() {
  if (is_op("-") || is_op("+") || is_op("~")) {
    Deeper d(*this);
    const uint32_t begin = peek().begin;
    Ast* n = node(ExprKind::unary, begin);
    n->text = std::string(tokens_[at_++].text);
    n->items.push_back(unary());
    return done(n);
  }
  const uint32_t begin = peek().begin;
  const Ast* base = postfix();
  if (is_op("**")) {
    Deeper d(*this);
    ++at_;
    Ast* n = node(ExprKind::binary, begin);
    n->text = "**";
    n->items = {base, unary()};
    return done(n);
  }
  return base;
}

const Ast* ExpressionParser::starred() {
  if (!is_op("*")) return expression();
  Ast* n = node(ExprKind::star, peek().begin);
  ++at_;
  n->items.push_back(expression());
  return done(n);
}

const Ast* ExpressionParser::postfix() {
  const uint32_t begin = peek().begin;
  const Ast* base = atom();
  for (int chain = 0;; ++chain) {
    if (chain > kMaxDepth) too_long();
    if (take_op(".")) {
      if (peek().kind != Tok::name)
        fail("T0206", fmt::format("{} stands where a name was expected", shown(peek())));
      Ast* n = node(ExprKind::attribute, begin);
      n->text = std::string(tokens_[at_++].text);
      n->items.push_back(base);
      base = done(n);
    } else if (is_op("(")) {
      ++at_;
      Ast* n = node(ExprKind::call, begin);
      n->items.push_back(base);
      while (!is_op(")")) {
        if (peek().kind == Tok::name && is_op("=", 1)) {
          std::string name(peek().text);
          for (auto& [other, v] : n->named)
            if (other == name) fail("T0207", fmt::format("argument `{}` is given twice", name));
          at_ += 2;
          n->named.emplace_back(std::move(name), expression());
        } else {
          if (!n->named.empty()) fail("T0207", "an argument without a name follows one with a name");
          n->items.push_back(starred());
        }
        if (!take_op(",")) break;
      }
      expect_op(")", "end of the arguments");
      base = done(n);
    } else if (is_op("[")) {
      ++at_;
      Ast* n = node(ExprKind::subscript, begin);
      n->items.push_back(base);
      while (!is_op("]")) {
        n->items.push_back(index());
        if (!take_op(",")) break;
      }
      expect_op("]", "end of the indices");
      base = done(n);
    } else {
      return base;
    }
  }
}

const Ast* ExpressionParser::index() {
  const uint32_t begin = peek().begin;
  const Ast* start = is_op(":") ? nullptr : expression();
  if (!is_op(":")) return start;
  ++at_;
  Ast* s = node(ExprKind::slice, begin);
  s->items = {start, is_op(",") || is_op("]") ? nullptr : expression()};
  return done(s);
}

const Ast* ExpressionParser::atom() {
  const Token t = peek();
  switch (t.kind) {
    case Tok::name: {
      static constexpr std::string_view reserved[] = {
          "def",    "class", "return", "for", "while", "with", "if",  "elif", "else", "assert", "pass",
          "import", "from",  "as",     "in",  "and",   "or",   "not", "is",   "del",  "try"};
      for (std::string_view r : reserved)
        if (t.text == r) fail("T0206", fmt::format("the word `{}` stands where a value was expected", r));
      ++at_;
      Ast* n = node(ExprKind::name, t.begin);
      n->text = std::string(t.text);
      return done(n);
    }
    case Tok::integer:
    case Tok::number: {
      ++at_;
      Ast* n = node(t.kind == Tok::integer ? ExprKind::integer : ExprKind::number, t.begin);
      std::string digits;
      for (char c : t.text)
        if (c != '_') digits += c;
      if (t.kind == Tok::number)
        n->number = std::strtod(digits.c_str(), nullptr);
      else {
        const bool hex = digits.size() > 2 && (digits[1] | 32) == 'x';
        uint64_t value = 0;
        const char *from = digits.data() + (hex ? 2 : 0), *to = digits.data() + digits.size();
        auto [end, error] = std::from_chars(from, to, value, hex ? 16 : 10);
        if (error != std::errc() || end != to || (!hex && value > uint64_t(INT64_MAX) + 1)) {
          --at_;
          fail("T0204", fmt::format("`{}` does not fit in 64 bits", t.text));
        }
        n->integer = int64_t(value);
      }
      return done(n);
    }
    case Tok::string: {
      Ast* n = node(ExprKind::string, t.begin);
      while (peek().kind == Tok::string) n->text += string_value(tokens_[at_++].text);
      return done(n);
    }
    case Tok::op:
      break;
    default:
      fail("T0206", fmt::format("{} stands where a value was expected", shown(t)));
  }
  if (t.text == "(" || t.text == "[") {
    ++at_;
    const bool list = t.text == "[";
    const std::string_view close = list ? "]" : ")";
    Ast* n = node(list ? ExprKind::list : ExprKind::tuple, t.begin);
    bool comma = false;
    while (!is_op(close)) {
      n->items.push_back(expression());
      if (!is_op(",")) break;
      ++at_;
      comma = true;
    }
    expect_op(close, list ? "end of the list" : "end of the parentheses");
    if (!list && n->items.size() == 1 && !comma) {
      Ast* inner = const_cast<Ast*>(n->items[0]);
      inner->parenthesised = true;
      return inner;
    }
    return done(n);
  }
  if (t.text == "{") {
    ++at_;
    Ast* n = node(ExprKind::dict, t.begin);
    while (!is_op("}")) {
      n->items.push_back(expression());
      expect_op(":", "between key and value");
      n->items.push_back(expression());
      if (!take_op(",")) break;
    }
    expect_op("}", "end of the map");
    return done(n);
  }
  if (t.text == "...") {
    ++at_;
    Ast* n = node(ExprKind::name, t.begin);
    n->text = "...";
    return done(n);
  }
  fail("T0206", fmt::format("{} stands where a value was expected", shown(t)));
}

}  // namespace tenon::script
