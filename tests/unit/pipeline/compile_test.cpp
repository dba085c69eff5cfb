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

IRModule break_softly(IRModule module, PassContext&) {
  return module.map_graph([](const std::string&, const Ref<Function>& f) -> ObjectRef {
    BlockBuilder b = op::make_builder();
    for (const Binding& x : bindings_of(f->body)) b.append(x);
    Expr r = b.emit(op::op_call("add", {result_of(f->body), op::scalar(0.5, f32)}), "wrong");
    return make<Function>(f->params, b.finish(r), f->ret_type, f->attrs);
  });
}

TEST(VerifyPasses, NamesTheFirstPassThatChangesAResult) {
  Model m;
  auto x = m.param("x", {4, 4});
  IRModule in = m.done(m.op("nn.softmax", {m.op("exp", {x})}, axis(-1)));
  const Pass passes[] = {get_pass("infer_types"),
                         get_pass("fuse_ops"),
                         {"break_softly", break_softly, 0},
                         get_pass("lower_to_call_tir")};
  PassContext context = make_context();
  auto checker = verify_passes();
  context.instruments.push_back(checker.get());
  try {
    run_passes(in, passes, context);
    FAIL() << "a wrong pass went unseen";
  } catch (const Error& e) {
    EXPECT_EQ(e.code, "T1010");
    EXPECT_NE(e.message.find("`break_softly`"), std::string::npos);
  }
}

IRModule break_above_five(IRModule module, PassContext&) {
  return module.map_graph([](const std::string&, const Ref<Function>& f) -> ObjectRef {
    BlockBuilder b = op::make_builder();
    for (const Binding& x : bindings_of(f->body)) b.append(x);
    Expr r = b.emit(op::op_call("minimum", {result_of(f->body), op::scalar(5, f32)}), "wrong");
    return make<Function>(f->params, b.finish(r), f->ret_type, f->attrs);
  });
}

TEST(VerifyPasses, RunsOnTheInputsThatItIsGiven) {
  Model m;
  auto x = m.param("x", {4});
  IRModule in = m.done(m.op("add", {x, x}));
  const Pass passes[] = {get_pass("infer_types"), {"break_above_five", break_above_five, 0}};
  for (double value : {0.0, 7.0}) {
    VerifyPassesOptions options;
    NDArray given = NDArray::zeros({4}, f32);
    given.set_element(2, value);
    if (value != 0) options.inputs.push_back(Any(given));
    PassContext context = make_context();
    auto checker = verify_passes({}, options);
    context.instruments.push_back(checker.get());
    if (value == 0) {
      run_passes(in, passes, context);  // drawn inputs lie in [-1, 1)
      continue;
    }
    try {
      run_passes(in, passes, context);
      FAIL() << "a wrong pass went unseen";
    } catch (const Error& e) {
      EXPECT_NE(e.message.find("`break_above_five`"), std::string::npos);
      EXPECT_NE(e.message.find("element 2 was 14, is 5"), std::string::npos) << e.message;
    }
  }
}

/// (-inf, …)·b·c: (a·b) is (-inf, inf), whose product with c is no number; b·c is finite.
TEST(VerifyPasses, InfiniteOperandsOfProductsThatAreGroupedAnew) {
  const IRModule in = parse_module(R"(@I.ir_module
class Module:
    @R.function
    def main(x: R.Tensor((8, 2), "float32"), b: R.Tensor((2, 2), "float32"), c: R.Tensor((2, 1), "float32")):
        a = R.log(x)
        d = R.matmul(a, b)
        e = R.matmul(d, c)
        return e
)");
  const Pass& regroups = get_pass("adjust_matmul_order");
  const auto breaks = [&](IRModule module, PassContext& context) {
    return break_above_five(regroups.run(std::move(module), context), context);
  };
  for (const double first : {0.0, 1.0})
    for (const bool wrong : {false, true}) {
      VerifyPassesOptions options;
      NDArray x = NDArray::zeros({8, 2}, f32), b = NDArray::zeros({2, 2}, f32),
              c = NDArray::zeros({2, 1}, f32);
      for (int64_t i = 0; i < 16; ++i) x.set_element(i, i ? 20 : first);
      for (int64_t i = 0; i < 4; ++i) b.set_element(i, i == 1 ? -1 : 1);
      for (int64_t i = 0; i < 2; ++i) c.set_element(i, double(i + 1));
      options.inputs = {Any(x), Any(b), Any(c)};
      auto checker = verify_passes({}, options);
      PassContext context = make_context();
      context.opt_level = regroups.level;
      context.instruments.push_back(checker.get());
      Pass pass = regroups;
      if (wrong) pass.run = breaks;
      const Pass passes[] = {get_pass("infer_types"), pass};
      if (wrong) {  // the other rows are finite, and compared
        EXPECT_THROW(run_passes(in, passes, context), Error);
        continue;
      }
      const IRModule out = run_passes(in, passes, context);
      EXPECT_FALSE(structural_equal(in, out));
      const std::vector<NDArray> before = run(in, {x, b, c}), after = run(out, {x, b, c});
      EXPECT_EQ(std::isnan(before[0].element(0)), first == 0);
      EXPECT_FALSE(std::isnan(after[0].element(0)));
    }
}

