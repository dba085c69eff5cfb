// SPDX-License-Identifier: Apache-2.0
// What is proved of indices that come from data, and of loops whose iterations may run in any order.
#include <gtest/gtest.h>

#include "analysis/inside.h"
#include "analysis/races.h"
#include "ir/text.h"
#include "ir/tir.h"

namespace tenon {
namespace {

using namespace tir;

struct Proofs : testing::Test {
  Analyzer analyzer;
  Inside inside{analyzer};
  Buffer ints = buffer("I", {PrimExpr(8)}, i64), shorts = buffer("S", {PrimExpr(8)}, DataType::int_(16));
  VarRef i = var("i"), n = var("n");
  PrimExpr x = load(ints, {PrimExpr(0)}), s = cast(i64, load(shorts, {PrimExpr(0)}));

  void SetUp() override { analyzer.assume_size(n, 1); }
  bool within(const PrimExpr& e, const PrimExpr& extent) {
    return inside.at_most(PrimExpr(0), e) && inside.at_most(e, extent - 1);
  }
};

TEST_F(Proofs, ClampsChoicesAndRemainders) {
  EXPECT_TRUE(within(tir::max(tir::min(x, n - 1), 0), n));
  EXPECT_TRUE(within(tir::min(tir::max(x, 0), n - 1), n));
  EXPECT_TRUE(within(floormod(x, n), n));
  EXPECT_TRUE(within(select(lt(x, PrimExpr(3)), PrimExpr(2), n - 1), n + 2));
  EXPECT_TRUE(within(tir::max(tir::min(x, n - 1), 0) * 4 + 3, n * 4));
  EXPECT_TRUE(within(floordiv(tir::max(tir::min(x, n * 4 - 1), 0), PrimExpr(4)), n));
  EXPECT_TRUE(within(tir::max(tir::min(x, 3), 0) + n, n + 4));
  EXPECT_TRUE(within(s + 40000, PrimExpr(80000)));
  EXPECT_FALSE(within(x, n));
  EXPECT_FALSE(within(tir::min(x, n - 1), n));
  EXPECT_FALSE(within(tir::max(x, 0), n));
  EXPECT_FALSE(within(tir::max(tir::min(x, n), 0), n));
  EXPECT_FALSE(within(s, PrimExpr(32768)));
}

TEST_F(Proofs, ClampedPositionsInRowsOfASize) {
  const VarRef m = var("m");
  analyzer.assume_size(m, 1);
  const PrimExpr y = load(ints, {PrimExpr(1)});
  auto clamp = [](const PrimExpr& e, const PrimExpr& extent) { return tir::max(tir::min(e, extent - 1), 0); };
  EXPECT_TRUE(within(clamp(y, n) * m + clamp(x + 1, m), n * m));
  EXPECT_TRUE(within(tir::min(tir::max(y, 0), n - 1) * m + clamp(x, m), n * m));
  EXPECT_FALSE(within(clamp(y, n) * m + clamp(x, m) + 1, n * m));
  EXPECT_FALSE(within(clamp(y, n + 1) * m + clamp(x, m), n * m));
  EXPECT_FALSE(within(tir::min(y, n - 1) * m + clamp(x, m), n * m));
  EXPECT_FALSE(within(tir::max(y, 0) * m + clamp(x, m), n * m));
}

TEST_F(Proofs, WhereAnExtentEqualsOtherSizesTheseBoundTheVariable) {
  const PrimExpr even = floordiv(n + 1, PrimExpr(2)),
                 odd = floordiv(n - tir::min(n, PrimExpr(1)) + 1, PrimExpr(2));
  inside.define(i, range(PrimExpr(0), even));
  const PrimExpr at = i * 2 + tir::min(n, PrimExpr(1));
  EXPECT_FALSE(inside.within(i, even));
  EXPECT_FALSE(within(at, n));
  {
    const Inside::Scope known = inside.assume(eq(even, odd), {});
    EXPECT_FALSE(inside.within(i, n));  // of no such size
    const PrimExpr more = inside.within(i, even);
    ASSERT_TRUE(more);
    const Inside::Scope in = inside.assume(more, {});
    EXPECT_TRUE(within(at, n));
    EXPECT_FALSE(within(at + 1, n));
  }
  EXPECT_FALSE(inside.within(i, even));
}

TEST_F(Proofs, SizesWithoutWhichALoopWouldNotRun) {
  const VarRef m = var("m"), k = var("k");
  analyzer.assume_size(m), analyzer.assume_size(k);
  const PrimExpr all = m * k;
  EXPECT_FALSE(analyzer.can_prove_ge(m, 1));
  const Inside::Scope in = inside.assume(inside.runs(all + floordiv(all + 1, PrimExpr(2))), {});
  EXPECT_TRUE(analyzer.can_prove_ge(m, 1));
  EXPECT_TRUE(analyzer.can_prove_ge(k, 1));
}

TEST_F(Proofs, FactorsThatRunALoopTogether) {
  // Of a buffer's dimension rows * columns only the product is known to be no less than 0.
  const VarRef k = var("k"), h = var("h"), w = var("w");
  const PrimExpr rows = floordiv(h + 7, PrimExpr(8)), columns = floordiv(w + 7, PrimExpr(8));
  analyzer.assume_size(k);
  const Inside::Scope known = inside.assume(ge(rows * columns, PrimExpr(0)), {});
  EXPECT_FALSE(analyzer.can_prove_ge(k, 1));
  inside.define(i, range(PrimExpr(0), k * columns * rows));
  const Inside::Scope in = inside.assume(inside.runs(k * columns * rows), {});
  EXPECT_TRUE(analyzer.can_prove_ge(k, 1));
  EXPECT_TRUE(within(floordiv(i, rows * columns), k));
  EXPECT_TRUE(within(floormod(i, rows * columns), rows * columns));
  EXPECT_FALSE(within(floordiv(i, rows), k));
}

TEST_F(Proofs, OfASumEitherPartMayRunALoop) {
  const VarRef m = var("m"), k = var("k");
  analyzer.assume_size(m), analyzer.assume_size(k);
  const Inside::Scope in = inside.assume(inside.runs(m + k), {});
  EXPECT_FALSE(analyzer.can_prove_ge(m, 1));
  EXPECT_FALSE(analyzer.can_prove_ge(k, 1));
}

TEST_F(Proofs, RowsThatAreShiftedAgainstEachOther) {
  // Rows of 2 n - 1 elements, each behind the other, in rows of n: positions of relative attention.
  const PrimExpr row = floormod(i, n), at = tir::max(tir::min(x, n * 2 - 2), 0);
  EXPECT_TRUE(within(floordiv(row * (n * 2 - 1) + at, n) + 1, n * 2));
  EXPECT_FALSE(within(floordiv(row * (n * 2 - 1) + at, n) + 2, n * 2));
  EXPECT_FALSE(within(floordiv(row * (n * 2 - 1) + at + n, n) + 1, n * 2));
  EXPECT_FALSE(within(floordiv(row * (n * 2 + 1) + at, n) + 1, n * 2));
  EXPECT_TRUE(within(row * (1 - n) + n * n - 2 * n + 1, n * n - 2 * n + 2));
  EXPECT_FALSE(within(row * (1 - n) + n * n - 2 * n, n * n - 2 * n + 1));
}

TEST_F(Proofs, SumsThatMayOverflowAreNotProved) {
  // Where x is the largest number, x + 5 is negative.
  EXPECT_FALSE(inside.at_most(PrimExpr(0), tir::min(tir::max(x, 0) + 5, 7)));
  EXPECT_FALSE(within(tir::min(tir::max(x, 0) + 5, n - 1), n));
  EXPECT_FALSE(inside.at_most(tir::max(tir::min(x, 3) - 5, 0), PrimExpr(3)));
  const Inside::Scope in = inside.assume(ge(x, PrimExpr(0)), {});
  EXPECT_FALSE(inside.at_most(PrimExpr(0), x + 1));
  EXPECT_TRUE(inside.at_most(PrimExpr(0), x));
}

TEST_F(Proofs, ConditionsHoldInTheirScope) {
  const PrimExpr guard = logical_and(ge(x, PrimExpr(0)), lt(x, n));
  {
    const Inside::Scope in = inside.assume(guard, {});
    EXPECT_TRUE(within(x, n));
    EXPECT_TRUE(within(x + 1, n + 1));
    EXPECT_FALSE(within(x, n - 1));
  }
  EXPECT_FALSE(within(x, n));
  {
    const Inside::Scope in = inside.assume(logical_not(logical_or(lt(x, PrimExpr(0)), ge(x, n))), {});
    EXPECT_TRUE(within(x, n));
  }
  // What is said of memory that changes is not used.
  const Inside::Scope in = inside.assume(guard, {ints->data.get()});
  EXPECT_FALSE(within(x, n));
}

TEST_F(Proofs, OfTwoAlternativesOneHolds) {
  const VarRef m = var("m"), k = var("k");
  analyzer.assume_size(m, 0);
  analyzer.assume_size(k, 0);
  // An axis of m elements is read where n * k elements are made.
  const Inside::Scope either =
      inside.assume(logical_or(ge(m, PrimExpr(1)), eq(PrimExpr(n) * k * 4, PrimExpr(0))), {});
  const PrimExpr last = tir::max(tir::min(i, PrimExpr(m) - 1), 0);
  EXPECT_FALSE(within(last, m));
  {
    const Inside::Scope made = inside.assume(ge(k, PrimExpr(1)), {});
    EXPECT_TRUE(within(last, m));
  }
  EXPECT_FALSE(within(last, m));
  // The first is false: the second holds, here and in scopes inside.
  const Inside::Scope none = inside.assume(lt(m, PrimExpr(1)), {});
  const Inside::Scope inner = inside.assume(ge(i, PrimExpr(0)), {});
  EXPECT_TRUE(inside.at_most(PrimExpr(n) * k * 4, PrimExpr(0)));
}

TEST_F(Proofs, ValuesOfVariables) {
  const VarRef v = var("v");
  inside.define(v, tir::max(tir::min(x, n - 1), 0));
  EXPECT_TRUE(inside.from_data(v));
  EXPECT_TRUE(within(v, n));
  const VarRef w = var("w");
  inside.define(w, x);
  EXPECT_FALSE(inside.at_most(PrimExpr(0), PrimExpr(w) * w));
}

/// Why the first parallel loop of a program is not independent; empty: it is.
std::string shared(const std::string& body) {
  const IRModule m = parse_module(
      "@T.prim_func\ndef f(A: T.Buffer((8,), \"float32\"), B: T.Buffer((8, 8), \"float32\"), "
      "I: T.Buffer((8,), \"int64\"), n: T.int64):\n" +
      body);
  const For* loop = nullptr;
  pre_order(m.find("f").cast<PrimFuncNode>()->body, [&](const ObjectRef& o) {
    if (const auto* l = o.as<For>(); l && l->kind == ForKind::parallel && !loop) loop = l;
    return !loop;
  });
  EXPECT_TRUE(loop);
  Analyzer analyzer;
  return shared_by_iterations(*loop, analyzer);
}

TEST(Races, IterationsThatAreApart) {
  EXPECT_EQ(shared("    for i in T.parallel(8):\n        A[i] = A[i] + T.float32(1)\n"), "");
  EXPECT_EQ(shared("    for i in T.parallel(8):\n        A[7 - i] = B[i, 0]\n"), "");
  EXPECT_EQ(
      shared(
          "    for i in T.parallel(4):\n        for j in range(2):\n            A[i * 2 + j] = A[i * 2]\n"),
      "");
  EXPECT_EQ(shared("    for f in T.parallel(64):\n        B[f // 8, f % 8] = A[f % 8]\n"), "");
  EXPECT_EQ(shared("    for f in T.parallel(16):\n        for a, b in T.grid(2, 2):\n"
                   "            B[f // 4 * 2 + a, f % 4 * 2 + b] = A[0]\n"),
            "");
  EXPECT_EQ(shared("    for i in T.parallel(8):\n        if i == 3:\n            A[0] = T.float32(0)\n"), "");
  EXPECT_EQ(
      shared("    for i in T.parallel(8):\n        S = T.allocate((4,), \"float32\")\n        S[0] = A[i]\n"
             "        B[i, 0] = S[0]\n"),
      "");
  EXPECT_EQ(shared("    for i in T.parallel(4):\n        with T.block(\"b\"):\n"
                   "            v = T.axis.spatial(8, i * 2)\n            A[v] = B[v, v]\n"),
            "");
  EXPECT_EQ(shared("    for i in T.parallel(n):\n        A[i] = T.float32(0)\n"), "");
}

TEST(Races, IterationsThatMayMeet) {
  EXPECT_NE(shared("    for i in T.parallel(7):\n        A[i + 1] = A[i]\n"), "");
  EXPECT_NE(shared("    for i in T.parallel(8):\n        A[i // 2] = T.float32(0)\n"), "");
  EXPECT_NE(shared("    for i in T.parallel(8):\n        A[i % 4] = T.float32(0)\n"), "");
  EXPECT_NE(shared("    for i in T.parallel(8):\n        A[I[i]] = T.float32(0)\n"), "");
  EXPECT_NE(shared("    for i in T.parallel(4):\n        for j in range(3):\n            A[i * 2 + j] = "
                   "T.float32(0)\n"),
            "");
  EXPECT_NE(shared("    for i in T.parallel(8):\n        A[i * n] = T.float32(0)\n"), "");
  EXPECT_NE(shared("    for f in T.parallel(64):\n        B[f // 8, f % 4] = A[f % 8]\n"), "");
  EXPECT_NE(shared("    for i in T.parallel(8):\n        if i == n:\n            A[0] = T.float32(0)\n"
                   "        A[i] = T.float32(0)\n"),
            "");
}

}  // namespace
}  // namespace tenon
