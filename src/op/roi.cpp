// SPDX-License-Identifier: Apache-2.0
// Regions of a feature map in one size: roi_align, roi_pool, crop_and_resize.
#include <fmt/format.h>

#include <cmath>

#include "base/define_type.h"
#include "op/attrs_vision.h"
#include "op/family.h"
#include "op/letters.h"
#include "op/program.h"

namespace tenon::op {
namespace {

using Tensors = std::vector<te::Tensor>;

/// The nearest whole number, of two equally near ones the one further from zero, as the standard's models
/// have it: C's round.
PrimExpr nearest_place(const PrimExpr& e) {
  const DataType t = e.dtype();
  const PrimExpr whole = tir::call(t, "tir.trunc", {e}), rest = e - whole;
  auto one_if = [](const PrimExpr& condition) { return tir::select(condition, PrimExpr(1), PrimExpr(0)); };
  return tir::cast(i64, whole) + one_if(tir::ge(rest, constant(t, 0.5))) -
         one_if(tir::le(rest, constant(t, -0.5)));
}
Type infer_regions(InferContext& ctx, int64_t numbers, const PrimExpr& height, const PrimExpr& width) {
  const auto &x = ctx.tensor(0), &rois = ctx.tensor(1);
  if (!ctx.expect_rank(x, "x", 4)) return {};
  if (!ctx.expect_rank(rois, "the regions", 2)) return {};
  if (!ctx.expect_domain(x.dtype, Domain::floating)) return {};
  if (!ctx.expect_domain(rois.dtype, Domain::floating)) return {};
  auto s = shape_of(x), r = shape_of(rois);
  if (!s || !r) return make_type(std::nullopt, 4, x.dtype);
  if (!ctx.require_equal((*r)[1], PrimExpr(numbers)))
    return ctx.error(fmt::format("regions {} are not {} numbers each", show(*r), numbers));
  if (ctx.has(2) && ctx.type(2).is<graph::TensorType>()) {
    const auto& batch = ctx.tensor(2);
    if (!ctx.expect_domain(batch.dtype, Domain::integer)) return {};
    if (auto b = shape_of(batch); b && (b->size() != 1 || !ctx.require_equal((*b)[0], (*r)[0])))
      return ctx.error(fmt::format("batch indices {} for regions {}", show(*b), show(*r)));
  }
  const Shape out{(*r)[0], (*s)[1], height, width};
  for (size_t axis : {0, 2, 3})
    if (!ctx.expect_elements(*s, axis, product(out))) return {};
  return make_type(out, 4, x.dtype);
}
/// Samples of a bin along an axis, at most; images have fewer elements.
constexpr int64_t kMostSamples = 1 << 16;
Type infer_roi(InferContext& ctx, int64_t numbers) {
  const auto& a = ctx.attrs<RoiAttrs>();
  if (a.pooled_height < 1 || a.pooled_width < 1 || a.sample_ratio < 0 || a.sample_ratio > kMostSamples)
    return ctx.error(fmt::format("a result of {} by {} elements", a.pooled_height, a.pooled_width));
  if (!ctx.expect_one_of("mode", a.mode, {"avg", "max"})) return {};
  return infer_regions(ctx, numbers, a.pooled_height, a.pooled_width);
}

/// One axis of a sample: the elements on both sides and their weights; outside of the map nothing counts.
struct Side {
  PrimExpr low, high, low_weight, high_weight, inside;
};
Side side_of(const PrimExpr& place, const PrimExpr& extent) {
  const DataType t = place.dtype();
  const PrimExpr zero = constant(t, 0), one = constant(t, 1), last = tir::cast(t, extent - 1);
  const PrimExpr at = tir::min(tir::max(place, zero), last), low = tir::call(t, "tir.floor", {at});
  const PrimExpr first = tir::min(tir::max(tir::cast(i64, low), PrimExpr(0)), extent - 1);
  return {first, tir::min(first + 1, extent - 1), one - (at - low), at - low,
          tir::logical_and(tir::ge(place, constant(t, -1)), tir::le(place, tir::cast(t, extent)))};
}

/// Values that are computed once, under their names.
tir::Stmt named_all(const std::vector<std::pair<const char*, PrimExpr>>& values,
                    const std::function<tir::Stmt(const Shape&)>& body, Shape known = {}) {
  if (known.size() == values.size()) return body(known);
  const auto& [name, value] = values[known.size()];
  return named(name, value, [&](const PrimExpr& e) {
    Shape more = known;
    more.push_back(e);
    return named_all(values, body, more);
  });
}

Tensors def_roi_align(const Call& call, const Tensors& in) {
  const auto& a = attrs_of<RoiAttrs>(call);
  const TensorInfo out = output_info(call);
  const DataType t = wide_type(in[0].dtype());
  const PrimExpr h = in[0].shape()[2], w = in[0].shape()[3];
  auto num = [&](double v) { return constant(t, v); };
  // Per region and axis: begin, size of a cell, samples in a cell.
  const te::Tensor cells = te::compute(
      {out.shape[0], PrimExpr(2), PrimExpr(3)},
      [&](const Vars& v) {
        // Regions are (x, y, x, y); axis 0 is the height.
        const PrimExpr first = 1 - v[1];
        auto corner = [&](const PrimExpr& k) {
          return tir::cast(t, in[1]({v[0], k})) * num(a.spatial_scale) - num(a.aligned ? 0.5 : 0);
        };
        const PrimExpr begin = corner(first), length = corner(first + 2) - begin;
        const PrimExpr size = a.aligned ? length : tir::max(length, num(1));
        const PrimExpr parts = tir::select(tir::eq(v[1], PrimExpr(0)), num(double(a.pooled_height)),
                                           num(double(a.pooled_width)));
        const PrimExpr cell = tir::div(size, parts);
        const PrimExpr samples =
            a.sample_ratio > 0 ? num(double(a.sample_ratio)) : tir::call(t, "tir.ceil", {cell});
        return tir::select(tir::eq(v[2], PrimExpr(0)), begin,
                           tir::select(tir::eq(v[2], PrimExpr(1)), cell, samples));
      },
      "roi_cells");
  const bool most = a.mode == "max";
  // A sample lies at one place in all channels: its elements and weights are computed once for them.
  auto body = [&](const Array<tir::Buffer>& ins, const Array<tir::Buffer>& outs) {
    return each_of(
        {out.shape[0], out.shape[2], out.shape[3]},
        [&](const Shape& at) {
          const PrimExpr batch = safe_index(tir::load(ins[2], {at[0]}), in[0].shape()[0]);
          auto cell = [&](int64_t axis, int64_t what) {
            return tir::load(ins[1], {at[0], PrimExpr(axis), PrimExpr(what)});
          };
          auto samples = [&](int64_t axis) { return tir::max(tir::cast(i64, cell(axis, 2)), PrimExpr(0)); };
          auto place = [&](int64_t axis, const PrimExpr& k) {
            return cell(axis, 0) + tir::cast(t, at[size_t(axis) + 1]) * cell(axis, 1) +
                   tir::div((tir::cast(t, k) + num(0.5)) * cell(axis, 1), cell(axis, 2));
          };
          auto each_channel = [&](auto made) {
            return each("c", out.shape[1], [&](const PrimExpr& c) {
              const Shape of_channel{at[0], c, at[1], at[2]};
              return tir::store(outs[0], made(c, tir::load(outs[0], of_channel)), of_channel);
            });
          };
          auto sample = [&](const PrimExpr& i, const PrimExpr& j, const Side& y, const Side& x) {
            auto weighted = [&](const Shape& corners, const Shape& weights) {
              return each_channel([&](const PrimExpr& c, const PrimExpr& old) {
                auto term = [&](size_t k) {
                  return tir::cast(t, tir::load(ins[0], {batch, c, corners[k / 2], corners[2 + k % 2]})) *
                         weights[k];
                };
                const PrimExpr p = term(0), q = term(1), r = term(2), s = term(3);
                if (!most) return old + (p + q + r + s);
                const PrimExpr value = tir::max(tir::max(p, q), tir::max(r, s));
                const PrimExpr first = tir::logical_and(tir::eq(i, PrimExpr(0)), tir::eq(j, PrimExpr(0)));
                return tir::select(first, value, tir::max(old, value));
              });
            };
            auto nothing = [&] {  // a sample outside counts as 0
              if (!most) return tir::Stmt();
              return each_channel(
                  [&](const PrimExpr&, const PrimExpr& old) { return tir::max(old, num(0)); });
            };
            const tir::Stmt in_map = named_all(
                {{"y_low", y.low}, {"y_high", y.high}, {"x_low", x.low}, {"x_high", x.high}},
                [&](const Shape& corners) {
                  return named_all({{"w_ll", y.low_weight * x.low_weight},
                                    {"w_lh", y.low_weight * x.high_weight},
                                    {"w_hl", y.high_weight * x.low_weight},
                                    {"w_hh", y.high_weight * x.high_weight}},
                                   [&](const Shape& weights) { return weighted(corners, weights); });
                });
            return when(tir::logical_and(y.inside, x.inside), in_map, nothing());
          };
          return named("rows", samples(0), [&](const PrimExpr& rows) {
            return named("columns", samples(1), [&](const PrimExpr& columns) {
              const tir::Stmt all = each("i", rows, [&](const PrimExpr& i) {
                return named("y", place(0, i), [&](const PrimExpr& y) {
                  return each("j", columns, [&](const PrimExpr& j) {
                    return named("x", place(1, j), [&](const PrimExpr& x) {
                      return sample(i, j, side_of(y, h), side_of(x, w));
                    });
                  });
                });
              });
              const PrimExpr count = tir::cast(t, tir::max(rows * columns, PrimExpr(1)));
              const tir::Stmt clear = each_channel([&](const PrimExpr&, const PrimExpr&) { return num(0); });
              const tir::Stmt share =
                  each_channel([&](const PrimExpr&, const PrimExpr& old) { return tir::div(old, count); });
              return most ? tir::seq({clear, all}) : tir::seq({clear, all, share});
            });
          });
        },
        true);
  };
  return {cast_to(te::external({out.shape}, {t}, {in[0], cells, in[2]}, body, "roi_align")[0], out.dtype)};
}

/// The largest element of each cell; cells are cut at whole elements, an empty one is 0.
Tensors def_roi_pool(const Call& call, const Tensors& in) {
  const auto& a = attrs_of<RoiAttrs>(call);
  const TensorInfo out = output_info(call);
  const DataType t = wide_type(in[1].dtype());
  const Shape x = in[0].shape();
  auto body = [&](const Array<tir::Buffer>& ins, const Array<tir::Buffer>& outs) {
    return each_of(
        out.shape,
        [&](const Shape& at) {
          auto number = [&](int64_t k) { return tir::cast(t, tir::load(ins[1], {at[0], PrimExpr(k)})); };
          const PrimExpr batch = safe_index(number(0), x[0]);
          // First element and number of elements of the cell along an axis.
          auto range = [&](size_t axis, int64_t parts) {
            auto corner = [&](int64_t k) { return nearest_place(number(k) * constant(t, a.spatial_scale)); };
            const PrimExpr begin = corner(axis == 2 ? 2 : 1), end = corner(axis == 2 ? 4 : 3);
            const PrimExpr size = tir::max(end - begin + 1, PrimExpr(1));
            auto clip = [&](const PrimExpr& e) {
              return tir::min(tir::max(e + begin, PrimExpr(0)), x[axis]);
            };
            const PrimExpr from = clip(tir::floordiv(at[axis] * size, PrimExpr(parts)));
            return std::pair(from, tir::max(clip(tir::ceildiv((at[axis] + 1) * size, PrimExpr(parts))) - from,
                                            PrimExpr(0)));
          };
          const auto [y0, height] = range(2, a.pooled_height);
          const auto [x0, width] = range(3, a.pooled_width);
          const PrimExpr y = y0, xx = x0, h = height, w = width;
          const PrimExpr empty = tir::logical_or(tir::le(h, PrimExpr(0)), tir::le(w, PrimExpr(0)));
          const tir::Stmt start = tir::store(
              outs[0], tir::select(empty, constant(out.dtype, 0), constant(out.dtype, -INFINITY)), at);
          return named("rows", h, [&](const PrimExpr& rows) {
            return named("columns", w, [&](const PrimExpr& columns) {
              return tir::seq(
                  {start, each("i", rows, [&](const PrimExpr& i) {
                     return each("j", columns, [&](const PrimExpr& j) {
                       return tir::store(
                           outs[0],
                           tir::max(tir::load(outs[0], at), tir::load(ins[0], {batch, at[1], y + i, xx + j})),
                           at);
                     });
                   })});
            });
          });
        },
        true);
  };
  return te::external({out.shape}, {out.dtype}, {in[0], in[1]}, body, "roi_pool");
}

Type infer_crop(InferContext& ctx) {
  const auto& a = ctx.attrs<CropAttrs>();
  if (!ctx.expect_one_of("method", a.method, {"linear", "nearest"})) return {};
  const auto size = ctx.shape(3);
  if (size && size->size() != 2) return ctx.error(fmt::format("{} sizes for 2 axes", size->size()));
  if (!size) return make_type(std::nullopt, 4, ctx.tensor(0).dtype);
  return infer_regions(ctx, 4, (*size)[0], (*size)[1]);
}
Tensors def_crop(const Call& call, const Tensors& in) {
  const auto& a = attrs_of<CropAttrs>(call);
  const TensorInfo out = output_info(call);
  const te::Tensor& x = in[0];
  const DataType t = wide_type(x.dtype());
  // Place in the image per region, axis and element.
  auto place = [&](const PrimExpr& region, int64_t axis, const PrimExpr& k) {
    const PrimExpr extent = x.shape()[size_t(axis) + 2], want = out.shape[size_t(axis) + 2];
    auto corner = [&](int64_t i) { return tir::cast(t, in[1]({region, PrimExpr(i)})); };
    const PrimExpr last = tir::cast(t, extent - 1), begin = corner(axis), end = corner(axis + 2);
    const PrimExpr steps = tir::cast(t, tir::max(want - 1, PrimExpr(1)));
    const PrimExpr many = begin * last + tir::cast(t, k) * tir::div((end - begin) * last, steps);
    return tir::select(tir::gt(want, PrimExpr(1)), many, (begin + end) * last * constant(t, 0.5));
  };
  return {te::compute(
      out.shape,
      [&](const Vars& v) {
        const PrimExpr batch = safe_index(in[2]({v[0]}), x.shape()[0]);
        const PrimExpr py = place(v[0], 0, v[2]), px = place(v[0], 1, v[3]);
        auto inside = [&](const PrimExpr& p, size_t axis) {
          return tir::logical_and(tir::ge(p, constant(t, 0)), tir::le(p, tir::cast(t, x.shape()[axis] - 1)));
        };
        auto element = [&](const PrimExpr& i, const PrimExpr& j) {
          return tir::cast(t, x({batch, v[1], i, j}));
        };
        PrimExpr value;
        if (a.method == "nearest") {
          value = element(safe_index(tir::max(nearest_place(py), PrimExpr(0)), x.shape()[2]),
                          safe_index(tir::max(nearest_place(px), PrimExpr(0)), x.shape()[3]));
        } else {
          const Side y = side_of(py, x.shape()[2]), z = side_of(px, x.shape()[3]);
          value =
              (element(y.low, z.low) * z.low_weight + element(y.low, z.high) * z.high_weight) * y.low_weight +
              (element(y.high, z.low) * z.low_weight + element(y.high, z.high) * z.high_weight) *
                  y.high_weight;
        }
        return tir::cast(out.dtype, tir::select(tir::logical_and(inside(py, 2), inside(px, 3)), value,
                                                constant(t, a.extrapolation_value)));
      },
      "crop_and_resize")};
}

const bool roi_registered = [] {
  auto add = [](OpName name, const char* doc, FusionKind kind, InferType infer, TensorDef def) {
    return register_op(std::move(name), doc)
        .argument("x", "Tensor", "(batch, channels, height, width)")
        .infer(std::move(infer))
        .fusion(kind)
        .tensor_def(std::move(def));
  };
  const char* const batch = "which image each region is of";
  add(
      "vision.roi_align", "Regions in one size: mean (or largest) of interpolated samples per cell.",
      FusionKind::opaque, [](InferContext& ctx) { return infer_roi(ctx, 4); }, def_roi_align)
      .argument("rois", "Tensor", "(regions, 4): x, y, x, y")
      .argument("batch_indices", "Tensor", batch)
      .attrs<RoiAttrs>()
      .letters(image_letters<RoiAttrs>(&RoiAttrs::layout));
  add(
      "vision.roi_pool", "Regions in one size: the largest element per cell.", FusionKind::opaque,
      [](InferContext& ctx) { return infer_roi(ctx, 5); }, def_roi_pool)
      .argument("rois", "Tensor", "(regions, 5): image, x, y, x, y")
      .attrs<RoiAttrs>()
      .letters(image_letters<RoiAttrs>(&RoiAttrs::layout));
  add("image.crop_and_resize", "Regions in one size, interpolated.", FusionKind::injective, infer_crop,
      def_crop)
      .argument("boxes", "Tensor", "(regions, 4): y, x, y, x as shares of the image")
      .argument("box_indices", "Tensor", batch)
      .argument("size", "Shape", "height and width of the result")
      .attrs<CropAttrs>()
      .letters(image_letters<CropAttrs>(&CropAttrs::layout));
  return true;
}();

}  // namespace
}  // namespace tenon::op

template struct tenon::DefineTypes<tenon::op::RoiAttrs, tenon::op::CropAttrs>;
