// SPDX-License-Identifier: Apache-2.0
// The parts of a condition, and what of it a statement below may rely on.
#pragma once
#include "analysis/analyzer.h"
#include "ir/tir.h"

namespace tenon {

/// Adds what a conjunction consists of to `todo`, its first part last; a condition that is expected to hold
/// is that condition. False for any other.
bool split_conjunction(const PrimExpr& condition, std::vector<PrimExpr>& todo);
/// The parts of a condition that must all hold, those that are true left out.
std::vector<PrimExpr> conjuncts(const PrimExpr& condition);
/// The parts of a conjunction that read no memory: the statement that stands under the condition may write
/// what the others read, and then they hold no more. True where nothing is left.
PrimExpr lasting_part(const PrimExpr& condition);
/// Both sides of a branch, each visited under what the condition says of it; the second may be null.
std::pair<tir::Stmt, tir::Stmt> visit_branches(const tir::IfThenElse& branch, Analyzer& analyzer,
                                               FunctionRef<tir::Stmt(const tir::Stmt&)> visit);

}  // namespace tenon
