// SPDX-License-Identifier: Apache-2.0
// Objects into one object or one shared object, by lld in this process. lld keeps global state: one link at a
// time.
#include <fmt/format.h>
#include <lld/Common/Driver.h>
#include <llvm/Support/raw_ostream.h>
#include <stdlib.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <mutex>

#include "base/diagnostic.h"
#include "codegen/codegen.h"

LLD_HAS_DRIVER(elf)

namespace tenon::codegen {
namespace {

/// A directory that goes with everything in it.
struct Scratch {
  std::filesystem::path path;
  Scratch() {
    std::string name = (std::filesystem::temp_directory_path() / "tenon-link-XXXXXX").string();
    if (!mkdtemp(name.data()))
      fail("T0803", "no directory for the linker in " + std::filesystem::temp_directory_path().string(), {},
           "set TMPDIR to a writable directory", ErrorKind::io);
    path = name;
  }
  ~Scratch() {
    std::error_code ignored;
    std::filesystem::remove_all(path, ignored);
  }
};

void write_file(const std::filesystem::path& file, const std::string& bytes) {
  std::ofstream out(file, std::ios::binary);
  out.write(bytes.data(), std::streamsize(bytes.size()));
  if (!out.flush())
    fail("T0803", "cannot write " + file.string(), {}, "set TMPDIR to a directory with room", ErrorKind::io);
}
std::string read_file(const std::filesystem::path& file) {
  std::ifstream in(file, std::ios::binary);
  return std::string(std::istreambuf_iterator<char>(in), {});
}

/// One run of lld; the caller holds the lock.
void run_lld(std::vector<std::string> words) {
  static bool usable = true;
  if (!usable)
    fail("T0803", "the linker failed earlier and cannot run again in this process", {}, {}, ErrorKind::io);
  words.insert(words.begin(), {"ld.lld", "--threads=1", "-m", "elf_x86_64"});
  std::vector<const char*> argv;
  for (const std::string& w : words) argv.push_back(w.c_str());
  std::string said;
  llvm::raw_string_ostream out(said);
  const lld::Result result = lld::lldMain(argv, out, out, {{lld::Gnu, &lld::elf::link}});
  usable = result.canRunAgain;
  if (result.retCode != 0) fail("T0803", "linking failed: " + out.str(), {}, {}, ErrorKind::internal);
}

/// An empty library named as the C mathematics library: linking with it records the need of the real one,
/// whatever its versions, wherever the artifact is loaded.
const std::string& mathematics_stub() {
  static const std::string stub = [] {
    std::string header(64, '\0');  // an ELF64 relocatable for x86-64 without sections
    header.replace(0, 7,
                   std::string("\x7f"
                               "ELF\2\1\1",
                               7));
    header[16] = 1;
    header[18] = 62;
    header[20] = 1;
    header[52] = 64;
    header[58] = 64;
    Scratch scratch;
    write_file(scratch.path / "empty.o", header);
    run_lld({"-shared", "-soname", "libm.so.6", "-o", (scratch.path / "libm.so").string(),
             (scratch.path / "empty.o").string()});
    return read_file(scratch.path / "libm.so");
  }();
  return stub;
}

std::string link(const ObjectCode& object, std::vector<std::string> options, bool mathematics) {
  static std::mutex lock;
  std::lock_guard guard(lock);
  Scratch scratch;
  options.insert(options.end(), {"-o", (scratch.path / "out").string()});
  for (size_t k = 0; k < object.objects.size(); ++k) {
    const auto file = scratch.path / fmt::format("{:04}.o", k);
    write_file(file, object.objects[k]);
    options.push_back(file.string());
  }
  if (mathematics) {
    write_file(scratch.path / "libm.so", mathematics_stub());
    options.push_back((scratch.path / "libm.so").string());
  }
  run_lld(std::move(options));
  return read_file(scratch.path / "out");
}

}  // namespace

std::string link_shared(const ObjectCode& object, const Target&) {
  return link(object,
              {"-shared", "-Bsymbolic", "--gc-sections", "--hash-style=gnu", "--build-id=none", "-z", "now",
               "-z", "relro", "-soname", "tenon-kernels"},
              true);
}
std::string merge_objects(const ObjectCode& object, const Target&) {
  if (object.objects.size() == 1) return object.objects[0];
  return link(object, {"-r"}, false);
}

}  // namespace tenon::codegen
