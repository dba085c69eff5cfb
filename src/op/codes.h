// SPDX-License-Identifier: Apache-2.0
// Codes of elements and positions, for the programs that sort and select.
#pragma once
#include "op/program.h"

namespace tenon::op {

inline constexpr int64_t kKeyShift = 32;  ///< a code is key << 32 | position

/// What the program may rely on, so that no check stands in its loop.
tir::Stmt assumed(const PrimExpr& condition);

/// The key of an element, or of a vector of them: int32, smaller for what comes first. NaN is the largest
/// element, -0 and 0 are equal.
PrimExpr key_of_element(const PrimExpr& e, bool descending);
PrimExpr code_of(const PrimExpr& key, const PrimExpr& position);
PrimExpr key_of_code(const PrimExpr& code);
PrimExpr position_of_code(const PrimExpr& code);

/// The elements of one row of x, whose last axis it is.
struct Codes {
  tir::Buffer x;
  Shape row;
  bool descending;
  PrimExpr key(const PrimExpr& position) const;
  PrimExpr code(const PrimExpr& position) const { return code_of(key(position), position); }
};

/// `body` for each row, in parallel.
tir::Stmt each_row(const Shape& rows, const std::function<tir::Stmt(const Shape& row)>& body);
/// x with `axis` moved to the end; x itself where it is there.
te::Tensor axis_last(const te::Tensor& x, size_t axis);
/// The positions in codes whose axis comes last, with that axis back at its place.
te::Tensor positions_of(const te::Tensor& codes, size_t axis, const std::string& name);
/// A merge sort of positions, for elements without codes.
te::Tensor order_by_comparing(const te::Tensor& x, size_t axis, bool descending);

}  // namespace tenon::op
