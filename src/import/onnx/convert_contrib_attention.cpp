// SPDX-License-Identifier: Apache-2.0
// Converters: attention of com.microsoft, as ONNX Runtime's transformer optimiser and its model builder write
// it. Inside, queries, keys and values are (batch, heads, steps, size).
#include <cmath>

#include "analysis/analyzer.h"
#include "import/onnx/attention.h"
#include "import/onnx/dynamic.h"
#include "op/attrs_qnn.h"

namespace tenon::onnx {
namespace {

using namespace op;
using N = NodeContext;
using R = RegisterConverter;
using Shape = Array<PrimExpr>;

bool same(const PrimExpr& a, const PrimExpr& b) { return tir::is_zero(simplify(a - b)); }

/// What a node asks for that is refused by name.
void refuse(N& n, bool asked, const char* what) {
  if (asked) n.unsupported(fmt::format("{} with {} is not supported", n.op_type(), what));
}

/// Far beyond any model; sums and products of such counts are no concern.
constexpr int64_t kMaxHeads = int64_t(1) << 24;
int64_t head_count(N& n, const char* attribute = "num_heads") {
  const int64_t heads = n.need_int(attribute);
  if (heads < 1 || heads > kMaxHeads)
    n.malformed(fmt::format("'{}' of {} is {}", attribute, n.op_type(), heads));
  return heads;
}
/// (batch, steps, heads · size) as (batch, steps, heads, size).
Expr split_heads(N& n, const Expr& x, int64_t heads) {
  const Shape s = n.shape_of(x);
  const auto width = s.size() == 3 ? tir::as_int(s[2]) : std::nullopt;
  if (!width || *width % heads != 0)
    n.malformed(fmt::format("the heads of {} do not divide the last axis", n.op_type()));
  return n.reshape(x, {s[0], s[1], PrimExpr(heads), PrimExpr(*width / heads)});
}
Expr swapped(N& n, const Expr& x) { return n.transpose(x, {0, 2, 1, 3}); }
Expr heads_first(N& n, const Expr& x, int64_t heads) { return swapped(n, split_heads(n, x, heads)); }
/// (batch, heads, steps, size) as (batch, steps, heads · size).
Expr merge_heads(N& n, const Expr& y) {
  const Shape s = n.shape_of(y);
  return n.reshape(swapped(n, y), {s[0], s[2], simplify(s[1] * s[3])});
}

/// A size as a tensor of one element.
Expr number(N& n, const PrimExpr& e) { return n.op("shape_to_tensor", {graph::shape_expr({e})}); }

/// 0 where a key is seen, else `hidden`.
Expr mask_of(N& n, const Expr& seen, double hidden) {
  return n.op("where", {seen, n.scalar(0, f32), n.scalar(hidden, f32)});
}
Expr sum_of(N& n, const Expr& a, const Expr& b) { return !a ? b : !b ? a : n.binary("add", a, b); }

/// Which keys each query sees, from input i: lengths (batch), ends and then starts (2 · batch), or truth
/// values (batch, keys) or (batch, steps, keys). A boolean tensor that broadcasts to (batch, 1, steps, keys).
Expr seen_keys(N& n, size_t i, const PrimExpr& batch, const PrimExpr& steps, const PrimExpr& keys) {
  const Expr mask = n.in(i);
  const Shape s = n.known_shape(i);
  const PrimExpr one(1);
  if (s.size() == 1) {
    const Expr at = n.reshape(n.cast(positions(n, keys), i32), {one, one, one, keys});
    const auto column = [&](const Expr& e) { return n.reshape(n.cast(e, i32), {batch, one, one, one}); };
    const PrimExpr both = simplify(batch * 2);
    const auto equal = [&](const PrimExpr& size) -> std::optional<bool> {
      if (tir::as_int(s[0]) && tir::as_int(size)) return same(s[0], size);
      return n.importer.sizes_equal(s[0], size);
    };
    const std::optional<bool> lengths = equal(both) == true ? false : equal(batch);
    if (lengths == false && equal(both) == false)
      n.unsupported(fmt::format("a mask of {} in this form is not supported", n.op_type()));
    if (!lengths && !n.importer.fork_on_sizes(n, {{s[0], batch}}, Importer::KnownSizes{s[0], both}))
      n.unsupported(
          fmt::format("whether {} is given lengths or ends is known only when the model runs", n.op_type()));
    if (lengths != false) return n.op("less", {at, column(n.checked(mask, {batch}))});
    const Expr ends = n.checked(mask, {both});
    const Expr end = column(n.slice(ends, 0, 0, batch)), start = column(n.slice(ends, 0, batch, both));
    return n.op("logical_and", {n.op("less", {at, end}), n.op("greater_equal", {at, start})});
  }
  if (s.size() != 2 && s.size() != 3)
    n.unsupported(fmt::format("a mask of {} of rank {} is not supported", n.op_type(), s.size()));
  const Expr truth =
      n.op("greater", {n.checked(mask, s.size() == 2 ? Shape{batch, keys} : Shape{batch, steps, keys}),
                       n.scalar(0, n.dtype(i))});
  return n.reshape(truth, {batch, one, s.size() == 2 ? one : steps, keys});
}

/// A query sees keys up to its own position, which counts from `past`. ONNX Runtime lets the last query see
/// all keys, of which there are more than positions only in cross-attention.
Expr causal_mask(N& n, const PrimExpr& steps, const PrimExpr& keys, const PrimExpr& past) {
  const Expr at = positions(n, steps);
  Expr last = n.op("add", {at, number(n, past)});
  if (!same(keys, simplify(past + steps)))
    last = n.op("where", {n.op("less", {at, number(n, simplify(steps - 1))}), last, number(n, keys)});
  const Expr seen = n.op("less_equal", {n.reshape(positions(n, keys), {PrimExpr(1), keys}),
                                        n.reshape(last, {steps, PrimExpr(1)})});
  return mask_of(n, seen, -INFINITY);
}

/// A bias with a number for each query and key; only batches and heads may share theirs.
Expr of_pairs(N& n, const Expr& bias, const PrimExpr& steps, const PrimExpr& keys) {
  Shape shape = n.shape_of(bias);
  if (shape.size() != 4) n.malformed(fmt::format("the bias of {} has rank {}", n.op_type(), shape.size()));
  for (size_t i = 2; i < 4; ++i) {
    const PrimExpr& size = i == 2 ? steps : keys;
    const auto have = tir::as_int(shape[i]), wanted = tir::as_int(size);
    if (have && wanted && *have != *wanted)
      n.malformed(fmt::format("the bias of {} is not of the scores' shape", n.op_type()));
    shape.set(i, size);
  }
  return n.cast(n.checked(bias, shape), f32);
}

/// The bias of scores: mask, attribute 'unidirectional', and input `bias`.
Expr score_bias(N& n, size_t mask, size_t bias, const Expr& q, const Expr& k, const PrimExpr& past) {
  const Shape sq = n.shape_of(q), sk = n.shape_of(k);
  Expr out;
  if (n.has(mask))
    out = mask_of(n, seen_keys(n, mask, sq[0], sq[2], sk[2]), n.attr_float("mask_filter_value", -10000));
  if (n.attr_int("unidirectional", 0) != 0) out = sum_of(n, out, causal_mask(n, sq[2], sk[2], past));
  return n.has(bias) ? sum_of(n, out, of_pairs(n, n.in(bias), sq[2], sk[2])) : out;
}

/// Self-attention whose inputs are multiplied by one matrix for queries, keys and values. `product`: of input
/// and weights, with their bias; past keys and values at one input.
Values self_attention(N& n, const Expr& product, size_t mask, size_t past, size_t bias) {
  refuse(n, n.attr_int("do_rotary", 0) != 0, "rotary positions");
  refuse(n, n.attr_int("past_present_share_buffer", 0) != 0, "past and present keys in one buffer");
  const int64_t heads = head_count(n);
  const Shape s = n.shape_of(product);
  const auto width = s.size() == 3 ? tir::as_int(s[2]) : std::nullopt;
  std::vector<int64_t> sizes = n.attr_ints("qkv_hidden_sizes");
  if (sizes.empty() && width) sizes.assign(3, *width / 3);
  if (!width || sizes.size() != 3 || sizes[0] + sizes[1] + sizes[2] != *width || sizes[0] != sizes[1])
    n.malformed(fmt::format("the weights of {} do not hold queries, keys and values", n.op_type()));
  AttentionInputs in;
  in.q = heads_first(n, n.slice(product, 2, 0, sizes[0]), heads);
  in.k = heads_first(n, n.slice(product, 2, sizes[0], sizes[0] + sizes[1]), heads);
  in.v = heads_first(n, n.slice(product, 2, sizes[0] + sizes[1], *width), heads);
  PrimExpr before = 0;
  if (n.has(past)) {
    const Shape p = n.known_shape(past);
    if (p.size() != 5)
      n.malformed(fmt::format("past keys and values of {} have rank {}", n.op_type(), p.size()));
    const Expr both = n.checked(n.in(past), {PrimExpr(2), p[1], p[2], p[3], p[4]});
    const auto half = [&](int64_t at) {
      return n.reshape(n.slice(both, 0, at, at + 1), {p[1], p[2], p[3], p[4]});
    };
    before = p[3];
    in.k = n.concat({half(0), in.k}, 2), in.v = n.concat({half(1), in.v}, 2);
  }
  in.scale = n.attr_float("scale", 0);
  in.bias = score_bias(n, mask, bias, in.q, in.k, before);
  Values out{merge_heads(n, attend(n, in))};
  if (n.wants_output(1)) {
    const auto pair = [&](const Expr& e) {
      return n.op("expand_dims", {e}, make_attrs<AxesAttrs>(Array<int64_t>{0}));
    };
    out.push_back(n.concat({pair(in.k), pair(in.v)}, 0));
  }
  return out;
}
Values attention(N& n) {
  refuse(n, n.has(6), "past and present keys in one buffer");
  Expr product = n.op("matmul", {n.in(0), n.in(1)});
  if (n.has(2)) product = n.op("add", {product, n.in(2)});
  return self_attention(n, product, 3, 4, 5);
}
/// The same of quantised inputs and weights.
Values quantised_attention(N& n) {
  const auto real = [&](size_t x, size_t scale, size_t zero, int64_t axis) {
    const Expr point = n.has(zero) ? n.in(zero) : n.scalar(0, n.dtype(x));
    return n.op("qnn.dequantize", {n.in(x), n.in(scale), point},
                make_attrs<QuantizeAttrs>([&](QuantizeAttrs& a) { a.axis = axis; }));
  };
  const Expr product = n.op("add", {n.op("matmul", {real(0, 3, 6, -1), real(1, 4, 7, 1)}), n.in(2)});
  return self_attention(n, product, 5, 8, n.inputs());
}
const R a1("com.microsoft::Attention", {1}, attention),
    a2("com.microsoft::QAttention", {1}, quantised_attention);

/// Queries, keys and values in one tensor, in two, in three, or keys and values of another sequence with
/// their heads split already.
Values multi_head_attention(N& n) {
  refuse(n, n.has(8) || n.has(9), "past and present keys in one buffer");
  const int64_t heads = head_count(n);
  AttentionInputs in;
  /// Part i of a tensor (batch, steps, heads, parts, size).
  const auto part = [&](const Expr& packed, int64_t i) {
    const Shape s = n.shape_of(packed);
    return swapped(n, n.reshape(n.slice(packed, 3, i, i + 1), {s[0], s[1], s[2], s[4]}));
  };
  bool split_keys = false;
  if (n.rank(0) == 5) {
    in.q = part(n.in(0), 0), in.k = part(n.in(0), 1), in.v = part(n.in(0), 2);
  } else {
    if (!n.has(1)) n.malformed("MultiHeadAttention has no keys");
    in.q = heads_first(n, n.in(0), heads);
    split_keys = n.rank(1) == 4;
    if (n.rank(1) == 5) {
      in.k = part(n.in(1), 0), in.v = part(n.in(1), 1);
    } else {
      in.k = split_keys ? n.in(1) : heads_first(n, n.in(1), heads);
      in.v = n.rank(2) == 4 ? n.in(2) : heads_first(n, n.in(2), heads);
    }
  }
  if (n.has(3)) {
    // Biases of queries, keys and values after each other; those of split keys are added before.
    int64_t at = 0;
    const auto biased = [&](const Expr& x) {
      const auto size = tir::as_int(n.shape_of(x)[3]);
      if (!size) n.unsupported("MultiHeadAttention needs a known head size");
      const Expr b = n.slice(n.in(3), 0, at, at + heads * *size);
      at += heads * *size;
      return n.op("add", {x, n.reshape(b, {PrimExpr(heads), PrimExpr(1), PrimExpr(*size)})});
    };
    in.q = biased(in.q);
    if (!split_keys) in.k = biased(in.k), in.v = biased(in.v);
  }
  if (n.has(6) != n.has(7)) n.malformed("MultiHeadAttention needs both past keys and past values");
  PrimExpr before = 0;
  if (n.has(6)) {
    before = n.known_shape(6, 4, 4)[2];
    in.k = n.concat({n.in(6), in.k}, 2), in.v = n.concat({n.in(7), in.v}, 2);
  }
  in.scale = n.attr_float("scale", 0);
  in.bias = score_bias(n, 4, 5, in.q, in.k, before);
  return {merge_heads(n, attend(n, in)), in.k, in.v};
}
const R a3("com.microsoft::MultiHeadAttention", {1}, multi_head_attention);

// ---------------------------------------------------------------- rotary positions
/// Rows of a cache of cosines or sines at positions (batch, steps).
Expr rows_at(N& n, size_t cache, const Expr& at) {
  const Shape s = n.known_shape(cache, 2, 2);
  return n.op("take", {n.in(cache), n.checked_indices(at, {s[0]}, false)}, make_attrs<AxisAttrs>(int64_t(0)));
}
int64_t rotary_size(N& n, size_t cache) {
  const Shape s = n.known_shape(cache);
  const auto half = s.size() == 2 ? tir::as_int(s[1]) : std::nullopt;
  if (!half || *half < 1) n.unsupported(fmt::format("{} needs a cache of known width", n.op_type()));
  return 2 * *half;
}
/// Input 0 as (batch, steps, heads, size), of which `dim` elements are rotated.
Expr heads_to_rotate(N& n, int64_t dim) {
  refuse(n, n.attr_int("is_packed_batching", 0) != 0, "packed batches");
  const int64_t rank = n.rank(0), heads = n.attr_int("num_heads", 0);
  if (rank != 3 && rank != 4)
    n.malformed(fmt::format("{} takes tensors of rank 3 or 4, not {}", n.op_type(), rank));
  Expr x;
  if (rank == 4) {
    x = swapped(n, n.in(0));
  } else {
    const auto width = tir::as_int(n.known_shape(0)[2]);
    if (!width) n.unsupported(fmt::format("{} needs a known head size", n.op_type()));
    if (heads < 1 && (*width < dim || *width % dim != 0))
      n.malformed(
          fmt::format("{} takes heads of {} elements, which {} is no multiple of", n.op_type(), dim, *width));
    x = split_heads(n, n.in(0), heads > 0 ? heads : *width / dim);
  }
  if (const auto size = tir::as_int(n.shape_of(x)[3]); !size || dim > *size)
    n.malformed(fmt::format("{} cannot rotate {} elements of a head", n.op_type(), dim));
  return x;
}
Expr as_input(N& n, const Expr& y) { return n.rank(0) == 4 ? swapped(n, y) : n.reshape(y, n.known_shape(0)); }

Values rotary(N& n) {
  const int64_t dim = rotary_size(n, 2);
  const Expr x = heads_to_rotate(n, dim);
  const PrimExpr steps = n.shape_of(x)[1];
  Expr at = n.in(1);
  if (n.rank(1) <= 1)  // the position of the first step
    at = n.op("add", {n.reshape(n.cast(at, i64), {PrimExpr(1), PrimExpr(1)}),
                      n.reshape(positions(n, steps), {PrimExpr(1), steps})});
  const bool interleaved = n.attr_int("interleaved", 0) != 0;
  return {as_input(n, rotated(n, x, rows_at(n, 2, at), rows_at(n, 3, at), dim, interleaved))};
}
/// Each angle is that of one of three positions (3, batch, steps): in time, along the height, along the
/// width. Sections of angles lie behind each other, or those of height and width in every third place.
Values rotary_of_images(N& n) {
  const int64_t dim = rotary_size(n, 2), half = dim / 2, layout = n.attr_int("mrope_layout", 0);
  const std::vector<int64_t> sections = n.need_ints("mrope_section");
  if (sections.size() != 3 || std::min({sections[0], sections[1], sections[2]}) < 0 || sections[0] > half ||
      sections[1] > half || sections[0] + sections[1] + sections[2] != half || (layout != 0 && layout != 1))
    n.malformed("the sections of MRotaryEmbedding do not fit its cache");
  if (const int64_t given = n.attr_int("rotary_embedding_dim", 0); given != 0 && given != dim)
    n.malformed("'rotary_embedding_dim' of MRotaryEmbedding does not fit its cache");
  const Expr x = heads_to_rotate(n, dim);
  const Shape at = n.known_shape(1, 3, 3);
  const Expr all = n.checked(n.in(1), {PrimExpr(3), at[1], at[2]});
  const auto angles = [&](size_t cache) {
    const auto of = [&](int64_t k) {
      return rows_at(n, cache, n.reshape(n.slice(all, 0, k, k + 1), {at[1], at[2]}));
    };
    Expr out = of(0);
    for (int64_t k = 1; k < 3; ++k) {
      const int64_t begin = sections[0] + (k == 2 ? sections[1] : 0);
      const NDArray here = NDArray::empty({half}, boolean);
      for (int64_t i = 0; i < half; ++i)
        here.set_element_int(i, layout == 0 ? i >= begin && i < begin + sections[size_t(k)]
                                            : i % 3 == k && i < 3 * sections[size_t(k)]);
      out = n.op("where", {graph::constant(here), of(k), out});
    }
    return out;
  };
  return {as_input(n, rotated(n, x, angles(2), angles(3), dim, n.attr_int("interleaved", 0) != 0))};
}
const R a4("com.microsoft::RotaryEmbedding", {1}, rotary),
    a6("com.microsoft::MRotaryEmbedding", {1}, rotary_of_images);

// ---------------------------------------------------------------- grouped queries with a cache
/// New keys or values (batch, heads, steps, size) behind the first `before` (batch, 1) ones of the past:
/// `total` of them.
Expr appended(N& n, const Expr& past, const Expr& fresh, const Expr& before, const PrimExpr& total) {
  const Shape p = n.shape_of(past), s = n.shape_of(fresh);
  const Expr all = n.concat({past, fresh}, 2);
  const Expr at = n.reshape(positions(n, total), {PrimExpr(1), total});
  // Positions behind the new ones repeat the last one: nothing sees them.
  const Expr moved = n.op("minimum", {n.op("add", {n.op("subtract", {at, before}), number(n, p[2])}),
                                      number(n, simplify(p[2] + s[2] - 1))});
  const Expr from = n.op("where", {n.op("less", {at, before}), at, moved});
  const Shape out{s[0], s[1], total, s[3]};
  const Expr indices = n.op(
      "broadcast_to", {n.reshape(from, {s[0], PrimExpr(1), total, PrimExpr(1)}), graph::shape_expr(out)});
  return n.op("gather_elements", {all, indices}, make_attrs<AxisAttrs>(int64_t(2)));
}
Values grouped_query_attention(N& n) {
  refuse(n,
         n.has(12) || n.has(13) || n.attr_string("k_quant_type", "NONE") != "NONE" ||
             n.attr_string("v_quant_type", "NONE") != "NONE",
         "quantised caches");
  refuse(n, n.attr_int("sliding_window_cache", 0) != 0, "a sliding cache");
  const int64_t heads = head_count(n), key_heads = head_count(n, "kv_num_heads");
  Expr q, k, v;  // (batch, steps, heads, size)
  if (n.has(1)) {
    q = split_heads(n, n.in(0), heads), k = split_heads(n, n.in(1), key_heads),
    v = split_heads(n, n.in(2), key_heads);
  } else {
    const Expr all = split_heads(n, n.in(0), heads + 2 * key_heads);
    q = n.slice(all, 2, 0, heads), k = n.slice(all, 2, heads, heads + key_heads),
    v = n.slice(all, 2, heads + key_heads, heads + 2 * key_heads);
  }
  if (n.has(14) != n.has(15)) n.malformed("GroupQueryAttention normalises queries and keys, or none of them");
  if (n.has(14)) {
    auto a = make<LayerNormAttrs>();
    a.edit()->axes.push_back(3);
    a.edit()->epsilon = n.attr_float("qk_norm_epsilon", 1e-6), a.edit()->center = false;
    q = n.op("nn.rms_norm", {q, n.in(14)}, a), k = n.op("nn.rms_norm", {k, n.in(15)}, a);
  }
  const Shape s = n.shape_of(q);
  const PrimExpr batch = s[0], steps = s[1], one(1);
  const PrimExpr total = size_input(n, 6, "total_sequence_length");
  // How many keys of each sequence came before: none where all of them are new.
  const Expr known = n.op("subtract", {n.cast(n.in(5), i64), number(n, simplify(steps - 1))});
  Expr before = n.op("where", {n.op("equal", {number(n, total), number(n, steps)}), n.scalar(0, i64),
                               n.op("maximum", {known, n.scalar(0, i64)})});
  before = n.reshape(before, {batch, one});
  const Expr row = n.op("add", {before, n.reshape(positions(n, steps), {one, steps})});
  if (n.attr_int("do_rotary", 0) != 0) {
    const Expr at = n.has(9) ? n.in(9) : row, cos = rows_at(n, 7, at), sin = rows_at(n, 8, at);
    const bool interleaved = n.attr_int("rotary_interleaved", 0) != 0;
    q = rotated(n, q, cos, sin, rotary_size(n, 7), interleaved);
    k = rotated(n, k, cos, sin, rotary_size(n, 7), interleaved);
  }
  AttentionInputs in;
  in.q = swapped(n, q), in.k = swapped(n, k), in.v = swapped(n, v);
  if (n.has(3) != n.has(4)) n.malformed("GroupQueryAttention needs both past keys and past values");
  if (n.has(3)) {
    const PrimExpr held = n.known_shape(3, 4, 4)[2];
    const PrimExpr all = same(held + steps, total) ? total : simplify(tir::max(held, total));
    in.k = appended(n, n.in(3), in.k, before, all), in.v = appended(n, n.in(4), in.v, before, all);
  }
  const PrimExpr keys = n.shape_of(in.k)[2];
  const Expr query = n.reshape(row, {batch, one, steps, one}),
             key = n.reshape(positions(n, keys), {one, one, one, keys});
  Expr seen = n.op(
      "less_equal",
      {key, n.attr_int("causal", 1) != 0 ? query : n.reshape(n.cast(n.in(5), i64), {batch, one, one, one})});
  if (const int64_t window = n.attr_int("local_window_size", -1); window > 0)
    seen = n.op("logical_and",
                {seen, n.op("greater", {key, n.op("subtract", {query, n.scalar(double(window), i64)})})});
  in.bias = mask_of(n, seen, -INFINITY);
  if (n.has(10)) {
    // The bias may be wider than the keys that are there.
    in.bias = sum_of(n, in.bias, of_pairs(n, n.slice(n.in(10), 3, 0, keys), steps, keys));
  }
  if (n.has(11))
    in.sink = n.in(11);
  else if (n.attr_int("smooth_softmax", 0) == 1)
    in.sink = n.full({PrimExpr(heads)}, 0, f32);
  in.scale = n.attr_float("scale", 0), in.softcap = n.attr_float("softcap", 0);
  return {merge_heads(n, attend(n, in)), in.k, in.v};
}
const R a5("com.microsoft::GroupQueryAttention", {1}, grouped_query_attention, {.values = {6}});

}  // namespace
}  // namespace tenon::onnx
