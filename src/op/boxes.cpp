// SPDX-License-Identifier: Apache-2.0
#include "op/boxes.h"

#include <fmt/format.h>

#include "op/program.h"

namespace tenon::op {

bool expect_boxes(InferContext& ctx, const Shape& s, const char* what) {
  if (!s.empty() && ctx.require_equal(s.back(), PrimExpr(4))) return true;
  return ctx.error(fmt::format("{} {} are no boxes of 4 numbers", what, show(s)));
}

Corners corners(const std::function<PrimExpr(int64_t)>& box, bool centred) {
  const PrimExpr a = wide(box(0)), b = wide(box(1)), c = wide(box(2)), d = wide(box(3));
  if (!centred) return {tir::min(a, c), tir::min(b, d), tir::max(a, c), tir::max(b, d)};
  const PrimExpr half = constant(a.dtype(), 0.5);
  return {b - d * half, a - c * half, b + d * half, a + c * half};
}
static PrimExpr common_area(const Corners& p, const Corners& q) {
  const PrimExpr zero = splat(constant(p.low_y.dtype().element(), 0), p.low_y.dtype().lanes);
  const PrimExpr h = tir::min(p.high_y, q.high_y) - tir::max(p.low_y, q.low_y);
  const PrimExpr w = tir::min(p.high_x, q.high_x) - tir::max(p.low_x, q.low_x);
  return tir::max(h, zero) * tir::max(w, zero);
}
PrimExpr overlap(const Corners& p, const Corners& q) {
  const int64_t lanes = p.low_y.dtype().lanes;
  const PrimExpr common = common_area(p, q), zero = splat(constant(common.dtype().element(), 0), lanes),
                 one = splat(constant(common.dtype().element(), 1), lanes);
  const PrimExpr all = p.area() + q.area() - common;
  return tir::select(tir::gt(all, zero), tir::div(common, tir::select(tir::gt(all, zero), all, one)), zero);
}

}  // namespace tenon::op
