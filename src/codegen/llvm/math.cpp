// SPDX-License-Identifier: Apache-2.0
// Numbers in LLVM IR: NaN-propagating extremes, calls of the C library, conversions of narrow floats.
#include "codegen/llvm/math.h"

#include <llvm/IR/Module.h>

#include <cmath>

#include "codegen/float_format.h"
namespace tenon::codegen {

using V = llvm::Value*;
namespace {
/// Float operations of these must not be fused or reordered by anyone.
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
V MathBuilder::i(V like, int64_t v) const {
  return llvm::ConstantInt::getSigned(with_lanes(like, b_.getInt32Ty()), v);
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
