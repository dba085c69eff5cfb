// SPDX-License-Identifier: Apache-2.0
// Further operators that place elements anew (stack, roll, dilate, blocks, windows, sequences, diagonals),
// products of vectors, and lengths of vectors.
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

// ---------------------------------------------------------------- stack, swap_axes, roll
Type infer_stack(InferContext& ctx) {
  const auto parts = ctx.tuple(0);
  if (!parts) return {};
  const auto& items = *parts;
  if (items.empty()) return ctx.error("there is nothing to stack");
  Shape first;
  if (!ctx.expect_shape(*items[0], "the first tensor", first)) return {};
  for (const auto* t : items) {
    Shape s;
    if (!ctx.expect_shape(*t, "a tensor", s)) return {};
    if (t->dtype != items[0]->dtype || !ctx.require_equal(s, first))
      return ctx.error(fmt::format("tensors {} of {} and {} of {} cannot be stacked", show(first),
                                   to_string(items[0]->dtype), show(s), to_string(t->dtype)));
  }
  const int64_t n = int64_t(first.size()) + 1;
  Shape out = first;
  const int64_t axis = ctx.attrs<AxisAttrs>().axis;
  if (!ctx.expect_axis(axis, n)) return {};
  out.insert(size_t(normal_axis(axis, n)), PrimExpr(int64_t(items.size())));
  return make_type(out, n, items[0]->dtype);
}
Tensors def_stack(const Call& call, const Tensors& in) {
  const Shape shape = output_info(call).shape;
  const auto axis = normal_axis(attrs_of<AxisAttrs>(call).axis, int64_t(shape.size()));
  return {te::compute(
      shape,
      [&](const Vars& v) {
        const Shape at = drop_axes(indices(v), {axis});
        PrimExpr value = in.back()(at);
        for (size_t i = in.size() - 1; i-- > 0;)
          value = tir::if_then_else(tir::eq(v[size_t(axis)], PrimExpr(int64_t(i))), in[i](at), value);
        return value;
      },
      "stack")};
}

Type infer_swap(InferContext& ctx) {
  const auto& x = ctx.tensor(0);
  Shape out;
  if (!ctx.expect_shape(x, "x", out)) return {};
  const auto& given = ctx.attrs<AxesAttrs>().axes;
  if (given.size() != 2) return ctx.error(fmt::format("{} axes are given, two are needed", given.size()));
  for (int64_t axis : given)
    if (!ctx.expect_axis(axis, x.ndim)) return {};
  const auto axes = normal_axes(given, x.ndim, false);
  const PrimExpr first = out[size_t(axes[0])];
  out.set(size_t(axes[0]), out[size_t(axes[1])]);
  out.set(size_t(axes[1]), first);
  return make_type(out, x.ndim, x.dtype);
}
Tensors def_swap(const Call& call, const Tensors& in) {
  const auto axes = normal_axes(attrs_of<AxesAttrs>(call).axes, int64_t(in[0].ndim()), false);
  return {te::compute(
      output_info(call).shape,
      [&](const Vars& v) {
        Shape at = indices(v);
        at.set(size_t(axes[0]), v[size_t(axes[1])]);
        at.set(size_t(axes[1]), v[size_t(axes[0])]);
        return in[0](at);
      },
      "swap_axes")};
}

/// The axis of each shift: those given, or the first ones.
std::vector<int64_t> rolled_axes(const RollAttrs& a, int64_t ndim) {
  std::vector<int64_t> axes;
  for (size_t i = 0; i < a.shift.size(); ++i)
    axes.push_back(normal_axis(a.axes.empty() ? int64_t(i) : a.axes[i], ndim));
  return axes;
}
Type infer_roll(InferContext& ctx) {
  const auto& x = ctx.tensor(0);
  const auto& a = ctx.attrs<RollAttrs>();
  if (!a.axes.empty() && a.axes.size() != a.shift.size())
    return ctx.error(fmt::format("{} shifts for {} axes", a.shift.size(), a.axes.size()));
  if (x.ndim >= 0)
    for (size_t i = 0; i < a.shift.size(); ++i)
      if (!ctx.expect_axis(a.axes.empty() ? int64_t(i) : a.axes[i], x.ndim)) return {};
  return like(x, x.dtype);
}
Tensors def_roll(const Call& call, const Tensors& in) {
  const auto& a = attrs_of<RollAttrs>(call);
  const auto axes = rolled_axes(a, int64_t(in[0].ndim()));
  return {te::compute(
      output_info(call).shape,
      [&](const Vars& v) {
        Shape at = indices(v);
        for (size_t i = 0; i < axes.size(); ++i) {
          const auto d = size_t(axes[i]);
          at.set(d, tir::floormod(at[d] - a.shift[i], in[0].shape()[d]));
        }
        return in[0](at);
      },
      "roll")};
}

