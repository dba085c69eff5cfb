// SPDX-License-Identifier: Apache-2.0
// Convolutions and transposed convolutions of one to three spatial axes: plain, grouped, depthwise, dilated.
#include <fmt/format.h>

#include "base/define_type.h"
#include "op/family.h"
#include "op/layout.h"

namespace tenon::op {
namespace {

using Tensors = std::vector<te::Tensor>;
using Ints = std::vector<int64_t>;

const char* const kAxisNames[] = {"d", "h", "w"};
/// "h" and "w" for two spatial axes, "w" for one.
std::string axis_name(size_t spatial, size_t i) { return kAxisNames[3 - spatial + i]; }

/// Lists of strides, dilations and paddings of the right lengths, the first two positive.
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

struct ConvShape {
  Ints strides, pads, dilation;
};
ConvShape conv_shape(const ConvAttrs& a, size_t n) {
  return {per_axis(a.strides, n, 1), paddings(a.padding, n), per_axis(a.dilation, n, 1)};
}

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
/// Layouts that this operator computes, and that fit one another.
bool expect_layouts(InferContext& ctx, size_t n) {
  const auto& a = ctx.attrs<ConvAttrs>();
  auto refuse = [&](const std::string& layout, const std::string& wanted) {
    return ctx.error(fmt::format("layout '{}' is not supported here", layout),
                     fmt::format("transform the tensor to {} or a blocked form of it", wanted));
  };
  if (!data_block(a.data_layout, n)) return refuse(a.data_layout, data_layout_name(n, 0));
  if (!data_block(a.out_layout, n)) return refuse(a.out_layout, data_layout_name(n, 0));
  if (!kernel_blocks(a.kernel_layout, n)) return refuse(a.kernel_layout, kernel_layout_name(n, {}));
  const ConvBlocks b = conv_blocks(a, n);
  if (b.kernel.out != b.out || (b.kernel.in != 0 && b.kernel.in != b.data) || (b.data && !b.out) ||
      (b.kernel.group && (b.data == 0 || b.data % b.kernel.group != 0)))
    return ctx.error(fmt::format("data '{}', kernel '{}' and result '{}' do not fit", a.data_layout,
                                 a.kernel_layout, a.out_layout),
                     "for example NCHW8c, OIHW8i16o and NCHW16c, or NCHW, OIHW16o and NCHW16c, or of bytes "
                     "NCHW8c, OIHW16o4i and NCHW16c");
  return true;
}

/// What the padding holds: 0, or the third argument.
PrimExpr padding_of(const Tensors& in) { return in.size() > 2 ? in[2](Shape()) : constant(in[0].dtype(), 0); }
bool expect_padding_value(InferContext& ctx) {
  if (!ctx.has(2)) return true;
  const auto &x = ctx.tensor(0), &z = ctx.tensor(2);
  if (!ctx.expect_rank(z, "the value of the padding", 0)) return false;
  if (z.dtype != x.dtype) return ctx.error("the value of the padding is not of the data's type");
  return true;
}

/// Groups are an axis of data, weight and result.
bool groups_apart(const ConvAttrs& a, size_t n) {
  return a.data_layout == grouped_data_layout(n) && a.kernel_layout == grouped_kernel_layout(n) &&
         a.out_layout == a.data_layout;
}

/// Spatial sizes of the result; `first` is the first spatial axis of data and weight.
bool push_output_sizes(InferContext& ctx, const Shape& p, const Shape& q, size_t first_p, size_t first_q,
                       size_t n, Shape& out) {
  const ConvShape c = conv_shape(ctx.attrs<ConvAttrs>(), n);
  for (size_t i = 0; i < n; ++i) {
    const PrimExpr window = (q[i + first_q] - 1) * PrimExpr(c.dilation[i]) + 1;
    const PrimExpr room = simplify(p[i + first_p] + PrimExpr(c.pads[i] + c.pads[i + n]) - window);
    if (auto r = tir::as_int(room); r && *r < 0)
      return ctx.error(
          fmt::format("data {} and weight {}: the kernel is larger than the padded image in spatial axis {}",
                      show(p), show(q), i));
    out.push_back(simplify(tir::floordiv(room, PrimExpr(c.strides[i])) + 1));
  }
  return true;
}

Type infer_groups_apart(InferContext& ctx, size_t n) {
  const auto& a = ctx.attrs<ConvAttrs>();
  const auto &x = ctx.tensor(0), &w = ctx.tensor(1);
  if (!ctx.expect_rank(x, "the data", int64_t(n) + 3)) return {};
  if (!ctx.expect_rank(w, "the weight", int64_t(n) + 3)) return {};
  if (!ctx.expect_factors(x.dtype, w.dtype)) return {};
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

Tensors def_groups_apart(const Call& call, const Tensors& in, size_t n) {
  const TensorInfo out = output_info(call);
  const ConvShape c = conv_shape(attrs_of<ConvAttrs>(call), n);
  const te::Tensor &x = in[0], &w = in[1];
  const DataType acc = accumulator_type(out.dtype);
  Shape before{PrimExpr(0), PrimExpr(0), PrimExpr(0)}, after = before;
  for (size_t i = 0; i < n; ++i) {
    before.push_back(c.pads[i]);
    after.push_back(c.pads[i + n]);
  }
  const te::Tensor padded = pad_with(x, before, after, padding_of(in));
  Array<tir::IterVar> ks{te::reduce_axis(tir::range(PrimExpr(0), w.shape()[2]), "rc")};
  for (size_t i = 0; i < n; ++i)
    ks.push_back(te::reduce_axis(tir::range(PrimExpr(0), w.shape()[i + 3]), "r" + axis_name(n, i)));
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
  if (groups_apart(a, n)) return infer_groups_apart(ctx, n);
  if (!expect_layouts(ctx, n)) return {};
  const ConvBlocks b = conv_blocks(a, n);
  const int64_t rank = int64_t(n) + 2;
  if (!ctx.expect_rank(x, "the data", rank + (b.data != 0))) return {};
  if (!ctx.expect_rank(w, "the weight", rank + (b.kernel.in != 0) + (b.kernel.out != 0))) return {};
  if (a.groups < 1) return ctx.error(fmt::format("{} groups", a.groups));
  if (!ctx.expect_factors(x.dtype, w.dtype)) return {};
  const DataType dtype = contraction_type(x.dtype, w.dtype, a.out_dtype);
  auto p = shape_of(x), q = shape_of(w);
  if (!p || !q) return make_type(std::nullopt, rank + (b.out != 0), dtype);
  const std::string both = fmt::format("data {} and weight {}", show(*p), show(*q));
  const std::pair<PrimExpr, int64_t> blocks[] = {
      {p->back(), b.data},
      {q->back(), b.kernel.out * std::max<int64_t>(1, b.kernel.group)},
      {b.kernel.in ? (*q)[n + 2] : PrimExpr(0), b.kernel.in}};
  for (const auto& [size, block] : blocks)
    if (block && !tir::is_const_int(size, block))
      return ctx.error(fmt::format("{}: a block of {} channels is an axis of that size", both, block));
  const PrimExpr inputs = (*p)[1] * PrimExpr(std::max<int64_t>(1, b.data));
  const PrimExpr per_group = (*q)[1] * PrimExpr(std::max<int64_t>({1, b.kernel.in, b.kernel.group}));
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
  if (auto o = tir::as_int(outputs);
      o && (*o % a.groups || (!depthwise && tir::as_int((*q)[0]).value() % a.groups)))
    return ctx.error(
        fmt::format("{}: {} output channels are not divisible by {} groups", both, *o, a.groups));
  Shape out{(*p)[0], (*q)[0]};
  if (!push_output_sizes(ctx, *p, *q, 2, 2, n, out)) return {};
  if (b.out) out.push_back(PrimExpr(b.out));
  return make_type(out, 0, dtype);
}

Tensors def_conv(const Call& call, const Tensors& in, size_t n) {
  const auto& a = attrs_of<ConvAttrs>(call);
  if (groups_apart(a, n)) return def_groups_apart(call, in, n);
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
  const te::Tensor padded = pad_with(x, before, after, padding_of(in));
  const bool depthwise = is_depthwise(a, x.shape(), w.shape(), b);
  Array<tir::IterVar> ks;
  // In groups, the sum runs over the data's blocks and the channels in one.
  const int64_t group = b.kernel.group, in_block = group ? b.data : b.kernel.in;
  const PrimExpr in_blocks =
      group ? simplify(tir::floordiv(w.shape()[1] * PrimExpr(group), PrimExpr(b.data))) : w.shape()[1];
  if (!depthwise) ks.push_back(te::reduce_axis(tir::range(PrimExpr(0), in_blocks), "rc"));
  for (size_t i = 0; i < n; ++i)
    ks.push_back(te::reduce_axis(tir::range(PrimExpr(0), w.shape()[i + 2]), "r" + axis_name(n, i)));
  if (in_block) ks.push_back(te::reduce_axis(tir::range(PrimExpr(0), PrimExpr(in_block)), "rb"));
  te::Tensor sum = te::compute(
      out.shape,
      [&](const Vars& v) {
        const PrimExpr channel = depthwise ? PrimExpr(0) : PrimExpr(ks[0]->var);
        const PrimExpr within = in_block ? PrimExpr(ks.back()->var) : PrimExpr(0);
        Shape ix{v[0]}, iw{v[1], channel};
        if (group) iw.set(1, channel * PrimExpr(b.data / group) + tir::floordiv(within, PrimExpr(group)));
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
        if (b.kernel.in) iw.push_back(within);
        if (group)
          iw.push_back(v.back() * PrimExpr(group) + tir::floormod(within, PrimExpr(group)));
        else if (b.kernel.out)
          iw.push_back(v.back());
        return te::sum(tir::cast(acc, padded(ix)) * tir::cast(acc, w(iw)), ks);
      },
      short_name(call));
  return {cast_to(sum, out.dtype)};
}

// ---------------------------------------------------------------- transposed
struct TransposeShape {
  Ints strides, pads, output_padding, dilation;
};
TransposeShape transpose_shape(const ConvTransposeAttrs& a, size_t n) {
  return {per_axis(a.strides, n, 1), paddings(a.padding, n), per_axis(a.output_padding, n, 0),
          per_axis(a.dilation, n, 1)};
}

Type infer_transpose(InferContext& ctx, size_t n) {
  const auto& a = ctx.attrs<ConvTransposeAttrs>();
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
  if (auto channels = tir::as_int((*p)[1]); channels && *channels % a.groups)
    return ctx.error(fmt::format("{} input channels are not divisible by {} groups", *channels, a.groups));
  Shape out{(*p)[0], simplify((*q)[1] * PrimExpr(a.groups))};
  for (size_t i = 0; i < n; ++i) {
    const PrimExpr window = ((*q)[i + 2] - 1) * PrimExpr(c.dilation[i]) + 1;
    const PrimExpr size = simplify(((*p)[i + 2] - 1) * PrimExpr(c.strides[i]) + window +
                                   PrimExpr(c.output_padding[i]) - PrimExpr(c.pads[i] + c.pads[i + n]));
    if (auto s = tir::as_int(size); s && *s < 0)
      return ctx.error(fmt::format("data {} and weight {}: the size of spatial axis {} would be {}", show(*p),
                                   show(*q), i, *s));
    out.push_back(size);
  }
  return make_type(out, 0, dtype);
}

/// The sum over the channels, and beside it the output channel, of a group.
struct GroupIndex {
  PrimExpr input, output;
};
GroupIndex group_index(const te::Tensor& w, int64_t groups, const PrimExpr& inputs, const PrimExpr& output,
                       const PrimExpr& rc) {
  if (groups == 1) return {rc, output};
  return {tir::floordiv(output, w.shape()[1]) * inputs + rc, tir::floormod(output, w.shape()[1])};
}

/// Output o + pad = stride · q + phase takes the kernel elements k = stride · t + phase and the inputs q - t:
/// one convolution of stride 1 for every phase, over no zeros. The sums are of the shape
/// (batch, channels, phases …, q …); the output picks from them.
Tensors def_phases(const Call& call, const Tensors& in, size_t n, const TransposeShape& c,
                   const Ints& kernel) {
  const auto& a = attrs_of<ConvTransposeAttrs>(call);
  const TensorInfo out = output_info(call);
  const te::Tensor &x = in[0], &w = in[1];
  const DataType acc = accumulator_type(out.dtype);
  const PrimExpr inputs = simplify(tir::floordiv(x.shape()[1], PrimExpr(a.groups)));
  Ints taps, first;  // elements of the longest phase; the smallest q
  Shape seen{x.shape()[0], x.shape()[1]}, none{PrimExpr(0), PrimExpr(0)}, missing = none;
  Shape sums{x.shape()[0], out.shape[1]}, places;
  bool all_inside = true, whole = true;
  for (size_t i = 0; i < n; ++i) {
    const int64_t s = c.strides[i];
    taps.push_back((kernel[i] + s - 1) / s);
    first.push_back(c.pads[i] / s);
    const PrimExpr last = tir::floordiv(out.shape[i + 2] - 1 + PrimExpr(c.pads[i]), PrimExpr(s));
    places.push_back(simplify(last - first[i] + 1));
    seen.push_back(simplify(places[i] + (taps[i] - 1)));
    all_inside =
        all_inside && first[i] == taps[i] - 1 && tir::is_zero(simplify(seen[i + 2] - x.shape()[i + 2]));
    none.push_back(PrimExpr(0));
    missing.push_back(PrimExpr(taps[i] * s - kernel[i]));
    whole = whole && taps[i] * s == kernel[i];
    sums.push_back(PrimExpr(s));
  }
  for (const PrimExpr& q : places) sums.push_back(q);
  const te::Tensor data =
      all_inside ? x
                 : te::compute(
                       seen,
                       [&](const Vars& v) {
                         Shape at{v[0], v[1]};
                         PrimExpr inside = tir::true_();
                         for (size_t i = 0; i < n; ++i) {
                           at.push_back(v[i + 2] + (first[i] - taps[i] + 1));
                           inside = tir::logical_and(inside, tir::ge(at[i + 2], PrimExpr(0)));
                           inside = tir::logical_and(inside, tir::lt(at[i + 2], x.shape()[i + 2]));
                         }
                         return tir::if_then_else(inside, x(at), constant(x.dtype(), 0));
                       },
                       "pad_temp");
  const te::Tensor weight = whole ? w : pad_with(w, none, missing, constant(w.dtype(), 0));
  Array<tir::IterVar> ks{te::reduce_axis(tir::range(PrimExpr(0), inputs), "rc")};
  for (size_t i = 0; i < n; ++i)
    ks.push_back(te::reduce_axis(tir::range(PrimExpr(0), PrimExpr(taps[i])), "r" + axis_name(n, i)));
  const te::Tensor sum = te::compute(
      sums,
      [&](const Vars& v) {
        const GroupIndex g = group_index(w, a.groups, inputs, v[1], ks[0]->var);
        Shape ix{v[0], g.input}, iw{g.input, g.output};
        for (size_t i = 0; i < n; ++i) {
          const PrimExpr t = ks[i + 1]->var;
          ix.push_back(v[2 + n + i] + t);
          iw.push_back(v[2 + i] + (taps[i] - 1 - t) * PrimExpr(c.strides[i]));
        }
        return te::sum(tir::cast(acc, data(ix)) * tir::cast(acc, weight(iw)), ks);
      },
      short_name(call) + "_phases");
  return {te::compute(
      out.shape,
      [&](const Vars& v) {
        Shape at{v[0], v[1]}, q;
        for (size_t i = 0; i < n; ++i) {
          const PrimExpr shifted = v[i + 2] + c.pads[i], stride = c.strides[i];
          at.push_back(tir::floormod(shifted, stride));
          q.push_back(tir::floordiv(shifted, stride) - first[i]);
        }
        for (const PrimExpr& e : q) at.push_back(e);
        return tir::cast(out.dtype, sum(at));
      },
      short_name(call))};
}

/// A gather: output o takes the kernel elements k for which (o + pad - k · dilation) is a multiple of the
/// stride.
Tensors def_transpose(const Call& call, const Tensors& in, size_t n) {
  const auto& a = attrs_of<ConvTransposeAttrs>(call);
  const TensorInfo out = output_info(call);
  const TransposeShape c = transpose_shape(a, n);
  const te::Tensor &x = in[0], &w = in[1];
  Ints kernel;
  bool strided = false, plain = true;
  for (size_t i = 0; i < n; ++i) {
    const auto size = tir::as_int(w.shape()[i + 2]);
    kernel.push_back(size.value_or(0));
    strided = strided || c.strides[i] > 1;
    plain = plain && size && c.dilation[i] == 1;
  }
  if (strided && plain) return def_phases(call, in, n, c, kernel);
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
    ks.push_back(te::reduce_axis(tir::range(PrimExpr(0), w.shape()[i + 2]), "r" + axis_name(n, i)));
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

const bool conv_registered = [] {
  for (size_t n = 1; n <= 3; ++n) {
    register_op(fmt::format("nn.conv{}d", n),
                fmt::format("Convolution (cross-correlation) over {} spatial axes.", n))
        .argument("data", "Tensor", "(batch, channels, …)")
        .argument("weight", "Tensor", "(output channels, input channels / groups, …)")
        .argument("padding_value", "Tensor", "a scalar: what the padding holds; 0 without it", true)
        .attrs<ConvAttrs>()
        .infer([n](InferContext& ctx) { return infer_conv(ctx, n); })
        .fusion(FusionKind::out_element_wise_fusable)
        .tensor_def([n](const Call& c, const Tensors& in) { return def_conv(c, in, n); });
    register_op(fmt::format("nn.conv{}d_transpose", n),
                fmt::format("Transposed convolution over {} spatial axes.", n))
        .argument("data", "Tensor", "(batch, channels, …)")
        .argument("weight", "Tensor", "(input channels, output channels / groups, …)")
        .attrs<ConvTransposeAttrs>()
        .infer([n](InferContext& ctx) { return infer_transpose(ctx, n); })
        .fusion(FusionKind::out_element_wise_fusable)
        .tensor_def([n](const Call& c, const Tensors& in) { return def_transpose(c, in, n); });
  }
  return true;
}();

}  // namespace
}  // namespace tenon::op

template struct tenon::DefineTypes<tenon::op::ConvAttrs, tenon::op::ConvTransposeAttrs>;
