// SPDX-License-Identifier: Apache-2.0
// Closures on the VM: alone, calling each other, as values, inlined. Every program runs by the interpreter
// and by the VM's code, and its result is also written down here.
#include <fmt/format.h>

#include "graph_language.h"

namespace tenon::graph::testing_graph {
namespace {

// Closures that call each other are the tuple that a closure without parameters gives.
const char* const kEvenAndOdd = R"(
    @R.function
    def main(n: R.Tensor((), "int64"), k: R.Tensor((), "int64")):
        @R.function
        def even_and_odd():
            @R.function
            def even(i: R.Tensor((), "int64")):
                both = even_and_odd()
                odd = both[1]
                done = R.less(i, R.const(1, "int64"))
                if done:
                    r = k
                else:
                    r = odd(R.subtract(i, R.const(1, "int64")))
                return r
            @R.function
            def odd(i: R.Tensor((), "int64")):
                done = R.less(i, R.const(1, "int64"))
                if done:
                    r = R.const(0, "int64")
                else:
                    r = even(R.subtract(i, R.const(1, "int64")))
                return r
            return (even, odd)
        both = even_and_odd()
        even = both[0]
        odd = both[1]
        return (even(n), odd(n))
)";

TEST_F(Graph, ClosuresThatCallEachOther) {
  expect_value(kEvenAndOdd, {number(7, i64), number(5, i64)}, {0, 5});
  expect_value(kEvenAndOdd, {number(10, i64), number(5, i64)}, {5, 0});
  // They are lifted together: nothing but direct calls, which need no stack.
  IRModule planned;
  Session session(build(module(kEvenAndOdd), &planned), {.max_depth = 10});
  EXPECT_EQ(session.invoke({number(3001, i64), number(5, i64)})[1].element_int(0), 5);
  const std::string text = print(planned);
  EXPECT_EQ(text.find("make_closure"), std::string::npos) << text;
  EXPECT_NE(text.find("cls.main_odd("), std::string::npos) << text;
}

// The same written one after the other: the parser makes the group.
TEST_F(Graph, ClosuresInARowMayCallThoseBehindThem) {
  const std::string row = R"(
    @R.function
    def main(n: R.Tensor((), "int64"), k: R.Tensor((), "int64")):
        one = R.const(1, "int64")
        @R.function
        def even(i: R.Tensor((), "int64")):
            if R.less(i, one):
                r = k
            else:
                r = odd(R.subtract(i, one))
            return r
        @R.function
        def twice(i: R.Tensor((), "int64")):
            return even(R.add(i, i))
        @R.function
        def odd(i: R.Tensor((), "int64")):
            if R.less(i, one):
                r = R.const(0, "int64")
            else:
                r = even(R.subtract(i, one))
            return r
        return (even(n), odd(n), twice(n))
)";
  expect_value(row, {number(7, i64), number(5, i64)}, {0, 5, 5});
  IRModule planned;
  Session session(build(module(row), &planned), {.max_depth = 10});
  EXPECT_EQ(session.invoke({number(3001, i64), number(5, i64)})[1].element_int(0), 5);
  EXPECT_EQ(print(planned).find("make_closure"), std::string::npos) << print(planned);
}

TEST_F(Graph, ManyClosuresInARow) {
  auto row = [](int count, bool ring) {
    std::string text = "\n    @R.function\n    def main(n: R.Tensor((), \"int64\")):\n";
    for (int i = 0; i < count; ++i)
      text += fmt::format(
          "        @R.function\n        def f{}(i: R.Tensor((), \"int64\")):\n            return {}(i)\n", i,
          ring ? fmt::format("f{}", (i + 1) % count) : "R.negative");
    return text + "        return f0(n)\n";
  };
  expect_value(row(3000, false), {number(7, i64)}, {-7});
  const IRModule ring = module(row(100, true));
  EXPECT_TRUE(structural_equal(parse_module(print(ring)), ring));
  try {
    module(row(300, true));
    ADD_FAILURE() << "no limit";
  } catch (const DiagnosticError& e) {
    EXPECT_EQ(e.diagnostics[0].code, "T0243");
  }
}

TEST_F(Graph, MistakesInClosuresInARowAreReportedOnce) {
  DiagnosticList problems;
  try {
    module(R"(
    @R.function
    def main(n: R.Tensor((), "int64")):
        @R.function
        def even(i: R.Tensor((), "int64")):
            return odd(R.subtract(i, missing))
        @R.function
        def odd(i: R.Tensor((), "int64")):
            return even(i)
        return (even(n), odd(n))
)");
    ADD_FAILURE() << "no mistake was reported";
  } catch (const DiagnosticError& e) {
    ASSERT_EQ(e.diagnostics.size(), 1u) << e.what();
    EXPECT_EQ(e.diagnostics[0].code, "T0220");
  }
}

