// SPDX-License-Identifier: Apache-2.0
// Sizes that only the data tell: shapes made of tensors, tensors of known rank, symbols that meet. Every
// program runs by the interpreter and by the VM's code; what does not fit is refused before any kernel reads
// it.
#include <fmt/format.h>

#include <cstring>

#include "base/function.h"
#include "ir/text.h"
#include "support.h"

namespace tenon::graph::testing_graph {
namespace {

struct RunTimeSizes : testing::Test {};

IRModule module_of(const std::string& functions) {
  return parse_module("@I.ir_module\nclass Module:\n" + functions);
}
NDArray sizes(std::vector<int64_t> v) {
  return NDArray::from_bytes({int64_t(v.size())}, i64, v.data(), v.size() * sizeof(int64_t));
}
NDArray ramp(std::vector<int64_t> shape) {
  NDArray a = NDArray::empty(shape, f32);
  for (int64_t i = 0; i < a.size(); ++i) a.set_element(i, double(i));
  return a;
}
/// The shape and the sum of the first result.
void expect_shape(const std::string& functions, const std::vector<NDArray>& inputs,
                  const std::vector<int64_t>& shape, double sum) {
  const IRModule m = module_of(functions);
  PassContext context = make_context();
  const IRModule typed = run_passes(m, std::span(find_pass("infer_types"), 1), context);
  EXPECT_TRUE(structural_equal(parse_module(print(typed)), typed)) << print(typed);
  expect_valid(typed);
  const NDArray got = expect_vm_agrees(m, inputs)[0];
  EXPECT_EQ(got.shape(), shape);
  double all = 0;
  for (int64_t i = 0; i < got.size(); ++i) all += got.element(i);
  EXPECT_EQ(all, sum);
}
std::string refusal(const std::string& functions, const std::vector<NDArray>& inputs) {
  try {
    Session(build(module_of(functions))).invoke(inputs);
  } catch (const DiagnosticError& e) {
    return e.diagnostics[0].code + " " + e.diagnostics[0].location + ": " + e.diagnostics[0].message;
  } catch (const Error& e) {
    return e.code + ": " + e.message;
  }
  return "";
}

const std::string kReshape = R"(
    @R.function
    def main(x: R.Tensor((k,), "float32"), s: R.Tensor((2,), "int64")):
        h = R.tensor_to_shape(s)
        w = R.add(x, x)
        y = R.reshape(w, h)
        return R.add(y, R.const(1.0, "float32"))
)";

TEST_F(RunTimeSizes, ReshapeByData) {
  expect_shape(kReshape, {ramp({6}), sizes({2, 3})}, {2, 3}, 36);
  expect_shape(kReshape, {ramp({6}), sizes({6, 1})}, {6, 1}, 36);
  expect_shape(kReshape, {ramp({0}), sizes({0, 5})}, {0, 5}, 0);
}

TEST_F(RunTimeSizes, OfConstantsThatTakeAll64Bits) {
  // As a slice writes them that begins as far in front of its axis as can be said.
  expect_shape(R"(
    @R.function
    def main(x: R.Tensor((k,), "float32")):
        return R.zeros(R.shape([k + 1 + T.max(k * -1, T.int64(-9223372036854775808))]), dtype="float32")
)",
               {ramp({4})}, {1}, 0);
}

TEST_F(RunTimeSizes, WhatDoesNotFitIsRefused) {
  EXPECT_EQ(refusal(kReshape, {ramp({6}), sizes({4, 3})}).substr(0, 5), "T0501");
  EXPECT_EQ(refusal(kReshape, {ramp({6}), sizes({-1, 3})}).substr(0, 5), "T0501");
}

TEST_F(RunTimeSizes, ShapesThatTravelThroughTensors) {
  expect_shape(R"(
    @R.function
    def main(x: R.Tensor((n, m), "float32"), y: R.Tensor((k,), "float32")):
        s = R.shape_to_tensor(R.shape_of(x))
        t = R.flip(s, axes=[0])
        h = R.tensor_to_shape(t)
        z = R.reshape(y, h)
        return R.matmul(x, z)
)",
               {ramp({2, 3}), ramp({6})}, {2, 2}, 10 + 13 + 28 + 40);
}

