// SPDX-License-Identifier: Apache-2.0
// How fast a core multiplies and moves: what decides whether fewer products are worth more passes over
// memory.
#pragma once
#include "base/dtype.h"
#include "target/target.h"

namespace tenon::cost {

/// Products of more rows read a transposed copy so often that it may pay. µs of one thread of a Zen 4 EPYC,
/// copied against read in place: 28,400 and 5,400 (32 × 1 × 128 × 4096: batch, rows, inputs, columns), 7,800
/// and 2,400 (32 × 4 × 128 × 1024), 613 and 535 (32 × 8 × 64 × 512), 18 and 3 (8 × 1 × 64 × 77); 118 and 166
/// (12 × 16 × 64 × 197).
inline constexpr int64_t kRowsReadInPlace = 8;
/// Shorter sums have no lanes of their own (inner_product wants two vectors), and the copy pays for one row:
/// 1.7 and 2.5 µs (4 × 1 × 16 × 200, Zen 5).
inline constexpr int64_t kSumReadInPlace = 32;

/// Multiply-adds a cycle of a convolution or product whose operands are of that type: in matrix registers, by
/// dot instructions, or of whole vectors.
double multiply_adds(DataType data, const Target& target);
/// Bytes a cycle of kernels that copy, pad or add tensors of a layer, which lie in the second cache.
double moved_bytes(const Target& target);

}  // namespace tenon::cost
