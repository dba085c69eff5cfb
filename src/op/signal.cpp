// SPDX-License-Identifier: Apache-2.0
// Signals: discrete Fourier transforms (in two factors where the length has them), frames, windows, mel
// weights.
#include <fmt/format.h>

#include <cmath>
#include <numbers>

#include "base/define_type.h"
#include "op/attrs_signal.h"
#include "op/family.h"

namespace tenon::op {
namespace {

using Tensors = std::vector<te::Tensor>;

// ---------------------------------------------------------------- transforms
/// cos and sin of -2π k / n (inverse: 2π k / n) for k in [0, n): computed once, read by all sums. An angle is
/// some quarters of a turn and at most an eighth of one beside, so that whole quarters have no rounding.
te::Tensor turns(const PrimExpr& n, DataType t, bool inverse) {
  return te::compute(
      {n, PrimExpr(2)},
      [&](const Vars& v) {
        const PrimExpr k = tir::cast(i64, v[0]), size = tir::cast(i64, n), part = tir::cast(i64, v[1]);
        const PrimExpr quarters = tir::floordiv(k * PrimExpr(8) + size, size * PrimExpr(2));
        const PrimExpr rest = tir::cast(f64, k * PrimExpr(4) - quarters * size);
        const PrimExpr angle = tir::div(rest * constant(f64, std::numbers::pi / 2), tir::cast(f64, n));
        // cos x = sin (x + a quarter); from a half on the sign is the other one.
        const PrimExpr place = tir::floormod(quarters + PrimExpr(1) - part, PrimExpr(4));
        const PrimExpr value =
            tir::select(tir::eq(tir::floormod(place, PrimExpr(2)), PrimExpr(1)),
                        tir::call(f64, "tir.cos", {angle}), tir::call(f64, "tir.sin", {angle}));
        PrimExpr negative = tir::ge(place, PrimExpr(2));
        if (!inverse) negative = tir::ne(negative, tir::eq(part, PrimExpr(1)));
        return tir::cast(t, tir::select(negative, constant(f64, 0) - value, value));
      },
      "turns");
}
/// The factor of n nearest to its root, or 1.
int64_t factor_of(const PrimExpr& n) {
  const auto v = tir::as_int(n);
  if (!v || *v < 32) return 1;
  for (auto f = int64_t(std::sqrt(double(*v))); f > 1; --f)
    if (*v % f == 0) return f;
  return 1;
}
struct Complex {
  PrimExpr re, im;
};
Complex times_turn(const Complex& a, const te::Tensor& turn, const PrimExpr& k) {
  const PrimExpr c = turn({k, PrimExpr(0)}), s = turn({k, PrimExpr(1)});
  return {a.re * c - a.im * s, a.re * s + a.im * c};
}
PrimExpr part_of(const Complex& z, const PrimExpr& part) {
  return tir::select(tir::eq(part, PrimExpr(0)), z.re, z.im);
}

/// `n` terms of the middle axis of (rows, n, 2) to `out` frequencies. `read` gives term k of a row.
te::Tensor transform(const PrimExpr& rows, const PrimExpr& n, const PrimExpr& out, DataType t, bool inverse,
                     const std::function<Complex(const PrimExpr& row, const PrimExpr& k)>& read) {
  const te::Tensor turn = turns(n, t, inverse);
  const int64_t n1 = factor_of(n);
  if (n1 == 1) {
    const auto k = te::reduce_axis(tir::range(PrimExpr(0), n));
    return te::compute(
        {rows, out, PrimExpr(2)},
        [&](const Vars& v) {
          return te::sum(part_of(times_turn(read(v[0], k->var), turn, tir::floormod(k->var * v[1], n)), v[2]),
                         {k});
        },
        "dft");
  }
  // Cooley and Tukey: k = n2 k1 + k2, frequency j = j1 + n1 j2.
  const int64_t n2 = *tir::as_int(n) / n1;
  const auto k1 = te::reduce_axis(tir::range(PrimExpr(0), PrimExpr(n1)), "k1");
  const te::Tensor inner = te::compute(
      {rows, PrimExpr(n1), PrimExpr(n2), PrimExpr(2)},
      [&](const Vars& v) {
        const Complex z = read(v[0], k1->var * n2 + v[2]);
        return te::sum(part_of(times_turn(z, turn, tir::floormod(k1->var * v[1], PrimExpr(n1)) * n2), v[3]),
                       {k1});
      },
      "dft_inner");
  const te::Tensor turned = te::compute(
      inner.shape(),
      [&](const Vars& v) {
        const Complex z{inner({v[0], v[1], v[2], PrimExpr(0)}), inner({v[0], v[1], v[2], PrimExpr(1)})};
        return part_of(times_turn(z, turn, v[1] * v[2]), v[3]);
      },
      "dft_turned");
  const auto k2 = te::reduce_axis(tir::range(PrimExpr(0), PrimExpr(n2)), "k2");
  return te::compute(
      {rows, out, PrimExpr(2)},
      [&](const Vars& v) {
        const PrimExpr j1 = tir::floormod(v[1], PrimExpr(n1)), j2 = tir::floordiv(v[1], PrimExpr(n1));
        const Complex z{turned({v[0], j1, k2->var, PrimExpr(0)}), turned({v[0], j1, k2->var, PrimExpr(1)})};
        return te::sum(part_of(times_turn(z, turn, tir::floormod(k2->var * j2, PrimExpr(n2)) * n1), v[2]),
                       {k2});
      },
      "dft");
}

PrimExpr half_of(const PrimExpr& n) { return simplify(tir::floordiv(n, PrimExpr(2)) + 1); }

/// Real numbers, or complex ones: 1 or 2 parts.
bool require_parts(InferContext& ctx, const PrimExpr& parts) {
  return ctx.require_equal(simplify(tir::max(tir::min(parts, PrimExpr(2)), PrimExpr(1))), parts);
}
/// The second of `parts`; that of a real number is 0.
PrimExpr imaginary(const PrimExpr& value, const PrimExpr& parts) {
  if (const auto known = tir::as_int(parts)) return *known == 1 ? constant(value.dtype(), 0) : value;
  return tir::if_then_else(tir::gt(parts, PrimExpr(1)), value, constant(value.dtype(), 0));
}

Type infer_dft(InferContext& ctx) {
  const auto& a = ctx.attrs<DftAttrs>();
  const auto& x = ctx.tensor(0);
  if (!ctx.expect_domain(x.dtype, Domain::floating)) return {};
  const auto length = ctx.shape(1);
  if (length && (length->size() != 1 || !ctx.require_not_negative(simplify((*length)[0] - 1))))
    return ctx.error(fmt::format("the length {} is not one positive size", show(*length)));
  auto s = shape_of(x);
  if (!s || !length) return make_type(std::nullopt, x.ndim, x.dtype);
  if (s->size() < 2) return ctx.error(fmt::format("{} has no axis of real and imaginary parts", show(*s)));
  if (!ctx.expect_axis(a.axis, int64_t(s->size()))) return {};
  const auto axis = size_t(normal_axis(a.axis, int64_t(s->size())));
  const PrimExpr parts = (*s)[s->size() - 1];
  if (axis + 1 == s->size() || !require_parts(ctx, parts))
    return ctx.error(
        fmt::format("{} has no axis of real and imaginary parts behind axis {}", show(*s), axis));
  if (a.onesided && !a.inverse && !ctx.require_equal(parts, PrimExpr(1)))
    return ctx.error("the halves differ for complex signals", "onesided is for real ones");
  s->set(axis, a.onesided && !a.inverse ? half_of((*length)[0]) : (*length)[0]);
  s->set(s->size() - 1, PrimExpr(a.onesided && a.inverse ? 1 : 2));
  return make_type(s, 0, x.dtype);
}
Tensors def_dft(const Call& call, const Tensors& in) {
  const auto& a = attrs_of<DftAttrs>(call);
  const te::Tensor& x = in[0];
  const TensorInfo out = output_info(call);
  const DataType t = wide_type(x.dtype());
  const size_t last = x.ndim() - 1;
  const auto axis = size_t(normal_axis(a.axis, int64_t(x.ndim())));
  const PrimExpr n = (*shape_arg(call, 1))[0], have = x.shape()[axis];
  Shape rest;
  for (size_t i = 0; i < last; ++i)
    if (i != axis) rest.push_back(x.shape()[i]);
  const bool from_half = a.onesided && a.inverse;
  auto read = [&](const PrimExpr& row, const PrimExpr& k) -> Complex {
    // The second half of a real signal's frequencies mirrors the first.
    const PrimExpr mirrored = from_half ? tir::select(tir::gt(k * 2, n), n - k, k) : k;
    auto element = [&](int64_t part) {
      Shape at = unflatten_index(row, rest);
      at.insert(axis, tir::max(tir::min(mirrored, have - 1), PrimExpr(0)));
      at.push_back(PrimExpr(part));
      const PrimExpr value = tir::cast(t, x(at));
      return same_dim(have, n) && !from_half
                 ? value
                 : tir::if_then_else(tir::lt(mirrored, have), value, constant(t, 0));
    };
    const PrimExpr im = imaginary(element(1), x.shape()[last]);
    return {element(0), from_half ? tir::select(tir::gt(k * 2, n), -im, im) : im};
  };
  const te::Tensor y = transform(simplify(product(rest)), n, out.shape[axis], t, a.inverse, read);
  return {te::compute(
      out.shape,
      [&](const Vars& v) {
        Shape row;
        for (size_t i = 0; i < last; ++i)
          if (i != axis) row.push_back(v[i]);
        PrimExpr value = y({flatten_index(row, rest), v[axis], v[last]});
        if (a.inverse) value = tir::div(value, tir::cast(t, n));
        return tir::cast(out.dtype, value);
      },
      "dft_result")};
}

// ---------------------------------------------------------------- frames
PrimExpr frames_of(const PrimExpr& length, const PrimExpr& frame, int64_t step) {
  return simplify(tir::max(tir::floordiv(length - frame, PrimExpr(step)) + 1, PrimExpr(0)));
}
bool expect_frames(InferContext& ctx, const PrimExpr& length, const PrimExpr& frame, int64_t step) {
  if (step < 1) return ctx.error(fmt::format("frames {} apart", step));
  if (tir::as_int(frame).value_or(1) < 1 || !ctx.require_at_most(frame, length))
    return ctx.error(fmt::format("frames of {} from a signal of {}", show_dim(frame), show_dim(length)));
  return true;
}
Type infer_frame(InferContext& ctx) {
  const auto& a = ctx.attrs<FrameAttrs>();
  const auto& x = ctx.tensor(0);
  auto s = shape_of(x);
  if (!s) return make_type(std::nullopt, x.ndim < 0 ? -1 : x.ndim + 1, x.dtype);
  if (s->empty()) return ctx.error("a scalar has no frames");
  if (!expect_frames(ctx, s->back(), PrimExpr(a.length), a.step)) return {};
  s->set(s->size() - 1, frames_of(s->back(), PrimExpr(a.length), a.step));
  s->push_back(PrimExpr(a.length));
  return make_type(s, 0, x.dtype);
}
Tensors def_frame(const Call& call, const Tensors& in) {
  const auto& a = attrs_of<FrameAttrs>(call);
  return {te::compute(
      output_info(call).shape,
      [&](const Vars& v) {
        Shape at(v.begin(), v.begin() + (std::ptrdiff_t(v.size()) - 2));
        at.push_back(v[v.size() - 2] * a.step + v[v.size() - 1]);
        return in[0](at);
      },
      "frame")};
}
Type infer_stft(InferContext& ctx) {
  const auto& a = ctx.attrs<StftAttrs>();
  const auto &x = ctx.tensor(0), &window = ctx.tensor(1);
  if (!ctx.expect_domain(x.dtype, Domain::floating)) return {};
  if (!ctx.expect_rank(x, "the signal", 3)) return {};
  if (!ctx.expect_rank(window, "the window", 1)) return {};
  auto s = shape_of(x), w = shape_of(window);
  if (!s || !w) return make_type(std::nullopt, 4, x.dtype);
  if (!require_parts(ctx, (*s)[2])) return ctx.error(fmt::format("the signal {} is not complex", show(*s)));
  if (a.onesided && !ctx.require_equal((*s)[2], PrimExpr(1)))
    return ctx.error("the halves differ for complex signals", "onesided is for real ones");
  const PrimExpr length = (*w)[0];
  if (!expect_frames(ctx, (*s)[1], length, a.frame_step)) return {};
  return make_type(Shape{(*s)[0], frames_of((*s)[1], length, a.frame_step),
                         a.onesided ? half_of(length) : length, PrimExpr(2)},
                   4, x.dtype);
}
Tensors def_stft(const Call& call, const Tensors& in) {
  const auto& a = attrs_of<StftAttrs>(call);
  const te::Tensor &x = in[0], &window = in[1];
  const TensorInfo out = output_info(call);
  const DataType t = wide_type(x.dtype());
  const PrimExpr frames = out.shape[1];
  auto read = [&](const PrimExpr& row, const PrimExpr& k) -> Complex {
    auto element = [&](int64_t part) {
      const PrimExpr at = tir::floormod(row, frames) * a.frame_step + k;
      return tir::cast(t, x({tir::floordiv(row, frames), at, PrimExpr(part)})) * tir::cast(t, window({k}));
    };
    return {element(0), imaginary(element(1), x.shape()[2])};
  };
  const te::Tensor y =
      transform(simplify(out.shape[0] * frames), window.shape()[0], out.shape[2], t, false, read);
  return {te::compute(
      out.shape, [&](const Vars& v) { return tir::cast(out.dtype, y({v[0] * frames + v[1], v[2], v[3]})); },
      "stft")};
}

// ---------------------------------------------------------------- windows, mel weights
Type infer_window(InferContext& ctx) {
  const auto& a = ctx.attrs<PeriodicAttrs>();
  if (!ctx.expect_domain(a.dtype, Domain::floating)) return {};
  const auto n = ctx.shape(0);
  if (n && n->size() != 1) return ctx.error(fmt::format("{} is not one size", show(*n)));
  return make_type(n, 1, a.dtype);
}
/// a0 - a1 cos(2π i / n) + a2 cos(4π i / n); a triangle when a0 is 0.
struct Taper {
  OpName name;
  const char* doc;
  double a0, a1, a2;
};
const Taper window_kinds[] = {
    {"signal.hann_window", "Raised cosine.", 0.5, 0.5, 0},
    {"signal.hamming_window", "Raised cosine on a pedestal.", 25.0 / 46, 21.0 / 46, 0},
    {"signal.blackman_window", "Two cosines.", 0.42, 0.5, 0.08},
    {"signal.bartlett_window", "Triangle.", 0, 0, 0},
};
Tensors def_window(const Call& call, const Taper& w) {
  const auto& a = attrs_of<PeriodicAttrs>(call);
  const TensorInfo out = output_info(call);
  auto num = [](double v) { return constant(f64, v); };
  const PrimExpr n = out.shape[0];
  const PrimExpr period = tir::cast(f64, tir::max(a.periodic ? n : n - 1, PrimExpr(1)));
  return {te::compute(
      out.shape,
      [&](const Vars& v) {
        const PrimExpr part = tir::div(tir::cast(f64, v[0]), period);
        auto wave = [&](int64_t k) {
          return tir::call(f64, "tir.cos", {part * num(2 * std::numbers::pi * double(k))});
        };
        PrimExpr value =
            w.a0 == 0 ? num(1) - tir::abs(part * num(2) - num(1)) : num(w.a0) - wave(1) * num(w.a1);
        if (w.a2 != 0) value = value + wave(2) * num(w.a2);
        // A window of one element is 1.
        if (!a.periodic) value = tir::select(tir::gt(n, PrimExpr(1)), value, num(1));
        return tir::cast(out.dtype, value);
      },
      short_name(call))};
}

Type infer_mel(InferContext& ctx) {
  const auto& a = ctx.attrs<MelAttrs>();
  if (!ctx.expect_domain(a.dtype, Domain::floating)) return {};
  if (a.bins < 1 || a.dft_length < 1 || a.sample_rate < 1 || !(a.low < a.high))
    return ctx.error(fmt::format("{} bins from {} to {} hertz", a.bins, a.low, a.high));
  return make_type(Shape{PrimExpr(a.dft_length / 2 + 1), PrimExpr(a.bins)}, 2, a.dtype);
}
Tensors def_mel(const Call& call, const Tensors&) {
  const auto& a = attrs_of<MelAttrs>(call);
  const TensorInfo out = output_info(call);
  auto mel = [](double hertz) { return 2595 * std::log10(1 + hertz / 700); };
  const double low = mel(a.low), step = (mel(a.high) - low) / double(a.bins + 2);
  // Row of the spectrum at which bin k begins, k up to bins + 2: on whole rows, as the definition has it.
  auto edge = [&](const PrimExpr& k) {
    const PrimExpr m = tir::cast(f64, k) * constant(f64, step) + constant(f64, low);
    const PrimExpr hertz =
        (tir::pow(constant(f64, 10), tir::div(m, constant(f64, 2595))) - constant(f64, 1)) *
        constant(f64, 700);
    const PrimExpr row =
        tir::div(hertz * constant(f64, double(a.dft_length + 1)), constant(f64, double(a.sample_rate)));
    return tir::call(f64, "tir.floor", {row});
  };
  const te::Tensor edges =
      te::compute({PrimExpr(a.bins + 2)}, [&](const Vars& v) { return edge(v[0]); }, "mel_edges");
  return {te::compute(
      out.shape,
      [&](const Vars& v) {
        const PrimExpr i = tir::cast(f64, v[0]), low_edge = edges({v[1]}), centre = edges({v[1] + 1}),
                       high_edge = edges({v[1] + 2}), zero = constant(f64, 0), one = constant(f64, 1);
        auto ratio = [&](const PrimExpr& p, const PrimExpr& q) {
          return tir::div(p, tir::select(tir::gt(q, zero), q, one));
        };
        const PrimExpr rise = ratio(i - low_edge, centre - low_edge),
                       fall = ratio(high_edge - i, high_edge - centre);
        const PrimExpr up = tir::logical_and(tir::ge(i, low_edge), tir::lt(i, centre));
        const PrimExpr down = tir::logical_and(tir::ge(i, centre), tir::lt(i, high_edge));
        const PrimExpr peak = tir::eq(i, centre);
        return tir::cast(out.dtype,
                         tir::select(peak, one, tir::select(up, rise, tir::select(down, fall, zero))));
      },
      "mel_weight_matrix")};
}

const bool signal_registered = [] {
  register_op("signal.dft", "Discrete Fourier transform along an axis.", FusionKind::opaque, infer_dft,
              def_dft)
      .argument("x", "Tensor", "(…, 1) real or (…, 2) complex")
      .argument("length", "Shape", "of the transform: the signal is cut, or zeros follow")
      .attrs<DftAttrs>();
  register_op("signal.stft", "Fourier transforms of frames under a window.", FusionKind::opaque, infer_stft,
              def_stft)
      .argument("x", "Tensor", "(batch, length, 1 or 2)")
      .argument("window", "Tensor", "one factor per element of a frame")
      .attrs<StftAttrs>();
  register_op("signal.frame", "Overlapping parts of the last axis.", FusionKind::injective, infer_frame,
              def_frame)
      .argument("x", "Tensor", "the signal")
      .attrs<FrameAttrs>();
  for (const Taper& w : window_kinds) {
    const Taper* kind = &w;
    register_op(w.name, w.doc, FusionKind::injective, infer_window,
                [kind](const Call& c, const Tensors&) { return def_window(c, *kind); })
        .argument("size", "Shape", "number of elements")
        .attrs<PeriodicAttrs>();
  }
  register_op("signal.mel_weight_matrix", "Triangles over a spectrum, evenly spaced on the mel scale.",
              FusionKind::injective, infer_mel, def_mel)
      .attrs<MelAttrs>();
  return true;
}();

}  // namespace
}  // namespace tenon::op

template struct tenon::DefineTypes<tenon::op::DftAttrs, tenon::op::StftAttrs, tenon::op::FrameAttrs,
                                   tenon::op::PeriodicAttrs, tenon::op::MelAttrs>;
