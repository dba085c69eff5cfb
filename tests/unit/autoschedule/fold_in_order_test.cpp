// SPDX-License-Identifier: Apache-2.0
// Folds that walk their operand in the order of memory: which programs the rule takes, the same values, and
// from the trace the same program; stages made beside the rows that fold them.
#include "../schedule/programs.h"
#include "autoschedule/default.h"
#include "ir/text.h"
#include "test_targets.h"
#include "trace_steps.h"

namespace tenon::testing {
namespace {

tir::IterVar axis(const PrimExpr& n, const char* name) {
  return te::reduce_axis(tir::range(PrimExpr(0), n), name);
}
/// The largest along axis 1 of (n, k, m).
Program fold_middle(int64_t n, int64_t k, int64_t m) {
  Tensor a = te::placeholder({n, k, m}, f32, "A");
  const tir::IterVar i = axis(k, "i");
  Tensor y = te::compute({n, m}, [&](const Vars& v) { return te::max(a({v[0], i->var, v[1]}), {i}); }, "y");
  return {"fold_middle", te::create_prim_func({a, y}), {}};
}
/// The mean over the two first axes of (k, l, m).
Program mean_outer(int64_t k, int64_t l, int64_t m) {
  Tensor a = te::placeholder({k, l, m}, f32, "A");
  const tir::IterVar i = axis(k, "i"), j = axis(l, "j");
  Tensor sum =
      te::compute({m}, [&](const Vars& v) { return te::sum(a({i->var, j->var, v[0]}), {i, j}); }, "sum");
  Tensor y =
      te::compute({m}, [&](const Vars& v) { return tir::div(sum({v[0]}), PrimExpr(float(k * l))); }, "y");
  return {"mean_outer", te::create_prim_func({a, y}), {}};
}
/// Sums of pieces of exp(A) of one row, as long sums are written, and A over their sum.
Program long_row(int64_t pieces, int64_t piece) {
  Tensor a = te::placeholder({PrimExpr(1), PrimExpr(pieces * piece)}, f32, "A");
  const tir::IterVar i = axis(piece, "i"), j = axis(pieces, "j");
  Tensor e = te::compute(a.shape(), [&](const Vars& v) { return tir::exp(a({v[0], v[1]})); }, "e");
  Tensor part = te::compute(
      {PrimExpr(1), PrimExpr(pieces)},
      [&](const Vars& v) { return te::sum(e({v[0], v[1] * PrimExpr(piece) + i->var}), {i}); }, "part");
  Tensor sum =
      te::compute({PrimExpr(1)}, [&](const Vars& v) { return te::sum(part({v[0], j->var}), {j}); }, "sum");
  Tensor y =
      te::compute(a.shape(), [&](const Vars& v) { return tir::div(e({v[0], v[1]}), sum({v[0]})); }, "y");
  return {"long_row", te::create_prim_func({a, y}), {}};
}

/// exp(A) over its sum along rows.
Program rows_over_sums(int64_t rows, int64_t n) {
  Tensor a = te::placeholder({PrimExpr(rows), PrimExpr(n)}, f32, "A");
  const tir::IterVar i = axis(n, "i");
  Tensor e = te::compute(a.shape(), [&](const Vars& v) { return tir::exp(a({v[0], v[1]})); }, "e");
  Tensor sum =
      te::compute({PrimExpr(rows)}, [&](const Vars& v) { return te::sum(e({v[0], i->var}), {i}); }, "sum");
  Tensor y =
      te::compute(a.shape(), [&](const Vars& v) { return tir::div(e({v[0], v[1]}), sum({v[0]})); }, "y");
  return {"rows_over_sums", te::create_prim_func({a, y}), {}};
}

TEST(FoldInOrder, WholeRowsOfWhatComesFromMemory) {
  const Target t = small_cache(512, 32, 16 << 10);
  EXPECT_EQ(expect_same(fold_middle(1, 80, 64), t, "fold_in_order"), "applied");
  EXPECT_EQ(expect_same(fold_middle(3, 40, 192), t, "fold_in_order"), "applied");
  EXPECT_EQ(expect_same(fold_middle(2, 80, 70), t, "fold_in_order"), "applied");  // a row with a ragged end
  EXPECT_EQ(expect_same(mean_outer(9, 11, 64), t, "fold_in_order"), "applied");
}
TEST(FoldInOrder, NarrowRowsSideBySide) {
  const Target t = target_of({512, 32, 2});
  EXPECT_EQ(expect_same(fold_middle(1, 512, 3), t, "fold_in_order"), "applied");
  EXPECT_EQ(expect_same(fold_middle(2, 601, 5), t, "fold_in_order"), "applied");  // steps left over
  EXPECT_EQ(expect_same(mean_outer(32, 64, 16), t, "fold_in_order"), "applied");  // too few chains
  // Of several axes only rows that fill vectors, and none that reach over the end of the innermost one.
  EXPECT_EQ(expect_same(mean_outer(40, 28, 8), t, "fold_in_order"), "stays_near");
  EXPECT_EQ(expect_same(mean_outer(40, 29, 16), t, "fold_in_order"), "stays_near");
}
TEST(FoldInOrder, PiecesForTheCores) {
  Target t = small_cache(512, 32, 16 << 10);
  t.edit()->cores = 4;
  t.edit()->fork_ns = 1;  // so that a short fold is worth it
  EXPECT_EQ(expect_same(fold_middle(1, 512, 64), t, "fold_in_order"), "applied");
  EXPECT_EQ(expect_same(fold_middle(1, 513, 3), t, "fold_in_order"), "applied");
}
TEST(FoldInOrder, LeavesWhatStaysNear) {
  const Target t = target_of({512, 32, 2});
  EXPECT_EQ(expect_same(fold_middle(1, 80, 64), t, "fold_in_order"), "stays_near");
  EXPECT_EQ(expect_same(fold_middle(1, 100, 3), t, "fold_in_order"), "stays_near");  // too few steps
  EXPECT_EQ(expect_same(fold_middle(2, 8, 64), small_cache(512, 32, 1 << 10), "fold_in_order"), "stays_near");
  EXPECT_EQ(expect_same(row_sum(6, 40), t, "fold_in_order"), "no_columns");
  EXPECT_EQ(expect_same(matmul(32, 32, 8, false), t, "fold_in_order"), "no_columns");
}

TEST(Pieces, OfAStageBesideTheRowsThatFoldThem) {
  const Target t = target_of({512, 32, 2});
  EXPECT_EQ(expect_same(long_row(8, 64), t, "row_by_row", "a stage beside the rows"), "applied");
  // Pieces that fill no vectors are read beyond their end, into what the next one makes.
  EXPECT_EQ(expect_same(long_row(8, 60), t, "row_by_row", "a stage beside the rows"), "refused");
}

/// The variance of rows, from sums and squares of `pieces` of them.
Program variance_by_pieces(int64_t rows, int64_t pieces, int64_t piece) {
  Tensor a = te::placeholder({PrimExpr(rows), PrimExpr(pieces * piece)}, f32, "A");
  const tir::IterVar i = axis(piece, "i"), k = axis(piece, "k"), j = axis(pieces, "j"), l = axis(pieces, "l");
  const Array<PrimExpr> parts{PrimExpr(rows), PrimExpr(pieces)};
  const auto element = [&](const Vars& v, const tir::IterVar& at) {
    return a({v[0], v[1] * PrimExpr(piece) + at->var});
  };
  Tensor part = te::compute(parts, [&](const Vars& v) { return te::sum(element(v, i), {i}); }, "part");
  Tensor apart = te::compute(
      parts,
      [&](const Vars& v) {
        const PrimExpr d = element(v, k) - tir::div(part({v[0], v[1]}), PrimExpr(float(piece)));
        return te::sum(d * d, {k});
      },
      "apart");
  Tensor sum =
      te::compute({PrimExpr(rows)}, [&](const Vars& v) { return te::sum(part({v[0], j->var}), {j}); }, "sum");
  Tensor y = te::compute(
      {PrimExpr(rows)},
      [&](const Vars& v) {
        const PrimExpr mean = tir::div(sum({v[0]}), PrimExpr(float(pieces)));
        const PrimExpr d = tir::div(part({v[0], l->var}) - mean, PrimExpr(float(piece)));
        return te::sum(apart({v[0], l->var}) + d * d * PrimExpr(float(piece)), {l});
      },
      "y");
  return {"variance_by_pieces", te::create_prim_func({a, y}), {}};
}
TEST(Pieces, OfRowsAreFoldedTwiceWhileTheyAreNear) {
  const Target t = target_of({512, 32, 2});
  EXPECT_EQ(expect_same(variance_by_pieces(3, 4, 64), t, "row_by_row", "a fold beside the rows"), "applied");
  EXPECT_EQ(expect_same(variance_by_pieces(2, 3, 5), t, "row_by_row", "a fold beside the rows"), "applied");
}

TEST(Sums, OfLongRowsBesideWhatTheyAddUp) {
  const Target t = target_of({512, 32, 2});
  const char* step = "a sum beside what it adds up";
  EXPECT_EQ(expect_same(rows_over_sums(3, 512), t, "row_by_row", step), "applied");
  EXPECT_EQ(expect_same(rows_over_sums(3, 520), t, "row_by_row", step), "lost_loop");  // a step in part
  EXPECT_EQ(expect_same(rows_over_sums(3, 128), t, "row_by_row", step), "lost_loop");  // one vector of sums
}

}  // namespace
}  // namespace tenon::testing
