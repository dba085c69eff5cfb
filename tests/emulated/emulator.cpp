// SPDX-License-Identifier: Apache-2.0
#include "emulator.h"

#include <fcntl.h>
#include <spawn.h>
#include <sys/wait.h>

#include <csignal>
#include <cstdlib>
#include <fstream>
#include <sstream>
#include <stdexcept>

#include "base/temporary_folder.h"
#include "runtime/executable.h"
#include "wire.h"

extern char** environ;

namespace tenon::test {

Emulator* Emulator::get() {
  static const bool asked = std::getenv("TENON_EMULATED_TARGET") && std::getenv("TENON_EMULATOR");
  static std::unique_ptr<Emulator> emulator(asked ? new Emulator : nullptr);
  return emulator.get();
}

Emulator::Emulator()
    : target(parse_target(std::getenv("TENON_EMULATED_TARGET"))), command_(std::getenv("TENON_EMULATOR")) {
  base = parse_target(target->kind + " -mtriple=" + target->triple);
  std::signal(SIGPIPE, SIG_IGN);  // a runner that ended is an error of the test, not its end
}
Emulator::~Emulator() { stop(); }

void Emulator::start() {
  if (pid_ > 0) return;
  int down[2], up[2];
  if (pipe2(down, O_CLOEXEC) != 0 || pipe2(up, O_CLOEXEC) != 0)
    throw std::runtime_error("no pipe to the emulator");
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_adddup2(&actions, down[0], STDIN_FILENO);
  posix_spawn_file_actions_adddup2(&actions, up[1], STDOUT_FILENO);
  std::vector<std::string> words;
  std::istringstream all(command_);
  for (std::string word; all >> word;) words.push_back(word);
  std::vector<char*> argv;
  for (std::string& word : words) argv.push_back(word.data());
  argv.push_back(nullptr);
  const int failure = posix_spawnp(&pid_, argv[0], &actions, nullptr, argv.data(), environ);
  posix_spawn_file_actions_destroy(&actions);
  close(down[0]);
  close(up[1]);
  to_ = down[1];
  from_ = up[0];
  if (failure != 0) {
    pid_ = -1;
    throw std::runtime_error("the emulator does not start: " + command_);
  }
}

void Emulator::stop() {
  if (pid_ <= 0) return;
  close(to_);
  close(from_);
  int status = 0;
  while (waitpid(pid_, &status, 0) < 0 && errno == EINTR) {
  }
  pid_ = -1;
}

Emulator::KernelResult Emulator::run_kernel(const std::string& shared_object, const std::string& symbol,
                                            const std::vector<NDArray>& arrays,
                                            const std::vector<int64_t>& scalars, int64_t chunk,
                                            int64_t fail_above) {
  const TemporaryFolder folder("an emulated test");
  const std::string path = (folder.path / "kernels.so").string();
  std::ofstream(path, std::ios::binary).write(shared_object.data(), std::streamsize(shared_object.size()));
  start();
  Message request;
  request.put(kRunKernel).put(path).put(symbol).put(chunk).put(fail_above).put(int64_t(arrays.size()));
  for (const NDArray& a : arrays) request.put(a.data(), a.byte_size());
  request.put(int64_t(scalars.size()));
  for (const int64_t s : scalars) request.put(s);
  KernelResult out;
  Incoming answer(from_);
  if (request.send(to_)) out.error = answer.bytes();
  if (out.error.empty()) {
    out.code = int32_t(answer.number());
    out.live = answer.number();
    out.allocated = answer.number();
    out.parallel_calls = answer.number();
    out.last_cost = answer.number();
    for (const NDArray& a : arrays) {
      const std::string bytes = answer.bytes();
      if (answer.good() && bytes.size() == a.byte_size() && !bytes.empty())
        std::memcpy(a.data(), bytes.data(), bytes.size());
    }
  }
  if (!answer.good()) {
    stop();
    out.error = "the kernel ended the emulator";
  }
  return out;
}

std::vector<NDArray> Emulator::run_model(const std::string& path, std::span<const NDArray> inputs) {
  start();
  Message request;
  request.put(kRunModel).put(path).put(int64_t(inputs.size()));
  for (const NDArray& a : inputs) {
    request.put(dtype_word(a.dtype())).put(int64_t(a.ndim()));
    for (const int64_t d : a.shape()) request.put(d);
    request.put(a.data(), a.byte_size());
  }
  Incoming answer(from_);
  std::string wrong;
  std::vector<NDArray> out;
  if (request.send(to_)) wrong = answer.bytes();
  if (wrong.empty()) {
    const int64_t count = answer.number();
    for (int64_t i = 0; answer.good() && i < count; ++i) {
      const DataType type = dtype_of_word(answer.number());
      std::vector<int64_t> shape(size_t(answer.good() ? answer.number() : 0));
      for (int64_t& d : shape) d = answer.number();
      const std::string bytes = answer.bytes();
      if (answer.good()) out.push_back(NDArray::from_bytes(shape, type, bytes.data(), bytes.size()));
    }
  }
  if (!answer.good()) {
    stop();
    wrong = "the model ended the emulator";
  }
  if (!wrong.empty()) throw std::runtime_error(wrong);
  return out;
}

}  // namespace tenon::test
