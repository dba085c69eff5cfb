// SPDX-License-Identifier: Apache-2.0
// Sizes that only the data tells: a counted buffer becomes a tensor of a symbolic size, which is checked and
// bound when the model runs.
#pragma once
#include "import/onnx/importer.h"

namespace tenon::onnx {

/// The integer of a one-element tensor as a size: a constant when it is known, else a symbol bound at run
/// time.
PrimExpr size_of_value(NodeContext& n, const Expr& value, std::string_view name);
/// Input i as a size.
PrimExpr size_input(NodeContext& n, size_t i, const char* what);
/// The first `size` elements of an axis of a buffer.
Expr first_of(NodeContext& n, const Expr& buffer, size_t axis, const PrimExpr& size);
/// Input i as a scalar of a type; `otherwise` when it is left out.
Expr scalar_input(NodeContext& n, size_t i, DataType t, double otherwise);
/// A key for random numbers: from the attribute 'seed', or from the node's name, so that runs repeat.
Expr random_key(NodeContext& n);

}  // namespace tenon::onnx
