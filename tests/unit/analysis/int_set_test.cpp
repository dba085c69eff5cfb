// SPDX-License-Identifier: Apache-2.0
// Sets of integers against enumeration of all values; comparisons up to the ends of int64.
#include <set>

#include "analysis/int_set.h"
#include "arithmetic.h"
#include "ir/intrinsic.h"
#include "ir/text.h"

namespace tenon::testing_arithmetic {
namespace {

TEST_F(Arithmetic, SetsAgreeWithEnumeration) {
  Analyzer a;
  auto make_set = [&] {
    switch (pick(0, 7)) {
      case 0:
        return IntSet::nothing();
      case 1:
        return IntSet::everything();
      case 2:
        return IntSet::point(n(pick(-5, 5)));
      case 3:
        return IntSet::interval(n(pick(-5, 5)), {});
      case 4:
        return IntSet::interval({}, n(pick(-5, 5)));
      default: {
        const int64_t low = pick(-5, 5);
        return IntSet::interval(n(low), n(low + pick(-1, 6)));
      }
    }
  };
  auto holds = [](const IntSet& s, int64_t v) {
    return !s.is_nothing() && (!s.min() || *as_int(s.min()) <= v) && (!s.max() || v <= *as_int(s.max()));
  };
  for (int i = 0; i < 4000; ++i) {
    const IntSet x = make_set(), y = make_set(), both = intersect(x, y, a), all = unite({x, y}, a);
    bool inside = true;
    int64_t low = 100, high = -100;
    for (int64_t v = -20; v <= 20; ++v) {
      ASSERT_EQ(holds(both, v), holds(x, v) && holds(y, v));
      inside = inside && (!holds(y, v) || holds(x, v));
      if (holds(x, v) || holds(y, v)) low = std::min(low, v), high = std::max(high, v);
    }
    for (int64_t v = -20; v <= 20; ++v) ASSERT_EQ(holds(all, v), low <= v && v <= high);
    EXPECT_EQ(can_prove_contains(x, y, a), inside);
  }
  EXPECT_TRUE(IntSet::everything().is_everything());
  EXPECT_TRUE(IntSet::of(range(n(3), n(1))).is_point());
  const VarRef m = var("m");
  EXPECT_TRUE(intersect(IntSet::interval(n(0), m - 1), IntSet::interval(m, {}), a).is_nothing());
}

TEST_F(Arithmetic, RelaxedSetsHoldEveryValue) {
  int closed = 0;
  for (int round = 0; round < 3000; ++round) {
    const VarRef i = var("i"), j = var("j");
    const int64_t low = pick(-6, 6), high = low + pick(0, 6), more = pick(0, 4);
    auto leaf = [&]() -> PrimExpr {
      return pick(0, 2) == 0 ? n(pick(-6, 6)) : pick(0, 1) ? PrimExpr(i) : PrimExpr(j);
    };
    std::function<PrimExpr(int)> make_expr = [&](int depth) -> PrimExpr {
      if (!depth) return leaf();
      const PrimExpr x = make_expr(depth - 1), y = make_expr(depth - 1);
      switch (pick(0, 6)) {
        case 0:
          return x + y;
        case 1:
          return x - y;
        case 2:
          return x * n(pick(-3, 3));
        case 3:
          return floordiv(x, n(pick(1, 5)));
        case 4:
          return floormod(x, n(pick(1, 5)));
        case 5:
          return tir::min(x, y);
        default:
          return tir::max(x, y);
      }
    };
    const PrimExpr e = make_expr(int(pick(1, 3)));
    Analyzer a;
    // j moves over [i, i + more].
    const IntSet s = relax(
        e, {{i.get(), IntSet::interval(n(low), n(high))}, {j.get(), IntSet::interval(i, i + n(more))}}, a);
    for (int64_t x = low; x <= high; ++x)
      for (int64_t y = x; y <= x + more; ++y) {
        const int64_t v = *value(e, {{i.get(), x}, {j.get(), y}});
        if (s.min()) {
          ASSERT_LE(*value(s.min(), {}), v) << print(e);
        }
        if (s.max()) {
          ASSERT_GE(*value(s.max(), {}), v) << print(e);
        }
      }
    closed += s.min() && s.max();
  }
  EXPECT_GT(closed, 2900);
}

TEST_F(Arithmetic, ModularSetsHoldEveryValue) {
  int known = 0;
  for (int round = 0; round < 3000; ++round) {
    Analyzer a;
    const VarRef i = var("i"), j = var("j");
    const int64_t m = pick(2, 12), rest = pick(0, m - 1);
    Analyzer::Scope scope = a.assume(eq(floormod(i, n(m)), n(rest)));
    const PrimExpr parts[] = {i * n(pick(-3, 4)) + j * n(pick(0, 2) * m),
                              floormod(i, n(pick(1, 3) * 2)),
                              floordiv(i * n(m), n(2)),
                              tir::min(i, i + n(m)),
                              i * i + n(pick(-4, 4)),
                              select(lt(j, n(0)), i, i + n(2 * m))};
    const PrimExpr e = parts[pick(0, 5)] + n(pick(-9, 9));
    const ModularSet s = a.modular(e);
    for (int t = 0; t < 24; ++t) {
      const int64_t v = *value(e, {{i.get(), pick(-9, 9) * m + rest}, {j.get(), pick(-50, 50)}});
      if (s.coeff == 0) {
        ASSERT_EQ(v, s.base) << print(e);
      } else {
        ASSERT_EQ((v - s.base) % s.coeff, 0) << print(e) << " with " << m << ", " << rest;
      }
    }
    known += s.coeff != 1;
  }
  EXPECT_GT(known, 1500);
}

TEST_F(Arithmetic, ComparesTheEndsOfInt64) {
  const int64_t values[] = {INT64_MIN, INT64_MIN + 1, -1, 0, 1, INT64_MAX - 1, INT64_MAX};
  Analyzer a;
  const VarRef x = var("x");
  a.bind(x, range(n(0), n(8)));
  auto literal = [&](const PrimExpr& e) { return as_int(a.simplify(e)); };
  for (int64_t p : values)
    for (int64_t q : values) {
      const PrimExpr l = n(p), r = n(q);
      // As nodes: the builders fold literals themselves.
      EXPECT_EQ(literal(make<LT>(l, r)), p < q) << p << " " << q;
      EXPECT_EQ(literal(make<LE>(l, r)), p <= q) << p << " " << q;
      EXPECT_EQ(literal(make<GT>(l, r)), p > q) << p << " " << q;
      EXPECT_EQ(literal(make<GE>(l, r)), p >= q) << p << " " << q;
      EXPECT_EQ(literal(make<EQ>(l, r)), p == q) << p << " " << q;
      EXPECT_EQ(literal(make<NE>(l, r)), p != q) << p << " " << q;
    }
  // What is proved of an index must hold: an answer, if there is one, is the right one.
  for (int64_t p : values)
    for (bool strict : {false, true})
      for (bool swap : {false, true}) {
        const PrimExpr l = swap ? n(p) : PrimExpr(x), r = swap ? PrimExpr(x) : n(p);
        const auto answer = literal(strict ? PrimExpr(make<LT>(l, r)) : PrimExpr(make<LE>(l, r)));
        for (int64_t i = 0; answer && i < 8; ++i) {
          const int64_t u = swap ? p : i, v = swap ? i : p;
          EXPECT_EQ(*answer != 0, strict ? u < v : u <= v) << u << (strict ? " < " : " <= ") << v;
        }
      }
}

}  // namespace
}  // namespace tenon::testing_arithmetic
