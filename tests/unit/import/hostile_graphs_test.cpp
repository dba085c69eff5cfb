// SPDX-License-Identifier: Apache-2.0
// Bad files of graphs in graphs: functions that call themselves, names that are bound twice or shadowed,
// bodies whose types disagree; and of numbers that do not fit: sizes that overflow, quantised blocks, absurd
// attributes.
#include "hostile.h"

namespace tenon {
namespace {

using namespace test;

constexpr int64_t kBig = int64_t(1) << 40;

struct Cases {
  std::vector<HostileFile> all;
  void add(std::string name, std::string code, std::string part, std::string bytes) {
    all.push_back({std::move(name), std::move(code), std::move(part), std::move(bytes), {}, {}});
  }
};

Msg here(const std::string& op, const std::vector<std::string>& in, const std::vector<Msg>& attributes = {},
         const std::string& domain = "") {
  return node(op, in, {"y"}, attributes, "here", domain);
}
/// A model over x of float[2, 3], v of float[4], q of uint8[2, 4], b of bool, i of int64.
std::string of(std::vector<Msg> nodes, std::vector<Msg> initializers = {}, int64_t version = 21) {
  return model({std::move(nodes),
                std::move(initializers),
                {value("x", FLOAT, {2, 3}), value("v", FLOAT, {4}), value("q", UINT8, {2, 4}),
                 value("b", BOOL, {}), value("i", INT64, {})},
                {value("y", FLOAT, {})}},
               version)
      .m(8, opset(1, "com.microsoft"))
      .m(8, opset(3, "ai.onnx.ml"))
      .bytes;
}
Msg graph_with(std::vector<Msg> nodes, const std::vector<std::string>& in,
               const std::vector<std::string>& out) {
  GraphParts p{std::move(nodes), {}, {}, {}};
  for (const auto& i : in) p.inputs.push_back(value(i, FLOAT, {}, false));
  for (const auto& o : out) p.outputs.push_back(value(o, FLOAT, {}, false));
  return onnx_graph(p);
}
Msg if_of(const Msg& yes, const Msg& no, const std::string& condition = "b") {
  return here("If", {condition}, {attr_g("then_branch", yes), attr_g("else_branch", no)});
}

// ---------------------------------------------------------------- functions
Msg function(const std::string& name, std::vector<Msg> nodes, const std::string& domain = "f") {
  Msg f = Msg().s(1, name).s(4, "a").s(5, "b");
  for (const Msg& n : nodes) f.m(7, n);
  return f.m(9, opset(21)).m(9, opset(1, "f")).s(10, domain);
}
std::string calling(std::vector<Msg> functions, const std::string& first, std::vector<Msg> attributes = {},
                    const std::string& domain = "f") {
  Msg m = model({{node(first, {"x"}, {"y"}, attributes, "here", domain)},
                 {},
                 {value("x", FLOAT, {2, 3})},
                 {value("y", FLOAT, {2, 3})}},
                21)
              .m(8, opset(1, "f"));
  for (const Msg& f : functions) m.m(25, f);
  return m.bytes;
}

std::vector<HostileFile> functions() {
  Cases c;
  const auto call = [](const std::string& name, const std::string& in = "a", const std::string& out = "b") {
    return node(name, {in}, {out}, {}, "inner", "f");
  };
  c.add("three_call_in_a_ring", "T2021", "calls itself",
        calling({function("F", {call("G")}), function("G", {call("H")}), function("H", {call("F")})}, "F"));
  c.add("calls_itself_in_a_branch", "T2021", "calls itself", [&] {
    const Msg again = graph_with({call("F", "a", "t")}, {}, {"t"}),
              end = graph_with({node("Neg", {"a"}, {"e"})}, {}, {"e"});
    return calling(
        {function("F",
                  {node("Constant", {}, {"c"}, {attr_t("value", tensor_head("", BOOL, {}).s(9, "\1"))}),
                   node("If", {"c"}, {"b"}, {attr_g("then_branch", again), attr_g("else_branch", end)})})},
        "F");
  }());
  c.add("calls_itself_in_a_loop", "T2021", "calls itself", [&] {
    const Msg body =
        graph_with({call("F", "s", "t"), node("Identity", {"m"}, {"k"})}, {"n", "m", "s"}, {"k", "t"});
    return calling({function("F", {node("Loop", {"", "", "a"}, {"b"}, {attr_g("body", body)})})}, "F");
  }());
  c.add("standard_operator_calls_itself", "T2021", "calls itself",
        calling({function("Relu", {node("Relu", {"a"}, {"b"})}, "")}, "Relu", {}, ""));
  c.add("standard_operators_in_a_ring", "T2021", "calls itself",
        calling({function("Relu", {node("Neg", {"a"}, {"b"})}, ""),
                 function("Neg", {node("Relu", {"a"}, {"b"})}, "")},
                "Relu", {}, ""));
  c.add("calls_seventy_deep", "T2021", "deeper than", [&] {
    std::vector<Msg> all;
    for (int i = 0; i < 70; ++i)
      all.push_back(function("F" + std::to_string(i), {call("F" + std::to_string(i + 1))}));
    all.push_back(function("F70", {node("Relu", {"a"}, {"b"})}));
    return calling(all, "F0");
  }());
  c.add("body_is_empty", "T2", "", calling({function("F", {})}, "F"));
  c.add("body_reads_the_caller", "T2011", "'x' is not defined",
        calling({function("F", {node("Add", {"a", "x"}, {"b"})})}, "F"));
  c.add("body_is_a_cycle", "T2012", "cycle",
        calling({function("F", {node("Add", {"a", "t"}, {"b"}), node("Relu", {"b"}, {"t"})})}, "F"));
  c.add("body_gives_twice", "T2010", "defined twice",
        calling({function("F", {node("Relu", {"a"}, {"b"}), node("Neg", {"a"}, {"b"})})}, "F"));
  c.add("body_hides_its_parameter", "T2010", "defined twice",
        calling({function("F", {node("Relu", {"a"}, {"a"}), node("Neg", {"a"}, {"b"})})}, "F"));
  c.add("body_of_unknown_operators", "T2101", "not supported",
        calling({function("F", {node("Frobnicate", {"a"}, {"b"})})}, "F"));
  c.add("body_of_an_unknown_function", "T2101", "not supported",
        calling({function("F", {call("Nowhere")})}, "F"));
  c.add("body_of_an_old_set", "T2008", "uses operator set", [&] {
    Msg f = Msg().s(1, "F").s(4, "a").s(5, "b").m(7, node("Relu", {"a"}, {"b"})).m(9, opset(-7)).s(10, "f");
    return calling({f}, "F");
  }());
  c.add("body_of_a_future_set", "T2008", "uses operator set", [&] {
    Msg f = Msg()
                .s(1, "F")
                .s(4, "a")
                .s(5, "b")
                .m(7, node("Relu", {"a"}, {"b"}))
                .m(9, opset(INT64_MAX))
                .s(10, "f");
    return calling({f}, "F");
  }());
  c.add("attribute_of_another_kind", "T2020", "must be an integer", [&] {
    return calling({function("F", {node("Softmax", {"a"}, {"b"}, {attr_ref("axis", "how", 2)})}).s(6, "how")},
                   "F", {attr_s("how", "far")});
  }());
  c.add("attribute_refers_to_nothing", "T2020", "needs the attribute 'axis'",
        calling({function("F", {node("Concat", {"a", "a"}, {"b"}, {attr_ref("axis", "none", 2)})})}, "F"));
  c.add("attribute_refers_to_itself", "T2020", "needs the attribute 'axis'",
        calling({function("F", {node("Concat", {"a", "a"}, {"b"}, {attr_ref("axis", "axis", 2)})})}, "F",
                {attr_ref("axis", "axis", 2)}));
  c.add("attribute_refers_from_the_model", "T2020", "needs the attribute 'axis'",
        of({here("Concat", {"x", "x"}, {attr_ref("axis", "axis", 2)})}));
  c.add("more_outputs_than_the_function", "T2020", "1 outputs, 2 are asked for", [&] {
    Msg m = model({{node("F", {"x"}, {"y", "z"}, {}, "here", "f")},
                   {},
                   {value("x", FLOAT, {2})},
                   {value("z", FLOAT, {2})}},
                  21)
                .m(8, opset(1, "f"));
    return m.m(25, function("F", {node("Relu", {"a"}, {"b"})})).bytes;
  }());
  c.add("parameter_left_out", "T2", "", [&] {
    Msg m =
        model(
            {{node("F", {}, {"y"}, {}, "here", "f")}, {}, {value("x", FLOAT, {2})}, {value("y", FLOAT, {2})}},
            21)
            .m(8, opset(1, "f"));
    return m.m(25, function("F", {node("Relu", {"a"}, {"b"})})).bytes;
  }());
  c.add("sequence_where_the_body_wants_a_tensor", "T2103", "does not take", [&] {
    Msg m = model({{node("F", {"x"}, {"y"}, {}, "here", "f")},
                   {},
                   {typed("x", sequence_of(kFloats))},
                   {value("y", FLOAT, {2})}},
                  21)
                .m(8, opset(1, "f"));
    return m.m(25, function("F", {node("Relu", {"a"}, {"b"})})).bytes;
  }());
  c.add("overload_that_is_not_there", "T2101", "not supported", [&] {
    Msg m = model({{node("F", {"x"}, {"y"}, {}, "here", "f").s(8, "other")},
                   {},
                   {value("x", FLOAT, {2})},
                   {value("y", FLOAT, {2})}},
                  21)
                .m(8, opset(1, "f"));
    return m.m(25, function("F", {node("Relu", {"a"}, {"b"})})).bytes;
  }());
  c.add("explosion_in_branches", "T2004", "", [&] {
    std::vector<Msg> all;
    for (int i = 0; i < 40; ++i) {
      const std::string next = "F" + std::to_string(i + 1);
      all.push_back(function("F" + std::to_string(i),
                             {node("ReduceMax", {"a"}, {"m"}, {attr_i("keepdims", 0)}),
                              node("Cast", {"m"}, {"c"}, {attr_i("to", BOOL)}),
                              node("If", {"c"}, {"b"},
                                   {attr_g("then_branch", graph_with({call(next, "a", "t")}, {}, {"t"})),
                                    attr_g("else_branch", graph_with({call(next, "a", "e")}, {}, {"e"}))})}));
    }
    all.push_back(function("F40", {node("Relu", {"a"}, {"b"})}));
    return calling(all, "F0");
  }());
  return c.all;
}

// ---------------------------------------------------------------- names
std::vector<HostileFile> names() {
  Cases c;
  const Msg t = graph_with({node("Relu", {"x"}, {"t"})}, {}, {"t"});
  c.add("node_gives_a_name_twice", "T2010", "defined twice",
        of({node("Split", {"v"}, {"y", "y"}, {attr_i("num_outputs", 2)}, "here")}));
  c.add("branch_gives_twice", "T2010", "defined twice",
        of({if_of(graph_with({node("Relu", {"x"}, {"t"}), node("Neg", {"x"}, {"t"})}, {}, {"t"}), t)}));
  c.add("branch_gives_a_cycle", "T2012", "cycle",
        of({if_of(graph_with({node("Add", {"x", "r"}, {"t"}), node("Neg", {"t"}, {"r"})}, {}, {"t"}), t)}));
  c.add("branch_reads_the_other", "T2011", "not defined",
        of({if_of(t, graph_with({node("Neg", {"t"}, {"e"})}, {}, {"e"}))}));
  c.add("branch_reads_its_own_result", "T2", "",
        of({if_of(graph_with({node("Neg", {"y"}, {"u"})}, {}, {"u"}), t)}));
  c.add("graph_reads_out_of_a_branch", "T2011", "not defined",
        of({node("If", {"b"}, {"z"}, {attr_g("then_branch", t), attr_g("else_branch", t)}),
            here("Relu", {"t"})}));
  c.add("branch_gives_nothing_defined", "T20", "not defined",
        of({if_of(graph_with({}, {}, {"nowhere"}), t)}));
  c.add("branch_has_inputs", "T2011", "'p' is not defined",
        of({if_of(graph_with({node("Relu", {"p"}, {"t"})}, {"p"}, {"t"}), t)}));
  c.add("branch_hides_a_value_it_reads", "T2012", "cycle",
        of({if_of(graph_with({node("Relu", {"x"}, {"x"})}, {}, {"x"}), t)}));
  const auto loop = [&](const Msg& body, std::vector<std::string> in = {"i", "b", "x"}) {
    return of({here("Loop", in, {attr_g("body", body)})});
  };
  c.add("body_hides_what_is_carried", "T2010", "defined twice",
        loop(graph_with({node("Relu", {"s"}, {"s"}), node("Identity", {"m"}, {"k"})}, {"n", "m", "s"},
                        {"k", "s"})));
  c.add("body_counts_in_the_condition", "T2010", "defined twice",
        loop(graph_with({node("Relu", {"s"}, {"r"})}, {"n", "n", "s"}, {"n", "r"})));
  c.add("body_without_names", "T2010", "parameter '' is defined twice",
        loop(graph_with({node("Relu", {""}, {"r"})}, {"", "", ""}, {"", "r"})));
  c.add("body_gives_an_unknown_value", "T20", "not defined",
        loop(graph_with({node("Identity", {"m"}, {"k"})}, {"n", "m", "s"}, {"k", "nowhere"})));
  c.add("body_initializer_is_a_parameter", "T2010", "defined twice", [&] {
    Msg body =
        graph_with({node("Relu", {"s"}, {"r"}), node("Identity", {"m"}, {"k"})}, {"n", "m", "s"}, {"k", "r"});
    return loop(body.m(5, floats("s", {2, 3}, {1, 2, 3, 4, 5, 6})));
  }());
  c.add("body_initializer_twice", "T2010", "defined twice", [&] {
    Msg body =
        graph_with({node("Relu", {"s"}, {"r"}), node("Identity", {"m"}, {"k"})}, {"n", "m", "s"}, {"k", "r"});
    return loop(body.m(5, floats("w", {1}, {1})).m(5, floats("w", {1}, {2})));
  }());
  c.add("map_binds_twice", "T2010", "defined twice", [&] {
    const Msg q = typed("q", sequence_of(kFloats));
    return model({{here("SequenceMap", {"q", "q"},
                        {attr_g("body", graph_with({node("Relu", {"p"}, {"r"})}, {"p", "p"}, {"r"}))})},
                  {},
                  {q},
                  {typed("y", sequence_of(kFloats))}},
                 21)
        .bytes;
  }());
  c.add("initializer_is_a_result", "T2010", "defined twice",
        of({here("Relu", {"x"})}, {floats("y", {1}, {1})}));
  return c.all;
}

// ---------------------------------------------------------------- bodies
std::vector<HostileFile> bodies() {
  Cases c;
  const Msg t = graph_with({node("Relu", {"x"}, {"t"})}, {}, {"t"});
  const auto branch = [](std::vector<Msg> nodes) { return graph_with(std::move(nodes), {}, {"t"}); };
  const auto both = [&](const std::string& name, const std::string& code, const std::string& part,
                        const Msg& other) {
    c.add("branches_" + name, code, part, of({if_of(t, other)}));
    c.add("branches_" + name + "_first", code, part, of({if_of(other, t)}));
  };
  both("of_two_types", "T2020", "in one branch and",
       branch({node("Cast", {"x"}, {"t"}, {attr_i("to", INT64)})}));
  both("of_truth", "T2020", "in one branch and", branch({node("Equal", {"x", "x"}, {"t"})}));
  both("of_a_sequence", "T", "here", branch({node("SequenceConstruct", {"x"}, {"t"})}));
  both("of_an_empty_sequence", "T", "here", branch({node("SequenceEmpty", {}, {"t"})}));
  both("of_strings", "T", "here", branch({node("Constant", {}, {"t"}, {attr_s("value_string", "a")})}));
  both("of_two_results", "T2020", "branches of If", graph_with({node("Relu", {"x"}, {"t"})}, {}, {"t", "t"}));
  both("of_nothing", "T2020", "branches of If", graph_with({}, {}, {}));
  c.add("condition_is_a_number", "T2020", "truth value", of({if_of(t, t, "x")}));
  c.add("condition_is_a_vector", "T2020", "truth value",
        of({node("Equal", {"v", "v"}, {"e"}), if_of(t, t, "e")}));
  c.add("condition_is_missing", "T2020", "", of({if_of(t, t, "")}));
  c.add("branch_is_missing", "T2020", "needs the graph 'else_branch'",
        of({here("If", {"b"}, {attr_g("then_branch", t)})}));
  c.add("branch_is_a_number", "T2020", "needs the graph 'else_branch'",
        of({here("If", {"b"}, {attr_g("then_branch", t), attr_i("else_branch", 1)})}));

  const auto loop = [&](const std::string& name, const std::string& code, const std::string& part,
                        std::vector<Msg> nodes, std::vector<std::string> out = {"m", "r"},
                        std::vector<std::string> in = {"i", "b", "x"},
                        std::vector<std::string> params = {"n", "m", "s"}) {
    c.add("loop_" + name, code, part,
          of({here("Loop", in, {attr_g("body", graph_with(std::move(nodes), params, out))})}));
  };
  const Msg relu = node("Relu", {"s"}, {"r"});
  loop("changes_its_type", "T2020", "changes its data type",
       {node("Cast", {"s"}, {"r"}, {attr_i("to", INT64)})});
  loop("becomes_a_sequence", "T2020", "", {node("SequenceConstruct", {"s"}, {"r"})});
  loop("becomes_strings", "T2020", "", {node("Constant", {}, {"r"}, {attr_s("value_string", "a")})});
  loop("grows_a_dimension", "T2102", "changes its rank",
       {node("Constant", {}, {"a"}, {attr_ints("value_ints", {0})}), node("Unsqueeze", {"s", "a"}, {"r"})});
  loop("condition_is_a_number", "T2020", "truth value", {relu}, {"s", "r"});
  loop("condition_is_the_step", "T2020", "truth value", {relu}, {"n", "r"});
  loop("has_few_inputs", "T2020", "body of Loop", {node("Relu", {"n"}, {"r"})}, {"m", "r"}, {"i", "b", "x"},
       {"n", "m"});
  loop("has_many_inputs", "T2020", "body of Loop", {relu}, {"m", "r"}, {"i", "b", "x"}, {"n", "m", "s", "u"});
  loop("has_few_outputs", "T2020", "body of Loop", {relu}, {"m"});
  loop("has_no_outputs", "T2020", "body of Loop", {relu}, {});
  loop("counts_in_floats", "T2020", "holds no integers", {relu}, {"m", "r"}, {"x", "b", "x"});
  loop("counts_to_a_vector", "T2020", "holds no integers", {relu}, {"m", "r"}, {"v", "b", "x"});
  loop("collects_a_sequence", "T", "here", {relu, node("SequenceConstruct", {"s"}, {"q"})}, {"m", "r", "q"});
  loop("carries_nothing_given", "T2", "here", {relu}, {"m", "r"}, {"i", "b", ""});
  loop("of_an_unknown_operator", "T2101", "not supported", {node("Frobnicate", {"s"}, {"r"})});

  const auto scan = [&](const std::string& name, const std::string& code, const std::string& part,
                        std::vector<Msg> attributes, std::vector<std::string> out = {"r"},
                        std::vector<std::string> in = {"x"}) {
    std::vector<std::string> params;
    for (size_t k = 0; k < in.size(); ++k) params.push_back("s" + std::to_string(k));
    attributes.push_back(attr_g("body", graph_with({node("Relu", {"s0"}, {"r"})}, params, out)));
    c.add("scan_" + name, code, part, of({here("Scan", in, attributes)}));
  };
  for (const int64_t n : {int64_t(0), int64_t(-1), int64_t(2), INT64_MAX, INT64_MIN})
    scan(n == INT64_MAX   ? "of_most"
         : n == INT64_MIN ? "of_least"
         : n < 0          ? "of_minus_one"
                          : "of_" + std::to_string(n),
         "T2020", "body of", {attr_i("num_scan_inputs", n)});
  scan("without_a_number", "T2020", "num_scan_inputs", {});
  for (const int64_t a : {int64_t(2), int64_t(-3), INT64_MAX, INT64_MIN})
    scan(a == INT64_MAX   ? "axis_most"
         : a == INT64_MIN ? "axis_least"
         : a < 0          ? "axis_before"
                          : "axis_behind",
         "T2020", "outside of rank 2", {attr_i("num_scan_inputs", 1), attr_ints("scan_input_axes", {a})});
  scan("output_axis_behind", "T2020", "outside of rank",
       {attr_i("num_scan_inputs", 1), attr_ints("scan_output_axes", {2})});
  scan("too_many_axes", "T2020", "entries",
       {attr_i("num_scan_inputs", 1), attr_ints("scan_input_axes", {0, 0})});
  scan("too_many_directions", "T2020", "entries",
       {attr_i("num_scan_inputs", 1), attr_ints("scan_input_directions", {0, 0})});
  scan("too_many_output_directions", "T2020", "entries",
       {attr_i("num_scan_inputs", 1), attr_ints("scan_output_directions", {0, 0})});
  scan("direction_is_five", "T2020", "'scan_input_directions' of Scan is 5",
       {attr_i("num_scan_inputs", 1), attr_ints("scan_input_directions", {5})});
  scan("of_a_scalar", "T2020", "outside of rank 0", {attr_i("num_scan_inputs", 1)}, {"r"}, {"i"});
  scan("of_two_lengths", "T2020", "another length", {attr_i("num_scan_inputs", 2)}, {"r"}, {"x", "v"});
  scan("gives_nothing", "T2", "", {attr_i("num_scan_inputs", 1)}, {});
  c.add("scan_of_a_sequence", "T2", "here",
        model({{here("Scan", {"q"},
                     {attr_i("num_scan_inputs", 1),
                      attr_g("body", graph_with({node("Relu", {"s"}, {"r"})}, {"s"}, {"r"}))})},
               {},
               {typed("q", sequence_of(kFloats))},
               {value("y", FLOAT, {})}},
              21)
            .bytes);
  c.add("map_of_a_tensor", "T2020", "must be a sequence",
        of({here("SequenceMap", {"x"},
                 {attr_g("body", graph_with({node("Relu", {"s"}, {"r"})}, {"s"}, {"r"}))})}));
  c.add("map_with_another_body", "T2020", "body of SequenceMap",
        of({here("SequenceMap", {"x", "x"},
                 {attr_g("body", graph_with({node("Relu", {"s"}, {"r"})}, {"s"}, {"r"}))})}));
  c.add("map_makes_sequences", "T2020", "must give tensors",
        model({{here("SequenceMap", {"q"},
                     {attr_g("body", graph_with({node("SequenceConstruct", {"s"}, {"r"})}, {"s"}, {"r"}))})},
               {},
               {typed("q", sequence_of(kFloats))},
               {typed("y", sequence_of(kFloats))}},
              21)
            .bytes);
  // Loops in loops: every round of an outer body converts the inner ones again.
  Msg body = graph_with({node("Relu", {"s"}, {"r"})}, {"n", "m", "s"}, {"m", "r"});
  for (int k = 0; k < 12; ++k)
    body = graph_with(
        {node("Loop", {"i", "b", "s"}, {"r"}, {attr_g("body", body)}), node("Frobnicate", {"r"}, {"z"})},
        {"n", "m", "s"}, {"m", "r"});
  c.add("loops_in_loops", "T2", "", of({here("Loop", {"i", "b", "x"}, {attr_g("body", body)})}));
  return c.all;
}

// ---------------------------------------------------------------- numbers
std::vector<HostileFile> sizes() {
  Cases c;
  const auto add = [&](const std::string& name, const std::string& code, const std::string& part,
                       const Msg& n, std::vector<Msg> given = {}) {
    c.add("size_" + name, code, part, of({n}, std::move(given)));
  };
  // What the importer refuses, and what the type rule of the operator does.
  const auto absurd = [&](const std::string& name, const Msg& n, std::vector<Msg> given = {}) {
    add(name, "T20", "here", n, std::move(given));
  };
  const auto untyped = [&](const std::string& name, const Msg& n, std::vector<Msg> given = {}) {
    add(name, "T1101", "here", n, std::move(given));
  };
  const Msg image = floats("im", {1, 1, 2, 2}, {1, 2, 3, 4}),
            kernel = floats("k", {1, 1, 2, 2}, {1, 2, 3, 4});
  absurd("one_hot", here("OneHot", {"i", "d", "f"}), {ints("d", {}, {kBig}), floats("f", {2}, {0, 1})});
  absurd("one_hot_negative", here("OneHot", {"i", "d", "f"}),
         {ints("d", {}, {-1}), floats("f", {2}, {0, 1})});
  absurd("pad", here("Pad", {"x", "p"}), {ints("p", {4}, {kBig, kBig, 0, 0})});
  untyped("pad_negative", here("Pad", {"x", "p"}), {ints("p", {4}, {-kBig, 0, 0, 0})});
  absurd("resize", here("Resize", {"x", "", "", "s"}), {ints("s", {2}, {kBig, kBig})});
  absurd("resize_negative", here("Resize", {"x", "", "", "s"}), {ints("s", {2}, {-1, 3})});
  absurd("resize_scale", here("Resize", {"x", "", "s"}), {floats("s", {2}, {1e30f, 1})});
  absurd("resize_nan", here("Resize", {"x", "", "s"}), {floats("s", {2}, {NAN, 1})});
  absurd("resize_least", here("Resize", {"x", "", "s"}), {floats("s", {2}, {1e-45f, -1})});
  absurd("conv_transpose", here("ConvTranspose", {"im", "k"}, {attr_ints("strides", {kBig, kBig})}),
         {image, kernel});
  absurd("conv_transpose_output",
         here("ConvTranspose", {"im", "k"}, {attr_ints("output_shape", {kBig, kBig})}), {image, kernel});
  absurd("conv_dilation", here("Conv", {"im", "k"}, {attr_ints("dilations", {INT64_MAX, INT64_MAX})}),
         {image, kernel});
  absurd("conv_pads",
         here("Conv", {"im", "k"}, {attr_ints("pads", {INT64_MAX, INT64_MAX, INT64_MAX, INT64_MAX})}),
         {image, kernel});
  absurd("conv_group", here("Conv", {"im", "k"}, {attr_i("group", INT64_MIN)}), {image, kernel});
  absurd("pool_kernel", here("MaxPool", {"im"}, {attr_ints("kernel_shape", {INT64_MAX, INT64_MAX})}),
         {image});
  absurd("pool_pads",
         here("AveragePool", {"im"},
              {attr_ints("kernel_shape", {kBig, kBig}),
               attr_ints("pads", {kBig - 1, kBig - 1, kBig - 1, kBig - 1})}),
         {image});
  absurd("unpool", here("MaxUnpool", {"im", "ix", "s"}, {attr_ints("kernel_shape", {2, 2})}),
         {image, ints("ix", {1, 1, 2, 2}, {0, 1, 2, 3}), ints("s", {4}, {1, 1, kBig, kBig})});
  absurd("unpool_strides",
         here("MaxUnpool", {"im", "ix"},
              {attr_ints("kernel_shape", {kBig, kBig}), attr_ints("strides", {kBig, kBig})}),
         {image, ints("ix", {1, 1, 2, 2}, {0, 1, 2, 3})});
  absurd("depth_to_space", here("DepthToSpace", {"im"}, {attr_i("blocksize", int64_t(1) << 32)}), {image});
  absurd("space_to_depth", here("SpaceToDepth", {"im"}, {attr_i("blocksize", int64_t(1) << 32)}), {image});
  untyped("col2im", here("Col2Im", {"c", "s", "bs"}),
          {floats("c", {1, 4, 1}, {1, 2, 3, 4}), ints("s", {2}, {kBig, kBig}), ints("bs", {2}, {2, 2})});
  absurd("window", here("HannWindow", {"s"}), {ints("s", {}, {kBig})});
  absurd("window_negative", here("BlackmanWindow", {"s"}), {ints("s", {}, {-5})});
  untyped("mel", here("MelWeightMatrix", {"s", "s", "s", "f", "f"}),
          {ints("s", {}, {int64_t(1) << 31}), floats("f", {}, {1})});
  absurd("affine_grid", here("AffineGrid", {"th", "s"}),
         {floats("th", {1, 2, 3}, {1, 0, 0, 0, 1, 0}), ints("s", {4}, {1, 1, kBig, kBig})});
  absurd("split", node("Split", {"v"}, {"y"}, {attr_i("num_outputs", kBig)}, "here"));
  absurd("split_sum", node("Split", {"v", "s"}, {"y", "z"}, {}, "here"),
         {ints("s", {2}, {INT64_MAX, 5 - INT64_MAX})});
  absurd("split_negative", node("Split", {"v", "s"}, {"y", "z"}, {}, "here"), {ints("s", {2}, {-1, 5})});
  untyped("reshape", here("Reshape", {"x", "s"}), {ints("s", {3}, {INT64_MAX, 2, 3})});
  untyped("reshape_wraps", here("Reshape", {"x", "s"}), {ints("s", {3}, {int64_t(1) << 62, 4, 6})});
  absurd("expand_wraps", here("Expand", {"x", "s"}), {ints("s", {4}, {int64_t(1) << 62, 4, 2, 3})});
  absurd("tile_wraps", here("Tile", {"x", "s"}), {ints("s", {2}, {int64_t(1) << 62, int64_t(1) << 62})});
  absurd("tile_negative", here("Tile", {"x", "s"}), {ints("s", {2}, {-1, 1})});
  absurd("unsqueeze", here("Unsqueeze", {"x", "s"}), {ints("s", {1}, {INT64_MIN})});
  untyped("top_k", node("TopK", {"x", "s"}, {"y", "z"}, {}, "here"), {ints("s", {1}, {INT64_MAX})});
  untyped("top_k_negative", node("TopK", {"x", "s"}, {"y", "z"}, {}, "here"), {ints("s", {1}, {-1})});
  untyped("range_step", here("Range", {"a", "e", "d"}),
          {ints("a", {}, {INT64_MIN}), ints("e", {}, {INT64_MAX}), ints("d", {}, {1})});
  untyped("range_zero", here("Range", {"a", "e", "d"}),
          {ints("a", {}, {0}), ints("e", {}, {5}), ints("d", {}, {0})});
  untyped("range_nan", here("Range", {"a", "e", "d"}),
          {floats("a", {}, {0}), floats("e", {}, {NAN}), floats("d", {}, {1})});
  untyped("range_tiny", here("Range", {"a", "e", "d"}),
          {floats("a", {}, {0}), floats("e", {}, {1e30f}), floats("d", {}, {1e-30f})});
  absurd("multinomial", here("Multinomial", {"x"}, {attr_i("sample_size", kBig)}));
  untyped("multinomial_negative", here("Multinomial", {"x"}, {attr_i("sample_size", -1)}));
  absurd("random", here("RandomNormal", {}, {attr_ints("shape", {INT64_MAX, 2})}));
  absurd("random_negative", here("RandomUniform", {}, {attr_ints("shape", {-1})}));
  add("eye", "T2102", "here", here("EyeLike", {"x"}, {attr_i("k", INT64_MIN), attr_i("dtype", 99)}));
  absurd("roi_pool",
         here("MaxRoiPool", {"im", "r"}, {attr_ints("pooled_shape", {int64_t(1) << 31, int64_t(1) << 31})}),
         {image, floats("r", {1, 5}, {0, 0, 0, 1, 1})});
  absurd("roi_align",
         here("RoiAlign", {"im", "r", "bi"}, {attr_i("output_height", kBig), attr_i("output_width", kBig)}),
         {image, floats("r", {1, 4}, {0, 0, 1, 1}), ints("bi", {1}, {0})});
  untyped("roi_samples", here("RoiAlign", {"im", "r", "bi"}, {attr_i("sampling_ratio", kBig)}),
          {image, floats("r", {1, 4}, {0, 0, 1, 1}), ints("bi", {1}, {0})});
  untyped("stft", here("STFT", {"sg", "st", "", "fl"}),
          {floats("sg", {1, 4, 1}, {1, 2, 3, 4}), ints("st", {}, {0}), ints("fl", {}, {2})});
  untyped("frames", here("STFT", {"sg", "st", "", "fl"}),
          {floats("sg", {1, 4, 1}, {1, 2, 3, 4}), ints("st", {}, {1}), ints("fl", {}, {kBig})});
  absurd("crop", here("CropAndResize", {"im", "r", "bi", "s"}, {}, "com.microsoft"),
         {image, floats("r", {1, 4}, {0, 0, 1, 1}), tensor_head("bi", INT32, {1}).i(5, 0),
          ints("s", {2}, {kBig, kBig})});
  absurd("trees",
         here("TreeEnsemble", {"x"},
              {attr_i("n_targets", kBig), attr_ints("tree_roots", {0}), attr_ints("nodes_featureids", {0}),
               attr_ints("nodes_truenodeids", {0}), attr_ints("nodes_falsenodeids", {0}),
               attr_ints("nodes_trueleafs", {1}), attr_ints("nodes_falseleafs", {1}),
               attr_ints("leaf_targetids", {0}), attr_t("nodes_splits", floats("", {1}, {1})),
               attr_t("leaf_weights", floats("", {1}, {1})),
               attr_t("nodes_modes", tensor_head("", UINT8, {1}).s(9, std::string(1, '\0')))},
              "ai.onnx.ml"));
  return c.all;
}

std::vector<HostileFile> blocks() {
  Cases c;
  const auto add = [&](const std::string& name, const Msg& n, std::vector<Msg> given,
                       const std::string& part = "here") {
    c.add("blocks_" + name, "T", part, of({n}, std::move(given)));
  };
  const auto bytes = [](const std::string& name, const std::vector<int64_t>& dims, int elem = UINT8) {
    int64_t n = 1;
    for (int64_t d : dims) n *= d;
    return tensor_head(name, elem, dims).s(9, std::string(size_t(n), '\1'));
  };
  const auto scales = [](const std::vector<int64_t>& dims) {
    int64_t n = 1;
    for (int64_t d : dims) n *= d;
    return floats("s", dims, std::vector<float>(size_t(n), 0.5f));
  };
  const auto dequantize = [&](const std::string& name, int64_t block, const std::vector<int64_t>& dims,
                              int64_t axis = 1) {
    for (const char* op : {"DequantizeLinear", "QuantizeLinear"})
      add(name + (op[0] == 'D' ? "" : "_of_floats"),
          here(op, {op[0] == 'D' ? "q" : "w", "s"}, {attr_i("block_size", block), attr_i("axis", axis)}),
          {scales(dims), floats("w", {2, 4}, {1, 2, 3, 4, 5, 6, 7, 8})});
  };
  dequantize("negative", -2, {2, 2});
  dequantize("least", INT64_MIN, {2, 2});
  dequantize("largest", INT64_MAX, {2, 2});
  dequantize("of_three", 3, {2, 3});
  dequantize("too_few", 2, {2, 1});
  dequantize("too_many", 2, {2, 4});
  dequantize("of_other_rows", 2, {3, 2});
  dequantize("of_another_rank", 2, {2});
  dequantize("axis_behind", 2, {2, 2}, 2);
  dequantize("axis_least", 2, {2, 2}, INT64_MIN);
  dequantize("scales_of_an_axis", 0, {3});
  add("zero_of_another_size", here("DequantizeLinear", {"q", "s", "z"}, {attr_i("axis", 1)}),
      {scales({4}), bytes("z", {3})});
  add("zero_of_another_type", here("DequantizeLinear", {"q", "s", "z"}), {scales({}), bytes("z", {}, INT8)});
  add("scale_of_integers", here("DequantizeLinear", {"q", "s"}), {ints("s", {}, {1})});
  add("of_floats", here("DequantizeLinear", {"x", "s"}), {scales({})});
  add("to_an_absurd_type", here("QuantizeLinear", {"x", "s"}, {attr_i("output_dtype", 8)}), {scales({})});
  add("to_no_type", here("QuantizeLinear", {"x", "s"}, {attr_i("output_dtype", INT64_MAX)}), {scales({})});

  const auto bits = [&](const std::string& name, int64_t k, int64_t n, int64_t width, int64_t block,
                        const std::vector<int64_t>& packed = {2, 1, 8},
                        const std::vector<int64_t>& dims = {2}) {
    add("n_bits_" + name,
        here("MatMulNBits", {"m", "p", "s"},
             {attr_i("K", k), attr_i("N", n), attr_i("bits", width), attr_i("block_size", block)},
             "com.microsoft"),
        {floats("m", {1, 16}, std::vector<float>(16, 1)), bytes("p", packed), scales(dims)});
  };
  bits("of_three_bits", 16, 2, 3, 16);
  bits("of_minus_one_bit", 16, 2, -1, 16);
  bits("in_no_block", 16, 2, 4, 0);
  bits("in_a_negative_block", 16, 2, 4, -16);
  bits("in_a_huge_block", 16, 2, 4, kBig);
  bits("in_blocks_of_15", 16, 2, 4, 15);
  bits("of_no_rows", 0, 2, 4, 16);
  bits("of_negative_rows", -16, 2, 4, 16);
  bits("of_huge_rows", INT64_MAX, 2, 4, 16);
  bits("of_huge_columns", 16, INT64_MAX, 4, 16);
  bits("of_negative_columns", 16, -2, 4, 16);
  bits("of_other_rows", 32, 2, 4, 16);
  bits("cut", 16, 2, 4, 16, {2, 1, 7});
  bits("scales_cut", 16, 2, 4, 16, {2, 1, 8}, {1});
  add("gathered_from_no_block",
      here("GatherBlockQuantized", {"p", "i", "s"}, {attr_i("block_size", 0), attr_i("bits", 4)},
           "com.microsoft"),
      {bytes("p", {2, 8}), scales({2, 1})});
  add("gathered_scales",
      here("GatherBlockQuantized", {"p", "i", "s"}, {attr_i("block_size", 16), attr_i("bits", 4)},
           "com.microsoft"),
      {bytes("p", {2, 8}), scales({3, 1})});
  add("gathered_axis",
      here("GatherBlockQuantized", {"p", "i", "s"},
           {attr_i("block_size", 16), attr_i("bits", 4), attr_i("gather_axis", 7)}, "com.microsoft"),
      {bytes("p", {2, 8}), scales({2, 1})});
  add("int4_cut", here("DequantizeLinear", {"w", "s"}), {tensor_head("w", INT4, {3}).s(9, "\1"), scales({})},
      "w");
  add("int4_long", here("DequantizeLinear", {"w", "s"}),
      {tensor_head("w", INT4, {3}).s(9, "\1\1\1"), scales({})}, "w");
  add("fp4_cut", here("DequantizeLinear", {"w", "s"}), {tensor_head("w", 23, {4}).s(9, "\1"), scales({})},
      "w");
  add("product_of_other_zeros", here("QLinearMatMul", {"q", "s", "z", "p", "s", "z", "s", "z"}),
      {scales({}), bytes("z", {}), bytes("p", {3, 2})});
  add("product_of_floats", here("QLinearMatMul", {"x", "s", "z", "x", "s", "z", "s", "z"}),
      {scales({}), bytes("z", {})});
  add("integers_of_floats", here("MatMulInteger", {"x", "x"}), {});
  // Zero points that the bytes cannot have.
  const Msg wide = tensor_head("o", INT32, {}).s(9, std::string("\xE7\3\0\0", 4)), b = bytes("p", {4, 2}),
            zero = bytes("z", {});
  add("product_of_wide_zeros", here("QLinearMatMul", {"q", "s", "o", "p", "s", "z", "s", "z"}),
      {scales({}), wide, b, zero});
  add("convolution_of_wide_zeros", here("QLinearConv", {"im", "s", "z", "k", "s", "o", "s", "z"}),
      {scales({}), wide, bytes("im", {1, 2, 2, 2}), bytes("k", {1, 2, 1, 1}), zero});
  add("integers_of_wide_zeros", here("MatMulInteger", {"q", "p", "z", "o"}), {wide, b, zero});
  add("sum_of_wide_zeros", here("QLinearAdd", {"q", "s", "o", "q", "s", "z", "s", "z"}, {}, "com.microsoft"),
      {scales({}), wide, zero});
  add("sum_of_a_wide_zero", here("QLinearAdd", {"q", "s", "z", "q", "s", "z", "s", "o"}, {}, "com.microsoft"),
      {scales({}), wide, zero});
  return c.all;
}

std::vector<HostileFile> attributes() {
  Cases c;
  const auto add = [&](const std::string& name, const Msg& n, std::vector<Msg> given = {},
                       const std::string& code = "T2020") {
    c.add("attribute_" + name, code, "here", of({n}, std::move(given)));
  };
  add("is_a_graph", here("Softmax", {"x"}, {attr_g("axis", graph_with({}, {}, {}))}));
  add("is_a_type", here("Softmax", {"x"}, {Msg().s(1, "axis").m(14, kFloats).i(20, 13)}));
  add("is_a_list", here("Softmax", {"x"}, {attr_ints("axis", {1})}));
  add("kind_is_unknown", here("Softmax", {"x"}, {Msg().s(1, "axis").i(3, 1).i(20, 99)}));
  add("axis_least", here("Softmax", {"x"}, {attr_i("axis", INT64_MIN)}));
  add("perm_is_long", here("Transpose", {"x"}, {attr_ints("perm", std::vector<int64_t>(100'000, 0))}));
  add("perm_is_large", here("Transpose", {"x"}, {attr_ints("perm", {INT64_MAX, INT64_MIN})}));
  add("type_is_large", here("Cast", {"x"}, {attr_i("to", int64_t(1) << 33 | 1)}), {}, "T2102");
  add("type_is_negative", here("Cast", {"x"}, {attr_i("to", -1)}), {}, "T2102");
  add("type_is_complex", here("Cast", {"x"}, {attr_i("to", COMPLEX64)}), {}, "T2102");
  add("value_is_sparse_nonsense", here("Constant", {}, {Msg().s(1, "sparse_value").m(22, Msg()).i(20, 11)}),
      {}, "T2014");
  add("value_is_a_list_of_tensors",
      here("Constant", {}, {Msg().s(1, "value").m(10, floats("", {1}, {1})).i(20, 9)}));
  add("values_of_two_kinds", here("Constant", {}, {attr_f("value_float", 1), attr_i("value_int", 1)}));
  add("group_is_negative", here("GroupNormalization", {"im", "s", "s"}, {attr_i("num_groups", -1)}),
      {floats("im", {1, 2, 2}, {1, 2, 3, 4}), floats("s", {2}, {1, 1})});
  add("group_is_zero", here("GroupNormalization", {"im", "s", "s"}, {attr_i("num_groups", 0)}),
      {floats("im", {1, 2, 2}, {1, 2, 3, 4}), floats("s", {2}, {1, 1})});
  add("size_is_zero", here("LRN", {"im"}, {attr_i("size", 0)}), {floats("im", {1, 2, 2}, {1, 2, 3, 4})});
  add("hidden_is_negative", here("LSTM", {"im", "w", "r"}, {attr_i("hidden_size", -1)}),
      {floats("im", {1, 1, 1}, {1}), floats("w", {1, 4, 1}, {1, 2, 3, 4}),
       floats("r", {1, 4, 1}, {1, 2, 3, 4})});
  add("heads_are_zero",
      here("Attention", {"im", "im", "im"}, {attr_i("q_num_heads", 0), attr_i("kv_num_heads", 0)}),
      {floats("im", {1, 1, 4}, {1, 2, 3, 4})});
  add("heads_are_negative",
      here("MultiHeadAttention", {"im", "im", "im"}, {attr_i("num_heads", -2)}, "com.microsoft"),
      {floats("im", {1, 1, 4}, {1, 2, 3, 4})});
  add("equation_is_long", here("Einsum", {"x"}, {attr_s("equation", std::string(100'000, 'a'))}), {},
      "T1101");
  add("equation_is_nothing", here("Einsum", {"x"}, {attr_s("equation", "")}));
  add("equation_has_arrows", here("Einsum", {"x"}, {attr_s("equation", "ij->->ji")}), {}, "T1101");
  add("equation_counts_more", here("Einsum", {"x"}, {attr_s("equation", "ij,jk->ik")}), {}, "T1101");
  add("activation_is_unknown",
      here("RNN", {"im", "w", "r"},
           {attr_i("hidden_size", 1), Msg().s(1, "activations").s(9, "\xff").i(20, 8)}),
      {floats("im", {1, 1, 1}, {1}), floats("w", {1, 1, 1}, {1}), floats("r", {1, 1, 1}, {1})}, "T2102");
  return c.all;
}

class HostileGraphs : public testing::TestWithParam<HostileFile> {};
TEST_P(HostileGraphs, AreRefusedByName) { expect_refused(GetParam()); }

#define TENON_FILES(kind, list)                                            \
  INSTANTIATE_TEST_SUITE_P(kind, HostileGraphs, testing::ValuesIn(list()), \
                           [](const auto& i) { return i.param.name; })
TENON_FILES(Functions, functions);
TENON_FILES(Names, names);
TENON_FILES(Bodies, bodies);
TENON_FILES(Sizes, sizes);
TENON_FILES(Blocks, blocks);
TENON_FILES(Attributes, attributes);

}  // namespace
}  // namespace tenon
