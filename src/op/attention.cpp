// SPDX-License-Identifier: Apache-2.0
// Scaled dot-product attention: softmax(q · kᵀ · scale + mask) · v, with shared key and value heads.
#include <fmt/format.h>

#include <cmath>

#include "op/family.h"

#include "base/define_type.h"

namespace tenon::op {
namespace {

using Tensors = std::vector<te::Tensor>;

Type infer_attention(InferContext& ctx) {
  const auto &q = ctx.tensor(0), &k = ctx.tensor(1), &v = ctx.tensor(2);
  for (const auto* t : {&q, &k, &v}) {
    if (!ctx.expect_rank(*t, "each of q, k and v", 4)) return {};
    if (!ctx.expect_domain(t->dtype, Domain::floating)) return {};
    if (!ctx.expect_same_type(q.dtype, t->dtype)) return {};
  }
  auto a = shape_of(q), b = shape_of(k), c = shape_of(v);
  if (!a || !b || !c) return make_type(std::nullopt, 4, q.dtype);
  const std::string all = fmt::format("q {}, k {}, v {}", show(*a), show(*b), show(*c));
  if (!ctx.require_equal((*a)[0], (*b)[0]) || !ctx.require_equal((*a)[0], (*c)[0]))
    return ctx.error(all + ": the batch sizes differ");
  if (!ctx.require_equal((*a)[3], (*b)[3])) return ctx.error(all + ": the head sizes of q and k differ");
  if (!ctx.require_equal((*b)[2], (*c)[2]) || !ctx.require_equal((*b)[1], (*c)[1]))
    return ctx.error(all + ": k and v do not belong together");
  auto heads = tir::as_int((*a)[1]), shared = tir::as_int((*b)[1]);
  if (heads && shared && (*shared == 0 || *heads % *shared))
    return ctx.error(all + ": the heads of q cannot share those of k");
  if (ctx.call.args.size() > 3) {
    const auto& m = ctx.tensor(3);
    if (!m.dtype.is_bool() && m.dtype != q.dtype && !m.dtype.is_void())
      return ctx.error("the mask must be boolean or have the element type of q", "cast it");
    const Shape scores{(*a)[0], (*a)[1], (*a)[2], (*b)[2]};
    if (auto have = shape_of(m); have && !ctx.require_broadcast_to(*have, scores))
      return ctx.error(fmt::format("mask {} does not broadcast to the scores {}", show(*have), show(scores)));
  }
  return make_type(Shape{(*a)[0], (*a)[1], (*a)[2], (*c)[3]}, 4, q.dtype);
}

Tensors def_attention(const Call& call, const Tensors& in) {
  const auto& a = attrs_of<AttentionAttrs>(call);
  const te::Tensor &q = in[0], &k = in[1], &v = in[2];
  const DataType dtype = q.dtype(), acc = wide_type(dtype);
  const Shape scores_shape{q.shape()[0], q.shape()[1], q.shape()[2], k.shape()[2]};
  const bool shared = !same_dim(q.shape()[1], k.shape()[1]);
  const PrimExpr group = shared ? simplify(tir::floordiv(q.shape()[1], k.shape()[1])) : PrimExpr(1);
  auto key_head = [&](const PrimExpr& h) { return shared ? tir::floordiv(h, group) : h; };

  const tir::IterVar d = te::reduce_axis(tir::range(PrimExpr(0), q.shape()[3]), "d");
  const te::Tensor products = te::compute(
      scores_shape,
      [&](const Vars& i) {
        return te::sum(tir::cast(acc, q({i[0], i[1], i[2], d->var})) *
                           tir::cast(acc, k({i[0], key_head(i[1]), i[3], d->var})),
                       {d});
      },
      "attention_products");
  PrimExpr scale = constant(acc, a.scale);
  if (a.scale == 0) {
    auto size = tir::as_int(q.shape()[3]);
    scale = size ? constant(acc, 1 / std::sqrt(double(*size)))
                 : tir::call(acc, "tir.rsqrt", {tir::cast(acc, q.shape()[3])});
  }
  const PrimExpr nothing = -tir::infinity(acc);
  const te::Tensor scores = te::compute(
      scores_shape,
      [&](const Vars& i) {
        PrimExpr s = products(indices(i)) * scale;
        if (in.size() > 3) {
          const PrimExpr m = broadcast_at(in[3], scores_shape, indices(i));
          s = m.dtype().is_bool() ? tir::select(m, s, nothing) : s + tir::cast(acc, m);
        }
        if (a.causal) s = tir::select(tir::le(i[3], i[2]), s, nothing);
        return s;
      },
      "attention_scores");
  auto as_is = [](const PrimExpr& e, const Shape&) { return e; };
  const te::Tensor top = reduce_over(scores, {3}, false, te::max, as_is, "attention_max");
  const te::Tensor weights = te::compute(
      scores_shape, [&](const Vars& i) { return exp_of_share(scores(indices(i)) - top({i[0], i[1], i[2]})); },
      "attention_exp");
  const te::Tensor total = reduce_over(weights, {3}, false, te::sum, as_is, "attention_sum");
  const tir::IterVar j = te::reduce_axis(tir::range(PrimExpr(0), k.shape()[2]), "j");
  const te::Tensor mixed = te::compute(
      output_info(call).shape,
      [&](const Vars& i) {
        return te::sum(
            weights({i[0], i[1], i[2], j->var}) * tir::cast(acc, v({i[0], key_head(i[1]), j->var, i[3]})),
            {j});
      },
      "attention_values");
  return {te::compute(
      output_info(call).shape,
      [&](const Vars& i) { return tir::cast(dtype, tir::div(mixed(indices(i)), total({i[0], i[1], i[2]}))); },
      "attention")};
}

const bool attention_registered = [] {
  register_op("nn.attention", "softmax(q · kᵀ · scale + mask) · v for each head.")
      .argument("q", "Tensor", "(batch, heads, queries, size)")
      .argument("k", "Tensor", "(batch, shared heads, keys, size)")
      .argument("v", "Tensor", "(batch, shared heads, keys, value size)")
      .argument("mask", "Tensor",
                "booleans (true: seen) or values added, broadcast to (batch, heads, queries, keys)", true)
      .attrs<AttentionAttrs>()
      .infer(infer_attention)
      .fusion(FusionKind::opaque)
      .tensor_def(def_attention);
  return true;
}();

}  // namespace
}  // namespace tenon::op

template struct tenon::DefineTypes<tenon::op::AttentionAttrs>;
