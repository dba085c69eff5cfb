// SPDX-License-Identifier: Apache-2.0
// Converters: Fourier transforms, mel weights and windows of signals; determinants.
#include <cmath>
#include <numbers>

#include "analysis/analyzer.h"
#include "import/onnx/values.h"
#include "op/attrs_place.h"
#include "op/attrs_signal.h"

namespace tenon::onnx {

using namespace op;
using N = NodeContext;
using R = RegisterConverter;
using Shape = Array<PrimExpr>;

namespace {

Values dft(N& n) {
  const int64_t rank = n.rank(0);
  if (rank < 2) n.malformed("DFT takes a tensor whose last axis holds the parts of its numbers");
  int64_t axis = n.since < 20 ? n.attr_int("axis", 1) : -2;
  const bool inverse = n.attr_int("inverse", 0) != 0, onesided = n.attr_int("onesided", 0) != 0;
  auto transform = [&](const Expr& x, int64_t along) {
    const PrimExpr have = (*graph::known_shape(x))[size_t(along)];
    const PrimExpr length = n.has(1)              ? size_input(n, 1, "dft_length")
                            : inverse && onesided ? simplify((have - 1) * 2)
                                                  : have;
    return n.op("signal.dft", {x, graph::shape_expr({length})},
                make_attrs<DftAttrs>(along, inverse, onesided));
  };
  const Expr x = with_shape(n, 0).first;
  if (n.since >= 20 && !known_numbers(n, 2))
    return {along_axis(n, x, index_input(n, 2), rank - 2, [&](const Expr& moved) {
      Shape sizes = *graph::known_shape(moved);  // the parts stay where they are
      sizes.set(size_t(rank) - 1, (*graph::known_shape(x))[size_t(rank) - 1]);
      return transform(n.checked(moved, sizes), rank - 2);
    })};
  if (n.since >= 20 && n.has(2)) {
    const auto given = n.const_ints(2, "axis");
    if (given.size() != 1) n.malformed("'axis' of DFT must be one number");
    axis = given[0];
  }
  return {transform(x, n.axis(axis, rank))};
}
/// The frames of a signal (batch, samples, parts) at distances that only the run knows, transformed.
Expr stft_at_run_time(N& n, const Expr& x, const Expr& window, bool onesided) {
  const Shape shape = *graph::known_shape(x);
  const Shape of_window = n.shape_of(window);
  const Index step = index_input(n, 1);
  if (of_window.size() != 1 || step.length() != 1)
    n.malformed("STFT takes a window of one axis and one step");
  const PrimExpr length = of_window[0];
  n.require_at_most(length, shape[1], "the frames of STFT are longer than its signal");
  const Index frames = floor_div(index_of(n, {simplify(shape[1] - length)}), step) + 1;
  const PrimExpr count = sizes_of(frames, "frames")[0];
  const Index at = (iota(n, count) * step).shaped({count, PrimExpr(1)}) + iota(n, length);
  const Expr seen = n.op("multiply", {pick(n, x, at, 1), n.reshape(window, {length, PrimExpr(1)})});
  return n.op("signal.dft", {seen, graph::shape_expr({length})},
              make_attrs<DftAttrs>(int64_t(2), false, onesided));
}
Values stft(N& n) {
  Expr x = n.in(0);
  const Shape s = n.known_shape(0, 2, 3);
  if (s.size() == 2) x = n.reshape(x, {s[0], s[1], PrimExpr(1)});
  Expr window;
  if (n.has(2)) {
    window = n.in(2);
    if (n.has(3)) {
      const PrimExpr length = size_input(n, 3, "frame_length");
      const auto have = n.known_shape(2);
      const auto p = tir::as_int(length), q = have.size() == 1 ? tir::as_int(have[0]) : std::nullopt;
      if (have.size() != 1 || (p && q && *p != *q))
        n.unsupported("STFT with a window that is shorter than its frames is not supported");
      n.require_equal(length, have[0]);
    }
  } else {
    if (!n.has(3)) n.malformed("STFT needs a window or a frame length");
    window = n.op("full", {graph::shape_expr({size_input(n, 3, "frame_length")}), n.scalar(1, n.dtype(0))},
                  make_attrs<DTypeAttrs>(n.dtype(0)));
  }
  const bool onesided = n.attr_int("onesided", 1) != 0;
  if (!known_numbers(n, 1)) return {stft_at_run_time(n, x, window, onesided)};
  const auto step = n.const_ints(1, "frame_step");
  if (step.size() != 1) n.malformed("'frame_step' of STFT must be one number");
  return {n.op("signal.stft", {x, window}, make_attrs<StftAttrs>(step[0], onesided))};
}
/// Weights of triangles over a spectrum, each from the frequency bin of its lower neighbour to that of its
/// upper one, as the standard rounds them.
Expr mel_at_run_time(N& n, DataType t) {
  const PrimExpr bins = sizes_of(index_input(n, 0), "bins")[0];
  const Index length = index_input(n, 1);
  const PrimExpr rows = sizes_of(floor_div(length, 2) + 1, "rows")[0];
  auto number = [&](double v) { return n.scalar(v, f64); };
  auto mel = [&](size_t i) {
    const Expr ratio = n.op("add", {n.op("divide", {scalar_input(n, i, f64, 0), number(700)}), number(1)});
    return n.op("multiply", {n.op("log10", {ratio}), number(2595)});
  };
  const Expr low = mel(3), high = mel(4);
  const Index at = iota(n, simplify(bins + 2));
  const Expr step =
      n.op("divide", {n.op("subtract", {high, low}), n.cast(index_of(n, {simplify(bins + 2)}), f64)});
  const Expr mels = n.op("add", {n.op("multiply", {n.cast(at, f64), step}), low});
  const Expr power = n.op("power", {number(10), n.op("divide", {mels, number(2595)})});
  const Expr hertz = n.op("multiply", {n.op("subtract", {power, number(1)}), number(700)});
  const Expr scaled =
      n.op("floor_divide", {n.op("multiply", {n.cast(length + 1, f64), hertz}), scalar_input(n, 2, f64, 0)});
  const Index edges(n, n.cast(scaled, i64));
  const Index column = iota(n, bins), row = iota(n, rows).shaped({rows, PrimExpr(1)});
  const Index lower(n, pick(n, edges, column, 0)), centre(n, pick(n, edges, column + 1, 0)),
      upper(n, pick(n, edges, column + 2, 0));
  auto quotient = [&](const Index& a, const Index& b) {
    return n.op("divide", {n.cast(a, f64), n.cast(max(b, 1), f64)});
  };
  const Expr peak = n.cast(equal(row, centre), f64);
  const Expr rise = n.op("where", {less(lower, centre), quotient(row - lower, centre - lower), peak});
  auto within = [&](const Index& a, const Index& b, const Index& c) {  // a <= b < c
    return n.op("logical_and", {less(a - 1, b), less(b, c)});
  };
  const Expr falls = within(centre, row, upper), rises = within(lower, row, centre + 1);
  const Expr below = n.op("where", {rises, rise, number(0)});
  return n.cast(n.op("where", {falls, quotient(upper - row, upper - centre), below}), t);
}
Values mel_weights(N& n) {
  auto one = [&](size_t i, const char* what) {
    const auto v = n.const_floats(i, what);
    if (v.size() != 1) n.malformed(fmt::format("'{}' of MelWeightMatrix must be one number", what));
    return v[0];
  };
  const DataType t = element_type(int(n.attr_int("output_datatype", 1)));
  for (size_t i = 0; i < 5; ++i)
    if (!known_numbers(n, i)) return {mel_at_run_time(n, t)};
  return {n.op("signal.mel_weight_matrix", {},
               make_attrs<MelAttrs>(int64_t(one(0, "num_mel_bins")), int64_t(one(1, "dft_length")),
                                    int64_t(one(2, "sample_rate")), one(3, "lower_edge_hertz"),
                                    one(4, "upper_edge_hertz"), t))};
}
Values det(N& n) { return {n.op("linalg.det", {n.in(0)})}; }
const R w1("DFT", {17, 20}, dft, {.values = {1, 2}}), w2("STFT", {17}, stft, {.values = {1, 3}}),
    w3("MelWeightMatrix", {17}, mel_weights, {.values = {0, 1, 2, 3, 4}}), w4("Det", {11, 22}, det);

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
const R h1("HannWindow", {17}, signal_window, {.values = {0}}),
    h2("HammingWindow", {17}, signal_window, {.values = {0}}),
    h3("BlackmanWindow", {17}, signal_window, {.values = {0}});

}  // namespace
}  // namespace tenon::onnx
