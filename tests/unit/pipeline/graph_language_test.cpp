// SPDX-License-Identifier: Apache-2.0
// The graph language on the VM: data types, match, references, recursion. Every program runs by the
// interpreter and by the VM's code, and its result is also written down here.
#include "graph_language.h"

namespace tenon::graph::testing_graph {
namespace {

TEST_F(Graph, ListSumAndMapOverAClosure) {
  expect_value(std::string(kSum) + kMap + R"(
    @R.function
    def main(x: R.Tensor((), "float32"), k: R.Tensor((), "float32")):
        @R.function
        def scale(v: R.Tensor((), "float32")):
            return R.multiply(v, k)
        ys = cls.map(scale, Cons(x, Cons(k, Nil())))
        return cls.sum(ys)
)",
               {number(2), number(3)}, {15});
}

TEST_F(Graph, FoldReverseAndLength) {
  expect_value(R"(
    @R.function
    def fold[A, B](f: R.Callable((A, B), B), start: B, xs: cls.List[A]) -> B:
        match xs:
            case Nil():
                r = start
            case Cons(h, t):
                r = cls.fold(f, f(h, start), t)
        return r

    @R.function
    def main(x: R.Tensor((), "float32"), y: R.Tensor((), "float32")):
        @R.function
        def push(v: R.Tensor((), "float32"), acc: cls.List[R.Tensor((), "float32")]) -> cls.List[R.Tensor((), "float32")]:
            out: cls.List[R.Tensor((), "float32")] = Cons(v, acc)
            return out
        @R.function
        def digits(v: R.Tensor((), "float32"), acc: R.Tensor((), "float32")) -> R.Tensor((), "float32"):
            return R.add(R.multiply(acc, R.const(10.0, "float32")), v)
        @R.function
        def one(v: R.Tensor((), "float32"), acc: R.Tensor((), "float32")) -> R.Tensor((), "float32"):
            return R.add(acc, R.const(1.0, "float32"))
        xs = Cons(x, Cons(y, Cons(R.const(7.0, "float32"), Nil())))
        empty: cls.List[R.Tensor((), "float32")] = Nil()
        back = cls.fold(push, empty, xs)
        return (cls.fold(digits, R.const(0.0, "float32"), back), cls.fold(one, R.const(0.0, "float32"), back))
)",
               {number(1), number(2)}, {721, 3});
}

TEST_F(Graph, TreesOptionsAndNestedPatterns) {
  expect_value(R"(
    @R.function
    def insert(t: cls.Tree[R.Tensor((), "int64")], v: R.Tensor((), "int64")) -> cls.Tree[R.Tensor((), "int64")]:
        match t:
            case Leaf():
                r: cls.Tree[R.Tensor((), "int64")] = Node(Leaf(), v, Leaf())
            case Node(l, x, right):
                c = R.less(v, x)
                if c:
                    r: cls.Tree[R.Tensor((), "int64")] = Node(cls.insert(l, v), x, right)
                else:
                    r: cls.Tree[R.Tensor((), "int64")] = Node(l, x, cls.insert(right, v))
        return r

    @R.function
    def total(t: cls.Tree[R.Tensor((), "int64")]):
        match t:
            case Leaf():
                r = R.const(0, "int64")
            case Node(l, x, right):
                r = R.add(R.add(cls.total(l), x), cls.total(right))
        return r

    @R.function
    def least(t: cls.Tree[R.Tensor((), "int64")]) -> cls.Option[R.Tensor((), "int64")]:
        match t:
            case Leaf():
                r: cls.Option[R.Tensor((), "int64")] = Nothing()
            case Node(Leaf(), x, _):
                r: cls.Option[R.Tensor((), "int64")] = Some(x)
            case Node(l, _, _):
                r: cls.Option[R.Tensor((), "int64")] = cls.least(l)
        return r

    @R.function
    def main(a: R.Tensor((), "int64"), b: R.Tensor((), "int64")):
        e: cls.Tree[R.Tensor((), "int64")] = Leaf()
        t = cls.insert(cls.insert(cls.insert(e, a), b), R.const(4, "int64"))
        m = cls.least(t)
        n = cls.least(e)
        match (m, n):
            case (Some(x), Some(y)):
                r = x
            case (Some(x), Nothing()):
                r = R.add(x, R.const(100, "int64"))
            case (Nothing(), _):
                r = R.const(-1, "int64")
        return (cls.total(t), r)
)",
               {number(5, i64), number(3, i64)}, {12, 103});
}

