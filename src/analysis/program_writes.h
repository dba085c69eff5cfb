// SPDX-License-Identifier: Apache-2.0
// The stores of a tensor program, each with the loops and conditions around it and the iterators that it is
// written in: what proofs about values start from.
#pragma once
#include <optional>
#include <vector>

#include "ir/tir.h"
#include "ir/walk.h"

namespace tenon {

struct ProgramLoop {
  int id = 0;  ///< of this place in the program
  tir::VarRef var;
  PrimExpr min, extent;
  tir::ForKind kind = tir::ForKind::serial;
};
/// A variable that a store is written in: an iterator of its block, or a loop where it stands in none.
struct WriteIter {
  tir::VarRef var;
  PrimExpr min, extent;
  PrimExpr binding;      ///< over loops
  bool reduces = false;  ///< a reduction iterator of the block
};
struct ProgramWrite {
  tir::Buffer buffer;
  Array<PrimExpr> at;  ///< over iterators, as `value` and `init`
  PrimExpr value;
  PrimExpr init;  ///< of the block, or null
  std::vector<ProgramLoop> loops;
  std::vector<WriteIter> iters;
  Array<PrimExpr> conditions;  ///< over loops; all hold where it runs
};

/// In the order of the text. Null when the program does anything but store elements of buffers, one by one,
/// under loops whose iterations may run in any order where they say so.
std::optional<std::vector<ProgramWrite>> program_writes(const tir::Stmt& body);

/// `e` over loops instead of iterators.
PrimExpr over_loops(const ProgramWrite& write, const PrimExpr& e);

}  // namespace tenon
