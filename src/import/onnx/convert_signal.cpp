// SPDX-License-Identifier: Apache-2.0
// Converters: Fourier transforms, mel weights, determinants; random numbers; steps of training.
#include <bit>
#include <cmath>

#include "analysis/analyzer.h"
#include "import/onnx/values.h"
#include "op/attrs_place.h"
#include "op/attrs_random.h"
#include "op/attrs_signal.h"

namespace tenon::onnx {

using namespace op;
using N = NodeContext;
using R = RegisterConverter;
using Shape = Array<PrimExpr>;

Expr random_key(N& n) {
  // FNV-1a of the name: nodes of one model draw different numbers, every run draws the same.
  uint64_t seed = 1469598103934665603ull;
  if (const auto* given = n.attr("seed")) {
    // Random numbers have a seed that is a float, Dropout one that is an integer.
    const bool whole = n.op_type() == "Dropout";
    seed = whole ? uint64_t(given->i()) : std::bit_cast<uint32_t>(float(n.attr_float("seed", 0)));
  } else {
    for (char c : name_of(n.node)) seed = (seed ^ uint8_t(c)) * 1099511628211ull;
  }
  return n.op("random.key", {}, make_attrs<SeedAttrs>(int64_t(seed)));
}

namespace {

// ---------------------------------------------------------------- signals
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

// ---------------------------------------------------------------- random numbers
DataType wanted_type(N& n, DataType otherwise) {
  const int64_t code = n.attr_int("dtype", 0);
  return code ? element_type(int(code)) : otherwise;
}
Values random_fill(N& n) {
  const std::string& kind = n.op_type();
  const bool like = kind.ends_with("Like"), normal = kind.starts_with("RandomNormal");
  Shape size;
  if (like)
    size = n.known_shape(0);
  else
    for (int64_t d : n.need_ints("shape")) size.push_back(d);
  const DataType t = wanted_type(n, like ? n.dtype(0) : f32);
  const Array<Expr> args{random_key(n), graph::shape_expr(size)};
  if (normal)
    return {n.op("random.normal", args,
                 make_attrs<NormalAttrs>(n.attr_float("mean", 0), n.attr_float("scale", 1), t))};
  return {n.op("random.uniform", args,
               make_attrs<RandomAttrs>(n.attr_float("low", 0), n.attr_float("high", 1), t))};
}
Values bernoulli(N& n) {
  const DataType t = wanted_type(n, n.dtype(0));
  return {n.op("random.bernoulli", {random_key(n), n.in(0)}, make_attrs<DTypeAttrs>(t))};
}
Values multinomial(N& n) {
  const DataType t = wanted_type(n, i32);
  return {n.cast(n.op("random.categorical", {random_key(n), n.in(0)},
                      make_attrs<CountAttrs>(n.attr_int("sample_size", 1))),
                 t)};
}
const R r1("RandomNormal", {1, 22}, random_fill), r2("RandomUniform", {1, 22}, random_fill),
    r3("RandomNormalLike", {1, 22}, random_fill), r4("RandomUniformLike", {1, 22}, random_fill),
    r5("Bernoulli", {15, 22}, bernoulli), r6("Multinomial", {7, 22}, multinomial);

// ---------------------------------------------------------------- training
Expr times(N& n, const Expr& e, double v) {
  return n.op("multiply", {e, n.scalar(v, graph::as_tensor(e)->dtype)});
}
/// Inputs of an optimiser: rate, number of updates, then variables, gradients and states of each.
struct Updates {
  Expr rate, count;
  size_t variables;
};
Updates updates(N& n, size_t per) {
  if (n.inputs() < 2 + per || (n.inputs() - 2) % per != 0)
    n.malformed(fmt::format("{} has {} inputs", n.op_type(), n.inputs()));
  return {n.in(0), n.in(1), (n.inputs() - 2) / per};
}
/// The gradient (1) or a state (2, 3) of a variable, which has its shape.
Expr of_variable(N& n, const Updates& u, size_t variable, size_t which) {
  return n.checked(n.in(2 + which * u.variables + variable), n.known_shape(2 + variable));
}
Values adagrad(N& n) {
  const Updates u = updates(n, 3);
  const DataType t = n.dtype(0);
  const double decay = n.attr_float("decay_factor", 0), norm = n.attr_float("norm_coefficient", 0),
               epsilon = n.attr_float("epsilon", 0);
  const Expr steps = n.cast(u.count, t);
  const Expr rate = n.op("divide", {u.rate, n.op("add", {n.scalar(1, t), times(n, steps, decay)})});
  Values out(2 * u.variables);
  for (size_t i = 0; i < u.variables; ++i) {
    const Expr x = n.in(2 + i), h = of_variable(n, u, i, 2), given = of_variable(n, u, i, 1);
    const Expr g = n.op("add", {times(n, x, norm), given});
    const Expr sum = n.op("add", {h, n.op("square", {g})});
    const Expr root = n.op("add", {n.op("sqrt", {sum}), n.scalar(epsilon, t)});
    out[i] = n.op("subtract", {x, n.op("divide", {n.op("multiply", {rate, g}), root})});
    out[u.variables + i] = sum;
  }
  return out;
}
Values adam(N& n) {
  const Updates u = updates(n, 4);
  const DataType t = n.dtype(0);
  const double alpha = n.attr_float("alpha", 0.9), beta = n.attr_float("beta", 0.999),
               norm = n.attr_float("norm_coefficient", 0), after = n.attr_float("norm_coefficient_post", 0),
               epsilon = n.attr_float("epsilon", 0);
  const Expr steps = n.cast(u.count, t), one = n.scalar(1, t);
  auto rest = [&](double base) { return n.op("subtract", {one, n.op("power", {n.scalar(base, t), steps})}); };
  const Expr started = n.op("greater", {steps, n.scalar(0, t)});
  const Expr bent = n.op("divide", {n.op("multiply", {u.rate, n.op("sqrt", {rest(beta)})}), rest(alpha)});
  const Expr rate = n.op("where", {started, bent, u.rate});
  Values out(3 * u.variables);
  for (size_t i = 0; i < u.variables; ++i) {
    const Expr x = n.in(2 + i), v = of_variable(n, u, i, 2), h = of_variable(n, u, i, 3);
    const Expr g = n.op("add", {times(n, x, norm), of_variable(n, u, i, 1)});
    const Expr first = n.op("add", {times(n, v, alpha), times(n, g, 1 - alpha)});
    const Expr second = n.op("add", {times(n, h, beta), times(n, n.op("square", {g}), 1 - beta)});
    const Expr root = n.op("add", {n.op("sqrt", {second}), n.scalar(epsilon, t)});
    const Expr fresh = n.op("subtract", {x, n.op("divide", {n.op("multiply", {rate, first}), root})});
    out[i] = times(n, fresh, 1 - after);
    out[u.variables + i] = first, out[2 * u.variables + i] = second;
  }
  return out;
}
Values momentum(N& n) {
  const Updates u = updates(n, 3);
  const DataType t = n.dtype(0);
  const double alpha = n.attr_float("alpha", 0), beta = n.attr_float("beta", 1),
               norm = n.attr_float("norm_coefficient", 0);
  const bool nesterov = n.attr_string("mode", "standard") == "nesterov";
  // The first step takes the whole gradient.
  const Expr share = n.op(
      "where", {n.op("greater", {n.cast(u.count, t), n.scalar(0, t)}), n.scalar(beta, t), n.scalar(1, t)});
  Values out(2 * u.variables);
  for (size_t i = 0; i < u.variables; ++i) {
    const Expr x = n.in(2 + i), v = of_variable(n, u, i, 2);
    const Expr g = n.op("add", {times(n, x, norm), of_variable(n, u, i, 1)});
    const Expr fresh = n.op("add", {times(n, v, alpha), n.op("multiply", {share, g})});
    const Expr step = nesterov ? n.op("add", {g, times(n, fresh, alpha)}) : fresh;
    out[i] = n.op("subtract", {x, n.op("multiply", {u.rate, step})});
    out[u.variables + i] = fresh;
  }
  return out;
}
const R t1("ai.onnx.preview.training::Adagrad", {1}, adagrad),
    t2("ai.onnx.preview.training::Adam", {1}, adam), t3("ai.onnx.preview.training::Momentum", {1}, momentum);

Values array_feature_extractor(N& n) {
  const int64_t rank = n.rank(0);
  const auto shape = n.shape(0);
  Expr at = n.in(1);
  if (const Shape given = n.shape_of(at); given.size() != 1)  // one index, or a row of them
    at = n.reshape(at, {op::product(given)});
  if (shape && !shape->empty()) at = n.checked_indices(at, {shape->back()}, false);
  const Expr y = n.op("take", {n.in(0), at}, make_attrs<AxisAttrs>(rank - 1));
  if (rank != 1) return {y};
  const Shape s = *graph::known_shape(y);
  return {n.reshape(y, {PrimExpr(1), s[s.size() - 1]})};
}
Values binarizer(N& n) {
  const DataType t = n.dtype(0);
  return {n.cast(n.op("greater", {n.in(0), n.scalar(n.attr_float("threshold", 0), t)}), t)};
}
const R m1("ai.onnx.ml::ArrayFeatureExtractor", {1}, array_feature_extractor),
    m2("ai.onnx.ml::Binarizer", {1}, binarizer);

}  // namespace
}  // namespace tenon::onnx
