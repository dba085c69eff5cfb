// SPDX-License-Identifier: Apache-2.0
// Constant matrices of products that are kept in a narrower type than they are multiplied in.
#pragma once
#include <optional>

#include "op/op_def.h"
#include "target/target.h"

namespace tenon::graph {

/// Rows of a product's first operand (…, k), over all its axes; 0: not known.
int64_t product_rows(const Expr& x);
/// The type in which the constant weight of a product of float32 is kept, and widened where it is read: the
/// narrowest that holds every element as it is, as of models in float16, and of bytes whose scale comes
/// behind the product. Nullopt: float32, where no type does or the product would not gain
/// (cost::worth_narrow_storage).
std::optional<DataType> narrow_storage(const Expr& product, const Target& target);

}  // namespace tenon::graph
