// SPDX-License-Identifier: Apache-2.0
// Which inputs of a model are read as values (axes, shapes, pads …) rather than as data: what shapes the
// graph, and what may be bound when a model is compiled (ImportOptions::values).
#pragma once
#include <set>

#include "import/onnx/tensor.h"

namespace tenon::onnx {

/// Whether an operator reads its input i as a value. Domains as in the file; functions of a model are not
/// looked into.
bool reads_as_value(const std::string& domain, const std::string& op_type, int i);

/// Inputs of the model that some node reads as values, as they are or behind shape arithmetic; functions of
/// the model and nested graphs included.
std::set<std::string> value_inputs(const proto::ModelProto& model);

/// Those of them that the shape or parameters of a node of the main graph hang on: what is read as a value by
/// it, or by a node that its inputs come from.
std::set<std::string> value_inputs_behind(const proto::GraphProto& graph, const proto::NodeProto& node);

}  // namespace tenon::onnx
