// SPDX-License-Identifier: Apache-2.0
// blockize and tensorize: what each makes, that it computes the same, and the sentence of each refusal.
#include "replayed.h"
#include "schedule/tensor_intrin.h"

namespace tenon::testing {
namespace {

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

TEST(Blockize, PartsOfAFusedLoopThatDoNotBeginAtATile) {
  Program p = pool(3, 7, 9);
  Schedule s(p.function);
  BlockRV b = s.get_block("P");
  std::vector<LoopRV> l = s.get_loops(b);
  std::vector<LoopRV> parts = s.loop_partition(s.fuse({l[1], l[2]}), {2, -1});
  BlockRV second = s.get_child_blocks(parts[1])[0];
  refused(s, "T0744", "up and down", [&] { s.blockize(s.get_loops(second)[2]); });
}

TEST(FuseIterators, NotOfATensorizedBlock) {
  register_tile_matmul("test.tile_4x4x2", 2);
  Program p = matmul(8, 12, 6);
  Schedule s(p.function);
  BlockRV o = s.tensorize(tile(s, s.get_block("C"), {4, 4, 2})[3], "test.tile_4x4x2");
  refused(s, "T0752", "matches regions", [&] { s.fuse_iterators(o, 0, 2); });
}

}  // namespace
}  // namespace tenon::testing
