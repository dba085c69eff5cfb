// SPDX-License-Identifier: Apache-2.0
// Operators that read or write elements at positions given by another tensor, and triangles and diagonals.
#include <fmt/format.h>

#include "op/family.h"

#include "base/define_type.h"
#include "ir/tir.h"
#include "op/attrs_check.h"
#include "op/program.h"

namespace tenon::op {
namespace {

using Tensors = std::vector<te::Tensor>;

size_t axis_of(const Call& call, size_t ndim) {
  return size_t(normal_axis(attrs_of<AxisAttrs>(call).axis, int64_t(ndim)));
}
template <class It>
void append(Shape& to, It first, It last) {
  for (; first != last; ++first) to.push_back(*first);
}

// ---------------------------------------------------------------- take
Type infer_take(InferContext& ctx) {
  const auto &x = ctx.tensor(0), &at = ctx.tensor(1);
  if (!ctx.expect_integers(1) || !ctx.expect_axis(ctx.attrs<AxisAttrs>().axis, x.ndim)) return {};
  if (x.ndim < 0 || at.ndim < 0) return graph::tensor_type_unknown(-1, x.dtype);
  const auto axis = std::ptrdiff_t(axis_of(ctx.call, size_t(x.ndim)));
  auto p = shape_of(x), q = shape_of(at);
  if (!p || !q) return make_type(std::nullopt, x.ndim - 1 + at.ndim, x.dtype);
  Shape out(p->begin(), p->begin() + axis);
  append(out, q->begin(), q->end());
  append(out, p->begin() + axis + 1, p->end());
  if (!ctx.expect_elements(*p, size_t(axis), product(out))) return {};
  return make_type(out, 0, x.dtype);
}
Tensors def_take(const Call& call, const Tensors& in) {
  const auto axis = axis_of(call, in[0].ndim());
  return {te::compute(
      output_info(call).shape,
      [&](const Vars& v) {
        Shape at, where;
        for (size_t i = 0; i < axis; ++i) at.push_back(v[i]);
        for (size_t i = 0; i < in[1].ndim(); ++i) where.push_back(v[axis + i]);
        at.push_back(safe_index(in[1](where), in[0].shape()[axis]));
        for (size_t i = axis + in[1].ndim(); i < v.size(); ++i) at.push_back(v[i]);
        return in[0](at);
      },
      "take")};
}

// ---------------------------------------------------------------- gather
/// Arguments 0 and 1 are x and indices of as many dimensions.
bool expect_same_rank(InferContext& ctx) {
  const auto &x = ctx.tensor(0), &at = ctx.tensor(1);
  if (x.ndim < 0 || at.ndim < 0 || x.ndim == at.ndim) return true;
  return ctx.error(fmt::format("x has {} dimensions, indices have {}", x.ndim, at.ndim));
}
Type infer_gather_elements(InferContext& ctx) {
  const auto &x = ctx.tensor(0), &at = ctx.tensor(1);
  if (!ctx.expect_integers(1) || !expect_same_rank(ctx) ||
      !ctx.expect_axis(ctx.attrs<AxisAttrs>().axis, x.ndim))
    return {};
  auto p = shape_of(x), q = shape_of(at);
  for (size_t i = 0; p && q && i < p->size(); ++i) {
    if (i != axis_of(ctx.call, p->size()) && !ctx.require_at_most((*q)[i], (*p)[i]))
      return ctx.error(fmt::format("indices {} are larger than x {} in axis {}", show(*q), show(*p), i));
  }
  if (p && q && !ctx.expect_elements(*p, axis_of(ctx.call, p->size()), product(*q))) return {};
  return like(at, x.dtype);
}
Tensors def_gather_elements(const Call& call, const Tensors& in) {
  const auto axis = axis_of(call, in[0].ndim());
  return {te::compute(
      output_info(call).shape,
      [&](const Vars& v) {
        Shape at = indices(v);
        at.set(axis, safe_index(in[1](indices(v)), in[0].shape()[axis]));
        return in[0](at);
      },
      "gather_elements")};
}

/// Number of leading axes, behind the batch, that the last axis of the indices picks from.
int64_t tuple_size(const Shape& indices) { return *tir::as_int(indices.back()); }
/// It is a constant, and x has so many.
bool expect_tuple_size(InferContext& ctx, const Shape& indices, const Shape& x, int64_t batch) {
  auto k = indices.empty() ? std::nullopt : tir::as_int(indices.back());
  if (!k) return ctx.error(fmt::format("the last axis of indices {} must be a constant", show(indices)));
  if (*k + batch > int64_t(x.size()))
    return ctx.error(fmt::format("indices {} name {} axes of x {}", show(indices), *k, show(x)));
  return true;
}
Type infer_gather_nd(InferContext& ctx) {
  const auto &x = ctx.tensor(0), &at = ctx.tensor(1);
  if (!ctx.expect_integers(1)) return {};
  auto p = shape_of(x), q = shape_of(at);
  if (!p || !q) return graph::tensor_type_unknown(-1, x.dtype);
  const int64_t batch = ctx.attrs<GatherNdAttrs>().batch_dims;
  if (batch < 0 || batch >= int64_t(q->size()) || batch > int64_t(p->size()))
    return ctx.error(fmt::format("{} batch dimensions for x {} and indices {}", batch, show(*p), show(*q)));
  for (int64_t i = 0; i < batch; ++i)
    if (!ctx.require_equal((*p)[size_t(i)], (*q)[size_t(i)]))
      return ctx.error(fmt::format("x {} and indices {} differ in batch axis {}", show(*p), show(*q), i));
  if (!expect_tuple_size(ctx, *q, *p, batch)) return {};
  const int64_t k = tuple_size(*q);
  Shape out(q->begin(), q->begin() + (std::ptrdiff_t(q->size()) - 1));
  append(out, p->begin() + batch + k, p->end());
  for (int64_t i = 0; i < k; ++i)
    if (!ctx.expect_elements(*p, size_t(batch + i), product(out))) return {};
  return make_type(out, 0, x.dtype);
}
Tensors def_gather_nd(const Call& call, const Tensors& in) {
  const int64_t batch = attrs_of<GatherNdAttrs>(call).batch_dims;
  const int64_t k = tuple_size(in[1].shape());
  const size_t outer = in[1].ndim() - 1;
  return {te::compute(
      output_info(call).shape,
      [&](const Vars& v) {
        Shape at(v.begin(), v.begin() + batch), where(v.begin(), v.begin() + std::ptrdiff_t(outer));
        for (int64_t i = 0; i < k; ++i) {
          Shape one = where;
          one.push_back(PrimExpr(i));
          at.push_back(safe_index(in[1](one), in[0].shape()[size_t(batch + i)]));
        }
        append(at, v.begin() + std::ptrdiff_t(outer), v.end());
        return in[0](at);
      },
      "gather_nd")};
}

// ---------------------------------------------------------------- scatter
PrimExpr combined(const std::string& reduction, const PrimExpr& old, const PrimExpr& update) {
  if (reduction == "update") return update;
  const PrimExpr a = wide(old), b = wide(update);
  PrimExpr r = reduction == "add"   ? a + b
               : reduction == "mul" ? a * b
               : reduction == "max" ? tir::max(a, b)
                                    : tir::min(a, b);
  return tir::cast(old.dtype(), r);
}
/// x, indices and updates of a scatter.
bool expect_scatter(InferContext& ctx) {
  const auto &x = ctx.tensor(0), &updates = ctx.tensor(2);
  const std::string& r = ctx.attrs<ScatterAttrs>().reduction;
  return ctx.expect_integers(1) &&
         ctx.expect_one_of("reduction", r, {"update", "add", "mul", "max", "min"}) &&
         (r == "update" || ctx.expect_domain(x.dtype, Domain::number)) &&
         ctx.expect_same_type(x.dtype, updates.dtype);
}
Type infer_scatter_elements(InferContext& ctx) {
  const auto& x = ctx.tensor(0);
  if (!expect_scatter(ctx) || !expect_same_rank(ctx) ||
      !ctx.expect_axis(ctx.attrs<ScatterAttrs>().axis, x.ndim))
    return {};
  auto p = shape_of(ctx.tensor(1)), q = shape_of(ctx.tensor(2));
  if (p && q && !ctx.require_equal(*p, *q))
    return ctx.error(fmt::format("indices {} and updates {} differ", show(*p), show(*q)));
  const auto s = shape_of(x);
  if (s && p &&
      !ctx.expect_elements(*s, size_t(normal_axis(ctx.attrs<ScatterAttrs>().axis, x.ndim)), product(*p)))
    return {};
  for (size_t i = 0; s && p && i < s->size(); ++i)
    if (int64_t(i) != normal_axis(ctx.attrs<ScatterAttrs>().axis, x.ndim) &&
        !ctx.require_at_most((*p)[i], (*s)[i]))
      return ctx.error(fmt::format("indices {} are larger than x {} in axis {}", show(*p), show(*s), i));
  return like(x, x.dtype);
}
Type infer_scatter_nd(InferContext& ctx) {
  const auto& x = ctx.tensor(0);
  if (!expect_scatter(ctx)) return {};
  auto p = shape_of(x), q = shape_of(ctx.tensor(1)), r = shape_of(ctx.tensor(2));
  if (p && q && r) {
    if (!expect_tuple_size(ctx, *q, *p, 0)) return {};
    Shape wanted(q->begin(), q->begin() + (std::ptrdiff_t(q->size()) - 1));
    append(wanted, p->begin() + tuple_size(*q), p->end());
    if (!ctx.require_equal(wanted, *r))
      return ctx.error(fmt::format("updates {} must have the shape {}", show(*r), show(wanted)));
    for (int64_t i = 0; i < tuple_size(*q); ++i)
      if (!ctx.expect_elements(*p, size_t(i), product(*r))) return {};
  }
  return like(x, x.dtype);
}

/// Loops over all elements of a shape around a statement.
tir::Stmt over(const Shape& shape, const std::function<tir::Stmt(const Shape&)>& f) {
  Vars loops;
  Shape at;
  for (size_t i = 0; i < shape.size(); ++i) {
    loops.push_back(tir::var(fmt::format("i{}", i)));
    at.push_back(loops[i]);
  }
  tir::Stmt s = f(at);
  for (size_t i = shape.size(); i-- > 0;) s = tir::for_(loops[i], PrimExpr(0), shape[i], s);
  return s;
}

/// A copy of x in which the updates are applied in their row-major order. `place` maps an index of the
/// updates (and the buffer of indices) to one of the result.
Tensors def_scatter(const Call& call, const Tensors& in,
                    const std::function<Shape(const Shape& update, const tir::Buffer& indices)>& place) {
  const std::string reduction = attrs_of<ScatterAttrs>(call).reduction;
  auto body = [&](const Array<tir::Buffer>& ins, const Array<tir::Buffer>& outs) {
    const tir::Stmt copy =
        over(in[0].shape(), [&](const Shape& at) { return tir::store(outs[0], tir::load(ins[0], at), at); });
    const tir::Stmt apply = over(in[2].shape(), [&](const Shape& u) {
      const Shape at = place(u, ins[1]);
      return tir::store(outs[0], combined(reduction, tir::load(outs[0], at), tir::load(ins[2], u)), at);
    });
    return tir::seq({copy, apply});
  };
  return te::external({in[0].shape()}, {in[0].dtype()}, {in[0], in[1], in[2]}, body, short_name(call));
}
Tensors def_scatter_elements(const Call& call, const Tensors& in) {
  const auto axis = size_t(normal_axis(attrs_of<ScatterAttrs>(call).axis, int64_t(in[0].ndim())));
  return def_scatter(call, in, [&](const Shape& u, const tir::Buffer& at) {
    Shape out = u;
    out.set(axis, safe_index(tir::load(at, u), in[0].shape()[axis]));
    return out;
  });
}
Tensors def_scatter_nd(const Call& call, const Tensors& in) {
  const int64_t k = tuple_size(in[1].shape());
  const auto outer = std::ptrdiff_t(in[1].ndim()) - 1;
  return def_scatter(call, in, [&](const Shape& u, const tir::Buffer& at) {
    Shape out;
    for (int64_t i = 0; i < k; ++i) {
      Shape one(u.begin(), u.begin() + outer);
      one.push_back(PrimExpr(i));
      out.push_back(safe_index(tir::load(at, one), in[0].shape()[size_t(i)]));
    }
    append(out, u.begin() + outer, u.end());
    return out;
  });
}

// ---------------------------------------------------------------- check_indices
Type infer_check(InferContext& ctx) {
  const auto& x = ctx.tensor(0);
  if (!ctx.expect_integers(0)) return {};
  const auto sizes = ctx.shape(1), have = shape_of(x);
  if (!sizes || !have) return ctx.error("the sizes and the shape of the indices must be known");
  if (sizes->size() != 1 &&
      (have->empty() || !ctx.require_equal(have->back(), PrimExpr(int64_t(sizes->size())))))
    return ctx.error(fmt::format("{} sizes for indices {}", sizes->size(), show(*have)));
  return like(x, x.dtype);
}
Tensors def_check(const Call& call, const Tensors& in) {
  const auto& a = attrs_of<CheckIndicesAttrs>(call);
  const Shape sizes = *shape_arg(call, 1);
  const std::string message = "an index of " + a.what + " is outside of its axis";
  auto body = [&](const Array<tir::Buffer>& ins, const Array<tir::Buffer>& outs) {
    return each_of(in[0].shape(), [&](const Shape& at) {
      const PrimExpr i = tir::cast(i64, tir::load(ins[0], at));
      PrimExpr size = sizes.back();
      for (size_t k = sizes.size() - 1; k-- > 0;)
        size = tir::select(tir::eq(at.back(), PrimExpr(int64_t(k))), sizes[k], size);
      const PrimExpr inside =
          tir::logical_and(tir::ge(i, a.from_end ? 0 - size : PrimExpr(0)), tir::lt(i, size));
      return tir::seq(
          {make<tir::AssertStmt>(inside, message), tir::store(outs[0], tir::load(ins[0], at), at)});
    });
  };
  return te::external({in[0].shape()}, {in[0].dtype()}, {in[0]}, body, "check_indices");
}

// ---------------------------------------------------------------- one_hot
Type infer_one_hot(InferContext& ctx) {
  const auto& a = ctx.attrs<OneHotAttrs>();
  const auto &at = ctx.tensor(0), &on = ctx.tensor(1), &off = ctx.tensor(2);
  if (!ctx.expect_integers(0)) return {};
  if (a.depth < 0) return ctx.error(fmt::format("depth {} is negative", a.depth));
  for (const auto* t : {&on, &off})
    if (t->ndim > 0) return ctx.error("the on and off values must be scalars");
  if (on.dtype != off.dtype)
    return ctx.error(
        fmt::format("element types {} and {} differ", to_string(on.dtype), to_string(off.dtype)));
  if (at.ndim < 0) return graph::tensor_type_unknown(-1, on.dtype);
  if (!ctx.expect_axis(a.axis, at.ndim + 1)) return {};
  const auto axis = size_t(normal_axis(a.axis, at.ndim + 1));
  auto have = shape_of(at);
  if (!have) return make_type(std::nullopt, at.ndim + 1, on.dtype);
  have->insert(axis, PrimExpr(a.depth));
  return make_type(have, 0, on.dtype);
}
Tensors def_one_hot(const Call& call, const Tensors& in) {
  const auto& a = attrs_of<OneHotAttrs>(call);
  const auto axis = size_t(normal_axis(a.axis, int64_t(in[0].ndim()) + 1));
  return {te::compute(
      output_info(call).shape,
      [&](const Vars& v) {
        const PrimExpr i = tir::cast(i64, in[0](drop_axes(indices(v), {int64_t(axis)})));
        const PrimExpr hot = tir::select(tir::lt(i, PrimExpr(0)), i + PrimExpr(a.depth), i);
        return tir::select(tir::eq(hot, v[axis]), in[1]({}), in[2]({}));
      },
      "one_hot")};
}

// ---------------------------------------------------------------- triangles and diagonals
bool expect_matrices(InferContext& ctx, const graph::TensorType& x) {
  if (x.ndim < 0 || x.ndim >= 2) return true;
  return ctx.error(fmt::format("takes matrices, not a tensor of {} dimensions", x.ndim));
}
Type infer_triangle(InferContext& ctx) {
  const auto& x = ctx.tensor(0);
  if (!expect_matrices(ctx, x)) return {};
  return like(x, x.dtype);
}
Tensors def_triangle(const Call& call, const Tensors& in, bool upper) {
  const PrimExpr k = attrs_of<DiagonalAttrs>(call).k;
  const size_t n = in[0].ndim();
  return {te::compute(
      in[0].shape(),
      [&](const Vars& v) {
        const PrimExpr above = v[n - 1] - v[n - 2];
        return tir::select(upper ? tir::ge(above, k) : tir::le(above, k), in[0](indices(v)),
                           constant(in[0].dtype(), 0));
      },
      short_name(call))};
}
Type infer_diagonal(InferContext& ctx) {
  const auto& x = ctx.tensor(0);
  if (!expect_matrices(ctx, x)) return {};
  const int64_t k = ctx.attrs<DiagonalAttrs>().k;
  auto have = shape_of(x);
  if (!have) return make_type(std::nullopt, x.ndim < 0 ? -1 : x.ndim - 1, x.dtype);
  const PrimExpr rows = (*have)[have->size() - 2], columns = (*have)[have->size() - 1];
  Shape out(have->begin(), have->begin() + (std::ptrdiff_t(have->size()) - 2));
  const PrimExpr length =
      tir::min(k < 0 ? rows + PrimExpr(k) : rows, k > 0 ? columns - PrimExpr(k) : columns);
  out.push_back(simplify(tir::max(length, PrimExpr(0))));
  return make_type(out, 0, x.dtype);
}
Tensors def_diagonal(const Call& call, const Tensors& in) {
  const int64_t k = attrs_of<DiagonalAttrs>(call).k;
  return {te::compute(
      output_info(call).shape,
      [&](const Vars& v) {
        Shape at(v.begin(), v.begin() + (std::ptrdiff_t(v.size()) - 1));
        const PrimExpr i = v[v.size() - 1];
        at.push_back(k < 0 ? i - PrimExpr(k) : i);
        at.push_back(k > 0 ? i + PrimExpr(k) : i);
        return in[0](at);
      },
      "diagonal")};
}

const bool index_registered = [] {
  const auto injective = FusionKind::injective, opaque = FusionKind::opaque;
  const char* const where =
      "positions; negative ones count from the end, others are moved to the nearest end";
  register_op("take", "Slices of an axis at the given positions.", injective, infer_take, def_take)
      .argument("x", "Tensor", "the operand")
      .argument("indices", "Tensor", where)
      .attrs<AxisAttrs>();
  register_op("gather_elements", "The element at each position along an axis.", injective,
              infer_gather_elements, def_gather_elements)
      .argument("x", "Tensor", "the operand")
      .argument("indices", "Tensor", where)
      .attrs<AxisAttrs>();
  register_op("gather_nd", "Slices at positions of several axes, given by the last axis of the indices.",
              injective, infer_gather_nd, def_gather_nd)
      .argument("x", "Tensor", "the operand")
      .argument("indices", "Tensor", where)
      .attrs<GatherNdAttrs>();
  register_op("scatter_elements",
              "x with elements at the given positions along an axis replaced or combined.", opaque,
              infer_scatter_elements, def_scatter_elements)
      .argument("x", "Tensor", "the operand")
      .argument("indices", "Tensor", where)
      .argument("updates", "Tensor", "new values, of the indices' shape")
      .attrs<ScatterAttrs>();
  register_op("scatter_nd", "x with slices at the given positions replaced or combined.", opaque,
              infer_scatter_nd, def_scatter_nd)
      .argument("x", "Tensor", "the operand")
      .argument("indices", "Tensor", where)
      .argument("updates", "Tensor", "new slices")
      .attrs<ScatterAttrs>();
  register_op("check_indices",
              "The indices as they are, where each is inside of its axis; else the run ends.", opaque,
              infer_check, def_check)
      .argument("indices", "Tensor", "positions")
      .argument("sizes", "Shape",
                "of the axis, or of one for each position along the last axis of the indices")
      .attrs<CheckIndicesAttrs>();
  register_op("one_hot", "`on` at the position of a new axis that the index names, `off` elsewhere.",
              injective, infer_one_hot, def_one_hot)
      .argument("indices", "Tensor", "classes; negative ones count from the end, others outside are nowhere")
      .argument("on", "Tensor", "scalar")
      .argument("off", "Tensor", "scalar")
      .attrs<OneHotAttrs>();
  register_op("triu", "Zeros below the k-th diagonal of each matrix.", injective, infer_triangle,
              [](const Call& c, const Tensors& in) { return def_triangle(c, in, true); })
      .argument("x", "Tensor", "matrices")
      .attrs<DiagonalAttrs>();
  register_op("tril", "Zeros above the k-th diagonal of each matrix.", injective, infer_triangle,
              [](const Call& c, const Tensors& in) { return def_triangle(c, in, false); })
      .argument("x", "Tensor", "matrices")
      .attrs<DiagonalAttrs>();
  register_op("diagonal", "The k-th diagonal of each matrix.", injective, infer_diagonal, def_diagonal)
      .argument("x", "Tensor", "matrices")
      .attrs<DiagonalAttrs>();
  return true;
}();

}  // namespace
}  // namespace tenon::op

template struct tenon::DefineTypes<tenon::op::GatherNdAttrs, tenon::op::ScatterAttrs, tenon::op::OneHotAttrs,
                                   tenon::op::DiagonalAttrs, tenon::op::CheckIndicesAttrs>;