TEST_F(Graph, ReferencesCountCalls) {
  expect_value(R"(
    @R.function
    def main(x: R.Tensor((), "float32")):
        r = R.ref_create(x)
        @R.function
        def bump(by: R.Tensor((), "float32")) -> R.Tensor((), "float32"):
            old = R.ref_read(r)
            R.ref_write(r, R.add(old, by))
            return old
        a = bump(R.const(1.0, "float32"))
        b = bump(R.const(10.0, "float32"))
        c = R.ref_read(r)
        return (a, b, c)
)",
               {number(5)}, {5, 6, 16});
}

TEST_F(Graph, LocalRecursionAndCountingLoop) {
  expect_value(R"(
    @R.function
    def main(n: R.Tensor((), "int64"), step: R.Tensor((), "int64")):
        @R.function
        def count(i: R.Tensor((), "int64"), s: R.Tensor((), "int64")) -> R.Tensor((), "int64"):
            more = R.less(i, n)
            if more:
                r: R.Tensor((), "int64") = count(R.add(i, R.const(1, "int64")), R.add(s, step))
            else:
                r: R.Tensor((), "int64") = s
            return r
        return count(R.const(0, "int64"), R.const(0, "int64"))
)",
               {number(500, i64), number(3, i64)}, {1500});
}

TEST_F(Graph, LoopsOverOneValue) {
  const std::string loop = R"(
    @R.function
    def main(x: R.Tensor((2,), "float32"), k: R.Tensor((), "int64")):
        acc = R.ref_create(x)
        @R.loop(R.const(0, "int64"))
        def steps(i: R.Tensor((), "int64")):
            with R.condition():
                return R.less(i, k)
            R.ref_write(acc, R.add(R.ref_read(acc), x))
            return NEXT
        return (R.ref_read(acc), steps[0])
)";
  for (const char* next : {"R.add(i, R.const(1, \"int64\"))", "(R.add(i, R.const(1, \"int64\")),)"})
    expect_value(std::string(loop).replace(loop.find("NEXT"), 4, next), {vector({1, 2}), number(3, i64)},
                 {4, 8, 3});
  EXPECT_NE(compile_error(std::string(loop).replace(loop.find("NEXT"), 4, "(i, i)")).find("T1104"),
            std::string::npos);
}

TEST_F(Graph, LoopsKeepTheTypesOfTheirVariables) {
  const std::string loop = R"(
    @R.function
    def main(x: R.Tensor((2, 3), "float32"), h: R.Tensor(ndim=2, dtype="float32"), k: R.Tensor((), "int64")):
        @R.loop(FIRST, R.const(0, "int64"))
        def steps(v: R.Tensor((2, 3), "float32"), i: R.Tensor((), "int64")):
            with R.condition():
                return R.less(i, k)
            return (NEXT, R.add(i, R.const(1, "int64")))
        return R.add(steps[0], x)
)";
  auto with = [&](const char* first, const char* next) {
    std::string text = loop;
    text.replace(text.find("FIRST"), 5, first);
    return text.replace(text.find("NEXT"), 4, next);
  };
  EXPECT_NE(compile_error(with("x", "R.sum(v, axis=[0])")).find("T1105"), std::string::npos);
  EXPECT_NE(compile_error(with("R.permute_dims(x)", "v")).find("T1105"), std::string::npos);
  // What only the run tells is checked then.
  NDArray x = NDArray::zeros({2, 3}, f32), fits = NDArray::zeros({2, 3}, f32),
          other = NDArray::zeros({1, 2}, f32);
  for (const char* first : {"x", "h"})
    for (const char* next : {"v", "h"}) {
      if (first == next) continue;
      const IRModule m = module(with(first, next));
      EXPECT_EQ(expect_vm_agrees(m, {x, fits, number(2, i64)})[0].shape(), x.shape());
      if (std::string(first) == "x" && std::string(next) == "v") continue;
      try {
        Session(build(m)).invoke({x, other, number(2, i64)});
        ADD_FAILURE() << first << " " << next;
      } catch (const Error& e) {
        EXPECT_EQ(e.code, "T0501");
      }
    }
}

