// SPDX-License-Identifier: Apache-2.0
// Transposed convolutions of one to three spatial axes: by phases of the stride, by zeros between elements,
// and, where windows lie side by side, window by window.
#include <fmt/format.h>

#include <algorithm>

#include "analysis/cost/layout.h"
#include "base/define_type.h"
#include "op/conv.h"

namespace tenon::op {
namespace {

using Tensors = std::vector<te::Tensor>;
using Ints = std::vector<int64_t>;

struct TransposeShape {
  Ints strides, pads, output_padding, dilation;
};
TransposeShape transpose_shape(const ConvTransposeAttrs& a, size_t n) {
  return {per_axis(a.strides, n, 1), paddings(a.padding, n), per_axis(a.output_padding, n, 0),
          per_axis(a.dilation, n, 1)};
}

/// Windows side by side, in blocks of channels: the data "NCHW16c", the weight "HWOI16i16o" (or "HWOI16o4i",
/// whose last axis holds `group` input channels for each output channel), and the result "N2h2wCHW16c", where
/// the elements of a window are axes of their own.
struct WindowBlocks {
  int64_t in = 0, out = 0, group = 0;  ///< channels of a block; neighbours that a dot instruction takes
};
Layout window_result(const Ints& strides, int64_t block) {
  const Layout plain = data_layout(strides.size());
  Layout out{{plain.axes[0]}};
  for (size_t i = 0; i < strides.size(); ++i)
    if (strides[i] > 1) out.axes.push_back({plain.axes[i + 2].letter, strides[i]});
  out.axes.insert(out.axes.end(), plain.axes.begin() + 1, plain.axes.end());
  return out.blocked('C', block);
}
Layout window_kernel(size_t n, const WindowBlocks& b) {
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
std::optional<WindowBlocks> window_blocks(const ConvTransposeAttrs& a, size_t n) {
  const auto data = Layout::parse(a.data_layout), kernel = Layout::parse(a.kernel_layout),
             out = Layout::parse(a.out_layout);
  if (!data || !kernel || !out) return std::nullopt;
  const bool groups = kernel->axes.back().letter == 'I';
  const WindowBlocks b{data->block('C'), out->block('C'), groups ? kernel->block('I') : 0};
  const bool fit = *data == data_layout(n).blocked('C', b.in) && *kernel == window_kernel(n, b) &&
                   *out == window_result(per_axis(a.strides, n, 1), b.out) && b.in > 1 && b.out > 1 &&
                   (!b.group || b.in % b.group == 0);
  return fit ? std::optional(b) : std::nullopt;
}
bool in_program_layout(const ConvTransposeAttrs& a, size_t n) {
  auto plain = [](const std::string& have, const std::string& name) { return have.empty() || have == name; };
  return plain(a.data_layout, data_layout_name(n, 0)) && plain(a.out_layout, data_layout_name(n, 0)) &&
         plain(a.kernel_layout, transposed_kernel_name(n));
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

Type infer_windows(InferContext& ctx, size_t n, const WindowBlocks& b) {
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
  if (!side_by_side(a, kernel))
    return ctx.error(fmt::format("{}: windows that are not side by side have no blocks", both),
                     "kernel and strides alike, one group, no padding, no dilation");
  const bool fit = is(p->back(), b.in) && is(q->back(), b.out * std::max<int64_t>(1, b.group)) &&
                   (b.group || is((*q)[n + 2], b.in));
  if (!fit || !ctx.require_equal(simplify((*p)[1] * PrimExpr(b.in)),
                                 simplify((*q)[n + 1] * PrimExpr(b.group ? b.group : b.in))))
    return ctx.error(fmt::format("{} do not fit blocks of {} and {} channels", both, b.in, b.out));
  Shape out{(*p)[0]};
  for (int64_t s : c.strides)
    if (s > 1) out.push_back(PrimExpr(s));
  out.push_back((*q)[n]);
  for (size_t i = 0; i < n; ++i) out.push_back((*p)[i + 2]);
  out.push_back(PrimExpr(b.out));
  return make_type(out, 0, contraction_type(x.dtype, w.dtype, a.out_dtype));
}

Tensors def_windows(const Call& call, const Tensors& in, size_t n, const WindowBlocks& b) {
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

/// Constant weights whose windows lie side by side: channels in blocks, elements of a window as axes.
std::optional<LaidOut> layout_of_windows(LayoutContext& ctx, size_t n) {
  const auto& a = attrs_of<ConvTransposeAttrs>(ctx.call);
  const TransposeShape c = transpose_shape(a, n);
  const auto* w = ctx.call.args[1].as<graph::Constant>();
  const auto data = graph::known_shape(ctx.call.args[0]->type);
  if (!w || !data || !in_program_layout(a, n)) return std::nullopt;
  if (!side_by_side(a, Ints(w->data.shape().begin() + 2, w->data.shape().end()))) return std::nullopt;
  const DataType x = tensor_arg(ctx.call, 0).dtype;
  const int64_t group = x == f32 ? 0 : ctx.dot_group(x, w->data.dtype(), ctx.dtype);
  const WindowBlocks b{cost::channel_block(w->data.shape()[0], x, ctx.target),
                       cost::channel_block(w->data.shape()[1], x, ctx.target), group};
  // Half a vector of outputs gains less than it costs to give them back in the program's layout.
  if (!b.in || !b.out || b.out % ctx.target->lanes(f32) != 0) return std::nullopt;
  if ((x != f32 && !group) || (group && b.in % group)) return std::nullopt;
  ConvTransposeAttrs laid = a;
  laid.data_layout = data_layout_name(n, b.in);
  laid.kernel_layout = window_kernel(n, b).name();
  const Layout result = window_result(c.strides, b.out);
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
  if (const auto blocks = window_blocks(a, n)) {
    if (!expect_windows(ctx, a.strides, a.padding, a.dilation, n) ||
        !ctx.expect_per_axis(a.output_padding, n, "output_padding"))
      return {};
    return infer_windows(ctx, n, *blocks);
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
  for (size_t i = 0; i < n; ++i) {
    const PrimExpr window = ((*q)[i + 2] - 1) * PrimExpr(c.dilation[i]) + 1;
    const PrimExpr size = simplify(((*p)[i + 2] - 1) * PrimExpr(c.strides[i]) + window +
                                   PrimExpr(c.output_padding[i]) - PrimExpr(c.pads[i] + c.pads[i + n]));
    if (!ctx.require_not_negative(size))
      return ctx.error(fmt::format("data {} and weight {}: the size of spatial axis {} would be {}", show(*p),
                                   show(*q), i, show_dim(size)));
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

/// The data with zeros around: its first element is the one at `first` - taps + 1.
te::Tensor seen_by_phases(const te::Tensor& x, const Shape& seen, const Ints& first, const Ints& taps) {
  return te::compute(
      seen,
      [&](const Vars& v) {
        Shape at{v[0], v[1]};
        PrimExpr inside = tir::true_();
        for (size_t i = 0; i < first.size(); ++i) {
          at.push_back(v[i + 2] + (first[i] - taps[i] + 1));
          inside = tir::logical_and(inside, tir::ge(at[i + 2], PrimExpr(0)));
          inside = tir::logical_and(inside, tir::lt(at[i + 2], x.shape()[i + 2]));
        }
        return tir::if_then_else(inside, x(at), constant(x.dtype(), 0));
      },
      "pad_temp");
}

/// A sum for each phase alone where the longest phase has so many times the products that all have; each is a
/// loop nest, so that there are not many.
constexpr double kPhasesApart = 1.25;
constexpr int64_t kMostPhases = 8;
bool phases_apart(const Ints& kernel, const Ints& strides, const Ints& taps) {
  double together = 1, apart = 1;
  int64_t phases = 1;
  for (size_t i = 0; i < kernel.size(); ++i) {
    if (kernel[i] < strides[i]) return false;  // a phase without products
    together *= double(taps[i] * strides[i]), apart *= double(kernel[i]);
    phases *= strides[i];
  }
  return phases <= kMostPhases && together >= kPhasesApart * apart;
}

/// What all phases of a transposed convolution see: the data with zeros around, the smallest q, the elements
/// of the longest phase.
struct PhaseData {
  te::Tensor x;
  Ints first, taps;
};
/// The sums of each phase, the last axis's phases side by side, and where they begin.
using PhaseSums = std::vector<std::pair<te::Tensor, Ints>>;
/// The output at `v` from the sums of its phase: that of one axis after the other is asked for, so that what
/// is the same for a row of the output is asked once. `first`: of the sums with the phases of the axes
/// before.
PrimExpr of_its_phase(const Vars& v, const TransposeShape& c, const PhaseSums& sums, size_t axis,
                      size_t first) {
  auto shifted = [&](size_t i) { return v[i + 2] + PrimExpr(c.pads[i]); };
  if (axis == c.strides.size()) {
    Shape at{v[0], v[1]};
    for (size_t i = 0; i < axis; ++i)
      at.push_back(tir::floordiv(shifted(i), PrimExpr(c.strides[i])) - sums[first].second[i]);
    return sums[first].first(at);
  }
  const int64_t stride = c.strides[axis];
  size_t each = 1;  // sums for each phase of this axis
  for (size_t i = axis + 1; i < c.strides.size(); ++i) each *= size_t(c.strides[i]);
  PrimExpr value;
  for (int64_t phase = stride; phase-- > 0;) {
    const PrimExpr one = of_its_phase(v, c, sums, axis + 1, first + size_t(phase) * each);
    const PrimExpr here = tir::eq(tir::floormod(shifted(axis), PrimExpr(stride)), PrimExpr(phase));
    value = value ? tir::if_then_else(here, one, value) : one;
  }
  return value;
}
/// Each phase with the kernel elements that it has, and the output that picks from them.
te::Tensor sums_apart(const Call& call, const Tensors& in, const TransposeShape& c, const Ints& kernel,
                      const PhaseData& data) {
  const TensorInfo out = output_info(call);
  const te::Tensor& w = in[1];
  const int64_t groups = attrs_of<ConvTransposeAttrs>(call).groups;
  const DataType acc = accumulator_type(out.dtype);
  const PrimExpr inputs = simplify(tir::floordiv(in[0].shape()[1], PrimExpr(groups)));
  const size_t n = kernel.size();
  auto sum_of = [&](const Ints& phase, Ints& begin) {
    Shape shape{out.shape[0], out.shape[1]};
    Array<tir::IterVar> ks{te::reduce_axis(tir::range(PrimExpr(0), inputs), "rc")};
    Ints taps;
    for (size_t i = 0; i < n; ++i) {
      const int64_t s = c.strides[i];
      taps.push_back((kernel[i] - phase[i] + s - 1) / s);
      begin.push_back(std::max<int64_t>(0, (c.pads[i] - phase[i] + s - 1) / s));
      const PrimExpr last = tir::floordiv(out.shape[i + 2] + (c.pads[i] - phase[i] - 1), PrimExpr(s));
      shape.push_back(simplify(last - begin[i] + 1));
      ks.push_back(
          te::reduce_axis(tir::range(PrimExpr(0), PrimExpr(taps[i])), "r" + spatial_axis_name(n, i)));
    }
    return te::compute(
        shape,
        [&](const Vars& v) {
          const GroupIndex g = group_index(w, groups, inputs, v[1], ks[0]->var);
          Shape ix{v[0], g.input}, iw{g.input, g.output};
          for (size_t i = 0; i < n; ++i) {
            const PrimExpr t = ks[i + 1]->var;
            ix.push_back(v[2 + i] + t + (begin[i] - data.first[i] + data.taps[i] - taps[i]));
            iw.push_back((taps[i] - 1 - t) * PrimExpr(c.strides[i]) + phase[i]);
          }
          return te::sum(tir::cast(acc, data.x(ix)) * tir::cast(acc, w(iw)), ks);
        },
        short_name(call) + "_phase");
  };
  PhaseSums sums;
  std::vector<Ints> phases{Ints()};
  for (const int64_t s : c.strides) {
    std::vector<Ints> more;
    for (const Ints& p : phases)
      for (int64_t q = 0; q < s; ++q) more.push_back(p), more.back().push_back(q);
    phases = std::move(more);
  }
  for (const Ints& p : phases) {
    Ints begin;
    const te::Tensor sum = sum_of(p, begin);
    sums.emplace_back(sum, begin);
  }
  return te::compute(
      out.shape, [&](const Vars& v) { return tir::cast(out.dtype, of_its_phase(v, c, sums, 0, 0)); },
      short_name(call));
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
  const te::Tensor data = all_inside ? x : seen_by_phases(x, seen, first, taps);
  if (phases_apart(kernel, c.strides, taps)) return {sums_apart(call, in, c, kernel, {data, first, taps})};
  const te::Tensor weight = whole ? w : pad_with(w, none, missing, constant(w.dtype(), 0));
  Array<tir::IterVar> ks{te::reduce_axis(tir::range(PrimExpr(0), inputs), "rc")};
  for (size_t i = 0; i < n; ++i)
    ks.push_back(te::reduce_axis(tir::range(PrimExpr(0), PrimExpr(taps[i])), "r" + spatial_axis_name(n, i)));
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
  if (const auto blocks = window_blocks(a, n)) return def_windows(call, in, n, *blocks);
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

/// Layouts of windows side by side, of windows that are: any others go the general way.
bool windows_fit(const Call& call, size_t n) {
  const auto& a = attrs_of<ConvTransposeAttrs>(call);
  for (const auto& list : {a.strides, a.dilation, a.output_padding})
    if (list.size() > 1 && list.size() != n) return false;
  if (a.padding.size() > 1 && a.padding.size() != n && a.padding.size() != 2 * n) return false;
  const auto blocks = window_blocks(a, n);
  const auto& w = tensor_arg(call, 1);
  const auto q = shape_of(w);
  if (!blocks || !q || w.ndim != int64_t(n) + 3 + (blocks->group == 0)) return false;
  Ints kernel;
  for (size_t i = 0; i < n; ++i) kernel.push_back(tir::as_int((*q)[i]).value_or(0));
  return side_by_side(a, kernel);
}

LetterRule transposed_letters(size_t n) {
  const std::string plain = data_layout(n).name(), kernel = transposed_kernel_name(n);
  LetterRule rule = letters_of<ConvTransposeAttrs>(
      &ConvTransposeAttrs::data_layout, &ConvTransposeAttrs::kernel_layout, &ConvTransposeAttrs::out_layout,
      [plain, kernel](const Call&) { return LayoutNames{plain, kernel, plain}; });
  rule.own = [n](const Call& call) { return windows_fit(call, n); };
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
        .layout([n](LayoutContext& ctx) { return layout_of_windows(ctx, n); })
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
