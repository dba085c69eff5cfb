// SPDX-License-Identifier: Apache-2.0
// dot_instruction: contractions of narrow types that the target's dot instructions compute, several steps of
// the sum at once. What is needed of the program is a product of two loads, widened; its operands are used as
// they lie when groups of the sum are neighbours (panels that pack_weights made), and are laid out anew
// otherwise.
#include "autoschedule/dot_operands.h"
#include "target/matrix_registers.h"

namespace tenon::rules {

namespace {

/// The tile, and then the copies.
RuleOutcome finish(Draft& draft, const Site& site, const Operands& o, const DotTile& chosen) {
  if (!chosen.tile || !o.plan.in_groups(o.facts.loads[o.plan.along], chosen.tile.lanes))
    return RuleOutcome::no_tile;
  TileRequest request{site.reduction, site.epilogue, o.facts, chosen.fusion, chosen.tile};
  request.matrix_rows = chosen.matrix_rows;
  if (chosen.matrix_rows == 0) request.intrin = o.plan.form.intrin(chosen.tile.lanes);
  request.group = chosen.matrix_rows > 0 ? chosen.steps : o.plan.form.group;
  request.grouped = chosen.fusion.after(o.plan.sum);
  if (const RuleOutcome r = make_tile(draft, request); r != RuleOutcome::applied) return r;
  schedule_copies(draft, o);
  return RuleOutcome::applied;
}

}  // namespace

RuleOutcome dot_instruction(Draft& draft, const Site& site) {
  Operands o{site.reduction, {}, {}};
  if (const RuleOutcome r = o.read(draft); r != RuleOutcome::applied) return r;
  if (!o.facts.block->init) return RuleOutcome::no_reduction;
  if (given_tile(o.facts)) return RuleOutcome::given_tile;
  if (!plain_result(o.facts)) return RuleOutcome::indirect_result;
  auto joined = [&](Draft& d) {
    Operands taps = o;
    const RuleOutcome r = join_taps(d, taps);
    return r == RuleOutcome::applied
               ? finish(d, site, taps, in_matrix_registers(taps.facts, taps.plan, d.target))
               : r;
  };
  const bool matrices = multiplies_matrices(draft.target, o.plan.form.shared, o.plan.form.along);
  if (matrices && attempt(draft, "taps as one row", joined) == RuleOutcome::applied)
    return RuleOutcome::applied;
  if (const RuleOutcome r = lay_out_operands(draft, o); r != RuleOutcome::applied) return r;
  const DotTile chosen = choose_dot_tile(o.facts, o.plan, draft.target);
  if (chosen.matrix_rows > 0 && attempt(draft, "sums in matrix registers", [&](Draft& d) {
                                  return finish(d, site, o, chosen);
                                }) == RuleOutcome::applied)
    return RuleOutcome::applied;
  return finish(draft, site, o, in_vector_registers(o.facts, o.plan, draft.target));
}

}  // namespace tenon::rules
