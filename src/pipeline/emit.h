// SPDX-License-Identifier: Apache-2.0
// What a compiled module becomes: an artifact in memory or on disk, or one of the stages on the way as text.
#pragma once
#include "ir/text.h"
#include "pipeline/compile.h"
#include "runtime/vm.h"

namespace tenon {

/// Loads the machine code into this process.
Artifact jit_artifact(const Compiled& compiled, const Target& target);
/// The machine code linked as an artifact holds it; for the target c made by the machine's C compiler.
std::string shared_code(const Compiled& compiled, const Target& target);

/// The file of that kind: "obj", "asm", "llvm", "c", "tir" (large constants into `constants`), "dot", "svg"
/// or "json". With a name in `system`, "obj" and "c" also register the model with the runtime
/// (tenon_register_NAME).
std::string emit_text(const std::string& kind, const Compiled& compiled, const Target& target, int opt_level,
                      ConstantTable* constants = nullptr, const std::string& system = {});
/// Writes `kind` (those, "artifact" or "exe") to `path` and returns the bytes written. "tir" puts large
/// constants beside it (model.tir and model.constants), "obj" with a name in `system` a header. Errors T30xx
/// on I/O.
int64_t write_emitted(const std::string& kind, const std::string& path, const Compiled& compiled,
                      const Target& target, int opt_level, const std::string& system = {});
/// The name of a file as the name of a system library: letters, digits and _.
std::string system_name(const std::string& path);

/// A module as "tir", "dot" or "svg"; Error "T0920" for another kind. `function`: only this one, in a
/// picture.
std::string module_text(const std::string& kind, const IRModule& module, const std::string& function = {},
                        ConstantTable* constants = nullptr);

/// Writes a whole file by way of a temporary one, so that a full disk leaves the old file. Error "T3003".
void write_text_file(const std::string& path, std::string_view bytes);

}  // namespace tenon
