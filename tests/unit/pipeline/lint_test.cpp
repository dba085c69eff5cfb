// SPDX-License-Identifier: Apache-2.0
// tenon lint: a model that each rule remarks, and one beside it that it does not.
#include <gtest/gtest.h>

#include "ir/text.h"
#include "tools/lint.h"

namespace tenon {
namespace {

std::vector<LintRemark> remarks(const std::string& params, const std::string& body) {
  return lint(parse_module("@R.function\ndef main(" + params + "):\n    " + body + "\n    return y\n"));
}

std::vector<std::string> rules(const std::string& params, const std::string& body) {
  std::vector<std::string> out;
  for (const LintRemark& r : remarks(params, body)) {
    EXPECT_FALSE(r.message.empty() || r.hint.empty()) << r.rule;
    out.push_back(r.rule);
  }
  return out;
}

struct Case {
  const char *rule, *params, *wrong, *right;
};
const Case kCases[] = {
    {"log_of_softmax", "x: R.Tensor((2, 8), \"float32\")", "s = R.nn.softmax(x)\n    y = R.log(s)",
     "y = R.nn.log_softmax(x)"},
    {"division_by_zero", "x: R.Tensor((2,), \"float32\")",
     "y = R.divide(x, R.const([1.0, 0.0], \"float32\"))",
     "y = R.divide(x, R.const([1.0, 2.0], \"float32\"))"},
    {"constant_is_nan", "x: R.Tensor((2,), \"float32\")",
     "y = R.add(x, R.const([1.0, float(\"nan\")], \"float32\"))",
     "y = R.add(x, R.const([1.0, 2.0], \"float32\"))"},
    {"cast_out_of_range", "x: R.Tensor((2,), \"float32\")",
     "r = R.round(x)\n    y = R.cast(r, dtype=\"int8\")",
     "c = R.clip(x, min=-128.0, max=127.0)\n    r = R.round(c)\n    y = R.cast(r, dtype=\"int8\")"},
    {"root_may_be_zero", "x: R.Tensor((2, 8), \"float32\")",
     "v = R.variance(x, axis=[1], keepdims=True)\n    s = R.sqrt(v)\n    y = R.divide(x, s)",
     "v = R.variance(x, axis=[1], keepdims=True)\n    e = R.add(v, R.const(1e-5, \"float32\"))\n    s = "
     "R.sqrt(e)\n    y = "
     "R.divide(x, s)"},
    {"float64_arithmetic", "x: R.Tensor((4, 4), \"float64\")", "e = R.exp(x)\n    y = R.matmul(x, e)",
     "y = R.exp(x)"},
    {"weight_is_input", "x: R.Tensor((4, 4), \"float32\"), w: R.Tensor((4, 4), \"float32\")",
     "e = R.exp(x)\n    y = R.matmul(e, w)", "e = R.exp(w)\n    y = R.matmul(x, e)"},
    {"symbolic_sizes", "x: R.Tensor((\"n\", 4), \"float32\")", "y = R.exp(x)", nullptr},
    {"size_from_data", "x: R.Tensor((8,), \"float32\")", "y = R.nonzero(x)", "y = R.argmax(x, axis=0)"},
    {"integer_division", "x: R.Tensor((64, 64), \"int32\")", "y = R.floor_divide(x, x)",
     "y = R.floor_divide(x, R.const(3, \"int32\"))"},
};

TEST(Lint, EveryRuleRemarksItsModelAndNotTheOneBeside) {
  for (const Case& c : kCases) {
    EXPECT_EQ(rules(c.params, c.wrong), std::vector<std::string>{c.rule});
    if (!c.right) continue;
    EXPECT_EQ(rules(c.params, c.right), std::vector<std::string>()) << c.rule;
  }
}

TEST(Lint, SumsOfManyBytes) {
  auto of = [](int64_t depth) {
    const std::string k = std::to_string(depth);
    return rules("x: R.Tensor((1, " + k + "), \"uint8\")",
                 "w = R.full(R.shape([" + k +
                     ", 1]), R.const(1, \"int8\"))\n    y = R.qnn.matmul(x, w, R.const(0, \"uint8\"), "
                     "R.const(0, \"int8\"))");
  };
  EXPECT_EQ(of(65794), std::vector<std::string>{"sum_overflows"});
  EXPECT_EQ(of(65793), std::vector<std::string>());
}

TEST(Lint, QuantisedLayersThatStayInFloat) {
  auto of = [](const std::string& scale) {
    return rules("x: R.Tensor((2, 4), \"uint8\"), w: R.Tensor((4, 4), \"int8\")",
                 "a = R.qnn.dequantize(x, R.const(0.1, \"float32\"), R.const(0, \"uint8\"))\n"
                 "    e = R.qnn.dequantize(w, " +
                     scale +
                     ")\n"
                     "    m = R.matmul(a, e)\n"
                     "    y = R.qnn.quantize(m, R.const(0.5, \"float32\"), R.const(0, \"uint8\"))");
  };
  // Scales along the axis that is summed over stand inside the sum.
  EXPECT_EQ(of("R.const([0.1, 0.2, 0.3, 0.4], \"float32\"), R.const([0, 0, 0, 0], \"int8\"), axis=0"),
            std::vector<std::string>{"float_among_bytes"});
  EXPECT_EQ(of("R.const(0.1, \"float32\"), R.const(0, \"int8\")"),
            std::vector<std::string>{"weight_is_input"});
}

TEST(Lint, ParallelLoopsThatRunInOrder) {
  auto of = [](const std::string& index) {
    return lint(
        parse_module("@I.ir_module\nclass M:\n    @T.prim_func\n"
                     "    def f(A: T.Buffer((8,), \"float32\"), I: T.Buffer((8,), \"int32\"), B: "
                     "T.Buffer((8,), \"float32\")):\n"
                     "        for i in T.parallel(8):\n            B[" +
                     index +
                     "] = A[i]\n"
                     "    @R.function\n"
                     "    def main(x: R.Tensor((8,), \"float32\"), i: R.Tensor((8,), \"int32\")):\n"
                     "        return R.call_tir(cls.f, (x, i), out_sinfo=R.Tensor((8,), \"float32\"))\n"));
  };
  const auto found = of("I[i]");
  ASSERT_EQ(found.size(), 1u);
  EXPECT_EQ(found[0].rule, "loop_in_order");
  EXPECT_EQ(found[0].place, "<text>:5:9");
  EXPECT_TRUE(of("7 - i").empty());
}

TEST(Lint, RulesAreListedOnce) {
  std::vector<std::string> names;
  for (const LintRule& r : lint_rules()) names.emplace_back(r.name);
  std::ranges::sort(names);
  EXPECT_EQ(std::ranges::adjacent_find(names), names.end());
  EXPECT_EQ(names.size(), std::size(kCases) + 3);
}

}  // namespace
}  // namespace tenon
