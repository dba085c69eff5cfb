// SPDX-License-Identifier: Apache-2.0
// What the specification of an operator lets a node have: so many inputs and outputs, and these attributes.
#pragma once
#include "import/onnx/importer.h"

namespace tenon::onnx {

/// T2020 for a node with an attribute that its operator, in the version that the model means, does not have,
/// or with more inputs or outputs than it takes. Operators of a user's own have no specification.
void check_signature(NodeContext& n, const std::string& domain);

}  // namespace tenon::onnx
