// SPDX-License-Identifier: Apache-2.0
// Operators that place elements anew: stack, swap_axes, roll, shapes like another tensor's, sequences, gates.
#include <fmt/format.h>

#include <algorithm>

#include "base/define_type.h"
#include "op/attrs_arrange.h"
#include "op/family.h"

namespace tenon::op {
namespace {

using Tensors = std::vector<te::Tensor>;

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
  const Argument x{"x", "Tensor", "the operand"}, other{"like", "Tensor", "gives the shape"};
  const auto injective = FusionKind::injective;
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
  add("nn.glu", "The first half of an axis times sigmoid of the second.", {x}, injective, infer_glu, def_glu)
      .attrs<AxisAttrs>();
  return true;
}();

}  // namespace
}  // namespace tenon::op

template struct tenon::DefineTypes<tenon::op::RollAttrs, tenon::op::SequenceAttrs, tenon::op::MaskAttrs,
                                   tenon::op::AxisAttrs, tenon::op::AxesAttrs>;
