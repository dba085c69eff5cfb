// SPDX-License-Identifier: Apache-2.0
// Tensor programs that call packed functions of the process, and C functions of its libraries.
#include <cmath>

#include "alike.h"
#include "base/temporary_folder.h"
#include "ir/structural.h"
#include "runtime/dlpack.h"
#include "schedule/schedule.h"

namespace tenon::testing_programs {
namespace {

using graph::testing_graph::random_array;
using Ints = std::vector<int64_t>;

std::string program(const std::string& params, const std::string& body) {
  return "@T.prim_func\ndef main(" + params + "):\n" + body;
}
const std::string kVectors = R"(A: T.Buffer((6,), "int32"), B: T.Buffer((6,), "int32"))";
/// B = A, so that it is a result whatever is called.
const std::string kCopy = "    for i in range(6):\n        B[i] = A[i]\n";

/// What functions of a test were given, in order.
std::vector<std::string>& seen() {
  static std::vector<std::string> all;
  return all;
}
void define(const std::string& name, std::function<Any(Arguments)> f) {
  registry::add("test.packed." + name, Function(std::move(f)), true);
}
std::string shown(const Any& v) {
  if (const auto t = v.try_as<NDArray>(); t && *t) {
    std::string out = to_string(t->dtype()) + "[";
    for (int64_t i = 0; i < t->size(); ++i) out += (i ? " " : "") + std::to_string(int64_t(t->element(i)));
    return out + "]";
  }
  if (v.tag() == kBool) return v.as<bool>() ? "true" : "false";
  if (v.tag() == kInt) return std::to_string(v.as<int64_t>());
  if (v.tag() == kFloat) return "f" + std::to_string(v.as<double>()).substr(0, 5);
  if (v.tag() == kPointer) return v.as<void*>() ? "pointer" : "null";
  return v.try_as<std::string>().value_or("?");
}
void define_show() {
  define("show", [](Arguments a) {
    std::string line;
    for (const Any& v : a) line += (line.empty() ? "" : ", ") + shown(v);
    seen().push_back(line);
    return Any(int64_t(seen().size()));
  });
}

/// What `show` was given, the same from the interpreter, LLVM at two levels and C.
std::vector<std::string> shown_alike(const std::string& text, const std::vector<NDArray>& inputs) {
  define_show();
  const IRModule module = parse_module(text);
  EXPECT_TRUE(structural_equal(parse_module(print(module)), module)) << print(module);
  seen().clear();
  const std::vector<NDArray> want = interpreted(module, inputs);
  const std::vector<std::string> lines = seen();
  for (const auto& [target, level] : {std::pair("llvm", 2), {"llvm", 0}, {"c", 2}}) {
    seen().clear();
    expect_same_bits(want, compiled_run(module, inputs, target, level), target);
    EXPECT_EQ(seen(), lines) << target << level;
  }
  return lines;
}
using Lines = std::vector<std::string>;

TEST(PackedCalls, TakeEveryKindOfArgument) {
  const std::string text = program(kVectors, kCopy + R"(
    T.call_packed("test.packed.show", T.tensor_view(A, "r"), A[2] + 1, T.int64(-7), T.uint8(200), T.float32(1.5), T.float16(0.25), T.bool(True), "a \"text\"\n?", B.data)
)");
  EXPECT_EQ(shown_alike(text, {ints({1, 2, 3, 4, 5, 6})}),
            (Lines{"int32[1 2 3 4 5 6], 4, -7, 200, f1.500, f0.250, true, a \"text\"\n?, pointer"}));
}

TEST(PackedCalls, SeePartsOfTensors) {
  const std::string text = program(R"(A: T.Buffer((4, 6), "int32"), B: T.Buffer((2,), "int32"))", R"(
    for i in range(2):
        B[i] = i
    for i in range(2):
        T.call_packed("test.packed.show", T.tensor_view(A[i + 1, 0:6], "r"), T.tensor_view(A[0:4, i:i + 2], "r"), T.tensor_view(A[2, 3:3], "r"))
)");
  std::vector<int64_t> a;
  for (int64_t i = 0; i < 24; ++i) a.push_back(i);
  NDArray x = ints(a).reshape({4, 6});
  EXPECT_EQ(shown_alike(text, {x}), (Lines{"int32[6 7 8 9 10 11], int32[0 1 6 7 12 13 18 19], int32[]",
                                           "int32[12 13 14 15 16 17], int32[1 2 7 8 13 14 19 20], int32[]"}));
}

TEST(PackedCalls, WriteWhereTheyMay) {
  define("double", [](Arguments a) {
    const NDArray from = a[0].as<NDArray>(), to = a[1].as<NDArray>();
    EXPECT_TRUE(is_read_only(from));
    EXPECT_FALSE(is_read_only(to));
    for (int64_t i = 0; i < to.size(); ++i) to.set_element_int(i, 2 * from.element_int(i));
    return Any();
  });
  const std::string text = program(R"(A: T.Buffer((3, 4), "int32"), B: T.Buffer((3, 4), "int32"))", R"(
    S = T.alloc_buffer((3, 4), "int32")
    for i, j in T.grid(3, 4):
        B[i, j] = A[i, j]
    T.call_packed("test.packed.double", T.tensor_view(A, "r"), S)
    T.call_packed("test.packed.double", T.tensor_view(S[0:3, 1], "r"), B[0:3, 2])
    T.call_packed("test.packed.double", T.tensor_view(S[2, 0:4], "r"), B[0, 0:4])
)");
  std::vector<int64_t> a;
  for (int64_t i = 0; i < 12; ++i) a.push_back(i);
  EXPECT_EQ(values(run_alike(text, {ints(a).reshape({3, 4})}).at(0)),
            (Ints{32, 36, 40, 44, 4, 5, 20, 7, 8, 9, 36, 11}));
}

TEST(PackedCalls, GiveNumbers) {
  define("sum", [](Arguments a) {
    double total = 0;
    for (const Any& v : a) total += v.as<double>();
    return Any(total);
  });
  define("count", [](Arguments a) { return Any(int64_t(a.size()) + (int64_t(1) << 33)); });
  define("holds", [](Arguments a) { return Any(a[0].as<int64_t>() > 2); });
  define("tensor", [](Arguments) { return Any(NDArray::scalar(7, f64)); });
  const std::string text = program(R"(A: T.Buffer((4,), "float32"), B: T.Buffer((4,), "float32"))", R"(
    s = T.call_packed("test.packed.sum", A[0], A[1], T.int32(3), dtype="float32")
    n = T.call_packed("test.packed.count", 1, 2, dtype="int64")
    small = T.call_packed("test.packed.count", 1, 2)
    B[0] = s * s
    B[1] = T.Cast("float32", n // T.int64(1073741824)) + T.Cast("float32", small)
    B[2] = T.call_packed("test.packed.tensor", dtype="float32")
    B[3] = 0
    for i in range(5):
        if T.call_packed("test.packed.holds", i, dtype="bool"):
            B[3] = B[3] + T.Cast("float32", i)
)");
  NDArray a = NDArray::empty({4}, f32);
  for (int64_t i = 0; i < 4; ++i) a.set_element(i, double(i) + 0.5);
  const NDArray b = run_alike(text, {a}).at(0);
  EXPECT_EQ(b.element(0), 25);
  EXPECT_EQ(b.element(1), 10);
  EXPECT_EQ(b.element(2), 7);
  EXPECT_EQ(b.element(3), 7);
}

TEST(PackedCalls, KeepTheirOrderAndNumber) {
  // Results that nobody reads, equal calls, calls in loops that could go, stores around them.
  const std::string text = program(kVectors, kCopy + R"(
    x = T.call_packed("test.packed.show", 1)
    y = T.call_packed("test.packed.show", 1)
    for i in range(3):
        T.call_packed("test.packed.show", T.tensor_view(B, "r"))
        B[0] = B[0] + 1
    for i in range(2):
        for j in T.vectorized(4):
            T.call_packed("test.packed.show", i * 10 + j)
    for i in T.unroll(2):
        z = T.call_packed("test.packed.show", 5)
        B[1 + i] = z
    for i in T.parallel(3):
        T.call_packed("test.packed.show", i + 7)
    if A[0] > 100:
        T.call_packed("test.packed.show", "never")
)");
  EXPECT_EQ(shown_alike(text, {ints({1, 2, 3, 4, 5, 6})}),
            (Lines{"1", "1", "int32[1 2 3 4 5 6]", "int32[2 2 3 4 5 6]", "int32[3 2 3 4 5 6]", "0", "1", "2",
                   "3", "10", "11", "12", "13", "5", "5", "7", "8", "9"}));
}

TEST(PackedCalls, SchedulesKeepTheirOrder) {
  const std::string text = program(R"(A: T.Buffer((6,), "int32"), B: T.Buffer((6,), "int32"))", R"(
    for i in range(6):
        with T.block("copy"):
            vi = T.axis.spatial(6, i)
            B[vi] = A[vi]
    for i, j in T.grid(2, 3):
        with T.block("call"):
            vi, vj = T.axis.remap("SS", [i, j])
            T.reads()
            T.writes()
            T.call_packed("test.packed.show", vi * 10 + vj)
)");
  const IRModule module = parse_module(text);
  const auto f = module.find("main").cast<tir::PrimFuncNode>();
  const auto refused = [&](auto step) {
    Schedule s(f, 1);
    const auto loops = s.get_loops(s.get_block("call"));
    try {
      step(s, loops);
    } catch (const ScheduleError& e) {
      EXPECT_TRUE(structural_equal(s.function(), Schedule(f, 1).function()));
      return e.code;
    }
    return std::string("accepted");
  };
  using Loops = std::vector<LoopRV>;
  EXPECT_EQ(refused([](Schedule& s, const Loops& l) { s.reorder({l[1], l[0]}); }), "T0725");
  EXPECT_EQ(refused([](Schedule& s, const Loops& l) { s.parallel(l[0]); }), "T0725");
  EXPECT_EQ(refused([](Schedule& s, const Loops& l) { s.vectorize(l[1]); }), "T0725");
  Schedule s(f, 1);
  const auto loops = s.get_loops(s.get_block("call"));
  const LoopRV both = s.fuse({loops[0], loops[1]});
  const auto parts = s.split(both, {-1, 4});
  s.unroll(parts[1]);
  s.parallel(s.get_loops(s.get_block("copy"))[0]);  // of another block
  IRModule scheduled = IRModule::create();
  scheduled.set("main", s.function());
  define_show();
  seen().clear();
  compiled_run(scheduled, {ints({1, 2, 3, 4, 5, 6})}, "llvm", 2);
  EXPECT_EQ(seen(), (Lines{"0", "1", "2", "10", "11", "12"}));
}

TEST(PackedCalls, OfTypesThatAreWidened) {
  for (const char* type : {"float16", "bfloat16", "float8_e4m3fn", "bool"}) {
    const std::string t = type;
    const std::string text =
        program("A: T.Buffer((2,), \"" + t + "\"), B: T.Buffer((2,), \"" + t + "\")",
                "    for i in range(2):\n        B[i] = A[i]\n"
                "    T.call_packed(\"test.packed.show\", T.tensor_view(B, \"r\"), B[0])\n");
    DataType dtype;
    ASSERT_TRUE(parse_dtype(t, &dtype));
    NDArray a = NDArray::empty({2}, dtype);
    a.set_element(0, 1);
    a.set_element(1, 0);
    EXPECT_EQ(shown_alike(text, {a}), (Lines{t + "[1 0], " + (t == "bool" ? "true" : "f1.000")}));
  }
}

TEST(PackedCalls, OfCalledProgramsAndModels) {
  define_show();
  const std::string text = R"(
@I.ir_module
class Module:
    @T.prim_func(private=True)
    def inner(a: T.handle, k: T.int32):
        A = T.match_buffer(a, (4,), "int32")
        T.call_packed("test.packed.show", A, k)
    @T.prim_func(private=True)
    def logged(A: T.Buffer((4,), "int32"), B: T.Buffer((4,), "int32")):
        for i in range(4):
            B[i] = A[i] * 2
        T.evaluate(T.call_prim_func("void", "inner", B.data, 3))
    @R.function
    def main(x: R.Tensor((4,), "int32")):
        a = R.call_tir(Module.logged, (x,), out_sinfo=R.Tensor((4,), "int32"))
        b = R.call_tir(Module.logged, (x,), out_sinfo=R.Tensor((4,), "int32"))
        c = R.call_tir(Module.logged, (R.const([1, 1, 1, 1], "int32"),), out_sinfo=R.Tensor((4,), "int32"))
        return R.add(a, x)
)";
  for (const char* target : {"llvm", "c"})
    for (const int level : {0, 3}) {
      CompileOptions options;
      options.target = target;
      options.opt_level = level;
      options.code = CodeForm::objects;
      const Compiled compiled = compile(parse_module(text), options);
      seen().clear();
      Session session(jit_artifact(compiled));
      for (int run = 1; run <= 4; ++run) {  // the later ones are recorded
        EXPECT_EQ(values(session.invoke({ints({1, 2, 3, 4})}).at(0)), (Ints{3, 6, 9, 12}));
        EXPECT_EQ(seen().size(), size_t(3 * run));
      }
      const std::string both = "int32[2 4 6 8], 3";
      EXPECT_EQ(Lines(seen().begin(), seen().begin() + 3), (Lines{both, both, "int32[2 2 2 2], 3"}))
          << target;
    }
}

TEST(PackedCalls, FromAnArtifact) {
  define_show();
  const TemporaryFolder folder("a test");
  const std::string file = (folder.path / "model.so").string();
  const std::string text =
      program(kVectors, kCopy + "    T.call_packed(\"test.packed.later\", T.tensor_view(A, \"r\"))\n");
  for (const char* target : {"llvm", "c"}) {
    CompileOptions options;
    options.target = target;
    options.code = CodeForm::objects;
    write_emitted("artifact", file, compile(with_entry(parse_module(text)), options));
    registry::remove("test.packed.later");
    try {
      Artifact::load(file);
      FAIL();
    } catch (const Error& e) {
      EXPECT_EQ(e.code, "T0609");
      EXPECT_NE(std::string(e.what()).find("`test.packed.later`"), std::string::npos) << e.what();
      EXPECT_NE(e.location.find("kernel `main_program`"), std::string::npos) << e.location;
    }
    define("later", [](Arguments a) {
      seen().push_back(shown(a[0]));
      return Any();
    });
    seen().clear();
    Session session(Artifact::load(file));
    session.invoke({ints({1, 2, 3, 4, 5, 6})});
    EXPECT_EQ(seen(), Lines{"int32[1 2 3 4 5 6]"});
  }
}

TEST(PackedCalls, FailuresAreErrorsOfTheRun) {
  define("fails", [](Arguments a) -> Any {
    if (a[0].as<int64_t>() == 13) throw Error(ErrorKind::model, "T0523", "thirteen");
    if (a[0].as<int64_t>() == 14) throw std::runtime_error("fourteen");
    if (a[0].as<int64_t>() == 15) throw 15;
    if (a[0].as<int64_t>() == 16) return Any("sixteen");
    return Any(1);
  });
  const std::string text =
      program(kVectors, kCopy + "    B[0] = T.call_packed(\"test.packed.fails\", A[0])\n");
  for (const char* target : {"llvm", "c"}) {
    CompileOptions options;
    options.target = target;
    options.code = CodeForm::objects;
    Session session(jit_artifact(compile(with_entry(parse_module(text)), options)));
    for (const auto& [value, words] : {std::pair<int64_t, std::string>(13, "thirteen [T0523]"),
                                       {14, "fourteen"},
                                       {15, "no error"},
                                       {16, "String"}}) {
      try {
        session.invoke({ints({value, 0, 0, 0, 0, 0})});
        FAIL() << value;
      } catch (const Error& e) {
        EXPECT_EQ(e.code, "T0525");
        EXPECT_EQ(e.location, "kernel `main_program`");
        EXPECT_NE(e.message.find("`test.packed.fails`"), std::string::npos) << e.message;
        EXPECT_NE(e.message.find(words), std::string::npos) << e.message;
      }
      EXPECT_EQ(session.invoke({ints({1, 2, 3, 4, 5, 6})}).at(0).element_int(0), 1);
    }
  }
  try {
    interpreted(parse_module(text), {ints({13, 0, 0, 0, 0, 0})});
    FAIL();
  } catch (const Error& e) {
    EXPECT_EQ(e.code, "T0525");
  }
}

TEST(PackedCalls, WhatAFunctionKeepsIsItsOwn) {
  static NDArray kept;
  define("keeps", [](Arguments a) {
    kept = a[0].as<NDArray>();
    return Any();
  });
  const std::string text = program(kVectors, R"(
    S = T.alloc_buffer((6,), "int32")
    for i in range(6):
        S[i] = A[i]
        B[i] = A[i]
    T.call_packed("test.packed.keeps", T.tensor_view(S, "r"))
    for i in range(6):
        S[i] = 0
    T.call_packed("test.packed.show", T.tensor_view(S, "r"))
)");
  const IRModule module = parse_module(text);
  define_show();
  {
    compiled_run(module, {ints({1, 2, 3, 4, 5, 6})}, "llvm", 2);
  }
  EXPECT_EQ(values(kept), (Ints{1, 2, 3, 4, 5, 6}));
  kept = NDArray();
}

TEST(PackedCalls, WhatCannotBeIsRefused) {
  const auto one = [&](const std::string& body, const std::string& params = kVectors) {
    try {
      return refusal(program(params, kCopy + "    " + body + "\n"));
    } catch (const Error& e) {
      return e.code + " " + e.location + " " + e.what();
    }
  };
  EXPECT_TRUE(one("T.call_packed(\"f\", A)").starts_with("T0928")) << one("T.call_packed(\"f\", A)");
  EXPECT_NE(one("B[0] = T.call_packed(\"f\") + 1").find("inside of an expression"), std::string::npos);
  EXPECT_NE(one("T.call_packed(\"\")").find("T0"), std::string::npos);
  EXPECT_TRUE(one("B[0] = T.call_packed(\"f\", dtype=\"handle\")").starts_with("T0"));
  EXPECT_TRUE(one("T.call_packed(\"f\", T.tensor_view(A[0:9], \"r\"))").starts_with("T0337"))
      << one("T.call_packed(\"f\", T.tensor_view(A[0:9], \"r\"))");
}

// ---------------------------------------------------------------- C functions
extern "C" __attribute__((visibility("default"), used)) int32_t tenon_test_scaled(const float* a, float* b,
                                                                                  int64_t n, float k,
                                                                                  double plus) {
  for (int64_t i = 0; i < n; ++i) b[i] = a[i] * k + float(plus);
  return int32_t(n);
}

TEST(ExternalCalls, OfAnyFunctionOfTheProcess) {
  const std::string text = program(R"(A: T.Buffer((6,), "float32"), B: T.Buffer((6,), "float32"))", R"(
    for i in range(6):
        B[i] = 0
    n = T.call_extern("int32", "tenon_test_scaled", A.access_ptr("r", offset=1, extent=4), B.access_ptr("rw", offset=2, extent=4), T.int64(4), T.float32(3), T.float64(0.5))
    B[0] = T.Cast("float32", n)
    B[1] = T.Cast("float32", T.call_extern("int32", "abs", -5))
)");
  const NDArray a = random_array({6});
  const NDArray b = run_alike(text, {a}).at(0);
  EXPECT_EQ(b.element(0), 4);
  EXPECT_EQ(b.element(1), 5);
  for (int64_t i = 0; i < 4; ++i) EXPECT_NEAR(b.element(2 + i), a.element(1 + i) * 3 + 0.5, 1e-5);
}

TEST(ExternalCalls, ThatAreNotThere) {
  const std::string text = program(
      kVectors,
      kCopy + "    T.evaluate(T.call_extern(\"int32\", \"no_such_function\", A.access_ptr(\"r\")))\n");
  const TemporaryFolder folder("a test");
  const std::string file = (folder.path / "model.so").string();
  for (const char* target : {"llvm", "c"}) {
    CompileOptions options;
    options.target = target;
    options.code = CodeForm::objects;
    const Compiled compiled = compile(with_entry(parse_module(text)), options);
    write_emitted("artifact", file, compiled);
    for (const bool from_file : {false, true}) {
      try {
        from_file ? Artifact::load(file) : jit_artifact(compiled);
        FAIL();
      } catch (const Error& e) {
        EXPECT_EQ(e.code, "T0625") << e.what();
        EXPECT_NE(e.message.find("`no_such_function`"), std::string::npos);
        EXPECT_EQ(e.location, "kernel `main_program`");
      }
    }
  }
  EXPECT_NE(refusal(program(kVectors, kCopy + "    T.evaluate(T.call_extern(\"int32\", \"no name\"))\n"))
                .find("no name of C"),
            std::string::npos);
}

}  // namespace
}  // namespace tenon::testing_programs
