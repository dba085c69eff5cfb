// SPDX-License-Identifier: Apache-2.0
// Numbers in LLVM IR: mathematical functions as polynomial expansions (the same instructions for one lane and
// for many, so that results do not depend on vectorisation), narrow floats through integers, and
// NaN-propagating minimum and maximum.
#pragma once
#include <llvm/IR/IRBuilder.h>

#include <string_view>

#include "base/dtype.h"

namespace tenon::codegen {

class MathBuilder {
 public:
  /// `fma`, `f16c`: what the target offers.
  MathBuilder(llvm::IRBuilder<>& b, bool fma, bool f16c) : b_(b), fma_(fma), f16c_(f16c) {}

  /// A float32 function of one argument, expanded in line; null when there is no expansion of that name.
  llvm::Value* unary(std::string_view name, llvm::Value* x);
  /// pow, atan2, hypot, copysign, fmod, ldexp over float32; null when there is none.
  llvm::Value* binary(std::string_view name, llvm::Value* x, llvm::Value* y);
  llvm::Value* nextafter(llvm::Value* x, llvm::Value* y);  ///< float32 or float64
  llvm::Value* min(llvm::Value* a, llvm::Value* b) {
    return extreme(a, b, false);
  }  ///< any float; NaN propagates
  llvm::Value* max(llvm::Value* a, llvm::Value* b) { return extreme(a, b, true); }
  /// Calls a C function lane by lane.
  llvm::Value* libm(const std::string& symbol, llvm::ArrayRef<llvm::Value*> args);

  /// Bits of float16, bfloat16 or an 8-bit float (i16, i8) to and from float32.
  llvm::Value* widen(llvm::Value* bits, DataType type);
  llvm::Value* narrow(llvm::Value* f32, DataType type);

 private:
  using V = llvm::Value*;
  V extreme(V a, V b, bool larger);
  llvm::Type* with_lanes(V like, llvm::Type* scalar) const;
  V f(V like, double v) const;   ///< constant of like's type
  V i(V like, int64_t v) const;  ///< int32 constant with like's lanes
  V bits(V x) { return b_.CreateBitCast(x, with_lanes(x, int_of(x))); }
  V floats(V x) { return b_.CreateBitCast(x, with_lanes(x, b_.getFloatTy())); }
  V doubles(V x) { return b_.CreateFPExt(x, with_lanes(x, b_.getDoubleTy())); }
  V singles(V x) { return b_.CreateFPTrunc(x, with_lanes(x, b_.getFloatTy())); }
  llvm::Type* int_of(V x) const {
    return x->getType()->getScalarType()->isDoubleTy() ? (llvm::Type*)b_.getInt64Ty() : b_.getInt32Ty();
  }
  V fma(V a, V b, V c);  ///< a·b + c, fused where the target can
  V poly(V x, std::initializer_list<double> high_first);
  V abs(V x) { return b_.CreateUnaryIntrinsic(llvm::Intrinsic::fabs, x); }
  V copysign(V x, V s) { return b_.CreateBinaryIntrinsic(llvm::Intrinsic::copysign, x, s); }
  V round(V x);  ///< nearest even, |x| < 2^22 (2^51 for doubles)
  V select(V c, V a, V b) { return b_.CreateSelect(c, a, b); }
  V is_nan(V x) { return b_.CreateFCmpUNO(x, x); }
  /// 2^n · p for integral n given as a float: exact scaling in two steps, so that overflow and subnormals
  /// round once.
  V scale(V p, V n);
  struct Reduced {
    V n, r;
  };
  Reduced reduce_exp(V x);
  V exp_poly(V r);  ///< e^r - 1 for |r| ≤ ln2 / 2
  V exp(V x);
  V exp2(V x, bool ten);
  V expm1(V x);
  struct Log {
    V e, f, y;
  };  ///< log x = e·ln2 + f + y
  Log log_parts(V x);
  V log_special(V x, V result);
  V log(V x);
  V log_base(V x, bool ten);
  V log1p(V x);
  V tanh(V x);
  V sigmoid(V x);
  V erf(V x);
  V sincos(V x, int kind);  ///< 0 sine, 1 cosine, 2 tangent
  V asin(V x, bool acos);
  V atan(V x);
  V atan2(V y, V x);
  V sinh(V x);
  V cosh(V x);
  V asinh(V x);
  V acosh(V x);
  V atanh(V x);
  V pow(V x, V y);
  V hypot(V x, V y);

  llvm::IRBuilder<>& b_;
  bool fma_, f16c_;
};

}  // namespace tenon::codegen
