// SPDX-License-Identifier: Apache-2.0
// Converters: attention, rotary embedding, and recurrent layers (few known steps are unrolled).
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
  Shape sq = n.shape_of(q), sk = n.shape_of(k), sv = n.shape_of(v);
  if (sk.size() != 4 || sv.size() != 4)
    n.malformed("keys and values of Attention have another rank than its queries");
  const auto qh = tir::as_int(sq[1]), kh = tir::as_int(sk[1]);
  if (!qh || !kh || *kh < 1 || *qh % *kh != 0)
    n.malformed("the query heads of Attention are no multiple of the key heads");
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
    const auto lq = tir::as_int(sq[2]), lk = tir::as_int(sk[2]);
    if (!lq || !lk) n.unsupported("causal Attention needs known lengths");
    int64_t past = 0;
    if (n.has(4)) {
      const auto p = tir::as_int(n.shape_of(n.in(4))[2]);
      if (!p) n.unsupported("causal Attention needs known lengths");
      past = *p;
    }
    if (*lq > (1 << 15) || *lk > (1 << 15)) n.unsupported("causal Attention of this length is not supported");
    Expr ones = n.op("full", {graph::shape_expr({PrimExpr(*lq), PrimExpr(*lk)}), n.scalar(1, wide)},
                     make_attrs<DTypeAttrs>(wide));
    Expr lower = n.op("tril", {ones}, make_attrs<DiagonalAttrs>(past));
    Expr mask = n.op(
        "where", {n.op("greater", {lower, n.scalar(0, wide)}), n.scalar(0, wide), n.scalar(-INFINITY, wide)});
    bias = bias ? n.op("add", {bias, mask}) : mask;
  }
  Expr capped = cap != 0 ? n.op("multiply", {n.op("tanh", {n.op("divide", {scores, n.scalar(cap, wide)})}),
                                             n.scalar(cap, wide)})
                         : scores;
  Expr masked = bias ? n.op("add", {capped, bias}) : capped;
  Expr weights = n.op("nn.softmax", {masked}, make_attrs<AxisAttrs>(int64_t(-1)));
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

// ---------------------------------------------------------------- recurrent layers
constexpr int64_t kMaxSteps = 512;  // every step becomes a handful of calls

struct Activation {
  std::string name;
  double alpha, beta;
};

Expr activate(N& n, const Activation& a, const Expr& x) {
  const DataType t = graph::as_tensor(x)->dtype;
  if (a.name == "Sigmoid") return n.op("sigmoid", {x});
  if (a.name == "Tanh") return n.op("tanh", {x});
  if (a.name == "Relu") return n.op("nn.relu", {x});
  const double alpha = std::isnan(a.alpha) ? 1 : a.alpha;
  if (a.name == "Affine")
    return n.op("add",
                {n.op("multiply", {x, n.scalar(alpha, t)}), n.scalar(std::isnan(a.beta) ? 0 : a.beta, t)});
  if (a.name == "ScaledTanh")
    return n.op("multiply",
                {n.op("tanh", {n.op("multiply", {x, n.scalar(std::isnan(a.beta) ? 1 : a.beta, t)})}),
                 n.scalar(alpha, t)});
  if (a.name == "ThresholdedRelu")
    return n.op("where", {n.op("greater", {x, n.scalar(alpha, t)}), x, n.scalar(0, t)});
  if (a.name == "LeakyRelu")
    return n.op("nn.leaky_relu", {x}, make_attrs<AlphaAttrs>(std::isnan(a.alpha) ? 0.01 : a.alpha));
  if (a.name == "Elu") return n.op("nn.elu", {x}, make_attrs<AlphaAttrs>(alpha));
  if (a.name == "HardSigmoid")
    return n.op(
        "nn.hard_sigmoid", {x},
        make_attrs<HardSigmoidAttrs>(std::isnan(a.alpha) ? 0.2 : a.alpha, std::isnan(a.beta) ? 0.5 : a.beta));
  if (a.name == "Softsign") return n.op("nn.softsign", {x});
  if (a.name == "Softplus") return n.op("nn.softplus", {x});
  n.unsupported(fmt::format("the activation {} of {} is not supported", in_quotes(a.name), n.op_type()));
}

