// SPDX-License-Identifier: Apache-2.0
// Softmax and its logarithm, rows at once or block by block (row_statistics.h).
#include "op/family.h"
#include "op/folds.h"

namespace tenon::op {
namespace {

using Tensors = std::vector<te::Tensor>;

Type infer_softmax(InferContext& ctx) {
  const auto& x = ctx.tensor(0);
  if (!ctx.expect_domain(x.dtype, Domain::floating)) return {};
  if (!ctx.expect_axis(ctx.attrs<AxisAttrs>().axis, x.ndim)) return {};
  return like(x, x.dtype);
}

std::vector<int64_t> softmax_axes(const Call& call, size_t rank) {
  return {normal_axis(attrs_of<AxisAttrs>(call).axis, int64_t(rank))};
}

/// x less its largest element and the logarithm of the sum of exponentials.
Tensors log_softmax_by_blocks(const Call& call, const te::Tensor& x, const RowBlocks& blocks) {
  const std::string name = short_name(call);
  const auto axes = softmax_axes(call, x.ndim());
  const auto as_is = [](const PrimExpr& top) { return top; };
  const Statistics of = exponentials_by_blocks(rows_along(x, axes), blocks, as_is, name);
  const te::Tensor scale = te::compute(
      of.second.shape(), [&](const Vars& v) { return tir::log(of.second(indices(v))); }, name + "_scale");
  return {te::compute(
      x.shape(),
      [&](const Vars& v) {
        const Shape at = indices(v), row = drop_axes(at, axes);
        return tir::cast(x.dtype(), wide(x(at)) - of.first(row) - scale(row));
      },
      name)};
}

/// Exponentials from the largest element of each block, then each block's share of the row.
Tensors softmax_by_blocks(const Call& call, const te::Tensor& x, const RowBlocks& blocks) {
  const std::string name = short_name(call);
  const auto axes = softmax_axes(call, x.ndim());
  auto as_is = [](const PrimExpr& e, const Shape&) { return e; };
  const auto block_of = [&](const Shape& at) {
    Shape block = drop_axes(at, axes);
    block.push_back(tir::floordiv(at[size_t(axes[0])], PrimExpr(blocks.length)));
    return block;
  };
  const RowsInBlocks rows(rows_along(x, axes), blocks);
  const te::Tensor block_top = rows.fold_each(te::max, as_is, name + "_block_max");
  const te::Tensor e = te::compute(
      x.shape(),
      [&](const Vars& v) {
        const Shape at = indices(v);
        return exp_of_share(wide(x(at)) - finite_shift(block_top(block_of(at))));
      },
      name + "_exp");
  const te::Tensor block_sum =
      RowsInBlocks(rows_along(e, axes), blocks).fold_each(te::sum, as_is, name + "_block_sum");
  const te::Tensor top = rows.fold_all(
      te::max, [&](const Shape&, const Shape& block) { return block_top(block); }, name + "_max");
  const te::Tensor share = te::compute(
      block_top.shape(),
      [&](const Vars& v) {
        const Shape block = indices(v);
        Shape row = block;
        row.resize(row.size() - 1, PrimExpr(0));
        return tir::exp(block_top(block) - top(row));
      },
      name + "_share");
  const te::Tensor sum = rows.fold_all(
      te::sum, [&](const Shape&, const Shape& block) { return block_sum(block) * share(block); },
      name + "_sum");
  const te::Tensor scale = te::compute(
      sum.shape(),
      [&](const Vars& v) {
        const PrimExpr s = sum(indices(v));
        return tir::div(constant(s.dtype(), 1), s);
      },
      name + "_scale");
  return {te::compute(
      x.shape(),
      [&](const Vars& v) {
        const Shape at = indices(v);
        return tir::cast(x.dtype(), share_or_zero(e(at) * share(block_of(at))) * scale(drop_axes(at, axes)));
      },
      name)};
}

Tensors def_softmax(const Call& call, const Tensors& in, bool log) {
  const te::Tensor& x = in[0];
  const std::string name = short_name(call);
  const auto axes = softmax_axes(call, x.ndim());
  auto as_is = [](const PrimExpr& e, const Shape&) { return wide(e); };
  // Of NaN in a row its exponential tells, whatever the largest element is said to be.
  auto term = [](const PrimExpr& e, const Shape&) {
    return tir::call(wide(e).dtype(), "tir.ordered_term", {wide(e)});
  };
  const te::Tensor top = reduce_over(x, axes, false, te::max, term, name + "_max");
  auto shifted = [&](const Shape& at) { return wide(x(at)) - top(drop_axes(at, axes)); };
  const te::Tensor e =
      te::compute(x.shape(), [&](const Vars& v) { return exp_of_share(shifted(indices(v))); }, name + "_exp");
  const te::Tensor sum = reduce_over(e, axes, false, te::sum, as_is, name + "_sum");
  // One division or logarithm for a row: the sum is from 1 to the length of the row, or no number.
  const te::Tensor scale = te::compute(
      sum.shape(),
      [&](const Vars& v) {
        const PrimExpr s = sum(indices(v));
        return log ? tir::log(s) : tir::div(constant(s.dtype(), 1), s);
      },
      name + "_scale");
  return {te::compute(
      x.shape(),
      [&](const Vars& v) {
        const Shape at = indices(v), row = drop_axes(at, axes);
        return tir::cast(x.dtype(), log ? shifted(at) - scale(row) : e(at) * scale(row));
      },
      name)};
}

const bool softmax_registered = [] {
  auto add = [](OpName name, const char* doc, InferType infer, TensorDef def) {
    return register_op(std::move(name), doc, FusionKind::out_element_wise_fusable, std::move(infer),
                       std::move(def))
        .argument("x", "Tensor", "the operand")
        .attrs<AxisAttrs>();
  };
  add("nn.softmax", "exp(x) / sum(exp(x)) along an axis; 0 below e^-87.33 of the largest element.",
      infer_softmax, [](const Call& c, const Tensors& in) { return def_softmax(c, in, false); });
  add("nn.log_softmax", "log(softmax(x)) along an axis.", infer_softmax,
      [](const Call& c, const Tensors& in) { return def_softmax(c, in, true); });
  return true;
}();

}  // namespace

Shape folded_by_softmax(const Call& call, const Shape& x) {
  return only_axes(x, softmax_axes(call, x.size()));
}
Defined define_softmax(const Call& call, const Defined& in, const Blocked& blocks) {
  return blocks ? softmax_by_blocks(call, in[0], *blocks) : def_softmax(call, in, false);
}
Defined define_log_softmax(const Call& call, const Defined& in, const Blocked& blocks) {
  return blocks ? log_softmax_by_blocks(call, in[0], *blocks) : def_softmax(call, in, true);
}

}  // namespace tenon::op
