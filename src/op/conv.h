// SPDX-License-Identifier: Apache-2.0
// What convolutions and transposed convolutions share.
#pragma once
#include "op/family.h"
#include "op/layout_rule.h"

namespace tenon::op {

/// "h" and "w" for two spatial axes, "w" for one.
std::string spatial_axis_name(size_t spatial, size_t i);
/// Lists of strides, dilations and paddings of the right lengths, the first two positive.
bool expect_windows(InferContext& ctx, const Array<int64_t>& strides, const Array<int64_t>& padding,
                    const Array<int64_t>& dilation, size_t n);
/// A weight whose last two axes are the outputs of a block and, for each, the inputs that a dot instruction
/// takes together: the two as one axis.
Expr with_groups(LayoutContext& ctx, const Expr& weight);

}  // namespace tenon::op
