// SPDX-License-Identifier: Apache-2.0
// Operators of a user's own: types, attributes, optional inputs and parameters as the two functions see them,
// and rules that give something else.
#include <gtest/gtest.h>

#include "base/diagnostic.h"
#include "base/function.h"
#include "import/onnx/load.h"
#include "interpret/interpret.h"
#include "judge.h"
#include "pipeline/emit.h"
#include "writer.h"

namespace tenon {
namespace {

using namespace test;

constexpr const char* kRule = "onnx.type.test::Scaled";
constexpr const char* kKernel = "onnx.kernel.test::Scaled";

/// Scaled(x, (left out)) with the attributes `by` and `add`: x times `by`, and the sums of rows plus `add`.
Any rule(Arguments arguments) {
  const auto types = arguments[0].as<Array<Any>>();
  const auto attributes = arguments[1].as<Map<std::string, Any>>();
  EXPECT_EQ(types.size(), 2u);
  EXPECT_TRUE(types[1].is_none());
  const auto type = types[0].as<Array<Any>>(), sizes = type[1].as<Array<Any>>();
  const Array<Any> sums{type[0], Any(Array<Any>{sizes[0]})};
  const auto add = attributes.at("add").as<Array<Any>>();
  EXPECT_EQ(add.size(), 2u);
  return Array<Any>{Any(Array<Any>{types[0], Any(sums)}), Any(Array<Any>{attributes.at("by"), add[1]})};
}
Any kernel(Arguments arguments) {
  EXPECT_EQ(arguments.size(), 5u);
  const auto x = arguments[0].as<NDArray>();
  const double by = arguments[1].as<NDArray>().element(0);
  EXPECT_EQ(arguments[2].as<NDArray>().dtype(), i64);
  NDArray y = arguments[3].as<NDArray>(), sums = arguments[4].as<NDArray>();
  const int64_t rows = x.shape()[0], columns = x.shape()[1];
  for (int64_t i = 0; i < rows; ++i) {
    double sum = arguments[2].as<NDArray>().element(0);
    for (int64_t j = 0; j < columns; ++j) {
      y.set_element(i * columns + j, by * x.element(i * columns + j));
      sum += x.element(i * columns + j);
    }
    sums.set_element(i, sum);
  }
  return {};
}

std::string model_bytes() {
  GraphParts parts;
  parts.nodes.push_back(
      node("Scaled", {"x", ""}, {"y", "s"}, {attr_f("by", 0.5f), attr_ints("add", {1, 100})}, "n", "test"));
  parts.nodes.push_back(node("Neg", {"s"}, {"z"}));
  parts.inputs.push_back(value("x", FLOAT, {Dim("n"), Dim(int64_t(2))}));
  parts.outputs = {value("y", FLOAT, {Dim("n"), Dim(int64_t(2))}), value("z", FLOAT, {Dim("n")})};
  return model(onnx_graph(parts), 21).m(8, opset(1, "test")).bytes;
}

struct Custom : testing::Test {
  void SetUp() override {
    registry::add(kRule, Function(rule), true);
    registry::add(kKernel, Function(kernel), true);
  }
  void TearDown() override {
    registry::remove(kRule);
    registry::remove(kKernel);
  }
};

void expect_results(const std::vector<NDArray>& got) {
  ASSERT_EQ(got.size(), 2u);
  const double y[] = {0.5, 1, 1.5, 2, 2.5, 3}, z[] = {-103, -107, -111};
  for (int64_t i = 0; i < 6; ++i) EXPECT_EQ(got[0].element(i), y[i]);
  for (int64_t i = 0; i < 3; ++i) EXPECT_EQ(got[1].element(i), z[i]);
}
NDArray three_rows() {
  NDArray x = NDArray::empty({3, 2}, f32);
  for (int64_t i = 0; i < 6; ++i) x.set_element(i, double(i + 1));
  return x;
}

TEST_F(Custom, OperatorsRunInterpretedAndCompiled) {
  const IRModule module = onnx::import_onnx_bytes(model_bytes(), "m");
  const auto parts = interpret(module, "main", {Any(three_rows())}).as<Array<Any>>();
  expect_results({parts[0].as<NDArray>(), parts[1].as<NDArray>()});
  Session session(jit_artifact(compile(module, CompileOptions())));
  expect_results(session.invoke({three_rows()}));
}

TEST_F(Custom, RulesThatGiveSomethingElseAreRefused) {
  const Any results[] = {
      Any(),
      Any(7),
      Any(Array<Any>{Any(Array<Any>())}),
      Any(Array<Any>{Any(Array<Any>()), Any(Array<Any>())}),
      Any(Array<Any>{Any(Array<Any>{Any(f32), Any(f32)}), Any(Array<Any>())}),
      Any(Array<Any>{Any(Array<Any>{Any(Array<Any>{Any(f32), Any(Array<Any>{Any(-1)})}), Any(1)}),
                     Any(Array<Any>())}),
      Any(Array<Any>{Any(Array<Any>{Any(Array<Any>{Any(f32), Any(Array<Any>())}),
                                    Any(Array<Any>{Any(f32), Any(Array<Any>())})}),
                     Any(Array<Any>{Any("text")})})};
  for (const Any& result : results) {
    registry::add(kRule, Function([&](Arguments) { return result; }), true);
    try {
      onnx::import_onnx_bytes(model_bytes(), "m");
      ADD_FAILURE() << "a rule is taken that gives no types";
    } catch (const Error& e) {
      EXPECT_EQ(e.code, "T2102") << e.what();
    }
  }
}

TEST_F(Custom, OperatorsWithoutARuleAreRefusedByName) {
  registry::remove(kRule);
  try {
    onnx::import_onnx_bytes(model_bytes(), "m");
    ADD_FAILURE() << "it imports";
  } catch (const Error& e) {
    EXPECT_EQ(e.code, "T2101");
    EXPECT_NE(std::string(e.what()).find("test::Scaled"), std::string::npos);
  }
}

}  // namespace
}  // namespace tenon
