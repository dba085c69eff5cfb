// SPDX-License-Identifier: Apache-2.0
// Algebraic data types of script text: `@I.data_type class List[A]:`, constructors, `match`.
#include <fmt/format.h>

#include <algorithm>

#include "ir/parse_impl.h"

namespace tenon::script {
using namespace graph;

bool Converter::is_type_definition(const AstStmt* s) const {
  if (s->kind != StmtKind::class_) return false;
  for (const Ast* d : s->decorators)
    if (path(d->kind == ExprKind::call ? d->items[0] : d) == "I.data_type") return true;
  return false;
}

void Converter::declare_type(const AstStmt* s) {
  if (types_.contains(s->name) || functions_.count(s->name))
    fail("T0212", fmt::format("`{}` is defined twice", s->name), span(s));
  Array<Ref<ConstructorDefNode>> constructors;
  for (const AstStmt* c : s->body) {
    if (c->kind == StmtKind::pass || is_docstring(c) || c->kind == StmtKind::failed) continue;
    if (c->kind != StmtKind::assign || !c->annotation || c->value || c->target->kind != ExprKind::name) {
      problems_.add("T0242", "in a data type stand its constructors", span(c),
                    "write `Cons: (A, List[A])` or `Nil: ()`");
      continue;
    }
    const std::string& name = c->target->text;
    if (std::any_of(constructors.begin(), constructors.end(),
                    [&](const auto& other) { return other->name == name; }))
      problems_.add("T0212", fmt::format("constructor `{}` is defined twice", name), span(c));
    // The arity is known at once, the types when all names are.
    const bool tuple = c->annotation->kind == ExprKind::tuple || c->annotation->kind == ExprKind::list;
    const size_t arity = tuple ? c->annotation->items.size() : 1;
    constructors.push_back(
        make<ConstructorDefNode>(name, Array<Type>(std::vector<Type>(arity, object_type()))));
  }
  types_.set(s->name,
             make<AdtDefNode>(s->name, Array<std::string>(s->type_params.begin(), s->type_params.end()),
                              constructors));
}

void Converter::define_type(const AstStmt* s) {
  if (!types_.contains(s->name)) return;
  AdtDef def = types_.at(s->name);
  Scope scope(*this);
  type_parameters(s);
  size_t next = 0;
  for (const AstStmt* c : s->body) {
    if (c->kind != StmtKind::assign || !c->annotation || c->value || c->target->kind != ExprKind::name)
      continue;
    if (next == def->constructors.size()) break;
    const size_t at = next++;
    attempt(span(c), [&] {
      Array<Type> items;
      for (const Ast* t : items_of(c->annotation)) items.push_back(type(t));
      def.edit()->constructors.set(at, make<ConstructorDefNode>(c->target->text, items));
    });
  }
  types_.set(s->name, def);
}

void Converter::type_parameters(const AstStmt* s) {
  for (const std::string& name : s->type_params) bind(name, make<TypeVar>(name));
}

std::string Converter::member(const Ast* a) const {
  if (a->kind == ExprKind::name) return lookup(a->text) ? "" : a->text;
  if (a->kind != ExprKind::attribute) return {};
  const std::string p = path(a);
  const size_t dot = p.find('.');
  return dot != p.npos && names_module(p.substr(0, dot)) ? p.substr(dot + 1) : p;
}

Type Converter::adt_type(const Ast* head, const std::vector<const Ast*>& args) {
  if (head->kind == ExprKind::name)
    if (const ObjectRef* o = lookup(head->text); o && o->is<TypeVar>()) return o->cast<TypeNode>();
  const std::string name = member(head);
  if (name.empty() || !types_.contains(name)) return {};
  const AdtDef def = types_.at(name);
  if (args.size() != def->params.size())
    fail("T0242",
         fmt::format("data type `{}` has {} parameters and is given {}", name, def->params.size(),
                     args.size()),
         head);
  Array<Type> types;
  for (const Ast* x : args) types.push_back(type(x));
  return make<AdtType>(name, types);
}

Ref<Constructor> Converter::constructor(const Ast* a) {
  const std::string name = member(a);
  if (name.empty() || types_.empty()) return {};
  const size_t dot = name.find('.');
  const std::string own = dot == name.npos ? name : name.substr(dot + 1);
  if (dot != name.npos && !types_.contains(name.substr(0, dot))) return {};
  if (dot == name.npos && functions_.count(name)) return {};
  Ref<Constructor> found;
  for (const auto& [type, def] : types_) {
    if (dot != name.npos && type != name.substr(0, dot)) continue;
    for (size_t tag = 0; tag < def->constructors.size(); ++tag) {
      const auto& c = def->constructors[tag];
      if (c->name != own) continue;
      if (found)
        fail("T0242", fmt::format("`{}` is a constructor of `{}` and of `{}`", own, found->data_type, type),
             a, "write the data type before it");
      found = with_origin(make<Constructor>(def->name, c->name, int64_t(tag), int64_t(c->items.size())),
                          origin(a));
    }
  }
  if (!found && dot != name.npos)
    fail("T0242", fmt::format("data type `{}` has no constructor `{}`", name.substr(0, dot), own), a);
  return found;
}

Pattern Converter::pattern(const Ast* a) {
  auto p = make<PatternNode>();
  PatternNode* n = p.edit();
  if (a->kind == ExprKind::tuple) {
    n->kind = PatternKind::tuple;
    for (const Ast* x : a->items) n->items.push_back(pattern(x));
    return p;
  }
  if (a->kind == ExprKind::name && a->text == "_" && a->items.empty()) return p;
  const Ast* head = a->kind == ExprKind::call ? a->items[0] : a;
  // A name is a constructor when there is one of that name, whatever variables there are.
  Ast bare = *head;
  if (head->kind == ExprKind::name) bare.items.clear();
  bool of_type = head->kind != ExprKind::name;
  for (const auto& [type, def] : types_)
    for (const auto& c : def->constructors) of_type = of_type || c->name == head->text;
  if (of_type || a->kind == ExprKind::call) {
    n->kind = PatternKind::constructor;
    n->constructor = constructor(&bare);
    if (!n->constructor) fail("T0242", "this is no constructor of a data type", head);
    if (a->kind == ExprKind::call)
      for (size_t i = 1; i < a->items.size(); ++i) n->items.push_back(pattern(a->items[i]));
    if (int64_t(n->items.size()) != n->constructor->arity)
      fail("T0242",
           fmt::format("`{}` has {} parts, the pattern has {}", n->constructor->name, n->constructor->arity,
                       n->items.size()),
           a);
    return p;
  }
  n->kind = PatternKind::variable;
  Type declared;
  if (!a->items.empty()) declared = type(a->items[0]);
  n->var = with_origin(graph::var(a->text, declared), origin(a));
  for (const std::string& name : levels_.back())
    if (name == a->text) fail("T0212", fmt::format("`{}` stands twice in one pattern", a->text), a);
  bind(a->text, n->var);
  return p;
}

void Converter::graph_match(const AstStmt* s, Sequence& seq) {
  Expr value;
  bool ok = attempt(s, true, [&] {
    value = leaf(s->value, seq);
    if (!value) fail("T0221", "None has no cases", s->value);
  });
  if (s->body.empty()) fail("T0241", "a match has at least one case", span(s));
  Array<MatchClause> clauses;
  std::string name;
  Type declared;
  bool annotated = false;
  for (const AstStmt* c : s->body) {
    ok = attempt(span(c),
                 [&] {
                   if (c->kind != StmtKind::case_) throw Failed();
                   Scope scope(*this);
                   struct Restore {
                     int& x;
                     int v;
                     ~Restore() { x = v; }
                   } restore{implicit_level_, implicit_level_};
                   implicit_level_ = int(levels_.size()) - 1;
                   const Pattern p = pattern(c->target);
                   implicit_level_ = restore.v;
                   std::string here;
                   Type other;
                   const Expr body =
                       branch(c->body, &here, annotated ? &other : &declared, &annotated, span(c));
                   if (!name.empty() && here != name)
                     fail("T0241", fmt::format("the cases assign different names, `{}` and `{}`", name, here),
                          span(c), "all cases assign the same name");
                   name = here;
                   clauses.push_back(make<MatchClauseNode>(p, body));
                 }) &&
         ok;
  }
  if (!ok) throw Failed();
  Expr match = make<graph::Match>(value, clauses);
  bind(name, bind_value(name, declared, match, seq, origin(s)));
}

}  // namespace tenon::script
