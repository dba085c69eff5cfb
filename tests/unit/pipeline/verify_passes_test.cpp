// SPDX-License-Identifier: Apache-2.0
// Passes that are checked by running a module before and behind them: what is found, and what rounding,
// quantised steps and infinite operands explain.
#include <cmath>
#include <limits>

#include "pipeline/evaluator.h"
#include "pipeline/runner.h"
#include "support.h"
#include "tools/verify_passes.h"

namespace tenon::graph::testing_graph {
namespace {

/// Functions whose results are other values.
IRModule with_results(IRModule module, FunctionRef<Expr(const Expr&)> other) {
  return module.map_graph([&](const std::string&, const Ref<Function>& f) -> ObjectRef {
    BlockBuilder b = op::make_builder();
    for (const Binding& x : bindings_of(f->body)) b.append(x);
    const Expr r = b.emit(other(result_of(f->body)), "wrong");
    return make<Function>(f->params, b.finish(r), f->ret_type, f->attrs);
  });
}
IRModule break_softly(IRModule module, PassContext&) {
  return with_results(module, [](const Expr& e) { return op::op_call("add", {e, op::scalar(0.5, f32)}); });
}
IRModule break_above_five(IRModule module, PassContext&) {
  return with_results(module, [](const Expr& e) { return op::op_call("minimum", {e, op::scalar(5, f32)}); });
}
IRModule negate_result(IRModule module, PassContext&) {
  return with_results(module, [](const Expr& e) { return op::op_call("negative", {e}); });
}

TEST(VerifyPasses, NamesTheFirstPassThatChangesAResult) {
  Model m;
  auto x = m.param("x", {4, 4});
  IRModule in = m.done(m.op("nn.softmax", {m.op("exp", {x})}, op::make_attrs<op::AxisAttrs>(int64_t(-1))));
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

/// How many elements of `of` of sinc(1) are not zero: 0 in float16, a rounding's error in float32.
IRModule counts(const std::string& of) {
  return parse_module(R"(@I.ir_module
class Module:
    @R.function
    def main(x: R.Tensor((3, 16), "bool")):
        a = R.cast(x, dtype="float16")
        b = R.sinc(a)
        c = )" + of + R"(
        n = R.count_nonzero(c, axis=[-1], keepdims=False)
        return n
)");
}

TEST(VerifyPasses, JumpsBehindARoundingMayGoTheOtherWay) {
  PassContext context = make_context();
  context.target = parse_target("llvm -mcpu=x86-64-v4");
  context.required.insert("promote_f16");
  Pass rounding = get_pass("promote_f16");
  auto verified = [&](const IRModule& in) {
    const auto checker = verify_passes();
    context.instruments = {checker.get()};
    const Pass passes[] = {get_pass("infer_types"), get_pass("to_a_normal_form"), rounding};
    const IRModule out = run_passes(in, passes, context);
    context.instruments.clear();
    return out;
  };
  const IRModule in = counts("R.frac(b)");
  const std::vector<Any> x = seeded_inputs(in.find("main").cast<Function>(), VerifyPassesOptions().seed, 3);
  const NDArray want = interpret(in, "main", x).as<NDArray>();
  const NDArray got = interpret(verified(in), "main", x).as<NDArray>();
  EXPECT_NE(want.element_int(0), got.element_int(0));
  // What is exact in float16 may not change.
  rounding.run = [](IRModule module, PassContext&) {
    return with_results(module, [](const Expr& e) { return op::op_call("add", {e, op::scalar(1, i64)}); });
  };
  EXPECT_THROW(verified(counts("R.nn.relu(a)")), Error);
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

}  // namespace
}  // namespace tenon::graph::testing_graph
