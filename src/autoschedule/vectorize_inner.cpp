// SPDX-License-Identifier: Apache-2.0
// Vectors of an innermost loop: whether its accesses are contiguous, and how many lanes it has.
#include <algorithm>

#include "autoschedule/rules.h"

namespace tenon::rules {

using namespace tir;

namespace {

constexpr int64_t kWholeVectors = 8;  ///< fewer: lanes that divide the size, rather than full ones

/// Elements from one step of `loop` to the next, for an access of the block it is around.
int64_t step_along(const Array<PrimExpr>& indices, const VarRef& loop, const VarMap& values, Analyzer& a) {
  int64_t out = 0;
  for (size_t d = 0; d < indices.size(); ++d) {
    auto form = affine_form(substitute(indices[d], values), {loop}, a);
    if (!form || uses_var(form->base, loop.get())) return kIrregular;
    for (auto& [v, c] : form->terms) out = d + 1 == indices.size() ? out + c : kIrregular;
  }
  return out;
}

/// The same of a buffer's elements as they lie: a loop may walk several axes as one.
int64_t step_through(const Buffer& b, const Array<PrimExpr>& indices, const VarRef& loop,
                     const VarMap& values, Analyzer& a) {
  const int64_t step = step_along(indices, loop, values, a);
  if (step != kIrregular || !b->strides.empty()) return step;
  PrimExpr at = PrimExpr(0);
  for (size_t d = 0; d < indices.size(); ++d) at = at * b->shape[d] + indices[d];
  return step_along(Array<PrimExpr>{a.simplify(substitute(at, values))}, loop, {}, a);
}

/// The access takes elements of two rows by turns, neighbours in each: vectors of both, shuffled
/// (vectorize_loop).
bool walks_two_rows(const Array<PrimExpr>& indices, const VarRef& along, const PrimExpr& extent,
                    const VarMap& values, Analyzer& a) {
  const PrimExpr half = a.simplify(floordiv(extent, PrimExpr(2)));
  if (!a.can_prove_equal(half * PrimExpr(2), extent)) return false;
  const VarRef turn = var("turn"), lane = var("lane");
  a.bind(turn, range(PrimExpr(0), PrimExpr(2)));
  a.bind(lane, range(PrimExpr(0), half));
  const VarMap split{{along.get(), lane * PrimExpr(2) + turn}};
  Array<PrimExpr> apart;
  for (const PrimExpr& i : indices) apart.push_back(a.simplify(substitute(substitute(i, values), split)));
  return step_along(apart, lane, {}, a) == 1;
}

/// Do all lanes of a vector of the loop read one element, as they do where what is read belongs to a whole
/// block of them?
bool one_for_a_vector(const Array<PrimExpr>& indices, const VarRef& loop, int64_t lanes,
                      const VarMap& values) {
  const VarRef vector = var("vector"), lane = var("lane");
  Analyzer a;
  a.assume_size(vector, 0);
  a.bind(lane, range(PrimExpr(0), PrimExpr(lanes)));
  const VarMap split{{loop.get(), vector * lanes + lane}};
  return std::ranges::none_of(std::vector<PrimExpr>(indices.begin(), indices.end()), [&](const PrimExpr& i) {
    return uses_var(a.simplify(substitute(substitute(i, values), split)), lane.get());
  });
}

}  // namespace

int64_t pick_lanes(int64_t size, int64_t lanes) {
  if (size == kUnknown) return lanes;
  while (lanes > kMinLanes && lanes > size) lanes /= 2;
  if (lanes > size) return 1;
  if (size % lanes == 0) return lanes;
  if (lanes >= 2 * kMinLanes && size % (lanes / 2) == 0 && size < kWholeVectors * lanes) return lanes / 2;
  return lanes;
}

bool two_rows(Schedule& s, const Facts& f) {
  const IterVar& last = f.block->iter_vars[f.extent.size() - 1];
  if (f.write.stride.back() != 1) return false;
  Analyzer a(s.given_up(), kAccessAnalysis);
  for (const IterVar& v : f.block->iter_vars) a.bind(v->var, v->dom, true);
  return std::ranges::all_of(f.loads, [&](const Access& l) {
    return l.stride.back() == 0 || l.stride.back() == 1 ||
           walks_two_rows(l.indices, last->var, last->dom->extent, {}, a);
  });
}

void vectorize_inner(Draft& draft, BlockRV b, size_t outer) {
  // Loops below the outer ones were made by compute_at: read strides off the bindings of the last loop.
  const std::vector<LoopRV> loops = draft.schedule.get_loops(b);
  if (loops.size() <= outer) return;
  const Ref<BlockRealize> r = draft.schedule.realize(b);
  const Ref<For> loop = draft.schedule.get(loops.back());
  const auto* store = r->block->body.as<BufferStore>();
  if (!store) return;
  VarMap values;
  for (size_t i = 0; i < r->iter_values.size(); ++i)
    values[r->block->iter_vars[i]->var.get()] = r->iter_values[i];
  Analyzer a(draft.schedule.given_up(), kAccessAnalysis);
  int64_t bits = store->buffer->dtype.bits;
  std::vector<const BufferLoad*> others;
  bool unit = step_through(store->buffer, store->indices, loop->loop_var, values, a) == 1;
  pre_order(store->value, [&](const ObjectRef& n) {
    const auto* l = n.as<BufferLoad>();
    if (!l) return true;
    const int64_t step = step_through(l->buffer, l->indices, loop->loop_var, values, a);
    if (step != 0 && step != 1 && !walks_two_rows(l->indices, loop->loop_var, loop->extent, values, a))
      others.push_back(l);
    bits = std::max<int64_t>(bits, l->buffer->dtype.bits);
    return false;
  });
  if (!unit) return;
  const int64_t lanes =
      pick_lanes(as_int(loop->extent).value_or(kUnknown), cost::lanes_for(bits, draft.target));
  if (lanes < 2 ||
      std::ranges::any_of(
          others,
          [&](const BufferLoad* l) { return !one_for_a_vector(l->indices, loop->loop_var, lanes, values); }))
    return;
  try_step(draft, "vectorize", [&](Schedule& s) {
    s.vectorize(as_int(loop->extent) == lanes ? loops.back() : s.split(loops.back(), {-1, lanes})[1]);
  });
}

}  // namespace tenon::rules
