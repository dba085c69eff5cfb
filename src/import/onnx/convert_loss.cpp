// SPDX-License-Identifier: Apache-2.0
// Converters: losses, quantised products, and windows of signal processing.
#include <cmath>
#include <numbers>

#include "analysis/analyzer.h"
#include "import/onnx/values.h"

namespace tenon::onnx {
namespace {

using namespace op;
using N = NodeContext;
using R = RegisterConverter;
using Shape = Array<PrimExpr>;

// ---------------------------------------------------------------- losses
/// Of log-probabilities (batch, classes, …) and class numbers (batch, …).
Expr negative_log_likelihood(N& n, const Expr& log_p) {
  Expr target = n.in(1);
  const DataType t = n.dtype(0);
  const std::string reduction = n.attr_string("reduction", "mean");
  if (reduction != "mean" && reduction != "sum" && reduction != "none")
    n.malformed(fmt::format("the reduction {} of {} is not known", in_quotes(reduction), n.op_type()));
  Expr weight;  // of each element
  Expr index = target;
  if (n.has_attr("ignore_index")) {
    const DataType ti = n.dtype(1);
    Expr ignored = n.op("equal", {target, n.scalar(double(n.attr_int("ignore_index", 0)), ti)});
    index = n.op("where", {ignored, n.scalar(0, ti), target});
    weight = n.op("where", {ignored, n.scalar(0, t), n.scalar(1, t)});
  }
  if (const auto shape = n.shape(0); shape && shape->size() > 1)
    index = n.checked_indices(index, {(*shape)[1]}, false);
  if (n.has(2)) {
    Expr w = n.op("take", {n.in(2), index}, make_attrs<AxisAttrs>(int64_t(0)));
    weight = weight ? n.op("multiply", {w, weight}) : w;
  }
  Expr wide_index = n.op("expand_dims", {index}, make_attrs<AxesAttrs>(Array<int64_t>{1}));
  Expr picked = n.op("gather_elements", {log_p, wide_index}, make_attrs<AxisAttrs>(int64_t(1)));
  Expr loss = n.op("negative", {n.op("squeeze", {picked}, make_attrs<AxesAttrs>(Array<int64_t>{1}))});
  if (weight) loss = n.op("multiply", {loss, weight});
  if (reduction == "none") return loss;
  if (reduction == "mean" && !weight) return n.op("mean", {loss}, make_attrs<ReduceAttrs>());
  Expr sum = n.op("sum", {loss}, make_attrs<ReduceAttrs>());
  return reduction == "sum" ? sum : n.op("divide", {sum, n.op("sum", {weight}, make_attrs<ReduceAttrs>())});
}
Values nll(N& n) { return {negative_log_likelihood(n, n.in(0))}; }
Values cross_entropy(N& n) {
  Expr log_p = n.op("nn.log_softmax", {n.in(0)}, make_attrs<AxisAttrs>(int64_t(1)));
  return {negative_log_likelihood(n, log_p), log_p};
}
const R l1("NegativeLogLikelihoodLoss", {12, 13, 22}, nll),
    l2("SoftmaxCrossEntropyLoss", {12, 13}, cross_entropy);

// ---------------------------------------------------------------- quantised products
/// A vector of scales or zero points along `axis` of a tensor of that shape; of a vector axis -1: one.
Expr along(N& n, const Expr& v, const Shape& of, int64_t axis) {
  auto s = graph::known_shape(v);
  if (!s) n.unsupported("quantisation parameters of unknown shape are not supported");
  if (s->empty()) return v;
  if (s->size() > 1) return v;
  if (tir::is_one((*s)[0])) return n.reshape(v, {});
  const PrimExpr size = axis < 0 ? PrimExpr(1) : of[size_t(axis)];
  const auto count = tir::as_int((*s)[0]), have = tir::as_int(size);
  if (count && have && *count != *have)
    n.malformed(fmt::format("{} has {} scales or zero points for an axis of {} elements", n.op_type(), *count,
                            *have));
  if (count) n.require_equal(size, (*s)[0]);
  Shape shape;
  for (int64_t i = 0; i < int64_t(of.size()); ++i) shape.push_back(i == axis ? (*s)[0] : PrimExpr(1));
  return n.reshape(v, shape);
}
Expr centred(N& n, size_t x, size_t zero, int64_t axis) {
  const Expr point = along(n, n.in(zero), n.known_shape(x), axis);
  return n.op("subtract", {n.cast(n.in(x), i32), n.cast(point, i32)});
}
/// The int32 sums scaled to the output's steps.
Expr requantize(N& n, const Expr& sums, const Expr& scale, size_t out_scale, size_t out_zero, int64_t axis) {
  const DataType to = n.dtype(out_zero);
  const Shape shape = n.shape_of(sums);
  if (!to.is_integer()) n.unsupported("quantisation to this type is not supported");
  Expr ratio = n.op("divide", {scale, n.cast(along(n, n.in(out_scale), shape, axis), f32)});
  Expr q = n.op("round", {n.op("multiply", {n.cast(sums, f32), ratio})});
  q = n.op("add", {q, n.cast(along(n, n.in(out_zero), shape, axis), f32)});
  const double lo = to.is_int() ? -std::ldexp(1.0, to.bits - 1) : 0,
               hi = std::ldexp(1.0, to.bits - (to.is_int() ? 1 : 0)) - 1;
  return n.cast(n.op("clip", {q}, make_attrs<ClipAttrs>(lo, hi)), to);
}
Values qlinear_matmul(N& n) {
  n.expect_quantised({0, 3, 7});
  n.expect_one_dtype({0, 2}), n.expect_one_dtype({3, 5});
  const int64_t ra = n.rank(0), rb = n.rank(3), r = std::max(ra, rb);
  Expr a = centred(n, 0, 2, ra - 2), b = centred(n, 3, 5, rb - 1);
  n.align(a, b, false, 2);
  const Expr sums = n.op("matmul", {a, b});
  Expr sa = n.cast(along(n, n.in(1), n.known_shape(0), ra - 2), f32),
       sb = n.cast(along(n, n.in(4), n.known_shape(3), rb - 1), f32);
  return {requantize(n, sums, n.op("multiply", {sa, sb}), 6, 7, r - 2)};
}
const R q1("QLinearMatMul", {10, 21}, qlinear_matmul);

// ---------------------------------------------------------------- shapes
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

Values signal_window(N& n) {
  if (!known_numbers(n, 0)) return window_at_run_time(n);
  const auto size = n.const_ints(0, "size");
  if (size.size() != 1 || size[0] < 0 || size[0] > (1 << 24))
    n.malformed(fmt::format("'size' of {} must be one number", n.op_type()));
  const DataType t = element_type(int(n.attr_int("output_datatype", 1)));
  if (t.is_void()) n.unsupported(fmt::format("{} of this type is not supported", n.op_type()));
  const double steps = double(n.attr_int("periodic", 1) != 0 ? size[0] : size[0] - 1);
  NDArray a = NDArray::empty({size[0]}, t);
  for (int64_t i = 0; i < size[0]; ++i) {
    const double w = 2 * std::numbers::pi * double(i) / steps;
    const double v = n.op_type() == "HannWindow"      ? 0.5 - 0.5 * std::cos(w)
                     : n.op_type() == "HammingWindow" ? 25.0 / 46 - 21.0 / 46 * std::cos(w)
                                                      : 0.42 - 0.5 * std::cos(w) + 0.08 * std::cos(2 * w);
    a.set_element(i, v);
  }
  return {graph::constant(a)};
}
const R w1("HannWindow", {17}, signal_window, {.values = {0}}),
    w2("HammingWindow", {17}, signal_window, {.values = {0}}),
    w3("BlackmanWindow", {17}, signal_window, {.values = {0}});

}  // namespace
}  // namespace tenon::onnx
