// SPDX-License-Identifier: Apache-2.0
// Iterator maps against enumeration of all values.
#include <set>

#include "analysis/iter_map.h"
#include "arithmetic.h"
#include "ir/text.h"

namespace tenon::testing_arithmetic {
namespace {

/// A random value made by fusing and splitting loops, as schedules make them.
struct Loops {
  LoopDomain domain;
  std::vector<int64_t> extents;
  PrimExpr value;
};

TEST_F(Arithmetic, IteratorMapsAgreeWithEnumeration) {
  int affine = 0, injective = 0, inverted = 0, divided = 0, mixed = 0;
  for (int round = 0; round < 6000; ++round) {
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
      // A quotient whose multiples were taken out: what a simplifier makes of (e · c + x) // c.
      const PrimExpr taken_out =
          e * n(pick(1, 3)) +
          floordiv(pool[size_t(pick(0, 4))] * n(pick(1, 4)) + pool[size_t(pick(1, 3))], n(c));
      switch (pick(0, 7)) {
        case 0:
          e = floordiv(e, n(c));
          break;
        case 6:
          e = taken_out;
          break;
        case 7:
          e = floormod(taken_out, n(pick(2, 6)));
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

TEST_F(Arithmetic, DigitsWithoutMultiplesThatWereTakenOutAreFound) {
  // 2 × 8 × 12 × 16 elements, 16 vectors of 16 at a time: 16 vectors are no number of planes.
  Analyzer a;
  IterMap map(a);
  const VarRef o = var("o"), c = var("c"), l = var("l");
  const std::pair<VarRef, int64_t> loops[] = {{o, 12}, {c, 16}, {l, 16}};
  for (auto& [v, extent] : loops) a.bind(v, range(n(0), n(extent))), map.add(v, n(0), n(extent));
  const PrimExpr image = floordiv(o * 256 + c * 16 + l, n(1536)),
                 channel = floormod(o + floordiv(o * 64 + c * 16 + l, n(192)), n(8)),
                 row = floormod(o * 4 + c, n(12));
  EXPECT_TRUE(map.run({image, channel, row, l}).injective);
  // The same with images by themselves, which then share a loop with the first digit.
  const PrimExpr first = floormod(o, n(6)), of_image = first + floordiv(first * 64 + c * 16 + l, n(192));
  EXPECT_TRUE(map.run({floordiv(o, n(6)), of_image, row, l}).injective);
  EXPECT_FALSE(map.run({of_image, row, l}).injective) << "both images";
  EXPECT_FALSE(map.run({floordiv(o, n(6)), of_image, l}).injective);
  EXPECT_FALSE(map.run({channel, row, l}).injective) << "both images";
  EXPECT_FALSE(map.run({image, row, l}).injective);
  EXPECT_FALSE(map.run({image, channel, l}).injective);
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

/// A loop that never runs has no digits, and divides nothing.
TEST_F(Arithmetic, LoopsOverNothingInRemainders) {
  Analyzer a;
  IterMap map(a);
  const VarRef i = var("i"), j = var("j");
  a.bind(i, range(n(0), n(4))), a.bind(j, range(n(0), n(0)));
  map.add(i, n(0), n(4)), map.add(j, n(0), n(0));
  EXPECT_FALSE(map.divide_subspace({floormod(i * 9 + j * 12, n(8))}, {j}));
}

}  // namespace
}  // namespace tenon::testing_arithmetic
