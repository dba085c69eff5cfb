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
constexpr int64_t kShortMasks = 24;  // the operator set from which on a mask of fewer keys hides the others

bool same(const PrimExpr& a, const PrimExpr& b) { return tir::is_zero(simplify(a - b)); }

/// What input `attn_mask` adds to scores of so many keys.
Expr mask_of_keys(N& n, const PrimExpr& keys, DataType wide) {
  Expr mask = n.in(3);
  if (n.shape_of(mask).empty()) n.malformed("the mask of Attention has no axes");
  if (n.dtype(3).is_bool()) mask = n.op("where", {mask, n.scalar(0, wide), n.scalar(-INFINITY, wide)});
  mask = n.cast(mask, wide);
  Shape shape = n.shape_of(mask);
  const size_t last = shape.size() - 1;
  const auto have = tir::as_int(shape[last]), want = tir::as_int(keys);
  const bool fewer =
      n.since >= kShortMasks ? !have || !want || *have < *want : have && want && *have < *want && *have != 1;
  if (!fewer || same(shape[last], keys)) return mask;
  Shape rest = shape;
  rest.set(last, simplify(tir::max(keys - shape[last], PrimExpr(0))));
  shape.set(last, keys);
  return n.checked(n.concat({mask, n.full(rest, -INFINITY, wide)}, int64_t(last)), shape);
}

/// What hides keys from a query by their distance, and keys behind a sequence's end. Queries count from the
/// number of keys in front of them.
void hide_by_position(N& n, const Shape& queries, const PrimExpr& keys, DataType wide,
                      std::vector<Expr>& masks) {
  const int64_t left = n.attr_int("left_window_size", -1), right = n.attr_int("right_window_size", -1);
  if (left < -1 || right < -1)
    n.malformed(fmt::format("a window of Attention has the size {}", std::min(left, right)));
  const bool causal = n.attr_int("is_causal", 0) != 0;
  if (!n.has(6) && !causal && left < 0 && right < 0) return;
  const PrimExpr one(1);
  const Expr key = n.reshape(positions(n, keys), {one, keys});
  const auto hide = [&](const Expr& seen) {
    masks.push_back(n.op("where", {seen, n.scalar(0, wide), n.scalar(-INFINITY, wide)}));
  };
  Expr lengths;
  if (n.has(6)) {
    if (n.has(4)) n.malformed("Attention has past keys and lengths of padded ones");
    lengths = n.reshape(n.cast(n.in(6), i64), {queries[0], one, one, one});
    hide(n.op("less", {key, lengths}));
  }
  if (!causal && left < 0 && right < 0) return;
  const auto number = [&](const PrimExpr& e) {
    return n.reshape(n.op("shape_to_tensor", {graph::shape_expr({e})}), {});
  };
  const Expr before = lengths ? n.op("subtract", {lengths, number(queries[2])})
                              : number(n.has(4) ? n.shape_of(n.in(4))[2] : PrimExpr(0));
  const Expr at = n.op("add", {n.reshape(positions(n, queries[2]), {queries[2], one}), before});
  const auto moved = [&](int64_t by) { return by == 0 ? at : n.op("add", {at, n.scalar(double(by), i64)}); };
  if (causal || right >= 0) hide(n.op("less_equal", {key, moved(causal ? 0 : right)}));
  if (left >= 0) hide(n.op("greater_equal", {key, moved(-left)}));
}

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
  const double cap = n.attr_float("softcap", 0);
  const int64_t mode = n.attr_int("qk_matmul_output_mode", 0);
  // Scores are made in 32 bits when the data is narrower.
  const DataType wide = t.bits < 32 ? f32 : t;
  Expr scores = n.op(
      "multiply",
      {n.op("matmul", {n.cast(q, wide), n.transpose(n.cast(k, wide), {0, 1, 3, 2})}), n.scalar(scale, wide)});
  const Expr raw = scores;
  std::vector<Expr> masks;
  if (n.has(3)) masks.push_back(mask_of_keys(n, sk[2], wide));
  hide_by_position(n, sq, sk[2], wide, masks);
  Expr capped = cap != 0 ? n.op("multiply", {n.op("tanh", {n.op("divide", {scores, n.scalar(cap, wide)})}),
                                             n.scalar(cap, wide)})
                         : scores;
  Expr masked = capped;
  for (const Expr& mask : masks) masked = n.onto("add", masked, mask);
  Expr weights = n.op("nn.softmax", {masked}, make_attrs<AxisAttrs>(int64_t(-1)));
  // Causal alone, each sees the first key.
  if (n.has(3) || n.has(6) || n.has_attr("left_window_size") || n.has_attr("right_window_size")) {
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
const R a1("Attention", {23, 24, 25}, attention);

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
