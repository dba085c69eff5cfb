// SPDX-License-Identifier: Apache-2.0
// The target llvm: machine code of this and other processors, by LLVM.
#include "codegen/elf.h"
#include "codegen/llvm/llvm.h"
#include "codegen/lowered.h"

namespace tenon::codegen {
namespace {

const bool llvm_registered = [] {
  register_code_generator(
      {.target = {.name = "llvm",
                  .doc = "machine code, by LLVM",
                  .host_rank = 2,
                  .selects_instructions = true,
                  .options = processor_options()},
       .check = [](const IRModule& lowered, const Target&) { collect_kernels(lowered); },
       .texts = {{.name = "llvm",
                  .ending = ".ll",
                  .doc = "LLVM IR",
                  .kernels = [](const IRModule& lowered, const Target& target, int opt_level,
                                const TextOptions&) { return llvm_ir(lowered, target, opt_level); }},
                 {.name = "asm",
                  .ending = ".s",
                  .doc = "assembly",
                  .kernels = [](const IRModule& lowered, const Target& target, int opt_level,
                                const TextOptions&) { return llvm_assembly(lowered, target, opt_level); }}},
       .object = llvm_object,
       .link = link_elf,
       .load = load_elf,
       .listing = llvm_listing,
       .debug_lines = true,
       .library = "llvm",
       .library_version = llvm_version});
  return true;
}();

}  // namespace
}  // namespace tenon::codegen
