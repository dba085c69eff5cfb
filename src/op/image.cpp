// SPDX-License-Identifier: Apache-2.0
// Resizing of one to three trailing spatial axes: nearest, linear, cubic, in all coordinate modes.
#include <fmt/format.h>

#include <cmath>

#include "op/family.h"
#include "op/letters.h"

#include "base/define_type.h"

namespace tenon::op {
namespace {

using Tensors = std::vector<te::Tensor>;

Type infer_resize(InferContext& ctx, size_t n) {
  const auto& a = ctx.attrs<ResizeAttrs>();
  const auto& x = ctx.tensor(0);
  if (!ctx.expect_one_of("method", a.method, {"nearest_neighbor", "linear", "cubic"})) return {};
  if (!ctx.expect_one_of("coordinate_transformation_mode", a.coordinate_transformation_mode,
                         {"half_pixel", "half_pixel_symmetric", "pytorch_half_pixel", "align_corners",
                          "asymmetric", "tf_crop_and_resize"}))
    return {};
  if (!ctx.expect_one_of("rounding_method", a.rounding_method,
                         {"round_prefer_floor", "round_prefer_ceil", "floor", "ceil"}))
    return {};
  if (!ctx.expect_domain(x.dtype, a.method == "nearest_neighbor" ? Domain::any : Domain::number)) return {};
  if (!a.scales.empty() && a.scales.size() != n)
    return ctx.error(fmt::format("{} scales for {} axes", a.scales.size(), n));
  for (double s : a.scales)
    if (!(s > 0)) return ctx.error(fmt::format("scale {} is not positive", s));
  if (a.coordinate_transformation_mode == "tf_crop_and_resize" && a.roi.size() != 2 * n)
    return ctx.error(fmt::format("{} values of roi for {} axes", a.roi.size(), n), "give begins, then ends");
  if (x.ndim >= 0 && x.ndim < int64_t(n))
    return ctx.error(fmt::format("a tensor of {} dimensions has no {} spatial axes", x.ndim, n));
  auto size = ctx.shape(1);
  if (size && size->size() != n) return ctx.error(fmt::format("{} sizes for {} axes", size->size(), n));
  auto have = shape_of(x);
  if (!have || !size) return make_type(std::nullopt, x.ndim, x.dtype);
  Shape out(have->begin(), have->end() + 0);
  for (size_t i = 0; i < n; ++i) {
    const size_t axis = have->size() - n + i;
    if (!ctx.require_not_negative((*size)[i]))
      return ctx.error(fmt::format("size {} is negative", show_dim((*size)[i])));
    out.set(axis, (*size)[i]);
  }
  for (size_t axis = have->size() - n; axis < have->size(); ++axis)
    if (!ctx.expect_elements(*have, axis, product(out))) return {};
  return make_type(out, 0, x.dtype);
}

/// One axis of a resize.
struct Axis {
  const ResizeAttrs& a;
  size_t i, n;
  PrimExpr in, out;
  DataType real;  ///< of coordinates

  PrimExpr num(double v) const { return constant(real, v); }
  PrimExpr num(const PrimExpr& e) const { return tir::cast(real, e); }
  /// The given scale, unless it says the same as the sizes.
  std::optional<double> given_scale() const {
    if (a.scales.empty()) return std::nullopt;
    auto p = tir::as_int(in), q = tir::as_int(out);
    const double s = a.scales[i];
    if (p && q && std::abs(double(*p) * s - double(*q)) < 1e-6 * double(*q)) return std::nullopt;
    return s;
  }
  PrimExpr inverse_scale() const {
    if (auto s = given_scale()) return num(1 / *s);
    auto p = tir::as_int(in), q = tir::as_int(out);
    if (p && q) return num(double(*p) / double(*q));
    return tir::div(num(in), num(out));
  }
  PrimExpr single(const PrimExpr& otherwise, const PrimExpr& at_one) const {
    if (auto q = tir::as_int(out)) return *q > 1 ? otherwise : at_one;
    return tir::select(tir::gt(out, PrimExpr(1)), otherwise, at_one);
  }
  /// Distance per step between the outer elements, for the modes that keep corners.
  PrimExpr corner_step() const {
    const PrimExpr steps = simplify(tir::max(out - 1, PrimExpr(1)));
    auto p = tir::as_int(in), q = tir::as_int(steps);
    return p && q ? num(double(*p - 1) / double(*q)) : tir::div(num(in - 1), num(steps));
  }

  /// Place in the image of output element o.
  PrimExpr coordinate(const PrimExpr& o) const {
    const std::string& mode = a.coordinate_transformation_mode;
    const PrimExpr x = num(o), half = (x + num(0.5)) * inverse_scale() - num(0.5);
    if (mode == "asymmetric") return x * inverse_scale();
    if (mode == "align_corners") return single(x * corner_step(), num(0.0));
    if (mode == "pytorch_half_pixel") return single(half, num(0.0));
    if (mode == "tf_crop_and_resize") {
      const double begin = a.roi[i], end = a.roi[i + n];
      return single(num(in - 1) * num(begin) + x * corner_step() * num(end - begin),
                    num(in - 1) * num(0.5 * (begin + end)));
    }
    if (mode == "half_pixel_symmetric") {
      // The sizes are rounded, the image keeps its centre. Written so that scales that floats hold round
      // nothing.
      if (given_scale()) return (num(o * 2 + 1 - out) * inverse_scale() + num(in - 1)) * num(0.5);
    }
    return half;
  }

