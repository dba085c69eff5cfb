// SPDX-License-Identifier: Apache-2.0
// The operands of a dot instruction: used as they lie where groups of the sum are neighbours, and laid out
// anew otherwise.
#pragma once
#include "autoschedule/dot_plan.h"

namespace tenon::rules {

/// A copy of the operand of the lanes in panels of groups.
struct GroupedCopy {
  BlockRV id = {};           ///< id < 0: there is none
  int sum = -1, lanes = -1;  ///< its iterators
  int64_t panel = 0;         ///< the width of a panel
};

/// The contraction while its operands are prepared.
struct Operands {
  BlockRV reduction;
  Facts facts;
  DotPlan plan;
  std::vector<BlockRV> copies = {};
  GroupedCopy grouped = {};

  cost::Grouped grouping(const Access& l) const {
    return {plan.sum, l.stride[size_t(plan.lanes)] != 0 ? plan.lanes : -1, plan.form.group};
  }
  /// After a step: the facts of the block as it is now.
  RuleOutcome read(Draft& draft);
};

/// Operands in groups; panels that exist already fix the width of the tile.
RuleOutcome lay_out_operands(Draft& draft, Operands& o);
/// Taps of a window whose few channels lie side by side are one step of a matrix register: three taps of four
/// bytes are a row of twelve.
RuleOutcome join_taps(Draft& draft, Operands& o);
/// The loops of the copies that still stand for themselves.
void schedule_copies(Draft& draft, const Operands& o);

}  // namespace tenon::rules
