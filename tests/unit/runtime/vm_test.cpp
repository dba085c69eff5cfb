// SPDX-License-Identifier: Apache-2.0
#include "runtime/vm.h"

#include <gtest/gtest.h>

#include <numeric>
#include <thread>

#include "base/function.h"
#include "program.h"

namespace tenon {
namespace {
using namespace test;

Artifact make_artifact(Executable e) { return Artifact::from_executable(std::move(e), resolve); }

TEST(VM, ArenaConstantsAndFreshOutputs) {
  Session session(make_artifact(add_program()));
  NDArray a = floats({1, 2, 3, 4, 5, 6, 7, 8}, {2, 4}), b = floats(std::vector<float>(8, 10), {2, 4});
  const std::vector<NDArray> first = session.invoke({a, b});
  ASSERT_EQ(first.size(), 1u);
  const std::vector<float> wanted{11.5, 12.5, 13.5, 14.5, 15.5, 16.5, 17.5, 18.5};
  EXPECT_EQ(values(first[0]), wanted);
  const std::vector<NDArray> second = session.invoke({b, b});
  EXPECT_EQ(values(first[0]), wanted);  // not overwritten by the later call
  EXPECT_EQ(values(second[0]), std::vector<float>(8, 20.5));
}

TEST(VM, WritesIntoTheCallersBuffer) {
  Session session(make_artifact(add_program()));
  NDArray a = floats(std::vector<float>(8, 1), {2, 4}), out[1] = {NDArray::zeros({2, 4}, f32)};
  void* place = out[0].data();
  const NDArray inputs[] = {a, a};
  session.invoke_into(inputs, out);
  EXPECT_EQ(out[0].data(), place);
  EXPECT_EQ(values(out[0]), std::vector<float>(8, 2.5));
  // The buffer is also an input: still right, because the result is then copied at the end.
  const NDArray same[] = {out[0], out[0]};
  session.invoke_into(same, out);
  EXPECT_EQ(out[0].data(), place);
  EXPECT_EQ(values(out[0]), std::vector<float>(8, 5.5));
  NDArray wrong[1] = {NDArray::zeros({8}, f32)};
  EXPECT_EQ(error_code([&] { session.invoke_into(inputs, wrong); }), "T0505");
  session.invoke_into(inputs, out);  // usable after an error
  EXPECT_EQ(values(out[0]), std::vector<float>(8, 2.5));
}

TEST(VM, InputMistakesNameTheInput) {
  Session session(make_artifact(add_program()));
  NDArray a = floats(std::vector<float>(8, 1), {2, 4});
  std::string text;
  EXPECT_EQ(error_code([&] { session.invoke({a}); }, &text), "T0502");
  EXPECT_NE(text.find("takes 2 inputs, 1 were given"), text.npos) << text;
  EXPECT_EQ(error_code([&] { session.invoke({a, NDArray::zeros({2, 4}, i32)}); }, &text), "T0504");
  EXPECT_NE(text.find("input 1 `b` wants type float32, int32 was given"), text.npos) << text;
  EXPECT_EQ(error_code([&] { session.invoke({a, NDArray::zeros({4, 2}, f32)}); }, &text), "T0505");
  EXPECT_NE(text.find("input 1 `b` wants shape [2, 4], [4, 2] was given"), text.npos) << text;
  EXPECT_EQ(error_code([&] { session.invoke({a, NDArray::zeros({8}, f32)}); }), "T0505");
  EXPECT_EQ(error_code([&] { session.invoke({a, NDArray()}); }), "T0506");
  EXPECT_EQ(error_code([&] { session.invoke({a, NDArray::view(nullptr, {2, 4}, f32)}); }), "T0506");
  EXPECT_EQ(error_code([&] { session.invoke({a, NDArray::view(a.as_ptr<char>() + 1, {2, 4}, f32)}); }),
            "T0506");
  const std::pair<std::string, NDArray> named[] = {{"b", a}, {"c", a}};
  EXPECT_EQ(error_code([&] { session.invoke_named(named); }, &text), "T0503");
  EXPECT_NE(text.find("no input `c`"), text.npos) << text;
  const std::pair<std::string, NDArray> good[] = {{"b", a}, {"a", floats(std::vector<float>(8, 3), {2, 4})}};
  EXPECT_EQ(values(session.invoke_named(good)[0]), std::vector<float>(8, 4.5));
}

// main(x: f32[n, m], y: f32[m]): n * m elements of x flattened, y's length must agree.
Executable symbolic_program() {
  Builder b;
  b.begin("main", 2, 6, 3)
      .builtin(-1, "match_shape", {reg(0), imm(2), imm(1), imm(0), imm(1), imm(1)})
      .builtin(-1, "match_shape", {reg(1), imm(1), imm(2), imm(1)})
      .builtin(-1, "compute_shape", {imm(2), imm(1), imm(0), imm(1), imm(1), imm(2), imm(int(ShapeOp::Mul))})
      .builtin(2, "alloc_tensor", {imm(dtype_word(f32)), heap(2)})
      .kernel("test_add", 3, {reg(0), reg(0), reg(2), heap(2)})
      .builtin(3, "reshape", {reg(2), heap(1), heap(0)})
      .builtin(4, "shape_of", {reg(3)})
      .builtin(5, "tuple", {reg(3), reg(4), heap(2)})
      .ret(5);
  b.e.functions[0].params = {{"x", f32, true, {{-1, "n"}, {-1, "m"}}}, {"y", f32, true, {{-1, "m"}}}};
  return b.e;
}

TEST(VM, SymbolicShapes) {
  Session session(make_artifact(symbolic_program()));
  for (int64_t n : {1, 3}) {
    NDArray x = floats(std::vector<float>(size_t(n) * 2, 1.5f), {n, 2});
    const auto out = session.invoke({x, floats({0, 0})});
    ASSERT_EQ(out.size(), 3u);
    EXPECT_EQ(out[0].shape(), (std::vector<int64_t>{2, n}));
    EXPECT_EQ(values(out[0]), std::vector<float>(size_t(n) * 2, 3));
    EXPECT_EQ(out[1].element_int(1), n);
    EXPECT_EQ(out[2].element_int(0), 2 * n);
  }
  std::string text;
  EXPECT_EQ(error_code([&] { session.invoke({floats({1, 2}, {1, 2}), floats({1, 2, 3})}); }, &text), "T0505");
  EXPECT_NE(text.find("`m` is 3 here and 2 before"), text.npos) << text;
}

TEST(VM, ShapeArithmetic) {
  struct Case {
    ShapeOp op;
    int64_t a, b, wanted;
  };
  for (const Case& c : std::initializer_list<Case>{{ShapeOp::Add, 7, 3, 10},
                                                   {ShapeOp::Sub, 3, 7, -4},
                                                   {ShapeOp::FloorDiv, -7, 2, -4},
                                                   {ShapeOp::FloorMod, -7, 2, 1},
                                                   {ShapeOp::CeilDiv, 7, 2, 4},
                                                   {ShapeOp::CeilDiv, -7, 2, -3},
                                                   {ShapeOp::Min, 2, 9, 2},
                                                   {ShapeOp::Max, 2, 9, 9}}) {
    Builder b;
    b.begin("main", 0, 1, 1)
        .builtin(-1, "compute_shape", {imm(0), imm(0), imm(c.a), imm(0), imm(c.b), imm(2), imm(int(c.op))})
        .builtin(0, "make_shape", {heap(0)})
        .ret(0);
    EXPECT_EQ(Session(make_artifact(b.e)).invoke({})[0].element_int(0), c.wanted);
  }
  for (auto [op, a, second] :
       {std::tuple(ShapeOp::Mul, int64_t(1) << 40, int64_t(1) << 40), {ShapeOp::FloorDiv, 1, 0}}) {
    Builder b;
    b.begin("main", 0, 1, 1)
        .builtin(-1, "compute_shape", {imm(0), imm(0), imm(a), imm(0), imm(second), imm(2), imm(int(op))})
        .builtin(0, "make_shape", {heap(0)})
        .ret(0);
    EXPECT_EQ(error_code([&] { Session(make_artifact(b.e)).invoke({}); }), "T0512");
  }
}

TEST(VM, MatchShapeSaysBothShapes) {
  Builder b;
  b.begin("main", 1, 1).builtin(-1, "match_shape", {reg(0), imm(2), imm(0), imm(3), imm(3), imm(0)}).ret(0);
  Session session(make_artifact(b.e));
  std::string text;
  EXPECT_EQ(error_code([&] { session.invoke({NDArray::zeros({2, 5}, f32)}); }, &text), "T0501");
  EXPECT_NE(text.find("has shape [2, 5] where [3, any] is required"), text.npos) << text;
  EXPECT_EQ(error_code([&] { session.invoke({NDArray::zeros({3}, f32)}); }), "T0501");
  EXPECT_EQ(session.invoke({NDArray::zeros({3, 9}, f32)})[0].shape(), (std::vector<int64_t>{3, 9}));
}

TEST(VM, LoopsWithGotoAndIf) {
  // while (i < n) i = i + 1, n from the input; counts its steps through a packed function.
  static int steps;
  steps = 0;
  registry::add("test.vm.less",
                Function([](Arguments a) { return Any(a[0].as<int64_t>() < a[1].as<int64_t>()); }), true);
  registry::add("test.vm.next", Function([](Arguments a) {
                  ++steps;
                  return Any(a[0].as<int64_t>() + 1);
                }),
                true);
  Builder b;
  b.begin("main", 1, 5)
      .builtin(1, "scalar", {reg(0)})
      .packed(2, "test.vm.next", {imm(-1)})
      .packed(3, "test.vm.less", {reg(2), reg(1)})
      .branch(reg(3), 3)
      .packed(2, "test.vm.next", {reg(2)})
      .jump(-3)
      .builtin(4, "to_tensor", {reg(2), imm(dtype_word(i32))})
      .ret(4);
  Session session(make_artifact(b.e));
  NDArray n = NDArray::scalar(1000, i64);
  EXPECT_EQ(session.invoke({n})[0].element_int(0), 1000);
  EXPECT_EQ(steps, 1001);
}

TEST(VM, MoveMayGiveUpARegister) {
  // The storage of a small tensor that is overwritten is that of the next one, in the next run, too.
  static std::vector<const void*> seen;
  registry::add("test.vm.see", Function([](Arguments a) {
                  seen.push_back(a[0].as<NDArray>().data());
                  return Any();
                }),
                true);
  const Arg type = imm(dtype_word(f32));
  for (const int64_t elements : {3, 5000}) {
    seen.clear();
    Builder b;
    b.begin("main", 1, 5)
        .builtin(1, "alloc_tensor", {type, imm(elements)})
        .builtin(2, "alloc_tensor", {type, imm(elements)})
        .packed(3, "test.vm.see", {reg(1)})
        .packed(3, "test.vm.see", {reg(2)})
        .builtin(1, "move", {reg(2), imm(1)})
        .packed(3, "test.vm.see", {reg(1)})
        .builtin(2, "alloc_tensor", {type, imm(elements)})
        .packed(3, "test.vm.see", {reg(2)})
        .builtin(4, "copy", {reg(0)})
        .ret(4);
    Session session(make_artifact(b.e));
    for (int run = 0; run < 2; ++run)
      EXPECT_EQ(session.invoke({NDArray::scalar(run, f32)})[0].element(0), run);
    for (size_t k = 0; k < 8; k += 4) {
      EXPECT_NE(seen[k], seen[k + 1]);
      EXPECT_EQ(seen[k + 2], seen[k + 1]);
      EXPECT_NE(seen[k + 3], seen[k + 2]);
    }
    EXPECT_EQ(seen[3], seen[0]);
  }
}

TEST(VM, ARegisterOfSeveralTensorsGivesTheCallersBuffers) {
  // Both results lie in registers that served other tensors before: their last ones are the caller's from the
  // start. Where a jump lies between, nothing is given ahead, and the result is the same.
  static std::vector<const void*> seen;
  registry::add("test.vm.see", Function([](Arguments a) {
                  seen.push_back(a[0].as<NDArray>().data());
                  return Any();
                }),
                true);
  for (const bool jumps : {false, true}) {
    Builder b;
    auto sum = [&](Arg x, Arg y, int32_t out) {
      b.builtin(out, "alloc_tensor", {imm(dtype_word(f32)), imm(2)})
          .packed(4, "test.vm.see", {reg(out)})
          .kernel("test_add", 3, {x, y, reg(out), imm(2)});
    };
    b.begin("main", 1, 5);
    sum(reg(0), reg(0), 1);  // 2x
    sum(reg(1), reg(0), 2);  // 3x
    sum(reg(2), reg(0), 1);  // 4x, a result
    if (jumps) b.branch(imm(1), 4);
    sum(reg(1), reg(0), 2);  // 5x, a result
    if (jumps) b.builtin(1, "move", {reg(1)});
    b.builtin(3, "tuple", {reg(2), reg(1)}).ret(3);
    Session session(make_artifact(b.e));
    for (int run = 0; run < 5; ++run) {
      seen.clear();
      std::vector<NDArray> out{NDArray::zeros({2}, f32), NDArray::zeros({2}, f32)};
      session.invoke_into(std::vector<NDArray>{floats({1, float(run)})}, out);
      EXPECT_EQ(values(out[0]), (std::vector<float>{5, 5.0f * float(run)}));
      EXPECT_EQ(values(out[1]), (std::vector<float>{4, 4.0f * float(run)}));
      ASSERT_EQ(seen.size(), 4u);
      EXPECT_NE(seen[0], out[1].data());
      EXPECT_EQ(seen[2] == out[1].data(), !jumps);
      EXPECT_EQ(seen[3] == out[0].data(), !jumps);
    }
  }
}

TEST(VM, IfTakesBothBranches) {
  Builder b;
  b.begin("main", 1, 2)
      .branch(reg(0), 3)
      .builtin(1, "to_tensor", {imm(1), imm(dtype_word(i64))})
      .ret(1)
      .builtin(1, "to_tensor", {imm(2), imm(dtype_word(i64))})
      .ret(1);
  Session session(make_artifact(b.e));
  EXPECT_EQ(session.invoke({NDArray::scalar(1, boolean)})[0].element_int(0), 1);
  EXPECT_EQ(session.invoke({NDArray::scalar(0, boolean)})[0].element_int(0), 2);
  EXPECT_EQ(error_code([&] { session.invoke({NDArray::zeros({2}, boolean)}); }), "T0511");
}

/// sum(n) = n == 0 ? 0 : keep + sum(n - 1), where `keep` = n lives in the arena across the recursive call.
Executable recursive_program() {
  registry::add("test.vm.add", Function([](Arguments a) {
                  NDArray x = a[0].as<NDArray>(), y = a[1].as<NDArray>(), z = NDArray::zeros({1}, i64);
                  z.set_element_int(0, x.element_int(0) + y.element_int(0));
                  return Any(z);
                }),
                true);
  registry::add("test.vm.minus", Function([](Arguments a) { return Any(a[0].as<int64_t>() - 1); }), true);
  Builder b;
  b.e.arena_tensors.push_back({0, {1}, i64});
  b.e.arena_tensors.push_back({64, {1}, i64});
  b.e.arena_bytes = 128;
  b.begin("sum", 1, 5, 1)
      .branch(reg(0), 8)
      .packed(1, "test.vm.minus", {reg(0)})
      .builtin(2, "to_tensor", {reg(1), imm(dtype_word(i64))})
      .kernel("increment", 2, {reg(2), arena(0), imm(1)})  // arena(0) = n
      .call(3, 0, {reg(1)})
      .packed(4, "test.vm.add", {arena(0), reg(3)})
      .builtin(-1, "none", {})
      .ret(4)
      .builtin(2, "to_tensor", {imm(-1), imm(dtype_word(i64))})
      .kernel("increment", 2, {reg(2), arena(1), imm(1)})  // 0, returned from the arena of this frame
      .builtin(4, "reshape", {arena(1), imm(1)})
      .ret(4);
  b.begin("main", 1, 3).builtin(1, "scalar", {reg(0)}).call(2, 0, {reg(1)}).ret(2);
  return b.e;
}

TEST(VM, RecursionKeepsEachFramesArena) {
  Session session(make_artifact(recursive_program()));
  EXPECT_EQ(session.invoke({NDArray::scalar(100, i64)})[0].element_int(0), 5050);
  EXPECT_EQ(session.invoke({NDArray::scalar(0, i64)})[0].element_int(0), 0);
  EXPECT_EQ(error_code([&] { session.invoke({NDArray::scalar(50000, i64)}); }), "T0508");
  EXPECT_EQ(session.invoke({NDArray::scalar(10, i64)})[0].element_int(0), 55);  // frames are clean again
  EXPECT_EQ(session.call("sum", std::vector<Any>{Any(4)}).as<NDArray>().element_int(0), 10);
  EXPECT_EQ(error_code([&] { session.call("nothing", {}); }), "T0503");
  EXPECT_EQ(error_code([&] { session.call("sum", {}); }), "T0502");
}

TEST(VM, ResultsNeverShareWithInputsOrConstants) {
  Builder b;
  b.e.constants.push_back(floats({1, 2}));
  b.begin("main", 1, 4)
      .builtin(1, "reshape", {constant(0), imm(2), imm(1)})
      .builtin(2, "reshape", {reg(0), imm(2), imm(1)})
      .builtin(3, "tuple", {reg(0), reg(1), reg(2), reg(0), constant(0)})
      .ret(3);
  Artifact artifact = make_artifact(b.e);
  Session session(artifact);
  NDArray x = floats({3, 4});
  auto out = session.invoke({x});
  ASSERT_EQ(out.size(), 5u);
  std::vector<void*> places{x.data(), artifact.executable().constants[0].data()};
  for (const NDArray& o : out) {
    for (void* p : places) EXPECT_NE(o.data(), p);
    places.push_back(o.data());
  }
  EXPECT_EQ(values(out[1]), (std::vector<float>{1, 2}));
  EXPECT_EQ(values(out[2]), (std::vector<float>{3, 4}));
}

TEST(VM, ScalarsReachKernels) {
  Builder b;
  b.begin("main", 2, 4, 2)
      .builtin(2, "alloc_tensor", {imm(dtype_word(f64))})
      .kernel("scalar", 1, {reg(2), reg(0), reg(1)})
      .ret(2);
  Session session(make_artifact(b.e));
  EXPECT_EQ(session.invoke({NDArray::scalar(2.5, f32), NDArray::scalar(3, i32)})[0].element(0), 7.5);
  Builder h;
  h.begin("main", 1, 2, 2)
      .builtin(-1, "match_shape", {reg(0), imm(1), imm(1), imm(0)})
      .kernel("heap", 1, {heap(0)})
      .builtin(1, "make_shape", {heap(1), heap(0)})
      .ret(1);
  Session shapes(make_artifact(h.e));
  EXPECT_EQ(shapes.invoke({NDArray::zeros({7}, u8)})[0].element_int(0), 49);
}

TEST(VM, KernelCodesBecomeErrors) {
  for (auto [code, wanted] : {std::pair(int64_t(2), "T0509"), {-1, "T0401"}, {-2, "T0510"}}) {
    Builder b;
    b.begin("main", 0, 1).kernel("failing", 0, {imm(code)}).builtin(0, "make_shape", {}).ret(0);
    b.e.metadata = {{"asserts.failing", "first\nindex 7 is out of range\nthird"}};
    Session session(make_artifact(b.e));
    std::string text;
    EXPECT_EQ(error_code([&] { session.invoke({}); }, &text), wanted);
    if (code == 2) {
      EXPECT_NE(text.find("index 7 is out of range\n"), text.npos) << text;
    }
  }
}

TEST(VM, CancelFromAnotherThread) {
  Builder b;
  b.begin("main", 0, 1).builtin(0, "make_shape", {}).jump(-1).ret(0);  // for ever
  Session session(make_artifact(b.e));
  std::thread other([&] {
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
    session.cancel();
  });
  EXPECT_EQ(error_code([&] { session.invoke({}); }), "T0510");
  other.join();
}

TEST(VM, MemoryLimit) {
  Builder b;
  b.begin("main", 0, 1).builtin(0, "alloc_tensor", {imm(dtype_word(f32)), imm(1'000'000)}).ret(0);
  Session session(make_artifact(b.e), {.memory_limit = 1 << 20});
  EXPECT_EQ(error_code([&] { session.invoke({}); }), "T0507");
  session.set_memory_limit(0);
  EXPECT_EQ(session.invoke({})[0].size(), 1'000'000);
  Session small(make_artifact(add_program()), {.memory_limit = 100});
  NDArray a = floats(std::vector<float>(8, 1), {2, 4});
  EXPECT_EQ(error_code([&] { small.invoke({a, a}); }), "T0507");  // the arena counts
}

TEST(VM, OutputsOutliveTheirSession) {
  std::vector<NDArray> out;
  {
    Session session(make_artifact(add_program()));
    NDArray a = floats(std::vector<float>(8, 1), {2, 4});
    out = session.invoke({a, a});
  }
  EXPECT_EQ(values(out[0]), std::vector<float>(8, 2.5));
}

TEST(VM, ProfileNamesKernels) {
  Session session(make_artifact(add_program()));
  std::vector<std::string> names;
  session.set_profile([&](std::string_view name, double ms) {
    names.emplace_back(name);
    EXPECT_GE(ms, 0);
  });
  NDArray a = floats(std::vector<float>(8, 1), {2, 4});
  session.invoke({a, a});
  EXPECT_EQ(names, (std::vector<std::string>{"test_add", "vm.builtin.alloc_tensor", "test_add"}));
}

TEST(VM, UnknownCalleesAreNamed) {
  Builder k;
  k.begin("main", 0, 1).kernel("no_such_kernel", 0, {}).builtin(0, "make_shape", {}).ret(0);
  std::string text;
  EXPECT_EQ(error_code([&] { make_artifact(k.e); }, &text), "T0608");
  EXPECT_NE(text.find("no_such_kernel"), text.npos);
  Builder p;
  p.begin("main", 0, 1).packed(0, "no.such.function", {}).ret(0);
  EXPECT_EQ(error_code([&] { make_artifact(p.e); }), "T0609");
  Builder v;
  v.begin("main", 0, 1).builtin(0, "no_such_builtin", {}).ret(0);
  EXPECT_EQ(error_code([&] { make_artifact(v.e); }), "T0609");
}

TEST(VM, KernelsOfModulesRun) {
  // Its modules' text is the name of their one kernel, which adds its last two arguments to the tensor before
  // them.
  registry::add("loader.test_vm", Function([](Arguments text) {
                  return Any(Function([name = text[0].as<std::string>()](Arguments wanted) -> Any {
                    if (wanted[0].as<std::string>() != name) return {};
                    return Any(Function([](Arguments a) -> Any {
                      const NDArray from = a[0].as<NDArray>(), to = a[1].as<NDArray>();
                      for (int64_t i = 0; i < from.size(); ++i)
                        to.as_ptr<float>()[i] = from.as_ptr<float>()[i] + float(a[2].as<int64_t>());
                      return {};
                    }));
                  }));
                }),
                true);
  Builder b;
  b.e.arena_tensors.push_back({0, {4}, f32});
  b.e.arena_bytes = 64;
  b.begin("main", 1, 2)
      .kernel("add_text", 2, {reg(0), arena(0), imm(3)})
      .builtin(1, "alloc_tensor", {imm(dtype_word(f32)), imm(4)})
      .kernel("test_add", 3, {arena(0), reg(0), reg(1), imm(4)})
      .ret(1);
  b.e.modules = {{"test_vm", "another"}, {"test_vm", "add_text"}};
  Session session(make_artifact(b.e));
  for (int run = 0; run < 2; ++run)
    EXPECT_EQ(values(session.invoke({floats({1, 2, 3, 4})})[0]), (std::vector<float>{5, 7, 9, 11}));
  b.e.modules.pop_back();
  EXPECT_EQ(error_code([&] { make_artifact(b.e); }), "T0608");
  b.e.modules = {{"no_such_loader", "add_text"}};
  std::string text;
  EXPECT_EQ(error_code([&] { make_artifact(b.e); }, &text), "T0614");
  EXPECT_NE(text.find("no_such_loader"), text.npos) << text;
}

TEST(VM, DamagedTablesAreRefused) {
  using Damage = void (*)(Executable&);
  const Damage damages[] = {
      [](Executable& e) { e.functions.clear(); },
      [](Executable& e) { e.functions[0].num_registers = -1; },
      [](Executable& e) { e.functions[0].num_registers = 2; },
      [](Executable& e) { e.functions[0].num_params = 100; },
      [](Executable& e) { e.functions[0].first_instruction = 0xffffffff; },
      [](Executable& e) { e.functions[0].num_instructions = 0; },
      [](Executable& e) { e.functions[0].num_instructions = 3; },  // runs off its end
      [](Executable& e) { e.code[0].first_arg = 0xfffffff0; },
      [](Executable& e) { e.code[0].num_args = 0xffffffff; },
      [](Executable& e) { e.code[0].callee = 99; },
      [](Executable& e) { e.code[0].callee = -1; },
      [](Executable& e) { e.code[1].dst = 77; },
      [](Executable& e) { e.code[3].dst = -1; },
      [](Executable& e) { e.code[0].op = Opcode(9); },
      [](Executable& e) { e.code[0].op = Opcode::Goto, e.code[0].offset = -1; },
      [](Executable& e) { e.code[0].op = Opcode::Goto, e.code[0].offset = 4; },
      [](Executable& e) { e.code[0].op = Opcode::If; },
      [](Executable& e) { e.args[0] = reg(50); },
      [](Executable& e) { e.args[0] = constant(1); },
      [](Executable& e) { e.args[0] = arena(1); },
      [](Executable& e) { e.args[0] = heap(0); },
      [](Executable& e) { e.args[0] = imm(0); },
      [](Executable& e) { e.args[0].word = 7; },
      [](Executable& e) { e.args[3] = constant(0); },
      [](Executable& e) { e.callees[0].num_buffers = 99; },
      [](Executable& e) { e.callees[0].kind = CalleeKind(7); },
      [](Executable& e) { e.callees[0].kind = CalleeKind::Function, e.callees[0].index = 5; },
      [](Executable& e) { e.callees[0].name.clear(); },
      [](Executable& e) { e.arena_bytes = 64; },
      [](Executable& e) { e.callees[0].buffer_bytes = {32, 32, 33}; },  // the plan has 32 bytes there
      [](Executable& e) { e.callees[0].buffer_bytes = {32, 32}; },
      [](Executable& e) { e.arena_tensors[0].shape = {2, 3}, e.callees[0].buffer_bytes = {-1, -1, 32}; },
      [](Executable& e) { e.arena_bytes = -1; },
      [](Executable& e) { e.arena_tensors[0].offset = 32; },
      [](Executable& e) { e.arena_tensors[0].offset = -64; },
      [](Executable& e) { e.arena_tensors[0].shape = {int64_t(1) << 40, int64_t(1) << 40}; },
      [](Executable& e) { e.arena_tensors[0].dtype = {TypeCode(99), 8, 1}; },
      [](Executable& e) { e.constants[0] = NDArray(); },
  };
  int n = 0;
  for (Damage damage : damages) {
    Executable e = add_program();
    damage(e);
    EXPECT_EQ(error_code([&] { make_artifact(std::move(e)); }), "T0607") << "case " << n;
    ++n;
  }
}

TEST(VM, EightSessionsOnOneArtifact) {
  Artifact artifact = make_artifact(add_program());
  Artifact recursive = make_artifact(recursive_program());
  std::atomic<int> wrong{0};
  std::vector<std::thread> threads;
  for (int t = 0; t < 8; ++t)
    threads.emplace_back([&, t] {
      Session session(artifact), other(recursive);
      NDArray a = floats(std::vector<float>(8, float(t)), {2, 4});
      for (int i = 0; i < 100; ++i) {
        if (values(session.invoke({a, a})[0]) != std::vector<float>(8, 2 * float(t) + 0.5f)) ++wrong;
        if (other.invoke({NDArray::scalar(i % 20, i64)})[0].element_int(0) != (i % 20) * (i % 20 + 1) / 2)
          ++wrong;
      }
    });
  for (auto& t : threads) t.join();
  EXPECT_EQ(wrong.load(), 0);
}

TEST(VM, OneSessionInTwoThreadsIsRefused) {
  registry::add("test.vm.reenter", Function([](Arguments a) {
                  auto* session = static_cast<Session*>(a[0].as<void*>());
                  return Any(error_code([&] { session->invoke({}); }));
                }),
                true);
  Builder b;
  b.begin("again", 1, 2).packed(1, "test.vm.reenter", {reg(0)}).ret(1);
  Session session(make_artifact(b.e));
  EXPECT_EQ(session.call("again", std::vector<Any>{Any(static_cast<void*>(&session))}).as<std::string>(),
            "T0513");
}

}  // namespace
}  // namespace tenon
