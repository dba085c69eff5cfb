// SPDX-License-Identifier: Apache-2.0
// Random integer expressions: the simplified one must have the same value under random bindings, and every
// value must lie in the bounds and the modular set.
#include <gtest/gtest.h>

#include <random>

#include "analysis/region.h"
#include "analysis/rule.h"
#include "eval.h"
#include "ir/intrinsic.h"
#include "ir/text.h"

namespace tenon {
namespace {

using namespace tir;

struct Generator {
  std::mt19937_64 random;
  std::vector<VarRef> vars;
  int64_t pick(int64_t a, int64_t b) { return std::uniform_int_distribution<int64_t>(a, b)(random); }
  PrimExpr leaf() {
    if (pick(0, 2) == 0) return PrimExpr::int_imm(pick(-12, 24), i64);
    return vars[size_t(pick(0, int64_t(vars.size()) - 1))];
  }
  PrimExpr condition(int depth) {
    const PrimExpr a = expr(depth - 1), b = expr(depth - 1);
    switch (pick(0, depth > 1 ? 8 : 5)) {
      case 0:
        return make<EQ>(a, b);
      case 1:
        return make<NE>(a, b);
      case 2:
        return make<LT>(a, b);
      case 3:
        return make<LE>(a, b);
      case 4:
        return make<GT>(a, b);
      case 5:
        return make<GE>(a, b);
      case 6:
        return make<And>(condition(depth - 1), condition(depth - 1));
      case 7:
        return make<Or>(condition(depth - 1), condition(depth - 1));
      default:
        return make<Not>(condition(depth - 1));
    }
  }
  PrimExpr expr(int depth) {
    if (depth <= 0) return leaf();
    const PrimExpr a = expr(depth - int(pick(1, 2))), b = expr(depth - int(pick(1, 2)));
    static const int64_t divisors[] = {1, 2, 3, 4, 4, 5, 6, 8, 8, 12, 16, -1, -3};
    const PrimExpr c = PrimExpr::int_imm(divisors[pick(0, 12)], i64);
    switch (pick(0, 17)) {
      case 0:
      case 1:
      case 2:
        return make<Add>(a, b);
      case 3:
        return make<Sub>(a, b);
      case 4:
        return make<Mul>(a, PrimExpr::int_imm(pick(-6, 12), i64));
      case 5:
        return make<Mul>(a, b);
      case 6:
      case 7:
        return make<FloorDiv>(a, c);
      case 8:
      case 9:
        return make<FloorMod>(a, c);
      case 10:
        return make<Min>(a, b);
      case 11:
        return make<Max>(a, b);
      case 12:
        return make<Select>(condition(depth - 1), a, b);
      case 13:
        return pick(0, 1) ? PrimExpr(make<Div>(a, c)) : PrimExpr(make<Mod>(a, c));
      case 14:
        return make<Add>(make<Mul>(make<FloorDiv>(a, c), c), make<FloorMod>(a, c));
      case 15:
        return pick(0, 3) ? PrimExpr(make<FloorDiv>(a, b))
                          : call(i64, "tir.if_then_else", {condition(depth - 1), a, b});
      case 16:
        return make<FloorMod>(make<Add>(make<Mul>(a, c), b), c);
      default:
        return make<FloorDiv>(make<Add>(make<Mul>(a, c), b), c);
    }
  }
};

/// What rules made of what, where no branch assumed anything.
struct Applications : RuleObserver {
  struct One {
    const Rule* rule;
    PrimExpr before, after;
  };
  std::vector<One> seen;
  size_t allowed = 0;
  void applied(const Rule& r, const PrimExpr& before, const PrimExpr& after, size_t assumed) override {
    if (assumed <= allowed && seen.size() < 60) seen.push_back({&r, before, after});
  }
};

void check(Generator& g, int count, bool assumptions) {
  for (int n = 0; n < count; ++n) {
    g.vars.clear();
    Analyzer analyzer;
    std::vector<std::pair<int64_t, int64_t>> ranges;
    for (int i = 0; i < 3; ++i) {
      VarRef v = var(std::string(1, char('i' + i)));
      int64_t lo = g.pick(0, 2) ? 0 : g.pick(-20, 20),
              hi = lo + (g.pick(0, 1) ? g.pick(0, 3) : g.pick(4, 40));
      g.vars.push_back(v);
      if (g.pick(0, 3))
        analyzer.bind(v, range(PrimExpr(lo), PrimExpr(hi - lo + 1)));
      else
        lo -= 50;
      ranges.emplace_back(lo, hi);
    }
    // A symbolic range: the last variable lies in [0, first).
    const bool symbolic = ranges[0].first >= 1 && g.pick(0, 1);
    if (symbolic) analyzer.bind(g.vars[2], range(PrimExpr(0), g.vars[0]));
    std::optional<Analyzer::Scope> scope;
    PrimExpr known;
    if (assumptions) {
      known = g.condition(2);
      scope.emplace(analyzer.assume(known));
    }
    const bool boolean_ = g.pick(0, 3) == 0;
    const PrimExpr e = boolean_ ? g.condition(3) : g.expr(int(g.pick(1, 4)));
    Applications rules;
    rules.allowed = assumptions;
    if (n % 4 == 0) analyzer.observe_rules(&rules);
    const PrimExpr s = analyzer.simplify(e);
    analyzer.observe_rules(nullptr);
    ASSERT_EQ(s.dtype(), e.dtype());
    const ConstBound b = analyzer.bound(e);
    const ModularSet m = boolean_ ? ModularSet{} : analyzer.modular(e);
    const bool proven = boolean_ && analyzer.can_prove(e);
    for (int trial = 0; trial < 24; ++trial) {
      Values values;
      for (size_t i = 0; i < 3; ++i) values[g.vars[i].get()] = g.pick(ranges[i].first, ranges[i].second);
      if (symbolic) values[g.vars[2].get()] = g.pick(0, values[g.vars[0].get()] - 1);
      if (known) {
        const auto k = value(known, values);
        if (!k || !*k) continue;
      }
      const auto want = value(e, values);
      if (!want) continue;  // division by zero: any answer
      const auto got = value(s, values);
      auto text = [&] {
        return "expression " + std::to_string(n) + " " + print(e) + " became " + print(s) + ": wanted " +
               std::to_string(*want);
      };
      ASSERT_TRUE(got) << text();
      ASSERT_EQ(*got, *want) << text();
      for (const auto& [rule, before, after] : rules.seen) {
        const auto a = value(before, values), b = value(after, values);
        if (!a) continue;
        ASSERT_TRUE(b) << rule->name << ": " << print(before) << " became " << print(after);
        ASSERT_EQ(*a, *b) << rule->name << ": " << print(before) << " became " << print(after);
      }
      ASSERT_LE(b.min, *want) << text();
      ASSERT_GE(b.max, *want) << text();
      if (proven) {
        ASSERT_TRUE(*want) << text();
      }
      if (m.coeff == 0) {
        ASSERT_EQ(*want, m.base) << text();
      } else {
        ASSERT_EQ(((*want - m.base) % m.coeff), 0) << text();
      }
    }
  }
}

TEST(Property, SimplifiedExpressionsKeepTheirValue) {
  Generator g{std::mt19937_64(1), {}};
  check(g, 90000, false);
}

TEST(Property, AlsoUnderAssumptions) {
  Generator g{std::mt19937_64(2), {}};
  check(g, 30000, true);
}

TEST(Property, IntervalsContainEveryValue) {
  Generator g{std::mt19937_64(3), {}};
  int bounded = 0;
  for (int n = 0; n < 10000; ++n) {
    g.vars = {var("i"), var("j"), var("n")};
    Analyzer analyzer;
    analyzer.assume_size(g.vars[2], 0);
    const int64_t lo = g.pick(-8, 8), hi = lo + g.pick(0, 12);
    const PrimExpr e = g.expr(int(g.pick(1, 3)));
    // j runs in [n, n + 5]
    std::unordered_map<const Var*, IntInterval> domain{{g.vars[0].get(), {PrimExpr(lo), PrimExpr(hi)}},
                                                       {g.vars[1].get(), {g.vars[2], g.vars[2] + 5}}};
    const IntInterval r = interval_of(e, domain, analyzer);
    for (int trial = 0; trial < 24; ++trial) {
      const int64_t size = g.pick(0, 9);
      Values values{
          {g.vars[0].get(), g.pick(lo, hi)}, {g.vars[1].get(), size + g.pick(0, 5)}, {g.vars[2].get(), size}};
      const auto v = value(e, values);
      if (!v) continue;
      if (r.min) {
        const auto m = value(r.min, values);
        if (m) {
          ASSERT_LE(*m, *v) << print(e) << "   at least " << print(r.min);
        }
      }
      if (r.max) {
        const auto m = value(r.max, values);
        if (m) {
          ASSERT_GE(*m, *v) << print(e) << "   at most " << print(r.max);
        }
      }
      bounded += r.min && r.max;
    }
  }
  EXPECT_GT(bounded, 100000);  // most expressions have both ends
}

/// One analyzer that learns and forgets, against new ones that know the same: what it found before must not
/// show.
TEST(Property, AnswersFollowTheFacts) {
  Generator g;
  g.random.seed(17);
  for (int count = 0; count < 400; ++count) {
    g.vars = {var("i"), var("j"), var("k")};
    Analyzer lasting;
    std::vector<Range> known(3);
    const PrimExpr e = g.expr(5), d = g.expr(4);
    for (int step = 0; step < 6; ++step) {
      const size_t which = size_t(g.pick(0, 2));
      known[which] = range(PrimExpr(g.pick(-20, 20)), PrimExpr(g.pick(1, 40)));
      lasting.bind(g.vars[which], known[which]);
      const PrimExpr assumed = g.pick(0, 1) ? g.condition(2) : tir::true_();
      auto judge = [&](Analyzer& lasts, bool with) {
        Analyzer fresh;
        for (size_t v = 0; v < 3; ++v)
          if (known[v]) fresh.bind(g.vars[v], known[v]);
        std::optional<Analyzer::Scope> scope;
        if (with) scope.emplace(fresh.assume(assumed));
        const ConstBound want = fresh.bound(e), got = lasts.bound(e);
        ASSERT_EQ(got.min, want.min) << print(e);
        ASSERT_EQ(got.max, want.max) << print(e);
        ASSERT_EQ(lasts.can_prove_ge(e, 3), fresh.can_prove_ge(e, 3)) << print(e);
        ASSERT_EQ(lasts.can_prove_equal(e, d), fresh.can_prove_equal(e, d))
            << print(e) << " and " << print(d);
      };
      {
        const Analyzer::Scope scope = lasting.assume(assumed);
        judge(lasting, true);
      }
      judge(lasting, false);
      if (HasFatalFailure()) return;
    }
  }
}

}  // namespace
}  // namespace tenon
