// SPDX-License-Identifier: Apache-2.0
// Shapes and ranks that only a run of a program knows: checked where they meet, before kernels take them for
// granted.
#include "graph_language.h"
#include "pipeline/emit.h"
#include "runtime/builtin.h"

namespace tenon::graph::testing_graph {
namespace {

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

TEST_F(Graph, WhatIsPickedOfACheckedAxisNeedsNoGuard) {
  // That n is 0 only where nothing is picked is known to the kernel, which clamps what it reads of i.
  const IRModule m = module(R"(
    @R.function
    def main(x: R.Tensor((n, m, 8), "float32"), i: R.Tensor((), "int64")):
        return R.exp(R.take(R.permute_dims(x, axes=[1, 0, 2]), i, axis=1))
)");
  Session session(jit_artifact(compile(m, {})));
  for (const auto& [key, value] : session.artifact().executable().metadata)
    EXPECT_FALSE(key.starts_with("asserts.")) << value;
  EXPECT_EQ(session.invoke({random_array({3, 2, 8}), number(2, i64)})[0].size(), 16);
  EXPECT_EQ(session.invoke({random_array({0, 0, 8}), number(0, i64)})[0].size(), 0);
  EXPECT_EQ(run_error([&] { session.invoke({random_array({0, 2, 8}), number(0, i64)}); }), "T0501");
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

TEST_F(Graph, AStateThatKeepsItsSizesIsComparedNoMore) {
  const IRModule m = module(R"(
    @R.function
    def main(n: R.Tensor((), "int64"), x: R.Tensor((k, 2), "float32")):
        @R.loop(R.const(0, "int64"), x)
        def out(i: R.Tensor((), "int64"), s: R.Tensor((k, 2), "float32")):
            with R.condition():
                return R.less(i, n)
            return (R.add(i, R.const(1, "int64")), R.add(s, x))
        return out[1]
)");
  for (int64_t n : {0, 1, 3}) expect_vm_agrees(m, {number(double(n), i64), random_array({3, 2})});
  const Artifact artifact = build(m);
  const Executable& e = artifact.executable();
  const auto compares = [&](const Instruction& i) {
    return i.op == Opcode::Call && e.callees[size_t(i.callee)].name == name_of(Builtin::match_shape);
  };
  EXPECT_EQ(std::ranges::count_if(e.code, compares), 1);  // the inputs of `main`
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
