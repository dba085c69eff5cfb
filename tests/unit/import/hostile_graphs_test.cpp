// SPDX-License-Identifier: Apache-2.0
// Bad files of graphs in graphs: functions that call themselves, names that are bound twice or shadowed,
// bodies whose types disagree.
#include "hostile_models.h"

namespace tenon {
namespace {

using namespace test;

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
  c.add("attribute_refers_to_nothing", "T2020", "which is no attribute of a function",
        calling({function("F", {node("Concat", {"a", "a"}, {"b"}, {attr_ref("axis", "none", 2)})})}, "F"));
  c.add("attribute_refers_to_itself", "T2020", "which is no attribute of a function",
        calling(
            {function("F", {node("Concat", {"a", "a"}, {"b"}, {attr_ref("axis", "axis", 2)})}).s(6, "axis")},
            "F", {attr_ref("axis", "axis", 2)}));
  c.add("attribute_that_the_function_does_not_have", "T2020", "the function 'F' has no attribute 'axis'",
        calling({function("F", {node("Relu", {"a"}, {"b"})})}, "F", {attr_i("axis", 1)}));
  c.add("attribute_refers_from_the_model", "T2020", "which is no attribute of a function",
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

class HostileGraphs : public testing::TestWithParam<HostileFile> {};
TEST_P(HostileGraphs, AreRefusedByName) { expect_refused(GetParam()); }
TENON_HOSTILE(HostileGraphs, Functions, functions);
TENON_HOSTILE(HostileGraphs, Names, names);
TENON_HOSTILE(HostileGraphs, Bodies, bodies);

}  // namespace
}  // namespace tenon
