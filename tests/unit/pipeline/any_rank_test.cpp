// SPDX-License-Identifier: Apache-2.0
// Operators on tensors whose rank only the run knows: the VM's code against the interpreter, which computes
// each operator on the shape that the tensor has.
#include <fmt/format.h>

#include "ir/text.h"
#include "support.h"

namespace tenon::graph::testing_graph {
namespace {

/// `y` has the shape that `s` says, `z` that of `t`.
std::string program(const std::string& result) {
  return fmt::format(R"(
@I.ir_module
class Module:
    @R.function
    def main(x: R.Tensor((k,), "float32"), s: R.Tensor((n,), "int64"), u: R.Tensor((l,), "float32"), t: R.Tensor((m,), "int64"), w: R.Tensor((4, 3), "float32")):
        y = R.reshape(x, R.tensor_to_shape(s))
        z = R.reshape(u, R.tensor_to_shape(t))
        r = {}
        return r
)",
                     result);
}
NDArray sizes(const std::vector<int64_t>& v) {
  return NDArray::from_bytes({int64_t(v.size())}, i64, v.data(), v.size() * sizeof(int64_t));
}
std::vector<NDArray> inputs(const std::vector<int64_t>& y, const std::vector<int64_t>& z) {
  return {random_array({element_count(y)}), sizes(y), random_array({element_count(z)}), sizes(z),
          random_array({4, 3})};
}
using Shape2 = std::pair<std::vector<int64_t>, std::vector<int64_t>>;

void expect_agrees(const std::string& result, const std::vector<Shape2>& shapes) {
  SCOPED_TRACE(result);
  const IRModule m = parse_module(program(result));
  PassContext context = make_context();
  const IRModule typed = run_passes(m, std::span(find_pass("infer_types"), 1), context);
  EXPECT_TRUE(structural_equal(parse_module(print(typed)), typed)) << print(typed);
  expect_valid(typed);
  for (const auto& [y, z] : shapes) {
    SCOPED_TRACE(fmt::format("{} dimensions", y.size()));
    expect_vm_agrees(m, inputs(y, z));
  }
}
std::string failure(const std::string& result, const std::vector<int64_t>& y, const std::vector<int64_t>& z) {
  Session session(build(parse_module(program(result))));
  try {
    session.invoke(inputs(y, z));
  } catch (const Error& e) {
    // The session takes the next inputs.
    EXPECT_NO_THROW(session.invoke(inputs({2, 2, 4}, {2, 2, 4})));
    return e.code + ": " + e.message;
  }
  return "";
}

TEST(AnyRank, AlongOneAxis) {
  const std::vector<Shape2> shapes{
      {{4}, {1}}, {{2, 3}, {1}}, {{2, 3, 4}, {1}}, {{2, 1, 3, 2}, {1}}, {{3, 0}, {1}}};
  for (const char* result :
       {"R.nn.softmax(y, axis=-1)", "R.nn.log_softmax(y, axis=0)", "R.sum(y, axis=-1)",
        "R.mean(y, axis=[0], keepdims=True)", "R.prod(y, axis=-1)", "R.cumsum(y, axis=-1)",
        "R.flip(y, axis=0)", "R.astype(R.argmin(R.concat([y, R.add(y, y)], axis=0), axis=0), \"float32\")",
        "R.variance(y, axis=0)"})
    expect_agrees(result, shapes);
}

TEST(AnyRank, ElementByElementOfSeveral) {
  const std::vector<Shape2> shapes{
      {{4}, {1}},   {{1}, {4}},   {{2, 3}, {3}}, {{3}, {2, 3}},    {{2, 1}, {1, 3}},      {{2, 1, 4}, {3, 1}},
      {{}, {2, 3}}, {{2, 3}, {}}, {{2, 0}, {1}}, {{1, 1, 1}, {2}}, {{2, 3, 4}, {2, 3, 4}}};
  for (const char* result :
       {"R.add(y, z)", "R.maximum(z, R.exp(y))", "R.where(R.greater(y, z), y, R.const(2.0, \"float32\"))"})
    expect_agrees(result, shapes);
  // A tensor of known rank beside one whose rank is open.
  for (const char* result : {"R.multiply(y, x)", "R.subtract(w, y)"})
    expect_agrees(result, {{{1}, {1}}, {{1, 1, 1}, {1}}});
  expect_agrees("R.subtract(w, y)", {{{3}, {1}}, {{4, 1}, {1}}, {{2, 4, 3}, {1}}});
  EXPECT_TRUE(failure("R.add(y, z)", {2, 3}, {2}).starts_with("T0526"))
      << failure("R.add(y, z)", {2, 3}, {2});
}

TEST(AnyRank, OverAllAxes) {
  for (const char* result : {"R.sum(y)", "R.max(R.exp(y))", "R.mean(y, keepdims=True)", "R.std(y)"})
    expect_agrees(result, {{{4}, {1}}, {{2, 3}, {1}}, {{1, 3, 4}, {1}}, {{}, {1}}});
}

TEST(AnyRank, ProductsWithAMatrix) {
  const std::vector<Shape2> shapes{{{4}, {1}}, {{2, 4}, {1}}, {{2, 3, 4}, {1}}, {{2, 0, 4}, {1}}};
  expect_agrees("R.matmul(y, w)", shapes);
  expect_agrees("R.nn.dense(y, R.permute_dims(w, axes=[1, 0]))", shapes);
  EXPECT_TRUE(failure("R.matmul(y, w)", {2, 2, 2}, {1}).starts_with("T0501"))
      << failure("R.matmul(y, w)", {2, 2, 2}, {1});
  EXPECT_TRUE(failure("R.matmul(y, w)", {}, {1}).starts_with("T0526"));
}

TEST(AnyRank, MovedElements) {
  expect_agrees("R.permute_dims(y)",
                {{{4}, {1}}, {{2, 3}, {1}}, {{2, 3, 4}, {1}}, {{}, {1}}, {{2, 0, 3}, {1}}});
  expect_agrees("R.concat([y, z, y], axis=-1)", {{{4}, {1}}, {{2, 3}, {2, 2}}, {{2, 1, 4}, {2, 1, 1}}});
  expect_agrees("R.concat([y, z], axis=0)", {{{4}, {1}}, {{2, 3}, {1, 3}}, {{0, 4}, {2, 4}}});
  EXPECT_TRUE(failure("R.concat([y, z], axis=1)", {2, 3}, {3, 3}).starts_with("T0526"));
  EXPECT_TRUE(failure("R.sum(y, axis=2)", {2, 3}, {1}).starts_with("T0526"));
}

}  // namespace
}  // namespace tenon::graph::testing_graph
