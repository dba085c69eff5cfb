// SPDX-License-Identifier: Apache-2.0
// Single passes on programs built by hand: what they do, beside that the meaning stays.
#include "ir/find_node.h"
#include "programs.h"
#include "target/target.h"

namespace tenon {
namespace {

using namespace tir;

struct Hand {
  Array<VarRef> params;
  Map<VarRef, Buffer> map;
  Buffer add(const std::string& name, Array<PrimExpr> shape, DataType t = f32) {
    Buffer b = buffer(name, shape, t);
    VarRef p = var("p_" + name, DataType::handle());
    params.push_back(p);
    map.set(p, b);
    return b;
  }
  PrimFunc func(Stmt body) { return make<PrimFuncNode>(params, map, body, DataType::void_(), AttrMap()); }
};

Stmt loop(const VarRef& v, PrimExpr extent, Stmt body, ForKind kind = ForKind::serial) {
  return for_(v, n64(0), extent, body, kind);
}
Stmt realize(Array<IterVar> iters, Array<PrimExpr> values, Stmt body, Array<Buffer> allocs = {},
             Stmt init = {}, PrimExpr predicate = true_(), Array<MatchBufferRegion> matches = {}) {
  auto b = make<Block>(iters, Array<BufferRegion>(), Array<BufferRegion>(), std::string("b"), body, init,
                       allocs, matches, AttrMap());
  return make<BlockRealize>(values, predicate, b);
}
bool has(const IRModule& m, const std::string& text) { return print(m).find(text) != std::string::npos; }

// ---------------------------------------------------------------- vectors
TEST(VectorizeLoop, RemainderOfASymbolicSizeBecomesAPredicate) {
  for (int64_t size : {0, 1, 7, 8, 9, 31}) {
    Hand h;
    VarRef n = var("n"), i = var("i"), v = var("v");
    Buffer x = h.add("x", {n}), y = h.add("y", {n});
    const PrimExpr at = i * 8 + v;
    Stmt s = make<IfThenElse>(lt(at, n), store(y, exp(load(x, {at})) + cast(f32, at), {at}), Stmt());
    const PrimFunc f = h.func(loop(i, ceildiv(n, n64(8)), loop(v, n64(8), s, ForKind::vectorized)));
    const IRModule out = check_pipeline(f, {random_array({size}, f32, 1), NDArray::zeros({size}, f32)});
    EXPECT_GT(count_nodes(out, "tir.Ramp"), 0u);
    EXPECT_FALSE(has(out, "vectorize_refused"));
  }
}

TEST(VectorizeLoop, LazyChoicesReadOnlyWhatTheyMay) {
  Hand h;
  VarRef v = var("v");
  Buffer x = h.add("x", {n64(6)}), y = h.add("y", {n64(8)});
  // Lanes 0 and 7 lie outside x.
  Stmt s =
      store(y, if_then_else(logical_and(ge(v, n64(1)), lt(v, n64(7))), load(x, {v - 1}), PrimExpr(0.5)), {v});
  const IRModule out = check_pipeline(h.func(loop(v, n64(8), s, ForKind::vectorized)),
                                      {random_array({6}, f32, 1), NDArray::zeros({8}, f32)});
  EXPECT_TRUE(has(out, "predicate"));
  EXPECT_EQ(count_nodes(out, "tir.Select"), 1u);
}

TEST(VectorizeLoop, DivisionByLanesThatAreOffIsHarmless) {
  Hand h;
  VarRef v = var("v");
  Buffer x = h.add("x", {n64(4)}, i64), y = h.add("y", {n64(8)}, i64);
  Stmt s = store(y, if_then_else(lt(v, n64(4)), floordiv(n64(100), load(x, {v})), n64(-1)), {v});
  NDArray a = NDArray::empty({4}, i64);
  for (int64_t i = 0; i < 4; ++i) a.set_element_int(i, i + 1);
  check_pipeline(h.func(loop(v, n64(8), s, ForKind::vectorized)), {a, NDArray::zeros({8}, i64)});
}

TEST(VectorizeLoop, DivisionsThatAllLanesShareStayNumbers) {
  // Digits of a row under a mask: one division, so that what the lanes read lies side by side.
  for (int64_t size : {0, 3, 8, 21}) {
    Hand h;
    VarRef n = var("n"), m = var("m"), r = var("r"), i = var("i"), v = var("v");
    Buffer x = h.add("x", {n, m}), y = h.add("y", {n, m});
    const PrimExpr at = i * 8 + v;
    const PrimExpr row = floormod(PrimExpr(r), PrimExpr(n) + 1) + floordiv(PrimExpr(r), n);
    Stmt s = store(y, if_then_else(ge(at, n64(1)), load(x, {row, at - 1}), PrimExpr(0.5)), {r, at});
    s = loop(i, ceildiv(m, n64(8)),
             loop(v, n64(8), make<IfThenElse>(lt(at, m), s, Stmt()), ForKind::vectorized));
    const PrimFunc f = h.func(loop(r, n, s));
    const IRModule out = check_pipeline(f, {random_array({3, size}, f32, 1), NDArray::zeros({3, size}, f32)});
    pre_order(body_of(out)->body, [&](const ObjectRef& e) {
      const auto* mod = e.as<FloorMod>();
      const auto* div = e.as<FloorDiv>();
      EXPECT_TRUE(!mod || mod->dtype.is_scalar());
      EXPECT_TRUE(!div || div->dtype.is_scalar());
      return true;
    });
    EXPECT_GT(count_nodes(out, "tir.Ramp"), 0u);
  }
}

TEST(VectorizeLoop, PrivateMemoryGetsOneCopyForEachLane) {
  Hand h;
  VarRef v = var("v"), k = var("k");
  Buffer x = h.add("x", {n64(8), n64(3)}), y = h.add("y", {n64(8)}), t = buffer("t", {n64(2)}, f32);
  Stmt s = seq({store(t, PrimExpr(1.0), {n64(1)}),
                loop(k, n64(3), store(t, load(t, {n64(1)}) + load(x, {v, k}), {n64(1)})),
                store(y, load(t, {n64(1)}), {v})});
  s = loop(v, n64(8), make<Allocate>(t, s, AttrMap()), ForKind::vectorized);
  const IRModule out = check_pipeline(h.func(s), {random_array({8, 3}, f32, 1), NDArray::zeros({8}, f32)});
  EXPECT_FALSE(has(out, "vectorize_refused"));
}

TEST(VectorizeLoop, BothSidesOfALaneCondition) {
  Hand h;
  VarRef v = var("v"), z = var("z", f32);
  Buffer x = h.add("x", {n64(8)}), y = h.add("y", {n64(8)});
  Stmt s = make<IfThenElse>(gt(load(x, {v}), PrimExpr(0.0)), store(x, PrimExpr(-3.0), {v}),
                            store(y, PrimExpr(2.0), {v}));
  s = make<LetStmt>(z, load(x, {v}) * 2.0, seq({s, store(y, z + load(y, {v}), {v})}));
  check_pipeline(h.func(loop(v, n64(8), s, ForKind::vectorized)),
                 {random_array({8}, f32, 1), random_array({8}, f32, 2)}, 2);
}

TEST(VectorizeLoop, RefusesAndStaysSerialWithAReason) {
  Hand h;
  VarRef v = var("v"), k = var("k");
  Buffer x = h.add("x", {n64(8)}), at = h.add("at", {n64(1)}, i64), y = h.add("y", {n64(1)});
  // Where an index is no data, a given program with such a loop is refused (T0335).
  Stmt one = loop(v, n64(8), store(y, load(x, {v}), {load(at, {n64(0)})}), ForKind::vectorized);
  const IRModule a = check_pipeline(
      h.func(one), {random_array({8}, f32, 1), NDArray::zeros({1}, i64), NDArray::zeros({1}, f32)});
  EXPECT_TRUE(has(a, "vectorize_refused"));
  Hand g;
  Buffer p = g.add("p", {n64(8)}), q = g.add("q", {n64(8)});
  Stmt two = loop(
      v, n64(8),
      seq({store(q, PrimExpr(0.0), {v}), for_(k, n64(0), v, store(q, load(q, {v}) + load(p, {k}), {v}))}),
      ForKind::vectorized);
  EXPECT_TRUE(has(check_pipeline(g.func(two), {random_array({8}, f32, 1), NDArray::zeros({8}, f32)}),
                  "vectorize_refused"));
}

// ---------------------------------------------------------------- blocks
TEST(LowerBlockInit, RunsOncePerReduction) {
  Hand h;
  VarRef i = var("i"), k = var("k"), l = var("l");
  Buffer x = h.add("x", {n64(4), n64(3), n64(2)}), y = h.add("y", {n64(4)});
  IterVar vi = iter_var(range(n64(0), n64(4)), "vi"),
          vk = iter_var(range(n64(0), n64(3)), "vk", IterKind::reduce),
          vl = iter_var(range(n64(0), n64(2)), "vl", IterKind::reduce);
  Stmt s = realize({vi, vk, vl}, {i, k, l},
                   store(y, load(y, {vi->var}) + load(x, {vi->var, vk->var, vl->var}), {vi->var}), {},
                   store(y, PrimExpr(10.0), {vi->var}));
  const IRModule out = check_pipeline(h.func(loop(i, n64(4), loop(k, n64(3), loop(l, n64(2), s)))),
                                      {random_array({4, 3, 2}, f32, 1), NDArray::zeros({4}, f32)});
  EXPECT_EQ(count_nodes(out, "tir.IfThenElse"), 0u);  // the first iterations stand alone
}

TEST(PlanAndCompact, AScratchBufferMovesInAndShrinks) {
  Hand h;
  VarRef i = var("i"), j = var("j"), k = var("k");
  Buffer x = h.add("x", {n64(64), n64(64)}), y = h.add("y", {n64(64), n64(64)}),
         t = buffer("t", {n64(64), n64(64)}, f32);
  Stmt a = loop(j, n64(64), store(t, load(x, {i, j}) * 2.0, {i, j})),
       b = loop(k, n64(64), store(y, load(t, {i, k}) + 1.0, {i, k}));
  const PrimFunc f = h.func(realize({}, {}, loop(i, n64(64), seq({a, b}), ForKind::parallel), {t}));
  const IRModule out = check_pipeline(f, {random_array({64, 64}, f32, 1), NDArray::zeros({64, 64}, f32)});
  bool found = false;
  pre_order(body_of(out)->body, [&](const ObjectRef& n) {
    if (const auto* p = n.as<For>(); p && p->kind == ForKind::parallel) {
      EXPECT_TRUE(p->annotations.contains("cost_ns"));
      const auto* alloc = p->body.as<Allocate>();
      found = alloc && is_const_int(alloc->buffer->shape[0], 64);
    }
    return true;
  });
  EXPECT_TRUE(found) << print(out);
}

TEST(PlanBufferAllocation, StateCarriedByALoopStaysOutside) {
  Hand h;
  VarRef i = var("i");
  Buffer y = h.add("y", {n64(5)}), t = buffer("t", {n64(1)}, f32);
  Stmt s = make<IfThenElse>(eq(i, n64(0)), store(t, PrimExpr(1.0), {n64(0)}), Stmt());
  s = seq({s, store(t, load(t, {n64(0)}) * 2.0, {n64(0)}), store(y, load(t, {n64(0)}), {i})});
  check_pipeline(h.func(realize({}, {}, loop(i, n64(5), s), {t})), {NDArray::zeros({5}, f32)});
}

TEST(LowerMatchBuffer, ViewsBecomeTheirSource) {
  Hand h;
  VarRef i = var("i"), a = var("a"), b = var("b"), rows = var("rows"), s0 = var("s0"), off = var("off");
  Buffer x = h.add("x", {n64(8), n64(6)}), y = h.add("y", {n64(8), n64(6)});
  Buffer sub = buffer("sub", {rows, n64(6)}, f32), inner = buffer("inner", {n64(6)}, f32);
  sub.edit()->strides = {s0, n64(1)};
  sub.edit()->elem_offset = off;
  auto region = [&](const Buffer& of, PrimExpr first, PrimExpr n) {
    return make<BufferRegionNode>(of, Array<Range>{range(first, n), range(n64(0), n64(6))});
  };
  Stmt s = loop(b, n64(6), store(inner, load(sub, {a, b}) + cast(f32, rows + s0 + off), {b}));
  s = realize({}, {}, s, {}, {}, true_(), {make<MatchBufferRegionNode>(inner, region(y, i * 2 + a, n64(1)))});
  s = loop(a, n64(2), s);
  s = realize({}, {}, s, {}, {}, true_(), {make<MatchBufferRegionNode>(sub, region(x, i * 2, n64(2)))});
  check_pipeline(h.func(loop(i, n64(4), s)), {random_array({8, 6}, f32, 1), NDArray::zeros({8, 6}, f32)});
}

TEST(ConvertBlocks, UnevenSplitsKeepTheirGuard) {
  Hand h;
  VarRef o = var("o"), i = var("i");
  Buffer x = h.add("x", {n64(10)}), y = h.add("y", {n64(10)});
  IterVar v = iter_var(range(n64(0), n64(10)), "v");
  Stmt s = realize({v}, {o * 4 + i}, store(y, load(x, {v->var}), {v->var}), {}, {}, lt(o * 4 + i, n64(10)));
  for (ForKind kind : {ForKind::serial, ForKind::vectorized, ForKind::unrolled})
    check_pipeline(h.func(loop(o, n64(3), loop(i, n64(4), s, kind))),
                   {random_array({10}, f32, 1), NDArray::zeros({10}, f32)});
}

// ---------------------------------------------------------------- flat loops
TEST(FlattenBuffer, StridesAndOffsets) {
  Hand h;
  VarRef i = var("i"), j = var("j");
  Buffer x = h.add("x", {n64(4), n64(8)}), y = h.add("y", {n64(4), n64(3)});
  // A second view of x: every other column from the third on.
  Buffer view = x;
  view.edit()->shape = {n64(4), n64(3)};
  view.edit()->strides = {n64(8), n64(2)};
  view.edit()->elem_offset = n64(2);
  Stmt s = make<DeclBuffer>(view, loop(i, n64(4), loop(j, n64(3), store(y, load(view, {i, j}), {i, j}))));
  check_pipeline(h.func(s), {random_array({4, 8}, f32, 1), NDArray::zeros({4, 3}, f32)});
}

TEST(FlattenBuffer, RefusesALayoutThatNobodyGives) {
  Hand h;
  VarRef i = var("i"), stride = var("stride");
  Buffer x = buffer("x", {n64(4)}, f32);
  x.edit()->strides = {stride};
  VarRef p = var("p", DataType::handle());
  h.params.push_back(p);
  h.map.set(p, x);
  PassContext context;
  try {
    run_pass("flatten_buffer", module_of(h.func(loop(i, n64(4), store(x, PrimExpr(0.0), {i})))), context);
    FAIL();
  } catch (const DiagnosticError& e) {
    EXPECT_EQ(e.diagnostics[0].code, "T0808");
  }
}

TEST(FlattenBuffer, RefusesAxisSeparatorsWhereMemoryHasOneAxis) {
  for (const char* kind : {"llvm", "c"}) {
    Hand h;
    VarRef i = var("i"), j = var("j");
    Buffer x = h.add("x", {n64(4), n64(2)});
    Buffer y = buffer("y", {n64(4), n64(2)}, f32);
    y.edit()->axis_separators = {1};
    VarRef p = var("p", DataType::handle());
    h.params.push_back(p);
    h.map.set(p, y);
    PassContext context;
    Target target = make<TargetNode>();
    target.edit()->kind = kind;
    context.target = target;
    const Stmt copy = loop(i, n64(4), loop(j, n64(2), store(y, load(x, {i, j}), {i, j})));
    try {
      run_pass("flatten_buffer", module_of(h.func(copy)), context);
      FAIL() << kind;
    } catch (const DiagnosticError& e) {
      EXPECT_EQ(e.diagnostics[0].code, "T0801");
      EXPECT_NE(e.diagnostics[0].message.find(std::string("target `") + kind), std::string::npos);
    }
  }
}

TEST(UnrollLoop, CopiesHaveTheirOwnDefinitions) {
  Hand h;
  VarRef i = var("i"), z = var("z", f32);
  Buffer x = h.add("x", {n64(4)}), y = h.add("y", {n64(4)}), t = buffer("t", {n64(1)}, f32);
  Stmt s =
      make<LetStmt>(z, load(x, {i}), seq({store(t, z * 2.0, {n64(0)}), store(y, load(t, {n64(0)}), {i})}));
  const IRModule out =
      check_pipeline(h.func(loop(i, n64(4), make<Allocate>(t, s, AttrMap()), ForKind::unrolled)),
                     {random_array({4}, f32, 1), NDArray::zeros({4}, f32)});
  EXPECT_EQ(count_nodes(out, "tir.For"), 0u);
  Hand g;
  VarRef n = var("n");
  Buffer w = g.add("w", {n});
  EXPECT_TRUE(has(check_pipeline(g.func(loop(i, n, store(w, PrimExpr(1.0), {i}), ForKind::unrolled)),
                                 {NDArray::zeros({3}, f32)}),
                  "unroll_refused"));
}

TEST(LoopPartition, TheMiddleHasNoConditions) {
  Hand h;
  VarRef i = var("i"), n = var("n");
  Buffer x = h.add("x", {n}), y = h.add("y", {n + 2});
  h.params.push_back(n);
  Stmt s = store(y, if_then_else(logical_and(ge(i, n64(1)), le(i, n)), load(x, {i - 1}), PrimExpr(0.0)), {i});
  const PrimFunc f = h.func(loop(i, n + 2, s));
  for (int64_t size : {0, 1, 2, 9}) {
    const IRModule out = check_pipeline(
        f, {random_array({size}, f32, 1), NDArray::zeros({size + 2}, f32), NDArray::scalar(size, i64)});
    bool plain = false;
    pre_order(body_of(out)->body, [&](const ObjectRef& node) {
      if (const auto* l = node.as<For>()) {
        const auto* st = l->body.as<BufferStore>();
        plain = plain || (st && st->value.is<BufferLoad>());
      }
      return true;
    });
    EXPECT_TRUE(plain) << print(out);
  }
}

TEST(FewVectors, RowsOfEachNumberHaveTheSameValues) {
  Hand h;
  VarRef y = var("y"), i = var("i"), j = var("j"), n = var("n"), m = var("m");
  Buffer a = h.add("a", {n, m}), b = h.add("b", {n + 1, m + 3});
  h.params.push_back(n), h.params.push_back(m);
  const PrimExpr x = i * 8 + j;
  const PrimExpr inside = logical_and(logical_and(ge(y, n64(1)), ge(x, n64(1))), le(x, m));
  const Stmt s = make<IfThenElse>(
      lt(x, m + 3), store(b, if_then_else(inside, load(a, {y - 1, x - 1}), PrimExpr(0.0)), {y, x}), Stmt());
  const PrimFunc f =
      h.func(loop(y, n + 1, loop(i, floordiv(m + 10, PrimExpr(8)), loop(j, n64(8), s, ForKind::vectorized))));
  for (int64_t size : {0, 1, 4, 5, 6, 13, 14, 21, 29, 30, 53}) {
    const IRModule out =
        check_pipeline(f, {random_array({3, size}, f32, 1), NDArray::zeros({4, size + 3}, f32),
                           NDArray::scalar(int64_t(3), i64), NDArray::scalar(size, i64)});
    int rows = 0;  // loops over rows without one over their vectors
    pre_order(body_of(out)->body, [&](const ObjectRef& node) {
      if (const auto* l = node.as<For>()) rows += !has_node<For>(l->body) && !as_int(l->extent);
      return true;
    });
    EXPECT_GE(rows, 4) << print(out);
  }
}

TEST(HoistIfThenElse, LeavesTheLoop) {
  Hand h;
  VarRef i = var("i"), k = var("k");
  Buffer y = h.add("y", {n64(9)});
  h.params.push_back(k);
  const PrimFunc f =
      h.func(loop(i, n64(9), make<IfThenElse>(gt(k, n64(3)), store(y, PrimExpr(1.0), {i}), Stmt())));
  for (int64_t v : {2, 5}) {
    const IRModule out = check_pipeline(f, {NDArray::zeros({9}, f32), NDArray::scalar(v, i64)});
    bool inside = false;
    pre_order(body_of(out)->body, [&](const ObjectRef& n) {
      if (const auto* l = n.as<For>()) inside = inside || l->body.is<IfThenElse>();
      return true;
    });
    EXPECT_FALSE(inside);
  }
}

TEST(StorageRewrite, DeadBuffersGiveTheirMemory) {
  Hand h;
  Buffer x = h.add("x", {n64(32)}), y = h.add("y", {n64(32)});
  std::vector<Buffer> t;
  for (int i = 0; i < 4; ++i) t.push_back(buffer("t" + std::to_string(i), {n64(32)}, f32));
  auto copy = [&](const Buffer& to, const Buffer& from) {
    VarRef i = var("i");
    return loop(i, n64(32), store(to, load(from, {i}) + 1.0, {i}));
  };
  Stmt s = seq({copy(t[0], x), copy(t[1], t[0]), copy(t[2], t[1]), copy(t[3], t[2]), copy(y, t[3])});
  const IRModule out = check_pipeline(h.func(realize({}, {}, s, {t[0], t[1], t[2], t[3]})),
                                      {random_array({32}, f32, 1), NDArray::zeros({32}, f32)});
  EXPECT_EQ(count_nodes(out, "tir.Allocate"), 2u);
}

TEST(MakePackedApi, ParametersInTheKernelsOrder) {
  Hand h;
  VarRef i = var("i"), n = var("n"), a = var("a", f32), k = var("k", i32);
  h.params.push_back(a);
  Buffer x = h.add("x", {n});
  h.params.push_back(k);
  Buffer y = h.add("y", {n});
  Stmt s = seq({make<AssertStmt>(gt(k, PrimExpr::int_imm(0, i32)), std::string("k must be positive")),
                loop(i, n, store(y, load(x, {i}) * a + cast(f32, k), {i}))});
  PassContext context;
  IRModule m = module_of(h.func(s));
  for (const Pass& p : tensor_passes()) m = p.run(m, context);
  expect_valid(m, "packed");
  const PrimFunc f = body_of(m);
  EXPECT_EQ(f->params.size(), 3u);
  EXPECT_EQ(f->attrs.at("global_symbol").as<std::string>(), "f");
  EXPECT_EQ(f->attrs.at("tenon.asserts").as<Array<std::string>>()[0], "k must be positive");
  std::vector<std::string> order;
  Stmt b = f->body;
  while (const auto* l = b.as<LetStmt>()) {
    order.push_back(l->var->name);
    b = l->body;
  }
  EXPECT_EQ(order, (std::vector<std::string>{"x", "y", "a", "k", "n"}));
}

TEST(MakePackedApi, RefusesWhatIsNotLowered) {
  Hand h;
  VarRef i = var("i");
  Buffer y = h.add("y", {n64(2), n64(2)});
  PassContext context;
  EXPECT_THROW(
      run_pass("make_packed_api", module_of(h.func(store(y, PrimExpr(1.0), {n64(0), n64(1)}))), context),
      DiagnosticError);
  EXPECT_THROW(
      run_pass("make_packed_api", module_of(h.func(realize({}, {}, make<tir::Evaluate>(n64(0))))), context),
      DiagnosticError);
}

TEST(MakePackedApi, RefusesThreadsOfAGpu) {
  Hand h;
  VarRef i = var("i");
  Buffer y = h.add("y", {n64(4)});
  Stmt s = loop(i, n64(4), store(y, PrimExpr(1.0), {i}), ForKind::thread_binding);
  PassContext context;
  try {
    run_pass("make_packed_api", module_of(h.func(s)), context);
    FAIL();
  } catch (const DiagnosticError& e) {
    EXPECT_EQ(e.diagnostics[0].code, "T0807");
  }
}

}  // namespace
}  // namespace tenon
