// SPDX-License-Identifier: Apache-2.0
// Symbolic intervals: which values an expression takes when variables move over their ranges.
#include <unordered_set>

#include "analysis/analyzer_impl.h"
#include "ir/find_node.h"

namespace tenon {

using namespace analysis_detail;

namespace {

using Domain = std::unordered_map<const Var*, IntInterval>;

class Intervals {
 public:
  Intervals(const Domain& domain, Analyzer& analyzer)
      : domain_(domain), analyzer_(analyzer), impl_(AnalyzerAccess::of(analyzer)) {}

  IntInterval of(const PrimExpr& e) {
    if (depth_ > 100) return constant(e);
    ++depth_;
    IntInterval r = node(e);
    --depth_;
    return r;
  }

 private:
  IntInterval node(const PrimExpr& e) {
    if (!moves(e)) return {e, e};
    if (const auto* v = e.as<Var>()) return domain_.at(v);
    if (is_index(e) && (e.is<tir::Add>() || e.is<tir::Sub>() || e.is<tir::Mul>())) return sum(impl_.parse(e));
    if (const auto* n = e.as<tir::Min>()) {
      const IntInterval a = of(n->a), b = of(n->b);
      // Each upper end bounds the minimum; the lower end needs both.
      return {a.min && b.min ? tir::min(a.min, b.min) : PrimExpr(), a.max && b.max ? tir::min(a.max, b.max)
                                                                    : a.max        ? a.max
                                                                                   : b.max};
    }
    if (const auto* n = e.as<tir::Max>()) {
      const IntInterval a = of(n->a), b = of(n->b);
      return {a.min && b.min ? tir::max(a.min, b.min)
              : a.min        ? a.min
                             : b.min,
              a.max && b.max ? tir::max(a.max, b.max) : PrimExpr()};
    }
    if (const auto* n = e.as<tir::FloorDiv>()) {
      const auto c = tir::as_int(n->b);
      if (c && *c > 0) {
        const IntInterval a = of(n->a);
        return {a.min ? tir::floordiv(a.min, n->b) : PrimExpr(),
                a.max ? tir::floordiv(a.max, n->b) : PrimExpr()};
      }
    }
    if (const auto* n = e.as<tir::FloorMod>()) {
      const auto c = tir::as_int(n->b);
      if (c && *c > 0) {
        const IntInterval a = of(n->a);
        if (a.min && a.max &&
            analyzer_.can_prove_equal(tir::floordiv(a.min, n->b), tir::floordiv(a.max, n->b)))
          return {tir::floormod(a.min, n->b), tir::floormod(a.max, n->b)};
        return {imm(0), imm(*c - 1)};
      }
      if (!moves(n->b) && analyzer_.can_prove_ge(n->b, 1)) return {imm(0), n->b - 1};
    }
    if (const auto* n = e.as<tir::Select>()) return hull(of(n->true_value), of(n->false_value));
    if (const auto* n = e.as<tir::Call>(); n && n->op == "tir.if_then_else")
      return hull(of(n->args[1]), of(n->args[2]));
    if (const auto* n = e.as<tir::Cast>();
        n && is_index(e) && n->value.dtype().is_int() && !n->value.is<tir::BufferLoad>()) {
      const IntInterval a = of(n->value);
      return {a.min ? tir::cast(i64, a.min) : PrimExpr(), a.max ? tir::cast(i64, a.max) : PrimExpr()};
    }
    return constant(e);
  }

  bool moves(const PrimExpr& e) { return mentions_any(e, domain_, not_in_buffers); }
  IntInterval constant(const PrimExpr& e) {
    const ConstBound b = e.dtype().is_integer() || e.dtype().is_bool() ? impl_.bound(e) : ConstBound();
    // Bounds of domain variables may be unknown to the analyzer: then nothing is known here either.
    return {b.min == neg_inf ? PrimExpr() : PrimExpr::int_imm(b.min, e.dtype()),
            b.max == pos_inf ? PrimExpr() : PrimExpr::int_imm(b.max, e.dtype())};
  }
  static IntInterval hull(const IntInterval& a, const IntInterval& b) {
    return {a.min && b.min ? tir::min(a.min, b.min) : PrimExpr(),
            a.max && b.max ? tir::max(a.max, b.max) : PrimExpr()};
  }

  IntInterval sum(const AnalyzerAccess::Impl::Sum& s) {
    PrimExpr low = imm(s.base), high = low;
    auto add = [](PrimExpr& to, const PrimExpr& x) { to = to && x ? to + x : PrimExpr(); };
    for (const auto& t : s.terms) {
      PrimExpr still;
      std::vector<PrimExpr> moving;
      for (const PrimExpr& a : t.atoms) {
        if (moves(a))
          moving.push_back(a);
        else
          still = still ? still * a : a;
      }
      const PrimExpr factor = still ? still * imm(t.coeff) : imm(t.coeff);
      if (moving.empty()) {
        add(low, factor);
        add(high, factor);
        continue;
      }
      const ConstBound sign = still ? scale(impl_.bound(still), t.coeff) : ConstBound{t.coeff, t.coeff};
      IntInterval x = of(moving[0]);
      for (size_t i = 1; i < moving.size(); ++i) {
        const IntInterval y = of(moving[i]);
        const bool positive =
            x.min && y.min && analyzer_.can_prove_ge(x.min, 0) && analyzer_.can_prove_ge(y.min, 0);
        if (positive) {
          x = {x.min * y.min, x.max && y.max ? x.max * y.max : PrimExpr()};
          continue;
        }
        PrimExpr product = moving[0];
        for (size_t k = 1; k < moving.size(); ++k) product = product * moving[k];
        x = constant(product);
        break;
      }
      if (sign.min >= 0) {
        add(low, x.min ? x.min * factor : PrimExpr());
        add(high, x.max ? x.max * factor : PrimExpr());
      } else if (sign.max <= 0) {
        add(low, x.max ? x.max * factor : PrimExpr());
        add(high, x.min ? x.min * factor : PrimExpr());
      } else {
        low = high = PrimExpr();
      }
    }
    return {low, high};
  }

  const Domain& domain_;
  Analyzer& analyzer_;
  AnalyzerAccess::Impl& impl_;
  int depth_ = 0;
};

}  // namespace

IntInterval interval_of(const PrimExpr& e, const Domain& domain, Analyzer& analyzer) {
  PrimExpr x = e.dtype().is_scalar() ? analyzer.simplify(e) : e;
  // Unless the analyzer knows it, a domain's constant ends bound its variable too.
  AnalyzerAccess::Impl& impl = AnalyzerAccess::of(analyzer);
  PrimExpr inside = tir::true_();
  for (const VarRef& v : tir::free_vars(x)) {
    auto it = domain.find(v.get());
    if (it == domain.end() || v->dtype != i64) continue;
    const ConstBound b = impl.bound(v);
    if (finite(b)) continue;
    if (it->second.min && it->second.min.is<tir::IntImm>())
      inside = tir::logical_and(inside, tir::ge(v, it->second.min));
    if (it->second.max && it->second.max.is<tir::IntImm>())
      inside = tir::logical_and(inside, tir::le(v, it->second.max));
  }
  Analyzer::Scope scope = analyzer.assume(inside);
  IntInterval r = Intervals(domain, analyzer).of(x);
  if (r.min) r.min = analyzer.simplify(r.min);
  if (r.max) r.max = analyzer.simplify(r.max);
  return r;
}

}  // namespace tenon
