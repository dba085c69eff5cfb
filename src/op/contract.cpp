// SPDX-License-Identifier: Apache-2.0
// Contractions: matmul with batch broadcasting, dense, matmul over panels, einsum.
#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "op/family.h"
#include "op/subscripts.h"

#include "base/define_type.h"

namespace tenon::op {
namespace {

using Tensors = std::vector<te::Tensor>;

/// Sum of products in the accumulator's type, then one rounding to the result's.
Tensors rounded(te::Tensor t, DataType out) { return {cast_to(t, out)}; }

// ---------------------------------------------------------------- matmul
Type infer_matmul(InferContext& ctx) {
  const auto &a = ctx.tensor(0), &b = ctx.tensor(1);
  if (!ctx.expect_factors(a.dtype, b.dtype)) return {};
  const DataType dtype = contraction_type(a.dtype, b.dtype, ctx.attrs<MatmulAttrs>().out_dtype);
  if (a.ndim == 0 || b.ndim == 0) return ctx.error("a scalar has no axis to contract", "use multiply");
  if (a.ndim < 0 || b.ndim < 0) return graph::tensor_type_unknown(-1, dtype);
  int64_t ndim = std::max({a.ndim, b.ndim, int64_t(2)}) - (a.ndim == 1) - (b.ndim == 1);
  auto p = shape_of(a), q = shape_of(b);
  if (!p || !q) return make_type(std::nullopt, ndim, dtype);
  const PrimExpr ka = (*p)[p->size() - 1], kb = (*q)[q->size() == 1 ? 0 : q->size() - 2];
  if (!ctx.require_equal(ka, kb))
    return ctx.error(fmt::format("shapes {} and {}: the contracted sizes differ", show(*p), show(*q)));
  const Shape batch_a(p->begin(), p->begin() + std::max<std::ptrdiff_t>(0, std::ptrdiff_t(p->size()) - 2));
  const Shape batch_b(q->begin(), q->begin() + std::max<std::ptrdiff_t>(0, std::ptrdiff_t(q->size()) - 2));
  if (!ctx.expect_broadcast(batch_a, batch_b)) return {};
  auto out = broadcast_shapes(batch_a, batch_b);
  if (!out) return make_type(std::nullopt, ndim, dtype);
  if (a.ndim > 1) out->push_back((*p)[p->size() - 2]);
  if (b.ndim > 1) out->push_back((*q)[q->size() - 1]);
  return make_type(out, ndim, dtype);
}

Tensors def_matmul(const Call& call, const Tensors& in) {
  const TensorInfo out = output_info(call);
  const te::Tensor &a = in[0], &b = in[1];
  const DataType acc = accumulator_type(out.dtype);
  const bool row = a.ndim() > 1, column = b.ndim() > 1;
  const size_t batch = out.shape.size() - row - column;
  const Shape batch_shape(out.shape.begin(), out.shape.begin() + std::ptrdiff_t(batch));
  const tir::IterVar k = te::reduce_axis(tir::range(PrimExpr(0), a.shape()[a.ndim() - 1]), "k");
  /// Batch index of one operand: leading axes dropped, axes of extent 1 read at 0.
  auto batch_at = [&](const te::Tensor& t, const Shape& index) {
    Shape at;
    if (t.ndim() < 3) return at;
    const size_t own = t.ndim() - 2, skip = batch - own;
    for (size_t i = 0; i < own; ++i) {
      const PrimExpr &have = t.shape()[i], &want = batch_shape[i + skip];
      if (tir::is_one(have))
        at.push_back(PrimExpr(0));
      else if (tir::is_one(want) || same_dim(have, want))
        at.push_back(index[i + skip]);
      else
        at.push_back(tir::select(tir::eq(have, PrimExpr(1)), PrimExpr(0), index[i + skip]));
    }
    return at;
  };
  te::Tensor sum = te::compute(
      out.shape,
      [&](const Vars& v) {
        const Shape index = indices(v);
        Shape ia = batch_at(a, index), ib = batch_at(b, index);
        if (row) ia.push_back(v[batch]);
        ia.push_back(k->var);
        ib.push_back(k->var);
        if (column) ib.push_back(v[batch + row]);
        return te::sum(tir::cast(acc, a(ia)) * tir::cast(acc, b(ib)), {k});
      },
      "matmul");
  return rounded(sum, out.dtype);
}

Type infer_dense(InferContext& ctx) {
  const auto &x = ctx.tensor(0), &w = ctx.tensor(1);
  if (!ctx.expect_factors(x.dtype, w.dtype)) return {};
  const DataType dtype = contraction_type(x.dtype, w.dtype, ctx.attrs<MatmulAttrs>().out_dtype);
  if (!ctx.expect_rank(w, "the weight", 2)) return {};
  if (x.ndim == 0) return ctx.error("a scalar has no axis to contract");
  auto p = shape_of(x), q = shape_of(w);
  if (!p || !q) return make_type(std::nullopt, x.ndim, dtype);
  if (!ctx.require_equal((*p)[p->size() - 1], (*q)[1]))
    return ctx.error(fmt::format("x {} and weight {}: the contracted sizes differ", show(*p), show(*q)),
                     "the weight has the shape (outputs, inputs)");
  Shape out = *p;
  out.set(out.size() - 1, (*q)[0]);
  return make_type(out, 0, dtype);
}

/// The weight has as many inputs as x; how many outputs only the weight says.
Type dense_weight(InferContext& ctx, size_t) {
  const auto& x = ctx.tensor(0);
  const auto have = shape_of(x);
  if (!have || have->empty()) return {};
  return make_type(Shape{tir::var("outputs", i64), have->back()}, 0, x.dtype);
}

Tensors def_dense(const Call& call, const Tensors& in) {
  const TensorInfo out = output_info(call);
  const DataType acc = accumulator_type(out.dtype);
  const tir::IterVar k = te::reduce_axis(tir::range(PrimExpr(0), in[1].shape()[1]), "k");
  te::Tensor sum = te::compute(
      out.shape,
      [&](const Vars& v) {
        Shape at = indices(v);
        at.set(at.size() - 1, k->var);
        return te::sum(tir::cast(acc, in[0](at)) * tir::cast(acc, in[1]({v[v.size() - 1], k->var})), {k});
      },
      "dense");
  return rounded(sum, out.dtype);
}

// ---------------------------------------------------------------- matmul over panels
/// Types of panels that are read as float32, which holds all their values.
bool is_widened_factor(DataType w) { return w == f16 || w == DataType::bfloat16() || w == DataType::int_(8); }

/// Scales (panels, blocks, columns of a panel) of panels that are widened.
bool expect_panel_scales(InferContext& ctx, const graph::TensorType& w, bool widened) {
  const auto& s = ctx.tensor(2);
  if (!widened || s.dtype != f32)
    return ctx.error(fmt::format("{} scales of {} panels", to_string(s.dtype), to_string(w.dtype)),
                     "panels of a narrower type have scales of float32"),
           false;
  if (!ctx.expect_rank(s, "the scales", 3)) return false;
  const auto q = shape_of(w), have = shape_of(s);
  if (!q || !have) return true;
  const auto inputs = tir::as_int((*q)[1]), blocks = tir::as_int((*have)[1]);
  if (!inputs || !blocks || *blocks < 1 || *inputs % *blocks != 0 ||
      !ctx.require_equal((*q)[0], (*have)[0]) || !ctx.require_equal((*q)[2], (*have)[2]))
    return ctx.error(fmt::format("scales {} for panels {}", show(*have), show(*q))), false;
  return true;
}

Type infer_packed_matmul(InferContext& ctx) {
  const auto &x = ctx.tensor(0), &w = ctx.tensor(1);
  const auto& attrs = ctx.attrs<PackedMatmulAttrs>();
  const bool widened = x.dtype == f32 && attrs.out_dtype == f32 && is_widened_factor(w.dtype);
  if (!widened && !ctx.expect_factors(x.dtype, w.dtype)) return {};
  const DataType dtype = contraction_type(x.dtype, w.dtype, attrs.out_dtype);
  if (!ctx.expect_rank(w, "the panels", 3)) return {};
  if (x.ndim == 0) return ctx.error("a scalar has no axis to contract");
  if (attrs.units < 0) return ctx.error(fmt::format("{} columns", attrs.units));
  if (attrs.group != 1 && attrs.group != 2 && attrs.group != 4)
    return ctx.error(fmt::format("inputs in groups of {}", attrs.group), "1, 2 or 4 lie side by side");
  auto p = shape_of(x), q = shape_of(w);
  if (!p) return make_type(std::nullopt, x.ndim, dtype);
  if (q) {
    if (!ctx.require_equal((*p)[p->size() - 1], simplify((*q)[1] * PrimExpr(attrs.group))))
      return ctx.error(fmt::format("x {} and panels {}: the contracted sizes differ", show(*p), show(*q)),
                       "panels have the shape (panels, inputs / group, columns of a panel · group)");
    auto count = tir::as_int((*q)[0]), width = tir::as_int((*q)[2]);
    if (width && *width % attrs.group != 0)
      return ctx.error(fmt::format("panels {} hold no whole groups of {}", show(*q), attrs.group));
    if (count && width && *count * (*width / attrs.group) < attrs.units)
      return ctx.error(fmt::format("panels {} hold fewer than {} columns", show(*q), attrs.units));
  }
  if (ctx.call.args.size() > 2 && !expect_panel_scales(ctx, w, widened)) return {};
  Shape out = *p;
  out.set(out.size() - 1, PrimExpr(attrs.units));
  return make_type(out, 0, dtype);
}

/// The sum over inputs in blocks, each with a scale for every column.
te::Tensor scaled_sum(const Tensors& in, const TensorInfo& out) {
  const PrimExpr width = in[1].shape()[2], blocks = in[2].shape()[1],
                 inside = simplify(tir::floordiv(in[1].shape()[1], blocks));
  const tir::IterVar b = te::reduce_axis(tir::range(PrimExpr(0), blocks), "b"),
                     k = te::reduce_axis(tir::range(PrimExpr(0), inside), "k");
  return te::compute(
      out.shape,
      [&](const Vars& v) {
        Shape at = indices(v);
        const PrimExpr input = b->var * inside + k->var, column = v[v.size() - 1];
        at.set(at.size() - 1, input);
        const PrimExpr panel = tir::floordiv(column, width), lane = tir::floormod(column, width);
        const PrimExpr w = tir::cast(f32, in[1]({panel, input, lane})) * in[2]({panel, b->var, lane});
        return te::sum(in[0](at) * w, {b, k});
      },
      "matmul");
}

Tensors def_packed_matmul(const Call& call, const Tensors& in) {
  const TensorInfo out = output_info(call);
  if (in.size() > 2) return {scaled_sum(in, out)};
  const DataType acc = accumulator_type(out.dtype);
  const PrimExpr group = attrs_of<PackedMatmulAttrs>(call).group;
  const PrimExpr width = simplify(tir::floordiv(in[1].shape()[2], group));
  const tir::IterVar k = te::reduce_axis(tir::range(PrimExpr(0), in[0].shape()[in[0].ndim() - 1]), "k");
  te::Tensor sum = te::compute(
      out.shape,
      [&](const Vars& v) {
        Shape at = indices(v);
        at.set(at.size() - 1, k->var);
        const PrimExpr column = v[v.size() - 1];
        const PrimExpr inside = tir::floormod(column, width);
        const PrimExpr w = tir::is_one(group)
                               ? in[1]({tir::floordiv(column, width), k->var, inside})
                               : in[1]({tir::floordiv(column, width), tir::floordiv(k->var, group),
                                        inside * group + tir::floormod(k->var, group)});
        return te::sum(tir::cast(acc, in[0](at)) * tir::cast(acc, w), {k});
      },
      "matmul");
  return rounded(sum, out.dtype);
}

// ---------------------------------------------------------------- einsum
/// Size of each label; an axis of extent 1 broadcasts.
std::map<char, PrimExpr> label_sizes(const Subscripts& s, const std::vector<Shape>& shapes) {
  std::map<char, PrimExpr> size;
  for (size_t i = 0; i < shapes.size(); ++i)
    for (size_t d = 0; d < shapes[i].size(); ++d) {
      auto [it, fresh] = size.emplace(s.inputs[i][d], shapes[i][d]);
      if (!fresh && !tir::is_one(shapes[i][d]) && (!tir::as_int(it->second) || tir::is_one(it->second)))
        it->second = shapes[i][d];
    }
  return size;
}

Type infer_einsum(InferContext& ctx) {
  const auto tensors = ctx.tuple(0);
  if (!tensors) return {};
  const auto& operands = *tensors;
  if (operands.empty()) return ctx.error("no operands");
  std::vector<int64_t> ranks;
  std::vector<Shape> shapes;
  DataType dtype = operands[0]->dtype;
  bool known = true;
  for (const auto* t : operands) {
    if (!ctx.expect_factors(dtype, t->dtype)) return {};
    dtype = contraction_type(dtype, t->dtype, DataType::void_());
    if (t->ndim < 0) return graph::tensor_type_unknown(-1, dtype);
    ranks.push_back(t->ndim);
    auto s = shape_of(*t);
    known = known && s;
    if (s) shapes.push_back(*s);
  }
  if (operands.size() == 1) dtype = operands[0]->dtype;
  const Subscripts s = parse_subscripts(ctx.attrs<EinsumAttrs>().subscripts, ranks);
  if (!s.problem.empty()) return ctx.error(s.problem);
  if (!known) return make_type(std::nullopt, int64_t(s.output.size()), dtype);
  const auto size = label_sizes(s, shapes);
  for (size_t i = 0; i < shapes.size(); ++i)
    for (size_t d = 0; d < shapes[i].size(); ++d)
      if (!tir::is_one(shapes[i][d]) && !ctx.require_equal(shapes[i][d], size.at(s.inputs[i][d])))
        return ctx.error(fmt::format("label '{}' has the size {} in {} and another before", s.inputs[i][d],
                                     show_dim(shapes[i][d]), show(shapes[i])));
  Shape out;
  for (char c : s.output) out.push_back(size.at(c));
  return make_type(out, 0, dtype);
}

Tensors def_einsum(const Call& call, const Tensors& in) {
  const TensorInfo out = output_info(call);
  std::vector<int64_t> ranks;
  std::vector<Shape> shapes;
  for (const te::Tensor& t : in) {
    ranks.push_back(int64_t(t.ndim()));
    shapes.push_back(t.shape());
  }
  const Subscripts s = parse_subscripts(attrs_of<EinsumAttrs>(call).subscripts, ranks);
  const auto size = label_sizes(s, shapes);
  const DataType acc = accumulator_type(out.dtype);
  Array<tir::IterVar> ks;
  std::map<char, PrimExpr> index;
  for (const std::string& term : s.inputs)
    for (char c : term)
      if (s.output.find(c) == std::string::npos && !index.count(c)) {
        ks.push_back(te::reduce_axis(tir::range(PrimExpr(0), size.at(c)), fmt::format("k{}", ks.size())));
        index.emplace(c, ks.back()->var);
      }
  te::Tensor sum = te::compute(
      out.shape,
      [&](const Vars& v) {
        for (size_t i = 0; i < s.output.size(); ++i) index[s.output[i]] = v[i];
        PrimExpr product;
        for (size_t i = 0; i < in.size(); ++i) {
          Shape at;
          for (size_t d = 0; d < shapes[i].size(); ++d)
            at.push_back(tir::is_one(shapes[i][d]) ? PrimExpr(0) : index.at(s.inputs[i][d]));
          const PrimExpr x = tir::cast(acc, in[i](at));
          product = product ? product * x : x;
        }
        return te::sum(product, ks);
      },
      "einsum");
  return rounded(sum, out.dtype);
}

/// x · w with w of two axes, or with as many axes in front as x has.
std::optional<Contraction> product_contraction(const Call& call, bool transposed_weight) {
  const auto &x = tensor_arg(call, 0), &w = tensor_arg(call, 1);
  const bool batched = w.ndim > 2 && w.ndim == x.ndim;
  if (x.ndim < 1 || (w.ndim != 2 && !batched)) return std::nullopt;
  Contraction c;
  c.batch = w.ndim - 2;
  c.weight_out = transposed_weight ? 0 : w.ndim - 1;
  c.weight_in = transposed_weight ? 1 : w.ndim - 2;
  c.data = c.result = x.ndim - 1;
  c.out_dtype = attrs_of<MatmulAttrs>(call).out_dtype;
  return c;
}

const bool contract_registered = [] {
  register_op("matmul", "Matrix product over the last two axes; leading axes broadcast; vectors as in NumPy.")
      .argument("a", "Tensor", "(…, m, k)")
      .argument("b", "Tensor", "(…, k, n)")
      .attrs<MatmulAttrs>()
      .infer(infer_matmul)
      .fusion(FusionKind::out_element_wise_fusable)
      .tensor_def(def_matmul)
      .contraction([](const Call& call) { return product_contraction(call, false); });
  register_op("nn.dense", "x · weightᵀ over the last axis.")
      .argument("x", "Tensor", "(…, inputs)")
      .argument("weight", "Tensor", "(outputs, inputs)")
      .attrs<MatmulAttrs>()
      .infer(infer_dense)
      .parameter(dense_weight)
      .fusion(FusionKind::out_element_wise_fusable)
      .tensor_def(def_dense)
      .contraction([](const Call& call) { return product_contraction(call, true); });
  register_op("nn.packed_matmul",
              "Matrix product over the last axis of x with a matrix that lies in panels of columns.")
      .argument("x", "Tensor", "(…, inputs)")
      .argument("panels", "Tensor", "(panels, inputs / group, columns of a panel · group)")
      .argument("scales", "Tensor",
                "(panels, blocks, columns of a panel): of each block of neighbouring inputs", true)
      .attrs<PackedMatmulAttrs>()
      .infer(infer_packed_matmul)
      .fusion(FusionKind::out_element_wise_fusable)
      .tensor_def(def_packed_matmul);
  register_op("einsum", "Sum of products over labelled axes, with '...' for broadcast axes.")
      .argument("operands", "Tuple", "the tensors")
      .attrs<EinsumAttrs>()
      .infer(infer_einsum)
      .fusion(FusionKind::out_element_wise_fusable)
      .tensor_def(def_einsum)
      .precision(Precision::narrow);
  return true;
}();

}  // namespace
}  // namespace tenon::op

template struct tenon::DefineTypes<tenon::op::PackedMatmulAttrs, tenon::op::EinsumAttrs>;
