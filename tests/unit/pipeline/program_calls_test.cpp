// SPDX-License-Identifier: Apache-2.0
// What programs call and promise: pointers to parts of buffers, intrinsics of LLVM by name, assumptions,
// fixed-point products.
#include <cmath>

#include "alike.h"

namespace tenon::testing_programs {
namespace {

using graph::testing_graph::random_array;
using Ints = std::vector<int64_t>;

std::string program(const std::string& params, const std::string& body, const std::string& attrs = {}) {
  return "@T.prim_func\ndef main(" + params + "):\n" +
         (attrs.empty() ? "" : "    T.func_attr({" + attrs + "})\n") + body;
}
void expect_starts(const std::string& got, const std::string& code, const std::string& words) {
  EXPECT_TRUE(got.starts_with(code) && got.find(words) != got.npos) << got;
}

const std::string kAdd =
    R"("import_c": "int add(const float* a, const float* b, float* c, long n) { for (long i = 0; i < n; ++i) c[i] = a[i] + b[i]; return 0; }")";

TEST(AccessPointers, ReachPartsOfBuffers) {
  const IRModule module =
      parse_module(program(R"(A: T.Buffer((4, 6), "float32"), B: T.Buffer((12,), "float32"))",
                           R"(
    for i in range(12):
        B[i] = 0
    S = T.allocate((2, 6), "float32")
    for i, j in T.grid(2, 6):
        S[i, j] = A[i + 2, j] * T.float32(10)
    T.evaluate(T.call_extern("int32", "add", A.access_ptr("r", offset=6, extent=6), S.access_ptr("r", offset=6), B.access_ptr("rw", offset=3, extent=6), T.int64(6)))
)",
                           kAdd));
  NDArray a = NDArray::empty({4, 6}, f32);
  for (int64_t i = 0; i < 24; ++i) a.set_element(i, double(i));
  for (const char* target : {"llvm", "c"})
    for (int level : {0, 2}) {
      const NDArray b = compiled_run(module, {a}, target, level).at(0);
      for (int64_t i = 0; i < 12; ++i)
        EXPECT_EQ(b.element(i), i < 3 || i > 8 ? 0 : double(6 + i - 3) + 10 * double(18 + i - 3))
            << target << i;
    }
}

// An index is read to check another one: the check is of the line that makes the access.
TEST(Accesses, IndicesInsideOfIndicesHaveALine) {
  const std::string said = refusal(R"(@T.prim_func
def main(A: T.Buffer((2, 1), "int64"), I: T.Buffer((2,), "int32"), B: T.Buffer((7,), "int64")):
    for i in T.parallel(1):
        with T.block("b"):
            v = T.axis.spatial(4, T.max(T.min(2, 4 - 1), 0))
            B[3 - v] = A[0, T.Cast("int64", I[v - i] + I[0])]
)");
  expect_starts(said, "T0337", "index 0 of buffer `I`");
  EXPECT_NE(said.find(":6:"), said.npos) << said;
}

// The last iteration comes to the access and is outside; conditions on sizes need not hold.
TEST(Accesses, CertainlyOutsideUnderAConditionOnLoops) {
  const auto said = [](const std::string& condition) {
    return refusal(R"(@T.prim_func
def main(A: T.Buffer((100,), "float32"), B: T.Buffer((100,), "float32")):
    for i in range(5):
        B[i] = A[i]
        if )" + condition +
                   R"(:
            B[i * 33] = T.float32(1)
)");
  };
  expect_starts(said("i > 2"), "T0337", "index 0 of buffer `B`");
  EXPECT_EQ(said("i < 4"), "runs");
  EXPECT_EQ(said("i > 2 and A[0] < T.float32(0)"), "runs");
}

