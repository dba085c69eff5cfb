// SPDX-License-Identifier: Apache-2.0
// Convolutions in blocks of channels: where an image leaves the second cache, all blocks of results read one
// of its rows before the next row comes; the same values.
#include "../schedule/programs.h"
#include "analysis/simplify.h"
#include "autoschedule/default.h"
#include "ir/text.h"
#include "test_targets.h"

namespace tenon::testing {
namespace {

constexpr int64_t kLanes = 16;

/// Y[n, o, h, w, j] = Σ X[n, c, h, w, i] · K[o, c, i, j]
Program pointwise(int64_t in, int64_t out, int64_t rows, int64_t columns) {
  Tensor x = te::placeholder({1, in, rows, columns, kLanes}, f32, "X"),
         k = te::placeholder({out, in, kLanes, kLanes}, f32, "K");
  tir::IterVar c = te::reduce_axis(tir::range(PrimExpr(0), PrimExpr(in)), "c"),
               i = te::reduce_axis(tir::range(PrimExpr(0), PrimExpr(kLanes)), "i");
  Tensor y = te::compute(
      {1, out, rows, columns, kLanes},
      [&](const Vars& v) {
        return te::sum(x({v[0], c->var, v[2], v[3], i->var}) * k({v[1], c->var, i->var, v[4]}), {c, i});
      },
      "Y");
  return {"pointwise", te::create_prim_func({x, k, y}), {}};
}

Target machine(int64_t l2_bytes) {
  Target t = target_of({512, 32, 1, l2_bytes, true});
  t.edit()->l3_bandwidth = 8;
  return t;
}

/// Does the block of results move in front of the row, from task to task?
bool blocks_move_first(const tir::PrimFunc& f) {
  const tir::For* tasks = nullptr;
  Ref<tir::BlockRealize> realize;
  pre_order(f, [&](const ObjectRef& n) {
    if (const auto* l = n.as<tir::For>(); l && !tasks) tasks = l;
    if (const auto* r = n.as<tir::BlockRealize>(); r && r->block->iter_vars.size() > 4)
      realize = n.cast<tir::BlockRealize>();
    return true;
  });
  const auto at = [&](size_t iterator, int64_t task) {
    tir::VarMap places{{tasks->loop_var.get(), PrimExpr(task)}};
    for (const tir::VarRef& v : tir::free_vars(realize->iter_values[iterator]))
      if (v.get() != tasks->loop_var.get()) places[v.get()] = PrimExpr(0);
    return *tir::as_int(simplify(tir::substitute(realize->iter_values[iterator], places)));
  };
  for (int64_t task = 0;; ++task)
    if (at(1, task) > 0 || at(2, task) > 0) return at(1, task) > 0;
}

TEST(BlocksBehindRows, WhereTheImageLeavesTheCache) {
  const Program p = pointwise(2, 8, 4, 64);  // an image of 32 KB, weights of 16 KB
  const tir::PrimFunc near = default_schedule(p.function, machine(1 << 20)),
                      far = default_schedule(p.function, machine(32 << 10));
  EXPECT_FALSE(blocks_move_first(near)) << print(near);
  EXPECT_TRUE(blocks_move_first(far)) << print(far);
  ASSERT_TRUE(same(run(p.function), run(far)));
}

/// Weights that would be read for each row cost more than the image again.
TEST(BlocksBehindRows, NotBesideManyWeights) {
  const tir::PrimFunc f = default_schedule(pointwise(32, 8, 16, 4).function, machine(32 << 10));
  EXPECT_FALSE(blocks_move_first(f)) << print(f);
}

}  // namespace
}  // namespace tenon::testing
