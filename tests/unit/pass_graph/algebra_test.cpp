// SPDX-License-Identifier: Apache-2.0
// Passes that run on request or at -O3: combined contractions, orders of products, mixed precision.
#include "op/attrs_signal.h"
#include "support.h"
#include "target/target.h"

namespace tenon::graph::testing_graph {
namespace {

Expr tuple_of(std::initializer_list<Expr> items) { return op::tuple(Array<Expr>(items)); }
int64_t count(const Names& names, const std::string& name) {
  return std::count(names.begin(), names.end(), name);
}

TEST(CombineParallel, DensesOfOneTensorBecomeOne) {
  Model m;
  VarRef x = m.param("x", {5, 8});
  std::vector<Expr> parts;
  for (int64_t n : {4, 6, 3}) parts.push_back(m.op("matmul", {x, m.weight({8, n}, uint64_t(n))}));
  Expr dense = m.op("nn.dense", {x, m.weight({4, 8}, 3)});
  IRModule out = apply(m.done(tuple_of({parts[0], parts[1], parts[2], dense})),
                       {"combine_parallel_dense", "fold_constant"}, {random_array({5, 8})});
  EXPECT_EQ(ops_of(out), (Names{"matmul", "strided_slice", "strided_slice", "strided_slice", "nn.dense"}));
}

TEST(CombineParallel, TwoAreTooFewAndOtherSizesDoNotFit) {
  Model m;
  VarRef x = m.param("x", {5, 8});
  VarRef y = m.param("y", {5, 8});
  Expr a = m.op("matmul", {x, m.weight({8, 4}, 1)}), b = m.op("matmul", {x, m.weight({8, 4}, 2)});
  Expr c = m.op("matmul", {y, m.weight({8, 4}, 3)});
  IRModule in = m.done(tuple_of({a, b, c}));
  IRModule out = apply(in, {"combine_parallel_dense"}, {random_array({5, 8}), random_array({5, 8}, f32, 9)});
  EXPECT_TRUE(structural_equal(in, out));
}

TEST(CombineParallel, ConvolutionsOfOneImage) {
  Model m;
  VarRef x = m.param("x", {1, 3, 6, 6});
  std::vector<Expr> parts;
  for (int64_t n : {4, 2, 5}) parts.push_back(m.op("nn.conv2d", {x, m.weight({n, 3, 3, 3}, uint64_t(n))}));
  IRModule out = apply(m.done(tuple_of({parts[0], parts[1], parts[2]})),
                       {"combine_parallel_conv2d", "fold_constant"}, {random_array({1, 3, 6, 6})});
  EXPECT_EQ(ops_of(out), (Names{"nn.conv2d", "strided_slice", "strided_slice", "strided_slice"}));
}

TEST(CombineParallel, BatchedProductsWithOperandsKnownBeforeTheFirst) {
  Model m;
  VarRef x = m.param("x", {2, 4, 8});
  std::vector<VarRef> w;
  for (int i = 0; i < 3; ++i) w.push_back(m.param("w" + std::to_string(i), {2, 8, 3}));
  Expr a = m.op("matmul", {x, w[0]}), b = m.op("matmul", {x, w[1]}), c = m.op("matmul", {x, w[2]});
  Expr late = m.op("matmul", {x, m.op("nn.relu", {w[1]})});  // its matrix is made behind the first product
  std::vector<NDArray> inputs{random_array({2, 4, 8})};
  for (uint64_t i = 0; i < 3; ++i) inputs.push_back(random_array({2, 8, 3}, f32, i));
  IRModule out = apply(m.done(tuple_of({a, b, c, late})), {"combine_parallel_batch_matmul"}, inputs);
  EXPECT_EQ(count(ops_of(out), "matmul"), 2);
}

/// Products of x by matrices of these columns, merged by default for 16 lanes of float32.
int64_t products_left(int64_t sum, std::vector<int64_t> columns, bool constant = true) {
  Model m;
  const VarRef x = m.param("x", {5, sum});
  std::vector<NDArray> inputs{random_array({5, sum})};
  Array<Expr> parts;
  for (const int64_t n : columns) {
    Expr w = m.weight({sum, n}, uint64_t(n));
    if (!constant) {
      w = m.param("w" + std::to_string(n), {sum, n});
      inputs.push_back(random_array({sum, n}, f32, uint64_t(n)));
    }
    parts.push_back(m.op("matmul", {x, w}));
  }
  const IRModule in = m.done(op::tuple(parts));
  PassContext context = make_context();
  context.target = parse_target("llvm -mcpu=x86-64-v4");
  const IRModule out = run_pass("fold_constant", run_pass("combine_parallel", in, context), context);
  expect_valid(out);
  expect_close(run(in, inputs), run(out, inputs), 0);
  return count(ops_of(out), "matmul");
}

TEST(CombineParallel, ByDefaultWhereFewerVectorsPayForTheCuts) {
  EXPECT_EQ(products_left(8, {4, 6}), 1);             // one vector in place of two
  EXPECT_EQ(products_left(128, {20, 21, 22}), 1);     // four in place of six
  EXPECT_EQ(products_left(128, {16, 32}), 2);         // full vectors
  EXPECT_EQ(products_left(3, {10, 22}), 2);           // short sums: the cuts take longer
  EXPECT_EQ(products_left(128, {20, 21}, false), 2);  // matrices that the caller gives would be copied
}

TEST(AdjustMatmulOrder, TakesTheCheaperOrder) {
  for (bool left : {true, false}) {
    Model m;
    VarRef a = m.param("a", left ? Array<PrimExpr>{16, 12} : Array<PrimExpr>{1, 12});
    VarRef b = m.param("b", {12, 10});
    VarRef c = m.param("c", left ? Array<PrimExpr>{10, 1} : Array<PrimExpr>{10, 16});
    Expr y = left ? m.op("matmul", {m.op("matmul", {a, b}), c}) : m.op("matmul", {a, m.op("matmul", {b, c})});
    IRModule out =
        apply(m.done(y), {"adjust_matmul_order", "eliminate_dead_code"},
              {random_array(left ? std::vector<int64_t>{16, 12} : std::vector<int64_t>{1, 12}),
               random_array({12, 10}, f32, 2),
               random_array(left ? std::vector<int64_t>{10, 1} : std::vector<int64_t>{10, 16}, f32, 3)},
              1e-5);
    auto bindings = bindings_of(main_of(out)->body);
    ASSERT_EQ(bindings.size(), 2u);
    EXPECT_EQ(*static_shape(bindings[0]->var->type),
              left ? (std::vector<int64_t>{12, 1}) : (std::vector<int64_t>{1, 10}));
  }
}

TEST(AdjustMatmulOrder, LeavesTheCheaperOrderAndSharedProducts) {
  Model m;
  VarRef a = m.param("a", {1, 12}), b = m.param("b", {12, 10}), c = m.param("c", {10, 16});
  IRModule cheap = m.done(m.op("matmul", {m.op("matmul", {a, b}), c}));
  PassContext context = make_context();
  EXPECT_TRUE(structural_equal(cheap, run_pass("adjust_matmul_order", cheap, context)));
  Model n;
  VarRef d = n.param("a", {16, 12}), e = n.param("b", {12, 10}), f = n.param("c", {10, 1});
  Expr shared = n.op("matmul", {d, e});
  IRModule used = n.done(tuple_of({n.op("matmul", {shared, f}), shared}));
  EXPECT_TRUE(structural_equal(used, run_pass("adjust_matmul_order", used, context)));
}

TEST(ExpandMatmulOfSum, KeepsALowRankUpdate) {
  Model m;
  VarRef x = m.param("x", {3, 8}), b = m.param("b", {8, 2}), c = m.param("c", {2, 8});
  Expr w = m.op("add", {m.weight({8, 8}), m.op("matmul", {b, c})});
  IRModule out =
      apply(m.done(m.op("matmul", {x, w})),
            {"expand_matmul_of_sum", "eliminate_dead_code", "adjust_matmul_order", "eliminate_dead_code"},
            {random_array({3, 8}), random_array({8, 2}, f32, 1), random_array({2, 8}, f32, 2)}, 1e-5);
  EXPECT_EQ(ops_of(out), (Names{"matmul", "matmul", "matmul", "add"}));
  for (const Binding& binding : bindings_of(main_of(out)->body))
    EXPECT_EQ((*static_shape(binding->var->type))[0], 3);  // no product of weights is left
}

TEST(ReorderPermuteDimsAfterConcat, TransposesOnce) {
  Model m;
  VarRef a = m.param("a", {2, 3, 4}), b = m.param("b", {2, 3, 5});
  auto axes = [] { return op::make_attrs<op::AxesAttrs>(Array<int64_t>{2, 0, 1}); };
  Expr y = m.op("concat", {tuple_of({m.op("permute_dims", {a}, axes()), m.op("permute_dims", {b}, axes())})},
                op::make_attrs<op::AxisAttrs>(0));
  IRModule out = apply(m.done(y), {"reorder_permute_dims_after_concat", "eliminate_dead_code"},
                       {random_array({2, 3, 4}), random_array({2, 3, 5}, f32, 5)});
  EXPECT_EQ(ops_of(out), (Names{"concat", "permute_dims"}));
  Model n;
  VarRef c = n.param("a", {2, 3}), d = n.param("b", {3, 2});
  IRModule mixed = n.done(
      n.op("concat", {tuple_of({n.op("permute_dims", {c}), Expr(d)})}, op::make_attrs<op::AxisAttrs>(0)));
  PassContext context = make_context();
  EXPECT_TRUE(structural_equal(mixed, run_pass("reorder_permute_dims_after_concat", mixed, context)));
}

TEST(ReorderTakeAfterMatmul, GathersColumnsOfTheProduct) {
  Model m;
  VarRef x = m.param("x", {3, 4}), ids = m.param("ids", {5}, i64);
  Expr w = m.op("take", {m.weight({4, 6}), ids}, op::make_attrs<op::AxisAttrs>(1));
  IRModule out = apply(m.done(m.op("matmul", {x, w})), {"reorder_take_after_matmul", "eliminate_dead_code"},
                       {random_array({3, 4}), random_array({5}, i64)});
  EXPECT_EQ(ops_of(out), (Names{"matmul", "take"}));
}

TEST(ToMixedPrecision, ContractionsChangeExactOperatorsFollowSoftmaxStays) {
  Model m;
  VarRef x = m.param("x", {1, 4, 6, 6});
  Expr y = m.op("nn.conv2d", {x, m.weight({8, 4, 3, 3})});
  y = m.op("nn.relu", {y});
  Expr both = m.op("concat", {tuple_of({y, y})}, op::make_attrs<op::AxisAttrs>(1));
  Expr z = m.op("nn.conv2d", {both, m.weight({2, 16, 1, 1}, 5)});
  IRModule in = m.done(m.op("nn.softmax", {z}, op::make_attrs<op::AxisAttrs>(1)));
  IRModule out = apply(in, {"to_mixed_precision", "fold_constant", "canonicalize", "eliminate_dead_code"},
                       {random_array({1, 4, 6, 6})}, 0.05);
  EXPECT_EQ(ops_of(out),
            (Names{"cast", "nn.conv2d", "nn.relu", "cast", "concat", "nn.conv2d", "nn.softmax"}));
  for_each_binding(main_of(out)->body, [&](const Binding& b) {
    const Op* op = op_of(b->value);
    const auto* type = as_tensor(b->var);
    if (op && op->name.starts_with("nn.conv")) {
      EXPECT_EQ(type->dtype, f32);  // its sums; what it reads is narrow
      EXPECT_EQ(as_tensor(b->value.as<Call>()->args[0])->dtype, DataType::bfloat16());
    }
    if (op && op->name == "concat") {
      EXPECT_EQ(type->dtype, DataType::bfloat16());
    }
    if (op && op->name == "nn.softmax") {
      EXPECT_EQ(type->dtype, f32);
    }
  });
}

TEST(ToMixedPrecision, ArithmeticOfAKernelIsNotRounded) {
  Model m;
  VarRef x = m.param("x", {1, 4, 6, 6});
  Expr y = m.op("nn.conv2d", {x, m.weight({8, 4, 3, 3})});
  Expr gate = m.op("sigmoid", {m.op("add", {y, m.weight({1}, 7)})});  // y · sigmoid(y + b) / c: one kernel
  y = m.op("divide", {m.op("multiply", {y, gate}), m.weight({1}, 8)});
  IRModule in = m.done(m.op("nn.conv2d", {y, m.weight({2, 8, 1, 1}, 5)}));
  IRModule out = apply(in, {"to_mixed_precision", "fold_constant", "canonicalize", "eliminate_dead_code"},
                       {random_array({1, 4, 6, 6})}, 0.05);
  EXPECT_EQ(ops_of(out),
            (Names{"cast", "nn.conv2d", "add", "rough_sigmoid", "multiply", "divide", "cast", "nn.conv2d"}));
}

TEST(ToMixedPrecision, FewerDigitsOnlyBetweenBFloat16) {
  Model m;
  VarRef x = m.param("x", {5, 8});
  Expr y = m.op("erf", {m.op("sigmoid", {x})});  // of no contraction
  y = m.op("erf", {m.op("matmul", {y, m.weight({8, 8})})});
  y = m.op("nn.softmax", {m.op("matmul", {y, m.weight({8, 8}, 6)})},
           op::make_attrs<op::AxisAttrs>(int64_t(-1)));
  y = m.op("sigmoid", {m.op("matmul", {y, m.weight({8, 8}, 5)})});  // the result
  const IRModule in = m.done(y);
  for (const char* type : {"bfloat16", "float16"}) {
    PassContext context = make_context();
    context.options.set("to_mixed_precision.dtype", type);
    IRModule out = run_pass("to_mixed_precision", in, context);
    expect_valid(out);
    expect_close(run(in, {random_array({5, 8})}), run(out, {random_array({5, 8})}), 0.02);
    Names functions;
    for (const std::string& op : ops_of(out))
      if (op != "cast" && op != "matmul") functions.push_back(op);
    const bool rough = std::string_view(type) == "bfloat16";
    EXPECT_EQ(functions, (Names{"sigmoid", "erf", rough ? "rough_erf" : "erf",
                                rough ? "nn.rough_softmax" : "nn.softmax", "sigmoid"}))
        << type;
  }
}

TEST(ToMixedPrecision, SymbolicSizesStayWhereMatrixRegistersAlonePay) {
  // Rows of any number by one matrix, and products of matrices that are both computed.
  struct Case {
    PrimExpr rows;
    bool one_matrix, on_sapphire_rapids;
  };
  const PrimExpr n = tir::var("n");
  for (const Case& c : {Case{PrimExpr(5), true, true}, Case{n, true, true}, Case{PrimExpr(5), false, true},
                        Case{n, false, false}})
    for (const char* target : {"llvm -mcpu=sapphirerapids", "llvm -mcpu=znver4"}) {
      Model m;
      VarRef x = m.param("x", {c.rows, PrimExpr(8)});
      const Expr y = c.one_matrix ? m.weight({8, 8}) : Expr(m.param("y", {PrimExpr(8), c.rows}));
      const IRModule in = m.done(m.op("matmul", {x, y}));
      PassContext context = make_context();
      context.target = parse_target(target);
      const Names ops = ops_of(run_pass("to_mixed_precision", in, context));
      const bool rounds = c.on_sapphire_rapids || std::string_view(target).ends_with("znver4");
      EXPECT_EQ(std::ranges::count(ops, "cast") > 0, rounds)
          << target << " " << print(c.rows) << " " << c.one_matrix;
    }
}

TEST(ToMixedPrecision, AFreeBatchChangesNothing) {
  const PrimExpr n = tir::var("n"), w = tir::var("w");
  auto rounds = [](Model& m, const Expr& y) {
    const IRModule in = m.done(y);
    PassContext context = make_context();
    context.target = parse_target("llvm -mcpu=sapphirerapids");
    const Names ops = ops_of(run_pass("to_mixed_precision", in, context));
    return std::ranges::count(ops, "cast") > 0;
  };
  for (const bool known : {true, false}) {
    Model image, tokens;
    const PrimExpr width = known ? PrimExpr(6) : w;
    VarRef x = image.param("x", {n, PrimExpr(16), PrimExpr(5), width});
    EXPECT_EQ(rounds(image, image.op("nn.conv2d", {x, image.weight({16, 16, 3, 3})})), known);
    VarRef a = tokens.param("a", {n, width, PrimExpr(8)}), b = tokens.param("b", {n, PrimExpr(8), width});
    EXPECT_EQ(rounds(tokens, tokens.op("matmul", {a, b})), known);
  }
}

TEST(ToMixedPrecision, GroupsThatFillNoVectorsStay) {
  struct Case {
    int64_t channels, groups;
    bool narrow;
  };
  for (const auto& [channels, groups, narrow] : {Case{24, 2, false}, {64, 2, true}, {32, 32, false}}) {
    Model m;
    VarRef x = m.param("x", {1, channels, 3, 3});
    Expr y = m.op("nn.conv2d", {x, m.weight({channels, channels / groups, 1, 1})},
                  op::make_attrs<op::ConvAttrs>([g = groups](op::ConvAttrs& a) { a.groups = g; }));
    PassContext context = make_context();
    context.target = parse_target("llvm -mcpu=znver4");
    const IRModule out = run_pass("to_mixed_precision", m.done(y), context);
    expect_valid(out);
    EXPECT_EQ(ops_of(out).front() == "cast", narrow) << channels;
  }
}

TEST(ToMixedPrecision, DepthwiseWidensWhatItPads) {
  // Between two products a depthwise convolution reads 16 bits where it makes a padded copy anyway.
  for (const int64_t pad : {1, 0}) {
    Model m;
    VarRef x = m.param("x", {1, 8, 6, 6});
    Expr y = m.op("nn.relu", {m.op("nn.conv2d", {x, m.weight({24, 8, 1, 1})})});
    y = m.op("nn.relu", {m.op("nn.conv2d", {y, m.weight({24, 1, 3, 3}, 3)},
                              op::make_attrs<op::ConvAttrs>([pad](op::ConvAttrs& a) {
                                a.groups = 24;
                                a.padding = {pad, pad, pad, pad};
                              }))});
    const IRModule in = m.done(m.op("nn.conv2d", {y, m.weight({8, 24, 1, 1}, 5)}));
    PassContext context = make_context();
    context.target = parse_target("llvm -mcpu=znver4");
    const IRModule out = run_pass("to_mixed_precision", in, context);
    expect_valid(out);
    const NDArray image = random_array({1, 8, 6, 6});
    expect_close(run(in, {image}), run(out, {image}), 0.05);
    std::vector<DataType> data, weights;
    for_each_binding(main_of(out)->body, [&](const Binding& b) {
      if (!op_of(b->value) || op_of(b->value)->name != "nn.conv2d") return;
      EXPECT_EQ(as_tensor(b->var)->dtype, f32);
      data.push_back(as_tensor(b->value.as<Call>()->args[0])->dtype);
      weights.push_back(as_tensor(b->value.as<Call>()->args[1])->dtype);
    });
    const DataType low = DataType::bfloat16();
    EXPECT_EQ(data, (std::vector{low, pad ? low : f32, low}));
    EXPECT_EQ(weights, (std::vector{low, f32, low}));
  }
}

TEST(ToMixedPrecision, Float16OnRequestAndInsideBranches) {
  Model m;
  VarRef x = m.param("x", {3, 4});
  Expr y = m.op("matmul", {x, m.weight({4, 4})});
  Expr sum = m.op("add", {y, x});  // x has not changed: stays
  IRModule in = m.done(sum);
  PassContext context = make_context();
  context.options.set("to_mixed_precision.dtype", "float16");
  IRModule out = run_pass("to_mixed_precision", in, context);
  expect_valid(out);
  expect_close(run(in, {random_array({3, 4})}), run(out, {random_array({3, 4})}), 0.01);
  EXPECT_EQ(ops_of(out), (Names{"cast", "cast", "matmul", "add"}));
  EXPECT_THROW(context.options.set("to_mixed_precision.dtype", "int8"), Error);
}

TEST(EinsumToMatmul, WhereRowsColumnsAndSumHaveLabels) {
  struct {
    std::string subscripts;
    std::vector<int64_t> x, y;
    Names ops;
  } cases[] = {
      {"bihd,bjhd->bhij", {2, 9, 3, 4}, {2, 10, 3, 4}, {"permute_dims", "permute_dims", "matmul"}},
      {"ij,jk->ik", {9, 4}, {4, 5}, {"matmul"}},
      {"ij,jk->ki", {9, 4}, {4, 5}, {"permute_dims", "permute_dims", "matmul"}},
      {"...ij,...jk->...ik", {2, 3, 9, 4}, {2, 3, 4, 5}, {"matmul"}},
      {"bchw,bkc->bkhw", {2, 3, 4, 5}, {2, 9, 3}, {"reshape", "matmul", "reshape"}},
      {"ijk,jil->kl", {3, 4, 9}, {4, 3, 5}, {"permute_dims", "permute_dims", "reshape", "reshape", "matmul"}},
      {"bsd,dhe->bshe", {2, 5, 6}, {6, 3, 4}, {"reshape", "reshape", "matmul", "reshape"}},
      // No rows, columns or sum; a label in one operand alone, or twice in it; an axis that broadcasts.
      {"bi,bj->bij", {3, 4}, {3, 5}, {"einsum"}},
      {"bi,bi->b", {3, 4}, {3, 4}, {"einsum"}},
      {"bij,bj->bi", {3, 4, 5}, {3, 5}, {"einsum"}},
      {"ijk,jl->il", {3, 4, 5}, {4, 6}, {"einsum"}},
      {"ii,ij->ij", {4, 4}, {4, 5}, {"einsum"}},
      {"bij,bjk->bik", {1, 4, 5}, {3, 5, 6}, {"einsum"}}};
  for (const auto& c : cases) {
    Model m;
    const Expr x = m.param("x", Array<PrimExpr>(c.x.begin(), c.x.end())),
               y = m.param("y", Array<PrimExpr>(c.y.begin(), c.y.end()));
    const IRModule in =
        m.done(m.op("einsum", {tuple_of({x, y})}, op::make_attrs<op::EinsumAttrs>(c.subscripts)));
    const IRModule out = apply(in, {"einsum_to_matmul", "eliminate_dead_code"},
                               {random_array(c.x), random_array(c.y, f32, 9)}, 1e-5);
    EXPECT_EQ(ops_of(out), c.ops) << c.subscripts << "\n" << print(out);
  }
}

TEST(EinsumToMatmul, ThreeOperandsAreTakenTwoAtATime) {
  struct {
    std::string subscripts;
    std::vector<int64_t> x, y, z;
    Names ops;
  } cases[] = {// The second and third first: 5·6·2 products rather than 9·5·6.
               {"ij,jk,kl->il", {9, 5}, {5, 6}, {6, 2}, {"matmul", "matmul"}},
               {"ij,jk,kl->il", {2, 9}, {9, 6}, {6, 5}, {"matmul", "matmul"}},
               {"...ij,...jk,...kl->...li", {3, 2, 9}, {3, 9, 6}, {3, 6, 5}, {"matmul", "matmul"}},
               {"bi,bj,bk->bijk", {2, 3}, {2, 4}, {2, 5}, {"einsum"}},
               {"ii,ij,jk->ik", {4, 4}, {4, 5}, {5, 3}, {"einsum"}},
               {"ij,jk,kl->il", {2, 9}, {1, 6}, {6, 5}, {"einsum"}}};
  for (const auto& c : cases) {
    Model m;
    const Expr x = m.param("x", Array<PrimExpr>(c.x.begin(), c.x.end())),
               y = m.param("y", Array<PrimExpr>(c.y.begin(), c.y.end())),
               z = m.param("z", Array<PrimExpr>(c.z.begin(), c.z.end()));
    const IRModule in =
        m.done(m.op("einsum", {tuple_of({x, y, z})}, op::make_attrs<op::EinsumAttrs>(c.subscripts)));
    const IRModule out =
        apply(in, {"einsum_to_matmul", "eliminate_dead_code"},
              {random_array(c.x), random_array(c.y, f32, 9), random_array(c.z, f32, 4)}, 1e-4);
    if (c.ops == Names{"einsum"})
      EXPECT_EQ(ops_of(out), c.ops) << c.subscripts << "\n" << print(out);
    else
      EXPECT_EQ(std::ranges::count(ops_of(out), "matmul"), 2) << c.subscripts << "\n" << print(out);
  }
}

/// Lengths that cut the signal or go beyond it, both directions, halves of frequencies, any number of rows.
TEST(DftToMatmul, ComputesTheSame) {
  struct {
    int64_t terms, parts, length;
    bool inverse, onesided;
    Names ops;
  } cases[] = {{1, 1, 1, false, false, {"reshape", "matmul", "reshape"}},
               {5, 2, 5, true, false, {"reshape", "matmul", "reshape"}},
               {24, 1, 24, false, true, {"reshape", "matmul", "reshape"}},
               {13, 2, 24, true, true, {"reshape", "matmul", "reshape"}},
               {4, 2, 9, true, true, {"reshape", "matmul", "reshape"}},
               {3, 2, 7, false, false, {"reshape", "matmul", "reshape"}},
               {30, 2, 12, false, false, {"strided_slice", "reshape", "matmul", "reshape"}},
               {600, 1, 600, false, true, {"signal.dft"}}};
  for (const auto& c : cases)
    for (const int64_t rows : {0, 1, 3}) {
      Model m;
      const Expr x = m.param("x", {tir::var("n"), c.terms, c.parts});
      const IRModule in = m.done(
          m.op("signal.dft", {x, op::shape({c.length})}, op::make_attrs<op::DftAttrs>([&](op::DftAttrs& a) {
                 a.inverse = c.inverse;
                 a.onesided = c.onesided;
               })));
      const IRModule out = apply(in, {"dft_to_matmul"}, {random_array({rows, c.terms, c.parts})}, 1e-5);
      EXPECT_EQ(ops_of(out), c.ops) << c.length << "\n" << print(out);
    }
}

TEST(DftToMatmul, FramesUnderAWindow) {
  Model m;
  const Expr x = m.param("x", {tir::var("n"), 50, 1}), w = m.param("w", {12});
  const IRModule in = m.done(m.op("signal.stft", {x, w}, op::make_attrs<op::StftAttrs>(int64_t(5), true)));
  const IRModule out =
      apply(in, {"dft_to_matmul"}, {random_array({2, 50, 1}), random_array({12}, f32, 5)}, 1e-5);
  EXPECT_EQ(ops_of(out), (Names{"reshape", "signal.frame", "multiply", "matmul", "reshape"}));
}
TEST(DftToMatmul, FramesUnderAWindowOfAnotherType) {
  Model m;
  const Expr x = m.param("x", {2, 50, 1}), w = m.param("w", {12}, i64);
  const IRModule in = m.done(m.op("signal.stft", {x, w}, op::make_attrs<op::StftAttrs>(int64_t(5), true)));
  apply(in, {"dft_to_matmul"}, {random_array({2, 50, 1}), random_array({12}, i64, 5)}, 1e-5);
}

TEST(FoldTranspose, DenseOfManyRowsByWhatIsNoConstant) {
  for (const int64_t rows : {8, 9})
    for (const bool constant : {false, true}) {
      Model m;
      const Expr x = m.param("x", {PrimExpr(rows), 6}),
                 w = constant ? m.weight({5, 6}, 1) : Expr(m.param("w", {5, 6}));
      std::vector<NDArray> inputs{random_array({rows, 6})};
      if (!constant) inputs.push_back(random_array({5, 6}, f32, 2));
      const IRModule out =
          apply(m.done(m.op("nn.dense", {x, w})), {"fold_transpose_into_product"}, inputs, 1e-5);
      EXPECT_EQ(ops_of(out), rows > 8 && !constant ? (Names{"permute_dims", "matmul"}) : (Names{"nn.dense"}));
    }
}

TEST(FoldTranspose, IntoProductsOfFewRows) {
  // How a batch of keys may lie, and whether the product reads it so.
  struct {
    std::vector<int64_t> x, y;
    Array<int64_t> axes;
    bool read_in_place;
  } cases[] = {
      {{2, 3, 1, 32}, {2, 3, 5, 32}, {0, 1, 3, 2}, true}, {{2, 3, 8, 40}, {2, 5, 3, 40}, {0, 2, 3, 1}, true},
      {{3, 4, 40}, {5, 3, 40}, {1, 2, 0}, true},          {{2, 3, 9, 40}, {2, 3, 5, 40}, {0, 1, 3, 2}, false},
      {{3, 4, 40}, {40, 3, 5}, {1, 0, 2}, false},         {{1, 4, 40}, {3, 5, 40}, {0, 2, 1}, false},
      {{3, 1, 40}, {3, 5, 40}, {0, -1, -2}, true},        {{3, 1, 16}, {3, 5, 16}, {0, 2, 1}, false}};
  for (const auto& c : cases) {
    Model m;
    const auto dims = [](const std::vector<int64_t>& sizes) {
      return Array<PrimExpr>(sizes.begin(), sizes.end());
    };
    const Expr x = m.param("x", dims(c.x)), y = m.param("y", dims(c.y));
    const Expr t = m.op("permute_dims", {y}, op::make_attrs<op::AxesAttrs>(c.axes));
    const IRModule out = apply(m.done(m.op("matmul", {x, t})), {"fold_transpose_into_product"},
                               {random_array(c.x), random_array(c.y, f32, 9)}, 1e-5);
    EXPECT_EQ(print(out).find("R.einsum") != std::string::npos, c.read_in_place) << print(out);
  }
}

}  // namespace
}  // namespace tenon::graph::testing_graph
