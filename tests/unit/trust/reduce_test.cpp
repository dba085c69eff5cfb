// SPDX-License-Identifier: Apache-2.0
// Wrong rules planted in copies of five passes are found on random graphs, named, and reduced to a small
// case.
#include <gtest/gtest.h>

#include "ir/structural.h"
#include "ir/text.h"
#include "op/body_rewriter.h"
#include "op/build.h"
#include "pipeline/evaluator.h"
#include "pipeline/pass_lists.h"
#include "random_graph.h"
#include "target/target.h"
#include "tools/reduce_module.h"

namespace tenon::testing_trust {
namespace {

using namespace graph;

/// Rewrites each call of one operator wrongly; `rule` gives null where it does not apply.
class Wrong : public BodyRewriter {
 public:
  using Rule = Expr (*)(Wrong&, const Call&, const VarRef&);
  Wrong(const char* op, Rule rule) : op_(op), rule_(rule) {}
  using BodyRewriter::definition_call;

 protected:
  Expr visit(const Expr& value, const VarRef& var) override {
    if (!is_op(value, op_) || !value.is<Call>()) return value;
    Expr out = rule_(*this, *value.as<Call>(), var);
    return out ? out : value;
  }

 private:
  std::string op_;
  Rule rule_;
};

IRModule plant(IRModule m, const char* op, Wrong::Rule rule) {
  return rewrite_functions<Wrong>(std::move(m), op, rule);
}
bool same_type(const Expr& a, const VarRef& b) { return a->type && structural_equal(a->type, b->declared); }

IRModule wrong_canonicalize(IRModule m, PassContext& c) {  // a transposition of a square is nothing
  return plant(run_pass("canonicalize", std::move(m), c), "permute_dims",
               [](Wrong&, const Call& call, const VarRef& v) {
                 return same_type(call.args[0], v) ? call.args[0] : Expr();
               });
}
IRModule wrong_simplify_expr(IRModule m, PassContext& c) {  // a - b = b - a
  return plant(run_pass("simplify_expr", std::move(m), c), "subtract",
               [](Wrong&, const Call& call, const VarRef&) {
                 return op::op_call("subtract", {call.args[1], call.args[0]}, call.attrs);
               });
}
IRModule wrong_eliminate_common_subexpr(IRModule m, PassContext& c) {  // smallest and largest are the same
  return plant(
      run_pass("eliminate_common_subexpr", std::move(m), c), "maximum",
      [](Wrong&, const Call& call, const VarRef&) { return op::op_call("minimum", call.args, call.attrs); });
}
IRModule wrong_fold_scale_axis(IRModule m, PassContext& c) {  // a scale is forgotten
  return plant(run_pass("fold_scale_axis", std::move(m), c), "multiply",
               [](Wrong&, const Call& call, const VarRef& v) {
                 return call.args[1].is<Constant>() && same_type(call.args[0], v) ? call.args[0] : Expr();
               });
}
IRModule wrong_simplify_inference(IRModule m, PassContext& c) {  // a reduction takes the first axis
  return plant(run_pass("simplify_inference", std::move(m), c), "nn.softmax",
               [](Wrong&, const Call& call, const VarRef&) {
                 return op::op_call("nn.softmax", call.args, op::make_attrs<op::AxisAttrs>(0));
               });
}

TEST(Reduce, PlantedBugsAreNamedAndReduced) {
  const Pass planted[] = {{"canonicalize", wrong_canonicalize},
                          {"simplify_expr", wrong_simplify_expr},
                          {"eliminate_common_subexpr", wrong_eliminate_common_subexpr},
                          {"fold_scale_axis", wrong_fold_scale_axis},
                          {"simplify_inference", wrong_simplify_inference}};
  PassContext context;
  context.opt_level = 3;
  context.target = Target(host_target());
  context.evaluate = make_evaluator();
  RandomGraphOptions large;
  large.min_operators = 15, large.max_operators = 30;
  large.patterns = large.recorded = false;  // one function, so that the case stays small
  for (const Pass& bug : planted) {
    std::vector<Pass> passes;  // up to fusion, which hides the operators
    for (Pass p : graph_passes()) {
      if (p.name == "fuse_ops") break;
      if (p.name == bug.name) p.run = bug.run;
      passes.push_back(p);
    }
    bool found = false;
    for (uint64_t seed = 0; seed < 3000 && !found; ++seed) {
      const IRModule module = random_graph(seed, large);
      const auto failure = find_failure(module, passes, context);
      if (!failure) continue;
      found = true;
      EXPECT_EQ(failure->pass, bug.name) << failure->message;
      EXPECT_EQ(failure->code, "T1010") << failure->message;
      const IRModule small = reduce_module(module, [&](const IRModule& m) {
        const auto again = find_failure(m, passes, context);
        return again && again->same_as(*failure);
      });
      const auto again = find_failure(small, passes, context);
      ASSERT_TRUE(again);
      EXPECT_TRUE(again->same_as(*failure));
      const std::string text = print(small);
      EXPECT_LT(std::count(text.begin(), text.end(), '\n'), 30) << text;
      EXPECT_LE(bindings_of(small.find("main").cast<graph::Function>()->body).size(), 3u) << text;
    }
    EXPECT_TRUE(found) << "no graph shows the wrong " << bug.name;
  }
}

TEST(Reduce, KeepsWhatDoesNotFail) {
  const IRModule module = random_graph(3);
  EXPECT_EQ(print(reduce_module(module, [](const IRModule&) { return false; })), print(module));
}

TEST(Reduce, DataflowRegionsStayAroundWhatIsLeft) {
  PassContext context;
  const IRModule module = run_pass("infer_types", parse_module(R"(
@R.function
def main(x: R.Tensor((4,), "float32"), y: R.Tensor((4,), "float32")):
    with R.dataflow():
        a = R.exp(x)
        b = R.add(a, y)
        R.output(b)
    c = R.nn.relu(b)
    with R.dataflow():
        d = R.multiply(c, y)
        e = R.sqrt(d)
        R.output(e)
    return e
)"),
                                   context);
  const IRModule small = reduce_module(module, [](const IRModule& m) {
    const std::string text = print(m);
    return text.find("R.add") != std::string::npos && text.find("R.multiply") != std::string::npos;
  });
  const std::string text = print(small);
  EXPECT_EQ(text.find("R.exp"), std::string::npos) << text;
  EXPECT_EQ(text.find("R.sqrt"), std::string::npos) << text;
  for (const char* output : {"R.output(b)", "R.output(d)"})
    EXPECT_NE(text.find(output), std::string::npos) << text;
}

}  // namespace
}  // namespace tenon::testing_trust
