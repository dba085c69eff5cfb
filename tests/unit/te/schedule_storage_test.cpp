// SPDX-License-Identifier: Apache-2.0
// Schedules of tensor expressions: copies of operands, memory and its layout.
#include "chain.h"

namespace tenon::testing {
namespace {

TEST(Storage, DoubleBufferOverlapsLoads) {
  for (bool symbolic : {false, true}) {
    tir::VarRef n = tir::var("n");
    const PrimExpr rows = symbolic ? PrimExpr(n) : PrimExpr(6);
    Matmul t = make_matmul(rows, 8, 12);
    te::Schedule s = create_schedule(t.c->op);
    Tensor cc = s.cache_write(t.c, "local");
    Tensor aa = s.cache_read(t.a, "local", {cc->op}), bb = s.cache_read(t.b, "local", {cc->op});
    auto [ko, ki] = s[cc].split(s[cc].reduce_axis()[0], 4);
    s[cc].reorder({ko, s[cc].axis()[0], ki, s[cc].axis()[1]});
    s[aa].compute_at(s[cc], ko).double_buffer();
    s[bb].compute_at(s[cc], ko).double_buffer();
    const Sizes sizes = symbolic ? Sizes{{"n", 5}} : Sizes{};
    const std::string text = lowered_text(s, t.args(), sizes);
    EXPECT_EQ(text.find("double_buffer"), std::string::npos) << text;  // neither left over nor refused
    EXPECT_NE(text.find("< 2"), std::string::npos) << text;            // the last tile has no next one
    EXPECT_NE(text.find("% 2"), std::string::npos) << text;
  }
}

TEST(Caches, ReadAndWrite) {
  for (int64_t size : {8, 7}) {
    Matmul t = make_matmul(size, size + 2, size + 1);
    te::Schedule s = create_schedule(t.c->op);
    Tensor cc = s.cache_write(t.c, "local");
    Tensor aa = s.cache_read(t.a, "local", {cc->op}), bb = s.cache_read(t.b, "local", {cc->op});
    auto [xo, yo, xi, yi] = s[t.c].tile(t.c->op->axis[0], t.c->op->axis[1], 4, 4);
    s[cc].compute_at(s[t.c], yo);
    auto x = s[cc].axis(), k = s[cc].reduce_axis();
    auto [ko, ki] = s[cc].split(k[0], 3);
    s[cc].reorder({ko, x[0], ki, x[1]});
    s[cc].vectorize(x[1]);
    s[aa].compute_at(s[cc], ko);
    s[bb].compute_at(s[cc], ko);
    s[t.c].vectorize(yi);
    tenon::Schedule done = check_te(s, t.args());
    // The copy of A is a tile of 4 rows and 3 columns.
    auto loops =
        extents(done, done.get(done.get_child_blocks(done.get_loops(done.get_block("C"))[2])[0])->name);
    EXPECT_EQ(loops.size(), 5u);
    EXPECT_TRUE(done.trace().to_script().find("decompose_reduction") != std::string::npos);
  }
}

TEST(Caches, OneCopyForSeveralReaders) {
  Chain p;
  te::Schedule s = create_schedule(p.d->op);
  Tensor bb = s.cache_read(p.b, "local", {p.d->op, p.c->op});
  EXPECT_EQ(s[bb].axis().size(), 2u);
  s[bb].reorder({s[bb].axis()[1], s[bb].axis()[0]});
  for (const Sizes& sizes : kSizes) check_te(s, p.args(), sizes);
  tenon::Schedule done = s.apply(p.args());
  for (const char* reader : {"C", "D"}) {
    bool direct = false, copied = false;
    for (const tir::BufferRegion& r : done.get(done.get_block(reader))->reads) {
      direct = direct || r->buffer->name == "B";
      copied = copied || r->buffer->name == "B_local";
    }
    EXPECT_TRUE(copied && !direct) << print(done.function());
  }
  EXPECT_EQ(done.blocks().size(), 4u) << "one copy";
}

TEST(Caches, AllResultsOfAnOperation) {
  tir::VarRef n = tir::var("n"), m = tir::var("m");
  Tensor a = te::placeholder({n, m}, f32, "A");
  tir::IterVar k = te::reduce_axis(tir::range(PrimExpr(0), m), "k");
  auto t = te::compute_multi(
      {n}, [&](const Vars& v) { return te::argmax(k->var, a({v[0], k->var}), {k}); }, "arg");
  te::Schedule s = create_schedule(t[0]->op);
  std::vector<Tensor> local = s.cache_write({t[0], t[1]}, "local");
  ASSERT_EQ(local.size(), 2u);
  EXPECT_EQ(local[1].dtype(), t[1].dtype());
  auto [o, i] = s[t[0]].split(s[t[0]].axis()[0], 4);
  s[local[0]].compute_at(s[t[0]], o);
  auto [ko, ki] = s[local[0]].split(s[local[0]].reduce_axis()[0], 3);
  s[local[0]].reorder({ko, s[local[0]].axis()[0], ki});
  s[t[1]].parallel(o);  // the stage of either result
  for (const Sizes& sizes : kSizes) check_te(s, {a, t[0], t[1]}, sizes);
  tenon::Schedule done = s.apply({a, t[0], t[1]});
  EXPECT_EQ(done.blocks().size(), 3u) << "init, update and one copy" << print(done.function());
  refused_te("T0795", "1 of its 2 results", [&] { create_schedule(t[0]->op).cache_write(t[0], "local"); });
  refused_te("T0795", "named twice",
             [&] { create_schedule(t[0]->op).cache_write(std::vector<Tensor>{t[0], t[0]}, "local"); });
}

TEST(Caches, SymbolicMatmul) {
  tir::VarRef m = tir::var("m"), n = tir::var("n"), k = tir::var("k");
  Matmul t = make_matmul(m, n, k);
  te::Schedule s = create_schedule(t.c->op);
  Tensor cc = s.cache_write(t.c, "local");
  auto [xo, yo, xi, yi] = s[t.c].tile(t.c->op->axis[0], t.c->op->axis[1], 4, 8);
  s[cc].compute_at(s[t.c], yo);
  auto [ko, ki] = s[cc].split(s[cc].reduce_axis()[0], 4);
  s[cc].reorder({ko, s[cc].axis()[0], ki, s[cc].axis()[1]});
  s[cc].unroll(ki);
  s[cc].vectorize(s[cc].axis()[1]);
  s[t.c].parallel(xo);
  for (const Sizes& sizes : {Sizes{{"m", 1}, {"n", 1}, {"k", 1}}, Sizes{{"m", 5}, {"n", 9}, {"k", 7}},
                             Sizes{{"m", 8}, {"n", 16}, {"k", 8}}})
    check_te(s, t.args(), sizes);
}

TEST(Storage, ScopeAlignmentAndBuffers) {
  Matmul t = make_matmul(6, 8, 4);
  te::Schedule s = create_schedule(t.c->op);
  Tensor cc = s.cache_write(t.c, "global");
  s[cc].set_scope("local").storage_align(s[cc].axis()[0], 16, 4).double_buffer();
  tenon::Schedule done = check_te(s, t.args());
  const Ref<tir::Block> b = done.get(done.get_block("C"));
  EXPECT_EQ(b->writes[0]->buffer->scope, "local");
  EXPECT_TRUE(b->annotations.contains("buffer_dim_align"));
  EXPECT_TRUE(b->annotations.contains("double_buffer_scope"));
}

TEST(Storage, RollingBuffer) {
  Tensor a = te::placeholder({9, 6}, f32, "A");
  Tensor b = te::compute({9, 6}, [&](const Vars& v) { return a({v[0], v[1]}) * 2.0; }, "B");
  Tensor c = te::compute({8, 6}, [&](const Vars& v) { return b({v[0], v[1]}) + b({v[0] + 1, v[1]}); }, "P");
  te::Schedule s = create_schedule(c->op);
  s[b].compute_at(s[c], c->op->axis[0]).rolling_buffer();
  tenon::Schedule done = check_te(s, {a, c});
  bool small = false;  // two rows are alive at a time
  post_order(done.function(), [&](const ObjectRef& n) {
    if (const auto* x = n.as<tir::Block>())
      for (const tir::Buffer& y : x->alloc_buffers) small = small || tir::is_const_int(y->shape[0], 2);
  });
  EXPECT_TRUE(small) << print(done.function());
}

TEST(Storage, AxisSeparators) {
  Chain p;
  te::Schedule s = create_schedule(p.d->op);
  s[p.b].set_axis_separators({1});
  for (const Sizes& sizes : kSizes) check_te(s, p.args(), sizes);
  tenon::Schedule done = s.apply(p.args());
  EXPECT_EQ(done.get(done.get_block("B"))->writes[0]->buffer->axis_separators.size(), 1u);
}

TEST(Storage, TransformLayout) {
  Tensor a = te::placeholder({8, 12}, f32, "A");
  Tensor b = te::compute({8, 12}, [&](const Vars& v) { return a({v[0], v[1]}) * 2.0; }, "B");
  Tensor c = te::compute({8, 12}, [&](const Vars& v) { return b({v[0], v[1]}) + 1.0; }, "C");
  te::Schedule s = create_schedule(c->op);
  auto axes = s[b].transform_layout([](const Array<tir::VarRef>& v) {
    return Array<PrimExpr>{tir::floordiv(v[0], 4), v[1], tir::floormod(v[0], 4)};
  });
  ASSERT_EQ(axes.size(), 3u);
  s[b].vectorize(axes[2]);
  tenon::Schedule done = check_te(s, {a, c});
  EXPECT_EQ(extents(done, "B"), (std::vector<int64_t>{2, 12, 4}));
  EXPECT_EQ(done.get(done.get_block("B"))->writes[0]->buffer->shape.size(), 3u);
}

}  // namespace
}  // namespace tenon::testing