TEST_F(Graph, PatternsBindSizes) {
  expect_value(R"(
    @R.function
    def norm(xs: cls.List[R.Tensor((n,), "float32")]) -> R.Tensor((), "float32"):
        match xs:
            case Nil():
                r = R.const(0.0, "float32")
            case Cons(h, t):
                r = R.add(R.sum(R.multiply(h, h)), cls.norm(t))
        return r

    @R.function
    def main(x: R.Tensor((m,), "float32")):
        return cls.norm(Cons(x, Cons(R.add(x, x), Nil())))
)",
               {vector({1, 2})}, {25});
}

TEST_F(Graph, MatchInsideLoopsAndTuplesAsPatterns) {
  expect_value(R"(
    @R.function
    def main(n: R.Tensor((), "int64")):
        zero = R.const(0, "int64")
        @R.loop(zero, (zero, R.const(1, "int64")))
        def out(i: R.Tensor((), "int64"), pair: R.Tuple(R.Tensor((), "int64"), R.Tensor((), "int64"))):
            with R.condition():
                return R.less(i, n)
            match pair:
                case (a, b):
                    next = (b, R.add(a, b))
            return (R.add(i, R.const(1, "int64")), next)
        p = out[1]
        return p[0]
)",
               {number(10, i64)}, {55});
}

TEST_F(Graph, FusionReachesBranchesAndClosures) {
  const IRModule m = module(R"(
    @R.function
    def main(c: R.Tensor((), "bool"), x: R.Tensor((4,), "float32")):
        @R.function
        def f(v: R.Tensor((4,), "float32")):
            if c:
                r = R.exp(R.negative(R.add(v, v)))
            else:
                r = R.sin(R.multiply(v, v))
            return r
        g = R.ref_create(f)
        h = R.ref_read(g)
        return h(x)
)");
  IRModule planned;
  build(m, &planned);
  int programs = 0;
  for (auto [name, f] : planned.functions()) programs += f.is<tir::PrimFuncNode>();
  EXPECT_EQ(programs, 2) << print(planned);
  expect_vm_agrees(m, {number(1, boolean), random_array({4})});
  expect_vm_agrees(m, {number(0, boolean), random_array({4})});
}

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

TEST_F(Graph, WhatKernelsTakeForGrantedIsCheckedBeforeThem) {
  // No guard stands in a kernel: sizes that do not fit end the run before it.
  const IRModule primitive = module(R"(
    @R.function
    def f(x: R.Tensor((n, 4), "float32"), y: R.Tensor((m,), "float32")) -> R.Tensor((n, 4), "float32"):
        R.func_attr({"primitive": 1})
        r: R.Tensor((n, 4), "float32") = R.reshape(y, R.shape([n, 4]))
        z: R.Tensor((n, 4), "float32") = R.add(x, r)
        return z
    @R.function
    def main(x: R.Tensor((n, 4), "float32"), y: R.Tensor((m,), "float32")):
        z = f(x, y)
        return z
)");
  Session adds(build(primitive));
  EXPECT_EQ(adds.invoke({random_array({2, 4}), random_array({8})})[0].size(), 8);
  EXPECT_EQ(run_error([&] { adds.invoke({random_array({2, 4}), random_array({7})}); }), "T0501");
  const IRModule mirrored = module(R"(
    @R.function
    def main(x: R.Tensor((n, m), "float32")):
        return R.exp(R.nn.pad(x, pad_width=[0, 0, 2, 1], pad_mode="reflect"))
)");
  Session pads(build(mirrored));
  EXPECT_EQ(pads.invoke({random_array({2, 3})})[0].shape(), (std::vector<int64_t>{2, 6}));
  EXPECT_EQ(run_error([&] { pads.invoke({random_array({2, 0})}); }), "T0501");
  const IRModule resized = module(R"(
    @R.function
    def main(x: R.Tensor((1, 2, h, w), "float32"), y: R.Tensor((1, 2, k, l), "float32")):
        z = R.image.resize2d(x, R.shape([k, l]), layout="NCHW", method="nearest_neighbor")
        return R.add(z, y)
)");
  Session resizes(build(resized));
  EXPECT_EQ(resizes.invoke({random_array({1, 2, 3, 3}), random_array({1, 2, 5, 4})})[0].size(), 40);
  EXPECT_EQ(resizes.invoke({random_array({1, 2, 0, 3}), random_array({1, 2, 0, 4})})[0].size(), 0);
  EXPECT_EQ(run_error([&] { resizes.invoke({random_array({1, 2, 0, 3}), random_array({1, 2, 5, 4})}); }),
            "T0501");
}