TEST_F(Graph, GroupsOfClosuresCaptureValuesAndSizesAndAreValues) {
  // Three that call in turn over a symbolic size that no captured value shows; one is handed to map, one is
  // called by a closure inside another, and the group stands in a closure itself.
  expect_value(std::string(kSum) + kMap + R"(
    @R.function
    def main(x: R.Tensor((n,), "float32"), y: R.Tensor((), "float32")):
        @R.function
        def run(start: R.Tensor((), "float32")):
            @R.function
            def three():
                @R.function
                def add(v: R.Tensor((), "float32")) -> R.Tensor((n,), "float32"):
                    all = three()
                    scale = all[2]
                    w = R.add(v, y)
                    return scale(w)
                @R.function
                def scale(v: R.Tensor((), "float32")) -> R.Tensor((n,), "float32"):
                    all = three()
                    stop = all[0]
                    @R.function
                    def later(u: R.Tensor((), "float32")) -> R.Tensor((n,), "float32"):
                        return stop(R.multiply(u, start))
                    return later(v)
                @R.function
                def stop(v: R.Tensor((), "float32")) -> R.Tensor((n,), "float32"):
                    small = R.less(v, R.const(100.0, "float32"))
                    if small:
                        r: R.Tensor((n,), "float32") = add(v)
                    else:
                        r: R.Tensor((n,), "float32") = R.broadcast_to(v, R.shape([n]))
                    return r
                return (stop, add, scale)
            all = three()
            add = all[1]
            stop = all[0]
            @R.function
            def total(v: R.Tensor((), "float32")) -> R.Tensor((), "float32"):
                return R.sum(add(v))
            sums = cls.sum(cls.map(total, Cons(start, Cons(y, Nil()))))
            vectors = cls.map(stop, Cons(start, Nil()))
            match vectors:
                case Cons((v: R.Tensor((n,), "float32")), _):
                    first: R.Tensor((n,), "float32") = v
                case Nil():
                    first: R.Tensor((n,), "float32") = R.broadcast_to(start, R.shape([n]))
            return (sums, R.add(first, R.broadcast_to(R.const(0.5, "float32"), R.shape([n]))))
        return run(R.const(2.0, "float32"))
)",
               {vector({1, 2}), number(3)},
               // add(2) = 2·(2+3) = 10 → 2·13 = 26 → 2·29 = 58 → 2·61 = 122; add(3) = 12 → 30 → 66 → 138
               {2 * 122 + 2 * 138, 122.5, 122.5});
}

TEST_F(Graph, GroupsOfClosuresThatAreStoredStayValues) {
  // The group itself is put away, and a tuple of its closures is handed on as a whole.
  expect_value(R"(
    @R.function
    def main(n: R.Tensor((), "int64"), k: R.Tensor((), "int64")):
        @R.function
        def pair() -> R.Tuple(R.Callable((R.Tensor((), "int64"),), R.Tensor((), "int64")), R.Callable((R.Tensor((), "int64"),), R.Tensor((), "int64"))):
            @R.function
            def down(i: R.Tensor((), "int64")) -> R.Tensor((), "int64"):
                both = pair()
                test = both[1]
                return test(R.subtract(i, k))
            @R.function
            def test(i: R.Tensor((), "int64")) -> R.Tensor((), "int64"):
                more = R.less(R.const(0, "int64"), i)
                if more:
                    r: R.Tensor((), "int64") = down(i)
                else:
                    r: R.Tensor((), "int64") = i
                return r
            return (down, test)
        cell = R.ref_create(pair)
        again = R.ref_read(cell)
        both = again()
        test = both[1]
        same = pair()
        whole = R.ref_create(same)
        read = R.ref_read(whole)
        down = read[0]
        return (test(n), down(n))
)",
               {number(7, i64), number(3, i64)}, {-2, -2});
}

TEST_F(Graph, ClosuresAreValuesThatCaptureSizes) {
  // compose, a returned closure, a closure over a symbolic size that none of its own values shows.
  expect_value(R"(
    @R.function
    def compose[A, B, C](f: R.Callable((B,), C), g: R.Callable((A,), B)) -> R.Callable((A,), C):
        @R.function
        def both(x: A) -> C:
            y: B = g(x)
            return f(y)
        return both

    @R.function
    def main(x: R.Tensor((n,), "float32"), y: R.Tensor((), "float32")):
        @R.function
        def spread(v: R.Tensor((), "float32")) -> R.Tensor((n,), "float32"):
            return R.broadcast_to(v, R.shape([n]))
        @R.function
        def double(v: R.Tensor((n,), "float32")) -> R.Tensor((n,), "float32"):
            return R.add(v, v)
        h = cls.compose(double, spread)
        z: R.Tensor((n,), "float32") = h(y)
        return R.add(z, x)
)",
               {vector({1, 2, 3}), number(5)}, {11, 12, 13});
}

TEST_F(Graph, ConstructorsAndFunctionsAsValues) {
  expect_value(std::string(kMap) + R"(
    @R.function
    def negate(x: R.Tensor((), "float32")) -> R.Tensor((), "float32"):
        return R.negative(x)

    @R.function
    def main(x: R.Tensor((), "float32")):
        ys = cls.map(cls.negate, Cons(x, Nil()))
        options = cls.map(cls.Option.Some, ys)
        match options:
            case Cons(Some(v), _):
                r = v
            case _:
                r = x
        return r
)",
               {number(4)}, {-4});
}

TEST_F(Graph, DirectCallsOfClosuresAreInlinedAndFused) {
  const IRModule m = module(R"(
    @R.function
    def main(x: R.Tensor((n,), "float32"), k: R.Tensor((), "float32")):
        @R.function
        def f(v: R.Tensor((n,), "float32")) -> R.Tensor((n,), "float32"):
            w = R.multiply(v, k)
            return R.exp(w)
        return R.negative(f(R.add(x, x)))
)");
  IRModule planned;
  build(m, &planned);
  int programs = 0, functions = 0;
  for (auto [name, f] : planned.functions()) {
    programs += f.is<tir::PrimFuncNode>();
    functions += f.is<Function>();
  }
  EXPECT_EQ(programs, 1) << print(planned);
  EXPECT_EQ(functions, 1);
  expect_vm_agrees(m, {random_array({5}), number(0.5)});
}

}  // namespace
}  // namespace tenon::graph::testing_graph
