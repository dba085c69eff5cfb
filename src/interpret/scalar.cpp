// SPDX-License-Identifier: Apache-2.0
#include "interpret/scalar.h"

#include <bit>
#include <cmath>
#include <cstring>

#include "base/error.h"
#include "runtime/ndarray.h"

namespace tenon::interpret_detail {
namespace {

using namespace tir;
template <class T>
constexpr uint32_t index_of = PrimExprNodes::index_of<T>();

double nan_min(double a, double b) {
  return std::isnan(a) || std::isnan(b) ? std::nan("") : std::signbit(a) && a == b ? a : a < b ? a : b;
}
double nan_max(double a, double b) {
  return std::isnan(a) || std::isnan(b) ? std::nan("") : std::signbit(b) && a == b ? a : a > b ? a : b;
}

double float_op(uint32_t node, double a, double b) {
  switch (node) {
    case index_of<Add>:
      return a + b;
    case index_of<Sub>:
      return a - b;
    case index_of<Mul>:
      return a * b;
    case index_of<Div>:
      return a / b;
    case index_of<Mod>:
      return std::fmod(a, b);
    case index_of<FloorDiv>:
      return std::floor(a / b);
    case index_of<FloorMod>: {
      const double r = std::fmod(a, b);
      return r != 0 && (r < 0) != (b < 0) ? r + b : r;
    }
    case index_of<Min>:
      return nan_min(a, b);
    case index_of<Max>:
      return nan_max(a, b);
  }
  throw InternalError("no such floating operation");
}
bool float_test(uint32_t node, double a, double b) {
  switch (node) {
    case index_of<EQ>:
      return a == b;
    case index_of<NE>:
      return a != b;
    case index_of<LT>:
      return a < b;
    case index_of<LE>:
      return a <= b;
    case index_of<GT>:
      return a > b;
    case index_of<GE>:
      return a >= b;
  }
  throw InternalError("no such comparison");
}

[[noreturn]] void division_by_zero() { throw Error(ErrorKind::model, "T0360", "integer division by zero"); }

int64_t int_op(uint32_t node, int64_t a, int64_t b, bool is_unsigned) {
  const uint64_t x = uint64_t(a), y = uint64_t(b);
  const bool division = node == index_of<Div> || node == index_of<Mod> || node == index_of<FloorDiv> ||
                        node == index_of<FloorMod>;
  if (division && b == 0) division_by_zero();
  if (division && is_unsigned)
    return int64_t(node == index_of<Div> || node == index_of<FloorDiv> ? x / y : x % y);
  if (division && b == -1) return node == index_of<Div> || node == index_of<FloorDiv> ? int64_t(0 - x) : 0;
  switch (node) {
    case index_of<Add>:
      return int64_t(x + y);
    case index_of<Sub>:
      return int64_t(x - y);
    case index_of<Mul>:
      return int64_t(x * y);
    case index_of<Div>:
      return a / b;
    case index_of<Mod>:
      return a % b;
    case index_of<FloorDiv>:
      return a / b - (a % b != 0 && (a < 0) != (b < 0));
    case index_of<FloorMod>: {
      const int64_t r = a % b;
      return r != 0 && (r < 0) != (b < 0) ? r + b : r;
    }
    case index_of<Min>:
      return is_unsigned ? int64_t(std::min(x, y)) : std::min(a, b);
    case index_of<Max>:
      return is_unsigned ? int64_t(std::max(x, y)) : std::max(a, b);
    case index_of<EQ>:
      return a == b;
    case index_of<NE>:
      return a != b;
    case index_of<LT>:
      return is_unsigned ? x < y : a < b;
    case index_of<LE>:
      return is_unsigned ? x <= y : a <= b;
    case index_of<GT>:
      return is_unsigned ? x > y : a > b;
    case index_of<GE>:
      return is_unsigned ? x >= y : a >= b;
    case index_of<And>:
      return (a != 0) && (b != 0);
    case index_of<Or>:
      return (a != 0) || (b != 0);
  }
  throw InternalError("no such integer operation");
}

bool unsigned_like(DataType t) { return t.is_uint() || t.is_bool(); }

uint64_t float_bits(double v, DataType t) {
  if (t.bits == 64) return std::bit_cast<uint64_t>(v);
  if (t.code == TypeCode::Float && t.bits == 32) return std::bit_cast<uint32_t>(float(v));
  if (t.code == TypeCode::Float) return float_to_f16(float(v));
  if (t.code == TypeCode::BFloat) return float_to_bf16(float(v));
  return float_to_fp8(float(v), t.code);
}
double float_of_bits(uint64_t b, DataType t) {
  if (t.bits == 64) return std::bit_cast<double>(b);
  if (t.code == TypeCode::Float && t.bits == 32) return std::bit_cast<float>(uint32_t(b));
  if (t.code == TypeCode::Float) return f16_to_float(uint16_t(b));
  if (t.code == TypeCode::BFloat) return bf16_to_float(uint16_t(b));
  return fp8_to_float(uint8_t(b), t.code);
}

}  // namespace

double round_to(double v, DataType t) {
  if (t.bits == 64) return v;
  if (t.code == TypeCode::Float && t.bits == 32) return float(v);
  return float_of_bits(float_bits(v, t), t);
}

Lanes Arithmetic::binary(uint32_t node, const Lanes& a, const Lanes& b, DataType result) const {
  Lanes out(result);
  const DataType t = a.type;
  for (size_t i = 0; i < out.size(); ++i) {
    if (!t.is_float())
      out[i].i = wrap(int_op(node, a[i].i, b[i].i, unsigned_like(t)), result);
    else if (result.is_bool())
      out[i].i = float_test(node, a[i].d, b[i].d);
    else
      out[i].d = round(float_op(node, a[i].d, b[i].d), result);
  }
  return out;
}

Lanes Arithmetic::cast(const Lanes& v, DataType to) const {
  Lanes out(to);
  for (size_t i = 0; i < out.size(); ++i) {
    const Lane& x = v[v.size() == 1 ? 0 : i];
    if (v.type.is_float()) {
      if (to.is_float())
        out[i].d = round(x.d, to);
      else if (to.is_bool())
        out[i].i = x.d != 0;  // NaN is not zero
      else {
        // Saturates; NaN gives 0. Bounds as doubles: the upper one is exclusive.
        const double low = to.is_uint() ? 0 : -std::ldexp(1.0, to.bits - 1),
                     high = std::ldexp(1.0, to.is_uint() ? to.bits : to.bits - 1);
        const double r = std::trunc(x.d);
        if (std::isnan(r))
          out[i].i = 0;
        else if (r < low)
          out[i].i = to.is_uint() ? 0 : int64_t(low);
        else if (r >= high)
          out[i].i = to.is_uint()    ? (to.bits == 64 ? -1 : int64_t(high) - 1)
                     : to.bits == 64 ? INT64_MAX
                                     : int64_t(high) - 1;
        else
          out[i].i = to.is_uint() && to.bits == 64 ? int64_t(uint64_t(r)) : int64_t(r);
      }
    } else {
      const bool is_unsigned = unsigned_like(v.type);
      if (!to.is_float())
        out[i].i = wrap(x.i, to);
      else if (to == f32 && !float64)
        out[i].d = is_unsigned ? float(uint64_t(x.i)) : float(x.i);
      else
        out[i].d = round(is_unsigned ? double(uint64_t(x.i)) : double(x.i), to);
    }
  }
  return out;
}

Lanes Arithmetic::dot(Lanes acc, const Lanes& a, const Lanes& b, int64_t group) const {
  CHECK(group > 0, "a dot product of types that do not fit");
  const DataType t = acc.type.element();
  for (size_t l = 0; l < acc.size(); ++l)
    for (size_t q = 0; q < size_t(group); ++q) {
      const Lane &x = a[a.size() == size_t(group) ? q : l * size_t(group) + q],
                 &y = b[b.size() == size_t(group) ? q : l * size_t(group) + q];
      if (t.is_float())
        acc[l].d = round(acc[l].d + x.d * y.d, t);
      else
        acc[l].i = wrap(acc[l].i + x.i * y.i, t);
    }
  return acc;
}

Lanes Arithmetic::intrinsic(const Intrinsic& op, const std::vector<Lanes>& args, DataType result) const {
  Lanes out(result);
  const DataType t = args.empty() ? result : args[0].type;
  const std::string_view name = op.name.substr(4);
  for (size_t i = 0; i < out.size(); ++i) {
    auto lane = [&](size_t k) -> const Lane& { return args[k][args[k].size() == 1 ? 0 : i]; };
    if (name == "undef") continue;
    if (name == "reinterpret") {
      const uint64_t bits =
          t.is_float() ? float_bits(lane(0).d, t)
                       : uint64_t(lane(0).i) & (t.bits == 64 ? ~uint64_t(0) : (uint64_t(1) << t.bits) - 1);
      if (result.is_float())
        out[i].d = float_of_bits(bits, result);
      else
        out[i].i = wrap(int64_t(bits), result);
      continue;
    }
    if (t.is_float()) {
      if (name == "nextafter") {
        out[i].d = t.bits == 32 ? double(std::nextafter(float(lane(0).d), float(lane(1).d)))
                                : std::nextafter(lane(0).d, lane(1).d);
        continue;
      }
      CHECK(op.evaluate, "intrinsic without a floating meaning: " + std::string(op.name));
      double x[3];
      for (size_t k = 0; k < args.size(); ++k) x[k] = args[k].type.is_float() ? lane(k).d : double(lane(k).i);
      const double v = name == "fma" && t == f32 && !float64
                           ? double(std::fmaf(float(x[0]), float(x[1]), float(x[2])))
                           : op.evaluate(x);
      if (result.is_float()) {
        out[i].d = round(v, result);
      } else {
        Lanes whole(t.element(), v);
        out[i].i = cast(whole, result.element())[0].i;
      }
      continue;
    }
    const int64_t x = lane(0).i, y = args.size() > 1 ? lane(1).i : 0;
    const uint64_t mask = t.bits == 64 ? ~uint64_t(0) : (uint64_t(1) << t.bits) - 1;
    int64_t v = 0;
    if (name == "shift_left")
      v = uint64_t(y) >= t.bits ? 0 : int64_t(uint64_t(x) << y);
    else if (name == "shift_right")
      v = t.is_uint() ? (uint64_t(y) >= t.bits ? 0 : int64_t((uint64_t(x) & mask) >> y))
                      : x >> (uint64_t(y) >= t.bits ? 63 : y);
    else if (name == "bitwise_and")
      v = x & y;
    else if (name == "bitwise_or")
      v = x | y;
    else if (name == "bitwise_xor")
      v = x ^ y;
    else if (name == "bitwise_not")
      v = t.is_bool() ? !x : ~x;
    else if (name == "popcount")
      v = std::popcount(uint64_t(x) & mask);
    else if (name == "lookup")
      v = int64_t(uint64_t(lane(1 + size_t(x & 0xff) / 4).i) >> (8 * (x & 3)) & 0xff);
    else if (name == "clz")
      v = std::countl_zero(uint64_t(x) & mask) - (64 - t.bits);
    else if (name == "abs")
      v = t.is_int() && x < 0 ? int64_t(0 - uint64_t(x)) : x;
    else if (name == "pow") {
      uint64_t power = 1, square = uint64_t(x);  // a negative exponent gives 1
      for (int64_t k = y; k > 0; k >>= 1, square *= square)
        if (k & 1) power *= square;
      v = int64_t(power);
    } else if (name == "isnan" || name == "isinf")
      v = 0;
    else if (name == "isfinite")
      v = 1;
    else if (name == "floor" || name == "ceil" || name == "round" || name == "trunc")
      v = x;
    else
      throw Error(ErrorKind::model, "T0350",
                  "`" + std::string(op.name) + "` is not defined for " + to_string(t));
    out[i].i = wrap(v, result);
  }
  return out;
}

Lanes Arithmetic::reduce_lanes(const std::string& op, Lanes v) const {
  const uint32_t node = op == "tir.vector_reduce_add"   ? index_of<Add>
                        : op == "tir.vector_reduce_max" ? index_of<Max>
                                                        : index_of<Min>;
  const DataType t = v.type.element();
  std::vector<Lane> lanes;
  for (size_t i = 0; i < v.size(); ++i) lanes.push_back(v[i]);
  while (lanes.size() > 1) {
    const size_t half = lanes.size() / 2;
    for (size_t i = 0; i < half; ++i) {
      Lanes a(t), b(t);
      a[0] = lanes[i];
      b[0] = lanes[i + half];
      lanes[i] = binary(node, a, b, t)[0];
    }
    if (lanes.size() % 2) lanes[half] = lanes.back();
    lanes.resize(half + lanes.size() % 2);
  }
  Lanes out(t);
  out[0] = lanes[0];
  return out;
}

}  // namespace tenon::interpret_detail
