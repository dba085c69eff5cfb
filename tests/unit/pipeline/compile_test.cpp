// SPDX-License-Identifier: Apache-2.0
// From end to end: a module is compiled to machine code in this process, run, and compared with the
// interpreter.
#include <cmath>
#include <cstdio>
#include <cstring>
#include <fstream>
#include <limits>

#include "pipeline/dimensions.h"
#include "pipeline/emit.h"
#include "pipeline/evaluator.h"
#include "pipeline/runner.h"
#include "support.h"
#include "tools/verify_passes.h"

namespace tenon::graph::testing_graph {
namespace {

ObjectRef axis(int64_t a) { return op::make_attrs<op::AxisAttrs>(a); }

void expect_compiled_agrees(const IRModule& m, const std::vector<NDArray>& inputs, double tolerance = 2e-5) {
  const std::vector<NDArray> want = run(m, inputs);
  for (int level : {0, 2}) {
    SCOPED_TRACE("-O" + std::to_string(level));
    CompileOptions options;
    options.opt_level = level;
    options.context.verify = true;
    Runner runner(m, options);
    expect_close(want, runner.run(std::span(inputs.data(), inputs.size())), tolerance);
    expect_close(want, runner.run(std::span(inputs.data(), inputs.size())), tolerance);
  }
}

TEST(Compile, OneOperator) {
  Model m;
  auto x = m.param("x", {4, 37});
  expect_compiled_agrees(m.done(m.op("add", {x, m.weight({37})})), {random_array({4, 37})});
}

TEST(Compile, Matmul) {
  Model m;
  auto x = m.param("x", {33, 45});
  expect_compiled_agrees(
      m.done(m.op("nn.relu", {m.op("add", {m.op("matmul", {x, m.weight({45, 29})}), m.weight({29}, 2)})})),
      {random_array({33, 45})});
}

TEST(Compile, KernelsNamedLikeTheCLibrary) {
  Model m;
  auto x = m.param("x", {7}, f64);
  Expr sum = m.op("sum", {m.op("exp", {x})}, op::make_attrs<op::ReduceAttrs>());
  Expr y = m.op("sin", {m.op("nn.softmax", {m.op("multiply", {m.op("exp", {x}), sum})}, axis(0))});
  Expr z = m.op("cumsum", {m.op("sin", {m.op("cumsum", {y}, op::make_attrs<op::CumsumAttrs>())})},
                op::make_attrs<op::CumsumAttrs>());
  expect_compiled_agrees(m.done(z), {random_array({7}, f64)}, 1e-9);
}

IRModule network() {
  Model m;
  auto x = m.param("x", {1, 3, 14, 14});
  auto conv = [&](Expr y, int64_t out, int64_t in, int64_t stride, uint64_t seed) {
    y = m.op("nn.conv2d", {y, m.weight({out, in, 3, 3}, seed)}, op::make_attrs<op::ConvAttrs>([&](auto& a) {
               a.padding = Array<int64_t>{1};
               a.strides = Array<int64_t>{stride};
             }));
    NDArray variance = NDArray::empty({out}, f32);
    for (int64_t i = 0; i < out; ++i) variance.set_element(i, 0.5 + double(i) / 8);
    return m.op("nn.batch_norm", {y, m.weight({out}, seed + 1), m.weight({out}, seed + 2),
                                  m.weight({out}, seed + 3), constant(variance)});
  };
  Expr a = m.op("nn.relu", {conv(x, 8, 3, 2, 1)});
  Expr b = m.op("nn.relu", {conv(a, 8, 8, 1, 11)});
  Expr c = m.op("nn.relu", {m.op("add", {conv(b, 8, 8, 1, 21), a})});
  Expr d = m.op("nn.max_pool2d", {c}, op::make_attrs<op::PoolAttrs>([](auto& p) {
                  p.pool_size = Array<int64_t>{2, 2};
                  p.strides = Array<int64_t>{2, 2};
                }));
  Expr e = m.op("nn.global_avg_pool", {d});
  Expr f = m.op("reshape", {e, op::shape({1, 8})});
  return m.done(m.op("nn.softmax",
                     {m.op("add", {m.op("nn.dense", {f, m.weight({10, 8})}), m.weight({10}, 5)})}, axis(-1)));
}

TEST(Compile, ResidualNetwork) { expect_compiled_agrees(network(), {random_array({1, 3, 14, 14})}, 1e-4); }

TEST(Compile, ConcatenationInPlace) {
  // A dense block and an inception block; channels come in blocks, and no copy is left.
  Model m;
  auto x = m.param("x", {1, 16, 9, 9});
  auto conv = [&](const Expr& y, int64_t out, int64_t in, int64_t kernel, uint64_t seed) {
    return m.op("nn.conv2d", {y, m.weight({out, in, kernel, kernel}, seed)},
                op::make_attrs<op::ConvAttrs>([&](auto& a) { a.padding = Array<int64_t>{kernel / 2}; }));
  };
  Expr all = m.op("nn.relu", {conv(x, 32, 16, 3, 1)});
  for (uint64_t i = 0; i < 3; ++i) {
    const int64_t channels = static_shape(all->type)->at(1);
    Expr more = conv(m.op("nn.relu", {all}), 16, channels, 3, i + 2);
    all = m.op("concat", {op::tuple({all, more})}, axis(1));
  }
  Expr a = m.op("nn.relu", {conv(all, 32, 80, 1, 7)}), b = m.op("nn.relu", {conv(all, 16, 80, 3, 8)});
  Expr c = m.op("tanh", {conv(all, 16, 80, 1, 9)});
  Expr y = conv(m.op("concat", {op::tuple({a, b, c})}, axis(1)), 16, 64, 3, 10);
  IRModule module = m.done(y);
  // The kernels are the same ones with and without copies, so every bit is.
  const NDArray input = random_array({1, 16, 9, 9});
  CompileOptions copying;
  copying.context.options.set("plan_memory.concat", false);
  Runner separate(module, copying), joined(module, {});
  for (int i = 0; i < 2; ++i) {
    const NDArray want = separate.run(std::span(&input, 1))[0], got = joined.run(std::span(&input, 1))[0];
    ASSERT_EQ(want.shape(), got.shape());
    EXPECT_EQ(std::memcmp(want.data(), got.data(), want.byte_size()), 0);
  }
  const auto concats = [&](const CompileOptions& options) {
    int count = 0;
    for (const Callee& callee : compile(module, options).executable.callees)
      count += callee.name.find("concat") != std::string::npos;
    return count;
  };
  EXPECT_EQ(concats({}), 0);
  EXPECT_EQ(concats(copying), 4);
}

TEST(Compile, SymbolicBatch) {
  auto n = tir::var("n");
  Model m;
  auto x = m.param("x", {PrimExpr(n), PrimExpr(12)});
  Expr y = m.op("nn.softmax", {m.op("nn.dense", {x, m.weight({5, 12})})}, axis(-1));
  IRModule in = m.done(y);
  Runner runner(in);
  for (int64_t size : {1, 3, 17}) {
    std::vector<NDArray> inputs{random_array({size, 12})};
    expect_close(run(in, inputs), runner.run(std::span(inputs.data(), 1)), 2e-5);
  }
}

TEST(Compile, DimensionsByName) {
  auto n = tir::var("batch");
  Model m;
  auto x = m.param("x", {PrimExpr(n), PrimExpr(4)});
  IRModule in = m.done(m.op("exp", {m.op("reshape", {x, shape_expr({PrimExpr(n) * 4})})}));
  IRModule fixed = specialize_dims(in, {{"batch", 3}});
  PassContext context = make_context();
  expect_valid(run_pass("infer_types", fixed, context));
  EXPECT_EQ(*static_shape(main_of(fixed)->params[0]->declared), std::vector<int64_t>({3, 4}));
  expect_close(run(in, {random_array({3, 4})}), run(fixed, {random_array({3, 4})}), 0);
  EXPECT_EQ(*static_shape(main_of(specialize_dims(in, {}, true))->params[0]->declared),
            std::vector<int64_t>({1, 4}));
  EXPECT_FALSE(static_shape(main_of(in)->params[0]->declared));  // the input stays as it was
  try {
    specialize_dims(in, {{"bacth", 3}});
    FAIL();
  } catch (const DiagnosticError& e) {
    EXPECT_EQ(e.diagnostics[0].code, "T0903");
    EXPECT_NE(e.diagnostics[0].hint.find("batch"), std::string::npos);
  }
}

TEST(Compile, MemoryLimit) {
  CompileOptions options;
  options.memory_limit = 64;
  try {
    Runner runner(network(), options);
    FAIL() << "compiled beyond the limit";
  } catch (const DiagnosticError& e) {
    EXPECT_EQ(e.diagnostics[0].code, "T0902");
    EXPECT_NE(e.diagnostics[0].message.find("is the largest, float32 of"), std::string::npos)
        << e.diagnostics[0].message;
    EXPECT_EQ(int(e.kind), int(ErrorKind::limit));
  }
}

TEST(Compile, OptionsAreChecked) {
  Model m;
  auto x = m.param("x", {4});
  CompileOptions options;
  options.opt_level = 7;
  EXPECT_THROW(compile(m.done(m.op("exp", {x})), options), DiagnosticError);
}

TEST(Compile, ReportsProgressAndTimings) {
  Model m;
  auto x = m.param("x", {4});
  std::vector<std::string> steps;
  int last = -1, total = 0;
  CompileOptions options;
  options.progress = [&](std::string_view step, int done, int all) {
    EXPECT_GT(done, last);
    last = done;
    total = all;
    steps.emplace_back(step);
  };
  Compiled c = compile(m.done(m.op("exp", {x})), options);
  EXPECT_LT(last, total);
  EXPECT_EQ(steps.front(), "infer_types");
  EXPECT_EQ(steps.back(), "link");
  EXPECT_FALSE(c.shared_object.empty());
  EXPECT_GT(c.compile_ms, 0);
  EXPECT_TRUE(std::any_of(c.timings.begin(), c.timings.end(),
                          [](const PassTiming& t) { return t.name == "codegen"; }));
}

TEST(Compile, CancelledBetweenPasses) {
  Model m;
  auto x = m.param("x", {4});
  int polls = 0;
  CompileOptions options;
  options.context.cancelled = [&] { return ++polls > 3; };
  try {
    compile(m.done(m.op("exp", {x})), options);
    FAIL();
  } catch (const Error& e) {
    EXPECT_EQ(e.code, "T1003");
  }
}

TEST(Compile, EndsAtItsTimeLimit) {
  Model m;
  auto x = m.param("x", {4});
  CompileOptions options;
  options.compile_timeout = 1e-9;
  try {
    compile(m.done(m.op("exp", {x})), options);
    FAIL();
  } catch (const Error& e) {
    EXPECT_EQ(e.code, "T1005");
    EXPECT_NE(e.message.find("the pass `"), std::string::npos) << e.message;
  }
}

TEST(Evaluator, ChecksSizesThatTheDataTell) {
  const IRModule m = parse_module(R"(
@I.ir_module
class Module:
    @R.function
    def main(x: R.Tensor((343,), "float64"), sizes: R.Tensor((1,), "int64")) -> R.Tensor((size,), "float64"):
        shape: R.Shape(ndim=1) = R.tensor_to_shape(sizes)
        known = R.match_cast(shape, R.Shape([size]))
        y: R.Tensor((size,), "float64") = R.reshape(x, R.shape([size]))
        return y
)");
  const Evaluate evaluate = make_evaluator();
  const NDArray x = NDArray::zeros({343}, f64), sizes = NDArray::zeros({1}, i64);
  for (const int64_t size : {343, 3, 1000}) {
    *sizes.as_ptr<int64_t>() = size;
    try {
      const auto y = evaluate(m, "main", {x, sizes});
      EXPECT_EQ(y.at(0).shape()[0], size);
      EXPECT_EQ(size, 343);
    } catch (const Error& e) {
      EXPECT_EQ(e.code, "T0501");
      EXPECT_NE(size, 343);
    }
  }
}

TEST(Compile, SliceOfASizeThatIsASum) {
  const IRModule in = parse_module(R"(@I.ir_module
class Module:
    @R.function
    def main(x: R.Tensor(("n", 4), "float32"), z: R.Tensor(("n + 1",), "float32")):
        c = R.strided_slice(z, axes=[0], begin=[1], end=[9223372036854775807])
        e = R.sum(x, axis=[1])
        f = R.add(e, c)
        return f
)");
  for (int64_t n : {0, 1, 5}) expect_compiled_agrees(in, {random_array({n, 4}), random_array({n + 1})});
}

TEST(VerifyPasses, FindsNothingInACompilation) {
  const auto checker = verify_passes();
  CompileOptions options;
  options.context.instruments.push_back(checker.get());
  Runner runner(network(), options);
  std::vector<NDArray> inputs{random_array({1, 3, 14, 14})};
  expect_close(run(network(), inputs), runner.run(std::span(inputs.data(), 1)), 1e-4);
}

TEST(LoadModel, KindIsReadFromTheContent) {
  EXPECT_EQ(model_kind("\x7f"
                       "ELF\2\1\1"),
            ModelKind::artifact);
  EXPECT_EQ(model_kind("# a comment\n@I.ir_module\nclass M:\n"), ModelKind::script);
  EXPECT_THROW(load_model("/nonexistent/model.onnx"), Error);
}

TEST(LoadModel, ScriptTextIsTypedAndRuns) {
  const std::string path = ::testing::TempDir() + "tenon_load_model.tir";
  {
    std::ofstream out(path);
    out << "@I.ir_module\nclass Module:\n    @R.function\n    def main(x: R.Tensor((4,), \"float32\")):\n    "
           "    y = R.exp(x)\n        return y\n";
  }
  IRModule m = load_model(path);
  std::remove(path.c_str());
  ASSERT_TRUE(main_of(m)->ret_type && as_tensor(main_of(m)->ret_type));
  expect_compiled_agrees(m, {random_array({4})});
}

/// Through machine code, scheduled and naive: every element is `want` (NaN for NaN).
void expect_all(const IRModule& m, const std::vector<NDArray>& inputs, double want) {
  auto look = [&](const std::vector<NDArray>& got, const char* who) {
    ASSERT_EQ(got.size(), 1u);
    ASSERT_GT(got[0].size(), 0);
    for (int64_t i = 0; i < got[0].size(); ++i) {
      const double x = got[0].element(i);
      ASSERT_TRUE(x == want || (std::isnan(x) && std::isnan(want))) << who << ", element " << i << ": " << x;
    }
  };
  look(run(m, inputs), "interpreter");
  for (bool schedule : {false, true}) {
    CompileOptions options;
    options.schedule = schedule;
    options.context.verify = true;
    look(Runner(m, options).run(std::span(inputs.data(), inputs.size())), schedule ? "scheduled" : "naive");
  }
}

TEST(Compile, ReductionsOverAnEmptyAxis) {
  const double infinity = std::numeric_limits<double>::infinity();
  const std::pair<const char*, double> cases[] = {
      {"sum", 0}, {"prod", 1}, {"max", -infinity}, {"min", infinity}, {"mean", std::nan("")}};
  for (const auto& [name, want] : cases)
    for (int64_t axis : {0, 1})
      for (bool symbolic : {true, false}) {
        SCOPED_TRACE(std::string(name) + " over axis " + std::to_string(axis) +
                     (symbolic ? ", symbolic" : ", constant"));
        Model m;
        const PrimExpr n = symbolic ? PrimExpr(tir::var("n")) : PrimExpr(int64_t(0));
        auto x = m.param("x", axis ? Array<PrimExpr>{19, n} : Array<PrimExpr>{n, 19});
        const Expr y = m.op(name, {x}, op::make_attrs<op::ReduceAttrs>(Array<int64_t>{axis}));
        const std::vector<int64_t> shape = axis ? std::vector<int64_t>{19, 0} : std::vector<int64_t>{0, 19};
        expect_all(m.done(y), {NDArray::zeros(shape, f32)}, want);
        if (HasFailure()) return;
      }
}

TEST(Compile, MatmulOverAnEmptyAxis) {
  for (bool symbolic : {true, false}) {
    SCOPED_TRACE(symbolic ? "symbolic" : "constant");
    Model m;
    const PrimExpr k = symbolic ? PrimExpr(tir::var("k")) : PrimExpr(int64_t(0));
    auto a = m.param("a", {33, k}), b = m.param("b", {k, 29});
    const Expr y = m.op("add", {m.op("matmul", {a, b}), constant(NDArray::zeros({29}, f32))});
    expect_all(m.done(y), {NDArray::zeros({33, 0}, f32), NDArray::zeros({0, 29}, f32)}, 0);
  }
}

TEST(Compile, SoftmaxOverAnEmptyAxis) {
  for (bool symbolic : {true, false}) {
    SCOPED_TRACE(symbolic ? "symbolic" : "constant");
    Model m;
    const PrimExpr n = symbolic ? PrimExpr(tir::var("n")) : PrimExpr(int64_t(0));
    auto x = m.param("x", {9, n});
    const Expr soft = m.op("nn.softmax", {x}, axis(-1));
    const Expr y = m.op("sum", {soft}, op::make_attrs<op::ReduceAttrs>(Array<int64_t>{-1}));
    expect_all(m.done(y), {NDArray::zeros({9, 0}, f32)}, 0);
  }
}

TEST(TargetFor, KernelsByThemselvesDoWithoutMatrixRegisters) {
  // The runtime asks the system for them, and an object of kernels is called without it.
  const Target t = parse_target("llvm -mcpu=sapphirerapids");
  EXPECT_FALSE(target_for("obj", t, false)->has("amx_int8"));
  EXPECT_TRUE(target_for("obj", t, false)->has("avx512_vnni"));
  EXPECT_TRUE(target_for("obj", t, true)->has("amx_int8"));
  EXPECT_TRUE(target_for("artifact", t, false)->has("amx_tile"));
}

}  // namespace
}  // namespace tenon::graph::testing_graph
