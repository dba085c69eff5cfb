// SPDX-License-Identifier: Apache-2.0
// Converters: Resize in all its versions, and Upsample.
#include <cmath>

#include "analysis/analyzer.h"
#include "import/onnx/resize.h"
#include "ir/text.h"

namespace tenon::onnx {
namespace {

using namespace op;
using N = NodeContext;

struct Plan {
  std::string mode = "nearest", coordinates = "asymmetric", nearest = "floor";
  std::vector<double> scales;  ///< per axis of `axes`; empty: sizes
  Array<PrimExpr> sizes;       ///< per axis of `axes`
  std::vector<int64_t> axes;
  std::vector<double> roi;  ///< begins then ends per axis of `axes`
};

/// Sizes and factors beyond it are a mistake, and need not fit an integer.
constexpr double kLargest = 1e12;

/// floor(extent × scale), exact for symbolic extents when the scale or its inverse is whole.
PrimExpr scaled(N& n, const PrimExpr& extent, double scale) {
  if (const auto v = tir::as_int(extent)) {
    // Scales are stored as float; what they mean is the product computed in float.
    const double out = std::floor(double(float(*v) * float(scale)));
    if (!(out >= 0) || out > kLargest)
      n.malformed(fmt::format("{} makes the size {} from {} with the scale {}", n.op_type(), out, *v, scale));
    return int64_t(out);
  }
  if (scale > kLargest || 1 / scale > kLargest)
    n.malformed(fmt::format("{} makes a size from {} with the scale {}", n.op_type(), print(extent), scale));
  if (scale == std::floor(scale)) return simplify(extent * PrimExpr(int64_t(scale)));
  return simplify(tir::floordiv(extent, PrimExpr(int64_t(std::round(1 / scale)))));
}
/// Whether a symbolic extent times the scale is a size that can be written down.
bool is_ratio(double scale) {
  return scale == std::floor(scale) || std::abs(std::round(1 / scale) * scale - 1) < 1e-7;
}

/// `otherwise` says the same for an axis at a time.
Values emit(N& n, Plan p, const ResizeForm& otherwise) {
  const int64_t rank = n.rank(0);
  auto shape = n.known_shape(0);
  Array<PrimExpr> out = shape;
  std::vector<double> scale(size_t(rank), 1.0);
  std::vector<bool> resized(size_t(rank), false);
  for (size_t k = 0; k < p.axes.size(); ++k) {
    const size_t a = size_t(p.axes[k]);
    if (!p.scales.empty()) {
      if (!(p.scales[k] > 0) || !std::isfinite(p.scales[k]))
        n.malformed(fmt::format("{} has the scale {}", n.op_type(), p.scales[k]));
      scale[a] = p.scales[k];
      resized[a] = p.scales[k] != 1 || p.coordinates == "tf_crop_and_resize";
    } else {
      const auto from = tir::as_int(shape[a]), to = tir::as_int(p.sizes[k]);
      if (to && (*to < 1 || *to > (int64_t(1) << 40)))
        n.malformed(fmt::format("{} has the size {}", n.op_type(), *to));
      resized[a] = !(from && to ? *from == *to : is_zero(simplify(shape[a] - p.sizes[k]))) ||
                   p.coordinates == "tf_crop_and_resize";
    }
    if (!p.sizes.empty())
      out.set(a, p.sizes[k]);
    else if (resized[a] && !tir::as_int(shape[a]) && !is_ratio(p.scales[k]))
      return {resize_by_taps(n, otherwise)};
    else if (resized[a])
      out.set(a, scaled(n, shape[a], p.scales[k]));
  }
  int64_t first = rank;
  for (int64_t i = rank; i-- > 0;)
    if (resized[size_t(i)]) first = i;
  if (first == rank) return {n.in(0)};
  // The graph operator takes (outer, channels, 1 to 3 spatial axes): everything before the first resized axis
  // is outer.
  if (rank >= 3 && first >= 2 && rank <= 5) first = 2;
  const int64_t spatial = rank - first;
  if (spatial > 3) return {resize_by_taps(n, otherwise)};
  Expr x = n.in(0);
  const bool wrap = first != 2;
  Array<PrimExpr> target, trailing;
  for (int64_t i = first; i < rank; ++i)
    target.push_back(out[size_t(i)]), trailing.push_back(shape[size_t(i)]);
  if (wrap) {
    PrimExpr outer = 1;
    for (int64_t i = 0; i < first; ++i) outer = outer * shape[size_t(i)];
    Array<PrimExpr> inner{simplify(outer), PrimExpr(1)};
    for (const PrimExpr& d : trailing) inner.push_back(d);
    x = n.reshape(x, inner);
  }
  // Corners are aligned by the exact scaled extent, which need not be whole: x / s with s = (in s - 1) / (in
  // - 1).
  if (p.coordinates == "align_corners" && !p.scales.empty()) {
    bool whole = true;
    for (int64_t i = first; i < rank; ++i) {
      const auto in = tir::as_int(shape[size_t(i)]);
      const double extent = in ? double(*in) * scale[size_t(i)] : 1;
      whole &= !resized[size_t(i)] || (in && std::abs(extent - std::round(extent)) < 1e-6) || !in ||
               *in < 2 || extent <= 1;
    }
    if (!whole) {
      p.coordinates = "asymmetric";
      for (int64_t i = first; i < rank; ++i)
        if (const auto in = tir::as_int(shape[size_t(i)]); in && *in > 1) {
          const double corners = (double(*in) * scale[size_t(i)] - 1) / double(*in - 1);
          scale[size_t(i)] = corners > 0 ? corners : 1;  // of one element, which is the first
        }
    }
  }
  auto a = make<ResizeAttrs>();
  ResizeAttrs& r = *a.edit();
  r.method = p.mode == "nearest" ? "nearest_neighbor" : p.mode;
  r.coordinate_transformation_mode = p.coordinates;
  r.rounding_method = p.nearest;
  r.cubic_alpha = n.attr_float("cubic_coeff_a", -0.75);
  r.cubic_exclude = n.attr_int("exclude_outside", 0) != 0;
  r.extrapolation_value = n.attr_float("extrapolation_value", 0);
  if (!p.scales.empty())
    for (int64_t i = first; i < rank; ++i) r.scales.push_back(scale[size_t(i)]);
  if (p.coordinates == "tf_crop_and_resize") {
    std::vector<double> begin(size_t(rank), 0.0), end(size_t(rank), 1.0);
    for (size_t k = 0; k < p.axes.size(); ++k)
      begin[size_t(p.axes[k])] = p.roi[k], end[size_t(p.axes[k])] = p.roi[k + p.axes.size()];
    for (int64_t i = 0; i < first; ++i)
      if (begin[size_t(i)] != 0 || end[size_t(i)] != 1) return {resize_by_taps(n, otherwise)};
    for (int64_t i = first; i < rank; ++i) r.roi.push_back(begin[size_t(i)]);
    for (int64_t i = first; i < rank; ++i) r.roi.push_back(end[size_t(i)]);
  }
  Expr y = n.op(fmt::format("image.resize{}d", spatial), {x, graph::shape_expr(target)}, a);
  return {wrap ? n.reshape(y, out) : y};
}

std::vector<int64_t> all_axes(int64_t rank) {
  std::vector<int64_t> v;
  for (int64_t i = 0; i < rank; ++i) v.push_back(i);
  return v;
}

Values upsample(N& n) {
  Plan p;
  p.mode = n.attr_string("mode", "nearest");
  if (p.mode == "bilinear" || p.mode == "trilinear") p.mode = "linear";
  if (p.mode != "nearest" && p.mode != "linear")
    n.malformed(fmt::format("the mode {} of {} is not known", in_quotes(p.mode), n.op_type()));
  const bool by_attribute = n.op_type() == "Upsample" && n.since < 9;
  ResizeForm f{p.mode, "asymmetric", "floor"};
  f.axes = all_axes(n.rank(0)), f.scales_input = by_attribute ? 0 : 1;
  if (!by_attribute && !known_numbers(n, 1)) return {resize_by_taps(n, f)};
  p.scales = by_attribute ? n.attr_floats("scales") : n.const_floats(1, "scales");
  if (by_attribute) f.scales = p.scales;
  p.axes = all_axes(n.rank(0));
  if (p.scales.size() != p.axes.size())
    n.malformed(fmt::format("{} needs {} scales, {} are given", n.op_type(), p.axes.size(), p.scales.size()));
  return emit(n, p, f);
}

Values resize(N& n) {
  if (n.since < 11) return upsample(n);
  Plan p;
  p.mode = n.attr_string("mode", "nearest");
  p.coordinates = n.attr_string("coordinate_transformation_mode", "half_pixel");
  p.nearest = n.attr_string("nearest_mode", "round_prefer_floor");
  if (p.mode != "nearest" && p.mode != "linear" && p.mode != "cubic")
    n.malformed(fmt::format("the mode {} of Resize is not known", in_quotes(p.mode)));
  static const std::set<std::string> modes{"half_pixel",    "half_pixel_symmetric", "pytorch_half_pixel",
                                           "align_corners", "asymmetric",           "tf_crop_and_resize"};
  if (p.coordinates != "tf_half_pixel_for_nn" && !modes.count(p.coordinates))
    n.malformed(fmt::format("the coordinate mode {} of Resize is not known", in_quotes(p.coordinates)));
  const int64_t rank = n.rank(0);
  p.axes = n.attr_ints("axes");
  if (p.axes.empty()) p.axes = all_axes(rank);
  for (int64_t& a : p.axes) a = n.axis(a, rank);
  const size_t k = p.axes.size();
  auto filled = [&](size_t i) {
    if (!n.has(i)) return false;
    const auto s = n.shape(i);
    return !(s && s->size() == 1 && tir::is_zero((*s)[0]));
  };
  const bool antialias = n.attr_int("antialias", 0) != 0, crops = p.coordinates == "tf_crop_and_resize";
  const bool known = filled(3) ? known_sizes(n, 3) : !filled(2) || known_numbers(n, 2);
  if (!filled(2) && !filled(3)) n.malformed("Resize needs either 'scales' or 'sizes'");
  ResizeForm f{p.mode, p.coordinates, p.nearest, n.attr_string("keep_aspect_ratio_policy", "stretch"),
               p.axes};
  (filled(3) ? f.sizes_input : f.scales_input) = filled(3) ? 3 : 2;
  f.cubic = n.attr_float("cubic_coeff_a", -0.75), f.extrapolation = n.attr_float("extrapolation_value", 0);
  f.exclude_outside = n.attr_int("exclude_outside", 0) != 0, f.antialias = antialias;
  if (antialias || !known || (crops && !known_numbers(n, 1)) || p.coordinates == "tf_half_pixel_for_nn")
    return {resize_by_taps(n, f)};
  if (filled(3)) {
    p.sizes = n.sizes(3, "sizes");
    if (p.sizes.size() != k)
      n.malformed(fmt::format("Resize needs {} sizes, {} are given", k, p.sizes.size()));
    const std::string policy = n.attr_string("keep_aspect_ratio_policy", "stretch");
    if (policy == "not_larger" || policy == "not_smaller") {
      auto shape = n.known_shape(0);
      double best = 0;
      for (size_t i = 0; i < k; ++i) {
        const auto in = tir::as_int(shape[size_t(p.axes[i])]), out = tir::as_int(p.sizes[i]);
        if (!in || !out || *in < 1) return {resize_by_taps(n, f)};
        const double s = double(*out) / double(*in);
        best = i == 0 ? s : policy == "not_larger" ? std::min(best, s) : std::max(best, s);
      }
      for (size_t i = 0; i < k; ++i) {
        const double exact = best * double(*tir::as_int(shape[size_t(p.axes[i])]));
        if (!(exact <= kLargest)) n.malformed(fmt::format("{} has the size {}", n.op_type(), exact));
        p.sizes.set(i, int64_t(std::floor(exact + 0.5)));
        p.scales.push_back(best);
      }
    } else if (policy != "stretch") {
      n.malformed(fmt::format("the policy {} of Resize is not known", in_quotes(policy)));
    }
  } else {
    p.scales = n.const_floats(2, "scales");
    if (p.scales.size() != k)
      n.malformed(fmt::format("Resize needs {} scales, {} are given", k, p.scales.size()));
  }
  if (p.coordinates == "tf_crop_and_resize") {
    p.roi = n.const_floats(1, "roi");
    if (p.roi.size() != 2 * k)
      n.malformed(fmt::format("Resize needs {} numbers in 'roi', {} are given", 2 * k, p.roi.size()));
  }
  return emit(n, p, f);
}

const RegisterConverter r1("Resize", {10, 11, 13, 18, 19}, resize, {.values = {1, 2, 3}}),
    r2("Upsample", {7, 9, 10}, upsample, {.values = {1}});

}  // namespace
}  // namespace tenon::onnx
