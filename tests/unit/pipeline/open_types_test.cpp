// SPDX-License-Identifier: Apache-2.0
// Parameters without a type: calls say what they are. Every program runs by the interpreter and by the VM.
#include "data_types.h"
#include "ir/text.h"
#include "support.h"

namespace tenon::graph::testing_graph {
namespace {

struct OpenTypes : testing::Test {};

IRModule open_module(const std::string& functions) {
  return parse_module("@I.ir_module\nclass Module:\n" + functions);
}
IRModule typed(const IRModule& m) {
  PassContext context = make_context();
  return run_passes(m, std::span(find_pass("infer_types"), 1), context);
}
NDArray values(std::vector<float> v) {
  return NDArray::from_bytes({int64_t(v.size())}, f32, v.data(), v.size() * sizeof(float));
}
NDArray one(double v, DataType t = f32) { return NDArray::scalar(v, t); }
void expect_values(const std::string& functions, const std::vector<NDArray>& inputs,
                   std::vector<double> want) {
  const IRModule m = open_module(functions);
  const std::string before = print(m);
  const IRModule t = typed(m);
  EXPECT_TRUE(structural_equal(parse_module(print(t)), t)) << print(t);
  expect_valid(t);
  EXPECT_EQ(print(m), before);
  std::vector<double> all;
  for (const NDArray& a : expect_vm_agrees(m, inputs))
    for (int64_t i = 0; i < a.size(); ++i) all.push_back(a.element(i));
  EXPECT_EQ(all, want) << print(t);
}
std::string mistake(const std::string& functions) {
  try {
    typed(open_module(functions));
  } catch (const DiagnosticError& e) {
    return e.diagnostics[0].code + " " + e.diagnostics[0].location + ": " + e.diagnostics[0].message;
  }
  return "";
}

TEST_F(OpenTypes, AFunctionOfTheModule) {
  const std::string text = R"(
    @R.function
    def scaled(x, k):
        return R.multiply(R.add(x, x), k)
    @R.function
    def main(a: R.Tensor((n,), "float32"), k: R.Tensor((), "float32")):
        return cls.scaled(a, k)
)";
  expect_values(text, {values({1, 2, 3}), one(2)}, {4, 8, 12});
  const auto f = typed(open_module(text)).find("scaled").cast<Function>();
  EXPECT_EQ(print(f->params[0]->declared), "R.Tensor((size_0,), \"float32\")");
  EXPECT_EQ(print(f->params[1]->declared), "R.Tensor((), \"float32\")");
  EXPECT_TRUE(structural_equal(f->ret_type, f->params[0]->declared));
}

TEST_F(OpenTypes, CallsThatDifferMakeSizesSymbols) {
  const std::string text = R"(
    @R.function
    def both(x, y):
        return R.add(x, y)
    @R.function
    def main(a: R.Tensor((2,), "float32"), b: R.Tensor((3,), "float32")):
        p = cls.both(a, a)
        q = cls.both(b, b)
        return (p, q)
)";
  expect_values(text, {values({1, 2}), values({1, 2, 3})}, {2, 4, 2, 4, 6});
  const auto f = typed(open_module(text)).find("both").cast<Function>();
  EXPECT_TRUE(structural_equal(f->params[0]->declared, f->params[1]->declared));
}

TEST_F(OpenTypes, AClosureSeesTheSizesAroundIt) {
  const std::string text = R"(
    @R.function
    def main(a: R.Tensor((n,), "float32"), b: R.Tensor((n,), "float32")):
        @R.function
        def f(x, y):
            return R.add(R.multiply(x, y), b)
        return f(f(a, b), a)
)";
  expect_values(text, {values({1, 2}), values({3, 5})}, {9, 35});
}

TEST_F(OpenTypes, RecursionOfFunctionsAndClosures) {
  expect_values(R"(
    @R.function
    def power(x, n):
        done = R.less_equal(n, R.const(0, "int64"))
        if done:
            r = R.ones_like(x)
        else:
            r = R.multiply(x, cls.power(x, R.subtract(n, R.const(1, "int64"))))
        return r
    @R.function
    def main(a: R.Tensor((k,), "float32"), n: R.Tensor((), "int64")):
        return cls.power(a, n)
)",
                {values({1, 2}), one(3, i64)}, {1, 8});
  expect_values(R"(
    @R.function
    def main(a: R.Tensor((k,), "float32"), n: R.Tensor((), "int64")):
        @R.function
        def power(x, m):
            done = R.less_equal(m, R.const(0, "int64"))
            if done:
                r = R.ones_like(a)
            else:
                r = R.multiply(x, power(x, R.subtract(m, R.const(1, "int64"))))
            return r
        return power(a, n)
)",
                {values({1, 2}), one(3, i64)}, {1, 8});
}

