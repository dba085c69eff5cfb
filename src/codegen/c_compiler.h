// SPDX-License-Identifier: Apache-2.0
// This machine's C compiler, for the text of the target c and for C text that programs import.
#pragma once
#include <string>

#include "target/target.h"

namespace tenon::codegen {

/// The text as a relocatable object for the target's instructions. `what` names it in the error: "the
/// kernels". T0819 when there is no compiler, or none for the target's processor; `refused` when it refuses
/// the text, with its first words.
std::string compile_c(const std::string& text, const Target& target, const std::string& what,
                      const std::string& refused = "T0819");

}  // namespace tenon::codegen
