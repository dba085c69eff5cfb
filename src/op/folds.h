// SPDX-License-Identifier: Apache-2.0
// Definitions of operators that fold rows twice, by blocks of them or (no blocks) at once.
#pragma once
#include "op/row_statistics.h"

namespace tenon::op {

using Blocked = std::optional<RowBlocks>;

// What each folds: the extents of the axes, the outermost in memory first. x has a known shape.
Shape folded_by_layer_norm(const Call& call, const Shape& x);
Shape folded_by_group_norm(const Call& call, const Shape& x);
Shape folded_by_instance_norm(const Call& call, const Shape& x);
Shape folded_by_softmax(const Call& call, const Shape& x);
Shape folded_by_reduction(const Call& call, const Shape& x);

using Defined = std::vector<te::Tensor>;
Defined define_layer_norm(const Call& call, const Defined& in, const Blocked& blocks);
Defined define_group_norm(const Call& call, const Defined& in, const Blocked& blocks);
Defined define_instance_norm(const Call& call, const Defined& in, const Blocked& blocks);
Defined define_softmax(const Call& call, const Defined& in, const Blocked& blocks);
Defined define_log_softmax(const Call& call, const Defined& in, const Blocked& blocks);
Defined define_logsumexp(const Call& call, const Defined& in, const Blocked& blocks);
/// The variance, or its root.
Defined define_spread(const Call& call, const Defined& in, bool rooted, const Blocked& blocks);

}  // namespace tenon::op
