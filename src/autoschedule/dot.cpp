// SPDX-License-Identifier: Apache-2.0
// The rule for contractions whose operands are both contiguous along the sum: lanes of partial sums for a
// tile of results, added up at the end.
#include <algorithm>

#include "autoschedule/tile.h"

namespace tenon::rules {

using namespace tir;

bool dot_reduction(Schedule& s, BlockRV reduction, BlockRV epilogue, const Target& target) {
  auto found = facts_of(s, reduction);
  if (!found || !found->is_reduction() || !found->block->init || !trivial_write(*found)) return false;
  const Facts f = *found;
  if (f.reduce.size() != 1) return false;
  const int k = f.reduce[0];
  int along = 0;
  for (const Access& l : f.loads) {
    if (l.stride[size_t(k)] != 0 && l.stride[size_t(k)] != 1) return false;
    along += l.stride[size_t(k)] == 1;
  }
  if (along < 2) return false;
  int64_t lanes = lanes_for(f, target);
  if (f.extent[size_t(k)] != kUnknown && f.extent[size_t(k)] < 2 * lanes) return false;
  // Only where lanes along a result axis would have to gather.
  const Tile tile = choose_tile(f, target);
  bool gathers = tile.vector < 0;
  if (!gathers)
    for (const Access& l : f.loads) gathers = gathers || l.step(tile.vector, tile.lanes * tile.vectors) > 4;
  if (!gathers) return false;
  if (epilogue.id >= 0) {
    auto e = facts_of(s, epilogue);
    if (!e || e->is_reduction() || !reads_of(*e, f.write.buffer)) return false;
  }
  return attempt(s, [&](Schedule& t) {
    BlockRV e = epilogue.id >= 0 ? epilogue : t.cache_write(reduction, 0, "local");
    auto facts_e = facts_of(t, e);
    CHECK(facts_e, "an epilogue has lost its form");
    auto at = reads_of(*facts_e, t.get(reduction)->writes[0]->buffer);
    CHECK(at, "an epilogue does not follow its reduction");
    if (f.extent[size_t(k)] == kUnknown || f.extent[size_t(k)] % lanes != 0)
      t.pad_iteration(reduction, k, lanes);
    std::vector<LoopRV> ks = t.split(t.get_loops(reduction)[size_t(k)], {-1, lanes});
    BlockRV partial = t.rfactor(ks[1], -1);
    // Up to 4 × 4 results at once, by divisors: a remainder would put masks around the accumulators.
    std::vector<int> axes;
    for (int i : f.spatial)
      if (f.extent[size_t(i)] != 1 && dim_of(f, i) >= 0) axes.push_back((*at)[size_t(dim_of(f, i))]);
    std::vector<int> tiled;
    for (size_t i = axes.size(); i-- > 0 && tiled.size() < 2;) tiled.push_back(axes[i]);
    std::vector<LoopRV> loops = t.get_loops(e), outer, inner;
    int64_t budget = target->vector_registers > 16 ? 16 : 8;
    for (size_t i = 0; i < loops.size(); ++i) {
      const int64_t extent = facts_e->extent[i];
      const bool wanted = std::find(tiled.begin(), tiled.end(), int(i)) != tiled.end();
      int64_t factor = wanted && extent != kUnknown ? (tiled.size() == 1 ? 8 : 4) : 1;
      factor = std::min(factor, budget);
      while (factor > 1 && extent % factor != 0) --factor;
      if (factor == 1) {
        outer.push_back(loops[i]);
        continue;
      }
      budget /= factor;
      std::vector<LoopRV> parts = t.split(loops[i], {-1, factor});
      outer.push_back(parts[0]);
      inner.push_back(parts[1]);
    }
    std::vector<LoopRV> order = outer;
    order.insert(order.end(), inner.begin(), inner.end());
    if (order.size() > 1) t.reorder(order);
    LoopRV around = t.fuse(outer);
    t.compute_at(reduction, around);
    t.compute_at(partial, around);
    // The partial sums: steps outside, results, lanes inside.
    std::vector<LoopRV> p = t.get_loops(partial);
    std::vector<LoopRV> steps, results;
    LoopRV lane{-1};
    const Ref<BlockRealize> r = t.realize(partial);
    for (size_t l = 1; l < p.size(); ++l) {
      const Var* var = t.get(p[l])->loop_var.get();
      int owner = -1;
      for (size_t i = 0; i < r->iter_values.size(); ++i) {
        bool uses = false;
        pre_order(r->iter_values[i], [&](const ObjectRef& n) {
          uses = uses || n.get() == var;
          return !uses;
        });
        if (uses) owner = int(i);
      }
      if (owner >= 0 && r->block->iter_vars[size_t(owner)]->kind == IterKind::reduce)
        steps.push_back(p[l]);
      else if (owner >= 0 && as_int(t.get(p[l])->extent) == lanes && size_t(owner) == f.spatial.size())
        lane = p[l];
      else
        results.push_back(p[l]);
    }
    if (lane.id < 0 || steps.empty())
      throw ScheduleError(ErrorKind::model, "T0799", "the lanes of a dot product were not found");
    std::vector<LoopRV> arranged = steps;
    arranged.insert(arranged.end(), results.begin(), results.end());
    arranged.push_back(lane);
    t.reorder(arranged);
    BlockRV init = t.decompose_reduction(partial, steps[0]);
    std::vector<LoopRV> init_loops = t.get_loops(init);
    for (size_t i = 1; i < init_loops.size(); ++i) {
      if (i + 1 == init_loops.size())
        t.vectorize(init_loops[i]);
      else
        t.unroll(init_loops[i]);
    }
    t.vectorize(lane);
    for (LoopRV l : results) t.unroll(l);
    // The last sum over lanes, in order.
    std::vector<LoopRV> w = t.get_loops(reduction);
    int64_t copies = 1;
    for (size_t i = 1; i < w.size(); ++i) copies *= as_int(t.get(w[i])->extent).value_or(1 << 20);
    if (copies <= 256)
      for (size_t i = 1; i < w.size(); ++i) t.unroll(w[i]);
    const int64_t work = f.instances(false);
    if (work == kUnknown || double(work) * f.cost > 16384) t.parallel(around);
  });
}

}  // namespace tenon::rules
