// SPDX-License-Identifier: Apache-2.0
// Shared by the verifier's two files.
#pragma once
#include "ir/module.h"

namespace tenon {
/// Longest chain of statements, expressions and types below root; keeps its own stack.
int nesting_of(const ObjectRef& root);
}  // namespace tenon
