// SPDX-License-Identifier: Apache-2.0
// Loops that store rows of what lies in columns: lane l of row i is element i of l's own stretch of memory.
//
//   for i in rows:  B[ramp(to + i * step, 1, lanes)] = f(A[ramp(from + i, stride, lanes)], …)
//
// A code generator that reads `lanes` vectors along i and turns them in registers loads no lane by itself.
#pragma once
#include <optional>
#include <vector>

#include "ir/tir.h"

namespace tenon::codegen {

struct TransposedLoad {
  const tir::BufferLoad* load;
  PrimExpr first, stride;  ///< flat index of lane 0 as the loop's variable has it; from lane to lane
};

struct TransposedLoop {
  const tir::BufferStore* store;
  int64_t rows = 0;      ///< iterations at most
  PrimExpr rows_here;    ///< null: all of them
  PrimExpr column, end;  ///< lane l is stored while column + l < end; null: every lane is
  std::vector<TransposedLoad> loads;
  bool copies() const { return store->value.get() == loads[0].load; }
};
/// Null: the loop is none, or its loads might read what it stores. Loads that a condition keeps from being
/// made are not among `loads`: what they name need not be there.
std::optional<TransposedLoop> transposed_loop(const tir::For& loop);

}  // namespace tenon::codegen
