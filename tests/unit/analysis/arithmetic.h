// SPDX-License-Identifier: Apache-2.0
// What tests of sets, linear forms, iterator maps and regions share: drawn numbers, and all values of loops.
#pragma once
#include <gtest/gtest.h>

#include <random>

#include "analysis/int_set.h"
#include "eval.h"

namespace tenon::testing_arithmetic {

using namespace tir;

inline PrimExpr n(int64_t v) { return PrimExpr::int_imm(v, i64); }

struct Arithmetic : testing::Test {
  std::mt19937_64 random{17};
  int64_t pick(int64_t a, int64_t b) { return std::uniform_int_distribution<int64_t>(a, b)(random); }
};

/// Calls f for all values of the variables in their ranges, outer ones first; ranges may speak of outer ones.
template <class F>
void enumerate(const LoopDomain& domain, Values& values, size_t at, F f) {
  if (at == domain.size()) return f();
  const auto& [v, r] = domain[at];
  const int64_t min = *value(r->min, values), extent = *value(r->extent, values);
  for (int64_t i = min; i < min + extent; ++i) {
    values[v.get()] = i;
    enumerate(domain, values, at + 1, f);
  }
}

}  // namespace tenon::testing_arithmetic