Values recurrent(N& n) {
  const std::string& kind = n.op_type();
  const int64_t gates = kind == "LSTM" ? 4 : kind == "GRU" ? 3 : 1;
  if (n.rank(0) != 3) n.malformed(fmt::format("{} takes a tensor of rank 3", kind));
  n.expect_one_dtype({0, 1, 2, 3, 5, 6, 7});
  if (n.has(4) || (kind == "LSTM" && n.attr_int("input_forget", 0) != 0)) return recurrent_layer(n);
  const bool batch_first = n.attr_int("layout", 0) != 0;
  Expr x = batch_first ? n.transpose(n.in(0), {1, 0, 2}) : n.in(0);
  const DataType t = n.dtype(0);
  Shape sx = n.shape_of(x), sw = n.shape_of(n.in(1)), sr = n.shape_of(n.in(2));
  const auto steps = tir::as_int(sx[0]);
  if (!steps || *steps < 1 || *steps > kMaxSteps) return recurrent_layer(n);
  const PrimExpr batch = sx[1];
  const std::string direction = n.attr_string("direction", "forward");
  if (direction != "forward" && direction != "reverse" && direction != "bidirectional")
    n.malformed(fmt::format("the direction {} of {} is not known", in_quotes(direction), kind));
  const int64_t directions = direction == "bidirectional" ? 2 : 1;
  if (sw.size() != 3 || sr.size() != 3 || !tir::is_const_int(sw[0], directions) ||
      !tir::is_const_int(sr[0], directions))
    n.malformed(fmt::format("the weights of {} do not fit its direction", kind));
  const auto hidden = tir::as_int(sr[2]);
  if (!hidden || !tir::is_const_int(sr[1], *hidden * gates))
    n.malformed(fmt::format("the weights of {} do not fit its gates", kind));
  const int64_t h = *hidden;
  const int64_t per = kind == "LSTM" ? 3 : kind == "GRU" ? 2 : 1;
  // Activations of all directions in order; parameters are given to those that take them, in order.
  std::vector<Activation> acts;
  if (const auto* a = n.attr("activations")) {
    const auto alphas = n.attr_floats("activation_alpha"), betas = n.attr_floats("activation_beta");
    size_t ia = 0, ib = 0;
    for (const auto& s : a->strings()) {
      static const std::set<std::string> takes_alpha{"Affine",     "LeakyRelu",   "ThresholdedRelu",
                                                     "ScaledTanh", "HardSigmoid", "Elu"},
          takes_beta{"Affine", "ScaledTanh", "HardSigmoid"};
      Activation f{s, NAN, NAN};
      if (takes_alpha.count(s) && ia < alphas.size()) f.alpha = alphas[ia++];
      if (takes_beta.count(s) && ib < betas.size()) f.beta = betas[ib++];
      acts.push_back(f);
    }
    if (int64_t(acts.size()) != per * directions)
      n.malformed(fmt::format("{} needs {} activations, {} are given", kind, per * directions, acts.size()));
  } else {
    for (int64_t d = 0; d < directions; ++d) {
      if (kind != "RNN") acts.push_back({"Sigmoid", 0, 0});
      acts.push_back({"Tanh", 0, 0});
      if (kind == "LSTM") acts.push_back({"Tanh", 0, 0});
    }
  }
  const bool clips = n.has_attr("clip");
  const double clip = n.attr_float("clip", 0);
  auto limited = [&](const Expr& e) {
    return clips ? n.op("clip", {e}, make_attrs<ClipAttrs>(-clip, clip)) : e;
  };
  // One direction's part of an input whose first axis is the direction.
  auto part = [&](size_t i, int64_t d) {
    Shape s = n.shape_of(n.in(i));
    Expr e = directions == 1 ? n.in(i) : n.slice(n.in(i), 0, d, d + 1);
    Shape rest;
    for (size_t k = 1; k < s.size(); ++k) rest.push_back(s[k]);
    return n.reshape(e, rest);
  };
  auto state = [&](size_t i, int64_t d) {
    if (!n.has(i))
      return n.op("full", {graph::shape_expr({batch, PrimExpr(h)}), n.scalar(0, t)},
                  make_attrs<DTypeAttrs>(t));
    Expr s = batch_first ? n.transpose(n.in(i), {1, 0, 2}) : n.in(i);
    s = n.checked(s, {PrimExpr(directions), batch, PrimExpr(h)});
    if (directions > 1) s = n.slice(s, 0, d, d + 1);
    return n.reshape(s, {batch, PrimExpr(h)});
  };
  Array<Expr> all_y, all_h, all_c;  // per direction
  for (int64_t d = 0; d < directions; ++d) {
    Expr w = part(1, d), r = part(2, d), wb, rb;
    if (n.has(3)) {
      Expr b = part(3, d);
      wb = n.slice(b, 0, 0, gates * h), rb = n.slice(b, 0, gates * h, 2 * gates * h);
    }
    Expr hidden_state = state(5, d), cell = kind == "LSTM" ? state(6, d) : Expr();
    Expr peep = kind == "LSTM" && n.has(7) ? part(7, d) : Expr();
    const Activation* f = &acts[size_t(d * per)];
    const bool linear_before_reset = n.attr_int("linear_before_reset", 0) != 0;
    // The inputs' share of all steps in one product.
    Expr flat = n.reshape(x, {simplify(PrimExpr(*steps) * batch), sx[2]});
    Expr xw = n.op("nn.dense", {flat, w});
    if (wb) xw = n.op("add", {xw, wb});
    // Where the recurrent bias joins unconditionally it is added here, too.
    if (rb && kind != "GRU") xw = n.op("add", {xw, rb});
    xw = n.reshape(xw, {PrimExpr(*steps), batch, PrimExpr(gates * h)});
    const bool backward = direction == "reverse" || d == 1;
    Array<Expr> ys;
    for (int64_t step = 0; step < *steps; ++step) {
      const int64_t at = backward ? *steps - 1 - step : step;
      Expr g = n.reshape(n.slice(xw, 0, at, at + 1), {batch, PrimExpr(gates * h)});
      auto gate = [&](const Expr& e, int64_t i) {
        return gates == 1 ? e : n.slice(e, 1, i * h, (i + 1) * h);
      };
      auto bias = [&](int64_t i) { return n.slice(rb, 0, i * h, (i + 1) * h); };
      if (kind == "RNN") {
        hidden_state = activate(n, f[0], limited(n.op("add", {g, n.op("nn.dense", {hidden_state, r})})));
      } else if (kind == "LSTM") {
        Expr sum = n.op("add", {g, n.op("nn.dense", {hidden_state, r})});  // gates i, o, f, c
        auto peeped = [&](const Expr& e, int64_t i, const Expr& c) {
          return peep ? n.op("add", {e, n.op("multiply", {n.slice(peep, 0, i * h, (i + 1) * h), c})}) : e;
        };
        Expr i = activate(n, f[0], limited(peeped(gate(sum, 0), 0, cell)));
        Expr forget = activate(n, f[0], limited(peeped(gate(sum, 2), 2, cell)));
        Expr fresh = activate(n, f[1], limited(gate(sum, 3)));
        cell = n.op("add", {n.op("multiply", {forget, cell}), n.op("multiply", {i, fresh})});
        Expr o = activate(n, f[0], limited(peeped(gate(sum, 1), 1, cell)));
        hidden_state = n.op("multiply", {o, activate(n, f[2], cell)});
      } else {
        // Gates z, r, h.
        Expr rzr = n.slice(r, 0, 0, 2 * h), rh = n.slice(r, 0, 2 * h, 3 * h);
        Expr zr = n.op("add", {n.slice(g, 1, 0, 2 * h), n.op("nn.dense", {hidden_state, rzr})});
        if (rb) zr = n.op("add", {zr, n.slice(rb, 0, 0, 2 * h)});
        zr = activate(n, f[0], limited(zr));
        Expr z = n.slice(zr, 1, 0, h), reset = n.slice(zr, 1, h, 2 * h), inner;
        if (linear_before_reset) {
          inner = n.op("nn.dense", {hidden_state, rh});
          if (rb) inner = n.op("add", {inner, bias(2)});
          inner = n.op("multiply", {reset, inner});
        } else {
          inner = n.op("nn.dense", {n.op("multiply", {reset, hidden_state}), rh});
          if (rb) inner = n.op("add", {inner, bias(2)});
        }
        Expr fresh = activate(n, f[1], limited(n.op("add", {gate(g, 2), inner})));
        Expr keep = n.op("subtract", {n.scalar(1, t), z});
        hidden_state = n.op("add", {n.op("multiply", {keep, fresh}), n.op("multiply", {z, hidden_state})});
      }
      if (n.wants_output(0))
        ys.push_back(n.reshape(hidden_state, {PrimExpr(1), PrimExpr(1), batch, PrimExpr(h)}));
    }
    if (n.wants_output(0)) {
      Array<Expr> ordered;
      for (size_t i = 0; i < ys.size(); ++i) ordered.push_back(ys[backward ? ys.size() - 1 - i : i]);
      all_y.push_back(n.concat(ordered, 0));
    }
    all_h.push_back(n.reshape(hidden_state, {PrimExpr(1), batch, PrimExpr(h)}));
    if (cell) all_c.push_back(n.reshape(cell, {PrimExpr(1), batch, PrimExpr(h)}));
  }
  Values out(3);
  if (n.wants_output(0)) {
    Expr y = n.concat(all_y, 1);  // (steps, directions, batch, hidden)
    out[0] = batch_first ? n.transpose(y, {2, 0, 1, 3}) : y;
  }
  auto final_state = [&](const Array<Expr>& parts) {
    Expr s = n.concat(parts, 0);
    return batch_first ? n.transpose(s, {1, 0, 2}) : s;
  };
  if (n.wants_output(1)) out[1] = final_state(all_h);
  if (n.wants_output(2) && kind == "LSTM") out[2] = final_state(all_c);
  return out;
}
const R l1("LSTM", {1, 7, 14, 22}, recurrent, "known steps are unrolled"),
    l2("GRU", {1, 3, 7, 14, 22}, recurrent, "known steps are unrolled"),
    l3("RNN", {1, 7, 14, 22}, recurrent, "known steps are unrolled");

}  // namespace
}  // namespace tenon::onnx
