// SPDX-License-Identifier: Apache-2.0
// The graph executor over artifacts whose kernels are interpreted.
#include "runtime/libraries/graph_executor.h"

#include <nlohmann/json.hpp>
#include <set>

#include "runtime/libraries/graph/graph.h"
#include "support.h"

namespace tenon::graph::testing_graph {
namespace {

std::string graph_json(const Executable& e) {
  return operator_graph::graph_json(operator_graph::graph_of(e), {});
}

ObjectRef last_axis() { return op::make_attrs<op::AxisAttrs>(-1); }

IRModule two_kernels(std::vector<int64_t> shape) {
  Model m;
  Array<PrimExpr> dims;
  for (int64_t d : shape) dims.push_back(d);
  auto x = m.param("x", dims);
  Expr y = m.op("nn.softmax", {m.op("exp", {x})}, last_axis());
  Expr z = m.op("nn.softmax", {m.op("add", {y, m.weight({3})})}, last_axis());
  return m.done(op::tuple({z, y}));
}

TEST(GraphExecutor, RunsWithInputsByNameAndTellsTimes) {
  const IRModule m = two_kernels({2, 3});
  GraphExecutor executor(build(m));
  const NDArray x = random_array({2, 3});
  try {
    executor.output(0);
    FAIL();
  } catch (const Error& e) {
    EXPECT_EQ(e.code, "T0516");
  }
  executor.set_input("x", x);
  executor.run();
  const std::vector<NDArray> want = run(m, {x});
  expect_close(want, {executor.output(0), executor.output(1)}, 1e-6);
  size_t operators = 0;
  const auto json = nlohmann::json::parse(graph_json(build(m).executable()));
  for (const auto& n : json.at("nodes")) operators += n.at("op") == "tenon_op";
  const auto times = executor.debug_run();
  EXPECT_EQ(times.size(), operators);
  for (const auto& t : times) EXPECT_GE(t.ms, 0);
  expect_close(want, {executor.output(0), executor.output(1)}, 1e-6);
  EXPECT_THROW(executor.set_input("y", x), Error);
  EXPECT_THROW(executor.set_input(1, x), Error);
}

TEST(GraphExecutor, JsonIsAGraphFromInputsToHeads) {
  const std::string text = graph_json(build(two_kernels({2, 3})).executable());
  const auto json = nlohmann::json::parse(text);
  const auto& nodes = json.at("nodes");
  EXPECT_EQ(nodes.at(0).at("name"), "x");
  EXPECT_EQ(json.at("heads").size(), 2u);
  EXPECT_EQ(json.at("node_row_ptr").size(), nodes.size() + 1);
  // Every node is reached from the heads, and every edge leads to a node before.
  std::vector<bool> reached(nodes.size());
  for (const auto& h : json.at("heads")) reached.at(h.at(0).get<size_t>()) = true;
  for (size_t i = nodes.size(); i-- > 0;)
    for (const auto& in : nodes.at(i).at("inputs")) {
      EXPECT_LT(in.at(0).get<size_t>(), i);
      if (reached[i]) reached.at(in.at(0).get<size_t>()) = true;
    }
  EXPECT_EQ(std::count(reached.begin(), reached.end(), false), 0) << text;
}

TEST(GraphExecutor, PartsOfAConcatenationAreAllItsMakers) {
  Model m;
  auto x = m.param("x", {1, 4, 16});
  auto summed = [&](std::string_view name, const Expr& e) {
    return m.op("nn.softmax", {m.op(name, {e})}, op::make_attrs<op::AxisAttrs>(-1));
  };
  Expr a = summed("exp", x), b = summed("sin", x), c = summed("tanh", x);
  Expr all = m.op("concat", {op::tuple({a, b, c})}, op::make_attrs<op::AxisAttrs>(1));
  Expr y = m.op("nn.softmax", {all}, op::make_attrs<op::AxisAttrs>(1));
  const auto json = nlohmann::json::parse(graph_json(build(m.done(y)).executable()));
  const auto& nodes = json.at("nodes");
  // Whether the copy is there or not: what comes out is made of three kernels' results.
  std::set<size_t> makers;
  std::vector<size_t> todo{json.at("heads").at(0).at(0).get<size_t>()};
  for (; !todo.empty();) {
    const size_t node = todo.back();
    todo.pop_back();
    if (!makers.insert(node).second) continue;
    for (const auto& in : nodes.at(node).at("inputs")) todo.push_back(in.at(0).get<size_t>());
  }
  EXPECT_EQ(makers.size(), nodes.size());
  EXPECT_GE(makers.size(), 5u);
}

TEST(GraphExecutor, RefusesBranches) {
  Model m;
  auto c = m.param("c", {}, boolean);
  auto x = m.param("x", {3});
  auto branch = [&](const char* name) {
    BlockBuilder b = op::make_builder();
    return b.finish(b.emit(op::op_call(name, {x}), "u"));
  };
  Expr e = make<If>(c, branch("exp"), branch("sin"));
  e.edit()->type = x->type;
  const IRModule in = m.done(m.builder.emit(e));
  try {
    GraphExecutor executor(build(in));
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.code, "T0515");
  }
}

}  // namespace
}  // namespace tenon::graph::testing_graph
