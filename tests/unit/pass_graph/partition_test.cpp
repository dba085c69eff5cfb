// SPDX-License-Identifier: Apache-2.0
// Dataflow patterns, each kind with what it matches and what it does not, and the passes that take parts of a
// graph to external code generators.
#include "base/function.h"
#include "pass/graph/partition/fuse_ops_by_pattern.h"
#include "support.h"

namespace tenon::graph::testing_graph {
namespace {

using namespace dpl;
using dpl::is_op;  // in front of that of the graph

IRModule typed_module(const std::string& text) {
  PassContext context = make_context();
  return run_pass("infer_types", parse_module(text), context);
}

/// x → conv → relu → add(relu, leaky) → out, and a dense with a constant beside it.
const char* const kText = R"(
@R.function
def main(x: R.Tensor((2, 4), "float32"), w: R.Tensor((3, 4), "float32"), f: R.Tensor((2, 3), "float16")):
    d = R.nn.dense(x, w)
    r = R.nn.relu(d)
    e = R.exp(r)
    t = R.tanh(r)
    s = R.add(e, t)
    k = R.add(s, R.const(1.0, "float32"))
    p = (s, d)
    g = p[1]
    l = R.nn.leaky_relu(g, alpha=0.25)
    h = R.exp(f)
    return (k, l, h)
)";

class Patterns : public testing::Test {
 protected:
  IRModule module = typed_module(kText);
  Ref<Function> main = main_of(module);
  DataflowView view{main->body, module};
  Expr value(const std::string& name) const {
    for (const Binding& b : bindings_of(main->body))
      if (b->var->name == name) return b->var;
    for (const VarRef& p : main->params)
      if (p->name == name) return p;
    ADD_FAILURE() << name;
    return {};
  }
  bool matches(const DFPattern& p, const std::string& name) const {
    return match_pattern(p, value(name), view).has_value();
  }
  static DFPattern any() { return wildcard(); }
  static DFPattern dense() { return is_op("nn.dense", {any(), any()}); }
  static DFPattern unary(const char* op) { return is_op(op, {any()}); }
};

TEST_F(Patterns, Wildcard) {
  EXPECT_TRUE(matches(any(), "d"));
  // One node stands for one value.
  const DFPattern same = any();
  EXPECT_FALSE(matches(is_op("add", {same, same}), "s"));
  EXPECT_TRUE(matches(is_op("add", {any(), any()}), "s"));
}

TEST_F(Patterns, Call) {
  EXPECT_TRUE(matches(dense(), "d"));
  EXPECT_FALSE(matches(dense(), "r"));
  EXPECT_TRUE(matches(is_op("nn.relu", {dense()}), "r"));
  EXPECT_FALSE(matches(is_op("nn.relu", {unary("exp")}), "r"));
  EXPECT_FALSE(matches(dense(), "x"));
  EXPECT_TRUE(matches(make<CallPattern>(any(), Array<DFPattern>{}, true), "l"));
  EXPECT_FALSE(matches(make<CallPattern>(any(), Array<DFPattern>{}, true), "p"));
}

TEST_F(Patterns, ConstantAndExpr) {
  EXPECT_TRUE(matches(is_op("add", {any(), make<ConstantPattern>()}), "k"));
  EXPECT_FALSE(matches(is_op("add", {any(), make<ConstantPattern>()}), "s"));
  EXPECT_TRUE(matches(is_op("nn.dense", {make<ExprPattern>(value("x")), any()}), "d"));
  EXPECT_FALSE(matches(is_op("nn.dense", {make<ExprPattern>(value("w")), any()}), "d"));
}

TEST_F(Patterns, Attributes) {
  auto with = [](const DFPattern& p, const char* name, Any v) {
    AttrMap attrs;
    attrs.set(name, std::move(v));
    return make<AttrPattern>(p, attrs);
  };
  EXPECT_TRUE(matches(with(unary("nn.leaky_relu"), "alpha", Any(0.25)), "l"));
  EXPECT_FALSE(matches(with(unary("nn.leaky_relu"), "alpha", Any(0.5)), "l"));
  EXPECT_FALSE(matches(with(any(), "alpha", Any(0.25)), "s"));
  EXPECT_FALSE(matches(with(any(), "alpha", Any(0.25)), "x"));
}

TEST_F(Patterns, TypesShapesAndDataTypes) {
  EXPECT_TRUE(matches(make<TypePattern>(any(), tensor_type({2, 3}, f32)), "d"));
  EXPECT_FALSE(matches(make<TypePattern>(any(), tensor_type({2, 3}, f16)), "d"));
  EXPECT_TRUE(matches(make<ShapePattern>(any(), Array<PrimExpr>{2, 3}), "d"));
  EXPECT_FALSE(matches(make<ShapePattern>(any(), Array<PrimExpr>{3, 2}), "d"));
  EXPECT_FALSE(matches(make<ShapePattern>(any(), Array<PrimExpr>{2, 3}), "p"));
  EXPECT_TRUE(matches(make<DataTypePattern>(unary("exp"), f16), "h"));
  EXPECT_FALSE(matches(make<DataTypePattern>(unary("exp"), f16), "e"));
}

TEST_F(Patterns, OrAndNot) {
  const DFPattern relu_or_dense = make<OrPattern>(is_op("nn.relu", {dense()}), dense());  // an optional relu
  EXPECT_TRUE(matches(relu_or_dense, "r"));
  EXPECT_TRUE(matches(relu_or_dense, "d"));
  EXPECT_FALSE(matches(relu_or_dense, "e"));
  // What the left side found does not stay when it fails.
  const DFPattern one = any();
  EXPECT_TRUE(matches(
      make<OrPattern>(is_op("add", {one, make<ConstantPattern>()}), is_op("add", {any(), one})), "s"));
  const DFPattern both = make<AndPattern>(unary("exp"), make<DataTypePattern>(any(), f32));
  EXPECT_TRUE(matches(both, "e"));
  EXPECT_FALSE(matches(both, "h"));
  EXPECT_TRUE(matches(make<NotPattern>(unary("exp")), "t"));
  EXPECT_FALSE(matches(make<NotPattern>(unary("exp")), "e"));
}

TEST_F(Patterns, Dominator) {
  const DFPattern path = make<OrPattern>(unary("exp"), unary("tanh"));
  const DFPattern diamond = make<DominatorPattern>(unary("nn.relu"), path, is_op("add", {any(), any()}));
  const auto found = match_pattern(diamond, value("s"), view);
  ASSERT_TRUE(found);
  EXPECT_EQ(found->inside.size(), 4u);  // relu, exp, tanh, add
  EXPECT_FALSE(
      matches(make<DominatorPattern>(unary("nn.relu"), unary("exp"), is_op("add", {any(), any()})), "s"));
  // The dense is used beside the path, too.
  EXPECT_FALSE(matches(
      make<DominatorPattern>(dense(), make<OrPattern>(path, unary("nn.relu")), is_op("add", {any(), any()})),
      "s"));
}

TEST_F(Patterns, TuplesAndItems) {
  EXPECT_TRUE(matches(make<TuplePattern>(Array<DFPattern>{any(), dense()}), "p"));
  EXPECT_FALSE(matches(make<TuplePattern>(Array<DFPattern>{dense(), any()}), "p"));
  EXPECT_FALSE(matches(make<TuplePattern>(Array<DFPattern>{any()}), "p"));
  const DFPattern tuple = make<TuplePattern>(Array<DFPattern>{}, true);
  EXPECT_TRUE(matches(make<TupleGetItemPattern>(tuple, 1), "g"));
  EXPECT_TRUE(matches(make<TupleGetItemPattern>(tuple, -1), "g"));
  EXPECT_FALSE(matches(make<TupleGetItemPattern>(tuple, 0), "g"));
}

TEST_F(Patterns, Functions) {
  const IRModule m = typed_module(R"(
@I.ir_module
class Module:
    @R.function
    def f(a: R.Tensor((2,), "float32")):
        R.func_attr({"Composite": "mine.exp"})
        b = R.exp(a)
        return b
    @R.function
    def main(x: R.Tensor((2,), "float32")):
        y = Module.f(x)
        return y
)");
  const Ref<Function> f = main_of(m);
  const DataflowView v(f->body, m);
  const Expr y = bindings_of(f->body)[0]->var;
  auto call_of = [&](const char* op) {
    const DFPattern p = wildcard();
    return make<CallPattern>(make<FunctionPattern>(Array<DFPattern>{p}, is_op(op, {p})),
                             Array<DFPattern>{any()});
  };
  EXPECT_TRUE(match_pattern(call_of("exp"), y, v));
  EXPECT_FALSE(match_pattern(call_of("tanh"), y, v));
  AttrMap attrs;
  attrs.set("Composite", Any("mine.exp"));
  EXPECT_TRUE(
      match_pattern(make<CallPattern>(make<AttrPattern>(any(), attrs), Array<DFPattern>{any()}), y, v));
  attrs.set("Composite", Any("other"));
  EXPECT_FALSE(
      match_pattern(make<CallPattern>(make<AttrPattern>(any(), attrs), Array<DFPattern>{any()}), y, v));
}

TEST_F(Patterns, Sequences) {
  auto sequence = [](DFPattern a, DFPattern b, bool only) {
    return make<PatternSequence>(Array<DFPattern>{a, b}, Array<int64_t>{only});
  };
  EXPECT_TRUE(matches(sequence(dense(), unary("nn.relu"), false), "r"));
  EXPECT_FALSE(matches(sequence(dense(), unary("nn.relu"), true), "r"));  // the tuple uses it, too
  EXPECT_TRUE(matches(sequence(unary("exp"), is_op("add", {any(), any()}), true), "s"));
  EXPECT_FALSE(matches(sequence(unary("exp"), is_op("add", {any(), any()}), true), "k"));
}

template <class F>
std::string code_of(F f) {
  try {
    f();
  } catch (const Error& e) {
    return e.code;
  }
  return "none";
}

TEST_F(Patterns, WhatMatchesNothingIsRefused) {
  auto refused = [&](const DFPattern& p) { return code_of([&] { matches(p, "d"); }); };
  AttrMap attrs;
  attrs.set("beta", Any(1.0));
  EXPECT_EQ(refused(is_op("exp", {any(), any()})), "T1150");
  EXPECT_EQ(refused(is_op("exp", {})), "T1150");
  EXPECT_EQ(refused(make<AttrPattern>(unary("exp"), attrs)), "T1150");
  EXPECT_EQ(refused(make<NotPattern>(any())), "T1150");
  EXPECT_EQ(refused(make<OrPattern>()), "T1150");
  EXPECT_EQ(refused(is_op("exp", {DFPattern()})), "T1150");
  EXPECT_EQ(refused(make<PatternSequence>()), "T1150");
  EXPECT_EQ(refused(make<TupleGetItemPattern>(make<TuplePattern>(), 1)), "T1150");
  EXPECT_EQ(code_of([] { is_op("nothing", {}); }), "T0222");
  DFPattern deep = any();
  for (int i = 0; i < 100000; ++i) deep = make<NotPattern>(make<AndPattern>(deep, deep));
  EXPECT_EQ(refused(deep), "T1150");
  DFPattern wide = unary("exp");
  for (int i = 0; i < 60; ++i)
    wide =
        make<AndPattern>(make<NotPattern>(make<NotPattern>(make<NotPattern>(wide))), make<NotPattern>(wide));
  EXPECT_EQ(code_of([&] { match_pattern(make<NotPattern>(wide), value("d"), view, 10); }), "T1151");
}

// ---------------------------------------------------------------- passes
std::vector<NDArray> inputs() {
  return {random_array({2, 4}, f32, 1), random_array({3, 4}, f32, 2), random_array({2, 3}, f16, 3)};
}

/// "mine.dense_relu", then "mine.exp" for float32 only.
void register_table() {
  registry::add("tenon.patterns.mine", tenon::Function([](Arguments) -> Any {
                  auto is_f32 = tenon::Function([](Arguments args) -> Any {
                    return Any(as_tensor(args[0].as<Ref<Function>>()->ret_type)->dtype == f32);
                  });
                  const DFPattern dense = is_op("nn.dense", {wildcard(), wildcard()});
                  return Array<Any>{
                      Any(Array<Any>{"mine.dense", is_op("nn.dense", {wildcard(), wildcard()})}),
                      Any(Array<Any>{"mine.late", is_op("nn.relu", {dense})}),  // overlaps with the first
                      Any(Array<Any>{"mine.exp", is_op("exp", {wildcard()}), is_f32}),
                      Any(Array<Any>{"mine.add", is_op("add", {wildcard(), wildcard()})})};
                }),
                true);
}

PassContext context_of_mine() {
  register_table();
  PassContext context = make_context();
  context.options.set_text("fuse_ops_by_pattern.tables=mine");
  context.options.set_text("annotate_target.targets=mine");
  return context;
}

IRModule partition(IRModule m, PassContext& context, std::initializer_list<std::string_view> passes) {
  const auto before = run(m, inputs());
  for (std::string_view pass : passes) {
    m = run_pass(pass, m, context);
    expect_valid(m);
    EXPECT_TRUE(structural_equal(m, parse_module(print(m)))) << pass << print(m);
    expect_close(before, run(m, inputs()), 0);
  }
  return m;
}

TEST(Partition, PatternsBecomeCompositesRegionsAndSymbols) {
  PassContext context = context_of_mine();
  IRModule m = partition(typed_module(kText), context, {"fuse_ops_by_pattern"});
  EXPECT_EQ(ops_of(m), (Names{"@mine_dense", "nn.relu", "@mine_exp", "tanh", "@mine_add", "@mine_add_1",
                              "nn.leaky_relu", "exp"}))
      << print(m);
  const auto f = m.find("mine_dense").cast<Function>();
  EXPECT_EQ(f->attrs.find("Composite")->as<std::string>(), "mine.dense");
  EXPECT_EQ(f->attrs.find("PartitionedFromPattern")->as<std::string>(), "nn.dense_");
  m = partition(m, context, {"annotate_target", "merge_compiler_regions", "partition_graph"});
  // The exponential feeds both sums, the dense feeds them through the relu: that one stays apart.
  EXPECT_EQ(ops_of(m),
            (Names{"@tenon_mine_main_0", "nn.relu", "tanh", "@tenon_mine_main_1", "nn.leaky_relu", "exp"}))
      << print(m);
}

TEST(Partition, RegionsOfTheDefaultGeneratorComputeWhatTheGraphDoes) {
  PassContext context = make_context();
  context.options.set_text("annotate_target.targets=default");
  IRModule m = partition(typed_module(kText), context,
                         {"annotate_target", "merge_compiler_regions", "partition_graph", "run_codegen"});
  EXPECT_EQ(ops_of(m), (Names{"@tenon_default_main_0", "@tenon_default_main_1", "@tenon_default_main_2"}))
      << print(m);
  EXPECT_FALSE(m.find("tenon_default_main_0").cast<Function>()->attrs.contains("Codegen"));
}

TEST(Partition, ConstantsAreBound) {
  PassContext context = context_of_mine();
  Model model;
  const VarRef x = model.param("x", {2, 4});
  const Expr out = model.op("nn.dense", {x, model.weight({3, 4})});
  const IRModule m = model.done(out);
  const auto want = run(m, {random_array({2, 4})});
  for (const char* option :
       {"fuse_ops_by_pattern.bind_constants=true", "partition_graph.bind_constants=true"}) {
    PassContext own = context;
    own.options.set_text(option);
    IRModule done = m;
    for (const char* pass : {"fuse_ops_by_pattern", "annotate_target", "partition_graph"})
      done = run_pass(pass, done, own);
    expect_valid(done);
    EXPECT_EQ(done.find("tenon_mine_main_0").cast<Function>()->params.size(), 1u) << print(done);
    expect_close(want, run(done, {random_array({2, 4})}), 0);
  }
}

TEST(Partition, GeneratorsThatAreMissingOrFail) {
  PassContext context = context_of_mine();
  IRModule m = typed_module(kText);
  for (const char* pass : {"fuse_ops_by_pattern", "annotate_target", "partition_graph"})
    m = run_pass(pass, m, context);
  auto failure = [&] {
    try {
      run_pass("run_codegen", m, context);
    } catch (const Error& e) {
      return e.code + e.message;
    }
    return std::string("none");
  };
  EXPECT_TRUE(failure().starts_with("T1153")) << failure();
  EXPECT_NE(failure().find("region `tenon_mine_main_0` of nn.dense"), std::string::npos) << failure();
  auto generator = [](std::function<Any(Arguments)> f) {
    registry::add("tenon.ext.mine", tenon::Function(f), true);
  };
  generator([](Arguments) -> Any { throw Error(ErrorKind::usage, "T0102", "no licence"); });
  EXPECT_TRUE(failure().starts_with("T1154"));
  EXPECT_NE(failure().find("no licence"), std::string::npos);
  generator([](Arguments) -> Any { return Any(1); });
  EXPECT_TRUE(failure().starts_with("T1154"));
  generator([](Arguments) -> Any { return AttrMap(); });
  EXPECT_TRUE(failure().starts_with("T1154"));
  generator([](Arguments args) -> Any {  // no function of that type
    AttrMap out;
    for (auto [name, f] : args[0].as<IRModule>().functions()) out.set(name, parse_module(kText));
    return out;
  });
  EXPECT_TRUE(failure().starts_with("T1154"));
  registry::remove("tenon.ext.mine");
}

TEST(Partition, TablesThatCannotBeUsed) {
  PassContext context = make_context();
  context.options.set_text("fuse_ops_by_pattern.tables=nobody");
  EXPECT_EQ(code_of([&] { run_pass("fuse_ops_by_pattern", typed_module(kText), context); }), "T1152");
  EXPECT_EQ(code_of([] { named_patterns(Array<Any>{Any(1)}); }), "T1152");
  EXPECT_EQ(code_of([] { named_patterns(Array<Any>{Any(Array<Any>{"x", Any(1)})}); }), "T1152");
  EXPECT_EQ(code_of([] { named_patterns(Array<Any>{Any(Array<Any>{Any(1), wildcard()})}); }), "T1152");
}

TEST(Partition, Rewrite) {
  IRModule m = typed_module(kText);
  const DFPattern x = wildcard(), relu = is_op("nn.relu", {x});
  const Ref<Function> f =
      rewrite_matches(relu, main_of(m), [&](const VarRef&, const PatternMatch& found) -> Expr {
        return op::op_call("maximum", {found.values.at(x.get()), constant(NDArray::zeros({}, f32))});
      });
  const auto before = run(m, inputs());
  m.set("main", f);
  expect_valid(m);
  EXPECT_EQ(ops_of(m)[1], "maximum");
  expect_close(before, run(m, inputs()), 0);
}

}  // namespace
}  // namespace tenon::graph::testing_graph
