// SPDX-License-Identifier: Apache-2.0
// Dataflow patterns, each kind with what it matches and what it does not.
#include "patterns.h"

namespace tenon::graph::testing_graph {
namespace {

using namespace dpl;
using dpl::is_op;  // in front of that of the graph

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

TEST_F(Patterns, PropertiesOfOperators) {
  auto of_kind = [](FusionKind kind) {
    AttrMap attrs;
    attrs.set("TOpPattern", Any(int64_t(kind)));
    return make<CallPattern>(make<AttrPattern>(any(), attrs), Array<DFPattern>{}, true);
  };
  EXPECT_TRUE(matches(of_kind(FusionKind::element_wise), "r"));
  EXPECT_FALSE(matches(of_kind(FusionKind::element_wise), "d"));
  EXPECT_FALSE(matches(of_kind(FusionKind::element_wise), "p"));
  const DFPattern sum = is_op("add", {any(), any()});
  EXPECT_TRUE(matches(
      make<DominatorPattern>(is_op("nn.relu", {any()}), of_kind(FusionKind::element_wise), sum), "s"));
  EXPECT_FALSE(
      matches(make<DominatorPattern>(is_op("nn.relu", {any()}), of_kind(FusionKind::broadcast), sum), "s"));
}

TEST_F(Patterns, OperandsThatMayChangePlaces) {
  EXPECT_TRUE(matches(is_op("add", {unary("exp"), unary("tanh")}), "s"));
  EXPECT_TRUE(matches(is_op("add", {unary("tanh"), unary("exp")}), "s"));
  EXPECT_FALSE(matches(is_op("add", {unary("tanh"), unary("tanh")}), "s"));
  EXPECT_TRUE(matches(is_op("add", {make<ConstantPattern>(), any()}), "k"));
  EXPECT_FALSE(matches(is_op("nn.dense", {is_op("nn.relu", {any()}), any()}), "d"));
  // What the first order found does not stay: the constant is met where the sum was.
  const DFPattern one = any();
  EXPECT_TRUE(matches(is_op("add", {make<AndPattern>(one, make<ConstantPattern>()), any()}), "k"));
}

TEST_F(Patterns, ConstantsMayHaveNames) {
  const IRModule m = typed_module(R"(
@R.function
def main(x: R.Tensor((2,), "float32")):
    c = R.const([1.0, 2.0], "float32")
    y = R.multiply(x, c)
    z = R.divide(x, c)
    return (y, z)
)");
  const Ref<Function> f = main_of(m);
  const DataflowView own(f->body, m);
  const std::vector<Binding> bindings = bindings_of(f->body);
  const Expr c = bindings[0]->value, y = bindings[1]->var, z = bindings[2]->var;
  EXPECT_TRUE(match_pattern(is_op("multiply", {any(), make<ConstantPattern>()}), y, own));
  EXPECT_TRUE(match_pattern(is_op("divide", {any(), make<ExprPattern>(c)}), z, own));
  EXPECT_FALSE(match_pattern(is_op("divide", {make<ConstantPattern>(), any()}), z, own));
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
  for (const char* op : {"exp", "tanh"}) {
    const DFPattern f_of_any = make<FunctionPattern>(Array<DFPattern>(), unary(op), true);
    EXPECT_EQ(match_pattern(make<CallPattern>(f_of_any, Array<DFPattern>{any()}), y, v).has_value(),
              op == std::string("exp"));
  }
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

TEST_F(Patterns, SequencesSayWhichArgument) {
  auto link = [](DFPattern a, DFPattern b, int64_t argument, bool only = false) {
    return in_sequence(a, b, only, argument);
  };
  const DFPattern add = is_op("add", {any(), any()}), next = is_op("add", {any(), any()});
  EXPECT_TRUE(matches(link(unary("exp"), add, 0), "s"));
  EXPECT_FALSE(matches(link(unary("exp"), add, 1), "s"));
  EXPECT_TRUE(matches(link(unary("tanh"), add, 1, true), "s"));
  EXPECT_FALSE(matches(link(dense(), unary("nn.relu"), 0, true), "r"));
  // A sequence behind a sequence is one: its first value follows.
  const DFPattern behind = link(unary("exp"), link(add, next, 0), 0);
  EXPECT_EQ(behind.as<PatternSequence>()->patterns.size(), 3u);
  EXPECT_TRUE(matches(behind, "k"));
  EXPECT_FALSE(matches(behind, "s"));
}

TEST_F(Patterns, Variables) {
  const auto var = [](const char* name, bool local = false) { return make<VarPattern>(name, local); };
  EXPECT_TRUE(matches(is_op("nn.dense", {var("x"), var("w")}), "d"));
  EXPECT_FALSE(matches(is_op("nn.dense", {var("w"), var("w")}), "d"));
  EXPECT_TRUE(matches(is_op("add", {var(""), any()}), "k"));
  EXPECT_TRUE(matches(is_op("add", {any(), var("")}), "k"));     // the other way round
  EXPECT_FALSE(matches(is_op("add", {var(""), var("")}), "k"));  // a constant
  EXPECT_TRUE(matches(is_op("nn.relu", {var("", true)}), "r"));
  EXPECT_FALSE(matches(is_op("exp", {var("", true)}), "h"));  // a parameter
  EXPECT_FALSE(matches(var("l", true), "l"));                 // the function gives it back
}

TEST_F(Patterns, SameShapes) {
  const DFPattern first = any();
  auto add = [&](const DFPattern& a, const DFPattern& b) { return is_op("add", {a, b}); };
  // Whichever of both is met first.
  EXPECT_TRUE(matches(add(first, make<SameShapePattern>(any(), first)), "s"));
  EXPECT_FALSE(matches(add(first, make<SameShapePattern>(any(), first)), "k"));
  EXPECT_TRUE(matches(add(make<SameShapePattern>(any(), first), first), "s"));
  EXPECT_FALSE(matches(add(make<SameShapePattern>(any(), first), first), "k"));
  EXPECT_EQ(code_of([&] { matches(add(any(), make<SameShapePattern>(any(), first)), "s"); }), "T1150");
  // An alternative that fails leaves no condition behind.
  const DFPattern scalar = make<ConstantPattern>();
  EXPECT_TRUE(
      matches(make<OrPattern>(add(make<SameShapePattern>(any(), scalar), scalar), add(any(), any())), "k"));
}

TEST_F(Patterns, TuplesInAnyOrder) {
  auto tuple = [](Array<DFPattern> items) { return make<TuplePattern>(std::move(items), false, true); };
  EXPECT_TRUE(matches(tuple({dense(), is_op("add", {any(), any()})}), "p"));
  EXPECT_TRUE(matches(tuple({is_op("add", {any(), any()}), dense()}), "p"));
  EXPECT_TRUE(matches(tuple({any(), is_op("add", {any(), any()})}), "p"));
  EXPECT_FALSE(matches(tuple({dense(), dense()}), "p"));
  EXPECT_FALSE(matches(tuple({dense()}), "p"));
}

/// What has a name, what is a shape, choices and bindings.
const char* const kOtherKinds = R"(
@I.ir_module
class Module:
    @T.prim_func
    def double(x: T.Buffer((2, 3), "float32"), y: T.Buffer((2, 3), "float32")):
        for i, j in T.grid(2, 3):
            y[i, j] = x[i, j] * T.float32(2)
    @R.function
    def main(a: R.Tensor((2, 3), "float32"), c: R.Tensor((), "bool")):
        d = R.call_tir(cls.double, (a,), R.Tensor((2, 3), "float32"))
        q = R.call_packed("test.some", d, sinfo_args=R.Tensor((2, 3), "float32"))
        v = R.call_dps_packed("test.other", (d,), R.Tensor((2, 3), "float32"))
        z = R.reshape(a, R.shape([3, 2]))
        e = R.exp(a)
        if c:
            y = R.tanh(e)
            i = R.exp(y)
        else:
            i = R.add(e, e)
        s = R.add(i, e)
        return (d, q, v, z, s)
)";

class OtherPatterns : public testing::Test {
 protected:
  IRModule module = typed_module(kOtherKinds);
  Ref<Function> main = main_of(module);
  DataflowView view{main->body, module};
  bool matches(const DFPattern& p, const std::string& name) const {
    for (const Binding& b : bindings_of(main->body))
      if (b->var->name == name) return match_pattern(p, b->var, view).has_value();
    ADD_FAILURE() << name;
    return false;
  }
};

TEST_F(OtherPatterns, CallsByName) {
  const DFPattern var = make<VarPattern>("a", false);
  EXPECT_TRUE(matches(is_call_tir("double", {}), "d"));
  EXPECT_TRUE(matches(is_call_tir("", make<TuplePattern>(Array<DFPattern>{var}, false)), "d"));
  EXPECT_FALSE(matches(is_call_tir("triple", {}), "d"));
  EXPECT_FALSE(matches(is_call_tir("double", make<TuplePattern>(Array<DFPattern>{var, var}, false)), "d"));
  EXPECT_TRUE(matches(is_call_packed("test.some", Array<DFPattern>{is_call_tir("double", {})}), "q"));
  EXPECT_TRUE(matches(is_call_packed("", std::nullopt), "q"));
  EXPECT_FALSE(matches(is_call_packed("test.some", Array<DFPattern>{var}), "q"));
  EXPECT_FALSE(matches(is_call_packed("test.other", std::nullopt), "q"));
  EXPECT_TRUE(matches(is_call_dps_packed("test.other", {}), "v"));
  EXPECT_FALSE(matches(is_call_dps_packed("test.some", {}), "v"));
}

TEST_F(OtherPatterns, ShapesAsValues) {
  EXPECT_TRUE(matches(is_op("reshape", {wildcard(), make<PrimArrPattern>(Array<PrimExpr>{3, 2})}), "z"));
  EXPECT_FALSE(matches(is_op("reshape", {wildcard(), make<PrimArrPattern>(Array<PrimExpr>{2, 3})}), "z"));
  EXPECT_FALSE(matches(make<PrimArrPattern>(Array<PrimExpr>{2, 3}), "e"));
}

TEST_F(OtherPatterns, Choices) {
  const DFPattern exp = is_op("exp", {make<VarPattern>("a", false)}), c = make<VarPattern>("c", false);
  auto choice = [&](const DFPattern& t, const DFPattern& f) { return make<IfPattern>(c, t, f); };
  // Both ways use what is bound around them.
  const DFPattern yes = is_op("exp", {is_op("tanh", {exp})}), no = is_op("add", {exp, exp});
  EXPECT_TRUE(matches(choice(yes, no), "i"));
  EXPECT_FALSE(matches(choice(no, yes), "i"));
  EXPECT_FALSE(matches(choice(wildcard(), wildcard()), "e"));
  EXPECT_TRUE(matches(is_op("add", {choice(wildcard(), wildcard()), exp}), "s"));
  // A value that is used behind the choice, too, has more than one user inside of it.
  EXPECT_TRUE(
      matches(choice(wildcard(), in_sequence(exp, is_op("add", {wildcard(), wildcard()}), false)), "i"));
  EXPECT_FALSE(
      matches(choice(wildcard(), in_sequence(exp, is_op("add", {wildcard(), wildcard()}), true)), "i"));
}

TEST_F(OtherPatterns, Bindings) {
  const DFPattern v = make<VarPattern>("", false), body = is_op("exp", {v});
  EXPECT_TRUE(matches(make<LetPattern>(v, make<VarPattern>("a", false), body), "e"));
  EXPECT_FALSE(matches(make<LetPattern>(v, is_op("tanh", {wildcard()}), body), "e"));
  const DFPattern sum = is_op("add", {v, wildcard()});
  EXPECT_TRUE(matches(make<LetPattern>(v, make<IfPattern>(wildcard(), wildcard(), wildcard()), sum), "s"));
  EXPECT_EQ(code_of([&] { matches(make<LetPattern>(wildcard(), wildcard(), body), "e"); }), "T1150");
}

TEST_F(Patterns, WhatMatchesNothingIsRefused) {
  auto refused = [&](const DFPattern& p) { return code_of([&] { matches(p, "d"); }); };
  AttrMap attrs;
  attrs.set("beta", Any(1.0));
  EXPECT_EQ(refused(is_op("exp", {any(), any()})), "T1150");
  EXPECT_EQ(refused(is_op("exp", {})), "T1150");
  EXPECT_EQ(refused(make<AttrPattern>(unary("exp"), attrs)), "T1150");
  EXPECT_EQ(refused(make<NotPattern>(any())), "T1150");
  EXPECT_EQ(refused(make<ShapePattern>(any(), Array<PrimExpr>{2, -3})), "T1150");
  EXPECT_EQ(refused(make<CallPattern>(make<AttrPattern>(make<ExprPattern>(find_op("exp")), attrs),
                                      Array<DFPattern>{}, true)),
            "T1150");
  EXPECT_EQ(refused(make<OrPattern>()), "T1150");
  EXPECT_EQ(refused(is_op("exp", {DFPattern()})), "T1150");
  EXPECT_EQ(refused(make<PatternSequence>()), "T1150");
  EXPECT_EQ(refused(make<TupleGetItemPattern>(make<TuplePattern>(), 1)), "T1150");
  EXPECT_EQ(refused(in_sequence(any(), unary("exp"), false, 1)), "T1150");
  EXPECT_EQ(code_of([] { is_op("nothing", {}); }), "T0222");
  const auto both = [](const DFPattern& a, const DFPattern& b) { return make<AndPattern>(a, b); };
  const auto sized = [&](Array<PrimExpr> dims) { return make<ShapePattern>(any(), dims); };
  const DFPattern constant = make<ConstantPattern>(), variable = make<VarPattern>("", false);
  const DFPattern f16s = make<DataTypePattern>(any(), f16);
  for (const auto& [a, b] : std::vector<std::pair<DFPattern, DFPattern>>{
           {f16s, make<DataTypePattern>(any(), f32)},
           {make<TypePattern>(any(), graph::tensor_type({2, 3}, f32)), f16s},
           {sized({2, 3}), sized({2, 4})},
           {sized({2, 3}), sized({2})},
           {constant, variable},
           {constant, unary("exp")},
           {unary("exp"), unary("tanh")},
           {unary("exp"), make<TuplePattern>(Array<DFPattern>{any()})},
           {f16s, make<NotPattern>(f16s)}}) {
    EXPECT_EQ(refused(both(a, b)), "T1150");
    EXPECT_EQ(refused(is_op("exp", {both(b, both(a, any()))})), "T1150");
  }
  for (const auto& p : {both(variable, unary("exp")), both(sized({2, 3}), sized({2, tir::var("n", i64)})),
                        both(unary("exp"), make<OrPattern>(f16s, make<DataTypePattern>(any(), f32)))})
    EXPECT_EQ(refused(p), "none");
  DFPattern deep = any();
  for (int i = 0; i < 100000; ++i) deep = make<NotPattern>(make<AndPattern>(deep, deep));
  EXPECT_EQ(refused(deep), "T1150");
  DFPattern wide = unary("exp");
  for (int i = 0; i < 60; ++i)
    wide =
        make<AndPattern>(make<NotPattern>(make<NotPattern>(make<NotPattern>(wide))), make<NotPattern>(wide));
  EXPECT_EQ(code_of([&] { match_pattern(make<NotPattern>(wide), value("d"), view, 10); }), "T1151");
}

}  // namespace
}  // namespace tenon::graph::testing_graph