TEST_F(Graph, ShapesThatDoNotFitAreFoundWhenTheyMeet) {
  // What the list holds is not known when the program is compiled.
  const IRModule m = module(R"(
    @R.function
    def main(x: R.Tensor((n,), "float32"), y: R.Tensor((m,), "float32")):
        xs = Cons(x, Cons(y, Nil()))
        match xs:
            case Cons((a: R.Tensor((k,), "float32")), Cons((b: R.Tensor((k,), "float32")), _)):
                r = R.add(a, b)
            case _:
                r = x
        return r
)");
  Session session(build(m));
  EXPECT_EQ(session.invoke({random_array({3}), random_array({3})})[0].shape(), std::vector<int64_t>{3});
  EXPECT_EQ(run_error([&] { session.invoke({random_array({3}), random_array({4})}); }), "T0501");
  EXPECT_EQ(run_error([&] { run(m, {random_array({3}), random_array({4})}); }), "T0357");
  EXPECT_EQ(session.invoke({random_array({5}), random_array({5})})[0].shape(), std::vector<int64_t>{5});
}

// Where only the run tells the rank, a value has none in its type; it goes on by match_cast, or to the
// caller.
TEST_F(Graph, BranchesOfDifferentRank) {
  const std::string branches = R"(
    @R.function
    def main(c: R.Tensor((), "bool"), x: R.Tensor((n, 2), "float32")):
        if c:
            y = R.add(x, x)
        else:
            y = R.sum(x, axis=[0])
        o = Some(y)
        match o:
            case Some(v):
                z = v
            case Nothing():
                z = R.sum(x)
        return (y, R.negative(R.sum(R.exp(x))), (z, x))
)";
  const IRModule m = module(branches);
  NDArray x = NDArray::empty({2, 2}, f32);
  for (int64_t i = 0; i < 4; ++i) x.set_element(i, double(i));
  std::vector<NDArray> got = expect_vm_agrees(m, {number(1, boolean), x});
  EXPECT_EQ(got[0].shape(), (std::vector<int64_t>{2, 2}));
  EXPECT_EQ(got[2].element(3), 6);
  got = expect_vm_agrees(m, {number(0, boolean), x});
  EXPECT_EQ(got[0].shape(), (std::vector<int64_t>{2}));
  EXPECT_EQ(got[2].element(1), 4);

  const IRModule cast = module(R"(
    @R.function
    def total(v: R.Tensor(dtype="float32"), matrix: R.Tensor((), "bool")):
        if matrix:
            a = R.match_cast(v, R.Tensor((n, k), "float32"))
            r = R.sum(R.multiply(a, a), axis=[1])
        else:
            b = R.match_cast(v, R.Tensor((k,), "float32"))
            r = R.exp(b)
        return r

    @R.function
    def main(c: R.Tensor((), "bool"), d: R.Tensor((), "bool"), x: R.Tensor((n, 2), "float32")):
        if c:
            y = (R.add(x, x), x)
        else:
            y = (R.sum(x, axis=[0]), x)
        return cls.total(y[0], d)
)");
  EXPECT_EQ(expect_vm_agrees(cast, {number(1, boolean), number(1, boolean), x})[0].element(1), 4 * (4 + 9));
  EXPECT_EQ(expect_vm_agrees(cast, {number(0, boolean), number(0, boolean), x})[0].shape()[0], 2);
  Session session(build(cast));
  EXPECT_EQ(run_error([&] { session.invoke({number(1, boolean), number(0, boolean), x}); }), "T0501");
  EXPECT_EQ(session.invoke({number(0, boolean), number(0, boolean), x})[0].size(), 2);
}

