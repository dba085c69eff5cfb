// SPDX-License-Identifier: Apache-2.0
// Convolutions of one to three spatial axes: plain, grouped, depthwise, dilated; on plain channels, in blocks
// of them, and with groups as an axis.
#include <fmt/format.h>

#include <algorithm>
#include <cstring>

#include "analysis/cost/layout.h"
#include "analysis/cost/nest.h"
#include "base/define_type.h"
#include "op/conv.h"
#include "target/narrow_float.h"

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

Expr with_groups(LayoutContext& ctx, const Expr& weight) {
  Shape dims = *graph::known_shape(weight->type);
  const PrimExpr group = dims.back();
  dims.pop_back();
  dims.set(dims.size() - 1, simplify(dims.back() * group));
  return ctx.emit_op("reshape", {weight, graph::shape_expr(dims)});
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
    if (!ctx.require_not_negative(slack))
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

// ---------------------------------------------------------------- layout
/// A convolution of constant weights, as its layout rule sees it.
struct ConvSizes {
  size_t spatial = 0;
  int64_t groups = 1, inputs = 0, outputs = 0;
  int64_t per_group = 0;   ///< inputs of a group
  bool depthwise = false;  ///< every channel is a group
  int64_t dot = 0;         ///< input channels that one dot instruction multiplies; 0: floats of 32 bits
  int64_t taps = 0;        ///< of a depthwise window that one dot instruction multiplies; 0: one by one
  Shape data;
  DataType type = f32;  ///< of the data
  Expr weight;
};
/// Data of 16 bits is copied where it is padded: the copy can hold rows by turns, so that one instruction
/// multiplies two taps, a last one alone by 0 beside it.
int64_t taps_together(const LayoutContext& ctx, size_t n) {
  if (!bf16_dots_pay(ctx.target)) return 0;
  const ConvShape c = conv_shape(attrs_of<ConvAttrs>(ctx.call), n);
  const int64_t taps = ctx.dot_group(tensor_arg(ctx.call, 0).dtype, tensor_arg(ctx.call, 0).dtype, f32);
  const auto* weight = ctx.call.args[1].as<graph::Constant>();
  const bool padded = std::ranges::any_of(c.pads, [](int64_t p) { return p > 0; });
  const bool known = std::all_of(ctx.shape.begin(), ctx.shape.end(),
                                 [](const PrimExpr& d) { return tir::as_int(d).has_value(); });
  return padded && known && ctx.dtype == f32 && weight->data.shape()[2] >= taps ? taps : 0;
}

/// Nullopt: no layout is better for it than the program's.
std::optional<ConvSizes> conv_sizes(const LayoutContext& ctx, size_t n) {
  const Call& call = ctx.call;
  const auto& a = attrs_of<ConvAttrs>(call);
  const auto* weight = call.args[1].as<graph::Constant>();
  const auto data = graph::known_shape(call.args[0]->type);
  if (!weight || !data || data_block(a.data_layout, n) != 0 || data_block(a.out_layout, n) != 0)
    return std::nullopt;
  const DataType x = tensor_arg(call, 0).dtype, w = weight->data.dtype();
  ConvSizes c{.spatial = n, .groups = a.groups, .data = *data, .type = x, .weight = call.args[1]};
  if (x.bits == 8 && ctx.dtype == i32) c.dot = ctx.dot_group(x, w, i32);
  if (x == DataType::bfloat16()) c.dot = ctx.dot_group(x, w, f32);
  const bool floats = w == f32 && (x == f32 || is_widened(x, w));
  if (c.dot == 0 && (!floats || call.args.size() != 2)) return std::nullopt;
  c.inputs = tir::as_int((*data)[1]).value_or(0);
  c.outputs = weight->data.shape()[0], c.per_group = weight->data.shape()[1];
  c.depthwise = c.per_group == 1 && c.groups == c.outputs && c.inputs == c.outputs && c.groups > 1;
  if (c.depthwise && is_widened(x, w)) c.taps = taps_together(ctx, n);
  if (!c.inputs || c.outputs % c.groups) return std::nullopt;
  return c;
}

/// Blocks of the channels: of the data (0: plain), and of the result, which has `outputs` with those added.
struct ConvChoice {
  int64_t data = 0, out = 0, outputs = 0;
};

/// The data in blocks whose last one was filled up: for sums over all channels and for depthwise
/// convolutions.
const LaidOut* filled_up(const LayoutContext& ctx, const ConvSizes& c) {
  if (c.groups != 1 && !c.depthwise) return nullptr;
  const LaidOut* x = ctx.laid_out(ctx.call.args[0]);
  return x && trailing_block(x->layout) && x->channels != c.inputs ? x : nullptr;
}

void choose_result(const LayoutContext& ctx, const ConvSizes& c, ConvChoice& choice) {
  const bool matrices = multiplies_matrices(ctx.target, c.type, c.type);
  // Rows of matrix registers are wider than groups often are: blocks fill a group's results there.
  const int64_t together = matrices && !c.depthwise ? c.outputs / c.groups : c.outputs;
  choice.out = cost::channel_block(together, c.type, ctx.target), choice.outputs = c.outputs;
  if (const LaidOut* x = c.depthwise ? filled_up(ctx, c) : nullptr) {
    choice.out = trailing_block(x->layout), choice.outputs = x->channels;
    return;
  }
  if (c.groups != 1) return;
  // An image of one point reads little but weights.
  const bool one_point = std::all_of(ctx.shape.begin() + 2, ctx.shape.end(), tir::is_one);
  const cost::Filled why = matrices                             ? cost::Filled::matrices
                           : one_point && !choice.out && !c.dot ? cost::Filled::reads
                                                                : cost::Filled::products;
  choice.outputs = cost::filled_channels(c.outputs, why, ctx.target);
  choice.out = cost::channel_block(choice.outputs, c.type, ctx.target);
}

int64_t choose_data(const LayoutContext& ctx, const ConvSizes& c, int64_t out) {
  const Expr& x = ctx.call.args[0];
  if (c.depthwise) return out;
  if (c.dot) {
    // Channels that were added meet weights of 0; a last block is filled up.
    const LaidOut* have = ctx.laid_out(x);
    const int64_t block = have ? trailing_block(have->layout) : 0;
    if (block && (c.groups == 1 || c.per_group % block == 0)) return block;
    return cost::grouped_channel_block(c.per_group, c.type, ctx.target);
  }
  if (const LaidOut* have = filled_up(ctx, c)) return trailing_block(have->layout);
  const LaidOut* have = ctx.in_blocks(x);
  if (have && c.per_group % trailing_block(have->layout) == 0) return trailing_block(have->layout);
  // Plain data of few channels is read as it is.
  const int64_t best = cost::channel_block(c.per_group, c.type, ctx.target);
  return have || c.groups > 1 || best < c.per_group ? best : 0;
}

Expr arranged_data(LayoutContext& ctx, const ConvSizes& c, const ConvChoice& choice) {
  const Expr& x = ctx.call.args[0];
  const LaidOut* have = c.dot && !c.depthwise ? ctx.laid_out(x) : filled_up(ctx, c);
  // Groups that fill up the last one need its channels.
  const bool all = !have || c.groups == 1 || c.depthwise || have->channels == c.groups * c.per_group;
  if (have && all && trailing_block(have->layout) == choice.data) {
    // Added channels meet no others, or integers meet weights of 0.
    const bool as_it_is = have->channels == c.inputs || c.depthwise || (c.dot && ctx.dtype == i32);
    return as_it_is ? have->tensor : ctx.with_zeros(*have, c.inputs);
  }
  if (!choice.data) return x;
  return ctx.arranged(x, c.data, data_layout(c.spatial).blocked('C', choice.data));
}

/// The weight for blocks of these sizes; `x` is the data that it meets.
Expr arranged_weight(LayoutContext& ctx, const ConvSizes& c, const ConvChoice& choice,
                     const KernelBlocks& blocks, const Expr& x) {
  Expr w = ctx.padded(c.weight, 0, c.outputs, choice.outputs);
  if (!c.depthwise && choice.data && c.groups == 1)
    w = ctx.padded(w, 1, c.per_group, *tir::as_int((*graph::known_shape(x->type))[1]) * choice.data);
  if (blocks.taps) w = ctx.emit_op("cast", {w}, make_attrs<CastAttrs>(tensor_arg(ctx.call, 0).dtype));
  w = ctx.emit_transform(w, kernel_layout_name(c.spatial, {}), kernel_layout_name(c.spatial, blocks));
  return blocks.together() > 1 ? with_groups(ctx, w) : w;
}

LaidOut conv_in(LayoutContext& ctx, Expr x, Expr w, const ConvAttrs& attrs, const Layout& out,
                int64_t channels) {
  Array<Expr> args{std::move(x), std::move(w)};
  if (ctx.call.args.size() > 2) args.push_back(ctx.call.args[2]);
  const std::string& name = ctx.call.op.as<graph::Op>()->name;
  return {ctx.make(name, args, make_attrs<ConvAttrs>([&](ConvAttrs& a) { a = attrs; })), out, channels};
}

/// Groups whose channels fit no block: an axis of their own, which moves nothing in memory.
LaidOut conv_by_groups(LayoutContext& ctx, const ConvSizes& c) {
  auto grouped = [&](int64_t channels) {
    Layout out = data_layout(c.spatial);
    out.axes.insert(out.axes.begin() + 2, {'C', channels / c.groups});
    return out;
  };
  Shape weight = *graph::known_shape(ctx.call.args[1]->type);
  weight.set(0, PrimExpr(c.outputs / c.groups));
  weight.insert(0, PrimExpr(c.groups));
  ConvAttrs a = attrs_of<ConvAttrs>(ctx.call);
  a.data_layout = a.out_layout = grouped_data_layout(c.spatial);
  a.kernel_layout = grouped_kernel_layout(c.spatial);
  const Expr x = ctx.arranged(ctx.call.args[0], c.data, grouped(c.inputs));
  const Expr w = ctx.emit_op("reshape", {ctx.call.args[1], graph::shape_expr(weight)});
  return conv_in(ctx, x, w, a, grouped(c.outputs), c.outputs);
}

/// Narrow groups become wider ones whose channels fill vectors, or rows of matrix registers, where every
/// result has its inputs in its own place and meets weights of 0 in the others. Sums of integers stay what
/// they are; among floats what is infinite or no number makes its neighbours' results no numbers
/// (docs/numerics.md).
void join_groups(const LayoutContext& ctx, ConvSizes& c) {
  const int64_t outputs = c.outputs / c.groups;
  const LaidOut* have = ctx.laid_out(ctx.call.args[0]);
  const int64_t block = have ? trailing_block(have->layout) : 0;
  const int64_t joined = cost::joined_groups({c.groups, c.per_group, outputs, c.type, block}, ctx.target);
  if (joined == 1) return;
  const NDArray narrow = c.weight.as<graph::Constant>()->data;
  const size_t row = size_t(int64_t(narrow.byte_size()) / c.outputs);  // the weights of one result
  const int64_t groups = cost::ceil_div(c.groups, joined);
  std::vector<int64_t> shape = narrow.shape();
  shape[0] = groups * joined * outputs, shape[1] *= joined;
  NDArray wide = NDArray::zeros(shape, narrow.dtype());
  for (int64_t o = 0; o < c.outputs; ++o)
    std::memcpy(wide.as_ptr<char>() + (size_t(o * joined + o / outputs % joined)) * row,
                narrow.as_ptr<char>() + size_t(o) * row, row);
  c.groups = groups, c.per_group *= joined, c.outputs = shape[0], c.weight = graph::constant(wide);
}

/// Taps that fill up the last group along the first axis reach below the window: so many rows of padding
/// more.
void fill_up_taps(ConvAttrs& a, size_t n, const Call& call, int64_t taps) {
  const int64_t height = call.args[1].as<graph::Constant>()->data.shape()[2];
  const ConvShape c = conv_shape(a, n);
  std::vector<int64_t> pads = c.pads;
  pads[n] += ((taps - height % taps) % taps) * c.dilation[0];
  a.padding = Array<int64_t>(pads);
}

ConvChoice choose_blocks(const LayoutContext& ctx, const ConvSizes& c) {
  ConvChoice choice;
  choose_result(ctx, c, choice);
  if (choice.out || c.groups > 1) choice.data = choose_data(ctx, c, choice.out);
  return choice;
}
/// Do the channels of every group fill blocks?
bool whole_blocks(const ConvSizes& c, const ConvChoice& choice) {
  return choice.data && choice.out && c.per_group % choice.data == 0 &&
         (c.outputs / c.groups) % choice.out == 0;
}

/// The value is a permutation, maybe seen in another shape, of one whose channels lie last: they move anyway,
/// and to blocks they move as vectors.
bool moves_last_channels(const LayoutContext& ctx, Expr x) {
  for (;;) {
    const Expr made = ctx.definition(x);
    const auto* call = made ? made.as<graph::Call>() : nullptr;
    const auto* op = call ? call->op.as<graph::Op>() : nullptr;
    const auto from = op && !call->args.empty() ? graph::known_shape(call->args[0]->type) : std::nullopt;
    const auto to = graph::known_shape(x->type);
    if (!from || !to) return false;
    if (op->name == "permute_dims") {
      const int64_t rank = int64_t(from->size());
      const auto axes = normal_axes(attrs_of<AxesAttrs>(*call).axes, rank, false);
      return rank > 1 && int64_t(axes.size()) == rank && axes[1] == rank - 1;
    }
    const bool same_channels = definition(*op).view && from->size() > 1 && to->size() > 1 &&
                               same_dim((*from)[0], (*to)[0]) && same_dim((*from)[1], (*to)[1]);
    if (!same_channels) return false;
    x = call->args[0];
  }
}

/// Matrix registers take all groups of a block at once: where a window follows each group, they would read
/// rows that lie far apart.
bool steps_through_window(const LayoutContext& ctx, const ConvSizes& c, int64_t groups) {
  const std::vector<int64_t> weight = c.weight.as<graph::Constant>()->data.shape();
  const bool window = std::any_of(weight.begin() + 2, weight.end(), [](int64_t taps) { return taps > 1; });
  return window && groups > 1 && multiplies_matrices(ctx.target, c.type, c.type);
}

/// Constant weights of floats, and of bytes where the target multiplies them: channels in blocks.
std::optional<LaidOut> layout_of_conv(LayoutContext& ctx, size_t n) {
  auto c = conv_sizes(ctx, n);
  if (!c) return std::nullopt;
  ConvAttrs a = attrs_of<ConvAttrs>(ctx.call);
  ConvChoice choice = choose_blocks(ctx, *c);
  if (!choice.out && c->groups == 1) return std::nullopt;
  if (c->groups > 1 && !c->depthwise) {
    const bool bytes = c->dot && ctx.dtype == i32,
               matrices = multiplies_matrices(ctx.target, c->type, c->type);
    if (matrices || (bytes && !whole_blocks(*c, choice)))
      join_groups(ctx, *c), choice = choose_blocks(ctx, *c);
    if (!whole_blocks(*c, choice)) return conv_by_groups(ctx, *c);
    a.groups = c->groups;
  }
  if (c->depthwise && !filled_up(ctx, *c)) {
    // Of plain data it is not worth two transformations, unless its loads would have gaps or the data comes
    // from where its channels lie last.
    const Expr& x = ctx.call.args[0];
    const bool strided = std::any_of(a.strides.begin(), a.strides.end(), [](int64_t s) { return s > 1; });
    if (!choice.out || (!ctx.in_blocks(x) && !strided && !moves_last_channels(ctx, x))) return std::nullopt;
  }
  const int64_t group = c->depthwise ? 0 : c->dot;
  if (group && choice.data % group) return std::nullopt;
  const int64_t taps = choice.data && choice.data == choice.out ? c->taps : 0;
  KernelBlocks blocks{c->depthwise || group ? 0 : choice.data, choice.out, group, taps};
  if (group && steps_through_window(ctx, *c, choice.data / group)) blocks.in = choice.data / group;
  const Expr x = arranged_data(ctx, *c, choice);
  const Expr w = arranged_weight(ctx, *c, choice, blocks, x);
  a.data_layout = data_layout_name(n, choice.data);
  a.kernel_layout = kernel_layout_name(n, blocks);
  a.out_layout = data_layout_name(n, choice.out);
  if (c->depthwise) a.groups = choice.outputs;
  if (taps) fill_up_taps(a, n, ctx.call, taps);
  return conv_in(ctx, x, w, a, data_layout(n).blocked('C', choice.out), choice.outputs);
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
