// SPDX-License-Identifier: Apache-2.0
// The steps of a tile whose sums are in matrix registers: loops over one register are the two innermost ones,
// and say so (kMatrixLoops).
#include "target/matrix_registers.h"

#include <algorithm>

#include "autoschedule/tile.h"

namespace tenon::rules {

void zero_registers(Schedule& s, BlockRV reduction, LoopRV loop, size_t outer) {
  const std::vector<LoopRV> loops = s.get_loops(s.decompose_reduction(reduction, loop));
  for (size_t i = outer; i + 2 < loops.size(); ++i) s.unroll(loops[i]);
  s.annotate(loops[loops.size() - 2], kMatrixLoops, Any(true));
}

void copy_registers(Schedule& s, const TilePlan& p, size_t outer) {
  const BlockRV copy = p.registers;
  auto cut = [&](int iterator, int64_t inner) {
    const std::vector<LoopRV> loops = s.get_loops(copy);
    const int at = loop_of(s, copy, iterator, loops, outer);
    CHECK(at >= 0, "a copy of sums does not follow their axes");
    return s.split(loops[size_t(at)], {-1, inner})[1];
  };
  const LoopRV rows = cut(p.result_iterator(p.tile.rows), p.matrix_rows);
  const LoopRV lanes = cut(p.result_iterator(p.tile.vector), p.tile.lanes);
  std::vector<LoopRV> order = s.get_loops(copy);
  order.erase(order.begin(), order.begin() + std::ptrdiff_t(outer));
  std::erase_if(order, [&](LoopRV l) { return l.id == rows.id || l.id == lanes.id; });
  for (LoopRV l : order) s.unroll(l);
  order.push_back(rows), order.push_back(lanes);
  s.reorder(order);
  s.annotate(rows, kMatrixLoops, Any(true));
}

}  // namespace tenon::rules
