// SPDX-License-Identifier: Apache-2.0
// Expressions that nest deeper than any stack.
#include <cstdlib>
#include <ctime>

#include "analysis/int_set.h"
#include "analysis/iter_map.h"
#include "analysis/linear.h"
#include "arithmetic.h"
#include "ir/text.h"

namespace tenon::testing_arithmetic {
namespace {

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
}  // namespace tenon::testing_arithmetic
