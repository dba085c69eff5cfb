// SPDX-License-Identifier: Apache-2.0
// The ends of the way: artifacts, and each stage as a file.
#include "pipeline/emit.h"

#include <fmt/format.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>

#include "pipeline/c_entry.h"
#include "pipeline/graph_json.h"
#include "runtime/artifact.h"

namespace tenon {

Artifact jit_artifact(const Compiled& compiled, const Target& target) {
  std::string missing;
  for (const std::string& f : missing_features(compiled.executable.needs))
    missing += (missing.empty() ? "" : ", ") + f;
  if (!missing.empty())
    fail("T0603", "this machine's CPU lacks what the target has: " + missing, {},
         "leave out --target, or write an artifact with `tenon compile` and run it on that machine");
  codegen::JitModule jit = codegen::jit_load(compiled.object, target);
  return Artifact::from_executable(compiled.executable, jit.find, jit.keep);
}

void write_text_file(const std::string& path, std::string_view bytes) {
  const std::string temporary = fmt::format("{}.{}.tmp", path, getpid());
  FILE* file = std::fopen(temporary.c_str(), "wb");
  bool ok = file && std::fwrite(bytes.data(), 1, bytes.size(), file) == bytes.size();
  if (file) ok = (std::fclose(file) == 0) && ok;
  if (ok) ok = std::rename(temporary.c_str(), path.c_str()) == 0;
  if (!ok) {
    const int why = errno;
    std::remove(temporary.c_str());
    throw Error(ErrorKind::io, "T3003", std::string("cannot be written: ") + std::strerror(why), path);
  }
}

std::string emit_text(const std::string& kind, const Compiled& compiled, const Target& target, int opt_level,
                      ConstantTable* constants) {
  if (kind == "obj") return codegen::merge_objects(compiled.object, target);
  if (kind == "asm") return codegen::llvm_assembly(compiled.lowered, target, opt_level);
  if (kind == "llvm") return codegen::llvm_ir(compiled.lowered, target, opt_level);
  if (kind == "c")
    return codegen::c_source(compiled.lowered, target) + c_entry(compiled.executable, compiled.lowered);
  if (kind == "json") return graph_json(compiled.executable);
  if (kind == "dot") return to_dot(compiled.planned);
  if (kind == "tir") {
    PrintOptions options;
    options.constants = constants;
    return print(compiled.lowered, options);
  }
  fail("T0920", fmt::format("there is nothing of the kind `{}` to emit", kind), {},
       "artifact, obj, asm, llvm, c, tir, dot or json", ErrorKind::usage);
}

int64_t write_emitted(const std::string& kind, const std::string& path, const Compiled& compiled,
                      const Target& target, int opt_level) {
  if (kind == "artifact") {
    write_artifact(path, compiled.executable, compiled.shared_object);
    return int64_t(std::filesystem::file_size(path));
  }
  ConstantTable constants;
  const std::string text = emit_text(kind, compiled, target, opt_level, &constants);
  write_text_file(path, text);
  if (!constants.empty())
    save_constants(std::filesystem::path(path).replace_extension(".constants"), constants);
  return int64_t(text.size());
}

}  // namespace tenon
