// SPDX-License-Identifier: Apache-2.0
// What a compiled module becomes: an artifact in memory or on disk, or one of the stages on the way as text.
#pragma once
#include "pipeline/compile.h"
#include "runtime/vm.h"

namespace tenon {

/// Loads the machine code into this process.
Artifact jit_artifact(const Compiled& compiled, const Target& target);
/// The machine code linked as an artifact holds it; for the target c made by the machine's C compiler.
std::string shared_code(const Compiled& compiled, const Target& target);

/// The file of that kind: "obj", "exe", "asm", "llvm", "c" or "json"; Error "T0920" for another. With a name
/// in `system`, "obj" and "c" also register the model with the runtime (tenon_register_NAME).
std::string emit_text(const std::string& kind, const Compiled& compiled, const Target& target, int opt_level,
                      const std::string& system = {});
/// Writes `kind` (those, or "artifact") to `path` and returns the bytes written; "obj" with a name in
/// `system` puts a header beside it. Errors T30xx on I/O.
int64_t write_emitted(const std::string& kind, const std::string& path, const Compiled& compiled,
                      const Target& target, int opt_level, const std::string& system = {});
/// The name of a file as the name of a system library: letters, digits and _.
std::string system_name(const std::string& path);

/// Writes a whole file by way of a temporary one, so that a full disk leaves the old file. Error "T3003".
void write_text_file(const std::string& path, std::string_view bytes);

}  // namespace tenon
