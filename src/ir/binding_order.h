// SPDX-License-Identifier: Apache-2.0
// The order of the bindings of a body: which may change places, and what reads what.
#pragma once
#include "ir/module.h"

namespace tenon::graph {

/// Which bindings of a run read which, by their places in it, each once and in order.
struct RunReads {
  std::vector<std::vector<size_t>> operands, readers;
};

/// The body with each of its runs of bindings in the order that `order` gives as places in the run: a run is
/// a longest stretch of pure calls, tuples and items of tuples. What has effects, control flow and match_cast
/// stay where they are; bodies inside them are ordered, too. The same object when nothing moves.
Expr reorder_pure_runs(
    const Expr& body,
    FunctionRef<std::vector<size_t>(const RunReads& reads, const std::vector<Binding>& run)> order);

/// Places of a run: what no binding of it reads in order, each behind its operands, which come in the order
/// that `operands` has for each. Keeps its own stack.
std::vector<size_t> depth_first(const RunReads& reads, const std::vector<std::vector<size_t>>& operands);

}  // namespace tenon::graph