// What is only a result holds nothing before it is stored to.
TEST(Accesses, ResultsThatAreReadFirst) {
  const auto said = [](const std::string& body) {
    return refusal(
        "@T.prim_func\ndef main(A: T.Buffer((4,), \"float32\"), B: T.Buffer((4,), \"float32\")):\n" + body);
  };
  expect_starts(said("    for i in range(4):\n        B[i] = B[i] + A[i]\n"), "T0928",
                "reads the tensor `B`, its result");
  EXPECT_EQ(said("    for i in range(4):\n        B[i] = A[i]\n    for i in range(4):\n        B[i] = B[i] + "
                 "A[i]\n"),
            "runs");
  EXPECT_EQ(said(R"(    for i, k in T.grid(4, 4):
        with T.block("sum"):
            v, r = T.axis.remap("SR", [i, k])
            with T.init():
                B[v] = T.float32(0)
            B[v] = B[v] + A[r]
)"),
            "runs");
}

TEST(AccessPointers, AreProvedOrChecked) {
  const std::string params =
      R"(A: T.Buffer((8,), "float32"), N: T.Buffer((1,), "int64"), B: T.Buffer((8,), "float32"))";
  const auto call = [&](const std::string& range) {
    return program(
        params,
        "    T.evaluate(T.call_extern(\"int32\", \"add\", A.access_ptr(\"r\"), A.access_ptr(\"r\"), "
        "B.access_ptr(\"w\", " +
            range + "), T.int64(1)))\n",
        kAdd);
  };
  EXPECT_EQ(refusal(call("offset=7, extent=1")), "runs");
  expect_starts(refusal(call("offset=7, extent=2")), "T0337", "`access_ptr` of buffer `B`");
  expect_starts(refusal(call("offset=-1, extent=1")), "T0337", "is not in [0, 8)");
  const std::string checked = call("offset=N[0], extent=2");
  const IRModule module = parse_module(checked);
  const NDArray a = NDArray::zeros({8}, f32);
  EXPECT_NO_THROW(compiled_run(module, {a, ints({6}, i64)}, "llvm", 2));
  try {
    compiled_run(module, {a, ints({7}, i64)}, "llvm", 2);
    FAIL();
  } catch (const Error& e) {
    EXPECT_EQ(e.code, "T0509");
  }
}

TEST(AccessPointers, OfProgramsThatCallProgramsAreInterpreted) {
  const std::string text = R"(
@I.ir_module
class Module:
    @T.prim_func(private=True)
    def twice(a: T.handle, b: T.handle):
        A = T.match_buffer(a, (4,), "int32")
        B = T.match_buffer(b, (4,), "int32")
        for i in range(4):
            B[i] = A[i] * 2
    @T.prim_func
    def main(A: T.Buffer((8,), "int32"), B: T.Buffer((8,), "int32")):
        T.evaluate(T.call_prim_func("void", "twice", A.access_ptr("r", offset=0, extent=4), B.access_ptr("w", offset=4, extent=4)))
        T.evaluate(T.call_prim_func("void", "twice", A.access_ptr("r", offset=4, extent=4), B.access_ptr("w", offset=0, extent=4)))
)";
  EXPECT_EQ(values(run_alike(text, {ints({1, 2, 3, 4, 5, 6, 7, 8})}).at(0)),
            (Ints{10, 12, 14, 16, 2, 4, 6, 8}));
}

