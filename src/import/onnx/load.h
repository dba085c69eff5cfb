// SPDX-License-Identifier: Apache-2.0
// The ONNX importer's interface: model files to graph functions, model facts without converting, tensor
// files. A mistake in the file is a DiagnosticError: T20xx (file, graph, limits) or T21xx (not supported, all
// at once).
#pragma once
#include <map>
#include <set>

#include "ir/module.h"

namespace tenon::onnx {

struct ImportOptions {
  std::map<std::string, int64_t> dims;   ///< values of symbolic dimensions, by the model's names
  bool specialize_missing_dims = false;  ///< symbolic dimensions without a value become 1
  std::vector<std::string>
      overridden;  ///< initialisers that the model also names as inputs: they become inputs
  /// Inputs that are fixed (initialisers that the model also names as inputs are, too): they become
  /// constants, not parameters, and named dimensions have the sizes that they show. T0912 for a name that no
  /// input has, T0953 for a value that it cannot have.
  std::map<std::string, NDArray> values;
  int64_t max_file_bytes = (int64_t(1) << 31) - 1;  ///< of the model file; external data is not counted
  int64_t max_tensor_bytes = int64_t(1) << 36;      ///< of one tensor that the file describes
  /// Receives the names of files with external data as the model gives them, below its folder.
  std::vector<std::string>* external_files = nullptr;
};

/// The model as a typed graph function "main": parameters are the inputs; attributes "input_names",
/// "output_names" (Array of String), "num_inputs"; every binding's origin names file and node.
IRModule import_onnx(const std::string& path, const ImportOptions& options = {});
/// The same from memory. `name` is for messages; external data is looked for below `folder` (empty: refused).
IRModule import_onnx_bytes(std::string_view bytes, const std::string& name, const ImportOptions& options = {},
                           const std::string& folder = {});

/// Whether the content is binary and so the importer's (as opposed to script text).
bool looks_like_onnx(std::string_view head);

struct OnnxValueInfo {
  std::string name, dtype;  ///< dtype "" when the model does not say
  bool has_shape = false;
  std::string container;           ///< "sequence(tensor(float))", "optional(…)", "map(…)"; "" for a tensor
  std::vector<std::string> shape;  ///< numbers, names of symbolic dimensions, or "?"
};
struct OnnxOperatorInfo {
  std::string domain, name;
  int64_t count = 0;
  bool supported = false;
};
struct OnnxNodeInfo {
  std::string name, op;
  double flops = -1;
};  ///< -1: not known
/// What a model says about itself; nothing is converted and weights are not decoded.
struct OnnxInfo {
  int64_t ir_version = 0, opset = 0, model_version = 0;
  std::string producer, producer_version, domain, graph, description, graph_description;
  std::map<std::string, int64_t> opsets;       ///< by domain; "" is ONNX's own
  std::vector<OnnxValueInfo> inputs, outputs;  ///< initialisers are not inputs
  std::vector<OnnxValueInfo>
      overridable;  ///< initialisers that the model also names as inputs (IR version 4)
  std::vector<OnnxOperatorInfo> operators;  ///< by falling count, then name; subgraphs included
  std::vector<OnnxNodeInfo> nodes;          ///< the main graph's, in order
  std::vector<std::string> functions;       ///< model-local functions, "domain::name"
  std::set<std::string> value_inputs;       ///< inputs that are read as values (axes, shapes …), not as data
  int64_t initializers = 0, parameters = 0, parameter_bytes = 0;
  double flops = 0;           ///< of the nodes where it is known
  int64_t flops_unknown = 0;  ///< nodes whose cost is not known though they compute
  std::map<std::string, std::string> metadata;
};
OnnxInfo read_onnx_info(const std::string& path, const ImportOptions& options = {});
OnnxInfo read_onnx_info_bytes(std::string_view bytes, const std::string& name,
                              const ImportOptions& options = {});

/// A serialised TensorProto (.pb), as in ONNX's test data sets. `tensor_name` receives the stored name.
NDArray read_tensor_proto(const std::string& path, std::string* tensor_name = nullptr);

/// A value as ONNX's test data sets have it: a tensor, or a container where the declared type says so (the
/// files do not). A sequence is an Array, an empty optional none, a tensor of strings a StringTensor.
Any read_value_proto(const std::string& path, const std::string& type);

/// Operator sets that are supported.
inline constexpr int64_t kMinOpset = 6, kMaxOpset = 28;

/// One line of `tenon ops --onnx`.
struct OnnxCoverage {
  std::string name;
  int64_t first_opset = kMinOpset, last_opset = kMaxOpset;
  std::string note;
};
std::vector<OnnxCoverage> onnx_coverage();

}  // namespace tenon::onnx