// ---------------------------------------------------------------- like another tensor
Type infer_broadcast_like(InferContext& ctx) {
  const auto& x = ctx.tensor(0);
  Shape have, want;
  if (!ctx.expect_shape(x, "x", have) || !ctx.expect_shape(ctx.tensor(1), "like", want)) return {};
  if (!ctx.require_broadcast_to(have, want))
    return ctx.error(fmt::format("{} does not broadcast to {}", show(have), show(want)));
  return make_type(want, int64_t(want.size()), x.dtype);
}
Tensors def_broadcast_like(const Call& call, const Tensors& in) {
  const Shape shape = output_info(call).shape;
  return {te::compute(
      shape, [&](const Vars& v) { return broadcast_at(in[0], shape, indices(v)); }, "broadcast_like")};
}
Type infer_reshape_like(InferContext& ctx) {
  const auto& x = ctx.tensor(0);
  Shape have, want;
  if (!ctx.expect_shape(x, "x", have) || !ctx.expect_shape(ctx.tensor(1), "like", want)) return {};
  if (!ctx.require_equal(simplify(product(have)), simplify(product(want))))
    return ctx.error(
        fmt::format("{} cannot become {}: the numbers of elements differ", show(have), show(want)));
  return make_type(want, int64_t(want.size()), x.dtype);
}
Tensors def_reshape_like(const Call& call, const Tensors& in) {
  return {reshape_to(in[0], output_info(call).shape, "reshape_like")};
}
Type infer_slice_like(InferContext& ctx) {
  const auto& x = ctx.tensor(0);
  Shape out;
  if (!ctx.expect_shape(x, "x", out)) return {};
  Shape want;
  if (!ctx.expect_shape(ctx.tensor(1), "like", want)) return {};
  Array<int64_t> axes = ctx.attrs<AxesAttrs>().axes;
  if (axes.empty())
    for (size_t i = 0; i < std::min(out.size(), want.size()); ++i) axes.push_back(int64_t(i));
  if (!ctx.expect_axes(axes, int64_t(out.size()))) return {};
  for (int64_t a : normal_axes(axes, int64_t(out.size()))) {
    if (size_t(a) >= want.size()) return ctx.error(fmt::format("axis {} is not one of {}", a, show(want)));
    auto n = tir::as_int(out[size_t(a)]), m = tir::as_int(want[size_t(a)]);
    if (n && m && *m > *n)
      return ctx.error(fmt::format("{} has {} elements on axis {}, {} are wanted", show(out), *n, a, *m));
    out.set(size_t(a), want[size_t(a)]);
  }
  return make_type(out, x.ndim, x.dtype);
}
Tensors def_slice_like(const Call& call, const Tensors& in) {
  return {
      te::compute(output_info(call).shape, [&](const Vars& v) { return in[0](indices(v)); }, "slice_like")};
}

