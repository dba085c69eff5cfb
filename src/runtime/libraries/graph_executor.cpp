// SPDX-License-Identifier: Apache-2.0
// libtenon_graph_executor: a session with inputs that stay.
#include "runtime/libraries/graph_executor.h"

#include <algorithm>

namespace tenon {
namespace {

[[noreturn]] void not_straight(const std::string& why) {
  throw Error(ErrorKind::usage, "T0515", "the graph executor runs straight-line models; this one " + why, {},
              "run it by a session");
}

}  // namespace

GraphExecutor::GraphExecutor(Artifact artifact, SessionOptions options)
    : session_(std::move(artifact), options) {
  inputs_.resize(session_.artifact().inputs().size());
  check();
}

int GraphExecutor::num_outputs() const { return int(session_.artifact().outputs().size()); }

int GraphExecutor::input_index(std::string_view name) const {
  const auto infos = session_.artifact().inputs();
  const auto it = std::ranges::find(infos, name, &ValueInfo::name);
  return it == infos.end() ? -1 : int(it - infos.begin());
}
void GraphExecutor::set_input(int index, NDArray value) {
  if (index < 0 || index >= num_inputs())
    throw Error(ErrorKind::usage, "T0503",
                "there is no input " + std::to_string(index) + " of " + std::to_string(num_inputs()));
  inputs_[size_t(index)] = std::move(value);
}
void GraphExecutor::set_input(std::string_view name, NDArray value) {
  const int index = input_index(name);
  if (index < 0) throw Error(ErrorKind::usage, "T0503", "the model has no input `" + std::string(name) + "`");
  set_input(index, std::move(value));
}
void GraphExecutor::run() { outputs_ = session_.invoke(inputs_); }
NDArray GraphExecutor::output(int index) const {
  if (index < 0 || size_t(index) >= outputs_.size())
    throw Error(ErrorKind::usage, "T0516",
                outputs_.empty() ? "there are no outputs before the first run"
                                 : "there is no output " + std::to_string(index));
  return outputs_[size_t(index)];
}

std::vector<GraphExecutor::Timing> GraphExecutor::debug_run() {
  std::vector<Timing> out;
  session_.set_profile([&](std::string_view name, double ms) {
    if (!name.starts_with("vm.builtin.")) out.push_back({std::string(name), ms});
  });
  try {
    run();
  } catch (...) {
    session_.set_profile(nullptr);
    throw;
  }
  session_.set_profile(nullptr);
  return out;
}

void GraphExecutor::check() const {
  const Executable& e = session_.artifact().executable();
  const VMFunction& f = session_.artifact().main();
  for (uint32_t k = 0; k < f.num_instructions; ++k) {
    const Instruction& in = e.code[f.first_instruction + k];
    if (in.op == Opcode::Goto || in.op == Opcode::If) not_straight("has branches or loops");
    if (in.op != Opcode::Call) continue;
    const CalleeKind kind = e.callees[size_t(in.callee)].kind;
    if (kind == CalleeKind::Function || kind == CalleeKind::Closure) not_straight("calls functions");
  }
}

}  // namespace tenon
