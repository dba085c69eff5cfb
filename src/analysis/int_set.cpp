// SPDX-License-Identifier: Apache-2.0
// Interval sets over interval_of, and estimates of what regions touch.
#include "analysis/int_set.h"

#include <unordered_set>

#include "analysis/linear.h"
#include "ir/find_node.h"
#include "ir/intrinsic.h"

namespace tenon {

using namespace tir;

IntSet IntSet::nothing() {
  IntSet s;
  s.nothing_ = true;
  return s;
}
IntSet IntSet::interval(PrimExpr min, PrimExpr max) {
  IntSet s;
  s.min_ = std::move(min);
  s.max_ = std::move(max);
  const auto lo = s.min_ ? as_int(s.min_) : std::nullopt, hi = s.max_ ? as_int(s.max_) : std::nullopt;
  return lo && hi && *lo > *hi ? nothing() : s;
}
IntSet IntSet::of(const Range& r) {
  if (is_one(r->extent)) return point(r->min);
  return interval(r->min, tenon::simplify(r->min + r->extent - 1));
}
Range IntSet::range(Analyzer& analyzer) const {
  if (nothing_) return tir::range(PrimExpr(0), PrimExpr(0));
  if (!min_ || !max_) return {};
  return tir::range(min_, analyzer.simplify(max_ - min_ + 1));
}

IntSet intersect(const IntSet& a, const IntSet& b, Analyzer& analyzer) {
  if (a.is_nothing() || b.is_everything()) return a;
  if (b.is_nothing() || a.is_everything()) return b;
  const PrimExpr min = !a.min()   ? b.min()
                       : !b.min() ? a.min()
                                  : analyzer.simplify(tir::max(a.min(), b.min()));
  const PrimExpr max = !a.max()   ? b.max()
                       : !b.max() ? a.max()
                                  : analyzer.simplify(tir::min(a.max(), b.max()));
  if (min && max && analyzer.can_prove(gt(min, max))) return IntSet::nothing();
  return IntSet::interval(min, max);
}

IntSet unite(const std::vector<IntSet>& sets, Analyzer& analyzer) {
  PrimExpr min, max;
  bool any = false, open_low = false, open_high = false;
  for (const IntSet& s : sets) {
    if (s.is_nothing()) continue;
    open_low = open_low || !s.min();
    open_high = open_high || !s.max();
    if (s.min()) min = min ? tir::min(min, s.min()) : s.min();
    if (s.max()) max = max ? tir::max(max, s.max()) : s.max();
    any = true;
  }
  if (!any) return IntSet::nothing();
  return IntSet::interval(open_low ? PrimExpr() : analyzer.simplify(min),
                          open_high ? PrimExpr() : analyzer.simplify(max));
}

bool can_prove_contains(const IntSet& outer, const IntSet& inner, Analyzer& analyzer) {
  if (inner.is_nothing() || outer.is_everything()) return true;
  if (outer.is_nothing()) return false;
  if (outer.min() && !(inner.min() && analyzer.can_prove(le(outer.min(), inner.min())))) return false;
  return !outer.max() || (inner.max() && analyzer.can_prove(le(inner.max(), outer.max())));
}

namespace {}  // namespace

IntSet relax(const PrimExpr& e, const std::unordered_map<const Var*, IntSet>& domain, Analyzer& analyzer) {
  std::unordered_map<const Var*, IntInterval> ends;
  for (auto& [v, s] : domain) {
    if (s.is_nothing()) return IntSet::nothing();
    ends[v] = {s.min(), s.max()};
  }
  PrimExpr min = e, max = e;
  // Ends may speak of outer variables in turn.
  for (size_t i = 0; i <= domain.size(); ++i) {
    if (min && mentions_any(min, ends, not_in_buffers)) min = interval_of(min, ends, analyzer).min;
    if (max && mentions_any(max, ends, not_in_buffers)) max = interval_of(max, ends, analyzer).max;
  }
  if (min && mentions_any(min, ends, not_in_buffers)) min = PrimExpr();
  if (max && mentions_any(max, ends, not_in_buffers)) max = PrimExpr();
  if (min && max && min.same_as(max)) return IntSet::point(analyzer.simplify(min));
  if (min) min = analyzer.simplify(min);
  if (max) max = analyzer.simplify(max);
  return IntSet::interval(min, max);
}

namespace {

/// Ranges of the loops where the predicate holds, as far as it bounds single variables. `exact`: it says
/// nothing else.
std::vector<IntSet> clipped(const LoopDomain& domain, const PrimExpr& predicate, Analyzer& analyzer,
                            bool& exact) {
  std::vector<VarRef> vars;
  std::vector<IntSet> out;
  for (auto& [v, r] : domain) {
    vars.push_back(v);
    out.push_back(IntSet::interval(r->min, analyzer.simplify(r->min + r->extent - 1)));
  }
  exact = true;
  if (!predicate || is_one(predicate)) return out;
  const auto bounds = detect_clip_bound(predicate, vars, analyzer);
  exact = bounds.has_value();
  if (!bounds) return out;
  for (size_t i = 0; i < vars.size(); ++i)
    out[i] = intersect(out[i], IntSet::interval((*bounds)[i].min, (*bounds)[i].max), analyzer);
  return out;
}

}  // namespace

std::vector<IntSet> estimate_region_upper_bound(const Array<Range>& region, const LoopDomain& domain,
                                                const PrimExpr& predicate, Analyzer& analyzer) {
  bool exact = false;
  const std::vector<IntSet> sets = clipped(domain, predicate, analyzer, exact);
  std::unordered_map<const Var*, IntSet> moving;
  for (size_t i = 0; i < domain.size(); ++i) moving[domain[i].first.get()] = sets[i];
  std::vector<IntSet> out;
  for (const Range& r : region) {
    const IntSet low = relax(r->min, moving, analyzer),
                 high = relax(r->min + r->extent - 1, moving, analyzer);
    out.push_back(low.is_nothing() || high.is_nothing() ? IntSet::nothing()
                                                        : IntSet::interval(low.min(), high.max()));
  }
  return out;
}

std::optional<std::vector<IntSet>> estimate_region_strict_bound(const Array<Range>& region,
                                                                const LoopDomain& domain,
                                                                const PrimExpr& predicate,
                                                                Analyzer& analyzer) {
  bool exact = false;
  const std::vector<IntSet> sets = clipped(domain, predicate, analyzer, exact);
  if (!exact) return std::nullopt;
  std::vector<VarRef> vars;
  std::unordered_set<const Var*> inside;
  for (size_t i = 0; i < domain.size(); ++i) {
    // Loops must run, over ranges that do not depend on one another.
    if (sets[i].is_nothing() || !analyzer.can_prove(le(sets[i].min(), sets[i].max()))) return std::nullopt;
    vars.push_back(domain[i].first);
    inside.insert(domain[i].first.get());
  }
  auto moves = [&](const PrimExpr& e) {
    for (const VarRef& v : free_vars(e))
      if (inside.count(v.get())) return true;
    return false;
  };
  for (const IntSet& s : sets)
    if (moves(s.min()) || moves(s.max())) return std::nullopt;
  std::unordered_set<const Var*> used;
  std::vector<IntSet> out;
  for (const Range& r : region) {
    if (moves(r->extent) || !analyzer.can_prove(ge(r->extent, 1))) return std::nullopt;
    const auto form = detect_linear_equation(r->min, vars, analyzer);
    if (!form) return std::nullopt;
    // Each variable moves one dimension, and its steps leave no gap: smaller steps fill them first.
    struct Step {
      int64_t size;
      PrimExpr count;  ///< steps after the first position
    };
    std::vector<Step> steps;
    PrimExpr first = form->base;
    for (size_t i = 0; i < vars.size(); ++i) {
      const auto c = as_int(form->coefficients[i]);
      if (!c || *c == INT64_MIN) return std::nullopt;
      if (*c == 0) continue;
      if (!used.insert(vars[i].get()).second) return std::nullopt;
      first = first + PrimExpr(*c) * (*c > 0 ? sets[i].min() : sets[i].max());
      steps.push_back({std::abs(*c), analyzer.simplify(sets[i].max() - sets[i].min())});
    }
    std::stable_sort(steps.begin(), steps.end(),
                     [](const Step& a, const Step& b) { return a.size < b.size; });
    PrimExpr reach = r->extent;
    for (const Step& s : steps) {
      if (!is_zero(s.count) && !analyzer.can_prove(le(PrimExpr(s.size), reach))) return std::nullopt;
      reach = reach + s.count * PrimExpr(s.size);
    }
    first = analyzer.simplify(first);
    out.push_back(IntSet::interval(first, analyzer.simplify(first + reach - 1)));
  }
  return out;
}

std::optional<std::vector<IntSet>> estimate_region_lower_bound(const Array<Range>& region,
                                                               const LoopDomain& domain,
                                                               const PrimExpr& predicate,
                                                               Analyzer& analyzer) {
  if (auto exact = estimate_region_strict_bound(region, domain, predicate, analyzer)) return exact;
  // Otherwise the box of a single iteration, the first, is touched if it surely runs.
  bool clip = false;
  const std::vector<IntSet> sets = clipped(domain, predicate, analyzer, clip);
  if (!clip) return std::nullopt;
  VarMap first;
  for (size_t i = 0; i < domain.size(); ++i) {
    if (sets[i].is_nothing()) return std::nullopt;
    const PrimExpr low = substitute(sets[i].min(), first), high = substitute(sets[i].max(), first);
    if (!analyzer.can_prove(le(low, high))) return std::nullopt;
    first[domain[i].first.get()] = low;
  }
  std::vector<IntSet> out;
  for (const Range& r : region) {
    const PrimExpr min = analyzer.simplify(substitute(r->min, first)),
                   extent = analyzer.simplify(substitute(r->extent, first));
    if (!analyzer.can_prove(ge(extent, 1))) return std::nullopt;
    out.push_back(IntSet::interval(min, analyzer.simplify(min + extent - 1)));
  }
  return out;
}

}  // namespace tenon
