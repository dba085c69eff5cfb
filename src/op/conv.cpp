// SPDX-License-Identifier: Apache-2.0
// Convolutions of one to three spatial axes: plain, grouped, depthwise, dilated; on plain channels, in blocks
// of them, and with groups as an axis.
#include <fmt/format.h>

#include <algorithm>

#include "base/define_type.h"
#include "op/conv.h"

namespace tenon::op {

std::string spatial_axis_name(size_t spatial, size_t i) {
  const char* const names[] = {"d", "h", "w"};
  return names[3 - spatial + i];
}

bool expect_windows(InferContext& ctx, const Array<int64_t>& strides, const Array<int64_t>& padding,
                    const Array<int64_t>& dilation, size_t n) {
  if (!ctx.expect_per_axis(strides, n, "strides") || !ctx.expect_paddings(padding, n) ||
      !ctx.expect_per_axis(dilation, n, "dilation"))
    return false;
  for (int64_t v : strides)
    if (v < 1) return ctx.error(fmt::format("stride {} is not positive", v));
  for (int64_t v : dilation)
    if (v < 1) return ctx.error(fmt::format("dilation {} is not positive", v));
  return true;
}

te::Tensor padded_data(const std::vector<te::Tensor>& in, const Shape& before, const Shape& after) {
  const bool widened = is_widened(in[0].dtype(), in[1].dtype());
  const te::Tensor x = widened ? cast_to(in[0], f32) : in[0];
  return pad_with(x, before, after, in.size() > 2 ? in[2](Shape()) : constant(x.dtype(), 0));
}

namespace {

using Tensors = std::vector<te::Tensor>;
/// Blocks of the channels of data, weight and result; 0: plain.
struct ConvBlocks {
  int64_t data = 0, out = 0;
  KernelBlocks kernel;
  bool any() const { return data || out || kernel.in || kernel.out; }
};
ConvBlocks conv_blocks(const ConvAttrs& a, size_t n) {
  return {data_block(a.data_layout, n).value_or(0), data_block(a.out_layout, n).value_or(0),
          kernel_blocks(a.kernel_layout, n).value_or(KernelBlocks{})};
}
/// Blocks of data, weight and result that the definition below reads side by side.
bool blocks_fit(const Call& call, size_t n) {
  const auto& a = attrs_of<ConvAttrs>(call);
  if (!data_block(a.data_layout, n) || !data_block(a.out_layout, n) || !kernel_blocks(a.kernel_layout, n))
    return false;
  const ConvBlocks b = conv_blocks(a, n);
  // Groups of inputs are no axis of their own there (with_groups): a weight that has one is another layout.
  const int64_t rank = tensor_arg(call, 1).ndim;
  if (b.kernel.group && rank >= 0 && rank != int64_t(n) + 3 + (b.kernel.in != 0)) return false;
  // Channels in blocks meet a weight whose input channels are in none only where each has a result of its
  // own.
  const auto weight = graph::known_shape(call.args[1]->type);
  if (b.data && !b.kernel.in && !b.kernel.group &&
      (a.groups == 1 || (weight && weight->size() > 1 && !tir::is_one((*weight)[1]))))
    return false;
  if (b.kernel.taps && (b.data == 0 || b.data != b.out || rank != int64_t(n) + 3)) return false;
  return b.kernel.out == b.out && (b.kernel.in == 0 || b.kernel.inputs() == b.data) &&
         (b.data == 0 || b.out) && (b.kernel.group == 0 || (b.data != 0 && b.data % b.kernel.group == 0));
}

bool expect_conv_factors(InferContext& ctx, const graph::TensorType& x, const graph::TensorType& w) {
  if (is_widened(x.dtype, w.dtype) && ctx.attrs<ConvAttrs>().out_dtype == f32) return true;
  return ctx.expect_factors(x.dtype, w.dtype);
}

bool expect_padding_value(InferContext& ctx) {
  if (!ctx.has(2)) return true;
  const auto &x = ctx.tensor(0), &z = ctx.tensor(2);
  if (!ctx.expect_rank(z, "the value of the padding", 0)) return false;
  if (z.dtype != x.dtype) return ctx.error("the value of the padding is not of the data's type");
  return true;
}

/// Groups are an axis of data, weight and result.
bool groups_are_axis(const ConvAttrs& a, size_t n) {
  return a.data_layout == grouped_data_layout(n) && a.kernel_layout == grouped_kernel_layout(n) &&
         a.out_layout == a.data_layout;
}

/// Spatial sizes of the result; `first` is the first spatial axis of data and weight.
bool push_output_sizes(InferContext& ctx, const Shape& p, const Shape& q, size_t first_p, size_t first_q,
                       size_t n, Shape& out) {
  const ConvShape c = conv_shape(ctx.attrs<ConvAttrs>(), n);
  for (size_t i = 0; i < n; ++i) {
    const PrimExpr window = (q[i + first_q] - 1) * PrimExpr(c.dilation[i]) + 1;
    const PrimExpr slack = simplify(p[i + first_p] + PrimExpr(c.pads[i] + c.pads[i + n]) - window);
    // A kernel of one element has a result for each element, also for none.
    const bool none = is_zero(p[i + first_p]) && is_one(window) && c.pads[i] + c.pads[i + n] == 0;
    if (!none && !ctx.require_not_negative(slack))
      return ctx.error(
          fmt::format("data {} and weight {}: the kernel is larger than the padded image in spatial axis {}",
                      show(p), show(q), i));
    out.push_back(simplify(tir::floordiv(slack, PrimExpr(c.strides[i])) + 1));
  }
  return true;
}

Type infer_grouped(InferContext& ctx, size_t n) {
  const auto& a = ctx.attrs<ConvAttrs>();
  const auto &x = ctx.tensor(0), &w = ctx.tensor(1);
  if (!ctx.expect_rank(x, "the data", int64_t(n) + 3)) return {};
  if (!ctx.expect_rank(w, "the weight", int64_t(n) + 3)) return {};
  if (!expect_conv_factors(ctx, x, w)) return {};
  const DataType dtype = contraction_type(x.dtype, w.dtype, a.out_dtype);
  auto p = shape_of(x), q = shape_of(w);
  if (!p || !q) return make_type(std::nullopt, int64_t(n) + 3, dtype);
  const PrimExpr groups = a.groups;
  if (!ctx.require_equal((*p)[1], groups) || !ctx.require_equal((*q)[0], groups) ||
      !ctx.require_equal((*p)[2], (*q)[2]))
    return ctx.error(fmt::format("data {} and weight {} do not have {} groups of the same channels", show(*p),
                                 show(*q), a.groups));
  Shape out{(*p)[0], (*p)[1], (*q)[1]};
  if (!push_output_sizes(ctx, *p, *q, 3, 3, n, out)) return {};
  return make_type(out, 0, dtype);
}

Tensors def_grouped(const Call& call, const Tensors& in, size_t n) {
  const TensorInfo out = output_info(call);
  const ConvShape c = conv_shape(attrs_of<ConvAttrs>(call), n);
  const te::Tensor& w = in[1];
  const DataType acc = accumulator_type(out.dtype);
  Shape before{PrimExpr(0), PrimExpr(0), PrimExpr(0)}, after = before;
  for (size_t i = 0; i < n; ++i) {
    before.push_back(c.pads[i]);
    after.push_back(c.pads[i + n]);
  }
  const te::Tensor padded = padded_data(in, before, after);
  Array<tir::IterVar> ks{te::reduce_axis(tir::range(PrimExpr(0), w.shape()[2]), "rc")};
  for (size_t i = 0; i < n; ++i)
    ks.push_back(te::reduce_axis(tir::range(PrimExpr(0), w.shape()[i + 3]), "r" + spatial_axis_name(n, i)));
  te::Tensor sum = te::compute(
      out.shape,
      [&](const Vars& v) {
        Shape ix{v[0], v[1], ks[0]->var}, iw{v[1], v[2], ks[0]->var};
        for (size_t i = 0; i < n; ++i) {
          ix.push_back(v[i + 3] * PrimExpr(c.strides[i]) + ks[i + 1]->var * PrimExpr(c.dilation[i]));
          iw.push_back(ks[i + 1]->var);
        }
        return te::sum(tir::cast(acc, padded(ix)) * tir::cast(acc, w(iw)), ks);
      },
      short_name(call));
  return {cast_to(sum, out.dtype)};
}

/// Every input channel belongs to one group of its own, with one output.
bool is_depthwise(const ConvAttrs& a, const Shape& data, const Shape& weight, const ConvBlocks& b) {
  if (a.groups == 1 || !tir::is_one(weight[1]) || b.kernel.in || b.kernel.group) return false;
  if (!b.any()) return true;
  // Blocks of data and result go side by side.
  return b.data != 0 && b.data == b.out && same_dim(data[1], weight[0]);
}

Type infer_conv(InferContext& ctx, size_t n) {
  const auto& a = ctx.attrs<ConvAttrs>();
  const auto &x = ctx.tensor(0), &w = ctx.tensor(1);
  if (!expect_padding_value(ctx) || !expect_windows(ctx, a.strides, a.padding, a.dilation, n)) return {};
  if (groups_are_axis(a, n)) return infer_grouped(ctx, n);
  const ConvBlocks b = conv_blocks(a, n);
  const int64_t rank = int64_t(n) + 2;
  if (!ctx.expect_rank(x, "the data", rank + (b.data != 0))) return {};
  if (!ctx.expect_rank(w, "the weight", rank + (b.kernel.in != 0) + (b.kernel.out != 0))) return {};
  if (a.groups < 1) return ctx.error(fmt::format("{} groups", a.groups));
  if (!expect_conv_factors(ctx, x, w)) return {};
  const DataType dtype = contraction_type(x.dtype, w.dtype, a.out_dtype);
  auto p = shape_of(x), q = shape_of(w);
  if (!p || !q) return make_type(std::nullopt, rank + (b.out != 0), dtype);
  const std::string both = fmt::format("data {} and weight {}", show(*p), show(*q));
  const std::pair<PrimExpr, int64_t> blocks[] = {{p->back(), b.data},
                                                 {q->back(), b.kernel.out * b.kernel.together()},
                                                 {b.kernel.in ? (*q)[n + 2] : PrimExpr(0), b.kernel.in}};
  for (const auto& [size, block] : blocks)
    if (block && !tir::is_const_int(size, block))
      return ctx.error(fmt::format("{}: a block of {} channels is an axis of that size", both, block));
  const PrimExpr inputs = (*p)[1] * PrimExpr(std::max<int64_t>(1, b.data));
  const PrimExpr per_group = (*q)[1] * PrimExpr(b.kernel.inputs());
  if (const auto channels = tir::as_int(simplify(per_group));
      b.kernel.group && channels && *channels % b.data != 0)
    return ctx.error(
        fmt::format("{}: {} input channels of a group are no blocks of {}", both, *channels, b.data));
  if (!ctx.require_equal(simplify(inputs), simplify(per_group * PrimExpr(a.groups))))
    return ctx.error(fmt::format("{} with {} groups: the numbers of input channels differ", both, a.groups));
  if (a.groups > 1 && b.data && b.kernel.in == 0 && b.kernel.group == 0 && !is_depthwise(a, *p, *q, b))
    return ctx.error(
        fmt::format("{} with {} groups: blocks of one input channel per group are for depthwise "
                    "convolutions only",
                    both, a.groups));
  const PrimExpr outputs = simplify((*q)[0] * PrimExpr(std::max<int64_t>(1, b.kernel.out)));
  const bool depthwise = is_depthwise(a, *p, *q, b);
  if (b.kernel.taps && !depthwise)
    return ctx.error(fmt::format("{}: taps side by side are for depthwise convolutions only", both));
  if (b.kernel.taps) q->set(2, simplify((*q)[2] * PrimExpr(b.kernel.taps)));
  if (!ctx.require_multiple(outputs, a.groups) || (!depthwise && !ctx.require_multiple((*q)[0], a.groups)))
    return ctx.error(fmt::format("{}: {} output channels are not divisible by {} groups", both,
                                 show_dim(outputs), a.groups));
  Shape out{(*p)[0], (*q)[0]};
  if (!push_output_sizes(ctx, *p, *q, 2, 2, n, out)) return {};
  if (b.out) out.push_back(PrimExpr(b.out));
  return make_type(out, 0, dtype);
}

Tensors def_conv(const Call& call, const Tensors& in, size_t n) {
  const auto& a = attrs_of<ConvAttrs>(call);
  if (groups_are_axis(a, n)) return def_grouped(call, in, n);
  if (const int64_t taps = conv_blocks(a, n).kernel.taps) return define_conv_by_turns(call, in, n, taps);
  const TensorInfo out = output_info(call);
  const ConvShape c = conv_shape(a, n);
  const ConvBlocks b = conv_blocks(a, n);
  const te::Tensor &x = in[0], &w = in[1];
  const DataType acc = accumulator_type(out.dtype);
  Shape before{PrimExpr(0), PrimExpr(0)}, after = before;
  for (size_t i = 0; i < n; ++i) {
    before.push_back(c.pads[i]);
    after.push_back(c.pads[i + n]);
  }
  if (b.data) before.push_back(PrimExpr(0)), after.push_back(PrimExpr(0));
  const te::Tensor padded = padded_data(in, before, after);
  const bool depthwise = is_depthwise(a, x.shape(), w.shape(), b);
  Array<tir::IterVar> ks;
  // In groups, the sum runs over the data's blocks and the channels in one.
  const int64_t group = b.kernel.group, in_block = group ? b.data : b.kernel.in;
  const PrimExpr in_blocks =
      group ? simplify(tir::floordiv(w.shape()[1] * PrimExpr(b.kernel.inputs()), PrimExpr(b.data)))
            : w.shape()[1];
  if (!depthwise) ks.push_back(te::reduce_axis(tir::range(PrimExpr(0), in_blocks), "rc"));
  for (size_t i = 0; i < n; ++i)
    ks.push_back(te::reduce_axis(tir::range(PrimExpr(0), w.shape()[i + 2]), "r" + spatial_axis_name(n, i)));
  if (in_block) ks.push_back(te::reduce_axis(tir::range(PrimExpr(0), PrimExpr(in_block)), "rb"));
  te::Tensor sum = te::compute(
      out.shape,
      [&](const Vars& v) {
        const PrimExpr channel = depthwise ? PrimExpr(0) : PrimExpr(ks[0]->var);
        const PrimExpr within = in_block ? PrimExpr(ks.back()->var) : PrimExpr(0);
        Shape ix{v[0]}, iw{v[1], channel};
        const PrimExpr in_group = group ? tir::floordiv(within, PrimExpr(group)) : within;
        if (group && !b.kernel.in) iw.set(1, channel * PrimExpr(b.data / group) + in_group);
        if (depthwise && b.any()) {
          ix.push_back(v[1]);
        } else if (a.groups == 1) {
          ix.push_back(channel);
        } else {
          const PrimExpr per_group = simplify(tir::floordiv(w.shape()[0], PrimExpr(a.groups)));
          ix.push_back(tir::floordiv(v[1], per_group) * in_blocks + channel);
        }
        for (size_t i = 0; i < n; ++i) {
          const PrimExpr k = ks[i + !depthwise]->var;
          ix.push_back(v[i + 2] * PrimExpr(c.strides[i]) + k * PrimExpr(c.dilation[i]));
          iw.push_back(k);
        }
        if (b.data) ix.push_back(depthwise ? PrimExpr(v.back()) : within);
        if (b.kernel.in) iw.push_back(in_group);
        if (group)
          iw.push_back(v.back() * PrimExpr(group) + tir::floormod(within, PrimExpr(group)));
        else if (b.kernel.out)
          iw.push_back(v.back());
        return te::sum(tir::cast(acc, padded(ix)) * tir::cast(acc, w(iw)), ks);
      },
      short_name(call));
  return {cast_to(sum, out.dtype)};
}

// ---------------------------------------------------------------- other layouts
LetterRule conv_letters(size_t n) {
  const std::string plain = data_layout(n).name(), kernel = kernel_layout(n).name();
  LetterRule rule =
      letters_of<ConvAttrs>(&ConvAttrs::data_layout, &ConvAttrs::kernel_layout, &ConvAttrs::out_layout,
                            [plain, kernel](const Call&) { return LayoutNames{plain, kernel, plain}; });
  rule.own = [n](const Call& call) {
    return groups_are_axis(attrs_of<ConvAttrs>(call), n) || blocks_fit(call, n);
  };
  rule.direct = [n](const Call& call, const Tensors& in, const LayoutNames& names) {
    return define_conv_anywhere(call, in, names, n);
  };
  return rule;
}

std::optional<Contraction> conv_contraction(const Call& call, size_t n) {
  const auto& a = attrs_of<ConvAttrs>(call);
  if (conv_blocks(a, n).any() || groups_are_axis(a, n)) return std::nullopt;
  Contraction c;
  c.weight_out = 0, c.weight_in = 1;
  c.groups = a.groups;
  c.spatial = int64_t(n);
  c.out_dtype = a.out_dtype;
  return c;
}

/// The weight has as many inputs as the data; how many outputs, and of what size, only the weight says.
Type conv_weight(InferContext& ctx, size_t i, size_t n) {
  const auto& a = ctx.attrs<ConvAttrs>();
  const auto& x = ctx.tensor(0);
  const auto have = shape_of(x);
  if (i != 1 || !have || have->size() != n + 2 || a.groups < 1 || conv_blocks(a, n).any()) return {};
  Shape dims{tir::var("outputs", i64), simplify(tir::floordiv((*have)[1], PrimExpr(a.groups)))};
  for (size_t k = 0; k < n; ++k) dims.push_back(tir::var(spatial_axis_name(n, k), i64));
  return make_type(dims, 0, x.dtype);
}

const bool conv_registered = [] {
  auto add = [](OpName name, size_t n) {
    register_op(std::move(name), fmt::format("Convolution (cross-correlation) over {} spatial axes.", n))
        .argument("data", "Tensor", "(batch, channels, …)")
        .argument(
            "weight", "Tensor",
            "(output channels, input channels / groups, …); float32 beside 16-bit data of a float32 result")
        .argument("padding_value", "Tensor", "a scalar: what the padding holds; 0 without it", true)
        .attrs<ConvAttrs>()
        .infer([n](InferContext& ctx) { return infer_conv(ctx, n); })
        .parameter([n](InferContext& ctx, size_t i) { return conv_weight(ctx, i, n); })
        .fusion(FusionKind::out_element_wise_fusable)
        .tensor_def([n](const Call& c, const Tensors& in) { return def_conv(c, in, n); })
        .layout([n](LayoutContext& ctx) { return layout_of_conv(ctx, n); })
        .contraction([n](const Call& c) { return conv_contraction(c, n); })
        .letters(conv_letters(n));
  };
  add("nn.conv1d", 1);
  add("nn.conv2d", 2);
  add("nn.conv3d", 3);
  return true;
}();

}  // namespace
}  // namespace tenon::op

template struct tenon::DefineTypes<tenon::op::ConvAttrs>;
