// SPDX-License-Identifier: Apache-2.0
#include "import/onnx/attention.h"

#include <cmath>

namespace tenon::onnx {

using namespace op;

Expr rotated(NodeContext& n, const Expr& x, Expr cos, Expr sin, int64_t dim, bool interleaved) {
  const auto in = n.shape_of(x);
  const auto size = tir::as_int(in[3]);
  if (!size) n.unsupported(fmt::format("{} needs a known head size", n.op_type()));
  const auto inserted = [&](const Expr& e, int64_t axis) {
    return n.op("expand_dims", {e}, make_attrs<AxesAttrs>(Array<int64_t>{axis}));
  };
  // Angles for each step, of each batch or of all of them.
  const auto of_steps = [&](const Expr& e) {
    const auto have = n.shape_of(e);
    if (have.size() != 3) n.malformed(fmt::format("the angles of {} have no axis of steps", n.op_type()));
    const PrimExpr batch = tir::is_one(have[0]) ? have[0] : in[0];
    return inserted(n.checked(e, {batch, in[1], have[2]}), 2);
  };
  cos = of_steps(cos), sin = of_steps(sin);
  const Expr part = dim == *size ? x : n.slice(x, 3, 0, dim);
  const int64_t half = dim / 2;
  const Expr a = interleaved ? n.slice(part, 3, 0, dim, 2) : n.slice(part, 3, 0, half);
  const Expr b = interleaved ? n.slice(part, 3, 1, dim, 2) : n.slice(part, 3, half, dim);
  const Expr real = n.op("subtract", {n.op("multiply", {a, cos}), n.op("multiply", {b, sin})});
  const Expr imag = n.op("add", {n.op("multiply", {a, sin}), n.op("multiply", {b, cos})});
  const Expr out = interleaved ? n.reshape(n.concat({inserted(real, 4), inserted(imag, 4)}, 4),
                                           {in[0], in[1], in[2], PrimExpr(dim)})
                               : n.concat({real, imag}, 3);
  return dim == *size ? out : n.concat({out, n.slice(x, 3, dim, *size)}, 3);
}

Expr positions(NodeContext& n, const PrimExpr& size) {
  const auto prim = [](const PrimExpr& e) { return Expr(make<graph::PrimValue>(e)); };
  return n.op("arange", {prim(0), prim(size), prim(1)}, make_attrs<DTypeAttrs>(i64));
}

void fit_to_queries(NodeContext& n, const Expr& q, Expr& k, Expr& v) {
  const auto fitted = [&](const Expr& x, Array<PrimExpr> shape) {
    const auto have = n.shape_of(x);
    for (size_t i = 0; i < shape.size(); ++i) {
      const auto a = tir::as_int(have[i]), b = tir::as_int(shape[i]);
      if (a && b && *a != *b)
        n.malformed(fmt::format("queries, keys and values of {} do not fit one another", n.op_type()));
    }
    return n.checked(x, shape);
  };
  for (const Expr& e : {q, k, v})
    if (n.shape_of(e).size() != 4)
      n.malformed(fmt::format("queries, keys and values of {} do not have one rank", n.op_type()));
  const PrimExpr batch = n.shape_of(q)[0];
  const auto of_k = n.shape_of(k), of_v = n.shape_of(v);
  k = fitted(k, {batch, of_k[1], of_k[2], of_k[3]});
  v = fitted(v, {batch, of_k[1], of_k[2], of_v[3]});
}

Expr attend(NodeContext& n, const AttentionInputs& given) {
  AttentionInputs in = given;
  fit_to_queries(n, in.q, in.k, in.v);
  const auto sq = n.shape_of(in.q), sk = n.shape_of(in.k);
  const auto heads = tir::as_int(sq[1]), key_heads = tir::as_int(sk[1]), size = tir::as_int(sq[3]);
  if (!heads || !key_heads || !size)
    n.unsupported(fmt::format("{} needs known numbers of heads and a known head size", n.op_type()));
  if (*key_heads < 1 || *heads % *key_heads != 0)
    n.malformed(fmt::format("the query heads of {} are no multiple of the key heads", n.op_type()));
  const DataType t = graph::as_tensor(in.q)->dtype, wide = t.bits < 32 ? f32 : t;
  const auto shared = [&](const Expr& e) {
    return n.cast(*heads == *key_heads
                      ? e
                      : n.op("repeat", {e}, make_attrs<RepeatAttrs>(*heads / *key_heads, int64_t(1))),
                  wide);
  };
  const double scale = in.scale != 0 ? in.scale : 1 / std::sqrt(double(*size));
  Expr scores = n.op("matmul", {n.cast(in.q, wide), n.transpose(shared(in.k), {0, 1, 3, 2})});
  scores = n.op("multiply", {scores, n.scalar(scale, wide)});
  if (in.softcap != 0)
    scores = n.op("multiply", {n.op("tanh", {n.op("divide", {scores, n.scalar(in.softcap, wide)})}),
                               n.scalar(in.softcap, wide)});
  if (in.bias) scores = n.onto("add", scores, n.cast(in.bias, wide));
  const auto softmax = [&](const Expr& e) {
    return n.op("nn.softmax", {e}, make_attrs<AxisAttrs>(int64_t(-1)));
  };
  Expr weights;
  if (in.sink) {
    const Expr sink = n.op("broadcast_to", {n.reshape(n.cast(in.sink, wide), {PrimExpr(*heads), 1, 1}),
                                            graph::shape_expr({sq[0], sq[1], sq[2], PrimExpr(1)})});
    weights = n.slice(softmax(n.concat({scores, sink}, 3)), 3, 0, sk[2]);
  } else {
    weights = softmax(scores);
  }
  return n.cast(n.op("matmul", {weights, shared(in.v)}), t);
}

}  // namespace tenon::onnx
