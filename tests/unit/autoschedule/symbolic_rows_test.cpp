// SPDX-License-Identifier: Apache-2.0
// Products whose rows are of symbolic size: batch and sequence make one run of rows, the epilogue too runs in
// vectors, panels of weights stay near while the rows pass; what comes out is the same for sizes that fill
// tiles and for those that do not.
#include "../schedule/programs.h"
#include "autoschedule/default.h"
#include "ir/text.h"
#include "test_targets.h"
#include "trace_steps.h"

namespace tenon::testing {
namespace {

/// D[b, s, j] = max(Σ A[b, s, k] · B[j / panel, k, j % panel] + bias[j], 0) + R[b, s, j]
Program layer(int64_t n, int64_t k, int64_t panel) {
  const tir::VarRef batch = tir::var("batch"), sequence = tir::var("sequence");
  Tensor a = te::placeholder({batch, sequence, k}, f32, "A"),
         b = te::placeholder({(n + panel - 1) / panel, k, panel}, f32, "B"),
         bias = te::placeholder({n}, f32, "bias"), rest = te::placeholder({batch, sequence, n}, f32, "R");
  tir::IterVar r = te::reduce_axis(tir::range(PrimExpr(0), PrimExpr(k)), "k");
  Tensor c = te::compute(
      {batch, sequence, n},
      [&](const Vars& v) {
        return te::sum(a({v[0], v[1], r->var}) * b({tir::floordiv(v[2], PrimExpr(panel)), r->var,
                                                    tir::floormod(v[2], PrimExpr(panel))}),
                       {r});
      },
      "C");
  Tensor d = te::compute(
      {batch, sequence, n},
      [&](const Vars& v) {
        return tir::max(c({v[0], v[1], v[2]}) + bias({v[2]}), PrimExpr(0.0)) + rest({v[0], v[1], v[2]});
      },
      "D");
  return {"layer", te::create_prim_func({a, b, bias, rest, d}), {}};
}

TEST(SymbolicRows, AreOneRunWhateverTheirSizes) {
  for (const Target& t : {target_of({512, 32}), target_of({256, 16}), target_of({128, 16})}) {
    Program p = layer(96, 24, 48);
    const tir::PrimFunc f = default_schedule(p.function, t);
    EXPECT_NE(steps_of(f).find("fuse_iterators"), std::string::npos) << steps_of(f);
    EXPECT_EQ(problems_of(f), "");
    for (const auto& [batch, sequence] :
         {std::pair<int64_t, int64_t>{1, 1}, {1, 8}, {1, 16}, {2, 5}, {3, 11}, {0, 4}, {2, 0}}) {
      const std::map<std::string, int64_t> sizes{{"batch", batch}, {"sequence", sequence}};
      ASSERT_TRUE(same(run(p.function, sizes), run(f, sizes)))
          << batch << "x" << sequence << " on " << t->vector_bits << " bits\n"
          << print(f);
    }
    Schedule again =
        Schedule::replay(p.function, Trace::from_json(f->attrs.at("tenon.trace").as<std::string>()));
    EXPECT_TRUE(structural_equal(again.function()->body, f->body));
  }
}

TEST(SymbolicRows, EverySumAndItsEpilogueRunInVectors) {
  const tir::PrimFunc f = default_schedule(layer(96, 24, 48).function, target_of({512, 32}));
  std::map<std::string, bool> vectors;
  std::vector<const tir::For*> around;
  std::unordered_map<const tir::Var*, tir::ForKind> kinds;
  pre_order(f, [&](const ObjectRef& n) {
    if (const auto* l = n.as<tir::For>()) kinds[l->loop_var.get()] = l->kind;
    if (const auto* r = n.as<tir::BlockRealize>())
      for (const PrimExpr& value : r->iter_values)
        post_order(value, [&](const ObjectRef& e) {
          const auto* v = e.as<tir::Var>();
          if (v && kinds.count(v) && kinds[v] == tir::ForKind::vectorized) vectors[r->block->name] = true;
        });
    return true;
  });
  for (const char* block : {"C", "C_init", "D"}) EXPECT_TRUE(vectors[block]) << block << "\n" << print(f);
}

TEST(SymbolicRows, PassByAPanelOfWeights) {
  // The loop over rows lies inside the one over panels, so that a panel is read from memory once.
  const std::string text = print(default_schedule(layer(3072, 768, 48).function, target_of({512, 32})));
  const size_t rows = text.find("v_i0_fused = T.axis.spatial("),
               columns = text.find("v_i2 = T.axis.spatial(");
  ASSERT_NE(rows, std::string::npos);
  EXPECT_NE(text.substr(rows, text.find('\n', rows) - rows).find('%'), std::string::npos) << text;
  EXPECT_NE(text.substr(columns, text.find('\n', columns) - columns).find("//"), std::string::npos) << text;
}

/// softmax of X[b, s, t] along t
Program softmax_rows(const PrimExpr& batch, const PrimExpr& rows, const PrimExpr& columns) {
  Tensor x = te::placeholder({batch, rows, columns}, f32, "X");
  const tir::IterVar k = te::reduce_axis(tir::range(PrimExpr(0), columns), "k"),
                     l = te::reduce_axis(tir::range(PrimExpr(0), columns), "l");
  Tensor most = te::compute(
      {batch, rows}, [&](const Vars& v) { return te::max(x({v[0], v[1], k->var}), {k}); }, "most");
  Tensor e = te::compute(
      x.shape(), [&](const Vars& v) { return tir::exp(x({v[0], v[1], v[2]}) - most({v[0], v[1]})); }, "e");
  Tensor all =
      te::compute({batch, rows}, [&](const Vars& v) { return te::sum(e({v[0], v[1], l->var}), {l}); }, "all");
  Tensor out = te::compute(
      x.shape(), [&](const Vars& v) { return tir::div(e({v[0], v[1], v[2]}), all({v[0], v[1]})); }, "out");
  return {"softmax_rows", te::create_prim_func({x, out}), {}};
}

TEST(SymbolicRows, StagesOfARowAreStoredInWholeVectors) {
  // What a later stage reads at once must not be stored in part: neither a condition around the block nor a
  // mask.
  const tir::VarRef rows = tir::var("rows"), columns = tir::var("columns");
  Program p = softmax_rows(PrimExpr(1), rows, columns);
  const tir::PrimFunc f = default_schedule(p.function, target_of({512, 32}));
  int found = 0;
  pre_order(f, [&](const ObjectRef& n) {
    const auto* r = n.as<tir::BlockRealize>();
    if (!r || r->block->name != "e") return true;
    ++found;
    EXPECT_TRUE(tir::is_one(r->predicate)) << print(f);
    const auto* store = r->block->body.as<tir::BufferStore>();
    EXPECT_TRUE(store && !store->predicate) << print(f);
    return false;
  });
  EXPECT_EQ(found, 1) << print(f);
  EXPECT_EQ(problems_of(f), "");
  for (const int64_t n : {0, 1, 3, 4, 15, 16, 17, 33}) {
    const std::map<std::string, int64_t> sizes{{"rows", 3}, {"columns", n}};
    ASSERT_TRUE(same(run(p.function, sizes), run(f, sizes))) << n << "\n" << print(f);
  }
}

TEST(SymbolicRows, AreAddedUpWhileTheyAreMade) {
  const Program p = softmax_rows(PrimExpr(1), tir::var("rows"), tir::var("columns"));
  const tir::PrimFunc f = default_schedule(p.function, target_of({512, 32}));
  int together = 0;
  pre_order(f, [&](const ObjectRef& n) {
    const auto* loop = n.as<tir::For>();
    const auto* both = loop ? loop->body.as<tir::SeqStmt>() : nullptr;
    if (!both) return true;
    std::vector<std::string> blocks;
    for (const tir::Stmt& s : both->seq)
      if (const auto* inner = s.as<tir::For>(); inner && inner->kind == tir::ForKind::vectorized)
        if (const auto* r = inner->body.as<tir::BlockRealize>()) blocks.push_back(r->block->name);
    together += blocks == std::vector<std::string>{"e", "all_rf"};
    return true;
  });
  EXPECT_EQ(together, 1) << print(f);
  EXPECT_EQ(problems_of(f), "");
  for (const int64_t n : {0, 1, 15, 16, 17, 32, 33, 64, 100}) {
    const std::map<std::string, int64_t> sizes{{"rows", 2}, {"columns", n}};
    ASSERT_TRUE(same(run(p.function, sizes), run(f, sizes))) << n << "\n" << print(f);
  }
}

TEST(SymbolicRows, OfKnownLengthHaveLanes) {
  // However many rows there are: each has more results than sums.
  const Program p = softmax_rows(tir::var("batch"), PrimExpr(3), PrimExpr(17));
  const tir::PrimFunc f = default_schedule(p.function, target_of({512, 32}));
  EXPECT_NE(print(f).find("most_rf"), std::string::npos) << print(f);
  EXPECT_NE(print(f).find("all_rf"), std::string::npos) << print(f);
  EXPECT_EQ(problems_of(f), "");
  for (const int64_t n : {0, 1, 2, 5}) {
    const std::map<std::string, int64_t> sizes{{"batch", n}};
    ASSERT_TRUE(same(run(p.function, sizes), run(f, sizes))) << n << "\n" << print(f);
  }
}

/// The largest of each row.
TEST(SymbolicRows, OfParametersAreFoldedInTwoVectors) {
  const tir::VarRef rows = tir::var("rows"), columns = tir::var("columns");
  Tensor x = te::placeholder({rows, columns}, f32, "X");
  const tir::IterVar k = te::reduce_axis(tir::range(PrimExpr(0), columns), "k");
  const Program p{
      "largest",
      te::create_prim_func(
          {x, te::compute(
                  {rows}, [&](const Vars& v) { return te::max(x({v[0], k->var}), {k}); }, "out")}),
      {}};
  const tir::PrimFunc f = default_schedule(p.function, target_of({512, 32}));
  std::set<int64_t> lanes;
  pre_order(f, [&](const ObjectRef& n) {
    const auto* loop = n.as<tir::For>();
    if (loop && loop->kind == tir::ForKind::vectorized) lanes.insert(*tir::as_int(loop->extent));
    return true;
  });
  EXPECT_EQ(lanes, (std::set<int64_t>{4, 16, 32})) << print(f);
  EXPECT_EQ(problems_of(f), "");
  for (const int64_t n : {1, 15, 16, 17, 31, 32, 33, 64, 100}) {
    const std::map<std::string, int64_t> sizes{{"rows", 3}, {"columns", n}};
    ASSERT_TRUE(same(run(p.function, sizes), run(f, sizes))) << n << "\n" << print(f);
  }
}

/// Quotients and remainders whose divisor is no number.
int symbolic_divisions(const ObjectRef& in) {
  int count = 0;
  pre_order(in, [&](const ObjectRef& n) {
    if (const auto* d = n.as<tir::FloorDiv>()) count += !tir::as_int(d->b);
    if (const auto* m = n.as<tir::FloorMod>()) count += !tir::as_int(m->b);
    return true;
  });
  return count;
}

/// The same in what loops give to iterators. Digits of one iterator that become two dimensions side by side
/// are gone where buffers are flat.
int symbolic_digits(const tir::PrimFunc& f) {
  int count = 0;
  pre_order(f, [&](const ObjectRef& n) {
    if (const auto* r = n.as<tir::BlockRealize>()) {
      count += symbolic_divisions(r->predicate);
      for (const PrimExpr& value : r->iter_values) count += symbolic_divisions(value);
    }
    return true;
  });
  return count;
}

TEST(SymbolicRows, OfASoftmaxAreNotAskedWhetherTheyAreThere) {
  const Program p = softmax_rows(tir::var("batch"), tir::var("rows"), tir::var("columns"));
  const tir::PrimFunc f = default_schedule(p.function, target_of({512, 32}));
  EXPECT_EQ(problems_of(f), "");
  pre_order(f, [&](const ObjectRef& n) {
    const auto* r = n.as<tir::BlockRealize>();
    EXPECT_TRUE(!r || symbolic_divisions(r->predicate) == 0) << print(f);
    return true;
  });
  for (const auto& [rows, columns] :
       {std::pair<int64_t, int64_t>{5, 39}, {1, 1}, {3, 16}, {0, 7}, {4, 0}, {2, 130}}) {
    const std::map<std::string, int64_t> sizes{{"batch", 2}, {"rows", rows}, {"columns", columns}};
    ASSERT_TRUE(same(run(p.function, sizes), run(f, sizes))) << rows << "x" << columns << "\n" << print(f);
  }
}

TEST(SymbolicRows, OfManyDigitsAreTasksOfSeveral) {
  // Every voxel twice along each axis: places along three of them are digits, which a loop inside of a task
  // counts.
  const tir::VarRef d = tir::var("d"), h = tir::var("h"), w = tir::var("w");
  Tensor x = te::placeholder({3, d, h, w}, f32, "X");
  auto half = [](const PrimExpr& i) { return tir::floordiv(i, PrimExpr(2)); };
  Tensor y = te::compute(
      {3, d * 2, h * 2, w}, [&](const Vars& v) { return x({v[0], half(v[1]), half(v[2]), v[3]}); }, "Y");
  const Program p{"twice", te::create_prim_func({x, y}), {}};
  const tir::PrimFunc f = default_schedule(p.function, target_of({512, 32, 4}));
  EXPECT_NE(print(f).find("for i0_i1_i2_fused_1, i3_0 in T.grid(8, "), std::string::npos) << print(f);
  for (const auto& [a, b, c] :
       std::vector<std::array<int64_t, 3>>{{1, 1, 1}, {2, 3, 17}, {5, 2, 40}, {0, 3, 4}}) {
    const std::map<std::string, int64_t> sizes{{"d", a}, {"h", b}, {"w", c}};
    ASSERT_TRUE(same(run(p.function, sizes), run(f, sizes))) << a << "x" << b << "x" << c << "\n" << print(f);
  }
}

TEST(SymbolicRows, OfACopyStepWithoutDivisions) {
  // Channels are enough tasks: neither the rows of an image nor its columns become digits. They are one run.
  const tir::VarRef batch = tir::var("batch"), height = tir::var("height"), width = tir::var("width");
  Tensor x = te::placeholder({batch, 6, height, width, 8}, f32, "X");
  Tensor y = te::compute(
      {batch, 48, height, width},
      [&](const Vars& v) {
        return x({v[0], tir::floordiv(v[1], PrimExpr(8)), v[2], v[3], tir::floormod(v[1], PrimExpr(8))});
      },
      "Y");
  const Program p{"unblocked", te::create_prim_func({x, y}), {}};
  const tir::PrimFunc f = default_schedule(p.function, target_of({512, 32}));
  EXPECT_EQ(symbolic_digits(f), 0) << print(f);
  EXPECT_NE(print(f).find("range(height * width)"), std::string::npos) << print(f);
  EXPECT_NE(print(f).find("T.parallel("), std::string::npos) << print(f);
  for (const auto& [h, w] : {std::pair<int64_t, int64_t>{8, 8}, {1, 1}, {3, 17}, {0, 5}}) {
    const std::map<std::string, int64_t> sizes{{"batch", 2}, {"height", h}, {"width", w}};
    ASSERT_TRUE(same(run(p.function, sizes), run(f, sizes))) << h << "x" << w << "\n" << print(f);
  }
}

TEST(SymbolicRows, OfImagesInBlocksOfChannelsAreOneLoop) {
  // A gate for each channel: the loop around short vectors runs over the plane, not over its last rows alone.
  const tir::VarRef batch = tir::var("batch"), height = tir::var("height"), width = tir::var("width");
  Tensor x = te::placeholder({batch, 3, height, width, 16}, f32, "X"),
         gate = te::placeholder({batch, 3, 16}, f32, "G");
  Tensor y = te::compute(
      {batch, 3, height, width, 16},
      [&](const Vars& v) { return x({v[0], v[1], v[2], v[3], v[4]}) * gate({v[0], v[1], v[4]}); }, "Y");
  const Program p{"gated", te::create_prim_func({x, gate, y}), {}};
  const tir::PrimFunc f = default_schedule(p.function, target_of({512, 32}));
  EXPECT_NE(print(f).find("height * width"), std::string::npos) << print(f);
  for (const auto& [h, w] : {std::pair<int64_t, int64_t>{3, 4}, {1, 1}, {3, 17}, {0, 5}}) {
    const std::map<std::string, int64_t> sizes{{"batch", 2}, {"height", h}, {"width", w}};
    ASSERT_TRUE(same(run(p.function, sizes), run(f, sizes))) << h << "x" << w << "\n" << print(f);
  }
}

TEST(SymbolicRows, OfASumOverAnImageAreOneRun) {
  const tir::VarRef batch = tir::var("batch"), height = tir::var("height"), width = tir::var("width");
  Tensor x = te::placeholder({batch, 6, height, width}, f32, "X");
  const tir::IterVar i = te::reduce_axis(tir::range(PrimExpr(0), height), "i"),
                     j = te::reduce_axis(tir::range(PrimExpr(0), width), "j");
  Tensor y = te::compute(
      {batch, 6}, [&](const Vars& v) { return te::sum(x({v[0], v[1], i->var, j->var}), {i, j}); }, "Y");
  const Program p{"image_sums", te::create_prim_func({x, y}), {}};
  const tir::PrimFunc f = default_schedule(p.function, target_of({512, 32}));
  EXPECT_NE(print(f).find("height * width"), std::string::npos) << print(f);
  for (const auto& [h, w] : {std::pair<int64_t, int64_t>{3, 4}, {1, 1}, {5, 17}, {0, 5}, {16, 16}}) {
    const std::map<std::string, int64_t> sizes{{"batch", 2}, {"height", h}, {"width", w}};
    ASSERT_TRUE(same(run(p.function, sizes), run(f, sizes))) << h << "x" << w << "\n" << print(f);
  }
}

TEST(SymbolicRows, OfNarrowImagesAreOneRunOfColumns) {
  // Points of an image, one after the other, become planes: rows of the image need not fill vectors.
  const tir::VarRef batch = tir::var("batch"), height = tir::var("height"), width = tir::var("width");
  Tensor z = te::placeholder({height, width}, f32, "Z"),
         x = te::placeholder({batch, height * width, 32}, f32, "X");
  Tensor y = te::compute(
      {batch, 32, height, width},
      [&](const Vars& v) { return x({v[0], v[2] * width + v[3], v[1]}) + z({v[2], v[3]}); }, "Y");
  const Program p{"planes", te::create_prim_func({z, x, y}), {}};
  const tir::PrimFunc f = default_schedule(p.function, target_of({512, 32}));
  EXPECT_NE(steps_of(f).find("fuse_iterators"), std::string::npos) << steps_of(f);
  EXPECT_NE(print(f).find("T.vectorized(16)"), std::string::npos) << print(f);
  for (const auto& [h, w] : {std::pair<int64_t, int64_t>{4, 4}, {1, 1}, {3, 17}, {5, 7}, {0, 5}, {16, 16}}) {
    const std::map<std::string, int64_t> sizes{{"batch", 2}, {"height", h}, {"width", w}};
    ASSERT_TRUE(same(run(p.function, sizes), run(f, sizes))) << h << "x" << w << "\n" << print(f);
  }
}

TEST(SymbolicRows, OfNarrowImagesInBlocksOfChannelsAreOneRun) {
  const tir::VarRef batch = tir::var("batch"), height = tir::var("height"), width = tir::var("width");
  Tensor x = te::placeholder({batch, 32, height, width}, f32, "X");
  Tensor y = te::compute(
      {batch, 2, height, width, 16}, [&](const Vars& v) { return x({v[0], v[1] * 16 + v[4], v[2], v[3]}); },
      "Y");
  const Program p{"blocked", te::create_prim_func({x, y}), {}};
  const tir::PrimFunc f = default_schedule(p.function, target_of({512, 32}));
  EXPECT_NE(print(f).find("(height * width + 15) // 16"), std::string::npos) << print(f);
  for (const auto& [h, w] : {std::pair<int64_t, int64_t>{4, 4}, {1, 1}, {3, 17}, {5, 7}, {0, 5}, {16, 16}}) {
    const std::map<std::string, int64_t> sizes{{"batch", 2}, {"height", h}, {"width", w}};
    ASSERT_TRUE(same(run(p.function, sizes), run(f, sizes))) << h << "x" << w << "\n" << print(f);
  }
}

TEST(SymbolicRows, OfWindowsThatOverlapAreTiles) {
  const tir::VarRef height = tir::var("height"), width = tir::var("width");
  auto pooled = [&](int64_t size, int64_t step) {
    Tensor x = te::placeholder({height, width}, f32, "X");
    auto results = [&](const PrimExpr& d) { return tir::floordiv(d - size, PrimExpr(step)) + 1; };
    const tir::IterVar r = te::reduce_axis(tir::range(PrimExpr(0), PrimExpr(size)), "r"),
                       k = te::reduce_axis(tir::range(PrimExpr(0), PrimExpr(size)), "k");
    Tensor y = te::compute(
        {results(height), results(width)},
        [&](const Vars& v) { return te::max(x({v[0] * step + r->var, v[1] * step + k->var}), {r, k}); }, "Y");
    return Program{"pooled", te::create_prim_func({x, y}), {}};
  };
  for (const auto& [size, step] : {std::pair<int64_t, int64_t>{3, 1}, {3, 2}, {2, 1}}) {
    const Program p = pooled(size, step);
    const tir::PrimFunc f = default_schedule(p.function, target_of({512, 32}));
    EXPECT_NE(print(f).find("T.vectorized(16)"), std::string::npos) << print(f);
    for (const auto& [h, w] : {std::pair<int64_t, int64_t>{4, 4}, {1, 1}, {3, 17}, {9, 33}, {0, 5}}) {
      const std::map<std::string, int64_t> sizes{{"height", (h - 1) * step + size},
                                                 {"width", (w - 1) * step + size}};
      ASSERT_TRUE(same(run(p.function, sizes), run(f, sizes))) << h << "x" << w << "\n" << print(f);
    }
  }
}

/// A window of 3 × 3 over blocks of 16 channels of an image that is padded by one, every `stride`-th of it.
Program windows(int64_t in, int64_t out, int64_t stride) {
  const tir::VarRef batch = tir::var("batch"), h = tir::var("h"), w = tir::var("w");
  Tensor x = te::placeholder({batch, in, h, w, 16}, f32, "X"),
         k = te::placeholder({out, in, 3, 3, 16, 16}, f32, "K");
  Tensor padded = te::compute(
      {batch, in, h + 2, w + 2, 16},
      [&](const Vars& v) {
        const PrimExpr i = v[2] - 1, j = v[3] - 1;
        const PrimExpr inside = tir::logical_and(tir::logical_and(tir::ge(i, PrimExpr(0)), tir::lt(i, h)),
                                                 tir::logical_and(tir::ge(j, PrimExpr(0)), tir::lt(j, w)));
        return tir::if_then_else(inside, x({v[0], v[1], i, j, v[4]}), PrimExpr(0.0));
      },
      "pad");
  auto axis = [](int64_t n, const char* name) {
    return te::reduce_axis(tir::range(PrimExpr(0), PrimExpr(n)), name);
  };
  const tir::IterVar c = axis(in, "c"), i = axis(3, "i"), j = axis(3, "j"), b = axis(16, "b");
  auto results = [&](const PrimExpr& d) { return tir::floordiv(d - 1, PrimExpr(stride)) + 1; };
  Tensor y = te::compute(
      {batch, out, results(h), results(w), 16},
      [&](const Vars& v) {
        return te::sum(padded({v[0], c->var, v[2] * stride + i->var, v[3] * stride + j->var, b->var}) *
                           k({v[1], c->var, i->var, j->var, b->var, v[4]}),
                       {c, i, j, b});
      },
      "Y");
  Tensor z = te::compute(
      {batch, out, results(h), results(w), 16},
      [&](const Vars& v) { return tir::max(y({v[0], v[1], v[2], v[3], v[4]}), PrimExpr(0.0)); }, "Z");
  return {"windows", te::create_prim_func({x, k, z}), {}};
}

TEST(SymbolicRows, OfImagesUnderAWindowAreOneRun) {
  for (const auto& [in, out, stride] : {std::array<int64_t, 3>{1, 2, 1}, {2, 1, 2}, {1, 4, 1}}) {
    const Program p = windows(in, out, stride);
    std::vector<RuleAttempt> attempts;
    const tir::PrimFunc f = default_schedule(p.function, target_of({512, 32}), &attempts);
    EXPECT_NE(steps_of(f).find("fuse_iterators"), std::string::npos) << steps_of(f);
    EXPECT_EQ(problems_of(f), "");
    for (const auto& [h, w] :
         {std::pair<int64_t, int64_t>{1, 1}, {2, 2}, {3, 5}, {1, 17}, {7, 3}, {0, 4}, {4, 0}}) {
      const std::map<std::string, int64_t> sizes{{"batch", 2}, {"h", h}, {"w", w}};
      ASSERT_TRUE(same(run(p.function, sizes), run(f, sizes))) << h << "x" << w << "\n" << print(f);
    }
    // What was recorded is a tile that may be given.
    const auto made = std::ranges::find_if(attempts, [](const RuleAttempt& a) {
      return a.outcome == RuleOutcome::applied && a.tile.size() > 0;
    });
    ASSERT_NE(made, attempts.end());
    tir::PrimFunc given = p.function;
    given.edit()->body = rewrite(given->body, [&](const tir::Block& b) -> tir::Stmt {
      if (b.name != "Y") return {};
      Ref<tir::Block> out(&b);
      out.edit()->annotations.set("tile", Any(made->tile));
      return out;
    });
    EXPECT_EQ(steps_of(default_schedule(given, target_of({512, 32}))), steps_of(f));
  }
}

TEST(SymbolicRows, OfHeadsSideBySideAreVectors) {
  // Y[r, c]: row r of the sequence, head c // 8; the heads lie across memory.
  auto merged = [](const PrimExpr& heads, const PrimExpr& sequence) {
    Tensor x = te::placeholder({heads, sequence, 8}, f32, "X");
    Tensor y = te::compute(
        {sequence, 32},
        [&](const Vars& v) {
          return x({tir::floordiv(v[1], PrimExpr(8)), v[0], tir::floormod(v[1], PrimExpr(8))});
        },
        "Y");
    return Program{"merged", te::create_prim_func({x, y}), {}};
  };
  const Program p = merged(tir::var("heads"), tir::var("sequence"));
  const tir::PrimFunc f = default_schedule(p.function, target_of({512, 32}));
  EXPECT_NE(print(f).find("T.vectorized(8)"), std::string::npos) << print(f);
  for (const int64_t length : {1, 5, 16}) {
    const std::map<std::string, int64_t> sizes{{"heads", 4}, {"sequence", length}};
    ASSERT_TRUE(same(run(p.function, sizes), run(f, sizes))) << length << "\n" << print(f);
  }
  // Known sizes are vectors as well.
  const Program known = merged(PrimExpr(4), PrimExpr(5));
  const tir::PrimFunc g = default_schedule(known.function, target_of({512, 32}));
  EXPECT_NE(print(g).find("T.vectorized(8)"), std::string::npos) << print(g);
  EXPECT_TRUE(same(run(known.function), run(g))) << print(g);
}

TEST(SymbolicRows, OfTwoTensorsJoinedAreCutWhereTheyMeet) {
  const tir::VarRef rows = tir::var("rows"), first = tir::var("first"), second = tir::var("second");
  Tensor x = te::placeholder({rows, first}, f32, "X"), z = te::placeholder({rows, second}, f32, "Z");
  Tensor y = te::compute(
      {rows, first + second},
      [&](const Vars& v) {
        return tir::if_then_else(tir::lt(v[1], first), x({v[0], v[1]}), z({v[0], v[1] - first}));
      },
      "Y");
  const Program p{"joined", te::create_prim_func({x, z, y}), {}};
  const tir::PrimFunc f = default_schedule(p.function, target_of({512, 32}));
  EXPECT_EQ(print(f).find("T.vectorized("), std::string::npos) << print(f);
  EXPECT_EQ(problems_of(f), "");
  for (const auto& [a, b] : {std::pair<int64_t, int64_t>{1, 3}, {0, 20}, {17, 40}, {33, 0}}) {
    const std::map<std::string, int64_t> sizes{{"rows", 3}, {"first", a}, {"second", b}};
    ASSERT_TRUE(same(run(p.function, sizes), run(f, sizes))) << a << " and " << b << "\n" << print(f);
  }
}

TEST(SymbolicRows, OfWindowsFarApartAreReadFromACopy) {
  // Frames of 64 samples, one every 32, by 160 filters that read each sample: its lanes are neighbours then.
  const tir::VarRef batch = tir::var("batch"), length = tir::var("length");
  Tensor x = te::placeholder({batch, 2, length}, f32, "X"), w = te::placeholder({160, 2, 64}, f32, "W");
  const tir::IterVar c = te::reduce_axis(tir::range(PrimExpr(0), PrimExpr(2)), "c"),
                     k = te::reduce_axis(tir::range(PrimExpr(0), PrimExpr(64)), "k");
  Tensor y = te::compute(
      {batch, 160, tir::floordiv(length, PrimExpr(32)) - 1},
      [&](const Vars& v) {
        return te::sum(x({v[0], c->var, v[2] * 32 + k->var}) * w({v[1], c->var, k->var}), {c, k});
      },
      "Y");
  const Program p{"frames", te::create_prim_func({x, w, y}), {}};
  const tir::PrimFunc f = default_schedule(p.function, target_of({512, 32}));
  EXPECT_NE(print(f).find("X_reindex"), std::string::npos) << print(f);
  EXPECT_EQ(problems_of(f), "");
  for (const auto& [n, samples] :
       {std::pair<int64_t, int64_t>{1, 64}, {2, 101}, {1, 300}, {0, 96}, {2, 32}}) {
    const std::map<std::string, int64_t> sizes{{"batch", n}, {"length", samples}};
    ASSERT_TRUE(same(run(p.function, sizes), run(f, sizes))) << n << " of " << samples << "\n" << print(f);
  }
}

TEST(SymbolicRows, OfHalvesWithAConditionEachAreVectors) {
  // Y[r, c]: powers of eight elements, then twice those, of two groups.
  auto waves = [](const PrimExpr& rows) {
    Tensor x = te::placeholder({rows, 2, 8}, f32, "X");
    Tensor y = te::compute(
        {rows, 32},
        [&](const Vars& v) {
          const PrimExpr half = tir::floordiv(v[1], PrimExpr(16)), at = tir::floormod(v[1], PrimExpr(16));
          return tir::if_then_else(tir::lt(at, PrimExpr(8)), tir::exp(x({v[0], half, at})),
                                   x({v[0], half, at - 8}) * 2);
        },
        "Y");
    return Program{"waves", te::create_prim_func({x, y}), {}};
  };
  for (const Program& p : {waves(tir::var("rows")), waves(PrimExpr(5))}) {
    const tir::PrimFunc f = default_schedule(p.function, target_of({512, 32}));
    EXPECT_NE(print(f).find("T.vectorized(8)"), std::string::npos) << print(f);
    EXPECT_EQ(problems_of(f), "");
    for (const int64_t rows : {0, 1, 5}) {
      const std::map<std::string, int64_t> sizes{{"rows", rows}};
      ASSERT_TRUE(same(run(p.function, sizes), run(f, sizes))) << rows << "\n" << print(f);
    }
  }
}

TEST(SymbolicRows, OfAPlaneAreOneRunWithoutTheGroupOfItsChannel) {
  // A norm over groups of a single channel: the axis of the group would bring digits of a size.
  const tir::VarRef h = tir::var("h"), w = tir::var("w");
  Tensor x = te::placeholder({2, 6, h, w}, f32, "X");
  tir::IterVar g = te::reduce_axis(tir::range(PrimExpr(0), PrimExpr(1)), "g"),
               i = te::reduce_axis(tir::range(PrimExpr(0), PrimExpr(h)), "i"),
               j = te::reduce_axis(tir::range(PrimExpr(0), PrimExpr(w)), "j");
  Tensor y = te::compute(
      {2, 6}, [&](const Vars& v) { return te::sum(x({v[0], v[1] + g->var, i->var, j->var}), {g, i, j}); },
      "Y");
  const tir::PrimFunc p = te::create_prim_func({x, y}), f = default_schedule(p, target_of({512, 32}));
  const std::string steps = f->attrs.at("tenon.trace").as<std::string>();
  EXPECT_NE(steps.find("\"count\":2"), std::string::npos) << steps;
  EXPECT_EQ(steps.find("\"count\":3"), std::string::npos) << steps;
  for (const auto& [a, b] : std::vector<std::array<int64_t, 2>>{{1, 1}, {3, 5}, {9, 33}, {0, 4}}) {
    const std::map<std::string, int64_t> sizes{{"h", a}, {"w", b}};
    ASSERT_TRUE(same(run(p, sizes), run(f, sizes))) << a << " × " << b;
  }
}

}  // namespace
}  // namespace tenon::testing