// ---------------------------------------------------------------- sequences
Type infer_reverse_sequence(InferContext& ctx) {
  const auto& x = ctx.tensor(0);
  const auto& a = ctx.attrs<SequenceAttrs>();
  if (!ctx.expect_integers(1)) return {};
  Shape s, lengths;
  if (!ctx.expect_shape(x, "x", s) || !ctx.expect_shape(ctx.tensor(1), "lengths", lengths)) return {};
  if (!ctx.expect_axis(a.seq_axis, x.ndim)) return {};
  if (!ctx.expect_axis(a.batch_axis, x.ndim)) return {};
  const auto steps = normal_axis(a.seq_axis, x.ndim), batch = normal_axis(a.batch_axis, x.ndim);
  if (steps == batch) return ctx.error("steps and sequences are on the same axis");
  if (lengths.size() != 1 || !ctx.require_equal(lengths[0], s[size_t(batch)]))
    return ctx.error(fmt::format("lengths {} for {} sequences", show(lengths), show({s[size_t(batch)]})));
  return like(x, x.dtype);
}
Tensors def_reverse_sequence(const Call& call, const Tensors& in) {
  const auto& a = attrs_of<SequenceAttrs>(call);
  const auto n = int64_t(in[0].ndim());
  const auto steps = size_t(normal_axis(a.seq_axis, n)), batch = size_t(normal_axis(a.batch_axis, n));
  return {te::compute(
      output_info(call).shape,
      [&](const Vars& v) {
        Shape at = indices(v);
        const PrimExpr whole = in[0].shape()[steps];
        const PrimExpr length = tir::max(tir::min(tir::cast(i64, in[1]({v[batch]})), whole), PrimExpr(0));
        at.set(steps,
               tir::if_then_else(tir::lt(v[steps], length), length - 1 - v[steps], PrimExpr(v[steps])));
        return in[0](at);
      },
      "reverse_sequence")};
}
Type infer_sequence_mask(InferContext& ctx) {
  const auto& x = ctx.tensor(0);
  if (!ctx.expect_integers(1)) return {};
  Shape s, lengths;
  if (!ctx.expect_shape(x, "x", s) || !ctx.expect_shape(ctx.tensor(1), "lengths", lengths)) return {};
  const int64_t axis = ctx.attrs<MaskAttrs>().axis;
  if (axis != 0 && axis != 1) return ctx.error(fmt::format("axis {} of the steps is neither 0 nor 1", axis));
  if (s.size() < 2 || lengths.size() != 1 || !ctx.require_equal(lengths[0], s[size_t(1 - axis)]))
    return ctx.error(fmt::format("lengths {} for sequences of {}", show(lengths), show(s)));
  return like(x, x.dtype);
}
Tensors def_sequence_mask(const Call& call, const Tensors& in) {
  const auto& a = attrs_of<MaskAttrs>(call);
  return {te::compute(
      output_info(call).shape,
      [&](const Vars& v) {
        const PrimExpr keep = tir::lt(v[size_t(a.axis)], tir::cast(i64, in[1]({v[size_t(1 - a.axis)]})));
        return tir::select(keep, in[0](indices(v)), constant(in[0].dtype(), a.value));
      },
      "sequence_mask")};
}
Type infer_masked_fill(InferContext& ctx) {
  const auto &x = ctx.tensor(0), &mask = ctx.tensor(1);
  if (!mask.dtype.is_bool()) return ctx.error("the mask must be boolean", "cast it");
  Shape a, b;
  if (!ctx.expect_shape(x, "x", a) || !ctx.expect_shape(mask, "the mask", b)) return {};
  if (!ctx.require_broadcast_to(b, a))
    return ctx.error(fmt::format("mask {} does not broadcast to x {}", show(b), show(a)));
  return like(x, x.dtype);
}
Tensors def_masked_fill(const Call& call, const Tensors& in) {
  const Shape shape = output_info(call).shape;
  return {te::compute(
      shape,
      [&](const Vars& v) {
        return tir::select(broadcast_at(in[1], shape, indices(v)),
                           constant(in[0].dtype(), attrs_of<MaskAttrs>(call).value), in[0](indices(v)));
      },
      "masked_fill")};
}

// ---------------------------------------------------------------- dilate, blocks, windows
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

