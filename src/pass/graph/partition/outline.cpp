// SPDX-License-Identifier: Apache-2.0
#include "pass/graph/partition/outline.h"

#include <algorithm>
#include <numeric>
#include <queue>

#include "ir/bodies.h"
#include "ir/walk.h"
#include "op/unify.h"
#include "pass/graph/fusion/group.h"
#include "pass/graph/module/private_functions.h"

namespace tenon::graph {
namespace {

bool is_region(const Expr& callee, const IRModule& module) {
  const auto* g = callee.as<GlobalVar>();
  const auto f = g ? module.find(g->name).cast<Function>() : Ref<Function>();
  return f && (f->attrs.contains(std::string(kComposite)) || f->attrs.contains(std::string(kCodegen)));
}

bool is_pure(const Binding& b, const IRModule& module) {
  if (!b.is<VarBindingNode>()) return false;
  const Expr value = b->value;
  if (const auto* c = value.as<Call>()) {
    const Op* op = op_of(value);
    return op ? op->pure : is_region(c->op, module);
  }
  return value.is<Tuple>() || value.is<TupleGetItem>();
}

}  // namespace

RegionGraph::RegionGraph(const Expr& body, const IRModule& module) : bindings_(bindings_of(body)) {
  std::unordered_map<const Object*, size_t> at;
  std::optional<size_t>
      ordered;  // the last binding that must keep its place: effects, sizes bound at run time
  for (size_t i = 0; i < bindings_.size(); ++i) {
    const Binding& b = bindings_[i];
    std::vector<size_t> needs;
    for_each_use(b->value, [&](const VarRef& v) {
      if (const auto it = at.find(v.get()); it != at.end()) needs.push_back(it->second);
    });
    if (ordered) needs.push_back(*ordered);
    pure_.push_back(is_pure(b, module));
    if (!pure_.back() && !is_leaf(b->value)) ordered = i;
    at[b->var.get()] = i;
    needs_.push_back(std::move(needs));
    members_.push_back({i});
  }
  parent_.resize(bindings_.size());
  std::iota(parent_.begin(), parent_.end(), size_t(0));
}

size_t RegionGraph::unit_of(size_t binding) const {
  while (parent_[binding] != binding) binding = parent_[binding];
  return binding;
}

bool RegionGraph::reaches_through_others(size_t from, size_t to) const {
  const size_t first = members_[to].front();
  std::vector<size_t> work{from};
  std::set<size_t> seen{from};
  for (size_t i = 0; i < work.size(); ++i)
    for (size_t m : members_[work[i]])
      for (size_t n : needs_[m]) {
        const size_t unit = unit_of(n);
        if (unit == to && work[i] != from) return true;
        // What ends before the first of them needs none of them.
        if (unit != to && members_[unit].back() > first && seen.insert(unit).second) work.push_back(unit);
      }
  return false;
}

bool RegionGraph::merge(size_t a, size_t b) {
  a = unit_of(a), b = unit_of(b);
  if (a == b) return true;
  if (reaches_through_others(a, b) || reaches_through_others(b, a)) return false;
  if (members_[a].size() < members_[b].size()) std::swap(a, b);
  parent_[b] = a;
  std::vector<size_t> both;
  std::ranges::merge(members_[a], members_[b], std::back_inserter(both));
  members_[a] = std::move(both);
  members_[b].clear();
  return true;
}

std::vector<size_t> RegionGraph::order() const {
  std::unordered_map<size_t, std::set<size_t>> users;
  std::unordered_map<size_t, size_t> missing;
  std::set<size_t> units;
  for (size_t i = 0; i < size(); ++i) {
    const size_t unit = unit_of(i);
    units.insert(unit);
    for (size_t n : needs_[i])
      if (const size_t other = unit_of(n); other != unit && users[other].insert(unit).second) ++missing[unit];
  }
  auto later = [&](size_t a, size_t b) { return members_[a].back() > members_[b].back(); };
  std::priority_queue<size_t, std::vector<size_t>, decltype(later)> ready(later);
  for (size_t u : units)
    if (missing[u] == 0) ready.push(u);
  std::vector<size_t> out;
  while (!ready.empty()) {
    const size_t u = ready.top();
    ready.pop();
    out.push_back(u);
    for (size_t user : users[u])
      if (--missing[user] == 0) ready.push(user);
  }
  CHECK(out.size() == units.size(), "regions of a body need each other in a cycle");
  return out;
}

namespace {

/// A region's bindings in order, its results, and the variable behind them.
struct RegionBody {
  std::vector<Binding> bindings;
  std::vector<VarRef> outputs;
  VarRef result;
};

RegionBody body_of(const Expr& body, const Region& region) {
  std::set<const Object*> inside, seen;
  for (const VarRef& v : region.members) inside.insert(v.get());
  RegionBody out;
  for (const Binding& b : bindings_of(body)) {
    if (inside.contains(b->var.get())) {
      out.bindings.push_back(b);
      continue;
    }
    for_each_use(b->value, [&](const VarRef& v) { seen.insert(v.get()); });
  }
  for_each_use(result_of(body), [&](const VarRef& v) { seen.insert(v.get()); });
  CHECK(out.bindings.size() == inside.size(), "a region of bindings that are not the body's");
  for (const Binding& b : out.bindings)
    if (seen.contains(b->var.get())) out.outputs.push_back(b->var);
  if (out.outputs.empty()) out.outputs.push_back(out.bindings.back()->var);
  out.result = out.outputs[0];
  if (out.outputs.size() == 1) return out;
  Array<Expr> items;
  Array<Type> types;
  for (const VarRef& v : out.outputs) {
    items.push_back(v);
    types.push_back(v->declared);
  }
  out.result = var("results", tuple_type(types));
  out.bindings.push_back(
      make<VarBindingNode>(out.result, with_type(make<Tuple>(items), out.result->declared)));
  return out;
}

/// Groups leave tuples among arguments without a type, which one kernel does not need.
Expr with_typed_tuples(const Expr& body) {
  return rewrite_any(body,
                     [](const ObjectRef& node) -> ObjectRef {
                       const auto* t = node.as<Tuple>();
                       auto typed = [](const Expr& i) { return bool(i->type); };
                       if (!t || t->type || !std::all_of(t->items.begin(), t->items.end(), typed)) return {};
                       return with_type(make<Tuple>(t->items),
                                        tuple_type(t->items.map([](const Expr& i) { return i->type; })));
                     })
      .cast<ExprNode>();
}

Ref<Function> function_of(const RegionBody& parts, const AttrMap& attrs, Array<Expr>* args) {
  Group group = make_group(parts.bindings, parts.result);
  AttrMap own;
  for (const auto& [name, value] : attrs) own.set(name, value);
  group.function.edit()->attrs = own;
  group.function.edit()->body = with_typed_tuples(group.function->body);
  if (args) *args = group.args;
  return group.function;
}

}  // namespace

Ref<Function> region_function(const Expr& body, const Region& region, Array<Expr>* args) {
  return function_of(body_of(body, region), region.attrs, args);
}

Expr outline(const Expr& body, const std::vector<Region>& regions, IRModule& module) {
  if (regions.empty()) return body;
  RegionGraph graph(body, module);
  std::unordered_map<const Object*, size_t> at;
  for (size_t i = 0; i < graph.size(); ++i) at[graph.binding(i)->var.get()] = i;
  std::unordered_map<size_t, const Region*> region_of;
  for (const Region& r : regions) {
    for (const VarRef& v : r.members)
      CHECK(graph.merge(at.at(r.members[0].get()), at.at(v.get())), "a region that needs itself");
    region_of[graph.unit_of(at.at(r.members[0].get()))] = &r;
  }
  std::vector<Binding> out;
  for (size_t unit : graph.order()) {
    const auto found = region_of.find(unit);
    if (found == region_of.end()) {
      out.push_back(graph.binding(unit));
      continue;
    }
    const RegionBody parts = body_of(body, *found->second);
    Array<Expr> args;
    const Ref<Function> f = function_of(parts, found->second->attrs, &args);
    const std::string name = module.fresh_name(found->second->name);
    module.set(name, f);
    out.push_back(make<VarBindingNode>(
        parts.result, with_type(make<Call>(typed_global(module, name), args), parts.result->declared)));
    if (parts.outputs.size() == 1) continue;
    for (size_t i = 0; i < parts.outputs.size(); ++i)
      out.push_back(make<VarBindingNode>(
          parts.outputs[i],
          with_type(make<TupleGetItem>(parts.result, int64_t(i)), parts.outputs[i]->declared)));
  }
  return make_body(out, result_of(body));
}

namespace {
// Nesting of bodies is bounded (kMaxNesting).
Expr map_nested(const Expr& body, FunctionRef<Expr(const Expr&)> f) {
  std::vector<Binding> bindings = bindings_of(body);
  bool changed = false;
  for (Binding& b : bindings)
    changed |= graph::map_bodies(b, [&](const Expr& inner) { return map_nested(inner, f); });
  return f(changed ? make_body(bindings, result_of(body)) : body);
}
}  // namespace

IRModule map_bodies(IRModule module, const std::vector<std::string>& without_attrs,
                    FunctionRef<Expr(const Expr&, IRModule&)> f) {
  for (const auto& [name, function] : graph_functions(module)) {
    auto has = [&](const std::string& attr) { return function->attrs.contains(attr); };
    if (is_primitive(*function) || std::ranges::any_of(without_attrs, has)) continue;
    const Expr body = map_nested(function->body, [&](const Expr& inner) { return f(inner, module); });
    if (body.same_as(function->body)) continue;
    Ref<Function> changed = function;
    set_body(changed, body);
    module.set(name, changed);
  }
  return module;
}

/// Constants by the variables that are bound to them.
static std::unordered_map<const Object*, Expr> named_constants(const IRModule& module) {
  std::unordered_map<const Object*, Expr> out;
  for (const auto& [_, f] : graph_functions(module))
    post_order(f, [&](const ObjectRef& node) {
      const auto* binding = node.as<VarBindingNode>();
      if (binding && binding->value.is<Constant>()) out[binding->var.get()] = binding->value;
    });
  return out;
}

IRModule bind_constants(IRModule module, const std::string& name) {
  auto f = module.find(name).cast<Function>();
  const std::unordered_map<const Object*, Expr> named = named_constants(module);
  std::vector<char> bound(f->params.size());
  std::unordered_map<const Object*, Expr> constants;
  module = rewrite_calls(std::move(module), {name}, [&](const Call& c, const VarRef&, EmitBefore) -> Expr {
    Array<Expr> args;
    for (size_t i = 0; i < c.args.size(); ++i) {
      const auto known = named.find(c.args[i].get());
      const Expr value = known == named.end() ? c.args[i] : known->second;
      bound[i] = value.is<Constant>();
      if (bound[i])
        constants[f->params[i].get()] = value;
      else
        args.push_back(c.args[i]);
    }
    return args.size() == c.args.size() ? Expr() : Expr(with_type(make<Call>(c.op, args), c.type));
  });
  if (constants.empty()) return module;
  Array<VarRef> params;
  for (size_t i = 0; i < f->params.size(); ++i)
    if (!bound[i]) params.push_back(f->params[i]);
  const Expr body = rewrite_any(f->body, [&](const ObjectRef& n) -> ObjectRef {
                      const auto it = constants.find(n.get());
                      return it == constants.end() ? ObjectRef() : it->second;
                    }).cast<ExprNode>();
  module.set(name, make<Function>(params, body, f->ret_type, f->attrs));
  // Calls name the function by its new type.
  return rewrite_calls(module, {name}, [&](const Call& c, const VarRef&, EmitBefore) -> Expr {
    return with_type(make<Call>(typed_global(module, name), c.args), c.type);
  });
}

}  // namespace tenon::graph
