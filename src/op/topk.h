// SPDX-License-Identifier: Apache-2.0
// The two ways to find the first k of a row: a heap of k, or a sort of the whole row.
#pragma once
#include "op/program.h"

namespace tenon::op {

/// A whole sort is chosen where k is known to be more than this part of the row: there the heap, which jumps
/// through memory, gains nothing on runs that are merged one after another.
constexpr int64_t kPartOfRow = 4;

/// The first `count` positions in the order of each row by a heap.
te::Tensor first_by_heap(const te::Tensor& x, size_t axis, bool descending, const PrimExpr& count);
/// topk by a heap, or by a sort.
std::vector<te::Tensor> define_topk(const Call& call, const std::vector<te::Tensor>& in, bool by_heap);

}  // namespace tenon::op
