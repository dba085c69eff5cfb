// SPDX-License-Identifier: Apache-2.0
// Transpositions between images and rows of tokens: tiles run across the rows of an image, of which few are
// whole tiles wide, and the last columns stay out of the others' way.
#include "test_targets.h"
#include "trace_steps.h"

namespace tenon::testing {
namespace {

Program to_tokens(int64_t channels, int64_t h, int64_t w) {
  Tensor a = te::placeholder({channels, h, w}, f32, "A");
  Tensor t = te::compute(
      {h * w, channels},
      [&](const Vars& v) {
        return a({v[1], tir::floordiv(v[0], PrimExpr(w)), tir::floormod(v[0], PrimExpr(w))}) + 1.0;
      },
      "tokens");
  return {"to_tokens", te::create_prim_func({a, t}), {}};
}

Program to_image(int64_t channels, int64_t h, int64_t w) {
  Tensor a = te::placeholder({h * w, channels}, f32, "A");
  Tensor t =
      te::compute({channels, h, w}, [&](const Vars& v) { return a({v[1] * w + v[2], v[0]}) + 1.0; }, "image");
  return {"to_image", te::create_prim_func({a, t}), {}};
}

TEST(Transpositions, OfDigitsOfAPixelAreTiled) {
  const Target t = target_of({});
  for (const auto& [h, w] : {std::pair{7, 7}, {2, 24}, {4, 4}, {8, 6}}) {
    const Program p = to_tokens(20, h, w);
    EXPECT_EQ(expect_same(p, t, "elementwise"), "applied");
    EXPECT_NE(steps_of(default_schedule(p.function, t)).find("factors=[-1, 16]"), std::string::npos);
  }
}

TEST(Transpositions, RunAcrossTheRowsOfAnImage) {
  const Target t = target_of({});
  for (const auto& [h, w] : {std::pair{4, 12}, {2, 24}, {4, 4}, {5, 16}}) {
    const Program p = to_image(20, h, w);
    EXPECT_EQ(expect_same(p, t, "elementwise"), "applied");
    const std::string steps = steps_of(default_schedule(p.function, t));
    EXPECT_NE(steps.find("factors=[-1, 16]"), std::string::npos);
    EXPECT_EQ(steps.find("fuse_iterators") != std::string::npos, w % 16 != 0) << steps;
  }
}

/// Channels in blocks become axes of their own.
Program out_of_blocks(int64_t blocks, int64_t block, DataType type) {
  Tensor a = te::placeholder({blocks, 5, 32, block}, type, "A");
  Tensor t = te::compute(
      {blocks * block, 5, 32},
      [&](const Vars& v) {
        return a({tir::floordiv(v[0], PrimExpr(block)), v[1], v[2], tir::floormod(v[0], PrimExpr(block))});
      },
      "plain");
  return {"out_of_blocks", te::create_prim_func({a, t}), {}};
}

TEST(Transpositions, OfSeveralBlocksOfChannelsAreTiled) {
  const Target t = target_of({});
  for (const auto& [block, type, rows] :
       {std::tuple{64, f32, 16}, {16, f32, 16}, {64, u8, 32}, {16, u8, 16}, {48, u8, 16}}) {
    const Program p = out_of_blocks(3, block, type);
    EXPECT_EQ(expect_same(p, t, "elementwise"), "applied");
    const std::string steps = steps_of(default_schedule(p.function, t));
    EXPECT_NE(steps.find("factors=[-1, " + std::to_string(rows) + "]"), std::string::npos) << block << steps;
  }
  EXPECT_EQ(steps_of(default_schedule(out_of_blocks(3, 8, f32).function, t)).find("factors=[-1, 16]"),
            std::string::npos)
      << "eight channels fill no tile";
}

/// Short heads of an attention: keys along the sum become columns.
TEST(Transpositions, OfFewRowsAreTilesOfAllOfThem) {
  const Target t = target_of({});
  for (const auto& [rows, type, tiled] : {std::tuple{8, f32, true},
                                          {12, f32, true},
                                          {8, f16, true},
                                          {6, f64, true},
                                          {4, f32, false},
                                          {10, f32, false},
                                          {8, u8, false}}) {
    Tensor a = te::placeholder({3, 37, rows}, type, "A");
    Tensor c = te::compute({3, rows, 37}, [&](const Vars& v) { return a({v[0], v[2], v[1]}); }, "columns");
    const Program p{"columns", te::create_prim_func({a, c}), {}};
    EXPECT_EQ(expect_same(p, t, "elementwise"), "applied");
    const std::string steps = steps_of(default_schedule(p.function, t));
    EXPECT_EQ(steps.find("factors=[-1, " + std::to_string(rows) + "]") != std::string::npos, tiled)
        << rows << steps;
  }
}

TEST(Transpositions, OfRowsByTurnsAreVectors) {
  // Two rows whose elements the result takes by turns, from a place that is even and from one that is odd; of
  // an odd number none are vectors.
  for (const int64_t shift : {0, 1})
    for (const int64_t n : {64, 28, 27}) {
      Tensor a = te::placeholder({2, 9, n / 2 + 2}, f32, "A");
      Tensor t = te::compute(
          {9, n},
          [&](const Vars& v) {
            const PrimExpr at = v[1] + shift;
            return a({tir::floormod(at, PrimExpr(2)), v[0], tir::floordiv(at, PrimExpr(2))});
          },
          "turns");
      const Program p{"turns", te::create_prim_func({a, t}), {}};
      EXPECT_EQ(expect_same(p, target_of({}), "elementwise"), "applied");
      EXPECT_EQ(steps_of(default_schedule(p.function, target_of({}))).find("vectorize") != std::string::npos,
                n % 2 == 0)
          << shift << " " << n;
    }
}

TEST(Transpositions, OfRowsByTurnsOfSymbolicLengthAreVectors) {
  const tir::VarRef half = tir::var("half");
  for (const int64_t odd : {0, 1}) {
    Tensor a = te::placeholder({2, 3, half + 2}, f32, "A");
    Tensor t = te::compute(
        {3, half * 2 + odd},
        [&](const Vars& v) {
          const PrimExpr at = v[1] + 1;
          return a({tir::floormod(at, PrimExpr(2)), v[0], tir::floordiv(at, PrimExpr(2))});
        },
        "turns");
    const tir::PrimFunc p = te::create_prim_func({a, t}, {half}), f = default_schedule(p, target_of({}));
    EXPECT_EQ(steps_of(f).find("vectorize") != std::string::npos, odd == 0) << steps_of(f);
    for (const int64_t n : {0, 1, 7, 8, 9, 40})
      ASSERT_TRUE(same(run(p, {{"half", n}}), run(f, {{"half", n}}))) << n;
  }
}

TEST(Transpositions, RowsReadInShortStepsAreVectors) {
  // Every second to fourth element, or a row turned round, is a few vectors that are shuffled.
  const tir::VarRef length = tir::var("length");
  for (const int64_t step : {-1, 2, 3, 4, 5})
    for (const DataType type : {f32, u8})
      for (const PrimExpr& n : {PrimExpr(length), PrimExpr(37)}) {
        Tensor a = te::placeholder({3, step < 0 ? n : n * step}, type, "A");
        Tensor t = te::compute(
            {3, n}, [&](const Vars& v) { return a({v[0], step < 0 ? n - 1 - v[1] : v[1] * step}); }, "steps");
        const tir::PrimFunc p = te::create_prim_func({a, t}), f = default_schedule(p, target_of({}));
        EXPECT_EQ(steps_of(f).find("vectorize") != std::string::npos, step < 5 && type == f32)
            << step << steps_of(f);
        std::vector<std::map<std::string, int64_t>> sizes{{}};
        if (!tir::as_int(n)) sizes = {{{"length", 0}}, {{"length", 1}}, {{"length", 17}}};
        for (const auto& at : sizes) ASSERT_TRUE(same(run(p, at), run(f, at))) << step;
      }
}

TEST(Transpositions, OfHeadsOfSymbolicLengthAreTiled) {
  // Groups of 8 channels fill no tile by themselves; all of them lie one after the other, whatever the
  // length.
  const tir::VarRef length = tir::var("length");
  Tensor a = te::placeholder({length, 32}, f32, "A");
  Tensor t =
      te::compute({4, 8, length}, [&](const Vars& v) { return a({v[2], v[0] * 8 + v[1]}) + 1.0; }, "heads");
  const tir::PrimFunc p = te::create_prim_func({a, t}), f = default_schedule(p, target_of({}));
  EXPECT_NE(steps_of(f).find("factors=[-1, 16]"), std::string::npos) << steps_of(f);
  for (const int64_t n : {0, 1, 16, 39})
    ASSERT_TRUE(same(run(p, {{"length", n}}), run(f, {{"length", n}}))) << n;
}

Program bytes(int64_t rows, int64_t columns) {
  Tensor a = te::placeholder({columns, rows}, u8, "A");
  return {
      "bytes",
      te::create_prim_func({a, te::compute(
                                   {rows, columns}, [&](const Vars& v) { return a({v[1], v[0]}); }, "O")}),
      {}};
}

TEST(Transpositions, TilesOfBytesHaveMoreRowsUnlessThatMakesAnEdge) {
  const Target t = target_of({});
  for (const auto& [rows, wanted] : {std::pair{64, 32}, {48, 16}, {20, 16}, {100, 32}}) {
    const Program p = bytes(rows, 50);
    EXPECT_EQ(expect_same(p, t, "elementwise"), "applied");
    EXPECT_NE(steps_of(default_schedule(p.function, t)).find("factors=[-1, " + std::to_string(wanted) + "]"),
              std::string::npos)
        << rows;
  }
}

}  // namespace
}  // namespace tenon::testing
