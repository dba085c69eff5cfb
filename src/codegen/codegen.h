// SPDX-License-Identifier: Apache-2.0
// What a code generator is. It takes lowered PrimFuncs (after the tensor pipeline: flat buffers, packed ABI
// of runtime/kernel.h) and gives text or code. Each makes code for one kind of target and is registered with
// it; the pipeline asks for the code generator of a target and knows none by its name.
#pragma once
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "ir/module.h"
#include "runtime/executable.h"
#include "target/target_kind.h"

namespace tenon {

/// Code of a module's kernels: machine code, modules for loaders of the runtime, or both.
struct ObjectCode {
  /// ELF relocatable objects; several, so that parts compile in parallel. What each holds depends on the
  /// module only.
  std::vector<std::string> objects;
  std::vector<std::string> symbols;  ///< what the objects define, in module order
  std::vector<CodeModule> modules;
  /// C functions of the process that the objects call, by kernel (codegen/calls.h).
  std::vector<std::pair<std::string, std::vector<std::string>>> externals;
  double front_ms = 0, library_ms = 0;  ///< processor time of all threads: the generator's, and its library's
};

namespace codegen {

/// A choice in how a text is written: `--emit-option NAME=VALUE`.
struct TextOption {
  std::string name, doc;  ///< "alignment"; one line, with the values it takes
  bool (*accepts)(const std::string& value) = nullptr;
};
using TextOptions = std::map<std::string, std::string>;  ///< those that are given; a generator has defaults

/// Kernels as text: a kind of `tenon compile --emit`, and a file of `--dump`.
struct CodeText {
  std::string name, ending, doc;  ///< "asm", ".s", "assembly"
  std::function<std::string(const IRModule& lowered, const Target& target, int opt_level,
                            const TextOptions& options)>
      kernels;
  /// What stands behind the kernels so that the text is the whole model, registered with the runtime as
  /// `system` when that is no empty name; null: there is no such text.
  std::string (*model)(const Executable& executable, const IRModule& lowered, const std::string& system,
                       const TextOptions& options) = nullptr;
  /// A header for who includes it, put beside a file of the text; "" where there is nothing to declare.
  std::string (*header)(const Executable& executable, const std::string& system,
                        const TextOptions& options) = nullptr;
  std::vector<TextOption> options = {};
};

/// What object code is linked as.
enum class LinkedAs : uint8_t {
  shared,      ///< a shared object: the code of an artifact
  object,      ///< one relocatable object, which registers the model with the runtime when one is given
  executable,  ///< a program that reads .npy files, runs the model, writes .npy files
};

/// What a model that is linked into a program registers itself with (TenonSystemLibrary of tenon.h).
struct SystemLibrary {
  std::string name;  ///< letters, digits and _
  uint32_t format = 0, kernel_abi = 0;
  std::string tables;  ///< executable_tables
  std::vector<std::string_view> constants;
  std::vector<std::string> kernels;  ///< their symbols
};

/// Object code in this process; lives as long as `keep`.
struct LoadedCode {
  std::shared_ptr<void> keep;
  std::function<void*(const std::string& symbol)> find;  ///< a kernel, null when there is none
};

/// A line of assembly: a label, or an instruction with what is known of it.
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

/// Each PrimFunc of the lowered module with attribute "tenon.kernel" has "global_symbol" and the kernel
/// signature. opt_level is 0 … 3. Functions marked optional may be null.
struct CodeGenerator {
  TargetKind target;
  /// Refuses what it makes no code for, all of it at once ("T0801").
  void (*check)(const IRModule& lowered, const Target& target) = nullptr;
  std::vector<CodeText> texts;
  /// Checks, and makes code of every kernel; `threads` may work on it, and the result does not depend on
  /// them.
  std::function<ObjectCode(const IRModule& lowered, const Target& target, int opt_level, int threads)> object;
  /// Optional, as `load` is: without objects there is nothing to link. `model`: what registers it; null for
  /// `shared`.
  std::string (*link)(const ObjectCode& code, const Target& target, LinkedAs form,
                      const SystemLibrary* model) = nullptr;
  LoadedCode (*load)(const ObjectCode& code, const Target& target) = nullptr;
  /// Optional: assembly with the loops that it comes from, for `tenon opt --explain`.
  std::vector<MachineFunction> (*listing)(const IRModule& lowered, const Target& target,
                                          int opt_level) = nullptr;
  bool debug_lines = false;  ///< it gives instructions the lines of codegen/debug_source.h
  /// Optional: the library that it uses, a step of its own among the times of a compilation; and its version,
  /// which the compile cache knows code by.
  std::string library = {};
  std::string (*library_version)() = nullptr;
  /// A function of this process makes the code, of which the compile cache cannot know whether it is the
  /// same.
  bool cached = true;
};

/// Registers the code generator and the kind of target that it is for. Error "T0940" when that has one
/// already.
void register_code_generator(CodeGenerator generator);
/// That of the target's kind; Error "T0941" when there is none. Lives as long as the process.
const CodeGenerator& code_generator(const Target& target);
/// Who links objects for the target and loads them: its own code generator, or the host's for one whose code
/// is for a loader and has no objects.
const CodeGenerator& linker_for(const Target& target);
/// All of them, by the names of their targets.
std::vector<const CodeGenerator*> code_generators();

/// What no code generator accepts: one line per node kind or form, as the refusals ("T0801") name them.
std::vector<std::string> unsupported_nodes();
/// Loops of a program in the order of its text: node → k.
std::unordered_map<const Object*, int32_t> number_loops(const tir::PrimFunc& f);
/// Key of an AttrStmt whose statement is timed: `value` is the address of a LoopTimer in this process.
inline constexpr const char* kTimerKey = "tenon.timer";
struct LoopTimer {
  int64_t begin = 0, total = 0;  ///< nanoseconds; total over all runs until it is set back
};

}  // namespace codegen
}  // namespace tenon
