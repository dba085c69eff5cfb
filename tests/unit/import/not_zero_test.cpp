// SPDX-License-Identifier: Apache-2.0
// A size that Reshape copies where it is 0: what an empty tensor becomes, and what is known of the sizes
// behind an operand that says that it is not 0.
#include <gtest/gtest.h>

#include "base/diagnostic.h"
#include "import/onnx/load.h"
#include "interpret/interpret.h"
#include "ir/find_node.h"
#include "judge.h"
#include "writer.h"

namespace tenon {
namespace {

using namespace test;

/// x[batch, n, 6] as the rows of two heads, [2 · batch, n, 3], and what `nodes` make of these.
Msg heads_model(std::vector<Msg> nodes, std::vector<Msg> inputs, const Msg& result) {
  const std::vector<Msg> heads = {
      node("Shape", {"x"}, {"s"}),
      node("Slice", {"s", "one", "two"}, {"n"}),
      node("Reshape", {"x", "apart"}, {"h"}),
      node("Transpose", {"h"}, {"t"}, {attr_ints("perm", {0, 2, 1, 3})}),
      node("Concat", {"rest", "n", "three"}, {"to"}, {attr_i("axis", 0)}),
      node("Reshape", {"t", "to"}, {"r"}),
  };
  nodes.insert(nodes.begin(), heads.begin(), heads.end());
  inputs.insert(inputs.begin(), value("x", FLOAT, {"batch", "n", 6}));
  return model({nodes,
                {ints("one", {1}, {1}), ints("two", {1}, {2}), ints("three", {1}, {3}),
                 ints("rest", {1}, {-1}), ints("apart", {4}, {0, 0, 2, 3})},
                inputs,
                {result}});
}
NDArray counted(std::vector<int64_t> shape) {
  NDArray a = NDArray::empty(std::move(shape), f32);
  for (int64_t i = 0; i < a.size(); ++i) a.as_ptr<float>()[i] = float(i % 7) - 3;
  return a;
}
IRModule imported(const Msg& m, std::map<std::string, int64_t> dims = {}) {
  onnx::ImportOptions options;
  options.dims = std::move(dims);
  return onnx::import_onnx_bytes(m.bytes, "m.onnx", options);
}

TEST(SizesThatAreNotZero, AReshapeOfAnEmptyTensorCopies) {
  const Msg m = heads_model({}, {}, value("r", FLOAT, {"rows", "n", 3}));
  const IRModule free = imported(m);
  for (const int64_t batch : {0, 1, 2})
    for (const int64_t n : {0, 1, 2, 5}) {
      SCOPED_TRACE(fmt::format("{} {}", batch, n));
      const std::vector<Any> args{counted({batch, n, 6})};
      const Any want = interpret(imported(m, {{"batch", batch}, {"n", n}}), "main", args);
      EXPECT_EQ(difference(interpret(free, "main", args), want), "");
    }
}

TEST(SizesThatAreNotZero, AnOperandOfTheSizeSettlesThem) {
  // r · rᵀ + p, the rows of both heads of it together, times r.
  const Msg m = heads_model(
      {node("Transpose", {"r"}, {"c"}, {attr_ints("perm", {0, 2, 1})}), node("MatMul", {"r", "c"}, {"rc"}),
       node("Add", {"rc", "p"}, {"w"}), node("MatMul", {"w", "r"}, {"v"}),
       node("Concat", {"rest", "two", "n", "three"}, {"back"}, {attr_i("axis", 0)}),
       node("Reshape", {"v", "back"}, {"y"})},
      {value("p", FLOAT, {"n", "n"})}, value("y", FLOAT, {"batch", 2, "n", 3}));
  const IRModule free = imported(m);
  const auto* main = free.find("main").as<graph::Function>();
  EXPECT_FALSE(has_node<tir::Select>(main->ret_type));
  EXPECT_FALSE(has_node<graph::If>(main->body));
  for (const int64_t batch : {1, 2})
    for (const int64_t n : {1, 2, 5}) {
      SCOPED_TRACE(fmt::format("{} {}", batch, n));
      const std::vector<Any> args{counted({batch, n, 6}), counted({n, n})};
      const Any want = interpret(imported(m, {{"batch", batch}, {"n", n}}), "main", args);
      EXPECT_EQ(difference(interpret(free, "main", args), want), "");
    }
  // Two heads of r without rows become rows of two (ONNX), to which p without elements cannot be added.
  EXPECT_THROW(interpret(free, "main", {counted({1, 0, 6}), counted({0, 0})}), Error);
}

TEST(SizesThatAreNotZero, WhatABranchKnowsStaysThere) {
  // Only one branch adds p; an empty tensor is right in the other.
  const Msg then_graph = onnx_graph({{node("Transpose", {"r"}, {"c"}, {attr_ints("perm", {0, 2, 1})}),
                                      node("MatMul", {"r", "c"}, {"rc"}), node("Add", {"rc", "p"}, {"w"}),
                                      node("MatMul", {"w", "r"}, {"a"})},
                                     {},
                                     {},
                                     {value("a", FLOAT, {"rows", "n", 3})}}),
            else_graph =
                onnx_graph({{node("Neg", {"r"}, {"b"})}, {}, {}, {value("b", FLOAT, {"rows", "n", 3})}});
  const Msg m = heads_model(
      {node("If", {"yes"}, {"y"}, {attr_g("then_branch", then_graph), attr_g("else_branch", else_graph)})},
      {value("p", FLOAT, {"n", "n"}), value("yes", BOOL, {})}, value("y", FLOAT, {"rows", "n", 3}));
  const IRModule free = imported(m);
  const NDArray y =
      interpret(free, "main", {counted({1, 0, 6}), counted({0, 0}), NDArray::scalar(0, boolean)})
          .as<NDArray>();
  EXPECT_EQ(y.shape(), (std::vector<int64_t>{0, 2, 3}));
}

}  // namespace
}  // namespace tenon
