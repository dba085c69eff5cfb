// SPDX-License-Identifier: Apache-2.0
// Sums along memory: one partial result for each lane, and loops that keep them in registers.
#pragma once
#include <vector>

#include "autoschedule/stages.h"
#include "autoschedule/tile.h"

namespace tenon::rules {

/// Lanes of one sum that are added side by side: the next fewer that a sum of partial results keeps.
inline constexpr int64_t kLaneShare = 4;

/// Vectors of partial sums side by side, which hide the latency of an addition.
constexpr int64_t kSumVectors = 4;

/// The last iterators of the sum that step through memory as one.
Fusion sum_along_memory(const Facts& f);
/// Factors the reduction into lanes, and these into fewer ones as long as that pays: each block of partial
/// results, the first that is computed first. `rows`: a later stage makes more than one result of each row.
std::vector<BlockRV> factor_lanes(Draft& draft, const Facts& f, bool rows);
/// Loops of a reduction below the `outer` first ones: steps outside, the lanes or the contiguous axis inside.
void arrange_reduction(Draft& draft, BlockRV b, size_t outer);
/// A sum in lanes adds up what a stage makes of a row while it is made: additions wait for one another, which
/// shows less beside other work, and nothing is read again. Known rows do so where they are long and made of
/// whole steps. False: it stays apart.
bool sum_beside(Draft& draft, BlockRV stage, BlockRV sum, size_t outer);

}  // namespace tenon::rules
