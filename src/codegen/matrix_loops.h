// SPDX-License-Identifier: Apache-2.0
// What loops over one matrix register say (annotation kMatrixLoops, target/matrix_registers.h). Their meaning
// is that of the loops, so that whoever does not know the annotation runs them as they stand.
//
//   for r, l:     C[r, l] = 0                                                         a first value
//   for r, l:     C[r, l] = first[l]
//   for r, l, k:  C[r, l] = C[r, l] + i32(A[r, k]) * i32(B[k // 4, 4 * l + k % 4])    products
//   for r, l:     M[r, l] = C[r, l]                                                   a copy to memory
//
// C is a buffer of scope kMatrixScope: what it holds are registers, each known by where it begins.
#pragma once
#include <optional>

#include "ir/tir.h"
#include "target/target.h"

namespace tenon::codegen {

/// Rows of memory that a register holds, is loaded from or is stored to.
struct MatrixRows {
  tir::Buffer buffer;
  PrimExpr begin;         ///< flat index of the first element
  int64_t row_bytes = 0;  ///< from row to row
};

/// Rows of the registers of sums and of the left operand, and bytes in a row of that one.
struct MatrixShape {
  int64_t rows = 0, row_bytes = 0;
  bool operator==(const MatrixShape&) const = default;
};

struct MatrixLoops {
  enum class Kind : uint8_t { zero, load, multiply, store };
  Kind kind = Kind::zero;
  MatrixShape shape;  ///< `row_bytes` of products alone
  tir::Buffer sums;
  int64_t sums_begin = 0;  ///< flat index of the register's first sum
  int64_t sums_row = 0;    ///< sums from row to row
  MatrixRows memory;       ///< of load and store
  MatrixRows left, right;  ///< of products
};
/// Null: the loops are none of these, or their accesses are not regular along them.
std::optional<MatrixLoops> matrix_loops(const tir::For& loops);

/// Can every such loop of the statement, those of functions of their own left out, be in registers of the
/// target: are they what they should be, does nothing else use their buffers, and are there enough registers?
/// The shapes of products, each once; null: they cannot.
std::optional<std::vector<MatrixShape>> matrix_shapes(const tir::Stmt& s, bool parallel_apart,
                                                      const Target& target);

}  // namespace tenon::codegen
