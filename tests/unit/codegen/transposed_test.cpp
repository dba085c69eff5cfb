// SPDX-License-Identifier: Apache-2.0
// Rows of what lies in columns: tiles that are turned in registers, whole ones and those at an edge, of every
// width of elements, copied and computed with, on processors with masks and without.
#include <fmt/format.h>

#include "codegen/transposed_loop.h"
#include "ir/tir.h"
#include "kernels.h"
#include "target/target.h"

namespace tenon::test {
namespace {

using namespace tir;

struct Shape {
  int64_t rows, columns, tile_rows, tile_columns;
};

/// o[i, j] = f(a[j, i]) in tiles; both sizes may be symbols.
Program transposition(const Shape& s, DataType t, bool symbolic, bool doubled) {
  const Buffer a = flat("a", s.rows * s.columns, t), o = flat("o", s.rows * s.columns, t);
  const VarRef n = var("n"), m = var("m"), i0 = var("i0"), j0 = var("j0"), i = var("i");
  const PrimExpr rows = symbolic ? PrimExpr(n) : PrimExpr(s.rows),
                 columns = symbolic ? PrimExpr(m) : PrimExpr(s.columns);
  const PrimExpr row = i0 * PrimExpr(s.tile_rows), column = j0 * PrimExpr(s.tile_columns);
  const bool cut = symbolic || s.columns % s.tile_columns;
  const PrimExpr lanes = make<Ramp>(column, PrimExpr(int64_t(1)), s.tile_columns);
  const PrimExpr mask = cut ? make<LT>(lanes, make<Broadcast>(columns, s.tile_columns)) : PrimExpr();
  const PrimExpr from = make<Ramp>(row + i + column * rows, rows, s.tile_columns),
                 to = make<Ramp>((row + i) * columns + column, PrimExpr(int64_t(1)), s.tile_columns);
  PrimExpr value = load(a, {from}, mask);
  if (doubled) value = value + value;
  const PrimExpr here =
      symbolic || s.rows % s.tile_rows ? min(rows - row, PrimExpr(s.tile_rows)) : PrimExpr(s.tile_rows);
  const Stmt body = for_(i, 0, here, store(o, value, {to}, mask));
  return program("turn", {a, o}, symbolic ? std::vector<VarRef>{n, m} : std::vector<VarRef>{},
                 for_(i0, 0, ceildiv(rows, PrimExpr(s.tile_rows)),
                      for_(j0, 0, ceildiv(columns, PrimExpr(s.tile_columns)), body)));
}

const Shape kShapes[] = {{64, 16, 32, 16}, {37, 21, 16, 16}, {16, 5, 16, 16}, {70, 9, 64, 8}};

TEST(Transposed, TilesOfEveryWidthAreThoseOfTheLoop) {
  bool symbolic = false;
  for (const DataType t : {u8, DataType::int_(16), f32, boolean})
    for (const Shape& s : kShapes) {
      SCOPED_TRACE(fmt::format("{} of {}x{}", to_string(t), s.rows, s.columns));
      std::vector<int64_t> sizes;
      if (symbolic) sizes = {s.rows, s.columns};
      expect_same(transposition(s, t, symbolic, t != boolean && !symbolic),
                  {random_array({s.rows * s.columns}, t, 5), NDArray::zeros({s.rows * s.columns}, t)}, sizes,
                  0, false);
      symbolic = !symbolic;
    }
}

TEST(Transposed, EachElementIsInItsPlaceWithMasksAndWithout) {
  for (const char* cpu : {"llvm", "llvm -mcpu=x86-64-v3", "llvm -mcpu=x86-64-v2"}) {
    const Target target = parse_target(cpu);
    for (const DataType t : {u8, i32})
      for (const Shape& s : {kShapes[1], kShapes[3]})
        for (const bool symbolic : {false, true}) {
          const NDArray a = random_array({s.rows * s.columns}, t, 9),
                        o = NDArray::zeros({s.rows * s.columns}, t);
          std::vector<int64_t> sizes;
          if (symbolic) sizes = {s.rows, s.columns};
          ASSERT_EQ(run_llvm(transposition(s, t, symbolic, false).lowered, {a, o}, sizes, 2, target), 0);
          for (int64_t i = 0; i < s.rows; ++i)
            for (int64_t j = 0; j < s.columns; ++j)
              ASSERT_EQ(o.element_int(i * s.columns + j), a.element_int(j * s.rows + i))
                  << cpu << " " << to_string(t) << " " << s.rows << "x" << s.columns << " at " << i << ", "
                  << j;
        }
  }
}

TEST(Transposed, FloatsAreGatheredWhereTheProcessorGathersFast) {
  const IRModule m = module_of({transposition({64, 16, 16, 16}, f32, false, false).lowered});
  for (const auto& [cpu, gathers] :
       {std::pair("znver4", false), {"znver5", false}, {"icelake-server", true}}) {
    const std::string text = codegen::llvm_assembly(m, parse_target(std::string("llvm -mcpu=") + cpu));
    EXPECT_EQ(text.find("vgather") != text.npos, gathers) << cpu << text;
  }
}

TEST(Transposed, RowsOfAnEdgeThatIsNotProvedToHaveSomeAreTurnedToo) {
  const Buffer a = flat("a", 37 * 21, f32), o = flat("o", 37 * 21, f32);
  const VarRef n = var("n"), i0 = var("i0"), i = var("i");
  const PrimExpr row = i0 * PrimExpr(16), lanes = make<Ramp>(PrimExpr(0), PrimExpr(int64_t(1)), int64_t(16));
  const PrimExpr from = make<Ramp>(row + i, PrimExpr(n), int64_t(16)),
                 to = make<Ramp>((row + i) * PrimExpr(16), PrimExpr(int64_t(1)), int64_t(16));
  const Stmt rows =
      for_(i, 0, max(min(PrimExpr(n) - row, PrimExpr(16)), PrimExpr(0)), store(o, load(a, {from}), {to}));
  EXPECT_TRUE(codegen::transposed_loop(*rows.as<For>()));
  // The last tile has no rows.
  expect_same(program("rows", {a, o}, {n}, for_(i0, 0, 4, rows)),
              {random_array({37 * 21}, f32, 7), NDArray::zeros({37 * 21}, f32)}, {37}, 0, false);
}

TEST(Transposed, WhatAConditionKeepsFromBeingReadStaysUnread) {
  // Columns of one half, or of the other, which lies at the place of the first less its size.
  const Buffer a = flat("a", 512, u8), b = flat("b", 512, u8), o = flat("o", 1024, u8);
  const VarRef half = var("half"), i = var("i");
  const PrimExpr at = make<Ramp>(half * PrimExpr(512) + i, PrimExpr(int64_t(32)), int64_t(16)),
                 other =
                     make<Ramp>(half * PrimExpr(512) + i - PrimExpr(512), PrimExpr(int64_t(32)), int64_t(16)),
                 to = make<Ramp>(half * PrimExpr(512) + i * PrimExpr(16), PrimExpr(int64_t(1)), int64_t(16));
  const PrimExpr value = if_then_else(lt(half, PrimExpr(1)), load(a, {at}), load(b, {other}));
  const Stmt rows = for_(i, 0, 32, store(o, value, {to}));
  EXPECT_FALSE(codegen::transposed_loop(*rows.as<For>()));
  const Stmt sum = for_(i, 0, 32, store(o, load(a, {at}) + value, {to}));
  EXPECT_EQ(codegen::transposed_loop(*sum.as<For>())->loads.size(), 1u);
  expect_same(program("halves", {a, b, o}, {}, for_(half, 0, 2, rows)),
              {random_array({512}, u8, 3), random_array({512}, u8, 4), NDArray::zeros({1024}, u8)}, {}, 0,
              false);
}

TEST(Transposed, InPlaceEachRowIsReadBehindTheStoresOfThoseBefore) {
  const Buffer a = flat("a", 512, u8);
  const VarRef i = var("i");
  const PrimExpr from = make<Ramp>(i, PrimExpr(int64_t(32)), int64_t(16)),
                 to = make<Ramp>(i * PrimExpr(int64_t(32)), PrimExpr(int64_t(1)), int64_t(16));
  expect_same(program("in_place", {a}, {}, for_(i, 0, 16, store(a, load(a, {from}), {to}))),
              {random_array({512}, u8, 3)}, {}, 0, false);
}

}  // namespace
}  // namespace tenon::test
