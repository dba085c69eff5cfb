// SPDX-License-Identifier: Apache-2.0
// Pooling over windows, over whole images, and to a given output size.
#include <fmt/format.h>

#include <algorithm>

#include "base/define_type.h"
#include "op/family.h"
#include "op/letters.h"
#include "op/pool.h"

namespace tenon::op {
namespace {

using Tensors = std::vector<te::Tensor>;
using Ints = std::vector<int64_t>;
using Kind = Pooling;

/// The value that max leaves alone.
PrimExpr lowest(DataType t) { return t.is_float() ? -tir::infinity(t) : tir::min_value(t); }

struct Window {
  Ints size, strides, pads, dilation;
};
Window window_of(const PoolAttrs& a, size_t n) {
  return {per_axis(a.pool_size, n, 1), per_axis(a.strides, n, 1), paddings(a.padding, n),
          per_axis(a.dilation, n, 1)};
}
/// Lists of the right lengths and with values that make windows.
bool expect_window(InferContext& ctx, size_t n) {
  const auto& a = ctx.attrs<PoolAttrs>();
  if (a.pool_size.empty()) return ctx.error("pool_size is missing");
  if (!ctx.expect_per_axis(a.pool_size, n, "pool_size") || !ctx.expect_per_axis(a.strides, n, "strides") ||
      !ctx.expect_paddings(a.padding, n) || !ctx.expect_per_axis(a.dilation, n, "dilation"))
    return false;
  for (const auto& list : {a.pool_size, a.strides, a.dilation})
    for (int64_t v : list)
      if (v < 1) return ctx.error(fmt::format("window, stride or dilation {} is not positive", v));
  for (int64_t v : a.padding)
    if (v < 0) return ctx.error(fmt::format("padding {} is negative", v));
  return true;
}

/// Where the spatial axes stand; nullopt: in blocks, or not there.
std::optional<std::vector<size_t>> spatial_axes(const Layout& layout, size_t n) {
  std::vector<size_t> out;
  for (size_t i = 0; i < n; ++i) {
    const char letter = data_layout(n).axes[i + 2].letter;
    const auto at = std::ranges::find(layout.axes, Layout::Axis{letter});
    if (at == layout.axes.end() || layout.block(letter) != 1) return std::nullopt;
    out.push_back(size_t(at - layout.axes.begin()));
  }
  return out;
}
Layout layout_of(const PoolAttrs& a, size_t n) { return Layout::parse(a.layout).value_or(data_layout(n)); }
/// Windows move along whole axes, and the result is laid out as the data: in any order of axes, and in blocks
/// of channels.
bool moves_in_place(const PoolAttrs& a, size_t n) {
  const auto layout = a.layout.empty() ? data_layout(n) : Layout::parse(a.layout);
  return layout && layout->letters() == data_layout(n).letters() && spatial_axes(*layout, n) &&
         (a.out_layout.empty() || a.out_layout == layout->name());
}

Type infer_pool(InferContext& ctx, size_t n, Kind kind) {
  const auto& x = ctx.tensor(0);
  const auto& a = ctx.attrs<PoolAttrs>();
  const Layout layout = layout_of(a, n);
  if (!ctx.expect_rank(x, "the data", int64_t(layout.axes.size()))) return {};
  if (!ctx.expect_domain(x.dtype, kind == Kind::max ? Domain::number : Domain::floating)) return {};
  if (!expect_window(ctx, n)) return {};
  const Window w = window_of(a, n);
  if (kind == Kind::lp && a.p <= 0) return ctx.error("the exponent p must be positive");
  auto have = shape_of(x);
  if (!have) return make_type(std::nullopt, x.ndim, x.dtype);
  Shape out = *have;
  const std::vector<size_t> spatial = *spatial_axes(layout, n);
  for (size_t i = 0; i < n; ++i) {
    const PrimExpr size = (*have)[spatial[i]], stride = w.strides[i];
    const PrimExpr room =
        simplify(size + PrimExpr(w.pads[i] + w.pads[i + n] - (w.size[i] - 1) * w.dilation[i] - 1));
    // Of a window that does not fit there are no results, unless it lacks so much that their number is below
    // 0.
    const PrimExpr most_lacking = a.ceil_mode ? stride * PrimExpr(2) - PrimExpr(1) : stride;
    if (!ctx.require_not_negative(simplify(room + most_lacking)))
      return ctx.error(
          fmt::format("the window is larger than the padded image {} in spatial axis {}", show(*have), i));
    // Rounded up, a window must still begin inside of the image or the padding before it.
    const PrimExpr places = a.ceil_mode ? tir::min(tir::ceildiv(room, stride) + 1,
                                                   tir::ceildiv(size + PrimExpr(w.pads[i]), stride))
                                        : tir::floordiv(room, stride) + 1;
    out.set(spatial[i], simplify(places));
  }
  return make_type(out, 0, x.dtype);
}

/// Elements of the window at output index o that are counted: inside of the image, or of image and padding.
PrimExpr count_of(const PrimExpr& o, const PrimExpr& size, const Window& w, size_t i, size_t n,
                  bool include_pad) {
  const PrimExpr start = o * PrimExpr(w.strides[i]) - PrimExpr(w.pads[i]);
  const PrimExpr end = include_pad ? size + PrimExpr(w.pads[i + n]) : size;
  const PrimExpr dilation = w.dilation[i];
  PrimExpr high = tir::min(PrimExpr(w.size[i]), tir::ceildiv(end - start, dilation));
  if (include_pad) return high;
  return high - tir::max(PrimExpr(0), tir::ceildiv(PrimExpr(0) - start, dilation));
}

PrimExpr power(const PrimExpr& x, double p) {
  if (p == 1) return x;
  if (p == 2) return x * x;
  return tir::pow(x, constant(x.dtype(), p));
}
PrimExpr root(const PrimExpr& x, double p) {
  if (p == 1) return x;
  if (p == 2) return tir::sqrt(x);
  return tir::pow(x, constant(x.dtype(), 1 / p));
}

/// Elements that windows of spatial axis i reach beyond the end of the image.
PrimExpr width_behind(const Window& w, size_t i, size_t n, const PrimExpr& size, const PrimExpr& places,
                      bool ceil_mode) {
  const PrimExpr end = w.pads[i + n];
  if (!ceil_mode) return end;
  const PrimExpr reach =
      (places - 1) * PrimExpr(w.strides[i]) + PrimExpr((w.size[i] - 1) * w.dilation[i] + 1);
  return simplify(tir::max(end, reach - size - PrimExpr(w.pads[i])));
}

/// Outside of the image: what a fold leaves alone.
PrimExpr nothing(Kind kind, DataType t) { return kind == Kind::max ? lowest(t) : constant(t, 0); }

/// The mean or norm of each window, of the sum of what is in it.
te::Tensor finished(const Call& call, const Tensors& in, size_t n, Kind kind, const te::Tensor& folded) {
  const auto& a = attrs_of<PoolAttrs>(call);
  const TensorInfo out = output_info(call);
  if (kind == Kind::max) return cast_to(folded, out.dtype);
  const Window w = window_of(a, n);
  const std::vector<size_t> spatial = *spatial_axes(layout_of(a, n), n);
  bool plain = !a.ceil_mode;  // no window is cut off
  int64_t all = 1;
  for (size_t i = 0; i < n; ++i) {
    all *= w.size[i];
    plain = plain && (a.count_include_pad || (w.pads[i] == 0 && w.pads[i + n] == 0));
  }
  return te::compute(
      out.shape,
      [&](const Vars& v) {
        const PrimExpr e = folded(indices(v));
        if (kind == Kind::lp) return tir::cast(out.dtype, root(e, a.p));
        if (plain) return tir::cast(out.dtype, e * constant(e.dtype(), 1.0 / double(all)));
        PrimExpr count = 1;
        for (size_t i = 0; i < n; ++i)
          count = count * count_of(v[spatial[i]], in[0].shape()[spatial[i]], w, i, n, a.count_include_pad);
        return tir::cast(out.dtype, tir::div(e, tir::cast(e.dtype(), tir::max(count, PrimExpr(1)))));
      },
      short_name(call) + "_mean");
}

Tensors def_pool(const Call& call, const Tensors& in, size_t n, Kind kind) {
  const auto& a = attrs_of<PoolAttrs>(call);
  const TensorInfo out = output_info(call);
  const Window w = window_of(a, n);
  const te::Tensor& x = in[0];
  const std::vector<size_t> spatial = *spatial_axes(layout_of(a, n), n);
  Shape before;
  before.resize(x.ndim(), PrimExpr(0));
  Shape after = before;
  for (size_t i = 0; i < n; ++i) {
    before.set(spatial[i], PrimExpr(w.pads[i]));
    after.set(spatial[i], width_behind(w, i, n, x.shape()[spatial[i]], out.shape[spatial[i]], a.ceil_mode));
  }
  const te::Tensor padded = pad_with(x, before, after, nothing(kind, x.dtype()));
  Array<tir::IterVar> ks;
  for (size_t i = 0; i < n; ++i)
    ks.push_back(te::reduce_axis(tir::range(PrimExpr(0), PrimExpr(w.size[i])), fmt::format("r{}", i)));
  const te::Tensor folded = te::compute(
      out.shape,
      [&](const Vars& v) {
        Shape at = indices(v);
        for (size_t i = 0; i < n; ++i)
          at.set(spatial[i],
                 v[spatial[i]] * PrimExpr(w.strides[i]) + PrimExpr(ks[i]->var) * PrimExpr(w.dilation[i]));
        const PrimExpr e = wide(padded(at));
        if (kind == Kind::max) return te::max(e, ks);
        return te::sum(kind == Kind::lp ? power(tir::abs(e), a.p) : e, ks);
      },
      short_name(call));
  return {finished(call, in, n, kind, folded)};
}

std::optional<LaidOut> layout_of_pool(LayoutContext& ctx) {
  const LaidOut* x = ctx.laid_out(ctx.call.args[0]);
  if (!x || (x->layout.has_blocks() && !trailing_block(x->layout))) return std::nullopt;
  const ObjectRef attrs = make_attrs<PoolAttrs>([&](PoolAttrs& to) {
    to = attrs_of<PoolAttrs>(ctx.call);
    to.layout = x->layout.name();
    to.out_layout.clear();
  });
  return x->with(ctx.make(ctx.call.op.as<graph::Op>()->name, {x->tensor}, attrs));
}

// ---------------------------------------------------------------- whole images
bool expect_image(InferContext& ctx, const graph::TensorType& x) {
  if (x.ndim >= 0 && x.ndim < 3)
    return ctx.error(fmt::format("the data must have at least 3 dimensions, it has {}", x.ndim));
  return true;
}

Type infer_global(InferContext& ctx, Kind kind) {
  const auto& x = ctx.tensor(0);
  if (!expect_image(ctx, x)) return {};
  if (!ctx.expect_domain(x.dtype, kind == Kind::max ? Domain::number : Domain::floating)) return {};
  auto have = shape_of(x);
  if (!have) return make_type(std::nullopt, x.ndim, x.dtype);
  Shape out;
  for (size_t i = 0; i < have->size(); ++i) out.push_back(i < 2 ? (*have)[i] : PrimExpr(1));
  return make_type(out, 0, x.dtype);
}

Tensors def_global(const Call& call, const Tensors& in, Kind kind) {
  const te::Tensor& x = in[0];
  const DataType dtype = x.dtype();
  const std::string name = short_name(call);
  const double p = kind == Kind::lp ? attrs_of<PoolAttrs>(call).p : 1;
  std::vector<int64_t> axes;
  PrimExpr count = 1;
  for (size_t i = 2; i < x.ndim(); ++i) {
    axes.push_back(int64_t(i));
    count = count * x.shape()[i];
  }
  auto element = [&](const PrimExpr& e, const Shape&) {
    return kind == Kind::lp ? power(tir::abs(wide(e)), p) : wide(e);
  };
  te::Tensor folded =
      reduce_over(x, axes, true, kind == Kind::max ? ReduceOne(te::max) : ReduceOne(te::sum), element, name);
  if (kind == Kind::max) return {cast_to(folded, dtype)};
  return {te::compute(
      folded.shape(),
      [&](const Vars& v) {
        const PrimExpr e = folded(indices(v));
        if (kind == Kind::lp) return tir::cast(dtype, root(e, p));
        return tir::cast(dtype, tir::div(e, tir::cast(e.dtype(), count)));
      },
      name + "_mean")};
}

// ---------------------------------------------------------------- to a given size
Type infer_adaptive(InferContext& ctx, Kind kind) {
  const auto& x = ctx.tensor(0);
  if (!expect_image(ctx, x)) return {};
  if (!ctx.expect_domain(x.dtype, kind == Kind::max ? Domain::number : Domain::floating)) return {};
  auto have = shape_of(x);
  if (!have) return make_type(std::nullopt, x.ndim, x.dtype);
  Shape out{(*have)[0], (*have)[1]};
  const auto& size = ctx.attrs<AdaptivePoolAttrs>().output_size;
  const size_t n = have->size() - 2;
  if (size.empty()) return ctx.error("output_size is missing");
  if (!ctx.expect_per_axis(size, n, "output_size")) return {};
  for (int64_t v : per_axis(size, n, 1)) {
    if (v < 1) return ctx.error(fmt::format("output size {} is not positive", v));
    out.push_back(v);
  }
  return make_type(out, 0, x.dtype);
}

/// Output o covers the elements from floor(o · in / out) to ceil((o + 1) · in / out).
Tensors def_adaptive(const Call& call, const Tensors& in, Kind kind) {
  const te::Tensor& x = in[0];
  const TensorInfo out = output_info(call);
  const size_t n = x.ndim() - 2;
  const std::string name = short_name(call);
  auto start = [&](const PrimExpr& o, size_t i) {
    return tir::floordiv(o * x.shape()[i + 2], out.shape[i + 2]);
  };
  auto end = [&](const PrimExpr& o, size_t i) {
    return tir::ceildiv((o + 1) * x.shape()[i + 2], out.shape[i + 2]);
  };
  Array<tir::IterVar> ks;
  std::vector<bool> even;
  for (size_t i = 0; i < n; ++i) {
    const PrimExpr size = x.shape()[i + 2], parts = out.shape[i + 2];
    even.push_back(tir::is_zero(simplify(tir::floormod(size, parts))));
    const PrimExpr longest = simplify(even[i] ? tir::floordiv(size, parts) : tir::ceildiv(size, parts) + 1);
    ks.push_back(te::reduce_axis(tir::range(PrimExpr(0), longest), fmt::format("r{}", i)));
  }
  te::Tensor folded = te::compute(
      out.shape,
      [&](const Vars& v) {
        Shape at{v[0], v[1]};
        PrimExpr inside;
        for (size_t i = 0; i < n; ++i) {
          const PrimExpr index = (even[i] ? v[i + 2] * ks[i]->dom->extent : start(v[i + 2], i)) + ks[i]->var;
          at.push_back(index);
          if (even[i]) continue;
          const PrimExpr here = tir::lt(index, end(v[i + 2], i));
          inside = inside ? tir::logical_and(inside, here) : here;
        }
        const PrimExpr e = wide(x(at));
        return kind == Kind::max ? te::max(e, ks, inside) : te::sum(e, ks, inside);
      },
      name);
  if (kind == Kind::max) return {cast_to(folded, out.dtype)};
  return {te::compute(
      out.shape,
      [&](const Vars& v) {
        PrimExpr count = 1;
        for (size_t i = 0; i < n; ++i)
          count = count * (even[i] ? ks[i]->dom->extent : end(v[i + 2], i) - start(v[i + 2], i));
        const PrimExpr e = folded(indices(v));
        return tir::cast(out.dtype, tir::div(e, tir::cast(e.dtype(), count)));
      },
      name + "_mean")};
}

const bool pool_registered = [] {
  auto add = [](OpName name, std::string doc, InferType infer, TensorDef def) {
    return register_op(std::move(name), std::move(doc))
        .argument("x", "Tensor", "(batch, channels, …)")
        .infer(std::move(infer))
        .fusion(FusionKind::out_element_wise_fusable)
        .tensor_def(std::move(def));
  };
  auto what = [](Kind kind) {
    return kind == Kind::max ? "Largest element" : kind == Kind::avg ? "Mean" : "p-norm";
  };
  auto pool = [&](OpName name, Kind kind, size_t n) {
    auto op = add(
                  std::move(name), fmt::format("{} of each window of {} spatial axes.", what(kind), n),
                  [n, kind](InferContext& ctx) { return infer_pool(ctx, n, kind); },
                  [n, kind](const Call& c, const Tensors& in) { return def_pool(c, in, n, kind); })
                  .attrs<PoolAttrs>()
                  .layout(layout_of_pool)
                  .precision(kind == Kind::max ? Precision::follows : Precision::wide);
    if (kind == Kind::max) op.moves();
    const std::string plain = data_layout(n).name();
    LetterRule letters =
        letters_of<PoolAttrs>(&PoolAttrs::layout, nullptr, &PoolAttrs::out_layout,
                              [plain](const Call&) { return LayoutNames{plain, "", plain}; });
    letters.own = [n](const Call& c) { return moves_in_place(attrs_of<PoolAttrs>(c), n); };
    op.letters(std::move(letters));
  };
  pool("nn.max_pool1d", Kind::max, 1);
  pool("nn.max_pool2d", Kind::max, 2);
  pool("nn.max_pool3d", Kind::max, 3);
  pool("nn.avg_pool1d", Kind::avg, 1);
  pool("nn.avg_pool2d", Kind::avg, 2);
  pool("nn.avg_pool3d", Kind::avg, 3);
  pool("nn.lp_pool1d", Kind::lp, 1);
  pool("nn.lp_pool2d", Kind::lp, 2);
  pool("nn.lp_pool3d", Kind::lp, 3);
  auto global = [&](OpName name, Kind kind) {
    return add(
        std::move(name), fmt::format("{} of each channel, over all spatial axes.", what(kind)),
        [kind](InferContext& ctx) { return infer_global(ctx, kind); },
        [kind](const Call& c, const Tensors& in) { return def_global(c, in, kind); });
  };
  auto fold = [](const char* op) {
    return [op](LayoutContext& ctx) { return layout_of_image_fold(ctx, op); };
  };
  const auto of_image = [] {
    return image_letters<GlobalPoolAttrs>(&GlobalPoolAttrs::layout, &GlobalPoolAttrs::out_layout);
  };
  global("nn.global_max_pool", Kind::max)
      .attrs<GlobalPoolAttrs>()
      .moves()
      .layout(fold("max"))
      .letters(of_image());
  global("nn.global_avg_pool", Kind::avg).attrs<GlobalPoolAttrs>().layout(fold("mean")).letters(of_image());
  global("nn.global_lp_pool", Kind::lp)
      .attrs<PoolAttrs>()
      .letters(image_letters<PoolAttrs>(&PoolAttrs::layout, &PoolAttrs::out_layout));
  auto adaptive = [&](OpName name, Kind kind) {
    add(
        std::move(name), fmt::format("{} of each of the given number of parts.", what(kind)),
        [kind](InferContext& ctx) { return infer_adaptive(ctx, kind); },
        [kind](const Call& c, const Tensors& in) { return def_adaptive(c, in, kind); })
        .attrs<AdaptivePoolAttrs>()
        .letters(
            image_letters<AdaptivePoolAttrs>(&AdaptivePoolAttrs::layout, &AdaptivePoolAttrs::out_layout));
  };
  adaptive("nn.adaptive_max_pool", Kind::max);
  adaptive("nn.adaptive_avg_pool", Kind::avg);
  return true;
}();

}  // namespace

WindowWork window_work(const Call& call, size_t n, Pooling kind) {
  const Window w = window_of(attrs_of<PoolAttrs>(call), n);
  WindowWork out;
  const Layout layout = layout_of(attrs_of<PoolAttrs>(call), n);
  const std::vector<size_t> spatial = *spatial_axes(layout, n);
  for (size_t i = 0; i < n; ++i)
    if (spatial[i] + 1 == layout.axes.size()) out.lane_stride = w.strides[i];
  out.channels_last = layout.axes.back() == Layout::Axis{'C'};
  int64_t results = 1;  // of the present axis for one of the last
  for (size_t i = n; i-- > 0;) {
    out.at_once *= w.size[i];
    out.by_axes += w.size[i] * results;
    results *= w.strides[i];
  }
  const auto have = shape_of(tensor_arg(call, 0)), made = shape_of(*call.type.as<graph::TensorType>());
  if (!have || !made) return out;
  const DataType x = tensor_arg(call, 0).dtype;
  const int64_t bytes = (kind == Kind::max ? x : wide_type(x)).bytes();
  Shape between = *have;
  int64_t most = 0;
  for (size_t i = 0; i + 1 < n; ++i) {
    between.set(spatial[i], (*made)[spatial[i]]);
    const auto elements = tir::as_int(simplify(product(between)));
    if (!elements) return out;
    most = std::max(most, *elements * bytes);
  }
  out.bytes = most;
  return out;
}

Tensors define_pool_by_axes(const Call& call, const Tensors& in, size_t n, Pooling kind) {
  const auto& a = attrs_of<PoolAttrs>(call);
  const TensorInfo out = output_info(call);
  const Window w = window_of(a, n);
  const std::vector<size_t> spatial = *spatial_axes(layout_of(a, n), n);
  te::Tensor folded = in[0];
  for (size_t i = 0; i < n; ++i) {
    const size_t axis = spatial[i];
    Shape before, shape = folded.shape();
    before.resize(shape.size(), PrimExpr(0));
    Shape after = before;
    before.set(axis, PrimExpr(w.pads[i]));
    after.set(axis, width_behind(w, i, n, shape[axis], out.shape[axis], a.ceil_mode));
    const te::Tensor padded = pad_with(folded, before, after, nothing(kind, folded.dtype()));
    shape.set(axis, out.shape[axis]);
    const tir::IterVar k =
        te::reduce_axis(tir::range(PrimExpr(0), PrimExpr(w.size[i])), fmt::format("r{}", i));
    folded = te::compute(
        shape,
        [&](const Vars& v) {
          Shape at = indices(v);
          at.set(axis, v[axis] * PrimExpr(w.strides[i]) + PrimExpr(k->var) * PrimExpr(w.dilation[i]));
          const PrimExpr e = padded(at);
          if (kind == Kind::max) return te::max(e, {k});
          // Sums between the axes are as wide as those of whole windows.
          return te::sum(kind == Kind::lp && i == 0 ? power(tir::abs(wide(e)), a.p) : wide(e), {k});
        },
        fmt::format("{}_{}", short_name(call), i));
  }
  return {finished(call, in, n, kind, folded)};
}

}  // namespace tenon::op

template struct tenon::DefineTypes<tenon::op::AdaptivePoolAttrs, tenon::op::GlobalPoolAttrs>;
