// SPDX-License-Identifier: Apache-2.0
// A build without LLVM: the system's C compiler links, the dynamic loader loads.
#include "codegen/elf.h"

#include <dlfcn.h>
#include <fmt/format.h>

#include <filesystem>
#include <fstream>

#include "base/diagnostic.h"
#include "base/temporary_folder.h"
#include "codegen/c_compiler.h"
#include "codegen/calls.h"

namespace tenon::codegen {
namespace {

#if defined(__x86_64__)
constexpr const char* kMachine = "x86_64";
#elif defined(__aarch64__)
constexpr const char* kMachine = "aarch64";
#else
constexpr const char* kMachine = "riscv64";
#endif

void write_file(const std::filesystem::path& file, const std::string& bytes) {
  std::ofstream out(file, std::ios::binary);
  out.write(bytes.data(), std::streamsize(bytes.size()));
  if (!out.flush())
    fail("T3003", "cannot write " + file.string(), {}, "set TMPDIR to a directory with room", ErrorKind::io);
}

/// The objects linked into a file of the folder, which lives as long as the folder.
std::filesystem::path link_into(const TemporaryFolder& folder, const ObjectCode& code, const Target& target,
                                std::vector<std::string> words) {
  if (!target->triple.empty() && !target->triple.starts_with(kMachine))
    fail("T0924",
         fmt::format("a build without LLVM links for this kind of machine only, not for {}", target->triple),
         {}, "write C text for that machine's compiler: --emit c", ErrorKind::usage);
  const auto out = folder.path / "linked";
  words.insert(words.end(), {"-nostartfiles", "-Wl,--build-id=none", "-o", out.string()});
  for (size_t k = 0; k < code.objects.size(); ++k) {
    const auto file = folder.path / fmt::format("{:04}.o", k);
    write_file(file, code.objects[k]);
    words.push_back(file.string());
  }
  words.emplace_back("-lm");
  run_c_compiler(std::move(words), "to link the kernels", {"T0803", ErrorKind::internal});
  return out;
}

}  // namespace

std::string link_elf(const ObjectCode& code, const Target& target, LinkedAs form,
                     const SystemLibrary* model) {
  if (form == LinkedAs::executable || model)
    fail("T0924", "a build without LLVM links no programs and no models for programs", {},
         "use --emit c (with --system-lib NAME for the runtime), or a build with LLVM", ErrorKind::usage);
  if (form == LinkedAs::object && code.objects.size() == 1) return code.objects[0];
  const TemporaryFolder folder("the linker");
  const auto linked = link_into(folder, code, target,
                                form == LinkedAs::object ? std::vector<std::string>{"-r", "-nostdlib"}
                                                         : std::vector<std::string>{"-shared"});
  std::ifstream in(linked, std::ios::binary);
  return std::string(std::istreambuf_iterator<char>(in), {});
}

LoadedCode load_elf(const ObjectCode& code, const Target& target) {
  (void)externals_of(code);  // which refuses what is not there
  const TemporaryFolder folder("the linker");
  const auto file = link_into(folder, code, target, {"-shared"});
  void* handle = dlopen(file.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (!handle) {
    const char* why = dlerror();
    fail("T0804", fmt::format("the kernels cannot be loaded: {}", why ? why : "unknown reason"), {}, {},
         ErrorKind::internal);
  }
  const std::shared_ptr<void> keep(handle, [](void* h) { dlclose(h); });
  return {keep, [handle](const std::string& symbol) { return dlsym(handle, symbol.c_str()); }};
}

}  // namespace tenon::codegen
