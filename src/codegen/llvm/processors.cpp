// SPDX-License-Identifier: Apache-2.0
#include "codegen/llvm/processors.h"

#include <llvm/Support/TargetSelect.h>

namespace tenon::codegen {

void initialize_processors() {
  static const bool once = [] {
#define TENON_PROCESSOR(NAME)         \
  LLVMInitialize##NAME##TargetInfo(); \
  LLVMInitialize##NAME##Target();     \
  LLVMInitialize##NAME##TargetMC();   \
  LLVMInitialize##NAME##AsmPrinter(); \
  LLVMInitialize##NAME##AsmParser();  \
  LLVMInitialize##NAME##Disassembler();
    TENON_PROCESSOR(X86)
    TENON_PROCESSOR(AArch64)
    TENON_PROCESSOR(RISCV)
#undef TENON_PROCESSOR
    return true;
  }();
  (void)once;
}

}  // namespace tenon::codegen