/// sin(8·x·w), again and again: soon every digit of x decides the result.
IRModule iterated(int times) {
  std::string text = R"(@I.ir_module
class Module:
    @R.function
    def main(x0: R.Tensor((4, 4), "float32"), w: R.Tensor((4, 4), "float32")):
)";
  for (int k = 0; k < times; ++k)
    text += "        x" + std::to_string(k + 1) + " = R.sin(R.multiply(R.matmul(x" + std::to_string(k) +
            ", w), R.const(8, \"float32\")))\n";
  return parse_module(text + "        return x" + std::to_string(times) + "\n");
}

IRModule negate_result(IRModule module, PassContext&) {
  return module.map_graph([](const std::string&, const Ref<Function>& f) -> ObjectRef {
    BlockBuilder b = op::make_builder();
    for (const Binding& x : bindings_of(f->body)) b.append(x);
    Expr r = b.emit(op::op_call("negative", {result_of(f->body)}), "wrong");
    return make<Function>(f->params, b.finish(r), f->ret_type, f->attrs);
  });
}

TEST(VerifyPasses, RoundingMayDoWhatSmallErrorsInTheInputsDo) {
  PassContext context = make_context();
  context.required.insert("to_mixed_precision");
  const Pass rounding[] = {get_pass("infer_types"), get_pass("to_a_normal_form"),
                           get_pass("to_mixed_precision")};
  for (int times : {1, 12}) {
    auto checker = verify_passes({}, {});
    context.instruments = {checker.get()};
    const IRModule in = iterated(times), out = run_passes(in, rounding, context);
    context.instruments.clear();
    EXPECT_FALSE(structural_equal(run_passes(in, std::span(rounding, 2), context), out));
  }
  // It does not excuse what rounding cannot do.
  auto checker = verify_passes({}, {});
  context.instruments = {checker.get()};
  const Pass wrong[] = {get_pass("infer_types"), {"to_mixed_precision", negate_result, 0}};
  EXPECT_THROW(run_passes(iterated(1), wrong, context), Error);
}

/// A product of bytes whose sums are halves of the next quantisation's step: as real numbers rounding decides
/// where they go, as integers each goes to the even one.
IRModule between_steps() {
  return parse_module(R"(@I.ir_module
class Module:
    @R.function
    def main(x: R.Tensor((32, 4), "uint8")):
        a = R.qnn.dequantize(x, R.const(0.1, "float32"), R.const(0, "uint8"))
        w = R.qnn.dequantize(R.const([[1, 3, -5], [2, 1, 7], [5, 1, -1], [1, 3, 3]], "int8"), R.const(0.05, "float32"), R.const(0, "int8"))
        b = R.matmul(a, w)
        c = R.qnn.quantize(b, R.const(0.01, "float32"), R.const(100, "uint8"), out_dtype="uint8")
        d = R.qnn.dequantize(c, R.const(0.01, "float32"), R.const(100, "uint8"))
        return d
)");
}

