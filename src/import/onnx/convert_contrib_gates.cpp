// SPDX-License-Identifier: Apache-2.0
// Converters: what com.microsoft has around linear attention and residual streams: gates, and norms of
// groups of elements. All compute in 32 bits.
#include "analysis/analyzer.h"
#include "import/onnx/importer.h"

namespace tenon::onnx {
namespace {

using namespace op;
using N = NodeContext;
using R = RegisterConverter;
using Shape = Array<PrimExpr>;

/// Groups of `size` elements along the last axis of x, each over its root mean square: (…, groups, size).
Expr normalised_groups(N& n, const Expr& x, const PrimExpr& size, double epsilon) {
  Shape s = n.shape_of(x);
  const auto width = tir::as_int(s[s.size() - 1]), part = tir::as_int(size);
  if (!width || !part || *part < 1 || *width % *part != 0)
    n.malformed(fmt::format("{} cannot split its last axis into groups", n.op_type()));
  s.set(s.size() - 1, PrimExpr(*width / *part));
  s.push_back(size);
  auto a = make<LayerNormAttrs>();
  a.edit()->axes.push_back(int64_t(s.size()) - 1);
  a.edit()->epsilon = epsilon, a.edit()->scale = false, a.edit()->center = false;
  return n.op("nn.rms_norm", {n.reshape(n.cast(x, f32), s)}, a);
}

Values gated_rms_norm(N& n) {
  const Shape s = n.known_shape(0, 1), scale = n.known_shape(1, 1, 1);
  const std::string kind = n.attr_string("activation", "silu");
  if (kind != "silu" && kind != "swish" && kind != "sigmoid")
    n.malformed(fmt::format("the activation {} of GatedRMSNorm is not known", in_quotes(kind)));
  const Expr y = n.op("multiply", {normalised_groups(n, n.in(0), scale[0], n.attr_float("epsilon", 1e-5)),
                                   n.cast(n.in(1), f32)});
  const Expr gate = n.cast(n.checked(n.in(2), s), f32);
  const Expr open = n.op(kind == "sigmoid" ? "sigmoid" : "nn.silu", {gate});
  return {n.cast(n.op("multiply", {n.reshape(y, s), open}), n.dtype(0))};
}
/// Groups are the last axis, or so many parts of it.
Values branchwise_rms_norm(N& n) {
  const Shape s = n.known_shape(0, 1);
  const int64_t branches = n.attr_int("num_branches", 0);
  PrimExpr size = s[s.size() - 1];
  if (branches > 0) size = simplify(tir::floordiv(size, PrimExpr(branches)));
  Expr y = n.reshape(normalised_groups(n, n.in(0), size, n.attr_float("epsilon", 1e-5)), s);
  if (n.has(1)) {
    // A number for each element of a group, or of all groups, which are the last axis or the last two.
    const Shape scale = n.known_shape(1, 1, 2);
    const PrimExpr width = s[s.size() - 1];
    const auto all = branches > 0   ? tir::as_int(width)
                     : s.size() > 1 ? tir::as_int(s[s.size() - 2])
                                    : std::nullopt;
    const auto part = tir::as_int(size), first = tir::as_int(scale[0]);
    const bool shared = scale.size() == 1 && first && part && *first == *part;
    Expr w = n.cast(n.in(1), f32);
    if (branches > 0 && shared)
      w = n.reshape(n.op("broadcast_to", {w, graph::shape_expr({PrimExpr(branches), size})}), {width});
    else if (branches > 0)
      w = n.reshape(w, {width});
    else if (!shared && all)
      w = n.reshape(w, {PrimExpr(*all), size});
    y = n.onto("multiply", y, w);
  }
  return {n.cast(y, n.dtype(0))};
}
const R n1("com.microsoft::GatedRMSNorm", {1}, gated_rms_norm),
    n2("com.microsoft::BranchwiseRMSNorm", {1}, branchwise_rms_norm);

/// The decay and the rate of linear attention.
Values attention_gate(N& n) {
  const Expr a = n.op("add", {n.cast(n.in(0), f32), n.along_last(1, 0)});
  const Expr soft = convert_as(n, "Softplus", {a})[0].expr;
  Values out(2);
  out[0] = n.cast(n.op("multiply", {soft, n.along_last(2, 0)}), n.dtype(0));
  if (n.has(3)) out[1] = n.op("sigmoid", {n.checked(n.in(3), n.known_shape(0))});
  return out;
}
Values gated_add(N& n) {
  Shape gate = n.known_shape(0, 1);
  const Expr y = n.checked(n.in(1), gate);
  gate.set(gate.size() - 1, PrimExpr(1));
  return {n.op("add", {n.in(0), n.op("multiply", {y, n.checked(n.in(2), gate)})})};
}
Values scaled_silu(N& n) {
  const DataType t = n.dtype(0);
  const Expr scale = n.has(1) ? n.cast(n.reshape(n.in(1), {}), f32) : n.scalar(n.attr_float("alpha", 1), f32);
  const Expr x = n.cast(n.op("multiply", {n.cast(n.in(0), f32), scale}), t);
  return {n.op("multiply", {x, n.op("sigmoid", {x})})};
}
const R g1("com.microsoft::LinearAttentionGate", {1}, attention_gate),
    g2("com.microsoft::GatedAdd", {1}, gated_add), g3("com.microsoft::ScaledSiLU", {1}, scaled_silu);

}  // namespace
}  // namespace tenon::onnx
