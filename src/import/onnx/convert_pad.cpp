// SPDX-License-Identifier: Apache-2.0
// Converters: padding and cropping to a size.
#include "import/onnx/values.h"

namespace tenon::onnx {
namespace {

using namespace op;
using N = NodeContext;
using R = RegisterConverter;
using Shape = Array<PrimExpr>;

/// Padding whose widths follow from symbolic sizes, as of an image to the next multiple: what is added is a
/// tensor of its own beside the data. Null where a width may be negative or is not known.
Expr pad_by_sizes(N& n) {
  if (!known_sizes(n, 1) || !known_numbers(n, 2) || !known_numbers(n, 3) || !n.shape(0)) return {};
  const Shape widths = n.sizes(1, "pads");
  const int64_t r = n.rank(0);
  std::vector<int64_t> axes;
  if (n.has(3)) axes = n.const_ints(3, "axes");
  for (int64_t i = 0; !n.has(3) && i < r; ++i) axes.push_back(i);
  if (widths.size() != 2 * axes.size()) return {};
  for (const PrimExpr& w : widths)
    if (!not_negative(w)) return {};
  const auto value = n.has(2) ? n.const_floats(2, "constant_value") : std::vector<double>{0};
  if (value.size() != 1) return {};
  Expr x = n.in(0);
  for (size_t i = 0; i < axes.size(); ++i) {
    const int64_t axis = n.axis(axes[i], r);
    const auto added = [&](const PrimExpr& width) {
      Shape shape = *graph::known_shape(x);
      shape.set(size_t(axis), width);
      return n.full(shape, value[0], n.dtype(0));
    };
    Array<Expr> parts;
    if (!tir::is_zero(widths[i])) parts.push_back(added(widths[i]));
    parts.push_back(x);
    if (!tir::is_zero(widths[i + axes.size()])) parts.push_back(added(widths[i + axes.size()]));
    x = n.concat(parts, axis);
  }
  return x;
}

Values pad(N& n) {
  const int64_t r = n.rank(0);
  std::vector<int64_t> pads;
  double value = 0;
  std::vector<int64_t> axes;
  const std::string mode = n.attr_string("mode", "constant");
  if (mode != "constant" && mode != "reflect" && mode != "edge" && mode != "wrap")
    n.malformed(fmt::format("the mode {} of Pad is not known", in_quotes(mode)));
  if (n.since >= 11 && !(known_numbers(n, 1) && known_numbers(n, 2) && known_numbers(n, 3))) {
    if (const Expr padded = mode == "constant" ? pad_by_sizes(n) : Expr()) return {padded};
    return pad_at_run_time(n, mode);
  }
  if (n.since < 11) {
    pads = n.need_ints("pads");
    value = n.attr_float("value", 0);
  } else {
    pads = n.const_ints(1, "pads");
    if (n.has(2)) {
      const auto v = n.const_floats(2, "constant_value");
      if (v.size() != 1) n.malformed("'constant_value' of Pad must be one number");
      value = v[0];
    }
    if (n.has(3)) axes = n.const_ints(3, "axes");
  }
  if (axes.empty() && !(n.since >= 18 && n.has(3)))
    for (int64_t i = 0; i < r; ++i) axes.push_back(i);
  if (pads.size() != 2 * axes.size())
    n.malformed(fmt::format("Pad needs {} widths, {} are given", 2 * axes.size(), pads.size()));
  std::vector<int64_t> widths(size_t(2 * r), 0);
  for (size_t i = 0; i < axes.size(); ++i) {
    const size_t a = size_t(n.axis(axes[i], r));
    for (size_t side = 0; side < 2; ++side) {
      const int64_t w = pads[i + side * axes.size()];
      if (w > (int64_t(1) << 40) || w < -(int64_t(1) << 40))
        n.malformed(fmt::format("Pad has the absurd width {}", w));
      widths[2 * a + side] = w;
    }
  }
  return {n.op("pad", {n.in(0)}, make_attrs<PadAttrs>(Array<int64_t>(widths), mode, value))};
}
const R r9("Pad", {1, 2, 11, 13, 18, 19, 21, 23, 24, 25}, pad,
           {.operations = 0,
            .values = {1, 3},
            .note = "reflections beyond an axis go on back and forth, as NumPy's"});

Values center_crop_pad(N& n) {
  const int64_t rank = n.rank(0);
  if (!known_numbers(n, 1)) return crop_pad_at_run_time(n);
  auto s = n.known_shape(0);
  std::vector<int64_t> want = n.const_ints(1, "shape"), axes = n.attr_ints("axes");
  if (axes.empty())
    for (int64_t i = 0; i < rank; ++i) axes.push_back(i);
  if (want.size() != axes.size())
    n.malformed(fmt::format("CenterCropPad needs {} sizes, {} are given", axes.size(), want.size()));
  Array<int64_t> widths, crop_axes, ones;
  for (int64_t i = 0; i < 2 * rank; ++i) widths.push_back(0);
  Shape begin, end;
  for (size_t i = 0; i < axes.size(); ++i) {
    const int64_t a = n.axis(axes[i], rank);
    const auto have = tir::as_int(s[size_t(a)]);
    if (!have) return crop_pad_at_run_time(n);
    if (want[i] < 1 || want[i] > (int64_t(1) << 40))
      n.malformed(fmt::format("CenterCropPad has the size {}", want[i]));
    const int64_t d = want[i] - *have;
    if (d > 0) widths.set(size_t(2 * a), d / 2), widths.set(size_t(2 * a + 1), d - d / 2);
    if (d < 0)
      crop_axes.push_back(a), begin.push_back(-d / 2), end.push_back(-d / 2 + want[i]), ones.push_back(1);
  }
  Expr x = n.in(0);
  if (!crop_axes.empty())
    x = n.op("strided_slice", {x}, make_attrs<StridedSliceAttrs>(crop_axes, begin, end, ones));
  return {n.op("pad", {x}, make_attrs<PadAttrs>(widths, std::string("constant"), 0.0))};
}
const R s1("CenterCropPad", {18}, center_crop_pad, {.values = {1}});

}  // namespace
}  // namespace tenon::onnx
