// SPDX-License-Identifier: Apache-2.0
// Vectors whose length the machine chooses, compiled for machines of 128 and 256 bits and for this one.
#include "pipeline/runner.h"
#include "support.h"

namespace tenon::interpret_test {
namespace {

// The pipeline gives them the target's length; the results are those of the interpreter, on every one that
// runs here.
TEST(ScalableVectors, AreCompiledAsVectorsOfTheTarget) {
  const IRModule m = read(R"(
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
    @R.function
    def main(x: R.Tensor((n,), "float32")) -> R.Tensor((n,), "float32"):
        y = R.call_tir(cls.f, (x,), out_sinfo=R.Tensor((n,), "float32"))
        return y
)");
  for (const char* target : {"llvm -mcpu=x86-64-v2", "llvm -mcpu=x86-64-v3", ""}) {
    CompileOptions options;
    if (*target) options.target = target;
    Runner runner(m, options);
    for (int64_t n : {1, 8, 37}) {
      const NDArray x = numbers({n}, f32, -5);
      const NDArray y = runner.run({x}).at(0);
      for (int64_t i = 0; i < n; ++i)
        EXPECT_EQ(y.element(i), x.element(i) > 0 ? 2 * x.element(i) + 1 : x.element(i)) << target << " " << i;
    }
  }
}

}  // namespace
}  // namespace tenon::interpret_test
