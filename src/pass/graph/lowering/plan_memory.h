// SPDX-License-Identifier: Apache-2.0
// The memory plan of one graph function of call_tir: lifetimes, and places in one arena.
#pragma once
#include <set>

#include "ir/memory_plan.h"
#include "ir/module.h"

namespace tenon::graph {

/// One tensor made by a call_tir, in program order (nested bodies before the binding that holds them).
struct PlannedTensor {
  std::string name;  ///< of the variable
  int64_t offset =
      -1;  ///< in the arena, a multiple of 64; -1: from the pool (results, unknown sizes, escaping)
  int64_t bytes = -1;      ///< at most; -1: not known
  int begin = 0, end = 0;  ///< first and last step at which it must hold its value (a step is one binding)
  int in_place_of = -1;    ///< the tensor whose memory it takes over
  int part_of = -1;        ///< the concatenation whose memory it is written into
  int64_t part_offset = 0;
};
/// The plan with what only planning and its tests know of it; the node of the function says where things lie.
struct PlannedMemory {
  std::vector<PlannedTensor> tensors;
  int64_t arena_bytes = 0;
  int64_t lower_bound = 0;                   ///< most bytes alive at one step: no plan can do with less
  std::vector<std::vector<int64_t>> states;  ///< offsets of the variables of each loop; -1: in registers
  std::vector<std::string> in_place;         ///< programs that are called with an output in place of an input
  std::set<int64_t> joined;  ///< concatenations whose parts are written in their place: not called
};
/// What to plan with.
struct PlanOptions {
  bool arena = true, in_place = true, concat = true, reorder = true;
  SizeBounds bounds;
};
/// In the order of the function's bindings as they stand.
PlannedMemory plan_function(const Function& function, const IRModule& module, PlanOptions options);
/// `arena` false: lifetimes only, everything from the pool.
PlannedMemory plan_function(const Function& function, const IRModule& module, bool arena = true);

}  // namespace tenon::graph
