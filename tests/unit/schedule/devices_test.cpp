// SPDX-License-Identifier: Apache-2.0
// Thread axes, types and axes of buffers, orders of iterators, circular buffers; what queries leave in a
// trace.
#include "programs.h"
#include "schedule/primitive.h"

namespace tenon::testing {
namespace {

TEST(Bind, LoopsBecomeThreads) {
  Program p = matmul(8, 12, 5);
  Schedule s(p.function);
  BlockRV c = s.get_block("C");
  std::vector<LoopRV> l = s.get_loops(c);
  std::vector<LoopRV> rows = s.split(l[0], {-1, 4});
  s.bind(rows[0], "blockIdx.x");
  s.bind(rows[1], "threadIdx.y");
  s.bind(l[1], "threadIdx.x");
  EXPECT_EQ(s.get(l[1])->kind, tir::ForKind::thread_binding);
  EXPECT_EQ(s.get(l[1])->thread_tag, "threadIdx.x");
  check(p, s);
  EXPECT_TRUE(same(run(p.function), run(reversed(s.function()))));
  refused(s, "T0705", "no thread axis", [&] { s.bind(l[2], "lane"); });
  refused(s, "T0705", "bound to threadIdx.x already", [&] { s.bind(l[2], "threadIdx.x"); });
  refused(s, "T0705", "groups of threads", [&] { s.bind(l[2], "blockIdx.y"); });
  refused(s, "T0710", "another kind", [&] { s.bind(l[1], "threadIdx.z"); });
  refused(s, "T0714", "carries a reduction", [&] { s.bind(l[2], "vthread"); });
  refused(s, "T0763", "vectorised", [&] {
    Schedule t(p.function);
    t.vectorize(t.get_loops(t.get_block("C"))[1]);
    t.decompose_reduction(t.get_block("C"), t.get_loops(t.get_block("C"))[2]);
  });
  // A kernel has one number of threads on an axis.
  BlockRV d = s.get_block("D");
  Schedule t(p.function);
  std::vector<LoopRV> outer = t.split(t.get_loops(t.get_block("D"))[0], {-1, 4});
  t.compute_at(t.get_block("C"), outer[0]);
  t.bind(outer[1], "threadIdx.x");
  refused(t, "T0705", "another number of threads",
          [&] { t.bind(t.get_loops(t.get_block("C"))[2], "threadIdx.x"); });
  t.bind(t.get_loops(t.get_block("C"))[1], "threadIdx.x");
  check(p, t);
  refused(t, "T0728", "bound", [&] { t.parallel(t.get_loops(t.get_block("C"))[2]); });
  (void)d;
}

TEST(Bind, ThreadsReduceTogether) {
  Program p = row_sum(5, 12);
  Schedule s(p.function);
  BlockRV b = s.get_block("S");
  std::vector<LoopRV> k = s.split(s.get_loops(b)[1], {-1, 4});
  s.bind(k[1], "threadIdx.x");
  check(p, s);
  refused(s, "T0763", "reduce together", [&] { s.decompose_reduction(b, k[0]); });
  tir::VarRef n = tir::var("n"), m = tir::var("m");
  Schedule t(row_sum(n, m).function);
  LoopRV rows = t.get_loops(t.get_block("S"))[0];
  refused(t, "T0727", "not a constant", [&] { t.bind(rows, "threadIdx.x"); });
  t.bind(rows, "blockIdx.x");
  Schedule u(row_sum(4096, 8).function);
  refused(u, "T0727", "too many", [&] { u.bind(u.get_loops(u.get_block("O"))[0], "threadIdx.x"); });
  u.parallel(u.get_loops(u.get_block("S"))[0]);
  refused(u, "T0728", "parallel on the host",
          [&] { u.bind(u.get_loops(u.get_block("S"))[1], "threadIdx.x"); });
}

TEST(Bind, SymbolicSizesInGroups) {
  for (int64_t size : {1, 7, 64}) {
    tir::VarRef n = tir::var("n"), m = tir::var("m");
    Program p = elementwise(n, m);
    p.sizes = {{"n", size}, {"m", 5}};
    Schedule s(p.function);
    for (const char* name : {"C", "D", "E"}) {
      std::vector<LoopRV> parts = s.split(s.fuse(s.get_loops(s.get_block(name))), {-1, 32});
      s.bind(parts[0], "blockIdx.x");
      s.bind(parts[1], "threadIdx.x");
    }
    EXPECT_TRUE(same(run(p.function, p.sizes), run(reversed(s.function()), p.sizes)));
  }
}

TEST(BlockIterators, ChangePlaces) {
  Program p = matmul(4, 5, 6);
  Schedule s(p.function);
  BlockRV c = s.get_block("C");
  const std::string k = s.get(c)->iter_vars[2]->var->name;
  s.reorder_block_iter_var(c, {2, 0, 1});
  EXPECT_EQ(s.get(c)->iter_vars[0]->var->name, k);
  check(p, s);
  refused(s, "T0789", "not an order", [&] { s.reorder_block_iter_var(c, {0, 1}); });
  refused(s, "T0789", "not an order", [&] { s.reorder_block_iter_var(c, {0, 1, 1}); });
  s.decompose_reduction(c, s.get_loops(c)[2]);
  check(p, s);
}

TEST(Types, BuffersHoldAnotherType) {
  Program p = matmul(4, 5, 6);
  Schedule s(p.function);
  s.unsafe_set_dtype(s.get_block("C"), 0, f64);
  EXPECT_EQ(s.get(s.get_block("C"))->writes[0]->buffer->dtype, f64);
  EXPECT_EQ(s.get(s.get_block("D"))->reads[0]->buffer->dtype, f64);
  check(p, s);
  // Narrow types round what is stored: 1/4 steps up to 2 · 2 · 6 fit in 11 bits, thirds do not.
  Program q = elementwise(3, 4);
  Schedule t(q.function);
  t.unsafe_set_dtype(t.get_block("C"), 0, DataType::float_(16));
  check(q, t);
  refused(s, "T0775", "caller's", [&] { s.unsafe_set_dtype(s.get_block("D"), 0, f64); });
  refused(s, "T0707", "another kind", [&] { s.unsafe_set_dtype(s.get_block("C"), 0, i32); });
  refused(s, "T0707", "cannot hold", [&] { s.unsafe_set_dtype(s.get_block("C"), 0, DataType::handle()); });
  refused(s, "T0771", "no number 3", [&] { s.unsafe_set_dtype(s.get_block("C"), 3, f64); });
  Schedule u(argmax(3, 4).function);
  refused(u, "T0775", "caller's", [&] { u.unsafe_set_dtype(u.get_block("arg"), 0, i32); });
}

TEST(AxisSeparators, GroupDimensions) {
  Program p = conv(2, 5, 4, 3, 3, 1, 1);
  Schedule s(p.function);
  BlockRV pad = s.get_block("pad");
  s.set_axis_separator(pad, 0, BufferIndexType::write, {2});
  ASSERT_EQ(s.get(pad)->writes[0]->buffer->axis_separators.size(), 1u);
  EXPECT_EQ(s.get(s.get_block("conv"))->reads[0]->buffer->axis_separators.size(), 1u);
  check(p, s);
  refused(s, "T0708", "into groups", [&] { s.set_axis_separator(pad, 0, BufferIndexType::write, {4}); });
  refused(s, "T0708", "into groups", [&] { s.set_axis_separator(pad, 0, BufferIndexType::write, {2, 2}); });
  refused(s, "T0775", "caller's", [&] { s.set_axis_separator(pad, 0, BufferIndexType::read, {1}); });
}

/// Three rows of a window are summed; the rows come from a block that is computed for each row anew.
Program windows(PrimExpr rows, int64_t step) {
  using namespace te;
  Tensor bias = placeholder({rows}, f32, "bias"), a = placeholder({rows * step + 2, PrimExpr(6)}, f32, "A");
  Tensor t = compute(a.shape(), [&](const Vars& v) { return a({v[0], v[1]}) * 2.0 + 1.0; }, "T");
  tir::IterVar y = reduce_axis(tir::range(PrimExpr(0), PrimExpr(3)), "y");
  Tensor o = compute(
      {rows, PrimExpr(6)}, [&](const Vars& v) { return te::sum(t({v[0] * step + y->var, v[1]}), {y}); }, "O");
  Tensor d = compute({rows, PrimExpr(6)}, [&](const Vars& v) { return o({v[0], v[1]}) + bias({v[0]}); }, "D");
  return {"windows", te::create_prim_func({bias, a, d}), {}};
}

TEST(RollingBuffer, ComputesWhatIsNew) {
  for (int64_t step : {1, 2}) {
    tir::VarRef n = tir::var("n");
    for (int64_t rows : {1, 2, 7}) {
      Program p = windows(n, step);
      p.sizes = {{"n", rows}};
      Schedule s(p.function);
      BlockRV t = s.get_block("T");
      s.compute_at(t, s.get_loops(s.get_block("O"))[0]);
      s.rolling_buffer(t, 0);
      EXPECT_EQ(tir::as_int(s.get(t)->writes[0]->buffer->shape[0]), 3);
      check(p, s);
      refused(s, "T0717", "another iteration", [&] { s.parallel(s.get_loops(t)[0]); });
    }
  }
  Program p = windows(6, 3);
  Schedule s(p.function);
  BlockRV t = s.get_block("T");
  refused(s, "T0706", "not computed inside", [&] { s.rolling_buffer(t, 0); });
  refused(s, "T0732", "result of the function", [&] { s.rolling_buffer(s.get_block("D"), 0); });
  s.compute_at(t, s.get_loops(s.get_block("O"))[0]);
  refused(s, "T0706", "do not overlap", [&] { s.rolling_buffer(t, 0); });
  Program q = windows(6, 1);
  Schedule u(q.function);
  t = u.get_block("T");
  u.compute_at(t, u.get_loops(u.get_block("O"))[0]);
  u.parallel(u.get_loops(u.get_block("O"))[0]);
  refused(u, "T0706", "run at once", [&] { u.rolling_buffer(t, 0); });
  Schedule w(q.function);
  t = w.get_block("T");
  w.compute_at(t, w.get_loops(w.get_block("O"))[1]);
  refused(w, "T0706", "do not overlap", [&] { w.rolling_buffer(t, 0); });
}

TEST(RollingBuffer, WindowsOfWhichPartsAreWritten) {
  Schedule s(column_max(7, 5).function);
  BlockRV m = s.get_block("S");
  std::vector<LoopRV> loops = s.get_loops(m);
  LoopRV tile = s.split(s.split(s.fuse(loops), {-1, 4})[0], {-1, 5})[0];
  BlockRV copy = s.read_at(tile, m, 0, "local");
  refused(s, "T0742", "restricts the block by a predicate", [&] { s.rolling_buffer(copy, 0); });
}

TEST(Queries, NameWhatTheyFound) {
  Program p = softmax(4, 6);
  Schedule s(p.function);
  BlockRV out = s.get_output_blocks()[0];
  BlockRV ex = s.get_producers(out)[0];
  BlockRV sm = s.get_consumers(ex)[0];
  EXPECT_TRUE(s.trace().steps.empty());
  s.annotate(sm, "note", Any(1));
  const std::string text = s.trace().to_script();
  EXPECT_NE(text.find("sch.get_output_blocks()"), std::string::npos) << text;
  EXPECT_NE(text.find("sch.get_producers("), std::string::npos) << text;
  EXPECT_EQ(text.find("sch.get_block("), std::string::npos) << text;
  BlockRV child = s.get_child_blocks(s.get_loops(ex)[0])[0];
  EXPECT_EQ(child, ex);
  LoopRV rows = s.get_loops(s.get_block("mx"))[0];
  s.annotate(s.get_child_blocks(rows)[0], "note", Any(2));
  EXPECT_NE(s.trace().to_script().find("sch.get_child_blocks("), std::string::npos) << s.trace().to_script();
  Schedule again = Schedule::replay(p.function, Trace::from_json(s.trace().to_json()));
  EXPECT_TRUE(structural_equal(again.function(), s.function()));
  EXPECT_EQ(again.trace().to_json(), s.trace().to_json());
  // What was found in a program that has changed since is named by the block itself.
  Schedule t(p.function);
  BlockRV first = t.get_producers(t.get_block("sm"))[0];
  t.annotate(t.get_block("out"), "note", Any(1));
  t.annotate(first, "note", Any(1));
  EXPECT_NE(t.trace().to_script().find("sch.get_block(\"ex\")"), std::string::npos) << t.trace().to_script();
  Schedule u(p.function);
  u.annotate(u.get_consumers(u.get_block("mx"))[0], "note", Any(3));
  EXPECT_NE(u.trace().to_script().find("sch.get_consumers("), std::string::npos) << u.trace().to_script();
}

TEST(Samples, FactorsFollowTheDecision) {
  Program p = matmul(16, 24, 8);
  Schedule s(p.function, 3);
  BlockRV c = s.get_block("C");
  Factors f = s.sample_perfect_tile(s.get_loops(c)[0], 2, 8);
  s.split(s.get_loops(c)[0], f);
  IntRV lanes = s.sample_categorical({2, 4, 8}, {0.2, 0.3, 0.5});
  s.split(s.get_loops(c)[2], {-1, lanes});
  const std::string script = s.trace().to_script();
  EXPECT_NE(script.find("factors=[v0, v1]"), std::string::npos) << script;
  EXPECT_NE(script.find("factors=[-1, v2]"), std::string::npos) << script;
  check(p, s);
  Trace t = Trace::from_json(s.trace().to_json());
  EXPECT_TRUE(structural_equal(Schedule::replay(p.function, t).function(), s.function()));
  // Another decision gives another program.
  for (TraceStep& step : t.steps) {
    if (step.primitive->name == "sample_perfect_tile") step["decision"] = Any(Array<Any>{Any(8), Any(2)});
    if (step.primitive->name == "sample_categorical") step["decision"] = Any(0);
  }
  Schedule other = Schedule::replay(p.function, t);
  BlockRV again = other.get_block("C");
  EXPECT_EQ(extent(other, other.get_loops(again)[0]), 8);
  EXPECT_EQ(extent(other, other.get_loops(again)[3]), 2);
  check(p, other);
  std::string broken = s.trace().to_json();
  broken.replace(broken.find("\"v1\"]}"), 4, "\"v9\"");
  EXPECT_THROW(Schedule::replay(p.function, Trace::from_json(broken)), ScheduleError);
}

}  // namespace
}  // namespace tenon::testing
