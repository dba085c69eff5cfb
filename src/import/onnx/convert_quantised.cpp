// SPDX-License-Identifier: Apache-2.0
// Converters: products and convolutions of integers, with zero points and steps.
#include <algorithm>
#include <cmath>

#include "import/onnx/window.h"
#include "op/attrs_qnn.h"
#include "op/qnn.h"

namespace tenon::onnx {
namespace {

using namespace op;
using N = NodeContext;
using R = RegisterConverter;
using Shape = Array<PrimExpr>;

/// Integers minus their zero point, as int32; per-row and per-column zero points are shaped by `axis`.
Expr shifted(N& n, size_t x, size_t zero, int64_t rank, int64_t axis) {
  n.expect_one_dtype({x, zero});
  Expr v = n.cast(n.in(x), i32);
  if (!n.has(zero)) return v;
  Expr z = n.cast(n.in(zero), i32);
  auto s = n.known_shape(zero);
  if (s.size() == 1 && tir::is_const_int(s[0], 1))
    z = n.reshape(z, {});
  else if (s.size() == 1 && axis >= 0 && axis < rank) {
    const PrimExpr size = n.known_shape(x)[size_t(axis)];
    const auto points = tir::as_int(s[0]), elements = tir::as_int(size);
    if (points && elements && *points != *elements)
      n.malformed(
          fmt::format("{} has {} zero points for an axis of {} elements", n.op_type(), *points, *elements));
    Array<PrimExpr> shape;
    for (int64_t i = 0; i < rank; ++i) shape.push_back(i == axis ? s[0] : PrimExpr(1));
    z = n.reshape(z, shape);
    if (!points || !elements) return n.onto("subtract", v, z);  // a symbol may be 1: one for all
  }
  return n.op("subtract", {v, z});
}
Values matmul_integer(N& n) {
  const int64_t ra = n.rank(0), rb = n.rank(1);
  Expr a = shifted(n, 0, 2, ra, ra - 2), b = shifted(n, 1, 3, rb, rb - 1);
  n.align(a, b, false, 2);
  return {n.op("matmul", {a, b})};
}
Values conv_integer(N& n) {
  const Window w = window(n, kernel_of(n, 1), 1);
  const Expr x = shifted(n, 0, 2, n.rank(0), -1), weight = shifted(n, 1, 3, n.rank(1), 0);
  return {convolution(n, x, weight, w)};
}
Values qlinear_conv(N& n) {
  // Inputs x, its scale and zero point, w, its scale and zero point, the output's scale and zero point, bias.
  n.expect_quantised({0, 3, 7});
  const Window w = window(n, kernel_of(n, 3), 3);
  const Expr x = shifted(n, 0, 2, n.rank(0), -1), weight = shifted(n, 3, 5, n.rank(3), 0);
  const Expr y = with_bias(n, convolution(n, x, weight, w), 8);
  const DataType to = n.dtype(7);
  if (!to.is_integer()) n.unsupported("quantisation to this type is not supported");
  auto axis = [](DataType out) {
    return make_attrs<QuantizeAttrs>([&](QuantizeAttrs& q) { q.axis = 1, q.out_dtype = out; });
  };
  const Expr steps = n.emit(op::product_of_scales(n.in(1), n.in(4)));
  const Expr real = n.op("qnn.dequantize", {y, steps, n.scalar(0, i32)}, axis(DataType::void_()));
  return {n.op("qnn.quantize", {real, n.in(6), n.in(7)}, axis(to))};
}
const R g6("QLinearConv", {10}, qlinear_conv);

const R g4("MatMulInteger", {10}, matmul_integer), g5("ConvInteger", {10}, conv_integer);

/// A vector of scales or zero points along `axis` of a tensor of that shape; of a vector axis -1: one.
Expr along(N& n, const Expr& v, const Shape& of, int64_t axis) {
  auto s = graph::known_shape(v);
  if (!s) n.unsupported("quantisation parameters of unknown shape are not supported");
  if (s->empty()) return v;
  if (s->size() > 1) return v;
  if (tir::is_one((*s)[0])) return n.reshape(v, {});
  const PrimExpr size = axis < 0 ? PrimExpr(1) : of[size_t(axis)];
  const auto count = tir::as_int((*s)[0]), have = tir::as_int(size);
  if (count && have && *count != *have)
    n.malformed(fmt::format("{} has {} scales or zero points for an axis of {} elements", n.op_type(), *count,
                            *have));
  if (count) n.require_equal(size, (*s)[0]);
  Shape shape;
  for (int64_t i = 0; i < int64_t(of.size()); ++i) shape.push_back(i == axis ? (*s)[0] : PrimExpr(1));
  return n.reshape(v, shape);
}
Expr centred(N& n, size_t x, size_t zero, int64_t axis) {
  const Expr point = along(n, n.in(zero), n.known_shape(x), axis);
  return n.op("subtract", {n.cast(n.in(x), i32), n.cast(point, i32)});
}
/// A step of the result that is known is a number by which sums can be divided.
void expect_step(N& n, size_t i) {
  const auto* known = n.in(i).as<graph::Constant>();
  for (int64_t k = 0; known && k < known->data.size(); ++k)
    if (const double step = known->data.element(k); step == 0 || !std::isfinite(step))
      n.malformed(fmt::format("the scale of the result of {} is {}", n.op_type(), step));
}
/// The int32 sums scaled to the output's steps.
Expr requantize(N& n, const Expr& sums, const Expr& scale, size_t out_scale, size_t out_zero, int64_t axis) {
  const DataType to = n.dtype(out_zero);
  const Shape shape = n.shape_of(sums);
  if (!to.is_integer()) n.unsupported("quantisation to this type is not supported");
  expect_step(n, out_scale);
  Expr ratio = n.op("divide", {scale, n.cast(along(n, n.in(out_scale), shape, axis), f32)});
  Expr q = n.op("round", {n.op("multiply", {n.cast(sums, f32), ratio})});
  q = n.op("add", {q, n.cast(along(n, n.in(out_zero), shape, axis), f32)});
  const double lo = to.is_int() ? -std::ldexp(1.0, to.bits - 1) : 0,
               hi = std::ldexp(1.0, to.bits - (to.is_int() ? 1 : 0)) - 1;
  return n.cast(n.op("clip", {q}, make_attrs<ClipAttrs>(lo, hi)), to);
}
Values qlinear_matmul(N& n) {
  n.expect_quantised({0, 3, 7});
  n.expect_one_dtype({0, 2}), n.expect_one_dtype({3, 5});
  const int64_t ra = n.rank(0), rb = n.rank(3), r = std::max(ra, rb);
  Expr a = centred(n, 0, 2, ra - 2), b = centred(n, 3, 5, rb - 1);
  n.align(a, b, false, 2);
  const Expr sums = n.op("matmul", {a, b});
  Expr sa = n.cast(along(n, n.in(1), n.known_shape(0), ra - 2), f32),
       sb = n.cast(along(n, n.in(4), n.known_shape(3), rb - 1), f32);
  return {requantize(n, sums, n.op("multiply", {sa, sb}), 6, 7, r - 2)};
}
const R q1("QLinearMatMul", {10, 21}, qlinear_matmul);

}  // namespace
}  // namespace tenon::onnx
