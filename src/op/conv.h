// SPDX-License-Identifier: Apache-2.0
// What convolutions and transposed convolutions share.
#pragma once
#include "op/family.h"
#include "op/letters.h"

namespace tenon::op {

/// "h" and "w" for two spatial axes, "w" for one.
std::string spatial_axis_name(size_t spatial, size_t i);
/// Lists of strides, dilations and paddings of the right lengths, the first two positive.
bool expect_windows(InferContext& ctx, const Array<int64_t>& strides, const Array<int64_t>& padding,
                    const Array<int64_t>& dilation, size_t n);
struct ConvShape {
  std::vector<int64_t> strides, pads, dilation;  ///< per spatial axis; pads: begins, then ends
};
inline ConvShape conv_shape(const ConvAttrs& a, size_t n) {
  return {per_axis(a.strides, n, 1), paddings(a.padding, n), per_axis(a.dilation, n, 1)};
}
/// Data of 16-bit floats meets float32 weights in a float32 sum: it is widened where it is padded.
inline bool is_widened(DataType data, DataType weight) {
  return data.is_float() && data.bits == 16 && weight == f32;
}
/// The data of a convolution with its padding: 0, or the third argument.
te::Tensor padded_data(const std::vector<te::Tensor>& in, const Shape& before, const Shape& after);
/// One sum over data, weight and result where they lie, in any order of axes and with channels in any blocks;
/// nullopt: windows would be in blocks, or a last block of the result is filled up.
std::optional<std::vector<te::Tensor>> define_conv_anywhere(const Call& call,
                                                            const std::vector<te::Tensor>& in,
                                                            const LayoutNames& names, size_t n);
/// A convolution on plain channels of one group as a product: each window becomes a row of a matrix (im2col).
std::vector<te::Tensor> define_conv_as_product(const Call& call, const std::vector<te::Tensor>& in, size_t n);
/// A depthwise convolution on blocks whose weight has so many taps of the first axis side by side
/// ("OIHW16o2h"): windows of a padded copy that holds as many rows by turns.
std::vector<te::Tensor> define_conv_by_turns(const Call& call, const std::vector<te::Tensor>& in, size_t n,
                                             int64_t taps);
/// A weight whose last two axes are the outputs of a block and, for each, the inputs that a dot instruction
/// takes together, or taps: the two as one axis.
Expr with_groups(LayoutContext& ctx, const Expr& weight);
/// Constant weights of floats, and of bytes where the target multiplies them: channels in blocks.
std::optional<LaidOut> layout_of_conv(LayoutContext& ctx, size_t n);

}  // namespace tenon::op
