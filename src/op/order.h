// SPDX-License-Identifier: Apache-2.0
// The order of elements along an axis, and the first of them, by codes: an element of at most 32 bits and its
// position are one int64 that is smaller for what comes first, so that one comparison decides, equals
// included.
#pragma once
#include "op/program.h"

namespace tenon::op {

/// Ways to bring a row in order. Those by codes take elements of at most 32 bits.
enum class SortWay {
  ranks,  ///< each element's place is the number of those before it: few elements, no branches
  merge,  ///< runs of few elements by ranks, merged two by two
  radix,  ///< four passes, each by one byte of the key: long rows
  plain,  ///< a merge sort of positions that compares the elements: any type
};
/// Ways to find the first k.
enum class FirstWay {
  insert,  ///< the k found so far in order: few
  heap,    ///< a heap of them
  plain,   ///< a heap of positions that compares the elements: any type
};
inline constexpr int64_t kMostRanked = 16;   ///< elements that are placed by ranks
inline constexpr int64_t kLeastRadix = 200;  ///< elements that counting bytes pays for
inline constexpr int64_t kMostInserted = 8;  ///< first elements that are kept in order
/// The same of as many rows as a vector has lanes, which one insertion serves.
inline constexpr int64_t kMostInsertedAcross = 16;

/// Why elements of that type and number have no codes; "" when they have.
std::string no_codes(DataType t, const PrimExpr& n);
/// The way for rows of `n` elements where no one asks for another.
SortWay sort_way(DataType t, const PrimExpr& n);
FirstWay first_way(DataType t, const PrimExpr& n, const PrimExpr& k);

/// As order_of and first_in_order (program.h), by the given way.
te::Tensor order_by(const te::Tensor& x, size_t axis, bool descending, SortWay way);
te::Tensor first_by(const te::Tensor& x, size_t axis, bool descending, const PrimExpr& count, FirstWay way);

}  // namespace tenon::op
