// SPDX-License-Identifier: Apache-2.0
// Converters: normalisation of com.microsoft, with what is added before it, and embeddings.
#include "analysis/analyzer.h"
#include "import/onnx/values.h"
#include "op/attrs_qnn.h"

namespace tenon::onnx {
namespace {

using namespace op;
using N = NodeContext;
using R = RegisterConverter;
using Shape = Array<PrimExpr>;

/// x normalised along its last axis: by mean and deviation, or (rms) by the mean square alone; null: no
/// scale.
Expr normalised(N& n, const Expr& x, const Expr& scale, const Expr& shift, double epsilon, bool rms) {
  auto a = make<LayerNormAttrs>();
  a.edit()->axes.push_back(int64_t(n.shape_of(x).size()) - 1);
  a.edit()->epsilon = epsilon, a.edit()->scale = bool(scale), a.edit()->center = bool(shift);
  Array<Expr> args{x};
  if (scale) args.push_back(scale);
  if (shift) args.push_back(shift);
  return n.op(rms ? "nn.rms_norm" : "nn.layer_norm", args, a);
}
/// 1 / deviation (or root of the mean square) along the last axis.
Expr inverse_deviation(N& n, const Expr& x, double epsilon, bool rms) {
  const Expr wide = n.cast(x, f32);
  const auto last = make_attrs<ReduceAttrs>(Array<int64_t>{int64_t(n.shape_of(x).size()) - 1}, true);
  const Expr power = rms ? n.op("mean", {n.op("square", {wide})}, last) : n.op("variance", {wide}, last);
  return n.op("rsqrt", {n.op("add", {power, n.scalar(epsilon, f32)})});
}

/// The norm of input + skip + bias; the sum is an output, too.
Values skip_norm(N& n) {
  const bool rms = n.op_type() == "SkipSimplifiedLayerNormalization";
  const size_t bias = rms ? 3 : 4;
  const double epsilon = n.attr_float("epsilon", 1e-12);
  // Only batches are stretched.
  const Shape s = n.known_shape(0, 2);
  Shape wanted = n.known_shape(1, 2, s.size());
  for (size_t i : {1, 2}) wanted.set(wanted.size() - i, s[s.size() - i]);
  Expr sum = n.onto("add", n.in(0), n.checked(n.in(1), wanted));
  if (n.has(bias)) sum = n.op("add", {sum, n.along_last(bias, 0)});
  Values out(4);
  const Expr shift = rms || !n.has(3) ? Expr() : n.along_last(3, 0);
  out[0] = normalised(n, sum, n.along_last(2, 0), shift, epsilon, rms);
  const int64_t axis = int64_t(n.shape_of(sum).size()) - 1;
  if (n.wants_output(1))
    out[1] = n.op("mean", {n.cast(sum, f32)}, make_attrs<ReduceAttrs>(Array<int64_t>{axis}, true));
  if (n.wants_output(2)) out[2] = inverse_deviation(n, sum, epsilon, rms);
  out[3] = sum;
  return out;
}
Values simplified_norm(N& n) {
  const int64_t rank = n.rank(0);
  if (n.axis(n.attr_int("axis", -1), rank) != rank - 1)
    n.unsupported("SimplifiedLayerNormalization along more than the last axis is not supported");
  const double epsilon = n.attr_float("epsilon", 1e-5);
  // The scale's type is the result's.
  const DataType t = n.dtype(1);
  const Expr x = t.bits > n.dtype(0).bits ? n.cast(n.in(0), t) : n.in(0);
  Values out(2);
  const Expr scale = n.cast(n.in(1), graph::as_tensor(x)->dtype);
  const auto have = graph::known_shape(scale), data = n.shape(0);
  const bool whole = have && data && have->size() == 1 && tir::is_zero(simplify((*have)[0] - data->back()));
  const Expr y = normalised(n, x, whole ? scale : Expr(), {}, epsilon, true);
  out[0] = n.cast(whole ? y : n.onto("multiply", y, scale), t);
  if (n.wants_output(1)) out[1] = inverse_deviation(n, n.in(0), epsilon, true);
  return out;
}
const R s1("com.microsoft::SkipLayerNormalization", {1}, skip_norm),
    s2("com.microsoft::SkipSimplifiedLayerNormalization", {1}, skip_norm),
    s3("SimplifiedLayerNormalization", {1}, simplified_norm, "of ONNX Runtime's optimiser");

/// Groups of channels, which lie last, of the input, or of input + skip + bias, which is an output, too.
Values group_norm(N& n) {
  const bool skips = n.op_type() == "SkipGroupNorm", last = n.attr_int("channels_last", 1) != 0;
  Expr x = n.in(0);
  Values out(2);
  if (skips) {
    Expr skip = n.in(3);
    if (const Shape s = n.known_shape(3); s.size() == 2)
      skip = n.reshape(skip, last ? Shape{s[0], PrimExpr(1), PrimExpr(1), s[1]}
                                  : Shape{s[0], s[1], PrimExpr(1), PrimExpr(1)});
    x = n.op("add", {x, skip});
    if (n.has(4)) x = n.op("add", {x, last ? n.in(4) : n.reshape(n.in(4), {n.known_shape(4)[0], 1, 1})});
    out[1] = x;
  }
  const DataType t = graph::as_tensor(x)->dtype;
  if (last) x = n.transpose(x, {0, 3, 1, 2});
  auto a = make<GroupNormAttrs>();
  a.edit()->epsilon = n.attr_float("epsilon", 1e-5), a.edit()->num_groups = n.need_int("groups");
  const auto channels = tir::as_int(n.shape_of(x)[1]);
  if (a->num_groups < 1 || !channels || *channels % a->num_groups != 0)
    n.malformed(fmt::format("{} cannot split the channels into {} groups", n.op_type(), a->num_groups));
  Expr y = n.op("nn.group_norm", {n.cast(x, f32), n.cast(n.in(1), f32), n.cast(n.in(2), f32)}, a);
  if (n.need_int("activation") == 1) y = n.op("nn.silu", {y});
  y = n.cast(y, t);
  out[0] = last ? n.transpose(y, {0, 2, 3, 1}) : y;
  return out;
}
const R g1("com.microsoft::GroupNorm", {1}, group_norm), g2("com.microsoft::SkipGroupNorm", {1}, group_norm);

/// Where the inputs of an embedding lie, beside the ids and segments at 0 and 1.
struct Embedding {
  size_t words, mask, ids;
  bool quantised;
};
constexpr size_t kNone = 99;  // an input that the operator does not have

/// Words, positions and segments are looked up, added and normalised; a mask's ones are counted. Tables,
/// scale and shift are inputs `words` to `words` + 4; scales of quantised ones come 6 inputs later, zero
/// points another 5 later.
Values embedded(N& n, const Embedding& in) {
  const Shape s = n.known_shape(0);
  if (s.size() != 2) n.malformed(fmt::format("{} takes ids (batch, steps)", n.op_type()));
  const auto real = [&](size_t i, const Expr& rows) {
    if (!in.quantised) return rows;
    return n.op("qnn.dequantize", {rows, n.in(i + 6), n.in(i + 11)},
                make_attrs<QuantizeAttrs>([](QuantizeAttrs& a) { a.axis = -1; }));
  };
  const auto rows_of = [&](size_t table, const Expr& ids) {
    const Expr at = n.checked_indices(ids, {n.known_shape(table, 2, 2)[0]}, false);
    return real(table, n.op("take", {n.in(table), at}, make_attrs<AxisAttrs>(int64_t(0))));
  };
  const size_t positions = in.words + 1, segments = in.words + 2, scale = in.words + 3, shift = in.words + 4;
  Expr sum = rows_of(in.words, n.in(0));
  if (n.has(in.ids)) {
    const Shape rows = n.known_shape(in.ids, 2, 2);  // one row, or as many as there are ids
    sum = n.onto("add", sum, rows_of(positions, n.checked(n.in(in.ids), {rows[0], s[1]})));
  } else {
    sum = n.op("add", {sum, rows_of(positions, iota(n, s[1]))});
  }
  if (n.has(1) && n.has(segments)) sum = n.op("add", {sum, rows_of(segments, n.checked(n.in(1), s))});
  Values out(3);
  out[0] = normalised(n, sum, real(scale, n.in(scale)), real(shift, n.in(shift)),
                      n.attr_float("epsilon", 1e-12), false);
  if (n.wants_output(1))
    out[1] =
        n.has(in.mask)
            ? n.op("sum",
                   {n.cast(n.op("equal", {n.checked(n.in(in.mask), s), n.scalar(1, n.dtype(in.mask))}), i32)},
                   make_attrs<ReduceAttrs>(Array<int64_t>{1}, false))
            : n.full({s[0]}, 0, i32);
  out[2] = sum;
  return out;
}
Values embed_norm(N& n) { return embedded(n, {.words = 2, .mask = 7, .ids = 8, .quantised = false}); }
Values quantised_embed_norm(N& n) {
  return embedded(n, {.words = 2, .mask = 7, .ids = kNone, .quantised = true});
}
const R e1("com.microsoft::EmbedLayerNormalization", {1}, embed_norm),
    e2("com.microsoft::QEmbedLayerNormalization", {1}, quantised_embed_norm);

}  // namespace
}  // namespace tenon::onnx
