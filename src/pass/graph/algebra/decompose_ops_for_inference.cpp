// SPDX-License-Identifier: Apache-2.0
// decompose_ops_for_inference: normalisations are written out in operators that other passes know.
//
//   before   lv = R.nn.layer_norm(x, gamma, beta)
//   after    lv_mean = R.mean(x);  lv_centred = x - lv_mean;  lv_var = R.mean(lv_centred * lv_centred)
//            lv_scaled = lv_centred * R.rsqrt(lv_var + epsilon);  lv = lv_scaled * gamma + beta
//
// Covers nn.layer_norm, nn.rms_norm and nn.batch_norm over any parameters (simplify_inference wants
// constants), for float32 and float64. The kernels of the whole operators are faster; this is for targets and
// passes that do not know them. Needs: types. Keeps: values up to rounding.
#include <cmath>

#include "op/body_rewriter.h"
#include "op/build.h"

namespace tenon {
namespace graph {
namespace {

class DecomposeOps : public BodyRewriter {
 protected:
  Expr visit(const Expr& value, const VarRef& var) override {
    const Op* op = op_of(value);
    if (!op) return value;
    const Call& call = *value.as<Call>();
    const auto* x = call.args.empty() ? nullptr : as_tensor(call.args[0]);
    if (!x || x->ndim < 1 || !x->dtype.is_float() || x->dtype.bits < 32) return value;
    name_ = var->name;
    if (op->name == "nn.layer_norm" || op->name == "nn.rms_norm")
      return normalised(call, *x, op->name == "nn.layer_norm");
    if (op->name == "nn.batch_norm" && call.args.size() == 5) return batch_norm(call, *x);
    return value;
  }

 private:
  Expr step(std::string_view op, Array<Expr> args, const char* part, ObjectRef attrs = {}) {
    return emit_op(op, std::move(args), std::move(attrs), name_ + "_" + part);
  }

  Expr normalised(const Call& call, const TensorType& x, bool centre) {
    const auto& a = op::attrs_of<op::LayerNormAttrs>(call);
    const Array<int64_t> axes = a.axes.empty() ? Array<int64_t>{-1} : a.axes;
    const ObjectRef over = op::make_attrs<op::ReduceAttrs>(axes, true);
    Expr y = call.args[0];
    if (centre) y = step("subtract", {y, step("mean", {y}, "mean", over)}, "centred");
    const Expr square = step("mean", {step("multiply", {y, y}, "squares")}, "var", over);
    const Expr inverse =
        step("rsqrt", {step("add", {square, op::scalar(a.epsilon, x.dtype)}, "shifted")}, "scale");
    y = step("multiply", {y, inverse}, "scaled");
    const bool has_gamma = a.scale && call.args.size() > 1 && call.args[1],
               has_beta = a.center && call.args.size() > 2 && call.args[2];
    if (has_gamma) y = step("multiply", {y, placed(call.args[1], axes, x.ndim)}, "gamma");
    if (has_beta) y = step("add", {y, placed(call.args[2], axes, x.ndim)}, "beta");
    return y;
  }
  /// A parameter over `axes` as a tensor that broadcasts against the operand.
  Expr placed(const Expr& p, const Array<int64_t>& axes, int64_t ndim) {
    const auto shape = known_shape(p);
    if (!shape) return p;
    Array<PrimExpr> dims;
    size_t next = 0;
    for (int64_t i = 0; i < ndim; ++i) {
      bool own = false;
      for (int64_t axis : axes) own = own || (axis < 0 ? axis + ndim : axis) == i;
      dims.push_back(own && next < shape->size() ? (*shape)[next++] : PrimExpr(1));
    }
    return dims.size() == shape->size() ? p : step("reshape", {p, shape_expr(dims)}, "placed");
  }

  Expr batch_norm(const Call& call, const TensorType& x) {
    const auto& a = op::attrs_of<op::BatchNormAttrs>(call);
    const int64_t axis = a.axis < 0 ? a.axis + x.ndim : a.axis;
    const Array<int64_t> axes{axis};
    const Expr inverse =
        step("rsqrt", {step("add", {call.args[4], op::scalar(a.epsilon, x.dtype)}, "shifted")}, "inverse");
    const Expr scale = a.scale ? step("multiply", {inverse, call.args[1]}, "scale") : inverse;
    Expr y = step("subtract", {call.args[0], placed(call.args[3], axes, x.ndim)}, "centred");
    y = step("multiply", {y, placed(scale, axes, x.ndim)}, "scaled");
    return a.center ? step("add", {y, placed(call.args[2], axes, x.ndim)}, "beta") : y;
  }

  std::string name_;
};

}  // namespace
}  // namespace graph

const Pass& decompose_ops_for_inference_pass = register_pass({
    .name = "decompose_ops_for_inference",
    .run = graph::each_function<graph::DecomposeOps>,
    .summary = "normalisations are written out",
    .needs = {"infer_types"},
    .changes = Changes::rounding,
});

}  // namespace tenon
