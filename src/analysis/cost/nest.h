// SPDX-License-Identifier: Apache-2.0
// What the model of the machine reads of a block: its iterators, and how each access steps through memory
// along them.
#pragma once
#include "ir/tir.h"
#include "target/target.h"

namespace tenon::cost {

inline constexpr size_t kMatrixAxes = 2;        ///< of a matrix: behind a batch of any size
inline constexpr int64_t kUnknown = -1;         ///< a symbolic extent
inline constexpr int64_t kIrregular = 1 << 30;  ///< a stride that is no small constant

/// One index of an access: the iterators in it, and whether it is one of them as it stands, or 0.
struct Index {
  std::vector<int> iterators;
  bool plain = false;
};

/// One buffer access of a block, seen along its iterators.
struct Access {
  tir::Buffer buffer;
  Array<PrimExpr> indices;      ///< as they are written
  std::vector<Index> index;     ///< what is in each of them
  std::vector<int64_t> stride;  ///< elements per step of each iterator; 0: not used; kIrregular
  /// An irregular iterator that is cut into panels (i / 32 and i % 32): their width, else 0, and its stride
  /// inside.
  std::vector<int64_t> panel = {}, panel_stride = {};
  int64_t group = 1;  ///< neighbours that one instruction takes together, so that lanes alone must be regular
  int64_t lane_limit = 0;  ///< whole lanes of groups that there are; 0: as many as the iterator has
  int64_t sum_bits = 0;    ///< of a write: of the numbers that it computes with (a wide sum's); 0: of a load
  /// Stride of an iterator inside aligned tiles of that size.
  int64_t step(int iterator, int64_t tile) const;
  bool all_plain() const;
  int64_t element_bits() const { return sum_bits > 0 ? sum_bits : buffer->dtype.bits; }
};

/// The iterators of a block, in order, and its accesses.
struct Nest {
  Access write;
  std::vector<Access> loads;    ///< the accumulator's own loads left out
  std::vector<int64_t> extent;  ///< of each iterator; kUnknown when symbolic
  /// What a symbolic extent is at most, as that of a block of rows, which the last block alone may not have;
  /// 0: not known.
  std::vector<int64_t> most = {};
  std::vector<int> spatial, reduce;  ///< positions
  /// Rows and columns of images of symbolic size as one iterator, which some operand does not walk as one
  /// array; -1: there is none.
  int plane = -1;
  bool is_reduction() const { return !reduce.empty(); }
  bool symbolic(int iterator) const { return extent[size_t(iterator)] == kUnknown; }
  int64_t instances(bool only_spatial) const;  ///< at most 2^50; kUnknown when symbolic
  bool is_row_block() const;                   ///< an extent is known at most
  double known_instances() const;              ///< of all iterators that are not symbolic
  /// A batch of any size: a symbolic iterator that is the first axis of the result, in front of rows and
  /// columns of known number.
  bool is_batch(int iterator) const;
  /// Of all iterators, of one member of such a batch; kUnknown when more is symbolic.
  int64_t instances_of_one() const;
  /// The dimension of the result that an iterator is the index of, or -1.
  int result_dim(int iterator) const;
};

/// Elements of a buffer; 0: a size is not known.
int64_t elements_of(const tir::Buffer& b);
/// Vector lanes, a power of two, for types of `bits` (of bytes at least), or for the widest that a nest
/// touches.
int64_t lanes_for(int64_t bits, const Target& target);
int64_t lanes_for(const Nest& nest, const Target& target);

inline int64_t ceil_div(int64_t a, int64_t b) { return (a + b - 1) / b; }

}  // namespace tenon::cost
