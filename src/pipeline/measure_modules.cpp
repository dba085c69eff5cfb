// SPDX-License-Identifier: Apache-2.0
#include "pipeline/measure_modules.h"

#include <algorithm>
#include <chrono>
#include <memory>

#include "pipeline/runner.h"
#include "runtime/artifact.h"

namespace tenon {
namespace {

constexpr double kSecondsEach = 0.1;  ///< long enough for a hundred runs of a millisecond
constexpr int kLeastRuns = 3;

/// Ones for floats, which no library skips as it may zeros; zeros for integers, which may be places in
/// arrays.
NDArray plain_values(const std::vector<int64_t>& shape, DataType t) {
  NDArray a = NDArray::zeros(shape, t);
  if (t.is_float())
    for (int64_t i = 0; i < a.size(); ++i) a.set_element(i, 1);
  return a;
}

/// A module's `main`, ready to run, and its inputs.
struct Candidate {
  Runner runner;
  std::vector<NDArray> inputs;
  double fastest = 0;
  int runs = 0;

  void run() {
    const auto start = std::chrono::steady_clock::now();
    runner.run(inputs);
    const std::chrono::duration<double> taken = std::chrono::steady_clock::now() - start;
    if (runs++ == 0) return;  // caches, pages and the library's own tables were cold
    fastest = runs == 2 ? taken.count() : std::min(fastest, taken.count());
  }
};

CompileOptions options_for(const CompileOptions& given, const Target& target) {
  CompileOptions o;
  Target own = target;
  own.edit()->libs = {};
  o.target = to_json(own);
  o.opt_level = given.opt_level;
  o.threads = given.threads;
  o.precision = given.precision;
  o.disable_passes = given.disable_passes;
  o.require_passes = given.require_passes;
  o.pass_options = given.pass_options;
  o.context.cancelled = given.context.cancelled;
  return o;
}

/// Inputs of `main`; none where a size is not known.
std::optional<std::vector<NDArray>> inputs_of(const IRModule& module) {
  std::vector<NDArray> inputs;
  const auto main = module.find("main").cast<graph::Function>();
  for (const graph::VarRef& p : main->params) {
    const auto shape = graph::static_shape(p->type);
    if (!shape) return std::nullopt;
    inputs.push_back(plain_values(*shape, graph::as_tensor(p->type)->dtype));
  }
  return inputs;
}

Measured measure(const std::vector<IRModule>& modules, const CompileOptions& options, const Target& target) {
  if (!missing_features({target->triple, target->cpu, target->features.vec()}).empty())
    return {{}, "nothing is measured: this machine lacks what the target has"};
  std::vector<std::unique_ptr<Candidate>> candidates;
  for (const IRModule& m : modules) {
    auto inputs = inputs_of(m);
    if (!inputs) return {{}, "nothing is measured: a size is not known"};
    candidates.push_back(std::make_unique<Candidate>(Runner(m, options), std::move(*inputs)));
  }
  const auto end = std::chrono::steady_clock::now() +
                   std::chrono::duration<double>(kSecondsEach * double(candidates.size()));
  for (int k = 0; k < kLeastRuns || std::chrono::steady_clock::now() < end; ++k)
    for (const auto& c : candidates) c->run();
  Measured out;
  for (const auto& c : candidates) out.seconds.push_back(c->fastest);
  return out;
}

}  // namespace

Measure make_measure(const CompileOptions& options, const Target& target) {
  if (!codegen::linker_for(target).load) return {};
  return [options = options_for(options, target), target](const std::vector<IRModule>& modules) {
    return measure(modules, options, target);
  };
}

}  // namespace tenon
