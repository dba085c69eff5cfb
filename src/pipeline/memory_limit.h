// SPDX-License-Identifier: Apache-2.0
// What a model's intermediate tensors need, beside the limit that the user gave.
#pragma once
#include "ir/module.h"

namespace tenon {

/// Refuses a planned module whose arena is larger than `limit` bytes (0: none): T0902 names its largest
/// tensor and the node of the model that makes it.
void check_memory_limit(const IRModule& module, int64_t limit);

}  // namespace tenon
