// SPDX-License-Identifier: Apache-2.0
// Programs of the graph language that are refused, by the parser, by types or while they run: with what code,
// and where.
#include "graph_language.h"

namespace tenon::graph::testing_graph {
namespace {

TEST_F(Graph, MissingCasesHaveALocation) {
  DiagnosticList problems;
  verify(parse_module(R"(@I.ir_module
class Module:
    @I.data_type
    class List[A]:
        Nil: ()
        Cons: (A, List[A])

    @R.function
    def main(x: R.Tensor((), "bool")):
        match Cons(x, Nil()):
            case Nil():
                r = x
        return r
)"),
         problems);
  ASSERT_EQ(problems.all().size(), 1u);
  const std::string text = render(problems.all()[0]);
  EXPECT_NE(text.find("<text>:10:9, function `main`, binding of `r`"), std::string::npos) << text;
  EXPECT_NE(text.find("match Cons(x, Nil()):\n"), std::string::npos) << text;
}

TEST_F(Graph, MissingCasesAreNamed) {
  EXPECT_EQ(compile_error(R"(
    @R.function
    def main(x: R.Tensor((), "float32")):
        match Cons(x, Nil()):
            case Nil():
                r = x
            case Cons(h, Nil()):
                r = h
        return r
)"),
            "T0330: the cases do not cover every value: `Cons(_, Cons(_, _))` is missing");
  EXPECT_EQ(compile_error(R"(
    @R.function
    def main(a: cls.Option[R.Tensor((), "float32")], b: cls.Option[R.Tensor((), "float32")]):
        match (a, b):
            case (Some(x), _):
                r = x
            case (_, Some(x)):
                r = x
        return r
)"),
            "T0330: the cases do not cover every value: `(Nothing(), Nothing())` is missing");
}

TEST_F(Graph, TypeErrorsAreLocatedBeforeAnythingRuns) {
  EXPECT_TRUE(
      compile_error(std::string(kSum) + R"(
    @R.function
    def main(x: R.Tensor((3,), "float32")):
        return cls.sum(x)
)")
          .starts_with("T1104: argument 0 of `sum` has type R.Tensor((3,), \"float32\") where cls.List["));
  EXPECT_TRUE(compile_error(R"(
    @R.function
    def f(x: R.Tensor((4,), "float32")) -> R.Tensor((4,), "float32"):
        return R.exp(x)
    @R.function
    def main(x: R.Tensor((3,), "float32")):
        return cls.f(x)
)")
                  .starts_with("T1104"));
  EXPECT_TRUE(compile_error(R"(
    @R.function
    def main(x: R.Tensor((3,), "float32")) -> R.Tensor((4,), "float32"):
        return R.exp(x)
)")
                  .starts_with("T1105"));
  EXPECT_TRUE(compile_error(R"(
    @R.function
    def main(x: R.Tensor((3,), "float32")):
        r = R.ref_read(x)
        return r
)")
                  .starts_with("T1101"));
}

TEST_F(Graph, UnboundNamesAndWrongPatternsAreRefusedByTheParser) {
  auto code = [](const std::string& text) -> std::string {
    try {
      module(text);
    } catch (const DiagnosticError& e) {
      return e.diagnostics[0].code;
    }
    return "";
  };
  EXPECT_EQ(code("    @R.function\n    def main(x: R.Object):\n        return y\n"), "T0220");
  EXPECT_EQ(code("    @R.function\n    def main(x: cls.List[R.Object, R.Object]):\n        return x\n"),
            "T0242");
  EXPECT_EQ(code("    @R.function\n    def main(x: cls.List[R.Object]):\n        match x:\n"
                 "            case Cons(a):\n                r = a\n        return r\n"),
            "T0242");
  EXPECT_EQ(
      code("    @R.function\n    def main(x: R.Object):\n        y = cls.List.Push(x)\n        return y\n"),
      "T0242");
}

TEST_F(Graph, RecursionWithoutEndIsAnErrorAndTheSessionLives) {
  const IRModule m = module(R"(
    @R.function
    def deep(x: R.Tensor((), "float32")) -> R.Tensor((), "float32"):
        y = cls.deep(x)
        return R.add(y, x)
    @R.function
    def tail(x: R.Tensor((), "float32")) -> R.Tensor((), "float32"):
        return cls.tail(x)
    @R.function
    def main(c: R.Tensor((), "int64"), x: R.Tensor((), "float32")):
        zero = R.equal(c, R.const(0, "int64"))
        one = R.equal(c, R.const(1, "int64"))
        if zero:
            r = R.exp(x)
        else:
            if one:
                r = cls.deep(x)
            else:
                r = cls.tail(x)
        return r
)");
  Session session(build(m), {.max_tail_calls = 100000});
  for (int i : {1, 2}) {
    EXPECT_EQ(run_error([&] { session.invoke({number(i, i64), number(1)}); }), "T0508");
    EXPECT_EQ(session.invoke({number(0, i64), number(0)})[0].element(0), 1);
    EXPECT_EQ(run_error([&] { run(m, {number(i, i64), number(1)}); }), "T0352");
  }
}

TEST_F(Graph, FunctionsThatNeverReturnHaveAnUnknownType) {
  const IRModule m = module(R"(
    @R.function
    def f(x: R.Tensor((), "float32")):
        return cls.g(x)
    @R.function
    def g(x: R.Tensor((), "float32")):
        return cls.f(x)
    @R.function
    def main(x: R.Tensor((), "float32")):
        if R.greater(x, R.const(0, "float32")):
            y = cls.f(x)
        else:
            y = R.exp(x)
        return y
)");
  Session session(build(m), {.max_tail_calls = 1000});
  EXPECT_EQ(run_error([&] { session.invoke({number(1)}); }), "T0508");
}

TEST_F(Graph, CallsWithoutEndOnEveryWayAreRefused) {
  EXPECT_EQ(compile_error(R"(
    @R.function
    def even(x: R.Tensor((), "float32")) -> R.Tensor((), "float32"):
        c = R.greater(x, R.const(0, "float32"))
        if c:
            y = cls.odd(x)
        else:
            z = R.negative(x)
            y = cls.odd(z)
        return y
    @R.function
    def odd(x: R.Tensor((), "float32")) -> R.Tensor((), "float32"):
        return cls.even(x)
    @R.function
    def main(x: R.Tensor((), "float32")):
        y = cls.even(x)
        return y
)"),
            "T1109: `odd` calls `even`, which waits for it whatever it is given: the model never ends");
  EXPECT_EQ(compile_error(R"(
    @R.function
    def main(x: R.Tensor((), "float32")) -> R.Tensor((), "float32"):
        return cls.main(x)
)"),
            "T1109: `main` calls itself whatever it is given: the model never ends");
  // Local functions, through choices inside of choices.
  EXPECT_EQ(compile_error(R"(
    @R.function
    def main(x: R.Tensor((), "float32"), c: R.Tensor((), "bool")):
        @R.function
        def f(y: R.Tensor((), "float32")) -> R.Tensor((), "float32"):
            if c:
                if R.greater(y, x):
                    r = f(R.add(y, y))
                else:
                    r = f(x)
            else:
                r = f(y)
            return r
        return f(x)
)"),
            "T1109: `f` calls itself whatever it is given: the model never ends");
}

TEST_F(Graph, ALocalFunctionWithoutEndThatNobodyCalls) {
  const IRModule m = module(R"(
    @R.function
    def main(x: R.Tensor((), "float32")):
        @R.function
        def f(y: R.Tensor((), "float32")) -> R.Tensor((), "float32"):
            return f(R.add(y, y))
        if R.greater(x, R.const(1, "float32")):
            r = f(x)
        else:
            r = R.exp(x)
        return r
)");
  expect_vm_agrees(m, {number(0)});
}

TEST_F(Graph, ChoicesInChoicesAreLookedAtOnce) {
  constexpr int kDepth = 48;  // twice the work for each would not end
  std::string text = R"(
    @R.function
    def main(x: R.Tensor((), "float32"), c: R.Tensor((), "bool")):
)";
  for (int d = 0; d < kDepth; ++d) text += std::string(size_t(8 + 4 * d), ' ') + "if c:\n";
  text += std::string(size_t(8 + 4 * kDepth), ' ') + "y = R.add(x, x)\n";
  for (int d = kDepth; d-- > 0;)
    text += std::string(size_t(8 + 4 * d), ' ') + "else:\n" + std::string(size_t(12 + 4 * d), ' ') +
            "y = R.negative(x)\n";
  EXPECT_EQ(compile_error(text + "        return y\n"), "");
}

}  // namespace
}  // namespace tenon::graph::testing_graph
