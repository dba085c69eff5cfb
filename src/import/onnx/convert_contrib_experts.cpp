// SPDX-License-Identifier: Apache-2.0
// Converters: mixtures of experts of com.microsoft, with real and with quantised weights. Every expert works
// on every row, and what a row did not choose counts nothing: batched products of whole matrices.
#include <cmath>

#include "analysis/analyzer.h"
#include "import/onnx/blocks.h"
#include "op/attrs_sort.h"

namespace tenon::onnx {
namespace {

using namespace op;
using N = NodeContext;
using R = RegisterConverter;
using Shape = Array<PrimExpr>;

/// Where the inputs of a layer of all experts lie.
struct Layer {
  size_t weights, bias, scales = 0, zeros = 0;  ///< 0: the weights are real numbers
  const char* bits = "";                        ///< attribute
};

/// (experts, units, depth): the weights of a layer as real numbers of type t.
Expr weights_of(N& n, const Layer& layer, DataType t) {
  const Shape s = n.known_shape(layer.weights, 3, 3);
  if (layer.scales == 0) return n.cast(n.in(layer.weights), t);
  const int64_t bits = n.attr_int(layer.bits, n.attr_int("expert_weight_bits", 4));
  if (bits != 2 && bits != 4 && bits != 8)
    n.unsupported(fmt::format("{} with {} bits is not supported", n.op_type(), bits));
  const auto experts = tir::as_int(s[0]), units = tir::as_int(s[1]), bytes = tir::as_int(s[2]);
  if (!experts || !units || !bytes || n.dtype(layer.weights) != u8)
    n.unsupported(fmt::format("{} needs weights of bytes and known sizes", n.op_type()));
  const int64_t depth = *bytes * 8 / bits, given = n.attr_int("block_size", 0),
                block = given > 0 ? given : depth;
  if (block < 1 || depth % block != 0)
    n.malformed(fmt::format("blocks of {} do not divide the weights of {}", block, n.op_type()));
  const PrimExpr rows(*experts * *units), blocks(depth / block);
  const Expr whole = n.reshape(unpacked(n, n.in(layer.weights), bits), {rows, PrimExpr(depth)});
  const Expr scale = n.reshape(n.cast(n.in(layer.scales), t), {rows, blocks});
  Expr zero = n.full({rows, blocks}, double(1 << (bits - 1)), t);
  if (n.has(layer.zeros)) {
    // Rows of zero points end on a whole byte; without blocks they are one row for each expert.
    const int64_t count = given > 0 ? depth / block : *units,
                  lines = given > 0 ? *experts * *units : *experts;
    const Expr packed = n.reshape(n.in(layer.zeros), {PrimExpr(lines), PrimExpr((count * bits + 7) / 8)});
    zero = n.reshape(n.slice(unpacked(n, packed, bits), 1, 0, count), {rows, blocks});
  }
  return n.reshape(from_blocks(n, whole, scale, zero, block), {s[0], s[1], PrimExpr(depth)});
}
/// x (experts or 1, rows, depth) by a layer: (experts, rows, units).
Expr through(N& n, const Expr& x, const Layer& layer, DataType t) {
  const Expr w = weights_of(n, layer, t);
  const Shape s = n.shape_of(w), in = n.shape_of(x);
  const auto depth = tir::as_int(s[2]), have = tir::as_int(in[2]);
  if (depth && have && *depth != *have)
    n.malformed(fmt::format("the weights of {} do not fit one another", n.op_type()));
  const Expr y = n.op("matmul", {x, n.transpose(w, {0, 2, 1})});
  if (!n.has(layer.bias)) return y;
  return n.op("add", {y, n.reshape(n.cast(n.in(layer.bias), t), {s[0], PrimExpr(1), s[1]})});
}

/// The product of a gate, gate · sigmoid(alpha · gate), and a line + beta; both are bounded before.
Expr gated(N& n, Expr gate, Expr line) {
  const DataType t = graph::as_tensor(gate)->dtype;
  const double limit = n.attr_float("swiglu_limit", INFINITY), alpha = n.attr_float("activation_alpha", 1),
               beta = n.attr_float("activation_beta", 0);
  if (std::isfinite(limit)) {
    gate = n.op("clip", {gate}, make_attrs<ClipAttrs>(-INFINITY, limit));
    line = n.op("clip", {line}, make_attrs<ClipAttrs>(-limit, limit));
  }
  const Expr open = n.op("sigmoid", {n.op("multiply", {gate, n.scalar(alpha, t)})});
  return n.op("multiply", {n.op("multiply", {gate, open}), n.op("add", {line, n.scalar(beta, t)})});
}
Expr activated(N& n, const Expr& x, const Layer& first, const Layer& third, DataType t) {
  const std::string kind = n.attr_string("activation_type", "relu");
  const int64_t fusion = n.attr_int("swiglu_fusion", 0);
  const Expr y = through(n, x, first, t);
  if (kind == "swiglu") {
    if (fusion == 0) {
      if (!n.has(third.weights)) n.malformed(fmt::format("{} lacks the weights of its lines", n.op_type()));
      return gated(n, y, through(n, x, third, t));
    }
    const auto width = tir::as_int(n.shape_of(y)[2]);
    if ((fusion != 1 && fusion != 2) || !width || *width % 2 != 0)
      n.malformed(fmt::format("the gates and lines of {} are no halves of its weights", n.op_type()));
    const bool woven = fusion == 1;
    return gated(n, woven ? n.slice(y, 2, 0, *width, 2) : n.slice(y, 2, 0, *width / 2),
                 woven ? n.slice(y, 2, 1, *width, 2) : n.slice(y, 2, *width / 2, *width));
  }
  if (n.has(third.weights))
    n.unsupported(
        fmt::format("{} with a third layer and the activation {} is not supported", n.op_type(), kind));
  if (kind == "relu") return n.op("nn.relu", {y});
  if (kind == "gelu") return n.op("nn.gelu", {y}, make_attrs<GeluAttrs>(std::string("tanh")));
  if (kind == "silu") return n.op("nn.silu", {y});
  if (kind == "identity") return y;
  n.malformed(fmt::format("the activation {} of {} is not known", in_quotes(kind), n.op_type()));
}

/// (rows, experts): the share of each expert in a row, 0 for those that it did not choose.
Expr shares(N& n, const PrimExpr& rows, size_t weights) {
  const Shape s = n.known_shape(1, 2, 2);
  const auto experts = tir::as_int(s[1]);
  const int64_t k = n.attr_int("k", 1);
  if (!experts || k < 1 || k > *experts)
    n.malformed(fmt::format("{} takes the best {} of its experts", n.op_type(), k));
  const Expr logits = n.cast(n.checked(n.in(1), {rows, s[1]}), f32);
  const Expr best =
      n.op("topk", {logits, graph::shape_expr({PrimExpr(k)})}, make_attrs<TopKAttrs>(int64_t(1), true));
  Expr all = n.has(weights) ? n.cast(n.checked(n.in(weights), {rows, s[1]}), f32)
                            : n.op("nn.softmax", {logits}, make_attrs<AxisAttrs>(int64_t(1)));
  Expr chosen = n.op("gather_elements", {all, n.item(best, 1)}, make_attrs<AxisAttrs>(int64_t(1)));
  if (n.attr_int("normalize_routing_weights", 0) != 0)
    chosen =
        n.op("divide", {chosen, n.op("sum", {chosen}, make_attrs<ReduceAttrs>(Array<int64_t>{1}, true))});
  return n.op("scatter_elements", {n.full({rows, s[1]}, 0, f32), n.item(best, 1), chosen},
              make_attrs<ScatterAttrs>(int64_t(1), std::string("update")));
}
Expr mixture(N& n, const Layer& first, const Layer& second, const Layer& third, size_t weights) {
  if (n.attr_int("use_sparse_mixer", 0) != 0)
    n.unsupported(fmt::format("{} with a sparse mixer is not supported", n.op_type()));
  const Shape s = n.known_shape(0, 2, 3);
  const DataType t = n.dtype(0);
  const PrimExpr rows = s.size() == 3 ? simplify(s[0] * s[1]) : s[0], width = s[s.size() - 1];
  const Expr x = n.reshape(n.cast(n.in(0), f32), {PrimExpr(1), rows, width});
  const Expr y = through(n, activated(n, x, first, third, f32), second, f32);
  const Shape out = n.shape_of(y);  // (experts, rows, width)
  const Expr share = n.reshape(n.transpose(shares(n, rows, weights), {1, 0}), {out[0], rows, PrimExpr(1)});
  // An expert that was not chosen counts nothing, also where its result is no number.
  const Expr counted = n.op(
      "where", {n.op("greater", {share, n.scalar(0, f32)}), n.op("multiply", {y, share}), n.scalar(0, f32)});
  const Expr sum = n.op("sum", {counted}, make_attrs<ReduceAttrs>(Array<int64_t>{0}, false));
  return n.reshape(n.cast(sum, t), s);
}

constexpr size_t kNone = 99;  // an input that the operator does not have

Values experts(N& n) {
  return {mixture(n, {.weights = 2, .bias = 3}, {.weights = 4, .bias = 5}, {.weights = 6, .bias = 7}, kNone)};
}
Values quantised_experts(N& n) {
  if (n.attr_string("quant_type", "int") != "int" || n.attr_int("weights_prepacked", -1) == 1)
    n.unsupported("QMoE is supported with weights of integers, packed along their depth");
  return {mixture(n, {2, 4, 3, 11, "fc1_expert_weight_bits"}, {5, 7, 6, 12, "fc2_expert_weight_bits"},
                  {8, 10, 9, 13, "fc3_expert_weight_bits"}, 14)};
}
const R e1("com.microsoft::MoE", {1}, experts, "every expert computes every row"),
    e2("com.microsoft::QMoE", {1}, quantised_experts, "weights of integers; every expert computes every row");

}  // namespace
}  // namespace tenon::onnx
