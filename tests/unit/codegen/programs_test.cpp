// SPDX-License-Identifier: Apache-2.0
// Statements, memory access in every form, parallel loops, status codes, modules of many kernels, refusals.
#include <bit>
#include <cmath>

#include "ir/tir.h"
#include "kernels.h"

namespace tenon::test {
namespace {

using namespace tir;

PrimExpr ramp(const PrimExpr& base, int64_t stride, int64_t lanes) {
  return make<Ramp>(base, PrimExpr(stride), lanes);
}
NDArray iota(int64_t n, DataType t) {
  NDArray a = NDArray::empty({n}, t);
  for (int64_t i = 0; i < n; ++i) a.set_element(i, double(i % 100));
  return a;
}

TEST(Programs, MaskedRemainderOfEveryLength) {
  for (DataType t : {f32, DataType::int_(8), f64, boolean})
    for (int64_t n : {1, 7, 8, 15, 16, 17, 33}) {
      const Buffer a = flat("a", n, t), o = flat("o", n, t);
      const VarRef i = var("i"), size = var("n");
      const PrimExpr at = ramp(i * PrimExpr(int64_t(16)), 1, 16),
                     mask = make<LT>(at, make<Broadcast>(size, 16));
      const Stmt body =
          for_(i, 0, ceildiv(size, PrimExpr(int64_t(16))), store(o, load(a, {at}, mask), {at}, mask));
      expect_same(program("masked", {a, o}, {size}, body), {random_array({n}, t, 7), NDArray::zeros({n}, t)},
                  {n}, 0, n == 17);
    }
}

TEST(Programs, MaskedLoadsGiveZeroWhereOff) {
  const Buffer a = flat("a", 16, f32), o = flat("o", 16, f32);
  const PrimExpr at = ramp(0, 1, 16), mask = make<GT>(load(a, {at}), make<Broadcast>(PrimExpr(0.0), 16));
  expect_same(program("zeros", {a, o}, {}, store(o, load(a, {at}, mask), {at})),
              {random_array({16}, f32, 3), array_of(std::vector<double>(16, 9), f32)});
}

TEST(Programs, StridedReversedGatheredAndScattered) {
  const int64_t n = 64;
  for (DataType t : {f32, f64, DataType::int_(16), u8}) {
    const Buffer a = flat("a", n, t), where = flat("where", n, i64), o = flat("o", n, t), p = flat("p", n, t),
                 q = flat("q", n, t), r = flat("r", n, t), s = flat("s", n, t);
    const VarRef i = var("i");
    const PrimExpr at = ramp(i * PrimExpr(int64_t(8)), 1, 8), by3 = ramp(i, 8, 8),
                   back = ramp(PrimExpr(int64_t(63)) - i * PrimExpr(int64_t(8)), -1, 8);
    const PrimExpr index = load(where, {at}),
                   mask = make<LT>(index, make<Broadcast>(PrimExpr(int64_t(40)), 8));
    Array<Stmt> body{store(o, load(a, {by3}), {at}), store(p, load(a, {back}), {at}),
                     store(q, load(a, {index}), {at}), store(r, load(a, {index}, mask), {index}, mask),
                     store(s, load(a, {at}), {by3})};
    NDArray permutation = NDArray::empty({n}, i64);
    for (int64_t k = 0; k < n; ++k) permutation.set_element_int(k, k * 37 % n);
    std::vector<NDArray> arrays{random_array({n}, t, 11), permutation};
    for (int k = 0; k < 5; ++k) arrays.push_back(NDArray::zeros({n}, t));
    expect_same(program("gather", {a, where, o, p, q, r, s}, {}, for_(i, 0, 8, seq(body))), arrays);
  }
}

TEST(Programs, OverlappingVectorStoreReadsFirst) {
  // a[1..16] = a[0..15]: all lanes are read before any is written.
  const Buffer a = flat("a", 20, f32);
  expect_same(program("shift", {a}, {}, store(a, load(a, {ramp(0, 1, 16)}), {ramp(1, 1, 16)})),
              {iota(20, f32)});
}

TEST(Programs, ShuffleBroadcastRampAndLaneReductions) {
  for (DataType t : {f32, i32, i64}) {
    const Buffer a = flat("a", 16, t), o = flat("o", 16, t), sums = flat("sums", 8, t),
                 ramps = flat("ramps", 16, i64);
    const PrimExpr x = load(a, {ramp(0, 1, 8)}), y = load(a, {ramp(8, 1, 8)});
    Array<Stmt> body{
        store(o,
              make<Shuffle>(Array<PrimExpr>{x, y},
                            Array<int64_t>{0, 8, 1, 9, 2, 10, 3, 11, 15, 14, 13, 12, 7, 6, 5, 4}),
              {ramp(0, 1, 16)}),
        store(ramps, make<Ramp>(PrimExpr(int64_t(-3)), PrimExpr(int64_t(5)), int64_t(16)), {ramp(0, 1, 16)})};
    int64_t k = 0;
    for (const char* op : {"tir.vector_reduce_add", "tir.vector_reduce_max", "tir.vector_reduce_min"})
      for (int lanes : {8, 3})
        body.push_back(store(sums, call(t, op, {load(a, {ramp(2, 1, lanes)})}), {PrimExpr(k++)}));
    body.push_back(store(sums, make<Shuffle>(Array<PrimExpr>{x}, Array<int64_t>{5}), {PrimExpr(k++)}));
    body.push_back(
        store(sums,
              make<Shuffle>(Array<PrimExpr>{load(a, {PrimExpr(int64_t(3))}), load(a, {PrimExpr(int64_t(4))})},
                            Array<int64_t>{1}),
              {PrimExpr(k++)}));
    expect_same(program("lanes", {a, o, sums, ramps}, {}, seq(body)),
                {random_array({16}, t, 21), NDArray::zeros({16}, t), NDArray::zeros({8}, t),
                 NDArray::zeros({16}, i64)});
  }
}

TEST(Programs, LetsLoopsBranchesAndWhile) {
  // Greatest common divisors by Euclid's loop, in a stack array; then a triangle of sums.
  const Buffer a = flat("a", 10, i64), b = flat("b", 10, i64), o = flat("o", 10, i64), t = flat("t", 10, i64),
               local = flat("local", 2, i64);
  const VarRef i = var("i"), j = var("j"), k = var("k");
  const PrimExpr zero(int64_t(0)), one(int64_t(1));
  const VarRef rest = var("rest");
  const Stmt step = make<LetStmt>(rest, make<FloorMod>(load(local, {zero}), load(local, {one})),
                                  seq({store(local, load(local, {one}), {zero}), store(local, rest, {one})}));
  const Stmt gcd = make<Allocate>(
      local, seq({store(local, load(a, {i}), {zero}), store(local, load(b, {i}), {one}),
                  make<tir::While>(ne(load(local, {one}), zero), step), store(o, load(local, {zero}), {i})}));
  const Stmt triangle =
      for_(j, one, PrimExpr(int64_t(9)),
           for_(k, 0, j,
                make<IfThenElse>(lt(make<FloorMod>(k, PrimExpr(int64_t(3))), one),
                                 store(t, load(t, {j}) + k, {j}), store(t, load(t, {j}) - one, {j}))));
  NDArray x = NDArray::empty({10}, i64), y = NDArray::empty({10}, i64);
  for (int64_t n = 0; n < 10; ++n) {
    x.set_element_int(n, 12 * n + 36);
    y.set_element_int(n, 8 * n + 4);
  }
  expect_same(program("gcd", {a, b, o, t}, {}, seq({for_(i, 0, 10, gcd), triangle})),
              {x, y, NDArray::zeros({10}, i64), NDArray::zeros({10}, i64)});
}

TEST(Programs, VectorLetAndAccumulators) {
  // A register tile: vector lets, a stack array seen as vectors, sums over a loop.
  const Buffer a = flat("a", 64, f32), o = flat("o", 16, f32), acc = flat("acc", 16, f32);
  const VarRef k = var("k"), v = var("v", f32.with_lanes(16));
  const PrimExpr all = ramp(0, 1, 16);
  const Stmt body =
      make<Allocate>(acc, seq({store(acc, make<Broadcast>(PrimExpr(0.0), 16), {all}),
                               for_(k, 0, 4,
                                    make<LetStmt>(v, load(a, {ramp(k * PrimExpr(int64_t(16)), 1, 16)}),
                                                  store(acc, load(acc, {all}) + v * v, {all}))),
                               store(o, load(acc, {all}), {all})}));
  expect_same(program("tile", {a, o}, {}, body), {random_array({64}, f32, 2), NDArray::zeros({16}, f32)}, {},
              1);
}

TEST(Programs, ParallelLoopsCaptureAndNest) {
  // Captures: pointers, a scalar, a let, a stack array of the outer function; the inner parallel loop runs
  // serially.
  const Buffer a = flat("a", 100, f32), o = flat("o", 100, f32), table = flat("table", 4, f32),
               scratch = flat("scratch", 3, f32);
  const VarRef i = var("i"), j = var("j"), n = var("n"), scale = var("scale", f32), twice = var("twice", f32);
  const PrimExpr four(int64_t(4));
  Stmt inner = make<Allocate>(
      scratch,
      seq({store(scratch, load(a, {i}) * twice, {PrimExpr(int64_t(1))}),
           for_(j, 0, 4, store(table, load(table, {j}), {j}), ForKind::parallel),
           store(o, load(scratch, {PrimExpr(int64_t(1))}) + load(table, {make<FloorMod>(i, four)}), {i})}));
  Stmt loop = for_(i, PrimExpr(int64_t(2)), n, inner, ForKind::parallel);
  loop.edit();
  AttrMap notes;
  notes.set("cost_ns", Any(250));
  const_cast<For*>(loop.as<For>())->annotations = notes;
  const Stmt body =
      make<LetStmt>(twice, scale + scale,
                    make<Allocate>(table, seq({for_(j, 0, 4, store(table, cast(f32, j), {j})), loop})));
  const Program p = program("parallel", {a, o}, {n, scale}, body);
  const std::vector<NDArray> arrays{random_array({100}, f32, 4), NDArray::zeros({100}, f32)};
  const int64_t half = std::bit_cast<int64_t>(1.5);
  expect_same(p, arrays, {97, half}, 1);
  TestContext context;
  std::vector<NDArray> got = copies(arrays);
  ASSERT_EQ(run_llvm(p.lowered, got, {97, half}, 2, host_target(), &context), 0);
  EXPECT_EQ(context.parallel_calls, 1);
  EXPECT_EQ(context.last_cost, 250);
  EXPECT_EQ(got[1].element(50), double(float(got[0].element(50)) * 3.0f + 2.0f));
  EXPECT_EQ(got[1].element(1), 0);
}

TEST(Programs, WorkspaceIsTakenAndGivenBack) {
  const Buffer a = flat("a", 8, f32), o = flat("o", 8, f32);
  const VarRef n = var("n"), i = var("i");
  const Buffer big = buffer("big", {n}, f32);
  const Stmt body = make<Allocate>(
      big, seq({for_(i, 0, 8, store(big, load(a, {i}) + PrimExpr(1.0), {n - PrimExpr(int64_t(1)) - i})),
                make<AssertStmt>(gt(load(a, {PrimExpr(int64_t(0))}), PrimExpr(-100.0)), "not so small"),
                for_(i, 0, 8, store(o, load(big, {n - PrimExpr(int64_t(8)) + i}), {i}))}));
  const Program p = program("workspace", {a, o}, {n}, body);
  expect_same(p, {random_array({8}, f32, 4), NDArray::zeros({8}, f32)}, {5000});
  for (const bool c : {false, true}) {
    auto run = [&](const std::vector<NDArray>& arrays, TestContext* context) {
      return c ? run_c(p.lowered, "gcc", arrays, {5000}, context)
               : run_llvm(p.lowered, arrays, {5000}, 2, host_target(), context);
    };
    TestContext context;
    context.fail_above = 1000;
    EXPECT_EQ(run({random_array({8}, f32, 4), NDArray::zeros({8}, f32)}, &context), -1);
    TestContext plenty;
    EXPECT_EQ(run({array_of({-200, 0, 0, 0, 0, 0, 0, 0}, f32), NDArray::zeros({8}, f32)}, &plenty),
              1);  // the assertion, with the workspace released
    EXPECT_EQ(plenty.allocated, 1);
  }
}

TEST(Programs, AssertionsAreNumberedInProgramOrder) {
  const Buffer a = flat("a", 4, i64);
  const VarRef i = var("i"), n = var("n");
  const PrimExpr five(int64_t(5));
  const Stmt body = seq({make<AssertStmt>(gt(n, PrimExpr(int64_t(0))), "first"),
                         for_(i, 0, 4, make<AssertStmt>(lt(load(a, {i}), five), "second"), ForKind::parallel),
                         make<AssertStmt>(lt(n, five), "third")});
  const Program p = program("asserts", {a}, {n}, body);
  struct Row {
    std::vector<double> values;
    int64_t n;
    int32_t code;
  };
  for (const Row& r :
       {Row{{1, 2, 3, 4}, 1, 0}, Row{{1, 2, 3, 4}, 0, 1}, Row{{1, 2, 9, 4}, 1, 2}, Row{{1, 2, 3, 4}, 7, 3}}) {
    EXPECT_EQ(run_llvm(p.lowered, {array_of(r.values, i64)}, {r.n}), r.code);
    EXPECT_EQ(run_c(p.lowered, "clang-22", {array_of(r.values, i64)}, {r.n}), r.code);
  }
}

TEST(Programs, ConstantsInsideTheKernel) {
  for (DataType t : {f32, f64, f16, i64, u8, boolean}) {
    const NDArray data = random_array({9}, t, 6);
    if (t.is_float()) {
      data.set_element(0, NAN);
      data.set_element(1, -HUGE_VAL);
      data.set_element(2, -0.0);
    }
    const Buffer o = flat("o", 9, t), constant = flat("constant", 9, t);
    const VarRef i = var("i");
    expect_same(
        program("constants", {o}, {},
                make<AllocateConst>(constant, data, for_(i, 0, 9, store(o, load(constant, {i}), {i})))),
        {NDArray::zeros({9}, t)});
  }
}

TEST(Programs, ShapedBuffersWithStridesAndOffset) {
  const Buffer a = buffer("a", {PrimExpr(int64_t(4)), PrimExpr(int64_t(6))}, f32), o = flat("o", 24, f32);
  const VarRef i = var("i"), j = var("j");
  const PrimExpr six(int64_t(6));
  expect_same(
      program("shaped", {a, o}, {},
              for_(i, 0, 4, for_(j, 0, 6, store(o, load(a, {i, j}), {j * PrimExpr(int64_t(4)) + i})))),
      {random_array({4, 6}, f32, 3), NDArray::zeros({24}, f32)});
}

TEST(Programs, KernelsCallKernels) {
  const Buffer a = flat("a", 8, f32), o = flat("o", 8, f32);
  const VarRef i = var("i"), from = var("from"), alpha = var("alpha", f32);
  const Program callee =
      program("scale_from", {a, o}, {from, alpha},
              for_(i, from, PrimExpr(int64_t(8)) - from, store(o, load(a, {i}) * alpha, {i})));
  const Buffer x = flat("x", 8, f32), y = flat("y", 8, f32);
  const Stmt body =
      make<Evaluate>(call(i32, "tir.call_prim_func",
                          {make<tir::StringImm>("scale_from"), x->data,
                           call(DataType::handle(), "tir.address_of", {load(y, {PrimExpr(int64_t(0))})}),
                           PrimExpr(int64_t(2)), PrimExpr(3.0)}));
  const Program caller = program("caller", {x, y}, {}, body);
  const IRModule m = module_of({caller.lowered, callee.lowered});
  const auto jit = codegen::load_elf(codegen::llvm_object(m, host_target()), host_target());
  const NDArray in = iota(8, f32), out = NDArray::zeros({8}, f32);
  void* buffers[] = {in.data(), out.data()};
  TestContext context;
  ASSERT_EQ(reinterpret_cast<TenonKernel>(jit.find("caller"))(buffers, nullptr, &context.context), 0);
  EXPECT_EQ(out.element(1), 0);
  EXPECT_EQ(out.element(5), 15);
  EXPECT_NE(c_text(m).find("scale_from(call_buffers"), std::string::npos);
}

Program scaled(const std::string& name, double by) {
  const Buffer a = flat("a", 8, f32), o = flat("o", 8, f32);
  const VarRef i = var("i");
  return program(name, {a, o}, {}, for_(i, 0, 8, store(o, load(a, {i}) * PrimExpr(by), {i})));
}

/// Sums of the columns of a window over planes, of which the last are `columns - 1` again.
Program clamped_columns() {
  constexpr int64_t tile = 8, lanes = 16;
  const Buffer a = flat("a", 1 << 12, f32), w = flat("w", 36 * lanes, f32), o = flat("o", tile * lanes, f32);
  const VarRef height = var("height"), width = var("width"), columns = var("columns"), c = var("c"),
               i = var("i"), j = var("j");
  std::vector<Stmt> first, step;
  for (int64_t r = 0; r < tile; ++r) {
    const PrimExpr to = ramp(PrimExpr(r * lanes), 1, lanes),
                   at = height * width * c + height * c * 2 + width * c * 2 + width * i + c * 4 + i * 2 + j +
                        min(PrimExpr(r), columns - 1) * PrimExpr(int64_t(2));
    first.push_back(store(o, make<Broadcast>(PrimExpr::float_imm(0, f32), lanes), {to}));
    step.push_back(
        store(o,
              load(o, {to}) + PrimExpr(make<Broadcast>(load(a, {at}), lanes)) *
                                  load(w, {ramp(c * (9 * lanes) + i * (3 * lanes) + j * lanes, 1, lanes)}),
              {to}));
  }
  const Stmt window = for_(i, 0, 3, for_(j, 0, 3, seq(Array<Stmt>(step))));
  first.push_back(for_(c, 0, 4, window));
  return program("clamped", {a, w, o}, {height, width, columns}, seq(Array<Stmt>(first)));
}

TEST(Programs, ColumnsOfAnEdgeAreKeptApartFromTheAddressThatMoves) {
  const std::vector<NDArray> arrays{random_array({1 << 12}, f32, 1), random_array({36 * 16}, f32, 2),
                                    NDArray::zeros({8 * 16}, f32)};
  for (int64_t columns : {1, 3, 8}) expect_same(clamped_columns(), arrays, {16, 40, columns}, 32);
  const std::string text =
      codegen::llvm_assembly(module_of({clamped_columns().lowered}), parse_target("llvm -mcpu=znver4"));
  int apart = 0;  // what moves, and each column
  for (size_t at = text.find("#APP"); at != text.npos; at = text.find("#APP", at + 1)) ++apart;
  EXPECT_EQ(apart, 1 + 8) << text;
}

TEST(Modules, IdenticalBodiesAreCompiledOnce) {
  const IRModule m =
      module_of({scaled("one", 2).lowered, scaled("two", 2).lowered, scaled("three", 3).lowered});
  const auto object = codegen::llvm_object(m, host_target());
  EXPECT_EQ(object.symbols, (std::vector<std::string>{"one", "two", "three"}));
  const auto jit = codegen::load_elf(object, host_target());
  EXPECT_EQ(jit.find("one"), jit.find("two"));
  EXPECT_NE(jit.find("one"), jit.find("three"));
  EXPECT_EQ(jit.find("four"), nullptr);
}

TEST(Modules, WhatAssertionsSayIsNotCode) {
  auto checked = [](const std::string& name, int64_t most) {
    const Buffer a = flat("a", 8, f32), o = flat("o", 8, f32);
    const VarRef i = var("i"), k = var("k");
    const Stmt body = seq({make<AssertStmt>(le(k, PrimExpr(most)), "too large for " + name),
                           for_(i, 0, 8, store(o, load(a, {i}), {i}))});
    return program(name, {a, o}, {k}, body);
  };
  const IRModule m =
      module_of({checked("one", 5).lowered, checked("two", 5).lowered, checked("three", 6).lowered});
  const auto jit = codegen::load_elf(codegen::llvm_object(m, host_target()), host_target());
  EXPECT_EQ(jit.find("one"), jit.find("two"));
  EXPECT_NE(jit.find("one"), jit.find("three"));
}

TEST(Modules, PartsCompileInParallelToTheSameBytes) {
  std::vector<PrimFunc> functions;
  for (int k = 0; k < 400; ++k) functions.push_back(scaled("kernel_" + std::to_string(k), k + 0.5).lowered);
  const IRModule m = module_of(functions);
  const auto one = codegen::llvm_object(m, host_target(), 1, 1),
             many = codegen::llvm_object(m, host_target(), 1, 4);
  EXPECT_GT(one.objects.size(), 1u);
  EXPECT_EQ(one.objects, many.objects);
  const std::string shared = codegen::link_elf(many, host_target(), codegen::LinkedAs::shared),
                    merged = codegen::link_elf(many, host_target(), codegen::LinkedAs::object);
  EXPECT_EQ(shared.substr(1, 3), "ELF");
  EXPECT_EQ(merged.substr(1, 3), "ELF");
  EXPECT_EQ(shared, codegen::link_elf(one, host_target(), codegen::LinkedAs::shared));
  EXPECT_NE(shared.find("libm.so.6"), std::string::npos);  // so that loading it finds the C mathematics
  const auto jit = codegen::load_elf({{merged}, {"kernel_7"}}, host_target());
  const NDArray in = iota(8, f32), out = NDArray::zeros({8}, f32);
  void* buffers[] = {in.data(), out.data()};
  ASSERT_EQ(reinterpret_cast<TenonKernel>(jit.find("kernel_7"))(buffers, nullptr, nullptr), 0);
  EXPECT_EQ(out.element(3), 22.5);
}

TEST(Modules, LinkerSpeaksInT0803) {
  try {
    codegen::link_elf({{"this is no object"}, {"x"}}, host_target(), codegen::LinkedAs::shared);
    FAIL();
  } catch (const Error& e) {
    EXPECT_EQ(e.code, "T0803");
  }
  EXPECT_FALSE(codegen::link_elf(codegen::llvm_object(module_of({scaled("again", 2).lowered}), host_target()),
                                 host_target(), codegen::LinkedAs::shared)
                   .empty());  // and recovers
}

TEST(Modules, TextForms) {
  const IRModule m = module_of({scaled("text", 2).lowered});
  EXPECT_NE(codegen::llvm_ir(m, host_target()).find("define i32 @text"), std::string::npos);
  EXPECT_NE(codegen::llvm_assembly(m, host_target()).find("text:"), std::string::npos);
  EXPECT_NE(c_text(m).find("int32_t text(void* const* buffers"), std::string::npos);
}

/// The code of the first refusal of a program, "" when there is none.
std::string refusal(const PrimFunc& f) {
  std::string from_llvm, from_c;
  try {
    codegen::llvm_object(module_of({f}), host_target());
  } catch (const DiagnosticError& e) {
    from_llvm = e.diagnostics[0].code + " " + e.diagnostics[0].message;
  }
  try {
    c_text(module_of({f}));
  } catch (const DiagnosticError& e) {
    from_c = e.diagnostics[0].code + " " + e.diagnostics[0].message;
  }
  EXPECT_EQ(from_llvm, from_c);
  return from_llvm;
}
TEST(Refusals, NameWhatIsRefused) {
  const Buffer a = flat("a", 8, f32);
  const VarRef i = var("i");
  auto expect = [&](const Stmt& body, const std::string& words) {
    const std::string said = refusal(program("refused", {a}, {}, body).lowered);
    EXPECT_EQ(said.substr(0, 5), "T0801") << words;
    EXPECT_NE(said.find(words), std::string::npos) << said;
  };
  const Stmt good = store(a, PrimExpr(1.0), {i});
  expect(make<Evaluate>(call(DataType::void_(), "tir.ptx_wait_group", {PrimExpr(0)})),
         "`tir.ptx_wait_group`: it is of a machine or run time without a code generator here");
  expect(for_(i, 0, 8, good, ForKind::vectorized), "vectorized");
  expect(for_(i, 0, 8, good, ForKind::thread_binding), "GPU thread");
  expect(make<Evaluate>(call(i32, "tir.ret", {PrimExpr(int64_t(0))})), "tir.ret");
  expect(make<Evaluate>(call(i32, "tir.call_extern", {make<tir::StringImm>("no name")})), "no name of C");
  expect(make<Evaluate>(call(i32, "tir.no_such_thing", {})), "no_such_thing");
  expect(make<Prefetch>(a, Array<Range>{}), "Prefetch");
  const auto t = make<DataProducerNode>(Array<PrimExpr>{PrimExpr(int64_t(8))}, f32, std::string("t"));
  expect(make<ProducerStore>(t, PrimExpr(1.0), Array<PrimExpr>{PrimExpr(int64_t(0))}), "ProducerStore");
  expect(store(a, make<ProducerLoad>(t, Array<PrimExpr>{PrimExpr(int64_t(0))}), {PrimExpr(int64_t(0))}),
         "ProducerLoad");
  expect(make<Allocate>(flat("packed", 8, DataType::int_(4)), make<Evaluate>(PrimExpr(int64_t(0)))), "int4");
  expect(make<Allocate>(buffer("fast", {PrimExpr(int64_t(8))}, f32, "shared"),
                        make<Evaluate>(PrimExpr(int64_t(0)))),
         "memory of a device");
  PrimFunc unpacked = program("unpacked", {a}, {}, for_(i, 0, 8, good)).plain;
  unpacked.edit()->attrs.set("global_symbol", Any("unpacked"));
  EXPECT_NE(refusal(unpacked).find("kernel signature"), std::string::npos);
  const std::vector<std::string> list = codegen::unsupported_nodes();
  for (const char* name : {"ProducerStore", "ProducerLoad", "BufferRealize", "Prefetch", "Reduce"})
    EXPECT_TRUE(std::any_of(list.begin(), list.end(), [&](const auto& s) { return s.starts_with(name); }))
        << name;
  EXPECT_GE(list.size(), 10u);
}

}  // namespace
}  // namespace tenon::test
