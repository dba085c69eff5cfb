// SPDX-License-Identifier: Apache-2.0
// Windows that are no plain convolution: dilation2d, deformable convolution, correlation of two images.
#include <fmt/format.h>

#include <cmath>

#include "base/define_type.h"
#include "op/attrs_vision.h"
#include "op/family.h"
#include "op/letters.h"

namespace tenon::op {
namespace {

using Tensors = std::vector<te::Tensor>;

// ---------------------------------------------------------------- windows
struct Windows {
  std::vector<int64_t> strides, padding, dilation;
  Shape out;  ///< of the two spatial axes
};
template <class A>
Windows windows(const A& a, const Shape& x, const PrimExpr& kh, const PrimExpr& kw) {
  Windows w{per_axis(a.strides, 2, 1), paddings(a.padding, 2), per_axis(a.dilation, 2, 1), {}};
  const Shape kernel{kh, kw};
  for (size_t i = 0; i < 2; ++i) {
    const PrimExpr room = x[i + 2] + (w.padding[i] + w.padding[i + 2]) - (kernel[i] - 1) * w.dilation[i] - 1;
    w.out.push_back(simplify(tir::floordiv(room, PrimExpr(w.strides[i])) + 1));
  }
  return w;
}
template <class A>
bool expect_windows(InferContext& ctx, const A& a, const Shape& x, const PrimExpr& kh, const PrimExpr& kw) {
  if (!ctx.expect_per_axis(a.strides, 2, "strides") || !ctx.expect_paddings(a.padding, 2) ||
      !ctx.expect_per_axis(a.dilation, 2, "dilation"))
    return false;
  for (const auto& list : {a.strides, a.dilation})
    for (int64_t v : list)
      if (v < 1) return ctx.error("strides and dilations must be positive");
  for (const PrimExpr& size : windows(a, x, kh, kw).out)
    if (!ctx.require_not_negative(simplify(size - 1)))
      return ctx.error(fmt::format("a window {} is larger than x {}", show({kh, kw}), show(x)));
  return true;
}
/// x at window element (i, j) of output place (y, x): the place, and whether it lies in the image.
struct Place {
  PrimExpr y, x, inside;
};
Place place_of(const Windows& w, const Shape& shape, const PrimExpr& y, const PrimExpr& x, const PrimExpr& i,
               const PrimExpr& j) {
  const PrimExpr py = y * w.strides[0] + i * w.dilation[0] - w.padding[0],
                 px = x * w.strides[1] + j * w.dilation[1] - w.padding[1];
  auto in = [](const PrimExpr& p, const PrimExpr& n) {
    return tir::logical_and(tir::ge(p, PrimExpr(0)), tir::lt(p, n));
  };
  return {py, px, tir::logical_and(in(py, shape[2]), in(px, shape[3]))};
}

Type infer_dilation(InferContext& ctx) {
  const auto &x = ctx.tensor(0), &k = ctx.tensor(1);
  if (!ctx.expect_rank(x, "x", 4)) return {};
  if (!ctx.expect_rank(k, "the weight", 3)) return {};
  if (!ctx.expect_domain(x.dtype, Domain::number)) return {};
  auto s = shape_of(x), w = shape_of(k);
  if (!s || !w) return make_type(std::nullopt, 4, x.dtype);
  if (!ctx.require_equal((*s)[1], (*w)[0]) || x.dtype != k.dtype)
    return ctx.error(fmt::format("a weight {} of {} for x {}", show(*w), to_string(k.dtype), show(*s)),
                     "it is (channels, height, width) of x's type");
  const auto& a = ctx.attrs<WindowAttrs>();
  if (!expect_windows(ctx, a, *s, (*w)[1], (*w)[2])) return {};
  const Windows at = windows(a, *s, (*w)[1], (*w)[2]);
  return make_type(Shape{(*s)[0], (*s)[1], at.out[0], at.out[1]}, 4, x.dtype);
}
Tensors def_dilation(const Call& call, const Tensors& in) {
  const Shape s = in[0].shape(), k = in[1].shape();
  const Windows w = windows(attrs_of<WindowAttrs>(call), s, k[1], k[2]);
  const DataType t = wide_type(in[0].dtype());
  auto ki = te::reduce_axis(tir::range(PrimExpr(0), k[1]), "ki"),
       kj = te::reduce_axis(tir::range(PrimExpr(0), k[2]), "kj");
  const te::Tensor best = te::compute(
      output_info(call).shape,
      [&](const Vars& v) {
        const Place p = place_of(w, s, v[2], v[3], ki->var, kj->var);
        const PrimExpr term = wide(in[0]({v[0], v[1], p.y, p.x})) + wide(in[1]({v[1], ki->var, kj->var}));
        return te::max(tir::if_then_else(p.inside, term, constant(t, -INFINITY)), {ki, kj});
      },
      "dilation2d");
  return {cast_to(best, in[0].dtype())};
}

Type infer_deform(InferContext& ctx) {
  const auto& a = ctx.attrs<DeformAttrs>();
  const auto& x = ctx.tensor(0);
  Shape shapes[4];
  for (size_t i = 0; i < ctx.call.args.size(); ++i) {
    const auto& t = ctx.tensor(i);
    if (!ctx.expect_rank(t, ctx.name(i), 4)) return {};
    if (!ctx.expect_domain(t.dtype, Domain::floating) || !ctx.expect_same_type(x.dtype, t.dtype)) return {};
    auto s = shape_of(t);
    if (!s) return make_type(std::nullopt, 4, x.dtype);
    shapes[i] = *s;
  }
  const Shape &s = shapes[0], &offset = shapes[1], &w = shapes[2];
  if (!expect_windows(ctx, a, s, w[2], w[3])) return {};
  const Windows at = windows(a, s, w[2], w[3]);
  const PrimExpr taps = w[2] * w[3] * a.deformable_groups;
  if (a.groups < 1 || a.deformable_groups < 1 || !ctx.require_equal(simplify(w[1] * a.groups), s[1]))
    return ctx.error(fmt::format("a weight {} in {} groups for x {}", show(w), a.groups, show(s)));
  if (!ctx.require_equal(offset[1], simplify(taps * 2)) || !ctx.require_equal(offset[2], at.out[0]) ||
      !ctx.require_equal(offset[3], at.out[1]))
    return ctx.error(fmt::format("offsets {} do not fit a result of {}", show(offset), show(at.out)));
  if (!ctx.require_equal(offset[0], s[0]))
    return ctx.error(fmt::format("offsets {} for x {}", show(offset), show(s)));
  if (ctx.call.args.size() > 3 &&
      !ctx.require_equal(shapes[3], Shape{offset[0], simplify(taps), offset[2], offset[3]}))
    return ctx.error(fmt::format("a mask {} does not fit offsets {}", show(shapes[3]), show(offset)));
  const Shape out{s[0], w[0], at.out[0], at.out[1]};
  for (size_t axis : {2, 3})
    if (!ctx.expect_elements(s, axis, product(out))) return {};
  return make_type(out, 4, x.dtype);
}
Tensors def_deform(const Call& call, const Tensors& in) {
  const auto& a = attrs_of<DeformAttrs>(call);
  const te::Tensor &x = in[0], &offset = in[1], &weight = in[2];
  const Shape s = x.shape(), k = weight.shape(), out = output_info(call).shape;
  const Windows w = windows(a, s, k[2], k[3]);
  const DataType t = wide_type(x.dtype());
  const PrimExpr per_group = simplify(tir::floordiv(s[1], PrimExpr(a.deformable_groups)));
  auto num = [&](double v) { return constant(t, v); };
  // What the windows see, sampled once for all output channels.
  const te::Tensor columns = te::compute(
      {s[0], s[1], k[2], k[3], out[2], out[3]},
      [&](const Vars& v) {
        const PrimExpr tap = (tir::floordiv(v[1], per_group) * k[2] + v[2]) * k[3] + v[3];
        const PrimExpr y = tir::cast(t, v[4] * w.strides[0] + v[2] * w.dilation[0] - w.padding[0]) +
                           wide(offset({v[0], tap * 2, v[4], v[5]}));
        const PrimExpr z = tir::cast(t, v[5] * w.strides[1] + v[3] * w.dilation[1] - w.padding[1]) +
                           wide(offset({v[0], tap * 2 + 1, v[4], v[5]}));
        const PrimExpr fy = tir::call(t, "tir.floor", {y}), fx = tir::call(t, "tir.floor", {z});
        PrimExpr sum;
        for (int64_t i = 0; i < 2; ++i)
          for (int64_t j = 0; j < 2; ++j) {
            const PrimExpr yi = tir::cast(i64, fy) + i, xi = tir::cast(i64, fx) + j;
            const PrimExpr cy = tir::max(tir::min(yi, s[2] - 1), PrimExpr(0)),
                           cx = tir::max(tir::min(xi, s[3] - 1), PrimExpr(0));
            const PrimExpr inside = tir::logical_and(tir::eq(yi, cy), tir::eq(xi, cx));
            const PrimExpr part = (i ? y - fy : num(1) - (y - fy)) * (j ? z - fx : num(1) - (z - fx));
            const PrimExpr term = tir::select(inside, wide(x({v[0], v[1], cy, cx})) * part, num(0));
            sum = sum ? sum + term : term;
          }
        return in.size() > 3 ? sum * wide(in[3]({v[0], tap, v[4], v[5]})) : sum;
      },
      "deformed");
  const PrimExpr units = simplify(tir::floordiv(k[0], PrimExpr(a.groups)));
  auto c = te::reduce_axis(tir::range(PrimExpr(0), k[1]), "c"),
       ki = te::reduce_axis(tir::range(PrimExpr(0), k[2]), "ki"),
       kj = te::reduce_axis(tir::range(PrimExpr(0), k[3]), "kj");
  const te::Tensor sum = te::compute(
      out,
      [&](const Vars& v) {
        const PrimExpr channel =
            a.groups == 1 ? PrimExpr(c->var) : tir::floordiv(v[1], units) * k[1] + c->var;
        return te::sum(columns({v[0], channel, ki->var, kj->var, v[2], v[3]}) *
                           wide(weight({v[1], c->var, ki->var, kj->var})),
                       {c, ki, kj});
      },
      "deformable_conv2d");
  return {cast_to(sum, x.dtype())};
}

// ---------------------------------------------------------------- correlation
Type infer_correlation(InferContext& ctx) {
  const auto& a = ctx.attrs<CorrelationAttrs>();
  const auto &x = ctx.tensor(0), &y = ctx.tensor(1);
  if (!ctx.expect_rank(x, "a", 4)) return {};
  if (!ctx.expect_rank(y, "b", 4)) return {};
  if (!ctx.expect_domain(x.dtype, Domain::floating)) return {};
  auto s = shape_of(x), r = shape_of(y);
  if (!s || !r) return make_type(std::nullopt, 4, x.dtype);
  if (!ctx.require_equal(*s, *r) || x.dtype != y.dtype)
    return ctx.error(fmt::format("a {} and b {} differ", show(*s), show(*r)));
  if (a.kernel_size < 1 || a.kernel_size % 2 == 0 || a.stride1 < 1 || a.stride2 < 1 || a.max_displacement < 0)
    return ctx.error(
        fmt::format("a kernel of {} and steps of {} and {}", a.kernel_size, a.stride1, a.stride2));
  const int64_t side = 2 * (a.max_displacement / a.stride2) + 1;
  const int64_t border = a.max_displacement + (a.kernel_size - 1) / 2;
  Shape out{(*s)[0], PrimExpr(side * side)};
  for (size_t i = 2; i < 4; ++i) {
    const PrimExpr room = simplify((*s)[i] + 2 * (a.padding - border));
    if (!ctx.require_not_negative(simplify(room - 1)))
      return ctx.error(fmt::format("nothing is left of {}", show(*s)));
    out.push_back(simplify(tir::ceildiv(room, PrimExpr(a.stride1))));
  }
  return make_type(out, 0, x.dtype);
}
Tensors def_correlation(const Call& call, const Tensors& in) {
  const auto& a = attrs_of<CorrelationAttrs>(call);
  const Shape s = in[0].shape();
  const DataType t = wide_type(in[0].dtype());
  const int64_t radius = a.max_displacement / a.stride2, side = 2 * radius + 1;
  const Shape none{PrimExpr(0), PrimExpr(0), PrimExpr(a.padding), PrimExpr(a.padding)};
  const te::Tensor p = pad_with(in[0], none, none, constant(in[0].dtype(), 0)),
                   q = pad_with(in[1], none, none, constant(in[0].dtype(), 0));
  auto axis = [](const PrimExpr& n, const char* name) {
    return te::reduce_axis(tir::range(PrimExpr(0), n), name);
  };
  const auto c = axis(s[1], "c"), i = axis(PrimExpr(a.kernel_size), "ki"),
             j = axis(PrimExpr(a.kernel_size), "kj");
  const te::Tensor sum = te::compute(
      output_info(call).shape,
      [&](const Vars& v) {
        const int64_t first = a.max_displacement;
        const PrimExpr y = v[2] * a.stride1 + first + i->var, x = v[3] * a.stride1 + first + j->var;
        const PrimExpr dy = (tir::floordiv(v[1], PrimExpr(side)) - radius) * a.stride2,
                       dx = (tir::floormod(v[1], PrimExpr(side)) - radius) * a.stride2;
        // The kernel's centre lies at the place, its first element half a kernel before: the border makes
        // room.
        const PrimExpr one = wide(p({v[0], c->var, y, x})), other = wide(q({v[0], c->var, y + dy, x + dx}));
        return te::sum(a.multiply ? one * other : tir::abs(one - other), {c, i, j});
      },
      "correlation");
  return {te::compute(
      sum.shape(),
      [&](const Vars& v) {
        const PrimExpr count = tir::cast(t, s[1] * (a.kernel_size * a.kernel_size));
        return tir::cast(in[0].dtype(), tir::div(sum(indices(v)), count));
      },
      "correlation_mean")};
}

/// The offsets have the letters of the data: their channels count elements of the window. The mask is plain.
LetterRule deform_letters() {
  LetterRule rule = letters_of<DeformAttrs>(
      &DeformAttrs::data_layout, &DeformAttrs::kernel_layout, &DeformAttrs::out_layout,
      [plain = data_layout(2).name(), kernel = kernel_layout(2).name()](const Call&) {
        return LayoutNames{plain, kernel, plain};
      });
  rule.data = {0, 1};
  rule.kernel = 2;
  return rule;
}

const bool window_registered = [] {
  const char* const image = "(batch, channels, height, width)";
  register_op("image.dilation2d", "The largest sum of image and weight in each window, per channel.",
              FusionKind::out_element_wise_fusable, infer_dilation, def_dilation)
      .argument("x", "Tensor", image)
      .argument("weight", "Tensor", "(channels, height, width)")
      .attrs<WindowAttrs>();
  register_op("nn.deformable_conv2d", "A convolution whose window elements are moved by offsets.",
              FusionKind::opaque, infer_deform, def_deform)
      .argument("x", "Tensor", image)
      .argument("offset", "Tensor", "(batch, 2 · groups · window elements, height, width): y, then x")
      .argument("weight", "Tensor", "(channels out, channels in / groups, height, width)")
      .argument("mask", "Tensor", "factor of each window element", true)
      .attrs<DeformAttrs>()
      .letters(deform_letters());
  register_op("nn.correlation", "How alike two images are at each displacement.", FusionKind::opaque,
              infer_correlation, def_correlation)
      .argument("a", "Tensor", image)
      .argument("b", "Tensor", image)
      .attrs<CorrelationAttrs>();
  return true;
}();

}  // namespace
}  // namespace tenon::op

template struct tenon::DefineTypes<tenon::op::DeformAttrs, tenon::op::WindowAttrs,
                                   tenon::op::CorrelationAttrs>;
