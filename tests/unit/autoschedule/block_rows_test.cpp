// SPDX-License-Identifier: Apache-2.0
// block_rows: products with a normalisation between them run a block of rows at a time, with rows that fill
// no blocks or are of any number, few and many tasks, keys to lay out, and masks of their own or for all
// heads.
#include "test_targets.h"
#include "trace_steps.h"

namespace tenon::testing {
namespace {

struct Attention {
  int64_t heads, rows, keys, size;
  bool transposed = false;  ///< keys come as (keys, heads, size)
  bool masked = false;      ///< a mask for all heads, made of two tensors
  bool causal = false;      ///< rows see keys up to their own
  bool residual = false;    ///< a tensor of the result's shape is added, the last operand
  bool symbolic = false;    ///< the program is for any number of rows and keys
};

Program attention(const Attention& a) {
  const PrimExpr h(a.heads), d(a.size), n = a.symbolic ? PrimExpr(tir::var("n")) : PrimExpr(a.rows),
                                        m = a.symbolic ? PrimExpr(tir::var("m")) : PrimExpr(a.keys);
  Tensor q = te::placeholder({h, n, d}, f32, "Q"), v = te::placeholder({h, m, d}, f32, "V"),
         given = a.transposed ? te::placeholder({m, h, d}, f32, "K") : te::placeholder({h, d, m}, f32, "K"),
         left = te::placeholder({n, m}, f32, "L"), right = te::placeholder({m}, f32, "R");
  Tensor k = given, mask;
  if (a.transposed)
    k = te::compute({h, d, m}, [&](const Vars& x) { return given({x[2], x[0], x[1]}) * 2.0; }, "keys");
  if (a.masked)
    mask = te::compute(
        {n, m}, [&](const Vars& x) { return tir::max(left({x[0], x[1]}), right({x[1]})); }, "mask");
  tir::IterVar r = te::reduce_axis(tir::range(PrimExpr(0), d), "r"),
               s = te::reduce_axis(tir::range(PrimExpr(0), m), "s"),
               t = te::reduce_axis(tir::range(PrimExpr(0), m), "t"),
               u = te::reduce_axis(tir::range(PrimExpr(0), m), "u");
  Tensor product = te::compute(
      {h, n, m},
      [&](const Vars& x) { return te::sum(q({x[0], x[1], r->var}) * k({x[0], r->var, x[2]}), {r}); },
      "product");
  Tensor scores = te::compute(
      {h, n, m},
      [&](const Vars& x) {
        PrimExpr e = product({x[0], x[1], x[2]}) * 0.5;
        if (a.masked) e = e + mask({x[1], x[2]});
        return a.causal ? tir::select(tir::le(x[2], x[1]), e, PrimExpr(-9.0)) : e;
      },
      "scores");
  Tensor most =
      te::compute({h, n}, [&](const Vars& x) { return te::max(scores({x[0], x[1], s->var}), {s}); }, "most");
  Tensor e = te::compute(
      {h, n, m}, [&](const Vars& x) { return tir::exp(scores({x[0], x[1], x[2]}) - most({x[0], x[1]})); },
      "e");
  Tensor sum =
      te::compute({h, n}, [&](const Vars& x) { return te::sum(e({x[0], x[1], t->var}), {t}); }, "sum");
  Tensor p = te::compute(
      {h, n, m}, [&](const Vars& x) { return tir::div(e({x[0], x[1], x[2]}), sum({x[0], x[1]})); }, "p");
  Tensor o = te::compute(
      {h, n, d},
      [&](const Vars& x) { return te::sum(p({x[0], x[1], u->var}) * v({x[0], u->var, x[2]}), {u}); }, "o");
  Array<Tensor> all{q, given, v};
  if (a.masked) all.push_back(left), all.push_back(right);
  if (a.residual) {
    Tensor x = te::placeholder({h, n, d}, f32, "X");
    all.push_back(x);
    o = te::compute(
        {h, n, d}, [&, o](const Vars& i) { return o({i[0], i[1], i[2]}) + x({i[0], i[1], i[2]}); }, "out");
  }
  all.push_back(o);
  return {
      fmt::format("{} heads, {} rows, {} keys of {}{}{}{}", a.heads, a.rows, a.keys, a.size,
                  a.transposed ? ", transposed" : "", a.masked ? ", masked" : "", a.causal ? ", causal" : ""),
      te::create_prim_func(all),
      a.symbolic ? std::map<std::string, int64_t>{{"n", a.rows}, {"m", a.keys}}
                 : std::map<std::string, int64_t>{}};
}

Target machine(int64_t cores) {
  return target_of({.vector_bits = 256,
                    .vector_registers = 16,
                    .cores = cores,
                    .l2_bytes = 8 << 10,
                    .instructions = true});
}

std::string steps_on(const Program& p, const Target& t) { return steps_of(default_schedule(p.function, t)); }

TEST(BlockRows, ComputesTheSame) {
  for (const Attention& a : std::vector<Attention>{{3, 70, 45, 8},
                                                   {3, 64, 64, 8, true},
                                                   {2, 97, 40, 5, false, true},
                                                   {2, 80, 48, 8, true, true, true},
                                                   {1, 128, 33, 8, false, false, true},
                                                   {1, 131, 50, 7, true, true, true}})
    for (int64_t cores : {1, 4}) {
      const Program p = attention(a);
      expect_same(p, machine(cores), "");
      EXPECT_NE(steps_on(p, machine(cores)).find("block_rows"), std::string::npos) << p.name;
    }
}

TEST(BlockRows, OfAnyNumberComputeTheSame) {
  for (const auto& [rows, keys] : {std::pair<int64_t, int64_t>{0, 3}, {1, 1}, {5, 40}, {32, 32}, {70, 45}})
    for (const Attention& a : std::vector<Attention>{
             {3, rows, keys, 8}, {2, rows, keys, 5, true, true}, {1, rows, keys, 8, false, false, true}})
      for (int64_t cores : {1, 4}) {
        Attention any = a;
        any.symbolic = true;
        const Program p = attention(any);
        expect_same(p, machine(cores), "");
        EXPECT_NE(steps_on(p, machine(cores)).find("block_rows"), std::string::npos) << p.name;
      }
}

/// The result lies where the last operand does, which may be read once only.
TEST(BlockRows, ResultsMayTakeTheMemoryOfOperands) {
  for (int64_t rows : {97, 96}) {  // 97: no number of rows divides them
    Program p = attention({.heads = 2, .rows = rows, .keys = 48, .size = 8, .residual = true});
    std::vector<NDArray> apart = arguments(p.function, {}, 3), same = arguments(p.function, {}, 3);
    interpret_prim_func(p.function, apart);
    p.function.edit()->attrs.set("tir.noalias", Any(false));
    const tir::PrimFunc f = default_schedule(p.function, machine(2));
    EXPECT_EQ(steps_of(f).find("block_rows") != std::string::npos, rows == 96) << steps_of(f);
    same.back() = same[same.size() - 2];
    interpret_prim_func(f, same);
    ASSERT_TRUE(testing::same({apart.back()}, {same.back()})) << rows;
  }
}

TEST(BlockRows, TensorsBetweenStagesHoldABlock) {
  const tir::PrimFunc f = default_schedule(attention({3, 96, 64, 8}).function, machine(1));
  int64_t most = 0;
  post_order(f->body, [&](const ObjectRef& n) {
    if (const auto* b = n.as<tir::Block>())
      for (const tir::Buffer& buffer : b->alloc_buffers) {
        int64_t size = 1;
        for (const PrimExpr& x : buffer->shape) size *= tir::as_int(x).value_or(1 << 30);
        most = std::max(most, size);
      }
  });
  EXPECT_LE(most, 32 * 72);  // 32 rows, whole tiles of keys
  EXPECT_GE(most, 32 * 64);
}

TEST(BlockRows, WhatTasksShareIsLaidOutOnce) {
  const std::string steps = steps_on(attention({3, 96, 64, 8, true}), machine(1));
  EXPECT_NE(steps.find("sch.hoist("), std::string::npos) << steps;
  // A mask for all heads stays in front of the loops over heads: two loops of its own around it.
  const Program masked = attention({3, 96, 64, 8, false, true});
  const tir::PrimFunc f = default_schedule(masked.function, machine(1));
  const Schedule s =
      Schedule::replay(masked.function, Trace::from_json(f->attrs.at("tenon.trace").as<std::string>()));
  EXPECT_EQ(problems_of(f), "");
  ASSERT_TRUE(same(run(masked.function, {}), run(f, {})));
}

TEST(BlockRows, NotWhereItDoesNotPay) {
  // What lies between the products stays in the cache.
  const Target large = target_of(
      {.vector_bits = 256, .vector_registers = 16, .cores = 2, .l2_bytes = 1 << 20, .instructions = true});
  EXPECT_EQ(steps_on(attention({3, 70, 45, 8}), large).find("block_rows"), std::string::npos);
  // There is no second product: a block of rows would read nothing again.
  EXPECT_EQ(steps_on(softmax(200, 300), machine(2)).find("block_rows"), std::string::npos);
  EXPECT_EQ(steps_on(matmul(200, 300, 40), machine(2)).find("block_rows"), std::string::npos);
}

}  // namespace
}  // namespace tenon::testing
