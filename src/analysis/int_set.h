// SPDX-License-Identifier: Apache-2.0
// Sets of integers between symbolic ends, and the boxes of elements that accesses surely, at most or exactly
// touch while variables move.
#pragma once
#include "analysis/analyzer.h"

namespace tenon {

/// No integer, every integer, or all from `min` to `max` (both belong to it; a null end is open).
class IntSet {
 public:
  static IntSet nothing();
  static IntSet everything() { return {}; }
  static IntSet point(PrimExpr e) { return interval(e, e); }
  static IntSet interval(PrimExpr min, PrimExpr max);
  static IntSet of(const tir::Range& r);

  bool is_nothing() const { return nothing_; }
  bool is_everything() const { return !nothing_ && !min_ && !max_; }
  bool is_point() const { return !nothing_ && min_ && min_.same_as(max_); }
  const PrimExpr& min() const { return min_; }
  const PrimExpr& max() const { return max_; }
  /// Null unless both ends are there.
  tir::Range range(Analyzer& analyzer) const;

 private:
  PrimExpr min_, max_;
  bool nothing_ = false;
};

/// All that are in both; "nothing" only when that is proved.
IntSet intersect(const IntSet& a, const IntSet& b, Analyzer& analyzer);
/// The smallest interval that holds all of them.
IntSet unite(const std::vector<IntSet>& sets, Analyzer& analyzer);
bool can_prove_contains(const IntSet& outer, const IntSet& inner, Analyzer& analyzer);
/// Values of e while each variable moves over its set, whose ends may speak of other variables of `domain`.
IntSet relax(const PrimExpr& e, const std::unordered_map<const tir::Var*, IntSet>& domain,
             Analyzer& analyzer);

/// Moving variables, outer ones first; an inner range may speak of outer variables.
using LoopDomain = std::vector<std::pair<tir::VarRef, tir::Range>>;
/// A box around all elements that a region touches while the loops run and `predicate` holds. Dimensions
/// without a known end are "everything".
std::vector<IntSet> estimate_region_upper_bound(const Array<tir::Range>& region, const LoopDomain& domain,
                                                const PrimExpr& predicate, Analyzer& analyzer);
/// A box whose every element is touched; null when none is known.
std::optional<std::vector<IntSet>> estimate_region_lower_bound(const Array<tir::Range>& region,
                                                               const LoopDomain& domain,
                                                               const PrimExpr& predicate, Analyzer& analyzer);
/// The box of exactly the elements that are touched; null when they form no box, or that is not known.
std::optional<std::vector<IntSet>> estimate_region_strict_bound(const Array<tir::Range>& region,
                                                                const LoopDomain& domain,
                                                                const PrimExpr& predicate,
                                                                Analyzer& analyzer);

}  // namespace tenon
