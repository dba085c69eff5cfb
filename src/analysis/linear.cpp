// SPDX-License-Identifier: Apache-2.0
// Linear forms over the sums of the analyzer.
#include "analysis/linear.h"

#include <algorithm>
#include <unordered_set>

#include "analysis/analyzer_impl.h"
#include "analysis/condition.h"
#include "ir/find_node.h"
#include "ir/intrinsic.h"

namespace tenon {

using namespace tir;
using analysis_detail::imm;
using analysis_detail::is_index;
using analysis_detail::wrap_add;

namespace {

using Impl = AnalyzerAccess::Impl;
using Sum = Impl::Sum;
using Term = Impl::Term;

std::unordered_set<const Var*> as_set(const std::vector<VarRef>& vars) {
  std::unordered_set<const Var*> out;
  for (const VarRef& v : vars) out.insert(v.get());
  return out;
}

/// Coefficients of vars as sums, and what is left.
struct Parts {
  std::vector<Sum> coefficients;
  Sum base;
};
std::optional<Parts> parts_of(const Sum& s, const std::vector<VarRef>& vars,
                              const std::unordered_set<const Var*>& set, Impl& impl) {
  Parts out;
  out.coefficients.resize(vars.size());
  out.base.base = s.base;
  for (const Term& t : s.terms) {
    std::optional<size_t> at, which;
    for (size_t i = 0; i < t.atoms.size(); ++i) {
      if (!mentions_any(t.atoms[i], set)) continue;
      const auto* v = t.atoms[i].as<Var>();
      if (!v || at) return std::nullopt;  // not linear, or a product of two
      at = i;
      for (size_t k = 0; k < vars.size(); ++k)
        if (vars[k].get() == v) which = k;
    }
    if (!at) {
      impl.add_term(out.base, t);
      continue;
    }
    Term rest = t;
    rest.atoms.erase(rest.atoms.begin() + ptrdiff_t(*at));
    Sum& c = out.coefficients[*which];
    if (rest.atoms.empty())
      c.base = wrap_add(c.base, rest.coeff);
    else
      impl.add_term(c, std::move(rest));
  }
  return out;
}

/// Comparisons of indices as sums that are at most zero; false when one is none.
bool collect(const PrimExpr& condition, Analyzer& analyzer, std::vector<Sum>& out,
             std::vector<PrimExpr>& others) {
  Impl& impl = AnalyzerAccess::of(analyzer);
  std::vector<PrimExpr> todo{condition};
  bool all = true;
  auto add = [&](const PrimExpr& low, const PrimExpr& high, int64_t more) {  // low + more <= high
    Sum d = impl.plus(impl.sum_of(low), impl.sum_of(high), -1);
    d.base = wrap_add(d.base, more);
    if (!impl.tame(d)) return false;
    out.push_back(std::move(d));
    return true;
  };
  while (!todo.empty()) {
    const PrimExpr c = todo.back();
    todo.pop_back();
    bool fine = false;
    if (split_conjunction(c, todo)) continue;
    if (const auto v = as_int(c); v && *v) continue;
    if (const auto* n = c.as<LT>(); n && is_index(n->a))
      fine = add(n->a, n->b, 1);
    else if (const auto* l = c.as<LE>(); l && is_index(l->a))
      fine = add(l->a, l->b, 0);
    else if (const auto* g = c.as<GT>(); g && is_index(g->a))
      fine = add(g->b, g->a, 1);
    else if (const auto* h = c.as<GE>(); h && is_index(h->a))
      fine = add(h->b, h->a, 0);
    else if (const auto* q = c.as<EQ>(); q && is_index(q->a))
      fine = add(q->a, q->b, 0) && add(q->b, q->a, 0);
    if (!fine) {
      others.push_back(c);
      all = false;
    }
  }
  return all;
}

}  // namespace

std::optional<LinearForm> detect_linear_equation(const PrimExpr& e, const std::vector<VarRef>& vars,
                                                 Analyzer& analyzer) {
  if (!is_index(e)) return std::nullopt;
  Impl& impl = AnalyzerAccess::of(analyzer);
  const auto parts = parts_of(impl.sum_of(e), vars, as_set(vars), impl);
  if (!parts) return std::nullopt;
  LinearForm out;
  for (const Sum& c : parts->coefficients) out.coefficients.push_back(impl.expr_of(c));
  out.base = impl.expr_of(parts->base);
  return out;
}

std::optional<std::vector<IntInterval>> detect_clip_bound(const PrimExpr& condition,
                                                          const std::vector<VarRef>& vars,
                                                          Analyzer& analyzer) {
  Impl& impl = AnalyzerAccess::of(analyzer);
  std::vector<Sum> sums;
  std::vector<PrimExpr> others;
  if (!collect(condition, analyzer, sums, others)) return std::nullopt;
  const auto set = as_set(vars);
  std::vector<IntInterval> out(vars.size());
  for (const Sum& s : sums) {
    const auto parts = parts_of(s, vars, set, impl);
    if (!parts) return std::nullopt;
    std::optional<size_t> only;
    for (size_t i = 0; i < vars.size(); ++i) {
      const Sum& c = parts->coefficients[i];
      if (c.is_const() && c.base == 0) continue;
      if (only || !c.is_const()) return std::nullopt;
      only = i;
    }
    if (!only) return std::nullopt;
    const int64_t c = parts->coefficients[*only].base;
    IntInterval& b = out[*only];
    if (c == INT64_MIN) return std::nullopt;
    if (c > 0) {  // c·v ≤ -base
      const PrimExpr end = analyzer.simplify(floordiv(impl.expr_of(impl.times(parts->base, -1)), imm(c)));
      b.max = b.max ? analyzer.simplify(tir::min(b.max, end)) : end;
    } else {  // -c·v ≥ base
      const PrimExpr end = analyzer.simplify(ceildiv(impl.expr_of(parts->base), imm(-c)));
      b.min = b.min ? analyzer.simplify(tir::max(b.min, end)) : end;
    }
  }
  return out;
}

std::optional<InequalitySolution> solve_linear_inequalities(const std::vector<VarRef>& vars,
                                                            const std::vector<PrimExpr>& conditions,
                                                            Analyzer& analyzer, size_t limit) {
  Impl& impl = AnalyzerAccess::of(analyzer);
  InequalitySolution out;
  out.bounds.resize(vars.size());
  const auto set = as_set(vars);
  std::vector<Sum> sums;  // each at most zero
  for (const PrimExpr& c : conditions) collect(c, analyzer, sums, out.others);
  // Those that are not linear with constant coefficients are left to the caller.
  std::vector<Sum> linear;
  for (Sum& s : sums) {
    const auto parts = parts_of(s, vars, set, impl);
    bool fine = parts.has_value();
    if (fine)
      for (const Sum& c : parts->coefficients) fine = fine && c.is_const();
    if (fine)
      linear.push_back(std::move(s));
    else
      out.others.push_back(le(impl.expr_of(s), imm(0)));
  }
  auto keep = [&](std::vector<Sum>& list, Sum s) {
    int64_t g = 0;
    for (const Term& t : s.terms) g = analysis_detail::gcd(g, t.coeff);
    if (g > 1) {  // g·x + base ≤ 0 is x + ⌈base / g⌉ ≤ 0
      for (Term& t : s.terms) t.coeff /= g;
      s.base = -analysis_detail::floor_div(-s.base, g);
    }
    for (Sum& other : list) {
      if (other.terms.size() != s.terms.size()) continue;
      const Sum d = impl.plus(s, other, -1);
      if (!d.is_const()) continue;
      if (d.base > 0) other = s;  // the stronger one
      return;
    }
    list.push_back(std::move(s));
  };
  for (size_t i = vars.size(); i-- > 0;) {
    std::vector<Sum> without;
    std::vector<std::pair<int64_t, Sum>> above, below;  // c·v + rest ≤ 0 by the sign of c
    for (const Sum& s : linear) {
      const auto parts = parts_of(s, {vars[i]}, {vars[i].get()}, impl);
      const int64_t c = parts->coefficients[0].base;
      if (c == 0)
        keep(without, s);
      else
        (c > 0 ? above : below).emplace_back(c, parts->base);
    }
    VariableBounds& b = out.bounds[i];
    for (auto& [c, rest] : above)
      b.upper.push_back(analyzer.simplify(floordiv(impl.expr_of(impl.times(rest, -1)), imm(c))));
    for (auto& [c, rest] : below) b.lower.push_back(analyzer.simplify(ceildiv(impl.expr_of(rest), imm(-c))));
    for (auto& [c, x] : above)
      for (auto& [d, y] : below) {
        // c·v + x ≤ 0 and d·v + y ≤ 0 with c > 0 > d give c·y - d·x ≤ 0.
        const int64_t g = analysis_detail::gcd(c, d);
        keep(without, impl.plus(impl.times(y, c / g), x, -d / g));
        if (without.size() > limit) return std::nullopt;
      }
    linear = std::move(without);
  }
  for (const Sum& s : linear)
    if (!(s.is_const() && s.base <= 0)) out.others.push_back(analyzer.simplify(le(impl.expr_of(s), imm(0))));
  return out;
}

/// The term of highest degree, among equals the first: an order that products keep. Null of 0.
static std::optional<Term> leading(const Sum& s) {
  const Term* best = nullptr;
  for (const Term& t : s.terms)
    if (!best || t.atoms.size() > best->atoms.size()) best = &t;
  if (best) return *best;
  return s.base ? std::optional(Term{{}, s.base}) : std::nullopt;
}

/// a / b of two terms; null when it does not come out even.
static std::optional<Term> quotient(const Term& a, const Term& b, Impl& impl) {
  if (a.coeff == INT64_MIN || a.coeff % b.coeff != 0 || a.atoms.size() < b.atoms.size()) return std::nullopt;
  Term out{a.atoms, a.coeff / b.coeff};
  for (const PrimExpr& atom : b.atoms) {
    const auto at = std::find_if(out.atoms.begin(), out.atoms.end(),
                                 [&](const PrimExpr& x) { return impl.compare(x, atom) == 0; });
    if (at == out.atoms.end()) return std::nullopt;
    out.atoms.erase(at);
  }
  return out;
}

std::optional<PrimExpr> exact_quotient(const PrimExpr& a, const PrimExpr& b, Analyzer& analyzer) {
  constexpr int most_terms = 64;
  Impl& impl = AnalyzerAccess::of(analyzer);
  Sum rest = impl.sum_of(a), out;
  const Sum divisor = impl.sum_of(b);
  const auto by = leading(divisor);
  if (!by || !impl.tame(rest) || !impl.tame(divisor)) return std::nullopt;
  for (int step = 0; step < most_terms; ++step) {
    const auto first = leading(rest);
    if (!first) return impl.expr_of(out);
    const auto part = quotient(*first, *by, impl);
    if (!part) return std::nullopt;
    Sum factor;
    if (part->atoms.empty())
      factor.base = part->coeff;
    else
      factor.terms.push_back(*part);
    out = impl.plus(out, factor);
    const auto product = impl.times(divisor, factor);
    if (!product) return std::nullopt;
    rest = impl.plus(rest, *product, -1);
  }
  return std::nullopt;
}

static bool is_pure(const tir::Call& c) {
  const Intrinsic* i = find_intrinsic(c.op);
  return i && i->pure;
}

bool loop_invariant(const PrimExpr& e, const For& loop) {
  std::unordered_set<const Var*> defined{loop.loop_var.get()};
  std::unordered_set<const Var*> written;
  bool unknown = false;  // something in the loop may write anything
  pre_order(loop.body, [&](const ObjectRef& o) {
    if (const auto* f = o.as<For>()) defined.insert(f->loop_var.get());
    if (const auto* l = o.as<LetStmt>()) defined.insert(l->var.get());
    if (const auto* b = o.as<Block>())
      for (const IterVar& v : b->iter_vars) defined.insert(v->var.get());
    if (const auto* s = o.as<BufferStore>()) written.insert(s->buffer->data.get());
    if (const auto* c = o.as<tir::Call>()) unknown = unknown || !is_pure(*c);
    return true;
  });
  bool same = true;
  pre_order(e, [&](const ObjectRef& o) {
    if (const auto* v = o.as<Var>()) same = same && !defined.count(v);
    if (const auto* l = o.as<BufferLoad>()) same = same && !unknown && !written.count(l->buffer->data.get());
    if (o.is<ProducerLoad>()) same = false;
    if (const auto* c = o.as<tir::Call>()) same = same && is_pure(*c);
    return same;
  });
  return same;
}

}  // namespace tenon
