// SPDX-License-Identifier: Apache-2.0
// Boxes: overlap, valid ones, priors; and the pixels of a block as channels.
#include <fmt/format.h>

#include <cmath>

#include "base/define_type.h"
#include "op/attrs_vision.h"
#include "op/boxes.h"
#include "op/family.h"
#include "op/program.h"

namespace tenon::op {
namespace {

using Tensors = std::vector<te::Tensor>;

// ---------------------------------------------------------------- box_iou
Type infer_iou(InferContext& ctx) {
  const auto &a = ctx.tensor(0), &b = ctx.tensor(1);
  if (!ctx.expect_rank(a, "a", 2)) return {};
  if (!ctx.expect_rank(b, "b", 2)) return {};
  if (!ctx.expect_domain(a.dtype, Domain::floating)) return {};
  if (!ctx.expect_same_type(a.dtype, b.dtype)) return {};
  Shape p, q;
  if (!ctx.expect_shape(ctx.tensor(0), ctx.name(0), p) || !ctx.expect_shape(ctx.tensor(1), ctx.name(1), q))
    return {};
  if (!expect_boxes(ctx, p, "a")) return {};
  if (!expect_boxes(ctx, q, "b")) return {};
  return make_type(Shape{p[0], q[0]}, 2, a.dtype);
}
Tensors def_iou(const Call& call, const Tensors& in) {
  return {te::compute(
      output_info(call).shape,
      [&](const Vars& v) {
        auto box = [&](size_t k) {
          return corners([&](int64_t i) { return in[k]({v[k], PrimExpr(i)}); }, false);
        };
        return tir::cast(in[0].dtype(), overlap(box(0), box(1)));
      },
      "box_iou")};
}

// ---------------------------------------------------------------- get_valid_counts
Type infer_valid(InferContext& ctx) {
  const auto& x = ctx.tensor(0);
  const auto& a = ctx.attrs<ScoreAttrs>();
  if (!ctx.expect_rank(x, "x", 3)) return {};
  if (!ctx.expect_domain(x.dtype, Domain::floating)) return {};
  Shape s;
  if (!ctx.expect_shape(ctx.tensor(0), ctx.name(0), s)) return {};
  if (a.score_index < 0 || !ctx.require_at_most(PrimExpr(a.score_index + 1), s[2]))
    return ctx.error(fmt::format("there is no element {} in a box of {}", a.score_index, show(s)));
  return graph::tuple_type(
      {make_type(Shape{s[0]}, 1, i64), make_type(s, 3, x.dtype), make_type(Shape{s[0], s[1]}, 2, i64)});
}
Tensors def_valid(const Call& call, const Tensors& in) {
  const auto& a = attrs_of<ScoreAttrs>(call);
  const Shape s = in[0].shape();
  auto body = [&](const Array<tir::Buffer>& ins, const Array<tir::Buffer>& outs) {
    return each("b", s[0], [&](const PrimExpr& b) {
      const PrimExpr count = tir::load(outs[0], {b});
      const tir::Stmt clear =
          each("i", s[1], [&](const PrimExpr& i) { return tir::store(outs[1], PrimExpr(-1), {b, i}); });
      return tir::seq(
          {tir::store(outs[0], PrimExpr(0), {b}), clear, each("i", s[1], [&](const PrimExpr& i) {
             const PrimExpr score = wide(tir::load(ins[0], {b, i, PrimExpr(a.score_index)}));
             return when(tir::gt(score, constant(score.dtype(), a.score_threshold)),
                         tir::seq({tir::store(outs[1], i, {b, count}), tir::store(outs[0], count + 1, {b})}));
           })});
    });
  };
  const Tensors r = te::external({Shape{s[0]}, Shape{s[0], s[1]}}, {i64, i64}, {in[0]}, body, "valid");
  const te::Tensor boxes = te::compute(
      s,
      [&](const Vars& v) {
        const PrimExpr from = r[1]({v[0], v[1]});
        return tir::select(tir::ge(from, PrimExpr(0)), in[0]({v[0], tir::max(from, PrimExpr(0)), v[2]}),
                           constant(in[0].dtype(), -1));
      },
      "valid_boxes");
  return {r[0], boxes, r[1]};
}

// ---------------------------------------------------------------- multibox_prior, yolo_reorg
int64_t priors(const BoxAttrs& a) { return int64_t(a.sizes.size() + a.ratios.size()) - 1; }
Type infer_prior(InferContext& ctx) {
  const auto& a = ctx.attrs<BoxAttrs>();
  const auto& x = ctx.tensor(0);
  if (!ctx.expect_rank(x, "x", 4)) return {};
  if (!ctx.expect_domain(x.dtype, Domain::floating)) return {};
  if (a.sizes.empty() || a.ratios.empty()) return ctx.error("at least one size and one ratio are needed");
  Shape s;
  if (!ctx.expect_shape(ctx.tensor(0), ctx.name(0), s)) return {};
  return make_type(Shape{PrimExpr(1), simplify(s[2] * s[3] * priors(a)), PrimExpr(4)}, 3, x.dtype);
}
/// Around each element: every size with the first ratio, then the first size with the other ratios.
Tensors def_prior(const Call& call, const Tensors& in) {
  const auto& a = attrs_of<BoxAttrs>(call);
  const PrimExpr h = in[0].shape()[2], w = in[0].shape()[3];
  const DataType t = wide_type(in[0].dtype());
  return {te::compute(
      output_info(call).shape,
      [&](const Vars& v) {
        const PrimExpr kind = tir::floormod(v[1], PrimExpr(priors(a)));
        const PrimExpr place = tir::floordiv(v[1], PrimExpr(priors(a)));
        const PrimExpr y = tir::floordiv(place, w), x = tir::floormod(place, w);
        PrimExpr half_h = constant(t, 0), half_w = half_h;
        for (int64_t k = priors(a); k-- > 0;) {
          const bool by_size = k < int64_t(a.sizes.size());
          const double size = by_size ? a.sizes[size_t(k)] : a.sizes[0];
          const double ratio = std::sqrt(by_size ? a.ratios[0] : a.ratios[size_t(k) - a.sizes.size() + 1]);
          const PrimExpr here = tir::eq(kind, PrimExpr(k));
          // Widths are shares of the height, so that boxes keep their proportions in pixels.
          const PrimExpr shape = tir::div(tir::cast(t, h), tir::cast(t, w));
          half_w = tir::select(here, constant(t, size * ratio / 2) * shape, half_w);
          half_h = tir::select(here, constant(t, size / ratio / 2), half_h);
        }
        const PrimExpr half = constant(t, 0.5);
        const PrimExpr cy = tir::div(tir::cast(t, y) + half, tir::cast(t, h));
        const PrimExpr cx = tir::div(tir::cast(t, x) + half, tir::cast(t, w));
        auto is = [&](int64_t k) { return tir::eq(v[2], PrimExpr(k)); };
        PrimExpr value =
            tir::select(is(0), cx - half_w,
                        tir::select(is(1), cy - half_h, tir::select(is(2), cx + half_w, cy + half_h)));
        if (a.clip) value = tir::min(tir::max(value, constant(t, 0)), constant(t, 1));
        return tir::cast(in[0].dtype(), value);
      },
      "multibox_prior")};
}

Type infer_reorg(InferContext& ctx) {
  const auto& x = ctx.tensor(0);
  const int64_t r = ctx.attrs<StrideAttrs>().stride;
  if (!ctx.expect_rank(x, "x", 4)) return {};
  Shape s;
  if (!ctx.expect_shape(ctx.tensor(0), ctx.name(0), s)) return {};
  for (size_t i = 2; i < 4; ++i)
    if (r < 1 || !ctx.require_multiple(s[i], r))
      return ctx.error(fmt::format("blocks of {} do not divide {}", r, show(s)));
  return make_type(Shape{s[0], simplify(s[1] * (r * r)), simplify(tir::floordiv(s[2], PrimExpr(r))),
                         simplify(tir::floordiv(s[3], PrimExpr(r)))},
                   4, x.dtype);
}
Tensors def_reorg(const Call& call, const Tensors& in) {
  const PrimExpr r = attrs_of<StrideAttrs>(call).stride, c = in[0].shape()[1];
  return {te::compute(
      output_info(call).shape,
      [&](const Vars& v) {
        const PrimExpr block = tir::floordiv(v[1], c);
        return in[0]({v[0], tir::floormod(v[1], c), v[2] * r + tir::floordiv(block, r),
                      v[3] * r + tir::floormod(block, r)});
      },
      "yolo_reorg")};
}

const bool vision_registered = [] {
  register_op("vision.box_iou",
              "What boxes have in common over what they cover together, each of a with each of b.",
              FusionKind::injective, infer_iou, def_iou)
      .argument("a", "Tensor", "boxes as two corners (n, 4)")
      .argument("b", "Tensor", "boxes as two corners (m, 4)");
  register_op(
      "vision.get_valid_counts",
      "Per batch: how many boxes have a score above the threshold; they first, -1 behind; and where each "
      "was.",
      FusionKind::opaque, infer_valid, def_valid)
      .argument("x", "Tensor", "(batch, boxes, numbers of a box)")
      .attrs<ScoreAttrs>();
  register_op("vision.multibox_prior",
              "Boxes of several sizes and ratios around each element of a feature map.",
              FusionKind::injective, infer_prior, def_prior)
      .argument("x", "Tensor", "the feature map (batch, channels, height, width)")
      .attrs<BoxAttrs>();
  register_op("vision.yolo_reorg", "Blocks of the image as channels.", FusionKind::injective, infer_reorg,
              def_reorg)
      .argument("x", "Tensor", "(batch, channels, height, width)")
      .attrs<StrideAttrs>();
  return true;
}();

}  // namespace
}  // namespace tenon::op

template struct tenon::DefineTypes<tenon::op::BoxAttrs, tenon::op::ScoreAttrs, tenon::op::StrideAttrs>;
