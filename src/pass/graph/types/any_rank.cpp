// SPDX-License-Identifier: Apache-2.0
// Operators on tensors whose rank only the run knows, in ranks that are known:
//
//   element by element      in one dimension (name_sizes.cpp), several operands spread to their common shape
//   reductions of all axes  in one dimension
//   along one axis          in three: what is before the axis, the axis, what is behind it (softmax, sums, …)
//   products with a matrix  in two: rows, and the last axis
//   axes reversed, joined   by the functions of libtenon_rank, which move elements of any rank
//
// The shapes around them come from libtenon_rank (`tenon.rank.…`), which also says what does not fit (T0526).
#include <fmt/format.h>

#include <algorithm>
#include <optional>

#include "op/attrs.h"
#include "op/infer.h"
#include "op/op_def.h"
#include "pass/graph/lowering/lower_function.h"
#include "pass/graph/types/name_sizes.h"

namespace tenon::graph {
namespace {

/// Keys of symbols that these rewrites make, behind those of the operator's own arguments.
constexpr size_t kFlatKey = 1000, kAroundKey = 2000;

const TensorType* tensor_of(const Expr& e) { return e && e->type ? as_tensor(e->type) : nullptr; }
bool open_rank(const Expr& e) {
  const TensorType* t = tensor_of(e);
  return t && t->ndim < 0 && !t->dtype.is_void();
}

/// The one operand of unknown rank; null where there is none, or another is no tensor of a known rank.
Expr only_open(const Call& call) {
  Expr found;
  for (const Expr& a : call.args) {
    if (!a) continue;
    if (!tensor_of(a)) return {};
    if (!open_rank(a)) continue;
    if (!a.is<Var>() || (found && !found.same_as(a))) return {};
    found = a;
  }
  return found;
}

Expr with_operand(const Call& call, const Expr& from, const Expr& to, const ObjectRef& attrs) {
  Array<Expr> args;
  for (const Expr& a : call.args) args.push_back(a && a.same_as(from) ? to : a);
  Expr out = make<Call>(call.op, args, attrs, call.type_args);
  out.edit()->origin = call.origin;
  return out;
}

/// The rank of the result when `x` has the shape; -1 when the operator does not take it.
int64_t rank_given(const Call& call, const Expr& x, const Array<PrimExpr>& shape, const ObjectRef& attrs,
                   std::optional<Array<PrimExpr>>* result = nullptr) {
  const VarRef probe = with_type(var("probe", tensor_type(shape, tensor_of(x)->dtype)),
                                 tensor_type(shape, tensor_of(x)->dtype))
                           .cast<Var>();
  op::Inference run;
  const Type given = op::infer_type(run, with_operand(call, x, probe, attrs));
  const TensorType* t = given && run.problems.all().empty() ? as_tensor(given) : nullptr;
  if (result && t) *result = known_shape(given);
  return t ? t->ndim : -1;
}
Array<PrimExpr> probe_shape(size_t rank) {
  Array<PrimExpr> out;
  for (size_t i = 0; i < rank; ++i) out.push_back(tir::var(fmt::format("probe_{}", i), i64));
  return out;
}

/// The field that names the one axis of an operator.
struct AxisField {
  const FieldInfo* field = nullptr;
  int64_t axis = 0;
  bool list = false;
};
std::optional<AxisField> axis_field(const ObjectRef& attrs) {
  if (!attrs) return std::nullopt;
  for (const FieldInfo& f : type_of(attrs)->fields) {
    if (f.name != "axis" && f.name != "axes") continue;
    const Any value = f.get(attrs.get());
    if (const auto one = value.try_as<int64_t>()) return AxisField{&f, *one, false};
    const auto many = value.try_as<Array<int64_t>>();
    if (many && many->size() == 1) return AxisField{&f, (*many)[0], true};
  }
  return std::nullopt;
}
/// The attributes with the axis in the middle of three.
ObjectRef in_the_middle(const ObjectRef& attrs, const AxisField& axis) {
  ObjectRef out = attrs;
  Object* copy = out.edit();
  axis.field->set(copy, axis.list ? Any(Array<int64_t>{1}) : Any(int64_t(1)));
  return out;
}

Expr prim(int64_t n) { return make<PrimValue>(PrimExpr(n)); }

}  // namespace

/// A value of libtenon_rank.
Expr SizeNaming::by_rank(const char* function, Array<Expr> args, const Type& type, const std::string& name) {
  args.insert(0, make<ExternFunc>(fmt::format("tenon.rank.{}", function)));
  return emit(op::typed(graph::call(get_op("call_pure_packed"), args, {}, {type})), name);
}

Expr SizeNaming::reshaped(const Expr& x, const Expr& shape, const std::string& name) {
  return emit_op("reshape", {x, shape}, {}, name);
}

/// add(x, y), whose common shape only the run knows: both spread to it, in one dimension, and back.
Expr SizeNaming::spread_together(const Call& call, const VarRef& var) {
  std::vector<DataType> dtypes;
  for (const Expr& a : call.args) {
    if (!tensor_of(a) || tensor_of(a)->dtype.is_void()) return {};
    dtypes.push_back(tensor_of(a)->dtype);
  }
  if (axis_field(call.attrs) || !op::spreads(call, dtypes)) return {};
  Array<Expr> shapes;
  for (const Expr& a : call.args) shapes.push_back(emit_op("shape_of", {a}, {}, var->name + "_shape"));
  const Expr both =
      by_rank("together", shapes, make<ShapeType>(Array<PrimExpr>(), -1, false), var->name + "_result_shape");
  const PrimExpr count = symbol({var.get(), kFlatKey, 0}, 0, var->name + "_count", i64);
  Array<Expr> args;
  for (const Expr& a : call.args) {
    const DataType dtype = tensor_of(a)->dtype;
    const Expr flat = by_rank("spread", {a, both}, tensor_type_unknown(1, dtype), var->name + "_spread");
    args.push_back(cast(flat, tensor_type({count}, dtype), var->name + "_flat"));
  }
  const Expr done = with_origin(make<Call>(call.op, args, call.attrs, call.type_args), call.origin);
  return graph::call(get_op("reshape"), {emit(op::typed(done), var->name + "_elements"), both},
                     get_op("reshape")->default_attrs);
}

/// sum(x) over all axes: of x in one dimension.
Expr SizeNaming::over_all_axes(const Call& call, const Expr& x, const VarRef& var) {
  const auto* axes = call.attrs.as<op::ReduceAttrs>();
  if (!axes || !axes->axis.empty()) return {};
  ObjectRef attrs = call.attrs;
  const bool keepdims = axes->keepdims;
  if (keepdims) {
    auto plain = attrs.cast<op::ReduceAttrs>();
    plain.edit()->keepdims = false;
    attrs = plain;
  }
  if (rank_given(call, x, probe_shape(1), attrs) != 0) return {};
  const Expr flat =
      named(reshaped(x, shape_expr({PrimExpr(-1)}), var->name + "_flat"), {var.get(), kFlatKey, 0});
  const Expr done = with_operand(call, x, flat, attrs);
  if (!keepdims) return done;
  const Expr shape = by_rank("ones", {emit_op("shape_of", {x}, {}, var->name + "_shape")},
                             make<ShapeType>(Array<PrimExpr>(), -1, false), var->name + "_ones");
  return graph::call(get_op("reshape"), {emit(op::typed(done), var->name + "_all"), shape},
                     get_op("reshape")->default_attrs);
}

/// softmax(x, axis=k): in three dimensions, along the middle one.
Expr SizeNaming::along_one_axis(const Call& call, const Expr& x, const VarRef& var) {
  const auto axis = axis_field(call.attrs);
  if (!axis) return {};
  const ObjectRef attrs = in_the_middle(call.attrs, *axis);
  const Array<PrimExpr> probe = probe_shape(3);
  std::optional<Array<PrimExpr>> result;
  if (rank_given(call, x, probe, attrs, &result) < 2 || !result || result->size() < 2) return {};
  const Array<PrimExpr>& r = *result;
  if (!r[0].same_as(probe[0]) || !r[r.size() - 1].same_as(probe[2])) return {};
  const Expr shape = emit_op("shape_of", {x}, {}, var->name + "_shape");
  const Expr around = named(by_rank("around", {shape, prim(axis->axis)},
                                    make<ShapeType>(Array<PrimExpr>(), 3, false), var->name + "_around"),
                            {var.get(), kAroundKey, 0});
  const Expr done =
      emit(op::typed(with_operand(call, x, reshaped(x, around, var->name + "_around_axis"), attrs)),
           var->name + "_along_axis");
  if (r.size() == 3 && r[1].same_as(probe[1]))
    return graph::call(get_op("reshape"), {done, shape}, get_op("reshape")->default_attrs);
  const auto sizes = known_shape(done->type);
  if (!sizes || sizes->size() != r.size()) return {};
  Array<PrimExpr> middle;
  for (size_t i = 1; i + 1 < sizes->size(); ++i) middle.push_back((*sizes)[i]);
  const Expr out = by_rank("replaced", {shape, prim(axis->axis), shape_expr(middle)},
                           make<ShapeType>(Array<PrimExpr>(), -1, false), var->name + "_result_shape");
  return graph::call(get_op("reshape"), {done, out}, get_op("reshape")->default_attrs);
}

/// matmul(x, w) with a matrix w: the rows of x.
Expr SizeNaming::by_rows(const Call& call, const Expr& x, const VarRef& var) {
  const Op* op = call.op.as<Op>();
  if (call.args.size() < 2 || !call.args[0].same_as(x) || !tensor_of(call.args[1]) ||
      tensor_of(call.args[1])->ndim != 2 || (op->name != "matmul" && op->name != "nn.dense"))
    return {};
  const Expr shape = emit_op("shape_of", {x}, {}, var->name + "_shape");
  const Expr rows =
      named(by_rank("rows", {shape}, make<ShapeType>(Array<PrimExpr>(), 2, false), var->name + "_rows"),
            {var.get(), kAroundKey, 0});
  const Expr done =
      emit(op::typed(with_operand(call, x, reshaped(x, rows, var->name + "_in_rows"), call.attrs)),
           var->name + "_products");
  const auto sizes = done->type ? known_shape(done->type) : std::nullopt;
  if (!sizes || sizes->size() != 2) return {};
  const Expr out = by_rank("replaced", {shape, prim(-1), shape_expr({(*sizes)[1]})},
                           make<ShapeType>(Array<PrimExpr>(), -1, false), var->name + "_result_shape");
  return graph::call(get_op("reshape"), {done, out}, get_op("reshape")->default_attrs);
}

/// What only moves elements: the function that does so for any rank.
Expr SizeNaming::moved(const Call& call) {
  const Op* op = call.op.as<Op>();
  Array<Expr> args;
  const char* function = nullptr;
  DataType type;
  if (op->name == "permute_dims" && open_rank(call.args[0])) {
    const auto* axes = call.attrs.as<op::AxesAttrs>();
    if (!axes || !axes->axes.empty()) return {};
    function = "reversed";
    args = {call.args[0]};
    type = tensor_of(call.args[0])->dtype;
  } else if (op->name == "concat" && call.args[0].is<Tuple>()) {
    const Array<Expr>& items = call.args[0].as<Tuple>()->items;
    if (std::none_of(items.begin(), items.end(), open_rank)) return {};
    function = "joined";
    args = {prim(call.attrs.as<op::AxisAttrs>()->axis)};
    for (const Expr& i : items) {
      if (!tensor_of(i)) return {};
      type = tensor_of(i)->dtype;
      args.push_back(i);
    }
  }
  if (!function || type.is_void()) return {};
  args.insert(0, make<ExternFunc>(fmt::format("tenon.rank.{}", function)));
  return graph::call(get_op("call_pure_packed"), args, {}, {tensor_type_unknown(-1, type)});
}

Expr SizeNaming::of_any_rank(const Call& call, const VarRef& var) {
  if (const Expr done = moved(call)) return done;
  if (std::none_of(call.args.begin(), call.args.end(), open_rank)) return {};
  if (const Expr done = spread_together(call, var)) return done;
  const Expr x = only_open(call);
  if (!x) return {};
  if (const Expr done = over_all_axes(call, x, var)) return done;
  if (const Expr done = along_one_axis(call, x, var)) return done;
  return by_rows(call, x, var);
}

}  // namespace tenon::graph
