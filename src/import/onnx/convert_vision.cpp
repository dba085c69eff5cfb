// SPDX-License-Identifier: Apache-2.0
// Converters: regions, sampled images, deformed windows, columns, pooling undone.
#include "analysis/analyzer.h"
#include "import/onnx/values.h"
#include "op/attrs_arrange.h"
#include "op/attrs_vision.h"

namespace tenon::onnx {
namespace {

using namespace op;
using N = NodeContext;
using R = RegisterConverter;
using Shape = Array<PrimExpr>;
using Ints = std::vector<int64_t>;

Values roi_align(N& n) {
  auto a = make<RoiAttrs>();
  a.edit()->pooled_height = n.attr_int("output_height", 1),
  a.edit()->pooled_width = n.attr_int("output_width", 1);
  a.edit()->sample_ratio = n.attr_int("sampling_ratio", 0),
  a.edit()->spatial_scale = n.attr_float("spatial_scale", 1);
  a.edit()->mode = n.attr_string("mode", "avg");
  const std::string mode =
      n.attr_string("coordinate_transformation_mode", n.since < 16 ? "output_half_pixel" : "half_pixel");
  a.edit()->aligned = mode == "half_pixel";
  const auto shape = n.shape(0);
  const Expr images = shape && !shape->empty() ? n.checked_indices(n.in(2), {(*shape)[0]}, false) : n.in(2);
  return {n.op("vision.roi_align", {n.in(0), n.in(1), images}, a)};
}
Values roi_pool(N& n) {
  const Ints size = n.need_ints("pooled_shape");
  if (size.size() != 2) n.malformed("'pooled_shape' of MaxRoiPool needs two values");
  auto a = make<RoiAttrs>();
  a.edit()->pooled_height = size[0], a.edit()->pooled_width = size[1];
  a.edit()->spatial_scale = n.attr_float("spatial_scale", 1);
  return {n.op("vision.roi_pool", {n.in(0), n.in(1)}, a)};
}
Values grid_sample(N& n) {
  std::string mode = n.attr_string("mode", n.since < 20 ? "bilinear" : "linear");
  if (mode == "bilinear") mode = "linear";
  if (mode == "bicubic") mode = "cubic";
  return {n.op("image.grid_sample", {n.in(0), n.in(1)},
               make_attrs<GridSampleAttrs>(mode, n.attr_string("padding_mode", "zeros"),
                                           n.attr_int("align_corners", 0) != 0))};
}
Values affine_grid(N& n) {
  const Shape size = known_sizes(n, 1) ? n.sizes(1, "size") : sizes_of(index_input(n, 1), "size");
  if (size.size() < 3) n.malformed("'size' of AffineGrid has no spatial axes");
  const Shape spatial(size.begin() + 2, size.end());
  return {n.op("image.affine_grid", {n.in(0), graph::shape_expr(spatial)},
               make_attrs<AlignAttrs>(n.attr_int("align_corners", 0) != 0))};
}
Values deform_conv(N& n) {
  if (n.rank(0) < 3)
    n.malformed(fmt::format(
        "DeformConv of a tensor of {} dimensions, where batch, channels and others are needed", n.rank(0)));
  if (n.rank(0) != 4) n.unsupported("DeformConv of other than two spatial axes is not supported");
  auto a = make<DeformAttrs>();
  a.edit()->strides = n.attr_ints("strides"), a.edit()->padding = n.attr_ints("pads");
  a.edit()->dilation = n.attr_ints("dilations"), a.edit()->groups = n.attr_int("group", 1);
  a.edit()->deformable_groups = n.attr_int("offset_group", 1);
  Array<Expr> args{n.in(0), n.in(2), n.in(1)};
  if (n.has(4)) args.push_back(n.in(4));
  const Expr y = n.op("nn.deformable_conv2d", args, a);
  return {n.has(3) ? n.op("nn.bias_add", {y, n.in(3)}, make_attrs<AxisAttrs>(int64_t(1))) : y};
}
/// Columns of blocks whose size only the run knows are added up at their positions.
Expr col2im_at_run_time(N& n) {
  const auto [x, shape] = with_shape(n, 0);
  const Index image = index_input(n, 1), block = index_input(n, 2);
  const int64_t axes = image.length();
  if (shape.size() != 3 || block.length() != axes) n.malformed("the inputs of Col2Im do not fit one another");
  auto values = [&](const char* name, int64_t count, int64_t otherwise) {
    Ints v = n.attr_ints(name);
    if (!n.has_attr(name)) v.assign(size_t(count), otherwise);
    if (int64_t(v.size()) != count) n.malformed(fmt::format("'{}' of Col2Im needs {} values", name, count));
    return v;
  };
  const Ints steps = values("strides", axes, 1), pads = values("pads", 2 * axes, 0),
             dilation = values("dilations", axes, 1);
  auto vector = [&](const Ints& v) { return index_of(n, Shape(std::vector<PrimExpr>(v.begin(), v.end()))); };
  Ints margins;
  for (int64_t i = 0; i < axes; ++i) margins.push_back(pads[size_t(i)] + pads[size_t(i + axes)]);
  const Index reach = (block - 1) * vector(dilation) + 1;
  const Index counts = floor_div(image + vector(margins) - reach, vector(steps)) + 1;
  const Shape blocks = sizes_of(block, "block"), windows = sizes_of(counts, "windows"),
              sizes = sizes_of(image, "image");
  // Positions (block …, window …) in the image; those in the margins go to an element behind it.
  Index at(n, n.scalar(0, i64)), inside(n, n.scalar(1, i64));
  PrimExpr pixels = 1, elements = 1, columns = 1;
  for (int64_t i = 0; i < axes; ++i) {
    const size_t k = size_t(i);
    const Index in_block = (iota(n, blocks[k]) * dilation[k]).shaped(beside(blocks[k], i, 2 * axes));
    const Index in_image =
        (iota(n, windows[k]) * steps[k] - pads[k]).shaped(beside(windows[k], i + axes, 2 * axes));
    const Index place = in_block + in_image;
    at = at * image[i] + place;
    const Expr fits = n.op("logical_and", {less(place * -1, 1), less(place, image[i])});
    inside = inside * Index(n, n.cast(fits, i64));
    pixels = pixels * sizes[k], elements = elements * blocks[k], columns = columns * windows[k];
  }
  pixels = simplify(pixels);
  const PrimExpr all = simplify(elements * columns);
  at = where(equal(inside, 1), at, index_of(n, {pixels})[0]).shaped({PrimExpr(1), all});
  const PrimExpr channels = sizes_of(floor_div(index_of(n, {shape[1]}), product(block)), "channels")[0];
  const PrimExpr rows = simplify(shape[0] * channels);
  const Expr data = n.reshape(x, {rows, all});
  const Expr places = n.op("broadcast_to", {at, graph::shape_expr({rows, all})});
  const DataType t = n.dtype(0);
  const Expr zeros = n.op("full", {graph::shape_expr({rows, simplify(pixels + 1)}), n.scalar(0, t)},
                          make_attrs<DTypeAttrs>(t));
  const Expr added = n.op("scatter_elements", {zeros, places, data},
                          make_attrs<ScatterAttrs>(int64_t(1), std::string("add")));
  Shape out{shape[0], channels};
  for (const PrimExpr& s : sizes) out.push_back(s);
  return n.reshape(n.op("slice_to", {added, graph::shape_expr({rows, pixels})}), out);
}
Values col2im(N& n) {
  if (!known_sizes(n, 1) || !known_numbers(n, 2)) return {col2im_at_run_time(n)};
  auto a = make<UnfoldAttrs>();
  a.edit()->kernel_size = n.const_ints(2, "block_shape"), a.edit()->strides = n.attr_ints("strides");
  a.edit()->padding = n.attr_ints("pads"), a.edit()->dilation = n.attr_ints("dilations");
  return {n.op("nn.fold", {n.in(0), graph::shape_expr(n.sizes(1, "image_shape"))}, a)};
}
/// Positions count in the size that pooling had; a larger result keeps it at its begin.
Values max_unpool(N& n) {
  const Ints kernel = n.need_ints("kernel_shape");
  const Shape s = n.known_shape(0);
  Ints strides = n.attr_ints("strides"), pads = n.attr_ints("pads");
  const size_t k = kernel.size();
  if (strides.empty()) strides.assign(k, 1);
  if (pads.empty()) pads.assign(2 * k, 0);
  if (s.size() != k + 2 || strides.size() != k || pads.size() != 2 * k)
    n.malformed("the attributes of MaxUnpool do not fit its input");
  Shape size{s[0], s[1]};
  for (size_t i = 0; i < k; ++i)
    size.push_back(simplify((s[i + 2] - 1) * strides[i] + (kernel[i] - pads[i] - pads[i + k])));
  PrimExpr all = 1;
  for (const PrimExpr& d : size) all = all * d;
  const Expr at = n.checked_indices(n.in(1), {simplify(all)}, false);
  Expr y = n.op("nn.max_unpool", {n.in(0), at, graph::shape_expr(size)});
  if (n.has(2) && !known_sizes(n, 2)) {
    const Shape want = sizes_of(index_input(n, 2), "size");
    for (size_t i = 2; i < want.size() && i < size.size(); ++i)
      y = pick_or(n, y, iota(n, want[i]), index_of(n, {size[i]})[0], int64_t(i), n.scalar(0, n.dtype(0)));
  } else if (n.has(2)) {
    const Shape want = n.sizes(2, "output_shape");
    Array<int64_t> widths;
    for (size_t i = 0; i < want.size() && i < size.size(); ++i) {
      const auto more = tir::as_int(simplify(want[i] - size[i]));
      if (!more || *more < 0) n.unsupported("MaxUnpool to this size is not supported");
      widths.push_back(0), widths.push_back(*more);
    }
    y = n.op("pad", {y}, make_attrs<PadAttrs>(widths, std::string("constant"), 0.0));
  }
  return {y};
}
const R v1("RoiAlign", {10, 16, 22}, roi_align), v2("MaxRoiPool", {1, 22}, roi_pool),
    v3("GridSample", {16, 20, 22}, grid_sample), v4("AffineGrid", {20}, affine_grid, {.values = {1}}),
    v5("DeformConv", {19, 22}, deform_conv, "two spatial axes"),
    v6("Col2Im", {18}, col2im, {.values = {1, 2}}),
    v7("MaxUnpool", {1, 9, 11, 22}, max_unpool, {.values = {2}});

}  // namespace
}  // namespace tenon::onnx