TEST_F(Graph, LoopsChangeTheRankOfTheirState) {
  const IRModule m = module(R"(
    @R.function
    def main(n: R.Tensor((), "int64"), x: R.Tensor((k, 2), "float32")):
        @R.loop(R.const(0, "int64"), x)
        def out(i: R.Tensor((), "int64"), s: R.Tensor(dtype="float32")):
            with R.condition():
                return R.less(i, n)
            first = R.equal(i, R.const(0, "int64"))
            if first:
                q = R.sum(x, axis=[0])
            else:
                q = R.sum(x)
            return (R.add(i, R.const(1, "int64")), q)
        return out[1]
)");
  for (int64_t n : {0, 1, 2, 3})
    EXPECT_EQ(expect_vm_agrees(m, {number(double(n), i64), random_array({3, 2})})[0].ndim(),
              std::max<int64_t>(0, 2 - n));
}

TEST_F(Graph, OperatorsNeedARank) {
  EXPECT_EQ(compile_error(R"(
    @R.function
    def main(c: R.Tensor((), "bool"), x: R.Tensor((3, 2), "float32")):
        if c:
            y = R.add(x, x)
        else:
            y = R.sum(x)
        return R.squeeze(y)
)"),
            "T0811: operator `squeeze` cannot be compiled here: the rank of an argument is not known, "
            "R.Tensor(dtype=\"float32\"); a match_cast says it");
}

// A declared type holds whatever the value is computed from.
TEST_F(Graph, DeclaredTypesOfComputedValuesAreChecked) {
  const IRModule m = module(R"(
    @R.function
    def main(x: R.Tensor((n, m), "float32")) -> R.Tensor((2, 3), "float32"):
        y = R.exp(x)
        e: R.Tensor((2, 3), "float32") = R.negative(y)
        p: R.Tuple(R.Tensor((2, m), "float32"), R.Tensor((n, 3), "float32")) = (e, y)
        return R.add(e, p[1])
)");
  EXPECT_EQ(expect_vm_agrees(m, {random_array({2, 3})})[0].shape(), (std::vector<int64_t>{2, 3}));
  Session session(build(m));
  EXPECT_EQ(run_error([&] { session.invoke({random_array({3, 2})}); }), "T0501");
  EXPECT_EQ(session.invoke({random_array({2, 3})})[0].size(), 6);
  EXPECT_EQ(compile_error(R"(
    @R.function
    def main(x: R.Tensor((3,), "float32")):
        y = R.exp(x)
        e: R.Tensor((4,), "float32") = R.negative(y)
        return e
)"),
            "T1105: `e` is declared as R.Tensor((4,), \"float32\") and its value has type R.Tensor((3,), "
            "\"float32\")");
  // Tuples as arguments and as results, item by item.
  const IRModule parts = module(R"(
    @R.function
    def f(p: R.Tuple(R.Tensor((3,), "float32"), R.Tensor((k,), "float32"))) -> R.Tuple(R.Tensor((3,), "float32"), R.Tensor((3,), "float32")):
        a = R.add(p[0], p[1])
        return (a, p[1])

    @R.function
    def main(x: R.Tensor((n,), "float32"), y: R.Tensor((m,), "float32")):
        p = (x, y)
        return cls.f(p)
)");
  expect_vm_agrees(parts, {random_array({3}), random_array({3})});
  Session pair(build(parts));
  EXPECT_EQ(run_error([&] { pair.invoke({random_array({4}), random_array({4})}); }), "T0501");
  EXPECT_EQ(run_error([&] { pair.invoke({random_array({3}), random_array({2})}); }), "T0501");
  EXPECT_EQ(pair.invoke({random_array({3}), random_array({3})}).size(), 2u);
}

TEST_F(Graph, FunctionsAreNoResultsOfModels) {
  EXPECT_TRUE(compile_error(R"(
    @R.function
    def main(x: R.Tensor((2,), "float32")):
        @R.function
        def f(v: R.Tensor((2,), "float32")):
            return R.add(v, x)
        return (x, Some(f))
)")
                  .starts_with("T0820: a result of `main` has type cls.Option[R.Callable("));
}

