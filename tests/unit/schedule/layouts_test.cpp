// SPDX-License-Identifier: Apache-2.0
// Layouts, padding and alignment of buffers: what each makes, that it computes the same, and the sentence of
// each refusal.
#include "ir/text.h"
#include "replayed.h"

namespace tenon::testing {
namespace {

TEST(TransformLayout, BlockedWithAndWithoutPadding) {
  for (int64_t columns : {8, 7}) {
    Program p = matmul(6, columns, 5);
    Schedule s(p.function);
    BlockRV c = s.get_block("C");
    s.transform_layout(c, 0, BufferIndexType::write,
                       map_of(2,
                              [](const Array<VarRef>& i) -> Array<PrimExpr> {
                                return {tir::floordiv(i[1], 4), i[0], tir::floormod(i[1], 4)};
                              }),
                       columns == 7 ? PrimExpr(0.0) : PrimExpr());
    EXPECT_EQ(s.get(c)->writes[0]->buffer->shape.size(), 3u);
    EXPECT_EQ(s.blocks().size(), columns == 7 ? 3u : 2u);
    check_replay(p, s);
  }
  // Through a blockized block, whose regions follow.
  Program p = matmul(8, 8, 8);
  Schedule s(p.function);
  s.blockize(tile(s, s.get_block("C"), {4, 4, 4})[3]);
  s.transform_layout(s.get_block("D"), 0, BufferIndexType::read,
                     map_of(2, [](const Array<VarRef>& i) -> Array<PrimExpr> {
                       return {tir::floordiv(i[0], 4), tir::floordiv(i[1], 4), tir::floormod(i[0], 4),
                               tir::floormod(i[1], 4)};
                     }));
  EXPECT_EQ(s.get(s.get_block("C_o"))->writes[0]->region.size(), 4u);
  check_replay(p, s);
}

TEST(TransformLayout, FusedAndSplitSymbolic) {
  VarRef n = tir::var("n");
  for (int64_t size : {1, 5, 8}) {
    Program p = elementwise(n, 6);
    p.sizes = {{"n", size}};
    Schedule s(p.function);
    s.transform_layout(
        s.get_block("C"), 0, BufferIndexType::write,
        map_of(2, [](const Array<VarRef>& i) -> Array<PrimExpr> { return {i[0] * 6 + i[1]}; }));
    s.transform_layout(s.get_block("D"), 0, BufferIndexType::write,
                       map_of(2,
                              [](const Array<VarRef>& i) -> Array<PrimExpr> {
                                return {tir::floordiv(i[0], 4), i[1], tir::floormod(i[0], 4)};
                              }),
                       PrimExpr(1.0));
    check_replay(p, s);
  }
}

TEST(TransformLayout, Refusals) {
  Program p = matmul(6, 8, 5);
  Schedule s(p.function);
  BlockRV c = s.get_block("C"), d = s.get_block("D");
  auto swapped = map_of(2, [](const Array<VarRef>& i) -> Array<PrimExpr> { return {i[1], i[0]}; });
  refused(s, "T0777", "caller's", [&] { s.transform_layout(d, 0, BufferIndexType::write, swapped); });
  refused(s, "T0771", "no number 4", [&] { s.transform_layout(c, 4, BufferIndexType::write, swapped); });
  refused(s, "T0778", "takes 3 indices", [&] {
    s.transform_layout(c, 0, BufferIndexType::write, map_of(3, [](const Array<VarRef>& i) -> Array<PrimExpr> {
                         return {i[1], i[0], i[2]};
                       }));
  });
  refused(s, "T0778", "place of its own", [&] {
    s.transform_layout(c, 0, BufferIndexType::write,
                       map_of(2, [](const Array<VarRef>& i) -> Array<PrimExpr> { return {i[0]}; }));
  });
  refused(s, "T0779", "no number",
          [&] { s.transform_layout(c, 0, BufferIndexType::write, swapped, PrimExpr(tir::var("x", f32))); });
  s.pad_iteration(d, 1, 5);
  refused(s, "T0736", "mask", [&] { s.transform_layout(c, 0, BufferIndexType::write, swapped); });
}

TEST(TransformBlockLayout, NewLoopsOverTheSameWork) {
  Program p = matmul(6, 8, 4);
  Schedule s(p.function);
  BlockRV c = s.get_block("C");
  s.transform_block_layout(c, map_of(3, [](const Array<VarRef>& i) -> Array<PrimExpr> {
                             return {tir::floordiv(i[1], 4), i[0] * 4 + tir::floormod(i[1], 4), i[2]};
                           }));
  ASSERT_EQ(s.get_loops(c).size(), 3u);
  EXPECT_EQ(extent(s, s.get_loops(c)[1]), 24);
  s.parallel(s.get_loops(c)[1]);
  check_replay(p, s);
  Schedule t(p.function);
  BlockRV tc = t.get_block("C");
  auto fused = [](const Array<VarRef>& i) -> Array<PrimExpr> { return {i[0], i[1] * 4 + i[2]}; };
  refused(t, "T0778", "mixes spatial", [&] { t.transform_block_layout(tc, map_of(3, fused)); });
  refused(t, "T0778", "takes 2 indices", [&] {
    t.transform_block_layout(tc, map_of(2, [](auto& i) -> Array<PrimExpr> { return {i[0], i[1]}; }));
  });
  refused(t, "T0778", "not divisible", [&] {
    t.transform_block_layout(tc, map_of(3, [](auto& i) -> Array<PrimExpr> {
                               return {tir::floordiv(i[0], 4), tir::floormod(i[0], 4), i[1], i[2]};
                             }));
  });
  t.split(t.get_loops(tc)[0], {-1, 2});
  refused(t, "T0783", "loop of its own", [&] {
    t.transform_block_layout(tc, map_of(3, [](auto& i) -> Array<PrimExpr> { return {i[1], i[0], i[2]}; }));
  });
}

TEST(PadEinsum, WholeTilesByCopies) {
  for (auto [m, n, k] : std::vector<std::array<int64_t, 3>>{{5, 7, 6}, {8, 4, 8}, {1, 1, 1}}) {
    Program p = matmul(m, n, k);
    Schedule s(p.function);
    BlockRV c = s.get_block("C");
    s.pad_einsum(c, {4, 4, 4});
    EXPECT_EQ(extent(s, s.get_loops(c)[0]) % 4, 0);
    check_replay(p, s);
    s.blockize(tile(s, c, {4, 4, 4})[3]);
    check_replay(p, s);
  }
  VarRef rows = tir::var("n");
  Program q = matmul(rows, 7, 5);
  q.sizes = {{"n", 5}};
  Schedule t(q.function);
  t.pad_einsum(t.get_block("C"), {4, 1, 8});
  check_replay(q, t);
  Schedule u(q.function);
  BlockRV c = u.get_block("C");
  refused(u, "T0782", "2 multiples", [&] { u.pad_einsum(c, {4, 4}); });
  refused(u, "T0782", "no usable", [&] { u.pad_einsum(c, {4, 0, 4}); });
  refused(u, "T0786", "no sum of products", [&] { u.pad_einsum(u.get_block("D"), {4, 4}); });
  Schedule v(conv(2, 6, 6, 3, 3, 1, 1).function);
  refused(v, "T0786", "not one iterator alone",
          [&] { v.pad_einsum(v.get_block("conv"), {1, 1, 4, 1, 1, 1, 1}); });
}

TEST(PadEinsum, LeavesSizesOfOneThatAreNoIndex) {
  Program p = conv(2, 5, 4, 3, 3, 1, 1);
  Schedule s(p.function);
  BlockRV c = s.get_block("conv");
  s.transform_layout(c, 0, BufferIndexType::write, map_of(4, [](const Array<VarRef>& i) -> Array<PrimExpr> {
                       return {i[0], i[1] * 5 + i[2], i[3]};
                     }));
  refused(s, "T0786", "is no index of 'conv'", [&] { s.pad_einsum(c, {4, 3, 1, 1, 2, 1, 3}); });
}

TEST(Reindex, WaitsForWhatTheIndexReads) {
  Program p = gather(4, 5, 6);
  Schedule s(p.function);
  BlockRV g = s.get_block("G");
  s.compute_at(s.reindex(g, 1), s.get_loops(g)[0]);
  refused(s, "T0773", "the index of 'A' reads", [&] { s.reindex(g, 0); });
}

TEST(Pad, ABufferGrowsToTheLargestOfItsBlocks) {
  VarRef n = tir::var("n");
  Program symbolic = softmax(n, 5), constant = softmax(5, 5);
  symbolic.sizes = {{"n", 5}};
  for (const Program& p : {symbolic, constant}) {
    Schedule s(p.function);
    BlockRV mx = s.get_block("mx");
    BlockRV init = s.decompose_reduction(mx, s.get_loops(mx)[0]);
    s.pad_iteration(init, 0, 4, true);
    s.pad_iteration(mx, 0, 3, true);
    check_replay(p, s);
  }
}

TEST(DecomposePadding, FillAndCopy) {
  for (int at : {0, 2, 3}) {
    Program p = conv(2, 5, 6, 3, 3, 1, 1);
    Schedule s(p.function);
    BlockRV pad = s.get_block("pad");
    BlockRV fill = s.decompose_padding(pad, s.get_loops(pad)[size_t(at)]);
    EXPECT_EQ(s.get(fill)->name, "pad_pad");
    EXPECT_TRUE(s.get(fill)->reads.empty());
    if (at == 0) {
      EXPECT_EQ(extent(s, s.get_loops(pad)[2]), 5);
      EXPECT_EQ(extent(s, s.get_loops(pad)[3]), 6);
      EXPECT_TRUE(tir::is_const_int(s.realize(pad)->predicate, 1));
    }
    check_replay(p, s);
  }
  Program p = conv(2, 5, 6, 3, 3, 1, 1);
  Schedule s(p.function);
  BlockRV pad = s.get_block("pad"), c = s.get_block("conv");
  std::vector<LoopRV> l = s.get_loops(pad);
  s.split(s.fuse({l[2], l[3]}), {-1, 5});
  s.decompose_padding(pad, s.get_loops(pad)[1]);
  check_replay(p, s);
  refused(s, "T0787", "does not store a value where", [&] { s.decompose_padding(c, s.get_loops(c)[0]); });
  Schedule t(p.function);
  refused(t, "T0761", "not one of the loops",
          [&] { t.decompose_padding(t.get_block("pad"), t.get_loops(t.get_block("relu"))[0]); });
  t.vectorize(t.get_loops(pad)[3]);
  refused(t, "T0710", "vectorised", [&] { t.decompose_padding(t.get_block("pad"), t.get_loops(pad)[0]); });
  Schedule u(p.function);
  u.compute_at(u.get_block("pad"), u.get_loops(u.get_block("conv"))[1]);
  refused(u, "T0787", "other blocks",
          [&] { u.decompose_padding(u.get_block("pad"), u.get_loops(u.get_block("pad"))[0]); });
}

TEST(StorageAlign, AnnotatesOnlyWhatTheProgramOwns) {
  Program p = matmul(6, 8, 5);
  Schedule s(p.function);
  BlockRV c = s.get_block("C");
  s.storage_align(c, 0, -2, 32, 8);
  s.storage_align(c, 0, 0, 16, 4);  // replaces
  EXPECT_EQ(s.get(c)->annotations.at("buffer_dim_align").as<Array<Any>>().size(), 1u);
  check_replay(p, s);
  refused(s, "T0788", "caller's", [&] { s.storage_align(s.get_block("D"), 0, 0, 16, 4); });
  refused(s, "T0788", "no number 2", [&] { s.storage_align(c, 0, 2, 16, 4); });
  refused(s, "T0788", "remainder 16", [&] { s.storage_align(c, 0, 0, 16, 16); });
  refused(s, "T0771", "no number 1", [&] { s.storage_align(c, 1, 0, 16, 4); });
}

TEST(IndexMaps, ShapesInversesAndPadding) {
  Analyzer a;
  auto blocked = map_of(2, [](const Array<VarRef>& i) -> Array<PrimExpr> {
    return {tir::floordiv(i[1], 4), i[0], tir::floormod(i[1], 4)};
  });
  auto shape = map_shape(blocked, {PrimExpr(3), PrimExpr(10)}, a);
  ASSERT_TRUE(shape);
  EXPECT_EQ(print((*shape)[0]) + print((*shape)[1]) + print((*shape)[2]), "334");
  auto inverse = invert(blocked, {PrimExpr(3), PrimExpr(10)}, a);
  ASSERT_TRUE(inverse);
  EXPECT_FALSE(inverse->exact);
  EXPECT_TRUE(invert(blocked, {PrimExpr(3), PrimExpr(8)}, a)->exact);
  // Every element comes back, for maps of many kinds.
  const std::vector<IndexMap> maps{
      blocked,
      map_of(2, [](auto& i) -> Array<PrimExpr> { return {i[0] * 10 + i[1]}; }),
      map_of(2,
             [](auto& i) -> Array<PrimExpr> {
               return {tir::floordiv(i[0] * 10 + i[1], 6), tir::floormod(i[0] * 10 + i[1], 6)};
             }),
      map_of(2, [](auto& i) -> Array<PrimExpr> { return {i[1] + 2, i[0] * 3}; }),
      map_of(2, [](auto& i) -> Array<PrimExpr> { return {i[1] * 7 + i[0] * 2}; }),
  };
  for (const IndexMap& m : maps) {
    Analyzer b;
    auto back = invert(m, {PrimExpr(3), PrimExpr(10)}, b);
    ASSERT_TRUE(back) << to_text(m);
    std::set<std::string> seen;
    for (int64_t i = 0; i < 3; ++i)
      for (int64_t j = 0; j < 10; ++j) {
        const Array<PrimExpr> there = apply(m, {PrimExpr(i), PrimExpr(j)}, b),
                              here = apply(back->map, there, b);
        EXPECT_EQ(tir::as_int(here[0]), i) << to_text(m);
        EXPECT_EQ(tir::as_int(here[1]), j) << to_text(m);
        tir::VarMap at;
        for (size_t d = 0; d < there.size(); ++d) at[back->map->inputs[d].get()] = there[d];
        EXPECT_TRUE(tir::is_one(b.simplify(tir::substitute(back->inside, at))));
        std::string text;
        for (const PrimExpr& e : there) text += print(e) + ",";
        EXPECT_TRUE(seen.insert(text).second);
      }
    // Places inside the box are elements exactly when `inside` says so.
    const Array<PrimExpr> box = *map_shape(m, {PrimExpr(3), PrimExpr(10)}, b);
    std::vector<int64_t> at(box.size());
    int64_t elements = 0;
    for (;;) {
      tir::VarMap values;
      for (size_t d = 0; d < at.size(); ++d) values[back->map->inputs[d].get()] = PrimExpr(at[d]);
      elements += tir::is_one(b.simplify(tir::substitute(back->inside, values)));
      size_t d = at.size();
      while (d > 0 && ++at[d - 1] == *tir::as_int(box[d - 1])) at[--d] = 0;
      if (d == 0) break;
    }
    EXPECT_EQ(elements, 30) << to_text(m);
  }
  EXPECT_FALSE(invert(map_of(2, [](auto& i) -> Array<PrimExpr> { return {i[0] + i[1]}; }),
                      {PrimExpr(3), PrimExpr(10)}, a));
}

}  // namespace
}  // namespace tenon::testing
