// SPDX-License-Identifier: Apache-2.0
// Programs under the default schedule (tiles, vectors, threads, guards of uneven splits) through the
// pipeline.
#include "autoschedule/default.h"
#include "machine.h"
#include "programs.h"

namespace tenon {
namespace {

using namespace tir;
using te::Tensor;

void check(const PrimFunc& f, const std::vector<NDArray>& args, size_t outputs = 1) {
  const PrimFunc s = default_schedule(f, machine());
  const std::vector<NDArray> want = run_on(f, args, outputs), got = run_on(s, args, outputs);
  for (size_t k = 0; k < want.size(); ++k)
    for (int64_t i = 0; i < want[k].size(); ++i)
      ASSERT_NEAR(want[k].element(i), got[k].element(i), 1e-3 * (1 + std::abs(want[k].element(i))))
          << "the schedule itself: " << print(s);
  const IRModule out = check_pipeline(s, args, outputs);
  if (testing::Test::HasFailure()) ADD_FAILURE() << "scheduled program:\n" << print(s);
}

TEST(Scheduled, Matmuls) {
  std::mt19937_64 r(7);
  for (auto [m, n, k] :
       std::vector<std::array<int64_t, 3>>{{4, 8, 8}, {13, 17, 19}, {1, 33, 5}, {30, 1, 7}, {24, 32, 40}}) {
    Tensor a = te::placeholder({n64(m), n64(k)}, f32, "A"), b = te::placeholder({n64(k), n64(n)}, f32, "B");
    IterVar v = te::reduce_axis(range(n64(0), n64(k)), "k");
    Tensor c = te::compute(
        {n64(m), n64(n)},
        [&](const Array<VarRef>& i) { return te::sum(a({i[0], v->var}) * b({v->var, i[1]}), {v}); }, "C");
    Tensor d = te::compute(
        {n64(m), n64(n)},
        [&](const Array<VarRef>& i) { return tir::max(c({i[0], i[1]}) + a({i[0], n64(0)}), PrimExpr(0.0)); },
        "D");
    check(te::create_prim_func({a, b, d}),
          {random_array({m, k}, f32, r()), random_array({k, n}, f32, r()), NDArray::zeros({m, n}, f32)});
    if (HasFailure()) return;
  }
}

TEST(Scheduled, MatmulOfSymbolicRows) {
  VarRef m = var("m");
  Tensor a = te::placeholder({m, n64(20)}, f32, "A"), b = te::placeholder({n64(20), n64(24)}, f32, "B");
  IterVar v = te::reduce_axis(range(n64(0), n64(20)), "k");
  Tensor c = te::compute(
      {m, n64(24)},
      [&](const Array<VarRef>& i) { return te::sum(a({i[0], v->var}) * b({v->var, i[1]}), {v}); }, "C");
  const PrimFunc f = te::create_prim_func({a, b, c}, {m});
  for (int64_t rows : {0, 1, 5, 16, 23})
    check(f, {random_array({rows, 20}, f32, 1), random_array({20, 24}, f32, 2),
              NDArray::zeros({rows, 24}, f32)});
}

/// Σ A[b, s, k] · B[j / panel, k, j % panel] + R[b, s, j] with b and s symbolic.
PrimFunc panels(int64_t n, int64_t k, int64_t panel) {
  VarRef batch = var("batch"), sequence = var("sequence");
  Tensor a = te::placeholder({batch, sequence, n64(k)}, f32, "A"),
         b = te::placeholder({n64((n + panel - 1) / panel), n64(k), n64(panel)}, f32, "B"),
         r = te::placeholder({batch, sequence, n64(n)}, f32, "R");
  IterVar v = te::reduce_axis(range(n64(0), n64(k)), "k");
  Tensor c = te::compute(
      {batch, sequence, n64(n)},
      [&](const Array<VarRef>& i) {
        return te::sum(
            a({i[0], i[1], v->var}) * b({floordiv(i[2], n64(panel)), v->var, floormod(i[2], n64(panel))}),
            {v});
      },
      "C");
  Tensor d = te::compute(
      {batch, sequence, n64(n)},
      [&](const Array<VarRef>& i) { return c({i[0], i[1], i[2]}) + r({i[0], i[1], i[2]}); }, "D");
  return te::create_prim_func({a, b, r, d});
}

TEST(Scheduled, TilesOfSymbolicRowsKeepTheirSumsAndSkipRowsOutside) {
  const PrimFunc f = panels(40, 3, 32);
  for (const auto& [batch, sequence] : {std::pair<int64_t, int64_t>{1, 12}, {3, 5}, {2, 0}, {1, 1}})
    check(f, {random_array({batch, sequence, 3}, f32, 1), random_array({2, 3, 32}, f32, 2),
              random_array({batch, sequence, 40}, f32, 3), NDArray::zeros({batch, sequence, 40}, f32)});
  PassContext context;
  IRModule m = module_of(default_schedule(panels(1000, 20, 32), machine()));
  for (const Pass& pass : tensor_passes()) {
    m = pass.run(m, context);
    if (pass.name == "storage_rewrite") break;
  }
  // The sums of a tile are in registers: no allocation holds more than a tile has, whatever loop is around.
  int allocations = 0;
  pre_order(body_of(m)->body, [&](const ObjectRef& n) {
    if (const auto* a = n.as<Allocate>()) {
      ++allocations;
      EXPECT_LE(as_int(a->buffer->shape[0]).value_or(1 << 20), 1024) << print(m);
    }
    if (const auto* st = n.as<BufferStore>(); st && st->predicate)
      post_order(st->predicate, [&](const ObjectRef& e) {
        const auto* splat = e.as<Broadcast>();
        EXPECT_FALSE(splat && splat->value.is<LT>()) << "a mask of whole rows: " << print(m);
      });
    return true;
  });
  // Whole tiles, edges of one row, of half the rows, and other edges: each has sums of its own.
  EXPECT_EQ(allocations, 4) << print(m);
}

TEST(Scheduled, ConvolutionWithPaddingAndActivation) {
  Tensor x = te::placeholder({n64(1), n64(3), n64(9), n64(9)}, f32, "X"),
         w = te::placeholder({n64(5), n64(3), n64(3), n64(3)}, f32, "W");
  IterVar c = te::reduce_axis(range(n64(0), n64(3)), "c"), kh = te::reduce_axis(range(n64(0), n64(3)), "kh"),
          kw = te::reduce_axis(range(n64(0), n64(3)), "kw");
  Tensor p = te::compute(
      {n64(1), n64(3), n64(11), n64(11)},
      [&](const Array<VarRef>& v) {
        PrimExpr in = logical_and(logical_and(ge(v[2], n64(1)), lt(v[2], n64(10))),
                                  logical_and(ge(v[3], n64(1)), lt(v[3], n64(10))));
        return if_then_else(in, x({v[0], v[1], v[2] - 1, v[3] - 1}), PrimExpr(0.0));
      },
      "pad");
  Tensor y = te::compute(
      {n64(1), n64(5), n64(5), n64(5)},
      [&](const Array<VarRef>& v) {
        return te::sum(
            p({v[0], c->var, v[2] * 2 + kh->var, v[3] * 2 + kw->var}) * w({v[1], c->var, kh->var, kw->var}),
            {c, kh, kw});
      },
      "Y");
  Tensor z = te::compute(
      {n64(1), n64(5), n64(5), n64(5)},
      [&](const Array<VarRef>& v) { return sigmoid(y({v[0], v[1], v[2], v[3]})); }, "Z");
  check(te::create_prim_func({x, w, z}),
        {random_array({1, 3, 9, 9}, f32, 1), random_array({5, 3, 3, 3}, f32, 2),
         NDArray::zeros({1, 5, 5, 5}, f32)});
}

TEST(Scheduled, Softmax) {
  for (auto [rows, columns] : std::vector<std::pair<int64_t, int64_t>>{{4, 16}, {3, 21}, {1, 5}}) {
    Tensor x = te::placeholder({n64(rows), n64(columns)}, f32, "X");
    IterVar k = te::reduce_axis(range(n64(0), n64(columns)), "k"),
            l = te::reduce_axis(range(n64(0), n64(columns)), "l");
    Tensor m = te::compute(
        {n64(rows)}, [&](const Array<VarRef>& v) { return te::max(x({v[0], k->var}), {k}); }, "M");
    Tensor e = te::compute(
        {n64(rows), n64(columns)}, [&](const Array<VarRef>& v) { return exp(x({v[0], v[1]}) - m({v[0]})); },
        "E");
    Tensor s = te::compute(
        {n64(rows)}, [&](const Array<VarRef>& v) { return te::sum(e({v[0], l->var}), {l}); }, "S");
    Tensor y = te::compute(
        {n64(rows), n64(columns)}, [&](const Array<VarRef>& v) { return div(e({v[0], v[1]}), s({v[0]})); },
        "Y");
    check(te::create_prim_func({x, y}),
          {random_array({rows, columns}, f32, 3), NDArray::zeros({rows, columns}, f32)});
  }
}

TEST(Scheduled, ElementwiseOfSymbolicSize) {
  VarRef n = var("n");
  Tensor x = te::placeholder({n, n64(3)}, f32, "X");
  Tensor y =
      te::compute({n, n64(3)}, [&](const Array<VarRef>& v) { return tanh(x({v[0], v[1]})) * 2.0; }, "Y");
  const PrimFunc f = te::create_prim_func({x, y}, {n});
  for (int64_t size : {0, 1, 7, 100})
    check(f, {random_array({size, 3}, f32, 1), NDArray::zeros({size, 3}, f32)});
}

TEST(Scheduled, ArgmaxAndTranspose) {
  Tensor x = te::placeholder({n64(6), n64(37)}, f32, "X");
  IterVar k = te::reduce_axis(range(n64(0), n64(37)), "k");
  auto y = te::compute_multi(
      {n64(6)}, [&](const Array<VarRef>& v) { return te::argmax(k->var, x({v[0], k->var}), {k}); }, "Y");
  check(te::create_prim_func({x, y[0], y[1]}),
        {random_array({6, 37}, f32, 5), NDArray::zeros({6}, i64), NDArray::zeros({6}, f32)}, 2);
  Tensor t = te::compute({n64(37), n64(6)}, [&](const Array<VarRef>& v) { return x({v[1], v[0]}); }, "T");
  check(te::create_prim_func({x, t}), {random_array({6, 37}, f32, 5), NDArray::zeros({37, 6}, f32)});
}

}  // namespace
}  // namespace tenon
