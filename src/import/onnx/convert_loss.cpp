// SPDX-License-Identifier: Apache-2.0
// Converters: losses.
#include "import/onnx/importer.h"

namespace tenon::onnx {
namespace {

using namespace op;
using N = NodeContext;
using R = RegisterConverter;

/// Of log-probabilities (batch, classes, …) and class numbers (batch, …).
Expr negative_log_likelihood(N& n, const Expr& log_p) {
  Expr target = n.in(1);
  const DataType t = n.dtype(0);
  const std::string reduction = n.attr_string("reduction", "mean");
  if (reduction != "mean" && reduction != "sum" && reduction != "none")
    n.malformed(fmt::format("the reduction {} of {} is not known", in_quotes(reduction), n.op_type()));
  Expr weight;  // of each element
  Expr index = target;
  if (n.has_attr("ignore_index")) {
    const DataType ti = n.dtype(1);
    Expr ignored = n.op("equal", {target, n.scalar(double(n.attr_int("ignore_index", 0)), ti)});
    index = n.op("where", {ignored, n.scalar(0, ti), target});
    weight = n.op("where", {ignored, n.scalar(0, t), n.scalar(1, t)});
  }
  if (const auto shape = n.shape(0); shape && shape->size() > 1)
    index = n.checked_indices(index, {(*shape)[1]}, false);
  if (n.has(2)) {
    Expr w = n.op("take", {n.in(2), index}, make_attrs<AxisAttrs>(int64_t(0)));
    weight = weight ? n.op("multiply", {w, weight}) : w;
  }
  Expr wide_index = n.op("expand_dims", {index}, make_attrs<AxesAttrs>(Array<int64_t>{1}));
  Expr picked = n.op("gather_elements", {log_p, wide_index}, make_attrs<AxisAttrs>(int64_t(1)));
  Expr loss = n.op("negative", {n.op("squeeze", {picked}, make_attrs<AxesAttrs>(Array<int64_t>{1}))});
  if (weight) loss = n.op("multiply", {loss, weight});
  if (reduction == "none") return loss;
  if (reduction == "mean" && !weight) return n.op("mean", {loss}, make_attrs<ReduceAttrs>());
  Expr sum = n.op("sum", {loss}, make_attrs<ReduceAttrs>());
  return reduction == "sum" ? sum : n.op("divide", {sum, n.op("sum", {weight}, make_attrs<ReduceAttrs>())});
}
Values nll(N& n) { return {negative_log_likelihood(n, n.in(0))}; }
Values cross_entropy(N& n) {
  Expr log_p = n.op("nn.log_softmax", {n.in(0)}, make_attrs<AxisAttrs>(int64_t(1)));
  return {negative_log_likelihood(n, log_p), log_p};
}
const R l1("NegativeLogLikelihoodLoss", {12, 13, 22}, nll),
    l2("SoftmaxCrossEntropyLoss", {12, 13}, cross_entropy);

}  // namespace
}  // namespace tenon::onnx
