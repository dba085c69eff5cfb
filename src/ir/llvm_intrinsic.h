// SPDX-License-Identifier: Apache-2.0
// Intrinsics of LLVM that programs call by name (`T.call_llvm_pure_intrin("float32", "llvm.fma.f32", x, y,
// z)`).
#pragma once
#include "ir/prim_expr.h"

namespace tenon::tir {

/// The call of our own that means the same, or null. `args`: the name, in older text a number of type uint32
/// (how many arguments tell the types), the arguments.
PrimExpr same_as_llvm(DataType type, const Array<PrimExpr>& args);

/// Without the number that older text has in front of the arguments.
Array<PrimExpr> llvm_arguments(const Array<PrimExpr>& args);

}  // namespace tenon::tir
