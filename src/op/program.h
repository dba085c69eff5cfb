// SPDX-License-Identifier: Apache-2.0
// Short forms for the statements of tensor definitions that are programs of loops (sorting, matching,
// recurrences), and orders of elements, which several families share.
#pragma once
#include "ir/tir.h"
#include "op/op_def.h"

namespace tenon::op {

/// A loop over [0, extent) whose body gets the variable.
template <class F>
tir::Stmt each(const char* name, const PrimExpr& extent, F body, bool parallel = false) {
  tir::VarRef v = tir::var(name);
  tir::Stmt s = body(PrimExpr(v));
  return tir::for_(v, PrimExpr(0), extent, s, parallel ? tir::ForKind::parallel : tir::ForKind::serial);
}
/// Loops over all indices of a shape; a shape without axes runs the body once.
tir::Stmt each_of(const Shape& shape, const std::function<tir::Stmt(const Shape&)>& body,
                  bool parallel = false);
inline tir::Stmt when(const PrimExpr& condition, const tir::Stmt& then, const tir::Stmt& otherwise = {}) {
  return make<tir::IfThenElse>(condition, then, otherwise);
}
/// A value that is computed once, under a name.
template <class F>
tir::Stmt named(const char* name, const PrimExpr& value, F body) {
  tir::VarRef v = tir::var(name, value.dtype());
  tir::Stmt s = body(PrimExpr(v));
  return make<tir::LetStmt>(v, value, s);
}
/// Passes that double runs of 2^bits elements until all n are one run; each gets the width of the runs that
/// it joins, and how many there are then.
tir::Stmt each_doubling(const PrimExpr& n, int64_t bits,
                        const std::function<tir::Stmt(const PrimExpr& width, const PrimExpr& runs)>& pass);
/// The value in every lane; of one lane itself.
inline PrimExpr splat(const PrimExpr& e, int64_t lanes) {
  return lanes == 1 ? e : PrimExpr(make<tir::Broadcast>(e, lanes));
}
/// A lazy "and": the second is not evaluated (and may read outside) where the first is false.
inline PrimExpr and_then(const PrimExpr& a, const PrimExpr& b) {
  return tir::if_then_else(a, b, PrimExpr::int_imm(0, boolean));
}

/// Whether a comes before b in ascending (or descending) order; NaN is the largest value.
PrimExpr comes_before(const PrimExpr& a, const PrimExpr& b, bool descending);
/// Positions along `axis` in ascending (descending) order, stable: int64 in x's shape.
te::Tensor order_of(const te::Tensor& x, size_t axis, bool descending);
/// The first `count` of these positions, or more of them: int64 in x's shape but for `axis`, which has
/// `count` elements, at most as many as x has.
te::Tensor first_in_order(const te::Tensor& x, size_t axis, bool descending, const PrimExpr& count);
/// The order of the rows of a matrix, compared element by element: int64 of as many rows.
te::Tensor order_of_rows(const te::Tensor& x);
/// x as a matrix whose rows are the slices of `axis`; without an axis, one element a row.
te::Tensor as_rows(const te::Tensor& x, std::optional<size_t> axis);

}  // namespace tenon::op
