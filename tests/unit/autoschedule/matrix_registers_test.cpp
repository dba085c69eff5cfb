// SPDX-License-Identifier: Apache-2.0
// Sums in matrix registers: which contractions get them, that the loops around them compute what the program
// says, and the instructions that code generation makes of loops over one register.
#include <regex>

#include "base/matrix_permission.h"
#include "contractions.h"

namespace tenon::testing {
namespace {

/// A record with matrix registers beside the dot instructions.
Target amx() {
  Target t = record(
      "x86_64-unknown-linux-gnu",
      {"sse3", "ssse3", "sse4_1", "sse4_2", "avx", "avx2", "fma", "f16c", "avx512f", "avx512bw", "avx512cd",
       "avx512dq", "avx512vl", "avx512_vnni", "avx512_bf16", "amx_tile", "amx_int8", "amx_bf16"},
      512, 32);
  return t;
}
constexpr const char* kAnnotated = "matrix_register";

/// y[h, w, o] = Σ x[h + r, 2 w + s, c] · k[r, s, 4 o + c] of four channels, weights in groups.
Program pictures() {
  Tensor x = te::placeholder({10, 37, 4}, u8, "X"), k = te::placeholder({3, 5, 128}, i8, "K");
  auto axis = [](int64_t n, const char* name) {
    return te::reduce_axis(tir::range(PrimExpr(0), PrimExpr(n)), name);
  };
  tir::IterVar r = axis(3, "r"), s = axis(5, "s"), c = axis(4, "c");
  Tensor y = te::compute(
      {8, 16, 32},
      [&](const Vars& v) {
        return te::sum(tir::cast(i32, x({v[0] + r->var, v[1] * 2 + s->var, c->var})) *
                           tir::cast(i32, k({r->var, s->var, v[2] * 4 + c->var})),
                       {r, s, c});
      },
      "Y");
  return {"pictures", te::create_prim_func({x, k, y}), {}};
}

TEST(MatrixRegisters, HoldSumsOfBytesAndBfloat16) {
  for (auto [x, y] : std::vector<std::pair<DataType, DataType>>{{u8, i8}, {i8, u8}, {i8, i8}, {u8, u8}}) {
    expect_scheduled(product(32, 32, 64, x, y), amx(), kAnnotated);
    expect_scheduled(product(48, 32, 64, x, y, true), amx(), kAnnotated);
  }
  expect_scheduled(product(64, 32, 64, bf16, bf16), amx(), kAnnotated);
  expect_scheduled(product(42, 32, 96, bf16, bf16, false, false), amx(), kAnnotated);
}

TEST(MatrixRegisters, RowsThatDoNotDivide) {
  // A last tile that begins earlier; columns beyond the last.
  expect_scheduled(product(49, 32, 64, u8, i8), amx(), kAnnotated);
  for (int64_t rows : {37, 53, 149}) {
    expect_scheduled(product(rows, 32, 64, u8, i8), amx(), kAnnotated);
    expect_scheduled(product(rows, 40, 64, i8, i8), amx(), kAnnotated);
  }
  const Program p = product(53, 32, 64, u8, i8);
  EXPECT_EQ(script_of(default_schedule(p.function, amx())).find("read_index=0"), std::string::npos)
      << "rows are read as they lie";
}

/// y[h, w, o] = Σ x[h + r, w + s, c] · k[r, s, c, o] of 64 channels, weights in groups.
Program image(int64_t size) {
  Tensor x = te::placeholder({size + 2, size + 2, 64}, u8, "X"),
         k = te::placeholder({3, 3, 16, 128}, i8, "K");
  auto axis = [](int64_t n, const char* name) {
    return te::reduce_axis(tir::range(PrimExpr(0), PrimExpr(n)), name);
  };
  tir::IterVar r = axis(3, "r"), s = axis(3, "s"), c = axis(64, "c");
  Tensor y = te::compute(
      {size, size, 32},
      [&](const Vars& v) {
        const PrimExpr group = tir::floordiv(c->var, PrimExpr(4)),
                       in_group = tir::floormod(c->var, PrimExpr(4));
        return te::sum(tir::cast(i32, x({v[0] + r->var, v[1] + s->var, c->var})) *
                           tir::cast(i32, k({r->var, s->var, group, v[2] * 4 + in_group})),
                       {r, s, c});
      },
      "Y");
  return {"image", te::create_prim_func({x, k, y}), {}};
}

TEST(MatrixRegisters, TwoColumnsOfAnOddNumber) {
  for (const int64_t size : {7, 8}) {
    expect_scheduled(image(size), amx(), kAnnotated);
    // Four registers of sums read each row of weights twice.
    EXPECT_EQ(lines_with(assembly(image(size), amx()), "tdpbusd", "tmm") % 4, 0) << size;
  }
}

/// The same with `blocks` times 32 results, whose weights lie block by block.
Program image_in_blocks(int64_t blocks) {
  Tensor x = te::placeholder({9, 9, 64}, u8, "X"), k = te::placeholder({blocks, 3, 3, 16, 128}, i8, "K");
  auto axis = [](int64_t n, const char* name) {
    return te::reduce_axis(tir::range(PrimExpr(0), PrimExpr(n)), name);
  };
  tir::IterVar r = axis(3, "r"), s = axis(3, "s"), c = axis(64, "c");
  Tensor y = te::compute(
      {blocks, 7, 7, 32},
      [&](const Vars& v) {
        const PrimExpr group = tir::floordiv(c->var, PrimExpr(4)),
                       in_group = tir::floormod(c->var, PrimExpr(4));
        return te::sum(tir::cast(i32, x({v[1] + r->var, v[2] + s->var, c->var})) *
                           tir::cast(i32, k({v[0], r->var, s->var, group, v[3] * 4 + in_group})),
                       {r, s, c});
      },
      "Y");
  return {"image in blocks", te::create_prim_func({x, k, y}), {}};
}

TEST(MatrixRegisters, WeightsAreAnnouncedABlockAhead) {
  Target t = amx();
  t.edit()->l2_bytes = 96 << 10;  // all weights are more than half of it, a block of 18 KB is not
  expect_scheduled(image_in_blocks(4), t, "stream_K");
  const std::string text = assembly(image_in_blocks(4), t);
  EXPECT_GT(lines_with(text, "prefetch", ""), 0) << text;
  EXPECT_GT(lines_with(text, "tdpbusd", "tmm"), 0) << text;
  t.edit()->l2_bytes = 1 << 20;
  EXPECT_EQ(script_of(default_schedule(image_in_blocks(4).function, t)).find("stream_"), std::string::npos)
      << "they stay near";
}

/// y[h, w, o] = Σ x[h + r, w + s, c] · k[r, s, c, o], weights in groups of four bytes or two of bfloat16.
Program windows(int64_t channels, int64_t taps, bool bytes) {
  const int64_t group = bytes ? 4 : 2;
  const DataType sum = bytes ? i32 : f32;
  Tensor x = te::placeholder({9, 8 + taps, channels}, bytes ? u8 : bf16, "X"),
         k = te::placeholder({3, taps, channels / group, 32 * group}, bytes ? i8 : bf16, "K");
  auto axis = [](int64_t n, const char* name) {
    return te::reduce_axis(tir::range(PrimExpr(0), PrimExpr(n)), name);
  };
  tir::IterVar r = axis(3, "r"), s = axis(taps, "s"), c = axis(channels, "c");
  Tensor y = te::compute(
      {7, 9, 32},
      [&](const Vars& v) {
        const PrimExpr of = tir::floordiv(c->var, PrimExpr(group)),
                       in = tir::floormod(c->var, PrimExpr(group));
        return te::sum(tir::cast(sum, x({v[0] + r->var, v[1] + s->var, c->var})) *
                           tir::cast(sum, k({r->var, s->var, of, v[2] * group + in})),
                       {r, s, c});
      },
      "Y");
  return {"windows of " + std::to_string(channels), te::create_prim_func({x, k, y}), {}};
}

TEST(MatrixRegisters, TapsOfFewChannelsAreOneRow) {
  expect_scheduled(pictures(), amx(), "fuse_iterators");
  expect_scheduled(pictures(), amx(), kAnnotated);
  // Three taps of 16 bytes are a row of 48, and so are one and a half of 32.
  for (const auto& [channels, taps, bytes] :
       {std::tuple{16, 3, true}, {32, 3, true}, {20, 3, true}, {16, 2, true}, {16, 3, false}}) {
    const Program p = windows(channels, taps, bytes);
    expect_scheduled(p, amx(), "fuse_iterators");
    expect_scheduled(p, amx(), kAnnotated);
  }
  EXPECT_EQ(script_of(default_schedule(windows(64, 3, true).function, amx())).find("fuse_iterators"),
            std::string::npos)
      << "64 bytes are a row";
}

/// A batch of sequences of which both are symbolic, by one matrix.
Program sequences(const tir::VarRef& batch, const tir::VarRef& length, int64_t n, int64_t k, DataType type) {
  const DataType sum = type.is_float() ? f32 : i32;
  Tensor a = te::placeholder({batch, length, PrimExpr(k)}, type, "A"),
         b = te::placeholder({k, n}, type.is_float() ? type : i8, "B"),
         bias = te::placeholder({n}, sum, "bias");
  tir::IterVar r = te::reduce_axis(tir::range(PrimExpr(0), PrimExpr(k)), "k");
  Tensor c = te::compute(
      {batch, length, PrimExpr(n)},
      [&](const Vars& v) {
        return te::sum(tir::cast(sum, a({v[0], v[1], r->var})) * tir::cast(sum, b({r->var, v[2]})), {r});
      },
      "C");
  Tensor d = te::compute(
      {batch, length, PrimExpr(n)}, [&](const Vars& v) { return c({v[0], v[1], v[2]}) + bias({v[2]}); }, "D");
  return {"sequences", te::create_prim_func({a, b, bias, d}), {}};
}

TEST(MatrixRegisters, RowsOfSymbolicNumber) {
  for (int64_t size : {1, 13, 16, 37}) {
    tir::VarRef rows = tir::var("rows");
    Program p = product(rows, 64, 64, u8, i8);
    p.sizes = {{"rows", size}};
    expect_scheduled(p, amx(), kAnnotated);
  }
  // Both axes are one, whose rows are copied up to whole tiles.
  for (auto [b, s] : std::vector<std::array<int64_t, 2>>{{1, 1}, {1, 33}, {3, 7}, {4, 8}})
    for (DataType type : {u8, bf16}) {
      tir::VarRef batch = tir::var("batch"), length = tir::var("length");
      Program p = sequences(batch, length, 64, 64, type);
      p.sizes = {{"batch", b}, {"length", s}};
      expect_scheduled(p, amx(), kAnnotated);
      if (b == 1 && s == 1) {
        EXPECT_GT(lines_with(assembly(p, amx()), "tdp", "tmm"), 0) << to_string(type);
      }
    }
}

TEST(MatrixRegisters, RowsOfThreeSymbolicAxes) {
  // Whatever becomes of the rows: loops over a register are instructions, or are not there.
  tir::VarRef a = tir::var("a"), b = tir::var("b"), c = tir::var("c");
  Tensor x = te::placeholder({a, b, c, PrimExpr(64)}, u8, "X"), y = te::placeholder({64, 64}, i8, "Y");
  tir::IterVar r = te::reduce_axis(tir::range(PrimExpr(0), PrimExpr(64)), "k");
  Tensor z = te::compute(
      {a, b, c, PrimExpr(64)},
      [&](const Vars& v) {
        return te::sum(tir::cast(i32, x({v[0], v[1], v[2], r->var})) * tir::cast(i32, y({r->var, v[3]})),
                       {r});
      },
      "Z");
  const Program p{"three axes", te::create_prim_func({x, y, z}), {{"a", 2}, {"b", 3}, {"c", 5}}};
  const tir::PrimFunc f = default_schedule(p.function, amx());
  ASSERT_TRUE(same(run(p.function, p.sizes), run(f, p.sizes)));
  EXPECT_EQ(script_of(f).find(kAnnotated) != std::string::npos,
            lines_with(assembly(p, amx()), "tdp", "tmm") > 0)
      << script_of(f);
}

TEST(MatrixRegisters, NotForWindowsOfSymbolicRows) {
  tir::VarRef rows = tir::var("rows");
  Tensor x = te::placeholder({rows + 2, PrimExpr(64)}, u8, "X"), k = te::placeholder({3, 16, 256}, i8, "K");
  tir::IterVar r = te::reduce_axis(tir::range(PrimExpr(0), PrimExpr(3)), "r"),
               c = te::reduce_axis(tir::range(PrimExpr(0), PrimExpr(64)), "c");
  Tensor y = te::compute(
      {rows, PrimExpr(64)},
      [&](const Vars& v) {
        const PrimExpr at = tir::floordiv(c->var, PrimExpr(4));
        return te::sum(tir::cast(i32, x({v[0] + r->var, c->var})) *
                           tir::cast(i32, k({r->var, at, v[1] * 4 + tir::floormod(c->var, PrimExpr(4))})),
                       {r, c});
      },
      "Y");
  const tir::PrimFunc f = te::create_prim_func({x, k, y});
  EXPECT_EQ(script_of(default_schedule(f, amx())).find(kAnnotated), std::string::npos)
      << "a copy would have each row three times";
}

TEST(MatrixRegisters, SeenInTheAssembly) {
  // Compiled for a fixed record, so this holds on every machine.
  for (auto& [p, word] :
       std::vector<std::pair<Program, std::string>>{{product(32, 64, 128, u8, i8), "tdpbusd"},
                                                    {product(32, 64, 128, i8, u8), "tdpbsud"},
                                                    {product(32, 64, 128, i8, i8), "tdpbssd"},
                                                    {product(32, 64, 128, u8, u8), "tdpbuud"},
                                                    {product(32, 64, 128, bf16, bf16), "tdpbf16ps"}}) {
    const std::string text = assembly(p, amx());
    EXPECT_NE(text.find(word), std::string::npos) << p.name << "\n" << text;
    // Two of each operand serve four sums, whose first values are loaded, too (LLVM may repeat the steps).
    const int64_t products = lines_with(text, word, "tmm");
    EXPECT_EQ(products % 4, 0) << text;
    EXPECT_EQ(lines_with(text, "tileloadd", "tmm"), products + 4) << text;
    EXPECT_NE(text.find("ldtilecfg"), std::string::npos);
    EXPECT_NE(text.find("tilerelease"), std::string::npos);
  }
}

TEST(MatrixRegisters, StayOutWhereLanesWouldBeMasked) {
  // Registers are loaded whole: loops that no instruction stands for would run one by one.
  for (const Program& p :
       {product(64, 72, 128, u8, i8), product(64, 72, 768, u8, i8), product(64, 8, 128, u8, i8),
        product(49, 1000, 512, i8, i8, false, false), product(64, 72, 128, bf16, bf16)}) {
    const std::string text = assembly(p, amx()), script = script_of(default_schedule(p.function, amx()));
    const bool products = lines_with(text, "tdp", "tmm") > 0;
    EXPECT_EQ(products, script.find(kAnnotated) != std::string::npos) << p.name << script;
  }
}

/// Loops over a register as a user may write them.
std::string by_hand(const std::string& step, const std::string& type = "int8", const std::string& behind = "",
                    int64_t rows = 16) {
  const std::string text =
      "@T.prim_func\n"
      "def f(A: T.Buffer((16, 32), \"" +
      type + "\"), B: T.Buffer((8, 64), \"" + type +
      "\"), D: T.Buffer((16, 16), \"int32\")):\n"
      "    C = T.allocate((256,), \"int32\", scope=\"matrix\")\n"
      "    for r in T.serial(16, annotations={\"matrix_register\": True}):\n"
      "        for l in range(16):\n"
      "            C[r * 16 + l] = 0\n"
      "    for r in T.serial(16, annotations={\"matrix_register\": True}):\n"
      "        for l, k in T.grid(16, 32):\n"
      "            C[r * 16 + l] = " +
      step + "\n" + behind +
      "    for r in T.serial(16, annotations={\"matrix_register\": True}):\n"
      "        for l in range(16):\n"
      "            D[r, l] = C[r * 16 + l]\n";
  return std::regex_replace(text, std::regex("T.serial\\(16"), "T.serial(" + std::to_string(rows));
}

TEST(MatrixRegisters, LoopsThatSayAnythingElseStayLoops) {
  const std::string x = "T.Cast(\"int32\", A[r, k])", y = "T.Cast(\"int32\", B[k // 4, 4 * l + k % 4])",
                    c = "C[r * 16 + l]";
  auto products = [&](const std::string& text) {
    return lines_with(codegen::disassemble(
                          codegen::llvm_object(
                              lowered(parse_module(text).find("f").cast<tir::PrimFuncNode>(), amx()), amx()),
                          amx()),
                      "tdp", "tmm");
  };
  EXPECT_EQ(products(by_hand(c + " + " + x + " * " + y)), 1);
  EXPECT_EQ(products(by_hand(x + " * " + y + " + " + c)), 1);
  EXPECT_EQ(products(by_hand(c + " + " + x + " * " + y, "int8", "", 1)), 1) << "a register of one row";
  EXPECT_EQ(products(by_hand(c + " - " + x + " * " + y)), 0);
  EXPECT_EQ(products(by_hand(c + " + " + x + " * " + y + " * 3")), 0);
  EXPECT_EQ(products(by_hand("T.max(" + c + ", " + x + " * " + y + ")")), 0);
  EXPECT_EQ(products(by_hand("C[r * 16 + 15 - l] + " + x + " * " + y)), 0) << "another sum";
  EXPECT_EQ(products(by_hand(c + " + " + x + " * " + y, "int16")), 0) << "no bytes";
  EXPECT_EQ(products(by_hand(c + " + " + x + " * " + y, "int8", "    C[3] = 7\n")), 0)
      << "used by other statements";
}

TEST(MatrixRegisters, TwoShapesInOneFunction) {
  // Rows of 16 and of 12, steps of 64 and of 32 bytes: registers are shaped anew for each.
  Tensor a = te::placeholder({64, 64}, u8, "A"), b = te::placeholder({64, 32}, i8, "B"),
         c = te::placeholder({60, 32}, u8, "C"), d = te::placeholder({32, 32}, i8, "D");
  auto times = [](const Tensor& x, const Tensor& y, int64_t m, int64_t k, const char* name) {
    tir::IterVar r = te::reduce_axis(tir::range(PrimExpr(0), PrimExpr(k)), "k");
    return te::compute(
        {PrimExpr(m), PrimExpr(32)},
        [&](const Vars& v) {
          return te::sum(tir::cast(i32, x({v[0], r->var})) * tir::cast(i32, y({r->var, v[1]})), {r});
        },
        name);
  };
  const Program p{
      "two", te::create_prim_func({a, b, c, d, times(a, b, 64, 64, "E"), times(c, d, 60, 32, "F")}), {}};
  expect_scheduled(p, amx(), kAnnotated);
  EXPECT_EQ(lines_with(assembly(p, amx()), "ldtilecfg", "("), 2);
}

TEST(MatrixRegisters, MachineCodeAgrees) {
  if (!host_target()->has("amx_int8") || !may_use_matrix_registers())
    GTEST_SKIP() << "this machine has no matrix registers";
  for (auto [m, n, k] : std::vector<std::array<int64_t, 3>>{
           {32, 64, 128}, {37, 40, 64}, {49, 33, 192}, {53, 32, 20}, {17, 64, 64}})
    for (auto [x, y] :
         std::vector<std::pair<DataType, DataType>>{{u8, i8}, {i8, u8}, {i8, i8}, {u8, u8}, {bf16, bf16}})
      expect_machine_code(product(m, n, k, x, y), m, n, k, x, y);
  for (int64_t m : {1, 16, 37})
    for (auto [x, y] : std::vector<std::pair<DataType, DataType>>{{u8, i8}, {bf16, bf16}})
      expect_machine_code(product(tir::var("rows"), 64, 128, x, y), m, 64, 128, x, y);
}

}  // namespace
}  // namespace tenon::testing
