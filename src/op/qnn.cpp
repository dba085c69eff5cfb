// SPDX-License-Identifier: Apache-2.0
// Quantised tensors: to and from real numbers, between scales, and element by element. A stored value q
// stands for (q - zero_point) · scale; results are rounded to even and kept in range.
#include "op/qnn.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "base/define_type.h"
#include "ir/lookup.h"
#include "op/attrs_qnn.h"

namespace tenon::op {

using Terms = std::vector<Term>;

namespace {
/// The elements of a constant in another type and shape, so that nothing is left to fold.
Expr converted(const graph::Constant& c, DataType t, const Shape& shape) {
  std::vector<int64_t> dims;
  for (const PrimExpr& d : shape) dims.push_back(*tir::as_int(d));
  NDArray out = NDArray::empty(dims, t);
  for (int64_t i = 0; i < out.size(); ++i) out.set_element(i, c.data.element(i));
  return graph::constant(out);
}
/// A constant of zeros: there is nothing to add or to take off.
bool is_zero(const Term& t) {
  const auto* c = t ? t.expr().as<graph::Constant>() : nullptr;
  if (!c) return false;
  for (int64_t i = 0; i < c->data.size(); ++i)
    if (c->data.element(i) != 0) return false;
  return true;
}
Term less(const Term& x, const Term& zero) { return is_zero(zero) ? x : x - zero; }
}  // namespace

Term along_axis(InferContext& ctx, const Term& parameter, int64_t axis, int64_t rank, DataType t) {
  const auto s = parameter.dims();
  if (!s) return {};
  if (s->size() > 1)
    return ctx.error(fmt::format("a scale or zero point {} is neither scalar nor vector", show(*s)));
  Shape to;
  if (!s->empty() && !tir::is_one((*s)[0])) {
    if (!ctx.expect_axis(axis, rank)) return {};
    for (int64_t i = 0; i < rank; ++i) to.push_back(i == normal_axis(axis, rank) ? (*s)[0] : PrimExpr(1));
  }
  if (const auto* c = parameter.expr().as<graph::Constant>()) return {ctx, converted(*c, t, to)};
  const Term p = parameter.as(t);
  return s->empty() ? p : p.reshaped(to);
}

namespace {
/// round_to_even(x / scale) + zero, kept in the range of t, as a real number. A cast of it saturates at the
/// ends of 32-bit integers only.
Term in_range(const Term& x, const Term& scale, const Term& zero, DataType t) {
  const double low = t.is_int() ? -std::ldexp(1.0, t.bits - 1) : 0,
               high = std::ldexp(1.0, t.bits - (t.is_int() ? 1 : 0)) - 1;
  const Term steps = (x / scale).op("round");
  return (is_zero(zero) ? steps : steps + zero).op("clip", make_attrs<ClipAttrs>(low, high));
}
}  // namespace

Term quantized(const Term& x, const Term& scale, const Term& zero, DataType t) {
  return in_range(x, scale, zero, t).as(t);
}
Term dequantized(const Term& x, const Term& scale, const Term& zero) { return less(x.as(f32), zero) * scale; }
Term centred(InferContext& ctx, const Term& x, const Term& zero, int64_t axis) {
  const auto* t = graph::as_tensor(x.expr());
  return less(x.as(i32), along_axis(ctx, zero, axis, t->ndim, i32));
}

Expr product_of_scales(const Expr& a, const Expr& b) {
  const auto *x = a.as<graph::Constant>(), *y = b.as<graph::Constant>();
  if (!x || !y || x->data.size() != 1) return op_call("multiply", {a, b});
  NDArray out = NDArray::empty(y->data.shape(), f32);
  for (int64_t i = 0; i < out.size(); ++i)
    out.set_element(i, float(x->data.element(0)) * float(y->data.element(i)));
  return graph::constant(out);
}

OpRegistration register_quantized(OpName name, std::string doc, FusionKind kind, Compose f) {
  return register_composed(std::move(name), std::move(doc), kind, f).canonical([f](InferContext& ctx) {
    Terms args;
    for (const Expr& a : ctx.call.args) args.emplace_back(ctx, a);
    return f(ctx, args).expr();
  });
}

namespace {

bool expect_integers_at(InferContext& ctx, std::initializer_list<size_t> arguments) {
  for (size_t i : arguments)
    if (!ctx.expect_domain(ctx.tensor(i).dtype, Domain::integer)) return false;
  return true;
}
bool expect_quantized(InferContext& ctx, DataType t) {
  if (t.is_integer() && t.bits <= 32) return true;
  return ctx.error(fmt::format("{} holds no quantised values", to_string(t)));
}

/// The scale (or zero point) of each element when scales belong to blocks of an axis.
Term for_blocks(InferContext& ctx, const Term& x, const Term& parameter, int64_t block, int64_t axis) {
  const auto have = x.dims(), s = parameter.dims();
  if (!have || !s || !ctx.expect_axis(axis, int64_t(have->size()))) return {};
  if (s->size() != have->size() || block < 1)
    return ctx.error(fmt::format("scales {} for blocks of {}", show(*s), show(*have)));
  const Term each = parameter.as(f32).op(
      "repeat", make_attrs<RepeatAttrs>(block, normal_axis(axis, int64_t(have->size()))));
  return each.op("slice_to", {Term(ctx, graph::shape_expr(*have))});
}
Term parameter_of(InferContext& ctx, const Term& x, const Term& p, const QuantizeAttrs& a) {
  if (a.block_size > 0) return for_blocks(ctx, x, p, a.block_size, a.axis);
  const auto s = x.dims(), n = p.dims();
  if (!s) return {};
  if (n && n->size() == 1 && !tir::is_one((*n)[0])) {
    if (!ctx.expect_axis(a.axis, int64_t(s->size()))) return {};
    const PrimExpr size = (*s)[size_t(normal_axis(a.axis, int64_t(s->size())))];
    if (!ctx.require_broadcast_to({(*n)[0]}, {size}))
      return ctx.error(fmt::format("{} scales or zero points for {} elements", show(*n), show_dim(size)));
  }
  return along_axis(ctx, p, a.axis, int64_t(s->size()));
}

/// A scale (the second argument) that is known is a finite number; nothing is divided by 0.
bool expect_scale(InferContext& ctx, bool divides) {
  const auto* c = ctx.call.args[1].as<graph::Constant>();
  for (int64_t i = 0; c && i < c->data.size(); ++i)
    if (const double s = c->data.element(i); !std::isfinite(s) || (divides && s == 0))
      return ctx.error(fmt::format("a scale is {}", s), "quantise the model again");
  return true;
}
Term quantize(InferContext& ctx, const Terms& args) {
  const auto& a = ctx.attrs<QuantizeAttrs>();
  const DataType t = a.out_dtype.is_void() ? args[2].dtype() : a.out_dtype;
  if (!ctx.expect_domain(args[0].dtype(), Domain::number) || !expect_quantized(ctx, t) ||
      !expect_scale(ctx, true))
    return {};
  return quantized(args[0].as(f32), parameter_of(ctx, args[0], args[1], a),
                   parameter_of(ctx, args[0], args[2], a), t);
}
Term dequantize(InferContext& ctx, const Terms& args) {
  const auto& a = ctx.attrs<QuantizeAttrs>();
  if (!expect_integers_at(ctx, {0, 2}) || !expect_scale(ctx, false)) return {};
  const DataType t = a.out_dtype.is_void() ? args[1].dtype() : a.out_dtype;
  return dequantized(args[0], parameter_of(ctx, args[0], args[1], a), parameter_of(ctx, args[0], args[2], a))
      .as(t);
}
/// Rounded and cut as a quantised tensor would be, but still real numbers.
Term simulated_quantize(InferContext& ctx, const Terms& args) {
  const auto& a = ctx.attrs<QuantizeAttrs>();
  const DataType t = a.out_dtype.is_void() ? DataType::int_(8) : a.out_dtype;
  if (!expect_quantized(ctx, t)) return {};
  return in_range(args[0].as(f32), parameter_of(ctx, args[0], args[1], a),
                  parameter_of(ctx, args[0], args[2], a), t)
      .as(args[0].dtype());
}
Term simulated_dequantize(InferContext& ctx, const Terms& args) {
  const auto& a = ctx.attrs<QuantizeAttrs>();
  if (!ctx.expect_domain(args[0].dtype(), Domain::floating)) return {};
  return dequantized(args[0], parameter_of(ctx, args[0], args[1], a), parameter_of(ctx, args[0], args[2], a))
      .as(args[0].dtype());
}
Term fake_quantize(InferContext& ctx, const Terms& args) {
  const auto& a = ctx.attrs<QuantizeAttrs>();
  const DataType t = a.out_dtype.is_void() ? DataType::int_(8) : a.out_dtype;
  if (!expect_quantized(ctx, t)) return {};
  const Term scale = parameter_of(ctx, args[0], args[1], a), zero = parameter_of(ctx, args[0], args[2], a);
  return dequantized(quantized(args[0].as(f32), scale, zero, t), scale, zero).as(args[0].dtype());
}
Term requantize(InferContext& ctx, const Terms& args) {
  const auto& a = ctx.attrs<RequantizeAttrs>();
  const auto s = args[0].dims();
  if (!expect_integers_at(ctx, {0, 2, 4}) || !expect_quantized(ctx, a.out_dtype) || !s) return {};
  auto p = [&](size_t i) { return along_axis(ctx, args[i], a.axis, int64_t(s->size())); };
  // Differences of wide integers are exact before they become real numbers.
  const Term real = centred(ctx, args[0], args[2], a.axis).as(f32) * (p(1) / p(3));
  return quantized(real, real.number(1), p(4), a.out_dtype);
}

/// f of two quantised tensors: lhs, rhs, then scale and zero point of lhs, rhs and result.
Compose binary_of(const char* name) {
  return [name](InferContext& ctx, const Terms& args) -> Term {
    if (!expect_integers_at(ctx, {0, 1, 3, 5, 7})) return {};
    auto p = [&](size_t i) { return along_axis(ctx, args[i], -1, 0); };
    const Term a = dequantized(args[0], p(2), p(3)), b = dequantized(args[1], p(4), p(5));
    return quantized(a.op(name, {b}), p(6), p(7), args[0].dtype());
  };
}
/// f of one quantised tensor: x, then scale and zero point of x and result.
Compose unary_of(const char* name) {
  return [name](InferContext& ctx, const Terms& args) -> Term {
    if (!expect_integers_at(ctx, {0, 2, 4})) return {};
    auto p = [&](size_t i) { return along_axis(ctx, args[i], -1, 0); };
    return quantized(dequantized(args[0], p(1), p(2)).op(name, ctx.call.attrs), p(3), p(4), args[0].dtype());
  };
}

Term dynamic_quantize(InferContext& ctx, const Terms& args) {
  constexpr double kSteps = 255;  // of uint8
  if (!ctx.expect_domain(args[0].dtype(), Domain::floating)) return {};
  const Term x = args[0].as(f32), zero = x.number(0);
  const Term low = x.op("min").op("minimum", {zero}), high = x.op("max").op("maximum", {zero});
  const Term range = (high - low) / x.number(kSteps);
  // A tensor of zeros has no range: any scale will do.
  const Term scale = range.op("greater", {zero}).op("where", {range, x.number(1)});
  const Term at = (-(low / scale)).op("round").op("clip", make_attrs<ClipAttrs>(0.0, kSteps));
  return tuple({quantized(x, scale, at, u8), range, at.as(u8)});
}

/// x · multiplier · 2^(shift - 31) for int32, rounded half up, in integers alone.
Type infer_fixed_point(InferContext& ctx) {
  const auto& a = ctx.attrs<FixedPointAttrs>();
  const auto& x = ctx.tensor(0);
  if (!x.dtype.is_void() && x.dtype != i32)
    return ctx.error(fmt::format("takes int32, not {}", to_string(x.dtype)));
  constexpr int64_t most = int64_t(1) << 31;
  if (a.shift > 30 || a.shift < -31 || a.multiplier > most || a.multiplier < -most)
    return ctx.error(fmt::format("the factor {} · 2^{} is out of range", a.multiplier, a.shift));
  return like(x, i32);
}
std::vector<te::Tensor> def_fixed_point(const Call& call, const std::vector<te::Tensor>& in) {
  const auto& a = attrs_of<FixedPointAttrs>(call);
  const int64_t right = 31 - a.shift;
  return {te::compute(
      in[0].shape(),
      [&](const Vars& v) {
        const PrimExpr product = tir::cast(i64, in[0](indices(v))) * a.multiplier;
        const PrimExpr half = product + (int64_t(1) << (right - 1));
        return tir::cast(i32, tir::call(i64, "tir.shift_right", {half, PrimExpr(right)}));
      },
      "fixed_point_multiply")};
}

bool byte(DataType t) { return t.is_integer() && t.bits == 8; }
Type infer_lookup(InferContext& ctx) {
  const auto& a = ctx.attrs<LookupAttrs>();
  const auto& x = ctx.tensor(0);
  const DataType t = a.out_dtype;
  if ((!x.dtype.is_void() && !byte(x.dtype)) || !byte(t))
    return ctx.error(
        fmt::format("takes bytes and gives bytes, not {} and {}", to_string(x.dtype), to_string(t)));
  const int64_t least = t.is_int() ? -128 : 0;
  if (a.table.size() != tir::kByteValues || !std::all_of(a.table.begin(), a.table.end(), [&](int64_t v) {
        return v >= least && v < least + tir::kByteValues;
      }))
    return ctx.error(fmt::format("the table needs {} values of {}", tir::kByteValues, to_string(t)));
  return like(x, t);
}
std::vector<te::Tensor> def_lookup(const Call& call, const std::vector<te::Tensor>& in) {
  const auto& a = attrs_of<LookupAttrs>(call);
  std::vector<uint8_t> table;
  for (int64_t v : a.table) table.push_back(uint8_t(v));
  return {te::compute(
      in[0].shape(), [&](const Vars& v) { return tir::lookup(in[0](indices(v)), table, a.out_dtype); },
      "lookup")};
}

const bool qnn_registered = [] {
  const auto wise = FusionKind::broadcast, opaque = FusionKind::opaque;
  auto with_parameters = [](OpRegistration r, const char* what) {
    return r.argument("x", "Tensor", what)
        .argument("scale", "Tensor", "scalar, or one per element of the axis")
        .argument("zero_point", "Tensor", "as the scale")
        .attrs<QuantizeAttrs>();
  };
  with_parameters(
      register_quantized("qnn.quantize", "round(x / scale) + zero_point, kept in range.", wise, quantize),
      "real numbers")
      .quantizes();
  with_parameters(register_quantized("qnn.dequantize", "(x - zero_point) · scale.", wise, dequantize),
                  "integers");
  with_parameters(
      register_quantized("qnn.simulated_quantize", "quantize, as real numbers.", wise, simulated_quantize),
      "real numbers")
      .quantizes();
  with_parameters(register_quantized("qnn.simulated_dequantize", "dequantize of whole real numbers.", wise,
                                     simulated_dequantize),
                  "whole real numbers");
  with_parameters(
      register_quantized("qnn.fake_quantize", "dequantize(quantize(x)): x with the error of quantisation.",
                         wise, fake_quantize),
      "real numbers");
  register_quantized("qnn.requantize", "The same values at another scale and zero point.", wise, requantize)
      .argument("x", "Tensor", "integers")
      .argument("input_scale", "Tensor", "scalar, or one per element of the axis")
      .argument("input_zero_point", "Tensor", "as the scale")
      .argument("output_scale", "Tensor", "scalar")
      .argument("output_zero_point", "Tensor", "scalar")
      .attrs<RequantizeAttrs>()
      .quantizes();
  auto binary = [](OpName name, const char* what, const char* of) {
    register_quantized(std::move(name), fmt::format("{} of two quantised tensors.", what),
                       FusionKind::broadcast, binary_of(of))
        .quantizes()
        .argument("lhs", "Tensor", "integers")
        .argument("rhs", "Tensor", "integers of the same type")
        .argument("lhs_scale", "Tensor", "scalar")
        .argument("lhs_zero_point", "Tensor", "scalar")
        .argument("rhs_scale", "Tensor", "scalar")
        .argument("rhs_zero_point", "Tensor", "scalar")
        .argument("output_scale", "Tensor", "scalar")
        .argument("output_zero_point", "Tensor", "scalar");
  };
  binary("qnn.add", "Sum", "add");
  binary("qnn.subtract", "Difference", "subtract");
  binary("qnn.multiply", "Product", "multiply");
  auto unary = [](OpName name, FusionKind kind, const char* of) {
    return register_quantized(std::move(name), fmt::format("{} of a quantised tensor.", of), kind,
                              unary_of(of))
        .quantizes()
        .argument("x", "Tensor", "integers")
        .argument("input_scale", "Tensor", "scalar")
        .argument("input_zero_point", "Tensor", "scalar")
        .argument("output_scale", "Tensor", "scalar")
        .argument("output_zero_point", "Tensor", "scalar");
  };
  unary("qnn.exp", wise, "exp");
  unary("qnn.sqrt", wise, "sqrt");
  unary("qnn.rsqrt", wise, "rsqrt");
  unary("qnn.log", wise, "log");
  unary("qnn.erf", wise, "erf");
  unary("qnn.tanh", wise, "tanh");
  unary("qnn.sigmoid", wise, "sigmoid");
  unary("qnn.hard_swish", wise, "nn.hard_swish");
  unary("qnn.leaky_relu", wise, "nn.leaky_relu").attrs<AlphaAttrs>();
  unary("qnn.softmax", opaque, "nn.softmax").attrs<AxisAttrs>();
  unary("qnn.global_avg_pool", opaque, "nn.global_avg_pool");
  unary("qnn.avg_pool1d", opaque, "nn.avg_pool1d").attrs<PoolAttrs>();
  unary("qnn.avg_pool2d", opaque, "nn.avg_pool2d").attrs<PoolAttrs>();
  register_quantized("qnn.dynamic_quantize", "uint8 values with the scale and zero point that fit them.",
                     opaque, dynamic_quantize)
      .quantizes()
      .argument("x", "Tensor", "real numbers");
  register_op("qnn.fixed_point_multiply", "x · multiplier · 2^(shift - 31), rounded, in integers alone.")
      .argument("x", "Tensor", "int32")
      .attrs<FixedPointAttrs>()
      .infer(infer_fixed_point)
      .fusion(FusionKind::element_wise)
      .tensor_def(def_fixed_point);
  register_op("qnn.lookup", "A function of one byte, as the table of its results.")
      .argument("x", "Tensor", "int8 or uint8")
      .attrs<LookupAttrs>()
      .quantizes()
      .infer(infer_lookup)
      .fusion(FusionKind::element_wise)
      .tensor_def(def_lookup);
  return true;
}();

}  // namespace
}  // namespace tenon::op

template struct tenon::DefineTypes<tenon::op::QuantizeAttrs, tenon::op::RequantizeAttrs,
                                   tenon::op::FixedPointAttrs, tenon::op::LookupAttrs, tenon::op::ClipAttrs,
                                   tenon::op::RepeatAttrs>;
