// SPDX-License-Identifier: Apache-2.0
// Converters: operators of com.microsoft that are standard ones joined, as ONNX Runtime's optimiser writes
// them: convolutions and products with an activation, the family of Gelu, operators with channels last.
#include <algorithm>
#include <cmath>

#include "import/onnx/values.h"

namespace tenon::onnx {
namespace {

using namespace op;
using N = NodeContext;
using R = RegisterConverter;
using Shape = Array<PrimExpr>;

/// y through the activation of that name; null parameters are its usual ones.
Expr activated(N& n, const Expr& y, const std::string& name,
               const std::vector<std::optional<double>>& given) {
  const auto parameter = [&](size_t i, double usual) {
    return i < given.size() && given[i] ? *given[i] : usual;
  };
  static const std::map<std::string, const char*> plain{
      {"Relu", "nn.relu"},         {"Tanh", "tanh"},
      {"Sigmoid", "sigmoid"},      {"Softplus", "nn.softplus"},
      {"Softsign", "nn.softsign"}, {"HardSwish", "nn.hard_swish"},
      {"Gelu", "nn.gelu"}};
  if (name.empty()) return y;
  if (const auto found = plain.find(name); found != plain.end()) return n.op(found->second, {y});
  if (name == "LeakyRelu") return n.op("nn.leaky_relu", {y}, make_attrs<AlphaAttrs>(parameter(0, 0.01)));
  if (name == "Elu") return n.op("nn.elu", {y}, make_attrs<AlphaAttrs>(parameter(0, 1)));
  if (name == "ThresholdedRelu")
    return n.op("nn.thresholded_relu", {y}, make_attrs<AlphaAttrs>(parameter(0, 1)));
  if (name == "Clip")
    return n.op("clip", {y}, make_attrs<ClipAttrs>(parameter(0, -INFINITY), parameter(1, INFINITY)));
  if (name == "HardSigmoid")
    return n.op("nn.hard_sigmoid", {y}, make_attrs<HardSigmoidAttrs>(parameter(0, 0.2), parameter(1, 0.5)));
  n.unsupported(fmt::format("the activation {} of {} is not supported", in_quotes(name), n.op_type()));
}
Expr activated(N& n, const Expr& y) {
  std::vector<std::optional<double>> given;
  for (double p : n.attr_floats("activation_params")) given.push_back(p);
  for (const char* name : {"activation_alpha", "activation_beta", "activation_gamma"})
    if (n.has_attr(name)) given.push_back(n.attr_float(name, 0));
  return activated(n, y, n.attr_string("activation", ""), given);
}

// ---------------------------------------------------------------- channels last
/// Axes of a tensor with channels last in the standard's order, and back.
Expr channels_first(N& n, const Expr& x) {
  const int64_t rank = int64_t(n.shape_of(x).size());
  std::vector<int64_t> order{0, rank - 1};
  for (int64_t i = 1; i + 1 < rank; ++i) order.push_back(i);
  return n.transpose(x, order);
}
Expr channels_last(N& n, const Expr& x) {
  const int64_t rank = int64_t(n.shape_of(x).size());
  std::vector<int64_t> order{0};
  for (int64_t i = 2; i < rank; ++i) order.push_back(i);
  order.push_back(1);
  return n.transpose(x, order);
}

/// act(convolution + Z).
Values fused_conv(N& n) {
  const bool last = n.op_type() != "FusedConv";
  Expr y = convert_as(n, "Conv", {last ? channels_first(n, n.in(0)) : n.in(0), n.in(1), n.opt(2)})[0].expr;
  if (last) y = channels_last(n, y);
  if (n.has(3)) y = n.op("add", {y, n.checked(n.in(3), n.shape_of(y))});
  return {activated(n, y)};
}
Values nhwc_max_pool(N& n) {
  return {channels_last(n, convert_as(n, "MaxPool", {channels_first(n, n.in(0))})[0].expr)};
}
Values qlinear_conv(N& n) {
  const bool last = n.attr_int("channels_last", 0) != 0;
  Array<Expr> inputs{last ? channels_first(n, n.in(0)) : n.in(0)};
  for (size_t i = 1; i < 9; ++i) inputs.push_back(n.opt(i));
  const Expr y = convert_as(n, "QLinearConv", inputs)[0].expr;
  return {last ? channels_last(n, y) : y};
}
const R c1("com.microsoft::FusedConv", {1}, fused_conv), c2("com.microsoft::NhwcFusedConv", {1}, fused_conv),
    c3("com.microsoft::NhwcConv", {1}, fused_conv), c4("com.microsoft::NhwcMaxPool", {1}, nhwc_max_pool),
    c5("com.microsoft::QLinearConv", {1}, qlinear_conv);

/// Pads are an input; those that only the run knows crop the result without pads.
Values conv_transpose_with_pads(N& n) {
  GivenAttributes given;
  const bool known = known_numbers(n, 2);
  if (n.has(2) && known) given["pads"] = n.const_ints(2, "Pads");
  Expr y = convert_as(n, "ConvTranspose", {n.in(0), n.in(1), n.opt(3)}, 0, given)[0].expr;
  if (known) return {y};
  Index pads = index_input(n, 2);
  const int64_t spatial = n.rank(0) - 2;
  if (pads.length() != 2 * spatial)
    n.malformed(
        fmt::format("ConvTransposeWithDynamicPads needs {} pads, {} are given", 2 * spatial, pads.length()));
  pads = require(pads, equal(sum(min(pads, 0), 0), 0), "a pad of ConvTransposeWithDynamicPads is negative");
  const Array<PrimExpr> whole = n.shape_of(y);
  for (int64_t i = 0; i < spatial; ++i) {
    const Index left = index_of(n, {whole[size_t(i) + 2]})[0] - pads[i] - pads[i + spatial];
    y = pick(n, y, iota(n, sizes_of(left.shaped({PrimExpr(1)}), "cropped")[0]) + pads[i], i + 2);
  }
  return {y};
}
const R c6("com.microsoft::ConvTransposeWithDynamicPads", {1}, conv_transpose_with_pads, {.values = {2}});

// ---------------------------------------------------------------- products
Values fused_gemm(N& n) {
  return {activated(n, convert_as(n, "Gemm", {n.in(0), n.in(1), n.opt(2)})[0].expr)};
}
/// alpha · A · B; the last two axes of either may be swapped before, and its first one brought behind the
/// batch.
Values fused_matmul(N& n) {
  const auto operand = [&](size_t i, const char* swap, const char* batch) {
    const int64_t rank = n.rank(i);
    std::vector<int64_t> order;
    for (int64_t a = 0; a < rank; ++a) order.push_back(a);
    if (rank > 1 && n.attr_int(batch, 0) != 0) std::rotate(order.begin(), order.begin() + 1, order.end() - 1);
    if (rank > 1 && n.attr_int(swap, 0) != 0) std::swap(order[size_t(rank) - 1], order[size_t(rank) - 2]);
    return std::is_sorted(order.begin(), order.end()) ? n.in(i) : n.transpose(n.in(i), order);
  };
  const Expr a = operand(0, "transA", "transBatchA"), b = operand(1, "transB", "transBatchB");
  Expr y = convert_as(n, "MatMul", {a, b})[0].expr;
  if (const double alpha = n.attr_float("alpha", 1); alpha != 1)
    y = n.op("multiply", {y, n.scalar(alpha, n.dtype(0))});
  return {activated(n, y)};
}
Values wide_matmul_integer(N& n) { return {n.op("matmul", {n.cast(n.in(0), i32), n.cast(n.in(1), i32)})}; }
const R m1("com.microsoft::FusedGemm", {1}, fused_gemm), m2("com.microsoft::FusedMatMul", {1}, fused_matmul),
    m3("com.microsoft::TransposeMatMul", {1}, fused_matmul),
    m4("com.microsoft::FusedMatMulActivation", {1}, fused_matmul),
    m5("com.microsoft::MatMulInteger16", {1}, wide_matmul_integer);

// ---------------------------------------------------------------- activations
Expr biased(N& n, size_t i) { return n.has(i) ? n.onto("add", n.in(0), n.along_last(i, 0)) : n.in(0); }
Values gelu(N& n) {
  const char* kind = n.op_type() == "FastGelu" ? "tanh" : "none";
  return {n.op("nn.gelu", {biased(n, 1)}, make_attrs<GeluAttrs>(std::string(kind)))};
}
Values quick_gelu(N& n) {
  const Expr x = n.in(0);
  const Expr steep = n.op("multiply", {x, n.scalar(n.attr_float("alpha", 1.702), n.dtype(0))});
  return {n.op("multiply", {x, n.op("sigmoid", {steep})})};
}
/// The first half of the last axis times Gelu of the second.
Values bias_split_gelu(N& n) {
  const Expr x = biased(n, 1);
  const int64_t axis = int64_t(n.known_shape(0, 1).size()) - 1;
  const auto width = tir::as_int(n.shape_of(x)[size_t(axis)]);
  if (!width || *width % 2 != 0) n.malformed("BiasSplitGelu cannot halve the last axis");
  const Expr half = n.slice(x, axis, *width / 2, *width);
  return {n.op("multiply", {n.slice(x, axis, 0, *width / 2), n.op("nn.gelu", {half})})};
}
Values bias_add(N& n) { return {n.op("add", {biased(n, 1), n.in(2)})}; }
const R g1("com.microsoft::Gelu", {1}, gelu), g2("com.microsoft::BiasGelu", {1}, gelu),
    g3("com.microsoft::FastGelu", {1}, gelu), g4("com.microsoft::QuickGelu", {1}, quick_gelu),
    g5("com.microsoft::BiasSplitGelu", {1}, bias_split_gelu), g6("com.microsoft::BiasAdd", {1}, bias_add);

}  // namespace
}  // namespace tenon::onnx
