// SPDX-License-Identifier: Apache-2.0
#include "op/row_statistics.h"

#include <fmt/format.h>

#include <algorithm>

#include "op/family.h"

namespace tenon::op {
namespace {

/// Of the second cache, for a block that is read a second time.
constexpr int64_t kBlockShare = 4;

PrimExpr over(const PrimExpr& sum, const PrimExpr& count) {
  return tir::div(sum, tir::cast(sum.dtype(), count));
}

}  // namespace

RowsInBlocks::RowsInBlocks(Rows rows, const RowBlocks& blocks) : rows_(std::move(rows)), blocks_(blocks) {
  for (size_t i = 0; i < blocks.axis; ++i) before_.push_back(rows_.folded[i]);
  before_.push_back(simplify(tir::floordiv(rows_.folded[blocks.axis], PrimExpr(blocks.length))));
  shape_ = rows_.shape;
  for (const PrimExpr& n : before_) shape_.push_back(n);
  elements_ = PrimExpr(blocks.length);
  for (size_t i = blocks.axis + 1; i < rows_.folded.size(); ++i) elements_ = elements_ * rows_.folded[i];
}

te::Tensor RowsInBlocks::fold_each(ReduceOne fold, const OfElement& value, const std::string& name) const {
  Array<tir::IterVar> ks{te::reduce_axis(tir::range(PrimExpr(0), PrimExpr(blocks_.length)), "rb")};
  for (size_t i = blocks_.axis + 1; i < rows_.folded.size(); ++i)
    ks.push_back(te::reduce_axis(tir::range(PrimExpr(0), rows_.folded[i]), fmt::format("r{}", i)));
  return te::compute(
      shape_,
      [&](const Vars& v) {
        const Shape block = indices(v);
        Shape row, at;
        for (size_t i = 0; i < block.size(); ++i) (i < rows_.shape.size() ? row : at).push_back(block[i]);
        at.set(blocks_.axis, at[blocks_.axis] * blocks_.length + ks[0]->var);
        for (size_t i = 1; i < ks.size(); ++i) at.push_back(ks[i]->var);
        return fold(value(rows_.element(row, at), block), ks, {});
      },
      name);
}

te::Tensor RowsInBlocks::fold_all(ReduceOne fold, const OfBlock& value, const std::string& name) const {
  Array<tir::IterVar> ks;
  for (const PrimExpr& n : before_)
    ks.push_back(te::reduce_axis(tir::range(PrimExpr(0), n), fmt::format("b{}", ks.size())));
  return te::compute(
      rows_.shape,
      [&](const Vars& v) {
        const Shape row = indices(v);
        Shape block = row;
        for (const tir::IterVar& k : ks) block.push_back(k->var);
        return fold(value(row, block), ks, {});
      },
      name);
}

Shape only_axes(const Shape& index, const std::vector<int64_t>& axes) {
  Shape out;
  for (int64_t a : axes) out.push_back(index[size_t(a)]);
  return out;
}
Rows rows_along(const te::Tensor& x, const std::vector<int64_t>& axes) {
  return {drop_axes(x.shape(), axes), only_axes(x.shape(), axes),
          [x, axes](const Shape& row, const Shape& at) {
            Shape whole;
            for (size_t d = 0, r = 0, k = 0; d < x.ndim(); ++d)
              whole.push_back(std::ranges::count(axes, int64_t(d)) ? at[k++] : row[r++]);
            return wide(x(whole));
          }};
}

std::pair<std::optional<RowBlocks>, std::string> row_blocks(const Shape& x, const Shape& folded,
                                                            int64_t element_bytes, const Target& target) {
  if (!target) return {std::nullopt, "how much a cache holds is the target's, and none is given"};
  const auto bytes_of = [&](const Shape& s) {
    int64_t bytes = element_bytes;
    for (const PrimExpr& n : s) bytes *= *tir::as_int(n);
    return bytes;
  };
  const auto known = [](const PrimExpr& n) { return tir::as_int(n).has_value(); };
  if (!std::all_of(x.begin(), x.end(), known) || !std::all_of(folded.begin(), folded.end(), known))
    return {std::nullopt, "a size is not known"};
  int64_t bytes = bytes_of(folded);
  if (bytes <= target->l2_bytes)
    return {std::nullopt, fmt::format("a row of {} bytes stays in the second cache", bytes)};
  if (bytes <= target->l3_bytes && bytes_of(x) > target->l3_bytes)
    return {std::nullopt,
            fmt::format("a row of {} bytes stays in the third cache, and all rows do not", bytes)};
  const int64_t most = target->l2_bytes / kBlockShare;
  for (size_t axis = 0; axis < folded.size(); ++axis) {
    const int64_t n = *tir::as_int(folded[axis]);
    bytes /= n;  // of one index of this axis
    for (int64_t length = std::min(n, most / bytes); length >= 1; --length)
      if (n % length == 0 && length * bytes > most / kBlockShare) return {RowBlocks{axis, length}, {}};
  }
  return {std::nullopt, "no equal blocks of a row fit in the second cache"};
}

Statistics sums_by_blocks(const Rows& rows, const RowBlocks& blocks, const std::string& name) {
  const RowsInBlocks of(rows, blocks);
  PrimExpr count(1);
  for (const PrimExpr& n : rows.folded) count = count * n;
  const te::Tensor part =
      of.fold_each(te::sum, [](const PrimExpr& e, const Shape&) { return e; }, name + "_block_sum");
  const te::Tensor apart = of.fold_each(
      te::sum,
      [&](const PrimExpr& e, const Shape& block) {
        const PrimExpr d = e - over(part(block), of.elements());
        return d * d;
      },
      name + "_block_squares");
  const te::Tensor sum =
      of.fold_all(te::sum, [&](const Shape&, const Shape& block) { return part(block); }, name + "_sum");
  const te::Tensor squares = of.fold_all(
      te::sum,
      [&](const Shape& row, const Shape& block) {
        const PrimExpr d = over(part(block), of.elements()) - over(sum(row), count);
        return apart(block) + d * d * tir::cast(d.dtype(), of.elements());
      },
      name + "_squares");
  return {sum, squares};
}

PrimExpr finite_shift(const PrimExpr& largest) {
  return tir::select(tir::call(boolean, "tir.isinf", {largest}), constant(largest.dtype(), 0), largest);
}

Statistics exponentials_by_blocks(const Rows& rows, const RowBlocks& blocks,
                                  const std::function<PrimExpr(const PrimExpr&)>& shift,
                                  const std::string& name) {
  const RowsInBlocks of(rows, blocks);
  const te::Tensor block_top =
      of.fold_each(te::max, [](const PrimExpr& e, const Shape&) { return e; }, name + "_block_max");
  const te::Tensor part = of.fold_each(
      te::sum,
      [&](const PrimExpr& e, const Shape& block) { return exp_of_share(e - finite_shift(block_top(block))); },
      name + "_block_sum");
  const te::Tensor top =
      of.fold_all(te::max, [&](const Shape&, const Shape& block) { return block_top(block); }, name + "_max");
  // A block of -∞ has no share, whatever it is shifted by.
  const te::Tensor sum = of.fold_all(
      te::sum,
      [&](const Shape& row, const Shape& block) {
        return part(block) * tir::exp(block_top(block) - shift(top(row)));
      },
      name + "_sum");
  return {top, sum};
}

}  // namespace tenon::op
