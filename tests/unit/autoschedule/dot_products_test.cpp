// SPDX-License-Identifier: Apache-2.0
// Contractions of narrow types: the default schedule finds the dot instructions that the target record names,
// in programs that know nothing of them, and computes what the program says.
#include "contractions.h"
#include "schedule/dot_intrin.h"

namespace tenon::testing {
namespace {

Target vnni() {
  return record("x86_64-unknown-linux-gnu",
                {"sse3", "ssse3", "sse4_1", "sse4_2", "avx", "avx2", "fma", "f16c", "avx512f", "avx512bw",
                 "avx512cd", "avx512dq", "avx512vl", "avx512_vnni", "avx512_bf16"},
                512, 32);
}
Target avx2() {
  return record("x86_64-unknown-linux-gnu",
                {"sse3", "ssse3", "sse4_1", "sse4_2", "avx", "avx2", "fma", "f16c"}, 256, 16);
}
Target avx2_vnni() {
  Target t = avx2();
  t.edit()->features.push_back("avx_vnni");
  return t;
}
Target neon() { return record("aarch64-unknown-linux-gnu", {"asimd", "asimddp", "i8mm", "bf16"}, 128, 32); }

/// ein"bhik,jkh->bihj" of bytes.
Program einsum() {
  Tensor a = te::placeholder({2, 3, 20, 24}, u8, "A"), b = te::placeholder({33, 24, 3}, i8, "B");
  tir::IterVar k = te::reduce_axis(tir::range(PrimExpr(0), PrimExpr(24)), "k");
  Tensor c = te::compute(
      {2, 20, 3, 33},
      [&](const Vars& v) {
        return te::sum(
            tir::cast(i32, a({v[0], v[2], v[1], k->var})) * tir::cast(i32, b({v[3], k->var, v[2]})), {k});
      },
      "C");
  return {"einsum", te::create_prim_func({a, b, c}), {}};
}
/// A window of 5 × 3 at every `step`-th place of a padded plane, rows in pairs: y[h, w, l] =
/// Σ x[step h + 2 r + t, w + s, l] · k[r, s, 2 l + t], the copy holding two rows by turns.
Program plane_by_turns(int64_t step) {
  const int64_t h = 10, w = 14, rows = (h - 1) * step + 6;
  Tensor x = te::placeholder({3, rows - 2, w, 16}, bf16, "X"), k = te::placeholder({3, 3, 3, 32}, bf16, "K");
  auto inside = [](const PrimExpr& e, int64_t size) {
    return tir::logical_and(tir::ge(e, PrimExpr(0)), tir::lt(e, PrimExpr(size)));
  };
  Tensor p = te::compute(
      {3, rows / step, w + 2, 32},
      [&](const Vars& v) {
        const PrimExpr y = v[1] * step + tir::floormod(v[3], PrimExpr(2)) - 1, z = v[2] - 1;
        return tir::if_then_else(tir::logical_and(inside(y, rows - 2), inside(z, w)),
                                 x({v[0], y, z, tir::floordiv(v[3], PrimExpr(2))}), tir::const_of(bf16, 0));
      },
      "pairs");
  auto axis = [](int64_t n, const char* name) {
    return te::reduce_axis(tir::range(PrimExpr(0), PrimExpr(n)), name);
  };
  tir::IterVar r = axis(3, "r"), s = axis(3, "s"), t = axis(2, "t");
  Tensor y = te::compute(
      {3, h, w, 16},
      [&](const Vars& v) {
        const PrimExpr at = v[3] * 2 + t->var;
        return te::sum(tir::cast(f32, p({v[0], v[1] + r->var * (2 / step), v[2] + s->var, at})) *
                           tir::cast(f32, k({v[0], r->var, s->var, at})),
                       {r, s, t});
      },
      "Y");
  return {"plane by turns", te::create_prim_func({x, k, y}), {}};
}

/// Keys of float32 are turned and rounded in front of a product with queries: a (m, k) · round(b (n, k))ᵀ.
Program rounded_keys(int64_t m, int64_t n, int64_t k) {
  Tensor a = te::placeholder({m, k}, bf16, "A"), b = te::placeholder({n, k}, f32, "B");
  Tensor turned = te::compute({k, n}, [&](const Vars& v) { return b({v[1], v[0]}); }, "turned");
  Tensor rounded =
      te::compute({k, n}, [&](const Vars& v) { return tir::cast(bf16, turned({v[0], v[1]})); }, "rounded");
  tir::IterVar r = te::reduce_axis(tir::range(PrimExpr(0), PrimExpr(k)), "r");
  Tensor c = te::compute(
      {m, n},
      [&](const Vars& v) {
        return te::sum(tir::cast(f32, a({v[0], r->var})) * tir::cast(f32, rounded({r->var, v[1]})), {r});
      },
      "C");
  return {"rounded keys", te::create_prim_func({a, b, c}), {}};
}

TEST(DotProducts, TakeOperandsThatAreRoundedForThem) {
  expect_scheduled(rounded_keys(64, 48, 32), vnni(), "dot2.bfloat16_bfloat16");
}

TEST(DotProducts, FoundAtOddSizes) {
  for (auto [m, n, k] : std::vector<std::array<int64_t, 3>>{{40, 48, 32}, {33, 35, 30}, {34, 33, 7}}) {
    expect_scheduled(product(m, n, k, u8, i8), vnni(), "dot4.uint8_int8");
    expect_scheduled(product(m, n, k, i8, u8), vnni(), "dot4.int8_uint8");
    expect_scheduled(product(m, n, k, i8, i8), avx2_vnni(), "dot4.int8_int8");
    expect_scheduled(product(m, n, k, u8, u8), avx2(), "dot2.uint8_uint8");
    expect_scheduled(product(m, n, k, i8, i8, false, false), neon(), "dot4.int8_int8.x4");
  }
  for (auto [m, n, k] :
       std::vector<std::array<int64_t, 3>>{{100, 35, 18}, {97, 35, 5}})  // the last: A is only filled up
    expect_scheduled(product(m, n, k, bf16, bf16), vnni(), "dot2.bfloat16_bfloat16");
  expect_scheduled(product(33, 35, 30, u8, i8, true), vnni(), "dot4.uint8_int8");
  expect_scheduled(product(100, 35, 18, bf16, bf16, true), vnni(), "dot2.bfloat16_bfloat16");
  // Too few rows to lay the matrix out for.
  EXPECT_EQ(script_of(default_schedule(product(4, 48, 32, u8, i8).function, vnni())).find("tensorize"),
            std::string::npos);
}

TEST(DotProducts, FoundInEinsumsAndImages) {
  expect_scheduled(einsum(), vnni(), "dot4.uint8_int8");
  for (int64_t channels : {8, 6}) expect_scheduled(image(channels), vnni(), "dot4.uint8_int8");
  tir::VarRef rows = tir::var("rows");
  Program p = product(rows, 48, 32, u8, i8);
  p.sizes = {{"rows", 13}};
  expect_scheduled(p, vnni(), "dot4.uint8_int8");
}

/// D[h, i, j] = Σ wide(A[h, i, k]) · wide(B[h, k, j]), where B may lie as B[j, h, k].
Program heads(int64_t m, int64_t n, int64_t k, DataType type, bool by_columns) {
  const DataType sum = type.is_float() ? f32 : i32;
  Tensor a = te::placeholder({2, m, k}, type, "A"),
         b = te::placeholder(by_columns ? Array<PrimExpr>{n, 2, k} : Array<PrimExpr>{2, k, n}, type, "B");
  tir::IterVar r = te::reduce_axis(tir::range(PrimExpr(0), PrimExpr(k)), "k");
  Tensor c = te::compute(
      {2, m, n},
      [&](const Vars& v) {
        const PrimExpr at_b = by_columns ? b({v[2], v[0], r->var}) : b({v[0], r->var, v[2]});
        return te::sum(tir::cast(sum, a({v[0], v[1], r->var})) * tir::cast(sum, at_b), {r});
      },
      "C");
  return {by_columns ? "heads by columns" : "heads", te::create_prim_func({a, b, c}), {}};
}

TEST(DotProducts, OperandsMoveIntoGroupsAsVectors) {
  // Rows by turns, the last one of an odd sum filled up, and of columns that fill no vector; groups as they
  // lie, with a last panel that is not whole.
  for (const DataType type : {bf16, i8}) {
    for (const Program& p : {heads(26, 32, 21, type, false), heads(25, 48, 12, type, false),
                             heads(29, 35, 21, type, false), heads(27, 19, 16, type, true)}) {
      const tir::PrimFunc f = default_schedule(p.function, vnni());
      ASSERT_NE(script_of(f).find("tensorize"), std::string::npos) << p.name << script_of(f);
      EXPECT_EQ(problems_of(f), "") << p.name;
      EXPECT_TRUE(same(run(p.function), run(f))) << p.name << "\n" << print(f);
      IRModule m = IRModule::create();
      m.set("main", f);
      PassContext context;
      for (std::string_view pass :
           {"lower_block_init", "plan_buffer_allocation", "convert_blocks_to_opaque", "lower_match_buffer",
            "compact_buffer_allocation", "lower_opaque_block", "flatten_buffer", "vectorize_loop"})
        m = run_pass(pass, m, context);
      const std::string text = print(m);
      EXPECT_EQ(text.find("T.Shuffle") != std::string::npos, p.name == "heads") << p.name << "\n" << text;
      EXPECT_TRUE(same(run(p.function), run(m.functions().at("main").cast<tir::PrimFuncNode>())))
          << p.name << "\n"
          << text;
    }
  }
}

TEST(DotProducts, OfRowsByTurns) {
  for (const int64_t step : {1, 2}) {
    expect_scheduled(plane_by_turns(step), vnni(), "dot2.bfloat16_bfloat16.own.x16");
    const std::string text = assembly(plane_by_turns(step), vnni());
    EXPECT_NE(text.find("vdpbf16ps"), std::string::npos);
    EXPECT_EQ(text.find("vfmadd"), std::string::npos);
    EXPECT_EQ(text.find("gather"), std::string::npos);
  }
}

TEST(DotProducts, SeenInTheAssembly) {
  // Compiled for a fixed record, so this holds on every machine.
  EXPECT_NE(assembly(einsum(), vnni()).find("vpdpbusd"), std::string::npos);
  EXPECT_NE(assembly(product(40, 48, 32, i8, i8), vnni()).find("vpdpbusd"), std::string::npos);
  EXPECT_NE(assembly(product(100, 48, 32, bf16, bf16), vnni()).find("vdpbf16ps"), std::string::npos);
  const std::string small = assembly(product(40, 48, 32, u8, i8), avx2_vnni());
  EXPECT_NE(small.find("vpdpbusd"), std::string::npos);
  EXPECT_NE(small.find("ymm"), std::string::npos);
  const std::string pairs = assembly(product(40, 48, 32, u8, i8), avx2());
  EXPECT_NE(pairs.find("vpmaddwd"), std::string::npos);
  EXPECT_EQ(pairs.find("vpdpbusd"), std::string::npos);
}

TEST(DotProducts, TilesOfFusedMultiplyAdds) {
  const Program p = product(64, 96, 48, f32, f32);
  // A tile of sums stands in the registers.
  EXPECT_GE(lines_with(assembly(p, vnni()), "vfmadd", "%zmm"), 24);
  const std::string narrow = assembly(p, avx2());
  EXPECT_GE(lines_with(narrow, "vfmadd", "%ymm"), 8);
  EXPECT_EQ(narrow.find("%zmm"), std::string::npos);
}

TEST(Extremes, AreTheMachinesBesideATestForNaN) {
  Tensor x = te::placeholder({64, 64}, f32, "X");
  const tir::IterVar k = te::reduce_axis(tir::range(PrimExpr(0), PrimExpr(64)), "k");
  Tensor most = te::compute({64}, [&](const Vars& v) { return te::max(x({v[0], k->var}), {k}); }, "most");
  const Program p{"most", te::create_prim_func({x, most}), {}};
  const std::string text = assembly(p, vnni());
  EXPECT_GE(lines_with(text, "vmaxps", "%zmm"), 1) << text;
  EXPECT_EQ(text.find("korw"), std::string::npos) << text;  // of two comparisons where one is enough
}

TEST(DotProducts, SeenInTheAssemblyOfArm) {
  std::string bytes;
  try {
    bytes = assembly(product(40, 48, 32, i8, i8), neon());
  } catch (const std::exception& e) {
    GTEST_SKIP() << "this LLVM has no code generator for AArch64: " << e.what();
  }
  EXPECT_NE(bytes.find("sdot"), std::string::npos) << bytes;
  // The record as a file would have it.
  const Target read = target_from_json(to_json(neon()));
  ASSERT_EQ(read->triple, "aarch64-unknown-linux-gnu");
  EXPECT_NE(assembly(product(40, 48, 32, u8, u8), read).find("udot"), std::string::npos);
  EXPECT_GE(lines_with(assembly(product(64, 96, 48, f32, f32), read), "fmla", ".4s"), 16);
  EXPECT_NE(assembly(product(40, 48, 32, u8, i8), neon()).find("usdot"), std::string::npos);
  EXPECT_NE(assembly(product(100, 48, 32, bf16, bf16), neon()).find("bfdot"), std::string::npos);
}

TEST(DotProducts, MachineCodeAgrees) {
  for (auto [m, n, k] : std::vector<std::array<int64_t, 3>>{{100, 97, 17}})
    for (auto [x, y] : std::vector<std::pair<DataType, DataType>>{{u8, i8},
                                                                  {i8, u8},
                                                                  {i8, i8},
                                                                  {u8, u8},
                                                                  {DataType::int_(16), DataType::int_(16)},
                                                                  {bf16, bf16},
                                                                  {f16, f16}}) {
      const Program p = product(m, n, k, x, y);
      expect_machine_code(p, m, n, k, x, y);
    }
}

}  // namespace
}  // namespace tenon::testing
