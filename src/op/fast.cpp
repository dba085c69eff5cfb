// SPDX-License-Identifier: Apache-2.0
// Cheaper forms of exponentials: what fast_math puts in the place of exp, tanh, erf and softmax, and
// to_mixed_precision in the place of sigmoid, erf and softmax. Bounds hold for float32 and are tested;
// float64 is computed as the exact operators do.
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

PrimExpr fused(const PrimExpr& a, const PrimExpr& b, const PrimExpr& c) {
  return tir::call(f32, "tir.fma", {a, b, c});
}
PrimExpr bits_of(const PrimExpr& x) { return tir::call(i32, "tir.reinterpret", {x}); }
PrimExpr float_of(const PrimExpr& x) { return tir::call(f32, "tir.reinterpret", {x}); }
PrimExpr polynomial(const PrimExpr& x, std::initializer_list<double> coefficients) {
  PrimExpr p;
  for (double c : coefficients) p = p ? fused(p, x, c32(c)) : c32(c);
  return p;
}

/// 2^(factor · x) as the product of its items, each a number of float32, while the exponent is one: relative
/// error below 1e-4. A cubic on a half to either side of a whole exponent.
std::pair<PrimExpr, PrimExpr> rough_power(const PrimExpr& x, double factor) {
  constexpr double round = 12582912;  // 1.5 · 2²³: the sum's last bits are whole
  const PrimExpr whole = fused(x, c32(factor), c32(round)), rest = fused(x, c32(factor), c32(round) - whole);
  const PrimExpr part = polynomial(rest, {0.0551716688, 0.242611148, 0.693260988, 0.999928072});
  const PrimExpr exponent = tir::call(i32, "tir.shift_left", {bits_of(whole), PrimExpr::int_imm(23, i32)});
  return {part, float_of(exponent + PrimExpr::int_imm(0x3f800000, i32))};
}

constexpr double kLog2e = 1.4426950408889634;

/// exp of what is not above 0: relative error below 1e-4; less than e^-86 is 0. NaN stays.
PrimExpr rough_exp_below(const PrimExpr& x) {
  if (x.dtype() != f32) return tir::exp(x);
  constexpr double least = -86;
  const auto [part, power] = rough_power(tir::max(x, c32(least)), kLog2e);
  return tir::select(tir::lt(x, c32(least)), c32(0), part * power);
}

/// 1 / (1 + 2^u) with u = -x / ln 2: relative error below 2e-4. The inverse is an estimate from the bits and
/// two steps of Newton's method.
PrimExpr rough_sigmoid(const PrimExpr& x) {
  if (x.dtype() != f32) return tir::sigmoid(x);
  const auto [part, power] = rough_power(tir::max(tir::min(x, c32(80)), c32(-80)), -kLog2e);
  const PrimExpr d = fused(part, power, c32(1));
  PrimExpr y = float_of(PrimExpr::int_imm(0x7ef31000, i32) - bits_of(d));
  for (int step = 0; step < 2; ++step) y = y * (c32(2) - d * y);
  return y;
}

/// An odd polynomial up to 3, where erf is 1 to 2.3e-5: error below 3.1e-5, of small values 1e-4 relative to
/// them.
PrimExpr rough_erf(const PrimExpr& x) {
  if (x.dtype() != f32) return tir::erf(x);
  const PrimExpr at = tir::max(tir::min(x, c32(3)), c32(-3));
  return at * polynomial(at * at, {4.07419506e-08, -1.94481701e-06, 4.10604379e-05, -0.000511036174,
                                   0.00423542426, -0.0251028531, 0.111079324, -0.375314868, 1.12826842});
}

std::vector<te::Tensor> define_softmax(const Call& call, const std::vector<te::Tensor>& in,
                                       const std::string& name, PrimExpr exp(const PrimExpr&), bool inverse) {
  const te::Tensor& x = in[0];
  const std::vector<int64_t> axes{normal_axis(attrs_of<AxisAttrs>(call).axis, int64_t(x.ndim()))};
  auto as_is = [](const PrimExpr& e, const Shape&) { return wide(e); };
  const te::Tensor top = reduce_over(x, axes, false, te::max, as_is, name + "_max");
  const te::Tensor e = te::compute(
      x.shape(),
      [&](const Vars& v) {
        const Shape at = indices(v);
        return exp(wide(x(at)) - top(drop_axes(at, axes)));
      },
      name + "_exp");
  const te::Tensor sum = reduce_over(e, axes, false, te::sum, as_is, name + "_sum");
  return {te::compute(
      x.shape(),
      [&](const Vars& v) {
        const Shape at = indices(v);
        const PrimExpr all = sum(drop_axes(at, axes));
        return tir::cast(x.dtype(),
                         inverse ? e(at) * tir::div(constant(all.dtype(), 1), all) : tir::div(e(at), all));
      },
      name)};
}

Type infer_softmax(InferContext& ctx) {
  const auto& x = ctx.tensor(0);
  if (!ctx.expect_domain(x.dtype, Domain::floating) || !ctx.expect_axis(ctx.attrs<AxisAttrs>().axis, x.ndim))
    return {};
  return like(x, x.dtype);
}

const bool fast_registered = [] {
  using D = Domain;
  using enum Approximation;
  register_unary("fast_exp", "exp to 3e-7 of its value, for x from -87 to 88 (beyond: the value there).",
                 D::floating, [](const Call&, const PrimExpr& x) { return fast_exp(x); })
      .approximates("exp", float32);
  register_unary("fast_tanh", "tanh to 3e-7.", D::floating, [](const Call&, const PrimExpr& x) {
    return fast_tanh(x);
  }).approximates("tanh", float32);
  register_unary("fast_erf", "erf to 5e-7.", D::floating, [](const Call&, const PrimExpr& x) {
    return fast_erf(x);
  }).approximates("erf", float32);
  register_unary("rough_sigmoid", "sigmoid to 2e-4 of its value, for results that become bfloat16.",
                 D::floating, [](const Call&, const PrimExpr& x) { return rough_sigmoid(x); })
      .approximates("sigmoid", bfloat16);
  register_unary("rough_erf", "erf to 3.1e-5, for results that become bfloat16.", D::floating,
                 [](const Call&, const PrimExpr& x) { return rough_erf(x); })
      .approximates("erf", bfloat16);
  auto softmax = [](const char* name, const char* summary, Approximation enough_for) -> OpRegistration {
    return register_op(name, summary)
        .approximates("nn.softmax", enough_for)
        .argument("x", "Tensor", "the operand")
        .attrs<AxisAttrs>()
        .infer(infer_softmax)
        .fusion(FusionKind::out_element_wise_fusable);
  };
  softmax("nn.fast_softmax", "softmax over fast_exp.", float32).tensor_def([](const Call& c, const auto& in) {
    return define_softmax(c, in, "fast_softmax", fast_exp, false);
  });
  softmax("nn.rough_softmax",
          "softmax to 3e-4 of its value, and 0 below e^-86, for results that become bfloat16.", bfloat16)
      .tensor_def([](const Call& c, const auto& in) {
        return define_softmax(c, in, "rough_softmax", rough_exp_below, true);
      });
  return true;
}();

}  // namespace
}  // namespace tenon::op
