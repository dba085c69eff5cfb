// SPDX-License-Identifier: Apache-2.0
// The tensor intrinsics for dot products of narrow types: which a target has, and their names. A lane sums
// the products of a group of neighbours: u8 · i8 in fours, bf16 in pairs. One operand serves all lanes, or,
// of bf16, both lie along them.
#pragma once
#include "schedule/tensor_intrin.h"
#include "target/target.h"

namespace tenon {

/// How a target multiplies two narrow types into a wide sum.
struct DotForm {
  DataType sum;            ///< i32 or f32
  DataType shared, along;  ///< of the operand that all lanes share, and of the one that lies along the lanes
  int64_t group = 1;       ///< neighbours in a lane
  bool own = false;        ///< no operand is shared: both lie along the lanes
  /// "dot4.uint8_int8.x16": C[l] += Σ A[q] · B[group · l + q] for 16 lanes;
  /// "dot2.bfloat16_bfloat16.own.x16": C[l] += Σ A[group · l + q] · B[group · l + q].
  std::string intrin(int64_t lanes) const;
};
/// The form that `target` has an instruction for; null: multiply-adds of widened values do as well.
std::optional<DotForm> dot_form(const Target& target, DataType shared, DataType along, DataType sum);

/// Description and implementation of every form and number of lanes, for the table of tensor_intrin.h.
std::vector<TensorIntrin> dot_intrins();

}  // namespace tenon
