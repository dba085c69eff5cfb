// SPDX-License-Identifier: Apache-2.0
// Where a node came from, in words.
#pragma once
#include "ir/node.h"

namespace tenon {

/// "file:line:column" of script text, "model.onnx, node 'conv1' (Conv-11)", or "" when nothing is known.
inline std::string place(const Origin& o) { return !o ? "" : o->span ? o->span.to_string() : o->text; }

}  // namespace tenon
