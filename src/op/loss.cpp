// SPDX-License-Identifier: Apache-2.0
// Loss functions, all of them made of other operators.
#include <fmt/format.h>

#include "base/define_type.h"
#include "op/attrs_loss.h"
#include "op/compose.h"

namespace tenon::op {
namespace {

using Terms = std::vector<Term>;

bool expect_reduction(InferContext& ctx, const std::string& r) {
  return ctx.expect_one_of("reduction", r, {"mean", "sum", "none"});
}
Term reduced(const Term& x, const std::string& reduction, DataType t) {
  return (reduction == "none" ? x : x.op(reduction)).as(t);
}

/// An element-wise loss of a prediction and a target, both widened.
using Rule = Term (*)(const LossAttrs& a, const Term& x, const Term& y);
Term difference_of(const Term& x, const Term& y) { return (x - y).op("abs"); }
Term squared_loss(const LossAttrs&, const Term& x, const Term& y) { return (x - y).op("square"); }
Term absolute_loss(const LossAttrs&, const Term& x, const Term& y) { return difference_of(x, y); }
/// Parabola up to delta, straight behind it; `parabola` is what the square is multiplied with.
Term bent(const Term& d, double delta, double parabola, double slope) {
  const Term near = d.op("square") * parabola, far = (d - 0.5 * delta) * slope;
  return d.op("less", {d.number(delta)}).op("where", {near, far});
}
Term smooth_l1_loss(const LossAttrs& a, const Term& x, const Term& y) {
  if (a.parameter <= 0) return difference_of(x, y);
  return bent(difference_of(x, y), a.parameter, 0.5 / a.parameter, 1);
}
Term huber_loss(const LossAttrs& a, const Term& x, const Term& y) {
  return bent(difference_of(x, y), a.parameter, 0.5, a.parameter);
}
Term kl_div(const LossAttrs& a, const Term& x, const Term& y) {
  if (a.log) return y.op("exp") * (y - x);
  return y.op("xlogy", {y}) - y * x;
}
Term binary_cross_entropy(const LossAttrs&, const Term& x, const Term& y) {
  // Logarithms no further than -100: a wrong certainty costs much, not everything.
  auto log_of = [](const Term& t) { return t.op("log").op("maximum", {t.number(-100)}); };
  const Term one = x.number(1);
  return -(y * log_of(x) + (one - y) * log_of(one - x));
}
Term bce_with_logits(const LossAttrs&, const Term& x, const Term& y) {
  // max(x, 0) - x y + log(1 + exp(-|x|)) overflows nowhere.
  return x.op("nn.relu") - x * y + (-x.op("abs")).op("exp").op("log1p");
}
Term poisson_nll(const LossAttrs& a, const Term& x, const Term& y) {
  constexpr double kLeast = 1e-8;  // keeps the logarithm finite
  if (a.log) return x.op("exp") - y * x;
  return x - y * (x + kLeast).op("log");
}
Term hinge_embedding(const LossAttrs& a, const Term& x, const Term& y) {
  return y.op("equal", {y.number(1)}).op("where", {x, (a.parameter - x).op("nn.relu")});
}
Term soft_margin(const LossAttrs&, const Term& x, const Term& y) { return (-(x * y)).op("nn.softplus"); }
Term log_cosh(const LossAttrs&, const Term& x, const Term& y) {
  // |d| + log(1 + exp(-2 |d|)) - log 2
  constexpr double kLog2 = 0.6931471805599453;
  const Term d = difference_of(x, y);
  return d + (d * -2).op("exp").op("log1p") - kLog2;
}

struct Pairwise {
  OpName name;
  const char* doc;
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
/// x has an axis of classes and floating values.
bool expect_scores(InferContext& ctx, const Term& x) {
  if (!ctx.expect_domain(x.dtype(), Domain::floating)) return false;
  const auto s = x.dims();
  if (s && s->empty()) return ctx.error("a scalar has no classes");
  return s.has_value();
}
/// -Σ target · log p over the last axis, mean over the rest: targets are distributions.
Term cross_entropy(InferContext& ctx, const Terms& args, bool logits) {
  if (!expect_scores(ctx, args[0])) return {};
  const Term x = args[0].widened();
  const Term log_p = logits ? x.op("nn.log_softmax", make_attrs<AxisAttrs>(int64_t(-1))) : x.op("log");
  const Term sums = (args[1].widened() * log_p).op("sum", make_attrs<ReduceAttrs>(Array<int64_t>{-1}, false));
  return (-sums.op("mean")).as(args[0].dtype());
}

/// Weighted -log p of each element's class; axis 1 holds the classes. `weight` may be null.
Term nll(InferContext& ctx, const Term& log_p, const Term& target, const Term& weight, double smoothing,
         DataType t) {
  const auto& a = ctx.attrs<NllAttrs>();
  if (!expect_reduction(ctx, a.reduction) || !ctx.expect_domain(target.dtype(), Domain::integer)) return {};
  const auto s = log_p.dims(), labels = target.dims(), weights = weight.dims();
  if (!s || !labels || (weight && !weights)) return {};
  const auto axis = int64_t(s->size() > 1 ? 1 : 0);
  if (s->empty() || labels->size() + 1 != s->size())
    return ctx.error(fmt::format("scores {} for targets {}", show(*s), show(*labels)), "classes are axis 1");
  const PrimExpr classes = (*s)[size_t(axis)];
  if (weights && !ctx.require_equal(*weights, Shape{classes}))
    return ctx.error(fmt::format("weights {} for scores {}", show(*weights), show(*s)));
  const ObjectRef of_classes = make_attrs<AxesAttrs>(Array<int64_t>{axis});
  const Term ignored = target.op("equal", {target.number(double(a.ignore_index))});
  const Term label = ignored.op("where", {target.number(0), target});
  const Term at = label.op("expand_dims", of_classes);
  const Term picked =
      -log_p.op("gather_elements", {at}, make_attrs<AxisAttrs>(axis)).op("squeeze", of_classes);
  const Term zero = picked.number(0);
  const Term w = ignored.op(
      "where", {zero, weight ? weight.widened().op("take", {label}, make_attrs<AxisAttrs>(int64_t(0)))
                             : picked.op("ones_like")});
  Term loss = picked * w;
  if (smoothing > 0) {
    Term all = log_p;
    if (weight) {
      Shape spread;
      for (size_t i = 0; i < s->size(); ++i) spread.push_back(int64_t(i) == axis ? classes : PrimExpr(1));
      all = all * weight.widened().reshaped(spread);
    }
    const auto count = tir::as_int(classes);
    if (!count) return ctx.error("label smoothing needs a known number of classes");
    const Term even = all.op("sum", make_attrs<ReduceAttrs>(Array<int64_t>{axis}, false));
    loss = loss * (1 - smoothing) + ignored.op("where", {zero, even * (-1.0 / double(*count))}) * smoothing;
  }
  if (a.reduction == "none") return loss.as(t);
  if (a.reduction == "sum") return loss.op("sum").as(t);
  return (loss.op("sum") / w.op("sum")).as(t);
}
Term nll_loss(InferContext& ctx, const Terms& args) {
  if (!expect_scores(ctx, args[0])) return {};
  return nll(ctx, args[0].widened(), args[1], args.size() > 2 ? args[2] : Term(), 0, args[0].dtype());
}
Term softmax_cross_entropy(InferContext& ctx, const Terms& args) {
  const Term& x = args[0];
  if (!expect_scores(ctx, x)) return {};
  const int64_t axis = x.dims()->size() > 1 ? 1 : 0;
  const Term log_p = x.widened().op("nn.log_softmax", make_attrs<AxisAttrs>(axis));
  return nll(ctx, log_p, args[1], args.size() > 2 ? args[2] : Term(), ctx.attrs<NllAttrs>().label_smoothing,
             x.dtype());
}

// ---------------------------------------------------------------- of vectors
Term along_last(const char* op, const Term& x) {
  return x.op(op, make_attrs<ReduceAttrs>(Array<int64_t>{-1}, false));
}
Term cosine_similarity(InferContext& ctx, const Terms& args) {
  constexpr double kLeastLength = 1e-8;  // vectors of length 0 are like no other
  if (!ctx.expect_domain(args[0].dtype(), Domain::floating)) return {};
  const Term x = args[0].widened(), y = args[1].widened();
  const Term lengths = along_last("l2_norm", x) * along_last("l2_norm", y);
  return (along_last("sum", x * y) / lengths.op("maximum", {x.number(kLeastLength)})).as(args[0].dtype());
}
Term margin_ranking(InferContext& ctx, const Terms& args) {
  const auto& a = ctx.attrs<LossAttrs>();
  if (!expect_reduction(ctx, a.reduction)) return {};
  const Term gap = args[2].widened() * (args[0].widened() - args[1].widened());
  return reduced((a.parameter - gap).op("nn.relu"), a.reduction, args[0].dtype());
}
Term triplet_margin(InferContext& ctx, const Terms& args) {
  const auto& a = ctx.attrs<LossAttrs>();
  if (!expect_reduction(ctx, a.reduction)) return {};
  const Term x = args[0].widened();
  auto distance = [&](const Term& t) { return along_last("l2_norm", x - t.widened()); };
  const Term gap = distance(args[1]) - distance(args[2]);
  return reduced((gap + a.parameter).op("nn.relu"), a.reduction, args[0].dtype());
}

const bool loss_registered = [] {
  const auto opaque = FusionKind::opaque;
  const char *const prediction = "predictions", *const scores = "(batch, classes, …)";
  for (const Pairwise& p : pairwise) {
    const Rule rule = p.rule;
    register_composed(
        p.name, p.doc, opaque,
        [rule](InferContext& ctx, const Terms& args) -> Term {
          const auto& a = ctx.attrs<LossAttrs>();
          if (!expect_reduction(ctx, a.reduction) || !ctx.expect_domain(args[0].dtype(), Domain::floating))
            return {};
          return reduced(rule(a, args[0].widened(), args[1].widened()), a.reduction, args[0].dtype());
        })
        .argument("x", "Tensor", prediction)
        .argument("target", "Tensor", "targets of x's type")
        .attrs<LossAttrs>();
  }
  auto add_cross_entropy = [](OpName name, const char* doc, bool logits) {
    register_composed(
        std::move(name), doc, FusionKind::opaque,
        [logits](InferContext& ctx, const Terms& args) { return cross_entropy(ctx, args, logits); })
        .argument("x", "Tensor", "(…, classes)")
        .argument("target", "Tensor", "(…, classes)");
  };
  add_cross_entropy("nn.cross_entropy", "Mean cross entropy of probabilities and target distributions.",
                    false);
  add_cross_entropy("nn.cross_entropy_with_logits",
                    "Mean cross entropy of softmax(x) and target distributions.", true);
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
