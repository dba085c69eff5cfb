// SPDX-License-Identifier: Apache-2.0
// Closures of script text that call each other: what stands one behind the other becomes one closure that
// gives them all.
//
//   before   def even(i): … odd(i) …
//            def odd(i): … even(i) …
//   after    def even_group():
//                def even(i): all = even_group(); odd = all[1]; … odd(i) …
//                def odd(i): … even(i) …
//                return (even, odd)
//            all = even_group(); even = all[0]; odd = all[1]
#include <fmt/format.h>

#include <algorithm>

#include "ir/parse_impl.h"
#include "ir/walk.h"

namespace tenon::script {

namespace {
/// Names that a closure uses and binds nowhere itself.
std::unordered_set<std::string> free_names(const AstStmt* s) {
  std::unordered_set<std::string> out, bound;
  std::vector<const AstStmt*> stmts{s};
  std::vector<const Ast*> exprs;
  while (!stmts.empty()) {
    const AstStmt* x = stmts.back();
    stmts.pop_back();
    if (!x) continue;
    for (const auto* list : {&x->body, &x->orelse}) stmts.insert(stmts.end(), list->begin(), list->end());
    for (const auto* list : {&x->decorators, &x->contexts})
      exprs.insert(exprs.end(), list->begin(), list->end());
    exprs.push_back(x->value);
    for (const AstParam& p : x->params) bound.insert(p.name);
    if (x != s && x->kind == StmtKind::def) bound.insert(x->name);
    if (x->target && x->target->kind == ExprKind::name) bound.insert(x->target->text);
    if (x->target && x->target->kind != ExprKind::name)  // items of a tuple, or a pattern
      for (const Ast* n : x->target->items)
        if (n && n->kind == ExprKind::name) bound.insert(n->text);
    while (!exprs.empty()) {
      const Ast* e = exprs.back();
      exprs.pop_back();
      if (!e) continue;
      if (e->kind == ExprKind::name) out.insert(e->text);
      exprs.insert(exprs.end(), e->items.begin(), e->items.end());
      for (const auto& [name, v] : e->named) exprs.push_back(v);
    }
  }
  for (const std::string& name : bound) out.erase(name);
  return out;
}
}  // namespace

std::vector<size_t> Converter::closure_groups(const std::vector<const AstStmt*>& stmts, size_t begin) const {
  auto is_closure = [&](const AstStmt* s) {
    if (s->kind != StmtKind::def || s->decorators.size() != 1) return false;
    const Ast* d = s->decorators[0];
    return path(d->kind == ExprKind::call ? d->items[0] : d) == "R.function";
  };
  std::unordered_map<std::string, size_t> last_of;
  size_t end = begin;
  // A name that means something already keeps its meaning.
  for (; end < stmts.size() && is_closure(stmts[end]); ++end)
    if (const std::string& n = stmts[end]->name; !lookup(n) && !functions_.count(n)) last_of[n] = end;
  std::vector<size_t> lengths(std::max<size_t>(1, end - begin), 1);
  if (lengths.size() < 2) return lengths;
  for (size_t first = begin, k = begin, last = begin; k < end; ++k) {
    for (const std::string& n : free_names(stmts[k]))
      if (const auto later = last_of.find(n); later != last_of.end()) last = std::max(last, later->second);
    if (k == last) {  // nothing up to here calls what stands behind
      lengths[first - begin] = last - first + 1;
      first = last = k + 1;
    }
  }
  return lengths;
}

/// Closures in a row that call those behind them: one closure without parameters gives them all as a tuple,
/// and each asks it for those that it calls before they are bound.
void Converter::graph_group(std::span<const AstStmt* const> closures, Sequence& seq) {
  constexpr size_t most = 256;  // each has the types of all
  if (closures.size() > most)
    fail("T0243",
         fmt::format("{} closures in a row call those behind them, at most {} can", closures.size(), most),
         span(closures[0]), "write them as functions of the module");
  const std::string name = closures[0]->name + "_group";
  const graph::Type unknown =
      make<graph::FuncType>(Array<graph::Type>(), graph::Type(), false, Array<std::string>());
  graph::VarRef group = with_origin(graph::var(name, unknown), origin(closures[0]));
  Array<graph::Expr> members;
  Sequence inner;
  {
    Scope scope(*this);
    for (size_t k = 0; k < closures.size(); ++k) {
      std::vector<std::pair<graph::VarRef, int64_t>> later;
      {
        Scope own(*this);
        for (size_t i = k + 1; i < closures.size(); ++i) {
          later.emplace_back(with_origin(graph::var(closures[i]->name, {}), origin(closures[i])), int64_t(i));
          bind(closures[i]->name, later.back().first);
        }
        graph_closure(closures[k], closures[k]->decorators[0], inner);
      }
      const size_t last = inner.plain.size() - 1;
      const graph::Binding made = inner.plain[last];
      members.push_back(made->var);
      bind(closures[k]->name, made->var);
      std::unordered_set<const Object*> used;
      post_order(made->value, [&](const ObjectRef& n) {
        if (n.is<graph::Var>()) used.insert(n.get());
      });
      Sequence first;
      graph::Expr all;
      for (const auto& [v, i] : later) {
        if (!used.count(v.get())) continue;
        if (!all) all = bind_value("all", {}, graph::call(group, {}), first, origin(closures[k]));
        first.plain.push_back(make<graph::VarBindingNode>(v, make<graph::TupleGetItem>(all, i)));
      }
      if (!all) continue;
      first.close();
      auto f = made->value.cast<graph::Function>();
      const auto body = f->body.cast<graph::SeqExpr>();
      for (const graph::BindingBlock& b : body->blocks) first.blocks.push_back(b);
      f.edit()->body = with_type(make<graph::SeqExpr>(first.blocks, body->body), body->body->type);
      inner.plain.set(last, make<graph::VarBindingNode>(made->var, f));
    }
  }
  inner.close();
  const graph::Expr body = make<graph::SeqExpr>(inner.blocks, graph::Expr(make<graph::Tuple>(members)));
  const auto f = with_origin(
      make<graph::Function>(Array<graph::VarRef>(), body, graph::Type(), AttrMap(), Array<std::string>()),
      origin(closures[0]));
  seq.plain.push_back(make<graph::VarBindingNode>(group, f));
  const graph::Expr all = bind_value("all", {}, graph::call(group, {}), seq, origin(closures[0]));
  for (size_t i = 0; i < closures.size(); ++i)
    bind(closures[i]->name, bind_value(closures[i]->name, {}, make<graph::TupleGetItem>(all, int64_t(i)), seq,
                                       origin(closures[i])));
}

}  // namespace tenon::script
