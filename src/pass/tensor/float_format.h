// SPDX-License-Identifier: Apache-2.0
// The layout of narrow floating types, for code that converts them by arithmetic on their bits.
#pragma once
#include "base/dtype.h"

namespace tenon::tensor_detail {

struct FloatFormat {
  const char* name;  ///< as part of a helper's name
  int exponent, mantissa, bias;
  bool infinity;  ///< the largest exponent means infinity and NaN
  bool uz;        ///< no negative zero: its pattern is the only NaN
};
inline FloatFormat float_format(DataType t) {
  switch (t.code) {
    case TypeCode::Float:
      return {"f16", 5, 10, 15, true, false};
    case TypeCode::BFloat:
      return {"bf16", 8, 7, 127, true, false};
    case TypeCode::Float8_e4m3fn:
      return {"e4m3fn", 4, 3, 7, false, false};
    case TypeCode::Float8_e5m2:
      return {"e5m2", 5, 2, 15, true, false};
    case TypeCode::Float8_e4m3fnuz:
      return {"e4m3fnuz", 4, 3, 8, false, true};
    default:
      return {"e5m2fnuz", 5, 2, 16, false, true};
  }
}

}  // namespace tenon::tensor_detail
