// SPDX-License-Identifier: Apache-2.0
// The schedule of tensor expressions: each request alone and together, run by the interpreter before and
// after on constant, ragged and symbolic sizes; what each one makes; the sentence of each refusal.
#include "check.h"
#include "pipeline/pass_lists.h"

namespace tenon::testing {
namespace {

using te::create_schedule;

const std::vector<Sizes> kSizes{{{"n", 1}, {"m", 1}}, {{"n", 5}, {"m", 7}}, {{"n", 16}, {"m", 8}}};

/// B = A * 2, C = max(B, 0), D = C + B over n × m
struct Chain {
  tir::VarRef n = tir::var("n"), m = tir::var("m");
  Tensor a = te::placeholder({n, m}, f32, "A");
  Tensor b = te::compute({n, m}, [this](const Vars& v) { return a({v[0], v[1]}) * 2.0; }, "B");
  Tensor c =
      te::compute({n, m}, [this](const Vars& v) { return tir::max(b({v[0], v[1]}), PrimExpr(0.0)); }, "C");
  Tensor d = te::compute({n, m}, [this](const Vars& v) { return c({v[0], v[1]}) + b({v[0], v[1]}); }, "D");
  Args args() const { return {a, d}; }
};

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

/// What the tensor passes make of a schedule, and whether the interpreter gets the same from it.
std::string lowered_text(const te::Schedule& s, const Args& args, const Sizes& sizes = {}) {
  check_te(s, args, sizes);
  IRModule m = te::lower(s, args, "main");
  const tir::PrimFunc before = m.find("main").cast<tir::PrimFuncNode>();
  PassContext context;
  std::span<const Pass> passes = tensor_passes();
  size_t count = 0;
  while (passes[count++].name != "simplify_tir") continue;
  m = run_passes(m, passes.first(count), context);
  tir::PrimFunc after = m.find("main").cast<tir::PrimFuncNode>();
  EXPECT_TRUE(same(run(before, sizes), run(after, sizes))) << print(after);
  after.edit()->attrs.erase("tenon.trace");  // its words are not the program's
  return print(after);
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

TEST(Storage, DoubleBufferOverlapsLoads) {
  for (bool symbolic : {false, true}) {
    tir::VarRef n = tir::var("n");
    const PrimExpr rows = symbolic ? PrimExpr(n) : PrimExpr(6);
    Matmul t = make_matmul(rows, 8, 12);
    te::Schedule s = create_schedule(t.c->op);
    Tensor cc = s.cache_write(t.c, "local");
    Tensor aa = s.cache_read(t.a, "local", {cc->op}), bb = s.cache_read(t.b, "local", {cc->op});
    auto [ko, ki] = s[cc].split(s[cc].reduce_axis()[0], 4);
    s[cc].reorder({ko, s[cc].axis()[0], ki, s[cc].axis()[1]});
    s[aa].compute_at(s[cc], ko).double_buffer();
    s[bb].compute_at(s[cc], ko).double_buffer();
    const Sizes sizes = symbolic ? Sizes{{"n", 5}} : Sizes{};
    const std::string text = lowered_text(s, t.args(), sizes);
    EXPECT_EQ(text.find("double_buffer"), std::string::npos) << text;  // neither left over nor refused
    EXPECT_NE(text.find("< 2"), std::string::npos) << text;            // the last tile has no next one
    EXPECT_NE(text.find("% 2"), std::string::npos) << text;
  }
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

TEST(Caches, ReadAndWrite) {
  for (int64_t size : {8, 7}) {
    Matmul t = make_matmul(size, size + 2, size + 1);
    te::Schedule s = create_schedule(t.c->op);
    Tensor cc = s.cache_write(t.c, "local");
    Tensor aa = s.cache_read(t.a, "local", {cc->op}), bb = s.cache_read(t.b, "local", {cc->op});
    auto [xo, yo, xi, yi] = s[t.c].tile(t.c->op->axis[0], t.c->op->axis[1], 4, 4);
    s[cc].compute_at(s[t.c], yo);
    auto x = s[cc].axis(), k = s[cc].reduce_axis();
    auto [ko, ki] = s[cc].split(k[0], 3);
    s[cc].reorder({ko, x[0], ki, x[1]});
    s[cc].vectorize(x[1]);
    s[aa].compute_at(s[cc], ko);
    s[bb].compute_at(s[cc], ko);
    s[t.c].vectorize(yi);
    tenon::Schedule done = check_te(s, t.args());
    // The copy of A is a tile of 4 rows and 3 columns.
    auto loops =
        extents(done, done.get(done.get_child_blocks(done.get_loops(done.get_block("C"))[2])[0])->name);
    EXPECT_EQ(loops.size(), 5u);
    EXPECT_TRUE(done.trace().to_script().find("decompose_reduction") != std::string::npos);
  }
}

TEST(Caches, OneCopyForSeveralReaders) {
  Chain p;
  te::Schedule s = create_schedule(p.d->op);
  Tensor bb = s.cache_read(p.b, "local", {p.d->op, p.c->op});
  EXPECT_EQ(s[bb].axis().size(), 2u);
  s[bb].reorder({s[bb].axis()[1], s[bb].axis()[0]});
  for (const Sizes& sizes : kSizes) check_te(s, p.args(), sizes);
  tenon::Schedule done = s.apply(p.args());
  for (const char* reader : {"C", "D"}) {
    bool direct = false, copied = false;
    for (const tir::BufferRegion& r : done.get(done.get_block(reader))->reads) {
      direct = direct || r->buffer->name == "B";
      copied = copied || r->buffer->name == "B_local";
    }
    EXPECT_TRUE(copied && !direct) << print(done.function());
  }
  EXPECT_EQ(done.blocks().size(), 4u) << "one copy";
}

TEST(Caches, AllResultsOfAnOperation) {
  tir::VarRef n = tir::var("n"), m = tir::var("m");
  Tensor a = te::placeholder({n, m}, f32, "A");
  tir::IterVar k = te::reduce_axis(tir::range(PrimExpr(0), m), "k");
  auto t = te::compute_multi(
      {n}, [&](const Vars& v) { return te::argmax(k->var, a({v[0], k->var}), {k}); }, "arg");
  te::Schedule s = create_schedule(t[0]->op);
  std::vector<Tensor> local = s.cache_write({t[0], t[1]}, "local");
  ASSERT_EQ(local.size(), 2u);
  EXPECT_EQ(local[1].dtype(), t[1].dtype());
  auto [o, i] = s[t[0]].split(s[t[0]].axis()[0], 4);
  s[local[0]].compute_at(s[t[0]], o);
  auto [ko, ki] = s[local[0]].split(s[local[0]].reduce_axis()[0], 3);
  s[local[0]].reorder({ko, s[local[0]].axis()[0], ki});
  s[t[1]].parallel(o);  // the stage of either result
  for (const Sizes& sizes : kSizes) check_te(s, {a, t[0], t[1]}, sizes);
  tenon::Schedule done = s.apply({a, t[0], t[1]});
  EXPECT_EQ(done.blocks().size(), 3u) << "init, update and one copy" << print(done.function());
  refused_te("T0795", "1 of its 2 results", [&] { create_schedule(t[0]->op).cache_write(t[0], "local"); });
  refused_te("T0795", "named twice",
             [&] { create_schedule(t[0]->op).cache_write(std::vector<Tensor>{t[0], t[0]}, "local"); });
}

TEST(Caches, SymbolicMatmul) {
  tir::VarRef m = tir::var("m"), n = tir::var("n"), k = tir::var("k");
  Matmul t = make_matmul(m, n, k);
  te::Schedule s = create_schedule(t.c->op);
  Tensor cc = s.cache_write(t.c, "local");
  auto [xo, yo, xi, yi] = s[t.c].tile(t.c->op->axis[0], t.c->op->axis[1], 4, 8);
  s[cc].compute_at(s[t.c], yo);
  auto [ko, ki] = s[cc].split(s[cc].reduce_axis()[0], 4);
  s[cc].reorder({ko, s[cc].axis()[0], ki, s[cc].axis()[1]});
  s[cc].unroll(ki);
  s[cc].vectorize(s[cc].axis()[1]);
  s[t.c].parallel(xo);
  for (const Sizes& sizes : {Sizes{{"m", 1}, {"n", 1}, {"k", 1}}, Sizes{{"m", 5}, {"n", 9}, {"k", 7}},
                             Sizes{{"m", 8}, {"n", 16}, {"k", 8}}})
    check_te(s, t.args(), sizes);
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

TEST(Storage, ScopeAlignmentAndBuffers) {
  Matmul t = make_matmul(6, 8, 4);
  te::Schedule s = create_schedule(t.c->op);
  Tensor cc = s.cache_write(t.c, "global");
  s[cc].set_scope("local").storage_align(s[cc].axis()[0], 16, 4).double_buffer();
  tenon::Schedule done = check_te(s, t.args());
  const Ref<tir::Block> b = done.get(done.get_block("C"));
  EXPECT_EQ(b->writes[0]->buffer->scope, "local");
  EXPECT_TRUE(b->annotations.contains("buffer_dim_align"));
  EXPECT_TRUE(b->annotations.contains("double_buffer_scope"));
}

TEST(Storage, RollingBuffer) {
  Tensor a = te::placeholder({9, 6}, f32, "A");
  Tensor b = te::compute({9, 6}, [&](const Vars& v) { return a({v[0], v[1]}) * 2.0; }, "B");
  Tensor c = te::compute({8, 6}, [&](const Vars& v) { return b({v[0], v[1]}) + b({v[0] + 1, v[1]}); }, "P");
  te::Schedule s = create_schedule(c->op);
  s[b].compute_at(s[c], c->op->axis[0]).rolling_buffer();
  tenon::Schedule done = check_te(s, {a, c});
  bool small = false;  // two rows are alive at a time
  post_order(done.function(), [&](const ObjectRef& n) {
    if (const auto* x = n.as<tir::Block>())
      for (const tir::Buffer& y : x->alloc_buffers) small = small || tir::is_const_int(y->shape[0], 2);
  });
  EXPECT_TRUE(small) << print(done.function());
}

TEST(Storage, AxisSeparators) {
  Chain p;
  te::Schedule s = create_schedule(p.d->op);
  s[p.b].set_axis_separators({1});
  for (const Sizes& sizes : kSizes) check_te(s, p.args(), sizes);
  tenon::Schedule done = s.apply(p.args());
  EXPECT_EQ(done.get(done.get_block("B"))->writes[0]->buffer->axis_separators.size(), 1u);
}

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

TEST(Storage, TransformLayout) {
  Tensor a = te::placeholder({8, 12}, f32, "A");
  Tensor b = te::compute({8, 12}, [&](const Vars& v) { return a({v[0], v[1]}) * 2.0; }, "B");
  Tensor c = te::compute({8, 12}, [&](const Vars& v) { return b({v[0], v[1]}) + 1.0; }, "C");
  te::Schedule s = create_schedule(c->op);
  auto axes = s[b].transform_layout([](const Array<tir::VarRef>& v) {
    return Array<PrimExpr>{tir::floordiv(v[0], 4), v[1], tir::floormod(v[0], 4)};
  });
  ASSERT_EQ(axes.size(), 3u);
  s[b].vectorize(axes[2]);
  tenon::Schedule done = check_te(s, {a, c});
  EXPECT_EQ(extents(done, "B"), (std::vector<int64_t>{2, 12, 4}));
  EXPECT_EQ(done.get(done.get_block("B"))->writes[0]->buffer->shape.size(), 3u);
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