// ---------------------------------------------------------------- diagonals, products of vectors
Type infer_trace(InferContext& ctx) {
  const auto& x = ctx.tensor(0);
  if (!ctx.expect_domain(x.dtype, Domain::number)) return {};
  Shape s;
  if (!ctx.expect_shape(x, "x", s)) return {};
  if (s.size() < 2) return ctx.error(fmt::format("{} is no matrix", show(s)));
  return make_type(drop_axes(s, {x.ndim - 2, x.ndim - 1}), x.ndim - 2, x.dtype);
}
Tensors def_trace(const Call& call, const Tensors& in) {
  const te::Tensor& x = in[0];
  const int64_t offset = attrs_of<OffsetAttrs>(call).offset;
  const PrimExpr rows = x.shape()[x.ndim() - 2], columns = x.shape()[x.ndim() - 1];
  const PrimExpr length = simplify(tir::max(
      tir::min(rows - std::max<int64_t>(0, -offset), columns - std::max<int64_t>(0, offset)), PrimExpr(0)));
  const tir::IterVar k = te::reduce_axis(tir::range(PrimExpr(0), length), "k");
  const te::Tensor sum = te::compute(
      output_info(call).shape,
      [&](const Vars& v) {
        Shape at = indices(v);
        at.push_back(k->var + std::max<int64_t>(0, -offset));
        at.push_back(k->var + std::max<int64_t>(0, offset));
        return te::sum(wide(x(at)), {k});
      },
      "trace");
  return {cast_to(sum, x.dtype())};
}
Type infer_set_diag(InferContext& ctx) {
  const auto& x = ctx.tensor(0);
  if (!ctx.expect_same_type(ctx.tensor(0).dtype, ctx.tensor(1).dtype)) return {};
  const DataType dtype = ctx.tensor(0).dtype;
  Shape s, d;
  if (!ctx.expect_shape(x, "x", s) || !ctx.expect_shape(ctx.tensor(1), "diagonal", d)) return {};
  bool fits = s.size() >= 2 && d.size() + 1 == s.size();
  if (fits) {
    const PrimExpr least = simplify(tir::min(s[s.size() - 2], s[s.size() - 1]));
    fits = ctx.require_equal(d[d.size() - 1], least);
    for (size_t i = 0; i + 2 < s.size(); ++i) fits = fits && ctx.require_equal(d[i], s[i]);
  }
  if (!fits) return ctx.error(fmt::format("{} is no diagonal of {}", show(d), show(s)));
  return like(x, dtype);
}
Tensors def_set_diag(const Call& call, const Tensors& in) {
  return {te::compute(
      output_info(call).shape,
      [&](const Vars& v) {
        const Shape at = indices(v);
        const Shape own = drop_axes(at, {int64_t(at.size()) - 1});
        return tir::if_then_else(tir::eq(at[at.size() - 2], at[at.size() - 1]), in[1](own), in[0](at));
      },
      "matrix_set_diag")};
}

