// SPDX-License-Identifier: Apache-2.0
// The algebraic passes: what is left, and that it computes the same.
#include "support.h"
#include "target/target.h"

namespace tenon::graph::testing_graph {
namespace {

ObjectRef axes(Array<int64_t> a) { return op::make_attrs<op::AxesAttrs>(a); }

TEST(Canonicalize, ReshapeChainsAndIdentities) {
  Model m;
  auto x = m.param("x", {4, 6});
  Expr a = m.op("reshape", {x, op::shape({24})});
  Expr b = m.op("reshape", {a, op::shape({2, 12})});
  Expr c = m.op("expand_dims", {b}, axes({0}));
  Expr d = m.op("reshape", {c, op::shape({1, 2, 12})});
  IRModule out = apply(m.done(d), {"canonicalize", "eliminate_dead_code"}, {random_array({4, 6})});
  EXPECT_EQ(ops_of(out), Names({"reshape"}));
}

TEST(Canonicalize, TransposesCompose) {
  Model m;
  auto x = m.param("x", {2, 3, 4});
  Expr a = m.op("permute_dims", {x}, axes({1, 2, 0}));
  Expr b = m.op("permute_dims", {a}, axes({1, 0, 2}));
  IRModule out = apply(m.done(b), {"canonicalize", "eliminate_dead_code"}, {random_array({2, 3, 4})});
  EXPECT_EQ(ops_of(out), Names({"permute_dims"}));

  Model n;
  auto y = n.param("x", {2, 3, 4});
  Expr c = n.op("permute_dims", {n.op("permute_dims", {y}, axes({1, 2, 0}))}, axes({2, 0, 1}));
  IRModule gone = apply(n.done(c), {"canonicalize", "eliminate_dead_code"}, {random_array({2, 3, 4})});
  EXPECT_TRUE(ops_of(gone).empty());
}

TEST(Canonicalize, TransposeOfUnitAxesIsAReshape) {
  Model m;
  auto x = m.param("x", {1, 3, 4});
  IRModule out =
      apply(m.done(m.op("permute_dims", {x}, axes({1, 0, 2}))), {"canonicalize"}, {random_array({1, 3, 4})});
  EXPECT_EQ(ops_of(out), Names({"reshape"}));
}

TEST(Canonicalize, NeutralElements) {
  Model m;
  auto x = m.param("x", {5});
  Expr one = op::scalar(1, f32), zero = op::scalar(0, f32), minus_zero = op::scalar(-0.0, f32);
  Expr a = m.op("multiply", {x, one});
  Expr b = m.op("divide", {a, one});
  Expr c = m.op("subtract", {b, zero});
  Expr d = m.op("add", {c, minus_zero});
  Expr e = m.op("negative", {m.op("negative", {d})});
  IRModule out = apply(m.done(e), {"canonicalize", "eliminate_dead_code"}, {random_array({5})});
  EXPECT_TRUE(ops_of(out).empty());
}

TEST(Canonicalize, AddingPositiveZeroIsNotNeutralForMinusZero) {
  Model m;
  auto x = m.param("x", {1});
  IRModule in = m.done(m.op("add", {x, op::scalar(0, f32)}));
  NDArray minus_zero = NDArray::zeros({1}, f32);
  minus_zero.set_element(0, -0.0);
  PassContext context = make_context();
  NDArray out = run(run_pass("canonicalize", in, context), {minus_zero})[0];
  EXPECT_FALSE(std::signbit(out.element(0)));
}

TEST(Canonicalize, BroadcastingNeutralStays) {
  Model m;
  auto x = m.param("x", {3});
  Expr a = m.op("multiply", {x, constant([] {
                               NDArray ones = NDArray::empty({2, 3}, f32);
                               for (int i = 0; i < 6; ++i) ones.set_element(i, 1);
                               return ones;
                             }())});
  IRModule out = apply(m.done(a), {"canonicalize"}, {random_array({3})});
  EXPECT_EQ(ops_of(out), Names({"multiply"}));
}

TEST(Canonicalize, CastsOnlyThroughWideningOnes) {
  Model m;
  auto x = m.param("x", {4}, DataType::int_(16));
  Expr wide = m.op("cast", {m.op("cast", {x}, op::make_attrs<op::CastAttrs>(i32))},
                   op::make_attrs<op::CastAttrs>(i64));
  IRModule out =
      apply(m.done(wide), {"canonicalize", "eliminate_dead_code"}, {random_array({4}, DataType::int_(16))});
  EXPECT_EQ(ops_of(out).size(), 1u);

  Model n;
  auto y = n.param("x", {4}, i32);
  Expr narrow = n.op("cast", {n.op("cast", {y}, op::make_attrs<op::CastAttrs>(DataType::int_(8)))},
                     op::make_attrs<op::CastAttrs>(i32));
  NDArray big = NDArray::empty({4}, i32);
  for (int i = 0; i < 4; ++i) big.set_element_int(i, 200 + i);
  IRModule kept = apply(n.done(narrow), {"canonicalize", "eliminate_dead_code"}, {big});
  EXPECT_EQ(ops_of(kept).size(), 2u);
}

Expr branch_of(std::function<Expr(BlockBuilder&)> f) {
  BlockBuilder b = op::make_builder();
  Expr r = f(b);
  return b.finish(r);
}

TEST(Canonicalize, IfOnAConstantIsItsBranch) {
  Model m;
  auto x = m.param("x", {4});
  Expr t = branch_of([&](BlockBuilder& b) { return b.emit(op::op_call("exp", {x}), "t"); });
  Expr f = branch_of([&](BlockBuilder& b) { return b.emit(op::op_call("sin", {x}), "f"); });
  NDArray yes = NDArray::empty({}, boolean);
  yes.set_element_int(0, 1);
  Expr choice = make<If>(constant(yes), t, f);
  choice.edit()->type = x->type;
  Expr r = m.op("negative", {m.builder.emit(choice)});
  IRModule out = apply(m.done(r), {"canonicalize"}, {random_array({4})});
  EXPECT_EQ(ops_of(out), Names({"exp", "negative"}));
}

TEST(SimplifyInference, DropoutGoesAndBatchNormBecomesScaleAndShift) {
  Model m;
  auto x = m.param("x", {2, 3, 4, 4});
  NDArray variance = random_array({3}, f32, 5);
  for (int i = 0; i < 3; ++i) variance.set_element(i, 0.5 + i);
  Expr y =
      m.op("nn.batch_norm", {x, m.weight({3}, 1), m.weight({3}, 2), m.weight({3}, 3), constant(variance)});
  Expr z = m.op("nn.dropout", {y});
  IRModule out = apply(m.done(z), {"simplify_inference"}, {random_array({2, 3, 4, 4})}, 1e-6);
  EXPECT_EQ(ops_of(out), Names({"multiply", "add"}));
}

TEST(FoldConstant, FoldsChainsOfConstantsOnly) {
  Model m;
  auto x = m.param("x", {3});
  Expr w = m.op("multiply", {m.weight({3}, 1), m.weight({3}, 2)});
  Expr v = m.op("exp", {m.op("add", {w, m.weight({3}, 3)})});
  IRModule out =
      apply(m.done(m.op("add", {x, v})), {"fold_constant", "eliminate_dead_code"}, {random_array({3})});
  EXPECT_EQ(ops_of(out), Names({"add"}));
}

TEST(FoldConstant, TuplesAndConcatenation) {
  Model m;
  auto x = m.param("x", {6});
  Expr c =
      m.op("concat", {op::tuple({m.weight({2}, 1), m.weight({4}, 2)})}, op::make_attrs<op::AxisAttrs>(0));
  IRModule out =
      apply(m.done(m.op("add", {x, c})), {"fold_constant", "eliminate_dead_code"}, {random_array({6})});
  EXPECT_EQ(ops_of(out), Names({"add"}));
}

TEST(FoldConstant, MovesElements) {
  for (DataType t : {f32, f64, u8}) {
    Model m;
    auto x = m.param("x", {4, 2, 3}, t);
    Expr w = m.op("permute_dims", {m.weight({3, 4, 2}, 1, t)}, axes({1, -1, 0}));
    Expr v =
        m.op("reshape", {m.op("permute_dims", {m.weight({2, 3, 4}, 2, t)}, axes({})), op::shape({4, 2, 3})});
    Expr y = m.op("maximum", {m.op("maximum", {x, w}), v});
    IRModule out = apply(m.done(y), {"fold_constant", "eliminate_dead_code"}, {random_array({4, 2, 3}, t)});
    EXPECT_EQ(ops_of(out), Names({"maximum", "maximum"}));
  }
}

TEST(FoldConstant, LeavesWhatGrowsBeyondTheLimit) {
  Model m;
  auto x = m.param("x", {1});
  Expr big = m.op("broadcast_to", {m.weight({1}), op::shape({1024})});
  IRModule in = m.done(m.op("add", {x, big}));
  PassContext context = make_context();
  context.options.set("fold_constant.max_bytes", 1000);
  EXPECT_EQ(ops_of(run_pass("fold_constant", in, context)), Names({"broadcast_to", "add"}));
  context.options.set("fold_constant.max_bytes", 5000);
  EXPECT_EQ(ops_of(run_pass("fold_constant", in, context)), Names({"add"}));
}

TEST(FoldConstant, WeightsGoAsTheirSuccessorsCome) {
  // When a constant is computed, the ones that earlier constants were computed from are gone already, unless
  // somebody else holds the module.
  for (const bool held : {false, true}) {
    int alive = 0;
    Model m;
    Expr sum = m.param("x", {4});
    for (uint64_t i = 0; i < 4; ++i) {
      NDArray w = random_array({4}, f32, i + 1);
      ++alive;
      w.mut()->release = [&alive, free = w.get()->release] { --alive, free(); };
      Expr reshaped = m.op("reshape", {constant(w), op::shape({2, 2})});  // a view of it
      Expr squared = m.op("multiply", {reshaped, reshaped});
      sum = m.op("add", {sum, m.op("reshape", {squared, op::shape({4})})});
    }
    IRModule module = m.done(sum), other = held ? module : IRModule();
    const auto want = run(module, {random_array({4})});
    PassContext context;
    std::vector<int> seen;
    context.evaluate = [&](const IRModule& p, const std::string& name, const std::vector<NDArray>& args) {
      seen.push_back(alive);
      return evaluate_by_interpreter(p, name, args);
    };
    m = Model();
    sum = Expr();
    module = run_pass("fold_constant", std::move(module), context);
    EXPECT_EQ(seen, held ? std::vector<int>({4, 4, 4, 4}) : std::vector<int>({4, 3, 2, 1}));
    EXPECT_EQ(ops_of(module), Names({"add", "add", "add", "add"}));
    expect_close(want, run(module, {random_array({4})}), 1e-6);
    if (held) expect_close(want, run(other, {random_array({4})}), 1e-6);
  }
}

TEST(FoldConstant, WithoutAnEvaluatorNothingIsEvaluated) {
  Model m;
  auto x = m.param("x", {3});
  IRModule in = m.done(m.op("add", {x, m.op("exp", {m.weight({3})})}));
  PassContext context;
  EXPECT_EQ(ops_of(run_pass("fold_constant", in, context)), Names({"exp", "add"}));
}

ObjectRef conv(Array<int64_t> padding = {}, int64_t groups = 1) {
  return op::make_attrs<op::ConvAttrs>([&](auto& a) {
    a.padding = padding;
    a.groups = groups;
  });
}

TEST(FoldScaleAxis, ConvolutionBiasAndBatchNorm) {
  Model m;
  auto x = m.param("x", {1, 3, 5, 5});
  Expr y = m.op("nn.conv2d", {x, m.weight({4, 3, 3, 3})}, conv({1}));
  y = m.op("add", {y, m.weight({4, 1, 1}, 3)});
  NDArray variance = NDArray::empty({4}, f32);
  for (int i = 0; i < 4; ++i) variance.set_element(i, 0.4 + i);
  y = m.op("nn.batch_norm", {y, m.weight({4}, 1), m.weight({4}, 2), m.weight({4}, 3), constant(variance)});
  y = m.op("nn.relu", {y});
  IRModule out = apply(m.done(y), {"simplify_inference", "fold_scale_axis", "eliminate_dead_code"},
                       {random_array({1, 3, 5, 5})}, 1e-5);
  EXPECT_EQ(ops_of(out), Names({"nn.conv2d", "add", "nn.relu"}));
}

TEST(FoldScaleAxis, GroupedConvolutionBehindAndInFront) {
  Model m;
  auto x = m.param("x", {1, 6, 4, 4});
  Expr scaled = m.op("multiply", {x, m.weight({6, 1, 1}, 5)});
  Expr y = m.op("nn.conv2d", {scaled, m.weight({4, 3, 3, 3})}, conv({1}, 2));
  y = m.op("multiply", {y, m.weight({1, 4, 1, 1}, 6)});
  IRModule out =
      apply(m.done(y), {"fold_scale_axis", "eliminate_dead_code"}, {random_array({1, 6, 4, 4})}, 1e-5);
  EXPECT_EQ(ops_of(out), Names({"nn.conv2d"}));
}

TEST(FoldScaleAxis, DenseAndMatmul) {
  for (const char* name : {"nn.dense", "matmul"}) {
    Model m;
    auto x = m.param("x", {2, 5});
    Expr w = std::string(name) == "matmul" ? m.weight({5, 7}) : m.weight({7, 5});
    Expr y = m.op(name, {m.op("multiply", {x, m.weight({5}, 2)}), w});
    y = m.op("multiply", {m.op("add", {y, m.weight({7}, 3)}), m.weight({7}, 4)});
    IRModule out = apply(m.done(y), {"fold_scale_axis", "eliminate_dead_code"}, {random_array({2, 5})}, 1e-5);
    EXPECT_EQ(ops_of(out), Names({name, "add"}));
  }
}

TEST(PackWeights, MatmulAndDenseReadPanels) {
  for (const auto& [columns, type] :
       std::vector<std::pair<int64_t, DataType>>{{7, f32}, {16, f32}, {41, f64}})
    for (const char* name : {"nn.dense", "matmul"}) {
      Model m;
      auto x = m.param("x", {2, 5, 6}, type);
      const bool dense = std::string(name) == "nn.dense";
      Expr w = m.weight(dense ? std::vector<int64_t>{columns, 6} : std::vector<int64_t>{6, columns}, 3, type);
      IRModule before = m.done(m.op("nn.relu", {m.op(name, {x, w})}));
      const std::vector<NDArray> inputs{random_array({2, 5, 6}, type)}, want = run(before, inputs);
      PassContext context = make_context();
      auto target = make<TargetNode>();
      target.edit()->vector_bits = 256;
      context.target = target;
      IRModule out = run_pass("fold_constant", run_pass("pack_weights", before, context), context);
      expect_valid(out);
      expect_close(want, run(out, inputs), 1e-6);
      EXPECT_EQ(ops_of(out), Names({"nn.packed_matmul", "nn.relu"}));
    }
  // What is not constant stays unless it is large and read by many rows; so does everything without a target.
  Model n;
  auto x = n.param("x", {2, 5}), y = n.param("y", {5, 3});
  IRModule product = n.done(n.op("matmul", {x, y}));
  PassContext context = make_context();
  context.target = make<TargetNode>();
  EXPECT_EQ(ops_of(run_pass("pack_weights", product, context)), Names({"matmul"}));
  Model large;
  auto u = large.param("u", {64, 512}), v = large.param("v", {512, 520});
  IRModule often = large.done(large.op("matmul", {u, v}));
  EXPECT_EQ(ops_of(run_pass("pack_weights", often, context)),
            Names({"layout_transform", "nn.packed_matmul"}));
  PassContext plain = make_context();
  EXPECT_EQ(ops_of(run_pass("pack_weights", often, plain)), Names({"matmul"}));
}

TEST(PackWeights, PanelsSuitTheRowsOfAllAxes) {
  // 2 × 2 × 4 rows fill tiles of 8 rows and 3 vectors; 4 alone would take 6 vectors.
  auto target = make<TargetNode>();
  target.edit()->vector_bits = 512;
  target.edit()->vector_registers = 32;
  PassContext context = make_context();
  context.target = target;
  Model m;
  auto x = m.param("x", {2, 2, 4, 6});
  IRModule out = run_pass(
      "fold_constant",
      run_pass("pack_weights", m.done(m.op("matmul", {x, m.weight({6, 96}, 3, f32)})), context), context);
  EXPECT_NE(print(out).find("(2, 6, 48)"), std::string::npos) << print(out);
}

TEST(PackWeights, NarrowTypesLieInGroups) {
  auto target = make<TargetNode>();
  target.edit()->vector_bits = 512;
  target.edit()->vector_registers = 32;
  target.edit()->features = {"avx2", "avx512f", "avx512bw", "avx512vl", "avx512_vnni", "avx512_bf16"};
  PassContext context = make_context();
  context.target = target;
  const DataType i8 = DataType::int_(8), bf16 = DataType::bfloat16();
  for (auto [x_type, w_type, inputs] : std::vector<std::tuple<DataType, DataType, int64_t>>{
           {u8, i8, 8}, {i8, i8, 12}, {bf16, bf16, 6}, {bf16, bf16, 7}, {f16, f16, 8}}) {
    Model m;
    auto x = m.param("x", {2, 5, inputs}, x_type);
    IRModule before = m.done(m.op("matmul", {x, m.weight({inputs, 41}, 3, w_type)}));
    const std::vector<NDArray> in{random_array({2, 5, inputs}, x_type)}, want = run(before, in);
    IRModule out = run_pass("fold_constant", run_pass("pack_weights", before, context), context);
    expect_valid(out);
    expect_close(want, run(out, in), x_type.is_float() ? 2e-2 : 0);
    EXPECT_EQ(ops_of(out), Names({"nn.packed_matmul"}));
  }
}

TEST(FoldConstant, LayoutsWithoutAProgram) {
  // Every kind of axis: moved, in blocks that are filled up, blocks inside others.
  for (const auto& [from, to] : std::vector<std::pair<std::string, std::string>>{
           {"KN", "NK4n"}, {"NK", "NK4n"}, {"OIHW", "OIHW4i8o"}, {"OIHW", "HWIO"}, {"OIHW", "OHWI2o"}}) {
    Model m;
    const std::vector<int64_t> shape =
        from.size() == 2 ? std::vector<int64_t>{6, 9} : std::vector<int64_t>{10, 6, 3, 2};
    Expr w = m.weight(shape);
    IRModule before =
        m.done(m.op("layout_transform", {w}, op::make_attrs<op::LayoutTransformAttrs>(from, to)));
    EXPECT_EQ(ops_of(apply(before, {"fold_constant"}, {})), Names({})) << to;
  }
}

TEST(FoldScaleAxis, ConstantsOfChainsMeet) {
  Model m;
  auto x = m.param("x", {2, 3, 4});
  Expr y = m.op("add", {m.op("multiply", {x, m.weight({3, 1}, 1)}), m.weight({3, 1}, 2)});
  y = m.op("add", {m.op("multiply", {y, m.weight({1, 3, 1}, 3)}), op::scalar(0.5, f32)});
  IRModule out =
      apply(m.done(y), {"fold_scale_axis", "eliminate_dead_code"}, {random_array({2, 3, 4})}, 1e-6);
  EXPECT_EQ(ops_of(out), Names({"multiply", "add"}));

  Model n;  // along different axes nothing is gained
  auto z = n.param("x", {2, 3, 4});
  Expr w = n.op("add", {n.op("add", {z, n.weight({3, 1}, 1)}), n.weight({4}, 2)});
  EXPECT_EQ(ops_of(apply(n.done(w), {"fold_scale_axis"}, {random_array({2, 3, 4})})), Names({"add", "add"}));
}

TEST(FoldScaleAxis, LeavesSharedValuesAndOtherAxes) {
  Model m;
  auto x = m.param("x", {1, 3, 4, 4});
  Expr y = m.op("nn.conv2d", {x, m.weight({3, 3, 1, 1})}, conv());
  Expr a = m.op("multiply", {y, m.weight({3, 1, 1}, 2)});
  IRModule shared = apply(m.done(op::tuple({y, a})), {"fold_scale_axis"}, {random_array({1, 3, 4, 4})});
  EXPECT_EQ(ops_of(shared), Names({"nn.conv2d", "multiply"}));

  Model n;
  auto z = n.param("x", {1, 3, 4, 4});
  Expr b = n.op("multiply", {n.op("nn.conv2d", {z, n.weight({4, 3, 1, 1})}, conv()), n.weight({4}, 2)});
  IRModule spatial = apply(n.done(b), {"fold_scale_axis"}, {random_array({1, 3, 4, 4})});
  EXPECT_EQ(ops_of(spatial), Names({"nn.conv2d", "multiply"}));
}

TEST(SimplifyExpr, PaddingJoinsTheConvolution) {
  Model m;
  auto x = m.param("x", {1, 2, 5, 6});
  Expr p = m.op("pad", {x}, op::make_attrs<op::PadAttrs>([](auto& a) {
                  a.pad_width = Array<int64_t>{0, 0, 0, 0, 1, 2, 0, 1};
                }));
  Expr y = m.op("nn.conv2d", {p, m.weight({2, 2, 3, 3})}, conv({1}));
  IRModule out = apply(m.done(y), {"simplify_expr", "eliminate_dead_code"}, {random_array({1, 2, 5, 6})});
  EXPECT_EQ(ops_of(out), Names({"nn.conv2d"}));
}

TEST(SimplifyExpr, ChainsAndIdentities) {
  Model m;
  auto x = m.param("x", {8});
  Expr a = m.op("nn.relu", {m.op("nn.relu", {x})});
  Expr b = m.op("clip", {a}, op::make_attrs<op::ClipAttrs>(0.0, 6.0));
  Expr c = m.op("maximum", {b, b});
  Expr d = m.op("concat", {op::tuple({c})}, op::make_attrs<op::AxisAttrs>(0));
  Expr e = m.op("divide", {d, op::scalar(8, f32)});
  Expr f = m.op("add", {e, m.op("negative", {x})});
  IRModule out = apply(m.done(f), {"simplify_expr", "eliminate_dead_code"}, {random_array({8})});
  EXPECT_EQ(ops_of(out), Names({"clip", "multiply", "subtract"}));
}

TEST(SimplifyExpr, MatmulOfATransposeIsDense) {
  Model m;
  auto x = m.param("x", {2, 3, 5});
  auto w = m.param("w", {7, 5});
  Expr y = m.op("matmul", {x, m.op("permute_dims", {w}, axes({1, 0}))});
  IRModule out = apply(m.done(y), {"simplify_expr", "eliminate_dead_code"},
                       {random_array({2, 3, 5}), random_array({7, 5}, f32, 3)}, 1e-6);
  EXPECT_EQ(ops_of(out), Names({"nn.dense"}));
}

TEST(CommonSubexpr, EqualValuesOnceAlsoForBranches) {
  Model m;
  auto x = m.param("x", {4});
  auto c = m.param("c", {}, boolean);
  Expr a = m.op("exp", {x}), b = m.op("exp", {x});
  Expr t = branch_of([&](BlockBuilder& s) { return s.emit(op::op_call("exp", {x}), "t"); });
  Expr f = branch_of([&](BlockBuilder& s) { return s.emit(op::op_call("sin", {x}), "f"); });
  Expr choice = make<If>(c, t, f);
  choice.edit()->type = x->type;
  Expr chosen = m.builder.emit(choice), s = m.op("sin", {x}), sum = m.op("add", {a, b});
  Expr r = m.op("add", {sum, m.op("add", {chosen, s})});
  NDArray yes = NDArray::zeros({}, boolean);
  yes.set_element_int(0, 1);
  IRModule out =
      apply(m.done(r), {"eliminate_common_subexpr", "eliminate_dead_code"}, {random_array({4}), yes});
  // The sine inside the branch is not there for what follows.
  EXPECT_EQ(ops_of(out), Names({"exp", "sin", "sin", "add", "add", "add"}));
}

TEST(CommonSubexpr, AttributesAndConstantsDistinguish) {
  Model m;
  auto x = m.param("x", {4});
  Expr a = m.op("clip", {x}, op::make_attrs<op::ClipAttrs>(0.0, 1.0)),
       b = m.op("clip", {x}, op::make_attrs<op::ClipAttrs>(0.0, 2.0));
  Expr c = m.op("add", {a, m.weight({4}, 1)}), d = m.op("add", {a, m.weight({4}, 1)}),
       e = m.op("add", {a, m.weight({4}, 2)});
  IRModule out = apply(m.done(op::tuple({b, c, d, e})), {"eliminate_common_subexpr", "eliminate_dead_code"},
                       {random_array({4})});
  EXPECT_EQ(ops_of(out), Names({"clip", "clip", "add", "add"}));
}

TEST(DeadCode, ImpureCallsAndLoopsStay) {
  Model m;
  auto x = m.param("x", {4});
  m.op("exp", {x});
  Expr packed = call(get_op("call_packed"), {Expr(make<ExternFunc>("test.log")), x});
  packed.edit()->type = object_type();
  m.builder.emit(packed);
  IRModule in = m.done(m.op("sin", {x}));
  PassContext context = make_context();
  EXPECT_EQ(ops_of(run_pass("eliminate_dead_code", in, context)), Names({"call_packed", "sin"}));
}

TEST(DeadCode, LongChainsAreFast) {
  Model m;
  Expr x = m.param("x", {2});
  for (int i = 0; i < 20000; ++i) x = m.op("add", {x, x});
  IRModule in = m.done(m.params[0]);
  PassContext context = make_context();
  EXPECT_TRUE(ops_of(run_pass("eliminate_dead_code", in, context)).empty());
}

TEST(RemoveUnused, KeepsWhatEntriesReach) {
  Model m;
  auto x = m.param("x", {2});
  auto p = var("p", x->type);
  auto helper = [&](const std::string& callee) {
    BlockBuilder b = op::make_builder();
    auto q = var("q", x->type);
    Expr r = callee.empty() ? b.emit(op::op_call("exp", {q})) : [&] {
      Expr c = call(global(callee), {q});
      c.edit()->type = x->type;
      return b.emit(c);
    }();
    return make<Function>(Array<VarRef>{q}, b.finish(r), x->type, AttrMap());
  };
  Expr c = call(global("a"), {x});
  c.edit()->type = x->type;
  IRModule in = m.done(m.builder.emit(c));
  in.set("unused", helper("a"));
  in.set("a", helper("b"));
  in.set("b", helper(""));
  PassContext context = make_context();
  IRModule out = run_pass("remove_unused_functions", in, context);
  EXPECT_TRUE(out.find("a") && out.find("b") && out.find("main"));
  EXPECT_FALSE(out.find("unused"));
}

TEST(InferTypes, SymbolicShapesFollow) {
  auto n = tir::var("n");
  auto x = var("x", tensor_type({PrimExpr(n), PrimExpr(4)}, f32));
  auto y = var("y", Type()), z = var("z", Type());
  Expr a = call(get_op("exp"), {x}),
       b = call(get_op("matmul"), {y, constant(random_array({4, 5}))}, op::make_attrs<op::MatmulAttrs>());
  Array<Binding> bindings{make<VarBindingNode>(y, a), make<VarBindingNode>(z, b)};
  Expr body = make<SeqExpr>(Array<BindingBlock>{make<BindingBlockNode>(bindings)}, z);
  IRModule m = IRModule::create();
  m.set("main", make<Function>(Array<VarRef>{x}, body, Type(), AttrMap()));
  PassContext context = make_context();
  IRModule out = run_pass("infer_types", m, context);
  expect_valid(out);
  auto shape = known_shape(main_of(out)->ret_type);
  ASSERT_TRUE(shape && shape->size() == 2);
  EXPECT_TRUE((*shape)[0].same_as(PrimExpr(n)));
  EXPECT_TRUE(tir::is_const_int((*shape)[1], 5));
}

}  // namespace
}  // namespace tenon::graph::testing_graph
