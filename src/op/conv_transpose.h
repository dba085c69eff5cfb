// SPDX-License-Identifier: Apache-2.0
// What the definitions of transposed convolutions share.
#pragma once
#include <optional>

#include "op/conv.h"

namespace tenon::op {

struct TransposeShape {
  std::vector<int64_t> strides, pads, output_padding, dilation;
};
inline TransposeShape transpose_shape(const ConvTransposeAttrs& a, size_t n) {
  return {per_axis(a.strides, n, 1), paddings(a.padding, n), per_axis(a.output_padding, n, 0),
          per_axis(a.dilation, n, 1)};
}

/// Channels in blocks: the data "NCHW16c", the weight "HWOI16i16o" (or "HWOI16o4i", whose last axis holds
/// `group` input channels for each output channel), and the result "NCHW16c". Of windows side by side the
/// result may be "N2h2wCHW16c", where the elements of a window are axes of their own.
struct ChannelBlocks {
  int64_t in = 0, out = 0, group = 0;  ///< channels of a block; neighbours that a dot instruction takes
  bool windows = false;                ///< elements of a window are axes
};

/// The sum over the channels, and beside it the output channel, of a group.
struct GroupIndex {
  PrimExpr input, output;
};
GroupIndex group_index(const te::Tensor& w, int64_t groups, const PrimExpr& inputs, const PrimExpr& output,
                       const PrimExpr& rc);

/// Output o + pad = stride · q + phase takes the kernel elements k = stride · t + phase and the inputs q - t:
/// one convolution of stride 1 for every phase, over no zeros.
std::vector<te::Tensor> define_by_phases(const Call& call, const std::vector<te::Tensor>& in,
                                         const std::vector<int64_t>& kernel,
                                         const std::optional<ChannelBlocks>& blocks);

}  // namespace tenon::op
