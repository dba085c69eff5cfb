// SPDX-License-Identifier: Apache-2.0
// Dataflow patterns as text: every kind is read, printed and read again; mistakes have places; passes take
// them.
#include "ir/pattern_text.h"

#include <gtest/gtest.h>

#include <fstream>

#include "support.h"

namespace tenon::graph::testing_graph {
namespace {
using namespace dpl;
using dpl::is_op;

IRModule typed_module(const std::string& text) {
  PassContext context = make_context();
  return run_pass("infer_types", parse_module(text), context);
}

constexpr const char* kAllKinds = R"(
# as a user of tenon.dpl writes them
from tenon.dpl import is_op, wildcard

x = wildcard()
dense = is_op("nn.dense")(x, is_const())
[
    ("lib.leaky", is_op("nn.leaky_relu")(dense).has_attr({"alpha": 0.25})),
    ("lib.typed", dense.has_type(R.Tensor((2, 3), "float32")).has_shape((2, 3)).has_dtype("float32")),
    ("lib.or", is_op("exp")(x) | is_op("tanh")(x) & ~is_const()),
    ("lib.optional", dense.optional(lambda y: is_op("nn.relu")(y))),
    ("lib.dominates", dpl.is_op("nn.relu")().dominates(is_op("add")(), is_op("exp")())),
    ("lib.whole", dense.dominates(is_op("add")())),
    ("lib.tuple", is_tuple_get_item(is_tuple([x, is_const()]), 1) | is_tuple_get_item(is_tuple())),
    ("lib.function", FunctionPattern([x], is_op("exp")(x))),
    ("lib.function_of_any", FunctionPattern(None, is_op("exp")(wildcard()))),
    ("lib.sequence", is_op("exp")() ^ is_op("nn.relu")() >> is_op("add")()),
    ("lib.any", wildcard()(x)),
    ("lib.named", is_op("add")(is_var("x"), is_dfv()) | is_gv("f")(is_var()) | dpl.ExternFuncPattern("g")()),
    ("lib.tir", is_call_tir("f", [x]) | is_call_dps_packed("g", x) | is_call_packed("h", [x]) | is_call_packed("h")),
    ("lib.first", is_op("concat")(x, varg_default_wildcard=True)),
    ("lib.shape", is_op("reshape")(x, is_shape([2, 3]))),
    ("lib.unordered", is_tuple([x, is_const()], unordered=True)),
    ("lib.choice", is_if(x, is_op("exp")(), is_let(x, is_const(), is_op("tanh")(x)))),
    ("lib.same", is_op("add")(x, is_const().same_shape_as(x))),
    ("lib.argument", is_op("exp")().used_by(is_op("add")(), 1).only_used_by(is_op("nn.relu")(), 0) ^ is_op("exp")()),
    ("lib.dup", is_op("add")(x, x.dup())),
]
)";

TEST(PatternText, EveryKindIsReadAndPrinted) {
  const auto table = parse_patterns(kAllKinds);
  EXPECT_EQ(table->patterns.size(), 20u);
  const std::string printed = to_text(table);
  const auto again = parse_patterns(printed);
  EXPECT_EQ(to_text(again), printed);
  EXPECT_EQ(to_json(table), to_json(again)) << printed;
  for (const char* part : {".has_attr({\"alpha\": 0.25})",
                           ".has_type(R.Tensor((2, 3), \"float32\"))",
                           ".has_shape([2, 3])",
                           ".has_dtype(\"float32\")",
                           "(~is_const())",
                           "is_tuple_get_item(is_tuple(), -1)",
                           " ^ ",
                           " >> ",
                           "is_var(\"x\")",
                           "is_dfv()",
                           "is_gv(\"f\")",
                           "ExternFuncPattern(\"g\")",
                           "varg_default_wildcard=True",
                           "is_shape([2, 3])",
                           "unordered=True",
                           "is_if(",
                           "is_let(",
                           ".same_shape_as(",
                           ".used_by(",
                           ", 1)",
                           ".only_used_by("})
    EXPECT_NE(printed.find(part), printed.npos) << part << "\n" << printed;
  // x stands for one value wherever it stands.
  EXPECT_EQ(printed.find("p0 = wildcard()"), 0u) << printed;
}

TEST(PatternText, OneNameIsOneValue) {
  const IRModule m = typed_module(R"(
@R.function
def main(a: R.Tensor((2,), "float32"), b: R.Tensor((2,), "float32")):
    same = R.add(a, a)
    other = R.add(a, b)
    return (same, other)
)");
  const auto f = m.find("main").cast<Function>();
  const DataflowView view(f->body);
  const auto once = parse_patterns(
      "x = wildcard()\n[(\"t.double\", is_op(\"add\")(x, x)), (\"t.sum\", is_op(\"add\")(wildcard(), "
      "wildcard()))]");
  std::vector<bool> found;
  for (const Binding& b : bindings_of(f->body))
    for (const auto& [name, pattern] : once->patterns)
      found.push_back(bool(match_pattern(pattern, b->var, view)));
  EXPECT_EQ(found, (std::vector<bool>{true, true, false, true}));
}

TEST(PatternText, MistakesHavePlaces) {
  std::string all;
  try {
    parse_patterns(R"(x = wildcrad()
y = is_op("nn.dens")(x)
z = is_op("nn.relu")(w)
v = is_op("nn.relu").has_colour("red")
u = is_op("nn.relu")().has_dtype("float33")
[("lib.relu", 3), (3, x), ("lib.t", is_tuple(x)), ("lib.d", x.dominates())]
)",
                   "mine.patterns");
  } catch (const DiagnosticError& e) {
    for (const Diagnostic& d : e.diagnostics) all += d.code + " " + d.location + " " + d.message + "\n";
  }
  for (const char* part :
       {"mine.patterns:1:5 there is no pattern 'wildcrad'", "2:11 there is no operator 'nn.dens'",
        "3:22 nothing is named 'w'", "4:5 a pattern has no 'has_colour'", "5:34 this is no data type",
        "6:15 this is no pattern", "6:19 an entry is (\"NAME\", PATTERN)",
        "6:46 the items of a tuple are a list", "6:61 it takes 1 to 2 arguments, 0 are given"})
    EXPECT_NE(all.find(part), all.npos) << part << "\n" << all;
  auto code_of = [](const std::string& text) -> std::string {
    try {
      parse_patterns(text);
    } catch (const Error& e) {
      return e.code;
    }
    return "";
  };
  EXPECT_EQ(code_of("x = wildcard()"), "T1155");                                  // no list
  EXPECT_EQ(code_of("[(\"a.b\", wildcard()), (\"a.b\", wildcard())]"), "T1155");  // twice
  EXPECT_EQ(code_of("[(\"a.b\", is_op(\"nn.relu\")(wildcard(), wildcard()))]"),
            "T1150");  // too many arguments
  try {
    parse_patterns("p = is_op(\"nn.relu\")\n[(\"a\", p(p, p)),\n (\"b\", wildcard().has_shape((-2,)))]", "t");
    ADD_FAILURE() << "accepted";
  } catch (const DiagnosticError& e) {
    ASSERT_EQ(e.diagnostics.size(), 2u);
    EXPECT_EQ(e.diagnostics[0].location, "t:2:2");
    EXPECT_EQ(e.diagnostics[1].location, "t:3:2");
  }
  EXPECT_EQ(code_of("for i in x:\n  pass\n"), "T1155");
}

