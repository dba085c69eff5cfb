// SPDX-License-Identifier: Apache-2.0
// Machine code of kernels through C.
#pragma once
#include "codegen/codegen.h"

namespace tenon::codegen {

/// The C text of every kernel as machine code, by the C compiler of this machine (cc, or $TENON_CC); T0819
/// without one.
ObjectCode c_object(const IRModule& lowered, const Target& target);

}  // namespace tenon::codegen