TEST_F(Graph, LongListsAndManyTailCallsNeedNoStack) {
  const IRModule m = module(R"(
    @R.function
    def make(n: R.Tensor((), "int64"), xs: cls.List[R.Tensor((), "int64")]) -> cls.List[R.Tensor((), "int64")]:
        done = R.equal(n, R.const(0, "int64"))
        if done:
            r = xs
        else:
            ys: cls.List[R.Tensor((), "int64")] = Cons(n, xs)
            r = cls.make(R.subtract(n, R.const(1, "int64")), ys)
        return r
    @R.function
    def total(xs: cls.List[R.Tensor((), "int64")], s: R.Tensor((), "int64")) -> R.Tensor((), "int64"):
        match xs:
            case Nil():
                r = s
            case Cons(h, t):
                r = cls.total(t, R.add(s, h))
        return r
    @R.function
    def main(n: R.Tensor((), "int64")):
        empty: cls.List[R.Tensor((), "int64")] = Nil()
        return cls.total(cls.make(n, empty), R.const(0, "int64"))
)");
  Session session(build(m), {.max_depth = 10});
  EXPECT_EQ(session.invoke({number(3000, i64)})[0].element_int(0), 3000 * 3001 / 2);
  // A list as a result of another function, and as an argument again.
  const std::vector<Any> arguments{Any(number(2000, i64)), Any(make<DataObj>())};
  const std::vector<Any> list{session.call("make", arguments), Any(number(0, i64))};
  for (int i = 0; i < 2; ++i) {
    const NDArray total = session.call("total", list).as<NDArray>();
    EXPECT_EQ(total.element_int(0), 2000 * 2001 / 2);
  }
}

TEST_F(Graph, MemoryLimitsCountValuesOfDataTypes) {
  const IRModule m = module(R"(
    @R.function
    def grow(n: R.Tensor((), "int64"), xs: cls.List[R.Tensor((), "int64")]) -> cls.List[R.Tensor((), "int64")]:
        done = R.equal(n, R.const(0, "int64"))
        if done:
            r = xs
        else:
            ys: cls.List[R.Tensor((), "int64")] = Cons(n, xs)
            r = cls.grow(R.subtract(n, R.const(1, "int64")), ys)
        return r
    @R.function
    def main(n: R.Tensor((), "int64"), x: R.Tensor((k,), "float32")):
        empty: cls.List[R.Tensor((), "int64")] = Nil()
        xs = cls.grow(n, empty)
        match xs:
            case Nil():
                r = R.const(0, "int64")
            case Cons(h, _):
                r = h
        y = R.exp(x)
        return (r, y)
)");
  Session session(build(m), {.memory_limit = 1 << 20});
  const auto run_it = [&](int64_t n, int64_t k) {
    return session.invoke({number(double(n), i64), random_array({k})})[0].element_int(0);
  };
  EXPECT_EQ(run_it(3, 2), 1);
  const int64_t resting = session.memory_used();
  for (int again = 0; again < 3; ++again) {
    // A list that is too long, a tensor that is too large, shapes that do not fit: each leaves nothing
    // behind.
    EXPECT_EQ(run_error([&] { run_it(1 << 20, 2); }), "T0507");
    EXPECT_EQ(session.memory_used(), resting);
    EXPECT_EQ(run_error([&] { run_it(3, 1 << 20); }), "T0507");
    EXPECT_EQ(session.memory_used(), resting);
    EXPECT_EQ(run_error([&] { session.invoke({number(3, i64), random_array({2, 2})}); }), "T0505");
    EXPECT_EQ(run_it(100, 2), 1);
    EXPECT_EQ(session.memory_used(), resting);
  }
  // Nodes alone, their tensors aside: the same list over one element.
  session.set_memory_limit(0);
  EXPECT_EQ(run_it(5000, 2), 1);
  EXPECT_EQ(session.memory_used(), resting);
}