TEST(PatternText, APassTakesText) {
  const IRModule m = typed_module(R"(
@R.function
def main(x: R.Tensor((2, 4), "float32"), w: R.Tensor((3, 4), "float32")):
    d = R.nn.dense(x, w)
    r = R.nn.relu(d)
    e = R.exp(r)
    return e
)");
  const std::string path = ::testing::TempDir() + "table.patterns";
  std::ofstream(path) << "[(\"lib.exp\", is_op(\"exp\")(wildcard()))]";
  PassContext context = make_context();
  context.options.set_text("fuse_ops_by_pattern.file=" + path);
  context.options.set_text(
      "fuse_ops_by_pattern.patterns=[(\"lib.dense_relu\", is_op(\"nn.relu\")(is_op(\"nn.dense\")()))]");
  const IRModule out = run_pass("fuse_ops_by_pattern", m, context);
  const std::string text = print(out);
  EXPECT_NE(text.find("\"Composite\": \"lib.dense_relu\""), text.npos) << text;
  EXPECT_NE(text.find("\"Composite\": \"lib.exp\""), text.npos) << text;
  const std::vector<NDArray> in{random_array({2, 4}, f32, 1), random_array({3, 4}, f32, 2)};
  expect_close(run(m, in), run(out, in), 0);
  PassContext wrong = make_context();
  wrong.options.set_text("fuse_ops_by_pattern.patterns=[(\"lib.relu\", is_op(\"nn.rleu\")())]");
  EXPECT_THROW(run_pass("fuse_ops_by_pattern", m, wrong), Error);
}

}  // namespace
}  // namespace tenon::graph::testing_graph
