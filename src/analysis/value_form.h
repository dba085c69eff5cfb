// SPDX-License-Identifier: Apache-2.0
// One form for values that are equal but for the order of their sums.
#pragma once
#include <map>
#include <optional>
#include <string>
#include <tuple>
#include <vector>

#include "analysis/analyzer.h"

namespace tenon {

/// What a step of a reduction does with the value so far and one more.
enum class Combine : uint8_t { add, mul, min, max, logical_and, logical_or };
/// The operator at the top of a value and its operands; null for any other value.
struct Combination {
  Combine op;
  PrimExpr a, b;
};
std::optional<Combination> combination_of(const PrimExpr& e);
PrimExpr combined(Combine op, const PrimExpr& a, const PrimExpr& b);

/// `init` combined with the values of `source` over all values of `axes`.
PrimExpr reduction(Combine op, const PrimExpr& init, const PrimExpr& source, const Array<tir::IterVar>& axes);

/// Nodes of an expression written out, at most kMostNodes + 1.
inline constexpr int kMostNodes = 4000;
int nodes_of(const PrimExpr& e);

/// Values in one form: reductions of reductions are one, their axes are as few as can be and in one order,
/// operands of what commutes are in one order, sums have no brackets. Two values may be equal where the same
/// object writes them alike.
class ValueForms {
 public:
  /// `analyzer` knows the variables of the values.
  explicit ValueForms(Analyzer& analyzer) : analyzer_(analyzer) {}
  PrimExpr of(const PrimExpr& e);

 private:
  PrimExpr simplified(const PrimExpr& source, const std::vector<tir::IterVar>& axes);
  PrimExpr one_reduction(const tir::Reduce& r);
  bool fuse_two(std::vector<tir::IterVar>& axes, PrimExpr& source);
  PrimExpr named(Combine op, const PrimExpr& source, std::vector<tir::IterVar> axes);
  int height_of(const PrimExpr& e);
  tir::VarRef axis(int height, size_t place, const PrimExpr& extent);

  Analyzer& analyzer_;
  std::map<std::tuple<int, size_t, std::string>, tir::VarRef> axes_;  ///< by height, place and length
};

}  // namespace tenon
