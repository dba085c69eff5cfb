// SPDX-License-Identifier: Apache-2.0
#pragma once
#include "import/onnx/tensor.h"

namespace tenon::onnx {

/// Makes a model of an operator set before 13 one of 13, where attributes that became inputs are moved; a
/// model of a later set stays. T2030 lists the operators whose meaning changed in another manner.
void upgrade_opset(proto::ModelProto& model, const std::string& name);

}  // namespace tenon::onnx
