// SPDX-License-Identifier: Apache-2.0
// Functions of float32 whose expansion needs float64 on the way (angles, powers), and those of triangles.
#include <cmath>
#include <limits>
#include <optional>

#include "pass/tensor/math_expansion.h"

namespace tenon::tensor_detail {

using namespace tir;
using E = PrimExpr;

namespace {
constexpr double kPi = 3.141592653589793;
constexpr double kRoundF64 = 6755399441055744.0;  // 1.5 · 2^52: adding it rounds to an integer

std::optional<double> constant(const E& e) {
  if (const auto* b = e.as<Broadcast>()) return constant(b->value);
  const auto* n = e.as<FloatImm>();
  return n ? std::optional(n->value) : std::nullopt;
}
}  // namespace

// ---------------------------------------------------------------- angles
/// Any finite x in quarter turns: x · 2/pi, where of 2/pi only what stands below a whole number of turns is
/// used. x is taken 24 binary digits of its exponent at a time; for each of the five windows the constant is
/// three parts, of which the first two give exact products.
MathExpansion::Reduced MathExpansion::reduce_far(const E& x) const {
  struct Window {
    double from, scale, high, middle, low;
  };
  static constexpr Window windows[] = {
      {0, 1, 0x1.45f306cp-1, 0x1.c9c882ap-29, 0x1.4fe13abe8fa9ap-59},
      {0x1p47, 0x1p-24, 0x1.b72722p+1, 0x1.529fc27p-28, 0x1.5f47d4d377037p-58},
      {0x1p71, 0x1p-48, 0x1.529fc2p-4, 0x1.d5f47d4p-30, 0x1.a6ee06db14acdp-59},
      {0x1p95, 0x1p-72, 0x1.3abe8fp-3, 0x1.534ddcp-28, 0x1.b6c52b3278872p-57},
      {0x1p119, 0x1p-96, 0x1.f534ddcp+0, 0x1.b6c52ap-33, 0x1.3278872083fcap-57}};
  const E d = to_f64(x), a = magnitude(x);
  E scale = f(d, 1), high = f(d, windows[0].high), middle = f(d, windows[0].middle),
    low = f(d, windows[0].low);
  for (const Window& w : windows) {
    if (w.from == 0) continue;
    const E here = negate(less(a, f(a, w.from)));
    scale = pick(here, f(d, w.scale), scale);
    high = pick(here, f(d, w.high), high);
    middle = pick(here, f(d, w.middle), middle);
    low = pick(here, f(d, w.low), low);
  }
  auto whole = [&](const E& v) { return sub(add(v, f(d, kRoundF64)), f(d, kRoundF64)); };
  auto turn = [&](const E& v) { return sub(v, mul(whole(mul(v, f(d, 0.25))), f(d, 4))); };
  const E y = mul(d, scale), p = turn(mul(y, high)), q = turn(mul(y, middle)), s = mul(y, low);
  const E shifted = add(add(p, q), f(d, kRoundF64)), n = sub(shifted, f(d, kRoundF64));
  const E fraction = add(add(sub(p, n), q), s);
  return {to_i32(bits(shifted)), mul(fraction, f(d, kPi / 2))};
}

/// The function at quadrant · pi/2 + r, |r| ≤ pi/4 in float64.
E MathExpansion::trig_of(const E& r, const E& quadrant, const E& x, Trig which) const {
  const E a = to_f32(r), rest = to_f32(sub(r, to_f64(a))), z = mul(a, a);
  E s = poly(z, {-1.9515295891e-4, 8.3321608736e-3, -1.6666654611e-1});
  s = pick(same(a, f(x, 0)), a, add(a, fma(mul(s, z), a, rest)));
  E c = poly(z, {2.443315711809948e-5, -1.388731625493765e-3, 4.166664568298827e-2});
  // 1 - z/2 keeps what it rounds away.
  const E half = mul(z, f(x, 0.5)), w = sub(f(x, 1), half), lost = sub(sub(f(x, 1), w), half);
  c = add(w, add(lost, sub(mul(mul(c, z), z), mul(a, rest))));
  const E q = which == Trig::cosine ? add(quadrant, i(x, 1)) : quadrant;
  const E odd = differ(intrin("tir.bitwise_and", q, i(x, 1)), i(x, 0));
  if (which == Trig::tangent) return quotient(pick(odd, minus(c), s), pick(odd, s, c));
  const E flip = shift_left(intrin("tir.bitwise_and", q, i(x, 2)), 30);
  return number(intrin("tir.bitwise_xor", bits(pick(odd, c, s)), flip));
}

E MathExpansion::trig(const E& x, Trig which) const {
  // Reduction by multiples of pi/2; lanes beyond its reach (and infinities) go another, longer way, behind a
  // branch that is hardly ever taken.
  const double reach = fma_ ? 0x1p46 : 0x1p20;
  const E d = to_f64(x), t = add(mul(d, f(d, 2 / kPi)), f(d, kRoundF64)), n = sub(t, f(d, kRoundF64));
  E r;
  if (fma_) {
    r = fma(n, f(d, -1.5707963267948966), d);
    r = fma(n, f(d, -6.123233995736766e-17), r);
  } else {
    r = fma(n, f(d, -1.57079632673412561417), d);  // 33 bits: exact products
    r = fma(n, f(d, -6.07710050650619224932e-11), r);
  }
  const E near = trig_of(r, to_i32(bits(t)), x, which);
  const auto [quadrant, rest] = reduce_far(x);
  const E far = share(trig_of(rest, quadrant, x, which));
  return call(x.dtype(), "tir.select_rare", {less(f(x, reach), magnitude(x)), far, near});
}

E MathExpansion::atan(const E& x) const {
  const E a = magnitude(x), large = less(f(x, 2.414213562373095), a),
          middle = less(f(x, 0.4142135623730950), a);
  const E top = pick(large, f(x, -1), pick(middle, sub(a, f(x, 1)), a));
  const E bottom = pick(large, a, pick(middle, add(a, f(x, 1)), f(x, 1)));
  const E offset = pick(large, f(x, kPi / 2), pick(middle, f(x, kPi / 4), f(x, 0)));
  const E r = quotient(top, bottom), z = mul(r, r);
  const E p = poly(z, {8.05374449538e-2, -1.38776856032e-1, 1.99777106478e-1, -3.33329491539e-1});
  return with_sign(add(offset, fma(mul(p, z), r, r)), x);
}
E MathExpansion::atan2(const E& y, const E& x) const {
  const E a = magnitude(y), b = magnitude(x), steep = less(b, a);
  const E top = pick(steep, b, a), bottom = pick(steep, a, b);
  const E ratio = pick(same(top, bottom), pick(same(top, f(x, 0)), f(x, 0), f(x, 1)),
                       quotient(top, bottom));  // 0/0, inf/inf
  const E angle = atan(ratio), first = pick(steep, sub(f(x, kPi / 2), angle), angle);
  const E r = pick(less(bits(x), i(x, 0)), sub(f(x, kPi), first), first);
  return pick(either(differ(x, x), differ(y, y)), f(x, kNaN), with_sign(r, y));
}
E MathExpansion::asin(const E& x, bool acos) const {
  const E a = magnitude(x), steep = less(f(x, 0.5), a);
  const E z = pick(steep, mul(sub(f(x, 1), a), f(x, 0.5)), mul(a, a));
  const E r = pick(steep, intrin("tir.sqrt", z), a);
  E p = poly(z, {4.2163199048e-2, 2.4181311049e-2, 4.5470025998e-2, 7.4953002686e-2, 1.6666752422e-1});
  p = fma(mul(p, z), r, r);  // arc sine of r
  const E twice = add(p, p);
  if (!acos) return with_sign(pick(steep, sub(f(x, kPi / 2), twice), p), x);
  const E far = pick(less(x, f(x, 0)), sub(f(x, kPi), twice), twice);
  return pick(steep, far, sub(f(x, kPi / 2), with_sign(p, x)));
}

// ---------------------------------------------------------------- two arguments
E MathExpansion::pow(const E& x, const E& y) const {
  if (auto c = constant(y)) {
    if (*c == 1) return x;
    if (*c == 2) return mul(x, x);
    if (*c == 3) return mul(mul(x, x), x);
    if (*c == 4) return mul(mul(x, x), mul(x, x));
    if (*c == -1) return quotient(f(x, 1), x);
    if (*c == 0.5) {
      const E root = intrin("tir.sqrt", add(x, f(x, 0)));
      return pick(same(x, f(x, -kInf)), f(x, kInf), root);
    }
  }
  // |x|^y = 2^(y · log2 |x|) in double precision.
  const E d = to_f64(magnitude(x));
  const E k = sub(bits(d), wide(x, 0x3fe6a09e667f3bcd)), e = shift_right(k, 52);
  const E m =
      number(add(intrin("tir.bitwise_and", k, wide(x, 0xfffffffffffff)), wide(x, 0x3fe6a09e667f3bcd)));
  const E s = quotient(sub(m, f(d, 1)), add(m, f(d, 1))), z = mul(s, s);
  const E series =
      poly(z, {1.0 / 19, 1.0 / 17, 1.0 / 15, 1.0 / 13, 1.0 / 11, 1.0 / 9, 1.0 / 7, 1.0 / 5, 1.0 / 3, 1.0});
  E l = fma(mul(s, f(d, 2 * kLog2e)), series, to_f64(to_i32(e)));
  l = pick(same(d, f(d, 0)), f(d, -kInf), pick(same(d, f(d, kInf)), f(d, kInf), l));
  const E t = clamp(mul(to_f64(y), l), -200, 200);
  const E shifted = add(t, f(d, kRoundF64)), n = sub(shifted, f(d, kRoundF64)),
          r = mul(sub(t, n), f(d, kLn2));
  const E p = poly(r, {1.0 / 39916800, 1.0 / 3628800, 1.0 / 362880, 1.0 / 40320, 1.0 / 5040, 1.0 / 720,
                       1.0 / 120, 1.0 / 24, 1.0 / 6, 0.5, 1, 1});
  const E power = number(shift_left(add(bits(shifted), wide(x, 1023)), 52));
  E result = to_f32(mul(p, power));
  // Signs and special cases as C has them.
  const E whole = same(intrin("tir.trunc", y), y), half = mul(y, f(y, 0.5));
  const E odd = both(whole, differ(intrin("tir.trunc", half), half));
  const E sign = intrin("tir.bitwise_and", bits(x), i(x, INT32_MIN));
  result = pick(odd, number(intrin("tir.bitwise_or", bits(result), sign)), result);
  // A negative finite base has no power that is no integer.
  E undefined = both(both(less(x, f(x, 0)), differ(x, f(x, -kInf))), negate(whole));
  undefined = either(undefined, either(differ(x, x), differ(y, y)));
  result = pick(undefined, f(x, kNaN), result);
  const E minus_one = both(same(x, f(x, -1)), same(magnitude(y), f(y, kInf)));
  const E one = either(same(y, f(y, 0)), either(same(x, f(x, 1)), minus_one));
  return pick(one, f(x, 1), result);
}
E MathExpansion::hypot(const E& x, const E& y) const {
  const E a = to_f64(x), b = to_f64(y);
  const E r = to_f32(intrin("tir.sqrt", fma(a, a, mul(b, b))));
  const E infinite = either(same(magnitude(x), f(x, kInf)), same(magnitude(y), f(y, kInf)));
  return pick(infinite, f(x, kInf), r);
}
E MathExpansion::fmod(const E& x, const E& y) const {
  if (!fma_) return {};  // rounded apart, the remainder is not exact
  // A quotient that rounds up to the next integer leaves a remainder below zero, which is exact like any
  // other: a multiple of the last place of y, and not larger than y.
  const double exact = std::ldexp(1, x.dtype().bits == 64 ? std::numeric_limits<double>::digits - 1
                                                          : std::numeric_limits<float>::digits - 1);
  const E a = magnitude(x), b = magnitude(y), q = quotient(a, b);
  const E r = fma(minus(intrin("tir.trunc", q)), b, a), near = pick(less(r, f(x, 0)), add(r, b), r);
  const E holds = both(less(q, f(x, exact)), less(b, f(x, kInf)));
  return call(x.dtype(), "tir.select_rare", {negate(holds), make<Mod>(x, y), with_sign(near, x)});
}
E MathExpansion::nextafter(const E& x, const E& y) const {
  const E n = bits(x), zero = lanes_of(n.dtype().element(), x, 0), one = lanes_of(n.dtype().element(), x, 1);
  const E away = same(less(x, y), negate(less(n, zero)));  // the magnitude grows
  E r = number(pick(away, add(n, one), sub(n, one)));
  r = pick(same(x, f(x, 0)), with_sign(number(one), y), r);
  r = pick(same(x, y), y, r);
  return pick(either(differ(x, x), differ(y, y)), f(x, kNaN), r);
}

}  // namespace tenon::tensor_detail
