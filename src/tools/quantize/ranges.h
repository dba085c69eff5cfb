// SPDX-License-Identifier: Apache-2.0
// From the values that an activation takes to the range that its bytes span.
#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "import/onnx/quantize.h"

namespace tenon {

enum class RangeMethod {
  min_max,     ///< all values
  percentile,  ///< all but a few at either end
  entropy,     ///< the range in which the distribution of the bytes differs least from that of the values
};
/// "minmax", "percentile" or "entropy"; Error "T0950".
RangeMethod parse_range_method(const std::string& name);

/// The values of one activation over all samples: first their extremes, then how often each stretch is met.
class Histogram {
 public:
  /// False: a value is no number, or infinite.
  [[nodiscard]] bool widen(const float* values, int64_t count);
  void count(const float* values, int64_t count);
  /// `share` of the values lie inside (percentile).
  onnx::ValueRange range(RangeMethod method, double share) const;

 private:
  onnx::ValueRange percentile(double share) const;
  onnx::ValueRange entropy() const;
  static constexpr int kBins = 2048;
  double low_ = 0, high_ = 0;
  std::vector<int64_t> bins_;  ///< between the extremes; empty before the first count
};

}  // namespace tenon
