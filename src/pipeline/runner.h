// SPDX-License-Identifier: Apache-2.0
// Compile in this process and run: what the command and tests use between compile() and a Session.
#pragma once
#include "pipeline/compile.h"
#include "runtime/vm.h"

namespace tenon {

class Runner {
 public:
  explicit Runner(IRModule module, CompileOptions options = {}, SessionOptions session = {});
  /// Results of `main`.
  std::vector<NDArray> run(std::span<const NDArray> inputs) { return session_.invoke(inputs); }
  std::vector<NDArray> run(std::initializer_list<NDArray> inputs) { return session_.invoke(inputs); }
  Session& session() { return session_; }
  const Compiled& compiled() const { return compiled_; }

 private:
  Compiled compiled_;
  Session session_;
};

}  // namespace tenon
