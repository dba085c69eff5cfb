// SPDX-License-Identifier: Apache-2.0
// Branches, loops and recurrent layers: imported, interpreted, and compiled and run; both against sums done
// by hand.
#include <gtest/gtest.h>

#include <cmath>

#include "base/diagnostic.h"
#include "import/onnx/load.h"
#include "interpret/interpret.h"
#include "pipeline/compile.h"
#include "pipeline/runner.h"
#include "writer.h"

namespace tenon {
namespace {

using namespace test;
using Floats = std::vector<float>;

NDArray tensor(std::vector<int64_t> shape, const Floats& v) {
  return NDArray::from_bytes(std::move(shape), f32, v.data(), v.size() * 4);
}
NDArray number(int64_t v) { return NDArray::scalar(double(v), i64); }

struct Result {
  std::vector<int64_t> shape;
  std::vector<double> values;
};
Result read(const NDArray& a) {
  Result r{a.shape(), {}};
  for (int64_t i = 0; i < a.size(); ++i) r.values.push_back(a.element(i));
  return r;
}

/// Results by the interpreter and of the compiled program, which must agree.
std::vector<Result> both_ways(const IRModule& m, const std::vector<NDArray>& inputs) {
  std::vector<Any> values(inputs.begin(), inputs.end());
  const Any out = interpret(m, "main", values);
  std::vector<NDArray> meant;
  if (auto one = out.try_as<NDArray>(); one && *one)
    meant.push_back(*one);
  else
    for (const Any& a : out.as<Array<Any>>()) meant.push_back(a.as<NDArray>());
  Runner runner(m);
  std::vector<Result> results;
  for (int round = 0; round < 2; ++round) {
    const std::vector<NDArray> got = runner.run(inputs);
    EXPECT_EQ(got.size(), meant.size());
    results.clear();
    for (size_t i = 0; i < got.size(); ++i) {
      const Result a = read(meant[i]), b = read(got[i]);
      EXPECT_EQ(a.shape, b.shape);
      for (size_t k = 0; k < std::min(a.values.size(), b.values.size()); ++k)
        EXPECT_NEAR(a.values[k], b.values[k], 1e-5 * (1 + std::abs(a.values[k])));
      results.push_back(b);
    }
  }
  return results;
}
IRModule load(const Msg& m) { return onnx::import_onnx_bytes(m.bytes, "m.onnx"); }
void expect(const Result& r, const std::vector<int64_t>& shape, const std::vector<double>& values) {
  EXPECT_EQ(r.shape, shape);
  ASSERT_EQ(r.values.size(), values.size());
  for (size_t i = 0; i < values.size(); ++i)
    EXPECT_NEAR(r.values[i], values[i], 1e-5 * (1 + std::abs(values[i])));
}

/// s = s + w; collects 2 * s.
Msg sum_body(bool stop) {
  GraphParts g;
  g.nodes = {node("Add", {"s_in", "w"}, {"s_out"}), node("Mul", {"s_out", "two"}, {"twice"})};
  if (stop) {
    g.nodes.push_back(node("ReduceSum", {"s_out"}, {"total"}, {attr_i("keepdims", 0)}));
    g.nodes.push_back(node("Less", {"total", "bound"}, {"more_out"}));
  } else {
    g.nodes.push_back(node("Identity", {"more"}, {"more_out"}));
  }
  g.initializers = {floats("two", {}, {2})};
  g.inputs = {value("i", INT64, {}), value("more", BOOL, {}), value("s_in", FLOAT, {2})};
  g.outputs = {value("more_out", BOOL, {}), value("s_out", FLOAT, {2}), value("twice", FLOAT, {2})};
  return onnx_graph(g);
}

TEST(Loop, RunsSoManyTimesAndCollects) {
  const IRModule m =
      load(model({{node("Loop", {"n", "", "x"}, {"last", "all"}, {attr_g("body", sum_body(false))})},
                  {floats("w", {2}, {1, 10})},
                  {value("n", INT64, {}), value("x", FLOAT, {2})},
                  {value("last", FLOAT, {2}), value("all", FLOAT, {"t", 2})}}));
  auto r = both_ways(m, {number(3), tensor({2}, {0, 0})});
  expect(r[0], {2}, {3, 30});
  expect(r[1], {3, 2}, {2, 20, 4, 40, 6, 60});
  r = both_ways(m, {number(0), tensor({2}, {5, 6})});  // none: the value as it came, and nothing
  expect(r[0], {2}, {5, 6});
  expect(r[1], {0, 2}, {});
}

TEST(Loop, EndsWhenItsConditionSaysSo) {
  const IRModule m =
      load(model({{node("Loop", {"n", "go", "x"}, {"last", "all"}, {attr_g("body", sum_body(true))})},
                  {floats("w", {2}, {1, 10}), floats("bound", {}, {25})},
                  {value("n", INT64, {}), value("go", BOOL, {}), value("x", FLOAT, {2})},
                  {value("last", FLOAT, {2}), value("all", FLOAT, {"t", 2})}}));
  auto r = both_ways(m, {number(100), NDArray::scalar(1, boolean), tensor({2}, {0, 0})});
  expect(r[0], {2}, {3, 30});  // 11, 22, 33: the third is the first beyond 25
  EXPECT_EQ(r[1].shape, (std::vector<int64_t>{3, 2}));
  r = both_ways(m, {number(2), NDArray::scalar(1, boolean), tensor({2}, {0, 0})});
  expect(r[0], {2}, {2, 20});
  r = both_ways(m, {number(2), NDArray::scalar(0, boolean), tensor({2}, {7, 8})});
  expect(r[0], {2}, {7, 8});
}

TEST(Loop, CarriedValuesMayGrow) {
  // acc = concat(acc, [i]): its size is another one in each iteration.
  GraphParts g;
  g.nodes = {node("Cast", {"i"}, {"f"}, {attr_i("to", FLOAT)}), node("Unsqueeze", {"f", "axes"}, {"one"}),
             node("Concat", {"acc", "one"}, {"grown"}, {attr_i("axis", 0)})};
  g.initializers = {ints("axes", {1}, {0})};
  g.inputs = {value("i", INT64, {}), value("more", BOOL, {}), value("acc", FLOAT, {"k"})};
  g.outputs = {value("more", BOOL, {}), value("grown", FLOAT, {"k1"})};
  const IRModule m = load(model(
      {{node("Loop", {"n", "", "x"}, {"y"}, {attr_g("body", onnx_graph(g))}), node("Neg", {"y"}, {"z"})},
       {},
       {value("n", INT64, {}), value("x", FLOAT, {1})},
       {value("z", FLOAT, {"m"})}}));
  expect(both_ways(m, {number(3), tensor({1}, {9})})[0], {4}, {-9, 0, -1, -2});
}

TEST(Scan, RunningSumsForwardAndBack) {
  for (const bool back : {false, true}) {
    GraphParts g;
    g.nodes = {node("Add", {"s", "x_t"}, {"s1"}), node("Identity", {"s1"}, {"y_t"})};
    g.inputs = {value("s", FLOAT, {2}), value("x_t", FLOAT, {2})};
    g.outputs = {value("s1", FLOAT, {2}), value("y_t", FLOAT, {2})};
    std::vector<Msg> attributes{attr_g("body", onnx_graph(g)), attr_i("num_scan_inputs", 1)};
    if (back) {
      attributes.push_back(attr_ints("scan_input_directions", {1}));
      attributes.push_back(attr_ints("scan_output_directions", {1}));
    }
    attributes.push_back(attr_ints("scan_input_axes", {1}));
    attributes.push_back(attr_ints("scan_output_axes", {1}));
    const IRModule m = load(model({{node("Scan", {"s0", "x"}, {"last", "y"}, attributes)},
                                   {},
                                   {value("s0", FLOAT, {2}), value("x", FLOAT, {2, "t"})},
                                   {value("last", FLOAT, {2}), value("y", FLOAT, {2, "t"})}}));
    const auto r = both_ways(m, {tensor({2}, {0, 100}), tensor({2, 3}, {1, 2, 3, 4, 5, 6})});
    expect(r[0], {2}, {6, 115});
    if (back)
      expect(r[1], {2, 3}, {6, 5, 3, 115, 111, 106});
    else
      expect(r[1], {2, 3}, {1, 3, 6, 104, 109, 115});
  }
}

/// A graph of one node.
Msg one(const char* op, const std::string& in, const std::string& out, std::vector<Dim> dims,
        const std::vector<std::string>& more = {}) {
  std::vector<std::string> inputs{in};
  inputs.insert(inputs.end(), more.begin(), more.end());
  return onnx_graph({{node(op, inputs, {out})}, {}, {}, {value(out, FLOAT, std::move(dims))}});
}

TEST(If, BranchesOfAnotherRankGoOnByThemselves) {
  // What torch writes for squeeze: then one axis goes, else all stay.
  const IRModule m = load(model({{node("Shape", {"x"}, {"s"}), node("Gather", {"s", "last"}, {"n"}),
                                  node("Equal", {"n", "one"}, {"is"}),
                                  node("If", {"is"}, {"y"},
                                       {attr_g("then_branch", one("Squeeze", "x", "t", {2}, {"axis"})),
                                        attr_g("else_branch", one("Identity", "x", "e", {2, "k"}))}),
                                  node("ReduceSum", {"y"}, {"z"}, {attr_i("keepdims", 0)})},
                                 {ints("last", {}, {1}), ints("one", {}, {1}), ints("axis", {1}, {1})},
                                 {value("x", FLOAT, {2, "k"})},
                                 {value("z", FLOAT, {})}}));
  expect(both_ways(m, {tensor({2, 1}, {3, 4})})[0], {}, {7});
  expect(both_ways(m, {tensor({2, 2}, {3, 4, 5, 6})})[0], {}, {18});
}

/// The size of axis `axis` of the only result, 0 where it is no number.
int64_t result_size(const IRModule& m, size_t axis) {
  const auto shape = graph::known_shape(m.find("main").as<graph::Function>()->ret_type);
  return shape && axis < shape->size() ? tir::as_int((*shape)[axis]).value_or(0) : 0;
}

TEST(If, SizesOfBothBranchesStayKnown) {
  GraphParts twice;
  twice.nodes = {node("Concat", {"x", "x"}, {"t"}, {attr_i("axis", 0)})};
  twice.outputs = {value("t", FLOAT, {"k2", 3})};
  const IRModule m = load(model({{node("If", {"c"}, {"y"},
                                       {attr_g("then_branch", onnx_graph(twice)),
                                        attr_g("else_branch", one("Relu", "x", "e", {"k", 3}))}),
                                  node("Neg", {"y"}, {"z"})},
                                 {},
                                 {value("x", FLOAT, {"k", 3}), value("c", BOOL, {})},
                                 {value("z", FLOAT, {"m", "w"})}}));
  EXPECT_EQ(result_size(m, 0), 0);
  EXPECT_EQ(result_size(m, 1), 3);
  const NDArray x = tensor({1, 3}, {-1, 2, 3});
  expect(both_ways(m, {x, NDArray::scalar(1, boolean)})[0], {2, 3}, {1, -2, -3, 1, -2, -3});
  expect(both_ways(m, {x, NDArray::scalar(0, boolean)})[0], {1, 3}, {0, -2, -3});
}

TEST(Loop, SizesThatNoIterationChangesStayKnown) {
  // acc = concat(acc, x)
  GraphParts g;
  g.nodes = {node("Concat", {"acc", "x"}, {"grown"}, {attr_i("axis", 0)})};
  g.inputs = {value("i", INT64, {}), value("more", BOOL, {}), value("acc", FLOAT, {"k", "w"})};
  g.outputs = {value("more", BOOL, {}), value("grown", FLOAT, {"k1", "w"})};
  const IRModule m = load(model(
      {{node("Loop", {"n", "", "x"}, {"y"}, {attr_g("body", onnx_graph(g))}), node("Neg", {"y"}, {"z"})},
       {},
       {value("n", INT64, {}), value("x", FLOAT, {1, 2})},
       {value("z", FLOAT, {"m", "w"})}}));
  EXPECT_EQ(result_size(m, 0), 0);
  EXPECT_EQ(result_size(m, 1), 2);
  expect(both_ways(m, {number(2), tensor({1, 2}, {9, 8})})[0], {3, 2}, {-9, -8, -9, -8, -9, -8});
  expect(both_ways(m, {number(0), tensor({1, 2}, {9, 8})})[0], {1, 2}, {-9, -8});
}

TEST(If, ABranchThatTheShapesForbidIsRefusedWhenTaken) {
  const IRModule m = load(model({{node("If", {"c"}, {"y"},
                                       {attr_g("then_branch", one("Relu", "x", "t", {2, 3})),
                                        attr_g("else_branch", one("MatMul", "x", "e", {2, 3}, {"x"}))})},
                                 {},
                                 {value("x", FLOAT, {2, 3}), value("c", BOOL, {})},
                                 {value("y", FLOAT, {2, 3})}}));
  const NDArray x = tensor({2, 3}, {-1, 2, -3, 4, -5, 6});
  expect(both_ways(m, {x, NDArray::scalar(1, boolean)})[0], {2, 3}, {0, 2, 0, 4, 0, 6});
  Runner runner(m);
  try {
    runner.run({x, NDArray::scalar(0, boolean)});
    FAIL() << "the branch cannot run";
  } catch (const Error& e) {
    EXPECT_EQ(e.code, "T0520");
    EXPECT_NE(std::string(e.what()).find("else branch"), std::string::npos) << e.what();
  }
  // The session stays usable.
  EXPECT_EQ(read(runner.run({x, NDArray::scalar(1, boolean)})[0]).values[1], 2);
}

TEST(If, BothBranchesImpossibleIsAMistakeInTheModel) {
  EXPECT_THROW(load(model({{node("If", {"c"}, {"y"},
                                 {attr_g("then_branch", one("MatMul", "x", "t", {2, 3}, {"x"})),
                                  attr_g("else_branch", one("MatMul", "x", "e", {2, 3}, {"x"}))})},
                           {},
                           {value("x", FLOAT, {2, 3}), value("c", BOOL, {})},
                           {value("y", FLOAT, {2, 3})}})),
               DiagnosticError);
}

/// h' = tanh(w x + r h) over one unit, by hand.
std::vector<double> rnn(const Floats& x, float w, float r, bool back) {
  std::vector<double> y(x.size());
  double h = 0;
  for (size_t i = 0; i < x.size(); ++i) {
    const size_t at = back ? x.size() - 1 - i : i;
    y[at] = h = std::tanh(double(w) * double(x[at]) + double(r) * h);
  }
  return y;
}

TEST(Recurrent, AnyNumberOfStepsInOneProgram) {
  for (const char* direction : {"forward", "reverse"}) {
    const IRModule m = load(model({{node("RNN", {"x", "w", "r"}, {"y", "h"},
                                         {attr_i("hidden_size", 1), attr_s("direction", direction)})},
                                   {floats("w", {1, 1, 1}, {0.5}), floats("r", {1, 1, 1}, {-0.75})},
                                   {value("x", FLOAT, {"t", 1, 1})},
                                   {value("y", FLOAT, {"t", 1, 1, 1}), value("h", FLOAT, {1, 1, 1})}}));
    for (int64_t steps : {1, 4, 90}) {
      Floats x;
      for (int64_t i = 0; i < steps; ++i) x.push_back(float(i % 7) * 0.3f - 1);
      const bool back = direction[0] == 'r';
      const auto wanted = rnn(x, 0.5f, -0.75f, back);
      const auto r = both_ways(m, {tensor({steps, 1, 1}, x)});
      expect(r[0], {steps, 1, 1, 1}, wanted);
      expect(r[1], {1, 1, 1}, {back ? wanted.front() : wanted.back()});
    }
  }
}

// The standard forbids names of an outer graph in an inner one; files have them.
TEST(Control, NamesOfABodyHideOuterOnesInsideAlone) {
  const auto branch = [](const char* op) {
    return onnx_graph(
        {{node(op, {"x"}, {"w"}), node("Add", {"w", "w"}, {"t"})}, {}, {}, {value("t", FLOAT, {2})}});
  };
  GraphParts p{
      {node("If", {"c"}, {"a"}, {attr_g("then_branch", branch("Neg")), attr_g("else_branch", branch("Abs"))}),
       node("Mul", {"a", "w"}, {"y"})},
      {floats("w", {2}, {10, 100})},
      {value("x", FLOAT, {2}), value("c", BOOL, {})},
      {value("y", FLOAT, {2})}};
  const IRModule m = load(model(p));
  expect(both_ways(m, {tensor({2}, {1, -2}), NDArray::scalar(1, boolean)})[0], {2}, {-20, 400});
  expect(both_ways(m, {tensor({2}, {1, -2}), NDArray::scalar(0, boolean)})[0], {2}, {20, 400});
}

// The loop makes `s` of what its body, too, calls `s`.
TEST(Control, ANodeMayGiveWhatItsBodyTakesUnderTheSameName) {
  GraphParts g;
  g.nodes = {node("Add", {"s", "w"}, {"next"})};
  g.inputs = {value("i", INT64, {}), value("more", BOOL, {}), value("s", FLOAT, {2})};
  g.outputs = {value("more", BOOL, {}), value("next", FLOAT, {2})};
  const IRModule m = load(model({{node("Loop", {"n", "", "x"}, {"s"}, {attr_g("body", onnx_graph(g))})},
                                 {floats("w", {2}, {1, 10})},
                                 {value("n", INT64, {}), value("x", FLOAT, {2})},
                                 {value("s", FLOAT, {2})}}));
  expect(both_ways(m, {number(3), tensor({2}, {0, 0})})[0], {2}, {3, 30});
}

}  // namespace
}  // namespace tenon
