// SPDX-License-Identifier: Apache-2.0
#include "analysis/cost/products.h"

#include <algorithm>

#include "target/matrix_registers.h"
#include "target/narrow_float.h"

namespace tenon::cost {

namespace {

/// Share of the peak of matrix registers that contractions of networks reach: a loop in C has a third to a
/// half of it, layers with large weights less (Sapphire Rapids, docs/precision.md); it is a row of one
/// operand a cycle.
constexpr double kMatrixShare = 1.0 / 3;
/// A copy reads and writes, and waits for lines: kernels around convolutions of 16×16 to 33×33 images move
/// about 20 bytes a cycle where the second cache has 64 (Sapphire Rapids).
constexpr double kMovedShare = 1.0 / 3;

}  // namespace

double multiply_adds(DataType data, const Target& target) {
  const bool byte = data.is_integer() && data.bits == 8;
  if (multiplies_matrices(target, data, data))
    return kMatrixShare * double(kMatrixLanes * kMatrixRowBytes) / std::max(1, data.bytes());
  const double vectors = double(std::max<int64_t>(1, target->lanes(f32)));
  if (byte) return vectors * kMatrixGroupBytes * double(target->fma_ports);
  if (data == DataType::bfloat16() && bf16_dots_pay(target)) return vectors * 2 * target->bf16_dots;
  return vectors * double(target->fma_ports);
}

double moved_bytes(const Target& target) { return kMovedShare * target->l2_bandwidth; }

}  // namespace tenon::cost
