// SPDX-License-Identifier: Apache-2.0
// The schedule every tensor program gets without tuning: rules over iteration kinds and access regions, sized
// by the target record. Never a rule for an operator's name or a model's shape.
#pragma once
#include <span>

#include "schedule/schedule.h"
#include "target/target.h"

namespace tenon {

/// How a rule, or a step of one, ended.
enum class RuleOutcome {
  applied,
  refused,  ///< by a primitive, whose code and message say why
  opaque,   ///< the block is more than one store in loops from 0
  no_reduction,
  no_reuse,
  is_reduction,
  indirect_result,
  epilogue,
  no_tile,
  no_product,
  no_instruction,
  copy_costs,
  several_sums,
  strided_sum,
  short_sum,
  regular_lanes,
  no_rows,
  no_columns,
  no_panel,
  stays_near,
  masked_rows,
  lost_loop,
  given_tile,
};
/// "no_tile", and the sentence for it.
std::string_view name_of(RuleOutcome outcome);
std::string_view text_of(RuleOutcome outcome);

/// One rule, or one step of a rule (a variant, a copy of an operand), that was tried on a block.
struct RuleAttempt {
  std::string block, rule, step;  ///< `step` is empty for the rule itself
  RuleOutcome outcome = RuleOutcome::applied;
  std::string code, message;  ///< of the primitive that refused
  /// The register tile that was tried, as the annotation "tile" gives one, and the cycles that the model
  /// expects of all its steps on one core; 0: none, or a size is symbolic.
  AttrMap tile = {};
  double cycles = 0;
  /// Primitives and analyses, on that block, whose proofs reached kProofSteps: they then did less than may be
  /// right.
  GivenUpProofs given_up = {};
};

/// What was tried on one program, in order.
struct ScheduleReport : Object {
  static constexpr std::string_view type_key = "autoschedule.ScheduleReport";
  std::string function;
  std::vector<RuleAttempt> attempts;
};

/// A rule of the default schedule, for the list that docs/schedule.md shows.
struct RuleInfo {
  std::string_view name, doc;
};
/// In the order in which they are tried.
std::span<const RuleInfo> schedule_rules();

/// An equal program with loops placed: producers inlined or kept near, contractions tiled in registers, the
/// outer loop parallel, the inner one vectorised. What a rule cannot do legally is left to the next simpler
/// one; the partition of reductions depends on shapes and target only. The trace is attribute "tenon.trace".
/// `attempts` receives what was tried, in order.
tir::PrimFunc default_schedule(const tir::PrimFunc& function, const Target& target,
                               std::vector<RuleAttempt>* attempts = nullptr);

}  // namespace tenon
