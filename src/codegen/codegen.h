// SPDX-License-Identifier: Apache-2.0
// What the code generators share: lowered PrimFuncs in (after the tensor pipeline: flat buffers, packed ABI
// of runtime/kernel.h), text or object code out. Anything else is refused by name ("T0801").
#pragma once
#include <functional>
#include <memory>
#include <string>
#include <unordered_map>
#include <vector>

#include "ir/module.h"
#include "target/target.h"

namespace tenon {

/// Machine code: ELF relocatable objects (a module is split so that parts compile in parallel; the split
/// depends on the module only) and the kernels they define, in module order.
struct ObjectCode {
  std::vector<std::string> objects;
  std::vector<std::string> symbols;
  double front_ms = 0, llvm_ms = 0;  ///< processor time of all threads: up to LLVM IR, and LLVM's own
};

/// A line of assembly: a label, or an instruction with what LLVM says about it.
struct MachineLine {
  std::string text;
  bool label = false;
  int32_t loop =
      -1;  ///< the innermost loop of the program that it comes from, as `number_loops` counts; -1: none
};
/// A kernel's function, or the body of one of its parallel loops.
struct MachineFunction {
  std::string kernel, name;
  std::vector<MachineLine> lines;
};

namespace codegen {
/// A lowered module: each PrimFunc with attribute "tenon.kernel" has "global_symbol" and the kernel
/// signature. What no generator accepts: one line per node kind or form, as the refusals ("T0801") name them.
std::vector<std::string> unsupported_nodes();
/// Machine code of every kernel; `threads` compile in parallel, identical bodies once. opt_level 0 … 3.
ObjectCode llvm_object(const IRModule& lowered, const Target& target, int opt_level = 2, int threads = 1);
std::string llvm_ir(const IRModule& lowered, const Target& target, int opt_level = 2);
std::string llvm_assembly(const IRModule& lowered, const Target& target, int opt_level = 2);
/// The instructions of object code as text, read back from their bytes.
std::string disassemble(const ObjectCode& object, const Target& target);
/// The assembly with the loops that it comes from.
std::vector<MachineFunction> llvm_listing(const IRModule& lowered, const Target& target, int opt_level = 2);
/// Loops of a program in the order of its text: node → k.
std::unordered_map<const Object*, int32_t> number_loops(const tir::PrimFunc& f);
/// Key of an AttrStmt whose statement is timed: `value` is the address of a LoopTimer in this process.
inline constexpr const char* kTimerKey = "tenon.timer";
struct LoopTimer {
  int64_t begin = 0, total = 0;  ///< nanoseconds; total over all runs until it is set back
};
/// The parts joined into one relocatable object (`--emit obj`).
std::string merge_objects(const ObjectCode& object, const Target& target);
/// Links the objects into an ELF shared object (lld in process). T0803 with lld's words on failure.
std::string link_shared(const ObjectCode& object, const Target& target);
/// What a model that is linked into a program registers itself with (TenonSystemLibrary of tenon.h).
struct SystemLibrary {
  std::string name;  ///< letters, digits and _
  uint32_t format = 0, kernel_abi = 0;
  std::string tables;  ///< executable_tables
  std::vector<std::string_view> constants;
  std::vector<std::string> kernels;  ///< their symbols
};
/// An object that holds the library: defines `int32_t tenon_register_NAME(void)`, which also runs before
/// `main`, and for a program of its own `tenon_native_model`.
std::string system_object(const SystemLibrary& library, const Target& target, bool own_program);
/// An executable of the objects: reads .npy files, runs the model, writes .npy files. Uses the runtime
/// library and the C library of this process at their places. T0924 where it cannot be made.
std::string link_executable(const ObjectCode& object, const Target& target);
/// Loads object code into this process (ORC); resolves kernels by symbol. Lives as long as the returned
/// handle.
struct JitModule {
  std::shared_ptr<void> keep;
  std::function<void*(const std::string&)> find;
};
JitModule jit_load(const ObjectCode& object, const Target& target);
/// Self-contained C11 of every kernel.
std::string c_source(const IRModule& lowered, const Target& target);
}  // namespace codegen

}  // namespace tenon
