// SPDX-License-Identifier: Apache-2.0
// The ends of the way: artifacts, and each stage as a file.
#include "pipeline/emit.h"

#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>

#include "codegen/c/c_entry.h"
#include "codegen/c/compile_c.h"
#include "codegen/vm/graph_json.h"
#include "runtime/artifact.h"

namespace tenon {

Artifact jit_artifact(const Compiled& compiled, const Target& target) {
  std::string missing;
  for (const std::string& f : missing_features(compiled.executable.needs))
    missing += (missing.empty() ? "" : ", ") + f;
  if (!missing.empty())
    fail("T0603", "this machine's CPU lacks what the target has: " + missing, {},
         "leave out --target, or write an artifact with `tenon compile` and run it on that machine");
  codegen::JitModule jit = codegen::jit_load(
      target->kind == "c" ? codegen::c_object(compiled.lowered, target) : compiled.object, target);
  return Artifact::from_executable(compiled.executable, jit.find, jit.keep);
}

std::string shared_code(const Compiled& compiled, const Target& target) {
  if (!compiled.shared_object.empty()) return compiled.shared_object;
  return codegen::link_shared(
      target->kind == "c" ? codegen::c_object(compiled.lowered, target) : compiled.object, target);
}

void write_text_file(const std::string& path, std::string_view bytes) {
  // A device or pipe is written to; only a file is replaced, at once when all is there.
  struct stat there;
  const bool replace = stat(path.c_str(), &there) != 0 || S_ISREG(there.st_mode);
  const std::string temporary = replace ? fmt::format("{}.{}.tmp", path, getpid()) : path;
  FILE* file = std::fopen(temporary.c_str(), "wb");
  bool ok = file && std::fwrite(bytes.data(), 1, bytes.size(), file) == bytes.size();
  if (file) ok = (std::fclose(file) == 0) && ok;
  if (ok && replace) ok = std::rename(temporary.c_str(), path.c_str()) == 0;
  if (!ok) {
    const int why = errno;
    if (replace) std::remove(temporary.c_str());
    throw Error(ErrorKind::io, "T3003", std::string("cannot be written: ") + std::strerror(why), path);
  }
}

namespace {

codegen::SystemLibrary system_library(const Compiled& compiled, const std::string& name) {
  codegen::SystemLibrary out;
  out.name = name;
  out.format = kArtifactFormat;
  out.kernel_abi = TENON_KERNEL_ABI;
  out.tables = executable_tables(compiled.executable);
  for (const NDArray& c : compiled.executable.constants)
    out.constants.emplace_back(c.as_ptr<char>(), c.byte_size());
  for (const Callee& c : compiled.executable.callees)
    if (c.kind == CalleeKind::Kernel) out.kernels.push_back(c.name);
  std::sort(out.kernels.begin(), out.kernels.end());
  out.kernels.erase(std::unique(out.kernels.begin(), out.kernels.end()), out.kernels.end());
  return out;
}
/// The kernels and, beside them, the model that calls them.
ObjectCode with_system(const Compiled& compiled, const Target& target, const std::string& name, bool own) {
  if (target->kind != "llvm")
    fail("T0924", "object files are made by the target llvm, not by " + target->kind, {},
         "leave --target out, or use --emit c", ErrorKind::usage);
  ObjectCode all = compiled.object;
  all.objects.push_back(codegen::system_object(system_library(compiled, name), target, own));
  return all;
}

constexpr const char* kHeader = R"(/* SPDX-License-Identifier: Apache-2.0
 * The model `{0}`, linked into a program with libtenon_runtime: tenon_artifact_load("system:{0}", 0, &model). */
#pragma once
#include <stdint.h>
#ifdef __cplusplus
extern "C" {{
#endif
/* Registers the model. Runs before main by itself where the linker keeps it; again it does nothing. */
int32_t tenon_register_{0}(void);
#ifdef __cplusplus
}}
#endif
)";

}  // namespace

std::string system_name(const std::string& path) {
  std::string out;
  for (const char c : std::filesystem::path(path).stem().string())
    out += std::isalnum(static_cast<unsigned char>(c)) && static_cast<unsigned char>(c) < 128 ? c : '_';
  return out.empty() || std::isdigit(static_cast<unsigned char>(out[0])) ? "m" + out : out;
}

std::string emit_text(const std::string& kind, const Compiled& compiled, const Target& target, int opt_level,
                      const std::string& system) {
  if (kind == "obj" && !system.empty())
    return codegen::merge_objects(with_system(compiled, target, system, false), target);
  if (kind == "exe")
    return codegen::link_executable(with_system(compiled, target, system.empty() ? "model" : system, true),
                                    target);
  if (kind == "obj") return codegen::merge_objects(compiled.object, target);
  if (kind == "asm") return codegen::llvm_assembly(compiled.lowered, target, opt_level);
  if (kind == "llvm") return codegen::llvm_ir(compiled.lowered, target, opt_level);
  if (kind == "c")
    return codegen::c_source(compiled.lowered, target) +
           c_entry(compiled.executable, compiled.lowered, system);
  if (kind == "json") return graph_json(compiled.executable);
  fail("T0920", fmt::format("there is nothing of the kind `{}` to emit", kind), {},
       "artifact, obj, exe, asm, llvm, c, tir, dot, svg or json", ErrorKind::usage);
}

int64_t write_emitted(const std::string& kind, const std::string& path, const Compiled& compiled,
                      const Target& target, int opt_level, const std::string& system) {
  if (kind == "artifact") {
    write_artifact(path, compiled.executable, shared_code(compiled, target));
    std::error_code device;  // has no size
    const auto bytes = std::filesystem::file_size(path, device);
    return device ? 0 : int64_t(bytes);
  }
  const std::string text = emit_text(kind, compiled, target, opt_level, system);
  write_text_file(path, text);
  if (kind == "exe") {
    using std::filesystem::perms;
    const auto readers = std::filesystem::status(path).permissions();
    auto runs = perms::owner_exec;
    if ((readers & perms::group_read) != perms::none) runs |= perms::group_exec;
    if ((readers & perms::others_read) != perms::none) runs |= perms::others_exec;
    std::filesystem::permissions(path, runs, std::filesystem::perm_options::add);
  }
  if (kind == "obj" && !system.empty())
    write_text_file(std::filesystem::path(path).replace_extension(".h").string(),
                    fmt::format(kHeader, system));
  return int64_t(text.size());
}

}  // namespace tenon
