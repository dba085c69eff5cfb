// SPDX-License-Identifier: Apache-2.0
// Loss functions, all of them made of other operators.
#include <fmt/format.h>

#include "base/define_type.h"
#include "op/attrs_loss.h"
#include "op/compose.h"

namespace tenon::op {
namespace {

Expr num(const Expr& like, double v) { return scalar(v, dtype_of(like)); }
Expr un(const char* op, const Expr& a) { return op_call(op, {a}); }
Expr bi(const char* op, const Expr& a, const Expr& b) { return op_call(op, {a, b}); }
Expr times(const Expr& a, double v) { return bi("multiply", a, num(a, v)); }

void expect_reduction(const Call& call, const std::string& r) {
  if (r != "mean" && r != "sum" && r != "none")
    infer_error(call, fmt::format("reduction is '{}'", r), "use 'mean', 'sum' or 'none'");
}
Expr reduced(const Expr& e, const std::string& reduction, DataType t) {
  return as_type(reduction == "none" ? e : un(reduction.c_str(), e), t);
}

/// An element-wise loss of a prediction and a target, both widened.
using Rule = Expr (*)(const LossAttrs& a, const Expr& x, const Expr& y);
Expr difference_of(const Expr& x, const Expr& y) { return un("abs", bi("subtract", x, y)); }
Expr squared_loss(const LossAttrs&, const Expr& x, const Expr& y) {
  return un("square", bi("subtract", x, y));
}
Expr absolute_loss(const LossAttrs&, const Expr& x, const Expr& y) { return difference_of(x, y); }
/// Parabola up to delta, straight behind it; `scale` is what the parabola is divided by.
Expr bent(const Expr& d, double delta, double parabola, double slope) {
  const Expr near = times(un("square", d), parabola);
  const Expr far = times(bi("subtract", d, num(d, 0.5 * delta)), slope);
  return op_call("where", {bi("less", d, num(d, delta)), near, far});
}
Expr smooth_l1_loss(const LossAttrs& a, const Expr& x, const Expr& y) {
  if (a.parameter <= 0) return difference_of(x, y);
  return bent(difference_of(x, y), a.parameter, 0.5 / a.parameter, 1);
}
Expr huber_loss(const LossAttrs& a, const Expr& x, const Expr& y) {
  return bent(difference_of(x, y), a.parameter, 0.5, a.parameter);
}
Expr kl_div(const LossAttrs& a, const Expr& x, const Expr& y) {
  if (a.log) return bi("multiply", un("exp", y), bi("subtract", y, x));
  return bi("subtract", bi("xlogy", y, y), bi("multiply", y, x));
}
Expr binary_cross_entropy(const LossAttrs&, const Expr& x, const Expr& y) {
  // Logarithms no further than -100: a wrong certainty costs much, not everything.
  auto log_of = [](const Expr& e) { return bi("maximum", un("log", e), num(e, -100)); };
  const Expr one = num(x, 1);
  return un("negative", bi("add", bi("multiply", y, log_of(x)),
                           bi("multiply", bi("subtract", one, y), log_of(bi("subtract", one, x)))));
}
Expr bce_with_logits(const LossAttrs&, const Expr& x, const Expr& y) {
  // max(x, 0) - x y + log(1 + exp(-|x|)) overflows nowhere.
  const Expr tail = un("log1p", un("exp", un("negative", un("abs", x))));
  return bi("add", bi("subtract", un("nn.relu", x), bi("multiply", x, y)), tail);
}
Expr poisson_nll(const LossAttrs& a, const Expr& x, const Expr& y) {
  if (a.log) return bi("subtract", un("exp", x), bi("multiply", y, x));
  return bi("subtract", x, bi("multiply", y, un("log", bi("add", x, num(x, 1e-8)))));
}
Expr hinge_embedding(const LossAttrs& a, const Expr& x, const Expr& y) {
  return op_call("where",
                 {bi("equal", y, num(y, 1)), x, un("nn.relu", bi("subtract", num(x, a.parameter), x))});
}
Expr soft_margin(const LossAttrs&, const Expr& x, const Expr& y) {
  return un("nn.softplus", un("negative", bi("multiply", x, y)));
}
Expr log_cosh(const LossAttrs&, const Expr& x, const Expr& y) {
  // |d| + log(1 + exp(-2 |d|)) - log 2
  const Expr d = difference_of(x, y), tail = un("log1p", un("exp", times(d, -2)));
  return bi("subtract", bi("add", d, tail), num(d, 0.6931471805599453));
}

struct Pairwise {
  const char *name, *doc;
  Rule rule;
};
const Pairwise pairwise[] = {
    {"nn.mse_loss", "(x - target)².", squared_loss},
    {"nn.l1_loss", "|x - target|.", absolute_loss},
    {"nn.smooth_l1_loss", "A parabola up to `parameter`, then |x - target|, joined smoothly.",
     smooth_l1_loss},
    {"nn.huber_loss", "Half the square up to `parameter`, straight behind.", huber_loss},
    {"nn.kl_div", "target · (log(target) - x): x holds logarithms.", kl_div},
    {"nn.binary_cross_entropy", "Cross entropy of probabilities.", binary_cross_entropy},
    {"nn.binary_cross_entropy_with_logits", "Cross entropy of sigmoid(x), without overflow.",
     bce_with_logits},
    {"nn.poisson_nll_loss", "x - target · log(x), the Poisson likelihood less a constant.", poisson_nll},
    {"nn.hinge_embedding_loss", "x where the target is 1, else max(0, parameter - x).", hinge_embedding},
    {"nn.soft_margin_loss", "log(1 + exp(-x · target)), targets -1 and 1.", soft_margin},
    {"nn.log_cosh_loss", "log(cosh(x - target)) without overflow.", log_cosh},
};

// ---------------------------------------------------------------- of classes
Expr class_scores(const Call& call, const Expr& x) {
  expect_domain(call, dtype_of(x), Domain::floating);
  const Shape s = known_dims(x);
  if (s.empty()) infer_error(call, "a scalar has no classes");
  return x;
}
/// -Σ target · log p over the last axis, mean over the rest: targets are distributions.
Expr cross_entropy(const Call& call, const std::vector<Expr>& args, bool logits) {
  const Expr x = widened(class_scores(call, args[0]));
  const Expr log_p =
      logits ? op_call("nn.log_softmax", {x}, make_attrs<AxisAttrs>(int64_t(-1))) : un("log", x);
  const Expr product = bi("multiply", widened(args[1]), log_p);
  Expr sums = op_call("sum", {product}, make_attrs<ReduceAttrs>(Array<int64_t>{-1}, false));
  return as_type(un("negative", un("mean", sums)), dtype_of(args[0]));
}

/// Weighted -log p of each element's class; axis 1 holds the classes.
Expr nll(const Call& call, const Expr& log_p, const Expr& target, const Expr& weight, double smoothing,
         DataType t) {
  const auto& a = attrs_of<NllAttrs>(call);
  expect_reduction(call, a.reduction);
  expect_domain(call, dtype_of(target), Domain::integer);
  const Shape s = known_dims(log_p), labels = known_dims(target);
  const auto axis = int64_t(s.size() > 1 ? 1 : 0);
  if (s.empty() || labels.size() + 1 != s.size())
    infer_error(call, fmt::format("scores {} for targets {}", show(s), show(labels)), "classes are axis 1");
  const auto classes = s[size_t(axis)];
  if (weight)
    if (const Shape w = known_dims(weight); w.size() != 1 || differ(w[0], classes))
      infer_error(call, fmt::format("weights {} for scores {}", show(w), show(s)));
  const Expr ignored = bi("equal", target, num(target, double(a.ignore_index)));
  const Expr label = op_call("where", {ignored, num(target, 0), target});
  const Expr at = op_call("expand_dims", {label}, make_attrs<AxesAttrs>(Array<int64_t>{axis}));
  Expr picked = op_call("gather_elements", {log_p, at}, make_attrs<AxisAttrs>(axis));
  picked = un("negative", op_call("squeeze", {picked}, make_attrs<AxesAttrs>(Array<int64_t>{axis})));
  Expr w = weight ? op_call("take", {widened(weight), label}, make_attrs<AxisAttrs>(int64_t(0)))
                  : op_call("ones_like", {picked});
  const Expr zero = num(picked, 0);
  w = op_call("where", {ignored, zero, w});
  Expr loss = bi("multiply", picked, w);
  if (smoothing > 0) {
    Expr all = log_p;
    if (weight) {
      Shape spread;
      for (size_t i = 0; i < s.size(); ++i) spread.push_back(int64_t(i) == axis ? classes : PrimExpr(1));
      all = bi("multiply", all, op_call("reshape", {widened(weight), graph::shape_expr(spread)}));
    }
    const auto count = tir::as_int(classes);
    if (!count) infer_error(call, "label smoothing needs a known number of classes");
    Expr even = op_call("sum", {all}, make_attrs<ReduceAttrs>(Array<int64_t>{axis}, false));
    even = op_call("where", {ignored, zero, times(even, -1.0 / double(*count))});
    loss = bi("add", times(loss, 1 - smoothing), times(even, smoothing));
  }
  if (a.reduction == "none") return as_type(loss, t);
  if (a.reduction == "sum") return as_type(un("sum", loss), t);
  return as_type(bi("divide", un("sum", loss), un("sum", w)), t);
}
Expr nll_loss(const Call& call, const std::vector<Expr>& args) {
  const Expr x = class_scores(call, args[0]);
  return nll(call, widened(x), args[1], args.size() > 2 ? args[2] : Expr(), 0, dtype_of(x));
}
Expr softmax_cross_entropy(const Call& call, const std::vector<Expr>& args) {
  const Expr x = class_scores(call, args[0]);
  const int64_t axis = known_dims(x).size() > 1 ? 1 : 0;
  const Expr log_p = op_call("nn.log_softmax", {widened(x)}, make_attrs<AxisAttrs>(axis));
  return nll(call, log_p, args[1], args.size() > 2 ? args[2] : Expr(),
             attrs_of<NllAttrs>(call).label_smoothing, dtype_of(x));
}

// ---------------------------------------------------------------- of vectors
Expr along_last(const char* op, const Expr& e) {
  return op_call(op, {e}, make_attrs<ReduceAttrs>(Array<int64_t>{-1}, false));
}
Expr cosine_similarity(const Call& call, const std::vector<Expr>& args) {
  expect_domain(call, dtype_of(args[0]), Domain::floating);
  const Expr x = widened(args[0]), y = widened(args[1]);
  const Expr lengths = bi("multiply", along_last("l2_norm", x), along_last("l2_norm", y));
  const Expr product = along_last("sum", bi("multiply", x, y));
  return as_type(bi("divide", product, bi("maximum", lengths, num(x, 1e-8))), dtype_of(args[0]));
}
Expr margin_ranking(const Call& call, const std::vector<Expr>& args) {
  const auto& a = attrs_of<LossAttrs>(call);
  expect_reduction(call, a.reduction);
  const Expr x = widened(args[0]),
             gap = bi("multiply", widened(args[2]), bi("subtract", x, widened(args[1])));
  return reduced(un("nn.relu", bi("subtract", num(x, a.parameter), gap)), a.reduction, dtype_of(args[0]));
}
Expr triplet_margin(const Call& call, const std::vector<Expr>& args) {
  const auto& a = attrs_of<LossAttrs>(call);
  expect_reduction(call, a.reduction);
  const Expr x = widened(args[0]);
  auto distance = [&](const Expr& e) { return along_last("l2_norm", bi("subtract", x, widened(e))); };
  const Expr gap = bi("subtract", distance(args[1]), distance(args[2]));
  return reduced(un("nn.relu", bi("add", gap, num(x, a.parameter))), a.reduction, dtype_of(args[0]));
}

const bool loss_registered = [] {
  const auto opaque = FusionKind::opaque;
  const char *const prediction = "predictions", *const scores = "(batch, classes, …)";
  for (const Pairwise& p : pairwise) {
    const Rule rule = p.rule;
    register_composed(p.name, p.doc, opaque,
                      [rule](const Call& call, const std::vector<Expr>& args) {
                        const auto& a = attrs_of<LossAttrs>(call);
                        expect_reduction(call, a.reduction);
                        expect_domain(call, dtype_of(args[0]), Domain::floating);
                        return reduced(rule(a, widened(args[0]), widened(args[1])), a.reduction,
                                       dtype_of(args[0]));
                      })
        .argument("x", "Tensor", prediction)
        .argument("target", "Tensor", "targets of x's type")
        .attrs<LossAttrs>();
  }
  for (const bool logits : {false, true})
    register_composed(logits ? "nn.cross_entropy_with_logits" : "nn.cross_entropy",
                      logits ? "Mean cross entropy of softmax(x) and target distributions."
                             : "Mean cross entropy of probabilities and target distributions.",
                      opaque,
                      [logits](const Call& call, const std::vector<Expr>& args) {
                        return cross_entropy(call, args, logits);
                      })
        .argument("x", "Tensor", "(…, classes)")
        .argument("target", "Tensor", "(…, classes)");
  register_composed("nn.nll_loss", "-x of each element's class, weighted.", opaque, nll_loss)
      .argument("x", "Tensor", scores)
      .argument("target", "Tensor", "class of each element (batch, …)")
      .argument("weight", "Tensor", "one per class", true)
      .attrs<NllAttrs>();
  register_composed("nn.softmax_cross_entropy", "-log(softmax(x)) of each element's class, weighted.", opaque,
                    softmax_cross_entropy)
      .argument("x", "Tensor", scores)
      .argument("target", "Tensor", "class of each element (batch, …)")
      .argument("weight", "Tensor", "one per class", true)
      .attrs<NllAttrs>();
  register_composed("nn.cosine_similarity", "Cosine of the angle between vectors of the last axis.", opaque,
                    cosine_similarity)
      .argument("a", "Tensor", "vectors")
      .argument("b", "Tensor", "vectors");
  register_composed("nn.margin_ranking_loss", "max(0, parameter - target · (a - b)).", opaque, margin_ranking)
      .argument("a", "Tensor", prediction)
      .argument("b", "Tensor", prediction)
      .argument("target", "Tensor", "1 where a should be larger, -1 where b should")
      .attrs<LossAttrs>();
  register_composed("nn.triplet_margin_loss", "max(0, |x - near| - |x - far| + parameter).", opaque,
                    triplet_margin)
      .argument("x", "Tensor", "vectors")
      .argument("near", "Tensor", "vectors alike")
      .argument("far", "Tensor", "vectors unlike")
      .attrs<LossAttrs>();
  return true;
}();

}  // namespace
}  // namespace tenon::op

template struct tenon::DefineTypes<tenon::op::LossAttrs, tenon::op::NllAttrs>;
