// SPDX-License-Identifier: Apache-2.0
// Operators that sample images at computed places: grid_sample, affine_grid, upsampling.
#include <fmt/format.h>

#include <cmath>

#include "base/define_type.h"
#include "op/attrs_vision.h"
#include "op/compose.h"
#include "op/letters.h"

namespace tenon::op {
namespace {

using Tensors = std::vector<te::Tensor>;

// ---------------------------------------------------------------- grid_sample
Type infer_grid_sample(InferContext& ctx) {
  const auto& a = ctx.attrs<GridSampleAttrs>();
  const auto &x = ctx.tensor(0), &grid = ctx.tensor(1);
  if (!ctx.expect_one_of("method", a.method, {"nearest", "linear", "cubic"})) return {};
  if (!ctx.expect_one_of("padding_mode", a.padding_mode, {"zeros", "border", "reflection"})) return {};
  if (!ctx.expect_domain(x.dtype, Domain::floating)) return {};
  if (!ctx.expect_domain(grid.dtype, Domain::floating)) return {};
  if (x.ndim < 0) return graph::tensor_type_unknown(-1, x.dtype);
  if (x.ndim < 3 || x.ndim > 5) return ctx.error(fmt::format("x has {} dimensions", x.ndim));
  if (!ctx.expect_rank(grid, "the grid", x.ndim)) return {};
  if (a.method == "cubic" && x.ndim != 4) return ctx.error("'cubic' takes two spatial axes");
  auto s = shape_of(x), g = shape_of(grid);
  if (!s || !g) return make_type(std::nullopt, x.ndim, x.dtype);
  const size_t n = s->size() - 2;
  if (!ctx.require_equal((*g)[n + 1], PrimExpr(int64_t(n))) || !ctx.require_equal((*s)[0], (*g)[0]))
    return ctx.error(fmt::format("a grid {} for x {}", show(*g), show(*s)),
                     "it is (batch, sizes…, spatial axes)");
  Shape out{(*s)[0], (*s)[1]};
  for (size_t i = 0; i < n; ++i) out.push_back((*g)[i + 1]);
  for (size_t i = 0; i < n; ++i)
    if (!ctx.expect_elements(*s, i + 2, product(out))) return {};
  return make_type(out, 0, x.dtype);
}

/// One axis of a sampled image.
struct Sampled {
  const GridSampleAttrs& a;
  PrimExpr extent;
  DataType t;
  PrimExpr num(double v) const { return constant(t, v); }
  PrimExpr length() const { return tir::cast(t, extent); }
  PrimExpr low() const { return num(a.align_corners ? 0 : -0.5); }
  PrimExpr span() const { return a.align_corners ? length() - num(1) : length(); }
  /// Mirrored at both ends as often as needed.
  PrimExpr reflected(const PrimExpr& p) const {
    const PrimExpr safe = tir::max(span(), num(1)), d = tir::abs(p - low());
    const PrimExpr times = tir::call(t, "tir.floor", {tir::div(d, safe)}), rest = d - times * safe;
    const PrimExpr half = times * num(0.5);
    const PrimExpr even = tir::eq(tir::call(t, "tir.floor", {half}), half);
    const PrimExpr value = low() + tir::select(even, rest, span() - rest);
    return tir::select(tir::gt(span(), num(0)), value, num(0));
  }
  PrimExpr clipped(const PrimExpr& p) const { return tir::min(tir::max(p, num(0)), length() - num(1)); }
  /// From -1 … 1 to elements, moved into the image as the padding asks.
  PrimExpr place(const PrimExpr& g) const {
    const PrimExpr p = a.align_corners ? (g + num(1)) * num(0.5) * (length() - num(1))
                                       : ((g + num(1)) * length() - num(1)) * num(0.5);
    if (a.method == "cubic") return p;  // each of the elements around is moved instead
    if (a.padding_mode == "border") return clipped(p);
    if (a.padding_mode == "reflection") return clipped(reflected(p));
    return p;
  }
  /// The element at a whole place, and whether it is one (null: always).
  std::pair<PrimExpr, PrimExpr> element(const PrimExpr& whole) const {
    const PrimExpr at = tir::cast(i64, a.padding_mode == "reflection" ? clipped(reflected(whole)) : whole);
    const PrimExpr safe = tir::max(tir::min(at, extent - 1), PrimExpr(0));
    return {safe, a.padding_mode == "zeros" ? tir::eq(at, safe) : PrimExpr()};
  }
  struct Tap {
    PrimExpr index, inside, weight;
  };
  std::vector<Tap> taps(const PrimExpr& p) const {
    auto tap = [&](const PrimExpr& whole, const PrimExpr& weight) {
      auto [index, inside] = element(whole);
      return Tap{index, inside, weight};
    };
    if (a.method == "nearest") return {tap(tir::call(t, "tir.round", {p}), PrimExpr())};
    const PrimExpr low = tir::call(t, "tir.floor", {p}), f = p - low;
    if (a.method == "linear") return {tap(low, num(1) - f), tap(low + num(1), f)};
    const double c = -0.75;
    auto near = [&](const PrimExpr& d) { return (num(c + 2) * d - num(c + 3)) * d * d + num(1); };
    auto far = [&](const PrimExpr& d) {
      return ((num(c) * d - num(5 * c)) * d + num(8 * c)) * d - num(4 * c);
    };
    return {tap(low - num(1), far(f + num(1))), tap(low, near(f)), tap(low + num(1), near(num(1) - f)),
            tap(low + num(2), far(num(2) - f))};
  }
};

Tensors def_grid_sample(const Call& call, const Tensors& in) {
  const auto& a = attrs_of<GridSampleAttrs>(call);
  const te::Tensor& x = in[0];
  const TensorInfo out = output_info(call);
  const size_t n = x.ndim() - 2;
  const DataType t = wide_type(x.dtype());
  std::vector<Sampled> axes;
  for (size_t i = 0; i < n; ++i) axes.push_back({a, x.shape()[i + 2], wide_type(in[1].dtype())});
  // Places are shared by all channels. The last number of the grid is the first spatial axis.
  const te::Tensor places = te::compute(
      in[1].shape(),
      [&](const Vars& v) {
        PrimExpr value;
        for (size_t i = 0; i < n; ++i) {
          Shape at = indices(v);
          const PrimExpr k = int64_t(n - 1 - i), one = axes[i].place(wide(in[1](at)));
          value = value ? tir::select(tir::eq(v[n + 1], k), one, value) : one;
        }
        return value;
      },
      "grid_places");
  return {te::compute(
      out.shape,
      [&](const Vars& v) {
        std::vector<std::vector<Sampled::Tap>> taps;
        for (size_t i = 0; i < n; ++i) {
          Shape at{v[0]};
          for (size_t k = 0; k < n; ++k) at.push_back(v[k + 2]);
          at.push_back(PrimExpr(int64_t(n - 1 - i)));
          taps.push_back(axes[i].taps(places(at)));
        }
        PrimExpr sum;
        std::vector<size_t> pick(n, 0);
        for (bool more = true; more;) {
          Shape at{v[0], v[1]};
          PrimExpr inside, weight;
          for (size_t i = 0; i < n; ++i) {
            const Sampled::Tap& tap = taps[i][pick[i]];
            at.push_back(tap.index);
            if (tap.inside) inside = inside ? tir::logical_and(inside, tap.inside) : tap.inside;
            if (tap.weight) weight = weight ? weight * tap.weight : tap.weight;
          }
          PrimExpr term = tir::cast(t, x(at));
          if (inside) term = tir::select(inside, term, constant(t, 0));
          if (weight) term = term * tir::cast(t, weight);
          sum = sum ? sum + term : term;
          size_t d = n;
          while (d > 0 && ++pick[d - 1] == taps[d - 1].size()) pick[--d] = 0;
          more = d > 0;
        }
        return tir::cast(out.dtype, sum);
      },
      "grid_sample")};
}

// ---------------------------------------------------------------- affine_grid
Type infer_affine(InferContext& ctx) {
  const auto& theta = ctx.tensor(0);
  if (!ctx.expect_rank(theta, "theta", 3)) return {};
  if (!ctx.expect_domain(theta.dtype, Domain::floating)) return {};
  const auto size = ctx.shape(1);
  auto s = shape_of(theta);
  if (!size || !s) return make_type(std::nullopt, size ? int64_t(size->size()) + 2 : -1, theta.dtype);
  const auto n = int64_t(size->size());
  if (n < 1 || n > 3 || !ctx.require_equal((*s)[1], PrimExpr(n)) ||
      !ctx.require_equal((*s)[2], PrimExpr(n + 1)))
    return ctx.error(fmt::format("theta {} for sizes {}", show(*s), show(*size)),
                     "it is (batch, axes, axes + 1)");
  Shape out{(*s)[0]};
  for (const PrimExpr& d : *size) out.push_back(d);
  out.push_back(PrimExpr(n));
  return make_type(out, 0, theta.dtype);
}
Tensors def_affine(const Call& call, const Tensors& in) {
  const bool align = attrs_of<AlignAttrs>(call).align_corners;
  const TensorInfo out = output_info(call);
  const size_t n = out.shape.size() - 2;
  const DataType t = wide_type(out.dtype);
  auto num = [&](double v) { return constant(t, v); };
  return {te::compute(
      out.shape,
      [&](const Vars& v) {
        auto theta = [&](size_t j) { return wide(in[0]({v[0], v[n + 1], PrimExpr(int64_t(j))})); };
        PrimExpr sum = theta(n);
        for (size_t j = 0; j < n; ++j) {
          const size_t axis = n - j;  // the first number is the last axis
          const PrimExpr i = tir::cast(t, v[axis]), length = tir::cast(t, out.shape[axis]);
          const PrimExpr steps = tir::max(length - num(1), num(1));
          const PrimExpr corners =
              tir::select(tir::gt(length, num(1)), tir::div(i * num(2), steps) - num(1), num(0));
          sum = sum + theta(j) * (align ? corners : tir::div(i * num(2) + num(1), length) - num(1));
        }
        return tir::cast(out.dtype, sum);
      },
      "affine_grid")};
}

// ---------------------------------------------------------------- upsampling
Term upsampling(InferContext& ctx, const std::vector<Term>& args) {
  const auto& a = ctx.attrs<UpsamplingAttrs>();
  const auto s = args[0].dims();
  if (!s) return {};
  if (s->size() < 3 || s->size() > 5) return ctx.error(fmt::format("x has {} dimensions", s->size()));
  const size_t n = s->size() - 2;
  if (!ctx.expect_per_axis(a.scale, n, "scale")) return {};
  const auto scale = per_axis(a.scale, n, 1);
  Shape size;
  for (size_t i = 0; i < n; ++i) {
    if (scale[i] < 1) return ctx.error(fmt::format("the scale {} is not positive", scale[i]));
    size.push_back(simplify((*s)[i + 2] * scale[i]));
  }
  return args[0].op(fmt::format("image.resize{}d", n), {Term(ctx, graph::shape_expr(size))},
                    make_attrs<ResizeAttrs>([&](ResizeAttrs& r) {
                      r.method = a.method;
                      r.coordinate_transformation_mode = a.align_corners                  ? "align_corners"
                                                         : a.method == "nearest_neighbor" ? "asymmetric"
                                                                                          : "half_pixel";
                      r.rounding_method = "floor";
                    }));
}

const bool sample_registered = [] {
  register_op("image.grid_sample", "The image interpolated at the places of a grid.", FusionKind::opaque,
              infer_grid_sample, def_grid_sample)
      .argument("x", "Tensor", "(batch, channels, one to three spatial axes)")
      .argument("grid", "Tensor", "(batch, sizes…, axes): places from -1 to 1, the last axis first")
      .attrs<GridSampleAttrs>()
      .letters(image_letters<GridSampleAttrs>(&GridSampleAttrs::layout));
  register_op("image.affine_grid", "A grid of places for grid_sample, moved by a matrix.",
              FusionKind::injective, infer_affine, def_affine)
      .argument("theta", "Tensor", "(batch, axes, axes + 1)")
      .argument("size", "Shape", "sizes of the spatial axes")
      .attrs<AlignAttrs>();
  register_composed("nn.upsampling", "The image enlarged by whole factors.", FusionKind::injective,
                    upsampling)
      .argument("x", "Tensor", "(batch, channels, one to three spatial axes)")
      .attrs<UpsamplingAttrs>()
      .letters(image_letters<UpsamplingAttrs>(&UpsamplingAttrs::layout));
  return true;
}();

}  // namespace
}  // namespace tenon::op

template struct tenon::DefineTypes<tenon::op::GridSampleAttrs, tenon::op::AlignAttrs,
                                   tenon::op::UpsamplingAttrs>;
