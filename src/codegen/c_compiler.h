// SPDX-License-Identifier: Apache-2.0
// This machine's C compiler, for the text of the target c and for C text that programs import.
#pragma once
#include <string>
#include <vector>

#include "base/error.h"
#include "target/target.h"

namespace tenon::codegen {

/// What it means that the compiler refuses a text: the error's code, and whose mistake it is.
struct CRefusal {
  std::string code;
  ErrorKind kind;
};

/// Runs it with these arguments. `what` names what it is given in the error: "the kernels". T0819 when there
/// is no compiler; `refusal` with the compiler's first words when it refuses.
void run_c_compiler(std::vector<std::string> arguments, const std::string& what, const CRefusal& refusal);

/// The text as a relocatable object for the target's instructions; errors as above. `warnings`: what the
/// text's pragmas say of warnings counts.
std::string compile_c(const std::string& text, const Target& target, const std::string& what,
                      const CRefusal& refusal, bool warnings = false);

}  // namespace tenon::codegen
