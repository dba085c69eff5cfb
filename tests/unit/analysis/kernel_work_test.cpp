// SPDX-License-Identifier: Apache-2.0
// kernel_work against counts made by hand.
#include <gtest/gtest.h>

#include "analysis/kernel_work.h"
#include "ir/intrinsic.h"
#include "te/te.h"

namespace tenon {
namespace {

using namespace tir;

PrimExpr n(int64_t v) { return PrimExpr::int_imm(v, i64); }

TEST(KernelWork, AProductCountsEachMultiplyAndAddOnce) {
  const te::Tensor a = te::placeholder({n(8), n(32)}, f32, "a"),
                   b = te::placeholder({n(32), n(16)}, f32, "b");
  const IterVar k = te::reduce_axis(range(n(0), n(32)));
  const te::Tensor c = te::compute(
      {n(8), n(16)},
      [&](const Array<VarRef>& v) { return te::sum(a({v[0], k->var}) * b({k->var, v[1]}), {k}); }, "c");
  const auto work = kernel_work(te::create_prim_func({a, b, c}));
  ASSERT_TRUE(work);
  EXPECT_EQ(work->flop, 2 * 8 * 16 * 32);
  EXPECT_EQ(work->bytes, 4 * (8 * 32 + 32 * 16 + 8 * 16));
}

TEST(KernelWork, SumsOfProductsOfNarrowTypesAreCountedApart) {
  for (const DataType type : {u8, DataType::bfloat16()}) {
    const DataType wide = type.is_integer() ? i32 : f32;
    const te::Tensor a = te::placeholder({n(8), n(32)}, type, "a"),
                     b = te::placeholder({n(32), n(16)}, type.is_integer() ? DataType::int_(8) : type, "b");
    const IterVar k = te::reduce_axis(range(n(0), n(32)));
    const te::Tensor c = te::compute(
        {n(8), n(16)},
        [&](const Array<VarRef>& v) {
          const PrimExpr padded =
              if_then_else(lt(v[0], n(7)), cast(wide, a({v[0], k->var})), cast(wide, n(0)));
          return te::sum(padded * cast(wide, b({k->var, v[1]})), {k});
        },
        "c");
    const te::Tensor y =
        te::compute({n(8), n(16)}, [&](const Array<VarRef>& v) { return c({v[0], v[1]}) + c({v[0], v[1]}); });
    const auto work = kernel_work(te::create_prim_func({a, b, y}));
    ASSERT_TRUE(work);
    EXPECT_EQ(work->flop, 2 * 8 * 16 * 32 + 8 * 16);
    EXPECT_EQ(type.is_integer() ? work->dot_bytes : work->dot_bf16, 2 * 8 * 16 * 32);
    EXPECT_EQ(type.is_integer() ? work->dot_bf16 : work->dot_bytes, 0);
  }
}

TEST(KernelWork, IndicesAndConditionsAreNotArithmetic) {
  const te::Tensor x = te::placeholder({n(100)}, f32, "x");
  const te::Tensor y = te::compute(
      {n(50)},
      [&](const Array<VarRef>& v) {
        return select(lt(v[0], n(10)), x({PrimExpr(v[0]) * 2}) * 3.0f, x({PrimExpr(v[0]) + 1}));
      },
      "y");
  const auto work = kernel_work(te::create_prim_func({x, y}));
  ASSERT_TRUE(work);
  EXPECT_EQ(work->flop, 50);
  EXPECT_EQ(work->bytes, 4 * (100 + 50));
}

TEST(KernelWork, AGatherReadsWhatItTakesAndNoMore) {
  const te::Tensor table = te::placeholder({n(1000), n(16)}, f32, "table"),
                   at = te::placeholder({n(4)}, i64, "at");
  const te::Tensor y =
      te::compute({n(4), n(16)}, [&](const Array<VarRef>& v) { return table({at({v[0]}), v[1]}); }, "y");
  const auto work = kernel_work(te::create_prim_func({table, at, y}));
  ASSERT_TRUE(work);
  EXPECT_EQ(work->flop, 0);
  EXPECT_EQ(work->bytes, 4 * 4 * 16 + 8 * 4 + 4 * 4 * 16);
}

TEST(KernelWork, SymbolicSizesAreUnknown) {
  const VarRef size = var("n");
  const te::Tensor x = te::placeholder({size}, f32, "x");
  const te::Tensor y = te::compute({size}, [&](const Array<VarRef>& v) { return x({v[0]}) + 1.0f; }, "y");
  EXPECT_FALSE(kernel_work(te::create_prim_func({x, y})));
}

}  // namespace
}  // namespace tenon
