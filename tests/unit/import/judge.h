// SPDX-License-Identifier: Apache-2.0
// How a model's results are compared with expected ones.
#pragma once
#include <cmath>
#include <string>

#include "runtime/ndarray.h"

namespace tenon::test {

/// "" when equal within the tolerance of ONNX's own suite; `shapes_only`: for random numbers.
inline std::string difference(const NDArray& got, const NDArray& want, bool shapes_only = false) {
  if (got.dtype() != want.dtype())
    return "type " + to_string(got.dtype()) + ", expected " + to_string(want.dtype());
  if (got.shape() != want.shape()) return "another shape";
  if (shapes_only) return "";
  const bool narrow = want.dtype().is_float() && want.dtype().bits < 32;
  for (int64_t i = 0; i < want.size(); ++i) {
    if (!want.dtype().is_float()) {
      if (got.element_int(i) != want.element_int(i))
        return "element " + std::to_string(i) + " is " + std::to_string(got.element_int(i)) + ", expected " +
               std::to_string(want.element_int(i));
      continue;
    }
    const double a = got.element(i), b = want.element(i);
    if ((std::isnan(a) && std::isnan(b)) || a == b) continue;
    const double tolerance = (narrow ? 1e-2 : 1e-3) * std::abs(b) + (narrow ? 1e-3 : 1e-6) + 1e-7;
    if (!(std::abs(a - b) <= tolerance))
      return "element " + std::to_string(i) + " is " + std::to_string(a) + ", expected " + std::to_string(b);
  }
  return "";
}

}  // namespace tenon::test
