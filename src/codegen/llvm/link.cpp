// SPDX-License-Identifier: Apache-2.0
// Objects into one object or one shared object, by lld in this process. lld keeps global state: one link at a
// time.
#include <dlfcn.h>
#include <fmt/format.h>
#include <lld/Common/Driver.h>
#include <llvm/Support/raw_ostream.h>
#include <tenon/tenon.h>

#include <fstream>
#include <map>
#include <mutex>

#include "base/diagnostic.h"
#include "base/temporary_folder.h"
#include "codegen/elf.h"
#include "codegen/llvm/llvm.h"
#include "target/narrow_float.h"

LLD_HAS_DRIVER(elf)

namespace tenon::codegen {
namespace {

void write_file(const std::filesystem::path& file, const std::string& bytes) {
  std::ofstream out(file, std::ios::binary);
  out.write(bytes.data(), std::streamsize(bytes.size()));
  if (!out.flush())
    fail("T3003", "cannot write " + file.string(), {}, "set TMPDIR to a directory with room", ErrorKind::io);
}
std::string read_file(const std::filesystem::path& file) {
  std::ifstream in(file, std::ios::binary);
  return std::string(std::istreambuf_iterator<char>(in), {});
}

/// What lld and an object's header call a kind of processor.
struct ElfMachine {
  const char* emulation;
  uint8_t number, flags;  ///< e_machine, and the low byte of e_flags
};
ElfMachine machine_of(const Target& target) {
  if (is_arm(target)) return {"aarch64linux", 183, 0};
  if (is_riscv(target)) return {"elf64lriscv", 243, 5};  // compressed instructions, doubles in registers
  return {"elf_x86_64", 62, 0};
}

/// One run of lld; the caller holds the lock.
void run_lld(std::vector<std::string> words, const ElfMachine& machine) {
  static bool usable = true;
  if (!usable)
    fail("T0803", "the linker failed earlier and cannot run again in this process", {}, {}, ErrorKind::io);
  words.insert(words.begin(), {"ld.lld", "--threads=1", "-m", machine.emulation});
  std::vector<const char*> argv;
  for (const std::string& w : words) argv.push_back(w.c_str());
  std::string said;
  llvm::raw_string_ostream out(said);
  const lld::Result result = lld::lldMain(argv, out, out, {{lld::Gnu, &lld::elf::link}});
  usable = result.canRunAgain;
  if (result.retCode != 0) fail("T0803", "linking failed: " + out.str(), {}, {}, ErrorKind::internal);
}

/// An ELF64 relocatable without sections.
std::string empty_object(const ElfMachine& machine) {
  std::string header(64, '\0');
  header.replace(0, 7,
                 std::string("\x7f"
                             "ELF\2\1\1",
                             7));
  header[16] = 1;
  header[18] = char(machine.number);
  header[20] = 1;
  header[48] = char(machine.flags);
  header[52] = 64;
  header[58] = 64;
  return header;
}

/// An empty library named as the C mathematics library: linking with it records the need of the real one,
/// whatever its versions, wherever the artifact is loaded.
const std::string& mathematics_stub(const ElfMachine& machine) {
  static std::map<uint8_t, std::string> stubs;  // the caller holds the lock
  std::string& stub = stubs[machine.number];
  if (stub.empty()) {
    const TemporaryFolder scratch("the linker");
    write_file(scratch.path / "empty.o", empty_object(machine));
    run_lld({"-shared", "-soname", "libm.so.6", "-o", (scratch.path / "libm.so").string(),
             (scratch.path / "empty.o").string()},
            machine);
    stub = read_file(scratch.path / "libm.so");
  }
  return stub;
}

std::string link(const ObjectCode& object, const ElfMachine& machine, std::vector<std::string> options,
                 bool mathematics, const std::vector<std::string>& libraries = {}) {
  static std::mutex lock;
  std::lock_guard guard(lock);
  const TemporaryFolder scratch("the linker");
  options.insert(options.end(), {"-o", (scratch.path / "out").string()});
  for (size_t k = 0; k < object.objects.size(); ++k) {
    const auto file = scratch.path / fmt::format("{:04}.o", k);
    write_file(file, object.objects[k]);
    options.push_back(file.string());
  }
  options.insert(options.end(), libraries.begin(), libraries.end());
  if (mathematics) {
    write_file(scratch.path / "libm.so", mathematics_stub(machine));
    options.push_back((scratch.path / "libm.so").string());
  }
  run_lld(std::move(options), machine);
  return read_file(scratch.path / "out");
}

}  // namespace

// The object of cli/native_main.c (native_main_object.S).
extern "C" const char tenon_native_main_object[], tenon_native_main_object_end[];

namespace {
std::string link_executable(const ObjectCode& object, const Target& target) {
#if defined(__x86_64__)
  if (!target->triple.empty() && !target->triple.starts_with("x86_64-"))
    fail("T0924", "executables are linked for this kind of machine only, not for " + target->triple, {},
         "use --emit obj --system-lib NAME and the linker of that machine", ErrorKind::usage);
  auto library_of = [](const void* address, const char* what) {
    Dl_info info;
    std::error_code ignored;
    if (dladdr(address, &info) && info.dli_fname)
      if (const auto path = std::filesystem::canonical(info.dli_fname, ignored); !path.empty())
        return path.string();
    fail("T0910", std::string("the file of ") + what + " is not known", {}, {}, ErrorKind::io);
  };
  const std::string runtime =
      library_of(reinterpret_cast<const void*>(&tenon_version), "the runtime library");
  const std::string c = library_of(dlsym(RTLD_DEFAULT, "__libc_start_main"), "the C library");
  const std::string math = library_of(dlsym(RTLD_DEFAULT, "fmod"), "the C library's mathematics");
  ObjectCode all = object;
  all.objects.emplace_back(tenon_native_main_object, tenon_native_main_object_end);
  return link(
      all, machine_of(target),
      {"-pie", "--dynamic-linker", "/lib64/ld-linux-x86-64.so.2", "-e", "tenon_native_start", "--gc-sections",
       "--hash-style=gnu", "--build-id=none", "-z", "now", "-z", "relro", "--allow-shlib-undefined", "-rpath",
       "$ORIGIN:" + std::filesystem::path(runtime).parent_path().string()},
      false, {runtime, c, math});
#else
  (void)object, (void)target;
  fail("T0924", "executables are linked on x86-64 only", {},
       "use --emit obj --system-lib NAME and the machine's own linker", ErrorKind::usage);
#endif
}
}  // namespace

std::string link_elf(const ObjectCode& code, const Target& target, LinkedAs form,
                     const SystemLibrary* model) {
  ObjectCode all{.objects = code.objects};
  if (model) all.objects.push_back(system_object(*model, target, form == LinkedAs::executable));
  // What has no objects of its own is linked all the same: an artifact is a shared object.
  if (all.objects.empty()) all.objects.push_back(empty_object(machine_of(target)));
  switch (form) {
    case LinkedAs::shared:
      return link(all, machine_of(target),
                  {"-shared", "-Bsymbolic", "--gc-sections", "--hash-style=gnu", "--build-id=none", "-z",
                   "now", "-z", "relro", "-soname", "tenon-kernels"},
                  true);
    case LinkedAs::object:
      return all.objects.size() == 1 ? all.objects[0] : link(all, machine_of(target), {"-r"}, false);
    case LinkedAs::executable:
      return link_executable(all, target);
  }
  return {};
}

}  // namespace tenon::codegen
