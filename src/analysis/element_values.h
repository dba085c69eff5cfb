// SPDX-License-Identifier: Apache-2.0
// What each element of a program's results is computed from, whatever its loops look like: local buffers are
// replaced by what they hold, reductions are values.
#pragma once
#include "ir/tir.h"

namespace tenon {

/// Proved: the programs, of equal signatures, compute the same from the same inputs, but for the order in
/// which sums (and products of a reduction) are added up. False is no answer. Inputs must not share memory
/// with results.
bool same_element_values(const tir::PrimFunc& a, const tir::PrimFunc& b);

}  // namespace tenon
