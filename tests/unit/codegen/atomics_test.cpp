// SPDX-License-Identifier: Apache-2.0
// Atomic operations by many threads at once, through LLVM and C; and packed integers, whose neighbours in a
// byte belong to different threads.
#include <set>
#include <thread>

#include "ir/tir.h"
#include "kernels.h"

namespace tenon::test {
namespace {

using namespace tir;

constexpr int kThreads = 4;

/// Parallel loops on real threads, each with every fourth iteration: neighbours never share a thread.
int32_t on_threads(const TenonKernelContext* context, TenonParallelBody body, void* closure, int64_t extent,
                   int64_t) {
  std::vector<std::thread> threads;
  std::vector<int32_t> codes(kThreads, 0);
  for (int t = 0; t < kThreads; ++t)
    threads.emplace_back([&, t] {
      for (int64_t i = t; i < extent && codes[size_t(t)] == 0; i += kThreads)
        codes[size_t(t)] = body(closure, i, i + 1, context);
    });
  for (std::thread& t : threads) t.join();
  for (int32_t c : codes)
    if (c) return c;
  return 0;
}

PrimExpr element(const Buffer& b, const PrimExpr& at) {
  return call(DataType::handle(), "tir.address_of", {load(b, {at})});
}

/// Runs the program on threads by every back end; `judge` sees the arguments behind each run.
void on_all(const Program& p, const std::vector<NDArray>& arrays,
            const std::function<void(const std::string&, const std::vector<NDArray>&)>& judge) {
  static int turn = 0;  // the compilers take turns, to keep the tests short
  for (const char* back_end : {"llvm", "llvm x86-64", ++turn % 2 ? "gcc" : "clang-22"}) {
    TestContext context;
    context.context.parallel_for = on_threads;
    const std::vector<NDArray> got = copies(arrays);
    const std::string name = back_end;
    const int32_t code = name == "llvm" ? run_llvm(p.lowered, got, {}, 2, host_target(), &context)
                         : name == "llvm x86-64"
                             ? run_llvm(p.lowered, got, {}, 1, parse_target("llvm -mcpu=x86-64"), &context)
                             : run_c(p.lowered, name, got, {}, &context);
    EXPECT_EQ(code, 0) << name;
    judge(name, got);
  }
}

TEST(Atomics, ManyThreadsOneElement) {
  constexpr int64_t n = 2000, places = 3;
  for (DataType t : {i32, i64, u8, DataType::int_(16), f32, f64}) {
    std::vector<Buffer> buffers{flat("in", n, t)};
    std::vector<NDArray> arrays{random_array({n}, t, 7)};
    // Sums of small whole numbers are the same in every order, floats too.
    if (t.is_float())
      for (int64_t i = 0; i < n; ++i) arrays[0].set_element(i, double(i % 11) - 5);
    std::vector<Stmt> body;
    const VarRef i = var("i");
    for (const char* op : {"add", "max", "min", "and", "or", "xor"}) {
      const std::string name = op;
      if (t.is_float() && (name == "and" || name == "or" || name == "xor")) continue;
      buffers.push_back(flat(name + "_out", places, t));
      arrays.push_back(NDArray::zeros({places}, t));
      const PrimExpr at = floormod(i, PrimExpr(places));
      body.push_back(make<tir::Evaluate>(
          call(t, "tir.atomic_" + name, {element(buffers.back(), at), load(buffers[0], {i})})));
    }
    const Program p = program("count", buffers, {}, for_(i, 0, n, seq(Array<Stmt>(body)), ForKind::parallel));
    std::vector<NDArray> want = copies(arrays);
    interpret_prim_func(p.plain, want);
    on_all(p, arrays, [&](const std::string& back_end, const std::vector<NDArray>& got) {
      for (size_t k = 1; k < got.size(); ++k)
        expect_close(got[k], want[k], 0, back_end + " " + to_string(t) + " " + buffers[k]->name);
    });
  }
}

TEST(Atomics, ExchangesLoseNothing) {
  constexpr int64_t n = 1000, slots = 8;
  for (DataType t : {i32, f32, f64}) {
    const Buffer last = flat("last", 1, t), olds = flat("olds", n, t), slot = flat("slot", slots, t),
                 won = flat("won", n, t);
    const VarRef i = var("i");
    const PrimExpr mine = cast(t, i + PrimExpr(int64_t(1)));
    const Program p = program(
        "exchange", {last, olds, slot, won}, {},
        for_(i, 0, n,
             seq({store(olds, call(t, "tir.atomic_exchange", {element(last, PrimExpr(int64_t(0))), mine}),
                        {i}),
                  store(won,
                        call(t, "tir.atomic_compare_exchange",
                             {element(slot, floormod(i, PrimExpr(slots))), const_of(t, 0), mine}),
                        {i})}),
             ForKind::parallel));
    on_all(
        p,
        {NDArray::zeros({1}, t), NDArray::zeros({n}, t), NDArray::zeros({slots}, t), NDArray::zeros({n}, t)},
        [&](const std::string& back_end, const std::vector<NDArray>& got) {
          std::set<double> seen{got[0].element(0)};
          for (int64_t k = 0; k < n; ++k) seen.insert(got[1].element(k));
          EXPECT_EQ(seen.size(), size_t(n + 1)) << back_end;  // 0 … n, each once
          EXPECT_EQ(*seen.rbegin(), double(n)) << back_end;
          int64_t winners = 0;
          for (int64_t k = 0; k < n; ++k) {
            const bool first = got[3].element(k) == 0;
            winners += first;
            const double holder = got[2].element(k % slots);
            EXPECT_EQ(first ? holder : got[3].element(k), first ? double(k + 1) : holder) << back_end;
          }
          EXPECT_EQ(winners, slots) << back_end;
        });
  }
}

TEST(Atomics, WhatThereIsNoneOfIsRefused) {
  const Buffer a = flat("a", 4, f32);
  const VarRef i = var("i");
  const Program p = program(
      "bits", {a}, {},
      for_(i, 0, 4, make<tir::Evaluate>(call(f32, "tir.atomic_xor", {element(a, i), const_of(f32, 1)}))));
  for (bool c : {false, true}) try {
      if (c)
        c_text(module_of({p.lowered}));
      else
        codegen::llvm_object(module_of({p.lowered}), host_target());
      FAIL() << "not refused";
    } catch (const DiagnosticError& e) {
      EXPECT_NE(std::string(e.what()).find("tir.atomic_xor"), std::string::npos) << e.what();
    }
}

// ---------------------------------------------------------------- packed integers
TEST(PackedIntegers, OperationsOfEveryWidth) {
  constexpr int64_t n = 64;
  for (DataType t : {DataType::int_(4), DataType::uint(4), DataType::int_(2), DataType::uint(2)})
    for (int lanes : {1, 8}) {
      const PrimExpr two = PrimExpr(int64_t(lanes));
      const VarRef i = var("i");
      const PrimExpr at =
          lanes == 1 ? PrimExpr(i) : PrimExpr(make<Ramp>(i * two, PrimExpr(int64_t(1)), lanes));
      const Buffer a = flat("a", n, t), b = flat("b", n, t), f = flat("f", n, f32), w = flat("w", n, i32);
      std::vector<Buffer> buffers{a, b, f, w};
      std::vector<NDArray> arrays{random_array({n}, t, 1), random_array({n}, t, 2), random_array({n}, f32, 3),
                                  random_array({n}, i32, 4)};
      for (int64_t k = 0; k < n; ++k)
        if (arrays[1].element_int(k) == 0) arrays[1].set_element_int(k, 1);
      const PrimExpr x = load(a, {at}), y = load(b, {at});
      const DataType v = t.with_lanes(lanes);
      Array<Stmt> body;
      auto out = [&](const PrimExpr& value) {
        const Buffer o = flat("o" + std::to_string(buffers.size()), n, value.dtype().element());
        buffers.push_back(o);
        arrays.push_back(NDArray::zeros({n}, o->dtype));
        body.push_back(store(o, value, {at}));
      };
      out(make<Add>(x, y));
      out(make<Sub>(x, y));
      out(make<Mul>(x, y));
      out(make<Div>(x, y));
      out(make<Mod>(x, y));
      out(make<FloorDiv>(x, y));
      out(make<FloorMod>(x, y));
      out(make<tir::Min>(x, y));
      out(make<tir::Max>(x, y));
      out(make<LT>(x, y));
      out(select(make<EQ>(x, y), x, const_of(v, 1)));
      out(cast(v, load(f, {at})));
      out(cast(v, load(w, {at})));
      out(cast(f32.with_lanes(lanes), x));
      out(cast(i32.with_lanes(lanes), make<Mul>(x, x)));
      for (const char* op : {"bitwise_and", "bitwise_or", "bitwise_xor"})
        out(call(v, std::string("tir.") + op, {x, y}));
      out(call(v, "tir.bitwise_not", {x}));
      out(call(v, "tir.shift_left", {x, const_of(v, 1)}));
      out(call(v, "tir.shift_right", {x, const_of(v, 1)}));
      out(call(v, "tir.popcount", {x}));
      out(call(v, "tir.clz", {x}));
      if (t.is_int()) out(call(v, "tir.abs", {x}));
      if (lanes > 1) {
        const Buffer o = flat("sum", n / lanes, t);
        buffers.push_back(o);
        arrays.push_back(NDArray::zeros({n / lanes}, t));
        body.push_back(store(o, call(t, "tir.vector_reduce_add", {x}), {i}));
      }
      expect_same(program("packed", buffers, {}, for_(i, 0, n / lanes, seq(body))), arrays);
    }
}

TEST(PackedIntegers, PlacesInMemory) {
  const DataType t = DataType::int_(4);
  constexpr int64_t n = 41;
  const Buffer a = flat("a", n, t), o = flat("o", n, t), r = flat("r", n, t), g = flat("g", n, t),
               at = flat("at", n, i64), s = flat("s", n, t), own = flat("own", 3, t), c = flat("c", 5, t);
  NDArray index = NDArray::empty({n}, i64), data = random_array({5}, t, 9);
  for (int64_t k = 0; k < n; ++k) index.set_element_int(k, (k * 7) % n);
  const VarRef i = var("i"), j = var("j"), k = var("k"), l = var("l");
  const PrimExpr one = PrimExpr(int64_t(1));
  auto ramp = [&](const PrimExpr& base, int64_t stride, int64_t lanes) {
    return PrimExpr(make<Ramp>(base, PrimExpr(stride), lanes));
  };
  const PrimExpr odd = ramp(i * PrimExpr(int64_t(5)) + one, 1, 5);
  const PrimExpr on =
      make<LT>(ramp(j * PrimExpr(int64_t(8)), 1, 8), make<Broadcast>(PrimExpr(n), int64_t(8)));
  Array<Stmt> body{
      // vectors that begin inside a byte, and backwards
      for_(i, 0, 8,
           seq({store(o, load(a, {odd}), {odd}),
                store(r, load(a, {odd}), {ramp(PrimExpr(n - 1) - i, -8, 5)})})),
      // masked, beyond the end
      for_(j, 0, 6,
           store(s, load(a, {ramp(j * PrimExpr(int64_t(8)), 1, 8)}, on),
                 {ramp(j * PrimExpr(int64_t(8)), 1, 8)}, on)),
      // gathered
      for_(k, 0, n, store(g, load(a, {load(at, {k})}), {k})),
  };
  Stmt inner = seq(
      {store(own, load(c, {PrimExpr(int64_t(3))}), {one}), store(o, load(own, {one}), {PrimExpr(n - 1)})});
  body.push_back(make<Allocate>(own, make<AllocateConst>(c, data, inner), AttrMap()));
  expect_same(program("places", {a, o, r, g, at, s}, {}, seq(body)),
              {random_array({n}, t, 5), NDArray::zeros({n}, t), NDArray::zeros({n}, t),
               NDArray::zeros({n}, t), index, NDArray::zeros({n}, t)});
}

TEST(PackedIntegers, NeighboursInAByteBelongToDifferentThreads) {
  for (DataType t : {DataType::int_(4), DataType::uint(2)}) {
    constexpr int64_t n = 4001;
    const Buffer a = flat("a", n, t), o = flat("o", n, t);
    const VarRef i = var("i");
    const Program p =
        program("threads", {a, o}, {},
                for_(i, 0, n, store(o, make<Add>(load(a, {i}), const_of(t, 1)), {i}), ForKind::parallel));
    const std::vector<NDArray> arrays{random_array({n}, t, 1), random_array({n}, t, 2)};
    std::vector<NDArray> want = copies(arrays);
    interpret_prim_func(p.plain, want);
    on_all(p, arrays, [&](const std::string& back_end, const std::vector<NDArray>& got) {
      expect_close(got[1], want[1], 0, back_end);
    });
  }
}

}  // namespace
}  // namespace tenon::test
