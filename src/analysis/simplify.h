// SPDX-License-Identifier: Apache-2.0
// Statements simplified where the sizes of a function are known to be sizes.
#pragma once
#include "analysis/analyzer.h"

namespace tenon {

/// As `simplify` of a statement; each of `sizes` is at least 0.
tir::Stmt simplify(const tir::Stmt& s, bool unit_loops, const std::vector<tir::VarRef>& sizes);

}  // namespace tenon