  PrimExpr clamp(const PrimExpr& index) const { return tir::max(tir::min(index, in - 1), PrimExpr(0)); }

  PrimExpr nearest(const PrimExpr& o) const {
    const std::string &round = a.rounding_method, &mode = a.coordinate_transformation_mode;
    // In integers where the place is a fraction of integers: exact, and floats have no say in ties.
    PrimExpr numerator, denominator;
    if (const auto s = given_scale(); s && *s >= 1 && *s <= 4096 && *s == std::floor(*s) &&
                                      (mode == "asymmetric" || mode == "half_pixel")) {
      const auto times = int64_t(*s);  // a whole factor, whatever the sizes are
      numerator = mode == "asymmetric" ? o : o * 2 + (1 - times);
      denominator = PrimExpr(mode == "asymmetric" ? times : times * 2);
    } else if (!given_scale() && mode == "asymmetric") {
      numerator = o * in;
      denominator = out;
    } else if (!given_scale() && (mode == "half_pixel" || mode == "half_pixel_symmetric" ||
                                  (mode == "pytorch_half_pixel" && tir::as_int(out).value_or(1) > 1))) {
      numerator = (o * 2 + 1) * in - out;
      denominator = out * 2;
    } else if (mode == "align_corners" && tir::as_int(out).value_or(1) > 1) {
      numerator = o * (in - 1);
      denominator = out - 1;
    }
    if (numerator) {
      auto scaled = tir::as_int(out), from = tir::as_int(in);
      if (mode == "asymmetric" && !given_scale() && scaled && from && *from && *scaled % *from == 0) {
        numerator = o;  // a whole factor: the fraction is shortened
        denominator = *scaled / *from;
      }
      if (round == "floor") return clamp(tir::floordiv(numerator, denominator));
      if (round == "ceil") return clamp(tir::ceildiv(numerator, denominator));
      if (round == "round_prefer_ceil")
        return clamp(tir::floordiv(numerator * 2 + denominator, denominator * 2));
      return clamp(tir::ceildiv(numerator * 2 - denominator, denominator * 2));
    }
    const PrimExpr x = coordinate(o);
    auto whole = [&](const char* op, const PrimExpr& e) {
      return clamp(tir::cast(i64, tir::call(real, op, {e})));
    };
    if (round == "floor") return whole("tir.floor", x);
    if (round == "ceil") return whole("tir.ceil", x);
    if (round == "round_prefer_ceil") return whole("tir.floor", x + num(0.5));
    return whole("tir.ceil", x - num(0.5));
  }

  /// Every element has the place of its own number.
  bool unchanged() const {
    return !given_scale() && same_dim(in, out) && a.coordinate_transformation_mode != "tf_crop_and_resize";
  }

