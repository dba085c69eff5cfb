// SPDX-License-Identifier: Apache-2.0
// Linear forms, equations, inequalities and invariants of loops against enumeration of all values.
#include <functional>

#include "analysis/int_set.h"
#include "analysis/linear.h"
#include "arithmetic.h"
#include "ir/intrinsic.h"
#include "ir/text.h"

namespace tenon::testing_arithmetic {
namespace {

TEST(LinearForm, QuotientsThatComeOutEven) {
  Analyzer a;
  const VarRef b = var("b"), s = var("s");
  const PrimExpr t = floordiv(s, n(20));
  const auto text = [&](const PrimExpr& x, const PrimExpr& y) {
    const auto q = exact_quotient(x, y, a);
    return q ? print(a.simplify(*q)) : "-";
  };
  EXPECT_EQ(text(b * t * 4 - b * 4, b * 4), print(a.simplify(t - 1)));
  EXPECT_EQ(text(b * 4 * (t - 1) * (t - 1), (t - 1) * (t - 1)), "b * 4");
  EXPECT_EQ(text((b + s) * (b - s) * (t + 2), (b - s) * (t + 2)), print(a.simplify(b + s)));
  EXPECT_EQ(text(b * t - b, 1 - t), print(a.simplify(0 - b)));
  EXPECT_EQ(text(b * 6, n(4)), "-");
  EXPECT_EQ(text(b * s + 1, b), "-");
  EXPECT_EQ(text(b, n(0)), "-");
  EXPECT_EQ(text(n(0), b), "0");
}

TEST_F(Arithmetic, LinearEquationsAreFound) {
  Analyzer a;
  const VarRef i = var("i"), j = var("j"), m = var("m");
  const auto f = detect_linear_equation((i + j * 3) * m - j + floordiv(m, n(2)) + i * 4, {i, j}, a);
  ASSERT_TRUE(f);
  EXPECT_EQ(print(f->coefficients[0]), "m + 4");
  EXPECT_EQ(print(f->coefficients[1]), "m * 3 - 1");
  EXPECT_EQ(print(f->base), "m // 2");
  EXPECT_FALSE(detect_linear_equation(i * j, {i, j}, a));
  EXPECT_FALSE(detect_linear_equation(i * i, {i}, a));
  EXPECT_FALSE(detect_linear_equation(floordiv(i, n(2)), {i}, a));
  EXPECT_TRUE(detect_linear_equation(i * j, {i}, a));
  for (int round = 0; round < 2000; ++round) {
    std::function<PrimExpr(int)> make_expr = [&](int depth) -> PrimExpr {
      if (!depth) return pick(0, 3) == 0 ? n(pick(-9, 9)) : PrimExpr(std::array{i, j, m}[size_t(pick(0, 2))]);
      const PrimExpr x = make_expr(depth - 1), y = make_expr(depth - 1);
      const int64_t k = pick(0, 4);
      return k == 0 ? x - y : k < 3 ? x + y : k == 3 ? x * n(pick(-4, 4)) : x * y;
    };
    const PrimExpr e = make_expr(3);
    const auto form = detect_linear_equation(e, {i, j}, a);
    if (!form) continue;
    for (int t = 0; t < 8; ++t) {
      const Values v{{i.get(), pick(-99, 99)}, {j.get(), pick(-99, 99)}, {m.get(), pick(-99, 99)}};
      Values still = v;
      still.erase(i.get()), still.erase(j.get());  // coefficients do not speak of them
      ASSERT_EQ(*value(e, v), *value(form->coefficients[0], still) * v.at(i.get()) +
                                  *value(form->coefficients[1], still) * v.at(j.get()) +
                                  *value(form->base, still))
          << print(e);
    }
  }
}

PrimExpr random_comparison(const PrimExpr& x, const PrimExpr& y, int64_t which) {
  return which == 0   ? lt(x, y)
         : which == 1 ? le(x, y)
         : which == 2 ? gt(x, y)
         : which == 3 ? ge(x, y)
                      : eq(x, y);
}

TEST_F(Arithmetic, ClipBoundsAreExact) {
  Analyzer a;
  const VarRef i = var("i"), j = var("j");
  int found = 0;
  for (int round = 0; round < 2000; ++round) {
    PrimExpr condition = true_();
    for (int64_t k = pick(1, 3); k-- > 0;) {
      const PrimExpr v = pick(0, 1) ? PrimExpr(i) : PrimExpr(j);
      const PrimExpr c = random_comparison(v * n(pick(-4, 4)) + n(pick(-9, 9)), n(pick(-9, 9)), pick(0, 4));
      condition = make<And>(condition, c);
    }
    const auto bounds = detect_clip_bound(condition, {i, j}, a);
    if (!bounds) continue;
    ++found;
    for (int64_t x = -25; x <= 25; ++x)
      for (int64_t y = -25; y <= 25; y += 5) {
        bool inside = true;
        const int64_t at[] = {x, y};
        for (size_t k = 0; k < 2; ++k) {
          const auto& [low, high] = (*bounds)[k];
          inside = inside && (!low || *value(low, {}) <= at[k]) && (!high || at[k] <= *value(high, {}));
        }
        ASSERT_EQ(inside, *value(condition, {{i.get(), x}, {j.get(), y}}) != 0) << print(condition);
      }
  }
  EXPECT_GT(found, 800);
  EXPECT_FALSE(detect_clip_bound(lt(i + j, n(3)), {i, j}, a));
}

TEST_F(Arithmetic, InequalitiesAreSolvedExactly) {
  Analyzer a;
  const std::vector<VarRef> vars{var("i"), var("j"), var("k")};
  int64_t points = 0;
  for (int round = 0; round < 400; ++round) {
    std::vector<PrimExpr> conditions;
    for (const VarRef& v : vars)
      conditions.insert(conditions.end(), {ge(v, n(pick(-3, 0))), le(v, n(pick(1, 6)))});
    for (int64_t k = pick(1, 3); k-- > 0;) {
      PrimExpr e = n(pick(-5, 5));
      for (const VarRef& v : vars) e = e + v * n(pick(-3, 3));
      conditions.push_back(random_comparison(e, n(pick(-4, 8)), pick(0, 3)));
    }
    const auto s = solve_linear_inequalities(vars, conditions, a);
    ASSERT_TRUE(s);
    // Loops over the bounds, one inside the other.
    std::set<std::array<int64_t, 3>> visited, wanted;
    bool possible = true;
    for (const PrimExpr& c : s->others) possible = possible && *value(c, {});
    Values at;
    std::function<void(size_t, std::array<int64_t, 3>)> loop = [&](size_t d, std::array<int64_t, 3> p) {
      if (d == 3) {
        visited.insert(p);
        return;
      }
      int64_t low = -1000, high = 1000;
      for (const PrimExpr& e : s->bounds[d].lower) low = std::max(low, *value(e, at));
      for (const PrimExpr& e : s->bounds[d].upper) high = std::min(high, *value(e, at));
      ASSERT_GT(low, -1000);
      ASSERT_LT(high, 1000);
      for (int64_t v = low; v <= high; ++v) {
        at[vars[d].get()] = p[d] = v;
        loop(d + 1, p);
      }
    };
    if (possible) loop(0, {});
    for (int64_t x = -3; x <= 6; ++x)
      for (int64_t y = -3; y <= 6; ++y)
        for (int64_t z = -3; z <= 6; ++z) {
          bool all = true;
          for (const PrimExpr& c : conditions)
            all = all && *value(c, {{vars[0].get(), x}, {vars[1].get(), y}, {vars[2].get(), z}});
          if (all) wanted.insert({x, y, z});
        }
    ASSERT_EQ(visited, wanted);
    points += int64_t(wanted.size());
  }
  EXPECT_GT(points, 10000);
}

TEST_F(Arithmetic, InvariantsOfALoop) {
  const Buffer x = buffer("x", {n(8)}, f32), y = buffer("y", {n(8)}, f32);
  const VarRef i = var("i"), j = var("j"), m = var("m");
  const Stmt loop = for_(i, n(0), n(8), for_(j, n(0), n(8), store(y, load(x, {j}), {i})));
  const For& f = *loop.as<For>();
  EXPECT_TRUE(loop_invariant(load(x, {m}) + 1.0, f));
  EXPECT_TRUE(loop_invariant(tir::exp(load(x, {m})), f));
  EXPECT_FALSE(loop_invariant(load(y, {m}), f));
  EXPECT_FALSE(loop_invariant(i + 1, f));
  EXPECT_FALSE(loop_invariant(load(x, {j}), f));
}

}  // namespace
}  // namespace tenon::testing_arithmetic
