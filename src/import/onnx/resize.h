// SPDX-License-Identifier: Apache-2.0
// Resize where only the run knows its numbers.
#pragma once
#include "import/onnx/values.h"

namespace tenon::onnx {

/// What a Resize says of itself; its numbers are inputs, or the scales of an attribute.
struct ResizeForm {
  std::string mode, coordinates, nearest, policy = "stretch";
  std::vector<int64_t> axes;
  size_t scales_input = 0, sizes_input = 0;  ///< the one that is given is not 0
  std::vector<double> scales;                ///< where neither is
  double cubic = -0.75, extrapolation = 0;
  bool exclude_outside = false, antialias = false;
};
Expr resize_by_taps(NodeContext& n, const ResizeForm& form);

}  // namespace tenon::onnx
