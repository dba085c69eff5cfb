// SPDX-License-Identifier: Apache-2.0
// A hash that tells symbolic sizes apart.
#pragma once
#include "ir/structural.h"
#include "ir/walk.h"

namespace tenon::graph {

/// What is equal as it stands (structural_equal without map_free) has one hash, as with structural_hash,
/// which takes any symbol for any other: [n], [m], … of a model with many symbols would all meet in one
/// bucket. Good for a run only: symbols count by their addresses.
inline uint64_t symbol_hash(const ObjectRef& e) {
  uint64_t h = structural_hash(e);
  for (const tir::VarRef& v : tir::free_vars(e)) h = h * 31 + uint64_t(reinterpret_cast<uintptr_t>(v.get()));
  return h;
}

}  // namespace tenon::graph
