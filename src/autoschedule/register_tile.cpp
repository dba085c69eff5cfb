// SPDX-License-Identifier: Apache-2.0
// register_tile: contractions, windows, sums across memory. Operands that are read again and again but lie
// badly for the lanes are copied first.
#include <algorithm>

#include "autoschedule/tile.h"

namespace tenon::rules {

using namespace tir;

namespace {

constexpr size_t kMostCopies = 2;  ///< of operands
/// A tile across fused axes of symbolic size may take as long: a run of them has fewer edges than its last.
constexpr double kFusedSymbolicTime = 1.01;
/// And one across rows of images: late in a network these are a few elements wide.
constexpr double kPlaneTime = 1.035;

RuleOutcome tile_contraction(Draft& draft, BlockRV reduction, BlockRV epilogue,
                             const std::vector<Buffer>& copies);

/// A tile whose rows read a copy of the operand in panels as wide as the tile, each made just before.
RuleOutcome tile_over_panels(Draft& draft, TileRequest request, const Access& l, const Tile& plain) {
  const Facts before = request.facts;
  request.panels = copy_operand(draft, request.reduction, l);
  if (request.panels.id < 0) return RuleOutcome::lost_loop;
  // The copy's dimensions are the iterators that its index has: those of the reduction first.
  int dim = 0;
  for (int i : before.reduce) dim += l.stride[size_t(i)] != 0;
  for (int i : before.spatial)
    if (i < plain.vector) dim += l.stride[size_t(i)] != 0;
  draft.schedule.pad_iteration(request.panels, dim, plain.width());
  const auto now = facts_of(draft.schedule, request.reduction);
  if (!now) return RuleOutcome::opaque;
  request.facts = *now;
  request.tile = given_tile(*now) ? plain : cost::choose_tile(*now, draft.target, plain.vector);
  // A panel is for rows along one iterator, in whole tiles of its width.
  if (!request.tile || request.tile.rows < 0 || request.tile.rows2 >= 0 ||
      plain.width() % request.tile.width() != 0)
    return RuleOutcome::no_tile;
  const RuleOutcome out = make_tile(draft, request);
  draft.set_scheduled(request.panels);
  return out;
}

/// A tile that reads a copy of the operand in which the lanes are neighbours.
RuleOutcome tile_over_copy(Draft& draft, const TileRequest& request, const Access& l,
                           std::vector<Buffer> copies) {
  const BlockRV copy = copy_operand(draft, request.reduction, l);
  if (copy.id < 0) return RuleOutcome::lost_loop;
  copies.push_back(draft.schedule.get(copy)->writes[0]->buffer);
  const RuleOutcome out = tile_contraction(draft, request.reduction, request.epilogue, copies);
  return out == RuleOutcome::applied ? schedule_copy(draft, copy) : out;
}

/// With the first operand that is worth a copy and can have one.
bool tile_over_copies(Draft& draft, const TileRequest& request, const std::vector<Buffer>& copies) {
  const Facts& f = request.facts;
  for (const Access& l : f.loads) {
    if (std::any_of(copies.begin(), copies.end(), [&](const Buffer& b) { return b.same_as(l.buffer); }))
      continue;
    if (cost::worth_panels(f, l, request.tile, draft.target) &&
        !cost::sum_blocks(f, request.tile, -1, 1, draft.target) &&
        attempt(draft, "an operand in panels", [&](Draft& d) {
          return tile_over_panels(d, request, l, request.tile);
        }) == RuleOutcome::applied)
      return true;
    if (cost::worth_copy(f, l, request.tile) && attempt(draft, "a copy of an operand", [&](Draft& d) {
                                                  return tile_over_copy(d, request, l, copies);
                                                }) == RuleOutcome::applied)
      return true;
  }
  return false;
}

/// Does the tile hold several values of one of these axes?
bool steps_along(const Tile& t, const Fusion& run) {
  bool along = false;
  for (int i = run.first; i < run.first + run.count; ++i) along = along || t.size(i) > 1;
  return along;
}

/// `copies`: operands that were laid out anew already.
RuleOutcome tile_contraction(Draft& draft, BlockRV reduction, BlockRV epilogue,
                             const std::vector<Buffer>& copies) {
  const auto f = facts_of(draft.schedule, reduction);
  if (!f || !f->is_reduction() || !f->block->init) return RuleOutcome::no_reduction;
  if (!plain_result(*f)) return RuleOutcome::indirect_result;
  TileRequest plain{reduction, epilogue, *f};
  const auto given = given_tile(*f);
  if (given) plain.fusion = given->fusion;
  plain.tile = given ? given->tile : cost::choose_tile(*f, draft.target);
  if (plain.tile && !plain.fusion.any() && copies.size() < kMostCopies &&
      tile_over_copies(draft, plain, copies))
    return RuleOutcome::applied;
  auto tile_across = [&](const Fusion& fusion, double limit) {
    TileRequest across{reduction, epilogue, *f, fusion};
    across.tile = cost::choose_tile(fused(*f, fusion), draft.target);
    return across.tile && (!plain.tile || across.tile.time < plain.tile.time * limit) &&
           make_tile(draft, across) == RuleOutcome::applied;
  };
  if (!given) {
    // A padding is made for each value of axes that the tile does not step along.
    const bool padded = plain.tile && pad_rows(draft.schedule, *f, plain.tile, draft.target);
    for (const Fusion& run : fusable(*f)) {
      if (padded && !steps_along(plain.tile, run)) continue;
      const auto begin = f->extent.begin() + run.first, end = begin + run.count;
      if (tile_across(run, std::find(begin, end, kUnknown) != end ? kFusedSymbolicTime : kFusedTime))
        return RuleOutcome::applied;
    }
    if (const auto images = plane(*f); images && tile_across(*images, kPlaneTime))
      return RuleOutcome::applied;
  }
  return plain.tile ? make_tile(draft, plain) : RuleOutcome::no_tile;
}

}  // namespace

RuleOutcome register_tile(Draft& draft, const Site& site) {
  return tile_contraction(draft, site.reduction, site.epilogue, {});
}

}  // namespace tenon::rules
