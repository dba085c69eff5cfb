// SPDX-License-Identifier: Apache-2.0
// An executable's bytecode as text, for `tenon inspect --bytecode`.
#pragma once
#include <string>

#include "runtime/executable.h"

namespace tenon::cli {

/// Every table of the executable, functions first. Registers are r0, r1, …, constants c0, …, tensors of the
/// arena a0, …, slots of the shape heap h0, …; other operands are immediates,
/// data types by their names. Jumps name the instruction of
/// the same function that they go to. Constants show a hash of their bytes, metadata stands as JSON.
std::string bytecode_text(const Executable& executable);

}  // namespace tenon::cli
