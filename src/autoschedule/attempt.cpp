// SPDX-License-Identifier: Apache-2.0
// The record of what rules tried.
#include <algorithm>
#include <utility>

#include "autoschedule/rules.h"

namespace tenon {
namespace {

struct OutcomeText {
  RuleOutcome outcome;
  std::string_view name, text;
};
constexpr OutcomeText kTexts[] = {
    {RuleOutcome::applied, "applied", "applied"},
    {RuleOutcome::refused, "refused", "a primitive refused"},
    {RuleOutcome::opaque, "opaque", "the block is more than one store in loops from 0"},
    {RuleOutcome::no_reduction, "no_reduction", "there is no reduction here"},
    {RuleOutcome::no_reuse, "no_reuse", "no operand of a reduction is read again"},
    {RuleOutcome::is_reduction, "is_reduction", "the block is a reduction"},
    {RuleOutcome::indirect_result, "indirect_result",
     "the result is not indexed by the iterators themselves"},
    {RuleOutcome::epilogue, "epilogue", "the block behind does not read each result at its own place"},
    {RuleOutcome::no_tile, "no_tile", "no tile of registers fits"},
    {RuleOutcome::no_product, "no_product", "the sum is not one of products of two widened loads"},
    {RuleOutcome::no_instruction, "no_instruction", "the target has no dot instruction for these operands"},
    {RuleOutcome::copy_costs, "copy_costs", "laying out an operand anew would cost what it saves"},
    {RuleOutcome::several_sums, "several_sums", "the sum has more than one axis"},
    {RuleOutcome::strided_sum, "strided_sum", "the operands are not both contiguous along the sum"},
    {RuleOutcome::short_sum, "short_sum", "the sum is too short for lanes"},
    {RuleOutcome::regular_lanes, "regular_lanes", "lanes along the result read neighbours"},
    {RuleOutcome::no_rows, "no_rows", "the stages have no rows in common"},
    {RuleOutcome::no_columns, "no_columns", "a stage is no fold of columns that each are read once"},
    {RuleOutcome::stays_near, "stays_near", "what is folded stays in the cache, and its rows fill vectors"},
    {RuleOutcome::no_panel, "no_panel", "the columns are too few, too long, or no whole vectors"},
    {RuleOutcome::masked_rows, "masked_rows", "matrix registers are loaded whole, and an operand is masked"},
    {RuleOutcome::lost_loop, "lost_loop", "a loop of the sum vanished when it was split"},
    {RuleOutcome::given_tile, "given_tile", "the block is given a tile"}};

const OutcomeText& entry(RuleOutcome outcome) {
  return *std::find_if(std::begin(kTexts), std::end(kTexts),
                       [&](const OutcomeText& t) { return t.outcome == outcome; });
}

}  // namespace

std::string_view name_of(RuleOutcome outcome) { return entry(outcome).name; }
std::string_view text_of(RuleOutcome outcome) { return entry(outcome).text; }

namespace rules {

bool Draft::is_scheduled(BlockRV b) const {
  return std::find(scheduled.begin(), scheduled.end(), b.id) != scheduled.end();
}

RuleOutcome attempt(Draft& draft, std::string_view step, FunctionRef<RuleOutcome(Draft&)> f) {
  Draft trial = draft;
  RuleAttempt made{draft.block, std::string(draft.rule), std::string(step)};
  if (const auto refusal = refusal_of([&] { made.outcome = f(trial); })) {
    made.outcome = RuleOutcome::refused;
    made.code = refusal->code;
    made.message = refusal->message;
  }
  made.given_up = std::exchange(draft.schedule.given_up(), {});
  if (made.outcome == RuleOutcome::applied) draft = std::move(trial);
  if (draft.attempts) draft.attempts->push_back(made);
  return made.outcome;
}

bool try_step(Draft& draft, std::string_view step, FunctionRef<void(Schedule&)> f) {
  return attempt(draft, step, [&](Draft& d) {
           f(d.schedule);
           return RuleOutcome::applied;
         }) == RuleOutcome::applied;
}

}  // namespace rules
}  // namespace tenon
