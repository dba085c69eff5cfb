// SPDX-License-Identifier: Apache-2.0
// What the quantised families share: parameters that broadcast along an axis, and saturating results.
#pragma once
#include "op/compose.h"

namespace tenon::op {

/// A scale or zero point in type t, shaped to broadcast along an axis of a tensor of `rank` dimensions;
/// scalars stay. Of a constant a constant.
Term along_axis(InferContext& ctx, const Term& parameter, int64_t axis, int64_t rank, DataType t = f32);
/// round_to_even(x / scale) + zero, kept in the range of t.
Term quantized(const Term& x, const Term& scale, const Term& zero, DataType t);
/// (x - zero) · scale as f32.
Term dequantized(const Term& x, const Term& scale, const Term& zero);
/// Integer x minus its zero point, as int32.
Term centred(InferContext& ctx, const Term& x, const Term& zero, int64_t axis);

/// The scales of products: a constant where both are and `a` has one element, else a call.
Expr product_of_scales(const Expr& a, const Expr& b);
/// A composed operator of a quantised family: qnn_canonicalize writes its formula in its place.
OpRegistration register_quantized(OpName name, std::string doc, FusionKind kind, Compose f);

}  // namespace tenon::op
