// SPDX-License-Identifier: Apache-2.0
// The bindings of a body while several of its calls become one, which stands where the first of them did.
#pragma once
#include <map>
#include <unordered_map>
#include <vector>

#include "ir/graph.h"

namespace tenon::graph {

struct Places {
  explicit Places(const std::vector<Binding>& bindings);

  const std::vector<Binding>& bindings;
  std::unordered_map<const Var*, size_t> of;
  std::vector<bool> moved;                            ///< stands elsewhere now
  std::map<size_t, std::vector<Binding>> instead_of;  ///< what stands in the place of a group's first call

  /// What the value reads is known in front of `place`, once the views that are added to `with` stand there.
  bool known_before(size_t place, const Expr& value, std::vector<size_t>& with, int depth = 0) const;
  /// The binding at `from` stands at `to`, in what is there instead.
  void take_away(size_t from, size_t to);
  Expr body(const Expr& result) const;
};

}  // namespace tenon::graph
