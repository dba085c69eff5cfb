// SPDX-License-Identifier: Apache-2.0
// What the attention operators of the standard and of com.microsoft share: products of queries, keys and
// values, and rotary positions.
#pragma once
#include "import/onnx/importer.h"

namespace tenon::onnx {

/// x (batch, steps, heads, size) with its first `dim` elements rotated by angles whose cosines and sines
/// (1 or batch, steps, dim / 2) are given: pairs are neighbours (interleaved), or lie half of `dim` from each
/// other.
Expr rotated(NodeContext& n, const Expr& x, Expr cos, Expr sin, int64_t dim, bool interleaved);

/// Queries (batch, heads, steps, size), keys and values (batch, key heads, keys, size); a key head serves
/// heads / key heads queries.
struct AttentionInputs {
  Expr q, k, v;
  double scale = 0;    ///< of the scores; 0: 1 / sqrt(size)
  double softcap = 0;  ///< scores go through softcap · tanh(scores / softcap); 0: they do not
  Expr bias;           ///< added to the scores: broadcasts to (batch, heads, steps, keys); null: none
  Expr sink;           ///< (heads): a score of one more key whose value is 0; null: none
};
/// Keys and values (batch, heads, length, size) of the queries' batch, and values as many and long as keys:
/// T2020 where they do not fit, or the run ends.
void fit_to_queries(NodeContext& n, const Expr& q, Expr& k, Expr& v);
/// (batch, heads, steps, value size); scores are made in 32 bits when the data is narrower.
Expr attend(NodeContext& n, const AttentionInputs& in);

/// 0, 1, … as a vector of int64.
Expr positions(NodeContext& n, const PrimExpr& size);

}  // namespace tenon::onnx