TEST_F(RunTimeSizes, OtherOperatorsThatTakeShapes) {
  const std::string all = R"(
    @R.function
    def main(x: R.Tensor((k,), "float32"), s: R.Tensor((2,), "int64")):
        h = R.tensor_to_shape(s)
        a = R.broadcast_to(x, h)
        b = R.full(h, R.const(2.0, "float32"))
        c = R.zeros(h, dtype="float32")
        d = R.stack((a, b, c), axis=0)
        e = R.concat((d, d), axis=1)
        return R.sum(e, axis=[0])
)";
  expect_shape(all, {ramp({3}), sizes({2, 3})}, {4, 3}, 36);
  expect_shape(all, {ramp({1}), sizes({2, 3})}, {4, 3}, 24);
  EXPECT_EQ(refusal(all, {ramp({2}), sizes({2, 3})}), "T0501: a tensor has shape [2] where [3] is required");
}

TEST_F(RunTimeSizes, TensorsOfKnownRank) {
  const std::string add = R"(
    @R.function
    def main(x: R.Tensor(ndim=2, dtype="float32"), y: R.Tensor(ndim=1, dtype="float32")):
        z = R.add(x, y)
        return R.multiply(z, x)
)";
  expect_shape(add, {ramp({2, 3}), ramp({3})}, {2, 3}, 55 + 1 + 2 * 2 + 4 + 5 * 2);
  expect_shape(add, {ramp({2, 1}), ramp({3})}, {2, 3}, 3 + 1 + 2 + 3 - 3);
  EXPECT_EQ(refusal(add, {ramp({2, 3}), ramp({2})}).substr(0, 5), "T0501");
}

TEST_F(RunTimeSizes, SymbolsThatMeet) {
  const std::string add = R"(
    @R.function
    def main(x: R.Tensor((n,), "float32"), y: R.Tensor((m,), "float32")):
        return R.add(x, y)
)";
  expect_shape(add, {ramp({3}), ramp({3})}, {3}, 6);
  expect_shape(add, {ramp({1}), ramp({3})}, {3}, 3);
  expect_shape(add, {ramp({3}), ramp({1})}, {3}, 3);
  EXPECT_EQ(refusal(add, {ramp({3}), ramp({4})}), "T0501: a tensor has shape [4] where [3] is required");
  // A kernel made for the types alone would read past the end.
  const std::string dot = R"(
    @R.function
    def main(x: R.Tensor((n, k), "float32"), y: R.Tensor((l, m), "float32")):
        return R.matmul(x, y)
)";
  expect_shape(dot, {ramp({1, 2}), ramp({2, 1})}, {1, 1}, 1);
  EXPECT_EQ(refusal(dot, {ramp({1, 2}), ramp({3, 1})}),
            "T0501: a tensor has shape [2] where [3] is required");
}

TEST_F(RunTimeSizes, InBranchesLoopsAndClosures) {
  const std::string text = R"(
    @R.function
    def halves(x: R.Tensor(ndim=1, dtype="float32"), s: R.Tensor((2,), "int64")) -> R.Tensor(ndim=1, dtype="float32"):
        y = R.reshape(x, R.tensor_to_shape(s))
        return R.sum(y, axis=[0])
    @R.function
    def main(x: R.Tensor((k,), "float32"), s: R.Tensor((2,), "int64"), c: R.Tensor((), "bool")):
        @R.function
        def shaped(v: R.Tensor(ndim=1, dtype="float32")):
            return R.add(R.reshape(v, R.tensor_to_shape(s)), R.const(1.0, "float32"))
        if c:
            a = cls.halves(x, s)
            r = R.exp(a)
        else:
            b = shaped(x)
            r = R.sum(b, axis=[1])
        r2: R.Tensor(ndim=1, dtype="float32") = r
        i0 = R.const(0, "int64")
        @R.loop(i0, r2)
        def loop(i: R.Tensor((), "int64"), v: R.Tensor(ndim=1, dtype="float32")):
            with R.condition():
                more = R.less(i, R.const(2, "int64"))
                return more
            j = R.add(i, R.const(1, "int64"))
            w = R.concat((v, R.multiply(v, v)), axis=0)
            return (j, w)
        out = loop[1]
        return R.add(out, out)
)";
  NDArray no = NDArray::empty({}, boolean), yes = NDArray::empty({}, boolean);
  no.set_element_int(0, 0);
  yes.set_element_int(0, 1);
  // Sums 6 and 12, plus 3 each: (6, 15) → and the squares, twice.
  const double a = 6, b = 15;
  const double sum = 2 * (a + b + 2 * (a * a + b * b) + a * a * a * a + b * b * b * b);
  expect_shape(text, {ramp({6}), sizes({2, 3}), no}, {8}, sum);
  EXPECT_EQ(expect_vm_agrees(module_of(text), {ramp({4}), sizes({2, 2}), yes}, 1e-4)[0].shape(),
            std::vector<int64_t>{8});
}

