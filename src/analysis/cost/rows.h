// SPDX-License-Identifier: Apache-2.0
// Programs whose stages share axes, a block of rows at a time: what lies between their stages stays in the
// cache then.
#pragma once
#include <optional>

#include "analysis/shared_axes.h"
#include "target/target.h"

namespace tenon::cost {

/// How a program runs: its rows are the last shared axis.
struct RowBlocks {
  /// Of the rows, equal ones, that tasks take beside the other shared axes; 0: each block of rows of unknown
  /// number is one.
  int64_t parts = 1;
  int64_t rows = 0;  ///< of a block; the last one of a part begins earlier where they do not fill it
  bool overlap = false;
  /// Of symbolic sizes: those for which it pays, by what the call knows.
  PrimExpr condition = {};
};
/// Null where it does not pay: what lies between the stages stays in the second cache anyway, or reading what
/// all rows share once for each block costs more than it saves, or no product makes what another one sums up.
/// Of symbolic sizes it is said for long rows. `apart`: blocks must not overlap.
std::optional<RowBlocks> row_blocks(const SharedAxes& axes, bool apart, const Target& target);

}  // namespace tenon::cost
