// SPDX-License-Identifier: Apache-2.0
// Estimates of regions against enumeration of all accesses.
#include <set>

#include "analysis/int_set.h"
#include "analysis/region.h"
#include "arithmetic.h"
#include "ir/text.h"

namespace tenon::testing_arithmetic {
namespace {

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

}  // namespace
}  // namespace tenon::testing_arithmetic
