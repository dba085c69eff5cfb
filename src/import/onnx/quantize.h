// SPDX-License-Identifier: Apache-2.0
// The other direction: an ONNX model with QuantizeLinear and DequantizeLinear around what can compute on
// bytes. What the values of its activations are is for the caller to find out (tools/quantize).
#pragma once
#include <map>
#include <memory>
#include <span>
#include <string>
#include <vector>

namespace tenon::onnx {

struct QdqOptions {
  std::vector<std::string> excluded;  ///< names of nodes that stay in float; T2031 for one that is not there
  bool symmetric = false;             ///< activations as int8 around 0 in place of uint8
  bool per_channel = true;            ///< a scale for each output channel of a weight
  bool equalize = false;              ///< balance the channels of neighbouring convolutions first
};
/// Where the values of an activation lie.
struct ValueRange {
  double low = 0, high = 0;
};
/// A convolution or product with constant weights, by the names of its node and tensors.
struct QdqLayer {
  std::string name, op, input, output;
};

/// A float model on its way to a quantised one. Batch normalisation is folded into the convolution in front
/// of it; a model of an operator set before 13 becomes one of 13, which has scales for each channel.
class QdqModel {
 public:
  /// T20xx as the importer; T2030 when nothing can be quantised, or an operator's meaning changes up to
  /// set 13.
  QdqModel(const std::string& path, const QdqOptions& options);
  ~QdqModel();
  const std::vector<QdqLayer>& layers() const;
  /// The activations that will be bytes, in the order in which they are computed.
  const std::vector<std::string>& activations() const;
  /// The bytes of the float model, and of the quantised one.
  std::string float_model() const;
  std::string quantized_model(const std::map<std::string, ValueRange>& ranges) const;

 private:
  struct Parts;
  std::unique_ptr<Parts> parts_;
};

/// The bytes of a model that gives these tensors of float, too, behind its own outputs, each once.
std::string with_outputs(const std::string& model, std::span<const std::string> tensors);

}  // namespace tenon::onnx
