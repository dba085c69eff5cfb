// SPDX-License-Identifier: Apache-2.0
// Scalable vectors: their number of lanes is a multiple of `tir.vscale`, which the machine (or whoever
// interprets) chooses. A type counts such lanes below zero, as DLPack's signed lanes do: float32xvscalex4 has
// the lanes -4.
#pragma once
#include "ir/prim_expr.h"

namespace tenon::tir {

constexpr bool is_scalable(DataType t) { return int16_t(t.lanes) < 0; }
/// Does the function name `tir.vscale` or a scalable vector?
bool uses_vscale(const PrimFunc& f);
/// The function for a machine of this vscale: all vectors are of fixed length. T0318 when one is too long.
PrimFunc fix_vscale(const PrimFunc& f, int64_t vscale);

}  // namespace tenon::tir