TEST_F(OpenTypes, FunctionsAsArguments) {
  expect_values(R"(
    @R.function
    def twice(f, x):
        return f(f(x))
    @R.function
    def main(a: R.Tensor((n,), "float32"), k: R.Tensor((), "float32")):
        @R.function
        def scale(v):
            return R.multiply(v, k)
        return cls.twice(scale, a)
)",
                {values({1, 2}), one(3)}, {9, 18});
}

const std::string kMapped = std::string(kDataTypes) + kMap + R"(
    @R.function
    def sum(xs, zero):
        match xs:
            case Nil():
                r = zero
            case Cons(h, t):
                r = R.add(h, cls.sum(t, zero))
        return r
)";
TEST_F(OpenTypes, ListsAndPolymorphicFunctions) {
  expect_values(kMapped + R"(
    @R.function
    def main(x: R.Tensor((), "float32"), k: R.Tensor((), "float32")):
        @R.function
        def scale(v):
            return R.multiply(v, k)
        ys = cls.map(scale, Cons(x, Cons(k, Nil())))
        return cls.sum(ys, R.const(0.5, "float32"))
)",
                {one(2), one(3)}, {15.5});
}

TEST_F(OpenTypes, WhatStaysOpenIsRefusedWithItsPlace) {
  EXPECT_EQ(mistake(R"(
    @R.function
    def main(x):
        return R.exp(x)
)"),
            "T1106 <text>:5:14: the type of parameter `x` of `main` is not known: no call says it");
  EXPECT_EQ(mistake(R"(
    @R.function
    def f(x):
        return R.exp(x)
    @R.function
    def main(x: R.Tensor((2,), "float32"), y: R.Tensor((2,), "int32")):
        a = cls.f(x)
        b = cls.f(y)
        return (a, b)
)")
                .substr(0, 51),
            "T1106 <text>:5:11: parameter `x` of `f` is given R.");
  // What is only handed on may be anything.
  EXPECT_EQ(mistake(R"(
    @R.function
    def f(x):
        return x
    @R.function
    def main(x: R.Tensor((2,), "float32"), y: R.Tensor((2,), "int32")):
        a = cls.f(x)
        b = cls.f(y)
        return (a, b)
)"),
            "");
}

TEST_F(OpenTypes, AnOperatorSaysTheElementTypeWhereNoCallDoes) {
  const std::string text = R"(
    @R.function
    def main(x, w: R.Tensor((3,), "float32")):
        return R.multiply(R.add(x, w), x)
)";
  expect_values(text, {values({1, 2, 3}), values({1, 1, 1})}, {2, 6, 12});
  const auto f = typed(open_module(text)).find("main").cast<Function>();
  EXPECT_EQ(print(f->params[0]->declared), "R.Tensor(dtype=\"float32\")");
  // Calls say more, wherever they stand.
  expect_values(R"(
    @R.function
    def shifted(x, w):
        return R.add(x, w)
    @R.function
    def main(a: R.Tensor((n,), "float32"), w: R.Tensor((), "float32")):
        return cls.shifted(a, w)
)",
                {values({1, 2}), one(2)}, {3, 4});
}

TEST_F(OpenTypes, AFunctionThatIsReturned) {
  expect_values(R"(
    @R.function
    def adder(x: R.Tensor((n,), "float32")):
        @R.function
        def add(y):
            return R.add(x, y)
        return add
    @R.function
    def main(a: R.Tensor((n,), "float32"), k: R.Tensor((), "float32")):
        add = cls.adder(a)
        return add(k)
)",
                {values({1, 2}), one(2)}, {3, 4});
}

TEST_F(OpenTypes, MistakesInsideAreToldAsElsewhere) {
  EXPECT_EQ(mistake(R"(
    @R.function
    def f(x, y):
        return R.add(x, y)
    @R.function
    def main(x: R.Tensor((2,), "float32"), y: R.Tensor((3,), "float32")):
        return cls.f(x, y)
)")
                .substr(0, 17),
            "T1101 <text>:6:16");
}

}  // namespace
}  // namespace tenon::graph::testing_graph
