// SPDX-License-Identifier: Apache-2.0
// Element-wise operators of one operand: mathematics, tests, bits, casts.
#include <cmath>

#include "op/family.h"

namespace tenon::op {
namespace {

using tir::call;

UnaryRule intrinsic(const char* name) {
  return [name](const Call&, const PrimExpr& x) { return tir::call(x.dtype(), name, {x}); };
}
UnaryRule test(const char* name) {
  return [name](const Call&, const PrimExpr& x) { return tir::call(boolean, name, {x}); };
}
PrimExpr one(const PrimExpr& x) { return constant(x.dtype(), 1); }

PrimExpr sign(const Call&, const PrimExpr& x) {
  const PrimExpr zero = constant(x.dtype(), 0);
  if (x.dtype().is_uint()) return tir::select(tir::gt(x, zero), one(x), zero);
  // What is neither above nor below zero (0, NaN) is its own sign.
  return tir::select(tir::gt(x, zero), one(x), tir::select(tir::lt(x, zero), constant(x.dtype(), -1), x));
}

PrimExpr clip(const Call& c, const PrimExpr& x) {
  const auto& a = attrs_of<ClipAttrs>(c);
  PrimExpr y = x;
  if (!std::isnan(a.min) && (!x.dtype().is_float() || a.min != -INFINITY))
    y = tir::max(y, constant(x.dtype(), a.min));
  if (!std::isnan(a.max) && (!x.dtype().is_float() || a.max != INFINITY))
    y = tir::min(y, constant(x.dtype(), a.max));
  return y;
}

Type infer_cast(InferContext& ctx) {
  const auto& t = ctx.tensor(0);
  const DataType to = ctx.attrs<CastAttrs>().dtype;
  const bool numeric = to.is_integer() || to.is_float() || to.is_bool();
  if (!numeric || to.is_vector()) return ctx.error("cannot cast to " + to_string(to));
  return like(t, to);
}

const bool unary_registered = [] {
  using D = Domain;
  const struct {
    OpName name;
    const char* doc;
  } math[] = {
      {"exp", "e to the power x"},
      {"exp2", "2 to the power x"},
      {"expm1", "exp(x) - 1, exact near 0"},
      {"log", "natural logarithm"},
      {"log1p", "log(1 + x), exact near 0"},
      {"log2", "logarithm to base 2"},
      {"log10", "logarithm to base 10"},
      {"sqrt", "square root"},
      {"rsqrt", "1 / sqrt(x)"},
      {"sin", "sine"},
      {"cos", "cosine"},
      {"tan", "tangent"},
      {"asin", "arc sine"},
      {"acos", "arc cosine"},
      {"atan", "arc tangent"},
      {"sinh", "hyperbolic sine"},
      {"cosh", "hyperbolic cosine"},
      {"tanh", "hyperbolic tangent"},
      {"asinh", "inverse hyperbolic sine"},
      {"acosh", "inverse hyperbolic cosine"},
      {"atanh", "inverse hyperbolic tangent"},
      {"erf", "error function"},
      {"sigmoid", "1 / (1 + exp(-x))"},
      {"floor", "largest integer not above x"},
      {"ceil", "smallest integer not below x"},
      {"round", "nearest integer, ties to even"},
      {"trunc", "x without its fraction"},
  };
  static std::vector<std::string> names;
  names.reserve(std::size(math));
  for (const auto& m : math) {
    names.push_back("tir." + m.name.text);
    register_unary(m.name, m.doc, D::floating, intrinsic(names.back().c_str()));
  }
  register_unary("abs", "absolute value; the smallest signed integer stays", D::number,
                 [](const Call&, const PrimExpr& x) { return x.dtype().is_uint() ? x : tir::abs(x); })
      .precision(Precision::follows);
  register_unary("negative", "-x", D::number, [](const Call&, const PrimExpr& x) {
    return -x;
  }).precision(Precision::follows);
  register_unary("sign", "-1, 0 or 1; NaN stays", D::number, sign);
  register_unary("reciprocal", "1 / x", D::floating,
                 [](const Call&, const PrimExpr& x) { return tir::div(one(x), x); });
  register_unary("square", "x · x", D::number, [](const Call&, const PrimExpr& x) { return x * x; });
  register_unary("logical_not", "not x", D::boolean,
                 [](const Call&, const PrimExpr& x) { return tir::logical_not(x); });
  register_unary("bitwise_not", "inverted bits", D::bits, [](const Call&, const PrimExpr& x) {
    return x.dtype().is_bool() ? tir::logical_not(x) : call(x.dtype(), "tir.bitwise_not", {x});
  });
  register_unary("isnan", "whether x is not a number", D::floating, test("tir.isnan"), true);
  register_unary("isinf", "whether x is an infinity", D::floating, test("tir.isinf"), true);
  register_unary("isfinite", "whether x is a finite number", D::floating, test("tir.isfinite"), true);
  register_unary("clip", "min(max(x, min), max)", D::number, clip)
      .attrs<ClipAttrs>()
      .precision(Precision::follows);

  TensorDef cast_def = [](const Call& c, const std::vector<te::Tensor>& in) {
    const DataType to = attrs_of<CastAttrs>(c).dtype;
    const te::Tensor& x = in[0];
    return std::vector{
        te::compute(x.shape(), [&](const Vars& v) { return tir::cast(to, x(indices(v))); }, "cast")};
  };
  register_op("cast", "Another element type: floats to integers saturate (NaN gives 0), integers wrap.")
      .argument("x", "Tensor", "the operand")
      .attrs<CastAttrs>()
      .infer(infer_cast)
      .fusion(FusionKind::element_wise)
      .tensor_def(cast_def);
  return true;
}();

}  // namespace
}  // namespace tenon::op
