// SPDX-License-Identifier: Apache-2.0
// Neural network operators that are made of others: products with transposed operands, gated activations,
// rotary embedding, normalisation of a training step.
#include <fmt/format.h>

#include "base/define_type.h"
#include "op/attrs_place.h"
#include "op/compose.h"

namespace tenon::op {
namespace {

using Terms = std::vector<Term>;

/// The last two axes in the other order.
Term transposed_pair(const Term& x, size_t rank) {
  const auto n = int64_t(rank);
  Array<int64_t> axes;
  for (int64_t i = 0; i < n; ++i) axes.push_back(i);
  axes.set(rank - 1, n - 2), axes.set(rank - 2, n - 1);
  return x.op("permute_dims", make_attrs<AxesAttrs>(axes));
}
Term batch_matmul(InferContext& ctx, const Terms& args) {
  const auto& a = ctx.attrs<BatchMatmulAttrs>();
  const auto p = args[0].dims(), q = args[1].dims();
  if (!p || !q) return {};
  if (p->size() < 2 || q->size() < 2) return ctx.error("takes batches of matrices");
  const Term x = a.transpose_a ? transposed_pair(args[0], p->size()) : args[0];
  const Term y = a.transpose_b ? transposed_pair(args[1], q->size()) : args[1];
  return x.op("matmul", {y}, make_attrs<MatmulAttrs>(a.out_dtype));
}
Term linear(InferContext&, const Terms& args) {
  const Term y = args[0].op("nn.dense", {args[1]});
  return args.size() > 2 ? y + args[2] : y;
}
/// f(first half) · second half of the last axis.
Compose gated(const char* f) {
  return [f](InferContext&, const Terms& args) {
    const Term halves = args[0].op("split", make_attrs<SplitAttrs>([](SplitAttrs& s) {
                                     s.axis = -1;
                                     s.sections = 2;
                                   }));
    return halves.item(0).op(f) * halves.item(1);
  };
}

Term part_of_last(const Term& x, const PrimExpr& begin, const PrimExpr& end, int64_t step) {
  return x.op("strided_slice", make_attrs<StridedSliceAttrs>(Array<int64_t>{-1}, Shape{begin}, Shape{end},
                                                             Array<int64_t>{step}));
}
Term rotary(InferContext& ctx, const Terms& args) {
  const Term &x = args[0], &cos = args[1], &sin = args[2];
  const auto s = x.dims();
  if (!s) return {};
  const auto size = s->empty() ? std::nullopt : tir::as_int(s->back());
  if (!size || *size % 2 != 0) return ctx.error(fmt::format("{} has no pairs in its last axis", show(*s)));
  const bool neighbours = ctx.attrs<RotaryAttrs>().interleaved;
  const Term a = neighbours ? part_of_last(x, 0, *size, 2) : part_of_last(x, 0, *size / 2, 1);
  const Term b = neighbours ? part_of_last(x, 1, *size, 2) : part_of_last(x, *size / 2, *size, 1);
  const Term parts = tuple({a * cos - b * sin, a * sin + b * cos});
  if (!neighbours) return parts.op("concat", make_attrs<AxisAttrs>(int64_t(-1)));
  return parts.op("stack", make_attrs<AxisAttrs>(int64_t(-1))).reshaped(*s);
}

/// The batch's own mean and variance normalise it; the running ones move towards them.
Term batch_norm_train(InferContext& ctx, const Terms& args) {
  const auto& a = ctx.attrs<BatchNormTrainAttrs>();
  if (!ctx.expect_domain(args[0].dtype(), Domain::floating)) return {};
  const Term x = args[0].widened();
  const auto shape = x.dims();
  if (!shape || !ctx.expect_axis(a.axis, int64_t(shape->size()))) return {};
  const int64_t axis = normal_axis(a.axis, int64_t(shape->size()));
  Array<int64_t> others;
  for (int64_t i = 0; i < int64_t(shape->size()); ++i)
    if (i != axis) others.push_back(i);
  const Term mean = x.op("mean", make_attrs<ReduceAttrs>(others, false));
  const Term variance = x.op("variance", make_attrs<ReduceAttrs>(others, false));
  const Term y = x.op("nn.batch_norm", {args[1].widened(), args[2].widened(), mean, variance},
                      make_attrs<BatchNormAttrs>([&](BatchNormAttrs& b) {
                        b.axis = axis;
                        b.epsilon = a.epsilon;
                      }));
  auto moved = [&](const Term& old, const Term& fresh) {
    const Term o = old.widened();
    return (o * a.momentum + (fresh * (1 - a.momentum)).as(o.dtype())).as(old.dtype());
  };
  return tuple({y.as(args[0].dtype()), moved(args[3], mean), moved(args[4], variance)});
}
Term mean_variance_norm(InferContext& ctx, const Terms& args) {
  constexpr double kLeastDeviation = 1e-9;  // as ONNX defines MeanVarianceNormalization
  if (!ctx.expect_domain(args[0].dtype(), Domain::floating)) return {};
  const auto& given = ctx.attrs<AxesAttrs>().axes;
  const Array<int64_t> axes = given.empty() ? Array<int64_t>{0, 2, 3} : given;
  const Term x = args[0].widened();
  const Term centred = x - x.op("mean", make_attrs<ReduceAttrs>(axes, true));
  const Term spread = x.op("std", make_attrs<ReduceAttrs>(axes, true));
  return (centred / (spread + kLeastDeviation)).as(args[0].dtype());
}
Term gumbel_softmax(InferContext& ctx, const Terms& args) {
  // Logits and noise together, divided by the temperature.
  const Term sum = args[0].widened() + args[1].widened();
  const Term y =
      (sum / sum.number(ctx.attrs<AlphaAttrs>().alpha)).op("nn.softmax", make_attrs<AxisAttrs>(int64_t(-1)));
  return y.as(args[0].dtype());
}
Term size_of(InferContext& ctx, const Terms& args) {
  const auto s = args[0].dims();
  if (!s) return {};
  return Term(ctx, graph::shape_expr({simplify(product(*s))})).op("shape_to_tensor").reshaped({});
}

const bool composites_registered = [] {
  const auto stages = FusionKind::opaque, wise = FusionKind::injective;
  register_composed("nn.batch_matmul", "Product of two batches of matrices.",
                    FusionKind::out_element_wise_fusable, batch_matmul)
      .argument("a", "Tensor", "(batch, m, k)")
      .argument("b", "Tensor", "(batch, n, k) unless said otherwise")
      .attrs<BatchMatmulAttrs>();
  register_composed("nn.linear", "x · weightᵀ + bias.", FusionKind::out_element_wise_fusable, linear)
      .argument("x", "Tensor", "(…, inputs)")
      .argument("weight", "Tensor", "(outputs, inputs)")
      .argument("bias", "Tensor", "one per output", true);
  register_composed("nn.swiglu", "silu(first half) · second half of the last axis.", wise, gated("nn.silu"))
      .argument("x", "Tensor", "the operand");
  register_composed("nn.geglu", "gelu(first half) · second half of the last axis.", wise, gated("nn.gelu"))
      .argument("x", "Tensor", "the operand");
  register_composed("nn.reglu", "relu(first half) · second half of the last axis.", wise, gated("nn.relu"))
      .argument("x", "Tensor", "the operand");
  register_composed("nn.rotary_embedding", "Pairs of the last axis turned by angles.", wise, rotary)
      .argument("x", "Tensor", "(…, size)")
      .argument("cos", "Tensor", "cosines, broadcast to (…, size / 2)")
      .argument("sin", "Tensor", "sines, as cos")
      .attrs<RotaryAttrs>();
  register_composed("nn.batch_norm_train",
                    "batch_norm by the batch's own mean and variance; then the new running ones.", stages,
                    batch_norm_train)
      .argument("x", "Tensor", "the operand")
      .argument("gamma", "Tensor", "scale per channel")
      .argument("beta", "Tensor", "shift per channel")
      .argument("mean", "Tensor", "running mean")
      .argument("variance", "Tensor", "running variance")
      .attrs<BatchNormTrainAttrs>();
  register_composed("nn.mean_variance_norm",
                    "(x - mean) / (deviation + 1e-9) over axes (0, 2, 3 unless given).", stages,
                    mean_variance_norm)
      .argument("x", "Tensor", "the operand")
      .attrs<AxesAttrs>();
  register_composed("nn.gumbel_softmax", "softmax((x + noise) / alpha) along the last axis.", stages,
                    gumbel_softmax)
      .argument("x", "Tensor", "logits")
      .argument("noise", "Tensor", "random.gumbel numbers")
      .attrs<AlphaAttrs>(1.0);
  register_composed("size", "Number of elements.", stages, size_of).argument("x", "Tensor", "the operand");
  return true;
}();

}  // namespace
}  // namespace tenon::op

template struct tenon::DefineTypes<tenon::op::BatchMatmulAttrs, tenon::op::BatchNormTrainAttrs,
                                   tenon::op::RotaryAttrs, tenon::op::ReduceAttrs, tenon::op::SplitAttrs,
                                   tenon::op::StridedSliceAttrs, tenon::op::MatmulAttrs,
                                   tenon::op::BatchNormAttrs>;
