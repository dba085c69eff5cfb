// SPDX-License-Identifier: Apache-2.0
// Every rewrite rule of the simplifier: proved by Z3 at several widths, evaluated on random values, applied
// by the engine, and listed in docs/rewrite_rules.md. TENON_PROVE_RULES=all proves and samples without haste.
#include <gtest/gtest.h>

#include <array>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <map>
#include <set>
#include <sstream>

#include "analysis/analyzer.h"
#include "ir/intrinsic.h"
#include "ir/text.h"
#include "ir/walk.h"
#include "rule_eval.h"
#include "smt.h"

namespace tenon {
namespace {

using namespace tir;
using rule_test::Proof;
using rule_test::Sampler;
using rule_test::SmtQuery;

bool thorough() {
  const char* v = std::getenv("TENON_PROVE_RULES");
  return v && std::string(v) == "all";
}

PrimExpr imm(int64_t v) { return PrimExpr::int_imm(v, i64); }

/// Rules that are wrong in ways that rules have been wrong in.
std::vector<Rule> wrong_rules() {
  const VarRef x = var("x"), y = var("y"), c = var("c"), d = var("d"), g = var("g"), f = var("f"),
               q = var("q"), r = var("r"), e = var("e");
  auto rule = [](const char* name, RuleDomain domain, PrimExpr a, PrimExpr b, PrimExpr condition) {
    return Rule{name, domain, RuleShape::tree, a, b, condition, false};
  };
  auto div = [](const PrimExpr& a, const PrimExpr& b) { return PrimExpr(make<FloorDiv>(a, b)); };
  auto mod = [](const PrimExpr& a, const PrimExpr& b) { return PrimExpr(make<FloorMod>(a, b)); };
  const PrimExpr positive = gt(c, imm(0));
  return {
      rule("quotients of negative divisors", RuleDomain::index, div(div(x, e), d), div(x, e * d),
           ne(d, imm(0))),
      rule("a remainder that carries", RuleDomain::index, div(q * c + r, c), q, positive),
      rule("truncation is no floor", RuleDomain::index, make<Div>(x, c), div(x, c), positive),
      rule("divisor zero", RuleDomain::index, div(x * c, c), x, true_()),
      rule("one too far", RuleDomain::index, lt(div(x, c), d), le(x, c * d), positive),
      rule("wrapped sums keep no order", RuleDomain::integer, lt(x + c, y + c), lt(x, y), true_()),
      rule("negation of the least number", RuleDomain::integer, lt(imm(0) - x, imm(0)), lt(imm(0), x),
           true_()),
      rule("remainders of an even divisor", RuleDomain::index, mod(x + f, g), mod(x, g) + mod(f, g),
           gt(g, imm(0))),
      rule("an error becomes a value", RuleDomain::integer, mod(x, x), imm(0) * x, true_()),
      rule("signs of products", RuleDomain::index, make<Min>(x * c, y * c), make<Min>(x, y) * c,
           ne(c, imm(0))),
  };
}

TEST(Rules, AreWellFormed) {
  std::set<std::string> names;
  EXPECT_GE(rewrite_rules().size(), 170u);
  for (const Rule& r : rewrite_rules()) {
    EXPECT_TRUE(names.insert(r.name).second) << r.name;
    EXPECT_EQ(r.pattern.dtype().element(), r.replacement.dtype().element()) << r.name;
    EXPECT_EQ(r.condition.dtype(), boolean) << r.name;
    // What a replacement or condition speaks of is found in the pattern, or by the shape (k; m and f).
    std::set<std::string> known;
    for (const VarRef& v : free_vars(r.pattern)) known.insert(v->name);
    if (r.shape == RuleShape::range) known.insert("k");
    if (r.shape == RuleShape::known) known.insert({"m", "f"});
    if (r.pattern.dtype().is_vector()) known.insert("l");
    for (const PrimExpr& e : {r.replacement, r.condition})
      for (const VarRef& v : free_vars(e)) EXPECT_TRUE(known.count(v->name)) << r.name << ": " << v->name;
  }
}

TEST(Rules, HoldForRandomValues) {
  const int64_t want = thorough() ? 1'000'000 : 6000;
  int64_t total = 0, least = want;
  for (const Rule& r : rewrite_rules()) {
    const auto n = Sampler(r).run(want, want * 400, 7);
    least = std::min(least, n.held);
    EXPECT_TRUE(n.counterexample.empty()) << r.name << ": " << to_text(r) << "\n  " << n.counterexample;
    EXPECT_GE(n.held, want / 4) << r.name << " was hardly evaluated: " << n.held << " of " << n.tried;
    total += n.held;
  }
  EXPECT_GE(total, 1'000'000) << "evaluations of all rules together";
  if (thorough())
    std::printf("%zu rules: %lld random evaluations, at least %lld of each\n", rewrite_rules().size(),
                static_cast<long long>(total), static_cast<long long>(least));
}

TEST(Rules, HoldForAllValuesOfSmallWidths) {
  int64_t tried = 0, held = 0;
  int rules = 0;
  for (const Rule& r : rewrite_rules()) {
    const auto n = Sampler(r).exhaust(thorough() ? 24 : 15);
    EXPECT_TRUE(n.counterexample.empty()) << r.name << ": " << to_text(r) << "\n  " << n.counterexample;
    tried += n.tried;
    held += n.held;
    rules += n.tried > 0;
  }
  if (thorough())
    std::printf("%d rules: %lld cases, the premises hold in %lld\n", rules, static_cast<long long>(tried),
                static_cast<long long>(held));
}

TEST(Rules, WrongOnesAreFoundByRandomValues) {
  for (const Rule& r : wrong_rules())
    EXPECT_FALSE(Sampler(r).run(1'000'000, 4'000'000, 7).counterexample.empty())
        << r.name << ": " << to_text(r);
}

TEST(Rules, AreProvedByZ3) {
  if (!rule_test::z3_program()) GTEST_SKIP() << "no program z3: rules are only sampled here";
  std::vector<SmtQuery> queries;
  for (const Rule& r : rewrite_rules()) rule_test::add_queries(r, thorough(), queries);
  const std::vector<Proof> proofs = rule_test::prove(queries, thorough() ? 12'000'000 : 1'000'000);
  ASSERT_EQ(proofs.size(), queries.size());
  std::map<std::string, std::string> reached, open;
  std::map<std::string, int> proved;
  std::map<std::string, std::array<int, 3>> widths;
  for (size_t i = 0; i < queries.size(); ++i) {
    const std::string name = queries[i].rule->name;
    EXPECT_NE(proofs[i], Proof::refuted)
        << name << " at " << queries[i].what << ": " << to_text(*queries[i].rule);
    EXPECT_NE(proofs[i], Proof::failed) << name << " at " << queries[i].what << ": not understood";
    proved[name] += proofs[i] == Proof::proved;
    auto& text = proofs[i] == Proof::proved ? reached[name] : open[name];
    text +=
        (text.empty() ? "" : "; ") + queries[i].what + (proofs[i] == Proof::skipped ? " (not asked)" : "");
    ++widths[queries[i].what][proofs[i] == Proof::proved ? 0 : proofs[i] == Proof::unknown ? 1 : 2];
  }
  int unproved = 0;
  for (const Rule& r : rewrite_rules()) unproved += !proved[r.name];
  EXPECT_EQ(unproved, 0) << "rules without any proof within these steps";
  if (!thorough()) return;
  for (const auto& [what, n] : widths)
    std::printf("%-26s %d proved, %d given up, %d not asked\n", what.c_str(), n[0], n[1], n[2]);
  // What Z3 could not settle at every width is evaluated as often as is promised.
  int evaluated = 0;
  for (const Rule& r : rewrite_rules()) {
    std::printf("%-28s proved: %s\n", r.name.c_str(), reached[r.name].c_str());
    if (open[r.name].empty()) continue;
    const auto n = Sampler(r).run(1'000'000, 4'000'000'000, 23);
    EXPECT_TRUE(n.counterexample.empty()) << r.name << ": " << to_text(r) << "\n  " << n.counterexample;
    EXPECT_GE(n.held, 1'000'000) << r.name << " has no proof at " << open[r.name]
                                 << " and too few evaluations";
    std::printf("%-28s   open: %s; %lld random evaluations\n", "", open[r.name].c_str(),
                static_cast<long long>(n.held));
    std::fflush(stdout);
    ++evaluated;
  }
  std::printf("%zu rules: %zu proved at every width, %d also evaluated at random, %d without any proof\n",
              rewrite_rules().size(), rewrite_rules().size() - size_t(evaluated), evaluated, unproved);
}

TEST(Rules, WrongOnesAreRefutedByZ3) {
  if (!rule_test::z3_program()) GTEST_SKIP() << "no program z3";
  const std::vector<Rule> wrong = wrong_rules();
  for (const Rule& r : wrong) {
    std::vector<SmtQuery> queries;
    rule_test::add_queries(r, true, queries);
    std::erase_if(queries, [](const SmtQuery& q) { return q.what != "8 bits"; });
    const std::vector<Proof> proofs = rule_test::prove(queries, 40'000'000);
    EXPECT_TRUE(std::find(proofs.begin(), proofs.end(), Proof::refuted) != proofs.end()) << r.name;
  }
}

/// Every rule must be reachable: instances of its pattern with variables in random ranges are simplified.
struct Applied : RuleObserver {
  std::map<std::string, int> count;
  void applied(const Rule& r, const PrimExpr&, const PrimExpr&, size_t) override { ++count[r.name]; }
};

TEST(Rules, AreAllApplied) {
  Applied seen;
  std::mt19937_64 random(5);
  auto pick = [&](int64_t a, int64_t b) { return std::uniform_int_distribution<int64_t>(a, b)(random); };
  const Buffer bools = buffer("b", {imm(128)}, boolean), small = buffer("s", {imm(128)}, i32),
               large = buffer("t", {imm(128)}, i64);
  std::string missing;
  for (const Rule& r : rewrite_rules()) {
    for (int n = 0; n < 4000 && !seen.count[r.name]; ++n) {
      Analyzer a;
      a.observe_rules(&seen);
      const DataType narrow = r.domain == RuleDomain::integer && pick(0, 3) ? i32 : i64;
      const bool vector = r.pattern.dtype().is_vector();
      const DataType type = vector ? i64 : narrow;
      // Rules without constants hold for each lane of vectors.
      bool constants = vector || r.domain == RuleDomain::index || !is_one(r.condition);
      for (const VarRef& v : free_vars(r.pattern)) constants = constants || is_rule_constant(*v);
      post_order(r.pattern,
                 [&](const ObjectRef& o) { constants = constants || o.is<IntImm>() || o.is<Cast>(); });
      const int lanes = !constants && pick(0, 3) == 0 ? 4 : 1;
      VarMap values;
      std::map<std::string, PrimExpr> by_name;
      for (const PrimExpr& part : {r.pattern, r.condition})
        for (const VarRef& v : free_vars(part)) {
          PrimExpr& e = by_name[v->name];
          if (!e) {
            if (v->dtype.is_bool()) {
              // Both operands of a condition may stay only where reading them says nothing.
              e = pick(0, 1) || v->dtype.is_vector() ? PrimExpr(var(v->name, v->dtype))
                                                     : load(bools, {imm(v->name[0])});
            } else if (is_rule_constant(*v)) {
              e = PrimExpr::int_imm(v->name == "l" ? 4 : pick(-4, 9), v->dtype == i32 ? i32 : type);
            } else if (r.shape == RuleShape::multiple && v->name == "n") {
              const VarRef size = var("n");
              a.assume_size(size, 1);
              e = size;
            } else {
              if (lanes > 1 || (r.domain == RuleDomain::integer && pick(0, 2) == 0)) {
                const DataType t = v->dtype == i32 ? i32 : type;
                e = lanes > 1 ? PrimExpr(var(v->name, t.with_lanes(lanes)))
                              : load(t == i32 ? small : large, {imm(v->name[0])});
                values[v.get()] = e;
                continue;
              }
              const VarRef x = var(v->name, v->dtype == i32 ? i32 : type);
              const int64_t low = pick(0, 1) ? 0 : pick(-9, 9);
              if (pick(0, 2))
                a.bind(x, range(PrimExpr::int_imm(low, x->dtype), PrimExpr::int_imm(pick(2, 6), x->dtype)));
              e = x;
            }
          }
          values[v.get()] = e;
        }
      std::vector<Analyzer::Scope> known;
      if (r.shape == RuleShape::known) {
        const VarRef x = var("s");
        known.push_back(a.assume(eq(floormod(x, imm(6)), imm(pick(0, 5)))));
        for (auto& [v, e] : values)
          if (v->name == "x") e = pick(0, 1) ? x * imm(6) + imm(pick(-4, 9)) : x + imm(pick(-4, 9));
      }
      if (r.name == "eq.zero") {
        const VarRef i = var("i"), j = var("j");
        known.push_back(a.assume(le(i, j)));
        known.push_back(a.assume(le(j, i)));
        for (auto& [v, e] : values) e = i - j;
      }
      if (r.name == "sum.digits_of_another") {
        const VarRef i = var("i"), j = var("j");
        for (auto& [v, e] : values)
          e = v->name == "z"   ? floormod(i, imm(7)) * imm(4) + j
              : v->name == "y" ? i * imm(4) + j
              : v->name == "c" ? imm(14)
                               : imm(3);
      }
      if (r.shape == RuleShape::multiple && by_name["r"] && pick(0, 1))
        a.bind(Ref<Var>(by_name["r"].as<Var>()), range(imm(0), by_name["n"]));
      // Types: a pattern of int64 becomes one of `type`.
      ObjectRef e = rewrite_any(r.pattern, [&](const ObjectRef& o) -> ObjectRef {
        if (const auto* v = o.as<Var>()) return values.at(v);
        if (const auto* i = o.as<IntImm>(); i && !i->dtype.is_bool())
          return PrimExpr::int_imm(i->value, type);
        return {};
      });
      a.simplify(PrimExpr(e.cast<PrimExprNode>()));
      while (!known.empty()) known.pop_back();
    }
    if (!seen.count[r.name]) missing += "\n  " + r.name + ": " + to_text(r);
  }
  EXPECT_TRUE(missing.empty()) << "never applied:" << missing;
}

TEST(Rules, AreListedInTheDocumentation) {
  std::ostringstream want;
  want << "# Rewrite rules\n\nGenerated from the table in `src/analysis/rules.cpp` by `TENON_UPDATE_GOLDEN=1 "
          "test_analysis`. "
          "[arithmetic.md](arithmetic.md) says what the letters mean and what is promised.\n\n"
          "| rule | numbers | pattern | becomes | if |\n|---|---|---|---|---|\n";
  static const char* domains[] = {"index", "integer", "logic", "any"};
  auto code = [](const PrimExpr& e) {
    std::string s = print(e), out = "`";
    for (char c : s) out += c == '|' ? "\\|" : std::string(1, c);
    return out + "`";
  };
  for (const Rule& r : rewrite_rules())
    want << "| " << r.name << " | " << domains[int(r.domain)] << (r.widens ? ", wider" : "") << " | "
         << code(r.pattern) << " | " << code(r.replacement) << " | "
         << (is_one(r.condition) ? "" : code(r.condition)) << " |\n";
  const std::string path = TENON_SOURCE_DIR "/docs/rewrite_rules.md";
  if (std::getenv("TENON_UPDATE_GOLDEN")) std::ofstream(path) << want.str();
  std::ostringstream have;
  have << std::ifstream(path).rdbuf();
  EXPECT_EQ(have.str(), want.str()) << "write it anew with TENON_UPDATE_GOLDEN=1";
}

}  // namespace
}  // namespace tenon
