// SPDX-License-Identifier: Apache-2.0
// Activations: element-wise operators with parameters, and prelu with its learned slope.
#include <cmath>
#include <numbers>

#include "op/family.h"

#include "base/define_type.h"

namespace tenon::op {
namespace {

PrimExpr positive(const PrimExpr& x) { return tir::max(x, like(x, 0)); }
PrimExpr expm1_below(const PrimExpr& x) {
  // Only used where x ≤ 0; above, exp would overflow in a lane that nobody looks at.
  return tir::call(x.dtype(), "tir.expm1", {tir::min(x, like(x, 0))});
}
PrimExpr unit_clip(const PrimExpr& x) { return tir::min(tir::max(x, like(x, 0)), like(x, 1)); }
PrimExpr gelu(const Call& call, const PrimExpr& x) {
  if (attrs_of<GeluAttrs>(call).approximate == "tanh") {
    const PrimExpr inner = (x + x * x * x * like(x, 0.044715)) * like(x, std::sqrt(2 / std::numbers::pi));
    return x * like(x, 0.5) * (tir::tanh(inner) + like(x, 1));
  }
  return x * like(x, 0.5) * (tir::erf(x * like(x, std::numbers::sqrt2 / 2)) + like(x, 1));
}

Type infer_gelu(InferContext& ctx) {
  const auto& t = ctx.tensor(0);
  if (!ctx.expect_domain(t.dtype, Domain::floating)) return {};
  if (!ctx.expect_one_of("approximate", ctx.attrs<GeluAttrs>().approximate, {"none", "tanh"})) return {};
  return like(t, t.dtype);
}

Type infer_prelu(InferContext& ctx) {
  const auto &x = ctx.tensor(0), &slope = ctx.tensor(1);
  if (!ctx.expect_domain(x.dtype, Domain::signed_number)) return {};
  if (x.dtype != slope.dtype)
    return ctx.error("x and slope have different element types", "cast one of them");
  auto a = shape_of(x), b = shape_of(slope);
  if (a && b && !ctx.require_broadcast_to(*b, *a))
    return ctx.error("slope " + show(*b) + " does not broadcast to x " + show(*a));
  return like(x, x.dtype);
}

const bool activation_registered = [] {
  using D = Domain;
  register_unary("nn.relu", "max(x, 0)", D::number, [](const Call&, const PrimExpr& x) {
    return positive(x);
  }).precision(Precision::follows);
  register_unary("nn.silu", "x · sigmoid(x)", D::floating,
                 [](const Call&, const PrimExpr& x) { return x * tir::sigmoid(x); });
  register_unary(
      "nn.hard_swish", "x · clip(x / 6 + 1/2, 0, 1)", D::floating,
      [](const Call&, const PrimExpr& x) { return x * unit_clip(x * like(x, 1.0 / 6) + like(x, 0.5)); });
  register_unary("nn.softplus", "log(1 + exp(x))", D::floating,
                 [](const Call&, const PrimExpr& x) { return softplus(x); });
  register_unary("nn.softsign", "x / (1 + |x|)", D::floating,
                 [](const Call&, const PrimExpr& x) { return tir::div(x, tir::abs(x) + like(x, 1)); });
  register_unary("nn.mish", "x · tanh(softplus(x))", D::floating,
                 [](const Call&, const PrimExpr& x) { return x * tir::tanh(softplus(x)); });
  register_unary("nn.leaky_relu", "x where x ≥ 0, else alpha · x", D::floating,
                 [](const Call& call, const PrimExpr& x) {
                   return tir::select(tir::lt(x, like(x, 0)), x * like(x, alpha_attr(call)), x);
                 })
      .attrs<AlphaAttrs>(0.01)
      .precision(Precision::follows);
  register_unary("nn.elu", "x where x > 0, else alpha · (exp(x) - 1)", D::floating,
                 [](const Call& call, const PrimExpr& x) {
                   return tir::select(tir::gt(x, like(x, 0)), x, expm1_below(x) * like(x, alpha_attr(call)));
                 })
      .attrs<AlphaAttrs>(1.0);
  register_unary("nn.celu", "max(x, 0) + min(0, alpha · (exp(x / alpha) - 1))", D::floating,
                 [](const Call& call, const PrimExpr& x) {
                   const double a = alpha_attr(call);
                   return positive(x) +
                          tir::min(tir::call(x.dtype(), "tir.expm1", {tir::div(x, like(x, a))}) * like(x, a),
                                   like(x, 0));
                 })
      .attrs<AlphaAttrs>(1.0);
  register_unary("nn.thresholded_relu", "x where x > alpha, else 0", D::floating,
                 [](const Call& call, const PrimExpr& x) {
                   return tir::select(tir::gt(x, like(x, alpha_attr(call))), x, like(x, 0));
                 })
      .attrs<AlphaAttrs>(1.0);
  register_unary("nn.selu", "gamma · (x where x > 0, else alpha · (exp(x) - 1))", D::floating,
                 [](const Call& call, const PrimExpr& x) {
                   const auto& a = attrs_of<SeluAttrs>(call);
                   return tir::select(tir::gt(x, like(x, 0)), x, expm1_below(x) * like(x, a.alpha)) *
                          like(x, a.gamma);
                 })
      .attrs<SeluAttrs>();
  register_unary("nn.hard_sigmoid", "clip(alpha · x + beta, 0, 1)", D::floating,
                 [](const Call& call, const PrimExpr& x) {
                   const auto& a = attrs_of<HardSigmoidAttrs>(call);
                   return unit_clip(x * like(x, a.alpha) + like(x, a.beta));
                 })
      .attrs<HardSigmoidAttrs>();
  register_unary("nn.gelu", "x · Φ(x), Φ being the normal distribution", D::floating, gelu)
      .attrs<GeluAttrs>()
      .infer(infer_gelu);

  TensorDef prelu = [](const Call& call, const std::vector<te::Tensor>& in) {
    const Shape shape = output_info(call).shape;
    return std::vector{te::compute(
        shape,
        [&](const Vars& v) {
          const PrimExpr x = wide(in[0](indices(v))), slope = wide(broadcast_at(in[1], shape, indices(v)));
          return tir::cast(in[0].dtype(), tir::select(tir::lt(x, like(x, 0)), x * slope, x));
        },
        "prelu")};
  };
  register_op("nn.prelu", "x where x ≥ 0, else slope · x")
      .argument("x", "Tensor", "the operand")
      .argument("slope", "Tensor", "slopes, broadcast to x")
      .infer(infer_prelu)
      .fusion(FusionKind::broadcast)
      .tensor_def(prelu);
  return true;
}();

}  // namespace
}  // namespace tenon::op

template struct tenon::DefineTypes<tenon::op::GeluAttrs, tenon::op::AlphaAttrs, tenon::op::SeluAttrs,
                                   tenon::op::HardSigmoidAttrs>;
