// SPDX-License-Identifier: Apache-2.0
// simplify_inference: what only matters in training goes; normalisation by constants becomes scale and shift.
//
//   before   lv = R.nn.batch_norm(x, gamma, beta, mean, variance)      # the four are constants
//   after    lv1 = R.multiply(x, scale);  lv = R.add(lv1, shift)
//   before   lv = R.nn.dropout(x)           after   (uses of lv are uses of x)
//
// Needs: types. Keeps: values up to rounding: scale = gamma / sqrt(variance + epsilon) and shift = beta -
// mean * scale are computed in double and rounded once.
#include <cmath>

#include "op/body_rewriter.h"
#include "op/build.h"

namespace tenon {
namespace graph {
namespace {

class SimplifyInference : public BodyRewriter {
 protected:
  Expr visit(const Expr& value, const VarRef& var) override {
    const Op* op = op_of(value);
    if (!op) return value;
    const Call& call = *value.as<Call>();
    if (op->name == "nn.dropout") return call.args[0];
    if (op->name == "nn.batch_norm") return batch_norm(call, value, var);
    return value;
  }

 private:
  Expr batch_norm(const Call& call, const Expr& value, const VarRef& var) {
    const auto& a = op::attrs_of<op::BatchNormAttrs>(call);
    const auto* x = as_tensor(call.args[0]);
    if (!x || x->ndim < 1 || !x->dtype.is_float() || call.args.size() != 5) return value;
    NDArray p[4];
    for (size_t i = 0; i < std::size(p); ++i) {
      const auto* c = call.args[i + 1].as<Constant>();
      if (!c || c->data.ndim() != 1) return value;
      p[i] = c->data;
    }
    const int64_t channels = p[3].size(), axis = a.axis < 0 ? a.axis + x->ndim : a.axis;
    std::vector<int64_t> shape(size_t(x->ndim - axis), 1);
    shape[0] = channels;
    NDArray scale = NDArray::empty(shape, x->dtype), shift = NDArray::empty(shape, x->dtype);
    for (int64_t i = 0; i < channels; ++i) {
      double s = 1 / std::sqrt(p[3].element(i) + a.epsilon);
      if (a.scale) s *= p[0].element(i);
      scale.set_element(i, s);
      shift.set_element(i, (a.center ? p[1].element(i) : 0) - p[2].element(i) * s);
    }
    Expr product =
        with_origin(tenon::graph::call(get_op("multiply"), {call.args[0], constant(scale)}), call.origin);
    return with_origin(tenon::graph::call(get_op("add"), {emit(product, var->name), constant(shift)}),
                       call.origin);
  }
};

}  // namespace
}  // namespace graph

const Pass& simplify_inference_pass = register_pass({
    .name = "simplify_inference",
    .run = graph::each_function<graph::SimplifyInference>,
    .level = 1,
    .summary = "batch_norm becomes scale and shift, dropout goes",
    .needs = {"infer_types"},
    .changes = Changes::rounding,
});

}  // namespace tenon
