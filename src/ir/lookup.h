// SPDX-License-Identifier: Apache-2.0
// tir.lookup: a function of one byte as the table of its 256 results, which is part of the expression.
#pragma once
#include <array>
#include <cstdint>
#include <span>

#include "ir/prim_expr.h"

namespace tenon::tir {

struct Call;

inline constexpr int64_t kByteValues = 256;
inline constexpr int kLookupWords = kByteValues / 4;  ///< of int32, which hold the table

/// table[byte] for each lane, as `result`, a type of one byte; `byte` counts by its bits, from 0 to 255.
PrimExpr lookup(const PrimExpr& byte, std::span<const uint8_t> table, DataType result);
/// The table of such a call.
std::array<uint8_t, kByteValues> lookup_table(const Call& call);

}  // namespace tenon::tir
