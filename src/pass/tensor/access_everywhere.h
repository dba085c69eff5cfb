// SPDX-License-Identifier: Apache-2.0
// Checks in loops of their own, answered for all iterations at once where a condition on sizes is enough.
#pragma once
#include "ir/tir.h"

namespace tenon::tensor_detail {

/// A condition without loops, loads and divisions by zero that is enough for the check to pass: every
/// comparison of its assertions holds between the ends of what its loops' variables make of the two sides.
/// Null when there is none of that form, or the check has no loop.
PrimExpr enough_for(const tir::Stmt& check);

}  // namespace tenon::tensor_detail
