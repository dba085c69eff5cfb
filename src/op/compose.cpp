// SPDX-License-Identifier: Apache-2.0
// Composed operators: types and tensor definitions from the operators that they are made of.
#include "op/compose.h"

#include <fmt/format.h>

#include "base/define_type.h"
#include "base/diagnostic.h"

namespace tenon::op {
namespace {

using Tensors = std::vector<te::Tensor>;
struct UnknownShape {};

bool is_tensor_like(const Type& t) { return t.is<graph::TensorType>() || t.is<graph::TupleType>(); }

std::vector<Expr> fresh_arguments(const Call& call) {
  std::vector<Expr> args;
  for (size_t i = 0; i < call.args.size(); ++i) {
    const Type t = arg_type(call, i);
    args.push_back(is_tensor_like(t) ? Expr(graph::var(fmt::format("a{}", i), t)) : call.args[i]);
  }
  return args;
}

Type infer_composed(const Call& call, const Compose& f) {
  try {
    const Expr e = f(call, fresh_arguments(call));
    return e->type ? e->type : infer_type(e);
  } catch (const UnknownShape&) {
    return graph::tensor_type_unknown(-1, DataType::void_());
  } catch (const DiagnosticError& e) {
    if (e.diagnostics.empty() || e.diagnostics[0].code != "T1101") throw;
    infer_error(call, e.diagnostics[0].message, e.diagnostics[0].hint);
  }
}

/// Definitions of expressions, each once.
class Expansion {
 public:
  void bind(const Expr& e, Tensors value) { known_.emplace(e.get(), std::move(value)); }
  const Tensors& of(const Expr& e) {
    if (auto it = known_.find(e.get()); it != known_.end()) return it->second;
    Tensors value = make_value(e);
    return known_.emplace(e.get(), std::move(value)).first->second;
  }

 private:
  Tensors make_value(const Expr& e) {
    if (const auto* c = e.as<graph::Constant>()) {
      CHECK(c->data.size() == 1 && c->data.shape().empty(), "a composed operator holds a constant tensor");
      const DataType t = c->data.dtype();
      const PrimExpr value = t.is_float() ? PrimExpr::float_imm(c->data.element(0), t)
                                          : PrimExpr::int_imm(c->data.element_int(0), t);
      return {te::compute({}, [&](const Vars&) { return value; }, "scalar")};
    }
    if (const auto* t = e.as<graph::Tuple>()) {
      Tensors all;
      for (const Expr& item : t->items)
        for (const te::Tensor& x : of(item)) all.push_back(x);
      return all;
    }
    if (const auto* g = e.as<graph::TupleGetItem>()) return {of(g->tuple).at(size_t(g->index))};
    const auto* call = e.as<Call>();
    CHECK(call, "a composed operator holds an expression without a tensor definition");
    const TensorDef& def = definition(*call->op.as<graph::Op>()).tensor_def;
    CHECK(def, "a composed operator calls one without a tensor definition");
    Tensors in;
    for (const Expr& a : call->args)
      if (is_tensor_like(a->type))
        for (const te::Tensor& x : of(a)) in.push_back(x);
    return def(*call, in);
  }
  std::unordered_map<const Object*, Tensors> known_;
};

Tensors def_composed(const Call& call, const Tensors& in, const Compose& f) {
  const std::vector<Expr> args = fresh_arguments(call);
  Expansion expansion;
  size_t next = 0;
  for (size_t i = 0; i < args.size(); ++i) {
    const Type t = arg_type(call, i);
    if (!is_tensor_like(t)) continue;
    const size_t count = t.is<graph::TupleType>() ? t.as<graph::TupleType>()->items.size() : 1;
    expansion.bind(args[i],
                   Tensors(in.begin() + std::ptrdiff_t(next), in.begin() + std::ptrdiff_t(next + count)));
    next += count;
  }
  const Expr e = f(call, args);
  Tensors out = expansion.of(e);
  // A result that is an argument, or appears twice, needs memory of its own.
  for (size_t i = 0; i < out.size(); ++i) {
    bool own = true;
    for (const te::Tensor& x : in) own = own && !out[i].same_as(x);
    for (size_t k = 0; k < i; ++k) own = own && !out[i].same_as(out[k]);
    if (!own) out[i] = copy_of(out[i], short_name(call));
  }
  return out;
}

}  // namespace

OpRegistration register_composed(std::string name, std::string doc, FusionKind kind, Compose f,
                                 std::source_location where) {
  auto r = register_op(std::move(name), std::move(doc), where);
  r.infer([f](const Call& call) { return infer_composed(call, f); })
      .fusion(kind)
      .tensor_def([f](const Call& call, const Tensors& in) { return def_composed(call, in, f); });
  return r;
}

Tensors define(std::string_view op, const Tensors& in, ObjectRef attrs, Array<Expr> tail) {
  Array<Expr> args;
  for (const te::Tensor& t : in) args.push_back(graph::var("t", graph::tensor_type(t.shape(), t.dtype())));
  for (const Expr& e : tail) args.push_back(e);
  const Expr e = op_call(op, args, std::move(attrs));
  const auto* call = e.as<Call>();
  const TensorDef& def = definition(*call->op.as<graph::Op>()).tensor_def;
  CHECK(def, "an operator without a tensor definition is used by another");
  return def(*call, in);
}

Shape known_dims(const Expr& e) {
  auto shape = graph::known_shape(e);
  if (!shape) throw UnknownShape();
  return *shape;
}
DataType dtype_of(const Expr& e) {
  const auto* t = graph::as_tensor(e);
  return t ? t->dtype : DataType::void_();
}
Expr as_type(const Expr& x, DataType t) {
  if (dtype_of(x) == t || t.is_void()) return x;
  return op_call("cast", {x}, make_attrs<CastAttrs>(t));
}
Expr widened(const Expr& x) { return as_type(x, wide_type(dtype_of(x))); }

}  // namespace tenon::op

template struct tenon::DefineTypes<tenon::op::CastAttrs>;
