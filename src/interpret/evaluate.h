// SPDX-License-Identifier: Apache-2.0
// Value of one scalar expression under given symbols; shared by both interpreters.
#pragma once
#include "interpret/scalar.h"

namespace tenon::interpret_detail {

using Symbols = std::unordered_map<const tir::Var*, int64_t>;
Lanes evaluate(const PrimExpr& e, const Symbols& symbols);

}  // namespace tenon::interpret_detail
