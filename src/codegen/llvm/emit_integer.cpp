// SPDX-License-Identifier: Apache-2.0
// Floats become integers: saturated, NaN as 0. Clamps between whole numbers and a rounding that stand before
// the conversion become part of it: where values are quantised, they are most of what follows the sum.
#include <llvm/IR/IntrinsicsX86.h>

#include <algorithm>
#include <cmath>

#include "codegen/llvm/emitter.h"

namespace tenon::codegen {

using namespace tir;
using V = llvm::Value*;

namespace {

std::optional<double> whole_number(const PrimExpr& e) {
  const auto* lanes = e.as<Broadcast>();
  const auto* n = (lanes ? lanes->value : e).as<FloatImm>();
  return n && std::trunc(n->value) == n->value ? std::optional(n->value) : std::nullopt;
}

/// One operand of `e`, when the other is a whole number.
struct Clamp {
  PrimExpr value;
  double bound = 0;
};
template <class T>
std::optional<Clamp> clamp(const PrimExpr& e) {
  const auto* n = e.as<T>();
  if (!n) return std::nullopt;
  if (const auto b = whole_number(n->b)) return Clamp{n->a, *b};
  if (const auto a = whole_number(n->a)) return Clamp{n->b, *a};
  return std::nullopt;
}

/// An integer as what is left of the float that it is made of.
struct Narrowed {
  PrimExpr value;
  double low = 0, high = 0;  ///< of the result; 0, which NaN becomes, is between them
  bool nearest = false;      ///< rounded to the nearest, else toward 0

