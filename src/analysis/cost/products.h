// SPDX-License-Identifier: Apache-2.0
// How fast a core multiplies and moves: what decides whether fewer products are worth more passes over
// memory.
#pragma once
#include "base/dtype.h"
#include "target/target.h"

namespace tenon::cost {

/// Multiply-adds a cycle of a convolution or product whose operands are of that type: in matrix registers, by
/// dot instructions, or of whole vectors.
double multiply_adds(DataType data, const Target& target);
/// Bytes a cycle of kernels that copy, pad or add tensors of a layer, which lie in the second cache.
double moved_bytes(const Target& target);

}  // namespace tenon::cost
