// SPDX-License-Identifier: Apache-2.0
// Padding where it is read: of symbolic sizes one plane at a time beside its depthwise convolution, at ragged
// sizes too; of known sizes rows of an image, by which weights pass.
#include "../schedule/programs.h"
#include "autoschedule/default.h"
#include "autoschedule/facts.h"
#include "test_targets.h"

namespace tenon::testing {
namespace {

Target one_core() {
  auto t = make<TargetNode>();
  t.edit()->vector_bits = 256;
  t.edit()->vector_registers = 16;
  t.edit()->cores = 1;
  return t;
}

/// A window of 5 × 5 at every `step`-th place of each plane; channels in blocks of 8, or one by one.
Program planes(PrimExpr n, int64_t planes, PrimExpr h, PrimExpr w, int64_t step, bool blocks) {
  auto dims = [&](PrimExpr y, PrimExpr x) {
    Array<PrimExpr> all{n, PrimExpr(planes), y, x};
    if (blocks) all.push_back(PrimExpr(8));
    return all;
  };
  auto at = [&](const Vars& v, PrimExpr y, PrimExpr x) {
    Array<PrimExpr> all{v[0], v[1], y, x};
    if (blocks) all.push_back(v[4]);
    return all;
  };
  Array<PrimExpr> window{PrimExpr(planes), PrimExpr(5), PrimExpr(5)};
  if (blocks) window.push_back(PrimExpr(8));
  Tensor a = te::placeholder(dims(h, w), f32, "A"), k = te::placeholder(window, f32, "K");
  tir::IterVar y = te::reduce_axis(tir::range(PrimExpr(0), PrimExpr(5)), "y"),
               x = te::reduce_axis(tir::range(PrimExpr(0), PrimExpr(5)), "x");
  Tensor p = te::compute(
      dims(h + 4, w + 4),
      [&](const Vars& v) {
        const PrimExpr i = v[2] - 2, j = v[3] - 2;
        const PrimExpr in = tir::logical_and(tir::logical_and(tir::ge(i, PrimExpr(0)), tir::lt(i, h)),
                                             tir::logical_and(tir::ge(j, PrimExpr(0)), tir::lt(j, w)));
        return tir::if_then_else(in, a(at(v, i, j)), PrimExpr(0.0));
      },
      "pad");
  const PrimExpr oh = tir::floordiv(h - 1, PrimExpr(step)) + 1, ow = tir::floordiv(w - 1, PrimExpr(step)) + 1;
  Tensor d = te::compute(
      dims(oh, ow),
      [&](const Vars& v) {
        Array<PrimExpr> weight{v[1], y->var, x->var};
        if (blocks) weight.push_back(v[4]);
        return te::sum(p(at(v, v[2] * step + y->var, v[3] * step + x->var)) * k(weight), {y, x});
      },
      "dw");
  Tensor o = te::compute(
      dims(oh, ow), [&](const Vars& v) { return tir::max(d(at(v, v[2], v[3])), PrimExpr(0.0)); }, "relu");
  return {blocks ? "blocks" : "channels", te::create_prim_func({a, k, o}), {}};
}

TEST(PaddedRows, OfSymbolicSizesAreMadePlaneByPlane) {
  const tir::VarRef n = tir::var("n"), h = tir::var("h"), w = tir::var("w");
  for (Program p : {planes(n, 5, h, w, 1, false), planes(n, 4, h, w, 1, true), planes(n, 5, h, w, 2, true)}) {
    const tir::PrimFunc f = default_schedule(p.function, one_core());
    // Copy and sum stand in one loop over the planes.
    const Trace trace = Trace::from_json(f->attrs.at("tenon.trace").as<std::string>());
    Schedule s = Schedule::replay(p.function, trace);
    ASSERT_TRUE(structural_equal(s.function()->body, f->body));
    const std::vector<LoopRV> of_pad = s.get_loops(s.get_block("pad")),
                              of_sum = s.get_loops(s.get_block("dw"));
    EXPECT_EQ(s.get(of_pad[0])->loop_var.get(), s.get(of_sum[0])->loop_var.get()) << trace.to_script();
    EXPECT_EQ(problems_of(f), "");
    for (const auto& [a, b, c] : std::vector<std::array<int64_t, 3>>{{1, 1, 1}, {2, 3, 5}, {1, 2, 13}}) {
      p.sizes = {{"n", a}, {"h", b}, {"w", c}};
      ASSERT_TRUE(same(run(p.function, p.sizes), run(reversed(f), p.sizes)))
          << p.name << " " << a << " " << b << " " << c << "\n"
          << trace.to_script();
    }
  }
}

TEST(PaddedRows, OfFreeLengthHaveTilesWhoseHalfHidesTheLatency) {
  auto t = one_core();
  t.edit()->vector_bits = 512, t.edit()->vector_registers = 32;
  const Program p = planes(tir::var("n"), 5, tir::var("h"), tir::var("w"), 1, false);
  const tir::PrimFunc f = default_schedule(p.function, t);
  Schedule s = Schedule::replay(p.function, Trace::from_json(f->attrs.at("tenon.trace").as<std::string>()));
  int64_t rows = 0;  // outside of vectors
  for (LoopRV l : s.get_loops(s.get_block("relu")))
    if (rows == 0 && s.get(l)->kind == tir::ForKind::unrolled)
      rows = tir::as_int(s.get(l)->extent).value_or(0);
  EXPECT_GE(rows, t->fma_ports * t->fma_latency) << print(f);
}

/// A window of 3 × 3 over 16 channels of h × w points; results in blocks of 8 channels.
Program image(int64_t blocks, PrimExpr h = PrimExpr(16), PrimExpr w = PrimExpr(14)) {
  Tensor a = te::placeholder({16, h, w}, f32, "A"), k = te::placeholder({blocks, 16, 3, 3, 8}, f32, "K");
  Tensor p = te::compute(
      {16, h + 2, w + 2},
      [&](const Vars& v) {
        const PrimExpr i = v[1] - 1, j = v[2] - 1;
        const PrimExpr in = tir::logical_and(tir::logical_and(tir::ge(i, PrimExpr(0)), tir::lt(i, h)),
                                             tir::logical_and(tir::ge(j, PrimExpr(0)), tir::lt(j, w)));
        return tir::if_then_else(in, a({v[0], i, j}), PrimExpr(0.0));
      },
      "pad");
  tir::IterVar c = te::reduce_axis(tir::range(PrimExpr(0), PrimExpr(16)), "c"),
               y = te::reduce_axis(tir::range(PrimExpr(0), PrimExpr(3)), "y"),
               x = te::reduce_axis(tir::range(PrimExpr(0), PrimExpr(3)), "x");
  Tensor d = te::compute(
      {blocks, h, w, 8},
      [&](const Vars& v) {
        return te::sum(p({c->var, v[1] + y->var, v[2] + x->var}) * k({v[0], c->var, y->var, x->var, v[3]}),
                       {c, y, x});
      },
      "conv");
  return {"image", te::create_prim_func({a, k, d}), {}};
}

TEST(PaddedRows, OfFreeLengthHaveTheLanesWhereChannelsFillNone) {
  auto t = one_core();
  t.edit()->vector_bits = 512, t.edit()->vector_registers = 32;
  Program p = image(3, tir::var("h"), tir::var("w"));
  const tir::PrimFunc f = default_schedule(p.function, t);
  Schedule s = Schedule::replay(p.function, Trace::from_json(f->attrs.at("tenon.trace").as<std::string>()));
  EXPECT_EQ(tir::as_int(s.get(s.get_loops(s.get_block("conv")).back())->extent), 16) << print(f);
  EXPECT_EQ(problems_of(f), "");
  for (const auto& [h, w] : std::vector<std::array<int64_t, 2>>{{1, 1}, {3, 5}, {2, 17}, {9, 33}, {0, 4}}) {
    p.sizes = {{"h", h}, {"w", w}};
    ASSERT_TRUE(same(run(p.function, p.sizes), run(reversed(f), p.sizes))) << h << " × " << w;
  }
}

/// Largest of 5 elements along one axis of each plane of free size, padded there.
Program largest(size_t axis) {
  const PrimExpr n = tir::var("n"), h = tir::var("h"), w = tir::var("w");
  Tensor a = te::placeholder({n, PrimExpr(16), h, w}, f32, "A");
  Array<PrimExpr> wide{n, PrimExpr(16), h, w};
  wide.set(axis, wide[axis] + 4);
  Tensor p = te::compute(
      wide,
      [&](const Vars& v) {
        Array<PrimExpr> at{v[0], v[1], v[2], v[3]};
        at.set(axis, v[axis] - 2);
        const PrimExpr inside =
            tir::logical_and(tir::ge(at[axis], PrimExpr(0)), tir::lt(at[axis], a.shape()[axis]));
        return tir::if_then_else(inside, a(at), PrimExpr::float_imm(-1e30, f32));
      },
      "pad");
  tir::IterVar k = te::reduce_axis(tir::range(PrimExpr(0), PrimExpr(5)), "k");
  Tensor b = te::compute(
      {n, PrimExpr(16), h, w},
      [&](const Vars& v) {
        Array<PrimExpr> at{v[0], v[1], v[2], v[3]};
        at.set(axis, v[axis] + k->var);
        return te::max(p(at), {k});
      },
      "fold");
  return {"largest", te::create_prim_func({a, b}), {}};
}

TEST(PaddedRows, OfFoldsAreMadePlaneByPlane) {
  // Every second window of 3 × 3 whose last one is cut, over blocks of 8 channels.
  const PrimExpr n = tir::var("n"), h = tir::var("h"), w = tir::var("w"), eight(8);
  Tensor a = te::placeholder({n, PrimExpr(2), h, w, eight}, f32, "A");
  Tensor padded = te::compute(
      {n, PrimExpr(2), tir::floordiv(h, PrimExpr(2)) * 2 + 1, tir::floordiv(w, PrimExpr(2)) * 2 + 1, eight},
      [&](const Vars& v) {
        return tir::if_then_else(tir::logical_and(tir::lt(v[2], h), tir::lt(v[3], w)),
                                 a({v[0], v[1], v[2], v[3], v[4]}), PrimExpr::float_imm(-1e30, f32));
      },
      "pad");
  tir::IterVar y = te::reduce_axis(tir::range(PrimExpr(0), PrimExpr(3)), "y"),
               x = te::reduce_axis(tir::range(PrimExpr(0), PrimExpr(3)), "x");
  Tensor b = te::compute(
      {n, PrimExpr(2), tir::floordiv(h, PrimExpr(2)), tir::floordiv(w, PrimExpr(2)), eight},
      [&](const Vars& v) {
        return te::max(padded({v[0], v[1], v[2] * 2 + y->var, v[3] * 2 + x->var, v[4]}), {y, x});
      },
      "fold");
  Program p{"pool", te::create_prim_func({a, b}), {}};
  const tir::PrimFunc f = default_schedule(p.function, one_core());
  Schedule s = Schedule::replay(p.function, Trace::from_json(f->attrs.at("tenon.trace").as<std::string>()));
  EXPECT_EQ(s.get(s.get_loops(s.get_block("pad"))[0])->loop_var.get(),
            s.get(s.get_loops(s.get_block("fold"))[0])->loop_var.get())
      << print(f);
  EXPECT_EQ(problems_of(f), "");
  for (const auto& [rows, columns] : std::vector<std::array<int64_t, 2>>{{2, 2}, {3, 5}, {8, 17}, {7, 34}}) {
    p.sizes = {{"n", 2}, {"h", rows}, {"w", columns}};
    ASSERT_TRUE(same(run(p.function, p.sizes), run(reversed(f), p.sizes))) << rows << " × " << columns;
  }
}

TEST(PaddedRows, OfASingleRowAreACopyOfTheirOwn) {
  for (const size_t axis : {size_t(2), size_t(3)}) {
    Program p = largest(axis);
    const tir::PrimFunc f = default_schedule(p.function, one_core());
    Schedule s = Schedule::replay(p.function, Trace::from_json(f->attrs.at("tenon.trace").as<std::string>()));
    EXPECT_NE(s.get(s.get_loops(s.get_block("pad"))[0])->loop_var.get(),
              s.get(s.get_loops(s.get_block("fold"))[0])->loop_var.get());
    // Along the rows a window walks the plane as one array.
    const bool run = f->attrs.at("tenon.trace").as<std::string>().find("fuse_iterators") != std::string::npos;
    EXPECT_EQ(run, axis == 2) << print(f);
    for (const auto& [h, w] : std::vector<std::array<int64_t, 2>>{{1, 1}, {3, 5}, {2, 17}, {9, 33}, {0, 4}}) {
      p.sizes = {{"n", 2}, {"h", h}, {"w", w}};
      ASSERT_TRUE(same(tenon::testing::run(p.function, p.sizes), tenon::testing::run(reversed(f), p.sizes)))
          << h << " × " << w;
    }
  }
}

TEST(PaddedRows, PassByAPartOfTheWeightsThatLeaveTheCache) {
  constexpr int64_t cache = 18 << 10;  // half of it is less than the padded image, a third is six lines
  for (const auto& [blocks, rows_inside] : {std::pair<int64_t, bool>{6, true}, {1, false}}) {
    const Program p = image(blocks);
    const tir::PrimFunc f = default_schedule(p.function, target_of({256, 16, 1, cache}));
    Schedule s = Schedule::replay(p.function, Trace::from_json(f->attrs.at("tenon.trace").as<std::string>()));
    const BlockRV sum = s.get_block("conv");
    const std::vector<LoopRV> loops = s.get_loops(sum);
    ASSERT_EQ(s.get(s.get_loops(s.get_block("pad"))[0])->loop_var.get(), s.get(loops[0])->loop_var.get());
    // The first loop behind that of the blocks of rows which moves an iterator.
    auto at = [&](int iterator) {
      const PrimExpr value = s.realize(sum)->iter_values[size_t(iterator)];
      size_t l = 1;
      while (l < loops.size() && !rules::uses_var(value, s.get(loops[l])->loop_var.get())) ++l;
      return l;
    };
    EXPECT_EQ(at(0) < at(1), rows_inside) << print(f);
    EXPECT_TRUE(same(run(p.function), run(reversed(f)))) << print(f);
  }
}

}  // namespace
}  // namespace tenon::testing
