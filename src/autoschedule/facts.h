// SPDX-License-Identifier: Apache-2.0
// What the rules read off a block: its nest (analysis/cost/nest.h), and what of it is more than strides.
#pragma once
#include <optional>

#include "analysis/cost/nest.h"
#include "schedule/schedule.h"

namespace tenon::rules {

using cost::Access, cost::ceil_div, cost::kIrregular, cost::kUnknown;

/// A block whose body is one store and whose iterators are each bound to a loop of their own, in order.
struct Facts : cost::Nest {
  BlockRV id;
  Ref<tir::Block> block;
  std::vector<bool> in_value;  ///< the iterator is used outside indices (a condition, a cast)
  double cost = 1;             ///< estimated operations of one instance
};
std::optional<Facts> facts_of(Schedule& s, BlockRV b);
/// Of the numbers that a store computes with: those of the buffer, or the shorter ones in which a wide sum is
/// made (`tir.wide_term`).
int64_t bits_of_sum(const tir::BufferStore& store);
/// Who asks for proofs about the strides of accesses.
inline constexpr std::string_view kAccessAnalysis = "access analysis";

/// Neighbouring iterators of a block that become one.
struct Fusion {
  int first = 0, count = 1;
  bool any() const { return count > 1; }
  /// Where an iterator of the fused nest was (the last of those that are one).
  int before(int i) const { return i < first ? i : i + count - 1; }
  /// Where an iterator is in the fused nest.
  int after(int i) const { return i < first ? i : std::max(first, i - (count - 1)); }
};
/// Facts of the block once those iterators are one.
Facts fused(const Facts& f, const Fusion& fusion);
/// The access walks the iterators i and i + 1 (behind such of one step) as one array, or neither of them,
/// maybe of symbolic size.
bool walks_as_one(const Facts& f, const Access& a, size_t i);
/// Runs of neighbouring spatial iterators that every access walks as one array: a tile may then run across
/// rows.
std::vector<Fusion> fusable(const Facts& f);
/// Rows and columns of images of symbolic size under a window, which the result walks as one array and an
/// operand does not, where channels lie together.
std::optional<Fusion> plane(const Facts& f);

bool uses_var(const PrimExpr& e, const tir::Var* v);
bool writes_parameter(const Schedule& s, BlockRV b);
bool is_parameter(const Schedule& s, const tir::Buffer& b);
/// Does the access differ from step to step of the sum? What does not is no operand of it.
bool is_operand(const Facts& f, const Access& l);
/// An operand that several results read again, as those of a product.
bool shares_an_operand(const Facts& f);
/// Every index of the result is an iterator of its own, or 0.
bool plain_result(const Facts& f);
/// Position of the epilogue's iterator that reads each dimension of `b` (-1: none), when all its reads of `b`
/// are one, by its own iterators.
std::optional<std::vector<int>> reads_of(const Facts& epilogue, const tir::Buffer& b);

}  // namespace tenon::rules
