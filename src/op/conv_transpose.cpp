// SPDX-License-Identifier: Apache-2.0
// Transposed convolutions of one to three spatial axes: by phases of the stride (conv_transpose_phases.cpp),
// by zeros between elements, and, where windows lie side by side, window by window.
#include <fmt/format.h>

#include <algorithm>

#include "analysis/cost/layout.h"
#include "base/define_type.h"
#include "op/conv_transpose.h"

namespace tenon::op {
namespace {

using Tensors = std::vector<te::Tensor>;
using Ints = std::vector<int64_t>;

Layout window_result(const Ints& strides, int64_t block) {
  const Layout plain = data_layout(strides.size());
  Layout out{{plain.axes[0]}};
  for (size_t i = 0; i < strides.size(); ++i)
    if (strides[i] > 1) out.axes.push_back({plain.axes[i + 2].letter, strides[i]});
  out.axes.insert(out.axes.end(), plain.axes.begin() + 1, plain.axes.end());
  return out.blocked('C', block);
}
Layout blocked_kernel(size_t n, const ChannelBlocks& b) {
  const Layout plain = kernel_layout(n);
  Layout out{{plain.axes.begin() + 2, plain.axes.end()}};
  out.axes.insert(out.axes.end(), plain.axes.begin(), plain.axes.begin() + 2);
  return out.blocked('I', b.group ? 0 : b.in).blocked('O', b.out).blocked('I', b.group);
}
/// The weight of the program: input channels first.
std::string transposed_kernel_name(size_t n) {
  Layout plain = kernel_layout(n);
  std::swap(plain.axes[0], plain.axes[1]);
  return plain.name();
}
/// Null: the layouts are the program's, or no such three.
std::optional<ChannelBlocks> channel_blocks(const ConvTransposeAttrs& a, size_t n) {
  const auto data = Layout::parse(a.data_layout), kernel = Layout::parse(a.kernel_layout),
             out = Layout::parse(a.out_layout);
  if (!data || !kernel || !out) return std::nullopt;
  const bool groups = kernel->axes.back().letter == 'I';
  ChannelBlocks b{data->block('C'), out->block('C'), groups ? kernel->block('I') : 0};
  const bool fit = *data == data_layout(n).blocked('C', b.in) && *kernel == blocked_kernel(n, b) &&
                   b.in > 1 && b.out > 1 && (!b.group || b.in % b.group == 0);
  if (!fit) return std::nullopt;
  b.windows = *out == window_result(per_axis(a.strides, n, 1), b.out);
  if (!b.windows && (*out != data_layout(n).blocked('C', b.out) || b.group)) return std::nullopt;
  return b;
}
bool in_program_layout(const ConvTransposeAttrs& a, size_t n) {
  auto plain = [](const std::string& have, const std::string& name) { return have.empty() || have == name; };
  return plain(a.data_layout, data_layout_name(n, 0)) && plain(a.out_layout, data_layout_name(n, 0)) &&
         plain(a.kernel_layout, transposed_kernel_name(n));
}

/// Channels of one group, and phases that all have products.
bool in_phases(const ConvTransposeAttrs& a, const Ints& kernel) {
  const TransposeShape c = transpose_shape(a, kernel.size());
  bool strided = false;
  for (size_t i = 0; i < kernel.size(); ++i) {
    if (kernel[i] < c.strides[i] || c.dilation[i] != 1) return false;
    strided = strided || c.strides[i] > 1;
  }
  return strided && a.groups == 1;
}
/// Kernel and strides alike, one group, nothing around or between.
bool side_by_side(const ConvTransposeAttrs& a, const Ints& kernel) {
  const size_t n = kernel.size();
  const TransposeShape c = transpose_shape(a, n);
  auto all = [](const Ints& list, int64_t value) {
    return std::ranges::all_of(list, [&](int64_t v) { return v == value; });
  };
  return a.groups == 1 && kernel == c.strides && all(c.pads, 0) && all(c.output_padding, 0) &&
         all(c.dilation, 1);
}

/// Elements of the output along each spatial axis of data; empty, and an error: there would be less than
/// none.
Shape spatial_sizes(InferContext& ctx, const Shape& data, const Shape& kernel, const TransposeShape& c,
                    const std::string& both) {
  const size_t n = kernel.size();
  Shape out;
  for (size_t i = 0; i < n; ++i) {
    const PrimExpr window = (kernel[i] - 1) * PrimExpr(c.dilation[i]) + 1;
    const PrimExpr size = simplify((data[i + 2] - 1) * PrimExpr(c.strides[i]) + window +
                                   PrimExpr(c.output_padding[i]) - PrimExpr(c.pads[i] + c.pads[i + n]));
    if (!ctx.require_not_negative(size)) {
      ctx.error(fmt::format("{}: the size of spatial axis {} would be {}", both, i, show_dim(size)));
      return {};
    }
    out.push_back(size);
  }
  return out;
}

Type infer_blocks(InferContext& ctx, size_t n, const ChannelBlocks& b) {
  const auto& a = ctx.attrs<ConvTransposeAttrs>();
  const auto &x = ctx.tensor(0), &w = ctx.tensor(1);
  const int64_t rank = int64_t(n) + 3;
  if (!ctx.expect_rank(x, "the data", rank) || !ctx.expect_rank(w, "the weight", rank + (b.group == 0)) ||
      !ctx.expect_factors(x.dtype, w.dtype))
    return {};
  const TransposeShape c = transpose_shape(a, n);
  const auto p = shape_of(x), q = shape_of(w);
  if (!p || !q) return ctx.error("the shapes of data and weight in blocks must be known");
  const std::string both = fmt::format("data {} and weight {}", show(*p), show(*q));
  auto is = [](const PrimExpr& e, int64_t v) { return tir::is_const_int(e, v); };
  Ints kernel;
  for (size_t i = 0; i < n; ++i) kernel.push_back(tir::as_int((*q)[i]).value_or(0));
  if (b.windows && !side_by_side(a, kernel))
    return ctx.error(fmt::format("{}: windows that are not side by side are no axes", both),
                     "kernel and strides alike, one group, no padding, no dilation");
  if (!b.windows && !in_phases(a, kernel))
    return ctx.error(fmt::format("{}: phases of the stride that have no products have no blocks", both),
                     "a stride above 1, a kernel of at least the strides, one group, no dilation");
  const bool fit = is(p->back(), b.in) && is(q->back(), b.out * std::max<int64_t>(1, b.group)) &&
                   (b.group || is((*q)[n + 2], b.in));
  if (!fit || !ctx.require_equal(simplify((*p)[1] * PrimExpr(b.in)),
                                 simplify((*q)[n + 1] * PrimExpr(b.group ? b.group : b.in))))
    return ctx.error(fmt::format("{} do not fit blocks of {} and {} channels", both, b.in, b.out));
  Shape out{(*p)[0]};
  for (int64_t s : c.strides)
    if (b.windows && s > 1) out.push_back(PrimExpr(s));
  out.push_back((*q)[n]);
  const Shape image =
      b.windows ? Shape(p->begin() + 2, p->begin() + 2 + std::ptrdiff_t(n))
                : spatial_sizes(ctx, *p, Shape(q->begin(), q->begin() + std::ptrdiff_t(n)), c, both);
  if (image.empty()) return {};
  for (const PrimExpr& d : image) out.push_back(d);
  out.push_back(PrimExpr(b.out));
  return make_type(out, 0, contraction_type(x.dtype, w.dtype, a.out_dtype));
}

Tensors def_windows(const Call& call, const Tensors& in, size_t n, const ChannelBlocks& b) {
  const TensorInfo out = output_info(call);
  const Ints strides = per_axis(attrs_of<ConvTransposeAttrs>(call).strides, n, 1);
  const te::Tensor &x = in[0], &w = in[1];
  const DataType acc = accumulator_type(out.dtype);
  const tir::IterVar rc = te::reduce_axis(tir::range(PrimExpr(0), x.shape()[1]), "rc"),
                     rb = te::reduce_axis(tir::range(PrimExpr(0), PrimExpr(b.in)), "rb");
  te::Tensor sum = te::compute(
      out.shape,
      [&](const Vars& v) {
        Shape ix{v[0], rc->var}, iw;
        size_t at = 1;
        for (int64_t s : strides) iw.push_back(s > 1 ? PrimExpr(v[at++]) : PrimExpr(0));
        iw.push_back(v[at++]);
        for (size_t i = 0; i < n; ++i) ix.push_back(v[at++]);
        ix.push_back(rb->var);
        const PrimExpr within = rb->var, channel = v.back();
        if (b.group) {
          const PrimExpr group(b.group);
          iw.push_back(rc->var * PrimExpr(b.in / b.group) + tir::floordiv(within, group));
          iw.push_back(channel * group + tir::floormod(within, group));
        } else {
          for (const PrimExpr& e : {PrimExpr(rc->var), within, channel}) iw.push_back(e);
        }
        return te::sum(tir::cast(acc, x(ix)) * tir::cast(acc, w(iw)), {rc, rb});
      },
      short_name(call));
  return {cast_to(sum, out.dtype)};
}

/// Constant weights: channels in blocks. Elements of windows side by side are axes; others are summed up by
/// phases.
std::optional<LaidOut> layout_of_transpose(LayoutContext& ctx, size_t n) {
  const auto& a = attrs_of<ConvTransposeAttrs>(ctx.call);
  const TransposeShape c = transpose_shape(a, n);
  const auto* w = ctx.call.args[1].as<graph::Constant>();
  const auto data = graph::known_shape(ctx.call.args[0]->type);
  if (!w || !data || !in_program_layout(a, n)) return std::nullopt;
  const Ints kernel(w->data.shape().begin() + 2, w->data.shape().end());
  const bool windows = side_by_side(a, kernel);
  if (!windows && !in_phases(a, kernel)) return std::nullopt;
  const DataType x = tensor_arg(ctx.call, 0).dtype;
  const int64_t group = x == f32 ? 0 : ctx.dot_group(x, w->data.dtype(), ctx.dtype);
  const ChannelBlocks b{cost::channel_block(w->data.shape()[0], x, ctx.target),
                        cost::channel_block(w->data.shape()[1], x, ctx.target), group, windows};
  // Half a vector of outputs gains less than it costs to give them back in the program's layout.
  if (!b.in || !b.out || b.out % ctx.target->lanes(f32) != 0) return std::nullopt;
  if ((x != f32 && !group) || (group && (b.in % group || !windows))) return std::nullopt;
  ConvTransposeAttrs laid = a;
  laid.data_layout = data_layout_name(n, b.in);
  laid.kernel_layout = blocked_kernel(n, b).name();
  const Layout result = windows ? window_result(c.strides, b.out) : data_layout(n).blocked('C', b.out);
  laid.out_layout = result.name();
  Expr weight = ctx.emit_transform(ctx.call.args[1], transposed_kernel_name(n), laid.kernel_layout);
  if (group) weight = with_groups(ctx, weight);
  const Expr blocks = ctx.arranged(ctx.call.args[0], *data, data_layout(n).blocked('C', b.in));
  return LaidOut{ctx.make(ctx.call.op.as<graph::Op>()->name, {blocks, weight},
                          make_attrs<ConvTransposeAttrs>([&](ConvTransposeAttrs& m) { m = laid; })),
                 result, w->data.shape()[1]};
}

Type infer_transpose(InferContext& ctx, size_t n) {
  const auto& a = ctx.attrs<ConvTransposeAttrs>();
  if (const auto blocks = channel_blocks(a, n)) {
    if (!expect_windows(ctx, a.strides, a.padding, a.dilation, n) ||
        !ctx.expect_per_axis(a.output_padding, n, "output_padding"))
      return {};
    return infer_blocks(ctx, n, *blocks);
  }
  const auto &x = ctx.tensor(0), &w = ctx.tensor(1);
  if (!ctx.expect_rank(x, "the data", int64_t(n) + 2) || !ctx.expect_rank(w, "the weight", int64_t(n) + 2))
    return {};
  if (a.groups < 1) return ctx.error(fmt::format("{} groups", a.groups));
  if (!ctx.expect_factors(x.dtype, w.dtype)) return {};
  const DataType dtype = contraction_type(x.dtype, w.dtype, a.out_dtype);
  if (!expect_windows(ctx, a.strides, a.padding, a.dilation, n) ||
      !ctx.expect_per_axis(a.output_padding, n, "output_padding"))
    return {};
  const TransposeShape c = transpose_shape(a, n);
  auto p = shape_of(x), q = shape_of(w);
  if (!p || !q) return make_type(std::nullopt, x.ndim, dtype);
  if (!ctx.require_equal((*p)[1], (*q)[0]))
    return ctx.error(
        fmt::format("data {} and weight {}: the numbers of input channels differ", show(*p), show(*q)),
        "the weight has the shape (inputs, outputs / groups, …)");
  if (!ctx.require_multiple((*p)[1], a.groups))
    return ctx.error(
        fmt::format("{} input channels are not divisible by {} groups", show_dim((*p)[1]), a.groups));
  Shape out{(*p)[0], simplify((*q)[1] * PrimExpr(a.groups))};
  const Shape image = spatial_sizes(ctx, *p, Shape(q->begin() + 2, q->end()), c,
                                    fmt::format("data {} and weight {}", show(*p), show(*q)));
  if (image.empty()) return {};
  for (const PrimExpr& d : image) out.push_back(d);
  return make_type(out, 0, dtype);
}

}  // namespace

GroupIndex group_index(const te::Tensor& w, int64_t groups, const PrimExpr& inputs, const PrimExpr& output,
                       const PrimExpr& rc) {
  if (groups == 1) return {rc, output};
  return {tir::floordiv(output, w.shape()[1]) * inputs + rc, tir::floormod(output, w.shape()[1])};
}

namespace {

/// A gather: output o takes the kernel elements k for which (o + pad - k · dilation) is a multiple of the
/// stride.
Tensors def_transpose(const Call& call, const Tensors& in, size_t n) {
  const auto& a = attrs_of<ConvTransposeAttrs>(call);
  const auto blocks = channel_blocks(a, n);
  if (blocks && blocks->windows) return def_windows(call, in, n, *blocks);
  const TensorInfo out = output_info(call);
  const TransposeShape c = transpose_shape(a, n);
  const te::Tensor &x = in[0], &w = in[1];
  Ints kernel;
  bool strided = false, plain = true;
  for (size_t i = 0; i < n; ++i) {
    const auto size = tir::as_int(w.shape()[blocks ? i : i + 2]);
    kernel.push_back(size.value_or(0));
    strided = strided || c.strides[i] > 1;
    plain = plain && size && c.dilation[i] == 1;
  }
  if (strided && plain) return define_by_phases(call, in, kernel, blocks);
  const DataType acc = accumulator_type(out.dtype);
  const PrimExpr inputs = simplify(tir::floordiv(x.shape()[1], PrimExpr(a.groups)));
  // Zeros between and around the elements, so that the sum itself has a plain access pattern. `before` is
  // what the window reaches over the first element; it is negative when padding cuts more than that.
  Shape spread_shape{x.shape()[0], x.shape()[1]};
  Shape before;
  for (size_t i = 0; i < n; ++i) {
    const PrimExpr reach = (w.shape()[i + 2] - 1) * PrimExpr(c.dilation[i]);
    before.push_back(simplify(reach - PrimExpr(c.pads[i])));
    spread_shape.push_back(simplify(out.shape[i + 2] + reach));
  }
  const te::Tensor spread = te::compute(
      spread_shape,
      [&](const Vars& v) {
        Shape at{v[0], v[1]};
        PrimExpr inside = tir::true_();
        for (size_t i = 0; i < n; ++i) {
          const PrimExpr shifted = v[i + 2] - before[i], stride = c.strides[i];
          at.push_back(tir::floordiv(shifted, stride));
          inside = tir::logical_and(inside, tir::ge(shifted, PrimExpr(0)));
          inside = tir::logical_and(inside, tir::lt(shifted, (x.shape()[i + 2] - 1) * stride + 1));
          if (c.strides[i] > 1)
            inside = tir::logical_and(inside, tir::eq(tir::floormod(shifted, stride), PrimExpr(0)));
        }
        return tir::if_then_else(inside, x(at), constant(x.dtype(), 0));
      },
      "pad_temp");
  Array<tir::IterVar> ks{te::reduce_axis(tir::range(PrimExpr(0), inputs), "rc")};
  for (size_t i = 0; i < n; ++i)
    ks.push_back(te::reduce_axis(tir::range(PrimExpr(0), w.shape()[i + 2]), "r" + spatial_axis_name(n, i)));
  te::Tensor sum = te::compute(
      out.shape,
      [&](const Vars& v) {
        const GroupIndex g = group_index(w, a.groups, inputs, v[1], ks[0]->var);
        Shape ix{v[0], g.input}, iw{g.input, g.output};
        for (size_t i = 0; i < n; ++i) {
          const PrimExpr k = ks[i + 1]->var;
          ix.push_back(v[i + 2] + k * PrimExpr(c.dilation[i]));
          iw.push_back(w.shape()[i + 2] - 1 - k);
        }
        return te::sum(tir::cast(acc, spread(ix)) * tir::cast(acc, w(iw)), ks);
      },
      short_name(call));
  return {cast_to(sum, out.dtype)};
}

std::optional<Contraction> transposed_contraction(const Call& call, size_t n) {
  if (!in_program_layout(attrs_of<ConvTransposeAttrs>(call), n)) return std::nullopt;
  Contraction c;
  c.weight_out = 1, c.weight_in = 0;
  c.groups = attrs_of<ConvTransposeAttrs>(call).groups;
  c.spatial = int64_t(n);
  c.transposed = true;
  c.out_dtype = attrs_of<ConvTransposeAttrs>(call).out_dtype;
  return c;
}

/// The weight has as many inputs as the data; how many outputs, and of what size, only the weight says.
Type transposed_weight(InferContext& ctx, size_t i, size_t n) {
  const auto& a = ctx.attrs<ConvTransposeAttrs>();
  const auto& x = ctx.tensor(0);
  const auto have = shape_of(x);
  if (i != 1 || !have || have->size() != n + 2 || !in_program_layout(a, n)) return {};
  Shape dims{(*have)[1], tir::var("outputs", i64)};
  for (size_t k = 0; k < n; ++k) dims.push_back(tir::var(spatial_axis_name(n, k), i64));
  return make_type(dims, 0, x.dtype);
}

/// Channels in blocks, of windows side by side or phases that are: any others go the general way.
bool transposed_blocks_fit(const Call& call, size_t n) {
  const auto& a = attrs_of<ConvTransposeAttrs>(call);
  for (const auto& list : {a.strides, a.dilation, a.output_padding})
    if (list.size() > 1 && list.size() != n) return false;
  if (a.padding.size() > 1 && a.padding.size() != n && a.padding.size() != 2 * n) return false;
  const auto blocks = channel_blocks(a, n);
  const auto& w = tensor_arg(call, 1);
  const auto q = shape_of(w);
  if (!blocks || !q || w.ndim != int64_t(n) + 3 + (blocks->group == 0)) return false;
  Ints kernel;
  for (size_t i = 0; i < n; ++i) kernel.push_back(tir::as_int((*q)[i]).value_or(0));
  return blocks->windows ? side_by_side(a, kernel) : in_phases(a, kernel);
}

LetterRule transposed_letters(size_t n) {
  const std::string plain = data_layout(n).name(), kernel = transposed_kernel_name(n);
  LetterRule rule = letters_of<ConvTransposeAttrs>(
      &ConvTransposeAttrs::data_layout, &ConvTransposeAttrs::kernel_layout, &ConvTransposeAttrs::out_layout,
      [plain, kernel](const Call&) { return LayoutNames{plain, kernel, plain}; });
  rule.own = [n](const Call& call) { return transposed_blocks_fit(call, n); };
  return rule;
}

const bool conv_transpose_registered = [] {
  auto add = [](OpName name, size_t n) {
    register_op(std::move(name), fmt::format("Transposed convolution over {} spatial axes.", n))
        .argument("data", "Tensor", "(batch, channels, …)")
        .argument("weight", "Tensor", "(input channels, output channels / groups, …)")
        .attrs<ConvTransposeAttrs>()
        .infer([n](InferContext& ctx) { return infer_transpose(ctx, n); })
        .parameter([n](InferContext& ctx, size_t i) { return transposed_weight(ctx, i, n); })
        .fusion(FusionKind::out_element_wise_fusable)
        .tensor_def([n](const Call& c, const Tensors& in) { return def_transpose(c, in, n); })
        .layout([n](LayoutContext& ctx) { return layout_of_transpose(ctx, n); })
        .contraction([n](const Call& c) { return transposed_contraction(c, n); })
        .letters(transposed_letters(n));
  };
  add("nn.conv1d_transpose", 1);
  add("nn.conv2d_transpose", 2);
  add("nn.conv3d_transpose", 3);
  return true;
}();

}  // namespace
}  // namespace tenon::op

template struct tenon::DefineTypes<tenon::op::ConvTransposeAttrs>;
