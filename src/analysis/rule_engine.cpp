// SPDX-License-Identifier: Apache-2.0
// Rewrite rules applied to expressions, and to sums of products.
#include "analysis/rule_engine.h"

namespace tenon {

namespace analysis_detail {

namespace {

using Node = RuleTree::Node;

template <class Sum>
void split(const Sum& a, int64_t c, Sum& q, Sum& r) {
  for (const auto& t : a.terms) {
    const int64_t k = t.coeff / c, rest = t.coeff - k * c;
    if (k) q.terms.push_back({t.atoms, k});
    if (rest) r.terms.push_back({t.atoms, rest});
  }
  q.base = floor_div(a.base, c);
  r.base = floor_mod(a.base, c);
}
}  // namespace

void RuleMatch::observe(const PrimExpr& before) {
  if (!impl_.observer) return;
  const bool failed = std::exchange(failed_, false);
  if (const PrimExpr after = grow(rule_->replacement, int(rule_->replacement.nodes.size()) - 1, true))
    impl_.observer->applied(*rule_->rule, before, after, impl_.scopes);
  failed_ = failed;
}
PrimExpr RuleMatch::apply(const ReadyRule& rule, const PrimExpr& e) {
  lanes_ = e.dtype().lanes;
  if (lanes_ > 32767) return {};  // scalable: no number of lanes is known
  if (lanes_ > 1 ? !(rule.vector || rule.lanewise) : rule.vector) return {};
  const Node& root = rule.pattern.root();
  const Operands o = operands(e);
  // A look at the operands' kinds spares most attempts.
  auto may = [&](int child, const PrimExpr* x) {
    if (child < 0) return true;
    const Node& n = rule.pattern[child];
    if (n.constant || (n.closed && n.slot < 0)) return x->is<tir::IntImm>();
    return n.slot >= 0 || n.kind == (*x)->type_index;
  };
  const bool straight = may(root.child[0], o.a) && may(root.child[1], o.b) && may(root.child[2], o.c);
  const bool swapped = root.swap_bit >= 0 && may(root.child[0], o.b) && may(root.child[1], o.a);
  if (!straight && !swapped) return {};
  for (unsigned t = 0; t < 1u << rule.pattern.swaps; ++t) {
    swapped_ = t;
    if (!(root.swap_bit >= 0 && (t >> root.swap_bit & 1) ? swapped : straight)) continue;
    start(rule);
    failed_ = false;
    if (!match(int(rule.pattern.nodes.size()) - 1, e)) continue;
    if (rule.vector || rule.pattern.root().kind == kind_of<tir::Ramp>()) set('l', int64_t(lanes_));
    if (!conditions() || failed_) continue;
    if (type_.is_uint() && type_.bits == 64 && has_kind(rule.replacement, kind_of<tir::Min>())) continue;
    if (type_.is_uint() && type_.bits == 64 && has_kind(rule.replacement, kind_of<tir::Max>())) continue;
    PrimExpr r = grow(rule.replacement, int(rule.replacement.nodes.size()) - 1, false);
    if (failed_ || !r) continue;
    if (r.dtype() != e.dtype()) continue;
    observe(e);
    return r;
  }
  return {};
}

bool RuleMatch::find(const Sum& a, const PrimExpr& b, FunctionRef<bool()> then) {
  const auto divisor = b ? tir::as_int(b) : std::nullopt;
  const int64_t c = divisor.value_or(0);
  const RuleTree& tree = rule_->pattern;
  auto try_now = [&] {
    failed_ = false;
    return conditions() && !failed_ && then();
  };
  switch (rule_->rule->shape) {
    case RuleShape::whole:
      set('x', a);
      return try_now();
    case RuleShape::range: {
      const ConstBound range = impl_.bound(a);
      if (c <= 0 || !finite(range)) return false;
      set('x', a);
      set('k', floor_div(range.min, c));
      return floor_div(range.max, c) == floor_div(range.min, c) && try_now();
    }
    case RuleShape::known: {
      const ModularSet s = impl_.modular(a);
      if (s.coeff <= 1) return false;
      set('x', a);
      set('m', s.coeff);
      set('f', s.base);
      return try_now();
    }
    case RuleShape::split: {
      if (c <= 0) return false;
      Sum q, r;
      split(a, c, q, r);
      if (q.terms.empty() && q.base == 0) return false;
      set('q', std::move(q));
      set('r', std::move(r));
      return try_now();
    }
    case RuleShape::common: {
      int64_t g = c;
      for (const Term& t : a.terms) g = gcd(g, t.coeff);
      if (g <= 1) return false;
      Sum x;
      for (const Term& t : a.terms) x.terms.push_back({t.atoms, t.coeff / g});
      set('x', std::move(x));
      set('f', a.base);
      set('g', g);
      if (b) set('d', c / g);
      return try_now();
    }
    case RuleShape::scaled: {
      if (b && c <= 0) return false;
      std::vector<int64_t> steps;
      for (const Term& t : a.terms)
        if (t.coeff > 1 || (t.coeff < -1 && t.coeff != neg_inf))
          if (const int64_t g = std::abs(t.coeff); !b || (g < c && c % g == 0)) steps.push_back(g);
      std::sort(steps.rbegin(), steps.rend());
      steps.erase(std::unique(steps.begin(), steps.end()), steps.end());
      for (int64_t g : steps) {
        Sum x, r;
        for (const Term& t : a.terms)
          t.coeff % g == 0 ? x.terms.push_back({t.atoms, t.coeff / g}) : r.terms.push_back(t);
        const ConstBound range = impl_.bound(r);
        if (!finite(range) || x.terms.empty()) continue;
        x.base = floor_div(wrap_add(a.base, range.min), g);
        r.base = wrap_add(a.base, wrap_mul(x.base, -g));
        set('x', std::move(x));
        set('r', std::move(r));
        set('g', g);
        if (b) set('d', c / g);
        if (try_now()) return true;
      }
      return false;
    }
    case RuleShape::single: {
      if (!divisor || a.terms.size() != 1 || a.terms[0].coeff != 1 || a.terms[0].atoms.size() != 1)
        return false;
      int at = tree.root().child[0];
      if (tree[at].kind == kind_of<tir::Add>()) {
        set('f', a.base);
        at = tree[at].child[0];
      } else if (a.base != 0) {
        return false;
      }
      set('d', c);
      type_ = i64;
      return match(at, a.terms[0].atoms[0]) && try_now();
    }
    case RuleShape::term: {
      if (c <= 0) return false;
      const int at = tree[tree[tree.root().child[0]].child[0]].child[0];
      for (size_t i = 0; i < a.terms.size(); ++i) {
        for (size_t j = 0; j < a.terms[i].atoms.size(); ++j) {
          if (tree[at].kind != a.terms[i].atoms[j]->type_index) continue;
          start(*rule_);
          if (!match(at, a.terms[i].atoms[j])) continue;
          set('c', c);
          Sum r;
          r.base = a.base;
          for (size_t t = 0; t < a.terms.size(); ++t)
            if (t != i) r.terms.push_back(a.terms[t]);
          set('r', std::move(r));
          set('p', factor(a.terms[i], j));
          if (try_now()) return true;
        }
      }
      return false;
    }
    case RuleShape::multiple: {
      if (!b || divisor) return false;
      const Sum n = impl_.parse(b);
      if (n.terms.size() != 1 || n.base != 0 || n.terms[0].coeff != 1 || impl_.bound(n).min <= 0)
        return false;
      Sum q, r;
      r.base = a.base;
      for (const Term& t : a.terms) {
        Term rest = t;
        bool all = true;
        for (const PrimExpr& x : n.terms[0].atoms) {
          auto it = std::find_if(rest.atoms.begin(), rest.atoms.end(),
                                 [&](const PrimExpr& y) { return impl_.compare(x, y) == 0; });
          if (it == rest.atoms.end()) {
            all = false;
            break;
          }
          rest.atoms.erase(it);
        }
        if (!all)
          impl_.add_term(r, t);
        else if (rest.atoms.empty())
          q.base = wrap_add(q.base, t.coeff);
        else
          impl_.add_term(q, rest);
      }
      // A part that comes off must be there.
      if (q.is_const() && q.base == 0 && has_kind(rule_->replacement, tree.root().kind)) return false;
      set('q', std::move(q));
      set('r', std::move(r));
      set('n', n);
      return try_now();
    }
    default:
      return false;
  }
}

RuleMatch::Sum RuleMatch::factor(const Term& t, size_t without) {
  Term rest = t;
  rest.atoms.erase(rest.atoms.begin() + ptrdiff_t(without));
  Sum s;
  if (rest.atoms.empty())
    s.base = rest.coeff;
  else
    s.terms.push_back(std::move(rest));
  return s;
}

std::optional<RuleMatch::Sum> RuleMatch::divide(const ReadyRule& rule, const Sum& a, const PrimExpr& b) {
  start(rule);
  const Node& d = rule.pattern[rule.pattern.root().child[1]];
  if (d.slot >= 0 && d.constant) {
    const auto c = tir::as_int(b);
    if (!c) return std::nullopt;
    slots_[size_t(d.slot)] = {b, std::nullopt, *c, true};
  } else if (d.kind == kind_of<tir::IntImm>() && !tir::is_const_int(b, d.value)) {
    return std::nullopt;
  }
  std::optional<Sum> out;
  find(a, b, [&] {
    Sum s = grow_sum(rule.replacement, int(rule.replacement.nodes.size()) - 1);
    if (failed_) return false;
    if (impl_.observer) {
      const PrimExpr x = impl_.expr_of(a);
      observe(rule.pattern.root().kind == kind_of<tir::FloorDiv>() ? tir::floordiv(x, b)
                                                                   : tir::floormod(x, b));
    }
    out = std::move(s);
    return true;
  });
  return out;
}

PrimExpr RuleMatch::compare(const ReadyRule& rule, const Sum& a) {
  start(rule);
  PrimExpr out;
  find(a, PrimExpr(), [&] {
    const RuleTree& to = rule.replacement;
    if (to.root().closed) {
      out = PrimExpr::int_imm(to.root().value, boolean);
    } else {
      const Sum next = grow_sum(to, to.root().child[0]);
      if (failed_) return false;
      out = to.root().kind == kind_of<tir::LT>() ? impl_.less(next) : impl_.equal(next, false);
    }
    if (impl_.observer && out) {
      const PrimExpr x = impl_.expr_of(a);
      observe(rule.pattern.root().kind == kind_of<tir::LT>() ? tir::lt(x, imm(0)) : tir::eq(x, imm(0)));
    }
    return bool(out);
  });
  return out;
}

std::optional<RuleMatch::Sum> RuleMatch::min_max(const ReadyRule& rule, const Sum& a, const Sum& b) {
  start(rule);
  Sum z;
  for (const Term& t : a.terms)
    for (const Term& u : b.terms)
      if (t.coeff == u.coeff && impl_.compare(t.atoms, u.atoms) == 0) z.terms.push_back(t);
  if (z.terms.empty()) return std::nullopt;
  set('x', impl_.plus(a, z, -1));
  set('y', impl_.plus(b, z, -1));
  set('z', z);
  failed_ = false;
  if (!conditions()) return std::nullopt;
  Sum s = grow_sum(rule.replacement, int(rule.replacement.nodes.size()) - 1);
  if (failed_) return std::nullopt;
  if (impl_.observer) {
    const PrimExpr x = impl_.expr_of(a), y = impl_.expr_of(b);
    observe(rule.pattern.root().kind == kind_of<tir::Min>() ? tir::min(x, y) : tir::max(x, y));
  }
  return s;
}

std::optional<RuleMatch::Sum> RuleMatch::pair(const ReadyRule& rule, const Sum& s, size_t i, size_t j,
                                              size_t k, const PrimExpr& quotient) {
  const Term &low = s.terms[i], &other = s.terms[k];
  const auto* m = low.atoms[j].as<tir::FloorMod>();
  const int64_t c = *tir::as_int(m->b);
  // The first part's digit, and that all else in the two terms is the same.
  const Node& digit = rule.pattern[rule.pattern[rule.pattern.root().child[0]].child[0]];
  auto rest_is_same = [&](const PrimExpr& a) {
    if (other.atoms.size() != low.atoms.size()) return false;
    Term t = low;
    t.atoms.erase(t.atoms.begin() + ptrdiff_t(j));
    t.atoms.insert(
        std::upper_bound(t.atoms.begin(), t.atoms.end(), a,
                         [&](const PrimExpr& l, const PrimExpr& r) { return impl_.compare(l, r) < 0; }),
        a);
    return impl_.compare(other.atoms, t.atoms) == 0;
  };
  start(rule);
  set('y', impl_.parse(m->a));
  set('c', c);
  set('p', factor(low, j));
  bool found = false;
  if (digit.kind == kind_of<tir::FloorMod>()) {
    for (const PrimExpr& a : other.atoms) {
      const auto* n = a.as<tir::FloorMod>();
      const auto d = n ? tir::as_int(n->b) : std::nullopt;
      if (!d || impl_.compare(n->a, quotient) != 0 || !rest_is_same(a)) continue;
      set('d', *d);
      found = true;
      break;
    }
  } else if (rule.slot('z') < 0) {
    found = rest_is_same(quotient);
  } else {
    for (const PrimExpr& a : other.atoms) {
      const auto* n = a.as<tir::FloorDiv>();
      if (!n || !tir::is_const_int(n->b, c) || !rest_is_same(a)) continue;
      set('z', impl_.parse(n->a));
      found = true;
      break;
    }
  }
  failed_ = false;
  if (!found || !conditions() || failed_) return std::nullopt;
  Sum out = grow_sum(rule.replacement, int(rule.replacement.nodes.size()) - 1);
  if (failed_) return std::nullopt;
  if (impl_.observer) observe(impl_.expr_of(other) + impl_.expr_of(low));
  Sum rest;
  rest.base = s.base;
  for (size_t t = 0; t < s.terms.size(); ++t)
    if (t != i && t != k) rest.terms.push_back(s.terms[t]);
  return impl_.plus(rest, out);
}

}  // namespace analysis_detail

// ---------------------------------------------------------------- all rules of an operator
PrimExpr Analyzer::Impl::apply_rules(const PrimExpr& e) {
  const auto& rules = analysis_detail::rule_index().tree[e->type_index - kPrimExprBase];
  if (rules.empty()) return e;
  analysis_detail::RuleMatch m(*this);
  for (const auto* rule : rules)
    if (PrimExpr r = m.apply(*rule, e)) return r;
  return e;
}

}  // namespace tenon
