// SPDX-License-Identifier: Apache-2.0
// The two ways to find the largest element of each window: all of it at once, or one axis after another.
#pragma once
#include "op/program.h"

namespace tenon::op {

/// What the maxima of windows of n axes cost.
struct WindowWork {
  int64_t at_once = 1;  ///< elements that a result looks at
  int64_t by_axes = 0;  ///< the same axis by axis, those of the axes before that fall to one result included
  std::optional<int64_t> bytes;  ///< of the largest tensor between two axes; nullopt: a size is not known
};
WindowWork window_work(const Call& call, size_t n);
/// Maxima along the first spatial axis, of these along the next, and so on.
std::vector<te::Tensor> define_max_pool_by_axes(const Call& call, const std::vector<te::Tensor>& in,
                                                size_t n);

}  // namespace tenon::op
