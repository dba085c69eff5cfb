// SPDX-License-Identifier: Apache-2.0
// The processors that LLVM is asked to make code for.
#pragma once

namespace tenon::codegen {

/// Makes X86, AArch64 and RISC-V known to LLVM's table of targets, with their printers, parsers and
/// disassemblers; the first call does. LLVM has more, which would double what a wheel holds.
void initialize_processors();

}  // namespace tenon::codegen
