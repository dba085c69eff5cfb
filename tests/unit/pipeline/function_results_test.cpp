// SPDX-License-Identifier: Apache-2.0
// Models that give functions: callers of the module call them, as often as they like and after the run.
#include "data_types.h"
#include "ir/text.h"
#include "pipeline/emit.h"
#include "runtime/module.h"
#include "support.h"

namespace tenon::graph::testing_graph {
namespace {

NDArray vector(const std::vector<float>& v) {
  return NDArray::from_bytes({int64_t(v.size())}, f32, v.data(), v.size() * sizeof(float));
}
std::vector<double> values(const Any& a) {
  const NDArray t = a.as<NDArray>();
  std::vector<double> out;
  for (int64_t i = 0; i < t.size(); ++i) out.push_back(t.element(i));
  return out;
}
Module module_of(const std::string& functions) {
  CompileOptions options;
  options.code = CodeForm::objects;
  return Module(jit_artifact(compile(parse_module("@I.ir_module\nclass Module:\n" + functions), options)));
}
std::string refusal_of(const std::function<void()>& f) {
  try {
    f();
  } catch (const Error& e) {
    return e.code;
  }
  return "";
}
using Values = std::vector<double>;

TEST(FunctionResults, AreCalled) {
  const Module m = module_of(R"(
    @R.function
    def main(x: R.Tensor((2,), "float32"), k: R.Tensor((), "float32")):
        y = R.multiply(x, k)
        @R.function
        def f(v: R.Tensor((n,), "float32"), w: R.Tensor((2,), "float32")) -> R.Tensor((2,), "float32"):
            n = T.int64()
            return R.add(R.add(y, w), R.sum(v))
        return (f, y)
)");
  const tenon::Function main = m.function("main");
  NDArray k = NDArray::scalar(2, f32);
  const Any first = main(vector({1, 2}), k), second = main(vector({10, 20}), k);
  const tenon::Function f = first.as<Ref<ArrayObj>>()->items.at(0).as<tenon::Function>(),
                        g = second.as<Ref<ArrayObj>>()->items.at(0).as<tenon::Function>();
  EXPECT_EQ(values(first.as<Ref<ArrayObj>>()->items.at(1)), (Values{2, 4}));
  // Each holds what its run computed, whatever ran later.
  for (int i = 0; i < 3; ++i) {
    EXPECT_EQ(values(f(vector({1, 1, 1}), vector({0, 1}))), (Values{5, 8}));
    EXPECT_EQ(values(g(vector({}), vector({0, 1}))), (Values{20, 41}));
  }
  // Arguments are checked.
  EXPECT_EQ(refusal_of([&] { f(vector({1}), vector({1, 2, 3})); }), "T0505");
  EXPECT_EQ(refusal_of([&] { f(vector({1})); }), "T0502");
  EXPECT_EQ(refusal_of([&] { f(vector({1}), Any("text")); }), "T0506");
  EXPECT_EQ(values(f(vector({1}), vector({0, 0}))), (Values{3, 5}));
}

TEST(FunctionResults, GiveFunctions) {
  const Module m = module_of(R"(
    @R.function
    def twice(x: R.Tensor((2,), "float32")):
        return R.add(x, x)
    @R.function
    def main(x: R.Tensor((2,), "float32")):
        @R.function
        def outer(a: R.Tensor((2,), "float32")) -> R.Callable((R.Tensor((2,), "float32"),), R.Tensor((2,), "float32")):
            @R.function
            def inner(b: R.Tensor((2,), "float32")) -> R.Tensor((2,), "float32"):
                return R.add(R.multiply(a, b), x)
            return inner
        return outer
)");
  const tenon::Function outer = m.function("main")(vector({1, 1})).as<tenon::Function>();
  const tenon::Function inner = outer(vector({2, 3})).as<tenon::Function>();
  EXPECT_EQ(values(inner(vector({10, 10}))), (Values{21, 31}));
}

TEST(FunctionResults, AreNoTensors) {
  CompileOptions options;
  options.code = CodeForm::objects;
  Session session(jit_artifact(compile(parse_module(R"(
@I.ir_module
class Module:
    @R.function
    def main(x: R.Tensor((2,), "float32")):
        @R.function
        def f(v: R.Tensor((2,), "float32")) -> R.Tensor((2,), "float32"):
            return R.add(v, x)
        return f
)"),
                                       options)));
  EXPECT_EQ(refusal_of([&] { session.invoke({vector({1, 2})}); }), "T0518");
}

}  // namespace
}  // namespace tenon::graph::testing_graph
