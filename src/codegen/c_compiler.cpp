// SPDX-License-Identifier: Apache-2.0
#include "codegen/c_compiler.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <fstream>

#include "base/temporary_folder.h"

extern char** environ;

namespace tenon::codegen {
namespace {

std::string bytes_of(const std::filesystem::path& file) {
  std::ifstream in(file, std::ios::binary);
  return std::string(std::istreambuf_iterator<char>(in), {});
}

/// The exit status; -1 when there is no such program. What it says goes to `log`.
int run_compiler(std::vector<std::string> words, const std::filesystem::path& log) {
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_addopen(&actions, 0, "/dev/null", O_RDONLY, 0);
  posix_spawn_file_actions_addopen(&actions, 1, "/dev/null", O_WRONLY, 0);
  posix_spawn_file_actions_addopen(&actions, 2, log.c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0600);
  std::vector<char*> argv;
  for (std::string& w : words) argv.push_back(w.data());
  argv.push_back(nullptr);
  pid_t child = 0;
  const int failure = posix_spawnp(&child, argv[0], &actions, nullptr, argv.data(), environ);
  posix_spawn_file_actions_destroy(&actions);
  if (failure != 0) return -1;
  int status = 0;
  while (waitpid(child, &status, 0) < 0 && errno == EINTR) {
  }
  return !WIFEXITED(status) ? 1 : WEXITSTATUS(status) == 127 ? -1 : WEXITSTATUS(status);
}

}  // namespace

void run_c_compiler(std::vector<std::string> words, const std::string& what, const CRefusal& refusal) {
  const TemporaryFolder folder("the C compiler");
  const auto log = folder.path / "said";
  words.insert(words.begin(), "");
  const char* given = std::getenv("TENON_CC");
  const std::vector<std::string> compilers =
      given && *given ? std::vector<std::string>{given} : std::vector<std::string>{"cc", "gcc", "clang"};
  for (const std::string& compiler : compilers) {
    words[0] = compiler;
    const int status = run_compiler(words, log);
    if (status < 0) continue;
    if (status == 0) return;
    fail(refusal.code,
         fmt::format("the C compiler `{}` refuses {}: {}", compiler, what, bytes_of(log).substr(0, 500)), {},
         "name another one with TENON_CC", refusal.kind);
  }
  fail("T0819", fmt::format("C text needs a C compiler, and there is no `{}`", compilers.front()), {},
       "install one, or name it with TENON_CC", ErrorKind::io);
}

std::string compile_c(const std::string& text, const Target& target, const std::string& what,
                      const CRefusal& refusal, bool warnings) {
  const TemporaryFolder folder("the C compiler");
  const auto source = folder.path / "text.c", object = folder.path / "text.o";
  {
    std::ofstream file(source, std::ios::binary);
    file << text;
    if (!file.flush())
      fail("T3003", "cannot write " + source.string(), {}, "set TMPDIR to a directory with room",
           ErrorKind::io);
  }
  std::vector<std::string> words{"-std=c11",        "-O2", "-fPIC",         "-fno-stack-protector",
                                 "-fno-math-errno", "-c",  source.string(), "-o",
                                 object.string()};
  if (!warnings) words.emplace_back("-w");
  // Only what the target has; the artifact says that it needs it.
  constexpr const char* kFlags[][2] = {
      {"sse4_1", "-msse4.1"}, {"sse4_2", "-msse4.2"}, {"popcnt", "-mpopcnt"}, {"avx", "-mavx"},
      {"avx2", "-mavx2"},     {"fma", "-mfma"},       {"f16c", "-mf16c"},     {"avx512f", "-mavx512f"}};
  for (const auto& [feature, flag] : kFlags)
    if (target->has(feature)) words.emplace_back(flag);
  run_c_compiler(std::move(words), what, refusal);
  return bytes_of(object);
}

}  // namespace tenon::codegen
