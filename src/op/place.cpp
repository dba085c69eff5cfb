// SPDX-License-Identifier: Apache-2.0
// Operators on positions: grids, index arithmetic, slices at run-time places, pooling that tells where and
// its inverse, folding of columns; and bits seen as another type.
#include <fmt/format.h>

#include <cmath>

#include "base/define_type.h"
#include "op/attrs_arrange.h"
#include "op/attrs_place.h"
#include "op/compose.h"
#include "op/layout.h"
#include "op/program.h"

namespace tenon::op {
namespace {

using Tensors = std::vector<te::Tensor>;

// ---------------------------------------------------------------- bits
Type infer_bitcast(InferContext& ctx) {
  const auto& x = ctx.tensor(0);
  const DataType t = ctx.attrs<CastAttrs>().dtype;
  // A boolean is a byte of 0 or 1.
  auto bits = [](DataType d) { return d.is_bool() ? 8 : d.bits; };
  if (!x.dtype.is_void() && bits(x.dtype) != bits(t))
    return ctx.error(fmt::format("{} and {} have different sizes", to_string(x.dtype), to_string(t)));
  return like(x, t);
}
Tensors def_bitcast(const Call& call, const Tensors& in) {
  const TensorInfo out = output_info(call);
  return {te::compute(
      out.shape,
      [&](const Vars& v) {
        const PrimExpr e = in[0](indices(v));
        // Between integers of one size a cast keeps the bits.
        if (!e.dtype().is_float() && !out.dtype.is_float()) return tir::cast(out.dtype, e);
        return tir::call(out.dtype, "tir.reinterpret", {e});
      },
      "bitcast")};
}

// ---------------------------------------------------------------- index arithmetic
Type infer_meshgrid(InferContext& ctx) {
  const std::string& how = ctx.attrs<IndexingAttrs>().indexing;
  if (!ctx.expect_one_of("indexing", how, {"ij", "xy"})) return {};
  const auto vectors = ctx.tuple(0);
  if (!vectors) return {};
  const auto& items = *vectors;
  Shape shape;
  bool known = true;
  for (const auto* t : items) {
    auto s = shape_of(*t);
    if (t->ndim > 1) return ctx.error(fmt::format("takes vectors, not {} dimensions", t->ndim));
    known = known && s;
    if (s) shape.push_back(s->empty() ? PrimExpr(1) : (*s)[0]);
  }
  if (known && how == "xy" && shape.size() > 1) {
    const PrimExpr first = shape[0];
    shape.set(0, shape[1]), shape.set(1, first);
  }
  Array<Type> out;
  for (const auto* t : items)
    out.push_back(make_type(known ? std::optional(shape) : std::nullopt, int64_t(items.size()), t->dtype));
  return graph::tuple_type(out);
}
Tensors def_meshgrid(const Call& call, const Tensors& in) {
  const bool swapped = attrs_of<IndexingAttrs>(call).indexing == "xy" && in.size() > 1;
  Tensors out;
  for (size_t i = 0; i < in.size(); ++i) {
    const size_t axis = swapped && i < 2 ? 1 - i : i;
    out.push_back(te::compute(
        output_info(call, i).shape,
        [&](const Vars& v) { return in[i].ndim() == 0 ? in[i]({}) : in[i]({v[axis]}); }, "meshgrid"));
  }
  return out;
}

Type infer_unravel(InferContext& ctx) {
  const auto& x = ctx.tensor(0);
  if (!ctx.expect_domain(x.dtype, Domain::integer)) return {};
  const auto size = ctx.shape(1);
  auto s = shape_of(x);
  if (size && tir::is_zero(simplify(product(*size))))
    return ctx.error(fmt::format("a tensor {} has no positions", show(*size)));
  if (!s || !size) return make_type(std::nullopt, x.ndim < 0 ? -1 : x.ndim + 1, x.dtype);
  s->insert(0, PrimExpr(int64_t(size->size())));
  return make_type(s, 0, x.dtype);
}
Tensors def_unravel(const Call& call, const Tensors& in) {
  const Shape size = *shape_arg(call, 1);
  return {te::compute(
      output_info(call).shape,
      [&](const Vars& v) {
        const Shape rest = drop_axes(indices(v), {0}),
                    at = unflatten_index(tir::cast(i64, in[0](rest)), size);
        PrimExpr value = 0;
        for (size_t i = at.size(); i-- > 0;)
          value = tir::select(tir::eq(v[0], PrimExpr(int64_t(i))), at[i], value);
        return tir::cast(in[0].dtype(), value);
      },
      "unravel_index")};
}
Type infer_ravel(InferContext& ctx) {
  const auto& x = ctx.tensor(0);
  if (!ctx.expect_domain(x.dtype, Domain::integer)) return {};
  const auto size = ctx.shape(1);
  auto s = shape_of(x);
  if (!s || !size) return make_type(std::nullopt, x.ndim - (x.ndim > 0), x.dtype);
  if (s->empty() || !ctx.require_equal((*s)[0], PrimExpr(int64_t(size->size()))))
    return ctx.error(fmt::format("positions {} in a tensor {}", show(*s), show(*size)));
  s->erase(0);
  return make_type(s, 0, x.dtype);
}
Tensors def_ravel(const Call& call, const Tensors& in) {
  const Shape size = *shape_arg(call, 1);
  return {te::compute(
      output_info(call).shape,
      [&](const Vars& v) {
        Shape at;
        for (size_t i = 0; i < size.size(); ++i) {
          Shape from = indices(v);
          from.insert(0, PrimExpr(int64_t(i)));
          at.push_back(tir::cast(i64, in[0](from)));
        }
        return tir::cast(in[0].dtype(), flatten_index(at, size));
      },
      "ravel_index")};
}

Type infer_isin(InferContext& ctx) {
  const auto &x = ctx.tensor(0), &set = ctx.tensor(1);
  if (!ctx.expect_rank(set, "the set", 1)) return {};
  if (!ctx.expect_same_type(x.dtype, set.dtype)) return {};
  return like(x, boolean);
}
Tensors def_isin(const Call&, const Tensors& in) {
  const auto k = te::reduce_axis(tir::range(PrimExpr(0), in[1].shape()[0]));
  const te::Tensor found = te::compute(
      in[0].shape(),
      [&](const Vars& v) {
        return te::sum(tir::select(tir::eq(in[0](indices(v)), in[1]({k->var})), PrimExpr(1), PrimExpr(0)),
                       {k});
      },
      "isin");
  return {te::compute(
      found.shape(), [&](const Vars& v) { return tir::gt(found(indices(v)), PrimExpr(0)); }, "isin_result")};
}

Type infer_linspace(InferContext& ctx) {
  const auto& a = ctx.attrs<LinspaceAttrs>();
  if (!ctx.expect_domain(a.dtype, Domain::number)) return {};
  const auto n = ctx.shape(0);
  if (n && n->size() != 1) return ctx.error(fmt::format("{} is not one size", show(*n)));
  return make_type(n, 1, a.dtype);
}
Tensors def_linspace(const Call& call, const Tensors&) {
  const auto& a = attrs_of<LinspaceAttrs>(call);
  const TensorInfo out = output_info(call);
  const PrimExpr steps = tir::max(a.endpoint ? out.shape[0] - 1 : out.shape[0], PrimExpr(1));
  return {te::compute(
      out.shape,
      [&](const Vars& v) {
        const PrimExpr part = tir::div(tir::cast(f64, v[0]), tir::cast(f64, steps));
        return tir::cast(out.dtype, constant(f64, a.start) + part * constant(f64, a.stop - a.start));
      },
      "linspace")};
}

// ---------------------------------------------------------------- slices at run-time places
bool expect_begin(InferContext& ctx, size_t i, int64_t rank) {
  const auto& begin = ctx.tensor(i);
  if (!ctx.expect_domain(begin.dtype, Domain::integer)) return false;
  if (!ctx.expect_rank(begin, "begin", 1)) return false;
  if (auto s = shape_of(begin); s && rank >= 0 && !ctx.require_equal((*s)[0], PrimExpr(rank)))
    return ctx.error(fmt::format("begin {} for {} dimensions", show(*s), rank));
  return true;
}
/// Moved so that the slice lies inside.
PrimExpr slice_begin(const te::Tensor& begin, size_t axis, const PrimExpr& extent, const PrimExpr& size) {
  const PrimExpr at = tir::cast(i64, begin({PrimExpr(int64_t(axis))}));
  return tir::max(tir::min(at, extent - size), PrimExpr(0));
}
bool fits_in(const Shape& small, const Shape& large) {
  bool fits = small.size() == large.size();
  for (size_t i = 0; fits && i < small.size(); ++i) {
    const auto p = tir::as_int(small[i]), q = tir::as_int(large[i]);
    fits = !p || !q || *p <= *q;
  }
  return fits;
}
Type infer_dynamic_slice(InferContext& ctx) {
  const auto& x = ctx.tensor(0);
  if (!expect_begin(ctx, 1, x.ndim)) return {};
  const auto size = ctx.shape(2);
  auto s = shape_of(x);
  if (s && size && !fits_in(*size, *s))
    return ctx.error(fmt::format("a slice {} of {}", show(*size), show(*s)));
  return make_type(size, x.ndim, x.dtype);
}
Tensors def_dynamic_slice(const Call& call, const Tensors& in) {
  const Shape out = output_info(call).shape;
  return {te::compute(
      out,
      [&](const Vars& v) {
        Shape at;
        for (size_t i = 0; i < out.size(); ++i)
          at.push_back(v[i] + slice_begin(in[1], i, in[0].shape()[i], out[i]));
        return in[0](at);
      },
      "dynamic_slice")};
}
Type infer_dynamic_update(InferContext& ctx) {
  const auto &x = ctx.tensor(0), &update = ctx.tensor(1);
  if (!expect_begin(ctx, 2, x.ndim)) return {};
  auto s = shape_of(x), u = shape_of(update);
  if (x.dtype != update.dtype || (s && u && !fits_in(*u, *s)))
    return ctx.error(fmt::format("an update {} of {}", u ? show(*u) : "?", s ? show(*s) : "?"));
  return like(x, x.dtype);
}
Tensors def_dynamic_update(const Call&, const Tensors& in) {
  const Shape s = in[0].shape(), u = in[1].shape();
  return {te::compute(
      s,
      [&](const Vars& v) {
        PrimExpr inside = tir::true_();
        Shape at;
        for (size_t i = 0; i < s.size(); ++i) {
          const PrimExpr k = v[i] - slice_begin(in[2], i, s[i], u[i]);
          inside = tir::logical_and(inside, tir::logical_and(tir::ge(k, PrimExpr(0)), tir::lt(k, u[i])));
          at.push_back(k);
        }
        return tir::if_then_else(inside, in[1](at), in[0](indices(v)));
      },
      "dynamic_update_slice")};
}

// ---------------------------------------------------------------- pooling that tells where
Type infer_pool_indices(InferContext& ctx) {
  const auto& x = ctx.tensor(0);
  if (x.ndim < 3 || x.ndim > 5) return ctx.error("x must have one to three spatial axes");
  const auto& a = ctx.attrs<PoolAttrs>();
  for (const std::string& layout : {a.layout, a.out_layout})
    if (!layout.empty() && layout != data_layout(size_t(x.ndim) - 2).name())
      return ctx.error(fmt::format("layout '{}': positions are counted in the plain layout", layout),
                       "transform the tensor with layout_transform");
  const Expr pooled =
      ctx.call_op(fmt::format("nn.max_pool{}d", x.ndim - 2), {graph::var("x", ctx.type(0))}, ctx.call.attrs);
  if (!pooled) return {};
  return graph::tuple_type({pooled->type, like(*graph::as_tensor(pooled), i64)});
}
Tensors def_pool_indices(const Call& call, const Tensors& in) {
  const auto& a = attrs_of<PoolAttrs>(call);
  const te::Tensor& x = in[0];
  const TensorInfo out = output_info(call);
  const size_t n = x.ndim() - 2;
  const auto strides = per_axis(a.strides, n, 1), dilation = per_axis(a.dilation, n, 1),
             kernel = per_axis(a.pool_size, n, 1), padding = paddings(a.padding, n);
  Array<tir::IterVar> ks;
  for (size_t i = 0; i < n; ++i)
    ks.push_back(te::reduce_axis(tir::range(PrimExpr(0), PrimExpr(kernel[i])), fmt::format("k{}", i)));
  const DataType t = wide_type(x.dtype());
  const PrimExpr least = t.is_float() ? constant(t, -INFINITY) : tir::min_value(t);
  // Positions in row-major order of the whole tensor. Padding has the last one, so that an element that
  // equals it wins.
  const PrimExpr nowhere = tir::max_value(i64);
  const te::Tensor first = te::compute(
      out.shape,
      [&](const Vars& v) {
        Shape at{v[0], v[1]};
        PrimExpr inside = tir::true_();
        for (size_t i = 0; i < n; ++i) {
          const PrimExpr p = v[i + 2] * strides[i] + ks[i]->var * dilation[i] - padding[i];
          inside = tir::logical_and(inside,
                                    tir::logical_and(tir::ge(p, PrimExpr(0)), tir::lt(p, x.shape()[i + 2])));
          at.push_back(p);
        }
        const PrimExpr value = tir::if_then_else(inside, wide(x(at)), least);
        return te::argmax(tir::select(inside, flatten_index(at, x.shape()), nowhere), value, ks)[0];
      },
      "max_pool_first");
  // -1 where a window sees padding alone.
  const te::Tensor where = te::compute(
      out.shape,
      [&](const Vars& v) {
        const PrimExpr at = first(indices(v));
        return tir::select(tir::eq(at, nowhere), PrimExpr(-1), at);
      },
      "max_pool_positions");
  const te::Tensor values = te::compute(
      out.shape,
      [&](const Vars& v) {
        const PrimExpr at = where(indices(v)), last = simplify(product(x.shape())) - 1;
        return tir::if_then_else(tir::ge(at, PrimExpr(0)),
                                 x(unflatten_index(tir::max(tir::min(at, last), PrimExpr(0)), x.shape())),
                                 tir::cast(out.dtype, least));
      },
      "max_pool_values");
  return {values, where};
}

Type infer_unpool(InferContext& ctx) {
  const auto &x = ctx.tensor(0), &at = ctx.tensor(1);
  if (!ctx.expect_domain(at.dtype, Domain::integer)) return {};
  auto s = shape_of(x), p = shape_of(at);
  if (s && p && !ctx.require_equal(*s, *p))
    return ctx.error(fmt::format("positions {} for x {}", show(*p), show(*s)));
  const auto size = ctx.shape(2);
  return make_type(size, x.ndim, x.dtype);
}
Tensors def_unpool(const Call& call, const Tensors& in) {
  const TensorInfo out = output_info(call);
  const PrimExpr count = simplify(product(out.shape));
  auto body = [&](const Array<tir::Buffer>& ins, const Array<tir::Buffer>& outs) {
    const tir::Stmt clear =
        each_of(out.shape, [&](const Shape& at) { return tir::store(outs[0], constant(out.dtype, 0), at); });
    return tir::seq({clear, each_of(in[0].shape(), [&](const Shape& at) {
                       return named("to", tir::cast(i64, tir::load(ins[1], at)), [&](const PrimExpr& to) {
                         return when(
                             tir::logical_and(tir::ge(to, PrimExpr(0)), tir::lt(to, count)),
                             tir::store(outs[0], tir::load(ins[0], at), unflatten_index(to, out.shape)));
                       });
                     })});
  };
  return te::external({out.shape}, {out.dtype}, {in[0], in[1]}, body, "max_unpool");
}

// ---------------------------------------------------------------- fold
/// Elements of a window: more than any image has.
constexpr int64_t kMaxTaps = int64_t(1) << 40;
/// How many windows an image has along each axis.
Shape fold_places(const UnfoldAttrs& a, const Shape& image) {
  const size_t n = image.size();
  const auto kernel = per_axis(a.kernel_size, n, 1), strides = per_axis(a.strides, n, 1),
             dilation = per_axis(a.dilation, n, 1), padding = paddings(a.padding, n);
  Shape places;
  for (size_t i = 0; i < n; ++i) {
    const PrimExpr room = image[i] + (padding[i] + padding[i + n]) - ((kernel[i] - 1) * dilation[i] + 1);
    places.push_back(simplify(tir::floordiv(room, PrimExpr(strides[i])) + 1));
  }
  return places;
}
Type infer_fold_columns(InferContext& ctx) {
  const auto& x = ctx.tensor(0);
  if (!ctx.expect_rank(x, "x", 3)) return {};
  if (!ctx.expect_domain(x.dtype, Domain::number)) return {};
  const auto image = ctx.shape(1);
  auto s = shape_of(x);
  if (!s || !image) return make_type(std::nullopt, image ? int64_t(image->size()) + 2 : -1, x.dtype);
  const auto& a = ctx.attrs<UnfoldAttrs>();
  const size_t n = image->size();
  if (!ctx.expect_per_axis(a.kernel_size, n, "kernel_size") ||
      !ctx.expect_per_axis(a.strides, n, "strides") || !ctx.expect_per_axis(a.dilation, n, "dilation") ||
      !ctx.expect_paddings(a.padding, n))
    return {};
  int64_t taps = 1;
  for (int64_t k : per_axis(a.kernel_size, n, 1)) {
    if (k < 1 || k > kMaxTaps / taps) return ctx.error(fmt::format("a window of {} elements", k));
    taps *= k;
  }
  for (const auto& steps : {a.strides, a.dilation})
    for (int64_t k : steps)
      if (k < 1) return ctx.error(fmt::format("a step of {}", k));
  const PrimExpr channels = simplify(tir::floordiv((*s)[1], PrimExpr(taps)));
  if (!ctx.require_equal((*s)[1], simplify(channels * taps)))
    return ctx.error(fmt::format("windows of {} elements do not divide {} columns", taps, show_dim((*s)[1])));
  const Shape places = fold_places(a, *image);
  for (const PrimExpr& count : places)
    if (!ctx.require_not_negative(count))
      return ctx.error(fmt::format("a window is larger than the image {}", show(*image)));
  if (!ctx.require_equal((*s)[2], simplify(product(places))))
    return ctx.error(fmt::format("an image {} has {} windows, and x has {}", show(*image), show(places),
                                 show_dim((*s)[2])));
  Shape out{(*s)[0], channels};
  for (const PrimExpr& d : *image) out.push_back(d);
  return make_type(out, 0, x.dtype);
}
Tensors def_fold_columns(const Call& call, const Tensors& in) {
  const auto& a = attrs_of<UnfoldAttrs>(call);
  const Shape out = output_info(call).shape, image(out.begin() + 2, out.end());
  const size_t n = image.size();
  const auto kernel = per_axis(a.kernel_size, n, 1), strides = per_axis(a.strides, n, 1),
             dilation = per_axis(a.dilation, n, 1), padding = paddings(a.padding, n);
  Array<tir::IterVar> ks;
  const Shape places = fold_places(a, image);
  for (size_t i = 0; i < n; ++i)
    ks.push_back(te::reduce_axis(tir::range(PrimExpr(0), PrimExpr(kernel[i])), fmt::format("k{}", i)));
  const DataType t = wide_type(in[0].dtype());
  const te::Tensor sum = te::compute(
      out,
      [&](const Vars& v) {
        // The place of the window whose tap falls on this element, where there is one.
        PrimExpr inside = tir::true_(), channel = v[1];
        Shape at;
        for (size_t i = 0; i < n; ++i) {
          const PrimExpr from = v[i + 2] + padding[i] - ks[i]->var * dilation[i];
          const PrimExpr place = tir::floordiv(from, PrimExpr(strides[i]));
          inside = tir::logical_and(inside, tir::eq(tir::floormod(from, PrimExpr(strides[i])), PrimExpr(0)));
          inside = tir::logical_and(inside,
                                    tir::logical_and(tir::ge(place, PrimExpr(0)), tir::lt(place, places[i])));
          at.push_back(place);
          channel = channel * kernel[i] + ks[i]->var;
        }
        return te::sum(tir::if_then_else(inside, wide(in[0]({v[0], channel, flatten_index(at, places)})),
                                         constant(t, 0)),
                       ks);
      },
      "fold");
  return {cast_to(sum, in[0].dtype())};
}

const bool place_registered = [] {
  const auto injective = FusionKind::injective, opaque = FusionKind::opaque;
  register_op("bitcast", "The same bits as another type of the same size.", FusionKind::element_wise,
              infer_bitcast, def_bitcast)
      .argument("x", "Tensor", "the operand")
      .attrs<CastAttrs>();
  register_unary("clz", "number of zero bits before the first one", Domain::integer,
                 [](const Call&, const PrimExpr& x) { return tir::call(x.dtype(), "tir.clz", {x}); });
  register_op("meshgrid", "Vectors spread over the grid that they span.", opaque, infer_meshgrid,
              def_meshgrid)
      .argument("x", "Tuple", "the vectors")
      .attrs<IndexingAttrs>();
  register_op("unravel_index", "Positions along each axis from row-major positions.", injective,
              infer_unravel, def_unravel)
      .argument("x", "Tensor", "positions in the whole tensor")
      .argument("shape", "Shape", "of the tensor");
  register_op("ravel_index", "Row-major positions from those along each axis.", injective, infer_ravel,
              def_ravel)
      .argument("x", "Tensor", "(axes, …)")
      .argument("shape", "Shape", "of the tensor");
  register_op("isin", "Whether an element is in a set.", opaque, infer_isin, def_isin)
      .argument("x", "Tensor", "the operand")
      .argument("set", "Tensor", "a vector");
  register_op("linspace", "Evenly spaced values.", injective, infer_linspace, def_linspace)
      .argument("size", "Shape", "number of values")
      .attrs<LinspaceAttrs>();
  register_op("dynamic_slice", "A slice of the given size at a place that a tensor gives.", injective,
              infer_dynamic_slice, def_dynamic_slice)
      .argument("x", "Tensor", "the operand")
      .argument("begin", "Tensor", "first position per axis, moved so that the slice lies inside")
      .argument("size", "Shape", "of the slice");
  register_op("dynamic_update_slice", "x with a slice replaced at a place that a tensor gives.", injective,
              infer_dynamic_update, def_dynamic_update)
      .argument("x", "Tensor", "the operand")
      .argument("update", "Tensor", "the new slice")
      .argument("begin", "Tensor", "first position per axis, moved so that the slice lies inside");
  register_op("nn.max_pool_with_indices", "Largest element of each window, and its row-major position in x.",
              opaque, infer_pool_indices, def_pool_indices)
      .argument("x", "Tensor", "(batch, channels, one to three spatial axes)")
      .attrs<PoolAttrs>();
  register_op("nn.max_unpool", "Elements at row-major positions, zeros elsewhere.", opaque, infer_unpool,
              def_unpool)
      .argument("x", "Tensor", "the elements")
      .argument("indices", "Tensor", "their positions in the result")
      .argument("shape", "Shape", "of the result");
  register_op("nn.fold", "Images from columns (im2col's inverse): what falls on one element is added.",
              opaque, infer_fold_columns, def_fold_columns)
      .argument("x", "Tensor", "(batch, channels · window elements, windows)")
      .argument("image", "Shape", "sizes of the spatial axes")
      .attrs<UnfoldAttrs>();
  return true;
}();

}  // namespace
}  // namespace tenon::op

template struct tenon::DefineTypes<tenon::op::IndexingAttrs, tenon::op::LinspaceAttrs, tenon::op::PoolAttrs>;
