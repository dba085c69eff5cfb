// SPDX-License-Identifier: Apache-2.0
// Objects into one object or one shared object, by lld in this process. lld keeps global state: one link at a time.
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
    if (!mkdtemp(name.data())) fail("T0803", "no directory for the linker in " + std::filesystem::temp_directory_path().string(), {}, "set TMPDIR to a writable directory", ErrorKind::io);
    path = name;
  }
  ~Scratch() { std::error_code ignored; std::filesystem::remove_all(path, ignored); }
};

std::string link(const ObjectCode& object, const std::vector<std::string>& options) {
  static std::mutex lock;
  static bool usable = true;
  std::lock_guard guard(lock);
  if (!usable) fail("T0803", "the linker failed earlier and cannot run again in this process", {}, {}, ErrorKind::io);
  Scratch scratch;
  std::vector<std::string> words{"ld.lld", "--threads=1", "-o", (scratch.path / "out").string()};
  words.insert(words.end(), options.begin(), options.end());
  for (size_t k = 0; k < object.objects.size(); ++k) {
    const auto file = scratch.path / fmt::format("{:04}.o", k);
    std::ofstream out(file, std::ios::binary);
    out.write(object.objects[k].data(), std::streamsize(object.objects[k].size()));
    if (!out.flush()) fail("T0803", "cannot write " + file.string(), {}, "set TMPDIR to a directory with room", ErrorKind::io);
    words.push_back(file.string());
  }
  std::vector<const char*> argv;
  for (const std::string& w : words) argv.push_back(w.c_str());
  std::string said;
  llvm::raw_string_ostream out(said);
  const lld::Result result = lld::lldMain(argv, out, out, {{lld::Gnu, &lld::elf::link}});
  usable = result.canRunAgain;
  if (result.retCode != 0) fail("T0803", "linking failed: " + out.str(), {}, {}, ErrorKind::internal);
  std::ifstream in(scratch.path / "out", std::ios::binary);
  return std::string(std::istreambuf_iterator<char>(in), {});
}

}  // namespace

std::string link_shared(const ObjectCode& object, const Target&) {
  return link(object, {"-shared", "-Bsymbolic", "--gc-sections", "--hash-style=gnu", "--build-id=none", "-z", "now", "-z", "relro", "-soname", "tenon-kernels", "-m", "elf_x86_64"});
}
std::string merge_objects(const ObjectCode& object, const Target&) {
  if (object.objects.size() == 1) return object.objects[0];
  return link(object, {"-r", "-m", "elf_x86_64"});
}

}  // namespace tenon::codegen
