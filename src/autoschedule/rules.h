// SPDX-License-Identifier: Apache-2.0
// The rules behind default_schedule, and what they work on.
#pragma once
#include "analysis/cost/cache.h"
#include "autoschedule/default.h"
#include "autoschedule/facts.h"

namespace tenon::rules {

inline constexpr int64_t kMinLanes = 4;         ///< shorter vectors do not pay for their set-up
inline constexpr int64_t kManySteps = 1 << 20;  ///< of a loop of symbolic extent

/// A program on its way to its schedule. Copies are snapshots and cost little.
struct Draft {
  Schedule schedule;
  Target target;
  std::vector<int32_t> scheduled = {};  ///< blocks whose loops are placed
  std::vector<int32_t> dots = {};       ///< reductions that became dot instructions
  std::string block = {};               ///< being scheduled, and by which rule, for the record
  std::string_view rule = {};
  std::vector<RuleAttempt>* attempts = nullptr;
  /// Of a program that runs a block of rows at a time: the blocks in front of the loops over tasks, which are
  /// parallel, so that those inside are not.
  std::optional<std::vector<int32_t>> in_front = {};
  bool in_task = false;  ///< the block being scheduled is inside

  /// A loop whose iterations may run on threads of their own; of `snapshot`, where a step works on one.
  void parallel(Schedule& snapshot, LoopRV loop) const {
    if (!in_task) snapshot.parallel(loop);
  }
  void parallel(LoopRV loop) { parallel(schedule, loop); }
  bool is_scheduled(BlockRV b) const;
  void set_scheduled(BlockRV b) { scheduled.push_back(b.id); }
};

/// Runs `f` on a snapshot, which becomes the draft when it was applied. Otherwise the draft stays as it is,
/// and the record says why; a primitive that refuses ends `f` with RuleOutcome::refused.
RuleOutcome attempt(Draft& draft, std::string_view step, FunctionRef<RuleOutcome(Draft&)> f);
/// One primitive that may refuse without harm.
bool try_step(Draft& draft, std::string_view step, FunctionRef<void(Schedule&)> f);

/// The block to be scheduled, and the reduction it is or follows.
struct Site {
  BlockRV block;
  std::optional<Facts> facts;  ///< of the block; null: it is more than one store in loops
  BlockRV reduction = {};      ///< one that reads its operands again and again: a contraction, a window
  BlockRV epilogue = {};       ///< the block, when it consumes that reduction; id < 0: none
  bool rows = false;           ///< the block is a reduction, or consumes other ones
};

/// What is added to every row of a short sum of narrow types becomes its first value. Those sums.
std::vector<BlockRV> begin_with_addends(Draft& draft);
/// Cheap element-wise blocks, and those read once, are computed where they are read.
void inline_producers(Draft& draft);

// Each rule changes the draft and says how it ended; what it has changed is dropped unless it was applied.
RuleOutcome dot_instruction(Draft& draft, const Site& site);
RuleOutcome inner_product(Draft& draft, const Site& site);
RuleOutcome register_tile(Draft& draft, const Site& site);
RuleOutcome fold_in_order(Draft& draft, const Site& site);
RuleOutcome by_columns(Draft& draft, const Site& site);
RuleOutcome row_by_row(Draft& draft, const Site& site);
RuleOutcome elementwise(Draft& draft, const Site& site);
RuleOutcome parallel_outer(Draft& draft, const Site& site);

/// A block without a reduction that a rule has made (a copy of an operand).
RuleOutcome schedule_copy(Draft& draft, BlockRV copy);
/// Lanes of vectors along `size` elements, of at most `lanes`; 1: none.
int64_t pick_lanes(int64_t size, int64_t lanes);
/// Neighbours along the last axis come from two rows by turns, or lie side by side.
bool two_rows(Schedule& s, const Facts& f);
/// Vectorises the innermost loop of a block below the `outer` first ones, where its accesses are contiguous.
void vectorize_inner(Draft& draft, BlockRV b, size_t outer);

}  // namespace tenon::rules
