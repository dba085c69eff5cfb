// SPDX-License-Identifier: Apache-2.0
// The posts' own tensor expressions: what they print there, and what they compute.
#include "check.h"
#include "pipeline/pass_lists.h"
#include "pipeline/te_build.h"

namespace tenon::testing {
namespace {

using te::create_schedule;

NDArray filled(std::vector<int64_t> shape, double step) {
  NDArray a = NDArray::empty(shape, f32);
  for (int64_t i = 0; i < a.size(); ++i) a.set_element(i, double(i % 13) * step - 1.5);
  return a;
}

/// The passes for tensor programs up to one of them.
std::span<const Pass> passes_up_to(std::string_view name) {
  size_t count = 0;
  while (tensor_passes()[count++].name != name) continue;
  return tensor_passes().first(count);
}

// A + 1 + 1: the first one is inlined; one element needs no loop, eight keep theirs.
TEST(Classics, InlinedChainOfOneElement) {
  for (int64_t n : {1, 8}) {
    Tensor a = te::placeholder({n}, i32, "A");
    Tensor b = te::compute({n}, [&](const Vars& v) { return a({v[0]}) + 1; }, "compute_B");
    Tensor c = te::compute({n}, [&](const Vars& v) { return b({v[0]}) + 1; }, "compute_C");
    te::Schedule s = create_schedule(c->op);
    s[b].compute_inline();
    check_te(s, {a, c});
    PassContext context;
    const IRModule m = run_passes(te::lower(s, {a, c}), passes_up_to("vectorize_loop"), context);
    const std::string text = print(m);
    EXPECT_EQ(text.find("for ") == text.npos, n == 1) << text;
    EXPECT_NE(text.find(n == 1 ? "compute_C_1[0] = A_1[0] + T.int32(2)" : "A_1[i0] + T.int32(2)"), text.npos)
        << text;
  }
}

// where(x > 0, x, x · slope), the slope along axis 1.
TEST(Classics, PreluBySelect) {
  Tensor x = te::placeholder({2, 3, 5}, f32, "x"), slope = te::placeholder({3}, f32, "slope");
  Tensor y = te::compute(
      x.shape(),
      [&](const Vars& v) {
        const PrimExpr value = x({v[0], v[1], v[2]});
        return tir::select(tir::gt(value, PrimExpr(0.0)), value, value * slope({v[1]}));
      },
      "T_prelu", "broadcast");
  te::Schedule s = create_schedule(y->op);
  s[y].vectorize(y->op->axis[2]);
  check_te(s, {x, slope, y});
  NDArray a = filled({2, 3, 5}, 0.25), k = filled({3}, 0.5);
  NDArray r = te::build(s, {x, slope, y}).run({a, k})[0];
  for (int64_t i = 0; i < a.size(); ++i) {
    const double v = a.element(i);
    EXPECT_FLOAT_EQ(float(r.element(i)), float(v > 0 ? v : v * k.element(i / 5 % 3)));
  }
}

// Parts put together as nested conditions: each index is moved back by what lies before its part.
TEST(Classics, ConcatenationAsNestedConditions) {
  const std::vector<int64_t> widths{3, 1, 4};
  std::vector<Tensor> parts;
  for (size_t i = 0; i < widths.size(); ++i)
    parts.push_back(te::placeholder({2, widths[i]}, f32, "p" + std::to_string(i)));
  Tensor c = te::compute(
      {2, 8},
      [&](const Vars& v) {
        int64_t before = 4;
        PrimExpr value = parts[2]({v[0], v[1] - before});
        for (size_t i = 2; i-- > 0;) {
          before -= widths[i];
          value = tir::if_then_else(tir::lt(v[1], PrimExpr(before + widths[i])),
                                    parts[i]({v[0], v[1] - before}), value);
        }
        return value;
      },
      "T_concat", "injective");
  te::Schedule s = create_schedule(c->op);
  auto [o, i] = s[c].split(c->op->axis[1], 4);
  s[c].vectorize(i);
  const Args args{parts[0], parts[1], parts[2], c};
  check_te(s, args);
  std::vector<NDArray> in;
  for (size_t p = 0; p < 3; ++p) in.push_back(filled({2, widths[p]}, 0.5 + double(p)));
  NDArray r = te::build(s, args).run(in)[0];
  for (int64_t row = 0; row < 2; ++row)
    for (int64_t p = 0, at = 0; p < 3; ++p)
      for (int64_t k = 0; k < widths[size_t(p)]; ++k, ++at)
        EXPECT_EQ(r.element(row * 8 + at), in[size_t(p)].element(row * widths[size_t(p)] + k));
}

// The schedule of injective operators: the last axis split by 4, vectorised, all before it inlined.
TEST(Classics, InjectiveSchedule) {
  tir::VarRef n = tir::var("n");
  Tensor a = te::placeholder({n, 10}, f32, "A");
  Tensor b = te::compute({n, 10}, [&](const Vars& v) { return a({v[0], 9 - v[1]}) * 2.0; }, "flip");
  Tensor c =
      te::compute({n, 10}, [&](const Vars& v) { return tir::max(b({v[0], v[1]}), PrimExpr(0.0)); }, "relu");
  te::Schedule s = create_schedule(c->op);
  auto [io, ii] = s[c].split(s[c].axis()[1], 4);
  s[c].vectorize(ii);
  for (te::Stage stage : s.stages())
    if (stage.op()->kind == te::OperationKind::compute && !stage.op().same_as(c->op)) stage.compute_inline();
  for (int64_t size : {1, 6}) check_te(s, {a, c}, {{"n", size}});
  EXPECT_EQ(s.apply({a, c}).blocks().size(), 1u);
  NDArray x = filled({3, 10}, 0.5), r = te::build(s, {a, c}).run({x})[0];
  for (int64_t i = 0; i < 30; ++i)
    EXPECT_EQ(r.element(i), std::max(0.0, 2 * x.element(i / 10 * 10 + 9 - i % 10)));
}

// Dense on packed weights, then sigmoid: five stages, one parallel program with a row of sums in vectors.
TEST(Classics, DensePackSigmoid) {
  Tensor x = te::placeholder({5, 5}, f32, "placeholder"), w = te::placeholder({1, 5, 5}, f32, "placeholder");
  tir::IterVar k = te::reduce_axis(tir::range(PrimExpr(0), PrimExpr(5)), "k");
  Tensor d = te::compute(
      {5, 5},
      [&](const Vars& v) {
        return te::sum(x({v[0], k->var}) * w({tir::floordiv(v[1], 5), k->var, tir::floormod(v[1], 5)}), {k});
      },
      "compute", "dense_pack");
  Tensor o = te::compute(
      {5, 5},
      [&](const Vars& v) { return tir::div(PrimExpr(1.0), tir::exp(PrimExpr(0.0) - d({v[0], v[1]})) + 1.0); },
      "T_sigmoid");
  te::Schedule s = create_schedule(o->op);
  Tensor global = s.cache_write(d, "global");
  EXPECT_EQ(s.stages().size(), 5u);
  s[d].compute_inline();
  s[global].compute_at(s[o], o->op->axis[0]);
  s[global].reorder({s[global].reduce_axis()[0], s[global].axis()[0], s[global].axis()[1]});
  s[global].vectorize(s[global].axis()[1]);
  s[o].parallel(o->op->axis[0]);
  tenon::Schedule done = check_te(s, {x, w, o});
  EXPECT_EQ(done.get(done.get_loops(done.get_block("T_sigmoid"))[0])->kind, tir::ForKind::parallel);
  PassContext context;
  const std::string text =
      print(run_passes(te::lower(s, {x, w, o}), passes_up_to("vectorize_loop"), context));
  EXPECT_NE(text.find("T.parallel(5"), text.npos) << text;
  EXPECT_NE(text.find("T.Broadcast(T.float32(0), 5)"), text.npos) << text;
  NDArray a = filled({5, 5}, 0.125), b = filled({1, 5, 5}, 0.25), r = te::build(s, {x, w, o}).run({a, b})[0];
  for (int64_t i = 0; i < 5; ++i)
    for (int64_t j = 0; j < 5; ++j) {
      double sum = 0;
      for (int64_t q = 0; q < 5; ++q) sum += a.element(i * 5 + q) * b.element(q * 5 + j);
      EXPECT_NEAR(r.element(i * 5 + j), 1 / (1 + std::exp(-sum)), 1e-6);
    }
}

// Hints and halves of buffers, through machine code.
TEST(Build, PrefetchAndDoubleBuffer) {
  tir::VarRef n = tir::var("n");
  Matmul t = make_matmul(n, 16, 12);
  te::Schedule s = create_schedule(t.c->op);
  Tensor cc = s.cache_write(t.c, "local"), bb = s.cache_read(t.b, "local", {cc->op});
  auto [ko, ki] = s[cc].split(s[cc].reduce_axis()[0], 4);
  s[cc].reorder({ko, s[cc].axis()[0], ki, s[cc].axis()[1]});
  s[cc].vectorize(s[cc].axis()[1]).prefetch(t.a, s[cc].axis()[0], 1);
  s[bb].compute_at(s[cc], ko).double_buffer().vectorize(s[bb].axis()[1]);
  for (int64_t rows : {1, 7}) {
    check_te(s, t.args(), {{"n", rows}});
    NDArray a = filled({rows, 12}, 0.25), b = filled({12, 16}, 0.5),
            r = te::build(s, t.args()).run({a, b})[0];
    for (int64_t i = 0; i < rows; ++i)
      for (int64_t j = 0; j < 16; ++j) {
        double sum = 0;
        for (int64_t k = 0; k < 12; ++k) sum += a.element(i * 12 + k) * b.element(k * 16 + j);
        EXPECT_FLOAT_EQ(float(r.element(i * 16 + j)), float(sum));
      }
  }
}

// The kinds of steps that a search records, all of them on one schedule, and its trace replayed (check_te).
TEST(Classics, RecordedStepsReplay) {
  Matmul t = make_matmul(8, 12, 10);
  Tensor bias = te::placeholder({12}, f32, "bias");
  Tensor scaled = te::compute({8, 12}, [&](const Vars& v) { return t.c({v[0], v[1]}) * 0.5; }, "scaled");
  Tensor out =
      te::compute({8, 12}, [&](const Vars& v) { return scaled({v[0], v[1]}) + bias({v[1]}); }, "out");
  te::Schedule s = create_schedule(out->op);
  Tensor cc = s.cache_write(t.c, "local");                                        // CacheWrite
  Tensor aa = s.cache_read(t.a, "local", {cc->op});                               // CacheRead
  s[scaled].compute_inline();                                                     // ComputeInline
  auto [xo, yo, xi, yi] = s[out].tile(out->op->axis[0], out->op->axis[1], 4, 6);  // Split, Reorder
  auto [fx, fi] = s[t.c].split(s[t.c].axis()[0], 4);  // FollowSplit: the factors of `out`
  auto [gx, gi] = s[t.c].split(s[t.c].axis()[1], 6);
  s[t.c].reorder({fx, gx, fi, gi});
  tir::IterVar tile = s[out].fuse({xo, yo});       // Fuse
  s[t.c].fuse({fx, gx});                           // FollowFusedSplit
  s[t.c].compute_at(s[out], tile).compute_root();  // ComputeAt, ComputeRoot
  s[cc].compute_at(s[t.c], gi);
  s[aa].storage_align(s[aa].axis()[0], 16, 0);           // StorageAlign
  s[out].parallel(tile).vectorize(yi).unroll(xi);        // Annotation
  s[out].pragma(tile, "auto_unroll_max_step", Any(16));  // Pragma
  check_te(s, {t.a, t.b, bias, out});
  te::Schedule r = create_schedule(t.c->op);
  auto [ko, ki] = r[t.c].split(t.k, 5);
  r.rfactor(t.c, ki, 0);  // Rfactor
  check_te(r, t.args());
}

}  // namespace
}  // namespace tenon::testing
