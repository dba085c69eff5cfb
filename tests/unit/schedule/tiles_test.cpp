// SPDX-License-Identifier: Apache-2.0
// blockize, tensorize, layouts, padding, partitions, merging, alignment and samplers: what each makes, that
// it computes the same, and the sentence of each refusal.
#include "ir/text.h"
#include "programs.h"
#include "schedule/primitive.h"
#include "schedule/tensor_intrin.h"

namespace tenon::testing {
namespace {

using tir::VarRef;

IndexMap map_of(int rank, std::function<Array<PrimExpr>(const Array<VarRef>&)> f) {
  return index_map(rank, f);
}
void check_replay(const Program& p, const Schedule& s) {
  check(p, s);
  EXPECT_EQ(problems_of(s.function()), "");
  Schedule again = Schedule::replay(p.function, Trace::from_json(s.trace().to_json()));
  EXPECT_TRUE(structural_equal(s.function(), again.function()))
      << s.trace().to_script() << first_difference(s.function(), again.function());
  EXPECT_EQ(again.trace().to_json(), s.trace().to_json());
}

/// Tiles of a matmul's update: (4, 4, k of the last).
std::vector<LoopRV> tile(Schedule& s, BlockRV c, std::vector<int64_t> sizes) {
  std::vector<LoopRV> l = s.get_loops(c), outer, inner;
  for (size_t i = 0; i < sizes.size(); ++i) {
    std::vector<LoopRV> parts = s.split(l[i], {-1, sizes[i]});
    outer.push_back(parts[0]);
    inner.push_back(parts[1]);
  }
  std::vector<LoopRV> order = outer;
  order.insert(order.end(), inner.begin(), inner.end());
  s.reorder(order);
  return order;
}

TEST(Blockize, TilesAndRaggedEdges) {
  for (auto [m, n, k] : std::vector<std::array<int64_t, 3>>{{8, 8, 8}, {6, 7, 5}, {1, 9, 4}}) {
    Program p = matmul(m, n, k);
    Schedule s(p.function);
    BlockRV c = s.get_block("C");
    std::vector<LoopRV> l = tile(s, c, {4, 4, 2});
    BlockRV o = s.blockize(l[3]);
    EXPECT_EQ(s.get(o)->name, "C_o");
    EXPECT_TRUE(s.get(o)->init);
    EXPECT_FALSE(s.get(c)->init);
    EXPECT_EQ(s.get_loops(o).size(), 3u);
    EXPECT_EQ(s.get_loops(c).size(), 3u);
    check_replay(p, s);
    if (m == 8) {
      s.parallel(l[0]);
      s.decompose_reduction(o, l[2]);
      s.vectorize(l[4]);
      check_replay(p, s);
    }
  }
}

TEST(Blockize, SymbolicRowsInsideAndOutside) {
  VarRef n = tir::var("n");
  for (int64_t size : {1, 4, 7}) {
    Program p = matmul(n, 8, 6);
    p.sizes = {{"n", size}};
    Schedule s(p.function);
    std::vector<LoopRV> l = tile(s, s.get_block("C"), {4, 4});
    s.blockize(l[2]);
    check_replay(p, s);
  }
}

TEST(Blockize, Refusals) {
  Program p = matmul(8, 8, 8);
  Schedule s(p.function);
  BlockRV c = s.get_block("C"), d = s.get_block("D");
  std::vector<LoopRV> f = s.split(s.fuse({s.get_loops(c)[0], s.get_loops(c)[1]}), {-1, 6});
  refused(s, "T0744", "mixes loops", [&] { s.blockize(f[1]); });
  Schedule t(p.function);
  t.compute_at(t.get_block("C"), t.get_loops(t.get_block("D"))[0]);
  refused(t, "T0743", "holds 2 blocks", [&] { t.blockize(t.get_loops(t.get_block("D"))[0]); });
  Schedule u(p.function);
  u.parallel(u.get_loops(d)[1]);
  refused(u, "T0710", "parallel", [&] { u.blockize(u.get_loops(d)[0]); });
  // Inside a blockized block nothing may reach out of it.
  Schedule v(p.function);
  std::vector<LoopRV> l = tile(v, v.get_block("C"), {4, 4, 4});
  v.blockize(l[3]);
  refused(v, "T0759", "lies inside", [&] { v.cache_read(v.get_block("C"), 1, "local"); });
  refused(v, "T0701", "a loop is needed", [&] { v.blockize(LoopRV{v.get_block("D").id}); });
}

/// C[0:4, 0:4] += A[0:4, 0:k] · B[0:k, 0:4], as loops or as four rows of one vector each.
void register_tile_matmul(const std::string& name, int64_t k, bool wrong = false) {
  using namespace tir;
  auto function = [&](bool description) {
    Array<VarRef> params{var("a", DataType::handle()), var("b", DataType::handle()),
                         var("c", DataType::handle())};
    Buffer a = buffer("A", {PrimExpr(4), PrimExpr(k)}, f32), b = buffer("B", {PrimExpr(k), PrimExpr(4)}, f32),
           c = buffer("C", {PrimExpr(4), PrimExpr(4)}, f32);
    if (!description)
      for (Buffer* x : {&a, &b, &c}) {
        BufferNode* e = x->edit();
        e->strides = {var("s"), PrimExpr(1)};
        e->elem_offset = var("o");
      }
    VarRef i = var("i"), j = var("j"), r = var("r");
    Stmt body;
    if (description) {
      IterVar vi = iter_var(range(0, 4), "vi"), vj = iter_var(range(0, 4), "vj"),
              vk = iter_var(range(0, k), "vk", IterKind::reduce);
      Stmt update =
          store(c, load(c, {vi->var, vj->var}) + load(b, {vk->var, vj->var}) * load(a, {vi->var, vk->var}),
                {vi->var, vj->var});
      auto block = make<Block>(Array<IterVar>{vi, vj, vk}, Array<BufferRegion>(), Array<BufferRegion>(),
                               std::string("update"), update, Stmt(), Array<Buffer>(),
                               Array<MatchBufferRegion>(), AttrMap());
      AccessRegions access = detect_access_regions(block);
      block.edit()->reads = access.reads;
      block.edit()->writes = access.writes;
      body = for_(i, 0, 4,
                  for_(j, 0, 4, for_(r, 0, k, make<BlockRealize>(Array<PrimExpr>{i, j, r}, true_(), block))));
    } else {
      PrimExpr row = make<Ramp>(PrimExpr(0), PrimExpr(1), int64_t(4));
      PrimExpr product = make<Broadcast>(load(a, {i, r}), int64_t(4)) * load(b, {r, row});
      body =
          for_(i, 0, 4,
               for_(r, 0, k, store(c, load(c, {i, row}) + (wrong ? product + product : product), {i, row})));
    }
    auto root =
        make<Block>(Array<IterVar>(), Array<BufferRegion>(), Array<BufferRegion>(), std::string("root"), body,
                    Stmt(), Array<Buffer>(), Array<MatchBufferRegion>(), AttrMap());
    Map<VarRef, Buffer> buffers;
    buffers.set(params[0], a), buffers.set(params[1], b), buffers.set(params[2], c);
    return make<PrimFuncNode>(params, buffers, make<BlockRealize>(Array<PrimExpr>(), true_(), root),
                              DataType::void_(), AttrMap());
  };
  register_tensor_intrin(name, function(true), function(false));
}

TEST(Tensorize, MatchesTilesAnywhere) {
  register_tile_matmul("test.tile_4x4x2", 2);
  Program p = matmul(8, 12, 6);
  Schedule s(p.function);
  BlockRV c = s.get_block("C");
  std::vector<LoopRV> l = tile(s, c, {4, 4, 2});
  s.parallel(l[0]);
  BlockRV o = s.tensorize(l[3], "test.tile_4x4x2");
  EXPECT_EQ(s.get(o)->match_buffers.size(), 3u);
  EXPECT_EQ(s.get(o)->reads.size(), 2u);  // the init makes the accumulator no input
  check_replay(p, s);
  refused(s, "T0748", "tensorized already", [&] { s.tensorize(o, "test.tile_4x4x2"); });
  refused(s, "T0736", "matched region", [&] { s.cache_read(o, 0, "local"); });
  // In a blockized block whose init is a block of its own.
  Schedule t(p.function);
  BlockRV tc = t.get_block("C");
  std::vector<LoopRV> k = tile(t, tc, {4, 4, 2});
  BlockRV to = t.blockize(k[3]);
  t.decompose_reduction(to, k[2]);
  t.tensorize(to, "test.tile_4x4x2");
  EXPECT_EQ(t.get(to)->reads.size(), 3u);
  check_replay(p, t);
  // The implementation is what runs.
  register_tile_matmul("test.tile_twice", 2, true);
  Schedule w(p.function);
  w.tensorize(tile(w, w.get_block("C"), {4, 4, 2})[3], "test.tile_twice");
  EXPECT_FALSE(same(run(p.function), run(w.function())));
}

TEST(Tensorize, SymbolicSizesAndIndexedBuffers) {
  register_tile_matmul("test.tile_4x4x2", 2);
  // The description as its own implementation: buffers without strides are accessed by index.
  const auto tile_intrin = find_tensor_intrin("test.tile_4x4x2");
  register_tensor_intrin("test.itself", tile_intrin->description, tile_intrin->description);
  VarRef n = tir::var("n"), m = tir::var("m");
  for (const char* name : {"test.tile_4x4x2", "test.itself"})
    for (auto [rows, columns] : std::vector<std::array<int64_t, 2>>{{1, 1}, {4, 8}, {7, 5}}) {
      Program p = matmul(n, m, 6);
      p.sizes = {{"n", rows}, {"m", columns}};
      Schedule s(p.function);
      BlockRV c = s.get_block("C");
      s.pad_einsum(c, {4, 4, 2});
      std::vector<LoopRV> l = tile(s, c, {4, 4, 2});
      s.tensorize(l[3], name);
      s.parallel(l[1]);
      check_replay(p, s);
    }
}

TEST(Tensorize, Refusals) {
  register_tile_matmul("test.tile_4x4x2", 2);
  Program p = matmul(8, 12, 6);
  Schedule s(p.function);
  std::vector<LoopRV> l = tile(s, s.get_block("C"), {4, 4, 3});
  refused(s, "T0748", "runs 3 times", [&] { s.tensorize(l[3], "test.tile_4x4x2"); });
  refused(s, "T0747", "no tensor intrinsic", [&] { s.tensorize(l[3], "test.nothing"); });
  refused(s, "T0748", "runs 3 times", [&] { s.tensorize(l[5], "test.tile_4x4x2"); });
  Schedule t(matmul(6, 12, 6).function);  // ragged: the tile is guarded
  std::vector<LoopRV> r = tile(t, t.get_block("C"), {4, 4, 2});
  refused(t, "T0748", "is described", [&] { t.tensorize(r[3], "test.tile_4x4x2"); });
  Schedule u(column_max(8, 8).function);
  refused(u, "T0748", "runs 8 times",
          [&] { u.tensorize(u.get_loops(u.get_block("S"))[0], "test.tile_4x4x2"); });
  EXPECT_THROW(register_tensor_intrin("", p.function, p.function), ScheduleError);
  EXPECT_THROW(register_tensor_intrin("test.init", p.function, p.function), ScheduleError);
  EXPECT_FALSE(find_tensor_intrin("test.init"));
}

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

TEST(Blockize, PartsOfAFusedLoopThatDoNotBeginAtATile) {
  Program p = pool(3, 7, 9);
  Schedule s(p.function);
  BlockRV b = s.get_block("P");
  std::vector<LoopRV> l = s.get_loops(b);
  std::vector<LoopRV> parts = s.loop_partition(s.fuse({l[1], l[2]}), {2, -1});
  BlockRV second = s.get_child_blocks(parts[1])[0];
  refused(s, "T0744", "up and down", [&] { s.blockize(s.get_loops(second)[2]); });
}

TEST(ReverseComputeAt, EveryInstanceOfTheConsumerRuns) {
  Program p = conv_transposed(2, 3, 2, 2, 2);
  Schedule s(p.function);
  s.pad_einsum(s.get_block("conv"), {1, 1, 1, 3, 1, 1});
  refused(s, "T0757", "runs over more",
          [&] { s.reverse_compute_at(s.get_block("dilate_pad"), s.get_loops(s.get_block("dilate"))[0]); });
}

TEST(Reindex, WaitsForWhatTheIndexReads) {
  Program p = gather(4, 5, 6);
  Schedule s(p.function);
  BlockRV g = s.get_block("G");
  s.compute_at(s.reindex(g, 1), s.get_loops(g)[0]);
  refused(s, "T0773", "the index of 'A' reads", [&] { s.reindex(g, 0); });
}

TEST(FuseIterators, NotOfATensorizedBlock) {
  register_tile_matmul("test.tile_4x4x2", 2);
  Program p = matmul(8, 12, 6);
  Schedule s(p.function);
  BlockRV o = s.tensorize(tile(s, s.get_block("C"), {4, 4, 2})[3], "test.tile_4x4x2");
  refused(s, "T0752", "matches regions", [&] { s.fuse_iterators(o, 0, 2); });
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

TEST(LoopPartition, ConsecutiveParts) {
  Program p = matmul(9, 8, 5);
  Schedule s(p.function);
  BlockRV c = s.get_block("C");
  std::vector<LoopRV> parts = s.loop_partition(s.get_loops(c)[0], {2, -1, 3});
  ASSERT_EQ(parts.size(), 3u);
  EXPECT_EQ(extent(s, parts[1]), 4);
  EXPECT_EQ(s.get_child_blocks(parts[0])[0], c);
  s.parallel(parts[1]);
  s.vectorize(s.get_loops(s.get_child_blocks(parts[2])[0])[1]);
  check_replay(p, s);
  refused(s, "T0733", "other blocks", [&] { s.compute_at(c, s.get_loops(s.get_block("D"))[0]); });
  refused(s, "T0757", "only a part",
          [&] { s.reverse_compute_at(s.get_block("D"), s.get_loops(s.get_child_blocks(parts[2])[0])[0]); });
  Schedule t(p.function);
  refused(t, "T0714", "carries its reduction",
          [&] { t.loop_partition(t.get_loops(t.get_block("C"))[2], {2, 3}); });
  refused(t, "T0719", "not provably", [&] { t.loop_partition(t.get_loops(t.get_block("C"))[0], {2, 3}); });
  refused(t, "T0719", "not provably", [&] { t.loop_partition(t.get_loops(t.get_block("C"))[0], {9, -1}); });
  refused(t, "T0718", "two parts", [&] { t.loop_partition(t.get_loops(t.get_block("C"))[0], {9}); });
  refused(t, "T0718", "0 is not", [&] { t.loop_partition(t.get_loops(t.get_block("C"))[0], {0, 9}); });
  t.decompose_reduction(t.get_block("C"), t.get_loops(t.get_block("C"))[2]);
  t.loop_partition(t.get_loops(t.get_block("C"))[2], {2, 3});
  check_replay(p, t);
}

TEST(LoopPartition, SymbolicExtents) {
  VarRef n = tir::var("n");
  tir::IterVar k = te::reduce_axis(tir::range(PrimExpr(0), PrimExpr(4)), "k");
  Tensor a = te::placeholder({n, PrimExpr(4)}, f32, "A");
  Tensor b = te::compute(
      {n + 3},
      [&](const Vars& v) { return te::sum(a({tir::max(tir::min(v[0], n - 1), PrimExpr(0)), k->var}), {k}); },
      "B");
  Program q{"rows", te::create_prim_func({a, b}), {}};
  for (int64_t size : {1, 2, 5}) {
    q.sizes = {{"n", size}};
    Schedule s(q.function);
    std::vector<LoopRV> parts = s.loop_partition(s.get_loops(s.get_block("B"))[0], {1, -1, 2});
    s.parallel(parts[1]);
    check_replay(q, s);
  }
  Schedule t(row_sum(n, 8).function);  // n may be 0, and the first part would run all the same
  refused(t, "T0719", "not provably", [&] { t.loop_partition(t.get_loops(t.get_block("S"))[0], {1, -1}); });
}

TEST(Merge, NeighbouringNests) {
  Program p = elementwise(6, 8);
  Schedule s(p.function);
  LoopRV c = s.get_loops(s.get_block("C"))[1], d = s.get_loops(s.get_block("D"))[1],
         e = s.get_loops(s.get_block("E"))[1];
  EXPECT_EQ(s.merge({c, d, e}), c);
  EXPECT_EQ(s.get_child_blocks(c).size(), 3u);
  s.parallel(s.get_loops(s.get_block("E"))[0]);
  check_replay(p, s);
  VarRef n = tir::var("n");
  Program q = elementwise(n, 6);
  q.sizes = {{"n", 5}};
  Schedule t(q.function);
  t.merge({t.get_loops(t.get_block("C"))[0], t.get_loops(t.get_block("D"))[0]});
  check_replay(q, t);
  Schedule u(p.function);
  auto loops = [&](const char* b) { return u.get_loops(u.get_block(b)); };
  refused(u, "T0792", "directly follow", [&] { u.merge({loops("C")[0], loops("E")[0]}); });
  refused(u, "T0792", "deep", [&] { u.merge({loops("C")[0], loops("D")[1]}); });
  refused(u, "T0792", "one loop alone", [&] { u.merge({loops("C")[0]}); });
  refused(u, "T0792", "beside", [&] { u.merge({loops("C")[0], loops("C")[1]}); });
  u.split(loops("C")[0], {-1, 2});
  refused(u, "T0792", "as often", [&] { u.merge({loops("C")[0], loops("D")[0]}); });
  Program m = transpose(6, 6);
  Schedule v(m.function);
  v.reorder({v.get_loops(v.get_block("O"))[1], v.get_loops(v.get_block("O"))[0]});
  refused(v, "T0729", "different iterations",
          [&] { v.merge({v.get_loops(v.get_block("T"))[0], v.get_loops(v.get_block("O"))[0]}); });
  Schedule w(matmul(6, 6, 6).function);
  w.decompose_reduction(w.get_block("C"), w.get_loops(w.get_block("C"))[2]);
  refused(w, "T0792", "",
          [&] { w.merge({w.get_loops(w.get_block("C"))[2], w.get_loops(w.get_block("D"))[0]}); });
}

TEST(Samplers, DecisionsAreRecorded) {
  Program p = matmul(12, 16, 5);
  std::set<std::string> traces;
  for (uint64_t seed = 0; seed < 8; ++seed) {
    Schedule s(p.function, seed);
    BlockRV c = s.get_block("C");
    std::vector<int64_t> f = s.sample_perfect_tile(s.get_loops(c)[1], 3, 4);
    EXPECT_EQ(f[0] * f[1] * f[2], 16);
    EXPECT_LE(f[2], 4);
    s.split(s.get_loops(c)[1], f);
    const int64_t depth = s.sample_categorical({1, 2, 4}, {0.25, 0.5, 0.25});
    s.annotate(c, "depth", Any(depth));
    const LocationRV at = s.sample_compute_location(c);
    s.compute_at(c, at);
    check_replay(p, s);
    traces.insert(s.trace().to_json());
    Schedule again(p.function, seed);
    EXPECT_EQ(again.sample_perfect_tile(again.get_loops(again.get_block("C"))[1], 3, 4), f);
  }
  EXPECT_GT(traces.size(), 3u);
  Schedule s(p.function);
  EXPECT_EQ(s.sample_categorical({7, 8}, {0.0, 1.0}), 8);
  VarRef n = tir::var("n");
  Schedule t(row_sum(n, 8).function);
  refused(t, "T0793", "no positive constant",
          [&] { t.sample_perfect_tile(t.get_loops(t.get_block("S"))[0], 2); });
  refused(t, "T0793", "no tiling", [&] { t.sample_perfect_tile(t.get_loops(t.get_block("S"))[1], 0); });
  refused(t, "T0793", "recorded decision",
          [&] { t.sample_perfect_tile(t.get_loops(t.get_block("S"))[1], 2, 4, {3, 3}); });
  refused(t, "T0793", "cannot be sampled", [&] { t.sample_categorical({1, 2}, {1.0}); });
  refused(t, "T0793", "cannot be sampled", [&] { t.sample_categorical({1}, {-1.0}); });
  refused(t, "T0794", "recorded decision", [&] { t.sample_compute_location(t.get_block("S"), 9); });
}

// A decision of a trace is a value: another one gives another program, which computes the same.
TEST(Samplers, AnotherDecisionReplays) {
  Program p = transpose(4, 6);
  std::set<std::string> programs;
  for (int first : {-2, -1, 0, 1}) {
    Schedule s(p.function);
    BlockRV c = s.get_block("T");
    s.parallel(s.get_loops(s.get_block("O"))[0]);
    s.compute_at(c, s.sample_compute_location(c, first));
    check_replay(p, s);
    for (int other : {-2, -1, 0, 1}) {
      Trace t = Trace::from_json(s.trace().to_json());
      bool found = false;
      for (TraceStep& step : t.steps)
        if (step.primitive->name == "sample_compute_location") step["decision"] = Any(other), found = true;
      ASSERT_TRUE(found) << s.trace().to_script();
      Schedule again = Schedule::replay(p.function, t);
      EXPECT_TRUE(same(run(p.function, p.sizes), run(again.function(), p.sizes)));
      programs.insert(print(again.function()));
      EXPECT_EQ(structural_equal(again.function(), s.function()), first == other);
    }
  }
  EXPECT_EQ(programs.size(), 4u);
  Schedule s(p.function);
  const BlockRV c = s.get_block("T");
  refused(s, "T0701", "no location has the handle", [&] { s.compute_at(c, LocationRV{0}); });
  refused(s, "T0701", "no number has the handle", [&] { s.split(s.get_loops(c)[0], {IntRV(2, 0), -1}); });
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
