// SPDX-License-Identifier: Apache-2.0
// Operators that make tensors from shapes and scalars, and those between shapes and tensors.
#include <fmt/format.h>

#include <cmath>

#include "op/family.h"

#include "base/define_type.h"

namespace tenon::op {
namespace {

using Tensors = std::vector<te::Tensor>;

/// A tensor of the sizes that argument i gives; none may be negative.
Type type_of_sizes(InferContext& ctx, size_t i, DataType dtype) {
  const auto shape = ctx.shape(i);
  if (shape)
    for (const PrimExpr& d : *shape)
      if (!ctx.require_not_negative(d)) return ctx.error(fmt::format("{} has a negative size", show(*shape)));
  return make_type(shape, ctx.shape_rank(i), dtype);
}

Type infer_full(InferContext& ctx) {
  const auto& value = ctx.tensor(1);
  if (value.ndim > 0) return ctx.error("the value must be a scalar");
  const DataType wanted = ctx.attrs<DTypeAttrs>().dtype;
  return type_of_sizes(ctx, 0, wanted.is_void() ? value.dtype : wanted);
}
Type infer_filled(InferContext& ctx) {
  const DataType wanted = ctx.attrs<DTypeAttrs>().dtype;
  return type_of_sizes(ctx, 0, wanted.is_void() ? f32 : wanted);
}
Type infer_like(InferContext& ctx) {
  const auto& x = ctx.tensor(0);
  const DataType wanted = ctx.attrs<DTypeAttrs>().dtype;
  if (ctx.has(1) && ctx.tensor(1).ndim > 0) return ctx.error("the value must be a scalar");
  return like(x, wanted.is_void() ? x.dtype : wanted);
}

TensorDef fill_with(double value) {
  return [value](const Call& call, const Tensors&) {
    const TensorInfo out = output_info(call);
    return Tensors{
        te::compute(out.shape, [&](const Vars&) { return constant(out.dtype, value); }, short_name(call))};
  };
}
/// The value is the last tensor argument.
Tensors def_full(const Call& call, const Tensors& in) {
  const TensorInfo out = output_info(call);
  const te::Tensor value = in.back();
  return {
      te::compute(out.shape, [&](const Vars&) { return tir::cast(out.dtype, value({})); }, short_name(call))};
}

// ---------------------------------------------------------------- arange, eye
/// The scalar given by argument i; null when its value is not known.
PrimExpr scalar_arg(const Call& call, size_t i) { return call.args[i]->type.as<graph::PrimType>()->value; }
std::optional<double> number(const PrimExpr& e) {
  if (!e) return std::nullopt;
  if (const auto* f = e.as<tir::FloatImm>()) return f->value;
  if (auto v = tir::as_int(e)) return double(*v);
  return std::nullopt;
}
DataType arange_type(const Call& call) {
  const DataType wanted = attrs_of<DTypeAttrs>(call).dtype;
  if (!wanted.is_void()) return wanted;
  DataType type = i64;
  for (size_t i = 0; i < 3; ++i)
    if (PrimExpr e = scalar_arg(call, i)) {
      if (e.dtype().is_float()) return e.dtype();
      type = e.dtype();
    }
  return type;
}
Type infer_arange(InferContext& ctx) {
  const Call& call = ctx.call;
  const DataType dtype = arange_type(call);
  if (!ctx.expect_domain(dtype, Domain::number)) return {};
  const PrimExpr start = scalar_arg(call, 0), stop = scalar_arg(call, 1), step = scalar_arg(call, 2);
  auto a = number(start), b = number(stop), s = number(step);
  if (s == 0.0) return ctx.error("the step is 0");
  for (const auto& limit : {a, b, s})
    if (limit && !std::isfinite(*limit)) return ctx.error(fmt::format("{} limits no range", *limit));
  if (start && stop && step && start.dtype().is_integer() && stop.dtype().is_integer() && s &&
      step.dtype().is_integer()) {
    // Exact, and symbolic ends are fine.
    const int64_t by = *tir::as_int(step);
    if (by == INT64_MIN || (a && b && !(std::abs(*b - *a) < 0x1p63)))
      return ctx.error(fmt::format("a distance that no integer holds, or a step of {}", by));
    if (a && b) {  // a sum of distance and step may be too large
      const int64_t d =
          by > 0 ? *tir::as_int(stop) - *tir::as_int(start) : *tir::as_int(start) - *tir::as_int(stop);
      return make_type(Shape{PrimExpr(d > 0 ? (d - 1) / std::abs(by) + 1 : 0)}, 1, dtype);
    }
    const PrimExpr distance =
        by > 0 ? tir::cast(i64, stop) - tir::cast(i64, start) : tir::cast(i64, start) - tir::cast(i64, stop);
    return make_type(
        Shape{simplify(tir::max(tir::ceildiv(distance, PrimExpr(by > 0 ? by : -by)), PrimExpr(0)))}, 1,
        dtype);
  }
  if (!a || !b || !s) return make_type(std::nullopt, 1, dtype);
  const double n = std::max(0.0, std::ceil((*b - *a) / *s));
  if (!(n < 1e15)) return ctx.error(fmt::format("the range has {} elements", n));
  return make_type(Shape{PrimExpr(int64_t(n))}, 1, dtype);
}
Tensors def_arange(const Call& call, const Tensors&) {
  const TensorInfo out = output_info(call);
  const DataType acc = out.dtype.is_float() ? f64 : i64;
  const PrimExpr start = tir::cast(acc, scalar_arg(call, 0)), step = tir::cast(acc, scalar_arg(call, 2));
  return {te::compute(
      out.shape, [&](const Vars& v) { return tir::cast(out.dtype, start + tir::cast(acc, v[0]) * step); },
      "arange")};
}

Type infer_eye(InferContext& ctx) {
  const DataType dtype = ctx.attrs<EyeAttrs>().dtype;
  const PrimExpr rows = scalar_arg(ctx.call, 0), columns = scalar_arg(ctx.call, 1);
  if (!rows || !columns) return make_type(std::nullopt, 2, dtype);
  for (const PrimExpr& e : {rows, columns})
    if (!ctx.require_not_negative(e)) return ctx.error(fmt::format("size {} is negative", show_dim(e)));
  return make_type(Shape{tir::cast(i64, rows), tir::cast(i64, columns)}, 2, dtype);
}
Tensors def_eye(const Call& call, const Tensors&) {
  const TensorInfo out = output_info(call);
  const PrimExpr k = attrs_of<EyeAttrs>(call).k;
  return {te::compute(
      out.shape,
      [&](const Vars& v) {
        return tir::select(tir::eq(v[1] - v[0], k), constant(out.dtype, 1), constant(out.dtype, 0));
      },
      "eye")};
}

// ---------------------------------------------------------------- shapes and tensors
Type infer_shape_of(InferContext& ctx) {
  const auto& x = ctx.tensor(0);
  auto have = shape_of(x);
  return make<graph::ShapeType>(have ? *have : Shape(), x.ndim, have.has_value());
}
Any shape_of_value(const Call&, const std::vector<Any>& args) {
  const auto x = args[0].as<NDArray>();
  return Array<int64_t>(x.shape().begin(), x.shape().end());
}

Type infer_shape_to_tensor(InferContext& ctx) {
  const int64_t n = ctx.shape_rank(0);
  if (n < 0) return graph::tensor_type_unknown(1, i64);
  return graph::tensor_type({PrimExpr(n)}, i64);
}
Any shape_to_tensor_value(const Call&, const std::vector<Any>& args) {
  const auto shape = args[0].as<Array<int64_t>>();
  NDArray out = NDArray::empty({int64_t(shape.size())}, i64);
  for (size_t i = 0; i < shape.size(); ++i) out.set_element_int(int64_t(i), shape[i]);
  return out;
}
Tensors def_shape_to_tensor(const Call& call, const Tensors&) {
  const Shape shape = *shape_arg(call, 0);
  return {te::compute(
      {PrimExpr(int64_t(shape.size()))},
      [&](const Vars& v) {
        PrimExpr value = 0;
        for (size_t i = shape.size(); i-- > 0;)
          value = tir::select(tir::eq(v[0], PrimExpr(int64_t(i))), tir::cast(i64, shape[i]), value);
        return value;
      },
      "shape_to_tensor")};
}

Type infer_tensor_to_shape(InferContext& ctx) {
  const auto& x = ctx.tensor(0);
  if (!ctx.expect_domain(x.dtype, Domain::integer)) return {};
  if (x.ndim >= 0 && x.ndim != 1)
    return ctx.error(fmt::format("takes a vector, not a tensor of {} dimensions", x.ndim));
  if (const auto* c = ctx.call.args[0].as<graph::Constant>()) {
    Shape values;
    for (int64_t i = 0; i < c->data.size(); ++i) values.push_back(c->data.element_int(i));
    return make<graph::ShapeType>(values, int64_t(values.size()), true);
  }
  auto have = shape_of(x);
  const int64_t n = have ? tir::as_int((*have)[0]).value_or(-1) : -1;
  return make<graph::ShapeType>(Shape(), n, false);
}
Any tensor_to_shape_value(const Call&, const std::vector<Any>& args) {
  const auto x = args[0].as<NDArray>();
  Array<int64_t> out;
  for (int64_t i = 0; i < x.size(); ++i) out.push_back(x.element_int(i));
  return out;
}

const bool create_registered = [] {
  auto add = [](OpName name, const char* doc, InferType infer, TensorDef def) {
    return register_op(std::move(name), doc)
        .infer(std::move(infer))
        .fusion(FusionKind::injective)
        .tensor_def(std::move(def));
  };
  const char* const sizes = "sizes of the result";
  add("full", "One value everywhere.", infer_full, def_full)
      .argument("shape", "Shape", sizes)
      .argument("value", "Tensor", "scalar")
      .attrs<DTypeAttrs>();
  add("zeros", "Zeros; float32 unless said otherwise.", infer_filled, fill_with(0))
      .argument("shape", "Shape", sizes)
      .attrs<DTypeAttrs>();
  add("ones", "Ones; float32 unless said otherwise.", infer_filled, fill_with(1))
      .argument("shape", "Shape", sizes)
      .attrs<DTypeAttrs>();
  add("full_like", "One value in the operand's shape.", infer_like, def_full)
      .argument("x", "Tensor", "gives shape and element type")
      .argument("value", "Tensor", "scalar")
      .attrs<DTypeAttrs>();
  add("zeros_like", "Zeros in the operand's shape.", infer_like, fill_with(0))
      .argument("x", "Tensor", "gives shape and element type")
      .attrs<DTypeAttrs>();
  add("ones_like", "Ones in the operand's shape.", infer_like, fill_with(1))
      .argument("x", "Tensor", "gives shape and element type")
      .attrs<DTypeAttrs>();
  add("arange", "start, start + step, … up to stop, not included.", infer_arange, def_arange)
      .argument("start", "Prim", "first value")
      .argument("stop", "Prim", "end")
      .argument("step", "Prim", "distance, not 0")
      .attrs<DTypeAttrs>();
  add("eye", "Ones on the k-th diagonal, zeros elsewhere.", infer_eye, def_eye)
      .argument("rows", "Prim", "number of rows")
      .argument("columns", "Prim", "number of columns")
      .attrs<EyeAttrs>();
  register_op("shape_of", "The shape of a tensor.")
      .argument("x", "Tensor", "the operand")
      .infer(infer_shape_of)
      .evaluate(shape_of_value);
  add("shape_to_tensor", "Sizes as an int64 vector.", infer_shape_to_tensor, def_shape_to_tensor)
      .argument("shape", "Shape", "the sizes")
      .fusion(FusionKind::opaque)
      .evaluate(shape_to_tensor_value);
  register_op("tensor_to_shape", "An integer vector as a shape.")
      .argument("x", "Tensor", "the sizes")
      .infer(infer_tensor_to_shape)
      .evaluate(tensor_to_shape_value);
  return true;
}();

}  // namespace
}  // namespace tenon::op

template struct tenon::DefineTypes<tenon::op::DTypeAttrs, tenon::op::EyeAttrs>;