  /// Elements and weights that make up output element o; a null weight is one.
  std::vector<std::pair<PrimExpr, PrimExpr>> taps(const PrimExpr& o) const {
    if (unchanged()) return {{o, PrimExpr()}};
    if (a.method == "nearest_neighbor") return {{nearest(o), PrimExpr()}};
    const PrimExpr x = coordinate(o), low = tir::call(real, "tir.floor", {x}), t = x - low;
    const PrimExpr first = tir::cast(i64, low);
    if (a.method == "linear") return {{clamp(first), num(1.0) - t}, {clamp(first + 1), t}};
    const double c = a.cubic_alpha;
    // Distances 1 + t, t, 1 - t and 2 - t of the cubic convolution kernel.
    auto near = [&](const PrimExpr& d) { return (num(c + 2) * d - num(c + 3)) * d * d + num(1.0); };
    auto far = [&](const PrimExpr& d) {
      return ((num(c) * d - num(5 * c)) * d + num(8 * c)) * d - num(4 * c);
    };
    std::vector<PrimExpr> weights{far(t + num(1.0)), near(t), near(num(1.0) - t), far(num(2.0) - t)};
    if (a.cubic_exclude) {
      PrimExpr sum = num(0.0);
      for (size_t k = 0; k < 4; ++k) {
        const PrimExpr at = first + (int64_t(k) - 1);
        const PrimExpr inside = tir::logical_and(tir::ge(at, PrimExpr(0)), tir::lt(at, in));
        weights[k] = tir::select(inside, weights[k], num(0.0));
        sum = k ? sum + weights[k] : weights[k];
      }
      for (PrimExpr& w : weights) w = tir::div(w, sum);
    }
    std::vector<std::pair<PrimExpr, PrimExpr>> out_taps;
    for (size_t k = 0; k < 4; ++k) out_taps.emplace_back(clamp(first + (int64_t(k) - 1)), weights[k]);
    return out_taps;
  }
};

Tensors def_resize(const Call& call, const Tensors& in, size_t n) {
  const auto& a = attrs_of<ResizeAttrs>(call);
  const te::Tensor& x = in[0];
  const TensorInfo out = output_info(call);
  const bool nearest = a.method == "nearest_neighbor";
  const size_t first = x.ndim() - n;
  // Rounding decides which element is read: nearest takes its coordinates in 64 bits.
  const DataType real = nearest || x.dtype() == f64 ? f64 : f32;
  return {te::compute(
      out.shape,
      [&](const Vars& v) {
        std::vector<Axis> axes;
        for (size_t i = 0; i < n; ++i)
          axes.push_back({a, i, n, x.shape()[first + i], out.shape[first + i], real});
        std::vector<std::vector<std::pair<PrimExpr, PrimExpr>>> taps;
        for (size_t i = 0; i < n; ++i) taps.push_back(axes[i].taps(v[first + i]));
        PrimExpr sum;
        std::vector<size_t> pick(n, 0);
        for (bool more = true; more;) {
          Shape at = indices(v);
          PrimExpr weight;
          for (size_t i = 0; i < n; ++i) {
            const auto& [index, w] = taps[i][pick[i]];
            at.set(first + i, index);
            if (w) weight = weight ? weight * w : w;
          }
          const PrimExpr term = weight ? tir::cast(real, x(at)) * weight : x(at);
          sum = sum ? sum + term : term;
          size_t d = n;
          while (d > 0 && ++pick[d - 1] == taps[d - 1].size()) pick[--d] = 0;
          more = d > 0;
        }
        // Integers are rounded, not cut off.
        if (x.dtype().is_integer() && sum.dtype().is_float()) sum = tir::call(real, "tir.round", {sum});
        PrimExpr value = tir::cast(out.dtype, sum);
        if (a.coordinate_transformation_mode != "tf_crop_and_resize") return value;
        PrimExpr inside = tir::true_();
        for (size_t i = 0; i < n; ++i) {
          const PrimExpr c = axes[i].coordinate(v[first + i]);
          inside = tir::logical_and(inside, tir::ge(c, axes[i].num(0.0)));
          inside = tir::logical_and(inside, tir::le(c, axes[i].num(axes[i].in - 1)));
        }
        return tir::select(inside, value, constant(out.dtype, a.extrapolation_value));
      },
      short_name(call))};
}

/// Nearest elements: a block behind the spatial axes is one more of them, which keeps its size.
std::optional<LaidOut> layout_of_resize(LayoutContext& ctx, size_t n) {
  const LaidOut* x = ctx.laid_out(ctx.call.args[0]);
  const auto& a = attrs_of<ResizeAttrs>(ctx.call);
  const auto size = shape_arg(ctx.call, 1);
  const std::string& mode = a.coordinate_transformation_mode;
  if (x && !x->layout.has_blocks()) {
    const ObjectRef attrs = make_attrs<ResizeAttrs>([&](ResizeAttrs& to) {
      to = a;
      to.layout = x->layout.name();
    });
    return x->with(ctx.make(fmt::format("image.resize{}d", n), {x->tensor, ctx.call.args[1]}, attrs));
  }
  if (!x || !trailing_block(x->layout) || !size || n > 2 || a.method != "nearest_neighbor" ||
      (mode != "asymmetric" && mode != "half_pixel" && mode != "align_corners"))
    return std::nullopt;
  Shape sizes = *size;
  sizes.push_back(PrimExpr(trailing_block(x->layout)));
  const ObjectRef attrs = make_attrs<ResizeAttrs>([&](ResizeAttrs& to) {
    to = a;
    if (!to.scales.empty()) to.scales.push_back(1.0);
  });
  return x->with(
      ctx.make(fmt::format("image.resize{}d", n + 1), {x->tensor, graph::shape_expr(sizes)}, attrs));
}

const bool image_registered = [] {
  auto add = [](OpName name, size_t n) {
    register_op(std::move(name), fmt::format("Another size of the last {} axes.", n))
        .argument("x", "Tensor", "the image, spatial axes last")
        .argument("size", "Shape", "new sizes of the spatial axes")
        .attrs<ResizeAttrs>()
        .infer([n](InferContext& ctx) { return infer_resize(ctx, n); })
        .layout([n](LayoutContext& ctx) { return layout_of_resize(ctx, n); })
        .fusion(FusionKind::injective)
        .tensor_def([n](const Call& c, const Tensors& in) { return def_resize(c, in, n); })
        .letters(letters_of<ResizeAttrs>(&ResizeAttrs::layout, nullptr, nullptr, [n](const Call& call) {
          // Without letters the spatial axes are the last ones of any number.
          const std::string name = attrs_of<ResizeAttrs>(call).layout.empty() ? "" : data_layout(n).name();
          return LayoutNames{name, "", name};
        }));
  };
  add("image.resize1d", 1);
  add("image.resize2d", 2);
  add("image.resize3d", 3);
  return true;
}();

}  // namespace
}  // namespace tenon::op

template struct tenon::DefineTypes<tenon::op::ResizeAttrs>;
