// SPDX-License-Identifier: Apache-2.0
// Folds across memory, all stages for a panel of columns, and long rows in pieces: which programs the rules
// take, the same values, and from the trace the same program.
#include "../schedule/programs.h"
#include "autoschedule/default.h"
#include "ir/text.h"
#include "test_targets.h"
#include "trace_steps.h"

namespace tenon::testing {
namespace {

/// exp(A - max) / sum along axis 1 of (n, k, m).
Program column_softmax(PrimExpr n, PrimExpr k, PrimExpr m) {
  Tensor a = te::placeholder({n, k, m}, f32, "A");
  auto axis = [&](const char* name) { return te::reduce_axis(tir::range(PrimExpr(0), k), name); };
  tir::IterVar i = axis("i"), j = axis("j");
  Tensor top =
      te::compute({n, m}, [&](const Vars& v) { return te::max(a({v[0], i->var, v[1]}), {i}); }, "top");
  Tensor e = te::compute(
      {n, k, m}, [&](const Vars& v) { return tir::exp(a({v[0], v[1], v[2]}) - top({v[0], v[2]})); }, "e");
  Tensor sum =
      te::compute({n, m}, [&](const Vars& v) { return te::sum(e({v[0], j->var, v[1]}), {j}); }, "sum");
  Tensor y = te::compute(
      {n, k, m}, [&](const Vars& v) { return tir::div(e({v[0], v[1], v[2]}), sum({v[0], v[2]})); }, "y");
  return {"column_softmax", te::create_prim_func({a, y}), {}};
}

TEST(ByColumns, TakesFoldsAcrossMemory) {
  const Target t = target_of({512, 32, 2});
  EXPECT_EQ(expect_same(column_softmax(2, 5, 64), t, "by_columns"), "applied");
  EXPECT_EQ(expect_same(column_softmax(1, 7, 48 * 4), t, "by_columns"), "applied");
  EXPECT_EQ(expect_same(column_max(9, 96), t, "by_columns"), "applied");
  EXPECT_EQ(expect_same(column_softmax(3, 5, 32), target_of({256, 16, 2}), "by_columns"), "applied");
}
TEST(ByColumns, LeavesWhatHasNoPanels) {
  const Target t = target_of({512, 32, 2});
  // No whole vectors, too few steps, one panel for two cores, sizes that only the run knows.
  EXPECT_EQ(expect_same(column_softmax(2, 5, 37), t, "by_columns"), "no_panel");
  EXPECT_EQ(expect_same(column_softmax(2, 3, 64), t, "by_columns"), "no_panel");
  EXPECT_EQ(expect_same(column_max(9, 32), t, "by_columns"), "no_panel");
  // Columns that do not stay in the cache from one stage to the next.
  EXPECT_EQ(expect_same(column_softmax(2, 40, 64), small_cache(512, 32, 4 << 10), "by_columns"), "no_panel");
  // Sums along memory and products are others' work.
  EXPECT_EQ(expect_same(row_sum(6, 40), t, "by_columns"), "no_columns");
  EXPECT_EQ(expect_same(matmul(32, 32, 8, false), t, "by_columns"), "no_columns");
}

TEST(Pieces, OfLongRowsWhereThereAreFewerThanCores) {
  Target t = target_of({512, 32, 4});
  t.edit()->fork_ns = 1;  // so that a short row is worth it
  auto row_max = [](int64_t rows, int64_t n) {
    Tensor a = te::placeholder({rows, n}, f32, "A");
    tir::IterVar k = te::reduce_axis(tir::range(PrimExpr(0), PrimExpr(n)), "k");
    Tensor s = te::compute({rows}, [&](const Vars& v) { return te::max(a({v[0], k->var}), {k}); }, "S");
    return Program{"row_max", te::create_prim_func({a, s}), {}};
  };
  const std::string step = "pieces of a row";
  EXPECT_EQ(expect_same(row_max(1, 4096), t, "row_by_row", step), "applied");
  EXPECT_EQ(expect_same(row_max(2, 4096), t, "row_by_row", step), "applied");
  EXPECT_EQ(expect_same(row_max(4, 4096), t, "row_by_row", step), "");  // a row for each core
  EXPECT_EQ(expect_same(row_max(1, 4099), t, "row_by_row", step), "");  // no pieces of one length
  EXPECT_EQ(expect_same(row_max(1, 4096), target_of({512, 32, 4}), "row_by_row", step), "");  // not worth it
}

// All of a tensor: a piece walks memory as one, in lanes, though its axes are taken apart by division.
TEST(Pieces, OfAllElements) {
  Target t = target_of({512, 32, 4});
  t.edit()->fork_ns = 1;
  const auto all_max = [](const Array<PrimExpr>& shape) {
    Tensor a = te::placeholder(shape, f32, "A");
    Array<tir::IterVar> axes;
    Array<PrimExpr> at;
    for (const PrimExpr& d : shape) {
      axes.push_back(te::reduce_axis(tir::range(PrimExpr(0), d), "k" + std::to_string(axes.size())));
      at.push_back(axes.back()->var);
    }
    Tensor s = te::compute({}, [&](const Vars&) { return te::max(a(at), axes); }, "S");
    return Program{"all_max", te::create_prim_func({a, s}), {}};
  };
  for (const Array<PrimExpr>& shape :
       {Array<PrimExpr>{64, 64}, Array<PrimExpr>{8, 4, 128}, Array<PrimExpr>{12, 64, 20}}) {
    const Program p = all_max(shape);
    EXPECT_EQ(expect_same(p, t, "row_by_row", "pieces of a row"), "applied");
    const std::string steps = steps_of(default_schedule(p.function, t));
    EXPECT_NE(steps.find("vectorize"), std::string::npos) << steps;
  }
}

}  // namespace
}  // namespace tenon::testing
