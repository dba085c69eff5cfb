// SPDX-License-Identifier: Apache-2.0
// Bad nodes: operators, attributes and inputs that no operator takes, sizes that a few numbers make, bodies
// and functions.
#include "hostile_models.h"

namespace tenon {
namespace {

using namespace test;

GraphParts conv(std::vector<Msg> attributes, std::vector<int64_t> weight = {4, 1, 3, 3}) {
  int64_t n = 1;
  for (int64_t d : weight) n *= d;
  return {{node("Conv", {"x", "w"}, {"y"}, attributes, "c")},
          {floats("w", weight, std::vector<float>(size_t(n), 0.5f))},
          {value("x", FLOAT, {1, 1, 8, 8})},
          {value("y", FLOAT, {})}};
}
Msg nested_if(int depth) {
  Msg g = onnx_graph({{node("Relu", {"x"}, {"t0"})}, {}, {}, {value("t0", FLOAT, {})}});
  for (int i = 1; i <= depth; ++i) {
    const std::string out = "t" + std::to_string(i);
    g = onnx_graph(
        {{node("If", {"c"}, {out},
               {attr_g("then_branch", g),
                attr_g("else_branch",
                       onnx_graph({{node("Neg", {"x"}, {"e"})}, {}, {}, {value("e", FLOAT, {})}}))})},
         {},
         {},
         {value(out, FLOAT, {})}});
  }
  return g;
}

std::vector<HostileFile> nodes() {
  Cases c;
  c.add("unknown_operator", "T2101", "'Frobnicate' is not supported (1 node: 'f')",
        one(node("Frobnicate", {"x"}, {"y"}, {}, "f")));
  c.add("loop", "T2020", "needs the graph 'body'", one(node("Loop", {"x"}, {"y"})));
  c.add("missing_input", "T2020", "needs input 1", one(node("Sub", {"x", ""}, {"y"}, {}, "s")));
  c.add("too_few_inputs", "T2020", "takes 2 inputs, 1 are given", one(node("Sub", {"x"}, {"y"})));
  c.add("attribute_kind", "T2020", "'axis' of Softmax must be an integer",
        one(node("Softmax", {"x"}, {"y"}, {attr_s("axis", "one")})));
  c.add("missing_attribute", "T2020", "needs the attribute 'axis'", one(node("Concat", {"x", "x"}, {"y"})));
  c.add("axis_outside", "T2020", "axis 5 of Softmax is outside of rank 2",
        one(node("Softmax", {"x"}, {"y"}, {attr_i("axis", 5)})));
  c.add("bad_permutation", "T2020", "no permutation",
        one(node("Transpose", {"x"}, {"y"}, {attr_ints("perm", {0, 0})})));
  c.add("reshape_two_rests", "T2020", "more than one -1",
        one(node("Reshape", {"x", "s"}, {"y"}, {}, "r"), {ints("s", {2}, {-1, -1})}));
  c.add("reshape_negative", "T2020", "negative",
        one(node("Reshape", {"x", "s"}, {"y"}, {}, "r"), {ints("s", {2}, {-5, 3})}));
  c.add("reshape_size", "T11", "",
        one(node("Reshape", {"x", "s"}, {"y"}, {}, "r"), {ints("s", {2}, {4, 5})}));
  c.add("broadcast", "T11", "",
        model({{node("Add", {"x", "w"}, {"y"}, {}, "a")},
               {floats("w", {4}, {1, 2, 3, 4})},
               {value("x", FLOAT, {2, 3})},
               {value("y", FLOAT, {})}})
            .bytes);
  c.add("mixed_types", "T11", "", one(node("Add", {"x", "w"}, {"y"}, {}, "a"), {ints("w", {1}, {1})}));
  c.add("constant_of_shape_huge", "T2015", "larger than the limit",
        model({{node("ConstantOfShape", {"s"}, {"y"}, {}, "k")},
               {ints("s", {2}, {int64_t(1) << 40, int64_t(1) << 40})},
               {value("x", FLOAT, {2})},
               {value("y", FLOAT, {})}})
            .bytes);
  c.add("constant_of_shape_negative", "T2020", "negative size",
        model({{node("ConstantOfShape", {"s"}, {"y"}, {}, "k")},
               {ints("s", {1}, {-4})},
               {value("x", FLOAT, {2})},
               {value("y", FLOAT, {})}})
            .bytes);
  c.add("conv_strides", "T2020", "impossible value 0", model(conv({attr_ints("strides", {0, 1})})).bytes);
  c.add("conv_pads", "T2020", "needs 4 values", model(conv({attr_ints("pads", {1, 1})})).bytes);
  c.add("conv_negative_pads", "T2020", "impossible value -1",
        model(conv({attr_ints("pads", {-1, 0, 0, 0})})).bytes);
  c.add("conv_kernel", "T2020", "does not agree with the weight",
        model(conv({attr_ints("kernel_shape", {5, 5})})).bytes);
  c.add("conv_auto_pad", "T2020", "'SAME' of Conv is not known",
        model(conv({attr_s("auto_pad", "SAME")})).bytes);
  c.add("conv_weight_rank", "T2020", "has rank 3", model(conv({}, {4, 1, 9})).bytes);
  c.add("conv_groups", "T2020", "0 groups", model(conv({attr_i("group", 0)})).bytes);
  c.add("pool_pads", "T2020", "lie in the padding",
        model({{node("MaxPool", {"x"}, {"y"},
                     {attr_ints("kernel_shape", {2, 2}), attr_ints("pads", {2, 2, 2, 2})})},
               {},
               {value("x", FLOAT, {1, 1, 8, 8})},
               {value("y", FLOAT, {})}})
            .bytes);
  c.add("resize_scales", "T2020", "needs 2 scales",
        one(node("Resize", {"x", "", "s"}, {"y"}), {floats("s", {1}, {2})}));
  c.add("resize_scale_zero", "T2020", "has the scale 0",
        one(node("Resize", {"x", "", "s"}, {"y"}), {floats("s", {2}, {1, 0})}));
  for (const float s : {1e30f, 1e-30f})
    c.add(s > 1 ? "resize_scale_large" : "resize_scale_small", "T2020", "from n with the scale",
          model({{node("Resize", {"x", "", "s"}, {"y"})},
                 {floats("s", {2}, {s, 1})},
                 {value("x", FLOAT, {"n", 2})},
                 {value("y", FLOAT, {})}})
              .bytes);
  c.add("resize_sizes_policy", "T2020", "has the size",
        one(node("Resize", {"x", "", "", "s"}, {"y"}, {attr_s("keep_aspect_ratio_policy", "not_smaller")}),
            {ints("s", {2}, {INT64_MAX, 1})}, 18));
  c.add("slice_step_zero", "T2020", "step of Slice is zero",
        one(node("Slice", {"x", "a", "b", "a", "z"}, {"y"}),
            {ints("a", {1}, {0}), ints("b", {1}, {1}), ints("z", {1}, {0})}));
  c.add("pad_absurd", "T2020", "absurd width",
        one(node("Pad", {"x", "p"}, {"y"}), {ints("p", {4}, {int64_t(1) << 60, 0, 0, 0})}));
  c.add("dynamic_rank", "T2102", "a number of values that only the run knows",
        model({{node("Reshape", {"x", "r"}, {"a"}), node("Reshape", {"a", "s"}, {"b"}),
                node("Reshape", {"b", "t"}, {"y"})},
               {},
               {value("x", FLOAT, {2, 3}), value("r", INT64, {"n"}), value("s", INT64, {"m"}),
                value("t", INT64, {"k"})},
               {value("y", FLOAT, {})}})
            .bytes);
  c.add("gather_outside", "T2020", "index 9 of Gather",
        model({{node("Shape", {"x"}, {"s"}), node("Gather", {"s", "i"}, {"y"}, {}, "g")},
               {ints("i", {}, {9})},
               {value("x", FLOAT, {2, 3})},
               {value("y", INT64, {})}})
            .bytes);
  c.add("constant_without_value", "T2020", "has no value",
        model({{node("Constant", {}, {"y"})}, {}, {value("x", FLOAT, {2})}, {value("y", FLOAT, {})}}).bytes);
  c.add("branch_outputs", "T2020", "branches of If have",
        model({{node("If", {"c"}, {"y"},
                     {attr_g("then_branch",
                             onnx_graph({{node("Relu", {"x"}, {"t"})}, {}, {}, {value("t", FLOAT, {})}})),
                      attr_g("else_branch", onnx_graph({}))})},
               {},
               {value("x", FLOAT, {2}), value("c", BOOL, {})},
               {value("y", FLOAT, {})}})
            .bytes);
  return c.all;
}

std::vector<HostileFile> absurd_sizes() {
  Cases c;
  const auto sized = [&](const std::string& op, std::vector<std::string> in, std::vector<Msg> given,
                         std::vector<Msg> attributes = {}) {
    c.add("absurd_" + op, "T2015", "'big' (" + op, one(node(op, in, {"y"}, attributes, "big"), given));
  };
  const int64_t big = int64_t(1) << 40;
  sized("Tile", {"x", "r"}, {ints("r", {2}, {big, big})});
  sized("Expand", {"x", "r"}, {ints("r", {4}, {big, 1 << 20, 2, 3})});
  sized("Range", {"a", "b", "d"},
        {ints("a", {}, {0}), ints("b", {}, {int64_t(1) << 62}), ints("d", {}, {1})});
  sized("RandomUniform", {}, {}, {attr_ints("shape", {big, big})});
  sized("DFT", {"d", "r"}, {floats("d", {1, 4, 1}, {1, 2, 3, 4}), ints("r", {}, {big})});
  c.add("absurd_CenterCropPad", "T2015", "CenterCropPad",
        one(node("CenterCropPad", {"x", "r"}, {"y"}), {ints("r", {2}, {big, big})}, 18));
  return c.all;
}

std::vector<HostileFile> parameters_of_bodies() {
  Cases c;
  const auto body_of = [](std::vector<Msg> nodes, const std::vector<std::string>& in,
                          const std::vector<std::string>& out) {
    GraphParts p{std::move(nodes), {}, {}, {}};
    for (const auto& i : in) p.inputs.push_back(value(i, FLOAT, {}, false));
    for (const auto& o : out) p.outputs.push_back(value(o, FLOAT, {}, false));
    return attr_g("body", onnx_graph(p));
  };
  c.add("loop_binds_twice", "T2010", "parameter 'v' is defined twice",
        one(node("Loop", {"n", "", "x", "x"}, {"y", "z"},
                 {body_of({node("Relu", {"v"}, {"r"}), node("Identity", {"b"}, {"c"})}, {"i", "b", "v", "v"},
                          {"c", "r", "r"})},
                 "l"),
            {ints("n", {}, {3})}));
  c.add("scan_binds_twice", "T2010", "parameter 'v' is defined twice",
        one(node("Scan", {"x", "x"}, {"y"},
                 {attr_i("num_scan_inputs", 2), body_of({node("Relu", {"v"}, {"r"})}, {"v", "v"}, {"r"})},
                 "s")));
  c.add("scan_lengths", "T2020", "input 1 of Scan has another length",
        one(node("Scan", {"x", "w"}, {"y"},
                 {attr_i("num_scan_inputs", 2), body_of({node("Add", {"v", "u"}, {"r"})}, {"v", "u"}, {"r"})},
                 "s"),
            {floats("w", {1, 3}, {1, 2, 3})}));
  return c.all;
}

std::vector<HostileFile> functions() {
  Cases c;
  auto function = [](const std::string& name, std::vector<Msg> nodes) {
    Msg f = Msg().s(1, name).s(4, "a").s(5, "b");
    for (const Msg& n : nodes) f.m(7, n);
    return f.m(9, opset(17)).m(9, opset(1, "f")).s(10, "f");
  };
  auto with_functions = [&](std::vector<Msg> functions, const std::string& first) {
    Msg m = model(with_node(node(first, {"x"}, {"y"}, {}, "call", "f"))).m(8, opset(1, "f"));
    for (const Msg& f : functions) m.m(25, f);
    return m.bytes;
  };
  c.add("function_calls_itself", "T2021", "calls itself",
        with_functions({function("F", {node("F", {"a"}, {"b"}, {}, "again", "f")})}, "F"));
  c.add("function_ring", "T2021", "calls itself",
        with_functions({function("F", {node("G", {"a"}, {"b"}, {}, "", "f")}),
                        function("G", {node("F", {"a"}, {"b"}, {}, "", "f")})},
                       "F"));
  c.add("function_twice", "T2010", "'F' is defined twice",
        with_functions(
            {function("F", {node("Relu", {"a"}, {"b"})}), function("F", {node("Relu", {"a"}, {"b"})})}, "F"));
  c.add("function_binds_twice", "T2010", "parameter 'a' is defined twice", [&] {
    Msg f = Msg().s(1, "F").s(4, "a").s(4, "a").s(5, "b").m(7, node("Relu", {"a"}, {"b"}));
    f.m(9, opset(17)).m(9, opset(1, "f")).s(10, "f");
    return model(with_node(node("F", {"x", "x"}, {"y"}, {}, "call", "f"))).m(8, opset(1, "f")).m(25, f).bytes;
  }());
  c.add("function_inputs", "T2020", "takes 1 inputs, 2 are given", [&] {
    Msg m = model(with_node(node("F", {"x", "x"}, {"y"}, {}, "call", "f"))).m(8, opset(1, "f"));
    return m.m(25, function("F", {node("Relu", {"a"}, {"b"})})).bytes;
  }());
  const Msg reference = Msg().s(1, "alpha").s(21, "beta");
  c.add("reference_outside_of_functions", "T2020", "no attribute of a function around it",
        model(with_node(node("LeakyRelu", {"x"}, {"y"}, {reference}))).bytes);
  c.add("reference_to_no_attribute", "T2020", "refers to 'beta'",
        with_functions({function("F", {node("LeakyRelu", {"a"}, {"b"}, {reference})})}, "F"));
  {
    // Every level calls the next twice: 2^40 nodes from a kilobyte.
    std::vector<Msg> functions;
    for (int i = 0; i < 40; ++i)
      functions.push_back(
          function("F" + std::to_string(i), {node("F" + std::to_string(i + 1), {"a"}, {"t"}, {}, "", "f"),
                                             node("F" + std::to_string(i + 1), {"t"}, {"b"}, {}, "", "f")}));
    functions.push_back(function("F40", {node("Relu", {"a"}, {"b"})}));
    c.add("function_explosion", "T2004", "expand to more than", with_functions(functions, "F0"));
  }
  return c.all;
}

class HostileNodes : public testing::TestWithParam<HostileFile> {};
TEST_P(HostileNodes, AreRefusedByName) { expect_refused(GetParam()); }
TENON_HOSTILE(HostileNodes, Nodes, nodes);
TENON_HOSTILE(HostileNodes, AbsurdSizes, absurd_sizes);
TENON_HOSTILE(HostileNodes, ParametersOfBodies, parameters_of_bodies);
TENON_HOSTILE(HostileNodes, Functions, functions);

TEST(HostileNodes, AllUnsupportedOperatorsAreReportedAtOnceAndGrouped) {
  GraphParts p{{node("Foo", {"x"}, {"a"}, {}, "f1"), node("Foo", {"a"}, {"b"}, {}, "f2"),
                node("Bar", {"b"}, {"c"}, {}, "b1"), node("Relu", {"c"}, {"y"})},
               {},
               {value("x", FLOAT, {2})},
               {value("y", FLOAT, {2})}};
  try {
    onnx::import_onnx_bytes(model(p).bytes, "m.onnx");
    FAIL();
  } catch (const DiagnosticError& e) {
    ASSERT_EQ(e.diagnostics.size(), 2u);
    EXPECT_EQ(e.diagnostics[0].message, "the operator 'Foo' is not supported (2 nodes: 'f1', 'f2')");
    EXPECT_EQ(e.diagnostics[0].location, "m.onnx, node 'f1' (Foo-17)");
    EXPECT_EQ(e.diagnostics[1].message, "the operator 'Bar' is not supported (1 node: 'b1')");
  }
}

TEST(HostileNodes, MistakesOfDifferentNodesAreReportedTogether) {
  GraphParts p{
      {node("Softmax", {"x"}, {"a"}, {attr_i("axis", 9)}, "s"),
       node("Transpose", {"x"}, {"b"}, {attr_ints("perm", {5})}, "t"), node("Add", {"a", "b"}, {"y"})},
      {},
      {value("x", FLOAT, {2, 2})},
      {value("y", FLOAT, {})}};
  try {
    onnx::import_onnx_bytes(model(p).bytes, "m.onnx");
    FAIL();
  } catch (const DiagnosticError& e) {
    ASSERT_EQ(e.diagnostics.size(), 2u);  // Add is not blamed for its inputs
    EXPECT_NE(e.diagnostics[0].location.find("node 's' (Softmax-13)"), std::string::npos) << e.what();
    EXPECT_NE(e.diagnostics[1].location.find("node 't'"), std::string::npos);
  }
}

TEST(HostileNodes, NestedIfWithinTheLimitIsAccepted) {
  GraphParts p{{node("Identity", {"x"}, {"z"})},
               {},
               {value("x", FLOAT, {2}), value("c", BOOL, {})},
               {value("t60", FLOAT, {})}};
  Msg inner = nested_if(59);
  p.nodes.push_back(node(
      "If", {"c"}, {"t60"},
      {attr_g("then_branch", inner),
       attr_g("else_branch", onnx_graph({{node("Neg", {"x"}, {"e"})}, {}, {}, {value("e", FLOAT, {})}}))}));
  EXPECT_TRUE(onnx::import_onnx_bytes(model(p).bytes, "m.onnx").find("main"));
}

}  // namespace
}  // namespace tenon
