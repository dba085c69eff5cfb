// SPDX-License-Identifier: Apache-2.0
// Attributes of the operators in vision.cpp, roi.cpp and sample.cpp.
#pragma once
#include "op/attrs.h"

namespace tenon::op {

struct NmsAttrs : Attrs<NmsAttrs> {
  bool center_point_box = false;
  int64_t max_boxes = 0;
  static constexpr std::string_view type_key = "attrs.Nms";
  static void fields(auto& f) {
    f.add("center_point_box", &NmsAttrs::center_point_box,
          "boxes are (x centre, y centre, width, height), not two corners (y, x, y, x)")
        .add("max_boxes", &NmsAttrs::max_boxes, "most boxes per class that the buffer has room for; 0: all");
  }
};
struct RoiAttrs : Attrs<RoiAttrs> {
  int64_t pooled_height = 1, pooled_width = 1;
  double spatial_scale = 1;
  int64_t sample_ratio = 0;
  std::string mode = "avg";
  bool aligned = true;
  std::string layout;
  static constexpr std::string_view type_key = "attrs.Roi";
  static void fields(auto& f) {
    f.add("pooled_height", &RoiAttrs::pooled_height, "height of the result")
        .add("pooled_width", &RoiAttrs::pooled_width, "width of the result")
        .add("spatial_scale", &RoiAttrs::spatial_scale, "factor from the regions' coordinates to x's")
        .add("sample_ratio", &RoiAttrs::sample_ratio,
             "roi_align: samples per axis of a cell; 0: as many as the cell has elements, rounded up")
        .add("mode", &RoiAttrs::mode, "roi_align: 'avg' or 'max' of the samples")
        .add("aligned", &RoiAttrs::aligned, "roi_align: elements lie at half coordinates")
        .add("layout", &RoiAttrs::layout, kLayoutHelp);
  }
};
struct BoxAttrs : Attrs<BoxAttrs> {
  Array<double> sizes, ratios;
  bool clip = false;
  static constexpr std::string_view type_key = "attrs.Box";
  static void fields(auto& f) {
    f.add("sizes", &BoxAttrs::sizes, "sizes as shares of the image")
        .add("ratios", &BoxAttrs::ratios, "widths over heights")
        .add("clip", &BoxAttrs::clip, "move corners into the image");
  }
};
struct ScoreAttrs : Attrs<ScoreAttrs> {
  double score_threshold = 0;
  int64_t score_index = 0;
  static constexpr std::string_view type_key = "attrs.Score";
  static void fields(auto& f) {
    f.add("score_threshold", &ScoreAttrs::score_threshold, "what is not above it is no box")
        .add("score_index", &ScoreAttrs::score_index, "where the score is in a box");
  }
};
struct StrideAttrs : Attrs<StrideAttrs> {
  int64_t stride = 2;
  static constexpr std::string_view type_key = "attrs.Stride";
  static void fields(auto& f) { f.add("stride", &StrideAttrs::stride, "edge of the blocks"); }
};
struct GridSampleAttrs : Attrs<GridSampleAttrs> {
  std::string method = "linear", padding_mode = "zeros";
  bool align_corners = false;
  std::string layout;
  static constexpr std::string_view type_key = "attrs.GridSample";
  static void fields(auto& f) {
    f.add("method", &GridSampleAttrs::method, "'nearest', 'linear' or 'cubic' (two spatial axes)")
        .add("padding_mode", &GridSampleAttrs::padding_mode,
             "what is read outside: 'zeros', 'border' (the nearest element) or 'reflection'")
        .add("align_corners", &GridSampleAttrs::align_corners,
             "-1 and 1 are the centres of the outer elements, not their outer edges")
        .add("layout", &GridSampleAttrs::layout, kLayoutHelp);
  }
};
struct AlignAttrs : Attrs<AlignAttrs> {
  bool align_corners = false;
  static constexpr std::string_view type_key = "attrs.Align";
  static void fields(auto& f) {
    f.add("align_corners", &AlignAttrs::align_corners,
          "-1 and 1 are the centres of the outer elements, not their outer edges");
  }
};
struct CropAttrs : Attrs<CropAttrs> {
  std::string method = "linear";
  double extrapolation_value = 0;
  std::string layout;
  static constexpr std::string_view type_key = "attrs.Crop";
  static void fields(auto& f) {
    f.add("method", &CropAttrs::method, "'linear' or 'nearest'")
        .add("extrapolation_value", &CropAttrs::extrapolation_value, "value outside of the image")
        .add("layout", &CropAttrs::layout, kLayoutHelp);
  }
};
struct DeformAttrs : Attrs<DeformAttrs> {
  Array<int64_t> strides, padding, dilation;
  int64_t groups = 1, deformable_groups = 1;
  std::string data_layout, kernel_layout, out_layout;
  static constexpr std::string_view type_key = "attrs.Deform";
  static void fields(auto& f) {
    f.add("strides", &DeformAttrs::strides, "step per spatial axis; empty: 1")
        .add("padding", &DeformAttrs::padding,
             "zeros around: one, one per axis, or all begins then all ends; empty: 0")
        .add("dilation", &DeformAttrs::dilation, "distance of kernel elements; empty: 1")
        .add("groups", &DeformAttrs::groups, "number of independent channel groups")
        .add("deformable_groups", &DeformAttrs::deformable_groups, "groups of channels that move alike")
        .add("data_layout", &DeformAttrs::data_layout, kLayoutHelp)
        .add("kernel_layout", &DeformAttrs::kernel_layout, "letters of the weight's axes; empty: 'OIHW'")
        .add("out_layout", &DeformAttrs::out_layout, kOutLayoutHelp);
  }
};
struct WindowAttrs : Attrs<WindowAttrs> {
  Array<int64_t> strides, padding, dilation;
  static constexpr std::string_view type_key = "attrs.Window";
  static void fields(auto& f) {
    f.add("strides", &WindowAttrs::strides, "step per spatial axis; empty: 1")
        .add("padding", &WindowAttrs::padding,
             "outside is left out: one, one per axis, or all begins then all ends; empty: 0")
        .add("dilation", &WindowAttrs::dilation, "distance of window elements; empty: 1");
  }
};
struct CorrelationAttrs : Attrs<CorrelationAttrs> {
  int64_t kernel_size = 1, max_displacement = 1, stride1 = 1, stride2 = 1, padding = 0;
  bool multiply = true;
  static constexpr std::string_view type_key = "attrs.Correlation";
  static void fields(auto& f) {
    f.add("kernel_size", &CorrelationAttrs::kernel_size, "edge of the compared windows, odd")
        .add("max_displacement", &CorrelationAttrs::max_displacement, "how far the second window moves")
        .add("stride1", &CorrelationAttrs::stride1, "step of the first window")
        .add("stride2", &CorrelationAttrs::stride2, "step of the displacement")
        .add("padding", &CorrelationAttrs::padding, "zeros around both")
        .add("multiply", &CorrelationAttrs::multiply, "products; false: magnitudes of differences");
  }
};
struct UpsamplingAttrs : Attrs<UpsamplingAttrs> {
  Array<int64_t> scale;
  std::string method = "nearest_neighbor";
  bool align_corners = false;
  std::string layout;
  static constexpr std::string_view type_key = "attrs.Upsampling";
  static void fields(auto& f) {
    f.add("scale", &UpsamplingAttrs::scale, "factor: one, or one per spatial axis")
        .add("method", &UpsamplingAttrs::method, "'nearest_neighbor', 'linear' or 'cubic'")
        .add("align_corners", &UpsamplingAttrs::align_corners, "outer elements stay at the edge")
        .add("layout", &UpsamplingAttrs::layout, kLayoutHelp);
  }
};

}  // namespace tenon::op
