// SPDX-License-Identifier: Apache-2.0
// Numbers in LLVM IR: NaN-propagating minimum and maximum, and calls of the C library lane by lane.
// Mathematical functions are arithmetic already (pass lower_intrin).
#pragma once
#include <llvm/IR/IRBuilder.h>

#include "base/dtype.h"

namespace tenon::codegen {

class MathBuilder {
 public:
  explicit MathBuilder(llvm::IRBuilder<>& b) : b_(b) {}

  llvm::Value* min(llvm::Value* a, llvm::Value* b) {
    return extreme(a, b, false);
  }  ///< any float; NaN propagates
  llvm::Value* max(llvm::Value* a, llvm::Value* b) { return extreme(a, b, true); }
  /// Calls a C function lane by lane.
  llvm::Value* libm(const std::string& symbol, llvm::ArrayRef<llvm::Value*> args);

 private:
  using V = llvm::Value*;
  V extreme(V a, V b, bool larger);
  V select(V c, V a, V b) { return b_.CreateSelect(c, a, b); }
  V is_nan(V x) { return b_.CreateFCmpUNO(x, x); }

  llvm::IRBuilder<>& b_;
};

}  // namespace tenon::codegen
