// SPDX-License-Identifier: Apache-2.0
// Orders of the pure bindings of a body that may need less memory than the one they stand in.
#pragma once
#include "ir/memory_plan.h"
#include "ir/module.h"

namespace tenon::graph {

/// How the bindings of a run are ordered.
enum class MemoryOrder {
  list,   ///< of what is ready, always that which frees most beyond what it takes
  depth,  ///< depth first: of operands, first that which needs the most memory beyond what it leaves (R.
          ///< Sethi, J. D. Ullman, "The generation of optimal code for arithmetic expressions", 1970)
};

/// The body with every run of pure bindings in that order; values and the order of effects stay. The same
/// object when nothing moves. Sizes are those of `most_bytes`; what has none counts nothing. n log n in the
/// bindings.
Expr reordered_for_memory(const Expr& body, MemoryOrder order, const SizeBounds& bounds);

}  // namespace tenon::graph
