// SPDX-License-Identifier: Apache-2.0
// The code generator for the target llvm, function by function. The pipeline reaches it through
// `code_generator(target)`.
#pragma once
#include "codegen/codegen.h"

namespace tenon::codegen {

/// Machine code of every kernel; `threads` compile in parallel, identical bodies once.
ObjectCode llvm_object(const IRModule& lowered, const Target& target, int opt_level = 2, int threads = 1);
std::string llvm_ir(const IRModule& lowered, const Target& target, int opt_level = 2);
std::string llvm_assembly(const IRModule& lowered, const Target& target, int opt_level = 2);
/// The assembly with the loops that it comes from.
std::vector<MachineFunction> llvm_listing(const IRModule& lowered, const Target& target, int opt_level = 2);
/// The instructions of object code as text, read back from their bytes.
std::string disassemble(const ObjectCode& object, const Target& target);
/// An object that holds the library and registers it; `own_program`: for an executable, under the name
/// `tenon_native_model`.
std::string system_object(const SystemLibrary& library, const Target& target, bool own_program);
/// The version of LLVM, and its library's size and time of installation.
std::string llvm_version();

}  // namespace tenon::codegen
