// SPDX-License-Identifier: Apache-2.0
// Whole programs through the whole pipeline, checked after every pass.
#include "ir/symbols.h"
#include "programs.h"

namespace tenon {
namespace {

using namespace tir;
using te::Tensor;

PrimFunc matmul(PrimExpr m, PrimExpr n, PrimExpr k, Array<VarRef> symbolic = {}) {
  Tensor a = te::placeholder({m, k}, f32, "A"), b = te::placeholder({k, n}, f32, "B");
  IterVar r = te::reduce_axis(range(n64(0), k), "k");
  Tensor c = te::compute(
      {m, n}, [&](const Array<VarRef>& v) { return te::sum(a({v[0], r->var}) * b({r->var, v[1]}), {r}); },
      "C");
  return te::create_prim_func({a, b, c}, symbolic);
}

TEST(Pipeline, Matmul) {
  check_pipeline(matmul(n64(5), n64(7), n64(6)),
                 {random_array({5, 6}, f32, 1), random_array({6, 7}, f32, 2), NDArray::zeros({5, 7}, f32)});
}

TEST(Pipeline, MatmulOfSymbolicSizes) {
  VarRef m = var("m"), n = var("n"), k = var("k");
  const PrimFunc f = matmul(m, n, k, {m, n, k});
  const IRModule out = check_pipeline(
      f, {random_array({3, 4}, f32, 1), random_array({4, 5}, f32, 2), NDArray::zeros({3, 5}, f32)});
  EXPECT_EQ(kernel_scalars(f).size(), 3u);
  EXPECT_EQ(count_nodes(out, "tir.Block"), 0u);
}

TEST(Pipeline, ConvolutionWithPadding) {
  Tensor x = te::placeholder({n64(1), n64(2), n64(6), n64(6)}, f32, "X"),
         w = te::placeholder({n64(3), n64(2), n64(3), n64(3)}, f32, "W");
  IterVar c = te::reduce_axis(range(n64(0), n64(2)), "c"), kh = te::reduce_axis(range(n64(0), n64(3)), "kh"),
          kw = te::reduce_axis(range(n64(0), n64(3)), "kw");
  Tensor p = te::compute(
      {n64(1), n64(2), n64(8), n64(8)},
      [&](const Array<VarRef>& v) {
        PrimExpr in = logical_and(logical_and(ge(v[2], n64(1)), lt(v[2], n64(7))),
                                  logical_and(ge(v[3], n64(1)), lt(v[3], n64(7))));
        return if_then_else(in, x({v[0], v[1], v[2] - 1, v[3] - 1}), PrimExpr(0.0));
      },
      "pad");
  Tensor y = te::compute(
      {n64(1), n64(3), n64(6), n64(6)},
      [&](const Array<VarRef>& v) {
        return te::sum(
            p({v[0], c->var, v[2] + kh->var, v[3] + kw->var}) * w({v[1], c->var, kh->var, kw->var}),
            {c, kh, kw});
      },
      "Y");
  check_pipeline(te::create_prim_func({x, w, y}),
                 {random_array({1, 2, 6, 6}, f32, 1), random_array({3, 2, 3, 3}, f32, 2),
                  NDArray::zeros({1, 3, 6, 6}, f32)});
}

PrimFunc softmax(PrimExpr rows, PrimExpr columns, Array<VarRef> symbolic = {}) {
  Tensor x = te::placeholder({rows, columns}, f32, "X");
  IterVar k = te::reduce_axis(range(n64(0), columns), "k"), l = te::reduce_axis(range(n64(0), columns), "l");
  Tensor m =
      te::compute({rows}, [&](const Array<VarRef>& v) { return te::max(x({v[0], k->var}), {k}); }, "M");
  Tensor e = te::compute(
      {rows, columns}, [&](const Array<VarRef>& v) { return exp(x({v[0], v[1]}) - m({v[0]})); }, "E");
  Tensor s =
      te::compute({rows}, [&](const Array<VarRef>& v) { return te::sum(e({v[0], l->var}), {l}); }, "S");
  Tensor y = te::compute(
      {rows, columns}, [&](const Array<VarRef>& v) { return div(e({v[0], v[1]}), s({v[0]})); }, "Y");
  return te::create_prim_func({x, y}, symbolic);
}

TEST(Pipeline, Softmax) {
  check_pipeline(softmax(n64(4), n64(9)), {random_array({4, 9}, f32, 3), NDArray::zeros({4, 9}, f32)});
}

TEST(Pipeline, SoftmaxOfSymbolicSizesUsesWorkspace) {
  VarRef r = var("r"), c = var("c");
  const IRModule out =
      check_pipeline(softmax(r, c, {r, c}), {random_array({3, 5}, f32, 3), NDArray::zeros({3, 5}, f32)});
  EXPECT_GE(count_nodes(out, "tir.Allocate"), 2u);
}

TEST(Pipeline, ArgmaxOfTwoResults) {
  Tensor x = te::placeholder({n64(3), n64(8)}, f32, "X");
  IterVar k = te::reduce_axis(range(n64(0), n64(8)), "k");
  auto y = te::compute_multi(
      {n64(3)}, [&](const Array<VarRef>& v) { return te::argmax(k->var, x({v[0], k->var}), {k}); }, "Y");
  check_pipeline(te::create_prim_func({x, y[0], y[1]}),
                 {random_array({3, 8}, f32, 5), NDArray::zeros({3}, i64), NDArray::zeros({3}, f32)}, 2);
}

TEST(Pipeline, ConcatenationByLazyChoice) {
  Tensor a = te::placeholder({n64(3), n64(4)}, f32, "A"), b = te::placeholder({n64(2), n64(4)}, f32, "B");
  Tensor y = te::compute(
      {n64(5), n64(4)},
      [&](const Array<VarRef>& v) {
        return if_then_else(lt(v[0], n64(3)), a({v[0], v[1]}), b({v[0] - 3, v[1]}));
      },
      "Y");
  check_pipeline(te::create_prim_func({a, b, y}),
                 {random_array({3, 4}, f32, 1), random_array({2, 4}, f32, 2), NDArray::zeros({5, 4}, f32)});
}

TEST(Pipeline, SizesOfZeroAndOne) {
  VarRef m = var("m"), n = var("n");
  Tensor x = te::placeholder({m, n}, f32, "X");
  Tensor y = te::compute({m, n}, [&](const Array<VarRef>& v) { return x({v[0], v[1]}) + 1.0; }, "Y");
  const PrimFunc f = te::create_prim_func({x, y}, {m, n});
  check_pipeline(f, {random_array({0, 4}, f32, 1), NDArray::zeros({0, 4}, f32)});
  check_pipeline(f, {random_array({1, 1}, f32, 1), NDArray::zeros({1, 1}, f32)});
  Tensor z = te::placeholder({n64(0), n64(3)}, f32, "Z");
  Tensor w =
      te::compute({n64(0), n64(3)}, [&](const Array<VarRef>& v) { return z({v[0], v[1]}) * 2.0; }, "W");
  check_pipeline(te::create_prim_func({z, w}), {NDArray::zeros({0, 3}, f32), NDArray::zeros({0, 3}, f32)});
  Tensor r = te::compute({}, [&](const Array<VarRef>&) { return PrimExpr(3.0); }, "R");
  check_pipeline(te::create_prim_func({r}), {NDArray::zeros({}, f32)});
}

TEST(Pipeline, GatherThroughData) {
  Tensor x = te::placeholder({n64(6), n64(4)}, f32, "X"), at = te::placeholder({n64(5)}, i64, "at");
  Tensor y =
      te::compute({n64(5), n64(4)}, [&](const Array<VarRef>& v) { return x({at({v[0]}), v[1]}); }, "Y");
  NDArray index = NDArray::empty({5}, i64);
  for (int64_t i = 0; i < 5; ++i) index.set_element_int(i, (i * 4) % 6);
  check_pipeline(with_kind(te::create_prim_func({x, at, y}), "i1", ForKind::vectorized),
                 {random_array({6, 4}, f32, 1), index, NDArray::zeros({5, 4}, f32)});
}

// ---------------------------------------------------------------- loops of other kinds
TEST(Pipeline, EveryLoopKindOnElementwise) {
  for (int64_t columns : {1, 3, 8, 16, 100, 130}) {
    Tensor x = te::placeholder({n64(3), n64(columns)}, f32, "X");
    Tensor y = te::compute(
        {n64(3), n64(columns)},
        [&](const Array<VarRef>& v) { return exp(x({v[0], v[1]})) + cast(f32, v[1]); }, "Y");
    const PrimFunc f = te::create_prim_func({x, y});
    std::string name;
    pre_order(f->body, [&](const ObjectRef& n) {
      if (const auto* l = n.as<For>()) name = l->loop_var->name;
      return true;
    });
    for (ForKind kind : {ForKind::vectorized, ForKind::unrolled, ForKind::parallel}) {
      const IRModule out = check_pipeline(
          with_kind(f, name, kind), {random_array({3, columns}, f32, 1), NDArray::zeros({3, columns}, f32)});
      if (kind == ForKind::vectorized && columns > 1) {
        EXPECT_GT(count_nodes(out, "tir.Ramp"), 0u) << columns;
      }
    }
  }
}

}  // namespace
}  // namespace tenon
