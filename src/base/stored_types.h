// SPDX-License-Identifier: Apache-2.0
// Floating types that tensors are stored in and nothing computes with: programs hold their codes as unsigned
// integers of that width.
#pragma once
#include "base/dtype.h"

namespace tenon {

/// Two bits of exponent and one of mantissa, all values finite; a power of two, or NaN. DLPack's numbers.
inline constexpr DataType f4_e2m1fn{TypeCode(17), 4, 1}, f8_e8m0fnu{TypeCode(14), 8, 1};
constexpr bool is_stored_only(DataType t) { return t == f4_e2m1fn || t == f8_e8m0fnu; }

}  // namespace tenon
