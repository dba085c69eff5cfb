// SPDX-License-Identifier: Apache-2.0
// Matrix registers (AMX): one holds up to 16 rows of 64 bytes, and one instruction adds to rows × 16 sums of
// 32 bits the products of a register's rows with a register of groups (bytes in fours, bfloat16 in pairs).
// Intel 64 and IA-32 Architectures Software Developer's Manual, volume 1, chapter 18.
#pragma once
#include "target/target_kind.h"

namespace tenon {

inline constexpr int64_t kMatrixRows = 16, kMatrixRowBytes = 64;
inline constexpr int64_t kMatrixGroupBytes =
    4;                                       ///< neighbours of the sum that lie together in the right operand
inline constexpr int64_t kMatrixLanes = 16;  ///< sums in a row
/// Of the eight registers, for sums; the others hold operands, two of each kind.
inline constexpr int64_t kMatrixSums = 4, kMatrixOperands = 2;
/// The scope of a buffer that is sums in matrix registers, and the annotation of loops over one register: its
/// first value, what it gains, or the copy of it to memory (codegen/llvm/emit_matrix.cpp).
inline constexpr const char *kMatrixScope = "matrix", *kMatrixLoops = "matrix_register";

/// Are products of these types added up in matrix registers?
inline bool multiplies_matrices(const Target& t, DataType a, DataType b) {
  if (!selects_instructions(t)) return false;
  auto byte = [](DataType x) { return x.is_integer() && x.bits == 8; };
  if (byte(a) && byte(b)) return t->has("amx_int8");
  return a == DataType::bfloat16() && b == a && t->has("amx_bf16");
}

}  // namespace tenon
