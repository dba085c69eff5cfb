// SPDX-License-Identifier: Apache-2.0
// Values of the graph language beyond tensors: what a model gives back and takes, how much memory they take,
// when they are freed.
#include "graph_language.h"

namespace tenon::graph::testing_graph {
namespace {

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

TEST_F(Graph, SizesOfARunDecideBranches) {
  const IRModule m = module(R"(
    @R.function
    def main(x: R.Tensor((n, k), "float32")):
        if R.prim_value(n * k > 10 and n >= 4):
            y = R.add(x, x)
        else:
            y = R.negative(x)
        return y
)");
  Session session(build(m));
  for (int repeats = 0; repeats < 4; ++repeats)  // later runs are recorded
    for (const auto& [n, k, factor] :
         {std::tuple<int64_t, int64_t, int>{4, 3, 2}, {4, 2, -1}, {3, 9, -1}, {9, 2, 2}}) {
      const NDArray x = random_array({n, k}), y = session.invoke({x})[0];
      EXPECT_EQ(y.element(1), factor * x.element(1)) << n << "x" << k;
      EXPECT_EQ(run(m, {x})[0].element(1), y.element(1)) << n << "x" << k;
    }
}

}  // namespace
}  // namespace tenon::graph::testing_graph
