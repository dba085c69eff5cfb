// SPDX-License-Identifier: Apache-2.0
// Support vector machines of ai.onnx.ml: kernels of rows and support vectors, and sums of them.
#include <algorithm>

#include "import/onnx/loop.h"
#include "import/onnx/scores.h"

namespace tenon::onnx {
namespace {

using namespace op;
using N = NodeContext;
using R = RegisterConverter;

Expr matrix(int64_t rows, int64_t columns, const std::vector<double>& v) {
  const NDArray a = NDArray::empty({rows, columns}, f32);
  for (size_t i = 0; i < v.size(); ++i) a.set_element(int64_t(i), v[i]);
  return graph::constant(a);
}
constexpr int64_t kMostCoupled =
    32;  ///< classes with probabilities: their iteration is unrolled over classes

/// The rows: a vector is one.
Expr rows_of(N& n) {
  const auto shape = n.known_shape(0, 1, 2);
  const Expr x = n.cast(n.in(0), f32);
  return shape.size() == 2 ? x : n.reshape(x, {PrimExpr(1), shape[0]});
}
int64_t features_of(N& n, const Expr& x, size_t values, int64_t vectors) {
  const auto width = tir::as_int(n.shape_of(x)[1]);
  if (!width) n.unsupported(fmt::format("{} needs a known number of features", n.op_type()));
  if (vectors < 1 || int64_t(values) != vectors * *width)
    n.malformed(fmt::format("{} has {} numbers for {} support vectors of {} features", n.op_type(), values,
                            vectors, *width));
  return *width;
}
/// (rows, vectors): the kernel of each row and each support vector.
Expr kernels(N& n, const Expr& x, int64_t vectors) {
  const auto support = n.attr_floats("support_vectors");
  const int64_t width = features_of(n, x, support.size(), vectors);
  const std::string type = n.attr_string("kernel_type", "LINEAR");
  auto params = n.attr_floats("kernel_params");
  if (params.empty()) params = {0, 0, 0};
  if (params.size() != 3)
    n.malformed(fmt::format("{} has {} parameters of its kernel", n.op_type(), params.size()));
  const auto number = [&](size_t i) { return n.scalar(params[i], f32); };
  if (type == "RBF") {
    const Expr row = n.op("expand_dims", {x}, make_attrs<AxesAttrs>(Array<int64_t>{1}));
    const Expr d = n.op("subtract", {row, matrix(vectors, width, support)});
    const Expr distance =
        n.op("sum", {n.op("multiply", {d, d})}, make_attrs<ReduceAttrs>(Array<int64_t>{2}, false));
    return n.op("exp", {n.op("multiply", {n.op("negative", {distance}), number(0)})});
  }
  const Expr dot = n.op("nn.dense", {x, matrix(vectors, width, support)});
  if (type == "LINEAR") return dot;
  const Expr scaled = n.op("add", {n.op("multiply", {dot, number(0)}), number(1)});
  if (type == "SIGMOID") return n.op("tanh", {scaled});
  if (type != "POLY") n.malformed(fmt::format("'kernel_type' of {} is {}", n.op_type(), in_quotes(type)));
  return n.op("power", {scaled, number(2)});
}

Values svm_regressor(N& n) {
  const Expr x = rows_of(n);
  const auto weights = n.attr_floats("coefficients"), rho = n.attr_floats("rho");
  const int64_t vectors = n.attr_int("n_supports", 0);
  if (rho.size() != 1) n.malformed(fmt::format("SVMRegressor has {} entries of 'rho'", rho.size()));
  if (n.attr_string("post_transform", "NONE") != "NONE")
    n.unsupported("SVMRegressor with 'post_transform' is not supported");
  if (vectors > 0 && int64_t(weights.size()) != vectors)
    n.malformed(
        fmt::format("SVMRegressor has {} coefficients for {} support vectors", weights.size(), vectors));
  // Without support vectors the coefficients are those of the features.
  const int64_t terms = vectors > 0 ? vectors : features_of(n, x, weights.size(), 1);
  const Expr sum = n.op("nn.dense", {vectors > 0 ? kernels(n, x, vectors) : x, matrix(1, terms, weights)});
  const Expr y = n.op("add", {sum, n.scalar(rho[0], f32)});
  if (n.attr_int("one_class", 0) == 0) return {y};
  const Expr inside = n.op("less", {n.scalar(0, f32), y});
  return {n.op("where", {inside, n.scalar(1, f32), n.scalar(-1, f32)})};
}

/// The pairs of classes (i, j), i < j, in order.
struct Pairs {
  std::vector<std::pair<int64_t, int64_t>> of;
  explicit Pairs(int64_t classes) {
    for (int64_t i = 0; i < classes; ++i)
      for (int64_t j = i + 1; j < classes; ++j) of.emplace_back(i, j);
  }
  int64_t size() const { return int64_t(of.size()); }
};

/// (rows, pairs): above 0 for the first class of the pair.
Expr decisions(N& n, const Expr& x, const std::vector<int64_t>& per_class, const Pairs& pairs) {
  std::vector<int64_t> owner;
  for (size_t c = 0; c < per_class.size(); ++c) {
    if (per_class[c] < 0 || per_class[c] > 1 << 24)
      n.malformed("SVMClassifier has an impossible number of vectors");
    owner.insert(owner.end(), size_t(per_class[c]), int64_t(c));
  }
  const int64_t vectors = int64_t(owner.size()), count = pairs.size();
  const auto weights = n.attr_floats("coefficients"), rho = n.attr_floats("rho");
  if (int64_t(weights.size()) != (int64_t(per_class.size()) - 1) * vectors || int64_t(rho.size()) != count)
    n.malformed(
        fmt::format("SVMClassifier has {} coefficients and {} entries of 'rho' for {} vectors of {} classes",
                    weights.size(), rho.size(), vectors, per_class.size()));
  // A vector of class i has a coefficient for each other class, in order.
  std::vector<double> of_pair(size_t(count * vectors), 0.0);
  for (int64_t p = 0; p < count; ++p)
    for (int64_t v = 0; v < vectors; ++v) {
      const auto [i, j] = pairs.of[size_t(p)];
      if (owner[size_t(v)] == i) of_pair[size_t(p * vectors + v)] = weights[size_t(vectors * (j - 1) + v)];
      if (owner[size_t(v)] == j) of_pair[size_t(p * vectors + v)] = weights[size_t(vectors * i + v)];
    }
  const Expr sum = n.op("nn.dense", {kernels(n, x, vectors), matrix(count, vectors, of_pair)});
  return n.op("add", {sum, matrix(1, count, rho)});
}
/// (rows, classes): how many decisions are for each class.
Expr votes(N& n, const Expr& scores, int64_t classes, const Pairs& pairs) {
  std::vector<double> gain(size_t(classes * pairs.size()), 0.0), base(size_t(classes), 0.0);
  for (int64_t p = 0; p < pairs.size(); ++p) {
    const auto [i, j] = pairs.of[size_t(p)];
    gain[size_t(i * pairs.size() + p)] = 1, gain[size_t(j * pairs.size() + p)] = -1, base[size_t(j)] += 1;
  }
  const Expr first = n.cast(n.op("less", {n.scalar(0, f32), scores}), f32);
  return n.op("add",
              {n.op("nn.dense", {first, matrix(classes, pairs.size(), gain)}), matrix(1, classes, base)});
}
Expr over_axis(N& n, const char* op, const Expr& x, int64_t axis, bool keep) {
  return n.op(op, {x}, make_attrs<ReduceAttrs>(Array<int64_t>{axis}, keep));
}
/// (rows, classes): probabilities that agree best with those of the pairs (rows, pairs), by the iteration of
/// Wu, Lin and Weng (2004, second method) that trainers use, with ONNX Runtime's bounds.
Expr coupled(N& n, const Expr& first, int64_t k, const Pairs& pairs) {
  constexpr int64_t kMostSweeps = 100;
  std::vector<double> yes(size_t(k * k * pairs.size()), 0.0), base(size_t(k * k), 0.0);
  for (int64_t p = 0; p < pairs.size(); ++p) {
    const auto [i, j] = pairs.of[size_t(p)];
    yes[size_t((i * k + j) * pairs.size() + p)] = 1, yes[size_t((j * k + i) * pairs.size() + p)] = -1;
    base[size_t(j * k + i)] = 1;
  }
  const PrimExpr rows = n.shape_of(first)[0];
  const Expr flat =
      n.op("add", {n.op("nn.dense", {first, matrix(k * k, pairs.size(), yes)}), matrix(1, k * k, base)});
  const Expr r = n.reshape(flat, {rows, PrimExpr(k), PrimExpr(k)}), back = n.transpose(r, {0, 2, 1});
  // Minimised is p Q p.
  std::vector<double> unit(size_t(k * k), 0.0);
  for (int64_t i = 0; i < k; ++i) unit[size_t(i * k + i)] = 1;
  const Expr diagonal =
      n.op("multiply", {over_axis(n, "sum", n.op("multiply", {back, back}), 2, true), matrix(k, k, unit)});
  const Expr q = n.op("subtract", {diagonal, n.op("multiply", {r, back})});
  const auto column = [&](const Expr& e, int64_t at) {
    return n.slice(e, 1, PrimExpr(at), PrimExpr(at + 1));
  };
  const auto add = [&](const Expr& x, const Expr& y) { return n.op("add", {x, y}); };
  const auto times = [&](const Expr& x, const Expr& y) { return n.op("multiply", {x, y}); };
  LoopPlan plan;
  plan.trips = PrimExpr(kMostSweeps);
  plan.limit = n.scalar(double(kMostSweeps), i64);
  plan.may_stop = true;
  plan.init = {Value(n.full({rows, PrimExpr(k)}, 1.0 / double(k), f32)),
               Value(n.full({rows, PrimExpr(1)}, 0, boolean))};
  plan.body = [&](const Expr&, const Value&, const Values& carried) -> Values {
    const Expr p = carried[0].expr;
    Expr moved = p;
    Expr qp = over_axis(
        n, "sum", times(q, n.op("expand_dims", {p}, make_attrs<AxesAttrs>(Array<int64_t>{1}))), 2, false);
    Expr pqp = over_axis(n, "sum", times(p, qp), 1, true);
    const Expr error = over_axis(n, "max", n.op("abs", {n.op("subtract", {qp, pqp})}), 1, true);
    const Expr small = n.op("less", {error, n.scalar(0.005 / double(k), f32)});
    const Expr done = n.op("logical_or", {carried[1].expr, small});
    for (int64_t t = 0; t < k; ++t) {
      const Expr row = n.reshape(column(q, t), {rows, PrimExpr(k)}), own = column(row, t), at = column(qp, t);
      const Expr step = n.op("divide", {n.op("subtract", {pqp, at}), own});
      const Expr scale = add(step, n.scalar(1, f32));
      const auto scaled = [&](const Expr& e) { return n.op("divide", {e, scale}); };
      const std::vector<double> here(unit.begin() + t * k, unit.begin() + (t + 1) * k);
      moved = scaled(add(moved, times(step, matrix(1, k, here))));
      pqp = scaled(scaled(add(pqp, times(step, add(times(step, own), times(at, n.scalar(2, f32)))))));
      qp = scaled(add(qp, times(step, row)));
    }
    const Expr open = n.op("any", {n.op("logical_not", {done})}, make_attrs<ReduceAttrs>());
    return {Value(open), Value(n.op("where", {done, p, moved})), Value(done)};
  };
  return convert_loop(n, plan).carried[0].expr;
}
/// (rows, pairs): the probability of the first class of each pair.
Expr pair_probabilities(N& n, const Expr& scores, const std::vector<double>& a,
                        const std::vector<double>& b) {
  constexpr double kLeast = 1e-7;
  const auto count = int64_t(a.size());
  const Expr linear = n.op("add", {n.op("multiply", {scores, matrix(1, count, a)}), matrix(1, count, b)});
  return n.op("clip", {n.op("sigmoid", {n.op("negative", {linear})})},
              make_attrs<ClipAttrs>(kLeast, 1 - kLeast));
}

/// Without support vectors each class has a line; all of them share the first entry of 'rho'. Of two classes
/// ONNX Runtime takes the second, too, where the best score is above a limit.
Values lines_of_classes(N& n, const Classes& classes, const std::string& transform) {
  constexpr double kLimitOfPositive = 0.5;
  const Expr x = rows_of(n);
  const auto weights = n.attr_floats("coefficients"), rho = n.attr_floats("rho");
  if (classes.count < 2 || rho.empty() || weights.empty())
    n.malformed("SVMClassifier without support vectors needs two classes, coefficients and 'rho'");
  features_of(n, x, weights.size(), classes.count);
  const Expr sums =
      n.op("nn.dense", {x, matrix(classes.count, int64_t(weights.size()) / classes.count, weights)});
  const Expr scores = n.op("add", {sums, n.scalar(rho[0], f32)});
  if (classes.count > 2) return {label_of_best(n, classes, scores), post_transformed(n, scores, transform)};
  const double limit = std::ranges::all_of(weights, [](double w) { return w >= 0; }) ? kLimitOfPositive : 0;
  const auto column = [&](int64_t at) { return n.slice(scores, 1, PrimExpr(at), PrimExpr(at + 1)); };
  const Expr above = n.op("subtract", {over_axis(n, "max", scores, 1, true), n.scalar(limit, f32)});
  const Expr second = n.op("maximum", {above, n.op("subtract", {column(1), column(0)})});
  return {label_of_sign(n, classes, second, 0), post_transformed(n, scores, transform)};
}

Values svm_classifier(N& n) {
  const Classes classes = classes_of(n, "classlabels_ints");
  const std::vector<int64_t> per_class = n.attr_ints("vectors_per_class");
  const std::string transform = n.attr_string("post_transform", "NONE");
  if (std::ranges::all_of(per_class, [](int64_t vectors) { return vectors == 0; }))
    return lines_of_classes(n, classes, transform);
  if (classes.count < 2 || int64_t(per_class.size()) != classes.count)
    n.malformed(fmt::format("SVMClassifier has support vectors of {} classes and {} labels", per_class.size(),
                            classes.count));
  const Pairs pairs(classes.count);
  const Expr scores = decisions(n, rows_of(n), per_class, pairs);
  const Value label = label_of_best(n, classes, votes(n, scores, classes.count, pairs));
  const auto a = n.attr_floats("prob_a"), b = n.attr_floats("prob_b");
  if (!a.empty()) {
    if (int64_t(a.size()) != pairs.size() || b.size() != a.size())
      n.malformed(
          fmt::format("SVMClassifier has {} and {} entries of 'prob_a' and 'prob_b' for {} pairs of classes",
                      a.size(), b.size(), pairs.size()));
    if (classes.count > kMostCoupled)
      n.unsupported(
          fmt::format("SVMClassifier with probabilities of {} classes is not supported", classes.count),
          fmt::format("at most {} are", kMostCoupled));
    const Expr probabilities = coupled(n, pair_probabilities(n, scores, a, b), classes.count, pairs);
    return {label, post_transformed(n, probabilities, transform)};
  }
  if (classes.count > 2) return {label, post_transformed(n, scores, transform)};
  // As ONNX Runtime has it.
  if (transform == "SOFTMAX" || transform == "SOFTMAX_ZERO") return {label, with_rest(n, scores)};
  const Expr both = n.concat({n.op("negative", {scores}), scores}, 1);
  if (transform == "LOGISTIC") return {label, n.op("sigmoid", {both})};
  if (transform != "NONE")
    n.unsupported(fmt::format("the transform {} of SVMClassifier with one pair of classes is not supported",
                              in_quotes(transform)));
  return {label, both};
}
const R s1("ai.onnx.ml::SVMRegressor", {1}, svm_regressor),
    s2("ai.onnx.ml::SVMClassifier", {1}, svm_classifier, "probabilities of at most 32 classes");

}  // namespace
}  // namespace tenon::onnx
