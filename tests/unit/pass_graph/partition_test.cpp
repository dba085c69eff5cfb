// SPDX-License-Identifier: Apache-2.0
// The passes that take parts of a graph to external code generators, by patterns.
#include "patterns.h"

namespace tenon::graph::testing_graph {
namespace {

using namespace dpl;
using dpl::is_op;  // in front of that of the graph

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

TEST(Partition, ConstantsWithNamesAreBound) {
  PassContext context = make_context();
  context.options.set_text("annotate_target.targets=default");
  context.options.set_text("partition_graph.bind_constants=true");
  IRModule m = typed_module(R"(
@R.function
def main(x: R.Tensor((3,), "float32")):
    c = R.const([1.0, 2.0, 4.0], "float32")
    y = R.multiply(x, c)
    return y
)");
  const auto want = run(m, {random_array({3})});
  for (const char* pass : {"annotate_target", "partition_graph"}) m = run_pass(pass, m, context);
  expect_valid(m);
  EXPECT_EQ(m.find("tenon_default_main_0").cast<Function>()->params.size(), 1u) << print(m);
  expect_close(want, run(m, {random_array({3})}), 0);
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
  // What every value matches, unless a check looks at it.
  const auto all = [](const DFPattern& p, bool checked) {
    const auto yes = tenon::Function([](Arguments) -> Any { return Any(true); });
    return code_of([&] {
      fuse_ops_by_pattern(typed_module(kText), {{"all", p, checked ? yes : tenon::Function()}}, false);
    });
  };
  EXPECT_EQ(all(wildcard(), false), "T1152");
  EXPECT_EQ(all(make<OrPattern>(is_op("exp", {wildcard()}), wildcard()), false), "T1152");
  EXPECT_EQ(all(wildcard(), true), "none");
  EXPECT_EQ(all(make<OrPattern>(is_op("exp", {wildcard()}), is_op("tanh", {wildcard()})), false), "none");
}

TEST(Partition, GeneratorsWithoutAName) {
  PassContext context = make_context();
  context.options.set("annotate_target.targets", Any(Array<std::string>{""}));
  EXPECT_EQ(code_of([&] { run_pass("annotate_target", typed_module(kText), context); }), "T1153");
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
