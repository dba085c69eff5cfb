// SPDX-License-Identifier: Apache-2.0
// Attributes of the operators in arrange.cpp, blocks.cpp and vectors.cpp.
#pragma once
#include "op/attrs.h"

namespace tenon::op {

struct RollAttrs : Attrs<RollAttrs> {
  Array<int64_t> shift, axes;
  static constexpr std::string_view type_key = "attrs.Roll";
  static void fields(auto& f) {
    f.add("shift", &RollAttrs::shift, "places that elements move to, per axis")
        .add("axes", &RollAttrs::axes, "axes; empty: 0, 1, …");
  }
};
struct SequenceAttrs : Attrs<SequenceAttrs> {
  int64_t seq_axis = 0, batch_axis = 1;
  static constexpr std::string_view type_key = "attrs.Sequence";
  static void fields(auto& f) {
    f.add("seq_axis", &SequenceAttrs::seq_axis, "axis of the steps")
        .add("batch_axis", &SequenceAttrs::batch_axis, "axis of the sequences");
  }
};
struct MaskAttrs : Attrs<MaskAttrs> {
  int64_t axis = 0;
  double value = 0;
  static constexpr std::string_view type_key = "attrs.Mask";
  static void fields(auto& f) {
    f.add("axis", &MaskAttrs::axis, "axis of the steps (0 or 1, the other one is the batch)")
        .add("value", &MaskAttrs::value, "what stands where nothing is kept");
  }
};
struct DilateAttrs : Attrs<DilateAttrs> {
  Array<int64_t> strides;
  double value = 0;
  static constexpr std::string_view type_key = "attrs.Dilate";
  static void fields(auto& f) {
    f.add("strides", &DilateAttrs::strides, "distance of neighbours in the result, per axis")
        .add("value", &DilateAttrs::value, "what stands between them");
  }
};
struct BlockAttrs : Attrs<BlockAttrs> {
  Array<int64_t> block_shape, margins;
  static constexpr std::string_view type_key = "attrs.Block";
  static void fields(auto& f) {
    f.add("block_shape", &BlockAttrs::block_shape, "block per axis behind the batch")
        .add("margins", &BlockAttrs::margins,
             "begin and end per axis: zeros added before, or elements cut away after; empty: 0");
  }
};
struct GroupsAttrs : Attrs<GroupsAttrs> {
  int64_t groups = 1;
  static constexpr std::string_view type_key = "attrs.Groups";
  static void fields(auto& f) { f.add("groups", &GroupsAttrs::groups, "number of groups"); }
};
struct OffsetAttrs : Attrs<OffsetAttrs> {
  int64_t offset = 0;
  static constexpr std::string_view type_key = "attrs.Offset";
  static void fields(auto& f) {
    f.add("offset", &OffsetAttrs::offset, "0: the main diagonal; above 0: to the right of it");
  }
};
struct RightAttrs : Attrs<RightAttrs> {
  bool right = false;
  static constexpr std::string_view type_key = "attrs.Right";
  static void fields(auto& f) { f.add("right", &RightAttrs::right, "behind equal elements"); }
};
struct UnfoldAttrs : Attrs<UnfoldAttrs> {
  Array<int64_t> kernel_size, strides, padding, dilation;
  static constexpr std::string_view type_key = "attrs.Unfold";
  static void fields(auto& f) {
    f.add("kernel_size", &UnfoldAttrs::kernel_size, "size of the window per spatial axis")
        .add("strides", &UnfoldAttrs::strides, "step per spatial axis; empty: 1")
        .add("padding", &UnfoldAttrs::padding, "zeros around, as for convolutions; empty: 0")
        .add("dilation", &UnfoldAttrs::dilation, "distance of elements of the window; empty: 1");
  }
};
struct NormalizeAttrs : Attrs<NormalizeAttrs> {
  int64_t axis = -1;
  double epsilon = 1e-12;
  static constexpr std::string_view type_key = "attrs.Normalize";
  static void fields(auto& f) {
    f.add("axis", &NormalizeAttrs::axis, "axis of the vectors; negative counts from the end")
        .add("epsilon", &NormalizeAttrs::epsilon, "least length that is divided by");
  }
};
struct ViewAttrs : Attrs<ViewAttrs> {
  DataType dtype = DataType::void_();
  static constexpr std::string_view type_key = "attrs.View";
  static void fields(auto& f) {
    f.add("dtype", &ViewAttrs::dtype, "element type of the result; void: the operand's");
  }
};

}  // namespace tenon::op
