// SPDX-License-Identifier: Apache-2.0
#pragma once
#include "ir/pass.h"

namespace tenon {
/// Declared types that inference cannot compare with what stands for them are checked at run time.
IRModule check_types(IRModule module, PassContext& context);
}  // namespace tenon
