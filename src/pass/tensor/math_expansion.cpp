// SPDX-License-Identifier: Apache-2.0
// Exponentials, logarithms and what follows from them, over float32. Range reduction is Cody and Waite's, the
// polynomials are minimax fits (those of exp, log and their kin are the classical single precision ones).
#include "pass/tensor/math_expansion.h"

#include <cmath>
#include <limits>
#include <unordered_map>
#include <vector>

#include "ir/walk.h"

namespace tenon::tensor_detail {

using namespace tir;
using E = PrimExpr;

namespace {
constexpr double kLn2High = 0.693359375, kLn2Low = -2.121944400546905827679e-4;  // high part: 10 bits
constexpr double kRoundF32 = 12582912.0;  // 1.5 · 2^23: adding it rounds to an integer

bool is_leaf(const E& e) {
  if (const auto* b = e.as<Broadcast>()) return is_leaf(b->value);
  return e.is<IntImm>() || e.is<FloatImm>() || e.is<Var>();
}
}  // namespace

// ---------------------------------------------------------------- nodes
E add(const E& a, const E& b) { return make<Add>(a, b); }
E sub(const E& a, const E& b) { return make<Sub>(a, b); }
E mul(const E& a, const E& b) { return make<Mul>(a, b); }
E quotient(const E& a, const E& b) { return make<Div>(a, b); }
E pick(const E& c, const E& a, const E& b) { return make<Select>(c, a, b); }
E less(const E& a, const E& b) { return make<LT>(a, b); }
E same(const E& a, const E& b) { return make<EQ>(a, b); }
E differ(const E& a, const E& b) { return make<NE>(a, b); }
E both(const E& a, const E& b) { return make<And>(a, b); }
E either(const E& a, const E& b) { return make<Or>(a, b); }
E negate(const E& c) { return make<Not>(c); }
E intrin(const char* name, const E& a) { return call(a.dtype(), name, {a}); }
E intrin(const char* name, const E& a, const E& b) { return call(a.dtype(), name, {a, b}); }
E magnitude(const E& x) { return intrin("tir.abs", x); }
E with_sign(const E& x, const E& sign) { return intrin("tir.copysign", x, sign); }
E bits(const E& x) {
  const DataType t = x.dtype();
  return call(DataType::int_(t.bits, t.lanes), "tir.reinterpret", {x});
}
E number(const E& x) {
  const DataType t = x.dtype();
  return call(DataType::float_(t.bits, t.lanes), "tir.reinterpret", {x});
}
E lanes_of(DataType element, const E& like, int64_t v) {
  const int lanes = like.dtype().lanes;
  const E one = E::int_imm(v, element);
  return lanes == 1 ? one : E(make<Broadcast>(one, int64_t(lanes)));
}
E minus(const E& x) {
  const int width = x.dtype().bits;
  const E sign = lanes_of(DataType::int_(width), x, width == 64 ? INT64_MIN : INT32_MIN);
  return number(intrin("tir.bitwise_xor", bits(x), sign));
}
E to_f64(const E& x) { return cast(f64.with_lanes(x.dtype().lanes), x); }
E to_f32(const E& x) { return cast(f32.with_lanes(x.dtype().lanes), x); }
E to_i32(const E& x) { return cast(i32.with_lanes(x.dtype().lanes), x); }
E shift_left(const E& x, int by) { return intrin("tir.shift_left", x, lanes_of(x.dtype().element(), x, by)); }
E shift_right(const E& x, int by) {
  return intrin("tir.shift_right", x, lanes_of(x.dtype().element(), x, by));
}

E share(const E& root) {
  std::unordered_map<const Object*, int> uses;
  std::vector<E> order;  // operands before their users
  std::vector<std::pair<E, bool>> todo{{root, false}};
  auto operands = [](const E& e, auto&& visit) {
    if (e.is<Let>()) return;
    for (const ObjectRef& c : children(e))
      if (c.is<PrimExprNode>()) visit(E(c.cast<PrimExprNode>()));
  };
  while (!todo.empty()) {
    auto [e, done] = todo.back();
    todo.pop_back();
    if (done) {
      order.push_back(e);
      continue;
    }
    if (is_leaf(e) || ++uses[e.get()] > 1) continue;
    todo.emplace_back(e, true);
    operands(e, [&](const E& c) { todo.emplace_back(c, false); });
  }
  std::unordered_map<const Object*, E> now;
  std::vector<std::pair<VarRef, E>> named;
  auto current = [&](const ObjectRef& c) -> ObjectRef {
    auto it = now.find(c.get());
    return it == now.end() ? c : ObjectRef(it->second);
  };
  for (const E& e : order) {
    const E rebuilt = e.is<Let>() ? e : E(map_children(e, current).cast<PrimExprNode>());
    if (uses[e.get()] > 1) {
      const VarRef v = var("t", e.dtype());
      named.emplace_back(v, rebuilt);
      now[e.get()] = v;
    } else {
      now[e.get()] = rebuilt;
    }
  }
  E out = is_leaf(root) ? root : now[root.get()];
  for (size_t k = named.size(); k-- > 0;) out = make<Let>(named[k].first, named[k].second, out);
  return out;
}

E MathExpansion::f(const E& like, double v) const {
  const DataType t = like.dtype();
  const E one = E::float_imm(v, t.bits == 64 ? f64 : f32);
  return t.lanes == 1 ? one : E(make<Broadcast>(one, int64_t(t.lanes)));
}
E MathExpansion::i(const E& like, int64_t v) const { return lanes_of(i32, like, v); }
E MathExpansion::wide(const E& like, int64_t v) const { return lanes_of(i64, like, v); }
E MathExpansion::fma(const E& a, const E& b, const E& c) const {
  return fma_ ? call(a.dtype(), "tir.fma", {a, b, c}) : add(mul(a, b), c);
}
E MathExpansion::fused(const E& a, const E& b, const E& c) const {
  return fma_ ? fma(a, b, c) : to_f32(add(mul(to_f64(a), to_f64(b)), to_f64(c)));
}
E MathExpansion::poly(const E& x, std::initializer_list<double> high_first) const {
  E sum;
  for (double c : high_first) sum = sum ? fma(sum, x, f(x, c)) : f(x, c);
  return sum;
}
/// The last steps of a polynomial in double, then times `by` plus `rest`: where nothing is fused, their
/// roundings would come near half a unit.
static E last_steps(const E& p, const E& z, std::initializer_list<E> coefficients, const E& by,
                    const E& rest) {
  E sum = to_f64(p);
  for (const E& c : coefficients) sum = add(mul(sum, to_f64(z)), to_f64(c));
  return add(mul(sum, by), to_f64(rest));
}
E MathExpansion::clamp(const E& x, double low, double high) const {
  const E a = pick(less(x, f(x, low)), f(x, low), x);
  return pick(less(f(x, high), a), f(x, high), a);
}

// ---------------------------------------------------------------- exponentials
/// 2^n · p, by an instruction or in two exact steps: overflow and subnormals round once.
E MathExpansion::scale(const E& p, const E& n) const {
  if (scales_) return call(p.dtype(), "tir.ldexp", {p, n});
  const E half = shift_right(n, 1), rest = sub(n, half);
  auto power = [&](const E& k) { return number(shift_left(add(k, i(k, 127)), 23)); };
  return mul(mul(p, power(half)), power(rest));
}
MathExpansion::Reduced MathExpansion::reduce_exp(const E& x) const {
  const E t = fma(x, f(x, kLog2e), f(x, kRoundF32)), n = sub(t, f(x, kRoundF32));
  E r = fma(n, f(x, -kLn2High), x);
  r = fma(n, f(x, -kLn2Low), r);
  return {sub(bits(t), i(x, 0x4b400000)), r};
}
namespace {
/// (e^r - 1 - r) / r²
constexpr std::initializer_list<double> kExpTail = {1.9875691500e-4, 1.3981999507e-3, 8.3334519073e-3,
                                                    4.1665795894e-2, 1.6666665459e-1, 5.0000001201e-1};
}  // namespace
E MathExpansion::exp_poly(const E& r) const { return fma(poly(r, kExpTail), mul(r, r), r); }
E MathExpansion::exp_of(const E& r) const {
  const E tail = poly(r, kExpTail), one = f(r, 1);
  if (fma_) return fma(fma(tail, r, one), r, one);
  const E sum = add(one, r), lost = sub(r, sub(sum, one));
  return add(sum, add(mul(tail, mul(r, r)), lost));
}
E MathExpansion::exp(const E& x) const {
  const auto [n, r] = reduce_exp(clamp(x, -110, 100));
  return scale(exp_of(r), n);
}
E MathExpansion::exp2(const E& x, bool ten) const {
  const E a = ten ? clamp(x, -50, 42) : clamp(x, -160, 140);
  const E t = fma(a, f(x, ten ? 3.321928094887362 : 1), f(x, kRoundF32)), n = sub(t, f(x, kRoundF32));
  E r;
  if (ten) {  // log10(2) in two parts, the first of 9 bits
    r = fma(n, f(x, -0.30078125), a);
    r = fma(n, f(x, -2.4874566398119521e-4), r);
    r = mul(r, f(x, 2.302585092994046));
  } else {
    r = mul(sub(a, n), f(x, kLn2));
  }
  return scale(exp_of(r), sub(bits(t), i(x, 0x4b400000)));
}
E MathExpansion::expm1(const E& x) const {
  const auto [n, r] = reduce_exp(clamp(x, -30, 100));
  const E p = exp_poly(r);
  // 2^n·p + (2^n - 1), with one halving where 2^n itself would overflow.
  const E big = less(i(x, 127), n);
  E m = sub(n, pick(big, i(x, 1), i(x, 0)));
  m = pick(less(i(x, 127), m), i(x, 128), m);
  const E s = number(shift_left(add(m, i(x, 127)), 23)), one = pick(big, f(x, 0.5), f(x, 1));
  E y = mul(fma(s, p, sub(s, one)), pick(big, f(x, 2), f(x, 1)));
  y = pick(less(f(x, 88.722835), x), f(x, kInf), y);
  return pick(same(x, f(x, 0)), x, y);
}
E MathExpansion::sigmoid(const E& x) const {
  const E e = exp(minus(magnitude(x))), top = pick(less(x, f(x, 0)), e, f(x, 1));
  return quotient(top, add(e, f(x, 1)));
}
E MathExpansion::tanh(const E& x) const {
  const E all = magnitude(x), a = pick(less(f(x, 10), all), f(x, 10), all), z = mul(a, a);
  const E p = poly(z, {-4.5570809743367136e-4, 2.583423163741827e-3, -8.265454322099686e-3,
                       2.166409231722355e-2, -5.392947420477867e-2, 1.3332980871200562e-1});
  const E last = f(x, -3.3333322405815125e-1);
  const E low = fma_ ? fma(mul(fma(p, z, last), z), a, a)
                     : to_f32(last_steps(p, z, {last}, mul(to_f64(z), to_f64(a)), a));
  // 1 - 2 / (2^n·(1 + q) + 1), where the exponential itself is never rounded.
  const auto [n, r] = reduce_exp(add(a, a));
  const E s = number(shift_left(add(n, i(x, 127)), 23));
  const E d = fma(s, exp_poly(r), add(s, f(x, 1)));
  const E high = sub(f(x, 1), quotient(f(x, 2), d));
  return with_sign(pick(less(a, f(x, 0.9)), low, high), x);
}
E MathExpansion::sinh(const E& x) const {
  const E a = magnitude(x), h = exp(mul(a, f(x, 0.5))), big = mul(mul(h, f(x, 0.5)), h);
  const E e = expm1(a), y = mul(add(e, quotient(e, add(e, f(x, 1)))), f(x, 0.5));
  return with_sign(pick(less(f(x, 80), a), big, y), x);
}
E MathExpansion::cosh(const E& x) const {
  const E a = magnitude(x), h = exp(mul(a, f(x, 0.5))), big = mul(mul(h, f(x, 0.5)), h);
  const E e = exp(a), y = fma(e, f(x, 0.5), quotient(f(x, 0.5), e));
  return pick(less(f(x, 80), a), big, y);
}
E MathExpansion::erf(const E& x) const {
  const E all = magnitude(x), a = pick(less(f(x, 3.95), all), f(x, 3.95), all), z = mul(x, x);
  const E q = poly(z, {7.806903886375949e-5, -7.997853099368513e-4, 5.187162198126316e-3,
                       -2.6853347197175026e-2, 1.1283578723669052e-1});
  const E last = f(x, -3.761262595653534e-1), first = f(x, 1.2837916612625122e-1);
  const E low = fma_ ? fma(fma(fma(q, z, last), z, first), x, x)
                     : to_f32(last_steps(q, z, {last, first}, to_f64(x), x));
  // 1 - e^(g·a) as 1 - 2^n - 2^n·q: the exponential itself is never rounded.
  const E g = poly(a, {2.1064706379547715e-4, -3.186976769939065e-3, 2.2798558697104454e-2,
                       -1.0511629283428192e-1, -6.35831356048584e-1, -1.128480076789856});
  // The product is not rounded before its multiple of ln 2 is taken away.
  const E t = fma(mul(g, a), f(x, kLog2e), f(x, kRoundF32)), whole = sub(t, f(x, kRoundF32));
  const E n = sub(bits(t), i(x, 0x4b400000));
  const E r = fma(whole, f(x, -kLn2Low), fused(g, a, mul(whole, f(x, -kLn2High))));
  const E s = number(shift_left(add(n, i(x, 127 + 256)), 23));  // -2^n: the carry is the sign
  const E high = fma(s, exp_poly(r), add(s, f(x, 1)));
  return pick(less(a, f(x, 1)), low, with_sign(high, x));
}

// ---------------------------------------------------------------- logarithms
MathExpansion::Log MathExpansion::log_parts(const E& given) const {
  const E tiny = less(given, f(given, 1.1754943508222875e-38)),
          x = pick(tiny, mul(given, f(given, 8388608.0)), given);
  constexpr int64_t root_half = 0x3f3504f3;  // mantissas lie in [sqrt(1/2), sqrt(2))
  const E k = sub(bits(x), i(x, root_half));
  const E e = sub(shift_right(k, 23), pick(tiny, i(x, 23), i(x, 0)));
  const E m = number(add(intrin("tir.bitwise_and", k, i(x, 0x7fffff)), i(x, root_half)));
  const E r = sub(m, f(x, 1)), z = mul(r, r);
  const E q = poly(r, {7.0376836292e-2, -1.1514610310e-1, 1.1676998740e-1, -1.2420140846e-1, 1.4249322787e-1,
                       -1.6668057665e-1, 2.0000714765e-1, -2.4999993993e-1, 3.3333331174e-1});
  const E y = mul(mul(q, r), z);
  return {to_f32(e), r, fma(z, f(x, -0.5), y)};
}
E MathExpansion::log_special(const E& x, const E& y) const {
  E r = pick(less(x, f(x, kInf)), y, x);  // infinity and NaN
  r = pick(less(x, f(x, 0)), f(x, kNaN), r);
  return pick(same(x, f(x, 0)), f(x, -kInf), r);
}
E MathExpansion::log(const E& x) const {
  const auto [e, r, y] = log_parts(x);
  // The sum of the exact product and r keeps what it rounds away.
  const E whole = mul(e, f(x, kLn2High)), sum = add(whole, r), lost = sub(r, sub(sum, whole));
  return log_special(x, add(sum, add(fma(e, f(x, kLn2Low), y), lost)));
}
E MathExpansion::log_base(const E& x, bool ten) const {
  const auto [e, r, y] = log_parts(x);
  E s;
  if (ten) {
    s = mul(y, f(x, 7.00731903251827651129e-4));
    s = fma(r, f(x, 7.00731903251827651129e-4), s);
    s = fma(e, f(x, 2.48745663981195213739e-4), s);
    s = fma(y, f(x, 4.3359375e-1), s);
    s = fma(r, f(x, 4.3359375e-1), s);
    s = fma(e, f(x, 3.0078125e-1), s);
  } else {
    s = mul(y, f(x, kLog2e - 1));
    s = fma(r, f(x, kLog2e - 1), s);
    s = add(add(add(s, y), r), e);
  }
  return log_special(x, s);
}
E MathExpansion::log1p(const E& x) const {
  // The rounding of 1 + x is undone by the factor x / (u - 1).
  const E u = add(x, f(x, 1)), d = sub(u, f(x, 1));
  E y = mul(log(u), quotient(x, d));
  y = pick(same(d, f(x, 0)), x, y);
  return pick(same(x, f(x, kInf)), x, y);
}
E MathExpansion::asinh(const E& x) const {
  const E a = magnitude(x), s = mul(a, a), root = intrin("tir.sqrt", add(s, f(x, 1)));
  const E low = log1p(add(a, quotient(s, add(root, f(x, 1))))), high = add(log(a), f(x, kLn2));
  return with_sign(pick(less(f(x, 1e4), a), high, low), x);
}
E MathExpansion::acosh(const E& x) const {
  const E t = sub(x, f(x, 1)), root = intrin("tir.sqrt", mul(t, add(t, f(x, 2))));
  const E low = log1p(add(t, root)), high = add(log(x), f(x, kLn2));
  return pick(less(x, f(x, 1)), f(x, kNaN), pick(less(f(x, 1e4), x), high, low));
}
E MathExpansion::atanh(const E& x) const {
  const E a = magnitude(x), q = quotient(add(a, a), sub(f(x, 1), a));
  return with_sign(mul(log1p(q), f(x, 0.5)), x);
}

// ---------------------------------------------------------------- names
E MathExpansion::unary(std::string_view name, const E& x) const {
  if (name == "exp") return exp(x);
  if (name == "exp2") return exp2(x, false);
  if (name == "exp10") return exp2(x, true);
  if (name == "expm1") return expm1(x);
  if (name == "log") return log(x);
  if (name == "log2") return log_base(x, false);
  if (name == "log10") return log_base(x, true);
  if (name == "log1p") return log1p(x);
  if (name == "tanh") return tanh(x);
  if (name == "sigmoid") return sigmoid(x);
  if (name == "erf") return erf(x);
  if (name == "sin") return trig(x, Trig::sine);
  if (name == "cos") return trig(x, Trig::cosine);
  if (name == "tan") return trig(x, Trig::tangent);
  if (name == "asin") return asin(x, false);
  if (name == "acos") return asin(x, true);
  if (name == "atan") return atan(x);
  if (name == "sinh") return sinh(x);
  if (name == "cosh") return cosh(x);
  if (name == "asinh") return asinh(x);
  if (name == "acosh") return acosh(x);
  if (name == "atanh") return atanh(x);
  if (name == "rsqrt") return quotient(f(x, 1), intrin("tir.sqrt", x));
  return {};
}
E MathExpansion::binary(std::string_view name, const E& x, const E& y) const {
  if (name == "pow") return pow(x, y);
  if (name == "atan2") return atan2(x, y);
  if (name == "hypot") return hypot(x, y);
  if (name == "nextafter") return nextafter(x, y);
  if (name == "fmod") return fmod(x, y);
  return {};
}

}  // namespace tenon::tensor_detail
