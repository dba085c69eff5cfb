// SPDX-License-Identifier: Apache-2.0
// What a stage reads, and which blocks lead to the last one.
#include "autoschedule/stages.h"

#include <set>

namespace tenon::rules {

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