TEST_F(Graph, CyclesThroughReferencesAreFreed) {
  static int alive = 0;
  registry::add("test.graph.counted", tenon::Function([](Arguments) {
                  auto* memory = new float(1);
                  NDArray a = NDArray::view(memory, {}, f32);
                  ++alive;
                  a.mut()->release = [memory] {
                    delete memory;
                    --alive;
                  };
                  return Any(a);
                }),
                true);
  // Landin's knot: the reference holds a closure that holds the reference.
  const IRModule m = module(R"(
    @R.function
    def main(x: R.Tensor((), "float32")):
        big = R.call_packed("test.graph.counted", sinfo_args=R.Tensor((), "float32"))
        @R.function
        def first(v: R.Tensor((), "float32")) -> R.Tensor((), "float32"):
            return R.add(v, big)
        r = R.ref_create(first)
        @R.function
        def knot(v: R.Tensor((), "float32")) -> R.Tensor((), "float32"):
            f = R.ref_read(r)
            return R.add(v, big)
        R.ref_write(r, knot)
        g = R.ref_read(r)
        y: R.Tensor((), "float32") = g(x)
        return y
)");
  run(m, {number(1)});
  EXPECT_EQ(alive, 0);
  Session session(build(m));
  EXPECT_EQ(session.invoke({number(1)})[0].element(0), 2);
  EXPECT_EQ(alive, 0);
}

TEST_F(Graph, TextIsAnArgumentOfPackedFunctions) {
  std::set<std::string> got;
  registry::add("test.graph.named", tenon::Function([&](Arguments a) -> Any {
                  got.insert(a[0].as<std::string>());
                  return a[1];
                }),
                true);
  const IRModule m = module(R"(
    @R.function
    def main(x: R.Tensor((2,), "float32")):
        a = R.call_packed("test.graph.named", R.str("weight é"), x, sinfo_args=R.Tensor((2,), "float32"))
        b = R.call_packed("test.graph.named", R.str(""), a, sinfo_args=R.Tensor((2,), "float32"))
        return b
)");
  expect_vm_agrees(m, {vector({1, 2})});
  EXPECT_EQ(got, (std::set<std::string>{"weight é", ""}));
  registry::remove("test.graph.named");
}

TEST_F(Graph, ResultsOfDataTypesAreValues) {
  const IRModule m = module(R"(
    @R.function
    def main(x: R.Tensor((n,), "float32")):
        o = Some((x, R.shape_of(x)))
        return (o, R.negative(x))
)");
  Session session(build(m));
  const std::vector<Any> arguments{Any(vector({1, 2}))};
  // There is no tensor for it, and the session lives on.
  EXPECT_EQ(run_error([&] { session.invoke({vector({1, 2})}); }), "T0518");
  const auto items = session.call("main", arguments).as<Array<Any>>();
  const auto some = items[0].as<Data>();
  EXPECT_EQ(some->tag, 1);
  const auto inside = some->items[0].as<Array<Any>>();
  EXPECT_EQ(inside[0].as<NDArray>().element(1), 2);
  EXPECT_EQ(inside[1].as<Shape>()->dims, std::vector<int64_t>{2});
  EXPECT_EQ(items[1].as<NDArray>().element(1), -2);
  // Scalars, shapes and tuples in tuples are tensors in order.
  const IRModule flat = module(R"(
    @R.function
    def main(x: R.Tensor((n, 3), "float32")):
        return ((x, (R.shape_of(x), R.prim_value(n + 1))), R.negative(x))
)");
  const std::vector<NDArray> got = Session(build(flat)).invoke({random_array({2, 3})});
  ASSERT_EQ(got.size(), 4u);
  EXPECT_EQ(got[1].element_int(1), 3);
  EXPECT_EQ(got[2].element_int(0), 3);
}

// A size may depend on a condition: an end below 0 counts from the other side.
TEST_F(Graph, SizesThatDependOnConditions) {
  const std::string cut = R"(
    @R.function
    def main(x: R.Tensor((n,), "float32"), y: R.Tensor((m,), "float32")):
        z = R.strided_slice(x, axes=[0], begin=[0], end=[m - 2])
        w = R.add(z, z)
        return w
)";
  const NDArray x = vector({1, 2, 3, 4, 5});
  expect_value(cut, {x, vector({0})}, {2, 4, 6, 8});  // x[:-1]
  expect_value(cut, {x, vector({0, 0})}, {});
  expect_value(cut, {x, vector({0, 0, 0, 0})}, {2, 4});
  expect_value(cut, {x, vector(std::vector<float>(9))}, {2, 4, 6, 8, 10});
}

}  // namespace
}  // namespace tenon::graph::testing_graph
