// SPDX-License-Identifier: Apache-2.0
#include "ir/graph.h"

#include <fmt/format.h>

#include "base/define_type.h"
#include "ir/bodies.h"

namespace tenon::graph {

void Constant::finish() {
  Array<PrimExpr> shape;
  for (int64_t d : data.shape()) shape.push_back(d);
  type = tensor_type(shape, data.dtype());
}

static Type shape_type(const Array<PrimExpr>& values) {
  return make<ShapeType>(values, int64_t(values.size()), true);
}
void ShapeExpr::finish() { type = shape_type(values); }
void PrimValue::finish() { type = make<PrimType>(value.dtype(), value); }

Type tensor_type(Array<PrimExpr> shape, DataType dtype) {
  const int64_t n = int64_t(shape.size());
  return make<TensorType>(shape_expr(std::move(shape)), n, dtype, std::string());
}
Type tensor_type_unknown(int64_t ndim, DataType dtype) {
  return make<TensorType>(Expr(), ndim, dtype, std::string());
}
Type tuple_type(Array<Type> items) { return make<TupleType>(std::move(items)); }
Type object_type() { return make<ObjectType>(); }
Expr shape_expr(Array<PrimExpr> values) { return make<ShapeExpr>(std::move(values)); }
VarRef var(std::string name, Type type) { return make<Var>(std::move(name), std::move(type)); }
Expr constant(NDArray data) { return make<Constant>(std::move(data)); }
Expr call(Expr op, Array<Expr> args, ObjectRef attrs, Array<Type> type_args) {
  return make<Call>(std::move(op), std::move(args), std::move(attrs), std::move(type_args));
}
Expr global(std::string name) { return make<GlobalVar>(std::move(name)); }

const TensorType* as_tensor(const Type& type) { return type.as<TensorType>(); }
std::optional<Array<PrimExpr>> known_shape(const Type& type) {
  if (const auto* t = type.as<TensorType>())
    if (const auto* s = t->shape.as<ShapeExpr>()) return s->values;
  if (const auto* s = type.as<ShapeType>(); s && s->known) return s->values;
  return std::nullopt;
}
std::optional<Array<PrimExpr>> known_shape(const Expr& e) { return known_shape(e->type); }
std::optional<std::vector<int64_t>> static_shape(const Type& type) {
  auto shape = known_shape(type);
  if (!shape) return std::nullopt;
  std::vector<int64_t> out;
  for (const PrimExpr& d : *shape) {
    auto v = tir::as_int(d);
    if (!v) return std::nullopt;
    out.push_back(*v);
  }
  return out;
}

std::string BlockBuilder::fresh_name(const std::string& hint) {
  const std::string base = hint.empty() ? "lv" : hint;
  int& next = names_[base];
  if (!hint.empty() && next++ == 0) return hint;
  for (;;) {
    std::string name = hint.empty() ? base + std::to_string(next++) : fmt::format("{}_{}", base, next - 1);
    if (hint.empty() || names_.emplace(name, 1).second) return name;
    ++next;
  }
}

Expr BlockBuilder::emit(Expr value, std::string name) {
  if (is_leaf(value)) return value;
  if (!value->type && infer_) {
    Type t = infer_(value);
    value.edit()->type = t;
  }
  VarRef v = with_origin(var(fresh_name(name), value->type), value->origin);
  bindings_.push_back(make<VarBindingNode>(v, value));
  return v;
}

VarRef BlockBuilder::emit_match_cast(Expr value, Type type, std::string name) {
  VarRef v = var(fresh_name(name), type);
  bindings_.push_back(make<MatchCastNode>(v, std::move(value), type));
  return v;
}

Expr BlockBuilder::finish(Expr body) {
  Array<BindingBlock> blocks;
  if (!bindings_.empty()) blocks.push_back(make<BindingBlockNode>(bindings_, false, Array<VarRef>()));
  bindings_ = {};
  return with_type(make<SeqExpr>(blocks, body), body->type);
}

void set_body(Ref<Function>& function, Expr body) {
  Function* f = function.edit();
  f->body = std::move(body);
  f->plan = {};
}

std::vector<Binding> bindings_of(const Expr& body) {
  std::vector<Binding> out;
  if (const auto* s = body.as<SeqExpr>())
    for (const BindingBlock& b : s->blocks)
      for (const Binding& x : b->bindings) out.push_back(x);
  return out;
}
Expr result_of(const Expr& body) {
  const auto* s = body.as<SeqExpr>();
  return s ? s->body : body;
}

}  // namespace tenon::graph

template struct tenon::DefineTypes<tenon::graph::TypeNodes>;
template struct tenon::DefineTypes<tenon::graph::ExprNodes>;
template struct tenon::DefineTypes<tenon::graph::BindingNodes>;
template struct tenon::DefineTypes<tenon::graph::PartNodes>;
