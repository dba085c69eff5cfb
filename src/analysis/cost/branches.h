// SPDX-License-Identifier: Apache-2.0
// What is gained when independent pieces of work run at the same time, and how they share the cores.
#pragma once
#include <optional>
#include <span>

#include "target/target.h"

namespace tenon::cost {

/// A piece of work that needs no other one of its group.
struct Branch {
  double ns = 0;      ///< on one core
  int64_t parts = 1;  ///< iterations of its parallel loop, alike and in any order; 1: it is one piece
};

/// All of them, one after the other, each on the cores that its own loop gets.
double time_apart(std::span<const Branch> branches, const Target& target);

/// A place in a common parallel loop: `units` iterations of it, one behind the other. More units than parts:
/// every units / parts-th does one, the others nothing, so that all units of the loop take about as long;
/// fewer: each does parts / units.
struct Share {
  size_t branch = 0;
  int64_t units = 1;
};
struct SideBySide {
  std::vector<Share> shares;  ///< in the order of the loop
  double ns = 0;              ///< of the whole loop on the target's cores
  int64_t units() const;
};
/// How the branches share a loop, which the runtime splits by the count of its units; null where that is not
/// clearly faster than one after the other. `always`: for two cores, whatever it gains.
std::optional<SideBySide> side_by_side(std::span<const Branch> branches, const Target& target,
                                       bool always = false);

}  // namespace tenon::cost
