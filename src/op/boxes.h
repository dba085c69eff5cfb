// SPDX-License-Identifier: Apache-2.0
// Boxes of four numbers: their corners, and how much two of them share. Every value may have lanes.
#pragma once
#include "op/family.h"

namespace tenon::op {

bool expect_boxes(InferContext& ctx, const Shape& s, const char* what);

struct Corners {
  PrimExpr low_y, low_x, high_y, high_x;
  PrimExpr area() const { return (high_y - low_y) * (high_x - low_x); }
};
/// Of a box by its two corners, or by its centre and sizes (x, y, width, height).
Corners corners(const std::function<PrimExpr(int64_t)>& box, bool centred);
/// What both cover, as a share of what either does; 0 where that is nothing.
PrimExpr overlap(const Corners& p, const Corners& q);

}  // namespace tenon::op
