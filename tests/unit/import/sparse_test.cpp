// SPDX-License-Identifier: Apache-2.0
// Sparse tensors of a file are dense ones in the program.
#include <gtest/gtest.h>

#include "base/diagnostic.h"
#include "import/onnx/load.h"
#include "interpret/interpret.h"
#include "writer.h"

namespace tenon {
namespace {

using namespace test;

Msg sparse(const Msg& values, const Msg& indices, const std::vector<int64_t>& dims) {
  Msg s = Msg().m(1, values).m(2, indices);
  for (int64_t d : dims) s.i(3, d);
  return s;
}
/// y = x + a sparse tensor of the file, an initialiser or a constant.
Msg added(const Msg& tensor, bool constant) {
  Msg g = onnx_graph({{node("Add", {"x", "w"}, {"y"}, {}, "add")},
                      {},
                      {value("x", FLOAT, {})},
                      {value("y", FLOAT, {"a", "b"})}});
  if (constant)
    g.m(1, node("Constant", {}, {"w"}, {Msg().s(1, "sparse_value").m(22, tensor).i(20, 11)}, "c"));
  else
    g.m(15, tensor);
  return model(g);
}
std::vector<double> run(const Msg& m) {
  const IRModule module = onnx::import_onnx_bytes(m.bytes, "m.onnx");
  const NDArray y = interpret(module, "main", {Any(NDArray::scalar(1, f32))}).as<NDArray>();
  EXPECT_EQ(y.shape(), (std::vector<int64_t>{2, 3}));
  std::vector<double> out;
  for (int64_t i = 0; i < y.size(); ++i) out.push_back(y.element(i));
  return out;
}

TEST(Sparse, PositionsAndCoordinatesMeanTheSame) {
  const std::vector<double> want{1, 6, 1, 1, 1, 8};
  for (const bool constant : {false, true}) {
    EXPECT_EQ(run(added(sparse(floats("w", {2}, {5, 7}), ints("", {2}, {1, 5}), {2, 3}), constant)), want);
    EXPECT_EQ(run(added(sparse(floats("w", {2}, {5, 7}), ints("", {2, 2}, {0, 1, 1, 2}), {2, 3}), constant)),
              want);
    EXPECT_EQ(run(added(sparse(floats("w", {0}, {}), ints("", {0}, {}), {2, 3}), constant)),
              (std::vector<double>(6, 1)));
  }
}

TEST(Sparse, WhatIsWrongIsRefused) {
  const Msg two = floats("w", {2}, {5, 7});
  const struct {
    Msg tensor;
    std::string code, words;
  } cases[] = {
      {sparse(two, ints("", {2}, {1, 6}), {2, 3}), "T2014", "the index 6 of entry 1 is outside"},
      {sparse(two, ints("", {2}, {-1, 5}), {2, 3}), "T2014", "the index -1 of entry 0 is outside"},
      {sparse(two, ints("", {2, 2}, {0, 1, 0, 3}), {2, 3}), "T2014", "the index 3 of entry 1 is outside"},
      {sparse(two, ints("", {2}, {5, 5}), {2, 3}), "T2014", "do not rise at entry 1"},
      {sparse(two, ints("", {3}, {0, 1, 2}), {2, 3}), "T2014", "do not belong together"},
      {sparse(two, ints("", {2, 1}, {0, 1}), {2, 3}), "T2014", "do not belong together"},
      {sparse(two, floats("", {2}, {0, 1}), {2, 3}), "T2014", "do not belong together"},
      {sparse(two, ints("", {2}, {0, 1}), {-2, 3}), "T2014", "negative dimension"},
      {sparse(two, ints("", {2}, {0, 1}), {1 << 16, 1 << 13}), "T2015", "as dense ones"},
      {sparse(two, ints("", {2}, {0, 1}), {int64_t(1) << 40, int64_t(1) << 40}), "T2015", ""},
      {sparse(tensor_head("w", STRING, {1}).s(6, "t"), ints("", {1}, {0}), {2}), "T2103", "string"},
      {sparse(Msg(), Msg(), {2}), "T20", ""},
  };
  for (const auto& c : cases)
    for (const bool constant : {false, true}) {
      try {
        onnx::import_onnx_bytes(added(c.tensor, constant).bytes, "m.onnx");
        ADD_FAILURE() << c.words;
      } catch (const DiagnosticError& e) {
        EXPECT_EQ(e.code.substr(0, c.code.size()), c.code) << e.what();
        EXPECT_NE(std::string(e.what()).find(c.words), std::string::npos) << e.what();
      }
    }
}

}  // namespace
}  // namespace tenon
