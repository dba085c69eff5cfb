// SPDX-License-Identifier: Apache-2.0
// The first k of a row, and its definition by a given way.
#pragma once
#include "op/order.h"

namespace tenon::op {

/// A whole sort is chosen where k is known to be more than this part of the row: there a heap, which jumps
/// through memory, gains nothing.
constexpr int64_t kPartOfRow = 4;

/// Is k more than that? Of sizes that are not known it is taken to be few of many, unless it is the row's
/// own.
bool much_of_row(const PrimExpr& k, const PrimExpr& n);
/// Are there rows side by side across memory, for every lane of a vector?
bool side_by_side(const Shape& x, size_t axis);
/// The first `count` positions in the order of each row, of elements without codes.
te::Tensor first_by_comparing(const te::Tensor& x, size_t axis, bool descending, const PrimExpr& count);
/// topk by finding the first, or by a sort of the whole row.
std::vector<te::Tensor> define_topk(const Call& call, const std::vector<te::Tensor>& in, FirstWay way);
std::vector<te::Tensor> define_topk_by_sort(const Call& call, const std::vector<te::Tensor>& in);
/// sort, or argsort.
std::vector<te::Tensor> define_sort(const Call& call, const std::vector<te::Tensor>& in, bool positions,
                                    SortWay way);

}  // namespace tenon::op
