// SPDX-License-Identifier: Apache-2.0
// What inference takes for granted of sizes that it cannot compare, for checks at run time.
#pragma once
#include "op/op_def.h"

namespace tenon::op {

/// `have` equals `want`, or is 1 if `or_one`.
struct Assumption {
  PrimExpr have, want;
  bool or_one = false;
};
/// Notes an assumption for assumptions_of; nothing otherwise. `differ` and `broadcast_shapes` note theirs.
void assume(const PrimExpr& have, const PrimExpr& want, bool or_one = false);
/// What must hold at run time for the types of a call of an operator to be right.
std::vector<Assumption> assumptions_of(const Call& call);

}  // namespace tenon::op