  /// Takes off what stands outermost; false when that is neither a clamp nor a rounding.
  bool peel() {
    const auto* call = value.as<tir::Call>();
    if (call && call->op == "tir.round") {
      value = call->args[0], nearest = true;
      return true;
    }
    if (const auto least = clamp<Max>(value)) {
      const double bound = std::clamp(least->bound, low, high);
      if (bound > 0) return false;
      value = least->value, low = bound;
      return true;
    }
    if (const auto most = clamp<Min>(value)) {
      const double bound = std::clamp(most->bound, low, high);
      if (bound < 0) return false;
      value = most->value, high = bound;
      return true;
    }
    return false;
  }
};

constexpr uint32_t kCurrentRounding = 4;  ///< as the control register says: to the nearest even

}  // namespace

/// The machine's conversion of a vector, whose result is -2^31 for what does not fit; null where there is
/// none.
V Emitter::x86_int32(V v, bool nearest) {
  const auto* type = llvm::dyn_cast<llvm::FixedVectorType>(v->getType());
  if (!type || !is_x86(target_)) return nullptr;
  const unsigned lanes = type->getNumElements(), widest = target_->has("avx512f") ? 16
                                                          : target_->has("avx")   ? 8
                                                                                  : 4;
  auto* of_int32 = llvm::FixedVectorType::get(b_.getInt32Ty(), lanes);
  if (lanes > widest && lanes % widest == 0) {
    V out = llvm::PoisonValue::get(of_int32);
    for (unsigned k = 0; k < lanes; k += widest) {
      V part = b_.CreateExtractVector(llvm::FixedVectorType::get(b_.getFloatTy(), widest), v, uint64_t(k));
      out = b_.CreateInsertVector(of_int32, out, x86_int32(part, nearest), uint64_t(k));
    }
    return out;
  }
  using namespace llvm::Intrinsic;
  if (lanes == 16 && widest == 16)
    return b_.CreateIntrinsic(
        nearest ? x86_avx512_mask_cvtps2dq_512 : x86_avx512_mask_cvttps2dq_512, {},
        {v, llvm::PoisonValue::get(of_int32), b_.getInt16(0xffff), b_.getInt32(kCurrentRounding)});
  if (lanes == 8 && widest >= 8)
    return b_.CreateIntrinsic(nearest ? x86_avx_cvt_ps2dq_256 : x86_avx_cvtt_ps2dq_256, {}, {v});
  if (lanes == 4) return b_.CreateIntrinsic(nearest ? x86_sse2_cvtps2dq : x86_sse2_cvttps2dq, {}, {v});
  return nullptr;
}

/// `v` in [low, high], an integer; 0, which NaN becomes, is between them.
V Emitter::clamped_to_integer(V v, double low, double high, bool nearest, DataType to) {
  llvm::IRBuilderBase::FastMathFlagGuard guard(b_);
  b_.clearFastMathFlags();
  auto number = [&](double x) { return llvm::ConstantFP::get(v->getType(), x); };
  // The comparisons are false for NaN, which then becomes the bound.
  auto at_least = [&](V x) { return b_.CreateSelect(b_.CreateFCmpOGT(x, number(low)), x, number(low)); };
  auto at_most = [&](V x) { return b_.CreateSelect(b_.CreateFCmpOLT(x, number(high)), x, number(high)); };
  if (low != 0) v = b_.CreateSelect(b_.CreateFCmpORD(v, v), v, number(0));
  // What does not fit becomes -2^31: beyond the upper end of integers without sign, and below those with one.
  V bounded = low == 0 ? at_least(v) : at_most(v);
  if (V i = v->getType()->getScalarType()->isFloatTy() ? x86_int32(bounded, nearest) : nullptr) {
    auto whole = [&](double x) { return llvm::ConstantInt::getSigned(i->getType(), int64_t(x)); };
    i = low == 0 ? b_.CreateBinaryIntrinsic(llvm::Intrinsic::umin, i, whole(high))
                 : b_.CreateBinaryIntrinsic(llvm::Intrinsic::smax, i, whole(low));
    return b_.CreateTrunc(i, type(to));
  }
  bounded = low == 0 ? at_most(bounded) : at_least(bounded);
  if (nearest) bounded = b_.CreateUnaryIntrinsic(llvm::Intrinsic::roundeven, bounded);
  llvm::Type* wide = b_.getInt32Ty();
  if (auto* lanes = llvm::dyn_cast<llvm::VectorType>(v->getType())) wide = llvm::VectorType::get(wide, lanes);
  return b_.CreateTrunc(b_.CreateFPToSI(bounded, wide), type(to));
}

/// The largest integer of 32 bits is no float of 32 bits.
V Emitter::saturated_word(V v, DataType to) {
  llvm::IRBuilderBase::FastMathFlagGuard guard(b_);
  b_.clearFastMathFlags();
  const double end = std::ldexp(1.0, to.bits - 1), low = -end;  // floats have both
  auto number = [&](double x) { return llvm::ConstantFP::get(v->getType(), x); };
  // The comparisons are false for NaN.
  V kept = b_.CreateSelect(b_.CreateFCmpORD(v, v), v, number(0));
  kept = b_.CreateSelect(b_.CreateFCmpOGT(kept, number(low)), kept, number(low));
  return b_.CreateSelect(b_.CreateFCmpOGE(kept, number(end)),
                         llvm::ConstantInt::get(type(to), llvm::APInt::getSignedMaxValue(unsigned(to.bits))),
                         b_.CreateFPToSI(kept, type(to)));
}

namespace {
/// Every value of an integer type of at most 32 bits.
Narrowed whole_range(PrimExpr value, DataType t) {
  const int magnitude = t.is_uint() ? t.bits : t.bits - 1;
  return {std::move(value), t.is_uint() ? 0 : -std::ldexp(1.0, magnitude), std::ldexp(1.0, magnitude) - 1};
}
}  // namespace

/// LLVM 22 takes its own saturating conversion of vectors, and of loops that become vectors, apart into
/// scalars on x86.
V Emitter::saturated(V v, DataType from, DataType to) {
  if ((from.element() == f32 && to.bits == 32) || to.bits == 64) return saturated_word(v, to);
  const Narrowed all = whole_range({}, to.element());
  return clamped_to_integer(v, all.low, all.high, false, to);
}

V Emitter::float_to_narrow_integer(const PrimExpr& value, DataType to) {
  Narrowed n = whole_range(value, to.element());
  while (n.peel()) continue;
  V v = expr(n.value);
  if (to.is_vector() && !v->getType()->isVectorTy()) v = splat(v, to.lanes);
  return clamped_to_integer(v, n.low, n.high, n.nearest, to);
}

}  // namespace tenon::codegen
