// SPDX-License-Identifier: Apache-2.0
// What is computed where it is read, and what is not: the blocks that the schedule keeps, and the same
// values.
#include "../schedule/programs.h"
#include "autoschedule/default.h"
#include "ir/text.h"
#include "test_targets.h"
#include "trace_steps.h"

namespace tenon::testing {
namespace {

/// float32 of A, read again and again at places that are no strides of its axis.
Program read_apart(DataType type) {
  Tensor a = te::placeholder({5, 40}, type, "A");
  Tensor wide = te::compute({5, 40}, [&](const Vars& v) { return tir::cast(f32, a({v[0], v[1]})); }, "wide");
  Tensor y = te::compute(
      {5, 3, 90},
      [&](const Vars& v) {
        const PrimExpr place = tir::cast(f32, v[2]) * PrimExpr::float_imm(0.4375, f32);
        return wide({v[0], tir::cast(DataType::int_(64), place)});
      },
      "Y");
  return {"read apart", te::create_prim_func({a, y}), {}};
}

bool computed_where_it_is_read(const Program& p) {
  const Target t = target_of({512, 32, 2});
  expect_same(p, t, "inline");
  return default_schedule(p.function, t)->attrs.at("tenon.trace").as<std::string>().find("compute_inline") !=
         std::string::npos;
}

TEST(Inline, GatheredLanesComeFromWideElements) {
  EXPECT_FALSE(computed_where_it_is_read(read_apart(f16)));
  EXPECT_FALSE(computed_where_it_is_read(read_apart(u8)));
  // Integers of 32 bits are gathered as they are.
  EXPECT_TRUE(computed_where_it_is_read(read_apart(i32)));
}

TEST(Inline, WhatARowOfAnEpilogueSharesDoesNotStandBetween) {
  // The roots follow the product: as a stage of their own they would keep the division out of its tiles.
  const int64_t rows = 21, columns = 40, steps = 8;
  Tensor a = te::placeholder({rows, steps}, f32, "A"), b = te::placeholder({steps, columns}, f32, "B"),
         sums = te::placeholder({rows}, f32, "S");
  const tir::IterVar k = te::reduce_axis(tir::range(PrimExpr(0), PrimExpr(steps)), "k");
  Tensor product = te::compute(
      {rows, columns}, [&](const Vars& v) { return te::sum(a({v[0], k->var}) * b({k->var, v[1]}), {k}); },
      "product");
  Tensor root = te::compute(
      {rows}, [&](const Vars& v) { return tir::sqrt(tir::abs(sums({v[0]})) + PrimExpr(1.0)); }, "roots");
  Tensor y = te::compute(
      {rows, columns}, [&](const Vars& v) { return make<tir::Div>(product({v[0], v[1]}), root({v[0]})); },
      "Y");
  const Program p{"roots", te::create_prim_func({a, b, sums, y}), {}};
  const Target t = target_of({512, 32, 2});
  expect_same(p, t, "inline");
  const std::string text = print(default_schedule(p.function, t));
  EXPECT_EQ(text.find("T.block(\"roots\")"), std::string::npos) << text;
  EXPECT_EQ(text.find("product_local"), std::string::npos) << text;
}

TEST(Inline, AMaskThatHeadsShareIsMadeInFrontOfTheirProducts) {
  const tir::VarRef rows = tir::var("n");
  const int64_t heads = 3, steps = 8;
  Tensor a = te::placeholder({heads, rows, steps}, f32, "A"),
         b = te::placeholder({heads, steps, rows}, f32, "B"), at = te::placeholder({rows}, f32, "P");
  const tir::IterVar k = te::reduce_axis(tir::range(PrimExpr(0), PrimExpr(steps)), "k");
  Tensor product = te::compute(
      {heads, rows, rows},
      [&](const Vars& v) { return te::sum(a({v[0], v[1], k->var}) * b({v[0], k->var, v[2]}), {k}); },
      "product");
  Tensor mask = te::compute(
      {rows, rows}, [&](const Vars& v) { return tir::exp(tir::abs(at({v[0]}) - at({v[1]}))); }, "mask");
  Tensor y = te::compute(
      {heads, rows, rows}, [&](const Vars& v) { return product({v[0], v[1], v[2]}) + mask({v[1], v[2]}); },
      "Y");
  const Target t = target_of({512, 32, 2});
  const tir::PrimFunc f = te::create_prim_func({a, b, at, y});
  for (const int64_t n : {1, 5, 40}) expect_same({"mask", f, {{"n", n}}}, t, "inline");
  const std::string text = print(default_schedule(f, t));
  const size_t made = text.find("T.block(\"mask\")"), sums = text.find("T.block(\"product\")");
  EXPECT_LT(made, sums) << text;
  EXPECT_NE(sums, std::string::npos);
  EXPECT_EQ(text.find("product_local"), std::string::npos) << text;
}

}  // namespace
}  // namespace tenon::testing
