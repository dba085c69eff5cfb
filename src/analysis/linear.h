// SPDX-License-Identifier: Apache-2.0
// Linear forms of expressions and conditions: coefficients, bounds that conditions put on variables, systems
// of inequalities solved variable by variable; and what does not change while a loop runs.
#pragma once
#include "analysis/analyzer.h"
#include "ir/tir.h"

namespace tenon {

/// e = Σ coefficients[i] · vars[i] + base, where neither the coefficients nor the base speak of vars.
struct LinearForm {
  std::vector<PrimExpr> coefficients;
  PrimExpr base;
};
/// Null when e is not linear in vars.
std::optional<LinearForm> detect_linear_equation(const PrimExpr& e, const std::vector<tir::VarRef>& vars,
                                                 Analyzer& analyzer);

/// q with a = q · b as polynomials over sizes and what is no sum of them, by long division: the quotient
/// wherever b is not 0. Null when it does not come out even.
std::optional<PrimExpr> exact_quotient(const PrimExpr& a, const PrimExpr& b, Analyzer& analyzer);

/// What a condition says of each variable alone; null ends: nothing.
/// Null unless the condition is a conjunction of comparisons that are each linear, with a constant
/// coefficient, in exactly one of vars.
std::optional<std::vector<IntInterval>> detect_clip_bound(const PrimExpr& condition,
                                                          const std::vector<tir::VarRef>& vars,
                                                          Analyzer& analyzer);

/// Bounds of one variable in terms of those before it: every lower ≤ variable ≤ every upper.
struct VariableBounds {
  std::vector<PrimExpr> lower, upper;
};
struct InequalitySolution {
  std::vector<VariableBounds> bounds;  ///< in the order of the variables
  std::vector<PrimExpr> others;        ///< conditions without variables, or that are not linear in them
};
/// Fourier–Motzkin elimination, the last variable first. Loops over these bounds, one inside the other, visit
/// exactly the integer points where all conditions hold (besides `others`); skewed loops become rectangular
/// in their outer variables. Null when more than `limit` inequalities arise.
std::optional<InequalitySolution> solve_linear_inequalities(const std::vector<tir::VarRef>& vars,
                                                            const std::vector<PrimExpr>& conditions,
                                                            Analyzer& analyzer, size_t limit = 200);

/// e has one value in all iterations of the loop: it speaks of nothing that the loop defines, reads no buffer
/// that the loop writes, and calls nothing that may answer differently.
bool loop_invariant(const PrimExpr& e, const tir::For& loop);

}  // namespace tenon
