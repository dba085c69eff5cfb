// SPDX-License-Identifier: Apache-2.0
// Inference of expressions and functions, and the operator table as a whole.
#include "op/infer.h"

#include "ir/pass.h"
#include "op/unify.h"
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
    const bool of_the_language = op->file == "src/op/calls.cpp";  // the interpreter and the VM know it
    EXPECT_TRUE(def.tensor_def || def.evaluate || of_the_language) << "neither a definition nor a rule";
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

// ---------------------------------------------------------------- functions
Ref<graph::Function> function(Array<Ref<graph::Var>> params, Expr body) {
  return make<graph::Function>(params, body, Type(), AttrMap());
}
Expr seq(graph::BlockBuilder& b, Expr result) { return b.finish(std::move(result)); }
Ref<graph::Function> inferred(const Ref<graph::Function>& f) {
  IRModule module = IRModule::create();
  module.set("main", f);
  PassContext context;
  return run_pass("infer_types", module, context).find("main").cast<graph::Function>();
}

TEST(InferFunction, FillsInBindingsAndResultOfItsOwnCopy) {
  PrimExpr n = tir::var("n");
  auto x = input("x", Shape{n, 4});
  graph::BlockBuilder b;  // infers nothing itself
  Expr y = b.emit(graph::call(graph::get_op("nn.relu"), {x}));
  Expr z = b.emit(graph::call(graph::get_op("sum"), {y}, make_attrs<ReduceAttrs>(ints({0}), false)));
  auto f = function({x}, seq(b, z));
  const auto typed = inferred(f);
  EXPECT_EQ(show(*graph::known_shape(typed->ret_type)), "(4,)");
  const auto bindings = graph::bindings_of(typed->body);
  EXPECT_EQ(shape_text(bindings[0]->var), "(n, 4)");
  // Whoever holds the function that was given sees nothing of it.
  for (const auto& binding : graph::bindings_of(f->body)) {
    EXPECT_FALSE(binding->value->type);
    EXPECT_FALSE(binding->var->declared);
  }
  EXPECT_FALSE(f->ret_type);
  EXPECT_FALSE(f->body->type);
}

TEST(InferFunction, Branches) {
  auto c = input("c", Dims{}, boolean);
  auto x = input("x", Dims{2, 3}, f32);
  graph::BlockBuilder t, e, outer;
  Expr a = t.emit(graph::call(graph::get_op("exp"), {x}));
  Expr d = e.emit(op_call("concat", {tuple({x, x})}, make_attrs<AxisAttrs>(0)));
  Expr r = outer.emit(make<graph::If>(Expr(c), seq(t, a), seq(e, d)));
  const auto f = inferred(function({c, x}, seq(outer, r)));
  EXPECT_EQ(graph::as_tensor(f->ret_type)->ndim, 2);
  EXPECT_FALSE(graph::known_shape(f->ret_type));  // (2, 3) or (4, 3)
}

TEST(InferFunction, CallsInTheCallersTerms) {
  PrimExpr m = tir::var("m"), n = tir::var("n");
  auto p = input("p", Shape{m, 2});
  graph::BlockBuilder b = make_builder();
  Expr flat = b.emit(op_call("reshape", {p, graph::shape_expr({m * 2})}));
  const auto callee = inferred(function({p}, seq(b, flat)));
  Expr g = graph::global("f");
  g.edit()->type = function_type(*callee);
  Expr call = graph::call(g, {input("x", Shape{n, 2})});
  EXPECT_EQ(show(*graph::known_shape(infer_type(call))), "(n * 2,)");
  expect_refused([&] { infer_type(graph::call(g, {})); }, "T1103", {"1 parameters", "0 arguments"});
}

