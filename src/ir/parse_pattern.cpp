// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include "ir/parse_impl.h"
#include "ir/pattern_text.h"

namespace tenon::dpl {
namespace {

using script::Ast;
using script::ExprKind;
using script::StmtKind;

constexpr const char* kForms =
    "patterns are wildcard(), is_const(), is_op(\"NAME\")(ARGUMENTS), is_tuple([…]), is_tuple_get_item(p, "
    "i), "
    "FunctionPattern([…], p), p | q, p & q, ~p, p ^ q, p >> q, p.has_attr, has_type, has_shape, has_dtype, "
    "optional and dominates";

/// Reads the statements; mistakes are collected, a pattern with some is null.
class PatternReader {
 public:
  PatternReader(const script::Tree& tree, DiagnosticList& problems)
      : tree_(tree), problems_(problems), converter_(tree, options_, problems) {}

  Ref<PatternTable> run() {
    auto table = make<PatternTable>();
    bool found = false;
    for (const script::AstStmt* s : tree_.top) {
      if (s->kind == StmtKind::failed || s->kind == StmtKind::pass || s->kind == StmtKind::import) continue;
      const bool assigned = s->kind == StmtKind::assign && s->target && s->value && !s->annotation &&
                            s->name.empty() && s->target->kind == ExprKind::name;
      if (s->value && s->value->kind == ExprKind::list && (assigned || s->kind == StmtKind::expr)) {
        found = true;
        for (const Ast* entry : s->value->items) add(*table.edit(), entry);
      } else if (assigned) {
        names_[s->target->text] = pattern(s->value);
      } else {
        problems_.add("T1155", "this is neither NAME = PATTERN nor a list of (NAME, PATTERN)",
                      {tree_.source, s->begin, s->end});
      }
    }
    if (!found && problems_.empty())
      problems_.add("T1155", "the text has no list of (NAME, PATTERN)", {tree_.source, 0, 0},
                    "write [(\"library.name\", pattern)] last");
    return table;
  }

 private:
  DFPattern mistake(const Ast* at, std::string why, std::string hint = {}) {
    problems_.add("T1155", std::move(why), {tree_.source, at->begin, at->end}, std::move(hint));
    return {};
  }

  void add(PatternTable& table, const Ast* entry) {
    const bool pair = entry->kind == ExprKind::tuple && entry->items.size() == 2;
    if (!pair || entry->items[0]->kind != ExprKind::string || entry->items[0]->text.empty()) {
      mistake(entry, "an entry is (\"NAME\", PATTERN)");
      return;
    }
    if (table.patterns.contains(entry->items[0]->text))
      mistake(entry->items[0], "this name is taken", "write one pattern as p | q");
    table.patterns.set(entry->items[0]->text, pattern(entry->items[1]));
  }

  DFPattern pattern(const Ast* a) {
    switch (a->kind) {
      case ExprKind::name:
        if (const auto known = names_.find(a->text); known != names_.end()) return known->second;
        return mistake(a, fmt::format("nothing is named '{}' here", a->text), kForms);
      case ExprKind::call:
        return call(a);
      case ExprKind::unary:
        if (a->text == "~") return make<NotPattern>(pattern(a->items[0]));
        break;
      case ExprKind::binary:
        return binary(a);
      default:
        break;
    }
    return mistake(a, "this is no pattern", kForms);
  }

  Array<DFPattern> patterns(const std::vector<const Ast*>& items, size_t first = 0) {
    Array<DFPattern> out;
    for (size_t i = first; i < items.size(); ++i) out.push_back(pattern(items[i]));
    return out;
  }

  DFPattern binary(const Ast* a) {
    if (a->text != "|" && a->text != "&" && a->text != "^" && a->text != ">>")
      return mistake(a, "this is no pattern", kForms);
    const DFPattern left = pattern(a->items[0]), right = pattern(a->items[1]);
    if (a->text == "|") return make<OrPattern>(left, right);
    if (a->text == "&") return make<AndPattern>(left, right);
    Array<DFPattern> parts{left, right};
    Array<int64_t> only{int64_t(a->text == ">>")};
    if (const auto* s = left.as<PatternSequence>()) {
      parts = s->patterns, only = s->only_used_by;
      parts.push_back(right);
      only.push_back(int64_t(a->text == ">>"));
    }
    return make<PatternSequence>(parts, only);
  }

  DFPattern call(const Ast* a) {
    const Ast* callee = a->items[0];
    if (!a->named.empty()) return mistake(a, "arguments of patterns have no names");
    const std::string name =
        callee->kind == ExprKind::name || callee->kind == ExprKind::attribute ? callee->text : "";
    const bool of_library = callee->kind == ExprKind::attribute && is_library(callee->items[0]);
    if (callee->kind == ExprKind::attribute && !of_library) return method(a, callee->items[0], name);
    if (!name.empty() && (of_library || !names_.contains(name))) return function(a, name);
    const size_t given = a->items.size() - 1;
    return make<CallPattern>(pattern(callee), patterns(a->items, 1), given == 0);
  }

  /// `dpl`, `tenon.dpl`
  static bool is_library(const Ast* a) {
    return (a->kind == ExprKind::name || a->kind == ExprKind::attribute) && a->text == "dpl";
  }

