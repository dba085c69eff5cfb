// SPDX-License-Identifier: Apache-2.0
// Neural network operators that are made of others: products with transposed operands, gated activations,
// rotary embedding, normalisation of a training step.
#include <fmt/format.h>

#include "base/define_type.h"
#include "op/attrs_place.h"
#include "op/compose.h"

namespace tenon::op {
namespace {

Expr pair_op(const char* op, const Expr& a, const Expr& b) { return op_call(op, {a, b}); }
Expr transposed_pair(const Expr& e) {
  const auto n = int64_t(known_dims(e).size());
  Array<int64_t> axes;
  for (int64_t i = 0; i < n; ++i) axes.push_back(i);
  axes.set(size_t(n) - 1, n - 2), axes.set(size_t(n) - 2, n - 1);
  return op_call("permute_dims", {e}, make_attrs<AxesAttrs>(axes));
}
Expr batch_matmul(const Call& call, const std::vector<Expr>& args) {
  const auto& a = attrs_of<BatchMatmulAttrs>(call);
  for (size_t i = 0; i < 2; ++i)
    if (known_dims(args[i]).size() < 2) infer_error(call, "takes batches of matrices");
  return op_call("matmul",
                 {a.transpose_a ? transposed_pair(args[0]) : args[0],
                  a.transpose_b ? transposed_pair(args[1]) : args[1]},
                 make_attrs<MatmulAttrs>(a.out_dtype));
}
Expr linear(const Call&, const std::vector<Expr>& args) {
  const Expr y = op_call("nn.dense", {args[0], args[1]});
  return args.size() > 2 ? pair_op("add", y, args[2]) : y;
}
/// f(first half) · second half of the last axis.
Compose gated(const char* f) {
  return [f](const Call&, const std::vector<Expr>& args) {
    const Expr parts = op_call("split", {args[0]}, make_attrs<SplitAttrs>([](SplitAttrs& s) {
                                 s.axis = -1;
                                 s.sections = 2;
                               }));
    return pair_op("multiply", op_call(f, {get_item(parts, 0)}), get_item(parts, 1));
  };
}

Expr part_of_last(const Expr& x, const PrimExpr& begin, const PrimExpr& end, int64_t step) {
  return op_call(
      "strided_slice", {x},
      make_attrs<StridedSliceAttrs>(Array<int64_t>{-1}, Shape{begin}, Shape{end}, Array<int64_t>{step}));
}
Expr rotary(const Call& call, const std::vector<Expr>& args) {
  const Expr &x = args[0], &cos = args[1], &sin = args[2];
  const Shape s = known_dims(x);
  const auto size = s.empty() ? std::nullopt : tir::as_int(s[s.size() - 1]);
  if (!size || *size % 2 != 0) infer_error(call, fmt::format("{} has no pairs in its last axis", show(s)));
  const bool neighbours = attrs_of<RotaryAttrs>(call).interleaved;
  const Expr a = neighbours ? part_of_last(x, 0, *size, 2) : part_of_last(x, 0, *size / 2, 1);
  const Expr b = neighbours ? part_of_last(x, 1, *size, 2) : part_of_last(x, *size / 2, *size, 1);
  const Expr real = pair_op("subtract", pair_op("multiply", a, cos), pair_op("multiply", b, sin));
  const Expr imaginary = pair_op("add", pair_op("multiply", a, sin), pair_op("multiply", b, cos));
  if (!neighbours) return op_call("concat", {tuple({real, imaginary})}, make_attrs<AxisAttrs>(int64_t(-1)));
  const Expr pairs = op_call("stack", {tuple({real, imaginary})}, make_attrs<AxisAttrs>(int64_t(-1)));
  return op_call("reshape", {pairs, graph::shape_expr(known_dims(x))});
}

/// The batch's own mean and variance normalise it; the running ones move towards them.
Expr batch_norm_train(const Call& call, const std::vector<Expr>& args) {
  const auto& a = attrs_of<BatchNormTrainAttrs>(call);
  const Expr x = widened(args[0]);
  expect_domain(call, dtype_of(args[0]), Domain::floating);
  const auto rank = int64_t(known_dims(x).size());
  const int64_t axis = normal_axis(call, a.axis, rank);
  Array<int64_t> others;
  for (int64_t i = 0; i < rank; ++i)
    if (i != axis) others.push_back(i);
  const Expr mean = op_call("mean", {x}, make_attrs<ReduceAttrs>(others, false));
  const Expr variance = op_call("variance", {x}, make_attrs<ReduceAttrs>(others, false));
  const Expr y = op_call("nn.batch_norm", {x, widened(args[1]), widened(args[2]), mean, variance},
                         make_attrs<BatchNormAttrs>([&](BatchNormAttrs& b) {
                           b.axis = axis;
                           b.epsilon = a.epsilon;
                         }));
  auto moved = [&](const Expr& old, const Expr& fresh) {
    const Expr o = widened(old);
    const Expr sum =
        pair_op("add", pair_op("multiply", o, scalar(a.momentum, dtype_of(o))),
                as_type(pair_op("multiply", fresh, scalar(1 - a.momentum, dtype_of(fresh))), dtype_of(o)));
    return as_type(sum, dtype_of(old));
  };
  return tuple({as_type(y, dtype_of(args[0])), moved(args[3], mean), moved(args[4], variance)});
}
Expr mean_variance_norm(const Call& call, const std::vector<Expr>& args) {
  expect_domain(call, dtype_of(args[0]), Domain::floating);
  const auto& given = attrs_of<AxesAttrs>(call).axes;
  const Array<int64_t> axes = given.empty() ? Array<int64_t>{0, 2, 3} : given;
  const Expr x = widened(args[0]);
  const Expr middle = pair_op("subtract", x, op_call("mean", {x}, make_attrs<ReduceAttrs>(axes, true)));
  const Expr spread = op_call("std", {x}, make_attrs<ReduceAttrs>(axes, true));
  return as_type(pair_op("divide", middle, pair_op("add", spread, scalar(1e-9, dtype_of(x)))),
                 dtype_of(args[0]));
}
Expr gumbel_softmax(const Call& call, const std::vector<Expr>& args) {
  // Logits and noise together, divided by the temperature.
  const double temperature = attrs_of<AlphaAttrs>(call).alpha;
  const Expr sum = pair_op("add", widened(args[0]), widened(args[1]));
  const Expr y = op_call("nn.softmax", {pair_op("divide", sum, scalar(temperature, dtype_of(sum)))},
                         make_attrs<AxisAttrs>(int64_t(-1)));
  return as_type(y, dtype_of(args[0]));
}
Expr size_of(const Call&, const std::vector<Expr>& args) {
  const Expr sizes =
      op_call("shape_to_tensor", {graph::shape_expr({simplify(product(known_dims(args[0])))})});
  return op_call("reshape", {sizes, shape({})});
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
