// SPDX-License-Identifier: Apache-2.0
// A small model for every converter, with the values that ONNX's reference evaluator gives (samples.json,
// written by make_samples.py): run by the interpreter and as compiled code. What is refused today stands
// there with its code.
#include <gtest/gtest.h>

#include <set>

#include "base/diagnostic.h"
#include "import/onnx/load.h"
#include "interpret/interpret.h"
#include "judge.h"
#include "pipeline/emit.h"
#include "samples.h"

namespace tenon {
namespace {

using namespace test;

using RunModel = std::function<std::vector<Any>(const std::vector<Any>&)>;

/// The code with which one run of a sample ends; empty: it gave what is expected.
std::string judge_run(const RunModel& run, const json& given, bool random) {
  try {
    const std::vector<Any> got = run(values(given.at("inputs")));
    if (given.contains("refused")) return {};
    const std::vector<Any> want = values(given.at("outputs"));
    EXPECT_EQ(got.size(), want.size());
    for (size_t i = 0; i < std::min(got.size(), want.size()); ++i)
      EXPECT_EQ(difference(got[i], want[i], random), "") << "output " << i;
  } catch (const Error& e) {
    if (!given.contains("refused")) ADD_FAILURE() << e.what();
    return e.code;
  }
  return {};
}

/// Runs every sample that imports, and holds what is refused against what should be. `prepare` makes a module
/// ready to run; `codes`: a refused run ends with the code of compiled programs.
void judge(const std::function<RunModel(const IRModule&)>& prepare, bool codes) {
  const char* only = std::getenv("TENON_SAMPLE");
  for (const json& sample : samples()) {
    const std::string name = sample.at("name"), refused = sample.value("refused", std::string());
    if (only && name != only) continue;
    SCOPED_TRACE(name);
    std::string code;
    try {
      const RunModel run = prepare(onnx::import_onnx_bytes(model_of(sample), name));
      if (!sample.contains("runs")) code = judge_run(run, sample, sample.contains("random"));
      for (const json& given : object_of(sample, "runs")) {
        const std::string got = judge_run(run, given, false), wanted = given.value("refused", std::string());
        if (codes || got.empty() || wanted.empty()) {
          EXPECT_EQ(got, wanted) << given.at("inputs");
        }
      }
    } catch (const Error& e) {
      code = e.code;
      if (refused.empty()) ADD_FAILURE() << e.what();
    }
    EXPECT_EQ(code, refused);
  }
}

/// No sample gives a single sequence.
std::vector<Any> results_of(const Any& result) {
  const auto tuple = result.try_as<Array<Any>>();
  return tuple && *tuple ? tuple->vec() : std::vector<Any>{result};
}
/// All inputs and outputs are tensors of numbers.
bool is_plain(const IRModule& module) {
  const auto main = module.find("main").as<graph::Function>();
  const graph::Type result = graph::result_of(main->body)->type;
  bool plain = !result.is<graph::ObjectType>();
  if (const auto* t = result.as<graph::TupleType>())
    for (const graph::Type& i : t->items) plain = plain && graph::as_tensor(i);
  for (const auto& p : main->params) plain = plain && graph::as_tensor(p->declared);
  return plain;
}

TEST(Samples, EveryConverterHasOne) {
  std::set<std::string> used;
  for (const json& sample : samples())
    if (!sample.contains("refused"))
      for (const json& n : sample.at("nodes"))
        used.insert((n.contains("domain") ? n.at("domain").get<std::string>() + "::" : "") +
                    n.at("op").get<std::string>());
  for (const onnx::OnnxCoverage& op : onnx::onnx_coverage())
    EXPECT_TRUE(used.count(op.name)) << op.name << " has no case in make_samples.py that imports";
}

TEST(Samples, InterpretedModelsGiveTheExpectedValues) {
  judge(
      [](const IRModule& module) -> RunModel {
        return [module](const std::vector<Any>& inputs) {
          return results_of(interpret(module, "main", inputs));
        };
      },
      false);
}

RunModel compiled(const IRModule& module, int level) {
  CompileOptions options;
  options.opt_level = level;
  const auto session = std::make_shared<Session>(jit_artifact(compile(module, options)));
  return [session, plain = is_plain(module)](const std::vector<Any>& inputs) {
    if (!plain) return results_of(session->call("main", inputs));
    std::vector<NDArray> tensors;
    for (const Any& v : inputs) tensors.push_back(v.as<NDArray>());
    const std::vector<NDArray> got = session->invoke(tensors);
    return std::vector<Any>(got.begin(), got.end());
  };
}
TEST(Samples, CompiledModelsGiveTheExpectedValues) {
  judge([](const IRModule& module) { return compiled(module, 2); }, true);
}
TEST(Samples, ModelsCompiledWithoutOptimisationGiveTheExpectedValues) {
  judge([](const IRModule& module) { return compiled(module, 0); }, true);
}

}  // namespace
}  // namespace tenon
