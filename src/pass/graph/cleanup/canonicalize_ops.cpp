// SPDX-License-Identifier: Apache-2.0
// canonicalize_ops: operators that are others in short are written out, so that patterns know one form.
//
//   before   lv = R.nn.bias_add(x, b, axis=1)                  # x (n, c, h, w), b (c,)
//   after    lv_bias = R.reshape(b, (c, 1, 1));  lv = R.add(x, lv_bias)
//
// Needs: types, a bias of known size. Keeps: values bit by bit.
#include "op/body_rewriter.h"
#include "op/build.h"

namespace tenon {
namespace graph {
namespace {

class CanonicalizeOps : public BodyRewriter {
 protected:
  Expr visit(const Expr& value, const VarRef& var) override {
    if (!value.is<Call>() || !is_op(value, "nn.bias_add")) return value;
    const Call& call = *value.as<Call>();
    const auto* x = as_tensor(call.args[0]);
    auto bias = known_shape(call.args[1]);
    if (!x || x->ndim < 1 || !bias || bias->size() != 1) return value;
    int64_t axis = op::attrs_of<op::AxisAttrs>(call).axis;
    if (axis < 0) axis += x->ndim;
    Expr b = call.args[1];
    if (axis != x->ndim - 1) {
      Array<PrimExpr> shape{(*bias)[0]};
      for (int64_t i = axis + 1; i < x->ndim; ++i) shape.push_back(PrimExpr(1));
      b = emit_op("reshape", {b, shape_expr(shape)}, {}, var->name + "_bias");
    }
    return op::op_call("add", {call.args[0], b}, {}, call.origin);
  }
};

}  // namespace
}  // namespace graph

const Pass& canonicalize_ops_pass = register_pass({
    .name = "canonicalize_ops",
    .run = graph::each_function<graph::CanonicalizeOps>,
    .summary = "operators that are others in short are written out",
    .needs = {"infer_types"},
});

}  // namespace tenon
