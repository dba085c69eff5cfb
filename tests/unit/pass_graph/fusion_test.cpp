// SPDX-License-Identifier: Apache-2.0
// Fusion and lowering: which operators become one kernel, and that the kernels compute the same.
#include "pass/graph/fusion/fusion.h"

#include <fmt/format.h>

#include <set>

#include "base/function.h"
#include "ir/bodies.h"
#include "pass/graph/lowering/lower_function.h"
#include "support.h"

namespace tenon::graph::testing_graph {
namespace {

ObjectRef conv(Array<int64_t> padding = {}) {
  return op::make_attrs<op::ConvAttrs>([&](auto& a) { a.padding = padding; });
}
ObjectRef axis(int64_t a) { return op::make_attrs<op::AxisAttrs>(a); }

/// Names of the calls of main behind fusion and lowering: the kernels.
Names kernels(const IRModule& m) {
  Names out;
  for_each_binding(main_of(m)->body, [&](const Binding& b) {
    Expr v = b->value;
    if (v.is<Call>() && is_op(v, "call_tir"))
      out.push_back(v.as<Call>()->args[0].as<GlobalVar>()->name);
    else if (const Op* op = op_of(v))
      out.push_back("R." + op->name);
    else if (const auto* c = v.as<Call>(); c && c->op.is<GlobalVar>())
      out.push_back("@" + c->op.as<GlobalVar>()->name);
  });
  return out;
}

IRModule lowered(const IRModule& m, const std::vector<NDArray>& inputs, double tolerance = 0) {
  IRModule out = apply(m, {"fuse_ops", "lower_to_call_tir", "remove_unused_functions"}, inputs, tolerance);
  for (auto [name, f] : out.functions()) EXPECT_LE(name.size(), 84u) << name;
  return out;
}

TEST(FuseOps, ChainOfElementWise) {
  Model m;
  auto x = m.param("x", {4, 5});
  Expr y = m.op("nn.relu", {m.op("exp", {m.op("add", {x, m.weight({5})})})});
  EXPECT_EQ(kernels(lowered(m.done(y), {random_array({4, 5})})), Names({"fused_add_exp_relu"}));
}

TEST(FuseOps, DiamondIsOneKernel) {
  Model m;
  auto x = m.param("x", {4});
  Expr a = m.op("exp", {x});
  Expr y = m.op("multiply", {m.op("sin", {a}), m.op("cos", {a})});
  EXPECT_EQ(kernels(lowered(m.done(y), {random_array({4})})), Names({"fused_exp_sin_cos_multiply"}));
}

TEST(FuseOps, ValueSeenOutsideEndsItsGroup) {
  Model m;
  auto x = m.param("x", {4});
  Expr a = m.op("exp", {x});
  Expr y = m.op("sin", {a});
  Names k = kernels(lowered(m.done(op::tuple({a, y})), {random_array({4})}));
  EXPECT_EQ(k, Names({"op_exp", "op_sin"}));
}

TEST(FuseOps, ConvolutionTakesItsTail) {
  Model m;
  auto x = m.param("x", {1, 3, 6, 6});
  Expr y = m.op("nn.conv2d", {x, m.weight({4, 3, 3, 3})}, conv({1}));
  y = m.op("nn.relu", {m.op("add", {y, m.weight({4, 1, 1}, 2)})});
  EXPECT_EQ(kernels(lowered(m.done(y), {random_array({1, 3, 6, 6})})), Names({"fused_conv2d_add_relu"}));
}

TEST(FuseOps, ResidualAddJoinsOneConvolution) {
  Model m;
  auto x = m.param("x", {1, 4, 5, 5});
  Expr a = m.op("nn.conv2d", {x, m.weight({4, 4, 3, 3}, 1)}, conv({1}));
  Expr b = m.op("nn.conv2d", {m.op("nn.relu", {a}), m.weight({4, 4, 3, 3}, 2)}, conv({1}));
  Expr y = m.op("nn.relu", {m.op("add", {b, x})});
  EXPECT_EQ(kernels(lowered(m.done(y), {random_array({1, 4, 5, 5})})),
            Names({"fused_conv2d_relu", "fused_conv2d_add_relu"}));
}

TEST(FuseOps, TwoContractionsNeverShareAKernel) {
  Model m;
  auto x = m.param("x", {3, 4});
  Expr a = m.op("matmul", {x, m.weight({4, 4}, 1)}), b = m.op("matmul", {x, m.weight({4, 4}, 2)});
  Names k = kernels(lowered(m.done(m.op("add", {a, b})), {random_array({3, 4})}));
  ASSERT_EQ(k.size(), 2u);
}

TEST(FuseOps, SoftmaxStandsAloneOrTakesElementWise) {
  Model m;
  auto x = m.param("x", {3, 7});
  Expr y = m.op("nn.softmax", {m.op("multiply", {x, op::scalar(0.5, f32)})}, axis(-1));
  Names k = kernels(lowered(m.done(y), {random_array({3, 7})}));
  EXPECT_LE(k.size(), 2u);
}

TEST(FuseOps, ElementWiseInFrontOfAReduction) {
  Model m;
  auto x = m.param("x", {3, 7});
  Expr y = m.op("sum", {m.op("square", {x})},
                op::make_attrs<op::ReduceAttrs>([](auto& a) { a.axis = Array<int64_t>{1}; }));
  EXPECT_EQ(kernels(lowered(m.done(y), {random_array({3, 7})}, 1e-6)), Names({"fused_square_sum"}));
}

TEST(FuseOps, ConcatOfElementWise) {
  Model m;
  auto x = m.param("x", {2, 3});
  auto y = m.param("y", {2, 4});
  Expr c = m.op("concat", {op::tuple({m.op("exp", {x}), m.op("sin", {y})})}, axis(1));
  Names k = kernels(lowered(m.done(c), {random_array({2, 3}), random_array({2, 4}, f32, 3)}));
  EXPECT_EQ(k, Names({"fused_exp_sin_concat"}));
}

TEST(FuseOps, SplitGivesSeveralOutputs) {
  Model m;
  auto x = m.param("x", {4, 6});
  Expr parts = m.op("split", {x}, op::make_attrs<op::SplitAttrs>([](auto& a) {
                      a.axis = 1;
                      a.sections = 2;
                    }));
  Expr a = m.builder.emit(op::get_item(parts, 0)), b = m.builder.emit(op::get_item(parts, 1));
  Expr y = m.op("multiply", {a, m.op("sigmoid", {b})});
  IRModule in = m.done(op::tuple({y, b}));
  lowered(in, {random_array({4, 6})});
}

TEST(FuseOps, LimitOfDepth) {
  Model m;
  Expr x = m.param("x", {4});
  for (int i = 0; i < 20; ++i) x = m.op(i % 2 ? "sin" : "exp", {x});
  IRModule in = m.done(x);
  PassContext context = make_context();
  context.options.set("fuse_ops.max_depth", 5);
  IRModule out = run_pass("fuse_ops", in, context);
  expect_valid(out);
  EXPECT_GE(ops_of(out).size(), 4u);
  for (auto [name, f] : out.functions()) {
    if (f.is<Function>() && is_primitive(*f.as<Function>())) {
      EXPECT_LE(bindings_of(f.as<Function>()->body).size(), 5u);
    }
  }
  expect_close(run(in, {random_array({4})}), run(out, {random_array({4})}), 0);
}

TEST(FuseOps, InsideBranchesAndAround) {
  Model m;
  auto x = m.param("x", {4});
  auto c = m.param("c", {}, boolean);
  auto branch = [&](const char* first, const char* second) {
    BlockBuilder b = op::make_builder();
    Expr r = b.emit(op::op_call(second, {b.emit(op::op_call(first, {x}), std::string(first) + "_v")}),
                    std::string(second) + "_v");
    return b.finish(r);
  };
  Expr choice = make<If>(c, branch("exp", "sin"), branch("cos", "tanh"));
  choice.edit()->type = x->type;
  Expr y = m.op("negative", {m.op("abs", {m.builder.emit(choice)})});
  NDArray yes = NDArray::zeros({}, boolean);
  IRModule out = lowered(m.done(y), {random_array({4}), yes});
  EXPECT_EQ(kernels(out), Names({"fused_exp_sin", "fused_cos_tanh", "fused_abs_negative"}));
}

TEST(FuseOps, InsideLoops) {
  Model m;
  auto x = m.param("x", {4});
  auto i = var("i", tensor_type({}, i64)), s = var("s", x->type);
  BlockBuilder cond = op::make_builder(), body = op::make_builder();
  Expr less = cond.emit(op::op_call("less", {i, op::scalar(3, i64)}), "go");
  Expr condition = cond.finish(less);
  Expr next = body.emit(op::op_call("add", {i, op::scalar(1, i64)}), "next");
  Expr t = body.emit(op::op_call("tanh", {body.emit(op::op_call("add", {s, x}), "sum")}), "t");
  Expr step = body.finish(op::tuple({next, t}));
  Expr loop = make<While>(Array<VarRef>{i, s}, Array<Expr>{op::scalar(0, i64), x}, condition, step);
  loop.edit()->type = op::infer_type(loop);
  Expr all = m.builder.emit(loop);
  IRModule out = lowered(m.done(m.builder.emit(op::get_item(all, 1))), {random_array({4})});
  Names k = kernels(out);
  EXPECT_TRUE(std::find(k.begin(), k.end(), "fused_add_tanh") != k.end());
}

/// (k + 3) // 4 of a size k, which itself is a quotient whose sign no proof shows; and a reshape that makes
/// the product of two such sizes.
TEST(FuseOps, SizesThatFollowFromOthersAreSymbols) {
  PassContext context = make_context();
  const std::string rows = "n * 3 + T.max(m - 2, 0)", columns = "n * 24 // (" + rows + ")",
                    fourth = "T.max((" + columns + " + 3) // 4, 0)";
  const std::string text = fmt::format(R"(
@R.function
def main(a: R.Tensor((n, m), "float32"), x: R.Tensor(({0}, {1}), "float32"), y: R.Tensor(({0}, {2}), "float32")):
    b = R.strided_slice(x, axes=[1], begin=[T.int64(0)], end=[T.int64(9223372036854775807)], strides=[4])
    c = R.slice_to(b, R.shape([{0}, {2}]))
    d = R.add(c, y)
    e = R.reshape(d, R.shape([{2} * T.max(m - 2, 0) + {2} * n * 3]))
    return (a, e)
)",
                                       rows, columns, fourth);
  const IRModule m = run_pass("infer_types", parse_module(text), context);
  const std::vector<NDArray> inputs{random_array({5, 3}), random_array({16, 7}, f32, 8),
                                    random_array({16, 2}, f32, 9)};
  const IRModule out = apply(m, {"fuse_ops"}, inputs);
  const auto f = out.find("fused_strided_slice_slice_to_add_reshape").cast<Function>();
  ASSERT_TRUE(f) << print(out);
  for (const VarRef& p : f->params) {
    const auto shape = known_shape(p->declared);
    for (const PrimExpr& d : *shape) EXPECT_TRUE(d.is<tir::Var>()) << print(d);
  }
  const auto result = known_shape(f->ret_type);
  EXPECT_EQ(print((*result)[0]), "s0 * s2");
  apply(m, {"fuse_ops", "lower_to_call_tir"}, inputs);
}

TEST(Lowering, OperatorsThatAreFormulasTakeTuples) {
  PassContext context = make_context();
  const IRModule in = run_pass("infer_types", parse_module(R"(
@I.ir_module
class Module:
    @R.function
    def main(a: R.Tensor((2, 3), "int8"), b: R.Tensor((2, 2), "int8")) -> R.Tensor((2, 5), "int8"):
        return R.qnn.concat((a, b), R.const([0.5, 0.25], "float32"), R.const([3, -4], "int8"), R.const(1.0, "float32"), R.const(2, "int8"), axis=1)
)"),
                               context);
  const DataType i8 = DataType::int_(8);
  const IRModule out = apply(in, {"to_a_normal_form", "lower_to_call_tir"},
                             {random_array({2, 3}, i8), random_array({2, 2}, i8, 8)});
  EXPECT_EQ(kernels(out), Names({"op_concat"}));
}

TEST(Lowering, EqualProgramsOnce) {
  Model m;
  auto x = m.param("x", {2, 4, 4, 4});
  Expr y = x;
  for (int i = 0; i < 3; ++i) {
    y = m.op("nn.conv2d", {y, m.weight({4, 4, 3, 3}, uint64_t(i))}, conv({1}));
    y = m.op("nn.relu", {y});
  }
  IRModule out = lowered(m.done(y), {random_array({2, 4, 4, 4})});
  size_t programs = 0;
  for (auto [name, f] : out.functions()) programs += f.is<tir::PrimFuncNode>();
  EXPECT_EQ(programs, 1u);
}

TEST(Lowering, SymbolicSizesAreTrailingScalars) {
  Model m;
  auto n = tir::var("n"), k = tir::var("k");
  auto x = m.param("x", {PrimExpr(n), PrimExpr(k)});
  auto y = m.param("y", {PrimExpr(k)});
  Expr z = m.op("nn.relu", {m.op("add", {x, y})});
  IRModule out = lowered(m.done(z), {random_array({3, 5}), random_array({5}, f32, 2)});
  auto f = out.find("fused_add_relu").cast<tir::PrimFuncNode>();
  ASSERT_TRUE(f);
  ASSERT_EQ(f->params.size(), 5u);
  EXPECT_TRUE(f->params[3]->dtype == i64 && f->params[4]->dtype == i64);
}

TEST(Lowering, ReshapeIsAView) {
  Model m;
  auto x = m.param("x", {2, 6});
  Expr y =
      m.op("nn.softmax", {m.op("reshape", {m.op("nn.softmax", {x}, axis(-1)), op::shape({3, 4})})}, axis(-1));
  IRModule in = m.done(y);
  PassContext context = make_context();
  IRModule out = run_pass("lower_to_call_tir", in, context);
  expect_valid(out);
  EXPECT_EQ(kernels(out), Names({"op_softmax", "R.call_pure_packed", "op_softmax_1"}));
}

/// A reshape whose rows end inside of vectors stays outside of a kernel that moves elements.
TEST(Lowering, ReshapesSplitNoVectors) {
  for (const int64_t width : {5, 16}) {
    Model m;
    auto x = m.param("x", {2, width, 16});
    const Expr turned = m.op("permute_dims", {x}, op::make_attrs<op::AxesAttrs>(Array<int64_t>{0, 2, 1}));
    const IRModule in =
        m.done(m.op("nn.softmax", {m.op("reshape", {turned, op::shape({2, 16 * width})})}, axis(-1)));
    const IRModule out = lowered(in, {random_array({2, width, 16})});
    EXPECT_EQ(kernels(out), width == 5 ? Names({"op_permute_dims", "R.call_pure_packed", "op_softmax"})
                                       : Names({"fused_permute_dims_reshape", "op_softmax"}));
  }
}

/// Pixels and channels that a reshape takes apart keep to themselves: no index is divided by a size.
/// `padded`: the number of pixels is a sum, (h + 1) · (w + 1).
TEST(Lowering, ReshapesDivideByNoSizes) {
  for (const bool padded : {false, true}) {
    Model m;
    const PrimExpr n = tir::var("n"), a = tir::var("h"), b = tir::var("w"), h = padded ? a + 1 : a,
                   w = padded ? b + 1 : b;
    const Expr x = m.param("x", {n, a, b}),
               padding = padded ? m.op("pad", {x}, op::make_attrs<op::PadAttrs>([](auto& p) {
                                         p.pad_width = Array<int64_t>{0, 0, 0, 1, 0, 1};
                                       }))
                                : x;
    const auto axes = [](Array<int64_t> order) { return op::make_attrs<op::AxesAttrs>(order); };
    const Expr pixels = m.op("reshape", {padding, graph::shape_expr({n, 1, -1})}),
               channels = m.op("multiply", {pixels, m.weight({6, 1}, 3)}),
               rows = m.op("permute_dims", {channels}, axes({0, 2, 1})),
               wide = m.op("nn.softmax", {rows}, axis(-1)),
               back = m.op("permute_dims", {wide}, axes({0, 2, 1}));
    const IRModule in = m.done(m.op("reshape", {back, graph::shape_expr({n * 2, 3, h, w})}));
    const IRModule out = lowered(in, {random_array({2, 3, 5})});
    bool found = false;
    for (auto [name, f] : out.functions()) {
      if (!f.is<tir::PrimFuncNode>() || name.find("permute_dims_reshape") == std::string::npos) continue;
      found = true;
      post_order(f, [&](const ObjectRef& node) {
        const auto* d = node.as<tir::FloorDiv>();
        const auto* r = node.as<tir::FloorMod>();
        if (d || r) {
          EXPECT_TRUE(tir::as_int(d ? d->b : r->b)) << print(f);
        }
      });
    }
    EXPECT_TRUE(found);
  }
}

TEST(Lowering, NamesSourcesOfTheModel) {
  Model m;
  auto x = m.param("x", {4});
  const Origin o = make<OriginObj>("model.onnx, node 'exp1' (Exp-13)");
  Expr y = m.builder.emit(op::op_call("exp", {x}, {}, o));
  IRModule out = lowered(m.done(m.op("sin", {y})), {random_array({4})});
  auto f = out.find("fused_exp_sin").cast<tir::PrimFuncNode>();
  ASSERT_TRUE(f);
  auto sources = f->attrs.at("tenon.source").as<Array<std::string>>();
  ASSERT_EQ(sources.size(), 1u);
  EXPECT_EQ(sources[0], "model.onnx, node 'exp1' (Exp-13)");
}

TEST(Lowering, LongGroupsHaveShortNames) {
  Model m;
  Expr x = m.param("x", {4});
  for (int i = 0; i < 30; ++i) x = m.op("sigmoid", {x});
  IRModule out = lowered(m.done(x), {random_array({4})});
  for (const std::string& k : kernels(out)) EXPECT_LE(k.size(), 80u);
}

TEST(InPlace, OnlyPointwiseReads) {
  auto program = [](std::function<Expr(Model&, const Expr&)> f) {
    Model m;
    auto x = m.param("x", {4, 4});
    Expr y = f(m, x);
    PassContext context = make_context();
    IRModule out = run_pass("lower_to_call_tir", run_pass("fuse_ops", m.done(y), context), context);
    for (auto [name, p] : out.functions())
      if (p.is<tir::PrimFuncNode>()) return p.cast<tir::PrimFuncNode>();
    return tir::PrimFunc();
  };
  EXPECT_TRUE(may_write_in_place(
      program([](Model& m, const Expr& x) { return m.op("exp", {m.op("nn.relu", {x})}); }), 0, 1));
  EXPECT_TRUE(may_write_in_place(
      program([](Model& m, const Expr& x) { return m.op("add", {m.op("sin", {x}), m.op("cos", {x})}); }), 0,
      1));
  EXPECT_FALSE(may_write_in_place(program([](Model& m, const Expr& x) {
                                    return m.op("permute_dims", {x}, op::make_attrs<op::AxesAttrs>());
                                  }),
                                  0, 1));
  EXPECT_FALSE(may_write_in_place(
      program([](Model& m, const Expr& x) { return m.op("nn.softmax", {x}, axis(-1)); }), 0, 1));
  EXPECT_FALSE(
      may_write_in_place(program([](Model& m, const Expr& x) { return m.op("matmul", {x, x}); }), 0, 1));
  EXPECT_FALSE(may_write_in_place(
      program([](Model& m, const Expr& x) {
        return m.op("add", {m.op("exp", {x}), m.op("permute_dims", {x}, op::make_attrs<op::AxesAttrs>())});
      }),
      0, 1));
}

TEST(Explain, TellsKindsAndGroups) {
  Model m;
  auto x = m.param("x", {4});
  IRModule in = m.done(m.op("exp", {m.op("sin", {x})}));
  PassContext context = make_context();
  std::string text;
  context.report = [&](std::string_view pass, const Any& report) {
    EXPECT_EQ(pass, "fuse_ops");
    text += report.as<std::string>();
  };
  run_pass("fuse_ops", in, context);
  EXPECT_NE(text.find("sin"), text.npos);
  EXPECT_NE(text.find("computed in the kernel of"), text.npos);
}

// What a program assumes of sizes is said in one order, wherever its symbols lie in memory.
TEST(LowerToCallTir, TextOfAssumedSizesDoesNotFollowAddresses) {
  std::set<std::string> texts;
  std::vector<ObjectRef> between;  // moves what is made next
  for (int i = 0; i < 16; ++i) {
    const IRModule m = parse_module(R"(
@R.function
def main(x: R.Tensor((n, 6, 16, 16), "float32"), w: R.Tensor((s, 6, t, u), "float32"), b: R.Tensor((v,), "float32")):
    y = R.nn.conv2d(x, w)
    z = R.nn.bias_add(y, b, axis=1)
    return z
)");
    PassContext context;
    IRModule out = run_pass("infer_types", m, context);
    for (const char* pass : {"fuse_ops", "lower_to_call_tir"}) out = run_pass(pass, out, context);
    texts.insert(print(out));
    for (int k = 0; k < 7 * i; ++k) between.push_back(tir::var("between"));
  }
  EXPECT_EQ(texts.size(), 1u);
}

}  // namespace
}  // namespace tenon::graph::testing_graph
