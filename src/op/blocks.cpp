// SPDX-License-Identifier: Apache-2.0
// Operators on blocks of an image: elements apart, blocks and batches, windows as columns, groups of
// channels.
#include <fmt/format.h>

#include <algorithm>

#include "base/define_type.h"
#include "op/attrs_arrange.h"
#include "op/family.h"

namespace tenon::op {
namespace {

using Tensors = std::vector<te::Tensor>;

PrimExpr inside(const PrimExpr& at, const PrimExpr& low, const PrimExpr& high) {
  return tir::logical_and(tir::ge(at, low), tir::lt(at, high));
}

Type infer_dilate(InferContext& ctx) {
  const auto& x = ctx.tensor(0);
  Shape out;
  if (!ctx.expect_shape(x, "x", out)) return {};
  if (!ctx.expect_per_axis(ctx.attrs<DilateAttrs>().strides, out.size(), "strides")) return {};
  const auto steps = per_axis(ctx.attrs<DilateAttrs>().strides, out.size(), 1);
  for (size_t i = 0; i < out.size(); ++i) {
    if (steps[i] < 1) return ctx.error(fmt::format("a stride is {}", steps[i]), "strides are at least 1");
    out.set(i, simplify(tir::max((out[i] - 1) * steps[i] + 1, PrimExpr(0))));
  }
  return make_type(out, x.ndim, x.dtype);
}
Tensors def_dilate(const Call& call, const Tensors& in) {
  const auto& a = attrs_of<DilateAttrs>(call);
  const auto steps = per_axis(a.strides, in[0].ndim(), 1);
  return {te::compute(
      output_info(call).shape,
      [&](const Vars& v) {
        Shape at;
        PrimExpr own = tir::true_();
        for (size_t i = 0; i < steps.size(); ++i) {
          at.push_back(tir::floordiv(v[i], PrimExpr(steps[i])));
          if (steps[i] > 1)
            own = tir::logical_and(own, tir::eq(tir::floormod(v[i], PrimExpr(steps[i])), PrimExpr(0)));
        }
        return tir::if_then_else(own, in[0](at), constant(in[0].dtype(), a.value));
      },
      "dilate")};
}

/// Blocks and margins of the axes behind the batch.
struct Blocks {
  std::vector<int64_t> size, begin, end;
};
Blocks blocks_of(const BlockAttrs& a) {
  Blocks b;
  for (size_t i = 0; i < a.block_shape.size(); ++i) {
    b.size.push_back(a.block_shape[i]);
    b.begin.push_back(a.margins.empty() ? 0 : a.margins[2 * i]);
    b.end.push_back(a.margins.empty() ? 0 : a.margins[2 * i + 1]);
  }
  return b;
}
bool expect_blocks(InferContext& ctx, size_t ndim) {
  const auto& a = ctx.attrs<BlockAttrs>();
  const size_t n = a.block_shape.size();
  if (n == 0 || n + 1 > ndim || (!a.margins.empty() && a.margins.size() != 2 * n))
    return ctx.error(fmt::format("{} blocks and {} margins for {} axes", n, a.margins.size(), ndim));
  auto below = [](const Array<int64_t>& list, int64_t least) {
    return std::any_of(list.begin(), list.end(), [least](int64_t v) { return v < least; });
  };
  if (below(a.block_shape, 1) || below(a.margins, 0))
    return ctx.error("blocks are at least 1, margins at least 0");
  return true;
}
Type infer_space_to_batch(InferContext& ctx) {
  const auto& x = ctx.tensor(0);
  Shape out;
  if (!ctx.expect_shape(x, "x", out)) return {};
  if (!expect_blocks(ctx, out.size())) return {};
  const Blocks b = blocks_of(ctx.attrs<BlockAttrs>());
  for (size_t i = 0; i < b.size.size(); ++i) {
    const PrimExpr whole = simplify(out[i + 1] + (b.begin[i] + b.end[i]));
    if (!ctx.require_multiple(whole, b.size[i]))
      return ctx.error(fmt::format("axis {} has {} elements with its margins, no multiple of {}", i + 1,
                                   show_dim(whole), b.size[i]));
    out.set(i + 1, simplify(tir::floordiv(whole, PrimExpr(b.size[i]))));
    out.set(0, simplify(out[0] * b.size[i]));
  }
  return make_type(out, x.ndim, x.dtype);
}
Tensors def_space_to_batch(const Call& call, const Tensors& in) {
  const Blocks b = blocks_of(attrs_of<BlockAttrs>(call));
  return {te::compute(
      output_info(call).shape,
      [&](const Vars& v) {
        // The batch holds the place within the block, then the original batch.
        PrimExpr place = tir::floordiv(v[0], in[0].shape()[0]), own = tir::true_();
        Shape at = indices(v);
        at.set(0, tir::floormod(v[0], in[0].shape()[0]));
        for (size_t i = b.size.size(); i-- > 0;) {
          const PrimExpr position =
              v[i + 1] * b.size[i] + tir::floormod(place, PrimExpr(b.size[i])) - b.begin[i];
          place = tir::floordiv(place, PrimExpr(b.size[i]));
          own = tir::logical_and(own, inside(position, PrimExpr(0), in[0].shape()[i + 1]));
          at.set(i + 1, position);
        }
        return tir::if_then_else(own, in[0](at), constant(in[0].dtype(), 0));
      },
      "space_to_batch_nd")};
}
Type infer_batch_to_space(InferContext& ctx) {
  const auto& x = ctx.tensor(0);
  Shape out;
  if (!ctx.expect_shape(x, "x", out)) return {};
  if (!expect_blocks(ctx, out.size())) return {};
  const Blocks b = blocks_of(ctx.attrs<BlockAttrs>());
  int64_t all = 1;
  for (size_t i = 0; i < b.size.size(); ++i) {
    all *= b.size[i];
    const PrimExpr whole = simplify(out[i + 1] * b.size[i] - (b.begin[i] + b.end[i]));
    if (!ctx.require_not_negative(whole))
      return ctx.error(fmt::format("margins cut more than axis {} has", i + 1));
    out.set(i + 1, whole);
  }
  if (!ctx.require_multiple(out[0], all))
    return ctx.error(
        fmt::format("a batch of {} is no multiple of the {} places of a block", show_dim(out[0]), all));
  out.set(0, simplify(tir::floordiv(out[0], PrimExpr(all))));
  return make_type(out, x.ndim, x.dtype);
}
Tensors def_batch_to_space(const Call& call, const Tensors& in) {
  const Blocks b = blocks_of(attrs_of<BlockAttrs>(call));
  const Shape shape = output_info(call).shape;
  return {te::compute(
      shape,
      [&](const Vars& v) {
        Shape at = indices(v);
        PrimExpr place = 0;
        for (size_t i = 0; i < b.size.size(); ++i) {
          const PrimExpr position = v[i + 1] + b.begin[i];
          place = place * b.size[i] + tir::floormod(position, PrimExpr(b.size[i]));
          at.set(i + 1, tir::floordiv(position, PrimExpr(b.size[i])));
        }
        at.set(0, place * shape[0] + v[0]);
        return in[0](at);
      },
      "batch_to_space_nd")};
}

Type infer_im2col(InferContext& ctx) {
  const auto& x = ctx.tensor(0);
  Shape s;
  if (!ctx.expect_shape(x, "x", s)) return {};
  if (s.size() < 3) return ctx.error(fmt::format("{} has no spatial axes", show(s)));
  const size_t n = s.size() - 2;
  const auto& a = ctx.attrs<UnfoldAttrs>();
  if (!ctx.expect_per_axis(a.kernel_size, n, "kernel_size")) return {};
  if (!ctx.expect_per_axis(a.strides, n, "strides")) return {};
  if (!ctx.expect_per_axis(a.dilation, n, "dilation")) return {};
  if (!ctx.expect_paddings(a.padding, n)) return {};
  const auto kernel = per_axis(a.kernel_size, n, 1), step = per_axis(a.strides, n, 1),
             gap = per_axis(a.dilation, n, 1), pad = paddings(a.padding, n);
  PrimExpr columns = s[1], places = 1;
  for (size_t i = 0; i < n; ++i) {
    const int64_t window = (kernel[i] - 1) * gap[i] + 1;
    if (kernel[i] < 1 || step[i] < 1 || gap[i] < 1)
      return ctx.error("sizes, strides and dilations are at least 1");
    const PrimExpr room = simplify(s[i + 2] + (pad[i] + pad[i + n] - window));
    if (!ctx.require_not_negative(room))
      return ctx.error(fmt::format("a window of {} does not fit into axis {} of {}", window, i + 2, show(s)));
    columns = columns * kernel[i];
    places = places * (tir::floordiv(room, PrimExpr(step[i])) + 1);
  }
  return make_type(Shape{s[0], simplify(columns), simplify(places)}, 3, x.dtype);
}
Tensors def_im2col(const Call& call, const Tensors& in) {
  const te::Tensor& x = in[0];
  const size_t n = x.ndim() - 2;
  const auto& a = attrs_of<UnfoldAttrs>(call);
  const auto kernel = per_axis(a.kernel_size, n, 1), step = per_axis(a.strides, n, 1),
             gap = per_axis(a.dilation, n, 1), pad = paddings(a.padding, n);
  Shape windows{x.shape()[1]}, places;
  for (size_t i = 0; i < n; ++i) {
    windows.push_back(PrimExpr(kernel[i]));
    places.push_back(tir::floordiv(x.shape()[i + 2] + (pad[i] + pad[i + n] - (kernel[i] - 1) * gap[i] - 1),
                                   PrimExpr(step[i])) +
                     1);
  }
  return {te::compute(
      output_info(call).shape,
      [&](const Vars& v) {
        const Shape window = unflatten_index(v[1], windows), place = unflatten_index(v[2], places);
        Shape at{PrimExpr(v[0]), window[0]};
        PrimExpr own = tir::true_();
        for (size_t i = 0; i < n; ++i) {
          at.push_back(place[i] * step[i] + window[i + 1] * gap[i] - pad[i]);
          if (pad[i] || pad[i + n])
            own = tir::logical_and(own, inside(at[i + 2], PrimExpr(0), x.shape()[i + 2]));
        }
        return tir::if_then_else(own, x(at), constant(x.dtype(), 0));
      },
      "im2col")};
}

Type infer_channel_shuffle(InferContext& ctx) {
  const auto& x = ctx.tensor(0);
  const int64_t groups = ctx.attrs<GroupsAttrs>().groups;
  Shape s;
  if (!ctx.expect_shape(x, "x", s)) return {};
  if (s.size() < 2) return ctx.error(fmt::format("{} has no channels", show(s)));
  if (groups < 1 || !ctx.require_multiple(s[1], groups))
    return ctx.error(fmt::format("{} channels are not {} groups", show({s[1]}), groups));
  return like(x, x.dtype);
}
Tensors def_channel_shuffle(const Call& call, const Tensors& in) {
  const int64_t groups = attrs_of<GroupsAttrs>(call).groups;
  return {te::compute(
      output_info(call).shape,
      [&](const Vars& v) {
        Shape at = indices(v);
        at.set(1, tir::floormod(v[1], PrimExpr(groups)) * tir::floordiv(in[0].shape()[1], PrimExpr(groups)) +
                      tir::floordiv(v[1], PrimExpr(groups)));
        return in[0](at);
      },
      "channel_shuffle")};
}

const bool blocks_registered = [] {
  const auto injective = FusionKind::injective;
  register_op("dilate", "Elements apart from one another, a value between them.", injective, infer_dilate,
              def_dilate)
      .argument("x", "Tensor", "the operand")
      .attrs<DilateAttrs>();
  register_op("space_to_batch_nd",
              "Blocks of the axes behind the batch become batches: (n, h·b, w·b, …) → (b·b·n, h, w, …).",
              injective, infer_space_to_batch, def_space_to_batch)
      .argument("x", "Tensor", "the operand")
      .attrs<BlockAttrs>();
  register_op("batch_to_space_nd",
              "Batches become blocks of the axes behind them: (b·b·n, h, w, …) → (n, h·b, w·b, …).",
              injective, infer_batch_to_space, def_batch_to_space)
      .argument("x", "Tensor", "the operand")
      .attrs<BlockAttrs>();
  register_op("im2col", "Windows as columns: (n, c, spatial…) → (n, c · window, places).", injective,
              infer_im2col, def_im2col)
      .argument("x", "Tensor", "the operand")
      .attrs<UnfoldAttrs>();
  register_op("channel_shuffle", "The channels of groups, taken in turn.", injective, infer_channel_shuffle,
              def_channel_shuffle)
      .argument("x", "Tensor", "the operand")
      .attrs<GroupsAttrs>();
  return true;
}();

}  // namespace
}  // namespace tenon::op

template struct tenon::DefineTypes<tenon::op::DilateAttrs, tenon::op::BlockAttrs, tenon::op::UnfoldAttrs,
                                   tenon::op::GroupsAttrs>;
