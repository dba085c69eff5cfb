// SPDX-License-Identifier: Apache-2.0
// Converters: linear classifiers and regressors (ai.onnx.ml), and the labels and scores of all classifiers.
#include "import/onnx/scores.h"

namespace tenon::onnx {

using namespace op;
using N = NodeContext;
using R = RegisterConverter;

Classes classes_of(N& n, const std::string& integers) {
  if (n.has_attr("classlabels_strings")) {
    const std::vector<std::string> texts = n.attr_strings("classlabels_strings");
    if (!texts.empty()) return {strings_constant(n, texts), int64_t(texts.size())};
  }
  const std::vector<int64_t> v = n.need_ints(integers);
  return {Value(Expr(graph::constant(
              NDArray::from_bytes({int64_t(v.size())}, i64, v.data(), v.size() * sizeof(int64_t))))),
          int64_t(v.size())};
}
Value label_of_best(N& n, const Classes& classes, const Expr& scores) {
  auto a = make<ArgReduceAttrs>();
  a.edit()->axis = 1;
  const Expr best = n.cast(n.op("argmax", {scores}, a), i64);
  return {n.op("take", {classes.labels.expr, best}, make_attrs<AxisAttrs>(int64_t(0))), classes.labels.form};
}
Value label_of_sign(N& n, const Classes& classes, const Expr& scores, double limit) {
  const Expr above = n.op("greater", {scores, n.scalar(limit, graph::as_tensor(scores)->dtype)});
  const Expr at = n.cast(n.reshape(above, {n.shape_of(scores)[0]}), i64);
  return {n.op("take", {classes.labels.expr, at}, make_attrs<AxisAttrs>(int64_t(0))), classes.labels.form};
}
Expr with_rest(N& n, const Expr& scores) {
  const Expr one = n.scalar(1, graph::as_tensor(scores)->dtype);
  return n.concat({n.op("subtract", {one, scores}), scores}, 1);
}
namespace {

/// The inverse of the normal distribution function, by the formula of Winitzki for the inverse error function
/// with the constants that the standard's models were made with.
Expr probit(N& n, const Expr& scores) {
  constexpr double kShape = 0.147, kPi = 3.14159, kRootOfTwo = 1.41421356;
  const DataType t = graph::as_tensor(scores)->dtype;
  const auto number = [&](double v) { return n.scalar(v, t); };
  const auto two = [&](const char* op, const Expr& a, const Expr& b) { return n.op(op, {a, b}); };
  const Expr x = two("subtract", two("multiply", scores, number(2)), number(1));
  const Expr log = n.op("log", {two("multiply", two("subtract", number(1), x), two("add", number(1), x))});
  const Expr half = two("add", number(2 / (kPi * kShape)), two("multiply", log, number(0.5)));
  const Expr inner = two("subtract", two("multiply", half, half), two("divide", log, number(kShape)));
  const Expr size = n.op("sqrt", {two("subtract", n.op("sqrt", {inner}), half)});
  const Expr below = two("less", x, number(0));
  return two("multiply", n.op("where", {below, n.op("negative", {size}), size}), number(kRootOfTwo));
}
/// Softmax in which a score of 0 counts nothing.
Expr softmax_zero(N& n, const Expr& scores) {
  constexpr double kZero = 1e-7;
  const DataType t = graph::as_tensor(scores)->dtype;
  const auto rows = make_attrs<ReduceAttrs>(Array<int64_t>{-1}, true);
  const Expr most = n.op("max", {scores}, rows);
  const Expr counts = n.op("greater", {n.op("abs", {scores}), n.scalar(kZero, t)});
  const Expr scaled = n.op("multiply", {scores, n.op("exp", {n.op("negative", {most})})});
  const Expr part = n.op("where", {counts, n.op("exp", {n.op("subtract", {scores, most})}), scaled});
  return n.op("divide", {part, n.op("sum", {part}, rows)});
}

}  // namespace

Expr post_transformed(N& n, const Expr& scores, const std::string& transform) {
  if (transform == "NONE") return scores;
  if (transform == "SOFTMAX") return n.op("nn.softmax", {scores}, make_attrs<AxisAttrs>(int64_t(-1)));
  if (transform == "LOGISTIC") return n.op("sigmoid", {scores});
  if (transform == "PROBIT") return probit(n, scores);
  if (transform == "SOFTMAX_ZERO") return softmax_zero(n, scores);
  n.malformed(fmt::format("'post_transform' of {} is {}", n.op_type(), in_quotes(transform)));
}

namespace {

/// Rows of features times the coefficients of each of `count` scores, and their intercepts.
Expr linear(N& n, int64_t count) {
  const std::vector<double> factors = n.attr_floats("coefficients"), added = n.attr_floats("intercepts");
  Expr x = n.cast(n.in(0), f32);
  if (n.rank(0) == 1) x = n.op("expand_dims", {x}, make_attrs<AxesAttrs>(Array<int64_t>{0}));
  if (count < 1 || factors.empty() || int64_t(factors.size()) % count != 0)
    n.malformed(fmt::format("{} has {} coefficients for {} scores", n.op_type(), factors.size(), count));
  if (!added.empty() && int64_t(added.size()) != count)
    n.malformed(fmt::format("{} has {} intercepts for {} scores", n.op_type(), added.size(), count));
  const int64_t features = int64_t(factors.size()) / count;
  const NDArray w = NDArray::empty({features, count}, f32), b = NDArray::zeros({count}, f32);
  for (int64_t i = 0; i < features; ++i)
    for (int64_t k = 0; k < count; ++k) w.set_element(i * count + k, factors[size_t(k * features + i)]);
  for (size_t k = 0; k < added.size(); ++k) b.set_element(int64_t(k), added[k]);
  return n.op("add", {n.op("matmul", {x, graph::constant(w)}), graph::constant(b)});
}

/// A single score is that of the second of two classes.
Values linear_classifier(N& n) {
  const Classes classes = classes_of(n, "classlabels_ints");
  const auto count = int64_t(n.attr_floats("intercepts").size());
  const bool binary = count == 1 && classes.count == 2;
  if (!binary && count != classes.count)
    n.unsupported(fmt::format("LinearClassifier of {} intercepts and {} classes is not supported", count,
                              classes.count));
  const Expr scores = linear(n, count);
  const std::string transform = n.attr_string("post_transform", "NONE");
  if (!binary) return {label_of_best(n, classes, scores), post_transformed(n, scores, transform)};
  return {label_of_sign(n, classes, scores, 0), with_rest(n, scores)};
}
Values linear_regressor(N& n) {
  return {post_transformed(n, linear(n, n.attr_int("targets", 1)), n.attr_string("post_transform", "NONE"))};
}

const R l1("ai.onnx.ml::LinearClassifier", {1}, linear_classifier),
    l2("ai.onnx.ml::LinearRegressor", {1}, linear_regressor);

}  // namespace
}  // namespace tenon::onnx
