// SPDX-License-Identifier: Apache-2.0
// div_to_mul: division by constants becomes multiplication by their inverses.
//
//   before   lv = R.divide(x, c)                after   lv = R.multiply(x, 1 / c)
//
// For floats of 32 bits and more, finite constants whose inverse is finite too. simplify_expr does it where
// it is exact; this pass everywhere. Needs: types. Keeps: values up to one rounding.
#include <cmath>

#include "op/body_rewriter.h"
#include "op/build.h"

namespace tenon {
namespace graph {
namespace {

class DivToMul : public BodyRewriter {
 protected:
  Expr visit(const Expr& value, const VarRef&) override {
    if (!value.is<Call>() || !is_op(value, "divide")) return value;
    const Call& call = *value.as<Call>();
    const auto* c = call.args[1].as<Constant>();
    if (!c || !c->data.dtype().is_float() || c->data.dtype().bits < 32 || c->data.size() == 0) return value;
    const double least = c->data.dtype() == f32 ? 1.2e-38 : 2.3e-308;
    NDArray inverse = NDArray::empty(c->data.shape(), c->data.dtype());
    for (int64_t i = 0; i < c->data.size(); ++i) {
      const double v = 1 / c->data.element(i);
      if (!std::isfinite(v) || std::abs(v) < least || std::abs(c->data.element(i)) < least) return value;
      inverse.set_element(i, v);
    }
    return op::op_call("multiply", {call.args[0], constant(inverse)}, {}, call.origin);
  }
};

}  // namespace
}  // namespace graph

const Pass& div_to_mul_pass = register_pass({
    .name = "div_to_mul",
    .run = graph::each_function<graph::DivToMul>,
    .summary = "division by constants becomes multiplication",
    .needs = {"infer_types"},
    .changes = Changes::rounding,
});

}  // namespace tenon
