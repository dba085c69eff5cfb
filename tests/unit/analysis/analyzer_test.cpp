// SPDX-License-Identifier: Apache-2.0
// The simplifier's single rules, proofs, regions and affine forms.
#include <gtest/gtest.h>

#include <limits>
#include <random>

#include "analysis/region.h"
#include "interpret/interpret.h"
#include "ir/intrinsic.h"
#include "ir/structural.h"
#include "ir/text.h"
#include "te/te.h"

namespace tenon {
namespace {

using namespace tir;

PrimExpr n(int64_t v) { return PrimExpr::int_imm(v, i64); }

struct AnalyzerTest : testing::Test {
  Analyzer a;
  VarRef i = var("i"), j = var("j"), k = var("k"), size = var("n");
  void SetUp() override {
    a.assume_size(size, 0);
    a.bind(i, range(n(0), n(64)));
    a.bind(j, range(n(0), n(4)));
    a.bind(k, range(n(0), size));
  }
  std::string text(const PrimExpr& e) { return print(a.simplify(e)); }
};

TEST_F(AnalyzerTest, SplitIteratorsComeTogether) {
  EXPECT_EQ(text(floordiv(i, 4) * 4 + floormod(i, 4)), "i");
  EXPECT_EQ(text(floordiv(i, 16) * 16 + floormod(floordiv(i, 4), 4) * 4 + floormod(i, 4)), "i");
  EXPECT_EQ(text(floordiv(i * 4 + j, 4)), "i");
  EXPECT_EQ(text(floormod(i * 4 + j, 4)), "j");
  EXPECT_EQ(text(floordiv(i * 8 + j, 4)), "i * 2");
  EXPECT_EQ(text(floordiv(floordiv(i, 3), 5)), "i // 15");
  EXPECT_EQ(text(floormod(floormod(i, 12), 4)), "i % 4");
  EXPECT_EQ(text(floordiv(floormod(i, 12), 4) * 4 + floormod(i, 4)), "i % 12");
  EXPECT_EQ(text((i + 1) * size - size * i), "n");
  // A remainder says less of its operand than the quotient beside it.
  const PrimExpr z = floormod(i, 7) * 4 + j;
  EXPECT_EQ(text(floordiv(z, 14) * 14 + floormod(z, 14)), text(z));
  EXPECT_EQ(text(floordiv(z, 14) * 14 + floormod(i * 4 + j, 14)), text(z));
}

TEST_F(AnalyzerTest, NothingLiesBeyondTheLastValueOfAType) {
  const int64_t least = std::numeric_limits<int64_t>::min(), most = std::numeric_limits<int64_t>::max();
  EXPECT_EQ(text(max(size * -1, least)), "n * -1");
  EXPECT_EQ(text(min(size, most)), "n");
  EXPECT_EQ(text(size + max(size * -1, least)), "0");
  // Its distance to a size wraps: this was 0 for every size, and is 1 below 10.
  const PrimExpr count = max(floordiv(size + max(size * -1, least) - max(size - 9, -1) + 1, 2), 0);
  EXPECT_FALSE(a.can_prove(le(count, n(0))));
  const VarRef u = var("u", DataType::uint(8));
  EXPECT_EQ(text(min(u, PrimExpr::int_imm(255, u->dtype))), "u");
  EXPECT_EQ(text(max(u, PrimExpr::int_imm(0, u->dtype))), "u");
}

TEST_F(AnalyzerTest, StepsAcrossRowsComeTogether) {
  // Vectors of 4 walk rows of 6 and planes of 30: the multiples of 6 in 4 i leave each digit by itself.
  const PrimExpr walk = i * 4 + j, row = a.simplify(floormod(floordiv(walk, 6), 5)),
                 column = a.simplify(floormod(walk, 6));
  EXPECT_EQ(text(floordiv(walk, 30) * 30 + row * 6 + column), "i * 4 + j");
  EXPECT_EQ(text(row * 6 + column), "(i * 4 + j) % 30");
  EXPECT_EQ(text((row * 6 + column) * 8 + k), "k + (i * 4 + j) % 30 * 8");
  const PrimExpr wide = i * 16 + j;
  EXPECT_EQ(text(floordiv(wide, 77) * 77 + floormod(floordiv(wide, 11), 7) * 11 + floormod(wide, 11)),
            "i * 16 + j");
  // Other steps, another radix, the digits of another number.
  EXPECT_NE(text(row * 5 + column), "(i * 4 + j) % 30");
  EXPECT_EQ(text(row * 6 + floormod(walk + 1, 6)).find("% 30"), std::string::npos);
  std::mt19937_64 random(7);
  const auto draw = [&](int64_t low, int64_t high) {
    return low + int64_t(random() % uint64_t(high - low + 1));
  };
  const VarRef p = var("p"), q = var("q");
  int joined = 0;
  for (int round = 0; round < 4000; ++round) {
    const int64_t c = draw(2, 12), b = draw(2, 9), factor = draw(-3, 3);
    const PrimExpr y = p * n(draw(-40, 40)) + q * n(draw(-3, 3)) + n(draw(-20, 20)),
                   other = round % 4 ? y : y + n(draw(0, 2)) * n(c);
    const PrimExpr high = floormod(simplify(floordiv(other, c)) + (round % 3 ? n(0) : q * n(draw(-2, 2))), b);
    const PrimExpr e = high * n(c * factor) + floormod(y, c) * n(round % 5 ? factor : 1);
    const PrimExpr r = simplify(e);
    const std::string radix = "% " + std::to_string(b * c);
    joined += print(r).find(radix) != std::string::npos;
    for (int k = 0; k < 4; ++k) {
      const VarMap at{{p.get(), n(draw(-60, 60))}, {q.get(), n(draw(-60, 60))}};
      ASSERT_EQ(as_int(simplify(substitute(e, at))), as_int(simplify(substitute(r, at)))) << print(e) << "\n"
                                                                                          << print(r);
    }
  }
  EXPECT_GT(joined, 1500);
}

TEST_F(AnalyzerTest, SizesRoundedUpToAMultiple) {
  const auto padded = [](const PrimExpr& x, int64_t by) { return x + floormod(x * n(-1), n(by)); };
  EXPECT_EQ(text(padded(size, 4)), "(n + 3) // 4 * 4");
  EXPECT_EQ(text(size + floormod(n(4) - floormod(size, n(4)), n(4))), "(n + 3) // 4 * 4");
  EXPECT_EQ(text(floormod(padded(size, 8), 4)), "0");
  EXPECT_EQ(text(floordiv(padded(floordiv(size, 4), 4), 4)), "(n + 12) // 16");
  EXPECT_EQ(text(padded(size, 4) * 24 + 5), "(n + 3) // 4 * 96 + 5");
  // Of a sum, beside others, and where no whole number is rounded.
  EXPECT_EQ(text(padded(size * i + j + 1, 4) + k), "k + (n * i + j) // 4 * 4 + 4");
  EXPECT_EQ(text(size * 2 + floormod(size * n(-1), n(4))), text(size + padded(size, 4)));
  EXPECT_EQ(text(j + floormod(size * n(-1), n(4))), "j + n * -1 % 4");
  EXPECT_TRUE(a.can_prove_equal(floordiv(padded(size, 4), 4) * 4, padded(size, 4)));
  std::mt19937_64 random(5);
  const auto draw = [&](int64_t low, int64_t high) {
    return low + int64_t(random() % uint64_t(high - low + 1));
  };
  const VarRef p = var("p"), q = var("q");
  for (int round = 0; round < 2000; ++round) {
    const PrimExpr x = p * n(draw(-5, 5)) + q * n(draw(-5, 5)) + n(draw(-20, 20));
    const int64_t factor = draw(-6, 6), by = draw(1, 9);
    const PrimExpr e = x * n(factor) + floormod(x * n(-1), n(by)) * n(round % 3 == 0 ? draw(-6, 6) : factor) +
                       q * n(draw(-2, 2));
    const VarMap at{{p.get(), n(draw(-40, 40))}, {q.get(), n(draw(-40, 40))}};
    EXPECT_EQ(as_int(simplify(substitute(e, at))), as_int(simplify(substitute(simplify(e), at))))
        << print(e) << "\n"
        << print(simplify(e));
  }
}

TEST_F(AnalyzerTest, NegativeValuesRoundDown) {
  VarRef m = var("m");
  a.bind(m, range(n(-8), n(8)));
  EXPECT_EQ(text(floordiv(m * 4 + j, 4)), "m");
  EXPECT_EQ(text(floordiv(m, 8)), "-1");
  EXPECT_EQ(text(floormod(m, 8)), "m + 8");
}

TEST_F(AnalyzerTest, SymbolicSizes) {
  EXPECT_TRUE(a.can_prove(lt(k, size)));
  EXPECT_TRUE(a.can_prove(lt(i * size + k, size * 64)));
  EXPECT_TRUE(a.can_prove(ge(floordiv(size + 3, 4) * 4, size)));
  EXPECT_TRUE(a.can_prove(lt(floordiv(size + 3, 4) * 4, size + 4)));
  EXPECT_FALSE(a.can_prove(lt(floordiv(size + 3, 4) * 4, size + 3)));
  EXPECT_FALSE(a.can_prove(gt(size, 0)));
  a.assume_size(size, 1);
  EXPECT_EQ(text(floordiv(i * size + k, size)), "i");
  EXPECT_EQ(text(floormod(i * size + k, size)), "k");
  EXPECT_TRUE(a.can_prove(le(tir::min(i * 4 + 4, size) - i * 4, 4)));
}

TEST_F(AnalyzerTest, DigitsOfSymbolicSizes) {
  const VarRef m = var("m"), fused = var("fused");
  a.assume_size(m, 0);
  a.bind(fused, range(n(0), m * size));
  EXPECT_FALSE(a.can_prove(lt(floormod(fused, size), size)));  // the size may be 0
  {
    const Analyzer::Scope runs = a.assume(ge(m * size, n(1)));
    EXPECT_TRUE(a.can_prove_ge(m, 1));
    EXPECT_TRUE(a.can_prove(lt(floormod(fused, size), size)));
    EXPECT_TRUE(a.can_prove(ge(floormod(fused, size), 0)));
    EXPECT_TRUE(a.can_prove(lt(floordiv(fused, size), m)));
    EXPECT_TRUE(a.can_prove(ge(floordiv(fused, size), 0)));
    EXPECT_FALSE(a.can_prove(lt(floordiv(fused, size), m - 1)));
    EXPECT_FALSE(a.can_prove(lt(floormod(fused, size), size - 1)));
  }
  a.bind(fused, range(n(0), m * 32));
  EXPECT_TRUE(a.can_prove(lt(floordiv(fused, 32), m)));
  // Of a positive product, every factor is positive, sums included.
  a.bind(fused, range(n(0), m * size + m * m));
  const Analyzer::Scope runs = a.assume(ge(m * size + m * m, n(1)));
  EXPECT_TRUE(a.can_prove(lt(floordiv(fused, size + m), m)));
  EXPECT_TRUE(a.can_prove(lt(floormod(fused, size + m), size + m)));
  EXPECT_FALSE(a.can_prove_ge(size, 1));
}

TEST_F(AnalyzerTest, QuotientsSideBySide) {
  const PrimExpr edge = floordiv(size + 15, 16) - floordiv(size, 16);
  EXPECT_TRUE(a.can_prove_lt(edge, 2));
  EXPECT_TRUE(a.can_prove_ge(edge, 0));
  EXPECT_FALSE(a.can_prove_lt(edge, 1));
  EXPECT_TRUE(a.can_prove_lt(floordiv(size + 16, 16) - floordiv(size, 16), 2));
  EXPECT_FALSE(a.can_prove_lt(floordiv(size + 17, 16) - floordiv(size, 16), 2));
  EXPECT_TRUE(a.can_prove_ge(floordiv(size, 16) - floordiv(size - 17, 16), 1));
}

/// Σ (x + y) // c - x // (c + 2) over `terms` pairs of sizes: no bound follows from the parts alone.
PrimExpr quotients(Analyzer& a, int terms) {
  PrimExpr sum = n(-7);
  for (int t = 0; t < terms; ++t) {
    const VarRef x = var("x"), y = var("y");
    a.assume_size(x, 1);
    a.assume_size(y, 1);
    sum = sum + floordiv(x + y, n(3 + t)) - floordiv(x, n(5 + t));
  }
  return sum;
}

TEST_F(AnalyzerTest, ProofsHaveABudget) {
  GivenUpProofs given_up;
  Analyzer b(given_up, "the test");
  EXPECT_FALSE(b.can_prove_ge(quotients(b, 2), 0));
  EXPECT_TRUE(given_up.empty());
  EXPECT_FALSE(b.can_prove_ge(quotients(b, 30), 0));  // looks at some 30^6 sums without a budget
  EXPECT_EQ(given_up, GivenUpProofs{"the test"});
  b.bind(i, range(0, 8));
  EXPECT_TRUE(b.can_prove_ge(i + 3, 0));  // the next proof has a budget of its own
  EXPECT_EQ(given_up.size(), 1u);
}

TEST_F(AnalyzerTest, WhatAPointRefutesIsNotSought) {
  GivenUpProofs given_up;
  Analyzer b(given_up, "the test");
  const PrimExpr sum = quotients(b, 30);
  EXPECT_FALSE(b.can_prove_ge(sum, 1000000));
  EXPECT_FALSE(b.can_prove_equal(sum, sum * 2));
  EXPECT_TRUE(given_up.empty());
}

TEST_F(AnalyzerTest, APointThatFactsForbidRefutesNothing) {
  const VarRef x = var("x"), y = var("y"), z = var("z"), w = var("w");
  a.bind(x, range(n(500), size));
  EXPECT_TRUE(a.can_prove_ge(x * 2, 1000));
  {
    const Analyzer::Scope s = a.assume(tir::gt(y * z, n(100000)));
    EXPECT_TRUE(a.can_prove_ge(y * z, 100001));
    EXPECT_TRUE(a.can_prove(tir::gt(y * z, n(70000))));
  }
  EXPECT_FALSE(a.can_prove_ge(y * z, 100001));
  {
    const Analyzer::Scope s = a.assume(eq(floormod(w, n(7)), n(3)));
    EXPECT_TRUE(a.can_prove_equal(floormod(w + 4, n(7)), n(0)));
  }
  {
    const Analyzer::Scope s = a.assume(lt(tir::max(y, z), floordiv(w, n(3))));
    EXPECT_TRUE(a.can_prove_ge(floordiv(w, n(3)) - tir::max(y, z), 1));
  }
}

// Every second output of a transposed convolution reads the sums of one phase.
TEST_F(AnalyzerTest, NumbersThatAreOddOrEvenMoveBoundsToThem) {
  const VarRef x = var("x"), half = var("half"), y = var("y");
  a.assume_size(half, 0);
  a.bind(x, range(n(0), half * 2));
  const PrimExpr parity = floormod(x + 1, n(2)), quotient = floordiv(x + 1, n(2));
  EXPECT_FALSE(a.can_prove_ge(x, 1));
  for (const PrimExpr& odd : {eq(parity, n(0)), tir::ne(parity, n(1))}) {
    const Analyzer::Scope s = a.assume(odd);
    EXPECT_TRUE(a.can_prove_ge(quotient - 1, 0));
    EXPECT_TRUE(a.can_prove(lt(quotient - 1, half)));
    EXPECT_FALSE(a.can_prove_ge(x, 2));
    EXPECT_FALSE(a.can_prove(lt(quotient, half)));
  }
  for (const PrimExpr& even : {eq(parity, n(1)), tir::ne(parity, n(0))}) {
    const Analyzer::Scope s = a.assume(even);
    EXPECT_TRUE(a.can_prove(lt(x + 1, half * 2)));
    EXPECT_FALSE(a.can_prove_ge(x, 1));
  }
  a.bind(y, range(n(0), n(11)));
  const Analyzer::Scope s = a.assume(eq(floormod(y + 2, n(4)), n(1)));
  EXPECT_TRUE(a.can_prove_ge(y, 3));
  EXPECT_TRUE(a.can_prove_lt(y, 8));
  EXPECT_FALSE(a.can_prove_lt(y, 7));
}

TEST_F(AnalyzerTest, SharedPartsAreLookedAtOnce) {
  PrimExpr smallest = size, sum = size;
  for (int level = 0; level < 60; ++level) {  // 2^60 paths lead to the size
    smallest = make<Min>(smallest, make<FloorDiv>(smallest, n(3)));
    sum = make<Add>(sum, make<FloorDiv>(sum, n(3)));
  }
  EXPECT_TRUE(a.can_prove_ge(smallest, 0));
  EXPECT_TRUE(a.can_prove_ge(sum, 0));
}

TEST_F(AnalyzerTest, EqualWhereverTheyMayBeAsked) {
  const VarRef m = var("m"), l = var("l");
  EXPECT_TRUE(a.can_prove_equal(tir::max(size, n(0)) * 2, size + size));
  EXPECT_FALSE(a.can_prove_equal(size, m));
  EXPECT_FALSE(a.can_prove_equal(floordiv(size + 7, 8), floordiv(size + 6, 8)));
  // A point where they differ says nothing where the variables are related.
  a.bind(l, size * 2);
  EXPECT_TRUE(a.can_prove_equal(l, size * 2));
  a.bind(m, range(n(3), n(1)));
  EXPECT_TRUE(a.can_prove_equal(m * size, size * 3));
  EXPECT_TRUE(a.can_prove_equal(tir::min(k, size), k));
  const VarRef p = var("p"), q = var("q");
  {
    const Analyzer::Scope s = a.assume(eq(p, q));
    EXPECT_TRUE(a.can_prove_equal(p * 4, q * 4));
  }
  EXPECT_FALSE(a.can_prove_equal(p * 4, q * 4));
  const VarRef r = var("r");
  a.assume_size(r, 1000);
  EXPECT_TRUE(a.can_prove_equal(tir::max(r, n(999)), r));
}

TEST_F(AnalyzerTest, Conditions) {
  EXPECT_EQ(text(lt(i * 4 + j, 256)), "True");
  EXPECT_EQ(text(lt(i * 4 + j, size * 4)), "i < n");
  EXPECT_EQ(text(ge(i, 0)), "True");
  EXPECT_EQ(text(eq(i * 2, 5)), "False");
  EXPECT_FALSE(a.can_prove(lt(i, 8)));
  {
    Analyzer::Scope s = a.assume(lt(i * 4 + j, n(13)));
    EXPECT_TRUE(a.can_prove(lt(i, 4)));
  }
  EXPECT_FALSE(a.can_prove(lt(i, 4)));
  {
    Analyzer::Scope s = a.assume(eq(floormod(size, 8), n(0)));
    EXPECT_EQ(text(floormod(size + 3, 4)), "3");
    EXPECT_EQ(text(floordiv(size, 8) * 8), "n // 8 * 8");
  }
}

TEST_F(AnalyzerTest, MultiplesOfASymbolicQuotientAreBounded) {
  // Rows of every second point of an image, read with one row around.
  const VarRef height = var("height"), width = var("width"), run = var("run");
  a.assume_size(height, 1), a.assume_size(width, 1);
  const PrimExpr h = floordiv(height + 1, 2), w = floordiv(width + 1, 2);
  a.bind(run, range(PrimExpr(0), h * w));
  const PrimExpr row = floordiv(run, w) * 2;
  EXPECT_TRUE(a.can_prove(lt(row + 2, height + 2)));
  EXPECT_FALSE(a.can_prove(lt(row + 2, height + 1)));
  EXPECT_TRUE(a.can_prove(ge(row + 2, n(2))));
}

TEST_F(AnalyzerTest, TilesOfALoopThatRunsBeginInside) {
  const VarRef rows = var("rows"), tile = var("tile");
  a.assume_size(rows, 0);
  const PrimExpr tiles = floordiv(rows + 15, 16);
  a.bind(tile, range(PrimExpr(0), tiles * 18), true);
  const PrimExpr begin = floormod(floordiv(tile, 3), tiles) * 16;
  EXPECT_FALSE(a.can_prove(le(begin, rows)));
  const Analyzer::Scope runs = a.assume(ge(tiles * 18, PrimExpr(1)));
  EXPECT_TRUE(a.can_prove(ge(tiles, n(1))));
  EXPECT_TRUE(a.can_prove(le(begin, rows)));
}

TEST_F(AnalyzerTest, DataIsNeverAssumedSmall) {
  Buffer b = buffer("b", {n(4)}, i64);
  const PrimExpr x = load(b, {j});
  // x + 1 may wrap, so these are not identities.
  EXPECT_EQ(text(lt(x, x + 1)), print(lt(x, x + 1)));
  EXPECT_EQ(text(floordiv(x * 2, 2)), print(floordiv(x * 2, 2)));
  EXPECT_EQ(text(x + i - x), "i");
  // A narrower type is bounded.
  Buffer c = buffer("c", {n(4)}, i32);
  const PrimExpr y = cast(i64, load(c, {j}));
  EXPECT_EQ(text(floordiv(y * 2, 2)), print(y));
}

TEST_F(AnalyzerTest, FloatsKeepTheirRounding) {
  VarRef x = var("x", f32);
  const PrimExpr e = (x + 1.0) - 1.0;
  EXPECT_TRUE(structural_equal(a.simplify(e), e, true));
  const PrimExpr not_less = make<Not>(make<LT>(x, PrimExpr(1.0)));
  EXPECT_TRUE(structural_equal(a.simplify(not_less), not_less, true));
}

TEST_F(AnalyzerTest, SelectedSidesStaySafe) {
  // Both sides of a select are evaluated: the index must stay inside when the condition does not hold.
  Buffer b = buffer("b", {n(4)}, f32);
  const PrimExpr safe = load(b, {tir::min(i, n(3))});
  EXPECT_EQ(text(select(lt(i, n(4)), safe, PrimExpr(0.0))), print(select(lt(i, n(4)), safe, PrimExpr(0.0))));
  EXPECT_EQ(text(logical_and(lt(i, n(4)), lt(PrimExpr(0.0), safe))),
            print(logical_and(lt(i, n(4)), lt(PrimExpr(0.0), safe))));
  EXPECT_EQ(text(if_then_else(lt(i, n(4)), safe, PrimExpr(0.0))),
            print(if_then_else(lt(i, n(4)), load(b, {i}), PrimExpr(0.0))));
}

TEST_F(AnalyzerTest, Vectors) {
  const PrimExpr r = make<Ramp>(i * 8, n(1), int64_t(8));
  EXPECT_EQ(text(floordiv(r, make<Broadcast>(n(8), int64_t(8)))),
            print(PrimExpr(make<Broadcast>(i, int64_t(8)))));
  EXPECT_EQ(text(floormod(r, make<Broadcast>(n(8), int64_t(8)))), "T.Ramp(0, 1, 8)");
  EXPECT_EQ(text(r + make<Broadcast>(j, int64_t(8))), "T.Ramp(i * 8 + j, 1, 8)");
  EXPECT_TRUE(a.can_prove(lt(r, make<Broadcast>(n(512), int64_t(8)))));
}

TEST_F(AnalyzerTest, AffineForms) {
  auto f = affine_form(i * 6 + (j + i) * 2 + size, {i, j}, a);
  ASSERT_TRUE(f);
  ASSERT_EQ(f->terms.size(), 2u);
  EXPECT_EQ(f->terms[0].second, 8);
  EXPECT_EQ(f->terms[1].second, 2);
  EXPECT_EQ(print(f->base), "n");
  EXPECT_FALSE(affine_form(i * j, {i, j}, a));
  EXPECT_FALSE(affine_form(floordiv(i, 3), {i}, a));
}

TEST_F(AnalyzerTest, UnionAndCover) {
  Buffer b = buffer("b", {n(64), size}, f32);
  auto region = [&](PrimExpr x, PrimExpr ex, PrimExpr y, PrimExpr ey) {
    return make<BufferRegionNode>(b, Array<Range>{range(x, ex), range(y, ey)});
  };
  auto r =
      union_regions({region(i * 2, 1, k, 1), region(i * 2 + 1, 1, k, 1)}, {{k.get(), range(n(0), size)}}, a);
  EXPECT_EQ(print(r->region[0]->min), "i * 2");
  EXPECT_EQ(print(r->region[0]->extent), "2");
  EXPECT_EQ(print(r->region[1]->min), "0");
  EXPECT_EQ(print(r->region[1]->extent), "n");
  EXPECT_TRUE(region_covers(r, region(i * 2, 1, k, 1), a));
  EXPECT_FALSE(region_covers(region(i * 2, 1, k, 1), r, a));
}

TEST(Regions, OfABlockWithLoopsInside) {
  Buffer x = buffer("x", {n(100)}, f32), y = buffer("y", {n(10)}, f32);
  IterVar v = iter_var(range(n(0), n(10)), "v");
  VarRef t = var("t");
  Stmt body = for_(t, n(0), n(10), store(y, load(x, {v->var * 10 + t}), {v->var}));
  auto block = make<Block>(Array<IterVar>{v}, Array<BufferRegion>(), Array<BufferRegion>(), std::string("b"),
                           body, Stmt(), Array<Buffer>(), Array<MatchBufferRegion>(), AttrMap());
  const AccessRegions r = detect_access_regions(block);
  ASSERT_EQ(r.reads.size(), 1u);
  EXPECT_EQ(print(r.reads[0]->region[0]->min), "v * 10");
  EXPECT_EQ(print(r.reads[0]->region[0]->extent), "10");
  ASSERT_EQ(r.writes.size(), 1u);
  EXPECT_EQ(print(r.writes[0]->region[0]->min), "v");
  EXPECT_FALSE(r.opaque);
}

TEST(Regions, DataDependentIndexReadsTheWholeDimension) {
  Buffer x = buffer("x", {n(100)}, f32), at = buffer("at", {n(10)}, i64), y = buffer("y", {n(10)}, f32);
  IterVar v = iter_var(range(n(0), n(10)), "v");
  Stmt body = store(y, load(x, {load(at, {v->var})}), {v->var});
  auto block = make<Block>(Array<IterVar>{v}, Array<BufferRegion>(), Array<BufferRegion>(), std::string("b"),
                           body, Stmt(), Array<Buffer>(), Array<MatchBufferRegion>(), AttrMap());
  const AccessRegions r = detect_access_regions(block);
  ASSERT_EQ(r.reads.size(), 2u);
  EXPECT_EQ(print(r.reads[0]->region[0]->extent), "100");
}

TEST(Work, CountsAMatrixProduct) {
  te::Tensor a = te::placeholder({n(16), n(32)}, f32, "a"), b = te::placeholder({n(32), n(8)}, f32, "b");
  IterVar k = te::reduce_axis(range(n(0), n(32)));
  te::Tensor c = te::compute({n(16), n(8)}, [&](const Array<VarRef>& v) {
    return te::sum(a({v[0], k->var}) * b({k->var, v[1]}), {k});
  });
  const WorkEstimate w = estimate_work(te::create_prim_func({a, b, c})->body);
  EXPECT_GE(w.flop, 2.0 * 16 * 8 * 32);
  EXPECT_LE(w.flop, 6.0 * 16 * 8 * 32);
}

TEST(SimplifyStatement, KeepsMeaningAndDropsDeadBranches) {
  Buffer y = buffer("y", {n(8)}, f32);
  VarRef i = var("i"), z = var("z");
  Stmt body = make<IfThenElse>(lt(i, n(8)), store(y, PrimExpr(2.0), {floordiv(i * 4 + 3, 4)}),
                               store(y, PrimExpr(1.0), {i}));
  Stmt s = seq({for_(i, n(0), n(8), body), for_(z, n(0), n(0), store(y, PrimExpr(5.0), {z}))});
  VarRef p = var("p", DataType::handle());
  Map<VarRef, Buffer> map;
  map.set(p, y);
  const Stmt t = simplify(s);
  ASSERT_TRUE(t.is<For>());
  EXPECT_TRUE(t.as<For>()->body.is<BufferStore>());
  NDArray out = NDArray::empty({8}, f32);
  interpret_prim_func(make<PrimFuncNode>(Array<VarRef>{p}, map, t, DataType::void_(), AttrMap()), {out});
  for (int64_t e = 0; e < 8; ++e) EXPECT_EQ(out.element(e), 2.0);
}

}  // namespace
}  // namespace tenon
