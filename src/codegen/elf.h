// SPDX-License-Identifier: Apache-2.0
// Relocatable ELF objects of any code generator linked and loaded: by lld in this process and ORC (llvm/),
// or, in a build without LLVM, by the system's C compiler and dynamic loader (system/).
#pragma once
#include "codegen/codegen.h"

namespace tenon::codegen {

/// The objects as a shared object, one relocatable object or an executable; for the latter two `model`
/// registers itself with the runtime: an object defines `int32_t tenon_register_NAME(void)`, which also runs
/// before `main`. An executable uses the runtime library and the C library of this process at their paths.
/// T0803 with lld's words on failure, T0924 where an executable cannot be made.
std::string link_elf(const ObjectCode& code, const Target& target, LinkedAs form,
                     const SystemLibrary* model = nullptr);

/// Loads the objects into this process. T0804 when they cannot be.
LoadedCode load_elf(const ObjectCode& code, const Target& target);

}  // namespace tenon::codegen
