// SPDX-License-Identifier: Apache-2.0
// Rows that are folded twice: for their mean and the squares of distances from it, or for their largest
// element and the sum of exponentials. A row that leaves the second cache is read from memory for each fold;
// by blocks, both folds of a block are made while it is near, and blocks are put together behind.
#pragma once
#include <functional>
#include <optional>
#include <string>
#include <utility>

#include "op/op_def.h"
#include "op/strategy.h"
#include "target/target.h"

namespace tenon::op {

/// The rows of a tensor; their elements lie along the folded axes, the outermost in memory first.
struct Rows {
  Shape shape;   ///< of the statistics
  Shape folded;  ///< extents
  /// An element, in the type of the statistics.
  std::function<PrimExpr(const Shape& row, const Shape& at)> element;
};
/// The rows of x along `axes`, sorted.
Rows rows_along(const te::Tensor& x, const std::vector<int64_t>& axes);
Shape only_axes(const Shape& index, const std::vector<int64_t>& axes);
/// Blocks of a row: `length` indices of a folded axis with all axes behind it, for each index of those
/// before.
struct RowBlocks {
  size_t axis = 0;
  int64_t length = 1;
};
/// Blocks of the rows of x, whose elements take `element_bytes` in memory; or why rows are folded at once.
/// All rows pass by for their folds before the first one is read for its results: that pays where they stay
/// in the third cache together, or not even one does.
std::pair<std::optional<RowBlocks>, std::string> row_blocks(const Shape& x, const Shape& folded,
                                                            int64_t element_bytes, const Target& target);

/// Folds of each block, for each index of (row, blocks of the axes before, blocks of the axis), and of all
/// blocks of a row.
class RowsInBlocks {
 public:
  RowsInBlocks(Rows rows, const RowBlocks& blocks);
  /// How many elements a block has.
  const PrimExpr& elements() const { return elements_; }
  using OfElement = std::function<PrimExpr(const PrimExpr& element, const Shape& block)>;
  te::Tensor fold_each(ReduceOne fold, const OfElement& value, const std::string& name) const;
  using OfBlock = std::function<PrimExpr(const Shape& row, const Shape& block)>;
  te::Tensor fold_all(ReduceOne fold, const OfBlock& value, const std::string& name) const;

 private:
  Rows rows_;
  RowBlocks blocks_;
  Shape before_, shape_;
  PrimExpr elements_;
};

/// Two results of a fold, each of the shape of the statistics.
struct Statistics {
  te::Tensor first, second;
};
/// The sum, and the sum of squares of distances from the mean: those of two blocks of n elements with means
/// a and b have n/2·(a − b)² more together (Chan, Golub, LeVeque, 1979).
Statistics sums_by_blocks(const Rows& rows, const RowBlocks& blocks, const std::string& name);
/// What exponents are shifted by: the largest, or 0 where it is infinite (∞ - ∞ is no number).
PrimExpr finite_shift(const PrimExpr& largest);
/// The largest element, and the sum of exp(x − shift(largest)).
Statistics exponentials_by_blocks(const Rows& rows, const RowBlocks& blocks,
                                  const std::function<PrimExpr(const PrimExpr&)>& shift,
                                  const std::string& name);

}  // namespace tenon::op
