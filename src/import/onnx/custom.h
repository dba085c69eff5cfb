// SPDX-License-Identifier: Apache-2.0
// Operators of a user's own. Either one registered function says the operator NAME of a DOMAIN with others:
//   onnx.converter.DOMAIN::NAME(inputs, attributes) -> graph expression, or an Array of one for each output
//     inputs: an Array of graph expressions (none where one is left out), attributes: a Map;
// or two make it:
//   onnx.type.DOMAIN::NAME(types, attributes) -> [outputs, parameters]
//     types: an Array with [type, sizes] of each input (none where it is left out), attributes: a Map;
//     outputs: [type, sizes] of each. A size is a number, or what stands for a symbolic one, to be handed on;
//     parameters: numbers and tensors that the kernel is given, too (float64, int64 scalars);
//   onnx.kernel.DOMAIN::NAME(inputs…, parameters…, outputs…) fills the outputs. It is called when the model
//     runs and must be registered there.
#pragma once
#include "import/onnx/importer.h"

namespace tenon::onnx {

inline const std::string kConverterPrefix = "onnx.converter.", kTypeRulePrefix = "onnx.type.",
                         kKernelPrefix = "onnx.kernel.";

/// Whether a converter or a type rule of that operator is registered.
bool is_custom(const std::string& domain, const std::string& name);
/// T2102: the converter gives no expressions, or the rule something else than types and parameters.
Values convert_custom(NodeContext& n);

}  // namespace tenon::onnx
