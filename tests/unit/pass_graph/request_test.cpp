// SPDX-License-Identifier: Apache-2.0
// Passes that run on request, where a golden text (tests/golden/graph) does not show what they do.
#include "base/function.h"
#include "ir/walk.h"
#include "support.h"

namespace tenon::graph::testing_graph {
namespace {

Expr raw(std::string_view op, Array<Expr> args) { return call(get_op(op), std::move(args)); }

TEST(ToANormalForm, TreesBecomeBindingsAndSharingStays) {
  auto x = var("x", tensor_type({PrimExpr(4)}, f32));
  const Expr shared = raw("exp", {x});
  const Expr tree = raw("add", {raw("sin", {shared}), raw("multiply", {shared, shared})});
  IRModule m = IRModule::create();
  m.set("main", make<Function>(Array<VarRef>{x}, tree, Type(), AttrMap()));
  PassContext context = make_context();
  const IRModule out = run_pass("infer_types", run_pass("to_a_normal_form", m, context), context);
  expect_valid(out);
  EXPECT_EQ(ops_of(out), Names({"exp", "sin", "multiply", "add"}));
  const NDArray a = random_array({4});
  const NDArray y = run(out, {a})[0];
  for (int64_t i = 0; i < 4; ++i) {
    const double e = std::exp(a.element(i));
    EXPECT_NEAR(y.element(i), std::sin(e) + e * e, 1e-5);
  }
}

TEST(ToANormalForm, BranchesKeepTheirOwnBindings) {
  auto x = var("x", tensor_type({PrimExpr(4)}, f32)), c = var("c", tensor_type({}, boolean));
  const Expr choice = make<If>(c, raw("exp", {raw("sin", {x})}), Expr(raw("cos", {x})));
  IRModule m = IRModule::create();
  m.set("main", make<Function>(Array<VarRef>{c, x}, Expr(raw("abs", {choice})), Type(), AttrMap()));
  PassContext context = make_context();
  const IRModule out = run_pass("infer_types", run_pass("to_a_normal_form", m, context), context);
  expect_valid(out);
  EXPECT_EQ(ops_of(out), Names({"sin", "exp", "cos", "abs"}));
  EXPECT_EQ(bindings_of(main_of(out)->body).size(), 2u);
}

TEST(ToANormalForm, AChainOf100000NestedCalls) {
  auto x = var("x", tensor_type({PrimExpr(1)}, f32));
  Expr e = x;
  for (int i = 0; i < 100000; ++i) {
    e = raw("negative", {e});
    e.edit()->type = x->type;
  }
  IRModule m = IRModule::create();
  m.set("main", make<Function>(Array<VarRef>{x}, e, Type(), AttrMap()));
  PassContext context = make_context();
  EXPECT_EQ(ops_of(run_pass("to_a_normal_form", m, context)).size(), 100000u);
}

TEST(LabelOps, CallsFromNowhereGetNames) {
  Model m;
  auto x = m.param("x", {4});
  PassContext context = make_context();
  const IRModule out =
      run_pass("label_ops", m.done(m.op("exp", {m.op("nn.relu", {m.op("exp", {x})})})), context);
  expect_valid(out);
  Names labels;
  for (const Binding& b : bindings_of(main_of(out)->body))
    labels.push_back(b->value->origin ? b->value->origin->text : "");
  EXPECT_EQ(labels, Names({"main.exp_0", "main.relu_0", "main.exp_1"}));
}

TEST(UpdateParamType, TypesFollow) {
  Model m;
  auto x = var("x", tensor_type_unknown(2, f32));
  m.params.push_back(x);
  const IRModule in = m.done(m.op("exp", {m.op("nn.relu", {x})}));
  PassContext context = make_context();
  context.options.set("update_param_type.types",
                      Map<std::string, Type>{{"x", tensor_type({PrimExpr(2), PrimExpr(3)}, f32)}});
  const IRModule out = run_pass("update_param_type", in, context);
  expect_valid(out);
  const auto shape = static_shape(main_of(out)->ret_type);
  ASSERT_TRUE(shape);
  EXPECT_EQ(*shape, std::vector<int64_t>({2, 3}));
}

TEST(UpdateParamType, ASizeThatASymbolWasIsThatSizeEverywhere) {
  Model m;
  const tir::VarRef n = tir::var("n", i64);
  auto x = var("x", tensor_type({PrimExpr(n), PrimExpr(4)}, f32));
  m.params.push_back(x);
  // The symbol stands in a shape that is written, too: no other parameter would give it a value.
  const Expr flat = m.op("reshape", {x, shape_expr({PrimExpr(n) * 4})});
  const IRModule in = m.done(m.op("broadcast_to", {flat, shape_expr({PrimExpr(2), PrimExpr(n) * 4})}));
  PassContext context = make_context();
  context.options.set("update_param_type.types",
                      Map<std::string, Type>{{"x", tensor_type({PrimExpr(3), PrimExpr(4)}, f32)}});
  const IRModule out = run_pass("update_param_type", in, context);
  expect_valid(out);
  bool symbolic = false;
  post_order(main_of(out), [&](const ObjectRef& node) { symbolic = symbolic || node.is<tir::Var>(); });
  EXPECT_FALSE(symbolic) << print(out);
  const NDArray a = random_array({3, 4});
  expect_close(run(in, {a}), run(out, {a}), 0);
}

TEST(BindParams, RefusesWhatDoesNotFit) {
  Model m;
  auto x = m.param("x", {4}), w = m.param("w", {4});
  const IRModule in = m.done(m.op("add", {x, w}));
  auto bound = [&](const char* name, NDArray value) {
    PassContext context = make_context();
    context.options.set("bind_params.values", Map<std::string, NDArray>{{name, value}});
    return run_pass("bind_params", in, context);
  };
  EXPECT_THROW(bound("w", random_array({5})), Error);
  EXPECT_THROW(bound("v", random_array({4})), Error);
  const NDArray a = random_array({4}, f32, 1), b = random_array({4}, f32, 2);
  expect_close(run(in, {a, b}), run(bound("w", b), {a}), 0);
}

TEST(LiftTransformParams, MainOfTransformedWeightsIsMain) {
  Model m;
  auto x = m.param("x", {2, 3}), w = m.param("w", {4, 3}), b = m.param("b", {4});
  Expr t = m.op("permute_dims", {m.op("exp", {w})});
  IRModule in = m.done(m.op("add", {m.op("matmul", {x, t}), b}));
  Ref<Function> f = main_of(in);
  f.edit()->attrs.set("num_inputs", Any(int64_t(1)));
  in.set("main", f);
  PassContext context = make_context();
  const IRModule out = run_pass("lift_transform_params", in, context);
  expect_valid(out);
  EXPECT_EQ(ops_of(out), Names({"matmul", "add"}));
  const NDArray xs = random_array({2, 3}, f32, 1), ws = random_array({4, 3}, f32, 2),
                bs = random_array({4}, f32, 3);
  std::vector<NDArray> weights, args{xs};
  flatten(interpret(out, "main_transform_params", {Any(ws), Any(bs)}), weights);
  args.insert(args.end(), weights.begin(), weights.end());
  expect_close(run(in, {xs, ws, bs}), run(out, args), 0);

  // The lazy form fetches each weight when it needs it, and gives each result out.
  std::vector<std::string> log;
  std::map<int64_t, NDArray> given;
  registry::add("test.get_item", tenon::Function([&](Arguments a) -> Any {
                  log.push_back("get " + a[1].as<std::string>());
                  return Any(a[1].as<std::string>() == "w" ? ws : bs);
                }),
                true);
  registry::add("test.set_item", tenon::Function([&](Arguments a) -> Any {
                  given[a[0].as<int64_t>()] = a[1].as<NDArray>();
                  log.push_back("set");
                  return Any();
                }),
                true);
  context.options.set("lazy_transform_params.get_item", "test.get_item");
  context.options.set("lazy_transform_params.set_item", "test.set_item");
  const IRModule lazy = run_pass("lazy_transform_params", out, context);
  expect_valid(lazy);
  interpret(lazy, "main_transform_params", {});
  ASSERT_EQ(given.size(), weights.size());
  for (size_t i = 0; i < weights.size(); ++i) expect_close({weights[i]}, {given[int64_t(i)]}, 0);
  EXPECT_EQ(log, Names({"get w", "set", "get b", "set"}));
  registry::remove("test.get_item");
  registry::remove("test.set_item");
}

TEST(AlterOpImpl, AnotherProgramOfTheSameParameters) {
  Model m;
  auto x = m.param("x", {4}), y = m.param("y", {4});
  PassContext context = make_context();
  IRModule in = run_pass("lower_to_call_tir", m.done(m.op("add", {x, y})), context);
  Model n;
  auto u = n.param("x", {4}), v = n.param("y", {4});
  const IRModule other = run_pass("lower_to_call_tir", n.done(n.op("subtract", {u, v})), context);
  std::string add;
  tir::PrimFunc subtract;
  for (auto [name, f] : in.functions())
    if (auto p = f.cast<tir::PrimFuncNode>()) {
      add = name;
      p.edit()->attrs.set("operator_name", Any(std::string("add")));
      in.set(name, p);
    }
  for (auto [name, f] : other.functions())
    if (auto p = f.cast<tir::PrimFuncNode>()) subtract = p;
  in.set("mine", subtract);
  context.options.set("alter_op_impl.programs", Map<std::string, std::string>{{"add", "mine"}});
  const IRModule out = run_pass("alter_op_impl", in, context);
  expect_valid(out);
  EXPECT_FALSE(out.functions().contains(add));
  const NDArray a = random_array({4}, f32, 1), b = random_array({4}, f32, 2);
  const NDArray z = run(out, {a, b})[0];
  for (int64_t i = 0; i < 4; ++i) EXPECT_EQ(float(z.element(i)), float(a.element(i)) - float(b.element(i)));
}

TEST(FastMath, ErrorsAreWhatTheOperatorsState) {
  Model m;
  auto x = m.param("x", {4001});
  NDArray in = NDArray::empty({4001}, f32);
  for (int64_t i = 0; i < 4001; ++i) in.set_element(i, double(i - 2000) * 0.0435);
  const Expr e = m.op("exp", {x}), t = m.op("tanh", {x}), f = m.op("erf", {x});
  PassContext context = make_context();
  const IRModule out = run_pass("fast_math", m.done(op::tuple({e, t, f})), context);
  EXPECT_EQ(ops_of(out), Names({"fast_exp", "fast_tanh", "fast_erf"}));
  const auto y = run(out, {in});
  for (int64_t i = 0; i < 4001; ++i) {
    const double v = in.element(i);
    EXPECT_NEAR(y[0].element(i) / std::exp(v), 1, 3e-7) << v;
    EXPECT_NEAR(y[1].element(i), std::tanh(v), 3e-7) << v;
    EXPECT_NEAR(y[2].element(i), std::erf(v), 5e-7) << v;
  }
  NDArray nan = in.copy();
  for (int64_t i = 0; i < nan.size(); ++i) nan.set_element(i, NAN);
  for (const NDArray& r : run(out, {nan})) EXPECT_TRUE(std::isnan(r.element(0)));
}

TEST(FuseTir, ContractionsTakeElementWiseReaders) {
  Model m;
  auto x = m.param("x", {3, 4}), w = m.param("w", {4, 5});
  PassContext context = make_context();
  const IRModule in =
      run_pass("lower_to_call_tir", m.done(m.op("nn.relu", {m.op("matmul", {x, w})})), context);
  const std::vector<NDArray> inputs{random_array({3, 4}, f32, 1), random_array({4, 5}, f32, 2)};
  const IRModule one = apply(in, {"fuse_tir"}, inputs);
  EXPECT_EQ(bindings_of(main_of(one)->body).size(), 1u);
  EXPECT_EQ(one.functions().size(), 2u);
  // And apart again.
  context.options.set("split_call_tir_by_pattern.blocks", Array<std::string>{"matmul"});
  const IRModule two = run_pass("split_call_tir_by_pattern", one, context);
  expect_valid(two);
  EXPECT_EQ(bindings_of(main_of(two)->body).size(), 2u);
  expect_close(run(in, inputs), run(two, inputs), 0);
}

TEST(AnnotateTirOpPattern, SeesWhatTheOperatorsAre) {
  const auto kind_of = [](Expr (*make_op)(Model&)) {
    Model m;
    PassContext context = make_context();
    IRModule lowered = run_pass("lower_to_call_tir", m.done(make_op(m)), context);
    for (auto [name, f] : lowered.functions())
      if (auto p = f.cast<tir::PrimFuncNode>()) {
        p.edit()->attrs.erase("op_pattern");
        lowered.set(name, p);
      }
    lowered = run_pass("annotate_tir_op_pattern", lowered, context);
    for (auto [name, f] : lowered.functions())
      if (auto p = f.cast<tir::PrimFuncNode>()) return p->attrs.at("op_pattern").as<int64_t>();
    return int64_t(-1);
  };
  EXPECT_EQ(kind_of([](Model& m) { return m.op("exp", {m.param("x", {4, 5})}); }), 0);
  EXPECT_EQ(kind_of([](Model& m) { return m.op("add", {m.param("x", {4, 5}), m.param("y", {5})}); }), 1);
  EXPECT_EQ(kind_of([](Model& m) { return m.op("permute_dims", {m.param("x", {4, 5})}); }), 2);
  EXPECT_EQ(kind_of([](Model& m) { return m.op("sum", {m.param("x", {4, 5})}); }), 3);
  EXPECT_EQ(kind_of([](Model& m) { return m.op("matmul", {m.param("x", {4, 5}), m.param("y", {5, 3})}); }),
            4);
  EXPECT_EQ(kind_of([](Model& m) { return m.op("nn.softmax", {m.param("x", {4, 5})}); }), 4);
}

TEST(PlanDevices, CopiesStandWhereValuesCross) {
  Model m;
  auto x = m.param("x", {4});
  auto hint = [&](const Expr& e, const char* device) {
    Ref<Op> op = get_op("hint_on_device");
    ObjectRef attrs(op->attrs_type->create());
    op->attrs_type->fields[0].set(attrs.edit(), Any(std::string(device)));
    return m.builder.emit(op::op_call("hint_on_device", {e}, attrs));
  };
  const Expr a = hint(m.op("exp", {x}), "cpu:1");
  const Expr b = m.op("sin", {a});                    // follows its operand
  const Expr c = hint(m.op("add", {b, x}), "cpu:0");  // back
  const IRModule out = apply(m.done(m.op("cos", {c})), {"plan_devices"}, {random_array({4})});
  EXPECT_EQ(ops_of(out), Names({"to_device", "exp", "sin", "to_device", "add", "cos"}));
  Names devices;
  for (const Binding& binding : bindings_of(main_of(out)->body))
    devices.push_back(as_tensor(binding->var->declared)->device);
  EXPECT_EQ(devices, Names({"cpu:1", "cpu:1", "cpu:1", "cpu:0", "cpu:0", "cpu:0"}));
}

TEST(PlanDevices, TuplesOfArgumentsMeetOnOneDevice) {
  Model m;
  auto x = m.param("x", {4}), y = m.param("y", {4});
  Ref<Op> op = get_op("hint_on_device");
  ObjectRef attrs(op->attrs_type->create());
  op->attrs_type->fields[0].set(attrs.edit(), Any(std::string("cpu:1")));
  const Expr a = m.builder.emit(op::op_call("hint_on_device", {m.op("exp", {x})}, attrs));
  const Expr b = m.op("concat", {op::tuple({a, y})}, op::make_attrs<op::AxisAttrs>(0));
  const IRModule in = m.done(b);
  const std::vector<NDArray> inputs{random_array({4}), random_array({4}, f32, 2)};
  EXPECT_EQ(ops_of(apply(in, {"plan_devices"}, inputs)), Names({"to_device", "exp", "to_device", "concat"}));
  for (const std::string& name : ops_of(apply(in, {"plan_devices", "lower_to_call_tir"}, inputs)))
    EXPECT_EQ(name, "call_tir");
}

}  // namespace
}  // namespace tenon::graph::testing_graph
