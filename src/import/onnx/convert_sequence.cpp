// SPDX-License-Identifier: Apache-2.0
// Converters: attention and rotary embedding.
#include <cmath>

#include "analysis/analyzer.h"
#include "import/onnx/attention.h"
#include "import/onnx/dynamic.h"

namespace tenon::onnx {
namespace {

using namespace op;
using N = NodeContext;
using R = RegisterConverter;
using Shape = Array<PrimExpr>;

// ---------------------------------------------------------------- attention
Values attention(N& n) {
  const int64_t rank = n.rank(0);
  if (rank != 3 && rank != 4)
    n.malformed(fmt::format("Attention takes tensors of rank 3 or 4, not {}", rank));
  Expr q = n.in(0), k = n.in(1), v = n.in(2);
  const DataType t = n.dtype(0);
  Shape out_shape;
  if (rank == 3) {
    const int64_t qh = n.need_int("q_num_heads"), kh = n.need_int("kv_num_heads");
    if (qh < 1 || kh < 1) n.malformed("Attention needs at least one head");
    auto heads = [&](const Expr& x, int64_t count) {
      Shape s = n.shape_of(x);
      const auto width = s.size() == 3 ? tir::as_int(s[2]) : std::nullopt;
      if (!width || *width % count != 0) n.malformed("the heads of Attention do not divide the last axis");
      return n.transpose(n.reshape(x, {s[0], s[1], PrimExpr(count), PrimExpr(*width / count)}), {0, 2, 1, 3});
    };
    q = heads(q, qh), k = heads(k, kh), v = heads(v, kh);
  }
  if (n.has(4) != n.has(5)) n.malformed("Attention needs both past keys and past values");
  if (n.has(4)) k = n.concat({n.in(4), k}, 2), v = n.concat({n.in(5), v}, 2);
  Expr present_k = k, present_v = v;
  fit_to_queries(n, q, k, v);
  Shape sq = n.shape_of(q), sk = n.shape_of(k), sv = n.shape_of(v);
  const auto qh = tir::as_int(sq[1]), kh = tir::as_int(sk[1]);
  if (!qh || !kh) n.unsupported("Attention needs known numbers of heads");
  if (*kh < 1 || *qh % *kh != 0) n.malformed("the query heads of Attention are no multiple of the key heads");
  if (*qh != *kh) {
    k = n.op("repeat", {k}, make_attrs<RepeatAttrs>(*qh / *kh, int64_t(1)));
    v = n.op("repeat", {v}, make_attrs<RepeatAttrs>(*qh / *kh, int64_t(1)));
  }
  const auto size = tir::as_int(sq[3]);
  if (!size) n.unsupported("Attention needs a known head size");
  const double scale = n.has_attr("scale") ? n.attr_float("scale", 1) : 1 / std::sqrt(double(*size));
  const bool causal = n.attr_int("is_causal", 0) != 0;
  const double cap = n.attr_float("softcap", 0);
  const int64_t mode = n.attr_int("qk_matmul_output_mode", 0);
  // Scores are made in 32 bits when the data is narrower.
  const DataType wide = t.bits < 32 ? f32 : t;
  Expr scores = n.op(
      "multiply",
      {n.op("matmul", {n.cast(q, wide), n.transpose(n.cast(k, wide), {0, 1, 3, 2})}), n.scalar(scale, wide)});
  const Expr raw = scores;
  Expr bias;
  if (n.has(3)) {
    bias = n.in(3);
    // A mask shorter than the keys hides the rest.
    Shape sm = n.shape_of(bias);
    if (sm.empty()) n.malformed("the mask of Attention has no axes");
    const bool truth = n.dtype(3).is_bool();
    const auto have = tir::as_int(sm[sm.size() - 1]), want = tir::as_int(sk[2]);
    if (have && want && *have < *want && *have != 1) {
      Array<int64_t> widths;
      for (size_t i = 0; i < 2 * sm.size(); ++i) widths.push_back(i + 1 == 2 * sm.size() ? *want - *have : 0);
      if (truth)
        bias = n.cast(
            n.op("pad", {n.cast(bias, i32)}, make_attrs<PadAttrs>(widths, std::string("constant"), 0.0)),
            boolean);
      else
        bias = n.op("pad", {bias}, make_attrs<PadAttrs>(widths, std::string("constant"), -INFINITY));
    }
    if (truth) bias = n.op("where", {bias, n.scalar(0, wide), n.scalar(-INFINITY, wide)});
    bias = n.cast(bias, wide);
  }
  if (n.has(6)) {
    if (causal) n.unsupported("causal Attention with lengths of padded keys is not supported");
    // Keys behind a sequence's length are padding.
    auto prim = [](const PrimExpr& e) { return Expr(make<graph::PrimValue>(e)); };
    const Expr at = n.op("arange", {prim(0), prim(sk[2]), prim(1)}, make_attrs<DTypeAttrs>(i64));
    const Expr seen =
        n.op("less", {n.reshape(at, {PrimExpr(1), PrimExpr(1), PrimExpr(1), sk[2]}),
                      n.reshape(n.cast(n.in(6), i64), {sk[0], PrimExpr(1), PrimExpr(1), PrimExpr(1)})});
    const Expr hidden = n.op("where", {seen, n.scalar(0, wide), n.scalar(-INFINITY, wide)});
    bias = bias ? n.op("add", {bias, hidden}) : hidden;
  }
  if (causal) {
    // A query sees keys up to its own position; past keys come before all of them.
    const PrimExpr past = n.has(4) ? n.shape_of(n.in(4))[2] : PrimExpr(0);
    const auto places = [&](const PrimExpr& size, Shape shape) {
      return n.reshape(positions(n, size), std::move(shape));
    };
    const Expr before = n.reshape(n.op("shape_to_tensor", {graph::shape_expr({past})}), {});
    const Expr last = n.op("add", {places(sq[2], {sq[2], PrimExpr(1)}), before});
    const Expr seen = n.op("less_equal", {places(sk[2], {PrimExpr(1), sk[2]}), last});
    const Expr mask = n.op("where", {seen, n.scalar(0, wide), n.scalar(-INFINITY, wide)});
    bias = bias ? n.op("add", {bias, mask}) : mask;
  }
  Expr capped = cap != 0 ? n.op("multiply", {n.op("tanh", {n.op("divide", {scores, n.scalar(cap, wide)})}),
                                             n.scalar(cap, wide)})
                         : scores;
  Expr masked = bias ? n.op("add", {capped, bias}) : capped;
  Expr weights = n.op("nn.softmax", {masked}, make_attrs<AxisAttrs>(int64_t(-1)));
  if (n.has(3) || n.has(6)) {
    // A query that sees no key has no weights.
    const Expr most = n.op("max", {masked}, make_attrs<ReduceAttrs>(Array<int64_t>{-1}, true));
    const Expr none = n.op("equal", {most, n.scalar(-INFINITY, wide)});
    weights = n.op("where", {none, n.scalar(0, wide), weights});
  }
  Expr y = n.cast(n.op("matmul", {weights, n.cast(v, wide)}), t);
  if (rank == 3) {
    Shape s = n.shape_of(y);
    y = n.reshape(n.transpose(y, {0, 2, 1, 3}), {s[0], s[2], simplify(s[1] * s[3])});
  }
  Values out{y, present_k, present_v};
  if (n.wants_output(3)) {
    if (mode < 0 || mode > 3) n.malformed("'qk_matmul_output_mode' of Attention must be 0 to 3");
    const Expr kinds[] = {raw, capped, masked, weights};
    out.push_back(n.cast(kinds[mode], t));
  }
  return out;
}
const R a1("Attention", {23, 24}, attention);

Values rotary(N& n) {
  const int64_t rank = n.rank(0);
  Expr x = n.in(0), cos = n.in(1), sin = n.in(2);
  if (rank != 3 && rank != 4)
    n.malformed(fmt::format("RotaryEmbedding takes tensors of rank 3 or 4, not {}", rank));
  for (size_t i : {1, 2})
    if (n.rank(i) != (n.has(3) ? 2 : 3))
      n.malformed(fmt::format("the caches of RotaryEmbedding have rank 2 with positions, 3 without, not {}",
                              n.rank(i)));
  if (n.has(3) && n.rank(3) != 2)
    n.malformed(fmt::format("the positions of RotaryEmbedding have rank 2, not {}", n.rank(3)));
  Shape s = n.shape_of(x);
  // Inside: (batch, length, heads, size).
  Expr y;
  if (rank == 4) {
    y = n.transpose(x, {0, 2, 1, 3});
  } else {
    const int64_t heads = n.need_int("num_heads");
    const auto width = tir::as_int(s[2]);
    if (heads < 1 || !width || *width % heads != 0)
      n.malformed("the heads of RotaryEmbedding do not divide the last axis");
    y = n.reshape(x, {s[0], s[1], PrimExpr(heads), PrimExpr(*width / heads)});
  }
  Shape in = n.shape_of(y);
  const auto size = tir::as_int(in[3]);
  if (!size) n.unsupported("RotaryEmbedding needs a known head size");
  const int64_t given = n.attr_int("rotary_embedding_dim", 0), dim = given == 0 ? *size : given;
  if (dim < 2 || dim % 2 != 0 || dim > *size)
    n.malformed(fmt::format("RotaryEmbedding cannot turn {} of {} elements", dim, *size));
  if (n.has(3)) {
    const auto rows = graph::known_shape(cos);
    const Expr at = rows && !rows->empty() ? n.checked_indices(n.in(3), {(*rows)[0]}, false) : n.in(3);
    cos = n.op("take", {cos, at}, make_attrs<AxisAttrs>(int64_t(0)));
    sin = n.op("take", {sin, at}, make_attrs<AxisAttrs>(int64_t(0)));
  }
  const Expr out = rotated(n, y, cos, sin, dim, n.attr_int("interleaved", 0) != 0);
  return {rank == 4 ? n.transpose(out, {0, 2, 1, 3}) : n.reshape(out, s)};
}
const R a2("RotaryEmbedding", {23}, rotary);

}  // namespace
}  // namespace tenon::onnx
