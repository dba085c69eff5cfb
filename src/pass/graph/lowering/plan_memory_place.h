// SPDX-License-Identifier: Apache-2.0
// Where pieces of memory lie whose lifetimes are known: the second half of plan_memory, free of any graph.
#pragma once
#include <cstdint>
#include <vector>

namespace tenon::graph {

/// Branches of choices, as a tree. Of one choice only one branch runs, so what two of them make may share
/// memory whatever its lifetimes are.
class Branches {
 public:
  struct Branch {
    int choice = 0;   ///< which If or Match
    int parent = -1;  ///< the branch around the choice; -1: none
  };
  int add(int choice, int parent) {
    all_.push_back({choice, parent});
    return int(all_.size()) - 1;
  }
  const std::vector<Branch>& all() const { return all_; }
  /// Never run both: their ways part at one choice.
  bool exclusive(int a, int b) const;
  /// The innermost branch around both; -1: none.
  int common(int a, int b) const;

 private:
  std::vector<int> path(int branch) const;  ///< from the outermost to `branch`
  std::vector<Branch> all_;
};

/// Needed from step `begin` to step `end`, both included.
struct MemoryPiece {
  int64_t bytes = 0;  ///< a multiple of the alignment
  int begin = 0, end = 0;
  int branch = -1;  ///< that makes it
  int64_t offset = -1;
};

/// Gives every piece its offset so that pieces that live together never overlap; the bytes all need together.
/// Several orders are tried and the best one is improved while it is above `bound`. Deterministic.
int64_t place_pieces(std::vector<MemoryPiece>& pieces, const Branches& branches, int64_t bound);

/// The most bytes that live at one step, over all ways through the branches. `branch_of_step[s]` is the
/// branch that step s belongs to (-1: none).
int64_t most_alive(const std::vector<MemoryPiece>& pieces, const Branches& branches,
                   const std::vector<int>& branch_of_step);

}  // namespace tenon::graph