Type infer_vectors(InferContext& ctx, bool outer) {
  if (!ctx.expect_same_type(ctx.tensor(0).dtype, ctx.tensor(1).dtype)) return {};
  const DataType dtype = ctx.tensor(0).dtype;
  if (!ctx.expect_domain(dtype, Domain::number)) return {};
  Shape a, b;
  if (!ctx.expect_shape(ctx.tensor(0), "a", a) || !ctx.expect_shape(ctx.tensor(1), "b", b)) return {};
  if (a.size() != 1 || b.size() != 1 || (!outer && !ctx.require_equal(a[0], b[0])))
    return ctx.error(
        fmt::format("{} and {} are no two vectors{}", show(a), show(b), outer ? "" : " of one length"));
  return make_type(outer ? Shape{a[0], b[0]} : Shape(), outer ? 2 : 0, dtype);
}
Tensors def_outer(const Call& call, const Tensors& in) {
  return {te::compute(
      output_info(call).shape,
      [&](const Vars& v) { return tir::cast(in[0].dtype(), wide(in[0]({v[0]})) * wide(in[1]({v[1]}))); },
      "outer")};
}
Tensors def_dot(const Call&, const Tensors& in) {
  const tir::IterVar k = te::reduce_axis(tir::range(PrimExpr(0), in[0].shape()[0]), "k");
  return {cast_to(
      te::compute(
          Shape(), [&](const Vars&) { return te::sum(wide(in[0]({k->var})) * wide(in[1]({k->var})), {k}); },
          "dot"),
      in[0].dtype())};
}
Type infer_cross(InferContext& ctx) {
  if (!ctx.expect_same_type(ctx.tensor(0).dtype, ctx.tensor(1).dtype)) return {};
  const DataType dtype = ctx.tensor(0).dtype;
  if (!ctx.expect_domain(dtype, Domain::signed_number)) return {};
  Shape a, b;
  if (!ctx.expect_shape(ctx.tensor(0), "a", a) || !ctx.expect_shape(ctx.tensor(1), "b", b)) return {};
  if (a.empty() || !ctx.require_equal(a, b) || !ctx.require_equal(a.back(), PrimExpr(3)))
    return ctx.error(
        fmt::format("{} and {} are not both vectors of three along the last axis", show(a), show(b)));
  return like(ctx.tensor(0), dtype);
}
Tensors def_cross(const Call& call, const Tensors& in) {
  return {te::compute(
      output_info(call).shape,
      [&](const Vars& v) {
        auto element = [&](const te::Tensor& t, int64_t step) {
          Shape at = indices(v);
          at.set(at.size() - 1, tir::floormod(at[at.size() - 1] + step, PrimExpr(3)));
          return wide(t(at));
        };
        return tir::cast(in[0].dtype(),
                         element(in[0], 1) * element(in[1], 2) - element(in[0], 2) * element(in[1], 1));
      },
      "cross")};
}
Type infer_kron(InferContext& ctx) {
  if (!ctx.expect_same_type(ctx.tensor(0).dtype, ctx.tensor(1).dtype)) return {};
  const DataType dtype = ctx.tensor(0).dtype;
  if (!ctx.expect_domain(dtype, Domain::number)) return {};
  Shape a, b;
  if (!ctx.expect_shape(ctx.tensor(0), "a", a) || !ctx.expect_shape(ctx.tensor(1), "b", b)) return {};
  if (a.size() != 2 || b.size() != 2)
    return ctx.error(fmt::format("{} and {} are no matrices", show(a), show(b)));
  return make_type(Shape{simplify(a[0] * b[0]), simplify(a[1] * b[1])}, 2, dtype);
}
Tensors def_kron(const Call& call, const Tensors& in) {
  return {te::compute(
      output_info(call).shape,
      [&](const Vars& v) {
        Shape outer, inner;
        for (size_t i = 0; i < 2; ++i) {
          outer.push_back(tir::floordiv(v[i], in[1].shape()[i]));
          inner.push_back(tir::floormod(v[i], in[1].shape()[i]));
        }
        return tir::cast(in[0].dtype(), wide(in[0](outer)) * wide(in[1](inner)));
      },
      "kron")};
}

/// Number of elements of a sorted vector before (right: not behind) each value: where it would be put in.
Type infer_searchsorted(InferContext& ctx) {
  if (!ctx.expect_same_type(ctx.tensor(0).dtype, ctx.tensor(1).dtype)) return {};
  const auto& values = ctx.tensor(1);
  Shape s, looked_for;
  if (!ctx.expect_shape(ctx.tensor(0), "sorted", s) || !ctx.expect_shape(values, "values", looked_for))
    return {};
  if (s.size() != 1) return ctx.error(fmt::format("{} is no vector", show(s)));
  return make_type(looked_for, values.ndim, i64);
}
Tensors def_searchsorted(const Call& call, const Tensors& in) {
  // 63 halvings end for every vector; each keeps the number of elements that are known to come first.
  const bool right = attrs_of<RightAttrs>(call).right;
  const PrimExpr n = in[0].shape()[0];
  int steps = 63;
  if (auto k = tir::as_int(n)) {
    steps = 0;
    while (steps < 62 && (int64_t(1) << steps) <= *k) ++steps;
  }
  return {te::compute(
      output_info(call).shape,
      [&](const Vars& v) {
        const PrimExpr value = in[1](indices(v));
        PrimExpr first = 0;
        for (int s = steps; s-- > 0;) {
          const tir::VarRef low = tir::var("first");
          const PrimExpr next = low + (int64_t(1) << s);
          PrimExpr there = in[0]({tir::max(tir::min(next, n) - 1, PrimExpr(0))});
          if (!tir::as_int(n)) there = tir::if_then_else(tir::gt(n, PrimExpr(0)), there, like(there, 0));
          const PrimExpr before = right ? tir::le(there, value) : tir::lt(there, value);
          first = make<tir::Let>(
              low, first, tir::select(tir::logical_and(tir::le(next, n), before), next, PrimExpr(low)));
        }
        return first;
      },
      "searchsorted")};
}

