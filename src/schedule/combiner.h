// SPDX-License-Identifier: Apache-2.0
// How a reduction combines its values, told from its block: for rfactor, and for reductions over threads.
#pragma once
#include <optional>

#include "ir/tir.h"

namespace tenon::sched {

/// The reduction's combiner: new values in terms of lhs (accumulator) and rhs (one step's values).
struct Combiner {
  std::vector<tir::Buffer> buffers;
  std::vector<tir::VarRef> lhs, rhs;
  std::vector<PrimExpr> result;  ///< in terms of lhs and rhs
  std::vector<PrimExpr> source;  ///< what rhs was
  std::vector<Array<PrimExpr>> indices;
};

/// Empty where it is none that is known to be associative and commutative: sum, product, min, max, and, or;
/// of several values a choice between the accumulators and the sources (argmax, argmin).
std::optional<Combiner> combiner_of(const Ref<tir::Block>& block);

/// Stores of the combined values, all computed before the first is stored.
tir::Stmt combine_stmt(const Combiner& c, const std::vector<tir::Buffer>& to,
                       const std::vector<Array<PrimExpr>>& at, const std::vector<PrimExpr>& rhs);

}  // namespace tenon::sched
