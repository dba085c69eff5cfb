// SPDX-License-Identifier: Apache-2.0
// Operators that pick, repeat or rearrange elements by position: slices, flips, tiles, pads, blocks, layouts.
#include <fmt/format.h>

#include <algorithm>
#include <cctype>

#include "op/family.h"
#include "op/letters.h"

#include "base/define_type.h"

namespace tenon::op {
namespace {

using Tensors = std::vector<te::Tensor>;

// ---------------------------------------------------------------- strided_slice
struct Slice {
  PrimExpr begin, extent;
  int64_t stride = 1;
};

PrimExpr clamp(const PrimExpr& e, const PrimExpr& low, const PrimExpr& high) {
  return tir::max(tir::min(e, high), low);
}

Slice slice_axis(const PrimExpr& n, const PrimExpr& begin, const PrimExpr& end, int64_t stride) {
  // Negative positions count from the end; what lies outside is moved to the nearest end.
  Analyzer analyzer;
  for (const tir::VarRef& v : tir::free_vars(n)) analyzer.assume_size(v);
  const PrimExpr low = stride > 0 ? 0 : -1, high = stride > 0 ? n : n - 1;
  auto position = [&](const PrimExpr& e) {
    auto v = tir::as_int(e);
    // Far ends ("to the end") must not overflow when the size is added.
    if (v && *v > (int64_t(1) << 60)) return high;
    if (v && *v < -(int64_t(1) << 60)) return low;
    if (v) return clamp(*v < 0 ? e + n : e, low, high);
    return clamp(tir::select(tir::lt(e, PrimExpr(0)), e + n, e), low, high);
  };
  Slice s;
  s.stride = stride;
  s.begin = analyzer.simplify(position(begin));
  const PrimExpr to = position(end);
  const PrimExpr distance = stride > 0 ? to - s.begin : s.begin - to;
  s.extent = analyzer.simplify(
      tir::max(tir::ceildiv(distance, PrimExpr(stride > 0 ? stride : -stride)), PrimExpr(0)));
  return s;
}

std::vector<Slice> slices(const StridedSliceAttrs& a, const Shape& shape) {
  std::vector<Slice> out;
  for (const PrimExpr& n : shape) out.push_back({PrimExpr(0), n, 1});
  for (size_t i = 0; i < a.begin.size(); ++i) {
    const auto axis = a.axes.empty() ? i : size_t(normal_axis(a.axes[i], int64_t(shape.size())));
    out[axis] = slice_axis(shape[axis], tir::cast(i64, a.begin[i]), tir::cast(i64, a.end[i]),
                           a.strides.empty() ? 1 : a.strides[i]);
  }
  return out;
}
bool expect_slices(InferContext& ctx, int64_t ndim) {
  const auto& a = ctx.attrs<StridedSliceAttrs>();
  if (a.begin.size() != a.end.size())
    return ctx.error(fmt::format("{} begins and {} ends", a.begin.size(), a.end.size()));
  if (!a.axes.empty() && a.axes.size() != a.begin.size())
    return ctx.error(fmt::format("{} axes and {} begins", a.axes.size(), a.begin.size()));
  if (!a.strides.empty() && a.strides.size() != a.begin.size())
    return ctx.error(fmt::format("{} strides and {} begins", a.strides.size(), a.begin.size()));
  if (int64_t(a.begin.size()) > ndim)
    return ctx.error(fmt::format("{} begins for a tensor of {} dimensions", a.begin.size(), ndim));
  for (int64_t s : a.strides)
    if (s == 0) return ctx.error("a stride is 0");
  return ctx.expect_axes(a.axes, ndim);
}

Type infer_slice(InferContext& ctx) {
  const auto& x = ctx.tensor(0);
  auto have = shape_of(x);
  if (!have) return make_type(std::nullopt, x.ndim, x.dtype);
  Shape out;
  if (!expect_slices(ctx, x.ndim)) return {};
  for (const Slice& s : slices(ctx.attrs<StridedSliceAttrs>(), *have)) out.push_back(s.extent);
  return make_type(out, 0, x.dtype);
}

/// Channels [begin, end) of a value that has them in these runs: where they begin there, and their own runs.
/// The last block may have channels that are another slice's. Nullopt: a run begins inside of a block.
struct SlicedRuns {
  int64_t begin = 0;
  ChannelRuns runs = {};
};
std::optional<SlicedRuns> sliced_runs(const ChannelRuns& runs, int64_t begin, int64_t end, int64_t block) {
  SlicedRuns out;
  int64_t channel = 0, place = 0;
  for (const ChannelRun& run : runs) {
    const int64_t from = std::max(begin, channel), to = std::min(end, channel + run.channels);
    if (from < to) {
      const int64_t first = place + from - channel, filled = (to - from + block - 1) / block * block;
      if (first % block) return std::nullopt;
      if (out.runs.empty()) out.begin = first;
      const bool last = to == end;  // channels behind it are left out
      out.runs.push_back({to - from, last ? filled : place + run.filled - first});
    }
    channel += run.channels, place += run.filled;
  }
  return out.runs.empty() ? std::nullopt : std::optional(out);
}

/// Channels from the beginning of a block on are whole blocks, of which the last may be filled up; places of
/// other axes are the same.
std::optional<LaidOut> layout_of_slice(LayoutContext& ctx) {
  const LaidOut* x = ctx.laid_out(ctx.call.args[0]);
  const auto have = shape_of(tensor_arg(ctx.call, 0));
  const int64_t block = x ? trailing_block(x->layout) : 0;
  const auto plain = have ? program_layout(have->size()) : std::nullopt;
  if (!block || !plain || have->size() != ctx.shape.size()) return std::nullopt;
  const auto of = slices(attrs_of<StridedSliceAttrs>(ctx.call), *have);
  const auto begin = tir::as_int(of[1].begin), channels = tir::as_int(of[1].extent),
             all = tir::as_int((*have)[1]);
  if (of[1].stride != 1 || !begin || !channels || !all) return std::nullopt;
  const auto sliced = sliced_runs(x->runs(*all), *begin, *begin + *channels, block);
  if (!sliced) return std::nullopt;
  const LaidOut out = in_runs({}, x->layout, sliced->runs);
  StridedSliceAttrs a;
  auto take = [&](size_t axis, PrimExpr from, PrimExpr to) {
    a.axes.push_back(int64_t(x->layout.name().find(plain->name()[axis])));
    a.begin.push_back(std::move(from)), a.end.push_back(std::move(to));
  };
  for (size_t i = 0; i < of.size(); ++i) {
    if (i == 1) {
      take(i, PrimExpr(sliced->begin / block), PrimExpr((sliced->begin + out.channels) / block));
    } else if (of[i].stride != 1 || !tir::is_zero(of[i].begin) || !same_dim(of[i].extent, (*have)[i])) {
      const auto from = tir::as_int(of[i].begin), size = tir::as_int(of[i].extent);
      if (of[i].stride != 1 || !from || !size) return std::nullopt;
      take(i, PrimExpr(*from), PrimExpr(*from + *size));
    }
  }
  return out.with(
      ctx.make("strided_slice", {x->tensor}, make_attrs<StridedSliceAttrs>([&](auto& to) { to = a; })));
}

Tensors def_slice(const Call& call, const Tensors& in) {
  const auto s = slices(attrs_of<StridedSliceAttrs>(call), in[0].shape());
  return {te::compute(
      output_info(call).shape,
      [&](const Vars& v) {
        Shape at;
        for (size_t i = 0; i < s.size(); ++i) at.push_back(v[i] * PrimExpr(s[i].stride) + s[i].begin);
        return in[0](at);
      },
      "strided_slice")};
}

// ---------------------------------------------------------------- flip, tile, repeat
Type infer_flip(InferContext& ctx) {
  const auto& x = ctx.tensor(0);
  if (!ctx.expect_axes(ctx.attrs<AxesAttrs>().axes, x.ndim)) return {};
  return like(x, x.dtype);
}
Tensors def_flip(const Call& call, const Tensors& in) {
  const auto axes = normal_axes(attrs_of<AxesAttrs>(call).axes, int64_t(in[0].ndim()));
  return {te::compute(
      in[0].shape(),
      [&](const Vars& v) {
        Shape at = indices(v);
        for (int64_t a : axes) at.set(size_t(a), in[0].shape()[size_t(a)] - 1 - v[size_t(a)]);
        return in[0](at);
      },
      "flip")};
}

Type infer_tile(InferContext& ctx) {
  const auto& x = ctx.tensor(0);
  const auto& r = ctx.attrs<TileAttrs>().repeats;
  for (int64_t n : r)
    if (n < 0) return ctx.error(fmt::format("{} copies", n));
  auto have = shape_of(x);
  const int64_t ndim = x.ndim < 0 ? -1 : std::max(x.ndim, int64_t(r.size()));
  if (!have) return make_type(std::nullopt, ndim, x.dtype);
  Shape out;
  for (int64_t i = 0; i < ndim; ++i) {
    const int64_t at = i - (ndim - x.ndim), times = i - (ndim - int64_t(r.size()));
    out.push_back(
        simplify((at < 0 ? PrimExpr(1) : (*have)[size_t(at)]) * PrimExpr(times < 0 ? 1 : r[size_t(times)])));
  }
  return make_type(out, ndim, x.dtype);
}
Tensors def_tile(const Call& call, const Tensors& in) {
  const Shape shape = output_info(call).shape;
  return {te::compute(
      shape,
      [&](const Vars& v) {
        Shape at;
        for (size_t i = 0; i < in[0].ndim(); ++i) {
          const size_t o = i + shape.size() - in[0].ndim();
          const PrimExpr& n = in[0].shape()[i];
          at.push_back(tir::is_one(n)          ? PrimExpr(0)
                       : same_dim(n, shape[o]) ? PrimExpr(v[o])
                                               : tir::floormod(v[o], n));
        }
        return in[0](at);
      },
      "tile")};
}

Type infer_repeat(InferContext& ctx) {
  const auto& x = ctx.tensor(0);
  const auto& a = ctx.attrs<RepeatAttrs>();
  if (a.repeats < 0) return ctx.error(fmt::format("{} copies", a.repeats));
  auto have = shape_of(x);
  if (!have) return make_type(std::nullopt, x.ndim, x.dtype);
  if (!ctx.expect_axis(a.axis, x.ndim)) return {};
  const auto axis = size_t(normal_axis(a.axis, x.ndim));
  Shape out = *have;
  out.set(axis, simplify(out[axis] * PrimExpr(a.repeats)));
  return make_type(out, 0, x.dtype);
}
Tensors def_repeat(const Call& call, const Tensors& in) {
  const auto& a = attrs_of<RepeatAttrs>(call);
  const auto axis = size_t(normal_axis(a.axis, int64_t(in[0].ndim())));
  return {te::compute(
      output_info(call).shape,
      [&](const Vars& v) {
        Shape at = indices(v);
        at.set(axis, tir::floordiv(v[axis], PrimExpr(std::max<int64_t>(1, a.repeats))));
        return in[0](at);
      },
      "repeat")};
}

// ---------------------------------------------------------------- pad
/// What negative widths leave of each axis; the others pad that.
Shape cropped(const Shape& have, const PadAttrs& a) {
  Shape out;
  for (size_t i = 0; i < have.size(); ++i)
    out.push_back(simplify(have[i] + PrimExpr(std::min<int64_t>(a.pad_width[2 * i], 0) +
                                              std::min<int64_t>(a.pad_width[2 * i + 1], 0))));
  return out;
}

/// Foldings at the first and last element that a division costs as much as.
constexpr int64_t kMostFoldings = 4;

/// Where element j of [-before, n + after) comes from.
PrimExpr outside(const PrimExpr& j, const PrimExpr& n, int64_t before, int64_t after,
                 const std::string& mode) {
  const PrimExpr last = n - 1;
  if (mode == "edge") return clamp(j, PrimExpr(0), last);
  if (mode == "wrap") return tir::floormod(j, n);
  // Mirrored at the first and last element, as often as the padding is wide. Each time folds it by as many as
  // there are in a period, of two at least: a single element is all that there is.
  const PrimExpr period = simplify(last * PrimExpr(2));
  const int64_t least = std::max<int64_t>(tir::as_int(period).value_or(0), 2),
                foldings = (std::max(before, after + least / 2) + least - 1) / least;
  PrimExpr k = j;
  if (foldings > kMostFoldings) {
    k = tir::floormod(j, simplify(tir::max(period, PrimExpr(1))));
    return tir::max(tir::min(k, period - k), PrimExpr(0));
  }
  for (int64_t i = 0; i < foldings; ++i) k = last - tir::abs(last - tir::abs(k));
  return clamp(k, PrimExpr(0), last);
}

Type infer_pad(InferContext& ctx) {
  const auto& x = ctx.tensor(0);
  const auto& a = ctx.attrs<PadAttrs>();
  if (!ctx.expect_one_of("pad_mode", a.pad_mode, {"constant", "reflect", "edge", "wrap"})) return {};
  auto have = shape_of(x);
  if (x.ndim >= 0 && int64_t(a.pad_width.size()) != 2 * x.ndim)
    return ctx.error(fmt::format("{} pad widths for a tensor of {} dimensions", a.pad_width.size(), x.ndim),
                     "give two per axis");
  if (!have) return make_type(std::nullopt, x.ndim, x.dtype);
  Shape out;
  for (size_t i = 0; i < have->size(); ++i) {
    const PrimExpr n = simplify((*have)[i] + PrimExpr(a.pad_width[2 * i] + a.pad_width[2 * i + 1]));
    if (!ctx.require_not_negative(n))
      return ctx.error(fmt::format("axis {} of {} would have the size {}", i, show(*have), show_dim(n)));
    out.push_back(n);
  }
  const Shape kept = cropped(*have, a);
  for (size_t i = 0; a.pad_mode != "constant" && i < have->size(); ++i) {
    if (!ctx.require_not_negative(kept[i]))
      return ctx.error(fmt::format(
          "{} elements are cropped from axis {} of {}",
          -std::min<int64_t>(a.pad_width[2 * i], 0) - std::min<int64_t>(a.pad_width[2 * i + 1], 0), i,
          show(*have)));
    if ((a.pad_width[2 * i] > 0 || a.pad_width[2 * i + 1] > 0) && !ctx.expect_elements(kept, i, PrimExpr(1)))
      return {};
  }
  return make_type(out, 0, x.dtype);
}

Tensors def_pad(const Call& call, const Tensors& in) {
  const auto& a = attrs_of<PadAttrs>(call);
  const te::Tensor& x = in[0];
  Shape before, after;
  bool none = true;
  for (size_t i = 0; i < x.ndim(); ++i) {
    before.push_back(a.pad_width[2 * i]);
    after.push_back(a.pad_width[2 * i + 1]);
    none = none && a.pad_width[2 * i] == 0 && a.pad_width[2 * i + 1] == 0;
  }
  if (none) return {copy_of(x, "pad")};
  if (a.pad_mode == "constant") return {pad_with(x, before, after, constant(x.dtype(), a.pad_value), "pad")};
  const Shape kept = cropped(x.shape(), a);
  return {te::compute(
      output_info(call).shape,
      [&](const Vars& v) {
        Shape at;
        for (size_t i = 0; i < x.ndim(); ++i) {
          const int64_t first = std::max<int64_t>(-a.pad_width[2 * i], 0);  // that is kept
          const PrimExpr j = v[i] - PrimExpr(a.pad_width[2 * i] + first), n = kept[i];
          PrimExpr k = j;
          const int64_t lo = a.pad_width[2 * i], hi = a.pad_width[2 * i + 1];
          if (lo > 0 || hi > 0) {
            // A condition cuts loops into what is copied and its border.
            const PrimExpr inside = tir::logical_and(tir::le(PrimExpr(0), j), tir::lt(j, n));
            k = tir::if_then_else(inside, j, outside(j, n, lo, hi, a.pad_mode));
          }
          at.push_back(first == 0 ? k : k + PrimExpr(first));
        }
        return x(at);
      },
      "pad")};
}

// ---------------------------------------------------------------- depth and space
Type infer_blocks(InferContext& ctx, bool to_space) {
  const auto& x = ctx.tensor(0);
  const auto& a = ctx.attrs<BlockSizeAttrs>();
  if (!ctx.expect_rank(x, "the data", 4)) return {};
  if (a.block_size < 1) return ctx.error(fmt::format("block size {} is not positive", a.block_size));
  if (!ctx.expect_one_of("mode", a.mode, {"DCR", "CRD"})) return {};
  auto have = shape_of(x);
  if (!have) return make_type(std::nullopt, 4, x.dtype);
  const int64_t b = a.block_size, square = b * b;
  const int64_t by[] = {1, to_space ? square : 1, to_space ? 1 : b, to_space ? 1 : b};
  for (size_t i = 0; i < 4; ++i)
    if (!ctx.require_equal(simplify(tir::floormod((*have)[i], PrimExpr(by[i]))), PrimExpr(0)))
      return ctx.error(fmt::format("axis {} of {} is not divisible by {}", i, show(*have), by[i]));
  auto times = [&](size_t i, int64_t n) { return simplify((*have)[i] * PrimExpr(n)); };
  auto over = [&](size_t i, int64_t n) { return simplify(tir::floordiv((*have)[i], PrimExpr(n))); };
  if (to_space) return make_type(Shape{(*have)[0], over(1, square), times(2, b), times(3, b)}, 4, x.dtype);
  return make_type(Shape{(*have)[0], times(1, square), over(2, b), over(3, b)}, 4, x.dtype);
}

Tensors def_blocks(const Call& call, const Tensors& in, bool to_space) {
  const auto& a = attrs_of<BlockSizeAttrs>(call);
  const Shape shape = output_info(call).shape;
  const PrimExpr b = a.block_size;
  return {te::compute(
      shape,
      [&](const Vars& v) {
        if (to_space) {
          const PrimExpr i = tir::floormod(v[2], b), j = tir::floormod(v[3], b);
          const PrimExpr c = a.mode == "DCR" ? (i * b + j) * shape[1] + v[1] : (v[1] * b + i) * b + j;
          return in[0]({v[0], c, tir::floordiv(v[2], b), tir::floordiv(v[3], b)});
        }
        const bool blocks_first = a.mode == "DCR";
        const PrimExpr by = blocks_first ? in[0].shape()[1] : PrimExpr(a.block_size * a.block_size);
        const PrimExpr high = tir::floordiv(v[1], by), low = tir::floormod(v[1], by);
        const PrimExpr block = blocks_first ? high : low, channel = blocks_first ? low : high;
        return in[0]({v[0], channel, v[2] * b + tir::floordiv(block, b), v[3] * b + tir::floormod(block, b)});
      },
      short_name(call))};
}

// ---------------------------------------------------------------- layouts
struct Layouts {
  Layout src, dst;
};
Layouts layouts_of(const LayoutTransformAttrs& a) {
  return {Layout::parse(a.src_layout).value_or(Layout()), Layout::parse(a.dst_layout).value_or(Layout())};
}
bool expect_layout_names(InferContext& ctx, int64_t ndim) {
  const auto& a = ctx.attrs<LayoutTransformAttrs>();
  for (const std::string& text : {a.src_layout, a.dst_layout})
    if (!Layout::parse(text))
      return ctx.error(fmt::format("'{}' is no layout", text), "name each axis once, blocks as in 'NCHW8c'");
  const Layouts l = layouts_of(a);
  if (int64_t(l.src.axes.size()) != ndim)
    return ctx.error(fmt::format("layout '{}' for a tensor of {} dimensions", a.src_layout, ndim));
  if (l.src.letters() != l.dst.letters())
    return ctx.error(fmt::format("layouts '{}' and '{}' have different axes", a.src_layout, a.dst_layout));
  return true;
}

Type infer_layout(InferContext& ctx) {
  const auto& x = ctx.tensor(0);
  if (x.ndim < 0) return graph::tensor_type_unknown(-1, x.dtype);
  if (!expect_layout_names(ctx, x.ndim)) return {};
  const Layouts l = layouts_of(ctx.attrs<LayoutTransformAttrs>());
  auto have = shape_of(x);
  if (!have) return make_type(std::nullopt, int64_t(l.dst.axes.size()), x.dtype);
  return make_type(l.dst.shape(l.src, *have), 0, x.dtype);
}

Tensors def_layout(const Call& call, const Tensors& in) {
  const te::Tensor& x = in[0];
  const Layouts l = layouts_of(attrs_of<LayoutTransformAttrs>(call));
  const Shape shape = output_info(call).shape;
  return {te::compute(
      shape,
      [&](const Vars& v) {
        const Shape at = l.src.index(l.dst, indices(v));
        // What is filled up at the end of the last block is no element.
        PrimExpr inside = tir::true_();
        for (const Layout::Axis& a : l.src.axes) {
          const PrimExpr size = simplify(l.src.size(a.letter, x.shape()));
          const PrimExpr capacity = simplify(l.dst.size(a.letter, shape));
          if (a.block || same_dim(size, capacity)) continue;
          const Layout one{{a}};
          inside = tir::logical_and(inside, tir::lt(one.index(l.dst, indices(v))[0], size));
        }
        return tir::if_then_else(inside, x(at), constant(x.dtype(), 0));
      },
      "layout_transform")};
}

/// Axes in another order are the same tensor under other names: what lies between two models' orders (NHWC
/// and NCHW) stays where it is.
std::optional<LaidOut> layout_of_transform(LayoutContext& ctx) {
  const LaidOut* x = ctx.laid_out(ctx.call.args[0]);
  const Layouts l = layouts_of(attrs_of<LayoutTransformAttrs>(ctx.call));
  const auto have = shape_of(tensor_arg(ctx.call, 0));
  if (!x || !have || l.src.has_blocks() || l.dst.has_blocks() || ctx.shape.size() < 2) return std::nullopt;
  const auto plain = program_layout(ctx.shape.size());
  const auto channels = tir::as_int(ctx.shape[1]);
  if (!plain || !channels || !tir::is_const_int((*have)[1], x->channels)) return std::nullopt;
  const std::string src = l.src.name(), dst = l.dst.name();
  LaidOut out{x->tensor, x->layout, *channels};
  for (Layout::Axis& a : out.layout.axes) {
    const char named = src[plain->name().find(a.letter)];  // by the layouts of the call
    a.letter = plain->name()[dst.find(named)];
  }
  return out;
}

const bool rearrange_registered = [] {
  auto add = [](OpName name, const char* doc, InferType infer, TensorDef def) {
    return register_op(std::move(name), doc, FusionKind::injective, std::move(infer), std::move(def))
        .argument("x", "Tensor", "the operand");
  };
  add("strided_slice", "Elements from begin to end by steps, as in Python.", infer_slice, def_slice)
      .attrs<StridedSliceAttrs>()
      .moves()
      .layout(layout_of_slice);
  add("flip", "Elements of the given axes in reverse order.", infer_flip, def_flip).attrs<AxesAttrs>();
  add("tile", "Copies of the whole tensor side by side.", infer_tile, def_tile).attrs<TileAttrs>();
  add("repeat", "Each element of an axis several times.", infer_repeat, def_repeat).attrs<RepeatAttrs>();
  add("pad", "More elements around: a constant, the edge, a mirror image or the other side.", infer_pad,
      def_pad)
      .attrs<PadAttrs>();
  add(
      "depth_to_space", "Channels become blocks of the image: (n, c·b², h, w) → (n, c, h·b, w·b).",
      [](InferContext& ctx) { return infer_blocks(ctx, true); },
      [](const Call& c, const Tensors& in) { return def_blocks(c, in, true); })
      .attrs<BlockSizeAttrs>()
      .letters(image_letters<BlockSizeAttrs>(&BlockSizeAttrs::layout));
  add(
      "space_to_depth", "Blocks of the image become channels: (n, c, h·b, w·b) → (n, b²·c, h, w).",
      [](InferContext& ctx) { return infer_blocks(ctx, false); },
      [](const Call& c, const Tensors& in) { return def_blocks(c, in, false); })
      .attrs<BlockSizeAttrs>()
      .letters(image_letters<BlockSizeAttrs>(&BlockSizeAttrs::layout));
  add("layout_transform", "Axes in another order and split into blocks; the last block is filled with zeros.",
      infer_layout, def_layout)
      .attrs<LayoutTransformAttrs>()
      .layout(layout_of_transform);
  return true;
}();

}  // namespace
}  // namespace tenon::op

template struct tenon::DefineTypes<tenon::op::TileAttrs, tenon::op::PadAttrs, tenon::op::BlockSizeAttrs,
                                   tenon::op::LayoutTransformAttrs>;
