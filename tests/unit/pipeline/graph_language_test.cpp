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

}  // namespace
}  // namespace tenon::graph::testing_graph
