// SPDX-License-Identifier: Apache-2.0
// Attributes of the operators in vision.cpp, roi.cpp and sample.cpp.
#pragma once
#include "op/attrs.h"

namespace tenon::op {

struct NmsAttrs : Attrs<NmsAttrs> {
  bool center_point_box = false;
  int64_t max_boxes = 0;
  static constexpr std::string_view type_key = "attrs.Nms";
  static constexpr auto fields = std::tuple{
      field("center_point_box", &NmsAttrs::center_point_box,
            "boxes are (x centre, y centre, width, height), not two corners (y, x, y, x)"),
      field("max_boxes", &NmsAttrs::max_boxes, "most boxes per class that the buffer has room for; 0: all")};
};
struct RoiAttrs : Attrs<RoiAttrs> {
  int64_t pooled_height = 1, pooled_width = 1;
  double spatial_scale = 1;
  int64_t sample_ratio = 0;
  std::string mode = "avg";
  bool aligned = true;
  static constexpr std::string_view type_key = "attrs.Roi";
  static constexpr auto fields = std::tuple{
      field("pooled_height", &RoiAttrs::pooled_height, "height of the result"),
      field("pooled_width", &RoiAttrs::pooled_width, "width of the result"),
      field("spatial_scale", &RoiAttrs::spatial_scale, "factor from the regions' coordinates to x's"),
      field("sample_ratio", &RoiAttrs::sample_ratio,
            "roi_align: samples per axis of a cell; 0: as many as the cell has elements, rounded up"),
      field("mode", &RoiAttrs::mode, "roi_align: 'avg' or 'max' of the samples"),
      field("aligned", &RoiAttrs::aligned, "roi_align: elements lie at half coordinates")};
};
struct BoxAttrs : Attrs<BoxAttrs> {
  Array<double> sizes, ratios;
  bool clip = false;
  static constexpr std::string_view type_key = "attrs.Box";
  static constexpr auto fields = std::tuple{field("sizes", &BoxAttrs::sizes, "sizes as shares of the image"),
                                            field("ratios", &BoxAttrs::ratios, "widths over heights"),
                                            field("clip", &BoxAttrs::clip, "move corners into the image")};
};
struct ScoreAttrs : Attrs<ScoreAttrs> {
  double score_threshold = 0;
  int64_t score_index = 0;
  static constexpr std::string_view type_key = "attrs.Score";
  static constexpr auto fields =
      std::tuple{field("score_threshold", &ScoreAttrs::score_threshold, "what is not above it is no box"),
                 field("score_index", &ScoreAttrs::score_index, "where the score is in a box")};
};
struct StrideAttrs : Attrs<StrideAttrs> {
  int64_t stride = 2;
  static constexpr std::string_view type_key = "attrs.Stride";
  static constexpr auto fields = std::tuple{field("stride", &StrideAttrs::stride, "edge of the blocks")};
};
struct GridSampleAttrs : Attrs<GridSampleAttrs> {
  std::string method = "linear", padding_mode = "zeros";
  bool align_corners = false;
  static constexpr std::string_view type_key = "attrs.GridSample";
  static constexpr auto fields = std::tuple{
      field("method", &GridSampleAttrs::method, "'nearest', 'linear' or 'cubic' (two spatial axes)"),
      field("padding_mode", &GridSampleAttrs::padding_mode,
            "what is read outside: 'zeros', 'border' (the nearest element) or 'reflection'"),
      field("align_corners", &GridSampleAttrs::align_corners,
            "-1 and 1 are the centres of the outer elements, not their outer edges")};
};
struct AlignAttrs : Attrs<AlignAttrs> {
  bool align_corners = false;
  static constexpr std::string_view type_key = "attrs.Align";
  static constexpr auto fields =
      std::tuple{field("align_corners", &AlignAttrs::align_corners,
                       "-1 and 1 are the centres of the outer elements, not their outer edges")};
};
struct CropAttrs : Attrs<CropAttrs> {
  std::string method = "linear";
  double extrapolation_value = 0;
  static constexpr std::string_view type_key = "attrs.Crop";
  static constexpr auto fields =
      std::tuple{field("method", &CropAttrs::method, "'linear' or 'nearest'"),
                 field("extrapolation_value", &CropAttrs::extrapolation_value, "value outside of the image")};
};
struct DeformAttrs : Attrs<DeformAttrs> {
  Array<int64_t> strides, padding, dilation;
  int64_t groups = 1, deformable_groups = 1;
  static constexpr std::string_view type_key = "attrs.Deform";
  static constexpr auto fields = std::tuple{
      field("strides", &DeformAttrs::strides, "step per spatial axis; empty: 1"),
      field("padding", &DeformAttrs::padding,
            "zeros around: one, one per axis, or all begins then all ends; empty: 0"),
      field("dilation", &DeformAttrs::dilation, "distance of kernel elements; empty: 1"),
      field("groups", &DeformAttrs::groups, "number of independent channel groups"),
      field("deformable_groups", &DeformAttrs::deformable_groups, "groups of channels that move alike")};
};
struct WindowAttrs : Attrs<WindowAttrs> {
  Array<int64_t> strides, padding, dilation;
  static constexpr std::string_view type_key = "attrs.Window";
  static constexpr auto fields =
      std::tuple{field("strides", &WindowAttrs::strides, "step per spatial axis; empty: 1"),
                 field("padding", &WindowAttrs::padding,
                       "outside is left out: one, one per axis, or all begins then all ends; empty: 0"),
                 field("dilation", &WindowAttrs::dilation, "distance of window elements; empty: 1")};
};
struct CorrelationAttrs : Attrs<CorrelationAttrs> {
  int64_t kernel_size = 1, max_displacement = 1, stride1 = 1, stride2 = 1, padding = 0;
  bool multiply = true;
  static constexpr std::string_view type_key = "attrs.Correlation";
  static constexpr auto fields = std::tuple{
      field("kernel_size", &CorrelationAttrs::kernel_size, "edge of the compared windows, odd"),
      field("max_displacement", &CorrelationAttrs::max_displacement, "how far the second window moves"),
      field("stride1", &CorrelationAttrs::stride1, "step of the first window"),
      field("stride2", &CorrelationAttrs::stride2, "step of the displacement"),
      field("padding", &CorrelationAttrs::padding, "zeros around both"),
      field("multiply", &CorrelationAttrs::multiply, "products; false: magnitudes of differences")};
};
struct UpsamplingAttrs : Attrs<UpsamplingAttrs> {
  Array<int64_t> scale;
  std::string method = "nearest_neighbor";
  bool align_corners = false;
  static constexpr std::string_view type_key = "attrs.Upsampling";
  static constexpr auto fields =
      std::tuple{field("scale", &UpsamplingAttrs::scale, "factor: one, or one per spatial axis"),
                 field("method", &UpsamplingAttrs::method, "'nearest_neighbor', 'linear' or 'cubic'"),
                 field("align_corners", &UpsamplingAttrs::align_corners, "outer elements stay at the edge")};
};

}  // namespace tenon::op
