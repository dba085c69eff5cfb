// SPDX-License-Identifier: Apache-2.0
// Sorting and what follows from an order: sort, argsort, topk, median, quantile. Orders are stable, NaN is
// the largest value.
#include <fmt/format.h>

#include <cmath>

#include "base/define_type.h"
#include "op/attrs_sort.h"
#include "op/family.h"
#include "op/topk.h"

namespace tenon::op {
namespace {

using Tensors = std::vector<te::Tensor>;

/// The elements of x in the order of `order` along an axis; `at` maps an index of the result to a place in
/// it.
te::Tensor in_order(const te::Tensor& x, const te::Tensor& order, size_t axis, const Shape& shape,
                    const std::string& name) {
  return te::compute(
      shape,
      [&](const Vars& v) {
        Shape at = indices(v);
        at.set(axis, safe_index(order(indices(v)), x.shape()[axis]));
        return x(at);
      },
      name);
}
te::Tensor first_of(const te::Tensor& x, const Shape& shape, const std::string& name) {
  return te::compute(shape, [&](const Vars& v) { return x(indices(v)); }, name);
}

Type infer_sort(InferContext& ctx, bool positions) {
  const auto& x = ctx.tensor(0);
  if (!ctx.expect_domain(x.dtype, Domain::number)) return {};
  if (!ctx.expect_axis(ctx.attrs<SortAttrs>().axis, x.ndim)) return {};
  return like(x, positions ? i64 : x.dtype);
}
SortWay way_of(const Call& call, const Tensors& in) {
  const int64_t axis = normal_axis(attrs_of<SortAttrs>(call).axis, int64_t(in[0].ndim()));
  return sort_way(in[0].dtype(), in[0].shape()[size_t(axis)]);
}

Type infer_topk(InferContext& ctx) {
  const auto& x = ctx.tensor(0);
  if (!ctx.expect_domain(x.dtype, Domain::number)) return {};
  const auto k = ctx.shape(1);
  if (k && k->size() != 1) return ctx.error(fmt::format("k is {}, one size is needed", show(*k)));
  auto shape = shape_of(x);
  if (x.ndim >= 0) {
    if (!ctx.expect_axis(ctx.attrs<TopKAttrs>().axis, x.ndim)) return {};
    const auto axis = size_t(normal_axis(ctx.attrs<TopKAttrs>().axis, x.ndim));
    if (shape && k) {
      if (tir::as_int((*k)[0]).value_or(0) < 0 || !ctx.require_at_most((*k)[0], (*shape)[axis]))
        return ctx.error(
            fmt::format("{} elements of axis {} of {} are wanted", show_dim((*k)[0]), axis, show(*shape)));
      shape->set(axis, (*k)[0]);
    }
  }
  if (!k) shape = std::nullopt;
  return graph::tuple_type({make_type(shape, x.ndim, x.dtype), make_type(shape, x.ndim, i64)});
}
Tensors topk_of(const Call& call, const Tensors& in,
                const std::function<te::Tensor(size_t axis, bool largest, const PrimExpr& count)>& order_by) {
  const auto& a = attrs_of<TopKAttrs>(call);
  const auto axis = size_t(normal_axis(a.axis, int64_t(in[0].ndim())));
  const Shape shape = output_info(call).shape;
  const te::Tensor order = order_by(axis, a.largest, shape[axis]);
  return {in_order(in[0], order, axis, shape, "topk"), first_of(order, shape, "topk_positions")};
}
Tensors def_topk(const Call& call, const Tensors& in) {
  return topk_of(call, in, [&](size_t axis, bool largest, const PrimExpr& count) {
    return first_in_order(in[0], axis, largest, count);
  });
}

Type infer_quantile(InferContext& ctx) {
  const auto& a = ctx.attrs<QuantileAttrs>();
  const auto& x = ctx.tensor(0);
  if (!ctx.expect_domain(x.dtype, Domain::floating)) return {};
  if (!(a.q >= 0 && a.q <= 1)) return ctx.error(fmt::format("the share {} is not from 0 to 1", a.q));
  if (x.ndim < 0) return graph::tensor_type_unknown(-1, x.dtype);
  if (!ctx.expect_axis(a.axis, x.ndim)) return {};
  const auto axis = size_t(normal_axis(a.axis, x.ndim));
  auto shape = shape_of(x);
  if (!shape) return make_type(std::nullopt, x.ndim - !a.keepdims, x.dtype);
  if (!ctx.expect_elements(*shape, axis, product(drop_axes(*shape, {int64_t(axis)})))) return {};
  if (a.keepdims)
    shape->set(axis, PrimExpr(1));
  else
    shape->erase(axis);
  return make_type(shape, 0, x.dtype);
}
/// Between the two elements nearest to q · (n - 1), in proportion.
Tensors def_quantile(const Call& call, const Tensors& in) {
  const auto& a = attrs_of<QuantileAttrs>(call);
  const te::Tensor& x = in[0];
  const auto axis = size_t(normal_axis(a.axis, int64_t(x.ndim())));
  const te::Tensor order = order_of(x, axis, false);
  const te::Tensor sorted = in_order(x, order, axis, x.shape(), "sorted");
  const PrimExpr last = x.shape()[axis] - 1;
  const PrimExpr place = tir::cast(f64, last) * constant(f64, a.q);
  const PrimExpr low = tir::cast(i64, tir::call(f64, "tir.floor", {place}));
  return {te::compute(
      output_info(call).shape,
      [&](const Vars& v) {
        auto element = [&](const PrimExpr& p) {
          Shape at = indices(v);
          if (a.keepdims)
            at.set(axis, p);
          else
            at.insert(axis, p);
          return wide(sorted(at));
        };
        // NaN is the largest: where there is one, the last element says so.
        const PrimExpr top = element(last), below = element(low);
        const PrimExpr above = element(tir::min(low + 1, last));
        const PrimExpr t = tir::cast(below.dtype(), place - tir::cast(f64, low));
        const PrimExpr value =
            tir::select(tir::eq(t, constant(t.dtype(), 0)), below, below + (above - below) * t);
        return tir::cast(x.dtype(), tir::select(tir::call(boolean, "tir.isnan", {top}), top, value));
      },
      "quantile")};
}

}  // namespace

Tensors define_topk(const Call& call, const Tensors& in, FirstWay way) {
  return topk_of(call, in, [&](size_t axis, bool largest, const PrimExpr& count) {
    return first_by(in[0], axis, largest, count, way);
  });
}
Tensors define_topk_by_sort(const Call& call, const Tensors& in) {
  return topk_of(call, in,
                 [&](size_t axis, bool largest, const PrimExpr&) { return order_of(in[0], axis, largest); });
}
Tensors define_sort(const Call& call, const Tensors& in, bool positions, SortWay way) {
  const auto& a = attrs_of<SortAttrs>(call);
  const auto axis = size_t(normal_axis(a.axis, int64_t(in[0].ndim())));
  const te::Tensor order = order_by(in[0], axis, a.descending, way);
  if (positions) return {order};
  return {in_order(in[0], order, axis, in[0].shape(), "sort")};
}

namespace {

const bool sort_registered = [] {
  auto add = [](OpName name, const char* doc, InferType infer, TensorDef def) {
    return register_op(std::move(name), doc, FusionKind::opaque, std::move(infer), std::move(def))
        .argument("x", "Tensor", "the operand");
  };
  add(
      "sort", "Elements of an axis in order.", [](InferContext& ctx) { return infer_sort(ctx, false); },
      [](const Call& c, const Tensors& in) { return define_sort(c, in, false, way_of(c, in)); })
      .attrs<SortAttrs>();
  add(
      "argsort", "Positions that put an axis in order; equals keep theirs.",
      [](InferContext& ctx) { return infer_sort(ctx, true); },
      [](const Call& c, const Tensors& in) { return define_sort(c, in, true, way_of(c, in)); })
      .attrs<SortAttrs>();
  add("topk", "The first k elements of an axis in order, and their positions.", infer_topk, def_topk)
      .argument("k", "Shape", "how many, at most the axis has")
      .attrs<TopKAttrs>();
  add("quantile", "The value below which a share of an axis lies, interpolated; q = 0.5 is the median.",
      infer_quantile, def_quantile)
      .attrs<QuantileAttrs>();
  return true;
}();

}  // namespace
}  // namespace tenon::op

template struct tenon::DefineTypes<tenon::op::SortAttrs, tenon::op::TopKAttrs, tenon::op::QuantileAttrs>;
