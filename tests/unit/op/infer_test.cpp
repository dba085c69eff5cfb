// SPDX-License-Identifier: Apache-2.0
// Inference of expressions and functions, and the operator table as a whole.
#include "op/infer.h"

#include "op_test.h"

namespace tenon::op_test {
namespace {

TEST(Table, EveryOperatorIsComplete) {
  size_t defined = 0;
  for (const auto& op : graph::all_ops()) {
    if (op->file.find("src/op/") == std::string::npos) continue;
    SCOPED_TRACE(op->name);
    EXPECT_FALSE(op->doc.empty());
    const OpDef& def = definition(*op);
    EXPECT_TRUE(def.infer);
    EXPECT_TRUE(!op->arguments.empty() || op->attrs_type);
    for (const auto& a : op->arguments) EXPECT_FALSE(a.doc.empty()) << a.name;
    EXPECT_TRUE(def.tensor_def || def.evaluate) << "neither a definition nor a rule";
    defined += bool(def.tensor_def);
    if (!op->attrs_type) continue;
    for (const FieldInfo& f : op->attrs_type->fields) EXPECT_FALSE(f.doc.empty()) << f.name;
  }
  EXPECT_GE(defined, 370u);
}

TEST(InferType, UnknownShapesKeepRankAndType) {
  Expr x = graph::var("x", graph::tensor_type_unknown(3, f16)),
       any = graph::var("y", graph::tensor_type_unknown(-1, DataType::void_()));
  auto type = [](const Expr& e) { return e->type.as<graph::TensorType>(); };
  EXPECT_EQ(type(op_call("exp", {x}))->ndim, 3);
  EXPECT_EQ(type(op_call("exp", {x}))->dtype, f16);
  EXPECT_EQ(type(op_call("add", {x, x}))->ndim, 3);
  EXPECT_EQ(type(op_call("add", {x, any}))->ndim, -1);
  EXPECT_EQ(type(op_call("matmul", {x, x}))->ndim, 3);
  EXPECT_EQ(type(op_call("sum", {x}, make_attrs<ReduceAttrs>(ints({0}), false)))->ndim, 2);
  EXPECT_EQ(type(op_call("permute_dims", {x}))->ndim, 3);
  EXPECT_EQ(type(op_call("squeeze", {x}))->ndim, -1);
  EXPECT_EQ(type(op_call("equal", {any, any}))->dtype, boolean);
  EXPECT_FALSE(can_lower(*op_call("exp", {x}).as<Call>()));
  expect_refused([&] { lower_call(*op_call("exp", {x}).as<Call>()); }, "T1102", {"exp"});
}

TEST(InferType, ErrorsNameTheOrigin) {
  auto origin = make<OriginObj>(std::string("model.onnx, node 'n1' (Add-14)"));
  try {
    op_call("add", {input("x", Dims{2}, f32), input("y", Dims{3}, f32)}, {}, origin);
    FAIL();
  } catch (const DiagnosticError& e) {
    EXPECT_EQ(e.diagnostics[0].location, "model.onnx, node 'n1' (Add-14)");
    EXPECT_NE(std::string(e.what()).find("T1101"), std::string::npos);
  }
}

TEST(InferType, TuplesAndJoin) {
  Expr t = tuple({input("x", Dims{2}, f32), input("y", Dims{3}, i64)});
  EXPECT_EQ(shape_text(get_item(t, 1)), "(3,)");
  expect_refused([&] { get_item(t, 2); }, "T1101", {"item 2", "2"});
  auto tensor = [](Dims d, DataType dt) { return input("t", d, dt)->declared; };
  EXPECT_EQ(graph::as_tensor(join(tensor({2, 3}, f32), tensor({2, 4}, f32)))->ndim, 2);
  EXPECT_FALSE(graph::known_shape(join(tensor({2, 3}, f32), tensor({2, 4}, f32))));
  EXPECT_TRUE(graph::known_shape(join(tensor({2, 3}, f32), tensor({2, 3}, i32))));
  EXPECT_TRUE(graph::as_tensor(join(tensor({2, 3}, f32), tensor({2, 3}, i32)))->dtype.is_void());
  EXPECT_EQ(graph::as_tensor(join(tensor({2}, f32), tensor({2, 3}, f32)))->ndim, -1);
}

Ref<graph::Function> function(Array<Ref<graph::Var>> params, Expr body) {
  return make<graph::Function>(params, body, Type(), AttrMap());
}
Expr seq(graph::BlockBuilder& b, Expr result) { return b.finish(std::move(result)); }

TEST(InferFunction, FillsInBindingsAndResult) {
  PrimExpr n = tir::var("n");
  auto x = input("x", Shape{n, 4});
  graph::BlockBuilder b;  // infers nothing itself
  Expr y = b.emit(graph::call(graph::get_op("nn.relu"), {x}));
  Expr z = b.emit(graph::call(graph::get_op("sum"), {y}, make_attrs<ReduceAttrs>(ints({0}), false)));
  auto f = function({x}, seq(b, z));
  infer_function(f);
  EXPECT_EQ(show(*graph::known_shape(f->ret_type)), "(4,)");
  EXPECT_EQ(shape_text(y), "(n, 4)");
  // After a parameter has changed, everything is inferred anew.
  x.mut()->declared = x.mut()->type = graph::tensor_type({2, 5}, f32);
  infer_function(f, true);
  EXPECT_EQ(show(*graph::known_shape(f->ret_type)), "(5,)");
}

TEST(InferFunction, BranchesAndLoops) {
  auto c = input("c", Dims{}, boolean);
  auto x = input("x", Dims{2, 3}, f32);
  graph::BlockBuilder t, e, outer;
  Expr a = t.emit(graph::call(graph::get_op("exp"), {x}));
  Expr d = e.emit(op_call("concat", {tuple({x, x})}, make_attrs<AxisAttrs>(0)));
  Expr r = outer.emit(make<graph::If>(Expr(c), seq(t, a), seq(e, d)));
  auto f = function({c, x}, seq(outer, r));
  infer_function(f);
  EXPECT_EQ(graph::as_tensor(f->ret_type)->ndim, 2);
  EXPECT_FALSE(graph::known_shape(f->ret_type));  // (2, 3) or (4, 3)

  // A loop that appends a row each time: the number of rows is not known, the rank is.
  auto v = graph::var("v");
  graph::BlockBuilder cond, body, whole;
  Expr row = body.emit(graph::call(graph::get_op("concat"), {make<graph::Tuple>(Array<Expr>{v, v})},
                                   make_attrs<AxisAttrs>(0)));
  Expr next = body.emit(make<graph::Tuple>(Array<Expr>{row}));
  Expr w = whole.emit(
      make<graph::While>(Array<Ref<graph::Var>>{v}, Array<Expr>{x}, seq(cond, c), seq(body, next)));
  auto g = function({c, x}, seq(whole, w));
  infer_function(g);
  const auto* out = g->ret_type.as<graph::TupleType>();
  ASSERT_NE(out, nullptr);
  EXPECT_EQ(graph::as_tensor(out->items[0])->ndim, 2);
  EXPECT_FALSE(graph::known_shape(out->items[0]));
  EXPECT_EQ(graph::as_tensor(out->items[0])->dtype, f32);
}

TEST(InferFunction, DeepNestingNeedsNoStack) {
  auto c = input("c", Dims{}, boolean);
  auto x = input("x", Dims{2}, f32);
  Expr value = x;
  for (int i = 0; i < 5000; ++i) {
    graph::BlockBuilder t, e;
    Expr a = t.emit(i == 0 ? Expr(graph::call(graph::get_op("exp"), {x})) : value);
    value = make<graph::If>(Expr(c), seq(t, a), seq(e, x));
  }
  graph::BlockBuilder outer;
  Expr r = outer.emit(value);
  auto f = function({c, x}, seq(outer, r));
  infer_function(f);
  EXPECT_EQ(show(*graph::known_shape(f->ret_type)), "(2,)");
}

TEST(InferFunction, CallsInTheCallersTerms) {
  PrimExpr m = tir::var("m"), n = tir::var("n");
  auto p = input("p", Shape{m, 2});
  graph::BlockBuilder b = make_builder();
  Expr flat = b.emit(op_call("reshape", {p, graph::shape_expr({m * 2})}));
  auto callee = function({p}, seq(b, flat));
  infer_function(callee);
  Expr g = graph::global("f");
  g.mut()->type = callee->type;
  Expr call = graph::call(g, {input("x", Shape{n, 2})});
  EXPECT_EQ(show(*graph::known_shape(infer_type(call))), "(n * 2,)");
  expect_refused([&] { infer_type(graph::call(g, {})); }, "T1103", {"1 parameters", "0 arguments"});
}

}  // namespace
}  // namespace tenon::op_test