TEST(VerifyPasses, QuantisedValuesMayBeAStepAwayBehindAPassThatRounds) {
  const Pass rounding[] = {get_pass("infer_types"), get_pass("to_a_normal_form"),
                           get_pass("fake_quantization_to_integer")};
  const NDArray x = random_array({32, 4}, u8);
  auto results = [&](const IRModule& m) { return interpret(m, "main", {Any(x)}).as<NDArray>(); };
  PassContext context = make_context();
  const IRModule in = between_steps(), out = run_passes(in, rounding, context);
  const NDArray want = results(in), got = results(out);
  int64_t steps = 0;
  for (int64_t i = 0; i < want.size(); ++i) steps += want.element(i) != got.element(i);
  ASSERT_GT(steps, 0) << print(out);
  VerifyPassesOptions options;
  options.inputs = {Any(x)};
  const auto checker = verify_passes({}, options);
  context.instruments = {checker.get()};
  EXPECT_NO_THROW(run_passes(in, rounding, context));
  // It excuses neither many steps nor a pass that declares that it changes nothing.
  for (const Pass& wrong :
       {Pass{"break_softly", break_softly, 0, "", {}, Changes::rounding},
        Pass{"fake_quantization_to_integer", get_pass("fake_quantization_to_integer").run, 0}}) {
    const auto other = verify_passes({}, options);
    context.instruments = {other.get()};
    const Pass passes[] = {get_pass("infer_types"), get_pass("to_a_normal_form"), wrong};
    EXPECT_THROW(run_passes(in, passes, context), Error) << wrong.name;
  }
}

TEST(VerifyPasses, StepsOfPoolsAreFewerThanTheirOperands) {
  const IRModule in = parse_module(R"(@I.ir_module
class Module:
    @R.function
    def main(x: R.Tensor((1, 2, 6), "uint8")):
        y = R.qnn.avg_pool1d(x, R.const(0.05, "float32"), R.const(10, "uint8"), R.const(0.01, "float32"), R.const(7, "uint8"), pool_size=[2], strides=[2])
        z = R.qnn.dequantize(y, R.const(0.01, "float32"), R.const(7, "uint8"))
        a = R.matmul(z, R.const([[0.3, -0.7], [0.9, 0.1], [-0.4, 0.6]], "float32"))
        return a
)");
  const auto checker = verify_passes({}, {});
  PassContext context = make_context();
  context.instruments = {checker.get()};
  const Pass passes[] = {get_pass("infer_types"), get_pass("to_a_normal_form"),
                         Pass{"break_softly", break_softly, 0, "", {}, Changes::rounding}};
  try {
    run_passes(in, passes, context);
    FAIL() << "a wrong pass went unseen";
  } catch (const Error& e) {
    EXPECT_EQ(e.code, "T1010") << e.message;
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

TEST(VerifyPasses, AWeightThatIsATupleIsNoBundleOfWeights) {
  const IRModule in = parse_module(R"(@I.ir_module
class Module:
    @R.function
    def main(w: R.Tensor((4,), "float32"), v: R.Tensor((4,), "float32")) -> R.Tensor((4,), "float32"):
        R.func_attr({"global_symbol": "main", "num_inputs": 0})
        a = R.cos(w)
        b = R.tanh(v)
        t = (a, b)
        y = cls.f(t)
        return y

    @R.function
    def f(t: R.Tuple(R.Tensor((4,), "float32"), R.Tensor((4,), "float32"))) -> R.Tensor((4,), "float32"):
        a: R.Tensor((4,), "float32") = t[0]
        b: R.Tensor((4,), "float32") = t[1]
        y = R.add(a, b)
        return y
)");
  const Pass passes[] = {get_pass("infer_types"), get_pass("lift_transform_params"),
                         get_pass("bundle_model_params")};
  PassContext context = make_context();
  context.required = {"lift_transform_params", "bundle_model_params"};
  auto checker = verify_passes({}, {});
  context.instruments = {checker.get()};
  const IRModule out = run_passes(in, passes, context);
  ASSERT_EQ(main_of(out)->params.size(), 1u) << print(out);
  EXPECT_TRUE(main_of(out)->params[0]->declared.as<TupleType>()->items[0].is<TupleType>()) << print(out);
}

TEST(VerifyPasses, SaysWhenTheModelCannotBeRun) {
  const IRModule in = parse_module(R"(@I.ir_module
class Module:
    @R.function
    def main(x: R.Tensor(("n",), "float32")) -> R.Tensor((2, 5), "float32"):
        y = R.reshape(x, (2, 5))
        return y
)");
  PassContext context = make_context();
  auto checker = verify_passes({}, {});
  context.instruments = {checker.get()};
  const Pass passes[] = {get_pass("infer_types")};
  try {
    run_passes(in, passes, context);
    FAIL();
  } catch (const Error& e) {
    EXPECT_NE(std::string(e.what()).find("with 3 for symbolic sizes"), std::string::npos) << e.what();
  }
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
