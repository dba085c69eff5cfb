// SPDX-License-Identifier: Apache-2.0
// The schedule of tensor expressions: each request alone and together, run by the interpreter before and
// after on constant, ragged and symbolic sizes. Here loops, places of stages, and the sentence of each
// refusal.
#include "chain.h"

namespace tenon::testing {
namespace {

TEST(Loops, SplitByFactorAndParts) {
  Chain p;
  te::Schedule s = create_schedule(p.d->op);
  auto [o, i] = s[p.d].split(p.d->op->axis[0], 4);
  auto [po, pi] = s[p.d].split_nparts(p.d->op->axis[1], 3);
  EXPECT_EQ(s[p.d].leaf_axes().size(), 4u);
  EXPECT_EQ(tir::as_int(po->dom->extent), 3);
  for (const Sizes& sizes : kSizes) check_te(s, p.args(), sizes);
  tenon::Schedule done = s.apply(p.args());
  EXPECT_EQ(extents(done, "D"), (std::vector<int64_t>{-1, 4, 3, -1}));
}

TEST(Loops, FuseReorderTile) {
  Chain p;
  te::Schedule s = create_schedule(p.d->op);
  auto [xo, yo, xi, yi] = s[p.d].tile(p.d->op->axis[0], p.d->op->axis[1], 2, 3);
  tir::IterVar outer = s[p.d].fuse({xo, yo});
  s[p.d].reorder({yi, xi});
  s[p.d].parallel(outer);
  s[p.d].vectorize(xi);
  auto axes = s[p.b].leaf_axes();
  s[p.b].reorder({axes[1], axes[0]});
  for (const Sizes& sizes : kSizes) check_te(s, p.args(), sizes);
  tenon::Schedule done = s.apply(p.args());
  EXPECT_EQ(extents(done, "D"), (std::vector<int64_t>{-1, 3, 2}));
  EXPECT_EQ(done.get(done.get_loops(done.get_block("D"))[0])->kind, tir::ForKind::parallel);
  EXPECT_EQ(done.get(done.get_loops(done.get_block("D"))[2])->kind, tir::ForKind::vectorized);
  EXPECT_EQ(done.get(done.get_loops(done.get_block("B"))[0])->loop_var->name, "i1");
}

TEST(Loops, KindsAndPragmas) {
  Chain p;
  te::Schedule s = create_schedule(p.d->op);
  auto [o, i] = s[p.d].split(p.d->op->axis[1], 4);
  s[p.d].unroll(i).pragma(p.d->op->axis[0], "auto_unroll_max_step", Any(16)).parallel(p.d->op->axis[0]);
  for (const Sizes& sizes : kSizes) check_te(s, p.args(), sizes);
  tenon::Schedule done = s.apply(p.args());
  auto loops = done.get_loops(done.get_block("D"));
  EXPECT_TRUE(done.get(loops[0])->annotations.contains("pragma_auto_unroll_max_step"));
  EXPECT_EQ(done.get(loops[2])->kind, tir::ForKind::unrolled);
}

TEST(Loops, PrefetchAnnouncesLaterIterations) {
  Tensor a = te::placeholder({12, 64}, f32, "A"), b = te::placeholder({64}, f32, "B");
  Tensor c = te::compute({12, 64}, [&](const Vars& v) { return a({v[0], v[1]}) * 2.0 + b({v[1]}); }, "C");
  te::Schedule s = create_schedule(c->op);
  s[c].prefetch(a, c->op->axis[0], 2);
  auto [o, i] = s[c].split(c->op->axis[1], 16);
  s[c].prefetch(b, o, 1).vectorize(i);
  tenon::Schedule done = s.apply({a, b, c});
  const std::vector<LoopRV> loops = done.get_loops(done.get_block("C"));
  EXPECT_EQ(done.get(loops[0])->annotations.find("prefetch_A")->as<int64_t>(), 2);
  EXPECT_EQ(done.get(loops[1])->annotations.find("prefetch_B")->as<int64_t>(), 1);
  const std::string text = lowered_text(s, {a, b, c});
  // Two rows ahead, one hint for each line of 64 bytes; and the next 16 elements.
  EXPECT_NE(text.find("if i0 < 10"), std::string::npos) << text;
  EXPECT_EQ(text.find("prefetch_refused"), std::string::npos) << text;
  size_t hints = 0;
  for (size_t at = text.find("tir.prefetch"); at != text.npos; at = text.find("tir.prefetch", at + 1))
    ++hints;
  EXPECT_EQ(hints, 2u) << text;
  // What no iteration reads, or each of them, cannot be fetched ahead: the loop says so.
  te::Schedule t = create_schedule(c->op);
  t[c].prefetch(b, c->op->axis[0], 1);
  EXPECT_NE(lowered_text(t, {a, b, c}).find("every iteration reads the same part of 'B'"), std::string::npos);
}

TEST(Place, ComputeAtShrinksToWhatIsNeeded) {
  tir::VarRef n = tir::var("n"), m = tir::var("m");
  Tensor a = te::placeholder({n, m}, f32, "A");
  // Each row of P needs rows i and i + 1 of B (as long as there are any).
  Tensor b = te::compute({n, m}, [&](const Vars& v) { return a({v[0], v[1]}) * 2.0; }, "B");
  Tensor c =
      te::compute({n - 1, m}, [&](const Vars& v) { return b({v[0], v[1]}) + b({v[0] + 1, v[1]}); }, "P");
  te::Schedule s = create_schedule(c->op);
  auto [o, i] = s[c].split(c->op->axis[0], 4);
  s[b].compute_at(s[c], o);
  auto [bo, bi] = s[b].split(b->op->axis[1], 2);  // an axis stays an axis where it was moved to
  s[b].vectorize(bi);
  for (const Sizes& sizes :
       {Sizes{{"n", 2}, {"m", 3}}, Sizes{{"n", 7}, {"m", 5}}, Sizes{{"n", 13}, {"m", 4}}})
    check_te(s, {a, c}, sizes);
  tenon::Schedule done = s.apply({a, c});
  EXPECT_EQ(extents(done, "B"), (std::vector<int64_t>{-1, 5, -1, 2}));  // 4 rows need 5
}

TEST(Place, RequestsBeforeAndAfterComputeAtAreOne) {
  auto make = [](bool before) {
    Chain p;
    te::Schedule s = create_schedule(p.d->op);
    auto [o, i] = s[p.d].split(p.d->op->axis[0], 4);
    auto shape = [&] {
      auto [bo, bi] = s[p.c].split(p.c->op->axis[1], 3);
      s[p.c].reorder({bo, p.c->op->axis[0], bi});
    };
    if (before) shape();
    s[p.c].compute_at(s[p.d], o);
    if (!before) shape();
    s[p.b].compute_at(s[p.d], o);
    for (const Sizes& sizes : kSizes) check_te(s, p.args(), sizes);
    return s.apply(p.args()).function();
  };
  EXPECT_TRUE(structural_equal(make(true), make(false)));
}

TEST(Place, AxesThatRunOnceHaveNoLoop) {
  Chain p;
  te::Schedule s = create_schedule(p.d->op);
  s[p.c].compute_at(s[p.d], p.d->op->axis[1]);
  auto [o, i] = s[p.c].split(p.c->op->axis[0], 4);
  s[p.c].vectorize(i);
  s[p.c].fuse({o, i});
  s[p.b].compute_at(s[p.c], p.c->op->axis[1]);  // no loop there: the next one out is D's
  for (const Sizes& sizes : kSizes) check_te(s, p.args(), sizes);
  tenon::Schedule done = s.apply(p.args());
  EXPECT_EQ(extents(done, "C").size(), 2u);
  EXPECT_EQ(extents(done, "B").size(), 2u);
}

TEST(Place, InlineAndRoot) {
  Chain p;
  te::Schedule s = create_schedule(p.d->op);
  s[p.b].compute_inline();
  s[p.c].compute_at(s[p.d], p.d->op->axis[0]).compute_root();
  for (const Sizes& sizes : kSizes) check_te(s, p.args(), sizes);
  tenon::Schedule done = s.apply(p.args());
  EXPECT_EQ(done.blocks().size(), 2u);
  EXPECT_EQ(extents(done, "C"), (std::vector<int64_t>{-1, -1}));
  EXPECT_EQ(done.get_child_blocks(done.get_loops(done.get_block("D"))[0]).size(), 1u) << "C stands alone";
}

TEST(Place, GroupsMoveTogether) {
  Chain p;
  te::Schedule s = create_schedule(p.d->op);
  Stage group = s.create_group({p.c}, {p.a}, false);
  auto [o, i] = s[p.d].split(p.d->op->axis[0], 2);
  group.compute_at(s[p.d], o);
  for (const Sizes& sizes : kSizes) check_te(s, p.args(), sizes);
  tenon::Schedule done = s.apply(p.args());
  EXPECT_EQ(extents(done, "B"), (std::vector<int64_t>{-1, 2, -1}));
  EXPECT_EQ(extents(done, "C"), (std::vector<int64_t>{-1, 2, -1}));
}

TEST(Whole, NormalizedCopiesStandAlone) {
  Chain p;
  te::Schedule s = create_schedule(p.d->op);
  te::Schedule t = s.normalize();
  t[p.b].compute_inline();
  EXPECT_EQ(s.apply(p.args()).blocks().size(), 3u);
  EXPECT_EQ(t.apply(p.args()).blocks().size(), 2u);
}

TEST(Whole, LoweredModuleHasItsTrace) {
  Matmul t = make_matmul(8, 8, 8);
  te::Schedule s = create_schedule(t.c->op);
  s[t.c].split(t.k, 4);
  IRModule m = te::lower(s, t.args(), "mm");
  auto f = m.find("mm").cast<tir::PrimFuncNode>();
  ASSERT_TRUE(f);
  Trace trace = Trace::from_json(f->attrs.find("tenon.trace")->as<std::string>());
  EXPECT_NE(trace.to_script().find("sch.split(l"), std::string::npos);
}

TEST(Refusals, Requests) {
  Chain p;
  te::Schedule s = create_schedule(p.d->op);
  Matmul t = make_matmul(4, 4, 4);
  te::Schedule u = create_schedule(t.c->op);
  const auto& d = p.d->op->axis;
  refused_te("T0795", "needs an operation", [&] { te::Schedule(std::vector<Operation>{}); });
  refused_te("T0795", "'C' is not computed", [&] { s[t.c]; });
  refused_te("T0795", "none of its loops", [&] { s[p.d].split(p.b->op->axis[0], 2); });
  refused_te("T0795", "cannot be split by 0", [&] { s[p.d].split(d[0], 0); });
  refused_te("T0795", "a placeholder has no loops", [&] { s[p.a].compute_inline(); });
  refused_te("T0795", "does not follow", [&] { s[p.d].fuse({d[1], d[0]}); });
  refused_te("T0795", "at least one axis", [&] { s[p.d].fuse({}); });
  refused_te("T0795", "given twice", [&] { s[p.d].reorder({d[0], d[0]}); });
  refused_te("T0795", "spatial and reduction", [&] { u[t.c].fuse({t.c->op->axis[1], t.k}); });
  auto [o, i] = s[p.d].split(d[0], 2);
  refused_te("T0795", "was split before", [&] { s[p.d].parallel(d[0]); });
  s[p.d].parallel(o);
  refused_te("T0795", "asked to parallel and to unroll", [&] { s[p.d].unroll(o); });
  refused_te("T0795", "no thread", [&] { s[p.d].bind(i, d[1]); });
  refused_te("T0795", "0 iterations ahead", [&] { s[p.d].prefetch(p.c, i, 0); });
  refused_te("T0795", "another schedule", [&] { u[t.c].compute_at(s[p.d], i); });
  refused_te("T0795", "its own loops", [&] { s[p.d].compute_at(s[p.d], i); });
  refused_te("T0795", "its loops were changed", [&] {
    s[p.c].split(p.c->op->axis[0], 2);
    s[p.c].compute_inline();
  });
  refused_te("T0795", "after its loops were changed", [&] { s.cache_write(p.c, "local"); });
  refused_te("T0795", "after its loops were changed",
             [&] { s[p.c].transform_layout([](const Vars& v) { return Array<PrimExpr>{v[0] + v[1]}; }); });
  refused_te("T0795", "no map of digits",
             [&] { s[p.b].transform_layout([](const Vars& v) { return Array<PrimExpr>{v[0] * v[1]}; }); });
  refused_te("T0795", "nothing is to read the copy", [&] { s.cache_read(p.b, "local", {}); });
  refused_te("T0795", "nothing is to be cached", [&] { s.cache_write(std::vector<Tensor>{}, "local"); });
  refused_te("T0795", "results of two operations",
             [&] { s.cache_write(std::vector<Tensor>{p.b, p.c}, "local"); });
  refused_te("T0795", "no dimension of its result", [&] { s[p.d].storage_align(i, 8); });
  refused_te("T0795", "inside a loop of its consumer", [&] { s[p.b].rolling_buffer(); });
  refused_te("T0795", "nothing lies between", [&] { s.create_group({p.b}, {p.b}); });
  refused_te("T0795", "one of the threads is none", [&] {
    Tensor st = te::placeholder({4, 1}, f32, "st"), x = te::placeholder({4, 1}, f32, "x");
    Tensor in = te::compute({1, 1}, [&](const Vars&) { return PrimExpr(0.0); }, "in");
    Tensor up = te::compute({4, 1}, [&](const Vars& v) { return st({v[0] - 1, 0}) + x({v[0], 0}); }, "up");
    Tensor sc = te::scan({in}, {up}, {st})[0];
    te::Schedule w = create_schedule(sc->op);
    w[sc].env_threads({up->op->axis[1]});
  });
  refused_te("T0795", "only a scan", [&] { s[p.d].env_threads({te::thread_axis("threadIdx.x", 4)}); });
  refused_te("T0795", "no condition on one thread",
             [&] { s[p.d].set_store_predicate(tir::lt(d[1]->var, 3)); });
  refused_te("T0795", "no loop of a reduction", [&] { u.rfactor(t.c, t.c->op->axis[0]); });
  refused_te("T0795", "have 3 dimensions", [&] { u.rfactor(t.c, t.k, 5); });
  refused_te("T0795", "that are no reduction", [&] {
    u[t.c].split(t.c->op->axis[0], 2);
    u.rfactor(t.c, t.k);
  });
  Stage g = s.create_group({p.c}, {p.a});
  refused_te("T0795", "a group cannot be told to", [&] { g.compute_inline(); });
}

TEST(Refusals, OfTheProgram) {
  Chain p;
  {
    te::Schedule s = create_schedule(p.d->op);
    s[p.b].compute_at(s[p.c], p.c->op->axis[0]);  // D reads B too
    refused_te("T0754", "lies outside", [&] { s.apply(p.args()); });
  }
  {
    te::Schedule s = create_schedule(p.d->op);
    s[p.d].compute_inline();
    refused_te("T0732", "result of the function", [&] { s.apply(p.args()); });
  }
  {
    te::Schedule s = create_schedule(p.d->op);
    s[p.c].compute_at(s[p.b], p.b->op->axis[0]);  // upside down
    refused_te("T0795", "no consumer of it", [&] { s.apply(p.args()); });
  }
  {
    te::Schedule s = create_schedule(p.d->op);
    s[p.d].vectorize(p.d->op->axis[1]);
    refused_te("T0727", "not a constant", [&] { s.apply(p.args()); });
  }
  {
    Matmul t = make_matmul(4, 4, 4);
    te::Schedule s = create_schedule(t.c->op);
    s[t.c].parallel(t.k);
    refused_te("T0714", "carries a reduction", [&] { s.apply(t.args()); });
  }
  {
    te::Schedule s = create_schedule(p.c->op);
    s.cache_read(p.a, "local", {p.c->op});
    refused_te("T0795", "does not read 'A'", [&] { s.apply({p.a, p.c}); });
    refused_te("T0795", "which the schedule does not know", [&] { s.apply({p.a, p.d}); });
    te::Schedule q = create_schedule(p.c->op);
    q.cache_read(p.a, "tape", {p.b->op});
    refused_te("T0770", "no memory scope", [&] { q.apply({p.a, p.c}); });
  }
}

}  // namespace
}  // namespace tenon::testing
