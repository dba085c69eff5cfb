// SPDX-License-Identifier: Apache-2.0
// Attribute nodes of all operators, by family: field, default, meaning. Importers and passes make and read
// them.
#pragma once
#include "ir/op.h"

namespace tenon::op {

using graph::Attrs;

/// The call's attributes; its operator's defaults when it has none.
template <class T>
const T& attrs_of(const graph::Call& call) {
  if (const T* a = call.attrs.as<T>()) return *a;
  CHECK(!call.attrs, "a call carries attributes of another operator");
  const T* defaults = call.op.as<graph::Op>()->default_attrs.as<T>();
  CHECK(defaults, "an operator reads attributes that it does not have");
  return *defaults;
}

// ---------------------------------------------------------------- element-wise
struct CastAttrs : Attrs<CastAttrs> {
  DataType dtype = f32;
  static constexpr std::string_view type_key = "attrs.Cast";
  static void fields(auto& f) { f.add("dtype", &CastAttrs::dtype, "type of the result"); }
};
struct ClipAttrs : Attrs<ClipAttrs> {
  double min = 0, max = 0;
  static constexpr std::string_view type_key = "attrs.Clip";
  static void fields(auto& f) {
    f.add("min", &ClipAttrs::min, "lower bound").add("max", &ClipAttrs::max, "upper bound");
  }
};
struct GeluAttrs : Attrs<GeluAttrs> {
  std::string approximate = "none";
  static constexpr std::string_view type_key = "attrs.Gelu";
  static void fields(auto& f) { f.add("approximate", &GeluAttrs::approximate, "'none' (erf) or 'tanh'"); }
};
/// One parameter; its default belongs to the operator (leaky_relu 0.01, elu and celu 1, thresholded_relu 1).
struct AlphaAttrs : Attrs<AlphaAttrs> {
  double alpha = 0.01;
  static constexpr std::string_view type_key = "attrs.Alpha";
  static void fields(auto& f) { f.add("alpha", &AlphaAttrs::alpha, "slope, scale or threshold"); }
};
struct SeluAttrs : Attrs<SeluAttrs> {
  double alpha = 1.6732632423543772, gamma = 1.0507009873554805;
  static constexpr std::string_view type_key = "attrs.Selu";
  static void fields(auto& f) {
    f.add("alpha", &SeluAttrs::alpha, "scale of the negative side")
        .add("gamma", &SeluAttrs::gamma, "scale of both sides");
  }
};
struct HardSigmoidAttrs : Attrs<HardSigmoidAttrs> {
  double alpha = 0.2, beta = 0.5;
  static constexpr std::string_view type_key = "attrs.HardSigmoid";
  static void fields(auto& f) {
    f.add("alpha", &HardSigmoidAttrs::alpha, "slope").add("beta", &HardSigmoidAttrs::beta, "value at 0");
  }
};

// ---------------------------------------------------------------- axes
struct AxisAttrs : Attrs<AxisAttrs> {
  int64_t axis = -1;
  static constexpr std::string_view type_key = "attrs.Axis";
  static void fields(auto& f) { f.add("axis", &AxisAttrs::axis, "axis; negative counts from the end"); }
};
struct AxesAttrs : Attrs<AxesAttrs> {
  Array<int64_t> axes;
  static constexpr std::string_view type_key = "attrs.Axes";
  static void fields(auto& f) {
    f.add("axes", &AxesAttrs::axes, "axes; negative counts from the end; empty: the operator's default");
  }
};
struct ReduceAttrs : Attrs<ReduceAttrs> {
  Array<int64_t> axis;
  bool keepdims = false;
  static constexpr std::string_view type_key = "attrs.Reduce";
  static void fields(auto& f) {
    f.add("axis", &ReduceAttrs::axis, "axes to reduce; empty: all of them")
        .add("keepdims", &ReduceAttrs::keepdims, "keep reduced axes with extent 1");
  }
};
struct ArgReduceAttrs : Attrs<ArgReduceAttrs> {
  int64_t axis = 0;
  bool keepdims = false, flat = false, select_last_index = false;
  static constexpr std::string_view type_key = "attrs.ArgReduce";
  static void fields(auto& f) {
    f.add("axis", &ArgReduceAttrs::axis, "axis to search")
        .add("keepdims", &ArgReduceAttrs::keepdims, "keep the axis with extent 1")
        .add("flat", &ArgReduceAttrs::flat, "search the flattened tensor instead of one axis")
        .add("select_last_index", &ArgReduceAttrs::select_last_index, "the last of equals wins");
  }
};
struct CumsumAttrs : Attrs<CumsumAttrs> {
  int64_t axis = 0;
  bool exclusive = false, reverse = false;
  static constexpr std::string_view type_key = "attrs.Cumsum";
  static void fields(auto& f) {
    f.add("axis", &CumsumAttrs::axis, "axis")
        .add("exclusive", &CumsumAttrs::exclusive, "leave out the element itself")
        .add("reverse", &CumsumAttrs::reverse, "from the end to the beginning");
  }
};

// ---------------------------------------------------------------- transform
struct SplitAttrs : Attrs<SplitAttrs> {
  int64_t axis = 0, sections = 0;
  Array<int64_t> indices;
  static constexpr std::string_view type_key = "attrs.Split";
  static void fields(auto& f) {
    f.add("axis", &SplitAttrs::axis, "axis")
        .add("sections", &SplitAttrs::sections, "number of parts of ceil(n / sections); 0: use indices")
        .add("indices", &SplitAttrs::indices, "where the second, third, … part begins");
  }
};
/// Python's slicing. Very large ends mean "to the end".
struct StridedSliceAttrs : Attrs<StridedSliceAttrs> {
  Array<int64_t> axes;
  Array<PrimExpr> begin, end;
  Array<int64_t> strides;
  static constexpr std::string_view type_key = "attrs.StridedSlice";
  static void fields(auto& f) {
    f.add("axes", &StridedSliceAttrs::axes, "axes; empty: 0, 1, …")
        .add("begin", &StridedSliceAttrs::begin, "first index per axis")
        .add("end", &StridedSliceAttrs::end, "end index per axis, not included")
        .add("strides", &StridedSliceAttrs::strides, "step per axis, not 0; empty: 1");
  }
};
struct GatherNdAttrs : Attrs<GatherNdAttrs> {
  int64_t batch_dims = 0;
  static constexpr std::string_view type_key = "attrs.GatherNd";
  static void fields(auto& f) {
    f.add("batch_dims", &GatherNdAttrs::batch_dims, "leading axes that data and indices share");
  }
};
struct ScatterAttrs : Attrs<ScatterAttrs> {
  int64_t axis = 0;
  std::string reduction = "update";
  static constexpr std::string_view type_key = "attrs.Scatter";
  static void fields(auto& f) {
    f.add("axis", &ScatterAttrs::axis, "axis (scatter_elements)")
        .add("reduction", &ScatterAttrs::reduction, "'update', 'add', 'mul', 'max' or 'min'");
  }
};
struct TileAttrs : Attrs<TileAttrs> {
  Array<int64_t> repeats;
  static constexpr std::string_view type_key = "attrs.Tile";
  static void fields(auto& f) { f.add("repeats", &TileAttrs::repeats, "copies per axis"); }
};
struct RepeatAttrs : Attrs<RepeatAttrs> {
  int64_t repeats = 1, axis = 0;
  static constexpr std::string_view type_key = "attrs.Repeat";
  static void fields(auto& f) {
    f.add("repeats", &RepeatAttrs::repeats, "copies of each element").add("axis", &RepeatAttrs::axis, "axis");
  }
};
struct PadAttrs : Attrs<PadAttrs> {
  Array<int64_t> pad_width;
  std::string pad_mode = "constant";
  double pad_value = 0;
  static constexpr std::string_view type_key = "attrs.Pad";
  static void fields(auto& f) {
    f.add("pad_width", &PadAttrs::pad_width,
          "before and after, per axis: [b0, a0, b1, a1, …]; negative crops")
        .add("pad_mode", &PadAttrs::pad_mode, "'constant', 'reflect', 'edge' or 'wrap'")
        .add("pad_value", &PadAttrs::pad_value, "value of 'constant'");
  }
};
struct OneHotAttrs : Attrs<OneHotAttrs> {
  int64_t depth = 1, axis = -1;
  static constexpr std::string_view type_key = "attrs.OneHot";
  static void fields(auto& f) {
    f.add("depth", &OneHotAttrs::depth, "number of classes").add("axis", &OneHotAttrs::axis, "new axis");
  }
};
struct DiagonalAttrs : Attrs<DiagonalAttrs> {
  int64_t k = 0;
  static constexpr std::string_view type_key = "attrs.Diagonal";
  static void fields(auto& f) { f.add("k", &DiagonalAttrs::k, "diagonal; positive is above the main one"); }
};
struct DTypeAttrs : Attrs<DTypeAttrs> {
  DataType dtype = DataType::void_();
  static constexpr std::string_view type_key = "attrs.DType";
  static void fields(auto& f) {
    f.add("dtype", &DTypeAttrs::dtype, "type of the result; void: from the arguments");
  }
};
struct EyeAttrs : Attrs<EyeAttrs> {
  int64_t k = 0;
  DataType dtype = f32;
  static constexpr std::string_view type_key = "attrs.Eye";
  static void fields(auto& f) {
    f.add("k", &EyeAttrs::k, "diagonal").add("dtype", &EyeAttrs::dtype, "type of the result");
  }
};
// Attributes that name layouts (layout.h): any order of the letters, each with blocks of any sizes.
inline constexpr char kLayoutHelp[] =
    "letters of the axes in their order; empty: 'NCHW' (of one to three spatial axes); 'NHWC'; 'NCHW16c': "
    "channels in blocks of 16, an axis at the end";
inline constexpr char kOutLayoutHelp[] = "letters of the result's axes; empty: as the data";
struct BlockSizeAttrs : Attrs<BlockSizeAttrs> {
  int64_t block_size = 1;
  std::string mode = "DCR", layout;
  static constexpr std::string_view type_key = "attrs.BlockSize";
  static void fields(auto& f) {
    f.add("block_size", &BlockSizeAttrs::block_size, "edge of the block")
        .add("mode", &BlockSizeAttrs::mode, "depth_to_space: 'DCR' (depth outermost) or 'CRD'")
        .add("layout", &BlockSizeAttrs::layout, kLayoutHelp);
  }
};
/// Layouts name each axis by a letter; a number before a small letter is a block of that axis: "NCHW8c".
struct LayoutTransformAttrs : Attrs<LayoutTransformAttrs> {
  std::string src_layout, dst_layout;
  static constexpr std::string_view type_key = "attrs.LayoutTransform";
  static void fields(auto& f) {
    f.add("src_layout", &LayoutTransformAttrs::src_layout, "layout of the argument: 'NCHW'")
        .add("dst_layout", &LayoutTransformAttrs::dst_layout, "layout of the result: 'NCHW8c'");
  }
};

// ---------------------------------------------------------------- contractions
struct MatmulAttrs : Attrs<MatmulAttrs> {
  DataType out_dtype = DataType::void_();
  static constexpr std::string_view type_key = "attrs.Matmul";
  static void fields(auto& f) {
    f.add("out_dtype", &MatmulAttrs::out_dtype,
          "type of the result; void: the operands' (int32 for 8-bit integers)");
  }
};
struct PackedMatmulAttrs : Attrs<PackedMatmulAttrs> {
  int64_t units = 0;
  DataType out_dtype = DataType::void_();
  int64_t group = 1;
  static constexpr std::string_view type_key = "attrs.PackedMatmul";
  static void fields(auto& f) {
    f.add("units", &PackedMatmulAttrs::units, "columns of the result; the last panel may hold more")
        .add("out_dtype", &PackedMatmulAttrs::out_dtype,
             "type of the result; void: the operands' (int32 for 8-bit integers)")
        .add("group", &PackedMatmulAttrs::group,
             "neighbouring inputs that lie side by side for each column: 1, 2 or 4");
  }
};
struct EinsumAttrs : Attrs<EinsumAttrs> {
  std::string subscripts;
  static constexpr std::string_view type_key = "attrs.Einsum";
  static void fields(auto& f) { f.add("subscripts", &EinsumAttrs::subscripts, "for example 'bij,bjk->bik'"); }
};
/// Convolutions of any rank. A list may be empty (the default), of length 1 (all axes) or one value per axis.
struct ConvAttrs : Attrs<ConvAttrs> {
  Array<int64_t> strides, padding, dilation;
  int64_t groups = 1;
  std::string data_layout, kernel_layout;
  DataType out_dtype = DataType::void_();
  std::string out_layout;
  static constexpr std::string_view type_key = "attrs.Conv";
  static void fields(auto& f) {
    f.add("strides", &ConvAttrs::strides, "step per spatial axis; empty: 1")
        .add("padding", &ConvAttrs::padding,
             "zeros around: one, one per axis, or all begins then all ends; empty: 0")
        .add("dilation", &ConvAttrs::dilation, "distance of kernel elements; empty: 1")
        .add("groups", &ConvAttrs::groups, "number of independent channel groups")
        .add("data_layout", &ConvAttrs::data_layout, kLayoutHelp)
        .add("kernel_layout", &ConvAttrs::kernel_layout,
             "letters of the weight's axes; empty: 'OIHW'; 'HWIO'; 'OIHW8i16o': both in blocks; 'OIHW16o': "
             "plain data or depthwise")
        .add("out_dtype", &ConvAttrs::out_dtype,
             "type of the result; void: the operands' (int32 for 8-bit integers)")
        .add("out_layout", &ConvAttrs::out_layout, kOutLayoutHelp);
  }
};
struct ConvTransposeAttrs : Attrs<ConvTransposeAttrs> {
  Array<int64_t> strides, padding, output_padding, dilation;
  int64_t groups = 1;
  DataType out_dtype = DataType::void_();
  std::string data_layout, kernel_layout, out_layout;
  static constexpr std::string_view type_key = "attrs.ConvTranspose";
  static void fields(auto& f) {
    f.add("strides", &ConvTransposeAttrs::strides, "step per spatial axis; empty: 1")
        .add("padding", &ConvTransposeAttrs::padding,
             "rows cut off: one, one per axis, or begins then ends; empty: 0")
        .add("output_padding", &ConvTransposeAttrs::output_padding, "rows added at the end; empty: 0")
        .add("dilation", &ConvTransposeAttrs::dilation, "distance of kernel elements; empty: 1")
        .add("groups", &ConvTransposeAttrs::groups, "number of independent channel groups")
        .add("out_dtype", &ConvTransposeAttrs::out_dtype, "type of the result; void: the operands'")
        .add("data_layout", &ConvTransposeAttrs::data_layout, kLayoutHelp)
        .add("kernel_layout", &ConvTransposeAttrs::kernel_layout,
             "letters of the weight's axes; empty: 'IOHW'; 'HWOI16i16o' for data in blocks, 'HWOI16o4i' of "
             "narrow types")
        .add("out_layout", &ConvTransposeAttrs::out_layout,
             "letters of the result's axes; empty: as the data; 'N2h2wCHW16c': elements of a window as axes");
  }
};

// ---------------------------------------------------------------- nn
struct PoolAttrs : Attrs<PoolAttrs> {
  Array<int64_t> pool_size, strides, padding, dilation;
  bool ceil_mode = false, count_include_pad = false;
  double p = 2;
  std::string layout, out_layout;
  static constexpr std::string_view type_key = "attrs.Pool";
  static void fields(auto& f) {
    f.add("pool_size", &PoolAttrs::pool_size, "window per spatial axis")
        .add("strides", &PoolAttrs::strides, "step per spatial axis; empty: 1")
        .add("padding", &PoolAttrs::padding,
             "around: one, one per axis, or all begins then all ends; empty: 0")
        .add("dilation", &PoolAttrs::dilation, "distance of window elements; empty: 1")
        .add("ceil_mode", &PoolAttrs::ceil_mode, "round the output size up")
        .add("count_include_pad", &PoolAttrs::count_include_pad, "averages count the padding")
        .add("p", &PoolAttrs::p, "exponent of lp_pool")
        .add("layout", &PoolAttrs::layout, kLayoutHelp)
        .add("out_layout", &PoolAttrs::out_layout, kOutLayoutHelp);
  }
};
/// Of pooling over the whole image.
struct GlobalPoolAttrs : Attrs<GlobalPoolAttrs> {
  std::string layout, out_layout;
  static constexpr std::string_view type_key = "attrs.GlobalPool";
  static void fields(auto& f) {
    f.add("layout", &GlobalPoolAttrs::layout, kLayoutHelp)
        .add("out_layout", &GlobalPoolAttrs::out_layout, kOutLayoutHelp);
  }
};
struct AdaptivePoolAttrs : Attrs<AdaptivePoolAttrs> {
  Array<int64_t> output_size;
  std::string layout, out_layout;
  static constexpr std::string_view type_key = "attrs.AdaptivePool";
  static void fields(auto& f) {
    f.add("output_size", &AdaptivePoolAttrs::output_size, "size per spatial axis, or one for all")
        .add("layout", &AdaptivePoolAttrs::layout, kLayoutHelp)
        .add("out_layout", &AdaptivePoolAttrs::out_layout, kOutLayoutHelp);
  }
};
struct BatchNormAttrs : Attrs<BatchNormAttrs> {
  int64_t axis = 1;
  double epsilon = 1e-5;
  bool center = true, scale = true;
  static constexpr std::string_view type_key = "attrs.BatchNorm";
  static void fields(auto& f) {
    f.add("axis", &BatchNormAttrs::axis, "channel axis")
        .add("epsilon", &BatchNormAttrs::epsilon, "added to the variance")
        .add("center", &BatchNormAttrs::center, "add beta")
        .add("scale", &BatchNormAttrs::scale, "multiply by gamma");
  }
};
struct LayerNormAttrs : Attrs<LayerNormAttrs> {
  Array<int64_t> axes;
  double epsilon = 1e-5;
  bool center = true, scale = true;
  static constexpr std::string_view type_key = "attrs.LayerNorm";
  static void fields(auto& f) {
    f.add("axes", &LayerNormAttrs::axes, "normalised axes; empty: the last")
        .add("epsilon", &LayerNormAttrs::epsilon, "added to the variance")
        .add("center", &LayerNormAttrs::center, "add beta")
        .add("scale", &LayerNormAttrs::scale, "multiply by gamma");
  }
};
struct GroupNormAttrs : Attrs<GroupNormAttrs> {
  int64_t num_groups = 1, channel_axis = 1;
  double epsilon = 1e-5;
  bool center = true, scale = true;
  static constexpr std::string_view type_key = "attrs.GroupNorm";
  static void fields(auto& f) {
    f.add("num_groups", &GroupNormAttrs::num_groups, "groups of channels")
        .add("channel_axis", &GroupNormAttrs::channel_axis,
             "channel axis; the axes behind it are reduced too")
        .add("epsilon", &GroupNormAttrs::epsilon, "added to the variance")
        .add("center", &GroupNormAttrs::center, "add beta")
        .add("scale", &GroupNormAttrs::scale, "multiply by gamma");
  }
};
struct LrnAttrs : Attrs<LrnAttrs> {
  int64_t size = 5, axis = 1;
  double alpha = 1e-4, beta = 0.75, bias = 1;
  static constexpr std::string_view type_key = "attrs.Lrn";
  static void fields(auto& f) {
    f.add("size", &LrnAttrs::size, "channels summed over")
        .add("axis", &LrnAttrs::axis, "channel axis")
        .add("alpha", &LrnAttrs::alpha, "scale")
        .add("beta", &LrnAttrs::beta, "exponent")
        .add("bias", &LrnAttrs::bias, "offset");
  }
};
struct DropoutAttrs : Attrs<DropoutAttrs> {
  double rate = 0.5;
  static constexpr std::string_view type_key = "attrs.Dropout";
  static void fields(auto& f) { f.add("rate", &DropoutAttrs::rate, "no effect in inference"); }
};
struct AttentionAttrs : Attrs<AttentionAttrs> {
  double scale = 0;
  bool causal = false;
  static constexpr std::string_view type_key = "attrs.Attention";
  static void fields(auto& f) {
    f.add("scale", &AttentionAttrs::scale, "factor of the scores; 0: 1 / sqrt(head size)")
        .add("causal", &AttentionAttrs::causal, "a query sees only keys up to its own position");
  }
};

// ---------------------------------------------------------------- image
struct ResizeAttrs : Attrs<ResizeAttrs> {
  std::string method = "linear", coordinate_transformation_mode = "half_pixel",
              rounding_method = "round_prefer_floor";
  Array<double> scales, roi;
  double cubic_alpha = -0.75, extrapolation_value = 0;
  bool cubic_exclude = false;
  std::string layout;
  static constexpr std::string_view type_key = "attrs.Resize";
  static void fields(auto& f) {
    f.add("method", &ResizeAttrs::method, "'nearest_neighbor', 'linear' or 'cubic'")
        .add("coordinate_transformation_mode", &ResizeAttrs::coordinate_transformation_mode,
             "'half_pixel', 'half_pixel_symmetric', 'pytorch_half_pixel', 'align_corners', 'asymmetric' or "
             "'tf_crop_and_resize'")
        .add("rounding_method", &ResizeAttrs::rounding_method,
             "'round_prefer_floor', 'round_prefer_ceil', 'floor' or 'ceil'")
        .add("scales", &ResizeAttrs::scales, "scale per spatial axis; empty: output size / input size")
        .add("roi", &ResizeAttrs::roi, "tf_crop_and_resize: begins then ends per spatial axis, from 0 to 1")
        .add("cubic_alpha", &ResizeAttrs::cubic_alpha, "coefficient a of the cubic kernel")
        .add("extrapolation_value", &ResizeAttrs::extrapolation_value,
             "value outside of the image (tf_crop_and_resize)")
        .add("cubic_exclude", &ResizeAttrs::cubic_exclude, "leave out cubic samples outside of the image")
        .add("layout", &ResizeAttrs::layout,
             "letters of the axes in their order, as 'NHWC'; empty: the spatial axes are the last ones");
  }
};

/// Of call_tir_inplace.
struct InplaceAttrs : Attrs<InplaceAttrs> {
  Array<int64_t> inplace_indices;
  static constexpr std::string_view type_key = "ir.InplaceAttrs";
  static void fields(auto& f) {
    f.add("inplace_indices", &InplaceAttrs::inplace_indices,
          "per output: the argument whose memory it takes, or -1");
  }
};

}  // namespace tenon::op
