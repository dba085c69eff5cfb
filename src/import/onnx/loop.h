// SPDX-License-Identifier: Apache-2.0
// A loop as Loop and Scan share it: a While whose state is the iteration's number, the
// condition where it changes, the carried values, and a list for each output that is collected.
#pragma once
#include "import/onnx/importer.h"

namespace tenon::onnx {

struct LoopPlan {
  Values init;            ///< carried values at first, as expressions
  size_t collected = 0;   ///< outputs that are collected over the iterations, on a new first axis
  PrimExpr trips;         ///< the number of iterations, where it is known before
  Expr limit;             ///< the same or an upper limit, as a scalar tensor; null: none
  Expr condition;         ///< whether the first iteration runs; null: yes
  bool may_stop = false;  ///< each iteration says whether there is another
  /// What an iteration makes of its number, the condition and the carried values: (condition,) carried
  /// values, collected ones. The condition only where it may stop. Called anew while types settle.
  std::function<Values(const Expr& index, const Value& condition, const Values& carried)> body;
};
struct LoopResult {
  bool poisoned = false;
  Values carried, collected;
};
LoopResult convert_loop(NodeContext& n, const LoopPlan& plan);

}  // namespace tenon::onnx
