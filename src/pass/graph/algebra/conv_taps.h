// SPDX-License-Identifier: Apache-2.0
// What passes that leave elements of a convolution's kernel out ask of it.
#pragma once
#include <algorithm>
#include <cmath>

#include "op/layout.h"
#include "runtime/ndarray.h"

namespace tenon::graph {

/// Data and weight lie as the operator's plain layouts say; `n`: axes that windows slide along.
inline bool has_plain_layouts(const op::ConvAttrs& a, size_t n) {
  return op::data_block(a.data_layout, n) == 0 &&
         a.kernel_layout.find_first_of("0123456789") == std::string::npos;
}
/// Without infinities and NaN, which padding makes NaN of.
inline bool is_finite(const NDArray& a) {
  for (int64_t i = 0; i < a.size(); ++i)
    if (!std::isfinite(a.element(i))) return false;
  return true;
}

}  // namespace tenon::graph
