// SPDX-License-Identifier: Apache-2.0
// What a compiled module becomes: an artifact in memory or on disk, or one of the stages on the way as text.
#pragma once
#include "ir/text.h"
#include "pipeline/compile.h"
#include "runtime/vm.h"

namespace tenon {

/// Loads the machine code into this process.
Artifact jit_artifact(const Compiled& compiled, const Target& target);

/// The file of that kind: "obj", "asm", "llvm", "c", "tir" (large constants into `constants`) or "dot".
std::string emit_text(const std::string& kind, const Compiled& compiled, const Target& target, int opt_level,
                      ConstantTable* constants = nullptr);
/// Writes `kind` (those, or "artifact") to `path` and returns the bytes written. "tir" puts large constants
/// beside it (model.tir and model.constants). Errors T30xx on I/O.
int64_t write_emitted(const std::string& kind, const std::string& path, const Compiled& compiled,
                      const Target& target, int opt_level);

/// Writes a whole file by way of a temporary one, so that a full disk leaves the old file. Error "T3003".
void write_text_file(const std::string& path, std::string_view bytes);

/// The graph functions of a module for Graphviz: a node per binding with operator and type, fused functions
/// as clusters.
std::string to_dot(const IRModule& module);

}  // namespace tenon
