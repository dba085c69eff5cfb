// SPDX-License-Identifier: Apache-2.0
// Layouts: the order of a tensor's axes, by letters. Upper case is an axis, lower case behind a number a
// block of it: "NCHW16c" of a tensor (n, c, h, w) is a plain shape of one more axis, (n, c / 16, h, w, 16),
// and "OIHW8i16o" of a weight (o, i, h, w) is (o / 16, i / 8, h, w, 8, 16). Blocks of blocks stand from the
// outside to the inside: "OIHW4i16o4i" is (o / 16, i / 16, h, w, 4, 16, 4).
#pragma once
#include <algorithm>
#include <optional>

#include "ir/graph.h"

namespace tenon::op {

struct Layout {
  struct Axis {
    char letter = 0;    ///< upper case
    int64_t block = 0;  ///< elements of a block; 0: the axis itself
    bool operator==(const Axis&) const = default;
  };
  std::vector<Axis> axes;

  /// Nullopt: the text does not name each axis once, or a block has no axis.
  static std::optional<Layout> parse(std::string_view text);
  std::string name() const;
  bool operator==(const Layout&) const = default;
  /// Elements of a block of the axis, the blocks inside it included; 1: it is in none.
  int64_t block(char letter) const;
  /// Elements along its letter that one step of each axis goes: 1, 16, 1, 1, 1 in "NCHW16c".
  std::vector<int64_t> steps() const;
  /// The letters, each once, in alphabetical order.
  std::string letters() const;
  bool has_blocks() const;
  /// The same with a block of an axis as the last axis.
  Layout blocked(char letter, int64_t block) const;
  /// Elements along an axis, blocks included, of a tensor of these sizes in this layout.
  PrimExpr size(char letter, const Array<PrimExpr>& shape) const;
  /// The sizes in this layout of a tensor whose sizes in `from` are `shape`; blocks are filled up.
  Array<PrimExpr> shape(const Layout& from, const Array<PrimExpr>& shape) const;
  /// The place in this layout of the element at `index` in `from`.
  Array<PrimExpr> index(const Layout& from, const Array<PrimExpr>& index) const;
  /// Elements of a tensor of `shape` in `from` lie in memory as those in this layout do.
  bool same_memory(const Layout& from, const Array<PrimExpr>& shape) const;
};

/// "NCHW" and "OIHW" for two spatial axes; of one to three.
Layout data_layout(size_t spatial);
Layout kernel_layout(size_t spatial);

/// Block of the channels, as the last axis, in a layout of n spatial axes: 0 for the plain one (or an empty
/// name), the block for "NCHW16c"; nullopt when it is none.
std::optional<int64_t> data_block(std::string_view layout, size_t n);
/// Blocks of the input and output channels in a kernel layout of n spatial axes; 0: not blocked. With a group
/// ("OIHW16o4i", narrow types) the last axis holds, for each output channel of a block, `group` neighbouring
/// input channels, and `in` such groups follow one another ("OIHW16i64o4i") or lie apart by windows; with
/// taps ("OIHW16o2h", depthwise convolutions of narrow types) so many neighbours along the first spatial
/// axis.
struct KernelBlocks {
  int64_t in = 0, out = 0, group = 0, taps = 0;
  /// Neighbours of one output channel on the last axis.
  int64_t together() const { return std::max<int64_t>({1, group, taps}); }
  /// Input channels of one step along the second axis.
  int64_t inputs() const { return std::max<int64_t>(1, in) * std::max<int64_t>(1, group); }
};
std::optional<KernelBlocks> kernel_blocks(std::string_view layout, size_t n);
/// With the groups of a convolution as axes, "NGCHW" is (n, groups, c / groups, h, w) and "GOIHW"
/// (groups, o / groups, i, h, w).
std::string grouped_data_layout(size_t n);
std::string grouped_kernel_layout(size_t n);
/// The names back: "NCHW16c", "OIHW8i16o", "OIHW16o"; the plain names for blocks of 0.
std::string data_layout_name(size_t n, int64_t block);
std::string kernel_layout_name(size_t n, KernelBlocks blocks);

}  // namespace tenon::op