// ---------------------------------------------------------------- gates and lengths
Type infer_glu(InferContext& ctx) {
  const auto& x = ctx.tensor(0);
  if (!ctx.expect_domain(x.dtype, Domain::floating)) return {};
  Shape out;
  if (!ctx.expect_shape(x, "x", out)) return {};
  if (!ctx.expect_axis(ctx.attrs<AxisAttrs>().axis, x.ndim)) return {};
  const auto axis = size_t(normal_axis(ctx.attrs<AxisAttrs>().axis, x.ndim));
  if (!ctx.require_multiple(out[axis], 2))
    return ctx.error(fmt::format("axis {} of {} has no two halves", axis, show(out)));
  out.set(axis, simplify(tir::floordiv(out[axis], PrimExpr(2))));
  return make_type(out, x.ndim, x.dtype);
}
Tensors def_glu(const Call& call, const Tensors& in) {
  const Shape shape = output_info(call).shape;
  const auto axis = size_t(normal_axis(attrs_of<AxisAttrs>(call).axis, int64_t(in[0].ndim())));
  return {te::compute(
      shape,
      [&](const Vars& v) {
        Shape gate = indices(v);
        gate.set(axis, gate[axis] + shape[axis]);
        return tir::cast(in[0].dtype(), wide(in[0](indices(v))) * tir::sigmoid(wide(in[0](gate))));
      },
      "glu")};
}
Type infer_normalize(InferContext& ctx) {
  const auto& x = ctx.tensor(0);
  if (!ctx.expect_domain(x.dtype, Domain::floating)) return {};
  if (!ctx.expect_axis(ctx.attrs<NormalizeAttrs>().axis, x.ndim)) return {};
  return like(x, x.dtype);
}
Tensors def_normalize(const Call& call, const Tensors& in) {
  const auto& a = attrs_of<NormalizeAttrs>(call);
  const te::Tensor& x = in[0];
  const auto axis = normal_axis(a.axis, int64_t(x.ndim()));
  const te::Tensor squares = reduce_over(
      x, {axis}, false, te::sum, [](const PrimExpr& e, const Shape&) { return wide(e) * wide(e); },
      "squares");
  return {te::compute(
      output_info(call).shape,
      [&](const Vars& v) {
        const PrimExpr length = tir::sqrt(squares(drop_axes(indices(v), {axis})));
        const PrimExpr least = constant(length.dtype(), a.epsilon);
        return tir::cast(x.dtype(), tir::div(wide(x(indices(v))), tir::max(length, least)));
      },
      "l2_normalize")};
}

