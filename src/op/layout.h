// SPDX-License-Identifier: Apache-2.0
// Names of layouts. A blocked layout is a plain shape of one more axis: "NCHW16c" of (n, c, h, w) is
// (n, c / 16, h, w, 16); "OIHW8i16o" of a weight (o, i, h, w) is (o / 16, i / 8, h, w, 8, 16). With the
// groups of a convolution apart, "NGCHW" is (n, groups, c / groups, h, w) and "GOIHW" (groups, o / groups, i,
// h, w).
#pragma once
#include <optional>

#include "op/op_def.h"

namespace tenon::op {

/// Block of the channels in a layout of n spatial axes: 0 for the plain one (or an empty name), the block for
/// "NCHW16c"; nullopt when it is none.
std::optional<int64_t> data_block(std::string_view layout, size_t n);
/// Blocks of the input and output channels in a kernel layout of n spatial axes; 0: not blocked. With a group
/// ("OIHW16o4i", narrow types) the last axis holds, for each output channel of a block, `group` neighbouring
/// input channels.
struct KernelBlocks {
  int64_t in = 0, out = 0, group = 0;
};
std::optional<KernelBlocks> kernel_blocks(std::string_view layout, size_t n);
/// "NGCHW" and "GOIHW".
std::string grouped_data_layout(size_t n);
std::string grouped_kernel_layout(size_t n);
/// The names back: "NCHW16c", "OIHW8i16o", "OIHW16o"; the plain names for blocks of 0.
std::string data_layout_name(size_t n, int64_t block);
std::string kernel_layout_name(size_t n, KernelBlocks blocks);

}  // namespace tenon::op
