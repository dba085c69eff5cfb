// SPDX-License-Identifier: Apache-2.0
// Arithmetic on one element of a small known tensor: a number, or an expression of symbolic sizes. What
// cannot be computed at import is null, and the node stays in the graph.
#pragma once
#include <string>

#include "ir/prim_expr.h"

namespace tenon::onnx {

/// Immediates of a type: integers wrap, floats are rounded.
PrimExpr number(DataType t, double v);
PrimExpr integer(DataType t, int64_t v);
/// What an elementwise operator of ONNX gives for elements of type t. Comparisons give truth values.
PrimExpr arithmetic(const std::string& op, DataType t, const PrimExpr& a, const PrimExpr& b);
PrimExpr arithmetic(const std::string& op, DataType t, const PrimExpr& e);
bool compares(const std::string& op);
PrimExpr convert(DataType t, const PrimExpr& e);

}  // namespace tenon::onnx
