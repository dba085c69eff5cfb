// SPDX-License-Identifier: Apache-2.0
// The tile of a contraction whose sums are in matrix registers (target/matrix_registers.h).
#pragma once
#include "analysis/cost/tile.h"

namespace tenon::cost {

/// What such a contraction reads: the iterator of the lanes, that of the sum whose neighbours lie in groups,
/// and the positions of both operands among the loads.
struct MatrixOperands {
  int lanes = -1, sum = -1;
  size_t along = 0, shared = 0;
  int64_t group = 1;
};

/// Registers of sums: `tile` has their rows (of one iterator, or of two) and lanes.
struct MatrixTile {
  Tile tile;           ///< `time` in cycles for one group of products that counts, as tile_time
  int64_t height = 0;  ///< rows of one register
  int64_t steps = 0;   ///< of the sum, that one instruction takes
  explicit operator bool() const { return height > 0; }
};

/// The tile that takes the least time; none where rows or steps of the sum fill no registers. The last tile
/// of an axis begins earlier where it would run over the end.
MatrixTile choose_matrix_tile(const Nest& nest, const MatrixOperands& operands, const Target& target);

}  // namespace tenon::cost
