// SPDX-License-Identifier: Apache-2.0
// partial_evaluate: what is left where values are known, and that it means the same.
#include "support.h"

namespace tenon::graph::testing_graph {
namespace {

const char* const kHead = R"(
@I.ir_module
class Module:
    @I.data_type
    class Values:
        Nil: ()
        Cons: (R.Tensor((), "float32"), Values)
)";
NDArray number(double v, DataType t = f32) { return NDArray::scalar(v, t); }
/// What the pass leaves of main.
Names evaluated(const std::string& functions, const std::vector<NDArray>& inputs,
                const std::string& option = "") {
  PassContext context = make_context();
  if (!option.empty()) context.options.set_text(option);
  const IRModule in = run_pass("infer_types", parse_module(kHead + functions), context);
  IRModule out = run_pass("partial_evaluate", in, context);
  expect_valid(out);
  expect_close(run(in, inputs), run(out, inputs), 0);
  out = run_pass("eliminate_dead_code", out, context);
  expect_close(run(in, inputs), run(out, inputs), 0);
  return ops_of(out);
}

TEST(PartialEvaluate, RecursionOverAKnownNumber) {
  const std::string power = R"(
    @R.function
    def power(x: R.Tensor((), "float32"), n: R.Tensor((), "int64")) -> R.Tensor((), "float32"):
        c = R.equal(n, R.const(0, "int64"))
        if c:
            r = R.const(1.0, "float32")
        else:
            p = cls.power(x, R.subtract(n, R.const(1, "int64")))
            r = R.multiply(x, p)
        return r
)";
  const std::string known = power + R"(
    @R.function
    def main(x: R.Tensor((), "float32")):
        return cls.power(x, R.const(3, "int64"))
)";
  EXPECT_EQ(evaluated(known, {number(2)}), (Names{"multiply", "multiply", "multiply"}));
  // No more calls than are allowed: the rest stays a call.
  EXPECT_EQ(evaluated(known, {number(2)}, "partial_evaluate.max_calls=2"),
            (Names{"@power", "multiply", "multiply"}));
  EXPECT_EQ(evaluated(power + R"(
    @R.function
    def main(x: R.Tensor((), "float32"), n: R.Tensor((), "int64")):
        return cls.power(x, n)
)",
                      {number(2), number(3, i64)}),
            (Names{"@power"}));
}

TEST(PartialEvaluate, EndlessRecursionStaysACall) {
  PassContext context = make_context();
  const IRModule in = run_pass("infer_types", parse_module(std::string(kHead) + R"(
    @R.function
    def down(n: R.Tensor((), "int64")) -> R.Tensor((), "int64"):
        return cls.down(R.subtract(n, R.const(1, "int64")))
    @R.function
    def main():
        return cls.down(R.const(3, "int64"))
)"),
                               context);
  const IRModule out = run_pass("partial_evaluate", in, context);
  expect_valid(out);
  EXPECT_EQ(ops_of(run_pass("eliminate_dead_code", out, context)), (Names{"@down"}));
}

TEST(PartialEvaluate, ClosuresAndCases) {
  EXPECT_EQ(evaluated(R"(
    @R.function
    def main(x: R.Tensor((), "float32"), y: R.Tensor((), "float32")):
        @R.function
        def scaled(v: R.Tensor((), "float32")) -> R.Tensor((), "float32"):
            return R.multiply(v, y)
        @R.function
        def twice(v: R.Tensor((), "float32")) -> R.Tensor((), "float32"):
            return scaled(scaled(v))
        xs = Cons(x, Cons(y, Nil()))
        match xs:
            case Nil():
                r = x
            case Cons(_, Cons(h, Nil())):
                r = twice(h)
            case Cons(h, _):
                r = R.exp(h)
        return r
)",
                      {number(2), number(5)}),
            (Names{"multiply", "multiply"}));
}

TEST(PartialEvaluate, ReferencesHoldWhatWasWrittenLast) {
  EXPECT_EQ(evaluated(R"(
    @R.function
    def main(x: R.Tensor((), "float32")):
        r = R.ref_create(x)
        a = R.ref_read(r)
        b = R.exp(a)
        w = R.ref_write(r, b)
        c = R.ref_read(r)
        return R.add(c, a)
)",
                      {number(1)}),
            (Names{"exp", "add"}));
  // A branch that is not known may write: what is read behind it is not known either.
  const Names left = evaluated(R"(
    @R.function
    def main(x: R.Tensor((), "float32"), c: R.Tensor((), "bool")):
        r = R.ref_create(x)
        if c:
            w = R.ref_write(r, R.exp(x))
            u = R.const(1.0, "float32")
        else:
            u = R.const(2.0, "float32")
        return R.add(R.ref_read(r), u)
)",
                               {number(1), number(1, DataType::boolean())});
  EXPECT_EQ(std::count(left.begin(), left.end(), "ref_read"), 1);
  // Two names of one reference.
  const Names aliased = evaluated(R"(
    @R.function
    def set(r: R.Ref(R.Tensor((), "float32")), v: R.Tensor((), "float32")) -> R.Tensor((), "float32"):
        w = R.ref_write(r, v)
        return v
    @R.function
    def main(x: R.Tensor((), "float32")):
        r = R.ref_create(x)
        v = cls.set(r, R.exp(x))
        return R.add(R.ref_read(r), v)
)",
                                  {number(1)});
  EXPECT_EQ(aliased, (Names{"exp", "add"}));
}

TEST(EliminateDeadCode, WhatOneCallNamesGoesIntoItsPlace) {
  PassContext context = make_context();
  context.options.set_text("eliminate_dead_code.inline_once=true");
  const IRModule in = run_pass("infer_types", parse_module(R"(
@I.ir_module
class Module:
    @R.function
    def inner(x: R.Tensor((2,), "float32")) -> R.Tensor((2,), "float32"):
        return R.exp(x)
    @R.function
    def outer(x: R.Tensor((2,), "float32")) -> R.Tensor((2,), "float32"):
        y = cls.inner(x)
        return R.tanh(y)
    @R.function
    def again(x: R.Tensor((2,), "float32")) -> R.Tensor((2,), "float32"):
        return cls.again(x)
    @R.function
    def main(x: R.Tensor((2,), "float32"), c: R.Tensor((), "bool")):
        if c:
            r = cls.outer(x)
        else:
            r = cls.again(x)
        return r
)"),
                               context);
  const IRModule out = run_pass("eliminate_dead_code", in, context);
  expect_valid(out);
  EXPECT_EQ(ops_of(out), (Names{"exp", "tanh", "@again"}));
  EXPECT_FALSE(out.find("inner") || out.find("outer"));
  EXPECT_TRUE(out.find("again"));  // it reaches itself
  const std::vector<NDArray> inputs{random_array({2}), number(1, DataType::boolean())};
  expect_close(run(in, inputs), run(out, inputs), 0);
}

}  // namespace
}  // namespace tenon::graph::testing_graph
