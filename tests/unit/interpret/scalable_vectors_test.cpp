// SPDX-License-Identifier: Apache-2.0
// Vectors whose length the machine chooses: read, printed, verified, interpreted for several lengths.
#include "ir/scalable.h"
#include "ir/walk.h"
#include "support.h"

namespace tenon::interpret_test {
namespace {

// y = 2 x + 1 where x > 0, whatever the size: the last vector is masked.
const char* kMasked = R"(
@I.ir_module
class Module:
    @T.prim_func
    def f(X: T.Buffer((n,), "float32"), Y: T.Buffer((n,), "float32")):
        for i in range((n + T.vscale() * 4 - 1) // (T.vscale() * 4)):
            at: T.int64xvscalex4 = T.Ramp(i * (T.vscale() * 4), 1, T.vscale() * 4)
            on: T.boolxvscalex4 = at < T.Broadcast(n, T.vscale() * 4)
            x: T.float32xvscalex4 = X.vload([at], predicate=on)
            y: T.float32xvscalex4 = T.Select(x > T.Broadcast(T.float32(0), T.vscale() * 4), x * T.Broadcast(T.float32(2), T.vscale() * 4) + 1.0, x)
            Y.vstore([at], y, predicate=on)
)";

void expect_masked(const NDArray& x, const NDArray& y) {
  for (int64_t i = 0; i < x.size(); ++i)
    EXPECT_EQ(y.element(i), x.element(i) > 0 ? 2 * x.element(i) + 1 : x.element(i)) << i;
}

TEST(ScalableVectors, AreReadPrintedAndCompared) {
  const IRModule m = read(kMasked);
  const std::string text = print(m);
  for (const char* part :
       {"T.float32xvscalex4 = X.vload([at], predicate=on)", "T.vscale() * 4", "T.boolxvscalex4"})
    EXPECT_NE(text.find(part), std::string::npos) << part << "\n" << text;
  EXPECT_EQ(first_difference(m, from_json(to_json(m))), "");
  EXPECT_TRUE(tir::uses_vscale(function(m)));
  DataType t;
  ASSERT_TRUE(parse_dtype("int8xvscalex16", &t));
  EXPECT_TRUE(tir::is_scalable(t));
  EXPECT_TRUE(t.is_vector());
  EXPECT_EQ(to_string(t), "int8xvscalex16");
  ASSERT_TRUE(parse_dtype("bfloat16xvscalex1", &t));
  EXPECT_EQ(to_string(t), "bfloat16xvscalex1");
  EXPECT_EQ(to_string(t.element()), "bfloat16");
  for (const char* bad : {"float32xvscalex0", "float32xvscalex", "float32xvscale4", "float32xvscalex-4",
                          "float32xvscalex4000", "float32x32768"})
    EXPECT_FALSE(parse_dtype(bad, &t)) << bad;
  EXPECT_TRUE(parse_dtype("float32x32767", &t));
}

TEST(ScalableVectors, MeanTheSameForEveryVscale) {
  const IRModule m = read(kMasked);
  for (int64_t vscale : {1, 2, 3, 4, 16})
    for (int64_t n : {0, 1, 7, 8, 33}) {
      NDArray x = numbers({n}, f32, -5), y = NDArray::zeros({n}, f32);
      InterpretOptions options;
      options.vscale = vscale;
      interpret_prim_func(function(m), {x, y}, m, options);
      expect_masked(x, y);
    }
}

TEST(ScalableVectors, SumsOfLanesInAFunctionCalled) {
  const IRModule m = read(R"(
@I.ir_module
class Module:
    @T.prim_func
    def sum(X: T.Buffer((48,), "int32"), S: T.Buffer((1,), "int32")):
        S[0] = T.int32(0)
        for i in range(48 // (T.vscale() * 4)):
            S[0] = S[0] + T.vector_reduce_add(X[T.Ramp(i * (T.vscale() * 4), 1, T.vscale() * 4)])
    @T.prim_func
    def f(X: T.Buffer((48,), "int32"), S: T.Buffer((1,), "int32"), L: T.Buffer((1,), "int64")):
        T.evaluate(T.call_prim_func("void", "sum", X.data, S.data))
        L[0] = T.vscale()
)");
  for (int64_t vscale : {1, 2, 4}) {
    NDArray x = numbers({48}, i32, 1), s = NDArray::zeros({1}, i32), l = NDArray::zeros({1}, i64);
    InterpretOptions options;
    options.vscale = vscale;
    interpret_prim_func(function(m), {x, s, l}, m, options);
    EXPECT_EQ(s.element_int(0), 48 * 49 / 2);
    EXPECT_EQ(l.element_int(0), vscale);
  }
}

TEST(ScalableVectors, BecomeFixedOnes) {
  const IRModule m = read(kMasked);
  const tir::PrimFunc fixed = tir::fix_vscale(function(m), 4);
  EXPECT_FALSE(tir::uses_vscale(fixed));
  bool sixteen = false;
  post_order(fixed, [&](const ObjectRef& n) {
    const auto* l = n.as<tir::BufferLoad>();
    sixteen = sixteen || (l && l->dtype == f32.with_lanes(16));
  });
  EXPECT_TRUE(sixteen) << print(fixed);
  DiagnosticList problems;
  verify_prim_func("f", fixed, problems);
  EXPECT_TRUE(problems.empty()) << render(problems.all().at(0));
  try {
    tir::fix_vscale(function(m), 10000);
    ADD_FAILURE() << "40,000 lanes were accepted";
  } catch (const DiagnosticError& e) {
    EXPECT_EQ(e.diagnostics.at(0).code, "T0318");
  }
}

TEST(ScalableVectors, Mistakes) {
  auto in = [](const std::string& body) {
    return problem("@T.prim_func\ndef f(A: T.Buffer((64,), \"float32\"), n: T.int64):\n    " + body + "\n");
  };
  EXPECT_EQ(in("A[T.Ramp(0, 1, T.vscale() * 4)] = T.Broadcast(T.float32(1), T.vscale() * 4)"), "");
  EXPECT_EQ(in("A[T.Ramp(0, 1, 4 * T.vscale())] = A[T.Ramp(4, 1, T.vscale() * 4)]"), "");
  EXPECT_EQ(in("A[T.Ramp(0, 1, T.vscale() * n)] = T.float32(1)"), "T0224");
  EXPECT_EQ(in("A[T.Ramp(0, 1, T.vscale() * 0)] = T.float32(1)"), "T0224");
  EXPECT_EQ(in("A[T.Ramp(0, 1, T.vscale() * 5000)] = T.float32(1)"), "T0224");
  EXPECT_EQ(in("A[T.Ramp(0, 1, T.vscale() + 4)] = T.float32(1)"), "T0224");
  EXPECT_EQ(in("A[T.Ramp(0, 1, T.vscale() * 4)] = T.Broadcast(T.float32(1), 4)"), "T0230");
  EXPECT_EQ(in("A[T.Ramp(0, 1, T.vscale() * 4)] = T.Broadcast(T.float32(1), T.vscale() * 8)"), "T0230");
  EXPECT_EQ(in("T.evaluate(T.Shuffle([T.Broadcast(T.float32(1), T.vscale() * 4)], [0]))"), "T0224");
  EXPECT_EQ(
      in("B = T.allocate((8,), \"float32xvscalex4\")\n    B[0] = T.Broadcast(T.float32(1), T.vscale() * 4)"),
      "T0307");
  EXPECT_EQ(in("T.evaluate(T.vscale(3))"), "T0223");
  EXPECT_EQ(in("T.evaluate(T.call(\"tir.vscale\", dtype=\"float32\"))"), "T0314");
}

}  // namespace
}  // namespace tenon::interpret_test
