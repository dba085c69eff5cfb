// SPDX-License-Identifier: Apache-2.0
// ONNX's own expected data judges the conversions: every model of the backend suite is imported, run by the
// interpreter and compared. conformance.txt lists the models that do not simply pass, each with its outcome:
//   T2102 (or another code)   refused with this code
//   constants                 imports when small inputs of the suite are made constants, and passes so
//   data                      imports; its data are sequences, optionals or strings, which this test cannot
//   read
// A model with another outcome fails the test, also a better one: TENON_UPDATE=1 writes the list anew.
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <fstream>
#include <iostream>
#include <map>

#include "base/diagnostic.h"
#include "files.h"
#include "import/onnx/load.h"
#include "interpret/interpret.h"
#include "judge.h"

namespace tenon {
namespace {

namespace fs = std::filesystem;

const std::string kList = TENON_SOURCE_DIR "/tests/unit/import/conformance.txt";

/// "node/test_abs" → outcome, for the models that do not simply pass.
std::map<std::string, std::string> expected_outcomes() {
  std::map<std::string, std::string> out;
  std::ifstream in(kList);
  for (std::string name, outcome; in >> name >> outcome;) out[name] = outcome;
  return out;
}

std::vector<std::string> sorted_folders(const std::string& path) {
  std::vector<std::string> out;
  for (const auto& e : fs::directory_iterator(path))
    if (e.is_directory() && fs::exists(e.path() / "model.onnx")) out.push_back(e.path().string());
  std::sort(out.begin(), out.end());
  return out;
}

/// Nothing when they are sequences, optional values or strings.
std::optional<std::vector<NDArray>> read_all(const std::string& folder, const std::string& kind) {
  std::vector<NDArray> out;
  for (int i = 0;; ++i) {
    const std::string path = folder + "/test_data_set_0/" + kind + "_" + std::to_string(i) + ".pb";
    if (!fs::exists(path)) return out;
    try {
      out.push_back(onnx::read_tensor_proto(path));
    } catch (const DiagnosticError&) {
      return std::nullopt;
    }
  }
}

/// The suite's numbers are those of NumPy's generator: types and shapes are what can be compared.
bool is_random(const std::string& name) {
  return name.find("bernoulli") != std::string::npos ||
         (name.find("training_dropout") != std::string::npos && name.find("zero_ratio") == std::string::npos);
}

/// Whether a model's input can be made a constant: shapes and axes that the suite gives as inputs are
/// constants in real models.
bool can_be_constant(const std::string& name, size_t i, const std::vector<NDArray>& inputs) {
  const bool data_input = i == 0 && inputs.size() > 1 && name.find("constantofshape") == std::string::npos &&
                          name.find("melweight") == std::string::npos &&
                          name.find("range") == std::string::npos;
  return !data_input && inputs[i].size() <= 64;
}

struct Imported {
  std::string outcome;  ///< "" when the model imports as it is
  std::string why;      ///< of a refusal
  IRModule module;
  std::vector<NDArray> inputs;  ///< of `main`
};

Imported import_model(const std::string& folder, const std::optional<std::vector<NDArray>>& inputs) {
  Imported out;
  const std::string path = folder + "/model.onnx", name = fs::path(folder).filename().string();
  try {
    out.module = onnx::import_onnx(path);
    if (inputs) out.inputs = *inputs;
    return out;
  } catch (const DiagnosticError& e) {
    out.outcome = e.code;
    out.why = e.what();
    if (!inputs || out.why.find("not known at import") == std::string::npos) return out;
  }
  onnx::ImportOptions options;
  const onnx::OnnxInfo info = onnx::read_onnx_info(path);
  for (size_t i = 0; i < inputs->size(); ++i)
    if (can_be_constant(name, i, *inputs))
      options.values[info.inputs[i].name] = (*inputs)[i];
    else
      out.inputs.push_back((*inputs)[i]);
  try {
    out.module = onnx::import_onnx(path, options);
    out.outcome = "constants";
  } catch (const DiagnosticError& e) {
    out.outcome = e.code;
    out.why = e.what();
  }
  return out;
}

/// "" when the interpreter gives the expected outputs.
std::string wrong_result(const Imported& model, const std::vector<NDArray>& want, bool random) {
  std::vector<Any> arguments(model.inputs.begin(), model.inputs.end());
  arguments.resize(model.module.find("main").as<graph::Function>()->params.size());
  const Any result = interpret(model.module, "main", arguments);
  std::vector<NDArray> got;
  if (want.size() == 1)
    got.push_back(result.as<NDArray>());
  else
    for (const Any& a : result.as<Array<Any>>()) got.push_back(a.as<NDArray>());
  for (size_t i = 0; i < want.size(); ++i)
    if (std::string d = test::difference(got.at(i), want[i], random); !d.empty())
      return "output " + std::to_string(i) + ": " + d;
  return "";
}

class Conformance : public testing::TestWithParam<const char*> {};

TEST_P(Conformance, EveryModelHasItsOutcome) {
  const std::string root = test::conformance_folder(), suite = GetParam();
  if (root.empty())
    GTEST_SKIP() << "the conformance archive is missing: " << test::shared_folder()
                 << "/conformance/onnx-1.22.0-backend-test-data.tar.xz";
  const char* only = std::getenv("TENON_ONNX_TEST");
  std::map<std::string, std::string> listed = expected_outcomes(), found;
  int ran = 0, skipped = 0;
  for (const std::string& folder : sorted_folders(root + "/" + suite)) {
    if (only && folder.find(only) == std::string::npos) continue;
    const std::string name = fs::path(folder).filename().string(), key = suite + "/" + name;
    const auto inputs = read_all(folder, "input"), outputs = read_all(folder, "output");
    Imported model = import_model(folder, inputs);
    if (model.module.get() && (!inputs || !outputs)) model.outcome = "data";
    if (!model.outcome.empty()) found[key] = model.outcome;
    const auto expected = listed.find(key);
    if (!std::getenv("TENON_UPDATE")) {
      EXPECT_EQ(model.outcome, expected == listed.end() ? "" : expected->second) << key << "\n" << model.why;
    }
    if (!model.module.get() || !inputs || !outputs) continue;
    int64_t work = 0;
    for (const auto* list : {&*inputs, &*outputs})
      for (const NDArray& x : *list) work += x.size();
    if (work > 60'000 && !std::getenv("TENON_SLOW_TESTS")) {
      ++skipped;
      continue;
    }
    ++ran;
    try {
      EXPECT_EQ(wrong_result(model, *outputs, is_random(name)), "") << key;
    } catch (const std::exception& e) {
      ADD_FAILURE() << key << ": " << std::string(e.what()).substr(0, 300);
    }
  }
  if (std::getenv("TENON_UPDATE")) {
    for (auto it = listed.begin(); it != listed.end();)
      it = it->first.starts_with(suite + "/") ? listed.erase(it) : ++it;
    listed.merge(found);
    std::ofstream out(kList);
    for (const auto& [name, outcome] : listed) out << name << " " << outcome << "\n";
  }
  std::cout << suite << ": " << ran << " ran, " << found.size() << " listed, " << skipped
            << " too large to interpret\n";
}
INSTANTIATE_TEST_SUITE_P(Onnx, Conformance,
                         testing::Values("node", "simple", "pytorch-converted", "pytorch-operator"),
                         [](const auto& i) {
                           std::string s = i.param;
                           std::replace(s.begin(), s.end(), '-', '_');
                           return s;
                         });

/// The list is about models that exist.
TEST(ConformanceList, NamesModelsOfTheSuite) {
  const std::string root = test::conformance_folder();
  if (root.empty()) GTEST_SKIP() << "the conformance archive is missing";
  for (const auto& [name, outcome] : expected_outcomes())
    EXPECT_TRUE(fs::exists(root + "/" + name + "/model.onnx")) << name;
}

}  // namespace
}  // namespace tenon