  /// The number of arguments is from `least` to `most`; a mistake otherwise.
  bool takes(const Ast* a, size_t least, size_t most) {
    const size_t given = a->items.size() - 1;
    if (given >= least && given <= most) return true;
    mistake(a, least == most ? fmt::format("it takes {} arguments, {} are given", least, given)
                             : fmt::format("it takes {} to {} arguments, {} are given", least, most, given));
    return false;
  }

  DFPattern function(const Ast* a, const std::string& name) {
    auto item = [&](size_t i) { return a->items[i]; };
    const size_t given = a->items.size() - 1;
    if (name == "wildcard") return takes(a, 0, 0) ? wildcard() : DFPattern();
    if (name == "is_const") return takes(a, 0, 0) ? DFPattern(make<ConstantPattern>()) : DFPattern();
    if (name == "is_op") {
      if (!takes(a, 1, 1)) return {};
      if (item(1)->kind != ExprKind::string) return mistake(item(1), "the name of an operator is a text");
      const Ref<graph::Op> op = graph::find_op(item(1)->text);
      if (!op) return mistake(item(1), fmt::format("there is no operator '{}'", item(1)->text));
      return make<ExprPattern>(graph::Expr(op));
    }
    if (name == "is_tuple") {
      if (!takes(a, 0, 1)) return {};
      if (given == 0) return make<TuplePattern>(Array<DFPattern>(), true);
      if (item(1)->kind != ExprKind::list && item(1)->kind != ExprKind::tuple)
        return mistake(item(1), "the items of a tuple are a list");
      return make<TuplePattern>(patterns(item(1)->items), false);
    }
    if (name == "is_tuple_get_item") {
      if (!takes(a, 1, 2)) return {};
      const auto index = given == 2 ? attribute(item(2)) : std::optional(Any(int64_t(-1)));
      if (index && index->tag() != kInt) return mistake(item(2), "the number of an item is an integer");
      return make<TupleGetItemPattern>(pattern(item(1)), index ? index->as<int64_t>() : -1);
    }
    if (name == "FunctionPattern") {
      if (!takes(a, 2, 2)) return {};
      if (item(1)->kind != ExprKind::list) return mistake(item(1), "the parameters of a function are a list");
      return make<FunctionPattern>(patterns(item(1)->items), pattern(item(2)));
    }
    return mistake(a->items[0], fmt::format("there is no pattern '{}'", name), kForms);
  }

  DFPattern method(const Ast* a, const Ast* of, const std::string& name) {
    const DFPattern self = pattern(of);
    auto item = [&](size_t i) { return a->items[i]; };
    if (name == "dominates") {
      if (!takes(a, 1, 2)) return {};
      return make<DominatorPattern>(self, a->items.size() == 3 ? pattern(item(2)) : wildcard(),
                                    pattern(item(1)));
    }
    if (name != "optional" && name != "has_attr" && name != "has_dtype" && name != "has_shape" &&
        name != "has_type")
      return mistake(a->items[0], fmt::format("a pattern has no '{}'", name), kForms);
    if (!takes(a, 1, 1)) return {};
    if (name == "optional") return optional(self, item(1));
    if (name == "has_shape") {
      if (item(1)->kind != ExprKind::list && item(1)->kind != ExprKind::tuple)
        return mistake(item(1), "a shape is a list of sizes");
      Array<PrimExpr> sizes;
      for (const Ast* d : item(1)->items) sizes.push_back(script::prim_expr(tree_, d, {}, problems_));
      return make<ShapePattern>(self, sizes);
    }
    const auto given = attribute(item(1));
    if (!given) return {};
    if (name == "has_attr") {
      const auto attrs = given->try_as<AttrMap>();
      return attrs ? DFPattern(make<AttrPattern>(self, *attrs))
                   : mistake(item(1), "attributes are a map {\"NAME\": value}");
    }
    if (name == "has_type") {
      const auto type = given->try_as<graph::Type>();
      return type && *type ? DFPattern(make<TypePattern>(self, *type))
                           : mistake(item(1), "this is no type such as R.Tensor((2, 3), \"float32\")");
    }
    DataType t;
    const auto text = given->try_as<std::string>();
    if (!text || !parse_dtype(*text, &t)) return mistake(item(1), "this is no data type such as \"float32\"");
    return make<DataTypePattern>(self, t);
  }

  /// `p.optional(lambda y: f(y))`: f(p) or p.
  DFPattern optional(const DFPattern& self, const Ast* wrap) {
    if (wrap->kind != ExprKind::lambda || wrap->params.size() != 1)
      return mistake(wrap, "what may follow is lambda y: PATTERN of y");
    const auto before = names_;
    names_[wrap->params[0]] = self;
    const DFPattern wrapped = pattern(wrap->items[0]);
    names_ = before;
    return make<OrPattern>(wrapped, self);
  }

  std::optional<Any> attribute(const Ast* a) { return converter_.attribute(a); }

  const script::Tree& tree_;
  DiagnosticList& problems_;
  const ParseOptions options_;
  script::Converter converter_;
  std::map<std::string, DFPattern> names_;
};

}  // namespace

Ref<PatternTable> parse_patterns(std::string_view text, const std::string& name) {
  DiagnosticList problems(ErrorKind::usage);
  const std::unique_ptr<script::Tree> tree = script::parse_syntax(text, name, problems);
  const Ref<PatternTable> table = PatternReader(*tree, problems).run();
  problems.throw_if_any();
  for (const auto& [_, pattern] : table->patterns) check_pattern(pattern);
  return table;
}

}  // namespace tenon::dpl
