// SPDX-License-Identifier: Apache-2.0
// The model of a machine alone: what tiles it considers, what it prefers and why, and what stays in a cache.
#include <gtest/gtest.h>

#include <algorithm>

#include "analysis/cost/branches.h"
#include "analysis/cost/cache.h"
#include "analysis/cost/layout.h"
#include "analysis/cost/matrix.h"

namespace tenon::cost {
namespace {

Target machine(int64_t bits = 512, int64_t registers = 32, int64_t cores = 1) {
  Target t = make<TargetNode>();
  t.edit()->vector_bits = bits;
  t.edit()->vector_registers = registers;
  t.edit()->cores = cores;
  return t;
}

Access access(std::vector<int64_t> shape, std::vector<int> iterators, size_t count, DataType type = f32) {
  Array<PrimExpr> dims;
  for (int64_t n : shape) dims.push_back(PrimExpr(n == kUnknown ? int64_t(1) : n));
  Access out{tir::buffer("b", dims, type), {}, {}, std::vector<int64_t>(count, 0)};
  int64_t step = 1;
  for (size_t d = shape.size(); d-- > 0; step *= shape[d] == kUnknown ? 1000 : shape[d])
    if (iterators[d] >= 0) out.stride[size_t(iterators[d])] = step;
  for (int i : iterators) out.index.push_back({i < 0 ? std::vector<int>{} : std::vector<int>{i}, true});
  return out;
}

/// out[result] += the product of operands, each named by the iterators that index it. What is no index of the
/// result is summed.
Nest contraction(std::vector<int64_t> extent, const std::vector<int>& result,
                 const std::vector<std::vector<int>>& operands, DataType type = f32) {
  Nest out;
  out.extent = std::move(extent);
  auto over = [&](const std::vector<int>& iterators, DataType t) {
    std::vector<int64_t> shape;
    for (int i : iterators) shape.push_back(out.extent[size_t(i)]);
    return access(shape, iterators, out.extent.size(), t);
  };
  for (int i = 0; i < int(out.extent.size()); ++i)
    (std::ranges::count(result, i) ? out.spatial : out.reduce).push_back(i);
  out.write = over(result, f32);
  for (const auto& o : operands) out.loads.push_back(over(o, type));
  return out;
}

/// C[m, n] += A[m, k] * B[k, n]; iterators m, n, k.
Nest product(int64_t m, int64_t n, int64_t k, DataType type = f32) {
  return contraction({m, n, k}, {0, 1}, {{0, 2}, {2, 1}}, type);
}

TEST(TileCandidates, FitTheRegistersAndTheNest) {
  for (auto [bits, registers] : {std::pair{128, 16}, {256, 16}, {512, 32}, {128, 32}})
    for (auto [m, n] : {std::pair{1, 1000}, {1000, 5}, {7, 7}, {64, 64}, {kUnknown, 48}, {48, kUnknown}}) {
      const Target t = machine(bits, registers);
      const Nest nest = product(m, n, 64);
      for (const Tile& c : tile_candidates(nest, t)) {
        EXPECT_LT(c.accumulators() + c.vectors, registers);
        EXPECT_LE(c.lanes * 32, bits);
        EXPECT_NE(c.vector, c.rows);
        const int64_t most = m == kUnknown ? c.size(0) : c.vector == 0 ? m * c.width() : m;
        EXPECT_LE(c.size(0), most);
        EXPECT_EQ(c.size(2), 1) << "the sum is no axis of the result";
      }
    }
}

TEST(TileCandidates, LanesAreNeighboursOfTheResultFirst) {
  // Rows between two lanes would keep the accumulators out of registers.
  for (const Tile& c : tile_candidates(product(64, 64, 64), machine()))
    EXPECT_TRUE(c.vector != 0 || c.rows < 0);
}

TEST(TileCandidates, SecondRowsShareAnOperand) {
  // C[b, m, n] += A[b, m, k] * B[b, k, n]: a second product reads nothing of the first.
  const Nest nest = contraction({8, 64, 64, 64}, {0, 1, 2}, {{0, 1, 3}, {0, 3, 2}});
  for (const Tile& c : tile_candidates(nest, machine()))
    EXPECT_TRUE(c.rows2 < 0 || (c.rows2 != 0 && c.rows != 0));
}

TEST(ChooseTile, HidesTheLatencyOfAMultiplyAdd) {
  for (auto [bits, registers] : {std::pair{256, 16}, {512, 32}}) {
    const Target t = machine(bits, registers);
    const Tile c = choose_tile(product(480, 480, 480), t);
    EXPECT_EQ(c.vector, 1);
    EXPECT_EQ(c.lanes, bits / 32);
    EXPECT_GE(c.accumulators(), t->fma_ports * t->fma_latency);
  }
}

TEST(ChooseTile, TakesOneRowWhereThereIsOne) {
  const Tile c = choose_tile(product(1, 512, 512), machine());
  EXPECT_LT(c.rows, 0);
  EXPECT_GT(c.vectors, 1) << "several sums side by side hide the latency";
}

TEST(ChooseTile, WastesLittleAtRaggedEdges) {
  for (int64_t m : {5, 7, 11, 13, 14, 17, 25, 49})
    for (int64_t n : {16, 48, 80, 112}) {
      const Tile c = choose_tile(product(m, n, 256), machine());
      const double whole = double(ceil_div(m, c.size(0)) * c.size(0) * ceil_div(n, c.size(1)) * c.size(1));
      EXPECT_LE(whole, 1.25 * double(m * n)) << m << "x" << n;
    }
}

TEST(ChooseTile, RowsLieTogetherWhereBothAxesServe) {
  // C[h, w, n] += A[h, w, k] * B[k, n] of a square image.
  const Tile c = choose_tile(contraction({56, 56, 16, 64}, {0, 1, 2}, {{0, 1, 3}, {3, 2}}), machine());
  EXPECT_EQ(c.vector, 2);
  EXPECT_EQ(c.rows, 1);
}

TEST(ChooseTile, LanesCanBeAskedFor) {
  EXPECT_EQ(choose_tile(product(64, 64, 64), machine(), 0).vector, 0);
  EXPECT_FALSE(choose_tile(product(64, 1, 64), machine(), 1)) << "an axis of one step has no lanes";
}

TEST(ChooseTile, NarrowTypesHaveNoMoreLanesThanTheirSum) {
  EXPECT_EQ(choose_tile(product(64, 64, 64, DataType::bfloat16()), machine()).lanes, 16);
}

TEST(TileTime, MorePortsAreNeverSlower) {
  const Target slow = machine();
  Target fast = machine();
  fast.edit()->fma_ports = 4, fast.edit()->load_ports = 4;
  const Nest nest = product(64, 64, 64);
  for (const Tile& c : tile_candidates(nest, slow))
    EXPECT_LE(tile_time(nest, c, fast), tile_time(nest, c, slow));
}

TEST(TileTime, UnevenTilesCostOnManyCores) {
  const Nest nest = product(72, 64, 256);
  const Tile three{.vector = 1, .rows = 0, .lanes = 16, .vectors = 4, .row_count = 24};  // 3 tiles
  EXPECT_GT(tile_time(nest, three, machine(512, 32, 2)), 1.3 * tile_time(nest, three, machine(512, 32, 1)));
}

TEST(ChooseTile, GathersFromAsFewLinesAsItCan) {
  // C[m, n] += A[k] * B[k, n, m, 7]: one line holds several lanes along m, none along n.
  Nest nest = product(200, 200, 200);
  nest.loads = {access({200}, {2}, 3), access({200, 200, 200, 7}, {2, 1, 0, -1}, 3)};
  EXPECT_EQ(choose_tile(nest, machine()).vector, 0) << "though results are neighbours along n";
}

TEST(ChooseTile, LoadsOnceWhatDoesNotMoveWithTheSum) {
  // C[m, n] += A[n, m] * B[k, m, n]: A is read across memory, but once; B along n in each step.
  Nest nest = product(200, 33, 16);
  nest.loads = {access({33, 200}, {1, 0}, 3), access({16, 200, 33}, {2, 0, 1}, 3)};
  EXPECT_EQ(choose_tile(nest, machine()).vector, 1);
}

/// C[n, o, h, w, b] += A[n, c, h + y, w + x] * K[o, c, y, x, b]; iterators in the order n, o, h, w, b, c, y,
/// x.
Nest window(int64_t n, int64_t h, int64_t w, int64_t blocks, int64_t block, int64_t size) {
  Nest out;
  out.extent = {n, blocks, h, w, block, 48, size, size};
  out.spatial = {0, 1, 2, 3, 4};
  out.reduce = {5, 6, 7};
  out.write = access({n, blocks, h, w, block}, {0, 1, 2, 3, 4}, 8);
  out.loads = {access({n, 48, h, w}, {0, 5, 2, 3}, 8),
               access({blocks, 48, size, size, block}, {1, 5, 6, 7, 4}, 8)};
  out.loads[0].stride[6] = out.loads[0].stride[2], out.loads[0].stride[7] = out.loads[0].stride[3];
  return out;
}

TEST(ChooseTile, ABatchOfImagesCountsAsOne) {
  for (const Target& t : {machine(), machine(256, 16)}) {
    // Where images have one point each, rows go along the blocks of channels.
    EXPECT_EQ(choose_tile(window(kUnknown, 1, 1, 72, 16, 1), t).rows, 1);
    EXPECT_NE(choose_tile(window(kUnknown, kUnknown, kUnknown, 72, 16, 1), t).rows, 0);
  }
}

TEST(ChooseTile, ChannelsThatFillAVectorGoBeforeRowsOfUnknownLength) {
  for (const auto& [block, bits] : {std::pair<int64_t, int64_t>{16, 512}, {8, 256}}) {
    const Tile t = choose_tile(window(kUnknown, kUnknown, kUnknown, 3, block, 3), machine(bits, 32));
    EXPECT_EQ(t.vector, 4);
    EXPECT_EQ(t.lanes, block);
  }
  // Where they fill half of one, rows of an image do better.
  const Tile t = choose_tile(window(kUnknown, kUnknown, kUnknown, 3, 8, 3), machine());
  EXPECT_EQ(t.vector, 3);
  EXPECT_EQ(t.lanes, 16);
}

TEST(ChooseTile, AFewRowsOfAFreePlaneGoWithAllBlocksOfChannels) {
  const Tile t = choose_tile(window(kUnknown, kUnknown, kUnknown, 5, 16, 1), machine());
  EXPECT_EQ(t.rows2, 1) << "the blocks";
  EXPECT_EQ(t.row2_count, 5) << "none is left over";
}

TEST(ChooseTile, TilesOfFreePlanesDoMoreThanHideTheLatency) {
  const Target t = machine();
  const int64_t hidden = t->fma_ports * t->fma_latency;
  EXPECT_GT(choose_tile(window(1, kUnknown, kUnknown, 2, 16, 3), t).accumulators(), hidden);
  Nest picture = window(1, kUnknown, kUnknown, 1, 16, 3);
  picture.extent[5] = 3;  // colours: a short sum for each place that is found
  EXPECT_GT(choose_tile(picture, t).accumulators(), hidden);
}

TEST(ChooseTile, RowsAtSymbolicDistancesHavePointersThatMove) {
  // Twelve lines of an image fill a tile, points of one line some of it: those are neighbours.
  Nest nest = window(kUnknown, 12, kUnknown, 2, 16, 3);
  for (const size_t i : {0, 2, 5, 6}) nest.loads[0].stride[i] = kIrregular;
  EXPECT_EQ(choose_tile(nest, machine()).rows, 3);
}

TEST(ChooseTile, FillsAllRegistersWhereNoLaneIsMasked) {
  // 14 sums, a vector of weights and a point of the image are 16 registers, and so are 12 and 3 vectors.
  const Target t = machine(256, 16);
  for (int64_t size : {14, 28, 56}) {
    const Tile tile = choose_tile(window(1, size, size, 32, 8, 3), t);
    EXPECT_EQ(tile.accumulators() + tile.vectors * tile.row2_count + 1, 16) << size;
  }
  for (const Tile& tile : tile_candidates(product(14, 20, 64), t))
    EXPECT_TRUE(20 % tile.width() == 0 || tile.accumulators() + tile.vectors + 1 < 16) << "lanes at the end";
}

TEST(FitsUnrolled, WhatStepsOfAWindowShareStaysInRegisters) {
  const Target t = machine();
  const Nest nest = window(1, 6, 48, 10, 16, 3);
  Tile tile{.vector = 4, .rows = 3, .rows2 = 1, .lanes = 16, .row_count = 12, .row2_count = 2};
  EXPECT_FALSE(fits_unrolled(nest, tile, 7, 3, t)) << "24 accumulators beside 12 rows of the image";
  EXPECT_TRUE(fits_unrolled(nest, tile, 6, 3, t)) << "the next line of the image has other elements";
  tile.row2_count = 1;
  EXPECT_TRUE(fits_unrolled(nest, tile, 7, 3, t));
  EXPECT_FALSE(fits_unrolled(nest, tile, 7, 3, machine(512, 16)));
  tile.row_count = 16;
  EXPECT_TRUE(fits_unrolled(nest, tile, 7, 3, t)) << "of 16 elements 15 are read again";
  tile.row_count = 17;
  EXPECT_FALSE(fits_unrolled(nest, tile, 7, 3, t));
  const Tile wide{.vector = 1, .rows = 0, .lanes = 16, .vectors = 2, .row_count = 14};
  EXPECT_TRUE(fits_unrolled(product(64, 64, 7), wide, 2, 7, t)) << "steps of a product share nothing";
}

TEST(FitsUnrolled, RowsOfSymbolicDistanceAreLoadedAhead) {
  const Target t = machine();
  Nest nest = window(kUnknown, 12, kUnknown, 2, 16, 3);
  for (const size_t i : {0, 2, 5, 6}) nest.loads[0].stride[i] = kIrregular;  // further out than the width
  Tile tile{.vector = 4, .rows = 2, .rows2 = 1, .lanes = 16, .row_count = 12, .row2_count = 2};
  EXPECT_FALSE(fits_unrolled(nest, tile, 7, 3, t)) << "24 accumulators beside 3 steps of 12 rows";
  tile.row_count = 4, tile.row2_count = 1;
  EXPECT_TRUE(fits_unrolled(nest, tile, 7, 3, t));
  const Tile along{.vector = 4, .rows = 3, .rows2 = 1, .lanes = 16, .row_count = 8, .row2_count = 2};
  EXPECT_TRUE(fits_unrolled(nest, along, 7, 3, t)) << "points of one row of the image are neighbours";
}

TEST(RowsInnermost, TheLargerOperandIsReadOnce) {
  const Target t = machine();
  const Tile tile{.vector = 1, .rows = 0, .lanes = 16, .vectors = 2, .row_count = 12};
  EXPECT_TRUE(rows_innermost(product(64, 4096, 2048), tile, t));
  EXPECT_FALSE(rows_innermost(product(4096, 64, 512), tile, t)) << "the cache holds all panels";
}

TEST(RowsInnermost, RowsOfTwoAxesPassByAPanelTogether) {
  // The rows of 4 × 4 points, as two axes: one tile along the first of them would not read the panels again.
  const Target t = machine();
  Nest nest = contraction({4, 4, 4096, 2048}, {0, 1, 2}, {{0, 1, 3}, {3, 2}});
  const Tile tile{
      .vector = 2, .rows = 1, .rows2 = 0, .lanes = 16, .vectors = 3, .row_count = 4, .row2_count = 2};
  EXPECT_EQ(innermost_rows(nest, tile), (std::vector<int>{0, 1}));
  EXPECT_TRUE(rows_innermost(nest, tile, t));
  nest.loads[1] = access({4, 2048, 4096}, {0, 3, 2}, 4);  // a matrix for each of the second rows
  EXPECT_EQ(innermost_rows(nest, tile), (std::vector<int>{1}));
}

TEST(RowsInnermost, NotWhereEachPieceOfTheResultIsAPageAway) {
  Target t = machine();
  t.edit()->l2_bytes = 2 << 20;
  const Tile tile{.vector = 1, .rows = 0, .lanes = 16, .vectors = 2, .row_count = 12};
  EXPECT_FALSE(rows_innermost(product(1500, 1500, 64), tile, t)) << "9 MB in pieces of 128 bytes";
  Nest heads = contraction({4, 1500, 1500, 64}, {0, 1, 2}, {{0, 1, 3}, {0, 3, 2}});
  const Tile of_heads{.vector = 2, .rows = 1, .lanes = 16, .vectors = 2, .row_count = 12};
  EXPECT_FALSE(rows_innermost(heads, of_heads, t)) << "one head is read again, not all";
  EXPECT_TRUE(rows_innermost(product(300, 1500, 64), tile, t)) << "the result stays in the second cache";
  EXPECT_TRUE(rows_innermost(product(1500, 3000, 6000), tile, t))
      << "the matrix would be read again and again";
}

/// C[b, m, n] += A[b, m, k] * B[k, n]; iterators b, m, n, k.
Nest batch_of_products(int64_t b, int64_t m, int64_t n, int64_t k, DataType type = f32) {
  Nest out;
  out.extent = {b, m, n, k}, out.spatial = {0, 1, 2}, out.reduce = {3};
  out.write = access({b, m, n}, {0, 1, 2}, 4);
  out.loads = {access({b, m, k}, {0, 1, 3}, 4, type), access({k, n}, {3, 2}, 4, type)};
  return out;
}

TEST(BatchOfAnySize, LeavesTheChoicesForOneProduct) {
  Target t = machine();
  auto same = [](const Tile& a, const Tile& b) {
    return std::tuple(a.vector, a.rows, a.rows2, a.lanes, a.vectors, a.row_count, a.row2_count) ==
           std::tuple(b.vector, b.rows, b.rows2, b.lanes, b.vectors, b.row_count, b.row2_count);
  };
  const Nest one = batch_of_products(1, 128, 4096, 2048), any = batch_of_products(kUnknown, 128, 4096, 2048);
  const Tile tile = choose_tile(one, t);
  EXPECT_TRUE(same(choose_tile(any, t), tile)) << "rows of two products would leave one alone half empty";
  EXPECT_EQ(rows_innermost(any, tile, t), rows_innermost(one, tile, t));
  EXPECT_TRUE(rows_innermost(any, tile, t)) << "the matrix is read once for each product";
  EXPECT_EQ(stream_ahead(any, any.loads[1], tile, 16, t), stream_ahead(one, one.loads[1], tile, 16, t));
  EXPECT_EQ(any.instances_of_one(), one.instances(false));
  EXPECT_EQ(product(kUnknown, 128, 64).instances_of_one(), kUnknown) << "rows are no batch";
  const Grouped pairs{.sum = 3, .lanes = 2, .group = 2};
  for (const int64_t m : {4, 512}) {  // rows that read each group
    const Nest known = batch_of_products(1, m, 64, 64, u8), free = batch_of_products(kUnknown, m, 64, 64, u8);
    EXPECT_EQ(worth_groups(free, free.loads[1], pairs), worth_groups(known, known.loads[1], pairs));
  }
  const Tile wide{.vector = 2, .rows = 1, .lanes = 16, .vectors = 2, .row_count = 12};
  const auto blocks = sum_blocks(batch_of_products(kUnknown, 1536, 512, 8192), wide, -1, 1, t),
             known = sum_blocks(batch_of_products(1, 1536, 512, 8192), wide, -1, 1, t);
  ASSERT_TRUE(blocks && known);
  EXPECT_EQ(blocks->length, known->length);
  t.edit()->l2_bytes = 2 << 20, t.edit()->l3_bandwidth = 8;
  const DataType i8 = DataType::int_(8);
  const Tile rows{.vector = 2, .rows = 1, .lanes = 16, .vectors = 2, .row_count = 32};
  EXPECT_EQ(row_group(batch_of_products(kUnknown, 2048, 2048, 2048, i8), rows, 3, 1e7, t),
            row_group(batch_of_products(1, 2048, 2048, 2048, i8), rows, 3, 1e7, t));
}

TEST(SumBlocks, FitTheCacheAndDivideTheSum) {
  const Target t = machine();
  const Nest nest = product(1536, 512, 8192);
  const Tile tile{.vector = 1, .rows = 0, .lanes = 16, .vectors = 2, .row_count = 12};
  const auto blocks = sum_blocks(nest, tile, -1, 1, t);
  ASSERT_TRUE(blocks);
  EXPECT_EQ(blocks->axis, 2);
  EXPECT_EQ(8192 % blocks->length, 0);
  EXPECT_LE(blocks->length * tile.width() * 4 * blocks->vector_tiles, t->l2_bytes);
  EXPECT_FALSE(sum_blocks(product(1536, 512, 64), tile, -1, 1, t)) << "a short sum stays in the cache";
  EXPECT_FALSE(sum_blocks(product(24, 512, 8192), tile, -1, 1, t)) << "few rows read a panel again";
  EXPECT_FALSE(sum_blocks(product(1536, 512, 8191), tile, -1, 1, t)) << "a prime has no blocks";
}

TEST(RowGroup, StaysInTheSecondCacheWhileAllPanelsPassBy) {
  // 2048 rows of 2048 bytes and as many columns, on the cycles that AMX takes; both are 4 MB.
  Target t = machine();
  t.edit()->l2_bytes = 2 << 20;
  t.edit()->l3_bandwidth = 8;
  const Tile tile{.vector = 1, .rows = 0, .lanes = 16, .vectors = 2, .row_count = 32};
  const Nest nest = product(2048, 2048, 2048, DataType::int_(8));
  const double cycles = 1e7;
  EXPECT_EQ(row_group(nest, tile, 2, cycles, t), 8) << "256 rows are a quarter of the cache";
  EXPECT_EQ(row_group(nest, tile, 2, 1e9, t), 0) << "multiplications take so long that reads do not show";
  EXPECT_EQ(row_group(product(512, 512, 512, DataType::int_(8)), tile, 2, cycles / 64, t), 0)
      << "all panels stay there";
  EXPECT_EQ(row_group(product(128, 8192, 2048, DataType::int_(8)), tile, 2, cycles / 4, t), 0)
      << "so do all rows";
  t.edit()->l3_bandwidth = 64;
  EXPECT_EQ(row_group(nest, tile, 2, 1e8, t), 0) << "the third cache is as fast as the second";
}

TEST(PaddedRows, BlocksLeaveTasksForTheCores) {
  const Target t = machine(512, 32, 4);
  const PaddedRows rows{.steps = 56, .stride = 1, .window = 3, .row_bytes = 4096, .others = 4};
  const int64_t block = rows_of_block(rows, t);
  ASSERT_GT(block, 0);
  EXPECT_EQ(56 % block, 0);
  EXPECT_GE(56 / block * rows.others, tasks_wanted(t));
  PaddedRows wide = rows;
  wide.row_bytes = 1 << 20;
  EXPECT_EQ(rows_of_block(wide, t), 0) << "three rows do not fit the cache";
}

TEST(PanelVectors, FollowTheTile) {
  EXPECT_GE(panel_vectors(480, 960, 512, 16, 4, machine()), 2);
  EXPECT_EQ(panel_vectors(480, 16, 512, 16, 4, machine()), 1) << "a panel wider than the matrix is empty";
  // Weights that stay in the first cache are one panel for rows of any number, which may be few.
  EXPECT_EQ(panel_vectors(kUnknown, 72, 24, 16, 4, machine()), 5);
  EXPECT_EQ(panel_vectors(kUnknown, 64, 32, 16, 4, machine()), 4);
  // Where each element that lanes share is a load of its own, two vectors share six of them.
  Target avx2 = machine(256, 16);
  avx2.edit()->features = {"avx", "avx2", "fma"};
  EXPECT_EQ(panel_vectors(1024, 1024, 1024, 8, 4, avx2), 2);
}

TEST(ChannelBlocks, AreVectorsOrHalvesThatDivide) {
  const Target wide = machine(512), narrow = machine(128, 16);
  EXPECT_EQ(channel_block(64, f32, wide), 16);
  EXPECT_EQ(channel_block(24, f32, wide), 8);
  EXPECT_EQ(channel_block(12, f32, wide), 0);
  EXPECT_EQ(channel_block(12, f32, narrow), 4);
  EXPECT_EQ(channel_block(6, f32, narrow), 0) << "half a short vector is no block";
  EXPECT_EQ(filled_channels(64, Filled::products, wide), 64);
  EXPECT_EQ(filled_channels(126, Filled::products, wide), 128);
  EXPECT_EQ(filled_channels(20, Filled::products, wide), 20);
  EXPECT_EQ(filled_channels(24, Filled::products, wide), 32) << "in place of three halves of a vector";
  EXPECT_EQ(filled_channels(40, Filled::products, wide), 48);
  EXPECT_EQ(filled_channels(8, Filled::products, wide), 8);
  EXPECT_EQ(filled_channels(6, Filled::products, narrow), 6) << "half a short vector is no block";
  EXPECT_EQ(filled_channels(20, Filled::reads, wide), 32);
  EXPECT_EQ(filled_channels(3, Filled::reads, wide), 3) << "more would be added than there are";
  EXPECT_EQ(grouped_channel_block(48, f32, wide), 16);
  EXPECT_EQ(grouped_channel_block(24, f32, wide), 8);
  EXPECT_EQ(grouped_channel_block(3, f32, wide), 4);
}

/// A machine with matrix registers, as its record says.
Target matrices() {
  Target t = machine(512);
  t.edit()->features = {"avx512f", "avx512_vnni", "avx512_bf16", "amx_tile", "amx_int8", "amx_bf16"};
  return t;
}

TEST(ChannelBlocks, FillRowsOfMatrixRegisters) {
  const Target t = matrices();
  const DataType bf16 = DataType::bfloat16();
  EXPECT_EQ(channel_block(128, u8, t), 64);
  EXPECT_EQ(channel_block(96, u8, t), 32);
  EXPECT_EQ(channel_block(48, u8, t), 16);
  EXPECT_EQ(channel_block(64, bf16, t), 32);
  EXPECT_EQ(channel_block(64, f32, t), 16);
  EXPECT_EQ(filled_channels(24, Filled::matrices, t), 32);
  EXPECT_EQ(filled_channels(20, Filled::matrices, t), 20);
  EXPECT_EQ(joined_groups({32, 4, 4, u8, 0}, t), 16);
  EXPECT_EQ(joined_groups({16, 32, 32, u8, 0}, t), 2);
  EXPECT_EQ(joined_groups({16, 64, 64, u8, 0}, t), 1);
  EXPECT_EQ(joined_groups({13, 8, 8, bf16, 16}, t), 2) << "as the data lies, the last one filled up";
  EXPECT_EQ(joined_groups({55, 8, 8, bf16, 32}, t), 4);
  EXPECT_EQ(joined_groups({3, 2, 2, bf16, 0}, t), 1) << "most products would be with zeros";
  EXPECT_EQ(joined_groups({32, 4, 4, u8, 0}, machine(512)), 4) << "a vector";
  EXPECT_EQ(joined_groups({13, 8, 8, u8, 0}, machine(512)), 2);
  Target dots = machine(512);
  EXPECT_EQ(joined_groups({32, 4, 4, bf16, 0}, dots), 1) << "no instruction multiplies them";
  dots.edit()->features = {"avx512f", "avx512vl", "avx512_bf16"};
  EXPECT_EQ(joined_groups({32, 4, 4, bf16, 0}, dots), 4);
  EXPECT_EQ(joined_groups({13, 8, 8, bf16, 0}, dots), 2) << "the last one filled up";
  dots.edit()->bf16_dots = 0.5;
  EXPECT_EQ(joined_groups({32, 4, 4, bf16, 0}, dots), 1) << "multiply-adds of float32 are as fast";
  EXPECT_EQ(grouped_channel_block(3, u8, t), 4) << "one group of bytes";
  EXPECT_EQ(grouped_channel_block(3, bf16, t), 2) << "groups of two";
}

/// Σ A[m, k] · B[k, n] of bytes, B in panels of 32 in groups of four.
Nest bytes_in_panels(int64_t m, int64_t n, int64_t k) {
  auto access = [](std::vector<int64_t> stride, Array<PrimExpr> shape, DataType t) {
    Access a;
    a.buffer = tir::buffer("x", shape, t);
    a.stride = std::move(stride);
    a.panel.assign(3, 0), a.panel_stride.assign(3, 0);
    return a;
  };
  Nest nest;
  nest.extent = {m, n, k}, nest.spatial = {0, 1}, nest.reduce = {2};
  nest.write = access({n, 1, 0}, {PrimExpr(m), PrimExpr(n)}, i32);
  nest.loads = {access({k, 0, 1}, {PrimExpr(m), PrimExpr(k)}, u8),
                access({0, kIrregular, kIrregular}, {PrimExpr(n * k)}, DataType::int_(8))};
  nest.loads[1].panel = {0, 32, 4}, nest.loads[1].panel_stride = {0, 4, 1};
  return nest;
}

TEST(MatrixTiles, FillRegistersWhereTheyCan) {
  const MatrixOperands o{1, 2, 1, 0, 4};
  const MatrixTile square = choose_matrix_tile(bytes_in_panels(256, 256, 512), o, matrices());
  ASSERT_TRUE(square);
  EXPECT_EQ(square.height, 16);
  EXPECT_EQ(square.steps, 64);
  EXPECT_EQ(square.tile.row_count, 32) << "two registers of each operand serve four of sums";
  EXPECT_EQ(square.tile.width(), 32);
  EXPECT_EQ(choose_matrix_tile(bytes_in_panels(49, 256, 512), o, matrices()).height, 13)
      << "13 cycles for 13 rows, where 7 rows take 9";
  const MatrixTile prime = choose_matrix_tile(bytes_in_panels(53, 256, 512), o, matrices());
  ASSERT_TRUE(prime);
  EXPECT_EQ(ceil_div(53, prime.tile.row_count) * prime.tile.row_count, 56) << "three rows are computed twice";
  EXPECT_FALSE(choose_matrix_tile(bytes_in_panels(3, 256, 512), o, matrices())) << "too few for a register";
  EXPECT_EQ(choose_matrix_tile(bytes_in_panels(256, 256, 48), o, matrices()).steps, 48);
  EXPECT_FALSE(choose_matrix_tile(bytes_in_panels(256, 256, 512), o, machine(512)));
}

TEST(MatrixTiles, ReadLanesThatDoNotStayNearSeldom) {
  // 7×7 places, a row of each in a register: of 128 channels in panels of 64, all steps are 64 KB or more.
  auto image = [](int64_t k) {
    Nest nest = bytes_in_panels(7, 64, k);
    nest.extent = {7, 64, k, 7}, nest.spatial = {0, 3, 1};
    nest.write.stride = {64, 1, 0, 448};
    nest.loads[0].stride = {k, 0, 1, 7 * k}, nest.loads[1].stride.push_back(0);
    for (Access* a : {&nest.write, &nest.loads[0], &nest.loads[1]})
      a->panel.push_back(0), a->panel_stride.push_back(0);
    nest.loads[1].panel[1] = 64;
    return nest;
  };
  const MatrixOperands o{1, 2, 1, 0, 4};
  const MatrixTile far = choose_matrix_tile(image(4096), o, matrices()),
                   near = choose_matrix_tile(image(64), o, matrices());
  EXPECT_EQ(far.tile.row2_count, 2) << "two columns share what is read";
  EXPECT_EQ(near.tile.row2_count, 1) << "no column is computed twice";
}

TEST(Batches, PassByABlockOfWeightsWhereThatReadsLess) {
  // y[n, b, m, l] = Σ x[n, m, k] · w[b, k, l], blocks of 16 lanes.
  auto batch = [](int64_t n, int64_t b, int64_t m, int64_t k) {
    return contraction({n, b, m, 16, k}, {0, 1, 2, 3}, {{0, 2, 4}, {1, 4, 3}});
  };
  const Tile tile{.vector = 3, .rows = 2, .lanes = 16, .vectors = 1, .row_count = 7};
  const Target t = machine();
  EXPECT_EQ(block_iterator(batch(4, 32, 49, 4608), batch(4, 32, 49, 4608).loads[1], 3), 1);
  EXPECT_EQ(blocks_outermost(batch(4, 32, 7, 4608), tile, t), 1) << "9 MB of weights, 0.5 MB of data";
  EXPECT_EQ(blocks_outermost(batch(1, 32, 7, 4608), tile, t), -1) << "one image walks them once";
  EXPECT_EQ(blocks_outermost(batch(4, 4, 3136, 64), tile, t), -1) << "the weights stay near";
  EXPECT_EQ(blocks_outermost(batch(4, 32, 784, 1152), tile, t), -1) << "the data would be read 32 times";
  EXPECT_EQ(blocks_outermost(batch(kUnknown, 32, 7, 4608), tile, t), 1) << "where it is more than one image";
  EXPECT_EQ(blocks_outermost(batch(kUnknown, 32, kUnknown, 4608), tile, t), 1) << "planes are small by then";
  EXPECT_EQ(blocks_outermost(batch(kUnknown, 4, kUnknown, 64), tile, t), -1);
  EXPECT_EQ(blocks_outermost(batch(kUnknown, 32, 784, 1152), tile, t), -1);
}

TEST(Parts, ThatRowsOfAnyNumberReadAgainStayInTheSecondCache) {
  // y[b, m, l] = Σ x[m, k] · w[b, k, l], blocks of 16 lanes.
  const Nest nest = contraction({32, kUnknown, 16, 4608}, {0, 1, 2}, {{1, 3}, {0, 3, 2}});
  EXPECT_LE(choose_tile(nest, machine()).row2_count * 16 * 4608 * 4, machine()->l2_bytes * 3 / 4);
}

TEST(Hints, RunAheadByAllBlocksOfATile) {
  // y[b, m, l] = Σ x[m, k] · w[b, k, l], blocks of 16 lanes.
  const Nest nest = contraction({32, 49, 16, 1024}, {0, 1, 2}, {{1, 3}, {0, 3, 2}});
  auto ahead = [&](int64_t blocks) {
    const Tile tile{.vector = 2, .rows = 1, .rows2 = 0, .lanes = 16, .row_count = 7, .row2_count = blocks};
    return stream_ahead(nest, nest.loads[1], tile, 7, machine());
  };
  EXPECT_EQ(ahead(1), 16 * 1024);
  EXPECT_EQ(ahead(2), 2 * 16 * 1024);
  // Rows of any number.
  const Nest any = contraction({32, kUnknown, 16, 1024}, {0, 1, 2}, {{1, 3}, {0, 3, 2}});
  const Tile tile{.vector = 2, .rows = 1, .rows2 = 0, .lanes = 16, .row_count = 7, .row2_count = 2};
  EXPECT_EQ(stream_ahead(any, any.loads[1], tile, kUnknown, machine()), 2 * 16 * 1024);
}

TEST(Parts, OfWeightsThatLeaveTheCachePassByAllRows) {
  const Tile tile{.vector = 4, .rows = 3, .lanes = 16, .vectors = 1, .row_count = 14};
  EXPECT_TRUE(parts_outermost(window(1, 28, 28, 40, 16, 3), tile, machine())) << "1.1 MB";
  EXPECT_FALSE(parts_outermost(window(1, 28, 28, 4, 16, 3), tile, machine())) << "0.1 MB";
}

TEST(Worth, Packing) {
  const Target t = machine();
  EXPECT_TRUE(worth_packing(512, 4 * t->l2_bytes, t));
  EXPECT_FALSE(worth_packing(8, 4 * t->l2_bytes, t)) << "few rows read it";
  EXPECT_FALSE(worth_packing(0, 4 * t->l2_bytes, t)) << "it is not known how many";
  EXPECT_FALSE(worth_packing(512, t->l2_bytes / 2, t)) << "the cache holds it as it lies";
}

TEST(Worth, Threads) {
  EXPECT_FALSE(worth_parallel(1000, machine()));
  EXPECT_TRUE(worth_parallel(1e6, machine()));
  Target slow = machine();
  slow.edit()->fork_ns *= 1000;
  EXPECT_FALSE(worth_parallel(1e6, slow));
}

// ---------------------------------------------------------------- branches
Target cores(int64_t n) { return machine(512, 32, n); }

TEST(Branches, TooLittleForThreadsAloneSharesThem) {
  const std::vector<Branch> small{{15e3, 1}, {15e3, 16}, {3e3, 1}};
  EXPECT_FALSE(side_by_side(small, cores(1)));
  const auto loop = side_by_side(small, cores(2));
  ASSERT_TRUE(loop);
  EXPECT_EQ(time_apart(small, cores(2)), 15e3 + (4096 + 7.5e3) + 3e3);
  EXPECT_LT(loop->ns, 25e3);
  EXPECT_GE(loop->ns, 16.5e3);  // no less than their share
  // Together too little still.
  EXPECT_FALSE(side_by_side(std::vector<Branch>{{9e3, 1}, {9e3, 1}}, cores(2)));
}

TEST(Branches, WhatUsesAllCoresStaysAlone) {
  EXPECT_FALSE(side_by_side(std::vector<Branch>{{1e6, 64}, {1e6, 64}}, cores(2)));
  EXPECT_FALSE(side_by_side(std::vector<Branch>{{1e6, 64}, {5e3, 1}}, cores(2)));
  // Three parts for two cores do not; beside other work they do.
  EXPECT_TRUE(side_by_side(std::vector<Branch>{{90e3, 3}, {30e3, 8}}, cores(2)));
  // One piece as long as the rest together.
  const std::vector<Branch> piece{{60e3, 1}, {60e3, 32}};
  const auto loop = side_by_side(piece, cores(2));
  ASSERT_TRUE(loop);
  EXPECT_EQ(loop->shares[0].branch, 0u) << "what cannot be cut comes first";
  EXPECT_LT(loop->ns, 75e3);
}

TEST(Branches, UnitsDoEveryPartOnce) {
  for (const auto& [ns, parts] : {std::pair(40e3, 7), {40e3, 1}, {40e3, 1000}, {200.0, 12}, {1e6, 6}})
    for (bool always : {false, true}) {
      const std::vector<Branch> both{{ns, parts}, {30e3, 5}};
      const auto loop = side_by_side(both, cores(2), always);
      if (!loop) continue;
      for (const Share& s : loop->shares) {
        const int64_t parts = both[s.branch].parts;
        EXPECT_TRUE(s.units % parts == 0 || parts % s.units == 0) << s.units << " units of " << parts;
      }
      EXPECT_GE(loop->ns * 2, ns + 30e3);
    }
}

}  // namespace
}  // namespace tenon::cost
