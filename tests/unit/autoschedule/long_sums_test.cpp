// SPDX-License-Identifier: Apache-2.0
// Sums longer than the cache: taken block by block where the operand of the lanes is read again and again,
// left alone elsewhere; the same values and, from the trace, the same program.
#include "../schedule/programs.h"
#include "autoschedule/default.h"
#include "ir/pass.h"
#include "ir/text.h"
#include "test_targets.h"
#include "trace_steps.h"

namespace tenon::testing {
namespace {

std::vector<Target> small_caches() { return {small_cache(512, 32), small_cache(256, 16, 4 << 10)}; }

/// D[b, i, j] = Σ A[b, i, k] · B[k, j] + bias[j]; the columns of B lie in panels where `panel` > 0.
Program long_product(const PrimExpr& batch, int64_t m, int64_t n, int64_t k, int64_t panel, bool epilogue,
                     DataType of = f32, DataType by = f32) {
  const DataType sum = of.is_float() ? f32 : i32;
  Tensor a = te::placeholder({batch, m, k}, of, "A"),
         b = te::placeholder(
             panel ? Array<PrimExpr>{(n + panel - 1) / panel, k, panel} : Array<PrimExpr>{k, n}, by, "B"),
         bias = te::placeholder({n}, sum, "bias");
  tir::IterVar r = te::reduce_axis(tir::range(PrimExpr(0), PrimExpr(k)), "k");
  Tensor c = te::compute(
      {batch, m, n},
      [&](const Vars& v) {
        const PrimExpr y =
            panel ? b({tir::floordiv(v[2], PrimExpr(panel)), r->var, tir::floormod(v[2], PrimExpr(panel))})
                  : b({r->var, v[2]});
        return te::sum(tir::cast(sum, a({v[0], v[1], r->var})) * tir::cast(sum, y), {r});
      },
      "C");
  if (!epilogue) return {"product", te::create_prim_func({a, b, c}), {}};
  Tensor d =
      te::compute({batch, m, n}, [&](const Vars& v) { return c({v[0], v[1], v[2]}) + bias({v[2]}); }, "D");
  return {"product and bias", te::create_prim_func({a, b, bias, d}), {}};
}

bool in_blocks(const tir::PrimFunc& f) { return steps_of(f).find("rfactor") != std::string::npos; }

void expect_blocks(const Program& p, const Target& t) {
  const tir::PrimFunc f = default_schedule(p.function, t);
  ASSERT_TRUE(in_blocks(f)) << p.name << "\n" << steps_of(f);
  ASSERT_EQ(problems_of(f), "") << p.name;
  ASSERT_TRUE(same(run(p.function), run(f))) << p.name << "\n" << print(f);
  Schedule again =
      Schedule::replay(p.function, Trace::from_json(f->attrs.at("tenon.trace").as<std::string>()));
  ASSERT_TRUE(structural_equal(again.function()->body, f->body)) << p.name;
}

TEST(LongSums, AreTakenBlockByBlock) {
  for (const Target& t : small_caches()) {
    expect_blocks(long_product(1, 48, 32, 96, 32, true), t);
    expect_blocks(long_product(1, 80, 35, 72, 0, true), t);  // ragged in both directions
  }
  expect_blocks(long_product(1, 48, 64, 96, 0, false), small_cache(512, 32));
  expect_blocks(long_product(1, 80, 33, 90, 32, true), small_cache(512, 32));  // a last panel filled up
}

TEST(LongSums, AreCutEarlierWhereManyRowsPassBy) {
  // A panel of three eighths of the cache: it stays near unless far more than the cache passes by. 347 is a
  // prime, and so are its tiles or fit no group: the last group is filled up.
  const Target t = small_cache(512, 32);
  expect_blocks(long_product(1, 347, 32, 24, 32, true), t);
  EXPECT_FALSE(in_blocks(default_schedule(long_product(1, 80, 32, 24, 32, true).function, t)));
}

TEST(LongSums, ABatchOfAnySizeChangesNothing) {
  const Target t = small_cache(512, 32);
  const Program p = long_product(tir::var("batch"), 48, 32, 96, 32, true);
  const tir::PrimFunc f = default_schedule(p.function, t);
  EXPECT_TRUE(in_blocks(f)) << steps_of(f);
  EXPECT_EQ(problems_of(f), "");
  for (const int64_t batch : {0, 1, 3})
    EXPECT_TRUE(same(run(p.function, {{"batch", batch}}), run(f, {{"batch", batch}}))) << print(f);
}

TEST(LongSums, OfBytesAreCutInGroups) {
  const DataType i8 = DataType::int_(8);
  const Program p = long_product(1, 64, 32, 128, 0, true, u8, i8);
  const tir::PrimFunc f = default_schedule(p.function, small_cache(512, 32, 2 << 10));
  EXPECT_TRUE(in_blocks(f)) << steps_of(f);
  EXPECT_NE(steps_of(f).find("dot4.uint8_int8"), std::string::npos);
  EXPECT_TRUE(same(run(p.function), run(f))) << print(f);
}

TEST(Panels, AreCopiedWhereManyRowsReadThem) {
  // The rows of B lie apart, and B does not stay near: a panel is laid out before the rows pass by.
  for (const Target& t : small_caches()) {
    const Program p = long_product(1, 66, 133, 8, 0, true);
    const tir::PrimFunc f = default_schedule(p.function, t);
    EXPECT_NE(steps_of(f).find("reindex"), std::string::npos) << steps_of(f);
    EXPECT_EQ(problems_of(f), "");
    EXPECT_TRUE(same(run(p.function), run(f))) << print(f);
    Schedule again =
        Schedule::replay(p.function, Trace::from_json(f->attrs.at("tenon.trace").as<std::string>()));
    EXPECT_TRUE(structural_equal(again.function()->body, f->body));
  }
  // Few rows, or a matrix that stays near, are not worth a copy.
  const Target t = small_cache(512, 32);
  EXPECT_EQ(steps_of(default_schedule(long_product(1, 16, 133, 8, 0, true).function, t)).find("reindex"),
            std::string::npos);
  EXPECT_EQ(
      steps_of(default_schedule(long_product(1, 66, 133, 8, 0, true).function, small_cache(512, 32, 1 << 20)))
          .find("reindex"),
      std::string::npos);
}

TEST(LongSums, StayWholeWhereNothingIsReadAgain) {
  const Target t = small_cache(512, 32);
  EXPECT_FALSE(in_blocks(default_schedule(long_product(1, 8, 32, 96, 32, true).function, t)));   // few rows
  EXPECT_FALSE(in_blocks(default_schedule(long_product(1, 48, 32, 16, 32, true).function, t)));  // it fits
  EXPECT_FALSE(in_blocks(default_schedule(long_product(1, 48, 32, 97, 32, true).function, t)));  // a prime
}

TEST(Weights, AreAnnouncedWhileRowsReadAPanel) {
  // Panels of 3 KB, of which the cache holds a few; the last tile of 160 columns is not whole.
  const Target t = small_cache(512, 32, 24 << 10);
  for (const int64_t rows : {24, 35}) {
    for (const int64_t columns : {192, 160}) {
      const Program p = long_product(1, rows, columns, 24, 32, true);
      const tir::PrimFunc f = default_schedule(p.function, t);
      EXPECT_NE(steps_of(f).find("stream_B"), std::string::npos) << steps_of(f);
      EXPECT_EQ(problems_of(f), "");
      EXPECT_TRUE(same(run(p.function), run(f))) << print(f);
      IRModule module = IRModule::create();
      module.set("main", f);
      PassContext context;
      const std::string hinted = print(run_pass("inject_prefetch", module, context));
      EXPECT_NE(hinted.find("tir.prefetch"), std::string::npos) << hinted;
      EXPECT_EQ(hinted.find("prefetch_refused"), std::string::npos) << hinted;
    }
  }
}

/// Channels in blocks of 16, as a convolution has them: weights in blocks of 1.5 KB.
Program blocks(const PrimExpr& batch, const PrimExpr& rows, int64_t count = 8) {
  Tensor x = te::placeholder({batch, rows, 24}, f32, "X"), k = te::placeholder({count, 24, 16}, f32, "B");
  const tir::IterVar r = te::reduce_axis(tir::range(PrimExpr(0), PrimExpr(24)), "r");
  Tensor y = te::compute(
      {batch, count, rows, 16},
      [&](const Vars& v) { return te::sum(x({v[0], v[2], r->var}) * k({v[1], r->var, v[3]}), {r}); }, "Y");
  return Program{"blocks", te::create_prim_func({x, k, y}), {}};
}

TEST(Weights, InBlocksOfLanesAreAnnouncedABlockAhead) {
  const Target t = small_cache(512, 32, 16 << 10);
  for (const int64_t batch : {1, 3}) {  // three images pass by each block
    const tir::PrimFunc f = default_schedule(blocks(batch, 21).function, t);
    EXPECT_NE(steps_of(f).find("stream_B"), std::string::npos) << steps_of(f);
    EXPECT_EQ(problems_of(f), "");
    EXPECT_TRUE(same(run(blocks(batch, 21).function), run(f))) << print(f);
  }
}

TEST(Weights, InBlocksThatAreRowsOfATileAreWalkedBlockByBlock) {
  // Of one row each, three members of a batch pass by a block; the tile takes blocks side by side.
  const Program p = blocks(3, 1);
  const tir::PrimFunc f = default_schedule(p.function, small_cache(512, 32, 16 << 10));
  EXPECT_NE(steps_of(f).find("decompose_reduction"), std::string::npos) << steps_of(f);
  EXPECT_TRUE(same(run(p.function), run(f))) << print(f);
}

/// The program with its hints; expects some, and none refused.
tir::PrimFunc with_hints(const tir::PrimFunc& f) {
  IRModule module = IRModule::create();
  module.set("main", f);
  PassContext context;
  module = run_pass("inject_prefetch", module, context);
  const std::string hinted = print(module);
  EXPECT_NE(hinted.find("tir.prefetch"), std::string::npos) << hinted;
  EXPECT_EQ(hinted.find("prefetch_refused"), std::string::npos) << hinted;
  return module->functions.at("main").cast<tir::PrimFuncNode>();
}

TEST(Weights, AreAnnouncedByTilesOfRowsOfAnyNumberByTurns) {
  const Program p = blocks(tir::var("batch"), tir::var("rows"), 16);
  const tir::PrimFunc f = default_schedule(p.function, small_cache(512, 32, 48 << 10));
  const Trace trace = Trace::from_json(f->attrs.at("tenon.trace").as<std::string>());
  EXPECT_TRUE(structural_equal(Schedule::replay(p.function, trace).function()->body, f->body));
  const tir::PrimFunc hinted = with_hints(f);
  for (const int64_t rows : {1, 7, 30})
    EXPECT_TRUE(
        same(run(p.function, {{"batch", 2}, {"rows", rows}}), run(hinted, {{"batch", 2}, {"rows", rows}})));
}

TEST(Weights, AreAnnouncedInEachTurnOfABatchOfAnySize) {
  const Target t = small_cache(512, 32, 24 << 10);
  const Program p = long_product(tir::var("batch"), 24, 192, 24, 32, true);
  const tir::PrimFunc f = default_schedule(p.function, t);
  const tir::PrimFunc hinted = with_hints(f);
  for (const int64_t batch : {0, 1, 3})
    EXPECT_TRUE(same(run(p.function, {{"batch", batch}}), run(hinted, {{"batch", batch}})));
}

TEST(Weights, AreNotAnnouncedWhereThatGainsNothing) {
  auto announced = [](const Program& p, const Target& t) {
    return steps_of(default_schedule(p.function, t)).find("stream_") != std::string::npos;
  };
  const Target t = small_cache(512, 32, 24 << 10);
  EXPECT_TRUE(announced(long_product(1, 40, 192, 24, 32, true), t));
  EXPECT_FALSE(announced(long_product(1, 4, 192, 24, 32, true), t));  // rows of one tile
  EXPECT_FALSE(announced(long_product(1, 40, 64, 24, 32, true), t));  // they stay near
  EXPECT_FALSE(announced(long_product(1, 40, 192, 24, 0, true), t));  // a tile's rows lie apart
}

}  // namespace
}  // namespace tenon::testing
