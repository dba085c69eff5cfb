// SPDX-License-Identifier: Apache-2.0
#include "ir/intrinsic.h"

#include <cmath>
#include <limits>

namespace tenon::tir {
namespace {
using D = const double*;
constexpr Intrinsic table[] = {
    // name, arguments, pure, lane by lane, doc, meaning
    {"tir.exp", 1, true, true, "e to the power x", [](D a) { return std::exp(a[0]); }},
    {"tir.exp2", 1, true, true, "2 to the power x", [](D a) { return std::exp2(a[0]); }},
    {"tir.exp10", 1, true, true, "10 to the power x", [](D a) { return std::pow(10.0, a[0]); }},
    {"tir.expm1", 1, true, true, "exp(x) - 1", [](D a) { return std::expm1(a[0]); }},
    {"tir.log", 1, true, true, "natural logarithm", [](D a) { return std::log(a[0]); }},
    {"tir.log2", 1, true, true, "logarithm to base 2", [](D a) { return std::log2(a[0]); }},
    {"tir.log10", 1, true, true, "logarithm to base 10", [](D a) { return std::log10(a[0]); }},
    {"tir.log1p", 1, true, true, "log(1 + x)", [](D a) { return std::log1p(a[0]); }},
    {"tir.sqrt", 1, true, true, "square root", [](D a) { return std::sqrt(a[0]); }},
    {"tir.rsqrt", 1, true, true, "1 / sqrt(x)", [](D a) { return 1.0 / std::sqrt(a[0]); }},
    {"tir.sin", 1, true, true, "sine", [](D a) { return std::sin(a[0]); }},
    {"tir.cos", 1, true, true, "cosine", [](D a) { return std::cos(a[0]); }},
    {"tir.tan", 1, true, true, "tangent", [](D a) { return std::tan(a[0]); }},
    {"tir.asin", 1, true, true, "arc sine", [](D a) { return std::asin(a[0]); }},
    {"tir.acos", 1, true, true, "arc cosine", [](D a) { return std::acos(a[0]); }},
    {"tir.atan", 1, true, true, "arc tangent", [](D a) { return std::atan(a[0]); }},
    {"tir.sinh", 1, true, true, "hyperbolic sine", [](D a) { return std::sinh(a[0]); }},
    {"tir.cosh", 1, true, true, "hyperbolic cosine", [](D a) { return std::cosh(a[0]); }},
    {"tir.tanh", 1, true, true, "hyperbolic tangent", [](D a) { return std::tanh(a[0]); }},
    {"tir.asinh", 1, true, true, "inverse hyperbolic sine", [](D a) { return std::asinh(a[0]); }},
    {"tir.acosh", 1, true, true, "inverse hyperbolic cosine", [](D a) { return std::acosh(a[0]); }},
    {"tir.atanh", 1, true, true, "inverse hyperbolic tangent", [](D a) { return std::atanh(a[0]); }},
    {"tir.erf", 1, true, true, "error function", [](D a) { return std::erf(a[0]); }},
    {"tir.sigmoid", 1, true, true, "1 / (1 + exp(-x))", [](D a) { return 1.0 / (1.0 + std::exp(-a[0])); }},
    {"tir.floor", 1, true, true, "largest integer not above x", [](D a) { return std::floor(a[0]); }},
    {"tir.ceil", 1, true, true, "smallest integer not below x", [](D a) { return std::ceil(a[0]); }},
    {"tir.round", 1, true, true, "nearest integer, ties to even", [](D a) { return std::nearbyint(a[0]); }},
    {"tir.trunc", 1, true, true, "x without its fraction", [](D a) { return std::trunc(a[0]); }},
    {"tir.abs", 1, true, true, "absolute value; integers too (the minimum stays)",
     [](D a) { return std::fabs(a[0]); }},
    {"tir.isnan", 1, true, true, "is not a number (bool)", [](D a) { return double(std::isnan(a[0])); }},
    {"tir.isinf", 1, true, true, "is an infinity (bool)", [](D a) { return double(std::isinf(a[0])); }},
    {"tir.isfinite", 1, true, true, "is neither (bool)", [](D a) { return double(std::isfinite(a[0])); }},
    {"tir.pow", 2, true, true, "x to the power y", [](D a) { return std::pow(a[0], a[1]); }},
    {"tir.atan2", 2, true, true, "angle of the point (y, x)", [](D a) { return std::atan2(a[0], a[1]); }},
    {"tir.fmod", 2, true, true, "remainder with the sign of x", [](D a) { return std::fmod(a[0], a[1]); }},
    {"tir.copysign", 2, true, true, "magnitude of x, sign of y",
     [](D a) { return std::copysign(a[0], a[1]); }},
    {"tir.hypot", 2, true, true, "sqrt(x² + y²) without overflow",
     [](D a) { return std::hypot(a[0], a[1]); }},
    {"tir.ldexp", 2, true, true, "x · 2ʸ", [](D a) { return std::ldexp(a[0], int(a[1])); }},
    {"tir.nextafter", 2, true, true, "next value of the type towards y", nullptr},
    {"tir.fma", 3, true, true, "x·y + z, rounded once", [](D a) { return std::fma(a[0], a[1], a[2]); }},
    {"tir.shift_left", 2, true, true, "x << y; 0 when y is at least the width", nullptr},
    {"tir.shift_right", 2, true, true, "x >> y, arithmetic for signed", nullptr},
    {"tir.bitwise_and", 2, true, true, "bits in both", nullptr},
    {"tir.bitwise_or", 2, true, true, "bits in either", nullptr},
    {"tir.bitwise_xor", 2, true, true, "bits in one", nullptr},
    {"tir.bitwise_not", 1, true, true, "inverted bits", nullptr},
    {"tir.popcount", 1, true, true, "number of bits set", nullptr},
    {"tir.clz", 1, true, true, "number of leading zero bits", nullptr},
    {"tir.if_then_else", 3, true, false, "second or third argument; only the chosen one is evaluated",
     nullptr},
    {"tir.select_rare", 3, true, false,
     "by lane the second argument where the first holds, else the third; the second is computed only when "
     "some "
     "lane needs it",
     nullptr},
    {"tir.exact", 1, true, true,
     "the argument, its operations rounded one by one: nothing in it is contracted",
     [](D a) { return a[0]; }},
    {"tir.likely", 1, true, true, "the condition, expected to hold", nullptr},
    {"tir.reinterpret", 1, true, true, "the same bits as another type", nullptr},
    {"tir.dot", 3, true, false,
     "lane l of the first plus the sum of a[g l + q] b[g l + q] over g neighbours q; g values serve all "
     "lanes",
     nullptr},
    {"tir.vector_reduce_add", 1, true, false, "sum of the lanes, in a fixed pairwise order", nullptr},
    {"tir.vector_reduce_max", 1, true, false, "largest lane; NaN propagates", nullptr},
    {"tir.vector_reduce_min", 1, true, false, "smallest lane; NaN propagates", nullptr},
    {"tir.address_of", 1, true, false, "pointer to the element that the BufferLoad argument names", nullptr},
    {"tir.prefetch", 1, false, false, "hint: the address will be read", nullptr},
    {"tir.call_extern", -1, false, false, "calls a C symbol: first argument StringImm", nullptr},
    {"tir.call_prim_func", -1, false, false,
     "calls a PrimFunc of the module: first argument StringImm, then pointers and scalars", nullptr},
    {"tir.ret", 1, false, false, "ends the function with a value", nullptr},
    {"tir.assume", 1, false, false, "the condition holds here", nullptr},
    {"tir.kernel_buffer", 2, true, false, "the kernel's buffers and k: data pointer of buffer parameter k",
     nullptr},
    {"tir.kernel_scalar", 2, true, false,
     "the kernel's scalars and k: the 64 bits of scalar parameter k (int64; floats as a double's image)",
     nullptr},
    {"tir.undef", 0, true, true, "any value of the type", nullptr},
};
}  // namespace

const Intrinsic* find_intrinsic(std::string_view name) {
  for (const Intrinsic& i : table)
    if (i.name == name) return &i;
  return nullptr;
}
std::span<const Intrinsic> all_intrinsics() { return table; }

int64_t dot_group(const PrimExpr& accumulator, const PrimExpr& a, const PrimExpr& b) {
  const DataType t = accumulator.dtype(), x = a.dtype(), y = b.dtype();
  const int64_t most = std::max<int64_t>(x.lanes, y.lanes), group = most / std::max<int64_t>(1, t.lanes);
  auto fits = [&](DataType o) { return o.lanes == most || o.lanes == group; };
  auto small = [](DataType o) { return (o.is_int() || o.is_uint()) && (o.bits == 8 || o.bits == 16); };
  const bool types = t.element() == i32   ? small(x) && small(y) && x.bits == y.bits
                     : t.element() == f32 ? x.element() == y.element() &&
                                                (x.element() == DataType::bfloat16() || x.element() == f16)
                                          : false;
  return types && (group == 2 || group == 4) && group * t.lanes == most && fits(x) && fits(y) ? group : 0;
}

static PrimExpr unary(const char* op, const PrimExpr& x) { return call(x.dtype(), op, {x}); }
PrimExpr exp(const PrimExpr& x) { return unary("tir.exp", x); }
PrimExpr log(const PrimExpr& x) { return unary("tir.log", x); }
PrimExpr sqrt(const PrimExpr& x) { return unary("tir.sqrt", x); }
PrimExpr tanh(const PrimExpr& x) { return unary("tir.tanh", x); }
PrimExpr sigmoid(const PrimExpr& x) { return unary("tir.sigmoid", x); }
PrimExpr erf(const PrimExpr& x) { return unary("tir.erf", x); }
PrimExpr abs(const PrimExpr& x) { return unary("tir.abs", x); }
PrimExpr pow(const PrimExpr& x, const PrimExpr& y) { return call(x.dtype(), "tir.pow", {x, y}); }

static double largest(DataType t) {
  switch (t.code) {
    case TypeCode::Float:
      return t.bits == 64   ? std::numeric_limits<double>::max()
             : t.bits == 32 ? std::numeric_limits<float>::max()
                            : 65504.0;
    case TypeCode::BFloat:
      return std::ldexp(255.0, 120);
    case TypeCode::Float8_e4m3fn:
      return 448;
    case TypeCode::Float8_e4m3fnuz:
      return 240;
    default:
      return 57344;
  }
}
PrimExpr max_value(DataType t) {
  if (t.is_float()) return PrimExpr::float_imm(largest(t), t);
  if (t.is_bool()) return PrimExpr::int_imm(1, t);
  const int64_t all = t.bits == 64 ? -1 : int64_t((uint64_t(1) << t.bits) - 1);
  return PrimExpr::int_imm(t.is_uint()    ? all
                           : t.bits == 64 ? INT64_MAX
                                          : (int64_t(1) << (t.bits - 1)) - 1,
                           t);
}
PrimExpr min_value(DataType t) {
  if (t.is_float()) return PrimExpr::float_imm(-largest(t), t);
  if (t.is_bool() || t.is_uint()) return PrimExpr::int_imm(0, t);
  return PrimExpr::int_imm(t.bits == 64 ? INT64_MIN : -(int64_t(1) << (t.bits - 1)), t);
}
PrimExpr infinity(DataType t) { return PrimExpr::float_imm(std::numeric_limits<double>::infinity(), t); }

}  // namespace tenon::tir
