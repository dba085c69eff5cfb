// SPDX-License-Identifier: Apache-2.0
// A schedule judged by what it computes and by its trace, replayed.
#pragma once
#include "programs.h"
#include "schedule/primitive.h"

namespace tenon::testing {

using tir::VarRef;

inline IndexMap map_of(int rank, std::function<Array<PrimExpr>(const Array<VarRef>&)> f) {
  return index_map(rank, f);
}
inline void check_replay(const Program& p, const Schedule& s) {
  check(p, s);
  EXPECT_EQ(problems_of(s.function()), "");
  Schedule again = Schedule::replay(p.function, Trace::from_json(s.trace().to_json()));
  EXPECT_TRUE(structural_equal(s.function(), again.function()))
      << s.trace().to_script() << first_difference(s.function(), again.function());
  EXPECT_EQ(again.trace().to_json(), s.trace().to_json());
}

/// Tiles of a matmul's update: (4, 4, k of the last).
inline std::vector<LoopRV> tile(Schedule& s, BlockRV c, std::vector<int64_t> sizes) {
  std::vector<LoopRV> l = s.get_loops(c), outer, inner;
  for (size_t i = 0; i < sizes.size(); ++i) {
    std::vector<LoopRV> parts = s.split(l[i], {-1, sizes[i]});
    outer.push_back(parts[0]);
    inner.push_back(parts[1]);
  }
  std::vector<LoopRV> order = outer;
  order.insert(order.end(), inner.begin(), inner.end());
  s.reorder(order);
  return order;
}

}  // namespace tenon::testing
