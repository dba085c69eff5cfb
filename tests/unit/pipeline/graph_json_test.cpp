// SPDX-License-Identifier: Apache-2.0
// Graphs of operators as files: what runs from one gives what its artifact gives, and what does not fit is
// refused before it runs.
#include <tenon/tenon.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <random>

#include "pipeline/emit.h"
#include "runtime/artifact.h"
#include "runtime/libraries/graph_executor.h"
#include "support.h"

namespace tenon::graph::testing_graph {
namespace {

using json = nlohmann::json;
namespace fs = std::filesystem;

class GraphJson : public ::testing::Test {
 protected:
  void SetUp() override {
    char name[] = "/tmp/tenon_graph_XXXXXX";
    folder = mkdtemp(name);
    path = folder + "/model.json";
  }
  void TearDown() override { fs::remove_all(folder); }

  json write(const IRModule& m) {
    CompileOptions options;
    options.threads = 1;
    write_emitted("json", path, compile(m, options));
    return json::parse(std::ifstream(path));
  }
  /// The code with which the file is refused; "" when it is not.
  std::string refusal(const std::string& text) {
    std::ofstream(path) << text;
    try {
      Artifact::load(path);
      return "";
    } catch (const Error& e) {
      EXPECT_EQ(e.kind, ErrorKind::model) << e.message;
      EXPECT_EQ(e.location.substr(0, folder.size()), folder) << e.message;
      return e.code;
    }
  }
  std::string refusal(const json& j) { return refusal(j.dump()); }
  std::vector<NDArray> run_graph(const std::vector<NDArray>& inputs) {
    Session session(Artifact::load(path), {.threads = 1});
    return session.invoke(inputs);
  }
  std::string folder, path;
};

ObjectRef axis(int64_t n) { return op::make_attrs<op::AxisAttrs>(n); }

/// Sums and softmaxes, so that several kernels and memory between them stay.
IRModule chain() {
  Model m;
  auto x = m.param("x", {4, 40});
  Expr a = m.op("nn.softmax", {m.op("exp", {x})}, axis(-1));
  Expr b = m.op("nn.softmax", {m.op("add", {a, m.weight({40})})}, axis(0));
  Expr c = m.op("nn.softmax", {m.op("multiply", {a, b})}, axis(-1));
  Expr d = m.op("nn.softmax", {m.op("add", {c, b})}, axis(0));
  return m.done(m.op("nn.softmax", {d}, axis(-1)));
}

IRModule joined() {
  Model m;
  auto x = m.param("x", {1, 4, 16});
  auto summed = [&](std::string_view name, const Expr& e) {
    return m.op("nn.softmax", {m.op(name, {e})}, axis(-1));
  };
  Expr all = m.op("concat", {op::tuple({summed("exp", x), summed("sin", x), summed("tanh", x)})}, axis(1));
  return m.done(m.op("nn.softmax", {all}, axis(1)));
}

TEST_F(GraphJson, RunsAsItsArtifactDoes) {
  auto several = [] {
    Model m;
    auto x = m.param("x", {4, 40});
    Expr w = m.weight({3});
    Expr y = m.op("nn.softmax", {x}, axis(-1));
    return m.done(op::tuple({y, x, w, y, m.op("reshape", {y, op::shape({8, 20})})}));
  };
  for (const auto& [name, m, shape] : {std::tuple("chain", chain(), std::vector<int64_t>{4, 40}),
                                       std::tuple("joined", joined(), std::vector<int64_t>{1, 4, 16}),
                                       std::tuple("several", several(), std::vector<int64_t>{4, 40})}) {
    write(m);
    const NDArray x = random_array(shape);
    Session session(Artifact::load(path + ".so"), {.threads = 1});
    const std::vector<NDArray> want = session.invoke({x}), got = run_graph({x});
    ASSERT_EQ(want.size(), got.size()) << name;
    expect_close(want, got, 0);
    expect_close(run(m, {x}), got, 1e-5);
  }
}

/// The same file loaded twice and released in any order leaves nothing that a later file is taken for.
TEST_F(GraphJson, FilesThatFollowOneAnotherAreNotMistaken) {
  Artifact graph, code;
  const IRModule modules[] = {chain(), joined()};
  for (int k = 0; k < 6; ++k) {
    write(modules[k % 2]);
    const NDArray x = k % 2 ? random_array({1, 4, 16}) : random_array({4, 40});
    graph = Artifact::load(path);
    code = Artifact::load(path + ".so");
    for (const Artifact& a : {graph, code}) {
      Session session(a, {.threads = 1});
      expect_close(run(modules[k % 2], {x}), session.invoke({x}), 1e-5);
    }
  }
}

TEST_F(GraphJson, TheExecutorTimesItsOperators) {
  const json j = write(chain());
  GraphExecutor executor(Artifact::load(path));
  executor.set_input("x", random_array({4, 40}));
  size_t operators = 0;
  for (const json& n : j.at("nodes"))
    operators += n.at("op") == "tenon_op" && n.at("attrs").at("func_name") != "__nop";
  EXPECT_EQ(executor.debug_run().size(), operators);
}

TEST_F(GraphJson, TheInterfaceOfCLoadsIt) {
  write(chain());
  const NDArray x = random_array({4, 40});
  const std::vector<NDArray> want = run_graph({x});
  TenonArtifact* artifact = nullptr;
  TenonSession* session = nullptr;
  ASSERT_EQ(tenon_artifact_load(path.c_str(), TENON_LOAD_CHECK | TENON_LOAD_COPY, &artifact), TENON_OK)
      << tenon_last_error()->message;
  ASSERT_EQ(tenon_session_create(artifact, nullptr, &session), TENON_OK);
  std::vector<float> y(160);
  const int64_t shape[] = {4, 40};
  ASSERT_EQ(tenon_session_input_index(session, "x"), 0);
  ASSERT_EQ(tenon_session_set_input_data(session, 0, x.data(), tenon_dtype("float32"), 2, shape), TENON_OK);
  ASSERT_EQ(tenon_session_set_output_data(session, 0, y.data(), tenon_dtype("float32"), 2, shape), TENON_OK);
  ASSERT_EQ(tenon_session_run(session), TENON_OK) << tenon_last_error()->message;
  for (size_t i = 0; i < y.size(); ++i) EXPECT_EQ(y[i], want[0].element(int64_t(i)));
  tenon_session_release(session);
  tenon_artifact_release(artifact);
  TenonModule* module = nullptr;
  ASSERT_EQ(tenon_module_load(path.c_str(), 0, nullptr, 0, &module), TENON_OK) << tenon_last_error()->message;
  EXPECT_STREQ(tenon_module_function_name(module, 0), "main");
  tenon_module_release(module);

  std::ofstream(path) << "{\"nodes\": [";
  EXPECT_EQ(tenon_artifact_load(path.c_str(), 0, &artifact), TENON_ERROR_MODEL);
  EXPECT_STREQ(tenon_last_error()->code, "T0616");
}

TEST_F(GraphJson, CutShortAnywhereIsRefused) {
  const std::string text = write(chain()).dump();
  for (size_t n = 1; n < text.size(); n += 1 + n / 64) EXPECT_EQ(refusal(text.substr(0, n)), "T0616") << n;
  EXPECT_EQ(refusal(text), "");
  EXPECT_EQ(refusal(text + "{}"), "T0616");
  EXPECT_EQ(refusal("{\"nodes\": " + std::string(100000, '[')), "T0616");
}

TEST_F(GraphJson, WhatIsLeftOutOrOfAnotherKindIsRefused) {
  const json whole = write(chain());
  for (const auto& [key, value] : whole.items()) {
    json j = whole;
    j.erase(key);
    EXPECT_EQ(refusal(j), "T0616") << key;
    j[key] = 7;
    EXPECT_EQ(refusal(j), "T0616") << key;
  }
  for (const auto& [key, value] : whole.at("attrs").items()) {
    json j = whole;
    j["attrs"].erase(key);
    EXPECT_EQ(refusal(j), "T0616") << key;
    j["attrs"][key] = json::array({"x"});
    EXPECT_EQ(refusal(j), "T0616") << key;
  }
  json j = whole;
  j["nodes"][1]["inputs"] = json::array({json::array({2, 0, 0})});  // of a node behind it
  EXPECT_EQ(refusal(j), "T0616");
  j = whole;
  j["nodes"].back()["attrs"]["num_inputs"] = 7;
  EXPECT_EQ(refusal(j), "T0616");
  EXPECT_EQ(refusal("{\"arg_nodes\": [], " + whole.dump().substr(1)), "T0616");
}

TEST_F(GraphJson, OperatorsAndSizesMustFitTheCode) {
  const json whole = write(chain());
  size_t last = whole.at("nodes").size() - 1;
  json j = whole;
  j["nodes"][last]["attrs"]["func_name"] = "absent";
  EXPECT_EQ(refusal(j), "T0617");
  j = whole;
  j["nodes"][last]["op"] = "other_op";
  EXPECT_EQ(refusal(j), "T0617");
  j = whole;
  j["attrs"]["shape"][last] = json::array({4, 41});
  j["attrs"]["outputs"][0]["shape"] = json::array({4, 41});
  EXPECT_EQ(refusal(j), "T0618");
  j = whole;
  j["attrs"]["dltype"][last] = "int32";
  j["attrs"]["outputs"][0]["dtype"] = "int32";
  EXPECT_EQ(refusal(j), "T0618");
  j = whole;
  j["attrs"]["outputs"][0]["shape"] = json::array({5});
  EXPECT_EQ(refusal(j), "T0618");
  j = whole;
  j["attrs"]["storage_bytes"] = 64;
  EXPECT_EQ(refusal(j), "T0618");
  j = whole;
  j["nodes"][last]["inputs"].push_back(json::array({0, 0, 0}));
  j["nodes"][last]["attrs"]["num_inputs"] = j["nodes"][last]["inputs"].size();
  EXPECT_EQ(refusal(j), "T0618");
  j = whole;
  j["attrs"]["code"]["hash"] = "123";
  EXPECT_EQ(refusal(j), "T0620");
  j = whole;
  j["attrs"]["code"]["file"] = "../model.json.so";
  EXPECT_EQ(refusal(j), "T0620");
  j = whole;
  j["attrs"]["code"]["file"] = "model.json";  // no code, but the graph itself
  EXPECT_EQ(refusal(j), "T0601");
}

/// Whatever places the tensors are given: the plan is refused, or the results are the same.
TEST_F(GraphJson, PlansThatOverlapAreRefused) {
  std::mt19937 random(1);
  size_t refused = 0, accepted = 0;
  for (const auto& [m, shape] : {std::pair(chain(), std::vector<int64_t>{4, 40}),
                                 std::pair(joined(), std::vector<int64_t>{1, 4, 16})}) {
    const json whole = write(m);
    const NDArray x = random_array(shape);
    const std::vector<NDArray> want = run_graph({x});
    const int64_t bytes = 8 * whole.at("attrs").at("storage_bytes").get<int64_t>();
    for (int k = 0; k < 150; ++k) {
      json j = whole;
      j["attrs"]["storage_bytes"] = bytes;
      json& offsets = j["attrs"]["storage_offset"];
      const bool all = k % 3 == 0;  // else one tensor moves
      size_t one = random() % offsets.size();
      while (offsets[one] == -1) one = random() % offsets.size();
      for (size_t i = 0; i < offsets.size(); ++i)
        if (offsets[i] != -1 && (all || i == one)) offsets[i] = int64_t(random() % uint64_t(bytes / 64)) * 64;
      const std::string code = refusal(j);
      if (code.empty()) {
        ++accepted;
        expect_close(want, run_graph({x}), 0);
      } else {
        ++refused;
        EXPECT_TRUE(code == "T0619" || code == "T0618") << code;
      }
    }
  }
  EXPECT_GT(refused, 20u);
  EXPECT_GT(accepted, 20u);
}

/// Numbers anywhere: no crash, and what is accepted runs.
TEST_F(GraphJson, DamagedNumbersDoNoHarm) {
  const std::string text = write(chain()).dump();
  const NDArray x = random_array({4, 40});
  for (size_t at = 0; at < text.size(); ++at) {
    if (!std::isdigit(text[at]) || (at > 0 && std::isalnum(text[at - 1]))) continue;
    size_t end = at;
    while (std::isdigit(text[end])) ++end;
    for (const char* number : {"0", "1", "-1", "3", "64", "4294967296", "9223372036854775807"}) {
      if (!refusal(text.substr(0, at) + number + text.substr(end)).empty()) continue;
      try {
        run_graph({x});
      } catch (const Error& e) {
        EXPECT_EQ(e.code, "T0505") << e.message;  // another input shape, whose kernels have no sizes
      }
    }
  }
}

TEST_F(GraphJson, SizesThatOnlyARunTellsHaveNoPlan) {
  Model m;
  const PrimExpr n = tir::var("n");
  auto x = m.param("x", {n, 3});
  CompileOptions options;
  options.threads = 1;
  const Compiled compiled = compile(m.done(m.op("nn.softmax", {x}, axis(-1))), options);
  try {
    write_emitted("json", path, compiled);
    FAIL();
  } catch (const Error& e) {
    EXPECT_EQ(e.code, "T0515");
    EXPECT_FALSE(fs::exists(path) || fs::exists(path + ".so"));
  }
}

}  // namespace
}  // namespace tenon::graph::testing_graph
