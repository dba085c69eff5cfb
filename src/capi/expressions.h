// SPDX-License-Identifier: Apache-2.0
// What other languages give where an expression stands.
#pragma once
#include "base/function.h"
#include "te/te.h"

namespace tenon {

/// Numbers, expressions, iterators (their variables) and tensors of rank 0. T0102 for anything else; `what`
/// names the argument.
PrimExpr expr_of(const Any& value, const std::string& what = "an expression");
/// The same for a list, or for one alone.
Array<PrimExpr> exprs_of(const Any& value, const std::string& what = "an expression");
/// A graph value for numbers, shapes, arrays and expressions; a number takes the type of `beside`.
graph::Expr graph_expr_of(const Any& value, const graph::Expr& beside = {}, bool shape = false);

}  // namespace tenon
