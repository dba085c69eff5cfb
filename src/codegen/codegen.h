// SPDX-License-Identifier: Apache-2.0
// What the code generators share: lowered PrimFuncs in (after the tensor pipeline: flat buffers, packed ABI of
// runtime/kernel.h), text or object code out. Anything else is refused by name ("T0801").
#pragma once
#include "ir/module.h"
#include "target/target.h"

namespace tenon {

/// A lowered module: each PrimFunc has attribute "global_symbol" and the kernel signature.
struct ObjectCode { std::string bytes; std::vector<std::string> symbols; };

namespace codegen {
/// Machine code of every kernel as one ELF object; `threads` compile in parallel, identical bodies once.
ObjectCode llvm_object(const IRModule& lowered, const Target& target, int opt_level = 2, int threads = 1);
std::string llvm_ir(const IRModule& lowered, const Target& target, int opt_level = 2);
std::string llvm_assembly(const IRModule& lowered, const Target& target, int opt_level = 2);
/// Links an object into an ELF shared object (lld in process). T0803 with lld's words on failure.
std::string link_shared(const ObjectCode& object, const Target& target);
/// Loads object code into this process (ORC); resolves kernels by symbol. Lives as long as the returned handle.
struct JitModule { std::shared_ptr<void> keep; std::function<void*(const std::string&)> find; };
JitModule jit_load(const ObjectCode& object, const Target& target);
/// Self-contained C11 of every kernel.
std::string c_source(const IRModule& lowered, const Target& target);
}  // namespace codegen

}  // namespace tenon
