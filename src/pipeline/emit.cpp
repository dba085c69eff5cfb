// SPDX-License-Identifier: Apache-2.0
// The ends of the way: artifacts, and each stage as a file.
#include "pipeline/emit.h"

#include <fmt/format.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>

#include "ir/text.h"
#include "runtime/artifact.h"

namespace tenon {

Artifact jit_artifact(const Compiled& compiled, const Target& target) {
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

int64_t write_emitted(const std::string& kind, const std::string& path, const Compiled& compiled,
                      const Target& target, int opt_level) {
  if (kind == "artifact") {
    write_artifact(path, compiled.executable, compiled.shared_object);
    return int64_t(std::filesystem::file_size(path));
  }
  std::string text;
  if (kind == "obj")
    text = codegen::merge_objects(compiled.object, target);
  else if (kind == "asm")
    text = codegen::llvm_assembly(compiled.lowered, target, opt_level);
  else if (kind == "llvm")
    text = codegen::llvm_ir(compiled.lowered, target, opt_level);
  else if (kind == "c")
    text = codegen::c_source(compiled.lowered, target);
  else if (kind == "dot")
    text = to_dot(compiled.planned);
  else if (kind == "tir") {
    ConstantTable constants;
    PrintOptions options;
    options.constants = &constants;
    text = print(compiled.lowered, options);
    if (!constants.empty()) save_constants(path + ".constants", constants);
  } else {
    fail("T0920", fmt::format("there is nothing of the kind `{}` to emit", kind), {},
         "artifact, obj, asm, llvm, c, tir or dot", ErrorKind::usage);
  }
  write_text_file(path, text);
  return int64_t(text.size());
}

}  // namespace tenon
