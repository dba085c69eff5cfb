// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include "base/reflect.h"
#include "ir/pattern_text.h"
#include "ir/print_impl.h"

namespace tenon::dpl {
namespace {

using print_detail::quoted;

class PatternPrinter {
 public:
  explicit PatternPrinter(const Ref<PatternTable>& table) {
    for (const auto& [name, pattern] : table->patterns) count(pattern);
  }

  std::string run(const Ref<PatternTable>& table) {
    std::string list;
    for (const auto& [name, pattern] : table->patterns)
      list += fmt::format("  ({}, {}),\n", quoted(name), text(pattern));
    return names_ + "[\n" + list + "]\n";
  }

 private:
  /// How many places each part stands at.
  void count(const DFPattern& pattern) {
    std::vector<DFPattern> stack{pattern};
    while (!stack.empty()) {
      const DFPattern node = stack.back();
      stack.pop_back();
      if (!node || places_[node.get()]++ > 0) continue;
      for (const DFPattern& part : direct_parts(node)) stack.push_back(part);
    }
  }

  std::string text(const DFPattern& p) {
    if (!p) fail("T1155", "a pattern without a part has no text", {}, {}, ErrorKind::usage);
    if (const auto known = name_of_.find(p.get()); known != name_of_.end()) return known->second;
    if (places_[p.get()] < 2) return form(p);
    const std::string made = form(p), name = fmt::format("p{}", name_of_.size());
    names_ += fmt::format("{} = {}\n", name, made);
    name_of_[p.get()] = name;
    return name;
  }

  std::string list(const Array<DFPattern>& patterns) {
    std::string out;
    for (const DFPattern& p : patterns) out += (out.empty() ? "" : ", ") + text(p);
    return out;
  }

  static std::string name(const std::string& of) { return of.empty() ? "" : quoted(of); }

  static std::string sizes(const Array<PrimExpr>& shape) {
    std::string out;
    for (const PrimExpr& d : shape) out += (out.empty() ? "" : ", ") + print(d);
    return out;
  }

  /// A value among the attributes, a size or a type.
  static std::string value(const Any& v) {
    print_detail::Printer printer((PrintOptions()));
    printer.any(v);
    return printer.take();
  }

  std::string form(const DFPattern& p) {
    if (p.is<WildcardPattern>()) return "wildcard()";
    if (p.is<ConstantPattern>()) return "is_const()";
    if (const auto* e = p.as<ExprPattern>()) {
      const auto* op = e->expr.as<graph::Op>();
      if (!op)
        fail("T1155", "a pattern of one value that is no operator has no text", {}, "write it as JSON",
             ErrorKind::usage);
      return fmt::format("is_op({})", quoted(op->name));
    }
    if (const auto* v = p.as<VarPattern>())
      return fmt::format("{}({})", v->local ? "is_dfv" : "is_var", name(v->name));
    if (const auto* g = p.as<GlobalVarPattern>()) return fmt::format("is_gv({})", name(g->name));
    if (const auto* f = p.as<ExternFuncPattern>())
      return fmt::format("ExternFuncPattern({})", name(f->symbol));
    if (const auto* c = p.as<CallPattern>()) {
      if (!c->any_args && c->args.empty())
        fail("T1155", "a pattern of a call without arguments has no text: f() stands for any arguments", {},
             "write it as JSON", ErrorKind::usage);
      const char* rest = c->any_args && !c->args.empty() ? ", varg_default_wildcard=True" : "";
      return fmt::format("{}({}{})", text(c->op), list(c->args), rest);
    }
    if (const auto* a = p.as<AttrPattern>())
      return fmt::format("{}.has_attr({})", text(a->pattern), value(Any(a->attrs)));
    if (const auto* t = p.as<TypePattern>())
      return fmt::format("{}.has_type({})", text(t->pattern), value(Any(t->type)));
    if (const auto* s = p.as<ShapePattern>())
      return fmt::format("{}.has_shape([{}])", text(s->pattern), sizes(s->shape));
    if (const auto* s = p.as<PrimArrPattern>()) return fmt::format("is_shape([{}])", sizes(s->values));
    if (const auto* s = p.as<SameShapePattern>())
      return fmt::format("{}.same_shape_as({})", text(s->pattern), text(s->other));
    if (const auto* d = p.as<DataTypePattern>())
      return fmt::format("{}.has_dtype({})", text(d->pattern), quoted(to_string(d->dtype)));
    if (const auto* t = p.as<TuplePattern>())
      return t->any_items
                 ? "is_tuple()"
                 : fmt::format("is_tuple([{}]{})", list(t->items), t->unordered ? ", unordered=True" : "");
    if (const auto* g = p.as<TupleGetItemPattern>())
      return fmt::format("is_tuple_get_item({}, {})", text(g->tuple), g->index);
    return operation(p);
  }

  std::string operation(const DFPattern& p) {
    if (const auto* o = p.as<OrPattern>()) return fmt::format("({} | {})", text(o->left), text(o->right));
    if (const auto* a = p.as<AndPattern>()) return fmt::format("({} & {})", text(a->left), text(a->right));
    if (const auto* n = p.as<NotPattern>()) return fmt::format("(~{})", text(n->reject));
    if (const auto* d = p.as<DominatorPattern>())
      return fmt::format("{}.dominates({}, {})", text(d->parent), text(d->child), text(d->path));
    if (const auto* f = p.as<FunctionPattern>())
      return fmt::format("FunctionPattern({}, {})",
                         f->any_params ? "None" : fmt::format("[{}]", list(f->params)), text(f->body));
    if (const auto* c = p.as<IfPattern>())
      return fmt::format("is_if({}, {}, {})", text(c->condition), text(c->true_branch),
                         text(c->false_branch));
    if (const auto* l = p.as<LetPattern>())
      return fmt::format("is_let({}, {}, {})", text(l->var), text(l->value), text(l->body));
    const auto* s = p.as<PatternSequence>();
    if (!s || s->patterns.size() < 2 || s->only_used_by.size() + 1 != s->patterns.size())
      fail("T1155", "a sequence of less than two patterns has no text", {}, {}, ErrorKind::usage);
    std::string out = text(s->patterns[0]);
    for (size_t i = 1; i < s->patterns.size(); ++i) {
      const bool only = s->only_used_by[i - 1] != 0;
      const int64_t argument = i <= s->argument.size() ? s->argument[i - 1] : -1;
      const std::string user = text(s->patterns[i]);
      out = argument < 0
                ? fmt::format("({} {} {})", out, only ? ">>" : "^", user)
                : fmt::format("{}.{}({}, {})", out, only ? "only_used_by" : "used_by", user, argument);
    }
    return out;
  }

  std::map<const Object*, int> places_;
  std::map<const Object*, std::string> name_of_;
  std::string names_;
};

}  // namespace

std::string to_text(const Ref<PatternTable>& table) {
  for (const auto& [name, pattern] : table->patterns) check_pattern(pattern);
  return PatternPrinter(table).run(table);
}

}  // namespace tenon::dpl
