// SPDX-License-Identifier: Apache-2.0
// inner_product: contractions whose operands are both contiguous along the sum: lanes of partial sums for a
// tile of results, added up at the end.
#include <algorithm>
#include <ranges>

#include "autoschedule/row_sums.h"
#include "autoschedule/tile.h"

namespace tenon::rules {

using namespace tir;

namespace {

/// Results whose partial sums live in registers at once: one vector each, half of the registers.
constexpr int64_t kResultsShare = 2;
constexpr int64_t kResultsAlone = 8, kResultsBeside = 4;  ///< along one axis, and along each of two
constexpr int64_t kUnrolledSum = 256;                     ///< additions of lanes that are written out
constexpr int64_t kLeastVectors = 2;                      ///< steps of the sum; shorter ones do not pay
constexpr int64_t kLaneStride = 4;  ///< lanes along the result that read so near one another are better

/// Why the rule does not apply, or `applied`: it does.
RuleOutcome applies(const Facts& f, const Target& target) {
  if (!f.block->init) return RuleOutcome::no_reduction;
  if (given_tile(f)) return RuleOutcome::given_tile;
  if (!plain_result(f)) return RuleOutcome::indirect_result;
  if (f.reduce.size() != 1) return RuleOutcome::several_sums;
  const size_t k = size_t(f.reduce[0]);
  int contiguous = 0;
  for (const Access& l : f.loads) {
    if (l.stride[k] != 0 && l.stride[k] != 1) return RuleOutcome::strided_sum;
    contiguous += l.stride[k] == 1;
  }
  if (contiguous < 2) return RuleOutcome::strided_sum;
  if (f.extent[k] != kUnknown && f.extent[k] < kLeastVectors * cost::lanes_for(f, target))
    return RuleOutcome::short_sum;
  const Tile tile = cost::choose_tile(f, target);
  const bool gathers = !tile || std::any_of(f.loads.begin(), f.loads.end(), [&](const Access& l) {
    return l.step(tile.vector, tile.width()) > kLaneStride;
  });
  return gathers ? RuleOutcome::applied : RuleOutcome::regular_lanes;
}

/// Splits the results into tiles by divisors of their last two axes, since a remainder would put masks around
/// the accumulators; the loop over tiles.
LoopRV tile_results(Schedule& s, const Facts& f, const Facts& e, const std::vector<int>& reads,
                    const Target& target) {
  std::vector<int> tiled;  // iterators of the epilogue
  for (size_t i = f.spatial.size(); i-- > 0 && tiled.size() < 2;)
    if (const int dim = f.result_dim(f.spatial[i]); dim >= 0 && f.extent[size_t(f.spatial[i])] != 1)
      tiled.push_back(reads[size_t(dim)]);
  const std::vector<LoopRV> loops = s.get_loops(e.id);
  std::vector<LoopRV> outer, inner;
  int64_t budget = target->vector_registers / kResultsShare;
  for (size_t i = 0; i < loops.size(); ++i) {
    const int64_t extent = e.extent[i];
    const bool wanted = extent != kUnknown && std::find(tiled.begin(), tiled.end(), int(i)) != tiled.end();
    int64_t factor = wanted ? std::min(budget, tiled.size() == 1 ? kResultsAlone : kResultsBeside) : 1;
    while (factor > 1 && extent % factor != 0) --factor;
    if (factor == 1) {
      outer.push_back(loops[i]);
      continue;
    }
    budget /= factor;
    const std::vector<LoopRV> split = s.split(loops[i], {-1, factor});
    outer.push_back(split[0]);
    inner.push_back(split[1]);
  }
  std::vector<LoopRV> order = outer;
  order.insert(order.end(), inner.begin(), inner.end());
  if (order.size() > 1) s.reorder(order);
  return s.fuse(outer);
}

/// Partial sums of a tile: steps outside, or written out, too, results unrolled, lanes inside. False: a loop
/// is not there.
bool sum_lanes(Schedule& s, BlockRV partial, size_t spatial, int64_t lanes, bool written_out) {
  const std::vector<LoopRV> loops = s.get_loops(partial);
  const Ref<BlockRealize> r = s.realize(partial);
  std::vector<LoopRV> steps, results;
  LoopRV lane{-1};
  for (size_t l = 1; l < loops.size(); ++l) {
    int owner = -1;
    for (size_t i = 0; i < r->iter_values.size(); ++i)
      if (uses_var(r->iter_values[i], s.get(loops[l])->loop_var.get())) owner = int(i);
    if (owner >= 0 && r->block->iter_vars[size_t(owner)]->kind == IterKind::reduce)
      steps.push_back(loops[l]);
    else if (size_t(owner) == spatial && as_int(s.get(loops[l])->extent) == lanes)
      lane = loops[l];
    else
      results.push_back(loops[l]);
  }
  if (lane.id < 0 || steps.empty()) return false;
  std::vector<LoopRV> order = steps;
  order.insert(order.end(), results.begin(), results.end());
  order.push_back(lane);
  s.reorder(order);
  zero_accumulators(s, partial, steps[0], 1);
  s.vectorize(lane);
  for (LoopRV l : results) s.unroll(l);
  for (LoopRV l : steps)
    if (written_out) s.unroll(l);
  return true;
}

/// The last sum over lanes, in order.
void add_up_lanes(Schedule& s, BlockRV reduction) {
  const std::vector<LoopRV> loops = s.get_loops(reduction);
  int64_t additions = 1;
  for (size_t i = 1; i < loops.size(); ++i) additions *= as_int(s.get(loops[i])->extent).value_or(kManySteps);
  for (size_t i = 1; i < loops.size() && additions <= kUnrolledSum; ++i) s.unroll(loops[i]);
}

}  // namespace

RuleOutcome inner_product(Draft& draft, const Site& site) {
  Schedule& s = draft.schedule;
  const auto f = facts_of(s, site.reduction);
  if (!f) return RuleOutcome::opaque;
  if (const RuleOutcome o = applies(*f, draft.target); o != RuleOutcome::applied) return o;
  if (site.epilogue.id >= 0) {
    const auto e = facts_of(s, site.epilogue);
    if (!e || e->is_reduction() || !reads_of(*e, f->write.buffer)) return RuleOutcome::epilogue;
  }
  const BlockRV epilogue = site.epilogue.id >= 0 ? site.epilogue : s.cache_write(site.reduction, 0, "local");
  const auto e = facts_of(s, epilogue);
  CHECK(e, "an epilogue is no longer one store in loops");
  const auto reads = reads_of(*e, s.get(site.reduction)->writes[0]->buffer);
  CHECK(reads, "an epilogue does not follow its reduction");
  const int k = f->reduce[0];
  const int64_t lanes = cost::lanes_for(*f, draft.target);
  if (f->symbolic(k) || f->extent[size_t(k)] % lanes != 0) s.pad_iteration(site.reduction, k, lanes);
  const BlockRV partial = s.rfactor(s.split(s.get_loops(site.reduction)[size_t(k)], {-1, lanes})[1], -1);
  std::vector<std::pair<BlockRV, int64_t>> parts{{partial, lanes}};
  // Lanes are added up side by side before one by one.
  if (const int64_t fewer = std::max(kMinLanes, lanes / kLaneShare); fewer < lanes)
    parts.emplace_back(s.rfactor(s.split(s.get_loops(site.reduction).back(), {-1, fewer})[1], -1), fewer);
  const LoopRV tiles = tile_results(s, *f, *e, *reads, draft.target);
  s.compute_at(site.reduction, tiles);
  for (const auto& [part, width] : parts | std::views::reverse) s.compute_at(part, tiles);
  for (const auto& [part, width] : parts)
    if (!sum_lanes(s, part, f->spatial.size(), width, part.id != partial.id)) return RuleOutcome::lost_loop;
  add_up_lanes(s, site.reduction);
  const int64_t work = f->instances(false);
  if (work == kUnknown || cost::worth_parallel(double(work) * f->cost, draft.target)) draft.parallel(tiles);
  return RuleOutcome::applied;
}

}  // namespace tenon::rules
