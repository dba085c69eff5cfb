// SPDX-License-Identifier: Apache-2.0
// Reductions over a symbolic axis that turns out to be empty give the identity: by the interpreter, after
// each pass of naive loops, and under each rule of the default schedule.
#include <limits>

#include "autoschedule/default.h"
#include "machine.h"
#include "programs.h"

namespace tenon {
namespace {

using namespace tir;
using te::Tensor;

constexpr double kInfinity = std::numeric_limits<double>::infinity();

NDArray garbage(std::vector<int64_t> shape) {
  NDArray a = NDArray::empty(shape, f32);
  for (int64_t i = 0; i < a.size(); ++i) a.set_element(i, 12345);
  return a;
}

/// The program gives `want` everywhere in its output, whether naive or scheduled, before and after each pass.
void expect_identity(const PrimFunc& f, std::vector<NDArray> args, double want) {
  for (const PrimFunc& p : {f, default_schedule(f, machine())}) {
    const std::vector<NDArray> got = run_on(p, args, 1);
    for (int64_t i = 0; i < got[0].size(); ++i) ASSERT_EQ(got[0].element(i), want) << i << "\n" << print(p);
    check_pipeline(p, args);
    if (testing::Test::HasFailure()) {
      ADD_FAILURE() << print(p);
      return;
    }
  }
}
/// And what is not empty still agrees.
void expect_unchanged(const PrimFunc& f, const std::vector<NDArray>& args) {
  const PrimFunc s = default_schedule(f, machine());
  const std::vector<NDArray> want = run_on(f, args, 1), got = run_on(s, args, 1);
  for (int64_t i = 0; i < want[0].size(); ++i)
    ASSERT_NEAR(want[0].element(i), got[0].element(i), 1e-3 * (1 + std::abs(want[0].element(i)))) << print(s);
  check_pipeline(f, args);
  check_pipeline(s, args);
}

using Reducer = PrimExpr (*)(PrimExpr, Array<IterVar>, PrimExpr);
struct Case {
  Reducer reduce;
  double identity;
};
const Case kCases[] = {{te::sum, 0}, {te::max, -kInfinity}, {te::min, kInfinity}, {te::prod, 1}};

TEST(EmptyReduction, RowsAndColumns) {
  for (const Case& c : kCases)
    for (bool rows : {true, false}) {
      VarRef k = var("k");
      Tensor a = rows ? te::placeholder({n64(20), k}, f32, "A") : te::placeholder({k, n64(20)}, f32, "A");
      IterVar v = te::reduce_axis(range(n64(0), k), "k");
      Tensor b = te::compute(
          {n64(20)},
          [&](const Array<VarRef>& i) {
            return c.reduce(rows ? a({i[0], v->var}) : a({v->var, i[0]}), {v}, {});
          },
          "B");
      const PrimFunc f = te::create_prim_func({a, b}, {k});
      auto shape = [&](int64_t n) {
        return rows ? std::vector<int64_t>{20, n} : std::vector<int64_t>{n, 20};
      };
      expect_identity(f, {random_array(shape(0), f32, 1), garbage({20})}, c.identity);
      expect_unchanged(f, {random_array(shape(11), f32, 2), garbage({20})});
      if (HasFailure()) return;
    }
}

TEST(EmptyReduction, Everything) {
  VarRef m = var("m"), k = var("k");
  Tensor a = te::placeholder({m, k}, f32, "A");
  IterVar i = te::reduce_axis(range(n64(0), m), "i"), j = te::reduce_axis(range(n64(0), k), "j");
  Tensor b = te::compute({}, [&](const Array<VarRef>&) { return te::sum(a({i->var, j->var}), {i, j}); }, "B");
  const PrimFunc f = te::create_prim_func({a, b}, {m, k});
  for (auto [x, y] : std::vector<std::pair<int64_t, int64_t>>{{0, 5}, {5, 0}, {0, 0}})
    expect_identity(f, {random_array({x, y}, f32, 1), garbage({})}, 0);
  expect_unchanged(f, {random_array({3, 4}, f32, 1), garbage({})});
}

TEST(EmptyReduction, Matmul) {
  // Tiles of registers: with an epilogue and without, rows of any number, and the dot product of two rows.
  for (bool transposed : {false, true})
    for (bool epilogue : {false, true})
      for (bool symbolic_rows : {false, true}) {
        VarRef k = var("k"), m = var("m");
        const PrimExpr rows = symbolic_rows ? PrimExpr(m) : n64(13);
        Tensor a = te::placeholder({rows, k}, f32, "A"), b = transposed
                                                                 ? te::placeholder({n64(24), k}, f32, "B")
                                                                 : te::placeholder({k, n64(24)}, f32, "B");
        IterVar v = te::reduce_axis(range(n64(0), k), "k");
        Tensor c = te::compute(
            {rows, n64(24)},
            [&](const Array<VarRef>& i) {
              return te::sum(a({i[0], v->var}) * (transposed ? b({i[1], v->var}) : b({v->var, i[1]})), {v});
            },
            "C");
        Tensor d = te::compute(
            {rows, n64(24)},
            [&](const Array<VarRef>& i) { return tir::max(c({i[0], i[1]}), PrimExpr(-1.0)); }, "D");
        const PrimFunc f = te::create_prim_func({a, b, epilogue ? d : c},
                                                symbolic_rows ? Array<VarRef>{m, k} : Array<VarRef>{k});
        auto args = [&](int64_t n) {
          return std::vector<NDArray>{
              random_array({13, n}, f32, 3),
              random_array(transposed ? std::vector<int64_t>{24, n} : std::vector<int64_t>{n, 24}, f32, 4),
              garbage({13, 24})};
        };
        expect_identity(f, args(0), 0);
        expect_unchanged(f, args(1));
        expect_unchanged(f, args(19));
        if (HasFailure()) return;
      }
}

TEST(EmptyReduction, RowCluster) {
  // A row's mean, taken from each of its elements' count: the cluster of rows that a softmax makes.
  VarRef k = var("k");
  Tensor a = te::placeholder({n64(7), k}, f32, "A");
  IterVar u = te::reduce_axis(range(n64(0), k), "u"), v = te::reduce_axis(range(n64(0), k), "v");
  Tensor top =
      te::compute({n64(7)}, [&](const Array<VarRef>& i) { return te::max(a({i[0], u->var}), {u}); }, "top");
  Tensor e = te::compute(
      {n64(7), k}, [&](const Array<VarRef>& i) { return tir::exp(a({i[0], i[1]}) - top({i[0]})); }, "e");
  Tensor total =
      te::compute({n64(7)}, [&](const Array<VarRef>& i) { return te::sum(e({i[0], v->var}), {v}); }, "total");
  Tensor out = te::compute(
      {n64(7)},
      [&](const Array<VarRef>& i) {
        return total({i[0]}) + select(lt(top({i[0]}), PrimExpr(-1e30)), PrimExpr(2.0), PrimExpr(0.0));
      },
      "out");
  const PrimFunc f = te::create_prim_func({a, out}, {k});
  expect_identity(f, {random_array({7, 0}, f32, 1), garbage({7})}, 2);
  expect_unchanged(f, {random_array({7, 21}, f32, 1), garbage({7})});
}

TEST(EmptyReduction, Tuples) {
  VarRef k = var("k");
  Tensor a = te::placeholder({n64(6), k}, f32, "A");
  IterVar v = te::reduce_axis(range(n64(0), k), "v");
  std::vector<Tensor> best = te::compute_multi(
      {n64(6)}, [&](const Array<VarRef>& i) { return te::argmax(v->var, a({i[0], v->var}), {v}); }, "best");
  const PrimFunc f = te::create_prim_func({a, best[0], best[1]}, {k});
  expect_identity(f, {random_array({6, 0}, f32, 1), NDArray::zeros({6}, i64), garbage({6})}, -kInfinity);
}

TEST(EmptyReduction, OfAConstantExtent) {
  // Written by hand: the text has a loop that never runs.
  const PrimFunc f = body_of([&] {
    IRModule m = parse_module(R"(
@T.prim_func
def f(A: T.Buffer((4, 0), "float32"), B: T.Buffer((4,), "float32")):
    for k, i in T.grid(0, 4):
        with T.block("B"):
            vk, vi = T.axis.remap("RS", [k, i])
            with T.init():
                B[vi] = T.float32(3)
            B[vi] = B[vi] + A[vi, vk]
)");
    return m;
  }());
  expect_identity(f, {random_array({4, 0}, f32, 1), garbage({4})}, 3);
}

TEST(EmptyReduction, InnerExtentOfAnOuterLoop) {
  // A triangle: the first step of the outer loop has no inner one.
  const PrimFunc f = body_of(parse_module(R"(
@T.prim_func
def f(A: T.Buffer((n, n), "float32"), B: T.Buffer((n,), "float32")):
    for i in range(n):
        for k in range(i):
            with T.block("B"):
                vi = T.axis.spatial(n, i)
                vk = T.axis.reduce(n, k)
                with T.init():
                    B[vi] = T.float32(0)
                B[vi] = B[vi] + A[vi, vk]
)"));
  const NDArray a = random_array({5, 5}, f32, 9);
  check_pipeline(f, {a, garbage({5})});
  const std::vector<NDArray> got = run_on(f, {a, garbage({5})}, 1);
  for (int64_t i = 0; i < 5; ++i) {
    float want = 0;
    for (int64_t k = 0; k < i; ++k) want += float(a.element(i * 5 + k));
    EXPECT_EQ(got[0].element(i), want);
  }
}

TEST(EmptyReduction, LoopsThatMayNotRunTheInitStayAsTheyAre) {
  // Of an empty spatial loop nothing is written; a loop that only repeats the block starts nothing.
  const PrimFunc f = body_of(parse_module(R"(
@T.prim_func
def f(A: T.Buffer((4, 3), "float32"), B: T.Buffer((4,), "float32"), n: T.int64):
    for i, r in T.grid(4, n):
        for k in range(3):
            with T.block("B"):
                vi, vk = T.axis.remap("SR", [i, k])
                with T.init():
                    B[vi] = T.float32(0)
                B[vi] = B[vi] + A[vi, vk]
)"));
  const NDArray a = random_array({4, 3}, f32, 9);
  for (int64_t n : {0, 1, 2}) {
    NDArray times = NDArray::zeros({}, i64);
    times.set_element_int(0, n);
    const std::vector<NDArray> got = run_on(f, {a, garbage({4}), times}, 1);
    for (int64_t i = 0; i < 4; ++i)
      EXPECT_EQ(got[0].element(i),
                n == 0 ? 12345
                       : float(a.element(i * 3)) + float(a.element(i * 3 + 1)) + float(a.element(i * 3 + 2)));
    check_pipeline(f, {a, garbage({4}), times});
  }
}

}  // namespace
}  // namespace tenon
