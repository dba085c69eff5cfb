// SPDX-License-Identifier: Apache-2.0
// Attributes of the operators in arrange.cpp.
#pragma once
#include "op/attrs.h"

namespace tenon::op {

struct RollAttrs : Attrs<RollAttrs> {
  Array<int64_t> shift, axes;
  static constexpr std::string_view type_key = "attrs.Roll";
  static constexpr auto fields =
      std::tuple{field("shift", &RollAttrs::shift, "places that elements move to, per axis"),
                 field("axes", &RollAttrs::axes, "axes; empty: 0, 1, …")};
};
struct SequenceAttrs : Attrs<SequenceAttrs> {
  int64_t seq_axis = 0, batch_axis = 1;
  static constexpr std::string_view type_key = "attrs.Sequence";
  static constexpr auto fields =
      std::tuple{field("seq_axis", &SequenceAttrs::seq_axis, "axis of the steps"),
                 field("batch_axis", &SequenceAttrs::batch_axis, "axis of the sequences")};
};
struct MaskAttrs : Attrs<MaskAttrs> {
  int64_t axis = 0;
  double value = 0;
  static constexpr std::string_view type_key = "attrs.Mask";
  static constexpr auto fields =
      std::tuple{field("axis", &MaskAttrs::axis, "axis of the steps (0 or 1, the other one is the batch)"),
                 field("value", &MaskAttrs::value, "what stands where nothing is kept")};
};
struct DilateAttrs : Attrs<DilateAttrs> {
  Array<int64_t> strides;
  double value = 0;
  static constexpr std::string_view type_key = "attrs.Dilate";
  static constexpr auto fields =
      std::tuple{field("strides", &DilateAttrs::strides, "distance of neighbours in the result, per axis"),
                 field("value", &DilateAttrs::value, "what stands between them")};
};
struct BlockAttrs : Attrs<BlockAttrs> {
  Array<int64_t> block_shape, margins;
  static constexpr std::string_view type_key = "attrs.Block";
  static constexpr auto fields =
      std::tuple{field("block_shape", &BlockAttrs::block_shape, "block per axis behind the batch"),
                 field("margins", &BlockAttrs::margins,
                       "begin and end per axis: zeros added before, or elements cut away after; empty: 0")};
};
struct GroupsAttrs : Attrs<GroupsAttrs> {
  int64_t groups = 1;
  static constexpr std::string_view type_key = "attrs.Groups";
  static constexpr auto fields = std::tuple{field("groups", &GroupsAttrs::groups, "number of groups")};
};
struct OffsetAttrs : Attrs<OffsetAttrs> {
  int64_t offset = 0;
  static constexpr std::string_view type_key = "attrs.Offset";
  static constexpr auto fields =
      std::tuple{field("offset", &OffsetAttrs::offset, "0: the main diagonal; above 0: to the right of it")};
};
struct RightAttrs : Attrs<RightAttrs> {
  bool right = false;
  static constexpr std::string_view type_key = "attrs.Right";
  static constexpr auto fields = std::tuple{field("right", &RightAttrs::right, "behind equal elements")};
};
struct UnfoldAttrs : Attrs<UnfoldAttrs> {
  Array<int64_t> kernel_size, strides, padding, dilation;
  static constexpr std::string_view type_key = "attrs.Unfold";
  static constexpr auto fields =
      std::tuple{field("kernel_size", &UnfoldAttrs::kernel_size, "size of the window per spatial axis"),
                 field("strides", &UnfoldAttrs::strides, "step per spatial axis; empty: 1"),
                 field("padding", &UnfoldAttrs::padding, "zeros around, as for convolutions; empty: 0"),
                 field("dilation", &UnfoldAttrs::dilation, "distance of elements of the window; empty: 1")};
};
struct NormalizeAttrs : Attrs<NormalizeAttrs> {
  int64_t axis = -1;
  double epsilon = 1e-12;
  static constexpr std::string_view type_key = "attrs.Normalize";
  static constexpr auto fields =
      std::tuple{field("axis", &NormalizeAttrs::axis, "axis of the vectors; negative counts from the end"),
                 field("epsilon", &NormalizeAttrs::epsilon, "least length that is divided by")};
};

}  // namespace tenon::op
