// SPDX-License-Identifier: Apache-2.0
// What a compiled module becomes: an artifact in memory or on disk, or a file of another kind.
#pragma once
#include "pipeline/compile.h"
#include "runtime/vm.h"

namespace tenon {

/// A kind of file that a compilation can end in (`--emit`).
struct EmitKind {
  std::string name, ending, doc;   ///< "asm", ".s", "assembly"
  std::string target = {};         ///< only targets of this kind offer it; "": all
  CodeForm code = CodeForm::none;  ///< what it is made of
  bool is_text = true;
  bool whole_model = false;                       ///< needs a function to run, not programs alone
  bool registers = false;                         ///< can register the model under a name (`--system-lib`)
  std::vector<codegen::TextOption> options = {};  ///< of `--emit-option`
};
/// "NAME=VALUE" of an emission, each checked: T0970 for a name that the kind has not, or a value that it does
/// not take.
codegen::TextOptions emit_options(const EmitKind& kind, const std::vector<std::string>& given);
/// artifact, obj, exe and json, then the texts that code generators offer.
std::vector<EmitKind> emit_kinds();
/// The target to compile for, so that `kind` can be emitted: itself, or with the code generator that offers
/// this kind of text for the same kind of device. A C compiler, for example, finds its own instructions:
/// `--emit c` takes the record of the processor for the target c. Kernels that a program calls by itself
/// (`obj`, not `registered` with the runtime) do without matrix registers, for which the runtime asks the
/// system.
Target target_for(const std::string& kind, const Target& target, bool registered = true);

/// Error "T0924": only artifacts have code for several processors.
[[noreturn]] void refuse_variants(const std::string& kind);

/// Loads the code into this process.
Artifact jit_artifact(const Compiled& compiled);
/// The machine code linked as an artifact holds it.
std::string shared_code(const Compiled& compiled);

/// The file of that kind ("artifact" but); Error "T0920" for one that the target does not offer. With a name
/// in `system`, "obj" and texts of whole models also register the model with the runtime
/// (tenon_register_NAME).
std::string emit_text(const std::string& kind, const Compiled& compiled, const std::string& system = {},
                      const codegen::TextOptions& options = {});
/// Writes `kind` (those, or "artifact") to `path` and returns the bytes written; beside "obj", and a text
/// that has one, stands a header. Errors T30xx on I/O.
int64_t write_emitted(const std::string& kind, const std::string& path, const Compiled& compiled,
                      const std::string& system = {}, const codegen::TextOptions& options = {});
/// The name of a file as the name of a system library: letters, digits and _.
std::string system_name(const std::string& path);

/// Writes a whole file by way of a temporary one, so that a full disk leaves the old file. Error "T3003".
void write_text_file(const std::string& path, std::string_view bytes);

}  // namespace tenon
