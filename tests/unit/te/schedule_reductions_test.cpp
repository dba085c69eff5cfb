// SPDX-License-Identifier: Apache-2.0
// Schedules of tensor expressions: reductions split and tensorized, loops bound to threads.
#include "chain.h"

namespace tenon::testing {
namespace {

/// Loops bound to threads.
std::vector<std::string> threads(const tenon::Schedule& s) {
  std::vector<std::string> out;
  pre_order(s.function(), [&](const ObjectRef& n) {
    if (const auto* l = n.as<tir::For>(); l && l->kind == tir::ForKind::thread_binding)
      out.push_back(l->thread_tag);
    return true;
  });
  return out;
}

TEST(Reductions, Rfactor) {
  tir::VarRef n = tir::var("n");
  Tensor a = te::placeholder({n, 10}, f32, "A");
  tir::IterVar k = te::reduce_axis(tir::range(PrimExpr(0), PrimExpr(10)), "k");
  Tensor b = te::compute({n}, [&](const Vars& v) { return te::sum(a({v[0], k->var}), {k}); }, "B");
  for (int factor_axis : {0, 1}) {
    te::Schedule s = create_schedule(b->op);
    auto [ko, ki] = s[b].split(k, 4);
    std::vector<Tensor> bf = s.rfactor(b, ki, factor_axis);
    ASSERT_EQ(bf.size(), 1u);
    EXPECT_EQ(s[bf[0]].axis().size(), 2u);
    EXPECT_EQ(s[bf[0]].reduce_axis().size(), 1u);
    s[bf[0]].compute_at(s[b], b->op->axis[0]);
    s[bf[0]].vectorize(s[bf[0]].axis()[size_t(factor_axis)]);
    auto [o, i] = s[b].split(b->op->axis[0], 4);
    (void)o;
    (void)i;
    s[bf[0]].compute_root();
    for (int64_t size : {1, 5, 8}) check_te(s, {a, b}, {{"n", size}});
  }
  te::Schedule plain = create_schedule(b->op);
  std::vector<Tensor> bf = plain.rfactor(b, k);
  plain[bf[0]].compute_at(plain[b], plain[b].reduce_axis()[0]);
  check_te(plain, {a, b}, {{"n", 3}});
}

TEST(Reductions, TuplesAndManyStages) {
  tir::VarRef n = tir::var("n"), m = tir::var("m");
  Tensor a = te::placeholder({n, m}, f32, "A");
  tir::IterVar k = te::reduce_axis(tir::range(PrimExpr(0), m), "k");
  auto t = te::compute_multi(
      {n}, [&](const Vars& v) { return te::argmax(k->var, a({v[0], k->var}), {k}); }, "arg");
  te::Schedule s = create_schedule(t[0]->op);
  auto [o, i] = s[t[0]].split(t[0]->op->axis[0], 4);
  auto [ko, ki] = s[t[0]].split(k, 3);
  s[t[0]].reorder({o, ko, i, ki});
  s[t[0]].parallel(o);
  for (const Sizes& sizes : kSizes) check_te(s, {a, t[0], t[1]}, sizes);
  te::Schedule r = create_schedule(t[0]->op);
  auto [fo, fi] = r[t[0]].split(k, 4);
  std::vector<Tensor> partial = r.rfactor(t[0], fi);
  EXPECT_EQ(partial.size(), 2u);
  for (const Sizes& sizes : kSizes) check_te(r, {a, t[0], t[1]}, sizes);
}

TEST(Reductions, SoftmaxByRows) {
  tir::VarRef n = tir::var("n"), m = tir::var("m");
  Tensor a = te::placeholder({n, m}, f32, "A");
  tir::IterVar k = te::reduce_axis(tir::range(PrimExpr(0), m), "k"),
               l = te::reduce_axis(tir::range(PrimExpr(0), m), "l");
  Tensor mx = te::compute({n}, [&](const Vars& v) { return te::max(a({v[0], k->var}), {k}); }, "mx");
  Tensor ex =
      te::compute({n, m}, [&](const Vars& v) { return tir::exp(a({v[0], v[1]}) - mx({v[0]})); }, "ex");
  Tensor sm = te::compute({n}, [&](const Vars& v) { return te::sum(ex({v[0], l->var}), {l}); }, "sm");
  Tensor out =
      te::compute({n, m}, [&](const Vars& v) { return tir::div(ex({v[0], v[1]}), sm({v[0]})); }, "out");
  te::Schedule s = create_schedule(out->op);
  const tir::IterVar row = out->op->axis[0];
  for (const Tensor& t : {sm, ex, mx}) s[t].compute_at(s[out], row);
  s[out].parallel(row);
  for (const Sizes& sizes : kSizes) {
    tenon::Schedule done = check_te(s, {a, out}, sizes);
    EXPECT_EQ(extents(done, "ex").size(), 2u);
  }
}

TEST(Threads, BindAndReduceTogether) {
  Tensor a = te::placeholder({12, 32}, f32, "A");
  tir::IterVar k = te::reduce_axis(tir::range(PrimExpr(0), PrimExpr(32)), "k");
  Tensor b = te::compute({12}, [&](const Vars& v) { return te::sum(a({v[0], k->var}), {k}); }, "B");
  te::Schedule s = create_schedule(b->op);
  const tir::IterVar bx = te::thread_axis("blockIdx.x"), tx = te::thread_axis("threadIdx.x", 8);
  auto [ko, ki] = s[b].split(k, 8);
  std::vector<Tensor> bf = s.rfactor(b, ki);
  s[b].bind(b->op->axis[0], bx);
  s[b].bind(s[b].reduce_axis()[0], tx);
  s[bf[0]].compute_at(s[b], s[b].reduce_axis()[0]);
  s[b].set_store_predicate(tir::eq(tx->var, PrimExpr(0)));
  tenon::Schedule done = s.apply({a, b});
  EXPECT_EQ(threads(done), (std::vector<std::string>{"blockIdx.x", "threadIdx.x"})) << print(done.function());
  check_te(s, {a, b});
  refused_te("T0705", "no thread axis", [&] {
    te::Schedule t = create_schedule(b->op);
    t[b].bind(b->op->axis[0], te::thread_axis("lane"));
    t.apply({a, b});
  });
}

TEST(Threads, OnlyTheFirstStoresWhatAllCompute) {
  Tensor a = te::placeholder({6, 4}, f32, "A");
  Tensor b = te::compute({6}, [&](const Vars& v) { return a({v[0], 0}) * 2.0; }, "B");
  Tensor c = te::compute({6, 4}, [&](const Vars& v) { return a({v[0], v[1]}) + 1.0; }, "C");
  te::Schedule s = create_schedule({b->op, c->op});
  const tir::IterVar bx = te::thread_axis("blockIdx.x"), tx = te::thread_axis("threadIdx.x", 4);
  s[c].bind(c->op->axis[0], bx).bind(c->op->axis[1], tx);
  s[b].bind(b->op->axis[0], bx);
  s[b].set_store_predicate(tir::eq(tx->var, PrimExpr(0)));
  tenon::Schedule done = check_te(s, {a, b, c});
  EXPECT_EQ(threads(done).size(), 4u) << print(done.function());
  refused_te("T0795", "stores elements of its own", [&] {
    te::Schedule t = create_schedule(c->op);
    t[c].bind(c->op->axis[1], tx);
    t[c].set_store_predicate(tir::eq(tx->var, PrimExpr(0)));
    t.apply({a, c});
  });
  refused_te("T0795", "is not known", [&] {
    te::Schedule t = create_schedule({b->op, c->op});
    t[c].bind(c->op->axis[0], bx);
    t[b].set_store_predicate(tir::eq(bx->var, PrimExpr(0)));
    t.apply({a, b, c});
  });
}

TEST(Threads, PredicatesOnSeveralThreads) {
  Tensor a = te::placeholder({6, 4, 2}, f32, "A");
  Tensor b = te::compute({6}, [&](const Vars& v) { return a({v[0], 0, 1}) * 2.0; }, "B");
  Tensor c = te::compute({6, 4, 2}, [&](const Vars& v) { return a({v[0], v[1], v[2]}) + 1.0; }, "C");
  const tir::IterVar bx = te::thread_axis("blockIdx.x"), tx = te::thread_axis("threadIdx.x", 4),
                     ty = te::thread_axis("threadIdx.y", 2);
  auto make = [&](const PrimExpr& condition) {
    te::Schedule s = create_schedule({b->op, c->op});
    s[c].bind(c->op->axis[0], bx).bind(c->op->axis[1], tx).bind(c->op->axis[2], ty);
    s[b].bind(b->op->axis[0], bx);
    s[b].set_store_predicate(condition);
    return s;
  };
  auto one = [](const PrimExpr& x, int64_t v) { return tir::eq(x, PrimExpr(v)); };
  tenon::Schedule done = check_te(make(tir::logical_and(one(tx->var, 3), one(ty->var, 1))), {a, b, c});
  EXPECT_EQ(threads(done).size(), 6u) << print(done.function());
  EXPECT_NE(print(done.function()).find("== 3"), std::string::npos) << print(done.function());
  check_te(make(tir::ge(tx->var, PrimExpr(2))), {a, b, c});  // threads 2 and 3 may: the first of them does
  refused_te("T0795", "no thread of 'threadIdx.x' fulfils", [&] { make(one(tx->var, 4)); });
  refused_te("T0795", "no condition on one thread", [&] { make(tir::eq(tx->var, ty->var)); });
  refused_te("T0795", "no condition on one thread", [&] { make(PrimExpr(true)); });
}

TEST(Threads, StepsOfAScan) {
  Tensor x = te::placeholder({5, 8}, f32, "X"), state = te::placeholder({5, 8}, f32, "state");
  Tensor init = te::compute({1, 8}, [&](const Vars& v) { return x({0, v[1]}); }, "first");
  Tensor next =
      te::compute({5, 8}, [&](const Vars& v) { return state({v[0] - 1, v[1]}) + x({v[0], v[1]}); }, "next");
  Tensor out = te::scan({init}, {next}, {state}, "cumsum")[0];
  const tir::IterVar tx = te::thread_axis("threadIdx.x", 8);
  te::Schedule s = create_schedule(out->op);
  s[out].env_threads({tx});
  refused_te("T0795", "repeated by every thread", [&] { s.apply({x, out}); });
  s[next].bind(next->op->axis[1], tx);
  s[init].bind(init->op->axis[1], tx);
  tenon::Schedule done = check_te(s, {x, out});
  EXPECT_EQ(threads(done).size(), 2u);
  EXPECT_EQ(s[out].scan_axis()->kind, tir::IterKind::scan);
}

TEST(Tensorize, TileOfMatmul) {
  // One row of 4 results at a time: C[4] += A[1] * B[4].
  Tensor x = te::placeholder({1}, f32, "x"), y = te::placeholder({1, 4}, f32, "y");
  tir::IterVar r = te::reduce_axis(tir::range(PrimExpr(0), PrimExpr(1)), "r");
  (void)x;
  Tensor z = te::compute({4}, [&](const Vars& v) { return te::sum(y({r->var, v[0]}), {r}); }, "z");
  te::decl_tensor_intrin("te.add_row", z->op, [](const auto& in, const auto& out) {
    tir::VarRef i = tir::var("i");
    return tir::for_(i, PrimExpr(0), PrimExpr(4),
                     tir::store(out[0], tir::load(out[0], {i}) + tir::load(in[0], {0, i}), {i}),
                     tir::ForKind::vectorized);
  });
  Tensor a = te::placeholder({6, 8}, f32, "A");
  tir::IterVar k = te::reduce_axis(tir::range(PrimExpr(0), PrimExpr(6)), "k");
  Tensor s0 = te::compute({8}, [&](const Vars& v) { return te::sum(a({k->var, v[0]}), {k}); }, "S");
  te::Schedule s = create_schedule(s0->op);
  auto [o, i] = s[s0].split(s0->op->axis[0], 4);
  s[s0].reorder({o, k, i});
  s[s0].tensorize(i, "te.add_row");
  tenon::Schedule done = check_te(s, {a, s0});
  EXPECT_NE(done.trace().to_script().find("te.add_row"), std::string::npos);
  EXPECT_EQ(count_loops(done.function(), tir::ForKind::vectorized), 1);
  refused_te("T0795", "no intrinsic 'none'", [&] { s[s0].tensorize(o, "none"); });
  refused_te("T0795", "describes no compute", [&] { te::decl_tensor_intrin("x", a->op, {}); });
}

}  // namespace
}  // namespace tenon::testing
