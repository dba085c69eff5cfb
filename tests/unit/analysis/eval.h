// SPDX-License-Identifier: Apache-2.0
// An evaluator of integer expressions that shares nothing with the compiler's.
#pragma once
#include <gtest/gtest.h>

#include <unordered_map>

#include "ir/tir.h"

namespace tenon {

using Values = std::unordered_map<const tir::Var*, int64_t>;
/// Nullopt on division by zero.
std::optional<int64_t> value(const PrimExpr& e, const Values& vars);

}  // namespace tenon
