// SPDX-License-Identifier: Apache-2.0
// Small tensors whose elements are known at import, as numbers or as expressions of symbolic sizes. Exported
// models compute shapes with ordinary operators (Shape, Gather, Concat, Reshape …); evaluating these here
// gives static or symbolic shapes instead of run-time ones.
#pragma once
#include <memory>
#include <optional>
#include <vector>

#include "ir/graph.h"

namespace tenon::onnx {

struct Small {
  DataType dtype;
  std::vector<int64_t> dims;
  std::vector<PrimExpr> items;  ///< row-major; IntImm or FloatImm of dtype, or an int64 expression
  int64_t rank() const { return int64_t(dims.size()); }
  bool all_const() const;
};
using SmallRef = std::shared_ptr<const Small>;
inline constexpr int64_t kMaxSmall = 1024;  ///< elements; larger tensors are ordinary constants

/// From a constant's data when it is small and of an integer, bool, float or double type; null otherwise.
SmallRef small_of(const NDArray& data);
SmallRef small_of(DataType dtype, std::vector<int64_t> dims, std::vector<PrimExpr> items);
/// The array of an all-constant value.
NDArray array_of(const Small& s);
/// Values of integers that are all constant.
std::optional<std::vector<int64_t>> ints_of(const Small& s);
/// Provably not negative, as sizes are: every variable is one.
bool not_negative(const PrimExpr& e);
/// Number of an immediate; nullopt for an expression.
std::optional<double> number_of(const PrimExpr& e);
/// The integer expression inside of a float that is exactly one: float(n) and constants; null for others.
PrimExpr exact_integer(const PrimExpr& e);

}  // namespace tenon::onnx
