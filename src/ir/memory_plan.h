// SPDX-License-Identifier: Apache-2.0
// The memory plan of a graph function (graph::MemoryPlan): which calls and loops it speaks of, and whether it
// fits.
#pragma once
#include "ir/graph.h"

namespace tenon::graph {

/// Upper bounds of symbolic sizes, by name.
using SizeBounds = std::map<std::string, int64_t>;

/// Bytes of a tensor whose symbolic sizes are at their bounds; -1 when one has none, or the type is not
/// known.
int64_t most_bytes(const Type& type, const SizeBounds& bounds);

/// Sizes that are numbers of which no memory has the bytes: one is below 0, or all together take more than
/// 2^62.
bool beyond_memory(const Array<PrimExpr>& shape, DataType dtype);

/// What a plan speaks of, in its order: that of the bindings, those in bodies before the binding that holds
/// them.
struct PlannedBindings {
  std::vector<std::pair<VarRef, Ref<Call>>> calls;  ///< of tensor programs (call_tir)
  std::vector<std::pair<VarRef, Ref<While>>> loops;
};
PlannedBindings planned_bindings(const Function& function);

/// How the function's plan does not fit its body, in words; empty when it fits, or when there is none.
std::vector<std::string> memory_plan_problems(const Function& function);

/// The bounds of the plan as a map of the language.
SizeBounds bounds_of(const MemoryPlan& plan);

}  // namespace tenon::graph
