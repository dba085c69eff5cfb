// SPDX-License-Identifier: Apache-2.0
// What is added to every row of a short sum of narrow types is its first value; long sums, sums along memory
// and those that a dot instruction wants filled up keep it behind them.
#include "../schedule/programs.h"
#include "autoschedule/default.h"
#include "test_targets.h"

namespace tenon::testing {
namespace {

/// How D[i, j] = max(Σ A[i, k] · B[k, j] + addend, 0) is written; B is B[j, k] by columns.
struct Sum {
  int64_t m = 40, n = 48, k = 32;
  DataType type = DataType::int_(8);
  bool by_columns = false, per_element = false;
};
Program sum_and_addend(const Sum& s) {
  const DataType wide = s.type.is_float() ? f32 : i32;
  const int64_t m = s.m, n = s.n, k = s.k;
  Tensor a = te::placeholder({m, k}, s.type, "A"),
         b = te::placeholder(s.by_columns ? Array<PrimExpr>{n, k} : Array<PrimExpr>{k, n}, s.type, "B"),
         bias = te::placeholder(s.per_element ? Array<PrimExpr>{m, n} : Array<PrimExpr>{n}, wide, "bias");
  tir::IterVar r = te::reduce_axis(tir::range(PrimExpr(0), PrimExpr(k)), "k");
  Tensor c = te::compute(
      {m, n},
      [&](const Vars& v) {
        const PrimExpr at_b = s.by_columns ? b({v[1], r->var}) : b({r->var, v[1]});
        return te::sum(tir::cast(wide, a({v[0], r->var})) * tir::cast(wide, at_b), {r});
      },
      "C");
  Tensor d = te::compute(
      {m, n},
      [&](const Vars& v) { return c({v[0], v[1]}) + (s.per_element ? bias({v[0], v[1]}) : bias({v[1]})); },
      "D");
  Tensor o = te::compute(
      {m, n}, [&](const Vars& v) { return tir::max(d({v[0], v[1]}), tir::const_of(wide, 0)); }, "O");
  return {"sum", te::create_prim_func({a, b, bias, o}), {}};
}

bool begins_with_it(const Sum& s) {
  const Program p = sum_and_addend(s);
  const tir::PrimFunc f = default_schedule(p.function, target_of({512, 32, 1, 0, true}));
  EXPECT_EQ(problems_of(f), "");
  EXPECT_TRUE(same(run(p.function), run(f))) << print(f);
  const std::string script = Trace::from_json(f->attrs.at("tenon.trace").as<std::string>()).to_script();
  return script.find("fuse_reduction_epilogue") != std::string::npos;
}

TEST(FirstValue, OfShortSumsIsWhatIsAddedToAllRows) { EXPECT_TRUE(begins_with_it({})); }

TEST(FirstValue, StaysZeroWhereNothingIsGained) {
  EXPECT_FALSE(begins_with_it({.k = 1024}));
  EXPECT_FALSE(begins_with_it({.per_element = true}));
  EXPECT_FALSE(begins_with_it({.type = f32}));
}

TEST(FirstValue, StaysZeroWhereTheRuleForTheSumWantsIt) {
  EXPECT_FALSE(begins_with_it({.k = 64, .by_columns = true}));  // partial sums in lanes
  EXPECT_FALSE(begins_with_it({.n = 35}));                      // lanes are filled up
  EXPECT_FALSE(begins_with_it({.m = 2}));   // no dot instruction: too few rows to lay the matrix out for
  EXPECT_FALSE(begins_with_it({.k = 22}));  // groups are filled up
}

}  // namespace
}  // namespace tenon::testing
