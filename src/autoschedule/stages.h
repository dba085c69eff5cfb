// SPDX-License-Identifier: Apache-2.0
// Stages: a block and the reductions and element-wise blocks that lead to it.
#pragma once
#include "autoschedule/rules.h"

namespace tenon::rules {

/// The reduction runs along memory: some load steps by 1 with its last reduction iterator, none gathers.
bool along_memory(const Facts& f);
/// A reduction across memory whose last result is the column, each element read for one result, and none of
/// whose sums reaches into another's.
bool folds_columns(const Facts& f);
/// The blocks that lead to `last`, itself included, through those that are `wanted` and not scheduled yet, in
/// program order.
std::vector<BlockRV> leading_to(Draft& draft, BlockRV last, FunctionRef<bool(BlockRV)> wanted);

}  // namespace tenon::rules
