// SPDX-License-Identifier: Apache-2.0
// A contraction of narrow types as dot instructions compute it: its iterators and operands, and the tile of
// its sums, in vector registers or in matrix registers.
#pragma once
#include "autoschedule/tile.h"
#include "schedule/dot_intrin.h"

namespace tenon::rules {

/// A contraction as a dot instruction computes it.
struct DotPlan {
  DotForm form;
  int lanes = -1, sum = -1;      ///< the iterators of lanes and groups
  size_t along = 0, shared = 0;  ///< positions among the loads: of the operand of the lanes, and of the other

  /// Does the operand of the lanes lie in groups, neighbours over tiles of `width`?
  bool in_groups(const Access& l, int64_t width) const {
    return l.step(lanes, width) == form.group && l.step(sum, form.group) == 1;
  }
};
/// Iterators and operands for a dot instruction; or why the contraction has none.
RuleOutcome plan_dot(const Facts& f, const Target& target, DotPlan& plan);

/// The tile of the contraction in groups, across fused axes where that saves time.
struct DotTile {
  Tile tile;
  Fusion fusion;
  int64_t matrix_rows = 0;  ///< of a matrix register that holds sums; 0: they are in vector registers
  int64_t steps = 0;        ///< of the sum, that one instruction takes then
};
DotTile in_vector_registers(const Facts& f, const DotPlan& plan, const Target& target);
DotTile in_matrix_registers(Facts f, const DotPlan& plan, const Target& target);
/// The one that takes less time.
DotTile choose_dot_tile(const Facts& f, const DotPlan& plan, const Target& target);
/// The contraction once its operand of the lanes lies in groups.
Facts as_if_copied(Facts f, const DotPlan& plan);

}  // namespace tenon::rules
