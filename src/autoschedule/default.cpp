// SPDX-License-Identifier: Apache-2.0
// default_schedule: which rule for which part of the program. Parts are taken from the last block on, so that
// producers follow their consumers.
#include "autoschedule/default.h"

#include <algorithm>

#include "autoschedule/rules.h"

namespace tenon {

using namespace tir;

namespace {

/// Does the reduction read its operands again and again (a contraction, a window), so that its results should
/// stay in registers as a tile?
bool wants_tile(const rules::Facts& f) {
  if (!f.is_reduction()) return false;
  // What stays the same over the whole sum is no operand of it.
  auto still = [&](const rules::Access& l) {
    return std::all_of(f.reduce.begin(), f.reduce.end(), [&](int k) { return l.stride[size_t(k)] == 0; });
  };
  for (const rules::Access& l : f.loads)
    for (int i : f.spatial)
      if (f.extent[size_t(i)] != 1 && l.stride[size_t(i)] == 0 && !still(l)) return true;
  // Windows side by side: vectors of results read with small strides.
  int64_t window = 1;
  for (int k : f.reduce)
    window = window == rules::kUnknown || f.extent[size_t(k)] == rules::kUnknown
                 ? rules::kUnknown
                 : window * f.extent[size_t(k)];
  if (window != rules::kUnknown && window <= 64 && !f.spatial.empty())
    for (const rules::Access& l : f.loads) {
      const int64_t step = l.stride[size_t(f.spatial.back())];
      if (step > 1 && step <= 4 && step >= f.extent[size_t(f.reduce.back())] &&
          f.write.stride[size_t(f.spatial.back())] == 1)
        return true;
    }
  // Windows: one element serves several results.
  const int64_t all = f.instances(false);
  for (const rules::Access& l : f.loads) {
    if (still(l)) continue;
    int64_t elements = 1;
    for (const PrimExpr& d : l.buffer->shape) {
      auto v = as_int(d);
      elements = v && elements != rules::kUnknown ? elements * *v : rules::kUnknown;
    }
    if (all != rules::kUnknown && elements != rules::kUnknown && all > elements + elements / 4) return true;
  }
  // A reduction across memory is a tile of one row.
  const size_t k = size_t(f.reduce.back());
  for (const rules::Access& l : f.loads)
    if (l.stride[k] == 1) return false;
  return true;
}

void schedule_all(Schedule& s, const Target& target) {
  rules::inline_producers(s);
  std::vector<int32_t> done;
  auto is_done = [&](BlockRV b) { return std::find(done.begin(), done.end(), b.id) != done.end(); };
  std::vector<BlockRV> order = s.blocks();
  for (size_t at = order.size(); at-- > 0;) {
    BlockRV b = order[at];
    if (is_done(b)) continue;
    const std::vector<BlockRV> living = s.blocks();  // a rule may have inlined it
    if (std::find(living.begin(), living.end(), b) == living.end()) continue;
    auto f = rules::facts_of(s, b);
    if (!f) {
      rules::fallback(s, b);
      done.push_back(b.id);
      continue;
    }
    if (f->is_reduction()) {
      if (wants_tile(*f) &&
          (rules::grouped_reduction(s, b, {}, target, done) || rules::dot_reduction(s, b, {}, target) ||
           rules::tile_reduction(s, b, {}, target, done))) {
        done.push_back(b.id);
        continue;
      }
      if (!rules::row_cluster(s, b, target, done)) rules::fallback(s, b);
      done.push_back(b.id);
      continue;
    }
    // An element-wise block behind one tiled reduction is its epilogue.
    BlockRV tiled;
    int reductions = 0;
    for (BlockRV p : s.get_producers(b)) {
      if (is_done(p) || !s.get(p)->init) continue;
      ++reductions;
      auto g = rules::facts_of(s, p);
      if (g && wants_tile(*g) && s.get_consumers(p).size() == 1 && !rules::writes_parameter(s, p)) tiled = p;
    }
    if (reductions == 1 && tiled.id >= 0 &&
        (rules::grouped_reduction(s, tiled, b, target, done) || rules::dot_reduction(s, tiled, b, target) ||
         rules::tile_reduction(s, tiled, b, target, done))) {
      done.push_back(b.id);
      done.push_back(tiled.id);
      continue;
    }
    if (reductions > 0 && tiled.id < 0 && rules::row_cluster(s, b, target, done)) {
      done.push_back(b.id);
      continue;
    }
    if (!rules::elementwise(s, b, target)) rules::fallback(s, b);
    done.push_back(b.id);
  }
}

/// Tensors without a buffer stand in the way; code generation will name them.
bool schedulable(const tir::PrimFunc& f) {
  bool found = false;
  pre_order(f->body, [&](const ObjectRef& n) {
    found = found || n.is<ProducerLoad>() || n.is<ProducerStore>();
    return !found;
  });
  return !found;
}

}  // namespace

tir::PrimFunc default_schedule(const tir::PrimFunc& function, const Target& target) {
  if (!schedulable(function)) return function;
  Schedule s(function);
  schedule_all(s, target);
  tir::PrimFunc out = s.function();
  out.edit()->attrs.set("tenon.trace", Any(s.trace().to_json()));
  return out;
}

}  // namespace tenon
