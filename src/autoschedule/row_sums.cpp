// SPDX-License-Identifier: Apache-2.0
#include "autoschedule/row_sums.h"

#include <algorithm>

namespace tenon::rules {

using namespace tir;

namespace {

/// How many steps of each partial sum a row must have for kSumVectors of them. Fewer vectors where rows may
/// be short: what is none of theirs is masked, and added up too.
constexpr int64_t kLongSum = 16, kFreeVectors = 2;

/// Steps of a sum that LLVM unrolls: it makes vectors of such rows itself where each has one result. A step
/// that costs as much as this (an exponential) pays for adding lanes up.
constexpr int64_t kUnrolledSteps = 8;
constexpr double kDearStep = 12;
constexpr double kCheapVectors = 1.5;  ///< what a row of cheap steps must have, where nothing else reads it

/// A reduction whose partial results may have lanes.
struct Summed {
  int64_t size = 0;     ///< steps
  double cost = 1;      ///< operations of one
  bool beside = false;  ///< it adds up what a stage makes of a row, at best while it is made (sum_beside)
  bool rows = false;    ///< a later stage makes more than one result of each row
  bool plane = false;   ///< the steps are those of more than one symbolic axis, which are many
};
/// Lanes of partial results; 1: not worth it.
int64_t partial_lanes(const Summed& sum, int64_t lanes) {
  if (sum.size == kUnknown)
    return sum.plane ? kSumVectors * lanes : sum.beside ? lanes : kFreeVectors * lanes;
  if (sum.size >= kLongSum * lanes) return kSumVectors * lanes;
  const bool dear = sum.cost >= kDearStep, unrolled = sum.size <= kUnrolledSteps,
             cheap = double(sum.size) > kCheapVectors * double(lanes);
  const bool pays = unrolled ? dear && sum.rows : dear || sum.rows || cheap;
  // What is more than half of a vector is one, masked.
  while (lanes > kMinLanes && lanes / 2 >= sum.size) lanes /= 2;
  return pays && sum.size >= kMinLanes ? lanes : 1;
}

}  // namespace

Fusion sum_along_memory(const Facts& f) {
  Fusion out{f.reduce.back(), 1};
  for (size_t i = f.reduce.size() - 1; i-- > 0;) {
    const size_t at = size_t(f.reduce[i]), next = size_t(out.first);
    // A digit of one step in front of symbolic ones is not always found to be none.
    if (at + 1 != next || f.extent[at] == 1 || f.in_value[at] || f.in_value[next]) break;
    if (!std::ranges::all_of(f.loads, [&](const Access& l) { return walks_as_one(f, l, at); })) break;
    out = {int(at), out.count + 1};
  }
  return out;
}

std::vector<BlockRV> factor_lanes(Draft& draft, const Facts& f, bool rows) {
  std::vector<BlockRV> out;
  if (!f.block->init) return out;
  const Fusion sum = sum_along_memory(f);
  const int64_t size = fused(f, sum).extent[size_t(sum.first)];
  const bool beside =
      std::ranges::none_of(f.loads, [&](const Access& l) { return is_parameter(draft.schedule, l.buffer); });
  int symbolic = 0;
  for (int i = sum.first; i < sum.first + sum.count; ++i) symbolic += f.symbolic(i);
  int64_t lanes = partial_lanes({size, f.cost, beside, rows, symbolic > 1}, cost::lanes_for(f, draft.target));
  if (lanes < 2) return out;
  const bool done = try_step(draft, "lanes of a sum", [&](Schedule& s) {
    if (sum.any()) s.fuse_iterators(f.id, sum.first, sum.count);
    if (size == kUnknown || size % lanes) s.pad_iteration(f.id, sum.first, lanes);
    out.push_back(s.rfactor(s.split(s.get_loops(f.id)[size_t(sum.first)], {-1, lanes})[1], -1));
  });
  if (!done) return {};
  // One after the other, lanes wait for each other.
  const int64_t vector = cost::lanes_for(f, draft.target);
  while (lanes / kLaneShare >= kMinLanes) {
    const int64_t fewer = std::max(lanes / kLaneShare, lanes > vector ? vector : 0);
    if (!try_step(draft, "lanes of lanes", [&](Schedule& s) {
          out.push_back(s.rfactor(s.split(s.get_loops(f.id).back(), {-1, fewer})[1], -1));
        }))
      break;
    lanes = fewer;
  }
  return out;
}

void arrange_reduction(Draft& draft, BlockRV b, size_t outer) {
  attempt(draft, "vectors of a reduction", [&](Draft& d) {
    Schedule& s = d.schedule;
    const std::vector<LoopRV> loops = s.get_loops(b);
    const Ref<BlockRealize> r = s.realize(b);
    std::vector<LoopRV> order, steps;  // spatial loops first
    for (size_t l = outer; l < loops.size(); ++l) {
      bool reduce = false;
      for (size_t i = 0; i < r->iter_values.size(); ++i)
        reduce = reduce || (r->block->iter_vars[i]->kind == IterKind::reduce &&
                            uses_var(r->iter_values[i], s.get(loops[l])->loop_var.get()));
      (reduce ? steps : order).push_back(loops[l]);
    }
    const auto* store = r->block->body.as<BufferStore>();
    if (order.empty() || !store) return RuleOutcome::applied;
    // The last spatial loop becomes the inner one, in lanes.
    LoopRV v = order.back();
    order.pop_back();
    const auto extent = as_int(s.get(v)->extent);
    int64_t lanes = cost::lanes_for(bits_of_sum(*store), d.target);
    if (!extent || (*extent != lanes && *extent != kFreeVectors * lanes && *extent != kSumVectors * lanes)) {
      if (extent && *extent < kMinLanes) return RuleOutcome::applied;
      while (extent && lanes > *extent) lanes /= 2;
      const std::vector<LoopRV> split = s.split(v, {-1, lanes});
      order.push_back(split[0]);
      v = split[1];
    }
    order.insert(order.end(), steps.begin(), steps.end());
    order.push_back(v);
    s.reorder(order);
    if (!steps.empty()) {  // else one step is all: a row of as many elements as lanes
      const BlockRV init = s.decompose_reduction(b, steps[0]);
      try_step(d, "vectorize", [&](Schedule& t) { t.vectorize(t.get_loops(init).back()); });
    }
    s.vectorize(v);
    return RuleOutcome::applied;
  });
}

bool sum_beside(Draft& draft, BlockRV stage, BlockRV sum, size_t outer) {
  const RuleOutcome done = attempt(draft, "a sum beside what it adds up", [&](Draft& d) {
    Schedule& s = d.schedule;
    const std::vector<LoopRV> made = s.get_loops(stage), loops = s.get_loops(sum);
    const std::vector<BlockRV> producers = s.get_producers(sum);
    const auto* store = s.get(sum)->body.as<BufferStore>();
    if (made.size() != outer + 1 || loops.size() != outer + 2 || !store ||
        std::ranges::none_of(producers, [&](BlockRV p) { return p.id == stage.id; }))
      return RuleOutcome::lost_loop;
    const LoopRV lanes = loops[outer], steps = loops[outer + 1];
    const auto known = as_int(s.get(made[outer])->extent);
    const int64_t vectors_wanted = known ? kSumVectors : 1,
                  width = vectors_wanted * cost::lanes_for(store->buffer->dtype.bits, d.target);
    if (as_int(s.get(lanes)->extent) != width || known.value_or(0) % width) return RuleOutcome::lost_loop;
    const std::vector<LoopRV> vectors = s.split(made[outer], {-1, width});
    s.reorder({steps, lanes});
    const LoopRV both = s.merge({vectors[0], steps});
    const BlockRV init = s.decompose_reduction(sum, both);
    s.vectorize(s.get_loops(init).back());
    s.vectorize(vectors[1]);
    s.vectorize(lanes);
    return RuleOutcome::applied;
  });
  return done == RuleOutcome::applied;
}

}  // namespace tenon::rules
