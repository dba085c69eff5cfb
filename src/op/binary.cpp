// SPDX-License-Identifier: Apache-2.0
// Element-wise operators of two operands with NumPy broadcasting, and where.
#include <fmt/format.h>

#include "op/family.h"

namespace tenon::op {
namespace {

Type infer_binary(InferContext& ctx, Domain domain, bool to_bool) {
  const auto &a = ctx.tensor(0), &b = ctx.tensor(1);
  if (!ctx.expect_same_type(a.dtype, b.dtype)) return {};
  const DataType dtype = a.dtype.is_void() ? b.dtype : a.dtype;
  if (!ctx.expect_domain(dtype, domain)) return {};
  return broadcast_type(ctx, {&a, &b}, to_bool ? boolean : dtype);
}

PrimExpr zero(const PrimExpr& x) { return constant(x.dtype(), 0); }

/// An integer operation that must not see a divisor of 0: its result there is 0.
template <class F>
PrimExpr guarded(const PrimExpr& a, const PrimExpr& b, F f) {
  const PrimExpr none = tir::eq(b, zero(b));
  return tir::select(none, zero(a), f(a, tir::select(none, constant(b.dtype(), 1), b)));
}
PrimExpr divide(const PrimExpr& a, const PrimExpr& b) {
  return a.dtype().is_float() ? tir::div(a, b) : guarded(a, b, tir::div);
}
PrimExpr floor_divide(const PrimExpr& a, const PrimExpr& b) {
  return a.dtype().is_float() ? tir::call(a.dtype(), "tir.floor", {tir::div(a, b)})
                              : guarded(a, b, tir::floordiv);
}
PrimExpr mod(const PrimExpr& a, const PrimExpr& b) {
  return a.dtype().is_float() ? tir::call(a.dtype(), "tir.fmod", {a, b}) : guarded(a, b, tir::truncmod);
}
PrimExpr floor_mod(const PrimExpr& a, const PrimExpr& b) {
  if (!a.dtype().is_float()) return guarded(a, b, tir::floormod);
  const PrimExpr r = tir::call(a.dtype(), "tir.fmod", {a, b});
  const PrimExpr other_sign = tir::ne(tir::lt(r, zero(r)), tir::lt(b, zero(b)));
  const PrimExpr nothing = tir::call(a.dtype(), "tir.copysign", {zero(r), b});
  return tir::select(tir::eq(r, zero(r)), nothing, tir::select(other_sign, r + b, r));
}
PrimExpr power(const PrimExpr& a, const PrimExpr& b) {
  if (a.dtype().is_float()) return tir::pow(a, b);
  // By repeated squaring, modulo the type's width; exponents are taken up to 63.
  const PrimExpr one = constant(a.dtype(), 1);
  PrimExpr result = one, factor = a;
  const int bits = 6;
  for (int i = 0; i < bits; ++i) {
    const PrimExpr bit = tir::call(b.dtype(), "tir.bitwise_and", {b, constant(b.dtype(), double(1 << i))});
    result = tir::select(tir::ne(bit, zero(b)), result * factor, result);
    if (i + 1 < bits) factor = factor * factor;
  }
  if (!a.dtype().is_int()) return result;
  // A negative exponent: 1 / aⁿ, rounded to zero.
  const PrimExpr odd = tir::ne(tir::call(b.dtype(), "tir.bitwise_and", {b, one}), zero(b));
  const PrimExpr minus_one = constant(a.dtype(), -1);
  const PrimExpr inverse = tir::select(
      tir::eq(a, one), one, tir::select(tir::eq(a, minus_one), tir::select(odd, minus_one, one), zero(a)));
  return tir::select(tir::lt(b, zero(b)), inverse, result);
}
PrimExpr bitwise_and(const PrimExpr& a, const PrimExpr& b) {
  return a.dtype().is_bool() ? tir::logical_and(a, b) : tir::call(a.dtype(), "tir.bitwise_and", {a, b});
}
PrimExpr bitwise_or(const PrimExpr& a, const PrimExpr& b) {
  return a.dtype().is_bool() ? tir::logical_or(a, b) : tir::call(a.dtype(), "tir.bitwise_or", {a, b});
}
PrimExpr bitwise_xor(const PrimExpr& a, const PrimExpr& b) {
  return a.dtype().is_bool() ? tir::ne(a, b) : tir::call(a.dtype(), "tir.bitwise_xor", {a, b});
}
PrimExpr left_shift(const PrimExpr& a, const PrimExpr& b) {
  return tir::call(a.dtype(), "tir.shift_left", {a, b});
}
PrimExpr right_shift(const PrimExpr& a, const PrimExpr& b) {
  return tir::call(a.dtype(), "tir.shift_right", {a, b});
}

Type infer_where(InferContext& ctx) {
  const auto &c = ctx.tensor(0), &x = ctx.tensor(1), &y = ctx.tensor(2);
  if (!c.dtype.is_bool() && !c.dtype.is_void()) return ctx.error("the condition must be boolean", "cast it");
  if (!ctx.expect_same_type(x.dtype, y.dtype)) return {};
  return broadcast_type(ctx, {&c, &x, &y}, x.dtype.is_void() ? y.dtype : x.dtype);
}

const bool binary_registered = [] {
  using D = Domain;
  register_binary("add", "a + b", D::number, [](const PrimExpr& a, const PrimExpr& b) { return a + b; })
      .precision(Precision::follows)
      .commutative();
  register_binary("subtract", "a - b", D::number, [](const PrimExpr& a, const PrimExpr& b) {
    return a - b;
  }).precision(Precision::follows);
  register_binary("multiply", "a · b", D::number, [](const PrimExpr& a, const PrimExpr& b) { return a * b; })
      .precision(Precision::follows)
      .commutative();
  register_binary("divide", "a / b; integers round to zero, x / 0 is 0", D::number, divide);
  register_binary("floor_divide", "a / b rounded down; integers: x / 0 is 0", D::number, floor_divide);
  register_binary("mod", "remainder with the sign of a; integers: x mod 0 is 0", D::number, mod);
  register_binary("floor_mod", "remainder with the sign of b; integers: x mod 0 is 0", D::number, floor_mod);
  register_binary("power", "a to the power b; integers wrap", D::number, power);
  register_binary("maximum", "the larger; NaN propagates", D::number, tir::max)
      .precision(Precision::follows)
      .commutative();
  register_binary("minimum", "the smaller; NaN propagates", D::number, tir::min)
      .precision(Precision::follows)
      .commutative();
  register_binary(
      "atan2", "angle of the point (b, a)", D::floating,
      [](const PrimExpr& a, const PrimExpr& b) { return tir::call(a.dtype(), "tir.atan2", {a, b}); });
  register_binary("equal", "a = b", D::any, tir::eq, true).commutative();
  register_binary("not_equal", "a ≠ b", D::any, tir::ne, true).commutative();
  register_binary("less", "a < b", D::number, tir::lt, true);
  register_binary("less_equal", "a ≤ b", D::number, tir::le, true);
  register_binary("greater", "a > b", D::number, tir::gt, true);
  register_binary("greater_equal", "a ≥ b", D::number, tir::ge, true);
  register_binary("logical_and", "a and b", D::boolean, tir::logical_and).commutative();
  register_binary("logical_or", "a or b", D::boolean, tir::logical_or).commutative();
  register_binary("logical_xor", "either a or b", D::boolean, tir::ne).commutative();
  register_binary("bitwise_and", "bits in both", D::bits, bitwise_and).commutative();
  register_binary("bitwise_or", "bits in a or b", D::bits, bitwise_or).commutative();
  register_binary("bitwise_xor", "bits in one of the two", D::bits, bitwise_xor).commutative();
  register_binary("left_shift", "a · 2ᵇ; 0 when b is at least the width", D::integer, left_shift);
  register_binary("right_shift", "a / 2ᵇ rounded down", D::integer, right_shift);

  TensorDef where = [](const Call& call, const std::vector<te::Tensor>& in) {
    const Shape shape = output_info(call).shape;
    return std::vector{te::compute(
        shape,
        [&](const Vars& v) {
          const Shape at = indices(v);
          return tir::select(broadcast_at(in[0], shape, at), broadcast_at(in[1], shape, at),
                             broadcast_at(in[2], shape, at));
        },
        "where")};
  };
  register_op("where", "x where the condition holds, else y")
      .argument("condition", "Tensor", "booleans")
      .argument("x", "Tensor", "values where it holds")
      .argument("y", "Tensor", "values elsewhere")
      .infer(infer_where)
      .fusion(FusionKind::broadcast)
      .tensor_def(where);
  return true;
}();

}  // namespace

Type broadcast_type(InferContext& ctx, std::initializer_list<const graph::TensorType*> operands,
                    DataType dtype) {
  std::optional<Shape> shape = Shape();
  int64_t ndim = 0;
  for (const auto* t : operands) {
    ndim = ndim < 0 || t->ndim < 0 ? -1 : std::max(ndim, t->ndim);
    const auto s = shape_of(*t);
    if (shape && s && !ctx.expect_broadcast(*shape, *s)) return {};
    shape = shape && s ? broadcast_shapes(*shape, *s) : std::nullopt;
  }
  return make_type(shape, ndim, dtype);
}

OpRegistration register_binary(OpName name, const char* doc, Domain domain, BinaryRule f, bool to_bool) {
  TensorDef def = [f](const Call& call, const std::vector<te::Tensor>& in) {
    const TensorInfo out = output_info(call);
    return std::vector{te::compute(
        out.shape,
        [&](const Vars& v) {
          const Shape at = indices(v);
          return tir::cast(out.dtype, f(wide(broadcast_at(in[0], out.shape, at)),
                                        wide(broadcast_at(in[1], out.shape, at))));
        },
        short_name(call))};
  };
  return register_op(std::move(name), doc)
      .argument("a", "Tensor", "left operand")
      .argument("b", "Tensor", "right operand")
      .infer([domain, to_bool](InferContext& ctx) { return infer_binary(ctx, domain, to_bool); })
      .fusion(FusionKind::broadcast)
      .tensor_def(def);
}

}  // namespace tenon::op
