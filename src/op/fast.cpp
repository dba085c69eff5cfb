// SPDX-License-Identifier: Apache-2.0
// Cheaper forms of exponentials: what fast_math puts in the place of exp, tanh, erf and softmax. Bounds hold
// for float32 and are tested; float64 is computed as the exact operators do.
#include "op/family.h"

namespace tenon::op {
namespace {

PrimExpr c32(double v) { return constant(f32, v); }

/// 2^n · p(f) with x = (n + f) ln 2, |f| ≤ 1/2, and p the Taylor polynomial of degree 6 in f ln 2: relative
/// error below 3e-7 for -87 ≤ x ≤ 88; beyond, the value at that end. NaN stays.
PrimExpr fast_exp(const PrimExpr& x) {
  if (x.dtype() != f32) return tir::exp(x);
  const PrimExpr at = tir::max(tir::min(x, c32(88)), c32(-87));
  const PrimExpr n = tir::call(f32, "tir.floor", {at * c32(1.4426950408889634) + c32(0.5)});
  // ln 2 in two parts, the first exact in few bits.
  const PrimExpr r = (at - n * c32(0.693145751953125)) - n * c32(1.428606820309417e-06);
  PrimExpr p = c32(1.0 / 720);
  for (double c : {1.0 / 120, 1.0 / 24, 1.0 / 6, 0.5, 1.0, 1.0}) p = p * r + c32(c);
  const PrimExpr exponent =
      (tir::cast(i32, n) + PrimExpr::int_imm(127, i32)) * PrimExpr::int_imm(1 << 23, i32);
  return p * tir::call(f32, "tir.reinterpret", {exponent});
}

/// x · p(x²), coefficients from the highest power down.
PrimExpr odd_polynomial(const PrimExpr& x, std::initializer_list<double> coefficients) {
  const PrimExpr square = x * x;
  PrimExpr p = c32(0);
  for (double c : coefficients) p = p * square + c32(c);
  return p * x;
}

/// 1 - 2 / (e^2x + 1), and the series near 0, where that would lose digits: error below 3e-7, also relative
/// to small values.
PrimExpr fast_tanh(const PrimExpr& x) {
  if (x.dtype() != f32) return tir::tanh(x);
  const PrimExpr series = odd_polynomial(x, {62.0 / 2835, -17.0 / 315, 2.0 / 15, -1.0 / 3, 1});
  const PrimExpr y = c32(1) - tir::div(c32(2), fast_exp(x * c32(2)) + c32(1));
  return tir::select(tir::lt(tir::abs(x), c32(0.3)), series, y);
}

/// Abramowitz and Stegun, Handbook of Mathematical Functions, 7.1.26, and the series near 0; error below
/// 5e-7, also relative to small values.
PrimExpr fast_erf(const PrimExpr& x) {
  if (x.dtype() != f32) return tir::erf(x);
  const PrimExpr a = tir::abs(x), t = tir::div(c32(1), c32(1) + a * c32(0.3275911));
  PrimExpr p = c32(1.061405429);
  for (double c : {-1.453152027, 1.421413741, -0.284496736, 0.254829592}) p = p * t + c32(c);
  const PrimExpr y = c32(1) - p * t * fast_exp(tir::max(c32(0) - a * a, c32(-87)));
  constexpr double two_by_root_pi = 1.1283791670955126;
  const PrimExpr series =
      odd_polynomial(x, {-two_by_root_pi / 1320, two_by_root_pi / 216, -two_by_root_pi / 42,
                         two_by_root_pi / 10, -two_by_root_pi / 3, two_by_root_pi});
  return tir::select(tir::lt(a, c32(0.5)), series, tir::select(tir::lt(x, c32(0)), c32(0) - y, y));
}

std::vector<te::Tensor> define_fast_softmax(const Call& call, const std::vector<te::Tensor>& in) {
  const te::Tensor& x = in[0];
  const std::vector<int64_t> axes{normal_axis(attrs_of<AxisAttrs>(call).axis, int64_t(x.ndim()))};
  auto as_is = [](const PrimExpr& e, const Shape&) { return wide(e); };
  const te::Tensor top = reduce_over(x, axes, false, te::max, as_is, "fast_softmax_max");
  const te::Tensor e = te::compute(
      x.shape(),
      [&](const Vars& v) {
        const Shape at = indices(v);
        return fast_exp(wide(x(at)) - top(drop_axes(at, axes)));
      },
      "fast_softmax_exp");
  const te::Tensor sum = reduce_over(e, axes, false, te::sum, as_is, "fast_softmax_sum");
  return {te::compute(
      x.shape(),
      [&](const Vars& v) {
        const Shape at = indices(v);
        return tir::cast(x.dtype(), tir::div(e(at), sum(drop_axes(at, axes))));
      },
      "fast_softmax")};
}

const bool fast_registered = [] {
  using D = Domain;
  register_unary("fast_exp", "exp to 3e-7 of its value, for x from -87 to 88 (beyond: the value there).",
                 D::floating, [](const Call&, const PrimExpr& x) { return fast_exp(x); });
  register_unary("fast_tanh", "tanh to 3e-7.", D::floating,
                 [](const Call&, const PrimExpr& x) { return fast_tanh(x); });
  register_unary("fast_erf", "erf to 5e-7.", D::floating,
                 [](const Call&, const PrimExpr& x) { return fast_erf(x); });
  register_op("nn.fast_softmax", "softmax over fast_exp.")
      .argument("x", "Tensor", "the operand")
      .attrs<AxisAttrs>()
      .infer([](InferContext& ctx) -> Type {
        const auto& x = ctx.tensor(0);
        if (!ctx.expect_domain(x.dtype, Domain::floating) ||
            !ctx.expect_axis(ctx.attrs<AxisAttrs>().axis, x.ndim))
          return {};
        return like(x, x.dtype);
      })
      .fusion(FusionKind::out_element_wise_fusable)
      .tensor_def(define_fast_softmax);
  return true;
}();

}  // namespace
}  // namespace tenon::op