// ---------------------------------------------------------------- what inference gathers
TEST(Inference, NotesWhatItTakesForGranted) {
  const PrimExpr n = tir::var("n"), m = tir::var("m");
  auto facts = [](const Expr& call) {
    Inference run;
    EXPECT_TRUE(infer_type(run, call));
    std::vector<std::string> out;
    for (const SizeFact& f : run.facts)
      out.push_back(show({f.have}) + (f.or_one ? " or 1" : "") + " = " + show({f.want}));
    return out;
  };
  using Facts = std::vector<std::string>;
  auto x = input("x", Shape{n, 4}), y = input("y", Shape{m, 4});
  EXPECT_EQ(facts(op_call("concat", {tuple({x, y})}, make_attrs<AxisAttrs>(1))), (Facts{"(n,) = (m,)"}));
  EXPECT_EQ(facts(op_call("add", {x, input("b", Dims{3, 4}, f32)})), (Facts{"(n,) or 1 = (3,)"}));
  EXPECT_EQ(facts(op_call("add", {x, x})), Facts());
  // Those of the operators that a composed one is made of, too.
  EXPECT_EQ(facts(op_call("nn.mse_loss", {x, input("t", Dims{3, 4}, f32)})), (Facts{"(n,) or 1 = (3,)"}));
}

TEST(Inference, TwoRunsDoNotSeeOneAnother) {
  const Expr bad = graph::call(graph::get_op("add"), {input("x", Dims{2}, f32), input("y", Dims{3}, f32)});
  Inference first, second;
  EXPECT_FALSE(infer_type(first, bad));
  EXPECT_FALSE(infer_type(first, bad));
  EXPECT_EQ(first.problems.all().size(), 2u);
  EXPECT_TRUE(second.problems.empty());
  EXPECT_FALSE(typed(second, bad)->type);
  EXPECT_EQ(second.problems.all().size(), 1u);
}

TEST(Inference, AnOpenArgumentLeavesTheCallOpen) {
  auto open = graph::var("x");
  open.edit()->type = make<graph::OpenType>(int64_t(1));
  Inference run;
  EXPECT_TRUE(is_incomplete(infer_type(run, graph::call(graph::get_op("nn.relu"), {open}))));
  EXPECT_TRUE(run.problems.empty());
}

/// Every operator refuses or takes whatever it is given: it never reads an argument, axis or size that is not
/// there.
TEST(EveryOperator, RefusesWhatItCannotTake) {
  const PrimExpr n = tir::var("n");
  std::vector<Expr> operands{input("s", Dims{}, f32),
                             input("v", Dims{3}, f32),
                             input("m", Dims{2, 3}, f32),
                             input("e", Dims{0, 3}, f32),
                             input("i", Dims{2, 3}, i64),
                             input("b", Dims{2, 3}, boolean),
                             input("x", Dims{1, 2, 4, 4}, f32),
                             input("y", Shape{n, 2, n}),
                             shape({2, 3}),
                             graph::shape_expr({n}),
                             make<graph::PrimValue>(PrimExpr(2))};
  operands.push_back(graph::var("u", graph::tensor_type_unknown(-1, DataType::void_())));
  operands.push_back(graph::var("r", graph::tensor_type_unknown(2, f32)));
  operands.push_back(graph::var("o", graph::object_type()));
  operands.push_back(tuple({operands[2], operands[2]}));
  operands.push_back(tuple({operands[8]}));
  size_t taken = 0, refused = 0;
  for (const auto& op : graph::all_ops()) {
    SCOPED_TRACE(op->name);
    for (size_t seed = 0; seed < 60; ++seed) {
      const size_t count = std::min<size_t>(op->arguments.size() + (seed % 7 == 0), 9);
      Array<Expr> args;
      for (size_t i = 0; i < count; ++i)
        args.push_back(operands[size_t(pseudo(int64_t(i), int64_t(seed)) * double(operands.size()))]);
      Inference run;
      const Type t = infer_type(run, graph::call(op, args, op->default_attrs));
      EXPECT_EQ(bool(t), run.problems.empty());
      ++(t ? taken : refused);
    }
  }
  EXPECT_GT(taken, 1000u);
  EXPECT_GT(refused, 1000u);
}

}  // namespace
}  // namespace tenon::op_test
