// SPDX-License-Identifier: Apache-2.0
// ONNX's own expected data judges the conversions: every model of the backend suite that imports is run by
// the interpreter and compared. What is refused must be refused by name.
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <fstream>
#include <iostream>
#include <map>
#include <set>

#include "base/diagnostic.h"
#include "files.h"
#include "import/onnx/load.h"
#include "interpret/interpret.h"

namespace tenon {
namespace {

namespace fs = std::filesystem;

std::vector<std::string> sorted_folders(const std::string& path) {
  std::vector<std::string> out;
  for (const auto& e : fs::directory_iterator(path))
    if (e.is_directory()) out.push_back(e.path().string());
  std::sort(out.begin(), out.end());
  return out;
}

std::vector<NDArray> read_all(const std::string& folder, const std::string& kind) {
  std::vector<NDArray> out;
  for (int i = 0;; ++i) {
    const std::string path = folder + "/" + kind + "_" + std::to_string(i) + ".pb";
    if (!fs::exists(path)) return out;
    out.push_back(onnx::read_tensor_proto(path));
  }
}

/// The suite's numbers are those of NumPy's generator: types and shapes are what can be compared.
bool is_random(const std::string& name) {
  return name.find("bernoulli") != std::string::npos ||
         (name.find("training_dropout") != std::string::npos && name.find("zero_ratio") == std::string::npos);
}

/// "" when equal within the suite's tolerance.
std::string difference(const NDArray& got, const NDArray& want, bool random) {
  if (got.dtype() != want.dtype())
    return "type " + to_string(got.dtype()) + ", expected " + to_string(want.dtype());
  if (got.shape() != want.shape()) return "another shape";
  if (random) return "";
  const bool narrow = want.dtype().is_float() && want.dtype().bits < 32;
  for (int64_t i = 0; i < want.size(); ++i) {
    if (!want.dtype().is_float()) {
      if (got.element_int(i) != want.element_int(i))
        return "element " + std::to_string(i) + " is " + std::to_string(got.element_int(i)) + ", expected " +
               std::to_string(want.element_int(i));
      continue;
    }
    const double a = got.element(i), b = want.element(i);
    if (std::isnan(a) && std::isnan(b)) continue;
    if (a == b) continue;
    const double tolerance = (narrow ? 1e-2 : 1e-3) * std::abs(b) + (narrow ? 1e-3 : 1e-6) + 1e-7;
    if (!(std::abs(a - b) <= tolerance))
      return "element " + std::to_string(i) + " is " + std::to_string(a) + ", expected " + std::to_string(b);
  }
  return "";
}

struct Tally {
  int ran = 0, equal = 0, refused = 0, skipped = 0;
  std::vector<std::string> wrong;
  std::map<std::string, int> reasons;
};

void run_model(const std::string& folder, Tally& tally) {
  const std::string name = fs::path(folder).filename().string();
  const std::string data = folder + "/test_data_set_0";
  std::vector<NDArray> inputs, outputs;
  try {
    inputs = read_all(data, "input");
    outputs = read_all(data, "output");
  } catch (const DiagnosticError&) {
    ++tally.skipped;  // sequences, optional values, strings
    return;
  }
  IRModule module;
  onnx::ImportOptions options;
  try {
    try {
      module = onnx::import_onnx(folder + "/model.onnx");
    } catch (const DiagnosticError& e) {
      // Shapes and axes that the suite gives as inputs are constants in real models: fix them.
      if (std::string(e.what()).find("not known at import") == std::string::npos) throw;
      const onnx::OnnxInfo info = onnx::read_onnx_info(folder + "/model.onnx");
      std::vector<NDArray> rest;
      for (size_t i = 0; i < inputs.size(); ++i) {
        const bool data_input =
            i == 0 && inputs.size() > 1 && name.find("constantofshape") == std::string::npos &&
            name.find("melweight") == std::string::npos && name.find("range") == std::string::npos;
        if (data_input || inputs[i].size() > 64)
          rest.push_back(inputs[i]);
        else
          options.values[info.inputs[i].name] = inputs[i];
      }
      module = onnx::import_onnx(folder + "/model.onnx", options);
      inputs = rest;
    }
  } catch (const DiagnosticError& e) {
    // A refusal is fine when it says so by code; an inference error of a valid model is not.
    ++tally.refused;
    for (const Diagnostic& d : e.diagnostics) ++tally.reasons[d.code + " " + d.message.substr(0, 90)];
    if (e.code.substr(0, 3) != "T21" && e.code != "T2008") tally.wrong.push_back(name + ": " + e.what());
    return;
  }
  int64_t work = 0;
  for (const NDArray& x : inputs) work += x.size();
  for (const NDArray& x : outputs) work += x.size();
  if (work > 60'000 && !std::getenv("TENON_SLOW_TESTS")) {
    ++tally.skipped;
    return;
  }
  ++tally.ran;
  try {
    std::vector<Any> args(inputs.begin(), inputs.end());
    const auto* f = module.find("main").as<graph::Function>();
    args.resize(f->params.size());
    Any result = interpret(module, "main", args);
    std::vector<NDArray> got;
    if (outputs.size() == 1)
      got.push_back(result.as<NDArray>());
    else
      for (const Any& a : result.as<Array<Any>>()) got.push_back(a.as<NDArray>());
    for (size_t i = 0; i < outputs.size(); ++i)
      if (std::string d = difference(got.at(i), outputs[i], is_random(name)); !d.empty()) {
        tally.wrong.push_back(name + ": output " + std::to_string(i) + ": " + d);
        return;
      }
    ++tally.equal;
  } catch (const std::exception& e) {
    tally.wrong.push_back(name + ": " + std::string(e.what()).substr(0, 300));
  }
}

class Conformance : public testing::TestWithParam<const char*> {};

TEST_P(Conformance, ImportedModelsComputeTheExpectedValues) {
  const std::string root = test::conformance_folder();
  if (root.empty())
    GTEST_SKIP() << "the conformance archive is missing: " << test::shared_folder()
                 << "/conformance/onnx-1.22.0-backend-test-data.tar.xz";
  const char* only = std::getenv("TENON_ONNX_TEST");
  Tally tally;
  for (const std::string& folder : sorted_folders(root + "/" + GetParam())) {
    if (!fs::exists(folder + "/model.onnx") || (only && folder.find(only) == std::string::npos)) continue;
    const auto start = std::chrono::steady_clock::now();
    run_model(folder, tally);
    const double s = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
    if (s > 1 && std::getenv("TENON_VERBOSE")) std::cout << "slow: " << folder << " " << s << " s\n";
  }
  std::cout << GetParam() << ": " << tally.ran << " ran, " << tally.equal << " equal, " << tally.refused
            << " refused, " << tally.skipped << " skipped\n";
  if (std::getenv("TENON_VERBOSE"))
    for (const auto& [reason, count] : tally.reasons) std::cout << "  " << count << " × " << reason << "\n";
  for (const std::string& w : tally.wrong) ADD_FAILURE() << w;
}
INSTANTIATE_TEST_SUITE_P(Onnx, Conformance,
                         testing::Values("node", "simple", "pytorch-converted", "pytorch-operator"),
                         [](const auto& i) {
                           std::string s = i.param;
                           std::replace(s.begin(), s.end(), '-', '_');
                           return s;
                         });

}  // namespace
}  // namespace tenon
