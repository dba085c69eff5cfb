// SPDX-License-Identifier: Apache-2.0
#include "ir/bodies.h"

namespace tenon::graph {

bool is_leaf(const Expr& e) {
  return e.is<Var>() || e.is<Constant>() || e.is<GlobalVar>() || e.is<Op>() || e.is<ExternFunc>() ||
         e.is<ShapeExpr>() || e.is<PrimValue>() || e.is<StringImm>() || e.is<DataTypeImm>() ||
         e.is<Constructor>();
}

void for_each_use(const Expr& value, FunctionRef<void(const VarRef&)> f) {
  if (!value) return;
  auto body = [&](const Expr& b) {
    for (const Binding& binding : bindings_of(b)) for_each_use(binding->value, f);
    for_each_use(result_of(b), f);
  };
  match(
      value, [&](const Var&) { f(value.cast<Var>()); },
      [&](const Tuple& n) {
        for (const Expr& item : n.items) for_each_use(item, f);
      },
      [&](const TupleGetItem& n) { for_each_use(n.tuple, f); },
      [&](const Call& n) {
        for_each_use(n.op, f);
        for (const Expr& arg : n.args) for_each_use(arg, f);
      },
      [&](const Function& n) { body(n.body); },
      [&](const If& n) {
        for_each_use(n.condition, f);
        body(n.true_branch);
        body(n.false_branch);
      },
      [&](const While& n) {
        for (const Expr& init : n.init) for_each_use(init, f);
        body(n.condition);
        body(n.body);
      },
      [&](const Match& n) {
        for_each_use(n.value, f);
        for (const MatchClause& c : n.clauses) body(c->body);
      },
      [&](const SeqExpr&) { body(value); }, [&](const ExprNode&) {});
}

void for_each_binding(const Expr& body, FunctionRef<void(const Binding&)> f) {
  for (const Binding& binding : bindings_of(body)) {
    Expr value = binding->value;
    for (const Expr& inner : bodies_of(value)) for_each_binding(inner, f);
    f(binding);
  }
}

std::unordered_map<const Var*, int> count_uses(const Function& function) {
  std::unordered_map<const Var*, int> uses;
  for_each_use(function.body, [&](const VarRef& v) { ++uses[v.get()]; });
  return uses;
}

std::optional<double> scalar_constant(const Expr& e) {
  if (auto* c = e.as<Constant>(); c && c->data.size() == 1) return c->data.element(0);
  return std::nullopt;
}

bool is_constant_filled(const Expr& e, double value) {
  auto* c = e.as<Constant>();
  if (!c || c->data.size() == 0) return false;
  for (int64_t i = 0, n = c->data.size(); i < n; ++i)
    if (c->data.element(i) != value) return false;
  return true;
}

Expr make_body(const std::vector<Binding>& bindings, const Expr& result) {
  Array<BindingBlock> blocks;
  if (!bindings.empty())
    blocks.push_back(make<BindingBlockNode>(Array<Binding>(bindings.begin(), bindings.end())));
  return with_type(make<SeqExpr>(blocks, result), result->type);
}

std::vector<std::pair<std::string, Ref<Function>>> graph_functions(const IRModule& module) {
  std::vector<std::pair<std::string, Ref<Function>>> out;
  for (auto [name, object] : module.functions())
    if (auto f = object.cast<Function>(); f && f->body) out.emplace_back(name, f);
  return out;
}

bool is_entry(const std::string& name, const Function& function) {
  return name == "main" || function.attrs.contains("global_symbol");
}

bool is_primitive(const Function& function) {
  auto v = function.attrs.find("primitive");
  return v && v->try_as<int64_t>().value_or(0) != 0;
}

Expr map_bodies(const Expr& value, FunctionRef<Expr(const Expr&)> f) {
  std::vector<Expr> bodies = bodies_of(value);
  bool changed = false;
  for (Expr& body : bodies) {
    Expr next = f(body);
    changed |= !next.same_as(body);
    body = next;
  }
  return changed ? with_bodies(value, bodies) : value;
}
bool map_bodies(Binding& binding, FunctionRef<Expr(const Expr&)> f) {
  const auto* bound = binding.as<VarBindingNode>();
  if (!bound) return false;
  const Expr next = map_bodies(bound->value, f);
  if (next.same_as(bound->value)) return false;
  binding = make<VarBindingNode>(bound->var, next);
  return true;
}

}  // namespace tenon::graph