const bool arrange_registered = [] {
  struct Argument {
    const char *name, *type, *doc;
  };
  auto add = [](OpName name, const char* doc, std::vector<Argument> arguments, FusionKind kind,
                InferType infer, TensorDef def) {
    auto op =
        register_op(std::move(name), doc).infer(std::move(infer)).fusion(kind).tensor_def(std::move(def));
    for (const Argument& a : arguments) op.argument(a.name, a.type, a.doc);
    return op;
  };
  const Argument x{"x", "Tensor", "the operand"}, other{"like", "Tensor", "gives the shape"},
      a{"a", "Tensor", "left operand"}, b{"b", "Tensor", "right operand"};
  const auto injective = FusionKind::injective, opaque = FusionKind::opaque;
  add("stack", "Tensors of one shape along a new axis.", {{"tensors", "Tuple", "the parts"}}, injective,
      infer_stack, def_stack)
      .attrs<AxisAttrs>();
  add("swap_axes", "Two axes change places.", {x}, injective, infer_swap, def_swap).attrs<AxesAttrs>();
  add("roll", "Elements move along axes; those that leave come in at the other end.", {x}, injective,
      infer_roll, def_roll)
      .attrs<RollAttrs>();
  add("broadcast_like", "x in the shape of another tensor.", {x, other}, FusionKind::broadcast,
      infer_broadcast_like, def_broadcast_like);
  add("reshape_like", "The elements of x in the shape of another tensor.", {x, other}, injective,
      infer_reshape_like, def_reshape_like);
  add("slice_like", "The front of x, as long as another tensor on the given axes (all).", {x, other},
      injective, infer_slice_like, def_slice_like)
      .attrs<AxesAttrs>();
  add("reverse_sequence", "The first lengths[b] steps of each sequence in reverse order.",
      {x, {"lengths", "Tensor", "steps per sequence; clipped to those there are"}}, injective,
      infer_reverse_sequence, def_reverse_sequence)
      .attrs<SequenceAttrs>();
  add("sequence_mask", "Steps from lengths[b] on become a value.",
      {x, {"lengths", "Tensor", "steps that stay, per sequence"}}, injective, infer_sequence_mask,
      def_sequence_mask)
      .attrs<MaskAttrs>();
  add("masked_fill", "A value where the mask holds.", {x, {"mask", "Tensor", "booleans, broadcast to x"}},
      injective, infer_masked_fill, def_masked_fill)
      .attrs<MaskAttrs>();
  add("dilate", "Elements apart from one another, a value between them.", {x}, injective, infer_dilate,
      def_dilate)
      .attrs<DilateAttrs>();
  add("space_to_batch_nd",
      "Blocks of the axes behind the batch become batches: (n, h·b, w·b, …) → (b·b·n, h, w, …).", {x},
      injective, infer_space_to_batch, def_space_to_batch)
      .attrs<BlockAttrs>();
  add("batch_to_space_nd",
      "Batches become blocks of the axes behind them: (b·b·n, h, w, …) → (n, h·b, w·b, …).", {x}, injective,
      infer_batch_to_space, def_batch_to_space)
      .attrs<BlockAttrs>();
  add("im2col", "Windows as columns: (n, c, spatial…) → (n, c · window, places).", {x}, injective,
      infer_im2col, def_im2col)
      .attrs<UnfoldAttrs>();
  add("channel_shuffle", "The channels of groups, taken in turn.", {x}, injective, infer_channel_shuffle,
      def_channel_shuffle)
      .attrs<GroupsAttrs>();
  add("trace", "Sum of a diagonal of the last two axes.", {x}, FusionKind::comm_reduce, infer_trace,
      def_trace)
      .attrs<OffsetAttrs>();
  add("matrix_set_diag", "x with another main diagonal.", {x, {"diagonal", "Tensor", "its elements"}},
      injective, infer_set_diag, def_set_diag);
  add(
      "outer", "aᵢ · bⱼ.", {a, b}, injective, [](InferContext& ctx) { return infer_vectors(ctx, true); },
      def_outer);
  add(
      "dot", "Σ aᵢ · bᵢ of two vectors.", {a, b}, FusionKind::comm_reduce,
      [](InferContext& ctx) { return infer_vectors(ctx, false); }, def_dot);
  add("cross", "Vector product along the last axis, which has three elements.", {a, b}, injective,
      infer_cross, def_cross);
  add("kron", "Kronecker product of two matrices.", {a, b}, injective, infer_kron, def_kron);
  add("searchsorted", "Where each value would be put into a sorted vector.",
      {{"sorted", "Tensor", "a vector in rising order"}, {"values", "Tensor", "what is looked for"}}, opaque,
      infer_searchsorted, def_searchsorted)
      .attrs<RightAttrs>();
  add("nn.glu", "The first half of an axis times sigmoid of the second.", {x}, injective, infer_glu, def_glu)
      .attrs<AxisAttrs>();
  add("nn.l2_normalize", "Vectors along an axis divided by their length.", {x}, FusionKind::comm_reduce,
      infer_normalize, def_normalize)
      .attrs<NormalizeAttrs>();
  return true;
}();

}  // namespace
}  // namespace tenon::op

template struct tenon::DefineTypes<tenon::op::RollAttrs, tenon::op::SequenceAttrs, tenon::op::MaskAttrs,
                                   tenon::op::DilateAttrs, tenon::op::BlockAttrs, tenon::op::GroupsAttrs,
                                   tenon::op::OffsetAttrs, tenon::op::RightAttrs, tenon::op::UnfoldAttrs,
                                   tenon::op::NormalizeAttrs, tenon::op::AxisAttrs, tenon::op::AxesAttrs>;
