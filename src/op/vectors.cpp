// SPDX-License-Identifier: Apache-2.0
// Diagonals of matrices, products of vectors and matrices, places in a sorted vector, lengths of vectors.
#include <fmt/format.h>

#include <algorithm>

#include "base/define_type.h"
#include "op/attrs_arrange.h"
#include "op/family.h"

namespace tenon::op {
namespace {

using Tensors = std::vector<te::Tensor>;

Type infer_trace(InferContext& ctx) {
  const auto& x = ctx.tensor(0);
  if (!ctx.expect_domain(x.dtype, Domain::number)) return {};
  Shape s;
  if (!ctx.expect_shape(x, "x", s)) return {};
  if (s.size() < 2) return ctx.error(fmt::format("{} is no matrix", show(s)));
  return make_type(drop_axes(s, {x.ndim - 2, x.ndim - 1}), x.ndim - 2, x.dtype);
}
Tensors def_trace(const Call& call, const Tensors& in) {
  const te::Tensor& x = in[0];
  const int64_t offset = attrs_of<OffsetAttrs>(call).offset;
  const PrimExpr rows = x.shape()[x.ndim() - 2], columns = x.shape()[x.ndim() - 1];
  const PrimExpr length = simplify(tir::max(
      tir::min(rows - std::max<int64_t>(0, -offset), columns - std::max<int64_t>(0, offset)), PrimExpr(0)));
  const tir::IterVar k = te::reduce_axis(tir::range(PrimExpr(0), length), "k");
  const te::Tensor sum = te::compute(
      output_info(call).shape,
      [&](const Vars& v) {
        Shape at = indices(v);
        at.push_back(k->var + std::max<int64_t>(0, -offset));
        at.push_back(k->var + std::max<int64_t>(0, offset));
        return te::sum(wide(x(at)), {k});
      },
      "trace");
  return {cast_to(sum, x.dtype())};
}
Type infer_set_diag(InferContext& ctx) {
  const auto& x = ctx.tensor(0);
  if (!ctx.expect_same_type(ctx.tensor(0).dtype, ctx.tensor(1).dtype)) return {};
  const DataType dtype = ctx.tensor(0).dtype;
  Shape s, d;
  if (!ctx.expect_shape(x, "x", s) || !ctx.expect_shape(ctx.tensor(1), "diagonal", d)) return {};
  bool fits = s.size() >= 2 && d.size() + 1 == s.size();
  if (fits) {
    const PrimExpr least = simplify(tir::min(s[s.size() - 2], s[s.size() - 1]));
    fits = ctx.require_equal(d[d.size() - 1], least);
    for (size_t i = 0; i + 2 < s.size(); ++i) fits = fits && ctx.require_equal(d[i], s[i]);
  }
  if (!fits) return ctx.error(fmt::format("{} is no diagonal of {}", show(d), show(s)));
  return like(x, dtype);
}
Tensors def_set_diag(const Call& call, const Tensors& in) {
  return {te::compute(
      output_info(call).shape,
      [&](const Vars& v) {
        const Shape at = indices(v);
        const Shape own = drop_axes(at, {int64_t(at.size()) - 1});
        return tir::if_then_else(tir::eq(at[at.size() - 2], at[at.size() - 1]), in[1](own), in[0](at));
      },
      "matrix_set_diag")};
}

Type infer_vectors(InferContext& ctx, bool outer) {
  if (!ctx.expect_same_type(ctx.tensor(0).dtype, ctx.tensor(1).dtype)) return {};
  const DataType dtype = ctx.tensor(0).dtype;
  if (!ctx.expect_domain(dtype, Domain::number)) return {};
  Shape a, b;
  if (!ctx.expect_shape(ctx.tensor(0), "a", a) || !ctx.expect_shape(ctx.tensor(1), "b", b)) return {};
  if (a.size() != 1 || b.size() != 1 || (!outer && !ctx.require_equal(a[0], b[0])))
    return ctx.error(
        fmt::format("{} and {} are no two vectors{}", show(a), show(b), outer ? "" : " of one length"));
  return make_type(outer ? Shape{a[0], b[0]} : Shape(), outer ? 2 : 0, dtype);
}
Tensors def_outer(const Call& call, const Tensors& in) {
  return {te::compute(
      output_info(call).shape,
      [&](const Vars& v) { return tir::cast(in[0].dtype(), wide(in[0]({v[0]})) * wide(in[1]({v[1]}))); },
      "outer")};
}
Tensors def_dot(const Call&, const Tensors& in) {
  const tir::IterVar k = te::reduce_axis(tir::range(PrimExpr(0), in[0].shape()[0]), "k");
  return {cast_to(
      te::compute(
          Shape(), [&](const Vars&) { return te::sum(wide(in[0]({k->var})) * wide(in[1]({k->var})), {k}); },
          "dot"),
      in[0].dtype())};
}
Type infer_cross(InferContext& ctx) {
  if (!ctx.expect_same_type(ctx.tensor(0).dtype, ctx.tensor(1).dtype)) return {};
  const DataType dtype = ctx.tensor(0).dtype;
  if (!ctx.expect_domain(dtype, Domain::signed_number)) return {};
  Shape a, b;
  if (!ctx.expect_shape(ctx.tensor(0), "a", a) || !ctx.expect_shape(ctx.tensor(1), "b", b)) return {};
  if (a.empty() || !ctx.require_equal(a, b) || !ctx.require_equal(a.back(), PrimExpr(3)))
    return ctx.error(
        fmt::format("{} and {} are not both vectors of three along the last axis", show(a), show(b)));
  return like(ctx.tensor(0), dtype);
}
Tensors def_cross(const Call& call, const Tensors& in) {
  return {te::compute(
      output_info(call).shape,
      [&](const Vars& v) {
        auto element = [&](const te::Tensor& t, int64_t step) {
          Shape at = indices(v);
          at.set(at.size() - 1, tir::floormod(at[at.size() - 1] + step, PrimExpr(3)));
          return wide(t(at));
        };
        return tir::cast(in[0].dtype(),
                         element(in[0], 1) * element(in[1], 2) - element(in[0], 2) * element(in[1], 1));
      },
      "cross")};
}
Type infer_kron(InferContext& ctx) {
  if (!ctx.expect_same_type(ctx.tensor(0).dtype, ctx.tensor(1).dtype)) return {};
  const DataType dtype = ctx.tensor(0).dtype;
  if (!ctx.expect_domain(dtype, Domain::number)) return {};
  Shape a, b;
  if (!ctx.expect_shape(ctx.tensor(0), "a", a) || !ctx.expect_shape(ctx.tensor(1), "b", b)) return {};
  if (a.size() != 2 || b.size() != 2)
    return ctx.error(fmt::format("{} and {} are no matrices", show(a), show(b)));
  return make_type(Shape{simplify(a[0] * b[0]), simplify(a[1] * b[1])}, 2, dtype);
}
Tensors def_kron(const Call& call, const Tensors& in) {
  return {te::compute(
      output_info(call).shape,
      [&](const Vars& v) {
        Shape outer, inner;
        for (size_t i = 0; i < 2; ++i) {
          outer.push_back(tir::floordiv(v[i], in[1].shape()[i]));
          inner.push_back(tir::floormod(v[i], in[1].shape()[i]));
        }
        return tir::cast(in[0].dtype(), wide(in[0](outer)) * wide(in[1](inner)));
      },
      "kron")};
}

/// Number of elements of a sorted vector before (right: not behind) each value: where it would be put in.
Type infer_searchsorted(InferContext& ctx) {
  if (!ctx.expect_same_type(ctx.tensor(0).dtype, ctx.tensor(1).dtype)) return {};
  const auto& values = ctx.tensor(1);
  Shape s, looked_for;
  if (!ctx.expect_shape(ctx.tensor(0), "sorted", s) || !ctx.expect_shape(values, "values", looked_for))
    return {};
  if (s.size() != 1) return ctx.error(fmt::format("{} is no vector", show(s)));
  return make_type(looked_for, values.ndim, i64);
}
Tensors def_searchsorted(const Call& call, const Tensors& in) {
  // 63 halvings end for every vector; each keeps the number of elements that are known to come first.
  const bool right = attrs_of<RightAttrs>(call).right;
  const PrimExpr n = in[0].shape()[0];
  int steps = 63;
  if (auto k = tir::as_int(n)) {
    steps = 0;
    while (steps < 62 && (int64_t(1) << steps) <= *k) ++steps;
  }
  return {te::compute(
      output_info(call).shape,
      [&](const Vars& v) {
        const PrimExpr value = in[1](indices(v));
        PrimExpr first = 0;
        for (int s = steps; s-- > 0;) {
          const tir::VarRef low = tir::var("first");
          const PrimExpr next = low + (int64_t(1) << s);
          PrimExpr there = in[0]({tir::max(tir::min(next, n) - 1, PrimExpr(0))});
          if (!tir::as_int(n)) there = tir::if_then_else(tir::gt(n, PrimExpr(0)), there, like(there, 0));
          const PrimExpr before = right ? tir::le(there, value) : tir::lt(there, value);
          first = make<tir::Let>(
              low, first, tir::select(tir::logical_and(tir::le(next, n), before), next, PrimExpr(low)));
        }
        return first;
      },
      "searchsorted")};
}

Type infer_normalize(InferContext& ctx) {
  const auto& x = ctx.tensor(0);
  if (!ctx.expect_domain(x.dtype, Domain::floating)) return {};
  if (!ctx.expect_axis(ctx.attrs<NormalizeAttrs>().axis, x.ndim)) return {};
  return like(x, x.dtype);
}
Tensors def_normalize(const Call& call, const Tensors& in) {
  const auto& a = attrs_of<NormalizeAttrs>(call);
  const te::Tensor& x = in[0];
  const auto axis = normal_axis(a.axis, int64_t(x.ndim()));
  const te::Tensor squares = reduce_over(
      x, {axis}, false, te::sum, [](const PrimExpr& e, const Shape&) { return wide(e) * wide(e); },
      "squares");
  return {te::compute(
      output_info(call).shape,
      [&](const Vars& v) {
        const PrimExpr length = tir::sqrt(squares(drop_axes(indices(v), {axis})));
        const PrimExpr least = constant(length.dtype(), a.epsilon);
        return tir::cast(x.dtype(), tir::div(wide(x(indices(v))), tir::max(length, least)));
      },
      "l2_normalize")};
}

const bool vectors_registered = [] {
  const auto injective = FusionKind::injective;
  register_op("trace", "Sum of a diagonal of the last two axes.", FusionKind::comm_reduce, infer_trace,
              def_trace)
      .argument("x", "Tensor", "the operand")
      .attrs<OffsetAttrs>();
  register_op("matrix_set_diag", "x with another main diagonal.", injective, infer_set_diag, def_set_diag)
      .argument("x", "Tensor", "the operand")
      .argument("diagonal", "Tensor", "its elements");
  auto product = [](OpName name, const char* doc, FusionKind kind, InferType infer, TensorDef def) {
    register_op(std::move(name), doc, kind, std::move(infer), std::move(def))
        .argument("a", "Tensor", "left operand")
        .argument("b", "Tensor", "right operand");
  };
  product(
      "outer", "aᵢ · bⱼ.", injective, [](InferContext& ctx) { return infer_vectors(ctx, true); }, def_outer);
  product(
      "dot", "Σ aᵢ · bᵢ of two vectors.", FusionKind::comm_reduce,
      [](InferContext& ctx) { return infer_vectors(ctx, false); }, def_dot);
  product("cross", "Vector product along the last axis, which has three elements.", injective, infer_cross,
          def_cross);
  product("kron", "Kronecker product of two matrices.", injective, infer_kron, def_kron);
  register_op("searchsorted", "Where each value would be put into a sorted vector.", FusionKind::opaque,
              infer_searchsorted, def_searchsorted)
      .argument("sorted", "Tensor", "a vector in rising order")
      .argument("values", "Tensor", "what is looked for")
      .attrs<RightAttrs>();
  register_op("nn.l2_normalize", "Vectors along an axis divided by their length.", FusionKind::comm_reduce,
              infer_normalize, def_normalize)
      .argument("x", "Tensor", "the operand")
      .attrs<NormalizeAttrs>();
  return true;
}();

}  // namespace
}  // namespace tenon::op

template struct tenon::DefineTypes<tenon::op::OffsetAttrs, tenon::op::RightAttrs, tenon::op::NormalizeAttrs>;
