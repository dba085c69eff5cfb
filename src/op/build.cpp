// SPDX-License-Identifier: Apache-2.0
// Making calls, and turning one call into a tensor program.
#include "op/build.h"

#include <algorithm>
#include <unordered_set>

#include "ir/tir.h"
#include "ir/walk.h"

namespace tenon::op {
namespace {

/// Tensor types of the arguments, tuples flattened; null where a value is something else.
std::vector<const graph::TensorType*> tensor_types(const Call& call) {
  std::vector<const graph::TensorType*> out;
  for (const Expr& a : call.args) {
    if (!a) continue;
    if (const auto* t = a->type.as<graph::TensorType>()) out.push_back(t);
    if (const auto* t = a->type.as<graph::TupleType>())
      for (const Type& item : t->items) out.push_back(item.as<graph::TensorType>());
  }
  return out;
}

std::vector<const graph::TensorType*> output_types(const Call& call) {
  if (const auto* t = call.type.as<graph::TupleType>()) {
    std::vector<const graph::TensorType*> out;
    for (const Type& item : t->items) out.push_back(item.as<graph::TensorType>());
    return out;
  }
  return {call.type.as<graph::TensorType>()};
}

}  // namespace

Expr op_call(std::string_view name, Array<Expr> args, ObjectRef attrs, Origin origin) {
  const Ref<graph::Op> op = graph::get_op(name);
  bool ready = true;
  for (const Expr& a : args) {
    CHECK(a, "a call with a null argument");
    ready =
        ready && (a->type || a.is<graph::Tuple>() || a.is<graph::StringImm>() || a.is<graph::DataTypeImm>());
  }
  Expr e = graph::call(op, std::move(args), attrs ? std::move(attrs) : op->default_attrs);
  e.edit()->origin = std::move(origin);
  return ready ? typed(std::move(e)) : e;
}

Expr scalar(double value, DataType dtype) { return graph::constant(NDArray::scalar(value, dtype)); }

Expr tuple(Array<Expr> items) {
  const bool ready = std::all_of(items.begin(), items.end(), [](const Expr& e) { return bool(e->type); });
  Expr t = make<graph::Tuple>(std::move(items));
  return ready ? typed(std::move(t)) : t;
}

Expr get_item(Expr tuple, int64_t index) {
  const bool ready = bool(tuple->type);
  Expr e = make<graph::TupleGetItem>(std::move(tuple), index);
  return ready ? typed(std::move(e)) : e;
}

Expr shape(std::vector<int64_t> dims) {
  Array<PrimExpr> values;
  for (int64_t d : dims) values.push_back(d);
  return graph::shape_expr(values);
}

bool can_lower(const Call& call) {
  const auto* op = call.op.as<graph::Op>();
  if (!op || !definition(*op).tensor_def || !call.type) return false;
  auto known = [](const graph::TensorType* t) {
    return t && shape_of(*t).has_value() && !t->dtype.is_void();
  };
  for (const Expr& a : call.args) {
    if (!a) continue;  // an argument that is left out
    if (!a->type) return false;
    if (const auto* s = a->type.as<graph::ShapeType>(); s && !s->known) return false;
    if (const auto* p = a->type.as<graph::PrimType>(); p && !p->value) return false;
    if (a->type.is<graph::ObjectType>()) return false;
  }
  for (const auto* t : tensor_types(call))
    if (!known(t)) return false;
  for (const auto* t : output_types(call))
    if (!known(t)) return false;
  return true;
}

tir::PrimFunc lower_call(const Call& call, std::vector<tir::VarRef>* symbolic) {
  const auto* op = call.op.as<graph::Op>();
  CHECK(op && definition(*op).tensor_def, "this operator has no tensor definition: " + (op ? op->name : "?"));
  if (!can_lower(call))
    fail("T1102", op->name + ": not all shapes are known at compile time",
         call.origin ? call.origin->text : "",
         "bind them with match_cast, or give the model static input shapes");
  std::vector<te::Tensor> inputs;
  std::unordered_set<const Object*> bound, seen;
  for (const auto* t : tensor_types(call)) {
    inputs.push_back(te::placeholder(*shape_of(*t), t->dtype, "p" + std::to_string(inputs.size())));
    for (const PrimExpr& d : inputs.back().shape())
      if (d.is<tir::Var>()) bound.insert(d.get());
  }
  std::vector<te::Tensor> outputs = definition(*op).tensor_def(call, inputs);
  Array<te::Tensor> args;
  for (const te::Tensor& t : inputs) args.push_back(t);
  for (const te::Tensor& t : outputs) args.push_back(t);
  const auto types = output_types(call);
  CHECK(types.size() == outputs.size(), op->name + ": number of outputs of the definition");
  for (size_t i = 0; i < outputs.size(); ++i)
    CHECK(types[i]->dtype == outputs[i].dtype(),
          op->name + ": element type of the definition is " + to_string(outputs[i].dtype()));

  // Sizes that no input names alone are passed as scalars, in the order of their first mention.
  Array<tir::VarRef> scalars;
  auto collect = [&](const ObjectRef& node) {
    if (!node) return;
    for (const tir::VarRef& v : tir::free_vars(node))
      if (!v->dtype.is_handle() && !bound.count(v.get()) && seen.insert(v.get()).second) scalars.push_back(v);
  };
  for (const te::Tensor& t : inputs) collect(t.shape());
  for (const Expr& a : call.args) {
    if (const auto* s = a->type.as<graph::ShapeType>()) collect(s->values);
    if (const auto* p = a->type.as<graph::PrimType>()) collect(p->value);
  }
  collect(call.attrs);
  for (const auto* t : types) collect(*shape_of(*t));
  if (symbolic) *symbolic = scalars.vec();
  tir::PrimFunc f = te::create_prim_func(args, scalars);
  f.edit()->attrs.set("global_symbol", Any(short_name(call)));
  return f;
}

}  // namespace tenon::op
