// SPDX-License-Identifier: Apache-2.0
// fast_math: exponentials become their cheaper forms.
//
//   before   lv = R.exp(x);  lv1 = R.tanh(lv);  lv2 = R.erf(x);  lv3 = R.nn.softmax(lv2)
//   after    lv = R.fast_exp(x);  lv1 = R.fast_tanh(lv);  lv2 = R.fast_erf(x);  lv3 = R.nn.fast_softmax(lv2)
//
// Which operators have one they say themselves (OpRegistration::approximates). For float32 only. Needs:
// types. Keeps: types; values up to the errors that the fast operators state (op/fast.cpp): the one pass of
// this level that is less exact on purpose.
#include "op/body_rewriter.h"
#include "op/build.h"

namespace tenon {
namespace graph {
namespace {

class FastMath : public BodyRewriter {
 protected:
  Expr visit(const Expr& value, const VarRef&) override {
    const Op* op = op_of(value);
    const Op* fast = op ? op::approximation_of(*op, op::Approximation::float32) : nullptr;
    if (!fast) return value;
    const Call& call = *value.as<Call>();
    const auto* x = as_tensor(call.args[0]);
    if (!x || x->dtype != f32) return value;
    return op::op_call(fast->name, call.args, call.attrs, call.origin);
  }
};

}  // namespace
}  // namespace graph

const Pass& fast_math_pass = register_pass({
    .name = "fast_math",
    .run = graph::each_function<graph::FastMath>,
    .summary = "exponentials become their cheaper forms",
    .needs = {"infer_types"},
    .changes = Changes::rounding,
});

}  // namespace tenon
