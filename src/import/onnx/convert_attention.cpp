// SPDX-License-Identifier: Apache-2.0
// Converters: linear attention, attention with graphs that change its scores, causal convolutions with a
// state.
#include <cmath>

#include "analysis/analyzer.h"
#include "import/onnx/importer.h"
#include "op/attrs_linear_attention.h"

namespace tenon::onnx {

using namespace op;

namespace {

// ---------------------------------------------------------------- linear attention, causal convolution
/// What com.microsoft has beyond the standard: a number of another value than that is refused.
void expect_standard(NodeContext& n, const char* attribute, int64_t value) {
  if (n.attr_int(attribute, value) != value)
    n.unsupported(fmt::format("{} with '{}' of {} is not supported", n.op_type(), attribute,
                              n.attr_int(attribute, value)));
}
Values linear_attention(NodeContext& n) {
  expect_standard(n, "state_window", 0);
  const std::string rule = n.attr_string("update_rule", "gated_delta");
  const bool gated = rule == "gated" || rule == "gated_delta",
             delta = rule == "delta" || rule == "gated_delta";
  if (!gated && !delta && rule != "linear")
    n.malformed(fmt::format("the rule {} of LinearAttention is not known", in_quotes(rule)));
  if (n.has(4) != gated || n.has(5) != delta)
    n.malformed("the inputs 'decay' and 'beta' of LinearAttention do not fit its rule");
  const int64_t qh = n.need_int("q_num_heads"), kh = n.need_int("kv_num_heads");
  if (qh < 1 || kh < 1 || qh % kh != 0)
    n.malformed("the query heads of LinearAttention are no multiple of the key heads");
  const DataType t = n.dtype(0);
  // (batch, steps, heads · size) as (batch, heads, steps, size)
  const auto queries = n.known_shape(0);
  auto heads = [&](size_t i, int64_t count) {
    auto s = n.known_shape(i);
    if (s.size() != 3) n.malformed("LinearAttention takes tensors of rank 3");
    s.set(0, queries[0]), s.set(1, queries[1]);
    const PrimExpr size = simplify(tir::floordiv(s[2], PrimExpr(count)));
    return n.transpose(n.reshape(n.checked(n.in(i), s), {s[0], s[1], PrimExpr(count), size}), {0, 2, 1, 3});
  };
  const Expr q = heads(0, qh), k = heads(1, kh), v = heads(2, kh);
  const auto sk = *graph::known_shape(k), sv = *graph::known_shape(v);
  auto fill = [&](Array<PrimExpr> shape, double value, DataType of) {
    return n.op("full", {graph::shape_expr(std::move(shape)), n.scalar(value, of)},
                make_attrs<DTypeAttrs>(of));
  };
  auto last = [&](size_t i) { return n.known_shape(i, 3, 3)[2]; };
  const Expr decay = gated ? heads(4, kh) : fill({PrimExpr(1), PrimExpr(1), PrimExpr(1), PrimExpr(1)}, 0, t);
  const Expr beta = delta ? heads(5, tir::is_one(last(5)) ? 1 : kh)
                          : fill({PrimExpr(1), PrimExpr(1), PrimExpr(1), PrimExpr(1)}, 1, t);
  const Expr state = n.has(3) ? n.in(3) : fill({sk[0], sk[1], sk[3], sv[3]}, 0, t);
  auto a = make<LinearAttentionAttrs>();
  a.edit()->gated = gated, a.edit()->delta = delta, a.edit()->scale = n.attr_float("scale", 0);
  const Expr r = n.op("nn.linear_attention", {q, k, v, decay, beta, state}, a);
  const Expr y = n.transpose(n.item(r, 0), {0, 2, 1, 3});
  return {n.reshape(y, {sk[0], sk[2], simplify(sv[3] * qh)}), n.item(r, 1)};
}

/// A depthwise convolution over what came before and what comes now.
Values causal_conv(NodeContext& n) {
  expect_standard(n, "state_window", 0);
  expect_standard(n, "channels_last", 0);
  expect_standard(n, "dilation", 1);
  expect_standard(n, "ndim", 1);
  const auto s = n.known_shape(0), w = n.known_shape(1);
  const auto taps = w.size() == 3 ? tir::as_int(w[2]) : std::nullopt,
             channels = s.size() == 3 ? tir::as_int(s[1]) : std::nullopt;
  if (!taps || !channels)
    n.unsupported("CausalConvWithState needs a known number of channels and of weights");
  const DataType t = n.dtype(0);
  const std::string activation = n.attr_string("activation", "none");
  if (activation != "none" && activation != "silu" && activation != "swish")
    n.malformed(fmt::format("the activation {} of CausalConvWithState is not known", in_quotes(activation)));
  const Array<PrimExpr> before{s[0], s[1], PrimExpr(*taps - 1)};
  const Expr past =
      n.has(3) ? n.in(3)
               : n.op("full", {graph::shape_expr(before), n.scalar(0, t)}, make_attrs<DTypeAttrs>(t));
  const Expr all = n.op("concat", {n.emit(tuple({past, n.in(0)}))}, make_attrs<AxisAttrs>(int64_t(2)));
  auto a = make<ConvAttrs>();
  a.edit()->groups = *channels;
  Expr y = n.op("nn.conv1d", {all, n.in(1)}, a);
  if (n.has(2)) y = n.op("nn.bias_add", {y, n.in(2)}, make_attrs<AxisAttrs>(int64_t(1)));
  if (activation != "none") y = n.op("nn.silu", {y});
  const PrimExpr end = simplify(s[2] + (*taps - 1));
  const Expr present = n.op("strided_slice", {all},
                            make_attrs<StridedSliceAttrs>(Array<int64_t>{2}, Array<PrimExpr>{s[2]},
                                                          Array<PrimExpr>{end}, Array<int64_t>{1}));
  return {y, present};
}

/// A graph attribute applied to one value.
Expr applied(NodeContext& n, const char* name, const Expr& value) {
  if (!n.has_attr(name)) return value;
  proto::GraphProto& g = *n.attr_graph(name);
  if (g.input_size() != 1 || g.output_size() != 1)
    n.malformed(fmt::format("the graph '{}' of {} must have one input and one output", name, n.op_type()));
  Scope inner;
  inner.parent = &n.scope;
  inner.values.emplace(g.input(0).name(), Value(value));
  Values out = n.importer.convert_graph(g, inner, n.env, n.importer.depth + 1);
  if (out.size() != 1 || out[0].poisoned)
    n.unsupported(
        fmt::format("the graph '{}' of {} holds operators that are not supported", name, n.op_type()));
  return n.importer.expr_of(out[0], n.origin);
}
Values flex_attention(NodeContext& n) {
  Expr q = n.in(0), k = n.in(1), v = n.in(2);
  const auto sq = n.known_shape(0), sk = n.known_shape(1);
  if (sq.size() != 4 || sk.size() != 4) n.malformed("FlexAttention takes tensors of rank 4");
  const auto qh = tir::as_int(sq[1]), kh = tir::as_int(sk[1]), size = tir::as_int(sq[3]);
  if (!qh || !kh || !size) n.unsupported("FlexAttention needs known numbers of heads and a known head size");
  if (*kh < 1 || *qh % *kh != 0)
    n.malformed("the query heads of FlexAttention are no multiple of the key heads");
  const DataType t = n.dtype(0);
  if (*qh != *kh) {
    k = n.op("repeat", {k}, make_attrs<RepeatAttrs>(*qh / *kh, int64_t(1)));
    v = n.op("repeat", {v}, make_attrs<RepeatAttrs>(*qh / *kh, int64_t(1)));
  }
  const double scale = n.has_attr("scale") ? n.attr_float("scale", 1) : 1 / std::sqrt(double(*size));
  DataType wide = t.bits < 32 ? f32 : t;
  if (const int64_t code = n.attr_int("softmax_precision", 0); code != 0) wide = element_type(int(code));
  if (!wide.is_float()) n.unsupported("FlexAttention in this precision is not supported");
  auto scaled = [&](const Expr& e) { return n.op("multiply", {e, n.scalar(std::sqrt(scale), t)}); };
  Expr scores = n.op("matmul", {scaled(q), n.transpose(scaled(k), {0, 1, 3, 2})});
  scores = n.cast(applied(n, "score_mod", n.cast(scores, wide)), wide);
  Expr weights = n.op("nn.softmax", {scores}, make_attrs<AxisAttrs>(int64_t(-1)));
  weights = n.cast(applied(n, "prob_mod", weights), wide);
  return {n.cast(n.op("matmul", {weights, n.cast(v, wide)}), n.dtype(2))};
}
const RegisterConverter r1("LinearAttention", {27}, linear_attention),
    r2("CausalConvWithState", {27}, causal_conv),
    m1("com.microsoft::LinearAttention", {1}, linear_attention, "as the standard has it"),
    m2("com.microsoft::CausalConvWithState", {1}, causal_conv, "as the standard has it"),
    r3("ai.onnx.preview::FlexAttention", {1}, flex_attention);

}  // namespace
}  // namespace tenon::onnx
