// SPDX-License-Identifier: Apache-2.0
// What the quantised families share: parameters that broadcast along an axis, and saturating results.
#pragma once
#include "op/compose.h"

namespace tenon::op {

/// A scale or zero point as f32, shaped to broadcast along an axis of a tensor of `rank` dimensions; scalars
/// stay.
Expr along_axis(const Call& call, const Expr& parameter, int64_t axis, int64_t rank);
/// round_to_even(x / scale) + zero, kept in the range of t.
Expr quantized(const Expr& x, const Expr& scale, const Expr& zero, DataType t);
/// (x - zero) · scale as f32.
Expr dequantized(const Expr& x, const Expr& scale, const Expr& zero);
/// Integer x minus its zero point, as int32.
Expr centred(const Call& call, const Expr& x, const Expr& zero, int64_t axis);

}  // namespace tenon::op
