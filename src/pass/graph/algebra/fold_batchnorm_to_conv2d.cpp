// SPDX-License-Identifier: Apache-2.0
// fold_batchnorm_to_conv2d: a batch_norm behind a convolution goes into the convolution's weight.
//
//   before   lv = R.nn.conv2d(x, w);  lv1 = R.nn.batch_norm(lv, gamma, beta, mean, variance)    # constants
//   after    lv1_conv = R.nn.conv2d(x, w * s);  lv1 = R.add(lv1_conv, beta - mean * s)
//
// with s = gamma / sqrt(variance + epsilon), computed in double and rounded once. In one step what
// simplify_inference and fold_scale_axis do in two, and nothing else. Needs: types; plain layouts; the
// convolution's value is used once. Keeps: values up to the rounding of the new weight.
#include <cmath>

#include "op/body_rewriter.h"
#include "op/build.h"

namespace tenon {
namespace graph {
namespace {

class FoldBatchNorm : public BodyRewriter {
 public:
  explicit FoldBatchNorm(std::unordered_map<const Var*, int> uses) : uses_(std::move(uses)) {}

 protected:
  Expr visit(const Expr& value, const VarRef& var) override {
    if (!value.is<Call>() || !is_op(value, "nn.batch_norm")) return value;
    const Call& call = *value.as<Call>();
    const auto& a = op::attrs_of<op::BatchNormAttrs>(call);
    const Call* conv = definition_call(call.args[0], "nn.conv2d");
    const auto* x = as_tensor(call.args[0]);
    if (!conv || !x || x->ndim != 4 || (a.axis != 1 && a.axis != -3) || call.args.size() != 5) return value;
    const auto used = uses_.find(call.args[0].as<Var>());
    const auto* w = conv->args[1].as<Constant>();
    const auto& c = op::attrs_of<op::ConvAttrs>(*conv);
    const bool plain = (c.data_layout.empty() || c.data_layout == "NCHW") &&
                       (c.kernel_layout.empty() || c.kernel_layout == "OIHW") && c.out_layout.empty();
    if (used == uses_.end() || used->second != 1 || !w || !plain || !w->data.dtype().is_float() ||
        w->data.dtype() != x->dtype)
      return value;
    NDArray p[4];
    for (size_t i = 0; i < std::size(p); ++i) {
      const auto* k = call.args[i + 1].as<Constant>();
      if (!k || k->data.ndim() != 1 || k->data.size() != w->data.shape()[0]) return value;
      p[i] = k->data;
    }
    const int64_t channels = p[0].size(), each = channels ? w->data.size() / channels : 0;
    NDArray weight = NDArray::empty(w->data.shape(), w->data.dtype());
    NDArray shift = NDArray::empty({channels, 1, 1}, x->dtype);
    for (int64_t o = 0; o < channels; ++o) {
      const double s = (a.scale ? p[0].element(o) : 1) / std::sqrt(p[3].element(o) + a.epsilon);
      for (int64_t i = o * each; i < (o + 1) * each; ++i) weight.set_element(i, w->data.element(i) * s);
      shift.set_element(o, (a.center ? p[1].element(o) : 0) - p[2].element(o) * s);
    }
    Expr scaled = with_origin(tenon::graph::call(conv->op, {conv->args[0], constant(weight)}, conv->attrs),
                              conv->origin);
    const Expr old = call.args[0];
    Expr sum = with_origin(
        tenon::graph::call(get_op("add"), {emit(scaled, var->name + "_conv"), constant(shift)}), call.origin);
    drop(old);
    return sum;
  }

 private:
  std::unordered_map<const Var*, int> uses_;
};

}  // namespace
}  // namespace graph

static IRModule fold_batchnorm_to_conv2d(IRModule module, PassContext&) {
  using namespace graph;
  return module.map_graph([](const std::string&, const Ref<graph::Function>& f) -> ObjectRef {
    FoldBatchNorm rewriter(count_uses(*f));
    Ref<graph::Function> out = rewriter.run(f);
    return out.same_as(f) ? ObjectRef() : ObjectRef(out);
  });
}

const Pass& fold_batchnorm_to_conv2d_pass = register_pass({
    .name = "fold_batchnorm_to_conv2d",
    .run = fold_batchnorm_to_conv2d,
    .summary = "batch_norm goes into the weight of the convolution before it",
    .needs = {"infer_types"},
    .changes = Changes::rounding,
});

}  // namespace tenon
