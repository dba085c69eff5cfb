// SPDX-License-Identifier: Apache-2.0
// Tensor expressions compiled: te::build takes the whole way to machine code and back to tensors.
#include "check.h"
#include "pipeline/te_build.h"

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
