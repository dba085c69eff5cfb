// SPDX-License-Identifier: Apache-2.0
#include "import/onnx/window.h"

#include <algorithm>
#include <cmath>

#include "analysis/analyzer.h"

namespace tenon::onnx {

using namespace op;
using N = NodeContext;
using Ints = std::vector<int64_t>;

/// SAME padding of an axis where its size, or the reach of the window, is symbolic: windows that begin at
/// every stride inside of it.
static Window::Same same_padding(size_t axis, const PrimExpr& have, int64_t stride, const PrimExpr& reach,
                                 bool upper) {
  const PrimExpr last =
      (tir::floordiv(have + PrimExpr(stride - 1), PrimExpr(stride)) - PrimExpr(1)) * PrimExpr(stride);
  PrimExpr size = simplify(last + reach);
  if (tir::as_int(reach).value_or(1) < stride) size = tir::max(size, have);
  const PrimExpr total = size - have;
  return {axis, simplify(tir::floordiv(total + PrimExpr(upper ? 0 : 1), PrimExpr(2))), size};
}

Expr with_same_padding(N& n, Expr x, const Window& w, double value) {
  for (const Window::Same& s : w.same) {
    const PrimExpr have = n.shape_of(x)[s.axis];
    const Index at = iota(n, s.size) - index_of(n, {s.before})[0];
    x = pick_or(n, x, at, index_of(n, {have})[0], int64_t(s.axis),
                n.scalar(value, graph::as_tensor(x)->dtype), false);
  }
  return x;
}

Ints per_axis(N& n, const char* name, size_t spatial, int64_t otherwise, int64_t least) {
  Ints v = n.attr_ints(name);
  if (v.empty()) v.assign(spatial, otherwise);
  if (v.size() != spatial)
    n.malformed(
        fmt::format("'{}' of {} needs {} values, {} are given", name, n.op_type(), spatial, v.size()));
  for (int64_t x : v)
    if (x < least || x > (int64_t(1) << 31))
      n.malformed(fmt::format("'{}' of {} has the impossible value {}", name, n.op_type(), x));
  return v;
}

size_t spatial_axes(N& n) {
  const int64_t r = n.rank(0);
  if (r < 3)
    n.malformed(fmt::format("{} of a tensor of {} dimensions, where batch, channels and others are needed",
                            n.op_type(), r));
  if (r > 5) n.unsupported(fmt::format("{} of a tensor of rank {} is not supported", n.op_type(), r));
  return size_t(r - 2);
}

bool pads_same(N& n) {
  const std::string mode = n.attr_string("auto_pad", "NOTSET");
  if (mode != "NOTSET" && mode != "SAME_UPPER" && mode != "SAME_LOWER" && mode != "VALID" && !mode.empty())
    n.malformed(fmt::format("auto_pad={} of {} is not known", in_quotes(mode), n.op_type()));
  return mode.starts_with("SAME");
}

Ints given_pads(N& n, size_t spatial) {
  if (n.attr_string("auto_pad", "NOTSET") == "VALID") return Ints(2 * spatial, 0);
  return per_axis(n, "pads", 2 * spatial, 0, 0);
}

void share_padding(N& n, int64_t total, size_t i, Ints& pads) {
  const bool upper = n.attr_string("auto_pad", "NOTSET") == "SAME_UPPER";
  const int64_t small = total / 2, large = total - small;
  pads[i] = upper ? small : large;
  pads[i + pads.size() / 2] = upper ? large : small;
}

/// Pads spatial axis i so that a window begins at every stride: by numbers, or in front of the operator where
/// the size or the window's reach is symbolic.
static void pad_same(N& n, Window& w, size_t i, size_t weight) {
  if (w.kernel[i] == 0 && weight == 0)
    n.malformed(fmt::format("'kernel_shape' of {} has the value 0", n.op_type()));
  const PrimExpr extent = w.kernel[i] ? PrimExpr(w.kernel[i]) : n.known_shape(weight)[i + 2];
  const PrimExpr window_reach = simplify((extent - PrimExpr(1)) * PrimExpr(w.dilations[i]) + PrimExpr(1));
  const auto reach = tir::as_int(window_reach);
  if (w.strides[i] == 1 && reach) return share_padding(n, std::max<int64_t>(0, *reach - 1), i, w.pads);
  const std::string mode = n.attr_string("auto_pad", "NOTSET");
  const auto shape = n.shape(0);
  if (!shape) n.not_known(fmt::format("{} with auto_pad={} needs a known shape", n.op_type(), mode));
  const auto in = tir::as_int((*shape)[i + 2]);
  if (!in || !reach) {
    w.same.push_back(same_padding(i + 2, (*shape)[i + 2], w.strides[i], window_reach, mode == "SAME_UPPER"));
    return;
  }
  const int64_t out = (*in + w.strides[i] - 1) / w.strides[i];
  share_padding(n, std::max<int64_t>(0, (out - 1) * w.strides[i] + *reach - *in), i, w.pads);
}

Window window(N& n, Ints kernel, size_t weight) {
  const size_t spatial = spatial_axes(n);
  Window w;
  w.kernel = std::move(kernel);
  if (w.kernel.size() != spatial)
    n.malformed(fmt::format("'kernel_shape' of {} needs {} values, {} are given", n.op_type(), spatial,
                            w.kernel.size()));
  for (int64_t k : w.kernel)
    if (k < 0 || k > (int64_t(1) << 31))
      n.malformed(fmt::format("'kernel_shape' of {} has the impossible value {}", n.op_type(), k));
  w.strides = per_axis(n, "strides", spatial, 1, 1);
  w.dilations = per_axis(n, "dilations", spatial, 1, 1);
  w.pads.assign(2 * spatial, 0);
  const bool same = pads_same(n);
  if (!same) w.pads = given_pads(n, spatial);
  for (size_t i = 0; same && i < spatial; ++i) pad_same(n, w, i, weight);
  return w;
}

Ints kernel_of(N& n, size_t input) {
  const size_t spatial = spatial_axes(n);
  if (n.rank(input) != int64_t(spatial) + 2)
    n.malformed(fmt::format("the weight of {} has rank {}, the data has {}", n.op_type(), n.rank(input),
                            spatial + 2));
  auto shape = n.shape(input);
  Ints given = n.attr_ints("kernel_shape"), kernel;
  for (size_t i = 0; i < spatial; ++i) {
    const auto v = shape ? tir::as_int((*shape)[i + 2]) : std::nullopt;
    if (!v && i < given.size() && shape) n.require_equal((*shape)[i + 2], PrimExpr(given[i]));
    kernel.push_back(v ? *v : i < given.size() ? given[i] : 0);
    if (v && *v < 1) n.malformed(fmt::format("the weight of {} has no elements", n.op_type()));
  }
  if (!given.empty() && given != kernel)
    n.malformed(fmt::format("'kernel_shape' of {} does not agree with the weight", n.op_type()));
  return kernel;
}

Expr convolution(N& n, Expr x, Expr weight, const Window& w) {
  auto a = make<ConvAttrs>();
  ConvAttrs& c = *a.edit();
  c.strides = w.strides, c.padding = w.pads, c.dilation = w.dilations;
  c.groups = n.attr_int("group", 1);
  if (c.groups < 1) n.malformed(fmt::format("{} has {} groups", n.op_type(), c.groups));
  return n.op(fmt::format("nn.conv{}d", w.kernel.size()), {with_same_padding(n, x, w, 0), weight}, a);
}

Expr with_bias(N& n, Expr y, size_t i) {
  return n.has(i) ? n.op("nn.bias_add", {y, n.in(i)}, make_attrs<AxisAttrs>(int64_t(1))) : y;
}

double lowest(DataType t) { return t.is_float() ? -INFINITY : t.is_int() ? -std::ldexp(1.0, t.bits - 1) : 0; }

}  // namespace tenon::onnx
