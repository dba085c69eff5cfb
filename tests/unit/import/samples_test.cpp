// SPDX-License-Identifier: Apache-2.0
// A small model for every converter, with the values that ONNX's reference evaluator gives (samples.json,
// written by make_samples.py): run by the interpreter and as compiled code. What is refused today stands
// there with its code.
#include <dlfcn.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <fstream>
#include <iostream>
#include <set>

#include "base/diagnostic.h"
#include "base/temporary_folder.h"
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
    EXPECT_TRUE(used.count(op.name)) << op.name << " has no case in sample_cases that imports";
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
bool has_control_flow(const json& sample) {
  for (const json& n : sample.at("nodes")) {
    const std::string op = n.at("op");
    if (op == "If" || op == "Loop" || op == "Scan") return true;
  }
  return false;
}
/// The model as C text, through the strictest warnings of a compiler.
RunModel as_c(const IRModule& module, const std::string& compiler) {
  CompileOptions options;
  options.code = CodeForm::none;
  options.target = to_json(target_for("c", host_target()));
  const auto compiled = std::make_shared<Compiled>(compile(module, options));
  const TemporaryFolder folder("a test");
  const std::string at = folder.path.string();
  std::ofstream(at + "/m.c") << emit_text("c", *compiled);
  const std::string command =
      fmt::format("{0} -std=c11 -O1 -Wall -Wextra -Werror -shared -fPIC -o {1}/m.so {1}/m.c -lm 2> {1}/log",
                  compiler, at);
  if (std::system(command.c_str()) != 0) {
    std::ifstream log(at + "/log");
    ADD_FAILURE() << compiler << ": " << std::string(std::istreambuf_iterator<char>(log), {});
    return [](const std::vector<Any>&) { return std::vector<Any>(); };
  }
  const std::shared_ptr<void> library(dlopen((at + "/m.so").c_str(), RTLD_NOW | RTLD_LOCAL), [](void* p) {
    if (p) dlclose(p);
  });
  using Run = int32_t (*)(const void* const*, void* const*);
  const auto run = reinterpret_cast<Run>(dlsym(library.get(), "tenon_run"));
  return [compiled, library, run](const std::vector<Any>& inputs) {
    std::vector<NDArray> in, out;
    std::vector<const void*> from;
    std::vector<void*> to;
    const VMFunction* main = nullptr;
    for (const VMFunction& f : compiled->executable.functions)
      if (f.name == "main") main = &f;
    for (const Any& v : inputs) in.push_back(v.as<NDArray>());
    for (const NDArray& a : in) from.push_back(a.data());
    for (const ValueInfo& v : main->results) {
      std::vector<int64_t> shape;
      for (const DimInfo& d : v.shape) shape.push_back(d.value);
      out.push_back(NDArray::zeros(shape, v.dtype));
      to.push_back(out.back().data());
    }
    EXPECT_EQ(run(from.data(), to.data()), 0);
    // Twice: what the first run left in static memory does not matter.
    EXPECT_EQ(run(from.data(), to.data()), 0);
    return std::vector<Any>(out.begin(), out.end());
  };
}
/// Branches and loops in C over static memory; what needs sizes that only a run tells is refused by name.
TEST(Samples, ControlFlowAsCGivesTheExpectedValues) {
  const char* only = std::getenv("TENON_SAMPLE");
  size_t turn = 0, refused = 0;
  for (const json& sample : samples()) {
    const std::string name = sample.at("name");
    if (sample.contains("refused") || !has_control_flow(sample)) continue;
    if (only && name != only) continue;
    SCOPED_TRACE(name);
    const IRModule module = onnx::import_onnx_bytes(model_of(sample), name);
    if (!is_plain(module)) continue;
    try {
      const RunModel run = as_c(module, ++turn % 2 ? "gcc" : "clang-22");
      if (!sample.contains("runs")) {
        EXPECT_EQ(judge_run(run, sample, sample.contains("random")), "");
      }
      for (const json& given : object_of(sample, "runs")) {
        if (!given.contains("refused")) {
          EXPECT_EQ(judge_run(run, given, false), "");
        }
      }
    } catch (const Error& e) {
      ++refused;
      EXPECT_EQ(e.code, "T0924") << e.what();
      std::cout << name << ": " << e.what() << "\n";
    }
  }
  if (!only) {
    EXPECT_GE(turn, 2u + refused);
  }
}
TEST(Samples, ModelsCompiledWithoutOptimisationGiveTheExpectedValues) {
  judge([](const IRModule& module) { return compiled(module, 0); }, true);
}

}  // namespace
}  // namespace tenon
