// SPDX-License-Identifier: Apache-2.0
// Definitions and types of Relay text, and what the parser does with tokens.
#include "import/relay/parser.h"

#include <charconv>
#include <cmath>
#include <limits>

#include "ir/verify.h"

namespace tenon::relay {
namespace {

/// As in script text: every module that the verifier admits stays below.
constexpr int kMaxDepth = kMaxNesting + 200;

/// The largest finite number of a float type.
double largest(int bits) {
  constexpr double f16_max = 65504;
  return bits == 16   ? f16_max
         : bits == 32 ? double(std::numeric_limits<float>::max())
                      : std::numeric_limits<double>::max();
}

bool fits(int64_t value, int bits) {
  return bits == 64 || (value >= -(int64_t(1) << (bits - 1)) && value < int64_t(1) << (bits - 1));
}

}  // namespace

Parser::Parser(std::string_view text, const std::string& name, DiagnosticList& problems)
    : problems_(problems), tree_(std::make_unique<Tree>()) {
  tree_->source = std::make_shared<SourceText>(name, std::string(text));
  Tokens lexed = lex(tree_->source, problems);
  tokens_ = std::move(lexed.list);
  tree_->metadata = lexed.metadata;
  if (lexed.cut) told_ = tokens_.size() - 1;
}

Parser::Nested::Nested(Parser& p) : p(p) {
  if (++p.depth_ <= kMaxDepth) return;
  p.tree_->gave_up = true;
  --p.depth_;
  p.fail("T0209", fmt::format("the text is nested more than {} levels deep", kMaxDepth),
         "give parts of it a name of their own");
}

std::string Parser::shown(const Token& t) {
  constexpr size_t most = 40;
  switch (t.kind) {
    case Tok::end:
      return "the end of the text";
    case Tok::local:
    case Tok::graph:
      return fmt::format("`%{}`", t.text.substr(0, most));
    case Tok::global:
      return fmt::format("`@{}`", t.text.substr(0, most));
    case Tok::string:
      return "a text in quotes";
    case Tok::meta:
      return fmt::format("`meta[{}][{}]`", t.text.substr(0, most), t.index);
    case Tok::version:
      return "`#[version]`";
    default:
      return fmt::format("`{}`", t.text.substr(0, most));
  }
}

void Parser::note(std::string code, std::string message, const Placed& at, std::string hint) {
  problems_.add(std::move(code), std::move(message), span(at), std::move(hint));
}
void Parser::fail(std::string code, std::string message, std::string hint) {
  const Token& t = peek();
  // What stands where a mistake was told follows from it.
  if (std::exchange(told_, at_) != at_)
    note(std::move(code), std::move(message), {t.begin, std::max(t.end, t.begin + 1)}, std::move(hint));
  throw SyntaxError();
}
void Parser::expected(std::string_view what) {
  fail("T0206", fmt::format("{} stands where {} was expected", shown(peek()), what));
}
void Parser::expect_op(std::string_view s) {
  if (!take_op(s)) expected(fmt::format("`{}`", s));
}
std::string Parser::expect(Tok kind, std::string_view what) {
  if (peek().kind != kind) expected(what);
  return std::string(tokens_[at_++].text);
}

void Parser::skip_to_definition() {
  while (peek().kind != Tok::end && !is_word("def") && !is_word("type") && !is_word("extern")) ++at_;
}
void Parser::skip_step() {
  int open = 0;
  for (; peek().kind != Tok::end && !is_word("def") && !is_word("extern"); ++at_) {
    if (open == 0 && take_op(";")) return;
    if (is_op("{")) ++open;
    if (is_op("}") && open-- == 0) return;
  }
}

std::unique_ptr<Tree> Parser::run() {
  if (peek().kind == Tok::version) {
    constexpr std::string_view known = "0.0.5";
    if (peek().text != known)
      note("T0206", fmt::format("version `{}` of the text is not read", peek().text),
           {peek().begin, peek().end}, "the text is of version 0.0.5");
    ++at_;
  }
  while (peek().kind != Tok::end && !tree_->gave_up) {
    try {
      if (is_word("def") || is_word("type") || is_word("extern")) {
        definition();
        continue;
      }
      if (tree_->expression) expected("a definition");
      tree_->expression = sequence(true);
    } catch (const SyntaxError&) {
      if (!is_word("def") && !is_word("type") && !is_word("extern")) ++at_;
      skip_to_definition();
    }
  }
  return std::move(tree_);
}

void Parser::definition() {
  if (take_word("extern")) {
    if (!take_word("type")) expected("`type`");
    type_definition();
    if (!tree_->type_defs.back().constructors.empty())
      note("T0242", "a type that is defined elsewhere has no constructors", tree_->type_defs.back());
    return;
  }
  if (take_word("type")) return type_definition();
  const uint32_t begin = tokens_[at_++].begin;
  DefinitionAst& d = tree_->definitions.emplace_back();
  d.begin = begin;
  d.name = expect(Tok::global, "the name of a function, as in `def @main`");
  d.end = last_end();
  d.function = function(begin);
}

void Parser::type_definition() {
  TypeDefAst def;
  def.begin = peek().begin;
  def.name = expect(Tok::name, "the name of a type");
  def.end = last_end();
  if (take_op("[")) def.params = type_params();
  if (take_op("{"))
    list("}", [&] {
      ConstructorAst& c = def.constructors.emplace_back();
      c.begin = peek().begin;
      c.name = expect(Tok::name, "the name of a constructor");
      if (take_op("(")) list(")", [&] { c.items.push_back(type()); });
      c.end = last_end();
    });
  tree_->type_defs.push_back(std::move(def));
}

std::vector<std::string> Parser::type_params() {
  std::vector<std::string> names;
  list("]", [&] { names.push_back(expect(Tok::name, "the name of a type parameter")); });
  return names;
}

const TypeAst* Parser::type() {
  const Nested nested(*this);
  TypeAst t;
  t.begin = peek().begin;
  if (take_op("(")) {
    t.kind = TypeKind::tuple;
    list(")", [&] { t.items.push_back(type()); });
  } else if (take_word("fn")) {
    t.kind = TypeKind::function;
    expect_op("(");
    list(")", [&] { t.items.push_back(type()); });
    expect_op("->");
    t.result = type();
  } else if (take_word("_")) {
    t.kind = TypeKind::unknown;
  } else if (take_word("Tensor")) {
    tensor_type(t);
  } else {
    t.text = peek().text;
    if (peek().kind != Tok::name)
      fail("T0229", fmt::format("{} stands where a type was expected", shown(peek())));
    ++at_;
    if (t.text.starts_with("int") || t.text.starts_with("uint") || t.text.starts_with("float") ||
        t.text.starts_with("bfloat") || t.text.starts_with("bool")) {
      t.kind = TypeKind::tensor;  // a scalar; without a width it has 32 bits
      const bool bare = t.text == "int" || t.text == "uint" || t.text == "float";
      if (!parse_dtype(bare ? t.text + "32" : t.text, &t.dtype)) {
        --at_;
        fail("T0229", fmt::format("`{}` is no data type", t.text));
      }
    } else {
      t.kind = TypeKind::named;
      if (take_op("[")) list("]", [&] { t.items.push_back(type()); });
    }
  }
  t.end = last_end();
  return &tree_->types.emplace_back(std::move(t));
}

/// Tensor[(2, ?), float32].
void Parser::tensor_type(TypeAst& t) {
  t.kind = TypeKind::tensor;
  expect_op("[");
  expect_op("(");
  list(")", [&] {
    if (take_op("?")) return void(t.dims.emplace_back());
    if (take_word("Any")) return void(t.dims.emplace_back());
    const bool negative = is_op("-");
    if (negative) fail("T0224", "a dimension is negative");
    if (peek().kind == Tok::meta)
      fail("T0224", "sizes that stand in the metadata are not read", "write the number, or `?`");
    if (peek().kind != Tok::number) expected("a size or `?`");
    const Literal l = literal(false);
    if (l.real) {
      --at_;
      fail("T0224", "a size is a whole number");
    }
    t.dims.emplace_back(l.integer);
  });
  expect_op(",");
  if (peek().kind != Tok::name || !parse_dtype(std::string(peek().text), &t.dtype))
    fail("T0229", fmt::format("{} is no data type", shown(peek())));
  ++at_;
  expect_op("]");
}

Literal Parser::literal(bool negative) {
  const std::string_view text = peek().text;
  Literal l;
  const size_t mark = text == "inff" ? 3 : text.find_first_of("fi");
  std::string_view digits = text.substr(0, mark);
  int bits = 32;
  if (mark != text.npos && mark + 1 < text.size()) {
    const std::string_view width = text.substr(mark + 1);
    std::from_chars(width.data(), width.data() + width.size(), bits);
    const bool real = text[mark] == 'f';
    if (bits != 16 && bits != 32 && bits != 64 && (real || bits != 8))
      fail("T0204", fmt::format("there are no {} of {} bits", real ? "floats" : "integers", width));
  }
  l.real = mark != text.npos && text[mark] == 'f';
  if (l.real) {
    l.dtype = DataType::float_(bits);
    if (text == "inff") {
      l.number = std::numeric_limits<double>::infinity();
    } else {
      const auto [end, bad] = std::from_chars(digits.data(), digits.data() + digits.size(), l.number);
      const bool underflow = bad == std::errc::result_out_of_range && l.number < 1;
      if ((bad != std::errc() && !underflow) || std::abs(l.number) > largest(bits))
        fail("T0204", fmt::format("`{}` is no number of type {}", text, to_string(l.dtype)));
    }
    if (negative) l.number = -l.number;
  } else {
    uint64_t magnitude = 0;
    const auto [end, bad] = std::from_chars(digits.data(), digits.data() + digits.size(), magnitude);
    const uint64_t most = uint64_t(std::numeric_limits<int64_t>::max()) + (negative ? 1 : 0);
    if (bad != std::errc() || end != digits.data() + digits.size() || magnitude > most)
      fail("T0204", fmt::format("`{}` is no whole number of 64 bits", text),
           text.find_first_of(".e") != text.npos ? "floats end with f: 1.5f" : "");
    l.integer = negative ? int64_t(0 - magnitude) : int64_t(magnitude);
    if (mark == text.npos && !fits(l.integer, bits)) bits = 64;
    if (!fits(l.integer, bits)) fail("T0204", fmt::format("`{}` does not fit into {} bits", text, bits));
    l.dtype = DataType::int_(bits);
    l.number = double(l.integer);
  }
  ++at_;
  return l;
}

std::unique_ptr<Tree> parse_syntax(std::string_view text, const std::string& name, DiagnosticList& problems) {
  return Parser(text, name, problems).run();
}

}  // namespace tenon::relay
