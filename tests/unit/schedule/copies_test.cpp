// SPDX-License-Identifier: Apache-2.0
// Copies laid out by maps, of parts, in place, of indices; epilogues of reductions; stated regions; markers.
#include "steps.h"

namespace tenon::testing {
namespace {

using tir::VarRef;
IndexMap map_of(int rank, FunctionRef<Array<PrimExpr>(const Array<VarRef>&)> f) { return index_map(rank, f); }

TEST(Cache, HoldsThePartThatIsUsed) {
  Tensor a = te::placeholder({10, 12}, f32, "A");
  Tensor t = te::compute({4, 12}, [&](const Vars& v) { return a({v[0] + 3, v[1]}) * 2.0; }, "T");
  Tensor o = te::compute({4, 5}, [&](const Vars& v) { return t({v[0], v[1] * 2 + 1}) + 1.0; }, "O");
  Program p{"part", te::create_prim_func({a, o}), {}};
  Schedule s(p.function);
  BlockRV in = s.cache_read(s.get_block("T"), 0, "local");
  EXPECT_EQ(tir::as_int(s.get(in)->writes[0]->buffer->shape[0]), 4);
  BlockRV mid = s.cache_read(s.get_block("O"), 0, "local");
  EXPECT_EQ(tir::as_int(s.get(mid)->writes[0]->buffer->shape[1]), 9);
  check(p, s);
  s.compute_at(in, s.get_loops(s.get_block("T"))[0]);
  check(p, s);
  for (int64_t n : {4, 7}) {
    VarRef x = tir::var("n");
    Tensor b = te::placeholder({x, PrimExpr(9)}, f32, "A");
    Tensor u = te::compute({x, PrimExpr(3)}, [&](const Vars& v) { return b({v[0], v[1] + 2}) * 3.0; }, "U");
    Program q{"part", te::create_prim_func({b, u}), {{"n", n}}};
    Schedule r(q.function);
    BlockRV copy = r.cache_read(r.get_block("U"), 0, "shared");
    EXPECT_EQ(tir::as_int(r.get(copy)->writes[0]->buffer->shape[1]), 3);
    check(q, r);
  }
}

TEST(Cache, GoesBackWhereARunOfTheBlockAroundWrites) {
  for (const int64_t rows : {1, 2, 3}) {
    Program p = softmax(4, 9);
    Schedule s(p.function);
    s.block_rows(s.get_block("out"), 1, rows);
    const BlockRV back = s.cache_write(s.get_block("out"), 0, "local");
    EXPECT_EQ(tir::as_int(s.get(back)->reads[0]->buffer->shape[0]), rows);
    check(p, s);
  }
}

TEST(Cache, GoesBackAsAPartWhereTheWholeMayBeNoLarger) {
  for (const int64_t rows : {1, 2, 5}) {
    Program p = softmax(tir::var("n"), 9);
    p.sizes = {{"n", rows}};
    Schedule s(p.function);
    s.block_rows(s.get_block("out"), 1, 1);
    const BlockRV back = s.cache_write(s.get_block("out"), 0, "local");
    EXPECT_EQ(tir::as_int(s.get(back)->reads[0]->buffer->shape[0]), 1);
    check(p, s);
  }
}

TEST(WriteAt, PredicatesOfSplitsOfSplits) {
  Program p = elementwise(5, 7);
  Schedule s(p.function);
  const BlockRV e = s.get_block("E");
  const LoopRV rows = s.split(s.get_loops(e)[0], {-1, 4})[0];
  Schedule whole = s;
  whole.write_at(rows, e, 0, "local");  // cut off is what lies behind the buffer's end
  check(p, whole);
  const LoopRV part = s.split(s.get_loops(e)[1], {2, 3})[0];  // six of four: two are of the next rows
  refused(s, "T0757", "not provably a box of 'E'", [&] { s.write_at(part, e, 0, "local"); });
}

TEST(BlockRows, KeepsTheMasksOfLoads) {
  Program p = softmax(4, 9);
  Schedule s(p.function);
  s.pad_iteration(s.get_block("sm"), 1, 5);
  s.block_rows(s.get_block("out"), 1, 2);
  check(p, s);
}

TEST(BlockRows, OfAnUnknownNumberEndWithAShorterOne) {
  for (const int64_t parts : {0, 1})
    for (const int64_t rows : {0, 1, 4, 11}) {
      Program p = softmax(tir::var("n"), 9);
      p.sizes = {{"n", rows}};
      Schedule s(p.function);
      const std::vector<LoopRV> tasks = s.block_rows(s.get_block("out"), parts, 4);
      s.parallel(tasks.back());
      check(p, s);
    }
}

TEST(ReindexCache, LaysOutByAMap) {
  Program p = conv(2, 7, 7, 3, 3, 2, 1);
  Schedule s(p.function);
  BlockRV c = s.get_block("conv");
  BlockRV in = s.reindex_cache_read(c, 0, "local", map_of(7, [](const Array<VarRef>& i) -> Array<PrimExpr> {
                                      return {i[4], i[5] * 3 + i[6], i[2], i[3]};
                                    }));
  EXPECT_EQ(s.get(in)->writes[0]->buffer->shape.size(), 4u);
  BlockRV out = s.reindex_cache_write(
      c, 0, "local", map_of(7, [](const Array<VarRef>& i) -> Array<PrimExpr> { return {i[2], i[3], i[1]}; }));
  EXPECT_EQ(s.get(out)->reads[0]->buffer->shape.size(), 3u);
  check(p, s);
  s.reindex(s.get_block("relu"), {}, 0);
  check(p, s);
  refused(s, "T0778", "takes 2 indices", [&] {
    s.reindex_cache_read(c, 0, "local",
                         map_of(2, [](const Array<VarRef>& i) -> Array<PrimExpr> { return {i[0], i[1]}; }));
  });
  refused(s, "T0778", "does not use iterator", [&] {
    s.reindex_cache_read(c, 1, "local",
                         map_of(7, [](const Array<VarRef>& i) -> Array<PrimExpr> { return {i[1], i[4]}; }));
  });
  refused(s, "T0778", "place of its own", [&] {
    s.reindex_cache_read(c, 1, "local", map_of(7, [](const Array<VarRef>& i) -> Array<PrimExpr> {
                           return {i[1] + i[4], i[5], i[6]};
                         }));
  });
  refused(s, "T0778", "reduction iterator", [&] {
    s.reindex_cache_write(c, 0, "local", map_of(7, [](const Array<VarRef>& i) -> Array<PrimExpr> {
                            return {i[1], i[2], i[3], i[4]};
                          }));
  });
  refused(s, "T0771", "no number 5", [&] {
    s.reindex_cache_read(c, 5, "local",
                         map_of(7, [](const Array<VarRef>& i) -> Array<PrimExpr> { return {i[1]}; }));
  });
  Schedule t(gather(4, 5, 6).function);
  refused(t, "T0776", "reads memory", [&] {
    BlockRV g = t.get_block("G");
    const bool first = t.get(g)->reads[0]->buffer->name == "A";
    t.reindex_cache_read(g, first ? 0 : 1, "local",
                         map_of(2, [](const Array<VarRef>& i) -> Array<PrimExpr> { return {i[0], i[1]}; }));
  });
}

TEST(CacheInplace, WorksOnACopy) {
  Program p = matmul(5, 6, 7);
  Schedule s(p.function);
  BlockRV c = s.get_block("C");
  refused(s, "T0772", "does not write it", [&] { s.cache_inplace(c, 0, "local"); });
  s.decompose_reduction(c, s.get_loops(c)[0]);
  int own = -1;
  for (size_t i = 0; i < s.get(c)->reads.size(); ++i)
    if (s.get(c)->reads[i]->buffer->name == "C") own = int(i);
  ASSERT_GE(own, 0);
  std::vector<BlockRV> copies = s.cache_inplace(c, own, "local");
  ASSERT_EQ(copies.size(), 2u);
  EXPECT_EQ(s.get(c)->writes[0]->buffer->scope, "local");
  check(p, s);
  Schedule t(p.function);
  c = t.get_block("C");
  t.decompose_reduction(c, t.get_loops(c)[2]);
  refused(t, "T0773", "inside the same loops", [&] { t.cache_inplace(c, own, "local"); });
}

TEST(CacheIndex, ComputesIndicesBefore) {
  Tensor a = te::placeholder({12}, f32, "A");
  Tensor o = te::compute(
      {3, 8},
      [&](const Vars& v) {
        PrimExpr at = tir::floormod(v[0] * 5 + v[1], 12);
        return a({at}) + a({tir::floormod(at + 1, 12)});
      },
      "O");
  Program p{"indices", te::create_prim_func({a, o}), {}};
  Schedule s(p.function);
  std::vector<BlockRV> made = s.cache_index(s.get_block("O"), "global", 0);
  EXPECT_EQ(made.size(), 2u);
  check(p, s);
  Schedule t(p.function);
  made = t.cache_index(t.get_block("O"), "global", 1);
  EXPECT_GE(made.size(), 1u);
  check(p, t);
  refused(t, "T0796", "more than 9 times", [&] { t.cache_index(t.get_block("O"), "global", 9); });
  Schedule u(transpose(4, 5).function);
  refused(u, "T0796", "plain iterators", [&] { u.cache_index(u.get_block("T"), "global"); });
  refused(u, "T0770", "no memory scope", [&] { u.cache_index(u.get_block("T"), "attic"); });
}

TEST(CacheAt, PartsInEachIteration) {
  for (int64_t rows : {6, 7}) {
    Program p = matmul(rows, 9, 5);
    Schedule s(p.function);
    BlockRV c = s.get_block("C");
    std::vector<LoopRV> i = s.split(s.get_loops(c)[0], {-1, 2});
    BlockRV in = s.read_at(i[0], c, 0, "local");
    EXPECT_EQ(s.get_loops(in)[0], i[0]);
    EXPECT_EQ(s.get(in)->annotations.at("auto_copy").as<int>(), 1);
    BlockRV out = s.write_at(i[0], c, 0, "local");
    EXPECT_EQ(s.get_loops(out)[0], i[0]);
    check(p, s);
    Schedule k(p.function);
    c = k.get_block("C");
    std::vector<LoopRV> order = k.get_loops(c);
    k.reorder({order[2], order[0], order[1]});
    refused(k, "T0755", "still adds", [&] { k.write_at(order[2], c, 0, "local"); });
  }
  VarRef n = tir::var("n"), m = tir::var("m");
  for (int64_t size : {1, 5, 8}) {
    Program p = elementwise(n, m);
    p.sizes = {{"n", size}, {"m", 7}};
    Schedule s(p.function);
    BlockRV c = s.get_block("C");
    std::vector<LoopRV> i = s.split(s.get_loops(c)[0], {-1, 4});
    s.read_at(i[0], c, 0, "local");
    s.write_at(i[0], c, 0, "local");
    s.parallel(i[0]);
    check(p, s);
  }
  Program p = matmul(6, 8, 5);
  Schedule s(p.function);
  BlockRV c = s.get_block("C"), d = s.get_block("D");
  refused(s, "T0761", "not one of the loops", [&] { s.read_at(s.get_loops(d)[0], c, 0, "local"); });
  refused(s, "T0770", "no memory scope", [&] { s.read_at(s.get_loops(c)[0], c, 0, "attic"); });
  refused(s, "T0771", "no number 6", [&] { s.write_at(s.get_loops(c)[0], c, 6, "local"); });
  s.reverse_compute_at(d, s.get_loops(c)[0]);
  refused(s, "T0773", "inside the same loop", [&] { s.read_at(s.get_loops(c)[0], d, 0, "local"); });
  refused(s, "T0773", "uses 'C' too", [&] { s.write_at(s.get_loops(c)[0], c, 0, "local"); });
  Schedule t(p.function);
  c = t.get_block("C");
  t.decompose_reduction(c, t.get_loops(c)[2]);
  refused(t, "T0752", "neither complete", [&] { t.write_at(t.get_loops(c)[0], c, 0, "local"); });
  Schedule u(elementwise(4, 8).function);
  u.vectorize(u.get_loops(u.get_block("C"))[1]);
  refused(u, "T0751", "vectorised",
          [&] { u.read_at(u.get_loops(u.get_block("C"))[1], u.get_block("C"), 0, "local"); });
}

/// C = A · B, D = C + bias (or another end).
Program with_end(PrimExpr m, int64_t n, int64_t k, FunctionRef<PrimExpr(PrimExpr, PrimExpr)> end) {
  Tensor a = te::placeholder({m, PrimExpr(k)}, f32, "A"), b = te::placeholder({k, n}, f32, "B"),
         bias = te::placeholder({n}, f32, "bias");
  tir::IterVar r = te::reduce_axis(tir::range(PrimExpr(0), PrimExpr(k)), "k");
  Tensor c = te::compute(
      {m, PrimExpr(n)}, [&](const Vars& v) { return te::sum(a({v[0], r->var}) * b({r->var, v[1]}), {r}); },
      "C");
  Tensor d =
      te::compute({m, PrimExpr(n)}, [&](const Vars& v) { return end(c({v[0], v[1]}), bias({v[1]})); }, "D");
  return {"with_end", te::create_prim_func({a, b, bias, d}), {}};
}

TEST(Epilogue, BecomesTheFirstValue) {
  auto add = [](PrimExpr c, PrimExpr b) { return b + c; };
  VarRef m = tir::var("m");
  for (int64_t size : {1, 6}) {
    Program p = with_end(m, 7, 5, add);
    p.sizes = {{"m", size}};
    Schedule s(p.function);
    s.split(s.get_loops(s.get_block("C"))[1], {-1, 4});
    s.fuse_reduction_epilogue(s.get_block("C"), s.get_block("D"));
    EXPECT_EQ(s.blocks().size(), 1u);
    EXPECT_EQ(s.get(s.get_block("C"))->writes[0]->buffer->name, "D");
    check(p, s);
  }
  {  // A first value of its own is refused where it would be taken several times, or beyond its end.
    Schedule s(with_end(4, 5, 6, add).function);
    BlockRV c = s.get_block("C");
    s.fuse_reduction_epilogue(c, s.get_block("D"));
    refused(s, "T0767", "not neutral", [&] { s.rfactor(s.get_loops(c)[2], 0); });
    refused(s, "T0786", "first value reads memory", [&] { s.pad_einsum(c, {1, 3, 1}); });
    refused(s, "T0785", "first value reads", [&] { s.pad_iteration(c, 1, 4); });
    int bias = 0;
    while (s.get(c)->reads[size_t(bias)]->buffer->name != "bias") ++bias;
    s.read_at(s.get_loops(c)[0], c, bias, "local");
    refused(s, "T0741", "its init reads", [&] { s.decompose_reduction(c, s.get_loops(c)[0]); });
  }
  Schedule s(with_end(4, 5, 6, [](PrimExpr c, PrimExpr b) { return tir::max(c, b); }).function);
  refused(s, "T0797", "does not combine",
          [&] { s.fuse_reduction_epilogue(s.get_block("C"), s.get_block("D")); });
  Schedule t(with_end(4, 5, 6, [](PrimExpr c, PrimExpr) { return c + c; }).function);
  refused(t, "T0797", "does not combine",
          [&] { t.fuse_reduction_epilogue(t.get_block("C"), t.get_block("D")); });
  Schedule u(with_end(4, 5, 6, add).function);
  refused(u, "T0760", "no reduction", [&] { u.fuse_reduction_epilogue(u.get_block("D"), u.get_block("C")); });
  u.decompose_reduction(u.get_block("C"), u.get_loops(u.get_block("C"))[2]);
  refused(u, "T0760", "no reduction", [&] { u.fuse_reduction_epilogue(u.get_block("C"), u.get_block("D")); });
  Schedule w(softmax(3, 4).function);
  refused(w, "T0797", "", [&] { w.fuse_reduction_epilogue(w.get_block("sm"), w.get_block("out")); });
  refused(w, "T0738", "reads 'sm' too",
          [&] { w.fuse_reduction_epilogue(w.get_block("sm"), w.get_block("ex")); });
  // A maximum takes a bound as its first value.
  Tensor a = te::placeholder({4, 6}, f32, "A");
  tir::IterVar k = te::reduce_axis(tir::range(PrimExpr(0), PrimExpr(6)), "k");
  Tensor mx = te::compute({4}, [&](const Vars& v) { return te::max(a({v[0], k->var}), {k}); }, "mx");
  Tensor o = te::compute({4}, [&](const Vars& v) { return tir::max(mx({v[0]}), PrimExpr(0.5)); }, "O");
  Program q{"bounded", te::create_prim_func({a, o}), {}};
  Schedule x(q.function);
  x.fuse_reduction_epilogue(x.get_block("mx"), x.get_block("O"));
  check(q, x);
}

TEST(Access, StatedAndHidden) {
  Program p = matmul(4, 5, 6);
  Schedule s(p.function);
  BlockRV d = s.get_block("D");
  s.annotate_buffer_access(d, 0, BufferIndexType::read,
                           map_of(2, [](const Array<VarRef>& i) -> Array<PrimExpr> {
                             return {i[0], i[0] + 1, PrimExpr(0), PrimExpr(5)};
                           }));
  EXPECT_EQ(tir::as_int(s.get(d)->reads[0]->region[1]->extent), 5);
  s.transform_layout(s.get_block("C"), 0, BufferIndexType::write,
                     map_of(2, [](const Array<VarRef>& i) -> Array<PrimExpr> { return {i[1], i[0]}; }));
  check(p, s);
  Schedule t(p.function);
  d = t.get_block("D");
  t.annotate_buffer_access(d, 0, BufferIndexType::read,
                           map_of(2, [](const Array<VarRef>& i) -> Array<PrimExpr> {
                             return {PrimExpr(0), PrimExpr(4), i[1], i[1] + 1};
                           }));
  // A stated region stays where others are derived anew.
  t.compute_inline(t.cache_read(d, 1, "local"));
  EXPECT_EQ(tir::as_int(t.get(d)->reads[0]->region[0]->extent), 4);
  check(p, t);
  refused(t, "T0799", "outside the region", [&] {
    t.annotate_buffer_access(d, 0, BufferIndexType::read,
                             map_of(2, [](const Array<VarRef>& i) -> Array<PrimExpr> {
                               return {i[0] + 1, i[0] + 2, i[1], i[1] + 1};
                             }));
  });
  refused(t, "T0799", "gives 2", [&] {
    t.annotate_buffer_access(
        d, 0, BufferIndexType::read,
        map_of(2, [](const Array<VarRef>& i) -> Array<PrimExpr> { return {i[0], i[0] + 1}; }));
  });
  const VarRef stranger = tir::var("q");
  refused(t, "T0799", "neither an iterator nor a size", [&] {
    t.annotate_buffer_access(d, 0, BufferIndexType::read,
                             map_of(2, [&](const Array<VarRef>& i) -> Array<PrimExpr> {
                               return {i[0], i[0] + 1, stranger, stranger + 1};
                             }));
  });
  Schedule u(p.function);
  d = u.get_block("D");
  u.unsafe_hide_buffer_access(d, BufferIndexType::read, {0});
  EXPECT_EQ(u.get(d)->reads.size(), 1u);
  EXPECT_TRUE(u.get_producers(d).empty());
  check(p, u);
  refused(u, "T0799", "no region", [&] { u.unsafe_hide_buffer_access(d, BufferIndexType::read, {}); });
  refused(u, "T0799", "twice", [&] { u.unsafe_hide_buffer_access(d, BufferIndexType::write, {0, 0}); });
  refused(u, "T0771", "no number 4", [&] { u.unsafe_hide_buffer_access(d, BufferIndexType::write, {4}); });
}

TEST(Access, EndsOfAStatedRegionHaveOneType) {
  Program p = matmul(4, 5, 6);
  for (bool low : {false, true}) {
    Schedule s(p.function);
    BlockRV d = s.get_block("D");
    s.annotate_buffer_access(d, 0, BufferIndexType::read,
                             map_of(2, [&](const Array<VarRef>& i) -> Array<PrimExpr> {
                               const PrimExpr zero = PrimExpr::int_imm(0, low ? i32 : i64),
                                              end = PrimExpr::int_imm(5, low ? i64 : i32);
                               return {i[0], i[0] + 1, zero, end};
                             }));
    const tir::Range r = s.get(d)->reads[0]->region[1];
    EXPECT_EQ(r->min.dtype(), r->extent.dtype());
    IRModule m = IRModule::create();
    m.set("main", s.function());
    EXPECT_TRUE(structural_equal(parse_module(print(m)), m)) << print(m);
    check(p, s);
  }
}

TEST(Samples, PartsWithAnInnerMultiple) {
  Program p = matmul(48, 8, 4, false);
  for (uint64_t seed = 0; seed < 50; ++seed) {
    Schedule s(p.function, seed);
    LoopRV rows = s.get_loops(s.get_block("C"))[0];
    Factors f = s.sample_partitioned_tile(rows, 4, 2, 8);
    EXPECT_EQ(f[0] * f[1] * f[2] * f[3], 48);
    EXPECT_EQ((f[2] * f[3]) % 8, 0);
    s.split(rows, f);
    if (seed < 3) check(p, s);
    Schedule again = Schedule::replay(p.function, Trace::from_json(s.trace().to_json()));
    EXPECT_TRUE(structural_equal(again.function(), s.function()));
  }
  Schedule s(p.function);
  LoopRV rows = s.get_loops(s.get_block("C"))[0];
  refused(s, "T0793", "no tiling", [&] { s.sample_partitioned_tile(rows, 3, 1, 5); });
  refused(s, "T0793", "no such tiling", [&] { s.sample_partitioned_tile(rows, 3, 1, 8, {16, 3, 1}); });
}

TEST(Markers, PostprocOnce) {
  Program p = row_sum(3, 4);
  Schedule s(p.function);
  s.enter_postproc();
  s.parallel(s.get_loops(s.get_block("O"))[0]);
  EXPECT_EQ(s.trace().steps[0].primitive->name, "enter_postproc");
  EXPECT_NE(s.trace().to_script().find("sch.enter_postproc()"), std::string::npos);
  Schedule again = Schedule::replay(p.function, Trace::from_json(s.trace().to_json()));
  EXPECT_EQ(again.trace().to_json(), s.trace().to_json());
  refused(s, "T0709", "entered before", [&] { s.enter_postproc(); });
}

TEST(ParameterLayout, IsTheCallersWhenTheFunctionSaysSo) {
  Program p = matmul(4, 6, 5, false);
  IndexMap map = map_of(2, [](const Array<VarRef>& i) -> Array<PrimExpr> {
    return {tir::floordiv(i[1], 2), i[0], tir::floormod(i[1], 2)};
  });
  Schedule closed(p.function);
  refused(closed, "T0777", "caller's",
          [&] { closed.transform_layout(closed.get_block("C"), 1, BufferIndexType::read, map); });
  const bool second = closed.get(closed.get_block("C"))->reads[1]->buffer->name == "B";
  tir::PrimFunc open = p.function;
  open.edit()->attrs.set("layout_free_buffers", Any(Array<Any>{Any(1)}));
  Schedule s(open);
  s.transform_layout(s.get_block("C"), second ? 1 : 0, BufferIndexType::read, map);
  refused(s, "T0777", "caller's",
          [&] { s.transform_layout(s.get_block("C"), 0, BufferIndexType::write, map); });
  EXPECT_EQ(problems_of(s.function()), "");
  ASSERT_EQ(s.param_layouts().size(), 1u);
  EXPECT_EQ(s.param_layouts()[0].position, 1);
  EXPECT_TRUE(s.param_layouts()[0].map.same_as(map));
  // The caller lays B out; the result is the same.
  std::vector<NDArray> args = arguments(p.function), laid = args;
  laid[1] = NDArray::empty({3, 5, 2}, f32);
  laid[2] = NDArray::empty(args[2].shape(), f32);
  for (int64_t k = 0; k < 5; ++k)
    for (int64_t j = 0; j < 6; ++j)
      laid[1].set_element((j / 2) * 10 + k * 2 + j % 2, args[1].element(k * 6 + j));
  interpret_prim_func(p.function, args);
  interpret_prim_func(s.function(), laid);
  EXPECT_TRUE(same({args[2]}, {laid[2]}));
  Schedule again = Schedule::replay(open, Trace::from_json(s.trace().to_json()));
  EXPECT_TRUE(structural_equal(again.function(), s.function()));
  VarRef m = tir::var("m");
  Tensor a = te::placeholder({m, PrimExpr(4)}, f32, "A");
  Tensor o = te::compute({PrimExpr(4)}, [&](const Vars& v) { return a({PrimExpr(0), v[0]}); }, "O");
  tir::PrimFunc f = te::create_prim_func({a, o});
  f.edit()->attrs.set("layout_free_buffers", Any(Array<Any>{Any(0)}));
  Schedule t(f);
  refused(t, "T0777", "no longer tells the size", [&] {
    t.transform_layout(t.get_block("O"), 0, BufferIndexType::read,
                       map_of(2, [](const Array<VarRef>& i) -> Array<PrimExpr> {
                         return {tir::floordiv(i[0], 4), i[1], tir::floormod(i[0], 4)};
                       }));
  });
}

TEST(Tensorize, InsideDimensionsOtherThanTheLast) {
  register_test_intrins();
  // C[i, b, j, 0] += A[i, b, k] · B[k, b, j]: tiles over i, j and k, with a batch between.
  Tensor a = te::placeholder({4, 3, 6}, f32, "A"), b = te::placeholder({6, 3, 4}, f32, "B");
  tir::IterVar r = axis_of(PrimExpr(6), "k");
  Tensor c = te::compute(
      {4, 3, 4},
      [&](const Vars& v) { return te::sum(a({v[0], v[1], r->var}) * b({r->var, v[1], v[2]}), {r}); }, "C");
  Program p{"batch_between", te::create_prim_func({a, b, c}), {}};
  Schedule s(p.function);
  BlockRV block = s.get_block("C");
  std::vector<LoopRV> l = s.get_loops(block);
  std::vector<LoopRV> i = s.split(l[0], {-1, 2}), j = s.split(l[2], {-1, 2}), k = s.split(l[3], {-1, 2});
  s.reorder({i[0], l[1], j[0], k[0], i[1], j[1], k[1]});
  s.tensorize(i[1], "test.update2x2");
  EXPECT_EQ(problems_of(s.function()), "");
  check(p, s);
}

}  // namespace
}  // namespace tenon::testing
