// SPDX-License-Identifier: Apache-2.0
// What one step of a recurrent layer adds to the sums of a block of units: the products of the state with the
// state's weights (recurrent_steps.cpp), by vectors of units, by dot instructions, or in matrix registers.
#pragma once
#include <functional>

#include "op/attrs_recurrent.h"

namespace tenon::op {

struct StepProducts {
  tir::Buffer weights;  ///< (blocks, gates, units / group, block · group)
  tir::Buffer sums;     ///< local: (sequences · gates · block)
  PrimExpr units, at;   ///< of the layer; the block
  int64_t block = 1, group = 1;
  int64_t from = 0, to = 1;  ///< gates
  std::vector<PrimExpr> n;   ///< sequences, neighbours of one another
  /// What the weights are multiplied by: of a sequence, the elements from a unit on.
  std::function<PrimExpr(const PrimExpr& n, const PrimExpr& k)> of;

  /// Where the sum of a unit lies.
  PrimExpr sum_at(const PrimExpr& sequence, int64_t gate, const PrimExpr& lane) const {
    return (sequence * PrimExpr(to - from) + PrimExpr(gate - from)) * PrimExpr(block) + lane;
  }
};

/// Sums gain the products of all units one by one, a vector of sums at a time.
tir::Stmt products_one_by_one(const StepProducts& p);
/// Of groups of units, which all lanes of a vector share, by `lanes` sums at a time.
tir::Stmt products_by_groups(const StepProducts& p, int64_t lanes);
/// Sums are these products, of as many registers at a time as there are. Units are a multiple of a row.
tir::Stmt products_in_matrix_registers(const StepProducts& p);

}  // namespace tenon::op
