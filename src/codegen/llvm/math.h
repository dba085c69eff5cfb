// SPDX-License-Identifier: Apache-2.0
// Numbers in LLVM IR: NaN-propagating minimum and maximum, calls of the C library lane by lane, and narrow
// floats through integers. Mathematical functions are arithmetic already (pass lower_intrin).
#pragma once
#include <llvm/IR/IRBuilder.h>

#include "base/dtype.h"

namespace tenon::codegen {

class MathBuilder {
 public:
  /// `f16c`: the target converts float16 itself.
  MathBuilder(llvm::IRBuilder<>& b, bool f16c) : b_(b), f16c_(f16c) {}

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
  V i(V like, int64_t v) const;  ///< int32 constant with like's lanes
  V bits(V x) { return b_.CreateBitCast(x, with_lanes(x, b_.getInt32Ty())); }
  V floats(V x) { return b_.CreateBitCast(x, with_lanes(x, b_.getFloatTy())); }
  V select(V c, V a, V b) { return b_.CreateSelect(c, a, b); }
  V is_nan(V x) { return b_.CreateFCmpUNO(x, x); }

  llvm::IRBuilder<>& b_;
  bool f16c_;
};

}  // namespace tenon::codegen
