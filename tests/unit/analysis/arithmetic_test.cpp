// SPDX-License-Identifier: Apache-2.0
// Sets, linear forms, inequalities, iterator maps and region estimates against enumeration of all values;
// deep expressions.
#include <cstdlib>
#include <ctime>
#include <functional>
#include <random>
#include <set>

#include "analysis/int_set.h"
#include "analysis/iter_map.h"
#include "analysis/linear.h"
#include "analysis/region.h"
#include "eval.h"
#include "ir/intrinsic.h"
#include "ir/text.h"

namespace tenon {
namespace {

using namespace tir;

PrimExpr n(int64_t v) { return PrimExpr::int_imm(v, i64); }

struct Arithmetic : testing::Test {
  std::mt19937_64 random{17};
  int64_t pick(int64_t a, int64_t b) { return std::uniform_int_distribution<int64_t>(a, b)(random); }
};

/// Calls f for all values of the variables in their ranges, outer ones first; ranges may speak of outer ones.
template <class F>
void enumerate(const LoopDomain& domain, Values& values, size_t at, F f) {
  if (at == domain.size()) return f();
  const auto& [v, r] = domain[at];
  const int64_t min = *value(r->min, values), extent = *value(r->extent, values);
  for (int64_t i = min; i < min + extent; ++i) {
    values[v.get()] = i;
    enumerate(domain, values, at + 1, f);
  }
}

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

/// A random value made by fusing and splitting loops, as schedules make them.
struct Loops {
  LoopDomain domain;
  std::vector<int64_t> extents;
  PrimExpr value;
};

TEST_F(Arithmetic, IteratorMapsAgreeWithEnumeration) {
  int affine = 0, injective = 0, inverted = 0, divided = 0, mixed = 0;
  for (int round = 0; round < 4000; ++round) {
    Analyzer a;
    IterMap map(a);
    LoopDomain domain;
    PrimExpr fused = n(0);
    for (int k = 0; k < 3; ++k) {
      const VarRef v = var(std::string(1, char('i' + k)));
      const int64_t extents[] = {1, 2, 3, 4, 4, 6, 8}, e = extents[pick(0, 6)],
                    min = pick(0, 3) ? 0 : pick(-3, 3);
      domain.emplace_back(v, range(n(min), n(e)));
      a.bind(v, range(n(min), n(e)));
      map.add(v, n(min), n(e));
      fused = fused * n(e) + (v - n(min));
    }
    std::vector<PrimExpr> pool{fused, domain[0].first, domain[1].first, domain[2].first,
                               domain[0].first * 8 + domain[1].first};
    Array<PrimExpr> values;
    for (int64_t k = pick(1, 3); k-- > 0;) {
      PrimExpr e = pool[size_t(pick(0, 4))];
      const int64_t c = pick(1, 4) * 2;
      switch (pick(0, 5)) {
        case 0:
          e = floordiv(e, n(c));
          break;
        case 1:
          e = floormod(e, n(c));
          break;
        case 2:
          e = floormod(floordiv(e, n(2)), n(c));
          break;
        case 3:
          e = e * n(c) + n(pick(-2, 2));
          break;
        default:
          break;
      }
      values.push_back(e);
    }
    const auto answer = map.run(values);
    std::vector<VarRef> inner{domain[2].first};
    if (pick(0, 1)) inner.push_back(domain[1].first);
    const auto parts = answer.affine ? map.divide_subspace(values, inner) : std::nullopt;
    std::optional<Array<PrimExpr>> back;
    Array<VarRef> places;
    if (answer.injective) {
      Array<PrimExpr> at;
      for (size_t k = 0; k < values.size(); ++k) {
        places.push_back(var("o"));
        at.push_back(places[k]);
      }
      back = map.invert(values, at);
      inverted += back.has_value();
    }
    std::vector<PrimExpr> normal;
    for (const PrimExpr& v : values) normal.push_back(answer.affine ? map.normalize(v) : PrimExpr());
    std::set<std::vector<int64_t>> seen;
    int64_t points = 0;
    Values at;
    auto text = [&] {
      std::string s;
      for (const PrimExpr& v : values) s += print(v) + ", ";
      for (auto& [v, r] : domain) s += v->name + " in " + print(r->min) + " + " + print(r->extent) + "; ";
      return s;
    };
    enumerate(domain, at, 0, [&] {
      ++points;
      std::vector<int64_t> got;
      for (size_t k = 0; k < values.size(); ++k) {
        got.push_back(*value(values[k], at));
        if (normal[k]) {
          ASSERT_EQ(*value(normal[k], at), got[k]) << text() << print(normal[k]);
        }
        if (!parts) continue;
        const auto& d = (*parts)[k];
        const int64_t o = *value(d.outer, at), i = *value(d.inner, at);
        ASSERT_EQ(o * *as_int(d.inner_extent) + i + *value(d.base, at), got[k])
            << text() << print(d.outer) << " and " << print(d.inner);
        ASSERT_TRUE(0 <= i && i < *as_int(d.inner_extent)) << text() << print(d.inner);
        ASSERT_TRUE(0 <= o && o < *as_int(d.outer_extent)) << text() << print(d.outer);
      }
      seen.insert(got);
      if (back) {
        Values from;
        for (size_t k = 0; k < values.size(); ++k) from[places[k].get()] = got[k];
        for (size_t k = 0; k < 3; ++k)
          ASSERT_EQ(*value((*back)[k], from), at.at(domain[k].first.get())) << text() << print((*back)[k]);
      }
    });
    if (HasFatalFailure()) return;
    if (parts) {
      std::set<const Var*> low;
      for (const VarRef& v : inner) low.insert(v.get());
      for (const auto& d : *parts) {
        for (const VarRef& v : free_vars(d.inner))
          EXPECT_TRUE(low.count(v.get())) << text() << print(d.inner);
        for (const VarRef& v : free_vars(d.outer))
          EXPECT_FALSE(low.count(v.get())) << text() << print(d.outer);
        mixed += !is_one(d.inner_extent) && !is_one(d.outer_extent);
      }
      ++divided;
    }
    affine += answer.affine;
    injective += answer.injective;
    if (answer.injective) {
      ASSERT_EQ(int64_t(seen.size()), points) << text();
    }
  }
  EXPECT_GT(affine, 2500);
  EXPECT_GT(injective, 400);
  EXPECT_GT(inverted, injective * 9 / 10);
  EXPECT_GT(divided, 2000);
  EXPECT_GT(mixed, 400);
}

TEST_F(Arithmetic, SubspacesThatCannotBeDivided) {
  Analyzer a;
  IterMap map(a);
  const VarRef i = var("i"), j = var("j");
  a.bind(i, range(n(0), n(4))), a.bind(j, range(n(0), n(8)));
  map.add(i, n(0), n(4)), map.add(j, n(0), n(8));
  EXPECT_FALSE(map.divide_subspace({j * 4 + i}, {j}));  // the inner variable is the upper digit
  EXPECT_TRUE(map.divide_subspace({j * 4 + i}, {i}));
  EXPECT_FALSE(map.divide_subspace({i * j}, {i}));
}

TEST_F(Arithmetic, RegionEstimatesAgreeWithEnumeration) {
  int strict = 0, lower = 0;
  for (int round = 0; round < 4000; ++round) {
    Analyzer a;
    LoopDomain domain;
    for (int k = 0; k < 2; ++k) {
      const VarRef v = var(std::string(1, char('i' + k)));
      PrimExpr min = n(pick(-2, 2)), extent = n(pick(1, 5));
      if (k == 1 && pick(0, 4) == 0) min = domain[0].first;  // skewed
      domain.emplace_back(v, range(min, extent));
    }
    const PrimExpr i = domain[0].first, j = domain[1].first;
    const PrimExpr predicate = pick(0, 2) == 0   ? lt(i * n(pick(1, 2)), n(pick(-2, 6)))
                               : pick(0, 4) == 0 ? lt(i + j, n(pick(0, 6)))
                                                 : true_();
    Array<Range> region;
    auto index = [&]() -> PrimExpr {
      switch (pick(0, 4)) {
        case 0:
          return i * n(pick(-3, 3)) + n(pick(-2, 2));
        case 1:
          return j * n(pick(-3, 3));
        case 2:
          return i * n(pick(1, 4)) + j;
        case 3:
          return floordiv(i, n(2));
        default:
          return j + i;
      }
    };
    for (int64_t d = pick(1, 2); d-- > 0;) region.push_back(range(index(), n(pick(1, 3))));
    const auto upper_box = estimate_region_upper_bound(region, domain, predicate, a);
    const auto lower_box = estimate_region_lower_bound(region, domain, predicate, a);
    const auto strict_box = estimate_region_strict_bound(region, domain, predicate, a);
    std::set<std::vector<int64_t>> touched;
    Values at;
    enumerate(domain, at, 0, [&] {
      if (!*value(predicate, at)) return;
      std::vector<std::vector<int64_t>> points{{}};
      for (const Range& r : region) {
        std::vector<std::vector<int64_t>> next;
        for (const auto& p : points)
          for (int64_t e = 0; e < *as_int(r->extent); ++e) {
            next.push_back(p);
            next.back().push_back(*value(r->min, at) + e);
          }
        points = next;
      }
      touched.insert(points.begin(), points.end());
    });
    auto inside = [](const std::vector<IntSet>& box, const std::vector<int64_t>& p) {
      for (size_t d = 0; d < p.size(); ++d) {
        if (box[d].is_nothing()) return false;
        if (box[d].min() && *value(box[d].min(), {}) > p[d]) return false;
        if (box[d].max() && *value(box[d].max(), {}) < p[d]) return false;
      }
      return true;
    };
    auto volume = [](const std::vector<IntSet>& box) {
      int64_t v = 1;
      for (const IntSet& s : box) v *= s.is_nothing() ? 0 : *value(s.max(), {}) - *value(s.min(), {}) + 1;
      return v;
    };
    auto text = [&] {
      std::string s = "if " + print(predicate) + ": ";
      for (const Range& r : region) s += "[" + print(r->min) + " + " + print(r->extent) + "]";
      for (auto& [v, r] : domain) s += " " + v->name + " in " + print(r->min) + " + " + print(r->extent);
      return s;
    };
    int64_t in_lower = 0, in_strict = 0;
    for (const auto& p : touched) {
      ASSERT_TRUE(inside(upper_box, p)) << text();
      in_lower += lower_box && inside(*lower_box, p);
      in_strict += strict_box && inside(*strict_box, p);
    }
    if (lower_box) {
      ASSERT_EQ(in_lower, volume(*lower_box)) << text();
    }
    if (strict_box) {
      ASSERT_EQ(in_strict, volume(*strict_box)) << text();
      ASSERT_EQ(in_strict, int64_t(touched.size())) << text();
    }
    strict += strict_box.has_value();
    lower += lower_box.has_value();
  }
  EXPECT_GT(strict, 800);
  EXPECT_GT(lower, 2500);
}

TEST_F(Arithmetic, RegionBoundsAreSymbolic) {
  Analyzer a;
  const VarRef i = var("i"), m = var("m");
  a.assume_size(m, 1);
  const LoopDomain domain{{i, range(n(0), m)}};
  const auto box = estimate_region_strict_bound({range(i * 4, n(4))}, domain, true_(), a);
  ASSERT_TRUE(box);
  EXPECT_EQ(print((*box)[0].range(a)->min), "0");
  EXPECT_EQ(print((*box)[0].range(a)->extent), "m * 4");
  EXPECT_FALSE(estimate_region_strict_bound({range(i * 4, n(3))}, domain, true_(), a));
}

TEST_F(Arithmetic, CoverIsOnlyClaimedWhereItHolds) {
  const Buffer b = buffer("b", {n(64)}, f32);
  int proved = 0;
  for (int round = 0; round < 4000; ++round) {
    Analyzer a;
    const VarRef i = var("i");
    const int64_t extent = pick(1, 6);
    a.bind(i, range(n(0), n(extent)));
    auto region = [&] {
      PrimExpr min = pick(0, 1) ? i * n(pick(0, 3)) + n(pick(-2, 3)) : floordiv(i, n(2)) * n(pick(1, 3));
      return make<BufferRegionNode>(b,
                                    Array<Range>{range(min, pick(0, 2) ? n(pick(1, 9)) : i + n(pick(1, 4)))});
    };
    const BufferRegion x = region(), y = region();
    const bool covers = region_covers(x, y, a);
    bool really = true;
    for (int64_t v = 0; v < extent; ++v) {
      const Values at{{i.get(), v}};
      const int64_t low = *value(x->region[0]->min, at), end = low + *value(x->region[0]->extent, at);
      const int64_t l = *value(y->region[0]->min, at), e = l + *value(y->region[0]->extent, at);
      really = really && low <= l && e <= end;
    }
    ASSERT_TRUE(!covers || really);
    proved += covers;
  }
  EXPECT_GT(proved, 400);
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

/// Chains of up to 100,000 nested operators, longer than any stack: simplified, bounded, compared. Where a
/// level costs more there are fewer by default; TENON_DEEP_LEVELS=100000 runs all chains to that depth.
TEST_F(Arithmetic, DeepExpressions) {
  const VarRef x = var("x"), y = var("y"), flag = var("flag", boolean), s = var("s", i32);
  using Step = std::function<PrimExpr(const PrimExpr&, int)>;
  const std::vector<std::tuple<const char*, PrimExpr, Step>> chains{
      {"add", x, [&](const PrimExpr& e, int) { return make<Add>(e, y); }},
      {"add on the right", x, [&](const PrimExpr& e, int k) { return make<Add>(n(k), e); }},
      {"sub", x, [&](const PrimExpr& e, int) { return make<Sub>(y, e); }},
      {"mul", x, [&](const PrimExpr& e, int k) { return make<Mul>(e, k % 2 ? PrimExpr(y) : n(1)); }},
      {"mul and add", x,
       [&](const PrimExpr& e, int k) {
         return k % 2 ? PrimExpr(make<Mul>(e, y)) : PrimExpr(make<Add>(e, x));
       }},
      {"floordiv", x,
       [&](const PrimExpr& e, int k) { return make<FloorDiv>(make<Add>(e, y), n(k % 3 + 2)); }},
      {"floormod", x,
       [&](const PrimExpr& e, int k) { return make<FloorMod>(make<Add>(e, y), n(k % 7 + 2)); }},
      {"min", x, [&](const PrimExpr& e, int k) { return make<Min>(make<Add>(e, y), n(k)); }},
      {"max of 32 bits", s,
       [&](const PrimExpr& e, int k) { return make<Max>(make<Add>(e, s), PrimExpr::int_imm(k, i32)); }},
      {"not", flag, [&](const PrimExpr& e, int) { return make<Not>(e); }},
      {"and", flag, [&](const PrimExpr& e, int k) { return make<And>(e, lt(x, n(k))); }},
      {"or on the right", flag, [&](const PrimExpr& e, int k) { return make<Or>(lt(y, n(k)), e); }},
      {"select", x, [&](const PrimExpr& e, int k) { return make<Select>(lt(y, n(k)), e, x); }},
      {"if_then_else", x,
       [&](const PrimExpr& e, int k) { return call(i64, "tir.if_then_else", {lt(y, n(k)), e, x}); }},
      {"let", x,
       [&](const PrimExpr& e, int) {
         const VarRef v = var("v");
         return make<Let>(v, make<Add>(e, y), make<Mul>(v, v));
       }},
      {"cast", s, [&](const PrimExpr& e, int k) { return k % 2 ? cast(i32, e) : cast(i64, e); }},
      {"comparison", flag,
       [&](const PrimExpr& e, int k) { return make<EQ>(e, PrimExpr::int_imm(k % 2, boolean)); }},
  };
  for (const auto& [name, start, step] : chains) {
    SCOPED_TRACE(name);
    PrimExpr e = start;
    const std::string_view cheap[] = {"add",  "add on the right", "sub",           "not",
                                      "cast", "comparison",       "max of 32 bits"};
    const char* asked = std::getenv("TENON_DEEP_LEVELS");
    const int levels = asked ? std::atoi(asked)
                       : std::find(std::begin(cheap), std::end(cheap), name) != std::end(cheap) ? 100'000
                                                                                                : 40'000;
    const std::clock_t begin = std::clock();
    for (int k = 0; k < levels; ++k) e = step(e, k);
    Analyzer a;
    const PrimExpr r = a.simplify(e);
    EXPECT_EQ(r.dtype(), e.dtype());
    a.bound(e);
    if (std::string_view(name) == "add") {
      a.can_prove_ge(e, 0);
      detect_linear_equation(e, {x}, a);
      relax(e, {{x.get(), IntSet::interval(n(0), n(9))}}, a);
      IterMap map(a);
      map.add(x, n(0), n(10));
      map.run({e});
    }
    if (std::string_view(name) == "and") {
      a.can_prove(e);
      Analyzer::Scope scope = a.assume(e);
    }
    if (asked)
      std::printf("%-20s %d levels: %.2f s\n", name, levels, double(std::clock() - begin) / CLOCKS_PER_SEC);
  }
  PrimExpr sum = x;
  for (int k = 0; k < 100'000; ++k) sum = make<Add>(sum, k % 2 ? PrimExpr(y) : n(3));
  EXPECT_EQ(print(simplify(sum)), "y * 50000 + x + 150000");
}

}  // namespace
}  // namespace tenon
