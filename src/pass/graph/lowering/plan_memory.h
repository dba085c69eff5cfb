// SPDX-License-Identifier: Apache-2.0
// The memory plan of one graph function of call_tir: lifetimes, and places in one arena.
#pragma once
#include <map>

#include "ir/module.h"

namespace tenon::graph {

/// Upper bounds of symbolic sizes, by name.
using SizeBounds = std::map<std::string, int64_t>;

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
struct MemoryPlan {
  std::vector<PlannedTensor> tensors;
  int64_t arena_bytes = 0;
  int64_t lower_bound = 0;            ///< most bytes alive at one step: no plan can do with less
  std::vector<int64_t> states;        ///< offsets of loop variables, loop by loop; -1: in registers
  std::vector<std::string> in_place;  ///< programs that are called with an output in place of an input
  std::vector<int64_t> joined;        ///< concatenations whose parts are written in their place: not called
};
/// `arena` false: lifetimes only, everything from the pool.
MemoryPlan plan_function(const Function& function, const IRModule& module, bool arena = true);

/// Position in the tensor list of the first output of each call_tir binding of the function.
std::unordered_map<const Var*, int> planned_positions(const Function& function);
/// Offsets that plan_memory left on the function: one per tensor, or empty when it was not planned.
std::vector<int64_t> planned_offsets(const Function& function);
/// Offsets of the variables of each loop, by the variable that the loop is bound to.
std::unordered_map<const Var*, std::vector<int64_t>> planned_states(const Function& function);
/// With which bounds the function was planned.
SizeBounds planned_bounds(const Function& function);
/// Bytes of a tensor whose symbolic sizes are at their bounds; -1 when one has none.
int64_t most_bytes(const Type& type, const SizeBounds& bounds);
/// Positions of concatenations whose result is there when the last of its parts is: calls to leave out.
std::vector<int64_t> planned_joins(const Function& function);

}  // namespace tenon::graph
