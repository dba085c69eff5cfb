// SPDX-License-Identifier: Apache-2.0
// The code generator for the target c, function by function. The pipeline reaches it through
// `code_generator(target)`.
#pragma once
#include "codegen/codegen.h"

namespace tenon::codegen {

/// Self-contained C11 of every kernel.
std::string c_source(const IRModule& lowered, const Target& target);
/// The same as machine code, by the C compiler of this machine (cc, or $TENON_CC); T0819 without one.
ObjectCode c_object(const IRModule& lowered, const Target& target);

}  // namespace tenon::codegen
