// SPDX-License-Identifier: Apache-2.0
// Tensor expressions compiled: te::build compiles them, and the result runs on tensors.
#include "check.h"
#include "pipeline/te_build.h"
#include "te/packed.h"

namespace tenon::testing {
namespace {

NDArray ramp(std::vector<int64_t> shape) {
  NDArray a = NDArray::empty(shape, f32);
  for (int64_t i = 0; i < a.size(); ++i) a.set_element(i, double(i % 11) - 5);
  return a;
}

TEST(Build, SymbolicMatmulOnTwoShapes) {
  tir::VarRef m = tir::var("m");
  Matmul t = make_matmul(m, 24, 10);
  te::Schedule s = te::create_schedule(t.c->op);
  Tensor cc = s.cache_write(t.c, "local");
  auto [xo, yo, xi, yi] = s[t.c].tile(t.c->op->axis[0], t.c->op->axis[1], 4, 16);
  s[cc].compute_at(s[t.c], yo);
  s[cc].reorder({t.k, s[cc].axis()[0], s[cc].axis()[1]});
  s[cc].vectorize(s[cc].axis()[1]);
  s[t.c].vectorize(yi).parallel(xo);
  Runner runner = te::build(s, t.args());
  for (int64_t rows : {1, 7}) {
    NDArray a = ramp({rows, 10}), b = ramp({10, 24});
    NDArray c = runner.run({a, b})[0];
    ASSERT_EQ(c.shape(), (std::vector<int64_t>{rows, 24}));
    for (int64_t i = 0; i < rows; ++i)
      for (int64_t j = 0; j < 24; ++j) {
        double sum = 0;
        for (int64_t k = 0; k < 10; ++k) sum += a.element(i * 10 + k) * b.element(k * 24 + j);
        EXPECT_FLOAT_EQ(float(c.element(i * 24 + j)), float(sum));
      }
  }
}

/// The posts' own: vector add as text and as tensor expressions, one program up to names; loops of one
/// iteration go.
TEST(Classics, VectorAddTwins) {
  tir::VarRef n = tir::var("n");
  Tensor a = te::placeholder({n}, f32, "A"), b = te::placeholder({n}, f32, "B");
  Tensor c = te::compute({n}, [&](const Vars& v) { return a({v[0]}) + b({v[0]}); }, "C");
  const IRModule text = parse_module(R"(
@T.prim_func
def main(a: T.handle, b: T.handle, c: T.handle):
    T.func_attr({"tir.noalias": True, "num_outputs": 1})
    n = T.int64()
    A = T.match_buffer(a, (n,), "float32")
    B = T.match_buffer(b, (n,), "float32")
    C = T.match_buffer(c, (n,), "float32")
    for i in range(n):
        with T.block("C"):
            vi = T.axis.spatial(n, i)
            C[vi] = A[vi] + B[vi]
)");
  EXPECT_TRUE(structural_equal(te::create_prim_func({a, b, c}), text.find("main"))) << print(text);
  te::Schedule s = te::create_schedule(c->op);
  auto [o, i] = s[c].split(c->op->axis[0], 4);
  s[c].parallel(o).vectorize(i);
  for (int64_t size : {1, 4, 11}) check_te(s, {a, b, c}, {{"n", size}});
}
TEST(Classics, LoopsOfOneIterationVanish) {
  for (int64_t n : {1, 6}) {  // more are a vector
    Tensor a = te::placeholder({n}, f32, "A");
    Tensor c = te::compute({n}, [&](const Vars& v) { return a({v[0]}) + 2.0; }, "C");
    IRModule m = te::lower(te::create_schedule(c->op), {a, c});
    PassContext context;
    context.target = host_target();
    m = run_passes(std::move(m), tensor_passes(), context);
    int loops = 0;
    post_order(m.find("main"), [&](const ObjectRef& o) { loops += o.is<tir::For>(); });
    EXPECT_EQ(loops, n == 1 ? 0 : 1) << print(m);
  }
}

TEST(Build, ScanRowByRow) {
  tir::VarRef m = tir::var("m"), n = tir::var("n");
  Tensor x = te::placeholder({m, n}, f32, "X"), state = te::placeholder({m, n}, f32, "state");
  Tensor init = te::compute({1, n}, [&](const Vars& v) { return x({0, v[1]}); }, "first");
  Tensor twice =
      te::compute({m, n}, [&](const Vars& v) { return x({v[0], v[1]}) + state({v[0] - 1, v[1]}); }, "t");
  Tensor next = te::compute({m, n}, [&](const Vars& v) { return twice({v[0], v[1]}) * 0.5; }, "next");
  Tensor out = te::scan({init}, {next}, {state}, "smooth")[0];
  te::Schedule s = te::create_schedule(out->op);
  auto [o, i] = s[next].split(next->op->axis[1], 8);
  s[next].vectorize(i);
  NDArray a = ramp({6, 13}), r = te::build(s, {x, out}).run({a})[0];
  for (int64_t j = 0; j < 13; ++j) {
    double h = a.element(j);
    for (int64_t k = 1; k < 6; ++k) {
      h = (h + a.element(k * 13 + j)) * 0.5;
      EXPECT_FLOAT_EQ(float(r.element(k * 13 + j)), float(h));
    }
  }
}

TEST(Build, PackedCallsBetweenPrograms) {
  registry::add("te_test.reverse", Function([](Arguments args) -> Any {
                  NDArray from = args[0].as<NDArray>(), to = args[1].as<NDArray>();
                  for (int64_t i = 0; i < from.size(); ++i)
                    to.set_element(from.size() - 1 - i, from.element(i));
                  return Any();
                }),
                true);
  tir::VarRef n = tir::var("n");
  Tensor a = te::placeholder({n}, f32, "A");
  Tensor b = te::compute({n}, [&](const Vars& v) { return a({v[0]}) * 2.0; }, "B");
  Tensor r = te::external_packed({{n}}, {f32}, {b}, "te_test.reverse", "reverse")[0];
  Tensor c = te::compute({n}, [&](const Vars& v) { return r({v[0]}) + b({v[0]}) + a({v[0]}); }, "C");
  te::Schedule s = te::create_schedule(c->op);
  auto [o, i] = s[c].split(c->op->axis[0], 4);
  s[c].vectorize(i);
  s[b].split(b->op->axis[0], 8);
  Runner runner = te::build(s, {a, c, r});
  for (int64_t size : {1, 9}) {
    NDArray x = ramp({size});
    std::vector<NDArray> y = runner.run({x});
    for (int64_t k = 0; k < size; ++k) {
      EXPECT_EQ(y[1].element(k), 2 * x.element(size - 1 - k));
      EXPECT_EQ(y[0].element(k), 2 * x.element(size - 1 - k) + 3 * x.element(k));
    }
  }
  refused_te("T0348", "calls the function 'te_test.reverse'", [&] { s.apply({a, c}); });
  te::Schedule t = te::create_schedule(c->op);
  t[b].compute_at(t[c], c->op->axis[0]);  // the call stands between the two
  refused_te("T0795", "no consumer of it", [&] { te::build(t, {a, c}); });
}

TEST(Build, Refusals) {
  tir::VarRef n = tir::var("n");
  Tensor a = te::placeholder({4}, f32, "A");
  Tensor c = te::compute({4}, [&](const Vars& v) { return a({v[0]}) * tir::cast(f32, n); }, "C");
  te::Schedule s = te::create_schedule(c->op);
  refused_te("T0347", "'n' is no dimension of an input", [&] { te::build(s, {a, c}, {}, {}, {n}); });
  Tensor d = te::compute({4}, [&](const Vars& v) { return a({v[0]}) * 2.0; }, "D");
  te::Schedule t = te::create_schedule(d->op);
  refused_te("T0347", "comes after an output", [&] { te::build(t, {d, a}); });
  refused_te("T0347", "no tensor program 'x'", [&] { te::runnable(te::lower(t, {a, d}), "x"); });
}

}  // namespace
}  // namespace tenon::testing
