// SPDX-License-Identifier: Apache-2.0
// Expressions of Relay text.
#include <algorithm>

#include "import/relay/parser.h"
#include "ir/verify.h"

namespace tenon::relay {
namespace {

/// Levels of the tree. A chain of operators or calls is as deep as it is long.
constexpr int kMaxExprDepth = kMaxNesting + 200;

struct Infix {
  std::string_view sign, op;
  int strength;
};
constexpr Infix kInfix[] = {{"*", "multiply", 12}, {"/", "divide", 12},        {"+", "add", 10},
                            {"-", "subtract", 10}, {"<", "less", 8},           {"<=", "less_equal", 8},
                            {">", "greater", 8},   {">=", "greater_equal", 8}, {"==", "equal", 7},
                            {"!=", "not_equal", 7}};

}  // namespace

ExprAst* Parser::expr(ExprKind kind, uint32_t begin) {
  ExprAst& e = tree_->exprs.emplace_back();
  e.kind = kind;
  e.begin = begin;
  return &e;
}

const ExprAst* Parser::done(ExprAst* e) {
  e->end = last_end();
  int below = 0;
  auto look = [&](const ExprAst* part) {
    if (part) below = std::max(below, part->depth);
  };
  for (const ExprAst* x : e->items) look(x);
  for (const StepAst& s : e->steps) look(s.value);
  for (const ClauseAst& c : e->clauses) look(c.body);
  if (e->function) look(e->function->body);
  e->depth = below + 1;
  if (e->depth > kMaxExprDepth) {
    tree_->gave_up = true;
    note("T0209", fmt::format("the text is nested more than {} levels deep", kMaxExprDepth),
         {e->begin, e->begin + 1}, "give parts of it a name of their own");
    throw SyntaxError();
  }
  return e;
}

/// (A, B)(%x: …) -> … { … }: what stands behind `fn` or the name of a definition.
const FunctionAst* Parser::function(uint32_t begin) {
  FunctionAst f;
  f.begin = begin;
  if (take_op("[")) f.type_params = type_params();
  expect_op("(");
  list(")", [&] {
    if (at_attributes()) return void(f.attrs = attributes());
    ParamAst& p = f.params.emplace_back();
    p.begin = peek().begin;
    p.name = expect(Tok::local, "a parameter, as in `%x`");
    if (is_op("{") && peek(1).kind == Tok::name && is_op("=", 2))
      fail("T0206", "devices of parameters are not read",
           "leave out {virtual_device=…}: code runs on the CPU");
    if (take_op(":")) p.type = type();
    p.end = last_end();
  });
  if (take_op("->")) f.result = type();
  f.end = last_end();
  expect_op("{");
  const Nested nested(*this);
  f.body = sequence(true);
  expect_op("}");
  return &tree_->functions.emplace_back(std::move(f));
}

const ExprAst* Parser::sequence(bool block) {
  const Nested nested(*this);
  const uint32_t begin = peek().begin;
  std::vector<StepAst> steps;
  auto at_end = [&] {
    return is_op("}") || (!block && is_op(")")) || peek().kind == Tok::end || is_word("def") ||
           is_word("extern");
  };
  bool open = true;  // the value is still to come
  while (open || !at_end()) {
    try {
      if (take_word("free_var")) {
        free_var();
        continue;
      }
      steps.push_back(step());
      open = steps.back().kind != StepKind::value;
      if (!take_op(";")) {
        if (open) expected("`;`");
        break;
      }
    } catch (const SyntaxError&) {
      if (tree_->gave_up || !block) throw;
      steps.push_back({{begin, last_end()}, StepKind::failed, {}, 0, nullptr, nullptr});
      open = false;
      skip_step();
    }
  }
  if (steps.empty()) expected("an expression");
  const StepAst last = steps.back();
  if (steps.size() == 1 && last.kind == StepKind::value) return last.value;
  steps.pop_back();
  ExprAst* e = expr(ExprKind::block, begin);
  e->steps = std::move(steps);
  e->items = {last.kind == StepKind::value ? last.value : done(expr(ExprKind::failed, begin))};
  return done(e);
}

void Parser::free_var() {
  ParamAst p;
  p.begin = peek().begin;
  p.name = expect(Tok::local, "a variable, as in `free_var %x`");
  if (take_op(":")) p.type = type();
  p.end = last_end();
  tree_->free_vars.push_back(std::move(p));
  if (!take_op(";")) expected("`;`");
}

StepAst Parser::step() {
  StepAst s;
  s.begin = peek().begin;
  if (take_word("let")) {
    s.kind = StepKind::let;
    s.name = expect(Tok::local, "a variable, as in `let %x = …;`");
    if (take_op(":")) s.type = type();
    expect_op("=");
  } else if (peek().kind == Tok::graph && is_op("=", 1)) {
    s.kind = StepKind::graph;
    s.number = peek().index;
    at_ += 2;
  }
  s.value = infix();
  s.end = last_end();
  return s;
}

/// Operators between values, by their strength; equal ones from left to right.
const ExprAst* Parser::infix() {
  std::vector<const ExprAst*> values{call()};
  std::vector<const Infix*> open;
  auto close = [&](int strength) {
    while (!open.empty() && open.back()->strength >= strength) {
      ExprAst* e = expr(ExprKind::infix, values[values.size() - 2]->begin);
      e->text = open.back()->op;
      e->items = {values[values.size() - 2], values.back()};
      values.resize(values.size() - 2);
      open.pop_back();
      values.push_back(done(e));
    }
  };
  for (;;) {
    const auto* op = peek().kind == Tok::op
                         ? std::find_if(std::begin(kInfix), std::end(kInfix),
                                        [&](const Infix& i) { return i.sign == peek().text; })
                         : std::end(kInfix);
    if (op == std::end(kInfix)) break;
    ++at_;
    close(op->strength);
    open.push_back(op);
    values.push_back(call());
  }
  close(0);
  return values[0];
}

/// An atom, the calls of it, and the items taken of them.
const ExprAst* Parser::call() {
  const uint32_t begin = peek().begin;
  const ExprAst* e = atom();
  for (;;) {
    if (take_op("(")) {
      ExprAst* c = expr(ExprKind::call, begin);
      c->items.push_back(e);
      list(")", [&] {
        if (at_attributes()) return void(c->attrs = attributes());
        c->items.push_back(sequence(false));
      });
      e = done(c);
    } else if (is_op(".") && peek(1).kind == Tok::number) {
      ++at_;
      const Literal l = literal(false);
      if (l.real) expected("the number of an item");
      ExprAst* i = expr(ExprKind::item, begin);
      i->items = {e};
      i->index = l.integer;
      e = done(i);
    } else {
      return e;
    }
  }
}

const ExprAst* Parser::number(bool negative, uint32_t begin) {
  const Literal l = literal(negative);
  ExprAst* e = expr(ExprKind::literal, begin);
  e->value = NDArray::empty({}, l.dtype);
  if (l.real)
    e->value.set_element(0, l.number);
  else
    e->value.set_element_int(0, l.integer);
  return done(e);
}

const ExprAst* Parser::atom() {
  const Token& t = peek();
  const uint32_t begin = t.begin;
  auto word = [&](ExprKind kind) {
    ExprAst* e = expr(kind, begin);
    e->text = t.text;
    e->index = t.index;
    ++at_;
    return done(e);
  };
  switch (t.kind) {
    case Tok::number:
      return number(false, begin);
    case Tok::local:
      return word(ExprKind::local);
    case Tok::graph:
      return word(ExprKind::graph);
    case Tok::global:
      return word(ExprKind::global);
    case Tok::meta:
      return word(ExprKind::meta);
    case Tok::name: {
      if (is_word("if")) return if_expr();
      if (is_word("match")) return match_expr();
      if (is_word("let") || is_word("else") || is_word("def") || is_word("type") || is_word("extern") ||
          is_word("free_var"))
        expected("an expression");
      if (take_word("fn")) {
        const FunctionAst* f = function(begin);
        ExprAst* e = expr(ExprKind::function, begin);
        e->function = f;
        return done(e);
      }
      if (is_word("True") || is_word("False")) {
        ExprAst* e = expr(ExprKind::literal, begin);
        e->value = NDArray::empty({}, boolean);
        e->value.set_element_int(0, is_word("True"));
        ++at_;
        return done(e);
      }
      return word(ExprKind::name);
    }
    default:
      break;
  }
  if (is_op("(")) return tuple();
  if (is_op("{")) return block();
  if (is_op("-")) {
    bool negative = false;
    while (take_op("-")) negative = !negative;
    if (peek().kind == Tok::number) return number(negative, begin);
    expected("a number");
  }
  expected("an expression");
}

const ExprAst* Parser::tuple() {
  const uint32_t begin = peek().begin;
  ++at_;
  ExprAst* e = expr(ExprKind::tuple, begin);
  bool comma = false;
  while (!take_op(")")) {
    e->items.push_back(sequence(false));
    if (take_op(","))
      comma = true;
    else if (!is_op(")"))
      expected("`,` or `)`");
  }
  if (e->items.size() == 1 && !comma) return e->items[0];
  return done(e);
}

const ExprAst* Parser::block() {
  expect_op("{");
  const ExprAst* e = sequence(true);
  expect_op("}");
  if (e->kind == ExprKind::block) return e;
  ExprAst* b = expr(ExprKind::block, e->begin);
  b->items = {e};
  return done(b);
}

const ExprAst* Parser::if_expr() {
  const uint32_t begin = tokens_[at_++].begin;
  const Nested nested(*this);
  ExprAst* e = expr(ExprKind::if_, begin);
  expect_op("(");
  e->items.push_back(sequence(false));
  expect_op(")");
  e->items.push_back(block());
  if (!take_word("else")) expected("`else`");
  e->items.push_back(block());
  return done(e);
}

const ExprAst* Parser::match_expr() {
  const uint32_t begin = tokens_[at_++].begin;
  const Nested nested(*this);
  const bool partial = take_op("?");
  ExprAst* e = expr(ExprKind::match, begin);
  e->index = partial;
  // `match (%xs, %ys) {` compares a tuple; what stands behind the value are clauses, no call.
  e->items.push_back(atom());
  expect_op("{");
  list("}", [&] {
    ClauseAst c;
    c.pattern = pattern();
    expect_op("=>");
    c.body = sequence(false);
    e->clauses.push_back(c);
  });
  if (e->clauses.empty()) {
    note("T0241", "a match has at least one case", {begin, last_end()});
    throw SyntaxError();
  }
  return done(e);
}

const PatternAst* Parser::pattern() {
  const Nested nested(*this);
  PatternAst p;
  p.begin = peek().begin;
  if (take_word("_")) {
  } else if (peek().kind == Tok::local) {
    p.kind = PatternAstKind::variable;
    p.text = tokens_[at_++].text;
    if (take_op(":")) p.type = type();
  } else if (peek().kind == Tok::name) {
    p.kind = PatternAstKind::constructor;
    p.text = tokens_[at_++].text;
    if (take_op("(")) list(")", [&] { p.items.push_back(pattern()); });
  } else {
    p.kind = PatternAstKind::tuple;
    expect_op("(");
    list(")", [&] { p.items.push_back(pattern()); });
  }
  p.end = last_end();
  return &tree_->patterns.emplace_back(std::move(p));
}

std::vector<NamedAttr> Parser::attributes() {
  std::vector<NamedAttr> out;
  while (at_attributes()) {
    NamedAttr& a = out.emplace_back();
    a.begin = peek().begin;
    a.name = tokens_[at_].text;
    a.end = tokens_[at_].end;
    at_ += 2;
    for (size_t i = 0; i + 1 < out.size(); ++i)
      if (out[i].name == a.name) note("T0223", fmt::format("attribute `{}` is given twice", a.name), a);
    a.value = attribute();
    if (!at_attributes() && !(is_op(",") && peek(1).kind == Tok::name && is_op("=", 2))) break;
    take_op(",");
  }
  return out;
}

const AttrAst* Parser::attribute() {
  const Nested nested(*this);
  AttrAst a;
  a.begin = peek().begin;
  bool negative = false;
  while (take_op("-")) negative = !negative;
  if (peek().kind == Tok::number) {
    const Literal l = literal(negative);
    a.kind = l.real ? AttrKind::number : AttrKind::integer;
    a.integer = l.integer;
    a.number = l.number;
  } else if (negative) {
    expected("a number");
  } else if (peek().kind == Tok::string) {
    a.kind = AttrKind::string;
    a.text = tokens_[at_++].text;
  } else if (is_word("True") || is_word("False")) {
    a.kind = AttrKind::boolean;
    a.integer = is_word("True");
    ++at_;
  } else if (take_word("None") || take_word("nullptr")) {
  } else if (is_op("[") || is_op("(")) {
    a.kind = AttrKind::list;
    const std::string_view close = is_op("[") ? "]" : ")";
    ++at_;
    list(close, [&] { a.items.push_back(attribute()); });
  } else {
    a.kind = AttrKind::expression;
    a.expression = atom();
  }
  a.end = last_end();
  return &tree_->attrs.emplace_back(std::move(a));
}

}  // namespace tenon::relay
