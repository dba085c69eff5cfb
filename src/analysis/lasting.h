// SPDX-License-Identifier: Apache-2.0
// What of a condition a statement below it may rely on.
#pragma once
#include "ir/prim_expr.h"

namespace tenon {

/// The parts of a conjunction that read no memory: the statement that stands under the condition may write
/// what the others read, and then they hold no more. True where nothing is left.
PrimExpr lasting_part(const PrimExpr& condition);

}  // namespace tenon
