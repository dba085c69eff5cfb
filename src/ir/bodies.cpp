// SPDX-License-Identifier: Apache-2.0
#include "ir/bodies.h"

namespace tenon::graph {

bool is_leaf(const Expr& e) {
  return e.is<Var>() || e.is<Constant>() || e.is<GlobalVar>() || e.is<Op>() || e.is<ExternFunc>() ||
         e.is<ShapeExpr>() || e.is<PrimValue>() || e.is<StringImm>() || e.is<DataTypeImm>() ||
         e.is<Constructor>();
}

namespace {
using PartVisitor = FunctionRef<void(const Expr&, bool)>;
using PartMapper = FunctionRef<Expr(const Expr&, bool)>;

bool may_hold_parts(const FieldInfo& f) { return f.is_ref && f.role != FieldRole::def; }

/// The handle in an array's item: an object there is one pointer, as a handle is.
const ObjectRef& handle(const Any& item) { return reinterpret_cast<const ObjectRef&>(item.object_slot()); }

void visit_parts(const Object* node, PartVisitor f);
void visit_part(const ObjectRef& held, bool is_body, PartVisitor f) {
  if (held.is<ExprNode>()) f(reinterpret_cast<const Expr&>(held), is_body);
  if (const auto* list = held.as<ArrayObj>())
    for (const Any& item : list->items)
      if (item.is_object()) visit_part(handle(item), is_body, f);
  if (held.is<MatchClauseNode>()) visit_parts(held.get(), f);
}
void visit_parts(const Object* node, PartVisitor f) {
  for (const FieldInfo& field : type_of(node)->fields)
    if (may_hold_parts(field)) visit_part(*field.ref(node), field.role == FieldRole::body, f);
}

ObjectRef mapped_parts(const ObjectRef& node, PartMapper f);
ObjectRef mapped_part(const ObjectRef& held, bool is_body, PartMapper f) {
  if (held.is<ExprNode>()) return f(held.cast<ExprNode>(), is_body);
  if (held.is<MatchClauseNode>()) return mapped_parts(held, f);
  const auto list = held.cast<ArrayObj>();
  if (!list) return held;
  Array<ObjectRef> out(list);
  for (size_t i = 0; i < list->items.size(); ++i) {
    if (!list->items[i].is_object()) continue;
    const ObjectRef item = handle(list->items[i]), next = mapped_part(item, is_body, f);
    if (!next.same_as(item)) out.set(i, next);
  }
  return out;
}
ObjectRef mapped_parts(const ObjectRef& node, PartMapper f) {
  ObjectRef out = node;
  for (const FieldInfo& field : type_of(node)->fields) {
    if (!may_hold_parts(field)) continue;
    const ObjectRef held = *field.ref(node.get()), next = mapped_part(held, field.role == FieldRole::body, f);
    if (!next.same_as(held)) field.set(out.edit(), Any(next));
  }
  return out;
}
}  // namespace

void for_each_part(const Expr& value, PartVisitor f) {
  if (!value.is<SeqExpr>()) visit_parts(value.get(), f);
}
Expr map_parts(const Expr& value, PartMapper f) {
  if (value.is<SeqExpr>()) return value;
  Expr out = mapped_parts(value, f).cast<ExprNode>();
  const bool planned = out.is<Function>() && out.as<Function>()->plan && !out.same_as(value);
  if (planned) static_cast<Function*>(out.edit())->plan = {};  // it was for another body
  return out;
}
std::vector<Expr> bodies_of(const Expr& value) {
  std::vector<Expr> out;
  for (const FieldInfo& field : type_of(value)->fields)
    if (field.role == FieldRole::body)
      visit_part(*field.ref(value.get()), true, [&](const Expr& body, bool) { out.push_back(body); });
  return out;
}
Expr with_bodies(const Expr& value, const std::vector<Expr>& bodies) {
  size_t next = 0;
  return map_parts(value, [&](const Expr& part, bool is_body) { return is_body ? bodies.at(next++) : part; });
}

/// Shapes that the type of an output names: `R.call_tir(…, out_sinfo=R.Tensor(s, "float32"))` uses s.
static void for_each_shape(const Type& type, FunctionRef<void(const VarRef&)> f) {
  if (const auto* t = type.as<TensorType>(); t && t->shape.is<Var>()) f(t->shape.cast<Var>());
  if (const auto* t = type.as<TupleType>())
    for (const Type& item : t->items) for_each_shape(item, f);
}

void for_each_use(const Expr& value, FunctionRef<void(const VarRef&)> f) {
  if (!value) return;
  if (const auto* call = value.as<Call>())
    for (const Type& type : call->type_args) for_each_shape(type, f);
  if (value.is<Var>()) return f(value.cast<Var>());
  if (const auto* sequence = value.as<SeqExpr>()) {
    for (const BindingBlock& block : sequence->blocks)
      for (const Binding& binding : block->bindings) for_each_use(binding->value, f);
    return for_each_use(sequence->body, f);
  }
  if (!is_leaf(value)) for_each_part(value, [&](const Expr& part, bool) { for_each_use(part, f); });
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
  return map_parts(value, [&](const Expr& part, bool is_body) { return is_body ? f(part) : part; });
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
