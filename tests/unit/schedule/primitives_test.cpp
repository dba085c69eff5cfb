// SPDX-License-Identifier: Apache-2.0
// Each primitive: what it makes, that it computes the same, and the sentence of each refusal.
#include <set>

#include "base/diagnostic.h"
#include "programs.h"
#include "schedule/primitive.h"

namespace tenon::testing {
namespace {

TEST(Handles, StayValidAndDieWithASentence) {
  Program p = matmul(6, 7, 5);
  Schedule s(p.function);
  BlockRV c = s.get_block("C"), d = s.get_block("D");
  std::vector<LoopRV> l = s.get_loops(c);
  ASSERT_EQ(l.size(), 3u);
  std::vector<LoopRV> parts = s.split(l[0], {-1, 4});
  EXPECT_EQ(s.get(l[2])->loop_var->name, "k");
  EXPECT_EQ(s.get_loops(c).size(), 4u);
  EXPECT_EQ(s.get_consumers(c), std::vector<BlockRV>{d});
  EXPECT_EQ(s.get_producers(d), std::vector<BlockRV>{c});
  EXPECT_EQ(s.get_output_blocks(), std::vector<BlockRV>{d});
  EXPECT_EQ(s.get_child_blocks(parts[0]), std::vector<BlockRV>{c});
  refused(s, "T0702", "split removed it", [&] { s.parallel(l[0]); });
  refused(s, "T0701", "no loop or block", [&] { s.parallel({99}); });
  refused(s, "T0701", "a loop is needed", [&] { s.parallel({c.id}); });
  refused(s, "T0704", "no block 'Q'", [&] { s.get_block("Q"); });
  refused(s, "T0703", "root block", [&] { s.compute_inline(s.get_block("root")); });
}

TEST(Handles, SnapshotsAreIndependent) {
  Program p = matmul(6, 7, 5);
  Schedule s(p.function);
  BlockRV c = s.get_block("C");
  Schedule before = s;
  s.split(s.get_loops(c)[0], {-1, 2});
  EXPECT_EQ(before.get_loops(c).size(), 3u);
  EXPECT_EQ(s.get_loops(c).size(), 4u);
  EXPECT_TRUE(before.trace().steps.empty());
  EXPECT_TRUE(before.function().same_as(p.function) || structural_equal(before.function(), p.function));
}

TEST(Split, InfersFactorsAndGuardsRemainders) {
  Program p = matmul(6, 7, 5);
  Schedule s(p.function);
  std::vector<LoopRV> l = s.get_loops(s.get_block("C"));
  std::vector<LoopRV> a = s.split(l[1], {-1, 4});
  EXPECT_EQ(extent(s, a[0]), 2);
  EXPECT_EQ(extent(s, a[1]), 4);
  EXPECT_FALSE(tir::is_const_int(s.realize(s.get_block("C"))->predicate, 1));
  std::vector<LoopRV> b = s.split(l[0], {2, -1});
  EXPECT_EQ(extent(s, b[1]), 3);
  check(p, s);
  refused(s, "T0718", "only one can be inferred", [&] { s.split(l[2], {-1, -1}); });
  refused(s, "T0718", "0", [&] { s.split(l[2], {0, -1}); });
  refused(s, "T0718", "no factors", [&] { s.split(l[2], {}); });
  refused(s, "T0719", "fewer", [&] { s.split(l[2], {2, 2}); });
  s.parallel(b[0]);
  refused(s, "T0710", "already parallel", [&] { s.split(b[0], {-1, 2}); });
  s.annotate(l[2], "hint", Any(1));
  refused(s, "T0711", "hint", [&] { s.split(l[2], {-1, 2}); });
}

TEST(Split, SymbolicExtents) {
  tir::VarRef n = tir::var("n"), m = tir::var("m");
  for (int64_t size : {1, 4, 5, 13}) {
    Program p = elementwise(n, m);
    p.sizes = {{"n", size}, {"m", 7}};
    Schedule s(p.function);
    BlockRV c = s.get_block("C");
    std::vector<LoopRV> l = s.get_loops(c);
    std::vector<LoopRV> parts = s.split(s.fuse(l), {-1, 4});
    s.parallel(parts[0]);
    s.vectorize(parts[1]);
    check(p, s);
  }
}

TEST(Fuse, InnerLoopsOfAtMostOneIterationMayHaveNone) {
  tir::VarRef n = tir::var("n");
  for (int64_t size : {0, 1, 5}) {
    Tensor a = te::placeholder({2, 3, n}, f32, "A");
    Tensor last = te::compute(
        {2, 3, tir::min(n, PrimExpr(1))}, [&](const Vars& v) { return a({v[0], v[1], n - 1 - v[2]}); }, "L");
    Program p{"last", te::create_prim_func({a, last}), {{"n", size}}};
    Schedule s(p.function);
    const std::vector<LoopRV> l = s.get_loops(s.get_block("L"));
    s.fuse({l[0], l[1]});
    check(p, s);
  }
}

TEST(Split, RaggedEndsOfInnerLoopsAreApart) {
  for (auto [h, w, factor] : std::vector<std::array<int64_t, 3>>{{14, 14, 16}, {3, 5, 4}, {1, 7, 2}}) {
    Tensor x = te::placeholder({6, h, w}, f32, "X");
    Tensor y = te::compute(
        {6, h, w}, [&](const Vars& v) { return x({floormod(v[0], 2) * 3 + floordiv(v[0], 2), v[1], v[2]}); },
        "Y");
    Program p{"shuffle", te::create_prim_func({x, y}), {}};
    Schedule s(p.function);
    std::vector<LoopRV> l = s.get_loops(s.get_block("Y"));
    std::vector<LoopRV> parts = s.split(s.fuse({l[1], l[2]}), {-1, factor});
    s.parallel(l[0]);
    s.vectorize(parts[1]);
    check(p, s);
  }
  // Two loops that are one number together write elements twice: nothing may run side by side.
  Tensor a = te::placeholder({8}, f32, "A");
  Program q{"twice",
            te::create_prim_func({a, te::compute(
                                         {8}, [&](const Vars& v) { return a({v[0]}); }, "B")}),
            {}};
  Schedule s(q.function);
  std::vector<LoopRV> l = s.split(s.get_loops(s.get_block("B"))[0], {3, 3});
  s.parallel(l[0]);
  check(q, s);
}

TEST(Fuse, NeedsPerfectNests) {
  Program p = matmul(6, 7, 5);
  Schedule s(p.function);
  std::vector<LoopRV> l = s.get_loops(s.get_block("C"));
  refused(s, "T0720", "not the only thing", [&] { s.fuse({l[0], l[2]}); });
  EXPECT_EQ(extent(s, s.fuse({l[0], l[1]})), 42);
  check(p, s);
}

TEST(Reorder, KeepsReductionsRight) {
  Program p = matmul(6, 7, 5);
  Schedule s(p.function);
  std::vector<LoopRV> l = s.get_loops(s.get_block("C"));
  s.reorder({l[2], l[0]});
  EXPECT_EQ(s.get_loops(s.get_block("C"))[0], l[2]);
  EXPECT_EQ(s.get_loops(s.get_block("C"))[2], l[0]);
  check(p, s);
  refused(s, "T0722", "twice", [&] { s.reorder({l[0], l[0]}); });
  refused(s, "T0722", "same chain", [&] { s.reorder({l[0], s.get_loops(s.get_block("D"))[0]}); });
  Schedule t(p.function);
  std::vector<LoopRV> parts = t.split(t.fuse(t.get_loops(t.get_block("C"))), {-1, 10});
  refused(t, "T0725", "mixes", [&] { t.reorder({parts[1], parts[0]}); });
  // The fused loop taken apart where the sum begins: what is inside is the sum, and nothing else.
  Schedule u(p.function);
  parts = u.split(u.fuse(u.get_loops(u.get_block("C"))), {-1, 5});
  u.reorder({parts[1], parts[0]});
  check(p, u);
}

TEST(Kinds, OnlyIndependentLoops) {
  Program p = matmul(6, 8, 5);
  Schedule s(p.function);
  BlockRV c = s.get_block("C");
  std::vector<LoopRV> l = s.get_loops(c);
  refused(s, "T0714", "carries a reduction", [&] { s.parallel(l[2]); });
  refused(s, "T0714", "carries a reduction", [&] { s.vectorize(l[2]); });
  s.parallel(l[0]);
  s.vectorize(l[1]);
  s.unroll(l[2]);
  EXPECT_EQ(s.get(l[0])->kind, tir::ForKind::parallel);
  refused(s, "T0710", "another kind", [&] { s.vectorize(l[0]); });
  check(p, s);
  tir::VarRef n = tir::var("n");
  Schedule t(transpose(n, 4).function);
  refused(t, "T0727", "not a constant", [&] { t.vectorize(t.get_loops(t.get_block("T"))[1]); });
  // A producer computed per column is computed again by each row: rows may not share its buffer among lanes.
  Program q = conv(1, 6, 6, 2, 3, 1, 1);
  Schedule u(q.function);
  u.compute_at(u.get_block("pad"), u.get_loops(u.get_block("conv"))[2]);
  u.parallel(u.get_loops(u.get_block("conv"))[2]);
  check(q, u);
}

TEST(Inline, ProducersIntoConsumers) {
  Program p = elementwise(5, 7);
  Schedule s(p.function);
  s.compute_inline(s.get_block("C"));
  s.compute_inline(s.get_block("D"));
  EXPECT_EQ(s.blocks().size(), 1u);
  check(p, s);
  refused(s, "T0732", "result of the function", [&] { s.compute_inline(s.get_block("E")); });
  Schedule t(matmul(4, 4, 4).function);
  refused(t, "T0730", "accumulates", [&] { t.compute_inline(t.get_block("C")); });
  Program r = transpose(4, 6);
  Schedule u(r.function);
  u.reverse_compute_inline(u.get_block("O"));
  EXPECT_EQ(u.blocks().size(), 1u);
  check(r, u);
  refused(t, "T0739", "reduction", [&] { t.reverse_compute_inline(t.get_block("D")); });
  Schedule v(p.function);
  refused(v, "T0737", "both", [&] { v.reverse_compute_inline(v.get_block("E")); });
  refused(v, "T0738", "other blocks", [&] { v.reverse_compute_inline(v.get_block("D")); });
}

TEST(ComputeAt, ExactlyTheNeededRegion) {
  Program p = conv(2, 8, 8, 4, 3, 1, 1);
  Schedule s(p.function);
  BlockRV pad = s.get_block("pad"), c = s.get_block("conv");
  s.compute_at(pad, s.get_loops(c)[2]);
  std::vector<LoopRV> l = s.get_loops(pad);
  // three rows of all columns of both channels
  int64_t product = 1;
  for (size_t i = 3; i < l.size(); ++i) product *= extent(s, l[i]);
  EXPECT_EQ(product, 2 * 3 * 10);
  check(p, s);
  refused(s, "T0753", "result of the function",
          [&] { s.compute_at(s.get_block("relu"), s.get_loops(c)[0]); });
  refused(s, "T0750", "already lies inside", [&] { s.compute_at(pad, s.get_loops(c)[0]); });
  Schedule t(softmax(4, 6).function);
  refused(t, "T0754", "lies outside",
          [&] { t.compute_at(t.get_block("ex"), t.get_loops(t.get_block("out"))[0]); });
  Schedule u(matmul(4, 6, 8).function);
  u.vectorize(u.get_loops(u.get_block("D"))[1]);
  refused(u, "T0751", "vectorised",
          [&] { u.compute_at(u.get_block("C"), u.get_loops(u.get_block("D"))[1]); });
  BlockRV uc = u.get_block("C");
  u.decompose_reduction(uc, u.get_loops(uc)[2]);
  refused(u, "T0752", "neither complete", [&] { u.compute_at(uc, u.get_loops(u.get_block("D"))[0]); });
}

TEST(ComputeAt, ALastPartBeginsEarlierInwards) {
  auto tiled = [](const Program& p, bool inwards) {
    Schedule s(p.function);
    const BlockRV c = s.get_block("C"), d = s.get_block("D");
    s.pad_iteration(d, 0, 8);
    s.compute_at(c, s.split(s.get_loops(d)[0], {-1, 8})[0], inwards);
    return std::pair(s, tir::is_const_int(s.realize(c)->predicate, 1));
  };
  const Program p = matmul(21, 8, 5);
  auto [whole, no_condition] = tiled(p, true);
  EXPECT_TRUE(no_condition) << "rows 13 to 20 are the last tile";
  EXPECT_EQ(extent(whole, whole.get_loops(whole.get_block("C"))[1]), 8);
  check(p, whole);
  EXPECT_FALSE(tiled(p, false).second);
  // An axis that is shorter than one tile, and one whose length is not known, keep what they have.
  const Program shorter = matmul(5, 8, 5);
  check(shorter, tiled(shorter, true).first);
  tir::VarRef n = tir::var("n");
  for (int64_t size : {3, 8, 21}) {
    Program symbolic = matmul(n, PrimExpr(8), PrimExpr(5));
    symbolic.sizes = {{"n", size}};
    check(symbolic, tiled(symbolic, true).first);
  }
}

TEST(ReverseComputeAt, OnlyFinishedBoxes) {
  Program p = matmul(6, 8, 5);
  Schedule s(p.function);
  BlockRV c = s.get_block("C"), d = s.get_block("D");
  std::vector<LoopRV> l = s.get_loops(c);
  std::vector<LoopRV> columns = s.split(l[1], {-1, 4});
  s.reorder({l[0], columns[0], l[2], columns[1]});
  refused(s, "T0755", "still adds", [&] { s.reverse_compute_at(d, l[2]); });
  s.reverse_compute_at(d, columns[0]);
  EXPECT_EQ(s.get_child_blocks(columns[0]), (std::vector<BlockRV>{c, d}));
  check(p, s);
  Schedule t(p.function);
  std::vector<LoopRV> f =
      t.split(t.fuse({t.get_loops(t.get_block("C"))[0], t.get_loops(t.get_block("C"))[1]}), {-1, 6});
  refused(t, "T0757", "not a box", [&] { t.reverse_compute_at(t.get_block("D"), f[0]); });
  Schedule u(softmax(4, 6).function);
  refused(u, "T0758", "needs more",
          [&] { u.reverse_compute_at(u.get_block("sm"), u.get_loops(u.get_block("ex"))[1]); });
}

TEST(Reduction, DecomposeAndFactor) {
  Program p = row_sum(5, 11);
  Schedule s(p.function);
  BlockRV b = s.get_block("S");
  LoopRV k = s.split(s.get_loops(b)[1], {-1, 4})[1];
  BlockRV rf = s.rfactor(k, -1);
  EXPECT_EQ(s.get(rf)->writes[0]->buffer->shape.size(), 2u);
  s.vectorize(s.get_loops(rf).back().id == k.id ? k : s.get_loops(rf)[2]);
  check(p, s);
  refused(s, "T0766", "not a loop of the reduction", [&] { s.rfactor(s.get_loops(b)[0], 0); });
  Program q = matmul(6, 7, 5);
  Schedule t(q.function);
  BlockRV c = t.get_block("C");
  std::vector<LoopRV> l = t.get_loops(c);
  t.reorder({l[2], l[1]});
  refused(t, "T0762", "again and again", [&] { t.decompose_reduction(c, l[1]); });
  refused(t, "T0761", "not one of the loops",
          [&] { t.decompose_reduction(c, t.get_loops(t.get_block("D"))[0]); });
  t.decompose_reduction(c, l[2]);
  check(q, t);
  refused(t, "T0760", "no init", [&] { t.decompose_reduction(c, l[0]); });
  refused(s, "T0768", "axis must be", [&] { s.rfactor(s.get_loops(b).back(), 7); });
  Program a = argmax(4, 10);
  Schedule u(a.function);
  BlockRV arg = u.blocks()[0];
  u.rfactor(u.split(u.get_loops(arg)[1], {-1, 4})[1], 0);
  check(a, u);
}

TEST(Cache, CopiesAndScopes) {
  Program p = matmul(6, 8, 5, false);
  Schedule s(p.function);
  BlockRV c = s.get_block("C");
  BlockRV out = s.cache_write(c, 0, "local"), in = s.cache_read(c, 0, "local");
  EXPECT_EQ(s.get(c)->writes[0]->buffer->scope, "local");
  EXPECT_EQ(s.get_producers(out), std::vector<BlockRV>{c});
  s.compute_at(in, s.get_loops(c)[0]);
  s.reverse_compute_at(out, s.get_loops(c)[0]);
  check(p, s);
  refused(s, "T0771", "no number 9", [&] { s.cache_read(c, 9, "local"); });
  refused(s, "T0770", "no memory scope", [&] { s.cache_write(c, 0, "attic"); });
  refused(s, "T0775", "caller's", [&] { s.set_scope(out, 0, "local"); });
  s.set_scope(c, 0, "shared");
  EXPECT_EQ(s.get(c)->writes[0]->buffer->scope, "shared");
  check(p, s);
}

TEST(Cache, ReindexLaysOutByIterators) {
  Program p = conv(2, 9, 9, 3, 3, 2, 1);
  Schedule s(p.function);
  BlockRV c = s.get_block("conv");
  BlockRV copy = s.reindex(c, 0);
  EXPECT_EQ(s.get(copy)->writes[0]->buffer->shape.size(), 6u);  // rc, ry, rx, n, y, x
  s.compute_inline(s.get_block("pad"));
  check(p, s);
  refused(s, "T0771", "no number 7", [&] { s.reindex(c, 7); });
}

TEST(Pad, WholeTilesWithMaskedEdges) {
  for (bool clamp : {false, true}) {
    Program p = matmul(5, 7, 6);
    Schedule s(p.function);
    BlockRV c = s.get_block("C");
    s.pad_iteration(c, 1, 4, clamp);
    s.pad_iteration(c, 2, 4);
    s.pad_iteration(s.get_block("D"), 1, 4);
    EXPECT_EQ(extent(s, s.get_loops(c)[1]), 8);
    s.vectorize(s.split(s.get_loops(c)[1], {-1, 4})[1]);
    EXPECT_TRUE(tir::is_const_int(s.realize(c)->predicate, 1));
    check(p, s);
  }
  Schedule t(matmul(5, 7, 6, false).function);
  refused(t, "T0785", "cannot grow", [&] { t.pad_iteration(t.get_block("C"), 1, 4); });
  refused(t, "T0782", "no number", [&] { t.pad_iteration(t.get_block("C"), 5, 4); });
  t.split(t.get_loops(t.get_block("C"))[0], {-1, 2});
  refused(t, "T0783", "loop of its own", [&] { t.pad_iteration(t.get_block("C"), 0, 4); });
}

TEST(Pad, ClampedLoadsUnderAPredicate) {
  Program p = conv(2, 6, 5, 2, 3, 2, 1);
  for (bool clamp : {false, true}) {
    Schedule s(p.function);
    BlockRV pad = s.get_block("pad");
    s.decompose_padding(pad, s.fuse_iterators(pad, 0, 3));
    auto grow = [&] { s.pad_iteration(pad, 0, 5, clamp); };
    if (clamp)
      refused(s, "T0742", "restricted by a predicate", grow);
    else
      grow(), check(p, s);
  }
}

TEST(Blockize, LoopsThatMayNotRunHaveNoTile) {
  Program p = conv_transposed(1, 2, 1, 2, 2);
  Schedule s(p.function);
  BlockRV pad = s.get_block("dilate");
  const LoopRV within = s.split(s.get_loops(pad)[2], {-1, 2})[1];
  s.blockize(within);
  s.decompose_padding(pad, within);  // leaves no iteration for some tiles
  s.blockize(within);
  check(p, s);
}

TEST(Pad, ConditionsOfClampedLoadsHoldForWhatIsRead) {
  tir::VarRef n = tir::var("n");
  for (int64_t size : {1, 2, 6}) {
    Tensor x = te::placeholder({n}, f32, "X");
    tir::IterVar k = te::reduce_axis(tir::range(PrimExpr(0), PrimExpr(2)), "k");
    Tensor c = te::compute(
        {n},
        [&](const Vars& v) {
          const PrimExpr at = v[0] + k->var;
          return te::sum(tir::if_then_else(tir::ge(at, PrimExpr(1)), x({at - 1}), PrimExpr(0.0)), {k});
        },
        "C");
    Tensor d = te::compute({n}, [&](const Vars& v) { return c({v[0]}) * 2.0; }, "D");
    Program p{"window", te::create_prim_func({x, d}), {{"n", size}}};
    Schedule s(p.function);
    s.pad_iteration(s.get_block("C"), 0, 4, true);
    s.pad_iteration(s.get_block("D"), 0, 4);
    check(p, s);  // nothing in front of X is read behind the end of a short one
  }
}

TEST(FuseIterators, JoinsAxesOfAPrivateResult) {
  Program p = conv(2, 5, 5, 3, 1, 1, 0);
  Schedule s(p.function);
  BlockRV c = s.get_block("conv");
  EXPECT_EQ(extent(s, s.fuse_iterators(c, 2, 2)), 25);
  EXPECT_EQ(s.get(c)->writes[0]->buffer->shape.size(), 3u);
  s.fuse_iterators(s.get_block("relu"), 2, 2);
  s.pad_iteration(c, 2, 8);
  s.pad_iteration(s.get_block("relu"), 2, 8);
  check(p, s);
  refused(s, "T0782", "none of them", [&] { s.fuse_iterators(c, 4, 9); });
  refused(s, "T0783", "another kind", [&] { s.fuse_iterators(c, 2, 2); });
}

TEST(Trace, JsonScriptAndReplay) {
  Program p = matmul(6, 8, 5);
  Schedule s(p.function);
  BlockRV c = s.get_block("C");
  std::vector<LoopRV> l = s.get_loops(c);
  s.split(l[1], {-1, 4});
  s.annotate(c, "note", Any("fast"));
  s.annotate(l[2], "depth", Any(3));
  s.unannotate(l[2], "depth");
  s.parallel(l[0]);
  const std::string text = s.trace().to_script();
  EXPECT_NE(text.find("sch.get_block(\"C\")"), std::string::npos) << text;
  EXPECT_NE(text.find("sch.split("), std::string::npos) << text;
  EXPECT_NE(text.find("factors=[-1, 4])"), std::string::npos) << text;
  Trace t = Trace::from_json(s.trace().to_json());
  EXPECT_EQ(t.to_json(), s.trace().to_json());
  EXPECT_TRUE(structural_equal(Schedule::replay(p.function, t).function(), s.function()));
  EXPECT_EQ(Schedule::replay(p.function, t).get(c)->annotations.at("note").as<std::string>(), "fast");
  for (const char* bad :
       {"", "{}", "[1]", "[{\"name\": \"jump\"}]", "[{\"name\": \"split\", \"in\": [\"x1\"]}]",
        "[{\"name\": \"split\", \"in\": [\"l99999999999999999999\"]}]"})
    EXPECT_THROW(Trace::from_json(bad), ScheduleError) << bad;
  EXPECT_THROW(Schedule::replay(p.function, Trace::from_json("[{\"name\": \"parallel\", \"in\": [\"l1\"]}]")),
               ScheduleError);
  EXPECT_THROW(
      Schedule::replay(p.function, Trace::from_json("[{\"name\": \"get_block\", \"out\": [\"b1\"]}]")),
      ScheduleError);
  refused(s, "T0781", "no annotation", [&] { s.unannotate(c, "missing"); });
  refused(s, "T0780", "needs a name", [&] { s.annotate(c, "", Any(1)); });
}

TEST(Trace, ScriptsAreRead) {
  Program p = matmul(6, tir::var("m"), 5);
  p.sizes = {{"m", 8}};
  const Trace t = Trace::from_script(R"(
c = sch.get_block("C")
i, j, k = sch.get_loops(block=c)
outer, inner = sch.split(j, factors=[-1, 4])  # names of one's own
sch.reorder([outer, k, inner])
sch.transform_layout(c, 0, "write", lambda i0, i1: (i0 * m + i1,))
sch.annotate(c, "note", [1, -2, 0.5, True, "fast", m + 1])
)");
  Schedule s(p.function);
  const BlockRV c = s.get_block("C");
  const PrimExpr m = s.get(c)->writes[0]->buffer->shape[1];
  const std::vector<LoopRV> l = s.get_loops(c), j = s.split(l[1], {-1, 4});
  s.reorder({j[0], l[2], j[1]});
  s.transform_layout(c, 0, BufferIndexType::write, index_map(2, [&](const Array<tir::VarRef>& i) {
                       return Array<PrimExpr>{i[0] * m + i[1]};
                     }));
  s.annotate(c, "note", Any(Array<Any>{Any(1), Any(-2), Any(0.5), Any(true), Any("fast"), Any(m + 1)}));
  EXPECT_EQ(Schedule::replay(p.function, t).trace().to_script(), s.trace().to_script());
  EXPECT_EQ(Trace::from_script(s.trace().to_script()).to_script(), s.trace().to_script());
  EXPECT_TRUE(same(run(p.function, p.sizes), run(Schedule::replay(p.function, t).function(), p.sizes)));
  // Every mistake with its place.
  try {
    Trace::from_script(
        "x = sch.jump()\nsch.fuse([y])\nsch.split(l1, by=2)\nsch.get_block(\"C\", 2)\n"
        "loops = sch.get_loops(b)\nz = sch.parallel(l)\nreturn 3\nsch.merge([], [])\n");
    FAIL();
  } catch (const DiagnosticError& e) {
    std::set<std::string> lines;
    for (const Diagnostic& d : e.diagnostics) {
      EXPECT_EQ(d.code, "T0790") << e.what();
      lines.insert(d.location.substr(0, d.location.rfind(':')));
    }
    EXPECT_EQ(lines.size(), 8u) << e.what();
  }
}

TEST(Errors, ShowTheProgramAndThePlace) {
  Schedule s(matmul(4, 4, 4).function);
  try {
    s.parallel(s.get_loops(s.get_block("C"))[2]);
    FAIL();
  } catch (const ScheduleError& e) {
    const std::string text = e.what();
    EXPECT_NE(text.find("block C(v_"), std::string::npos) << text;
    EXPECT_NE(text.find("<-- here"), std::string::npos) << text;
    EXPECT_NE(text.find("rfactor"), std::string::npos) << text;
  }
}

}  // namespace
}  // namespace tenon::testing
