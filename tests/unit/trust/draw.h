// SPDX-License-Identifier: Apache-2.0
// Chance, and what random graphs must know of the operators that they draw.
#pragma once
#include <random>
#include <set>
#include <string>
#include <vector>

#include "ir/op.h"

namespace tenon::testing_trust {

struct Draw {
  explicit Draw(uint64_t seed) : random_(seed) {}
  uint64_t below(uint64_t n) { return n == 0 ? 0 : random_() % n; }
  bool chance(double p) { return double(random_() >> 11) * 0x1p-53 < p; }
  template <class T>
  const T& one_of(const std::vector<T>& list) {
    return list[below(list.size())];
  }
  /// Random values for the attributes whose names say what they mean, of an operator on a first operand with
  /// these dimensions; defaults for the others.
  ObjectRef attributes(const graph::Op& op, const std::vector<int64_t>& dims);

  std::mt19937_64 random_;
};

/// Calls that join the levels, layouts of the compiler's own, and what has no value to compare.
const std::set<std::string>& left_out();
/// Families whose operators jump (an order, a count, a rounded value), or whose arguments must fit each other
/// in ways that are not drawn here: they come as their tests call them (operators.tir).
bool of_another_kind(const graph::Op& op);
/// Not continuous: an operand that differs in its last bit may change the result at all.
bool jumps(const std::string& name);
/// Results that later operators can take without growing out of range.
bool grows(const std::string& name);
/// One call of each operator, as its tests make it: all operands are constants.
const std::vector<Ref<graph::Call>>& recorded_calls();

}  // namespace tenon::testing_trust
