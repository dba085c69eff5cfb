// SPDX-License-Identifier: Apache-2.0
// Loops taken apart and merged, and decisions that samplers draw: what each makes, that it computes the same,
// and the sentence of each refusal.
#include "replayed.h"

namespace tenon::testing {
namespace {

TEST(ReverseComputeAt, EveryInstanceOfTheConsumerRuns) {
  Program p = conv_transposed(2, 3, 2, 2, 2);
  Schedule s(p.function);
  s.pad_einsum(s.get_block("conv"), {1, 1, 1, 3, 1, 1});
  refused(s, "T0757", "runs over more",
          [&] { s.reverse_compute_at(s.get_block("dilate_pad"), s.get_loops(s.get_block("dilate"))[0]); });
}

TEST(LoopPartition, ConsecutiveParts) {
  Program p = matmul(9, 8, 5);
  Schedule s(p.function);
  BlockRV c = s.get_block("C");
  std::vector<LoopRV> parts = s.loop_partition(s.get_loops(c)[0], {2, -1, 3});
  ASSERT_EQ(parts.size(), 3u);
  EXPECT_EQ(extent(s, parts[1]), 4);
  EXPECT_EQ(s.get_child_blocks(parts[0])[0], c);
  s.parallel(parts[1]);
  s.vectorize(s.get_loops(s.get_child_blocks(parts[2])[0])[1]);
  check_replay(p, s);
  refused(s, "T0733", "other blocks", [&] { s.compute_at(c, s.get_loops(s.get_block("D"))[0]); });
  refused(s, "T0757", "only a part",
          [&] { s.reverse_compute_at(s.get_block("D"), s.get_loops(s.get_child_blocks(parts[2])[0])[0]); });
  Schedule t(p.function);
  refused(t, "T0714", "carries its reduction",
          [&] { t.loop_partition(t.get_loops(t.get_block("C"))[2], {2, 3}); });
  refused(t, "T0719", "not provably", [&] { t.loop_partition(t.get_loops(t.get_block("C"))[0], {2, 3}); });
  refused(t, "T0719", "not provably", [&] { t.loop_partition(t.get_loops(t.get_block("C"))[0], {9, -1}); });
  refused(t, "T0718", "two parts", [&] { t.loop_partition(t.get_loops(t.get_block("C"))[0], {9}); });
  refused(t, "T0718", "0 is not", [&] { t.loop_partition(t.get_loops(t.get_block("C"))[0], {0, 9}); });
  t.decompose_reduction(t.get_block("C"), t.get_loops(t.get_block("C"))[2]);
  t.loop_partition(t.get_loops(t.get_block("C"))[2], {2, 3});
  check_replay(p, t);
}

TEST(LoopPartition, SymbolicExtents) {
  VarRef n = tir::var("n");
  tir::IterVar k = te::reduce_axis(tir::range(PrimExpr(0), PrimExpr(4)), "k");
  Tensor a = te::placeholder({n, PrimExpr(4)}, f32, "A");
  Tensor b = te::compute(
      {n + 3},
      [&](const Vars& v) { return te::sum(a({tir::max(tir::min(v[0], n - 1), PrimExpr(0)), k->var}), {k}); },
      "B");
  Program q{"rows", te::create_prim_func({a, b}), {}};
  for (int64_t size : {1, 2, 5}) {
    q.sizes = {{"n", size}};
    Schedule s(q.function);
    std::vector<LoopRV> parts = s.loop_partition(s.get_loops(s.get_block("B"))[0], {1, -1, 2});
    s.parallel(parts[1]);
    check_replay(q, s);
  }
  Schedule t(row_sum(n, 8).function);  // n may be 0, and the first part would run all the same
  refused(t, "T0719", "not provably", [&] { t.loop_partition(t.get_loops(t.get_block("S"))[0], {1, -1}); });
}

TEST(Merge, NeighbouringNests) {
  Program p = elementwise(6, 8);
  Schedule s(p.function);
  LoopRV c = s.get_loops(s.get_block("C"))[1], d = s.get_loops(s.get_block("D"))[1],
         e = s.get_loops(s.get_block("E"))[1];
  EXPECT_EQ(s.merge({c, d, e}), c);
  EXPECT_EQ(s.get_child_blocks(c).size(), 3u);
  s.parallel(s.get_loops(s.get_block("E"))[0]);
  check_replay(p, s);
  VarRef n = tir::var("n");
  Program q = elementwise(n, 6);
  q.sizes = {{"n", 5}};
  Schedule t(q.function);
  t.merge({t.get_loops(t.get_block("C"))[0], t.get_loops(t.get_block("D"))[0]});
  check_replay(q, t);
  Schedule u(p.function);
  auto loops = [&](const char* b) { return u.get_loops(u.get_block(b)); };
  refused(u, "T0792", "directly follow", [&] { u.merge({loops("C")[0], loops("E")[0]}); });
  refused(u, "T0792", "deep", [&] { u.merge({loops("C")[0], loops("D")[1]}); });
  refused(u, "T0792", "one loop alone", [&] { u.merge({loops("C")[0]}); });
  refused(u, "T0792", "beside", [&] { u.merge({loops("C")[0], loops("C")[1]}); });
  u.split(loops("C")[0], {-1, 2});
  refused(u, "T0792", "as often", [&] { u.merge({loops("C")[0], loops("D")[0]}); });
  Program m = transpose(6, 6);
  Schedule v(m.function);
  v.reorder({v.get_loops(v.get_block("O"))[1], v.get_loops(v.get_block("O"))[0]});
  refused(v, "T0729", "different iterations",
          [&] { v.merge({v.get_loops(v.get_block("T"))[0], v.get_loops(v.get_block("O"))[0]}); });
  Schedule w(matmul(6, 6, 6).function);
  w.decompose_reduction(w.get_block("C"), w.get_loops(w.get_block("C"))[2]);
  refused(w, "T0792", "",
          [&] { w.merge({w.get_loops(w.get_block("C"))[2], w.get_loops(w.get_block("D"))[0]}); });
}

TEST(Samplers, DecisionsAreRecorded) {
  Program p = matmul(12, 16, 5);
  std::set<std::string> traces;
  for (uint64_t seed = 0; seed < 8; ++seed) {
    Schedule s(p.function, seed);
    BlockRV c = s.get_block("C");
    std::vector<int64_t> f = s.sample_perfect_tile(s.get_loops(c)[1], 3, 4);
    EXPECT_EQ(f[0] * f[1] * f[2], 16);
    EXPECT_LE(f[2], 4);
    s.split(s.get_loops(c)[1], f);
    const int64_t depth = s.sample_categorical({1, 2, 4}, {0.25, 0.5, 0.25});
    s.annotate(c, "depth", Any(depth));
    const LocationRV at = s.sample_compute_location(c);
    s.compute_at(c, at);
    check_replay(p, s);
    traces.insert(s.trace().to_json());
    Schedule again(p.function, seed);
    EXPECT_EQ(again.sample_perfect_tile(again.get_loops(again.get_block("C"))[1], 3, 4), f);
  }
  EXPECT_GT(traces.size(), 3u);
  Schedule s(p.function);
  EXPECT_EQ(s.sample_categorical({7, 8}, {0.0, 1.0}), 8);
  VarRef n = tir::var("n");
  Schedule t(row_sum(n, 8).function);
  refused(t, "T0793", "no positive constant",
          [&] { t.sample_perfect_tile(t.get_loops(t.get_block("S"))[0], 2); });
  refused(t, "T0793", "no tiling", [&] { t.sample_perfect_tile(t.get_loops(t.get_block("S"))[1], 0); });
  refused(t, "T0793", "recorded decision",
          [&] { t.sample_perfect_tile(t.get_loops(t.get_block("S"))[1], 2, 4, {3, 3}); });
  refused(t, "T0793", "cannot be sampled", [&] { t.sample_categorical({1, 2}, {1.0}); });
  refused(t, "T0793", "cannot be sampled", [&] { t.sample_categorical({1}, {-1.0}); });
  refused(t, "T0794", "recorded decision", [&] { t.sample_compute_location(t.get_block("S"), 9); });
}

// A decision of a trace is a value: another one gives another program, which computes the same.
TEST(Samplers, AnotherDecisionReplays) {
  Program p = transpose(4, 6);
  std::set<std::string> programs;
  for (int first : {-2, -1, 0, 1}) {
    Schedule s(p.function);
    BlockRV c = s.get_block("T");
    s.parallel(s.get_loops(s.get_block("O"))[0]);
    s.compute_at(c, s.sample_compute_location(c, first));
    check_replay(p, s);
    for (int other : {-2, -1, 0, 1}) {
      Trace t = Trace::from_json(s.trace().to_json());
      bool found = false;
      for (TraceStep& step : t.steps)
        if (step.primitive->name == "sample_compute_location") step["decision"] = Any(other), found = true;
      ASSERT_TRUE(found) << s.trace().to_script();
      Schedule again = Schedule::replay(p.function, t);
      EXPECT_TRUE(same(run(p.function, p.sizes), run(again.function(), p.sizes)));
      programs.insert(print(again.function()));
      EXPECT_EQ(structural_equal(again.function(), s.function()), first == other);
    }
  }
  EXPECT_EQ(programs.size(), 4u);
  Schedule s(p.function);
  const BlockRV c = s.get_block("T");
  refused(s, "T0701", "no location has the handle", [&] { s.compute_at(c, LocationRV{0}); });
  refused(s, "T0701", "no number has the handle", [&] { s.split(s.get_loops(c)[0], {IntRV(2, 0), -1}); });
}

}  // namespace
}  // namespace tenon::testing