TEST(AccessPointers, TextComesBack) {
  const std::string text =
      print(parse_module(program(R"(A: T.Buffer((4, 6), "float32"), B: T.Buffer((12,), "float32"))",
                                 R"(    B[0] = 1
    T.evaluate(T.call_extern("int32", "f", A.access_ptr("rw", offset=6), T.tvm_access_ptr(T.type_annotation("float32"), B.data, 2, 5, 1)))
)")));
  EXPECT_NE(text.find("A.access_ptr(\"rw\", offset=6, extent="), text.npos) << text;
  EXPECT_NE(text.find("B.access_ptr(\"r\", offset=2, extent=5)"), text.npos) << text;
  EXPECT_EQ(print(parse_module(text)), text);
}

TEST(LlvmIntrinsics, ThatMeanOursAreOursEverywhere) {
  const std::string text = program(R"(A: T.Buffer((4,), "float32"), B: T.Buffer((4,), "float32"))", R"(
    for i in range(4):
        B[i] = T.call_llvm_pure_intrin("float32", "llvm.fma.f32", T.uint32(3), A[i], A[i], T.float32(1)) + T.call_llvm_intrin("float32", "llvm.floor.f32", A[i])
)");
  NDArray a = NDArray::empty({4}, f32);
  for (int64_t i = 0; i < 4; ++i) a.set_element(i, 0.5 * double(i) - 0.75);
  const NDArray b = run_alike(text, {a}).at(0);
  for (int64_t i = 0; i < 4; ++i) {
    const double x = 0.5 * double(i) - 0.75;
    EXPECT_EQ(b.element(i), float(x * x + 1 + std::floor(x)));
  }
}

TEST(LlvmIntrinsics, OthersByLlvmAlone) {
  const std::string params = R"(A: T.Buffer((4,), "int32"), B: T.Buffer((4,), "int32"))";
  const std::string text = program(params, R"(
    for i in T.vectorized(4):
        B[i] = 0
    for i in range(4):
        B[i] = T.call_llvm_pure_intrin("int32", "llvm.bitreverse.i32", A[i]) + T.call_llvm_pure_intrin("int32", "llvm.ctlz.i32", A[i], T.bool(False))
)");
  EXPECT_EQ(values(compiled_run(parse_module(text), {ints({1, 2, 4, 0})}, "llvm", 2).at(0)),
            (Ints{INT32_MIN + 31, 0x40000000 + 30, 0x20000000 + 29, 32}));
  expect_starts(refusal(text, "c"), "T0801",
                "C text cannot express the LLVM intrinsic `llvm.bitreverse.i32`");
  const auto one = [&](const std::string& call) {
    return refusal(program(params, "    B[0] = T.call_llvm_pure_intrin(\"int32\", " + call + ")\n"));
  };
  expect_starts(one("\"llvm.no.such\", A[0]"), "T0801", "LLVM has none of this name");
  expect_starts(one("\"llvm.bswap.i32\", A[0], A[1]"), "T0801", "of other types");
  expect_starts(one("\"llvm.bswap.i64\", T.int64(1)"), "T0801", "of other types");
  expect_starts(one("\"llvm.ctlz.i32\", A[0], A[1] == 2"), "T0801", "has to be a number");
  expect_starts(one("\"llvm.aarch64.crc32b\", A[0], A[1]"), "T0801", "none of the arithmetic ones");
  expect_starts(one("\"llvm.x86.sse42.crc32.32.8\", A[0], T.int8(1)"), "T0801",
                "not known what the instruction needs");
  expect_starts(one("\"llvm.trap\""), "T0801", "cannot be called");
  EXPECT_NE(one("\"memcpy\", A[0]").find("LLVM has none of this name"), std::string::npos);
}

const std::string kGather =
    R"(A: T.Buffer((16,), "float32"), I: T.Buffer((4,), "int32"), B: T.Buffer((4,), "float32"))";
const std::string kPromised = R"(
    for i in range(4):
        T.evaluate(T.assume(I[i] >= 0 and I[i] < 16))
        B[i] = A[I[i]]
)";

std::string lowered_text(const std::string& text, const std::string& option = {}) {
  CompileOptions options;
  options.code = CodeForm::none;
  if (!option.empty()) options.pass_options.push_back(option);
  return print(compile(with_entry(parse_module(text)), options).lowered);
}

TEST(Assumptions, AreReliedOn) {
  const std::string without = program(kGather, "    for i in range(4):\n        B[i] = A[I[i]]\n");
  EXPECT_NE(lowered_text(without).find("assert"), std::string::npos);
  EXPECT_EQ(lowered_text(program(kGather, kPromised)).find("assert"), std::string::npos);
  // Not behind what may change what was assumed.
  const std::string changed = program(kGather, R"(
    J = T.allocate((4,), "int32")
    for i in range(4):
        J[i] = I[i]
        T.evaluate(T.assume(J[i] >= 0 and J[i] < 16))
        J[i] = J[i] + 1
        B[i] = A[J[i]]
)");
  EXPECT_NE(lowered_text(changed).find("assert"), std::string::npos);
  // The simplifier: a branch that the assumption decides.
  const std::string branch = program(R"(A: T.Buffer((n,), "float32"), B: T.Buffer((4,), "float32"))", R"(
    T.evaluate(T.assume(n > 3))
    B[0] = 1
    if n > 2:
        B[1] = 2
)");
  EXPECT_EQ(lowered_text(branch).find("if "), std::string::npos) << lowered_text(branch);
}

TEST(Assumptions, AreCheckedWhereAsked) {
  const std::string option = "guard_accesses.check_assumptions=1";
  EXPECT_NE(lowered_text(program(kGather, kPromised), option).find("an assumption does not hold"),
            std::string::npos);
  const IRModule module = with_entry(parse_module(program(kGather, kPromised)));
  CompileOptions options;
  options.pass_options.push_back(option);
  options.code = CodeForm::objects;
  Session session(jit_artifact(compile(module, options)));
  const NDArray a = random_array({16});
  const NDArray good = session.invoke({a, ints({0, 15, 3, 2})}).at(0);
  EXPECT_EQ(good.element(1), a.element(15));
  try {
    session.invoke({a, ints({0, 16, 3, 2})});
    FAIL();
  } catch (const Error& e) {
    EXPECT_EQ(e.code, "T0509");
    EXPECT_NE(std::string(e.what()).find("an assumption does not hold"), std::string::npos) << e.what();
  }
  EXPECT_THROW(interpreted(parse_module(program(kGather, kPromised)), {a, ints({0, 16, 3, 2})}), Error);
  run_alike(program(kGather, kPromised), {a, ints({0, 15, 3, 2})});
}

TEST(Assumptions, ThatAreNeverTrueAreRefused) {
  expect_starts(refusal(program(R"(A: T.Buffer((n,), "float32"), B: T.Buffer((4,), "float32"))", R"(
    B[0] = 1
    T.evaluate(T.assume(n > n + 1))
)")),
                "T0824", ":5:5");
}

/// x · y · 2^(s - q), rounded half up, by wide arithmetic.
int64_t rounded_product(int64_t x, int64_t y, int q, int s) {
  const __int128 product = __int128(x) * y * (__int128(1) << std::max(s, 0));
  const int shift = q + std::max(-s, 0);
  return int32_t((product + (__int128(1) << (shift - 1))) >> shift);
}

TEST(FixedPoint, ProductsAreRounded) {
  const Ints x{0, 1, -1, 7, -7, 1000, -1000, 123456, -123456, 2000000, -2000000, 1 << 20};
  for (const auto& [y, s] :
       {std::pair(1395864371, -2), {1073741824, 0}, {1073741824, 1}, {2147483647, -20}, {1, 5}}) {
    const std::string text = program(R"(A: T.Buffer((12,), "int32"), B: T.Buffer((12,), "int32"))",
                                     "    for i in range(12):\n        B[i] = T.q_multiply_shift(A[i], " +
                                         std::to_string(y) + ", 31, " + std::to_string(s) + ")\n");
    const Ints got = values(run_alike(text, {ints(x)}).at(0));
    for (size_t i = 0; i < x.size(); ++i)
      EXPECT_EQ(got[i], rounded_product(x[i], y, 31, s)) << x[i] << " " << y << " " << s;
  }
}

TEST(FixedPoint, PerAxis) {
  const Ints x{5, -5, 999, -999}, y{1395864371, 1073741824, 2147483647, 1}, left{0, 1, 0, 3},
      right{2, 0, 9, 0};
  const std::string text = program(
      R"(A: T.Buffer((4,), "int32"), Y: T.Buffer((4,), "int32"), L: T.Buffer((4,), "int32"), R: T.Buffer((4,), "int32"), B: T.Buffer((4,), "int32"))",
      R"(
    for i in range(4):
        B[i] = T.q_multiply_shift_per_axis(A[i], Y[i], L[i], R[i], 31, T.bool(True), T.bool(True))
)");
  const Ints got = values(run_alike(text, {ints(x), ints(y), ints(left), ints(right)}).at(0));
  for (size_t i = 0; i < 4; ++i)
    EXPECT_EQ(got[i], rounded_product(x[i] * (int64_t(1) << left[i]), y[i], 31, int(-right[i])));
}

}  // namespace
}  // namespace tenon::testing_programs
