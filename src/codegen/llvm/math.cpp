// SPDX-License-Identifier: Apache-2.0
// Expansions over float32: range reduction by Cody and Waite, polynomials, exact scaling. The polynomials of
// erf are minimax fits made for this file; errors are measured by tests/unit/codegen/test_math.cpp.
#include "codegen/llvm/math.h"

#include <llvm/IR/Module.h>

#include <cmath>
#include <limits>

#include "codegen/float_format.h"
namespace tenon::codegen {

using V = llvm::Value*;
namespace {
constexpr double kInf = std::numeric_limits<double>::infinity(),
                 kNaN = std::numeric_limits<double>::quiet_NaN();
constexpr double kLog2e = 1.4426950408889634, kLn2 = 0.6931471805599453, kPi = 3.141592653589793;
constexpr double kLn2High = 0.693359375, kLn2Low = -2.121944400546905827679e-4;  // high part: 10 bits
constexpr double kMagic = 12582912.0;  // 1.5 · 2^23: adding it rounds to an integer

/// Float operations inside an expansion must not be fused or reordered by anyone.
struct Exactly {
  explicit Exactly(llvm::IRBuilder<>& b) : guard(b) { b.clearFastMathFlags(); }
  llvm::IRBuilderBase::FastMathFlagGuard guard;
};
}  // namespace

llvm::Type* MathBuilder::with_lanes(V like, llvm::Type* scalar) const {
  if (auto* v = llvm::dyn_cast<llvm::VectorType>(like->getType()))
    return llvm::VectorType::get(scalar, v->getElementCount());
  return scalar;
}
V MathBuilder::f(V like, double v) const { return llvm::ConstantFP::get(like->getType(), v); }
V MathBuilder::i(V like, int64_t v) const {
  return llvm::ConstantInt::getSigned(with_lanes(like, b_.getInt32Ty()), v);
}

V MathBuilder::fma(V a, V b, V c) {
  return fma_ ? b_.CreateIntrinsic(llvm::Intrinsic::fma, {a->getType()}, {a, b, c})
              : b_.CreateFAdd(b_.CreateFMul(a, b), c);
}
V MathBuilder::poly(V x, std::initializer_list<double> high_first) {
  V sum = nullptr;
  for (double c : high_first) sum = sum ? fma(sum, x, f(x, c)) : f(x, c);
  return sum;
}
V MathBuilder::round(V x) {
  const double magic = x->getType()->getScalarType()->isDoubleTy() ? 6755399441055744.0 : kMagic;
  return b_.CreateFSub(b_.CreateFAdd(x, f(x, magic)), f(x, magic));
}

V MathBuilder::extreme(V a, V b, bool larger) {
  Exactly exactly(b_);
  auto number = [](V v) {
    auto* c = llvm::dyn_cast<llvm::Constant>(v);
    if (c && c->getType()->isVectorTy()) c = c->getSplatValue();
    auto* n = llvm::dyn_cast_or_null<llvm::ConstantFP>(c);
    return n && !n->isNaN();
  };
  // `p > q ? p : q` is one machine instruction and gives q when either is a NaN: with a number as p that is
  // right.
  auto pick = [&](V p, V q) {
    return select(larger ? b_.CreateFCmpOGT(p, q) : b_.CreateFCmpOLT(p, q), p, q);
  };
  if (number(b)) return pick(b, a);
  if (number(a)) return pick(a, b);
  return select(is_nan(a), a, pick(a, b));
}

// ---------------------------------------------------------------- exponentials
V MathBuilder::scale(V p, V n) {
  V half = b_.CreateAShr(n, i(n, 1)), rest = b_.CreateSub(n, half);
  auto power = [&](V k) { return floats(b_.CreateShl(b_.CreateAdd(k, i(k, 127)), i(k, 23))); };
  return b_.CreateFMul(b_.CreateFMul(p, power(half)), power(rest));
}
MathBuilder::Reduced MathBuilder::reduce_exp(V x) {
  V t = fma(x, f(x, kLog2e), f(x, kMagic));
  V n = b_.CreateFSub(t, f(x, kMagic));
  V r = fma(n, f(x, -kLn2High), x);
  r = fma(n, f(x, -kLn2Low), r);
  return {b_.CreateSub(bits(t), bits(f(x, kMagic))), r};
}
V MathBuilder::exp_poly(V r) {
  V q = poly(r, {1.9875691500e-4, 1.3981999507e-3, 8.3334519073e-3, 4.1665795894e-2, 1.6666665459e-1,
                 5.0000001201e-1});
  return fma(q, b_.CreateFMul(r, r), r);
}
V MathBuilder::exp(V x) {
  x = select(b_.CreateFCmpOLT(x, f(x, -110)), f(x, -110), x);  // a NaN passes
  x = select(b_.CreateFCmpOGT(x, f(x, 100)), f(x, 100), x);
  auto [n, r] = reduce_exp(x);
  return scale(b_.CreateFAdd(exp_poly(r), f(x, 1)), n);
}
V MathBuilder::exp2(V x, bool ten) {
  const double low = ten ? -50 : -160, high = ten ? 42 : 140;
  x = select(b_.CreateFCmpOLT(x, f(x, low)), f(x, low), x);
  x = select(b_.CreateFCmpOGT(x, f(x, high)), f(x, high), x);
  V t = fma(x, f(x, ten ? 3.321928094887362 : 1), f(x, kMagic)), n = b_.CreateFSub(t, f(x, kMagic)), r;
  if (ten) {  // log10(2) in two parts, the first of 9 bits
    r = fma(n, f(x, -0.30078125), x);
    r = fma(n, f(x, -2.4874566398119521e-4), r);
    r = b_.CreateFMul(r, f(x, 2.302585092994046));
  } else {
    r = b_.CreateFMul(b_.CreateFSub(x, n), f(x, kLn2));
  }
  return scale(b_.CreateFAdd(exp_poly(r), f(x, 1)), b_.CreateSub(bits(t), bits(f(x, kMagic))));
}
V MathBuilder::expm1(V x) {
  V a = select(b_.CreateFCmpOLT(x, f(x, -30)), f(x, -30), x);
  a = select(b_.CreateFCmpOGT(a, f(x, 100)), f(x, 100), a);
  auto [n, r] = reduce_exp(a);
  V p = exp_poly(r);
  // 2^n·p + (2^n - 1), with one halving where 2^n itself would overflow.
  V big = b_.CreateICmpSGT(n, i(x, 127)), m = b_.CreateSub(n, select(big, i(x, 1), i(x, 0)));
  m = select(b_.CreateICmpSGT(m, i(x, 127)), i(x, 128), m);
  V s = floats(b_.CreateShl(b_.CreateAdd(m, i(x, 127)), i(x, 23)));
  V one = select(big, f(x, 0.5), f(x, 1)), y = fma(s, p, b_.CreateFSub(s, one));
  y = b_.CreateFMul(y, select(big, f(x, 2), f(x, 1)));
  y = select(b_.CreateFCmpOGT(x, f(x, 88.722835)), f(x, kInf), y);
  return select(b_.CreateFCmpOEQ(x, f(x, 0)), x, y);
}
V MathBuilder::sigmoid(V x) {
  V e = exp(b_.CreateFNeg(abs(x)));
  V top = select(b_.CreateFCmpOLT(x, f(x, 0)), e, f(x, 1));
  return b_.CreateFDiv(top, b_.CreateFAdd(e, f(x, 1)));
}
V MathBuilder::tanh(V x) {
  V a = abs(x);
  a = select(b_.CreateFCmpOGT(a, f(x, 10)), f(x, 10), a);
  V z = b_.CreateFMul(a, a);
  V p =
      poly(z, {-5.70498872745e-3, 2.06390887954e-2, -5.37397155531e-2, 1.33314422036e-1, -3.33332819422e-1});
  V low = fma(b_.CreateFMul(p, z), a, a);
  V e = exp(b_.CreateFAdd(a, a));
  V high = b_.CreateFSub(f(x, 1), b_.CreateFDiv(f(x, 2), b_.CreateFAdd(e, f(x, 1))));
  return copysign(select(b_.CreateFCmpOLT(a, f(x, 0.625)), low, high), x);
}
V MathBuilder::sinh(V x) {
  V a = abs(x), h = exp(b_.CreateFMul(a, f(x, 0.5)));
  V big = b_.CreateFMul(b_.CreateFMul(h, f(x, 0.5)), h);
  V e = expm1(a), y = b_.CreateFMul(b_.CreateFAdd(e, b_.CreateFDiv(e, b_.CreateFAdd(e, f(x, 1)))), f(x, 0.5));
  return copysign(select(b_.CreateFCmpOGT(a, f(x, 80)), big, y), x);
}
V MathBuilder::cosh(V x) {
  V a = abs(x), h = exp(b_.CreateFMul(a, f(x, 0.5)));
  V big = b_.CreateFMul(b_.CreateFMul(h, f(x, 0.5)), h);
  V e = exp(a), y = fma(e, f(x, 0.5), b_.CreateFDiv(f(x, 0.5), e));
  return select(b_.CreateFCmpOGT(a, f(x, 80)), big, y);
}
V MathBuilder::erf(V x) {
  V a = abs(x);
  a = select(b_.CreateFCmpOGT(a, f(x, 3.95)), f(x, 3.95), a);
  V z = b_.CreateFMul(x, x);
  V p = poly(z, {8.2695116532831699e-5, -8.1189983623002314e-4, 5.1989601170627966e-3, -2.6858574955023767e-2,
                 1.1283683758838747e-1, -3.7612632822084117e-1, 1.283791665477838e-1});
  V low = fma(p, x, x);
  V g = poly(a, {2.9611285953936592e-7, -4.8415542787042386e-6, 1.5441520912930975e-5, 2.6495904219607775e-4,
                 -3.6398994643273101e-3, 2.3975495333208785e-2, -1.0662776715862828e-1,
                 -6.3485901932564084e-1, -1.1287301410192538});
  V high = b_.CreateFSub(f(x, 1), exp(b_.CreateFMul(g, a)));
  return select(b_.CreateFCmpOLT(a, f(x, 0.93)), low, copysign(high, x));
}

// ---------------------------------------------------------------- logarithms
MathBuilder::Log MathBuilder::log_parts(V x) {
  V tiny = b_.CreateFCmpOLT(x, f(x, 1.1754943508222875e-38));
  x = select(tiny, b_.CreateFMul(x, f(x, 8388608.0)), x);
  constexpr int64_t root_half = 0x3f3504f3;  // mantissas lie in [sqrt(1/2), sqrt(2))
  V k = b_.CreateSub(bits(x), i(x, root_half));
  V e = b_.CreateAShr(k, i(x, 23));
  e = b_.CreateSub(e, select(tiny, i(x, 23), i(x, 0)));
  V m = floats(b_.CreateAdd(b_.CreateAnd(k, i(x, 0x7fffff)), i(x, root_half)));
  V r = b_.CreateFSub(m, f(x, 1)), z = b_.CreateFMul(r, r);
  V q = poly(r, {7.0376836292e-2, -1.1514610310e-1, 1.1676998740e-1, -1.2420140846e-1, 1.4249322787e-1,
                 -1.6668057665e-1, 2.0000714765e-1, -2.4999993993e-1, 3.3333331174e-1});
  V y = b_.CreateFMul(b_.CreateFMul(q, r), z);
  return {b_.CreateSIToFP(e, x->getType()), r, fma(z, f(x, -0.5), y)};
}
V MathBuilder::log_special(V x, V y) {
  y = select(b_.CreateFCmpUEQ(x, f(x, kInf)), x, y);  // infinity and NaN
  y = select(b_.CreateFCmpOLT(x, f(x, 0)), f(x, kNaN), y);
  return select(b_.CreateFCmpOEQ(x, f(x, 0)), f(x, -kInf), y);
}
V MathBuilder::log(V x) {
  auto [e, r, y] = log_parts(x);
  y = fma(e, f(x, kLn2Low), y);
  return log_special(x, fma(e, f(x, kLn2High), b_.CreateFAdd(r, y)));
}
V MathBuilder::log_base(V x, bool ten) {
  auto [e, r, y] = log_parts(x);
  V s;
  if (ten) {
    s = b_.CreateFMul(y, f(x, 7.00731903251827651129e-4));
    s = fma(r, f(x, 7.00731903251827651129e-4), s);
    s = fma(e, f(x, 2.48745663981195213739e-4), s);
    s = fma(y, f(x, 4.3359375e-1), s);
    s = fma(r, f(x, 4.3359375e-1), s);
    s = fma(e, f(x, 3.0078125e-1), s);
  } else {
    s = b_.CreateFMul(y, f(x, kLog2e - 1));
    s = fma(r, f(x, kLog2e - 1), s);
    s = b_.CreateFAdd(s, y);
    s = b_.CreateFAdd(s, r);
    s = b_.CreateFAdd(s, e);
  }
  return log_special(x, s);
}
V MathBuilder::log1p(V x) {
  // The rounding of 1 + x is undone by the factor x / (u - 1).
  V u = b_.CreateFAdd(x, f(x, 1)), d = b_.CreateFSub(u, f(x, 1));
  V y = b_.CreateFMul(log(u), b_.CreateFDiv(x, d));
  y = select(b_.CreateFCmpOEQ(d, f(x, 0)), x, y);
  return select(b_.CreateFCmpOEQ(x, f(x, kInf)), x, y);
}
V MathBuilder::asinh(V x) {
  V a = abs(x), s = b_.CreateFMul(a, a),
    root = b_.CreateUnaryIntrinsic(llvm::Intrinsic::sqrt, b_.CreateFAdd(s, f(x, 1)));
  V low = log1p(b_.CreateFAdd(a, b_.CreateFDiv(s, b_.CreateFAdd(root, f(x, 1)))));
  V high = b_.CreateFAdd(log(a), f(x, kLn2));
  return copysign(select(b_.CreateFCmpOGT(a, f(x, 1e4)), high, low), x);
}
V MathBuilder::acosh(V x) {
  V t = b_.CreateFSub(x, f(x, 1)),
    root = b_.CreateUnaryIntrinsic(llvm::Intrinsic::sqrt, b_.CreateFMul(t, b_.CreateFAdd(t, f(x, 2))));
  V low = log1p(b_.CreateFAdd(t, root)), high = b_.CreateFAdd(log(x), f(x, kLn2));
  V y = select(b_.CreateFCmpOGT(x, f(x, 1e4)), high, low);
  return select(b_.CreateFCmpOLT(x, f(x, 1)), f(x, kNaN), y);
}
V MathBuilder::atanh(V x) {
  V a = abs(x), q = b_.CreateFDiv(b_.CreateFAdd(a, a), b_.CreateFSub(f(x, 1), a));
  return copysign(b_.CreateFMul(log1p(q), f(x, 0.5)), x);
}

// ---------------------------------------------------------------- trigonometry
V MathBuilder::sincos(V x, int kind) {
  // Reduction by multiples of pi/2 in double precision; lanes beyond its reach (and infinities) are asked of
  // the C library, behind a branch that is hardly ever taken.
  const double reach = fma_ ? 0x1p48 : 0x1p20;
  V d = doubles(x), t = b_.CreateFAdd(b_.CreateFMul(d, f(d, 2 / kPi)), f(d, 6755399441055744.0)),
    n = b_.CreateFSub(t, f(d, 6755399441055744.0));
  V r;
  if (fma_) {
    r = fma(n, f(d, -1.5707963267948966), d);
    r = fma(n, f(d, -6.123233995736766e-17), r);
  } else {
    r = fma(n, f(d, -1.57079632673412561417), d);  // 33 bits: exact products
    r = fma(n, f(d, -6.07710050650619224932e-11), r);
  }
  V q = b_.CreateTrunc(bits(t), with_lanes(x, b_.getInt32Ty()));
  if (kind == 1) q = b_.CreateAdd(q, i(x, 1));
  V a = singles(r), z = b_.CreateFMul(a, a);
  V s = poly(z, {-1.9515295891e-4, 8.3321608736e-3, -1.6666654611e-1});
  s = select(b_.CreateFCmpOEQ(a, f(x, 0)), a, fma(b_.CreateFMul(s, z), a, a));
  V c = poly(z, {2.443315711809948e-5, -1.388731625493765e-3, 4.166664568298827e-2});
  c = fma(b_.CreateFMul(c, z), z, fma(z, f(x, -0.5), f(x, 1)));
  V odd = b_.CreateICmpNE(b_.CreateAnd(q, i(x, 1)), i(x, 0));
  V fast;
  if (kind == 2) {
    fast = b_.CreateFDiv(select(odd, b_.CreateFNeg(c), s), select(odd, s, c));
  } else {
    V flip = b_.CreateShl(b_.CreateAnd(q, i(x, 2)), i(x, 30));
    fast = floats(b_.CreateXor(bits(select(odd, c, s)), flip));
  }
  V far = b_.CreateFCmpOGT(abs(x), f(x, reach));
  V any = far->getType()->isVectorTy() ? b_.CreateOrReduce(far) : far;
  llvm::Function* fn = b_.GetInsertBlock()->getParent();
  llvm::BasicBlock* from = b_.GetInsertBlock();
  auto* far_block = llvm::BasicBlock::Create(b_.getContext(), "far", fn);
  auto* done = llvm::BasicBlock::Create(b_.getContext(), "reduced", fn);
  b_.CreateCondBr(any, far_block, done);
  b_.SetInsertPoint(far_block);
  V slow = select(far, libm(kind == 0 ? "sinf" : kind == 1 ? "cosf" : "tanf", {x}), fast);
  b_.CreateBr(done);
  b_.SetInsertPoint(done);
  llvm::PHINode* y = b_.CreatePHI(x->getType(), 2);
  y->addIncoming(fast, from);
  y->addIncoming(slow, far_block);
  return y;
}
V MathBuilder::atan(V x) {
  V a = abs(x), large = b_.CreateFCmpOGT(a, f(x, 2.414213562373095)),
    middle = b_.CreateFCmpOGT(a, f(x, 0.4142135623730950));
  V top = select(large, f(x, -1), select(middle, b_.CreateFSub(a, f(x, 1)), a));
  V bottom = select(large, a, select(middle, b_.CreateFAdd(a, f(x, 1)), f(x, 1)));
  V offset = select(large, f(x, kPi / 2), select(middle, f(x, kPi / 4), f(x, 0)));
  V r = b_.CreateFDiv(top, bottom), z = b_.CreateFMul(r, r);
  V p = poly(z, {8.05374449538e-2, -1.38776856032e-1, 1.99777106478e-1, -3.33329491539e-1});
  return copysign(b_.CreateFAdd(offset, fma(b_.CreateFMul(p, z), r, r)), x);
}
V MathBuilder::atan2(V y, V x) {
  V a = abs(y), b = abs(x), steep = b_.CreateFCmpOGT(a, b);
  V top = select(steep, b, a), bottom = select(steep, a, b), q = b_.CreateFDiv(top, bottom);
  q = select(b_.CreateFCmpOEQ(top, bottom), select(b_.CreateFCmpOEQ(top, f(x, 0)), f(x, 0), f(x, 1)),
             q);  // 0/0, inf/inf
  V r = atan(q);
  r = select(steep, b_.CreateFSub(f(x, kPi / 2), r), r);
  V negative = b_.CreateICmpSLT(bits(x), i(x, 0));
  r = select(negative, b_.CreateFSub(f(x, kPi), r), r);
  r = copysign(r, y);
  return select(b_.CreateFCmpUNO(x, y), f(x, kNaN), r);
}
V MathBuilder::asin(V x, bool acos) {
  V a = abs(x), steep = b_.CreateFCmpOGT(a, f(x, 0.5));
  V z = select(steep, b_.CreateFMul(b_.CreateFSub(f(x, 1), a), f(x, 0.5)), b_.CreateFMul(a, a));
  V r = select(steep, b_.CreateUnaryIntrinsic(llvm::Intrinsic::sqrt, z), a);
  V p = poly(z, {4.2163199048e-2, 2.4181311049e-2, 4.5470025998e-2, 7.4953002686e-2, 1.6666752422e-1});
  p = fma(b_.CreateFMul(p, z), r, r);  // arc sine of r
  V twice = b_.CreateFAdd(p, p);
  if (!acos) return copysign(select(steep, b_.CreateFSub(f(x, kPi / 2), twice), p), x);
  V negative = b_.CreateFCmpOLT(x, f(x, 0));
  V far = select(negative, b_.CreateFSub(f(x, kPi), twice), twice);
  return select(steep, far, b_.CreateFSub(f(x, kPi / 2), copysign(p, x)));
}

// ---------------------------------------------------------------- two arguments
V MathBuilder::pow(V x, V y) {
  auto constant = [](V v) -> std::optional<float> {
    auto* c = llvm::dyn_cast<llvm::Constant>(v);
    if (c && c->getType()->isVectorTy()) c = c->getSplatValue();
    auto* n = llvm::dyn_cast_or_null<llvm::ConstantFP>(c);
    return n ? std::optional(n->getValueAPF().convertToFloat()) : std::nullopt;
  };
  if (auto c = constant(y)) {
    if (*c == 1) return x;
    if (*c == 2) return b_.CreateFMul(x, x);
    if (*c == -1) return b_.CreateFDiv(f(x, 1), x);
    if (*c == 0.5f) {
      V root = b_.CreateUnaryIntrinsic(llvm::Intrinsic::sqrt, b_.CreateFAdd(x, f(x, 0)));
      return select(b_.CreateFCmpOEQ(x, f(x, -kInf)), f(x, kInf), root);
    }
  }
  // |x|^y = 2^(y · log2 |x|) in double precision.
  V a = abs(x), d = doubles(a);
  llvm::Type* i64s = with_lanes(x, b_.getInt64Ty());
  auto wide = [&](int64_t v) { return llvm::ConstantInt::getSigned(i64s, v); };
  V k = b_.CreateSub(bits(d), wide(0x3fe6a09e667f3bcd));
  V e = b_.CreateAShr(k, wide(52));
  V m = b_.CreateBitCast(b_.CreateAdd(b_.CreateAnd(k, wide(0xfffffffffffff)), wide(0x3fe6a09e667f3bcd)),
                         d->getType());
  V s = b_.CreateFDiv(b_.CreateFSub(m, f(d, 1)), b_.CreateFAdd(m, f(d, 1))), z = b_.CreateFMul(s, s);
  V series =
      poly(z, {1.0 / 19, 1.0 / 17, 1.0 / 15, 1.0 / 13, 1.0 / 11, 1.0 / 9, 1.0 / 7, 1.0 / 5, 1.0 / 3, 1.0});
  V small_e = b_.CreateTrunc(e, with_lanes(x, b_.getInt32Ty()));
  V l = fma(b_.CreateFMul(s, f(d, 2 * kLog2e)), series, b_.CreateSIToFP(small_e, d->getType()));
  l = select(b_.CreateFCmpOEQ(d, f(d, 0)), f(d, -kInf),
             select(b_.CreateFCmpOEQ(d, f(d, kInf)), f(d, kInf), l));
  V t = b_.CreateFMul(doubles(y), l);
  t = select(b_.CreateFCmpOLT(t, f(t, -200)), f(t, -200), t);
  t = select(b_.CreateFCmpOGT(t, f(t, 200)), f(t, 200), t);
  V shifted = b_.CreateFAdd(t, f(t, 6755399441055744.0)),
    n = b_.CreateFSub(shifted, f(t, 6755399441055744.0));
  V r = b_.CreateFMul(b_.CreateFSub(t, n), f(t, kLn2));
  V p = poly(r, {1.0 / 39916800, 1.0 / 3628800, 1.0 / 362880, 1.0 / 40320, 1.0 / 5040, 1.0 / 720, 1.0 / 120,
                 1.0 / 24, 1.0 / 6, 0.5, 1, 1});
  V power = b_.CreateBitCast(b_.CreateShl(b_.CreateAdd(bits(shifted), wide(1023)), wide(52)), d->getType());
  V result = singles(b_.CreateFMul(p, power));
  // Signs and special cases as C has them.
  V whole = b_.CreateFCmpOEQ(b_.CreateUnaryIntrinsic(llvm::Intrinsic::trunc, y), y);
  V half = b_.CreateFMul(y, f(y, 0.5));
  V odd = b_.CreateAnd(whole, b_.CreateFCmpONE(b_.CreateUnaryIntrinsic(llvm::Intrinsic::trunc, half), half));
  V sign = b_.CreateAnd(bits(x), i(x, -2147483648LL));
  result = select(odd, floats(b_.CreateOr(bits(result), sign)), result);
  V undefined = b_.CreateAnd(b_.CreateFCmpOLT(x, f(x, 0)),
                             b_.CreateAnd(b_.CreateFCmpONE(x, f(x, -kInf)), b_.CreateNot(whole)));
  undefined = b_.CreateOr(undefined, b_.CreateFCmpUNO(x, y));
  result = select(undefined, f(x, kNaN), result);
  V minus_one = b_.CreateAnd(b_.CreateFCmpOEQ(x, f(x, -1)), b_.CreateFCmpOEQ(abs(y), f(y, kInf)));
  V one = b_.CreateOr(b_.CreateFCmpOEQ(y, f(y, 0)), b_.CreateOr(b_.CreateFCmpOEQ(x, f(x, 1)), minus_one));
  return select(one, f(x, 1), result);
}
V MathBuilder::hypot(V x, V y) {
  V a = doubles(x), b = doubles(y);
  V r = singles(b_.CreateUnaryIntrinsic(llvm::Intrinsic::sqrt, fma(a, a, b_.CreateFMul(b, b))));
  V infinite = b_.CreateOr(b_.CreateFCmpOEQ(abs(x), f(x, kInf)), b_.CreateFCmpOEQ(abs(y), f(y, kInf)));
  return select(infinite, f(x, kInf), r);
}
V MathBuilder::nextafter(V x, V y) {
  Exactly exactly(b_);
  V n = bits(x), zero = llvm::ConstantInt::get(n->getType(), 0),
    one = llvm::ConstantInt::get(n->getType(), 1);
  V up = b_.CreateFCmpOLT(x, y), positive = b_.CreateICmpSGE(n, zero);
  V away = b_.CreateICmpEQ(up, positive);  // magnitude grows
  V moved = select(away, b_.CreateAdd(n, one), b_.CreateSub(n, one));
  V r = b_.CreateBitCast(moved, x->getType());
  V least = copysign(b_.CreateBitCast(one, x->getType()), y);
  r = select(b_.CreateFCmpOEQ(x, f(x, 0)), least, r);
  r = select(b_.CreateFCmpOEQ(x, y), y, r);
  return select(b_.CreateFCmpUNO(x, y), f(x, kNaN), r);
}

V MathBuilder::libm(const std::string& symbol, llvm::ArrayRef<V> args) {
  llvm::Module* module = b_.GetInsertBlock()->getModule();
  llvm::Type* scalar = args[0]->getType()->getScalarType();
  std::vector<llvm::Type*> types(args.size());
  for (size_t k = 0; k < args.size(); ++k) types[k] = args[k]->getType()->getScalarType();
  llvm::FunctionCallee callee =
      module->getOrInsertFunction(symbol, llvm::FunctionType::get(scalar, types, false));
  auto* fn = llvm::cast<llvm::Function>(callee.getCallee());
  fn->setDoesNotThrow();
  fn->setDoesNotAccessMemory();
  fn->setWillReturn();
  auto* vector = llvm::dyn_cast<llvm::FixedVectorType>(args[0]->getType());
  if (!vector) return b_.CreateCall(callee, args);
  V out = llvm::PoisonValue::get(vector);
  for (unsigned lane = 0; lane < vector->getNumElements(); ++lane) {
    std::vector<V> one(args.size());
    for (size_t k = 0; k < args.size(); ++k)
      one[k] = args[k]->getType()->isVectorTy() ? b_.CreateExtractElement(args[k], uint64_t(lane)) : args[k];
    out = b_.CreateInsertElement(out, b_.CreateCall(callee, one), uint64_t(lane));
  }
  return out;
}

V MathBuilder::unary(std::string_view name, V x) {
  Exactly exactly(b_);
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
  if (name == "sin") return sincos(x, 0);
  if (name == "cos") return sincos(x, 1);
  if (name == "tan") return sincos(x, 2);
  if (name == "asin") return asin(x, false);
  if (name == "acos") return asin(x, true);
  if (name == "atan") return atan(x);
  if (name == "sinh") return sinh(x);
  if (name == "cosh") return cosh(x);
  if (name == "asinh") return asinh(x);
  if (name == "acosh") return acosh(x);
  if (name == "atanh") return atanh(x);
  return nullptr;
}
V MathBuilder::binary(std::string_view name, V x, V y) {
  Exactly exactly(b_);
  if (name == "pow") return pow(x, y);
  if (name == "atan2") return atan2(x, y);
  if (name == "hypot") return hypot(x, y);
  if (name == "fmod") return libm("fmodf", {x, y});
  return nullptr;
}

// ---------------------------------------------------------------- narrow floats
V MathBuilder::widen(V x, DataType t) {
  Exactly exactly(b_);
  llvm::Type* i32s = with_lanes(x, b_.getInt32Ty());
  if (t.code == TypeCode::BFloat) return floats(b_.CreateShl(b_.CreateZExt(x, i32s), i(x, 16)));
  if (t.code == TypeCode::Float && f16c_)
    return b_.CreateFPExt(b_.CreateBitCast(x, with_lanes(x, b_.getHalfTy())), with_lanes(x, b_.getFloatTy()));
  const FloatFormat m = float_format(t);
  const int width = m.exponent + m.mantissa;
  V n = b_.CreateZExt(x, i32s), magnitude = b_.CreateAnd(n, i(x, (1 << width) - 1));
  V sign = b_.CreateShl(b_.CreateAnd(n, i(x, int64_t(1) << width)), i(x, 31 - width));
  // As a float32 of the same bits the value is off by a power of two; multiplying is exact, subnormals
  // included.
  V y = b_.CreateFMul(floats(b_.CreateShl(magnitude, i(x, 23 - m.mantissa))),
                      llvm::ConstantFP::get(with_lanes(x, b_.getFloatTy()), std::ldexp(1.0, 127 - m.bias)));
  V out = b_.CreateOr(bits(y), sign);
  if (m.infinity) {
    const int64_t infinity = ((int64_t(1) << m.exponent) - 1) << m.mantissa;
    V special =
        b_.CreateOr(b_.CreateOr(b_.CreateShl(magnitude, i(x, 23 - m.mantissa)), i(x, 0x7f800000)), sign);
    out = select(b_.CreateICmpUGE(magnitude, i(x, infinity)), special, out);
  } else if (m.uz) {
    out = select(b_.CreateICmpEQ(n, i(x, int64_t(1) << width)), i(x, 0x7fc00000), out);
  } else {
    out =
        select(b_.CreateICmpEQ(magnitude, i(x, (1 << width) - 1)), b_.CreateOr(i(x, 0x7fc00000), sign), out);
  }
  return floats(out);
}

V MathBuilder::narrow(V x, DataType t) {
  Exactly exactly(b_);
  llvm::Type* out_type = with_lanes(x, b_.getIntNTy(t.bits));
  if (t.code == TypeCode::BFloat) {
    V n = bits(x), lsb = b_.CreateAnd(b_.CreateLShr(n, i(x, 16)), i(x, 1));
    V rounded = b_.CreateLShr(b_.CreateAdd(n, b_.CreateAdd(lsb, i(x, 0x7fff))), i(x, 16));
    V nan = b_.CreateOr(b_.CreateLShr(n, i(x, 16)), i(x, 0x40));
    return b_.CreateTrunc(select(is_nan(x), nan, rounded), out_type);
  }
  if (t.code == TypeCode::Float && f16c_)
    return b_.CreateBitCast(b_.CreateFPTrunc(x, with_lanes(x, b_.getHalfTy())), out_type);
  const FloatFormat m = float_format(t);
  const int width = m.exponent + m.mantissa, shift = 23 - m.mantissa;
  V n = bits(x), magnitude = b_.CreateAnd(n, i(x, 0x7fffffff));
  V sign = b_.CreateAnd(b_.CreateLShr(n, i(x, 31 - width)), i(x, int64_t(1) << width));
  // Subnormal results: adding a power of two whose last bit is the smallest step lets the hardware round.
  V magic = llvm::ConstantFP::get(x->getType(), std::ldexp(1.0, 1 - m.bias - m.mantissa + 23));
  V low = b_.CreateSub(bits(b_.CreateFAdd(floats(magnitude), magic)), bits(magic));
  V lsb = b_.CreateAnd(b_.CreateLShr(magnitude, i(x, shift)), i(x, 1));
  V high = b_.CreateAdd(b_.CreateAdd(magnitude, lsb),
                        i(x, (int64_t(m.bias - 127) << 23) + (1 << (shift - 1)) - 1));
  high = b_.CreateLShr(high, i(x, shift));
  V code = select(b_.CreateICmpULT(magnitude, i(x, int64_t(127 + 1 - m.bias) << 23)), low, high);
  const int64_t top = ((int64_t(1) << m.exponent) - 1) << m.mantissa, all = (int64_t(1) << width) - 1;
  // Overflow is infinity where there is one, else the NaN; `last` is the largest finite code.
  const int64_t last = m.infinity ? top - 1
                       : m.uz     ? all
                                  : all - 1,
                over = m.infinity ? top
                       : m.uz     ? all + 1
                                  : all;
  const int64_t nan = m.infinity ? top | (int64_t(1) << (m.mantissa - 1)) : m.uz ? all + 1 : all;
  V too_large = b_.CreateOr(b_.CreateICmpUGT(code, i(x, last)),
                            b_.CreateICmpUGE(magnitude, i(x, int64_t(127 + 64) << 23)));
  code = select(too_large, i(x, over), code);
  code = select(b_.CreateICmpUGT(magnitude, i(x, 0x7f800000)), i(x, nan), code);
  if (m.uz)
    sign =
        select(b_.CreateOr(b_.CreateICmpEQ(code, i(x, 0)), b_.CreateICmpEQ(code, i(x, nan))), i(x, 0), sign);
  return b_.CreateTrunc(b_.CreateOr(code, sign), out_type);
}

}  // namespace tenon::codegen
