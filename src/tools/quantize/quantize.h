// SPDX-License-Identifier: Apache-2.0
// tenon quantize: a float model and samples of its inputs become a model in QDQ form, with what that costs.
#pragma once
#include <functional>
#include <optional>

#include "runtime/ndarray.h"
#include "tools/quantize/ranges.h"

namespace tenon {

struct QuantizeOptions {
  onnx::QdqOptions form;
  RangeMethod method = RangeMethod::min_max;
  double share = 0.9999;  ///< of the values that the range spans (percentile)
  int threads = 0;        ///< 0: available cores
  std::function<void(std::string_view step, int done, int total)> progress;
};

/// Samples by the names of the model's inputs: tensors of (samples, …), whose rows have the shape of the
/// input, or that of the input without its first axis of 1.
using SampleSet = std::map<std::string, NDArray>;

struct LayerError {
  onnx::QdqLayer layer;
  double error = 0;  ///< root of the mean square of the differences, by that of the float values
  double own = 0;    ///< the part that its inputs did not bring
};
struct QuantizeReport {
  std::string model;                        ///< the bytes of the quantised model
  std::vector<LayerError> layers;           ///< in the model's order
  std::vector<std::string> leave_in_float;  ///< layers with by far the largest error of their own
  int64_t samples = 0;
  /// Shares of the samples whose largest element of the first output is that of the label; with labels.
  std::optional<double> accuracy_before, accuracy_after;
};

/// Error "T0951": samples that are missing, of a wrong shape or type, empty, or that hold what is no number.
/// "T0952": an activation is infinite or no number. T203x: see QdqModel.
QuantizeReport quantize_model(const std::string& path, const SampleSet& samples,
                              const std::optional<NDArray>& labels, const QuantizeOptions& options);

}  // namespace tenon
