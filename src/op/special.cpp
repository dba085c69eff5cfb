// SPDX-License-Identifier: Apache-2.0
// Element-wise operators of the numerical libraries and of newer networks: further activations, tests of
// signs, safe logarithms, and blends of three operands.
#include <fmt/format.h>

#include <cmath>
#include <numbers>

#include "op/family.h"

namespace tenon::op {
namespace {

PrimExpr intrinsic(const char* name, const PrimExpr& x) { return tir::call(x.dtype(), name, {x}); }
PrimExpr is(const char* name, const PrimExpr& x) { return tir::call(boolean, name, {x}); }
PrimExpr either(const PrimExpr& a, const PrimExpr& b) { return tir::logical_or(a, b); }
PrimExpr copysign(const PrimExpr& a, const PrimExpr& b) {
  return tir::call(a.dtype(), "tir.copysign", {a, b});
}
/// √(a² + b²), scaled by the larger so that squares neither overflow nor vanish.
PrimExpr hypot(const PrimExpr& a, const PrimExpr& b) {
  const PrimExpr x = tir::abs(a), y = tir::abs(b), most = tir::max(x, y), least = tir::min(x, y);
  const PrimExpr ratio = tir::div(least, tir::select(tir::gt(most, like(a, 0)), most, like(a, 1)));
  const PrimExpr usual = most * tir::sqrt(like(a, 1) + ratio * ratio);
  return tir::select(either(is("tir.isinf", a), is("tir.isinf", b)), like(a, INFINITY), usual);
}
/// log(eᵃ + eᵇ): the larger and what the other adds; equal infinities stay.
PrimExpr logaddexp(const PrimExpr& a, const PrimExpr& b) {
  const PrimExpr most = tir::max(a, b);
  return tir::select(tir::eq(a, b), a + like(a, std::numbers::ln2),
                     most + tir::call(a.dtype(), "tir.log1p", {tir::exp(-tir::abs(a - b))}));
}
PrimExpr logaddexp2(const PrimExpr& a, const PrimExpr& b) {
  const PrimExpr most = tir::max(a, b);
  const PrimExpr more = tir::call(a.dtype(), "tir.log1p", {intrinsic("tir.exp2", -tir::abs(a - b))});
  return tir::select(tir::eq(a, b), a + like(a, 1), most + more * like(a, 1 / std::numbers::ln2));
}
/// a · f(b), and 0 where a is 0 and b a number.
PrimExpr times_log(const PrimExpr& a, const PrimExpr& b, const char* log) {
  const PrimExpr none = tir::logical_and(tir::eq(a, like(a, 0)), tir::logical_not(is("tir.isnan", b)));
  return tir::select(none, like(a, 0), a * intrinsic(log, b));
}
PrimExpr heaviside(const PrimExpr& a, const PrimExpr& b) {
  return tir::select(
      tir::lt(a, like(a, 0)), like(a, 0),
      tir::select(tir::gt(a, like(a, 0)), like(a, 1), tir::select(tir::eq(a, like(a, 0)), b, a)));
}
PrimExpr difference(const PrimExpr& a, const PrimExpr& b) {  // unsigned numbers do not wrap
  return tir::select(tir::gt(a, b), a - b, b - a);
}
PrimExpr trunc_divide(const PrimExpr& a, const PrimExpr& b) {
  if (a.dtype().is_float()) return intrinsic("tir.trunc", tir::div(a, b));
  const PrimExpr none = tir::eq(b, like(b, 0));
  return tir::select(none, like(a, 0), tir::div(a, tir::select(none, like(b, 1), b)));
}

/// Three operands broadcast together.
void register_ternary(OpName name, const char* doc,
                      PrimExpr (*f)(const Call& call, const PrimExpr& x, const PrimExpr& a,
                                    const PrimExpr& b),
                      bool with_value = false) {
  InferType infer = [](InferContext& ctx) -> Type {
    const auto &x = ctx.tensor(0), &a = ctx.tensor(1), &b = ctx.tensor(2);
    if (!ctx.expect_domain(x.dtype, Domain::floating)) return {};
    if (x.dtype != a.dtype || x.dtype != b.dtype)
      return ctx.error(fmt::format("element types {}, {} and {} differ", to_string(x.dtype),
                                   to_string(a.dtype), to_string(b.dtype)),
                       "cast them");
    return broadcast_type(ctx, {&x, &a, &b}, x.dtype);
  };
  TensorDef def = [f](const Call& call, const std::vector<te::Tensor>& in) {
    const TensorInfo out = output_info(call);
    return std::vector{te::compute(
        out.shape,
        [&](const Vars& v) {
          auto element = [&](size_t i) { return wide(broadcast_at(in[i], out.shape, indices(v))); };
          return tir::cast(out.dtype, f(call, element(0), element(1), element(2)));
        },
        short_name(call))};
  };
  auto op = register_op(std::move(name), doc)
                .argument("x", "Tensor", "first operand")
                .argument("a", "Tensor", "second operand")
                .argument("b", "Tensor", "third operand")
                .infer(infer)
                .fusion(FusionKind::broadcast)
                .tensor_def(def);
  if (with_value) op.attrs<AlphaAttrs>(1.0);
}

const bool special_registered = [] {
  using D = Domain;
  auto unary = [](OpName name, const char* doc, PrimExpr (*f)(const PrimExpr& x), D domain = D::floating,
                  bool to_bool = false) {
    register_unary(
        std::move(name), doc, domain, [f](const Call&, const PrimExpr& x) { return f(x); }, to_bool);
  };
  auto with_alpha = [](OpName name, const char* doc, double otherwise,
                       PrimExpr (*f)(const PrimExpr& x, double a)) {
    register_unary(std::move(name), doc, D::floating, [f](const Call& call, const PrimExpr& x) {
      return f(x, alpha_attr(call));
    }).attrs<AlphaAttrs>(otherwise);
  };
  unary("cbrt", "cube root", [](const PrimExpr& x) {
    const PrimExpr y = tir::pow(tir::abs(x), like(x, 1.0 / 3));
    // One step of Newton's method: the exponent is not exactly a third.
    const PrimExpr safe = tir::select(tir::gt(y, like(x, 0)), y, like(x, 1));
    const PrimExpr better = y - tir::div(y - tir::div(tir::abs(x), safe * safe), like(x, 3));
    const PrimExpr plain = either(is("tir.isinf", x), tir::eq(x, like(x, 0)));
    return tir::select(plain, x, copysign(better, x));
  });
  unary("exp10", "10 to the power x", [](const PrimExpr& x) { return tir::pow(like(x, 10), x); });
  unary("deg2rad", "degrees as radians",
        [](const PrimExpr& x) { return x * like(x, std::numbers::pi / 180); });
  unary("rad2deg", "radians as degrees",
        [](const PrimExpr& x) { return x * like(x, 180 / std::numbers::pi); });
  unary("frac", "what trunc takes away", [](const PrimExpr& x) { return x - intrinsic("tir.trunc", x); });
  unary("logit", "log(x / (1 - x))", [](const PrimExpr& x) { return tir::log(tir::div(x, like(x, 1) - x)); });
  unary("sinc", "sin(π x) / (π x), 1 at 0", [](const PrimExpr& x) {
    const PrimExpr y = x * like(x, std::numbers::pi), zero = tir::eq(x, like(x, 0));
    return tir::select(zero, like(x, 1), tir::div(intrinsic("tir.sin", y), tir::select(zero, like(x, 1), y)));
  });
  unary(
      "signbit", "whether the sign is minus; that of -0 is",
      [](const PrimExpr& x) {
        return x.dtype().is_float() ? tir::lt(copysign(like(x, 1), x), like(x, 0)) : tir::lt(x, like(x, 0));
      },
      D::signed_number, true);
  unary(
      "isposinf", "whether x is +∞", [](const PrimExpr& x) { return tir::eq(x, like(x, INFINITY)); },
      D::floating, true);
  unary(
      "isneginf", "whether x is -∞", [](const PrimExpr& x) { return tir::eq(x, like(x, -INFINITY)); },
      D::floating, true);
  unary(
      "popcount", "number of bits set", [](const PrimExpr& x) { return intrinsic("tir.popcount", x); },
      D::integer);

  unary("nn.relu6", "min(max(x, 0), 6)",
        [](const PrimExpr& x) { return tir::min(tir::max(x, like(x, 0)), like(x, 6)); });
  unary("nn.hard_tanh", "min(max(x, -1), 1)",
        [](const PrimExpr& x) { return tir::min(tir::max(x, like(x, -1)), like(x, 1)); });
  unary("nn.log_sigmoid", "log(sigmoid(x)) without overflow",
        [](const PrimExpr& x) { return -softplus(-x); });
  unary("nn.tanh_shrink", "x - tanh(x)", [](const PrimExpr& x) { return x - tir::tanh(x); });
  unary("nn.quick_gelu", "x · sigmoid(1.702 x)",
        [](const PrimExpr& x) { return x * tir::sigmoid(x * like(x, 1.702)); });
  unary("nn.squared_relu", "max(x, 0)²", [](const PrimExpr& x) {
    const PrimExpr y = tir::max(x, like(x, 0));
    return y * y;
  });
  with_alpha("nn.hard_shrink", "x where |x| > alpha, else 0", 0.5, [](const PrimExpr& x, double a) {
    return tir::select(tir::le(tir::abs(x), like(x, a)), like(x, 0), x);
  });
  with_alpha("nn.soft_shrink", "x moved towards 0 by alpha, 0 in between", 0.5,
             [](const PrimExpr& x, double a) {
               return tir::select(tir::gt(x, like(x, a)), x - like(x, a),
                                  tir::select(tir::lt(x, like(x, -a)), x + like(x, a), x * like(x, 0)));
             });
  with_alpha("nn.swish", "x · sigmoid(alpha · x)", 1,
             [](const PrimExpr& x, double a) { return x * tir::sigmoid(x * like(x, a)); });
  with_alpha("nn.softcap", "alpha · tanh(x / alpha)", 30,
             [](const PrimExpr& x, double a) { return tir::tanh(tir::div(x, like(x, a))) * like(x, a); });
  with_alpha("nn.squareplus", "(x + √(x² + alpha)) / 2", 4,
             [](const PrimExpr& x, double a) { return (x + tir::sqrt(x * x + like(x, a))) * like(x, 0.5); });
  with_alpha("nan_to_num", "alpha where x is not a number; infinities become the largest finite numbers", 0,
             [](const PrimExpr& x, double a) {
               const double most = x.dtype().bits == 64 ? 1.7976931348623157e308 : 3.4028234663852886e38;
               const PrimExpr bounded = tir::min(tir::max(x, like(x, -most)), like(x, most));
               return tir::select(is("tir.isnan", x), like(x, a), bounded);
             });

  register_binary("trunc_divide", "a / b rounded to zero; integers: x / 0 is 0", D::number, trunc_divide);
  register_binary("hypot", "√(a² + b²)", D::floating, hypot);
  register_binary("copysign", "magnitude of a, sign of b", D::floating, copysign);
  register_binary("logaddexp", "log(eᵃ + eᵇ) without overflow", D::floating, logaddexp);
  register_binary("logaddexp2", "log₂(2ᵃ + 2ᵇ) without overflow", D::floating, logaddexp2);
  register_binary("xlogy", "a · log(b), 0 where a is 0", D::floating,
                  [](const PrimExpr& a, const PrimExpr& b) { return times_log(a, b, "tir.log"); });
  register_binary("xlog1py", "a · log(1 + b), 0 where a is 0", D::floating,
                  [](const PrimExpr& a, const PrimExpr& b) { return times_log(a, b, "tir.log1p"); });
  register_binary("squared_difference", "(a - b)²", D::number,
                  [](const PrimExpr& a, const PrimExpr& b) { return (a - b) * (a - b); });
  register_binary("absolute_difference", "|a - b|", D::number, [](const PrimExpr& a, const PrimExpr& b) {
    return a.dtype().is_float() ? tir::abs(a - b) : difference(a, b);
  });
  register_binary("heaviside", "0 below 0, 1 above, b at 0", D::floating, heaviside);
  register_binary(
      "fmax", "the larger; a number wins over NaN", D::floating, [](const PrimExpr& a, const PrimExpr& b) {
        return tir::select(is("tir.isnan", a), b, tir::select(is("tir.isnan", b), a, tir::max(a, b)));
      });
  register_binary(
      "fmin", "the smaller; a number wins over NaN", D::floating, [](const PrimExpr& a, const PrimExpr& b) {
        return tir::select(is("tir.isnan", a), b, tir::select(is("tir.isnan", b), a, tir::min(a, b)));
      });

  register_ternary(
      "lerp", "x + b · (a - x)",
      [](const Call&, const PrimExpr& x, const PrimExpr& a, const PrimExpr& b) { return x + b * (a - x); });
  register_ternary(
      "addcmul", "x + alpha · a · b",
      [](const Call& call, const PrimExpr& x, const PrimExpr& a, const PrimExpr& b) {
        return x + like(x, alpha_attr(call)) * a * b;
      },
      true);
  register_ternary(
      "addcdiv", "x + alpha · a / b",
      [](const Call& call, const PrimExpr& x, const PrimExpr& a, const PrimExpr& b) {
        return x + like(x, alpha_attr(call)) * tir::div(a, b);
      },
      true);
  return true;
}();

}  // namespace
}  // namespace tenon::op
