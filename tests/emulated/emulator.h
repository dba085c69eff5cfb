// SPDX-License-Identifier: Apache-2.0
// Tests that compile here and run on another processor (scripts/emulated): TENON_EMULATED_TARGET is the
// target, TENON_EMULATOR the command of the runner there, an emulator before it.
#pragma once
#include "runtime/ndarray.h"
#include "target/target.h"

namespace tenon::test {

class Emulator {
 public:
  /// Null where tests run on this machine.
  static Emulator* get();
  ~Emulator();

  Target target;  ///< as it was asked for
  Target base;    ///< the same kind of processor without any of its features

  /// What a kernel of a shared object did: its status, or why there is none.
  struct KernelResult {
    std::string error;
    int32_t code = 0;
    int64_t live = 0, allocated = 0, parallel_calls = 0, last_cost = 0;
  };
  /// `arrays` receive what the kernel writes.
  KernelResult run_kernel(const std::string& shared_object, const std::string& symbol,
                          const std::vector<NDArray>& arrays, const std::vector<int64_t>& scalars,
                          int64_t chunk, int64_t fail_above);
  /// The results of an artifact; an exception with what the runtime there said.
  std::vector<NDArray> run_model(const std::string& path, std::span<const NDArray> inputs);

 private:
  Emulator();
  void start();
  void stop();
  std::string command_;
  int pid_ = -1, to_ = -1, from_ = -1;
};

}  // namespace tenon::test
