// SPDX-License-Identifier: Apache-2.0
// Normalisations, bias and dropout. Statistics are taken in at least 32 bits, in two passes over a
// row, or over each block of it.
#include <fmt/format.h>

#include <algorithm>

#include "op/family.h"
#include "op/folds.h"
#include "op/layout_rule.h"

#include "base/define_type.h"

namespace tenon::op {
namespace {

using Tensors = std::vector<te::Tensor>;

/// Argument i is a vector of the operand's size on the axis, or has the shape of the axes.
bool expect_parameter(InferContext& ctx, size_t i, const graph::TensorType& x,
                      const std::vector<int64_t>& axes) {
  const auto& p = ctx.tensor(i);
  if (p.dtype != x.dtype && !p.dtype.is_void() && !x.dtype.is_void())
    return ctx.error(fmt::format("{} has the element type {}, x has {}", ctx.name(i), to_string(p.dtype),
                                 to_string(x.dtype)),
                     "cast one of them");
  auto have = shape_of(p), all = shape_of(x);
  if (!have || !all) return true;
  Shape wanted;
  for (int64_t a : axes) wanted.push_back((*all)[size_t(a)]);
  if (ctx.require_equal(*have, wanted)) return true;
  return ctx.error(
      fmt::format("{} has the shape {}, x {} wants {}", ctx.name(i), show(*have), show(*all), show(wanted)));
}

/// The type that expect_parameter wants.
Type parameter_along(const graph::TensorType& x, const std::vector<int64_t>& axes) {
  const auto all = shape_of(x);
  if (!all) return make_type(std::nullopt, int64_t(axes.size()), x.dtype);
  Shape out;
  for (int64_t a : axes) out.push_back((*all)[size_t(a)]);
  return make_type(out, 0, x.dtype);
}
/// Of operators whose other arguments lie along one axis of x.
Type parameter_of_axis(InferContext& ctx, int64_t axis) {
  const auto& x = ctx.tensor(0);
  if (x.ndim < 0 || !ctx.expect_axis(axis, x.ndim)) return {};
  return parameter_along(x, {normal_axis(axis, x.ndim)});
}

/// The type of x, real numbers; the other arguments are parameters along its axes.
Type infer_norm(InferContext& ctx, const graph::TensorType& x, const std::vector<int64_t>& axes) {
  if (!ctx.expect_domain(x.dtype, Domain::floating)) return {};
  for (size_t i = 1; i < ctx.size(); ++i)
    if (!expect_parameter(ctx, i, x, axes)) return {};
  return like(x, x.dtype);
}

PrimExpr mean_of(const te::Tensor& sum, const Shape& at, const PrimExpr& count) {
  const PrimExpr s = sum(at);
  return tir::div(s, tir::cast(s.dtype(), count));
}
PrimExpr inverse_deviation(const PrimExpr& variance, double epsilon) {
  return tir::call(variance.dtype(), "tir.rsqrt", {variance + constant(variance.dtype(), epsilon)});
}

/// Stages of a program stand in the order in which they are read: by blocks the squares come first, which
/// need nothing between them and the sums of blocks.
PrimExpr normalized(const PrimExpr& centred, const PrimExpr& variance, double epsilon,
                    const Blocked& blocks) {
  const PrimExpr scale = inverse_deviation(variance, epsilon);
  return blocks ? scale * centred : centred * scale;
}

// ---------------------------------------------------------------- batch norm
Type infer_batch_norm(InferContext& ctx) {
  const auto& x = ctx.tensor(0);
  if (x.ndim < 0) return like(x, x.dtype);
  if (!ctx.expect_axis(ctx.attrs<BatchNormAttrs>().axis, x.ndim)) return {};
  return infer_norm(ctx, x, {normal_axis(ctx.attrs<BatchNormAttrs>().axis, x.ndim)});
}

Tensors def_batch_norm(const Call& call, const Tensors& in) {
  const auto& a = attrs_of<BatchNormAttrs>(call);
  const te::Tensor& x = in[0];
  const auto axis = size_t(normal_axis(a.axis, int64_t(x.ndim())));
  return {te::compute(
      x.shape(),
      [&](const Vars& v) {
        const Shape c{v[axis]};
        PrimExpr scale = inverse_deviation(wide(in[4](c)), a.epsilon);
        if (a.scale) scale = scale * wide(in[1](c));
        PrimExpr y = (wide(x(indices(v))) - wide(in[3](c))) * scale;
        if (a.center) y = y + wide(in[2](c));
        return tir::cast(x.dtype(), y);
      },
      "batch_norm")};
}

// ---------------------------------------------------------------- layer norm, rms norm
std::vector<int64_t> layer_axes(const LayerNormAttrs& a, int64_t ndim) {
  return normal_axes(a.axes.empty() ? Array<int64_t>{-1} : a.axes, ndim);
}

Type infer_layer_norm(InferContext& ctx) {
  const auto& x = ctx.tensor(0);
  if (x.ndim < 0) return like(x, x.dtype);
  const auto& a = ctx.attrs<LayerNormAttrs>();
  if (!ctx.expect_axes(a.axes.empty() ? Array<int64_t>{-1} : a.axes, x.ndim)) return {};
  return infer_norm(ctx, x, layer_axes(a, x.ndim));
}
Type layer_parameter(InferContext& ctx, size_t) {
  const auto& x = ctx.tensor(0);
  const auto& a = ctx.attrs<LayerNormAttrs>();
  if (x.ndim < 0 || !ctx.expect_axes(a.axes.empty() ? Array<int64_t>{-1} : a.axes, x.ndim)) return {};
  return parameter_along(x, layer_axes(a, x.ndim));
}

Tensors def_layer_norm(const Call& call, const Tensors& in, bool centred, const Blocked& blocks) {
  const auto& a = attrs_of<LayerNormAttrs>(call);
  const te::Tensor& x = in[0];
  const auto axes = layer_axes(a, int64_t(x.ndim()));
  const PrimExpr count = product(only_axes(x.shape(), axes));
  const std::string name = short_name(call);
  Statistics of;  // sum and squares
  if (blocks) of = sums_by_blocks(rows_along(x, axes), *blocks, name);
  if (centred && !blocks)
    of.first = reduce_over(
        x, axes, false, te::sum, [](const PrimExpr& e, const Shape&) { return wide(e); }, name + "_sum");
  auto from_mean = [&](const PrimExpr& e, const Shape& at) {
    return centred ? wide(e) - mean_of(of.first, drop_axes(at, axes), count) : wide(e);
  };
  if (!blocks)
    of.second = reduce_over(
        x, axes, false, te::sum,
        [&](const PrimExpr& e, const Shape& at) {
          const PrimExpr d = from_mean(e, at);
          return d * d;
        },
        name + "_squares");
  return {te::compute(
      x.shape(),
      [&](const Vars& v) {
        const Shape at = indices(v), own = only_axes(at, axes);
        PrimExpr y = normalized(from_mean(x(at), at), mean_of(of.second, drop_axes(at, axes), count),
                                a.epsilon, blocks);
        if (a.scale && in.size() > 1) y = y * wide(in[1](own));
        if (a.center && in.size() > 2) y = y + wide(in[2](own));
        return tir::cast(x.dtype(), y);
      },
      name)};
}

// ---------------------------------------------------------------- group norm, instance norm
struct Groups {
  size_t axis;
  PrimExpr groups, channels;  ///< channels per group
  double epsilon;
  bool center, scale;
  std::vector<size_t> kept, folded;  ///< the other axes: with statistics of their own, and not
};

Shape folded_by(const Groups& g, const Shape& x) {
  Shape out{g.channels};
  for (size_t i : g.folded) out.push_back(x[i]);
  return out;
}

/// Where an element of a group lies: `statistic` without the group, then the group.
Shape index_in_group(const Groups& g, size_t rank, const Shape& statistic, const Shape& at) {
  Shape out;
  out.resize(rank, PrimExpr(0));
  for (size_t i = 0; i < g.kept.size(); ++i) out.set(g.kept[i], statistic[i]);
  out.set(g.axis, statistic[g.kept.size()] * g.channels + at[0]);
  for (size_t i = 0; i < g.folded.size(); ++i) out.set(g.folded[i], at[i + 1]);
  return out;
}

Tensors def_groups(const Call& call, const Tensors& in, const Groups& g, const Blocked& blocks) {
  const te::Tensor& x = in[0];
  const std::string name = short_name(call);
  Shape shape;
  for (size_t i : g.kept) shape.push_back(x.shape()[i]);
  shape.push_back(g.groups);
  PrimExpr count = g.channels;
  for (size_t i : g.folded) count = count * x.shape()[i];
  auto fold = [&](const std::function<PrimExpr(const PrimExpr& e, const Shape& statistic)>& f,
                  const std::string& stage) {
    Array<tir::IterVar> ks{te::reduce_axis(tir::range(PrimExpr(0), g.channels), "rc")};
    for (size_t i : g.folded)
      ks.push_back(te::reduce_axis(tir::range(PrimExpr(0), x.shape()[i]), fmt::format("r{}", i)));
    return te::compute(
        shape,
        [&](const Vars& v) {
          Shape at;
          for (const tir::IterVar& k : ks) at.push_back(k->var);
          return te::sum(f(wide(x(index_in_group(g, x.ndim(), indices(v), at))), indices(v)), ks);
        },
        stage);
  };
  Statistics of;  // sum and squares
  if (blocks) {
    const auto element = [&](const Shape& row, const Shape& at) {
      return wide(x(index_in_group(g, x.ndim(), row, at)));
    };
    of = sums_by_blocks({shape, folded_by(g, x.shape()), element}, *blocks, name);
  } else {
    of.first = fold([](const PrimExpr& e, const Shape&) { return e; }, name + "_sum");
    of.second = fold(
        [&](const PrimExpr& e, const Shape& s) {
          const PrimExpr d = e - mean_of(of.first, s, count);
          return d * d;
        },
        name + "_squares");
  }
  return {te::compute(
      x.shape(),
      [&](const Vars& v) {
        Shape s;
        for (size_t i : g.kept) s.push_back(v[i]);
        s.push_back(tir::is_one(g.channels) ? PrimExpr(v[g.axis]) : tir::floordiv(v[g.axis], g.channels));
        const Shape c{v[g.axis]};
        PrimExpr y = normalized(wide(x(indices(v))) - mean_of(of.first, s, count),
                                mean_of(of.second, s, count), g.epsilon, blocks);
        if (g.scale && in.size() > 1) y = y * wide(in[1](c));
        if (g.center && in.size() > 2) y = y + wide(in[2](c));
        return tir::cast(x.dtype(), y);
      },
      name)};
}

Type infer_group_norm(InferContext& ctx) {
  const auto& a = ctx.attrs<GroupNormAttrs>();
  const auto& x = ctx.tensor(0);
  if (a.num_groups < 1) return ctx.error(fmt::format("{} groups", a.num_groups));
  if (x.ndim < 0) return like(x, x.dtype);
  if (!ctx.expect_axis(a.channel_axis, x.ndim, "channel_axis")) return {};
  const int64_t axis = normal_axis(a.channel_axis, x.ndim);
  auto have = shape_of(x);
  if (have && !ctx.require_multiple((*have)[size_t(axis)], a.num_groups))
    return ctx.error(fmt::format("{} channels are not divisible by {} groups",
                                 show_dim((*have)[size_t(axis)]), a.num_groups));
  return infer_norm(ctx, x, {axis});
}

Groups groups_of_channels(const Call& call, const Shape& x) {
  const auto& a = attrs_of<GroupNormAttrs>(call);
  const auto axis = size_t(normal_axis(a.channel_axis, int64_t(x.size())));
  const PrimExpr channels = simplify(tir::floordiv(x[axis], PrimExpr(a.num_groups)));
  Groups g{axis, PrimExpr(a.num_groups), channels, a.epsilon, a.center, a.scale, {}, {}};
  for (size_t i = 0; i < x.size(); ++i)
    if (i != axis) (i < axis ? g.kept : g.folded).push_back(i);
  return g;
}
Groups each_channel(const Call& call, const Shape& x) {
  const auto& a = attrs_of<BatchNormAttrs>(call);
  const auto axis = size_t(normal_axis(a.axis, int64_t(x.size())));
  Groups g{axis, x[axis], PrimExpr(1), a.epsilon, a.center, a.scale, {}, {}};
  for (size_t i = 0; i < x.size(); ++i)
    if (i != axis) (i == 0 ? g.kept : g.folded).push_back(i);
  return g;
}

// ---------------------------------------------------------------- lrn
Type infer_lrn(InferContext& ctx) {
  const auto& a = ctx.attrs<LrnAttrs>();
  const auto& x = ctx.tensor(0);
  if (!ctx.expect_domain(x.dtype, Domain::floating)) return {};
  if (a.size < 1) return ctx.error(fmt::format("size {} is not positive", a.size));
  if (!ctx.expect_axis(a.axis, x.ndim)) return {};
  return like(x, x.dtype);
}

/// base ^ -beta without a power where roots do: beta is 0.75 in every network that has this operator.
PrimExpr divided_by_power(const PrimExpr& x, const PrimExpr& base, double beta) {
  if (beta == 0.5) return tir::div(x, tir::sqrt(base));
  if (beta == 0.75) return tir::div(x, tir::sqrt(base) * tir::sqrt(tir::sqrt(base)));
  if (beta == 1) return tir::div(x, base);
  return tir::div(x, tir::pow(base, constant(base.dtype(), beta)));
}

Tensors def_lrn(const Call& call, const Tensors& in) {
  const auto& a = attrs_of<LrnAttrs>(call);
  const te::Tensor& x = in[0];
  const auto axis = size_t(normal_axis(a.axis, int64_t(x.ndim())));
  const int64_t before = (a.size - 1) / 2;
  auto finish = [&](const Shape& at, const PrimExpr& s) {
    const PrimExpr base = s * constant(s.dtype(), a.alpha / double(a.size)) + constant(s.dtype(), a.bias);
    return tir::cast(x.dtype(), divided_by_power(wide(x(at)), base, a.beta));
  };
  auto square = [&](Shape at, const PrimExpr& channel) {
    at.set(axis, channel);
    const PrimExpr e = wide(x(at));
    const PrimExpr inside =
        tir::logical_and(tir::ge(channel, PrimExpr(0)), tir::lt(channel, x.shape()[axis]));
    return tir::if_then_else(inside, e * e, constant(e.dtype(), 0));
  };
  // A few neighbours are summed in place: the conditions depend on the channel only, and nothing is stored.
  if (a.size <= 8)
    return {te::compute(
        x.shape(),
        [&](const Vars& v) {
          const Shape at = indices(v);
          PrimExpr s = square(at, v[axis] - before);
          for (int64_t k = 1; k < a.size; ++k) s = s + square(at, v[axis] + (k - before));
          return finish(at, s);
        },
        "lrn")};
  const tir::IterVar k = te::reduce_axis(tir::range(PrimExpr(0), PrimExpr(a.size)), "k");
  const te::Tensor squares = te::compute(
      x.shape(), [&](const Vars& v) { return te::sum(square(indices(v), v[axis] + k->var - before), {k}); },
      "lrn_squares");
  return {
      te::compute(x.shape(), [&](const Vars& v) { return finish(indices(v), squares(indices(v))); }, "lrn")};
}

// ---------------------------------------------------------------- bias
Type infer_bias_add(InferContext& ctx) {
  const auto& x = ctx.tensor(0);
  if (!ctx.expect_domain(x.dtype, Domain::number)) return {};
  const int64_t axis = ctx.attrs<AxisAttrs>().axis;
  if (!ctx.expect_axis(axis, x.ndim)) return {};
  if (x.ndim >= 0 && !expect_parameter(ctx, 1, x, {normal_axis(axis, x.ndim)})) return {};
  return like(x, x.dtype);
}

Tensors def_bias_add(const Call& call, const Tensors& in) {
  const te::Tensor& x = in[0];
  const auto axis = size_t(normal_axis(attrs_of<AxisAttrs>(call).axis, int64_t(x.ndim())));
  return {te::compute(
      x.shape(),
      [&](const Vars& v) { return tir::cast(x.dtype(), wide(x(indices(v))) + wide(in[1]({v[axis]}))); },
      "bias_add")};
}

/// A bias along an axis is a sum with a tensor that has extent 1 along the others.
std::optional<LaidOut> layout_of_bias(LayoutContext& ctx) {
  const auto rank = int64_t(ctx.shape.size());
  const auto bias = graph::known_shape(ctx.call.args[1]->type);
  if (!bias || bias->size() != 1) return std::nullopt;
  Shape along;
  along.resize(size_t(rank), PrimExpr(1));
  along.set(size_t(normal_axis(attrs_of<AxisAttrs>(ctx.call).axis, rank)), (*bias)[0]);
  return layout_of_elements(ctx, "add", {}, {ctx.shape, along});
}

const bool norm_registered = [] {
  auto channel = [](InferContext& ctx, size_t) {
    return parameter_of_axis(ctx, ctx.attrs<BatchNormAttrs>().axis);
  };
  auto add = [](OpName name, const char* doc, FusionKind kind, InferType infer, TensorDef def) {
    return register_op(std::move(name), doc, kind, std::move(infer), std::move(def))
        .argument("x", "Tensor", "the operand");
  };
  const auto stages = FusionKind::out_element_wise_fusable;
  add("nn.batch_norm", "(x - mean) / sqrt(variance + epsilon) · gamma + beta, per channel.",
      FusionKind::broadcast, infer_batch_norm, def_batch_norm)
      .argument("gamma", "Tensor", "scale per channel")
      .argument("beta", "Tensor", "shift per channel")
      .argument("mean", "Tensor", "mean per channel")
      .argument("variance", "Tensor", "variance per channel")
      .attrs<BatchNormAttrs>()
      .parameter(channel)
      .layout(keep_layout);
  add("nn.layer_norm", "(x - mean) / sqrt(variance + epsilon) · gamma + beta over the given axes.", stages,
      infer_layer_norm, [](const Call& c, const Tensors& in) { return define_layer_norm(c, in, {}); })
      .argument("gamma", "Tensor", "scale, of the axes' shape", true)
      .argument("beta", "Tensor", "shift, of the axes' shape", true)
      .attrs<LayerNormAttrs>()
      .parameter(layer_parameter);
  add("nn.rms_norm", "x / sqrt(mean(x²) + epsilon) · gamma over the given axes.", stages, infer_layer_norm,
      [](const Call& c, const Tensors& in) { return def_layer_norm(c, in, false, {}); })
      .argument("gamma", "Tensor", "scale, of the axes' shape", true)
      .attrs<LayerNormAttrs>()
      .parameter(layer_parameter);
  add("nn.group_norm", "Normalises each group of channels with all axes behind them.", stages,
      infer_group_norm, [](const Call& c, const Tensors& in) { return define_group_norm(c, in, {}); })
      .argument("gamma", "Tensor", "scale per channel")
      .argument("beta", "Tensor", "shift per channel")
      .attrs<GroupNormAttrs>()
      .parameter([](InferContext& ctx, size_t) {
        return parameter_of_axis(ctx, ctx.attrs<GroupNormAttrs>().channel_axis);
      });
  add("nn.instance_norm", "Normalises each channel of each image over its other axes.", stages,
      infer_batch_norm, [](const Call& c, const Tensors& in) { return define_instance_norm(c, in, {}); })
      .argument("gamma", "Tensor", "scale per channel")
      .argument("beta", "Tensor", "shift per channel")
      .attrs<BatchNormAttrs>()
      .parameter(channel);
  add("nn.lrn", "x / (bias + alpha / size · sum of squares of `size` neighbouring channels) ^ beta.", stages,
      infer_lrn, def_lrn)
      .attrs<LrnAttrs>();
  add("nn.dropout", "The operand: inference drops nothing.", FusionKind::element_wise, infer_same,
      [](const Call&, const Tensors& in) { return Tensors{copy_of(in[0], "dropout")}; })
      .attrs<DropoutAttrs>();
  add("nn.bias_add", "x + bias along an axis.", FusionKind::broadcast, infer_bias_add, def_bias_add)
      .argument("bias", "Tensor", "one value per element of the axis")
      .attrs<AxisAttrs>()
      .parameter(
          [](InferContext& ctx, size_t) { return parameter_of_axis(ctx, ctx.attrs<AxisAttrs>().axis); })
      .layout(layout_of_bias);
  return true;
}();

}  // namespace

Shape folded_by_layer_norm(const Call& call, const Shape& x) {
  return only_axes(x, layer_axes(attrs_of<LayerNormAttrs>(call), int64_t(x.size())));
}
Shape folded_by_group_norm(const Call& call, const Shape& x) {
  return folded_by(groups_of_channels(call, x), x);
}
Shape folded_by_instance_norm(const Call& call, const Shape& x) {
  return folded_by(each_channel(call, x), x);
}
Defined define_layer_norm(const Call& call, const Defined& in, const Blocked& blocks) {
  return def_layer_norm(call, in, true, blocks);
}
Defined define_group_norm(const Call& call, const Defined& in, const Blocked& blocks) {
  return def_groups(call, in, groups_of_channels(call, in[0].shape()), blocks);
}
Defined define_instance_norm(const Call& call, const Defined& in, const Blocked& blocks) {
  return def_groups(call, in, each_channel(call, in[0].shape()), blocks);
}

}  // namespace tenon::op

template struct tenon::DefineTypes<tenon::op::LayerNormAttrs, tenon::op::GroupNormAttrs, tenon::op::LrnAttrs,
                                   tenon::op::DropoutAttrs>;
