// SPDX-License-Identifier: Apache-2.0
// Resize with scales, sizes or regions that only the run knows, and with antialiasing: one axis after the
// other, every element is a weighted sum of the elements around its position.
#include <algorithm>
#include <cmath>

#include "import/onnx/resize.h"

namespace tenon::onnx {
namespace {

using namespace op;
using N = NodeContext;
using Shape = Array<PrimExpr>;

/// Of so few elements a sum is one expression, whose operands need no tensor of their own.
constexpr int64_t kFewTaps = 16;

/// Smaller ones, and larger than its inverse, are refused when the model runs.
constexpr float kLeastScale = 0x1p-30F;

/// Arithmetic on float32 tensors.
struct Real {
  N* n;
  Expr e;
  Real with(const char* op, const Real& b) const { return {n, n->op(op, {e, b.e})}; }
  Real with(const char* op, double b) const { return {n, n->op(op, {e, n->scalar(b, f32)})}; }
  Real of(const char* op) const { return {n, n->op(op, {e})}; }
};
template <class B>
Real operator+(const Real& a, const B& b) {
  return a.with("add", b);
}
template <class B>
Real operator-(const Real& a, const B& b) {
  return a.with("subtract", b);
}
template <class B>
Real operator*(const Real& a, const B& b) {
  return a.with("multiply", b);
}
template <class B>
Real operator/(const Real& a, const B& b) {
  return a.with("divide", b);
}
Real where(N& n, const Expr& condition, const Real& a, const Real& b) {
  return {&n, n.op("where", {condition, a.e, b.e})};
}
Real real(N& n, const Expr& e) { return {&n, n.cast(e, f32)}; }
Real real(N& n, double v) { return {&n, n.scalar(v, f32)}; }
Real real(N& n, const std::vector<double>& values) {
  NDArray a = NDArray::empty({int64_t(values.size())}, f32);
  std::copy(values.begin(), values.end(), a.as_ptr<float>());
  return {&n, graph::constant(a)};
}

/// One axis of a resize; scalars that may be computed.
struct Axis {
  PrimExpr out;
  Real in, scale, begin, end;
  std::optional<float> known_scale;
};

/// Where the elements of the result lie among those of the axis: (out).
Real positions(N& n, const ResizeForm& f, const Axis& a) {
  const Real o = real(n, iota(n, a.out)), full = a.in * a.scale;
  const Expr single = full.with("equal", 1.0).e;
  const Real half = (o + 0.5) / a.scale - 0.5;
  const std::string& c = f.coordinates;
  if (c == "asymmetric") return o / a.scale;
  // An axis that keeps its size is not resized: channels are not mixed.
  if (c == "tf_half_pixel_for_nn") return where(n, a.scale.with("equal", 1.0).e, o, (o + 0.5) / a.scale);
  if (c == "align_corners") return where(n, single, o * 0.0, o * (a.in - 1.0) / (full - 1.0));
  if (c == "pytorch_half_pixel") return where(n, single, o * 0.0 - 0.5, half);
  if (c == "half_pixel_symmetric") {
    const Real whole = real(n, index_of(n, {a.out})[0].expr());
    return half + (a.in - whole / a.scale) * 0.5;
  }
  if (c == "tf_crop_and_resize") {
    const Real middle = o * 0.0 + (a.begin + a.end) * (a.in - 1.0) * 0.5;
    return where(n, single, middle,
                 a.begin * (a.in - 1.0) + o * (a.end - a.begin) * (a.in - 1.0) / (full - 1.0));
  }
  return half;
}

Index nearest(N& n, const ResizeForm& f, const Real& at) {
  const Real whole = f.nearest == "round_prefer_floor"  ? (at - 0.5).of("ceil")
                     : f.nearest == "round_prefer_ceil" ? (at + 0.5).of("floor")
                                                        : at.of(f.nearest == "ceil" ? "ceil" : "floor");
  return {n, n.cast(whole.e, i64)};
}

/// The weight of an element at a distance.
Real weight(N& n, const ResizeForm& f, const Real& distance) {
  const Real d = distance.of("abs"), zero = d * 0.0;
  if (f.mode == "linear") return {&n, n.op("clip", {(zero + 1.0 - d).e}, make_attrs<ClipAttrs>(0.0, 1.0))};
  const double A = f.cubic;
  const Real inner = ((d * (A + 2) - (A + 3)) * d) * d + 1.0;
  const Real outer = ((d * A - 5 * A) * d + 8 * A) * d - 4 * A;
  return where(n, d.with("less_equal", 1.0).e, inner, where(n, d.with("less", 2.0).e, outer, zero));
}

/// The first element of a sum, seen from its position, and how many there are.
std::pair<Index, PrimExpr> reach(N& n, const ResizeForm& f, const Axis& a, const Real& shrink) {
  const float far = f.mode == "linear" ? 1 : 2;
  if (!f.antialias || a.known_scale) {
    const float by = f.antialias ? std::min(*a.known_scale, 1.0f) : 1.0f;
    const double first = std::floor(-far / by) + 1;
    return {Index(n, n.scalar(first, i64)), PrimExpr(2 - 2 * int64_t(first))};
  }
  const Index first(n, n.cast(((real(n, -far) / shrink).of("floor") + 1.0).e, i64));
  const Index count = Index(n, n.scalar(2, i64)) - first * 2;
  return {first, sizes_of(count.shaped({PrimExpr(1)}), "taps")[0]};
}

/// Sums along an axis: element o of the result is that of x at `places` (out, taps), by their weights.
Expr weighted(N& n, const Expr& x, int64_t axis, const Index& places, const Expr& weights) {
  const Shape shape = *graph::known_shape(places.expr());
  const int64_t rank = int64_t(graph::known_shape(x)->size());
  const auto taps = tir::as_int(shape[1]);
  if (taps && *taps > 0 && *taps <= kFewTaps) {
    Expr y;
    for (int64_t k = 0; k < *taps; ++k) {
      auto column = [&](const Expr& e, const Shape& as) {
        return n.reshape(n.op("strided_slice", {e},
                              make_attrs<StridedSliceAttrs>(Array<int64_t>{1}, Shape{PrimExpr(k)},
                                                            Shape{PrimExpr(k + 1)}, Array<int64_t>{1})),
                         as);
      };
      const Index at(n, column(places.expr(), {shape[0]}));
      const Expr term =
          n.op("multiply", {pick(n, x, at, axis), column(weights, beside(shape[0], axis, rank))});
      y = y ? n.op("add", {y, term}) : term;
    }
    return y;
  }
  Shape beside_others(std::vector<PrimExpr>(size_t(rank) + 1, PrimExpr(1)));
  beside_others.set(size_t(axis), shape[0]), beside_others.set(size_t(axis) + 1, shape[1]);
  const Expr terms = n.op("multiply", {pick(n, x, places, axis), n.reshape(weights, beside_others)});
  return n.op("sum", {terms}, make_attrs<ReduceAttrs>(Array<int64_t>{axis + 1}, false));
}

Expr resized(N& n, const ResizeForm& f, const Expr& x, int64_t axis, const Axis& a) {
  const Shape shape = *graph::known_shape(x);
  const int64_t rank = int64_t(shape.size());
  const Index last = index_of(n, {shape[size_t(axis)]})[0] - 1;
  const Real at = positions(n, f, a);
  Expr y;
  if (f.mode == "nearest") {
    y = pick(n, x, max(min(nearest(n, f, at), last), 0), axis);
  } else {
    const Real floor = at.of("floor"), shrink = f.antialias ? a.scale.with("minimum", 1.0) : real(n, 1);
    const auto [first, taps] = reach(n, f, a, shrink);
    const Shape column{a.out, PrimExpr(1)};
    const Index tap = iota(n, taps) + first;
    const Index places = Index(n, n.cast(floor.e, i64)).shaped(column) + tap;
    const Real ratio{&n, n.reshape((at - floor).e, column)};
    Real w = weight(n, f, (real(n, tap.expr()) - ratio) * shrink);
    if (f.exclude_outside) {
      const Expr inside = n.op("logical_and", {less(places * -1, 1), less(places - 1, last)});
      w = where(n, inside, w, w * 0.0);
    }
    if (f.exclude_outside || f.antialias)
      w = w / Real{&n, n.op("sum", {w.e}, make_attrs<ReduceAttrs>(Array<int64_t>{1}, true))};
    y = weighted(n, x, axis, max(min(places, last), 0), w.e);
  }
  if (f.coordinates != "tf_crop_and_resize") return y;
  const Expr outside = n.op("logical_or", {at.with("less", 0.0).e, at.with("greater", a.in - 1.0).e});
  return n.op("where", {n.reshape(outside, beside(a.out, axis, rank)), n.scalar(f.extrapolation, f32), y});
}

/// The scales of the axes, where numbers say them; else, or where some make no sense, empty.
std::vector<float> known_scales(N& n, const ResizeForm& f, const Shape& extents) {
  std::vector<float> out(f.scales.begin(), f.scales.end());
  if (f.scales_input && known_numbers(n, f.scales_input))
    for (const double s : n.const_floats(f.scales_input, "scales")) out.push_back(float(s));
  if (f.sizes_input && f.policy == "stretch" && known_numbers(n, f.sizes_input)) {
    const Shape sizes = n.sizes(f.sizes_input, "sizes");
    for (size_t i = 0; i < extents.size(); ++i) {
      const auto from = tir::as_int(extents[i]), to = tir::as_int(sizes[i]);
      out.push_back(from && to ? float(*to) / float(*from) : 0.0f);
    }
  }
  const bool all = std::ranges::all_of(out, [](float s) { return s >= kLeastScale && s <= 1 / kLeastScale; });
  return all ? out : std::vector<float>();
}

}  // namespace

Expr resize_by_taps(N& n, const ResizeForm& f) {
  auto [x, shape] = with_shape(n, 0);
  const DataType t = n.dtype(0);
  const size_t k = f.axes.size();
  Shape extents;
  for (int64_t a : f.axes) extents.push_back(shape[size_t(a)]);
  const Index have = index_of(n, extents);
  const Real in = real(n, have.expr());
  Real scale = in;
  Index out = have;
  auto of_length = [&](size_t i, const char* what, size_t count) {
    const auto s = n.shape(i);
    if (!s || s->size() != 1 || !tir::is_const_int((*s)[0], int64_t(count)))
      n.malformed(fmt::format("{} needs {} values in '{}'", n.op_type(), count, what));
  };
  if (f.sizes_input) {
    of_length(f.sizes_input, "sizes", k);
    out = index_input(n, f.sizes_input);
    scale = real(n, out.expr()) / in;
    if (f.policy != "stretch") {
      const char* best = f.policy == "not_larger" ? "min" : "max";
      scale = in * 0.0 + Real{&n, n.op(best, {scale.e}, make_attrs<ReduceAttrs>(Array<int64_t>{0}, false))};
      out = {n, n.cast((in * scale + 0.5).of("floor").e, i64)};
    }
  } else {
    if (f.scales_input) of_length(f.scales_input, "scales", k);
    scale = f.scales_input ? real(n, n.in(f.scales_input)) : real(n, f.scales);
    out = {n, n.cast((in * scale).of("floor").e, i64)};
  }
  const Shape sizes = sizes_of(out, "size");
  auto one = [&](const Expr& v, size_t i) {
    return Real{&n, n.reshape(n.op("strided_slice", {v},
                                   make_attrs<StridedSliceAttrs>(Array<int64_t>{0}, Shape{int64_t(i)},
                                                                 Shape{int64_t(i) + 1}, Array<int64_t>{1})),
                              {})};
  };
  const bool crops = f.coordinates == "tf_crop_and_resize";
  if (crops) of_length(1, "roi", 2 * k);
  Expr y = f.mode == "nearest" ? Expr(x) : n.cast(x, f32);
  const std::vector<float> scales = known_scales(n, f, extents);
  for (size_t i = 0; i < k; ++i) {
    if (!crops && !scales.empty() && scales[i] == 1) continue;  // keeps its elements
    const Expr roi = crops ? n.cast(n.in(1), f32) : Expr();
    const Axis a{sizes[i],
                 one(in.e, i),
                 one(scale.e, i),
                 crops ? one(roi, i) : real(n, 0),
                 crops ? one(roi, i + k) : real(n, 1),
                 scales.empty() ? std::nullopt : std::optional(scales[i])};
    y = resized(n, f, y, f.axes[i], a);
  }
  return n.cast(y, t);
}

}  // namespace tenon::onnx
