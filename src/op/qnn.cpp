// SPDX-License-Identifier: Apache-2.0
// Quantised tensors: to and from real numbers, between scales, and element by element. A stored value q
// stands for (q - zero_point) · scale; results are rounded to even and kept in range.
#include "op/qnn.h"

#include <fmt/format.h>

#include <cmath>

#include "base/define_type.h"
#include "op/attrs_qnn.h"

namespace tenon::op {

Expr along_axis(const Call& call, const Expr& parameter, int64_t axis, int64_t rank) {
  const Expr p = as_type(parameter, f32);
  const Shape s = known_dims(p);
  if (s.empty()) return p;
  if (s.size() != 1)
    infer_error(call, fmt::format("a scale or zero point {} is neither scalar nor vector", show(s)));
  if (tir::is_one(s[0])) return op_call("reshape", {p, shape({})});
  Shape out;
  const int64_t at = normal_axis(call, axis, rank);
  for (int64_t i = 0; i < rank; ++i) out.push_back(i == at ? s[0] : PrimExpr(1));
  return op_call("reshape", {p, graph::shape_expr(out)});
}

Expr quantized(const Expr& x, const Expr& scale, const Expr& zero, DataType t) {
  Expr q = op_call("add", {op_call("round", {op_call("divide", {x, scale})}), zero});
  // The cast saturates at the ends of 32-bit integers only, narrower ones are kept in range here.
  const double low = t.is_int() ? -std::ldexp(1.0, t.bits - 1) : 0,
               high = std::ldexp(1.0, t.bits - (t.is_int() ? 1 : 0)) - 1;
  return as_type(op_call("clip", {q}, make_attrs<ClipAttrs>(low, high)), t);
}
Expr dequantized(const Expr& x, const Expr& scale, const Expr& zero) {
  return op_call("multiply", {op_call("subtract", {as_type(x, f32), zero}), scale});
}
Expr centred(const Call& call, const Expr& x, const Expr& zero, int64_t axis) {
  const Expr v = as_type(x, i32);
  const auto* t = graph::as_tensor(x);
  return op_call("subtract", {v, as_type(along_axis(call, zero, axis, t->ndim), i32)});
}

namespace {

void expect_integers_at(const Call& call, std::initializer_list<size_t> arguments) {
  for (size_t i : arguments) expect_domain(call, tensor_arg(call, i).dtype, Domain::integer);
}
DataType quantized_type(const Call& call, DataType t) {
  if (!t.is_integer() || t.bits > 32)
    infer_error(call, fmt::format("{} holds no quantised values", to_string(t)));
  return t;
}

/// The scale (or zero point) of each element when scales belong to blocks of an axis.
Expr for_blocks(const Call& call, const Expr& x, const Expr& parameter, int64_t block, int64_t axis) {
  const Shape have = known_dims(x), s = known_dims(parameter);
  const auto at = size_t(normal_axis(call, axis, int64_t(have.size())));
  if (s.size() != have.size() || block < 1)
    infer_error(call, fmt::format("scales {} for blocks of {}", show(s), show(have)));
  const Expr each = op_call("repeat", {as_type(parameter, f32)}, make_attrs<RepeatAttrs>(block, int64_t(at)));
  return op_call("slice_to", {each, graph::shape_expr(have)});
}
Expr parameter_of(const Call& call, const Expr& x, const Expr& p, const QuantizeAttrs& a) {
  if (a.block_size > 0) return for_blocks(call, x, p, a.block_size, a.axis);
  return along_axis(call, p, a.axis, int64_t(known_dims(x).size()));
}

Expr quantize(const Call& call, const std::vector<Expr>& args) {
  const auto& a = attrs_of<QuantizeAttrs>(call);
  expect_domain(call, dtype_of(args[0]), Domain::number);
  const DataType t = quantized_type(call, a.out_dtype.is_void() ? dtype_of(args[2]) : a.out_dtype);
  return quantized(as_type(args[0], f32), parameter_of(call, args[0], args[1], a),
                   parameter_of(call, args[0], args[2], a), t);
}
Expr dequantize(const Call& call, const std::vector<Expr>& args) {
  const auto& a = attrs_of<QuantizeAttrs>(call);
  expect_integers_at(call, {0, 2});
  const DataType t = a.out_dtype.is_void() ? dtype_of(args[1]) : a.out_dtype;
  return as_type(
      dequantized(args[0], parameter_of(call, args[0], args[1], a), parameter_of(call, args[0], args[2], a)),
      t);
}
/// Rounded and cut as a quantised tensor would be, but still real numbers.
Expr simulated_quantize(const Call& call, const std::vector<Expr>& args) {
  const auto& a = attrs_of<QuantizeAttrs>(call);
  const DataType t = quantized_type(call, a.out_dtype.is_void() ? DataType::int_(8) : a.out_dtype);
  const Expr scale = parameter_of(call, args[0], args[1], a), zero = parameter_of(call, args[0], args[2], a);
  return as_type(quantized(as_type(args[0], f32), scale, zero, t), dtype_of(args[0]));
}
Expr simulated_dequantize(const Call& call, const std::vector<Expr>& args) {
  const auto& a = attrs_of<QuantizeAttrs>(call);
  expect_domain(call, dtype_of(args[0]), Domain::floating);
  return as_type(
      dequantized(args[0], parameter_of(call, args[0], args[1], a), parameter_of(call, args[0], args[2], a)),
      dtype_of(args[0]));
}
Expr fake_quantize(const Call& call, const std::vector<Expr>& args) {
  const auto& a = attrs_of<QuantizeAttrs>(call);
  const DataType t = quantized_type(call, a.out_dtype.is_void() ? DataType::int_(8) : a.out_dtype);
  const Expr scale = parameter_of(call, args[0], args[1], a), zero = parameter_of(call, args[0], args[2], a);
  return as_type(dequantized(quantized(as_type(args[0], f32), scale, zero, t), scale, zero),
                 dtype_of(args[0]));
}
Expr requantize(const Call& call, const std::vector<Expr>& args) {
  const auto& a = attrs_of<RequantizeAttrs>(call);
  expect_integers_at(call, {0, 2, 4});
  const auto rank = int64_t(known_dims(args[0]).size());
  auto p = [&](size_t i) { return along_axis(call, args[i], a.axis, rank); };
  // Differences of wide integers are exact before they become real numbers.
  const Expr real = op_call(
      "multiply", {as_type(centred(call, args[0], args[2], a.axis), f32), op_call("divide", {p(1), p(3)})});
  return quantized(real, scalar(1, f32), p(4), quantized_type(call, a.out_dtype));
}

/// f of two quantised tensors: lhs, rhs, then scale and zero point of lhs, rhs and result.
Compose binary_of(const char* name) {
  return [name](const Call& call, const std::vector<Expr>& args) {
    expect_integers_at(call, {0, 1, 3, 5, 7});
    auto p = [&](size_t i) { return along_axis(call, args[i], -1, 0); };
    const Expr a = dequantized(args[0], p(2), p(3)), b = dequantized(args[1], p(4), p(5));
    return quantized(op_call(name, {a, b}), p(6), p(7), dtype_of(args[0]));
  };
}
/// f of one quantised tensor: x, then scale and zero point of x and result.
Compose unary_of(const char* name) {
  return [name](const Call& call, const std::vector<Expr>& args) {
    expect_integers_at(call, {0, 2, 4});
    auto p = [&](size_t i) { return along_axis(call, args[i], -1, 0); };
    return quantized(op_call(name, {dequantized(args[0], p(1), p(2))}, call.attrs), p(3), p(4),
                     dtype_of(args[0]));
  };
}

Expr dynamic_quantize(const Call& call, const std::vector<Expr>& args) {
  expect_domain(call, dtype_of(args[0]), Domain::floating);
  const Expr x = as_type(args[0], f32), zero = scalar(0, f32);
  const Expr low = op_call("minimum", {op_call("min", {x}), zero}),
             high = op_call("maximum", {op_call("max", {x}), zero});
  const Expr range = op_call("divide", {op_call("subtract", {high, low}), scalar(255, f32)});
  // A tensor of zeros has no range: any scale will do.
  const Expr scale = op_call("where", {op_call("greater", {range, zero}), range, scalar(1, f32)});
  const Expr at =
      op_call("clip", {op_call("round", {op_call("negative", {op_call("divide", {low, scale})})})},
              make_attrs<ClipAttrs>(0.0, 255.0));
  return tuple({quantized(x, scale, at, u8), range, as_type(at, u8)});
}

/// x · multiplier · 2^(shift - 31) for int32, rounded half up, in integers alone.
Type infer_fixed_point(const Call& call) {
  const auto& a = attrs_of<FixedPointAttrs>(call);
  const auto& x = tensor_arg(call, 0);
  if (!x.dtype.is_void() && x.dtype != i32)
    infer_error(call, fmt::format("takes int32, not {}", to_string(x.dtype)));
  if (a.shift > 30 || a.shift < -31 || std::abs(a.multiplier) > (int64_t(1) << 31))
    infer_error(call, fmt::format("the factor {} · 2^{} is out of range", a.multiplier, a.shift));
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

const bool qnn_registered = [] {
  const auto wise = FusionKind::broadcast, opaque = FusionKind::opaque;
  auto with_parameters = [](OpRegistration r, const char* what) {
    r.argument("x", "Tensor", what)
        .argument("scale", "Tensor", "scalar, or one per element of the axis")
        .argument("zero_point", "Tensor", "as the scale")
        .attrs<QuantizeAttrs>();
  };
  with_parameters(
      register_composed("qnn.quantize", "round(x / scale) + zero_point, kept in range.", wise, quantize),
      "real numbers");
  with_parameters(register_composed("qnn.dequantize", "(x - zero_point) · scale.", wise, dequantize),
                  "integers");
  with_parameters(
      register_composed("qnn.simulated_quantize", "quantize, as real numbers.", wise, simulated_quantize),
      "real numbers");
  with_parameters(register_composed("qnn.simulated_dequantize", "dequantize of whole real numbers.", wise,
                                    simulated_dequantize),
                  "whole real numbers");
  with_parameters(
      register_composed("qnn.fake_quantize", "dequantize(quantize(x)): x with the error of quantisation.",
                        wise, fake_quantize),
      "real numbers");
  register_composed("qnn.requantize", "The same values at another scale and zero point.", wise, requantize)
      .argument("x", "Tensor", "integers")
      .argument("input_scale", "Tensor", "scalar, or one per element of the axis")
      .argument("input_zero_point", "Tensor", "as the scale")
      .argument("output_scale", "Tensor", "scalar")
      .argument("output_zero_point", "Tensor", "scalar")
      .attrs<RequantizeAttrs>();
  for (auto [name, of] :
       {std::pair("add", "Sum"), std::pair("subtract", "Difference"), std::pair("multiply", "Product")})
    register_composed(fmt::format("qnn.{}", name), fmt::format("{} of two quantised tensors.", of), wise,
                      binary_of(name))
        .argument("lhs", "Tensor", "integers")
        .argument("rhs", "Tensor", "integers of the same type")
        .argument("lhs_scale", "Tensor", "scalar")
        .argument("lhs_zero_point", "Tensor", "scalar")
        .argument("rhs_scale", "Tensor", "scalar")
        .argument("rhs_zero_point", "Tensor", "scalar")
        .argument("output_scale", "Tensor", "scalar")
        .argument("output_zero_point", "Tensor", "scalar");
  auto unary = [](const std::string& name, FusionKind kind, const char* of) {
    return register_composed("qnn." + name, fmt::format("{} of a quantised tensor.", of), kind, unary_of(of))
        .argument("x", "Tensor", "integers")
        .argument("input_scale", "Tensor", "scalar")
        .argument("input_zero_point", "Tensor", "scalar")
        .argument("output_scale", "Tensor", "scalar")
        .argument("output_zero_point", "Tensor", "scalar");
  };
  for (const char* name : {"exp", "sqrt", "rsqrt", "log", "erf", "tanh", "sigmoid"}) unary(name, wise, name);
  unary("hard_swish", wise, "nn.hard_swish");
  unary("leaky_relu", wise, "nn.leaky_relu").attrs<AlphaAttrs>();
  unary("softmax", opaque, "nn.softmax").attrs<AxisAttrs>();
  unary("global_avg_pool", opaque, "nn.global_avg_pool");
  for (int n = 1; n <= 2; ++n)
    unary(fmt::format("avg_pool{}d", n), opaque, n == 1 ? "nn.avg_pool1d" : "nn.avg_pool2d")
        .attrs<PoolAttrs>();
  register_composed("qnn.dynamic_quantize", "uint8 values with the scale and zero point that fit them.",
                    opaque, dynamic_quantize)
      .argument("x", "Tensor", "real numbers");
  register_op("qnn.fixed_point_multiply", "x · multiplier · 2^(shift - 31), rounded, in integers alone.")
      .argument("x", "Tensor", "int32")
      .attrs<FixedPointAttrs>()
      .infer(infer_fixed_point)
      .fusion(FusionKind::element_wise)
      .tensor_def(def_fixed_point);
  return true;
}();

}  // namespace
}  // namespace tenon::op

template struct tenon::DefineTypes<tenon::op::QuantizeAttrs, tenon::op::RequantizeAttrs,
                                   tenon::op::FixedPointAttrs, tenon::op::ClipAttrs, tenon::op::RepeatAttrs>;
