// SPDX-License-Identifier: Apache-2.0
// Tensors whose bytes lie in another file: only below the model's folder, only regular files, only what is
// there.
#pragma once
#include "import/onnx/tensor.h"

namespace tenon::onnx {

/// T2016 (place not allowed), T2017 (missing), T2018 (outside of the file), T2014 (size does not fit the
/// shape).
NDArray read_external(const proto::TensorProto& t, const ModelFile& file, const std::vector<int64_t>& shape,
                      DataType dtype, const std::string& where);

}  // namespace tenon::onnx