TEST_F(RunTimeSizes, DeclaredSizesAreChecked) {
  const std::string text = R"(
    @R.function
    def main(x: R.Tensor((6,), "float32"), s: R.Tensor((2,), "int64")):
        y: R.Tensor((2, 3), "float32") = R.reshape(x, R.tensor_to_shape(s))
        return R.sum(y, axis=[0])
)";
  expect_shape(text, {ramp({6}), sizes({2, 3})}, {3}, 15);
  EXPECT_EQ(refusal(text, {ramp({6}), sizes({3, 2})}).substr(0, 5), "T0501");
}

TEST_F(RunTimeSizes, UnknownRanksAreComputedInOneDimension) {
  const std::string text = R"(
    @R.function
    def main(x: R.Tensor((6,), "float32"), s: R.Tensor((n,), "int64")):
        h = R.tensor_to_shape(s)
        y = R.reshape(x, h)
        z = R.multiply(R.add(y, y), R.const(0.5, "float32"))
        return R.abs(z)
)";
  expect_shape(text, {ramp({6}), sizes({2, 3})}, {2, 3}, 15);
  expect_shape(text, {ramp({6}), sizes({1, 6, 1})}, {1, 6, 1}, 15);
}

TEST_F(RunTimeSizes, ResultsTakeTheShapeThatAFunctionGives) {
  // A shape of unknown rank, one whose sizes inference finds, and one that nothing else uses.
  for (const char* shape : {"R.tensor_to_shape(s)", "R.shape([2, 3])"}) {
    const std::string text = fmt::format(R"(
    @R.function
    def main(x: R.Tensor((6,), "float32"), s: R.Tensor((n,), "int64")):
        h: R.Shape = {}
        y: R.Tensor(h, "float32") = R.call_dps_packed("test.sizes.copy", (x,), out_sinfo=R.Tensor(h, "float32"))
        return R.flatten(y)
)",
                                         shape);
    registry::add("test.sizes.copy", tenon::Function([](Arguments a) -> Any {
                    const auto from = a[0].as<NDArray>(), to = a[1].as<NDArray>();
                    EXPECT_EQ(to.shape(), (std::vector<int64_t>{2, 3}));
                    std::memcpy(to.data(), from.data(), from.byte_size());
                    return {};
                  }),
                  true);
    expect_shape(text, {ramp({6}), sizes({2, 3})}, {6}, 15);
  }
}

TEST_F(RunTimeSizes, ViewsOfOpenTypesAreNoCopies) {
  // Both types are R.Tensor(dtype="float32"), which says nothing of the shape.
  expect_shape(R"(
    @R.function
    def main(x: R.Tensor((6,), "float32"), s: R.Tensor((n,), "int64"), t: R.Tensor((m,), "int64")):
        h = R.tensor_to_shape(s)
        g = R.tensor_to_shape(t)
        y = R.reshape(x, h)
        z = R.reshape(y, g)
        return z
)",
               {ramp({6}), sizes({2, 3}), sizes({3, 1, 2})}, {3, 1, 2}, 15);
}

TEST_F(RunTimeSizes, UnknownRanksAreRefusedAtTheirLocation) {
  const std::string text = R"(
    @R.function
    def main(x: R.Tensor((6,), "float32"), s: R.Tensor((n,), "int64")):
        h = R.tensor_to_shape(s)
        y = R.reshape(x, h)
        return R.squeeze(y)
)";
  EXPECT_EQ(refusal(text, {ramp({6}), sizes({2, 3})}),
            "T0811 <text>:8:16: operator `squeeze` cannot be compiled here: the rank of an argument is "
            "not known, "
            "R.Tensor(dtype=\"float32\"); a match_cast says it");
}

}  // namespace
}  // namespace tenon::graph::testing_graph
