// SPDX-License-Identifier: Apache-2.0
// What a stage reads, and which blocks lead to the last one.
#include "autoschedule/stages.h"

#include <algorithm>
#include <set>

namespace tenon::rules {

namespace {

/// What a stage reads: each element for one result, its lanes side by side.
bool reads_columns(const Facts& f, size_t column) {
  return std::all_of(f.loads.begin(), f.loads.end(), [&](const Access& l) {
    return l.stride[column] == 1 && std::all_of(f.spatial.begin(), f.spatial.end(), [&](int i) {
             return f.extent[size_t(i)] == 1 || l.stride[size_t(i)] != 0;
           });
  });
}

/// The iterators of an index walk pieces that do not reach into one another (the windows of a pool may).
bool lie_apart(const Facts& f, const Access& l, const cost::Index& index) {
  std::vector<int> iterators = index.iterators;
  std::ranges::sort(iterators, {}, [&](int i) { return l.stride[size_t(i)]; });
  for (size_t n = 0; n + 1 < iterators.size(); ++n) {
    const size_t inner = size_t(iterators[n]), outer = size_t(iterators[n + 1]);
    if (f.extent[inner] == kUnknown || l.stride[inner] <= 0 || l.stride[outer] == kIrregular ||
        l.stride[outer] < l.stride[inner] * f.extent[inner])
      return false;
  }
  return true;
}

}  // namespace

bool along_memory(const Facts& f) {
  if (f.reduce.empty()) return false;
  const size_t k = size_t(f.reduce.back());
  bool unit = false;
  for (const Access& l : f.loads) {
    if (l.stride[k] != 0 && l.stride[k] != 1) return false;
    unit = unit || l.stride[k] == 1;
  }
  return unit;
}

bool folds_columns(const Facts& f) {
  if (!f.is_reduction() || !f.block->init || f.spatial.empty() || along_memory(f) || !plain_result(f))
    return false;
  const size_t column = size_t(f.spatial.back());
  if (f.write.stride[column] != 1 || !reads_columns(f, column)) return false;
  return std::ranges::all_of(f.loads, [&](const Access& l) {
    return std::ranges::all_of(l.index, [&](const cost::Index& index) { return lie_apart(f, l, index); });
  });
}

std::vector<BlockRV> leading_to(Draft& draft, BlockRV last, FunctionRef<bool(BlockRV)> wanted) {
  std::set<int32_t> found;
  std::vector<BlockRV> stack{last}, out;
  while (!stack.empty()) {
    const BlockRV b = stack.back();
    stack.pop_back();
    if (!found.insert(b.id).second) continue;
    for (BlockRV p : draft.schedule.get_producers(b))
      if (!draft.is_scheduled(p) && wanted(p)) stack.push_back(p);
  }
  for (BlockRV b : draft.schedule.blocks())
    if (found.count(b.id)) out.push_back(b);
  return out;
}

}  // namespace tenon::rules
