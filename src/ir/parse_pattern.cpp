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
    "patterns are wildcard(), is_const(), is_var(\"NAME\"), is_dfv, is_gv, ExternFuncPattern, "
    "is_op(\"NAME\")(ARGUMENTS), is_call_tir(\"NAME\", p), is_call_dps_packed, is_call_packed, "
    "is_shape([…]), "
    "is_tuple([…]), is_tuple_get_item(p, i), is_if(p, q, r), is_let(v, p, q), FunctionPattern([…], p), "
    "FunctionPattern(None, p), p | "
    "q, "
    "p & q, ~p, p ^ q, p >> q, p.used_by(q, i), only_used_by, has_attr, has_type, has_shape, has_dtype, "
    "same_shape_as, optional, dominates and dup";

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
    if (problems_.empty())
      for (const Ast* entry : entries_) check(*table, entry);
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
    entries_.push_back(entry);
  }

  /// What can match nothing is a mistake of its entry.
  void check(const PatternTable& table, const Ast* entry) {
    try {
      check_pattern(*table.patterns.find(entry->items[0]->text));
    } catch (const DiagnosticError& e) {
      for (const Diagnostic& d : e.diagnostics)
        problems_.add(d.code, d.message, {tree_.source, entry->begin, entry->end}, d.hint);
    }
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
    return in_sequence(left, right, a->text == ">>");
  }

  DFPattern call(const Ast* a) {
    const Ast* callee = a->items[0];
    const std::string name =
        callee->kind == ExprKind::name || callee->kind == ExprKind::attribute ? callee->text : "";
    const bool of_library = callee->kind == ExprKind::attribute && is_library(callee->items[0]);
    const bool of_pattern = callee->kind == ExprKind::attribute && !of_library;
    const bool named = !of_pattern && !name.empty() && (of_library || !names_.contains(name));
    const std::string_view may_have = named && name == "is_tuple" ? "unordered"
                                      : of_pattern || named       ? ""
                                                                  : "varg_default_wildcard";
    bool said = false;
    for (const auto& [key, value] : a->named) {
      if (key != may_have)
        return mistake(a,
                       "the only arguments of patterns with names are varg_default_wildcard of a call and "
                       "unordered of is_tuple");
      const auto is = attribute(value);
      if (!is) return {};
      if (is->tag() != kBool) return mistake(value, fmt::format("{} is True or False", key));
      said = is->as<bool>();
    }
    if (of_pattern) return method(a, callee->items[0], name);
    if (named) return function(a, name, said);
    return make<CallPattern>(pattern(callee), patterns(a->items, 1), said || a->items.size() == 1);
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

  /// A pattern of what has a name: of this one, or of any.
  DFPattern by_name(const Ast* a, FunctionRef<DFPattern(const std::string&)> of) {
    if (!takes(a, 0, 1)) return {};
    if (a->items.size() == 1) return of("");
    if (a->items[1]->kind != ExprKind::string) return mistake(a->items[1], "a name is a text");
    return of(a->items[1]->text);
  }

  static bool is_list(const Ast* a) { return a->kind == ExprKind::list || a->kind == ExprKind::tuple; }

  std::optional<Array<PrimExpr>> sizes(const Ast* a) {
    if (!is_list(a)) {
      mistake(a, "a shape is a list of sizes");
      return std::nullopt;
    }
    Array<PrimExpr> out;
    for (const Ast* d : a->items) out.push_back(script::prim_expr(tree_, d, {}, problems_));
    return out;
  }

  /// The tuple of a call's arguments: a pattern, or a list of those of its items.
  DFPattern arguments(const Ast* a) {
    return is_list(a) ? DFPattern(make<TuplePattern>(patterns(a->items), false)) : pattern(a);
  }

  /// is_call_tir, is_call_dps_packed and is_call_packed: the name of what is called, and its arguments.
  DFPattern call_of(const Ast* a, const std::string& name) {
    if (!takes(a, 1, 2)) return {};
    const Ast *callee = a->items[1], *given = a->items.size() == 3 ? a->items[2] : nullptr;
    if (callee->kind != ExprKind::string) return mistake(callee, "the name of what is called is a text");
    if (name == "is_call_packed") {
      if (given && !is_list(given)) return mistake(given, "the arguments of a packed function are a list");
      return is_call_packed(callee->text, given ? std::optional(patterns(given->items)) : std::nullopt);
    }
    const DFPattern args = given ? arguments(given) : DFPattern();
    return name == "is_call_tir" ? is_call_tir(callee->text, args) : is_call_dps_packed(callee->text, args);
  }

  DFPattern function(const Ast* a, const std::string& name, bool unordered) {
    auto item = [&](size_t i) { return a->items[i]; };
    const size_t given = a->items.size() - 1;
    if (name == "wildcard") return takes(a, 0, 0) ? wildcard() : DFPattern();
    if (name == "is_const") return takes(a, 0, 0) ? DFPattern(make<ConstantPattern>()) : DFPattern();
    if (name == "is_var" || name == "is_dfv")
      return by_name(a, [&](const std::string& n) { return make<VarPattern>(n, name == "is_dfv"); });
    if (name == "is_gv" || name == "GlobalVarPattern")
      return by_name(a, [](const std::string& n) { return make<GlobalVarPattern>(n); });
    if (name == "ExternFuncPattern")
      return by_name(a, [](const std::string& n) { return make<ExternFuncPattern>(n); });
    if (name == "is_call_tir" || name == "is_call_dps_packed" || name == "is_call_packed")
      return call_of(a, name);
    if (name == "is_shape") {
      if (!takes(a, 1, 1)) return {};
      const auto values = sizes(item(1));
      return values ? DFPattern(make<PrimArrPattern>(*values)) : DFPattern();
    }
    if (name == "is_if" || name == "is_let") {
      if (!takes(a, 3, 3)) return {};
      const DFPattern x = pattern(item(1)), y = pattern(item(2)), z = pattern(item(3));
      return name == "is_if" ? DFPattern(make<IfPattern>(x, y, z)) : DFPattern(make<LetPattern>(x, y, z));
    }
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
      if (!is_list(item(1))) return mistake(item(1), "the items of a tuple are a list");
      return make<TuplePattern>(patterns(item(1)->items), false, unordered);
    }
    if (name == "is_tuple_get_item") {
      if (!takes(a, 1, 2)) return {};
      const auto index = given == 2 ? attribute(item(2)) : std::optional(Any(int64_t(-1)));
      if (index && index->tag() != kInt) return mistake(item(2), "the number of an item is an integer");
      return make<TupleGetItemPattern>(pattern(item(1)), index ? index->as<int64_t>() : -1);
    }
    if (name == "FunctionPattern") {
      if (!takes(a, 2, 2)) return {};
      if (script::is_none(item(1))) return make<FunctionPattern>(Array<DFPattern>(), pattern(item(2)), true);
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
    if (name == "used_by" || name == "only_used_by") return used_by(a, self, name == "only_used_by");
    if (name == "same_shape_as")
      return takes(a, 1, 1) ? DFPattern(make<SameShapePattern>(self, pattern(item(1)))) : DFPattern();
    if (name == "dup") {
      if (!takes(a, 0, 0) || !self) return {};
      DFPattern other = self;
      other.edit();  // an object of its own
      return other;
    }
    if (name != "optional" && name != "has_attr" && name != "has_dtype" && name != "has_shape" &&
        name != "has_type")
      return mistake(a->items[0], fmt::format("a pattern has no '{}'", name), kForms);
    if (!takes(a, 1, 1)) return {};
    if (name == "optional") return optional(self, item(1));
    if (name == "has_shape") {
      const auto values = sizes(item(1));
      return values ? DFPattern(make<ShapePattern>(self, *values)) : DFPattern();
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

  /// `p.used_by(q, i)`: p is argument i of q, or any operand.
  DFPattern used_by(const Ast* a, const DFPattern& self, bool only) {
    if (!takes(a, 1, 2)) return {};
    const DFPattern user = pattern(a->items[1]);
    if (a->items.size() == 2) return in_sequence(self, user, only);
    const auto index = attribute(a->items[2]);
    if (!index) return {};
    if (index->tag() != kInt || index->as<int64_t>() < -1)
      return mistake(a->items[2], "the number of an argument is an integer from 0 on, or -1 for any");
    return in_sequence(self, user, only, index->as<int64_t>());
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
  std::vector<const Ast*> entries_;  ///< of the table
};

}  // namespace

Ref<PatternTable> parse_patterns(std::string_view text, const std::string& name) {
  DiagnosticList problems(ErrorKind::usage);
  const std::unique_ptr<script::Tree> tree = script::parse_syntax(text, name, problems);
  const Ref<PatternTable> table = PatternReader(*tree, problems).run();
  problems.throw_if_any();
  return table;
}

}  // namespace tenon::dpl
