// SPDX-License-Identifier: Apache-2.0
// The two ways to fold each window to its largest element, its mean or its norm: all of it at once, or one
// axis after another.
#pragma once
#include "op/program.h"

namespace tenon::op {

enum class Pooling { max, avg, lp };

/// What the folds of windows of n axes cost.
struct WindowWork {
  int64_t at_once = 1;  ///< elements that a result looks at
  int64_t by_axes = 0;  ///< the same axis by axis, those of the axes before that fall to one result included
  std::optional<int64_t> bytes;  ///< of the largest tensor between two axes; nullopt: a size is not known
  int64_t lane_stride = 1;       ///< from result to result along the axis whose elements are neighbours
  bool channels_last = false;    ///< a whole axis of channels is that axis
};
WindowWork window_work(const Call& call, size_t n, Pooling kind);
/// Folds along the first spatial axis, of these along the next, and so on.
std::vector<te::Tensor> define_pool_by_axes(const Call& call, const std::vector<te::Tensor>& in, size_t n,
                                            Pooling kind);

}  // namespace tenon::op
