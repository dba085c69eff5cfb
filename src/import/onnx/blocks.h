// SPDX-License-Identifier: Apache-2.0
// Weights of few bits in blocks, each block with a scale and a zero point of its own.
#pragma once
#include "import/onnx/importer.h"

namespace tenon::onnx {

/// Bytes (…, count) as the numbers of `bits` bits that they hold (…, count · 8 / bits), the lowest first.
Expr unpacked(NodeContext& n, const Expr& bytes, int64_t bits);
/// x (rows, blocks · block) with a scale and a zero point (rows, blocks) for each block.
Expr from_blocks(NodeContext& n, const Expr& x, const Expr& scale, const Expr& zero, int64_t block);

}  // namespace tenon::onnx
