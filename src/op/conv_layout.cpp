// SPDX-License-Identifier: Apache-2.0
// The layout of a convolution of constant weights: channels in blocks, for instructions of narrow types in
// groups; narrow groups joined, and others as an axis of their own.
#include <algorithm>
#include <cstring>

#include "analysis/cost/layout.h"
#include "analysis/cost/nest.h"
#include "op/conv.h"
#include "target/matrix_registers.h"
#include "target/narrow_float.h"

namespace tenon::op {

Expr with_groups(LayoutContext& ctx, const Expr& weight) {
  Shape dims = *graph::known_shape(weight->type);
  const PrimExpr group = dims.back();
  dims.pop_back();
  dims.set(dims.size() - 1, simplify(dims.back() * group));
  return ctx.emit_op("reshape", {weight, graph::shape_expr(dims)});
}

namespace {

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

/// Blocks of the channels: of the data (0: plain), and of the result, and the runs in which its channels lie.
struct ConvChoice {
  int64_t data = 0, out = 0;
  ChannelRuns results = {};
};

/// The data in blocks whose last one was filled up: for sums over all channels and for depthwise
/// convolutions.
const LaidOut* filled_up(const LayoutContext& ctx, const ConvSizes& c) {
  if (c.groups != 1 && !c.depthwise) return nullptr;
  const LaidOut* x = ctx.laid_out(ctx.call.args[0]);
  return x && trailing_block(x->layout) && x->channels != c.inputs ? x : nullptr;
}

/// With channels in blocks of this size (0: none) a slice of the results begins inside of one.
bool slices_inside(const LayoutContext& ctx, int64_t block) {
  return std::ranges::any_of(ctx.cuts, [&](int64_t at) { return !block || at % block != 0; });
}

/// Results that are sliced lie in runs that begin where slices do, each filled up to whole vectors; empty:
/// with blocks of this size slices begin there anyway, or too many channels would be added.
ChannelRuns sliced_results(const LayoutContext& ctx, const ConvSizes& c, int64_t block, cost::Filled why) {
  if (!slices_inside(ctx, block)) return {};
  std::set<int64_t> ends = ctx.cuts;
  ends.insert(c.outputs);
  ChannelRuns runs;
  for (int64_t at = 0; const int64_t end : ends) {
    const int64_t filled = cost::filled_channels(end - at, why, ctx.target);
    if (filled % ctx.target->lanes(f32)) return {};
    runs.push_back({end - at, filled});
    at = end;
  }
  return runs;
}

void choose_result(const LayoutContext& ctx, const ConvSizes& c, ConvChoice& choice) {
  const bool matrices = multiplies_matrices(ctx.target, c.type, c.type);
  // Rows of matrix registers are wider than groups often are: blocks fill a group's results there.
  const int64_t together = matrices && !c.depthwise ? c.outputs / c.groups : c.outputs;
  choice.out = cost::channel_block(together, c.type, ctx.target), choice.results = {{c.outputs, c.outputs}};
  if (const LaidOut* x = c.depthwise ? filled_up(ctx, c) : nullptr) {
    choice.out = trailing_block(x->layout), choice.results = x->runs(c.outputs);
    return;
  }
  if (c.depthwise) {
    const LaidOut* x = ctx.in_blocks(ctx.call.args[0]);
    const int64_t block = x ? trailing_block(x->layout) : 0;
    if (block && slices_inside(ctx, choice.out) && !slices_inside(ctx, block)) choice.out = block;
  }
  if (c.groups != 1) return;
  // An image of one point reads little but weights.
  const bool one_point = std::all_of(ctx.shape.begin() + 2, ctx.shape.end(), tir::is_one);
  const cost::Filled why = matrices                             ? cost::Filled::matrices
                           : c.dot && !choice.out               ? cost::Filled::dots
                           : one_point && !choice.out && !c.dot ? cost::Filled::reads
                                                                : cost::Filled::products;
  const int64_t outputs = cost::filled_channels(c.outputs, why, ctx.target);
  choice.out = cost::channel_block(outputs, c.type, ctx.target), choice.results = {{c.outputs, outputs}};
  const ChannelRuns runs =
      sliced_results(ctx, c, choice.out, matrices ? cost::Filled::matrices : cost::Filled::slices);
  if (runs.empty()) return;
  choice.results = runs, choice.out = cost::channel_block(runs[0].filled, c.type, ctx.target);
  for (const ChannelRun& run : runs)
    choice.out = std::min(choice.out, cost::channel_block(run.filled, c.type, ctx.target));
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

/// The data as it is multiplied, and the runs of its channels.
struct ConvData {
  Expr tensor;
  ChannelRuns runs = {};
};

ConvData arranged_data(LayoutContext& ctx, const ConvSizes& c, const ConvChoice& choice) {
  const Expr& x = ctx.call.args[0];
  const LaidOut* have = c.dot && !c.depthwise ? ctx.laid_out(x) : filled_up(ctx, c);
  // Groups that fill up the last one need its channels, and none between their own.
  const bool all = !have || c.groups == 1 || c.depthwise ||
                   (have->parts.empty() && have->channels == c.groups * c.per_group);
  if (have && all && trailing_block(have->layout) == choice.data) {
    // Added channels meet no others, or integers meet weights of 0.
    const bool as_it_is = have->channels == c.inputs || c.depthwise || (c.dot && ctx.dtype == i32);
    return {as_it_is ? have->tensor : ctx.with_zeros(*have, c.inputs), have->runs(c.inputs)};
  }
  if (!choice.data) return {x};
  const Expr blocks = ctx.arranged(x, c.data, data_layout(c.spatial).blocked('C', choice.data));
  return {blocks, {{c.inputs, *tir::as_int((*graph::known_shape(blocks->type))[1]) * choice.data}}};
}

/// The weight for blocks of these sizes; `x` is the data that it meets.
Expr arranged_weight(LayoutContext& ctx, const ConvSizes& c, const ConvChoice& choice,
                     const KernelBlocks& blocks, const ConvData& x) {
  Expr w = ctx.filled(c.weight, 0, choice.results);
  if (!c.depthwise && choice.data && c.groups == 1) w = ctx.filled(w, 1, x.runs);
  if (blocks.taps) w = ctx.emit_op("cast", {w}, make_attrs<CastAttrs>(tensor_arg(ctx.call, 0).dtype));
  w = ctx.emit_transform(w, kernel_layout_name(c.spatial, {}), kernel_layout_name(c.spatial, blocks));
  return blocks.together() > 1 ? with_groups(ctx, w) : w;
}

LaidOut conv_in(LayoutContext& ctx, Expr x, Expr w, const ConvAttrs& attrs, const Layout& out,
                const ChannelRuns& results) {
  Array<Expr> args{std::move(x), std::move(w)};
  if (ctx.call.args.size() > 2) args.push_back(ctx.call.args[2]);
  const std::string& name = ctx.call.op.as<graph::Op>()->name;
  return in_runs(ctx.make(name, args, make_attrs<ConvAttrs>([&](ConvAttrs& a) { a = attrs; })), out, results);
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
  return conv_in(ctx, x, w, a, grouped(c.outputs), {{c.outputs, c.outputs}});
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

}  // namespace

std::optional<LaidOut> layout_of_conv(LayoutContext& ctx, size_t n) {
  auto c = conv_sizes(ctx, n);
  if (!c) return std::nullopt;
  ConvAttrs a = attrs_of<ConvAttrs>(ctx.call);
  ConvChoice choice = choose_blocks(ctx, *c);
  if (!choice.out && c->groups == 1) return std::nullopt;
  if (c->groups > 1 && !c->depthwise) {
    const bool matrices = multiplies_matrices(ctx.target, c->type, c->type);
    if (matrices || (c->dot && !whole_blocks(*c, choice)))
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
  const ConvData x = arranged_data(ctx, *c, choice);
  const Expr w = arranged_weight(ctx, *c, choice, blocks, x);
  a.data_layout = data_layout_name(n, choice.data);
  a.kernel_layout = kernel_layout_name(n, blocks);
  a.out_layout = data_layout_name(n, choice.out);
  const LaidOut result = in_runs({}, data_layout(n).blocked('C', choice.out), choice.results);
  if (c->depthwise) a.groups = result.channels;
  if (taps) fill_up_taps(a, n, ctx.call, taps);
  return conv_in(ctx, x.tensor, w, a, result.layout, choice.results);
}

}  // namespace tenon::op
