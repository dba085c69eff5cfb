// SPDX-License-Identifier: Apache-2.0
// Sums of products: the canonical form of integer expressions, and the order of their parts.
#include <cstring>
#include <functional>

#include "analysis/analyzer_impl.h"

namespace tenon {

using namespace analysis_detail;

// ---------------------------------------------------------------- order
int Analyzer::Impl::compare(const PrimExpr& a, const PrimExpr& b) {
  if (a.get() == b.get()) return 0;
  if (!a || !b) return a ? 1 : -1;
  if (a->type_index != b->type_index) return a->type_index < b->type_index ? -1 : 1;
  if (a.dtype() != b.dtype()) return a.dtype() < b.dtype() ? -1 : 1;
  if (a.is<Var>()) {
    const int x = id_of(a.get()), y = id_of(b.get());
    return x < y ? -1 : x > y;
  }
  if (const auto* x = a.as<tir::IntImm>()) {
    const int64_t v = x->value, w = b.as<tir::IntImm>()->value;
    return v < w ? -1 : v > w;
  }
  if (++depth > deepest) {  // deeper than any index: compared by identity
    --depth;
    return id_of(a.get()) < id_of(b.get()) ? -1 : 1;
  }
  std::function<int(const Any&, const Any&)> values = [&](const Any& x, const Any& y) -> int {
    if (x.tag() != y.tag()) return x.tag() < y.tag() ? -1 : 1;
    if (x.same_as(y)) return 0;
    if (!x.is_object()) {
      if (auto s = x.try_as<double>()) {
        const double v = *s, w = y.as<double>();
        if (v != w) return v < w ? -1 : 1;
        return std::memcmp(&v, &w, sizeof v);
      }
      if (auto t = x.try_as<DataType>()) return *t < y.as<DataType>() ? -1 : 1;
      return -1;
    }
    if (auto s = x.try_as<std::string>()) {
      const int c = s->compare(y.as<std::string>());
      return c < 0 ? -1 : c > 0;
    }
    const ObjectRef p(x.object()), q(y.object());
    if (p.is<tir::PrimExprNode>()) return compare(x.as<PrimExpr>(), y.as<PrimExpr>());
    if (p.is<ArrayObj>()) {
      const auto &v = p.as<ArrayObj>()->items, &w = q.as<ArrayObj>()->items;
      if (v.size() != w.size()) return v.size() < w.size() ? -1 : 1;
      for (size_t i = 0; i < v.size(); ++i)
        if (int c = values(v[i], w[i])) return c;
      return 0;
    }
    const int v = id_of(p.get()), w = id_of(q.get());
    return v < w ? -1 : v > w;
  };
  int r = 0;
  for (const FieldInfo& f : type_of(a)->fields)
    if ((r = values(f.get(a.get()), f.get(b.get())))) break;
  --depth;
  return r;
}

int Analyzer::Impl::compare(const std::vector<PrimExpr>& a, const std::vector<PrimExpr>& b) {
  for (size_t i = 0; i < a.size() && i < b.size(); ++i)
    if (int c = compare(a[i], b[i])) return c;
  return a.size() < b.size() ? -1 : a.size() > b.size();
}

// ---------------------------------------------------------------- arithmetic
void Analyzer::Impl::add_term(Sum& s, Term t) {
  if (t.coeff == 0) return;
  size_t low = 0, high = s.terms.size();
  while (low < high) {
    const size_t i = (low + high) / 2;
    const int c = compare(t.atoms, s.terms[i].atoms);
    if (c == 0) {
      s.terms[i].coeff = wrap_add(s.terms[i].coeff, t.coeff);
      if (s.terms[i].coeff == 0) s.terms.erase(s.terms.begin() + ptrdiff_t(i));
      return;
    }
    if (c > 0)
      low = i + 1;
    else
      high = i;
  }
  s.terms.insert(s.terms.begin() + ptrdiff_t(low), std::move(t));
}

Analyzer::Impl::Sum Analyzer::Impl::plus(const Sum& a, const Sum& b, int64_t k) {
  Sum r = a;
  r.base = wrap_add(r.base, wrap_mul(b.base, k));
  for (const Term& t : b.terms) add_term(r, {t.atoms, wrap_mul(t.coeff, k)});
  return r;
}

/// Many sums at once: sorted, then merged.
Analyzer::Impl::Sum Analyzer::Impl::total_of(std::vector<std::pair<Sum, int64_t>> parts) {
  if (parts.empty()) return {};
  if (parts.size() == 1 && parts[0].second == 1) return std::move(parts[0].first);
  Sum r;
  if (parts.size() <= 16) {
    for (auto& [s, k] : parts) {
      r.base = wrap_add(r.base, wrap_mul(s.base, k));
      for (Term& t : s.terms) add_term(r, {std::move(t.atoms), wrap_mul(t.coeff, k)});
    }
    return r;
  }
  std::vector<Term> all;
  for (auto& [s, k] : parts) {
    r.base = wrap_add(r.base, wrap_mul(s.base, k));
    for (Term& t : s.terms) all.push_back({std::move(t.atoms), wrap_mul(t.coeff, k)});
  }
  std::stable_sort(all.begin(), all.end(),
                   [&](const Term& x, const Term& y) { return compare(x.atoms, y.atoms) < 0; });
  for (Term& t : all) {
    if (!r.terms.empty() && compare(r.terms.back().atoms, t.atoms) == 0)
      r.terms.back().coeff = wrap_add(r.terms.back().coeff, t.coeff);
    else
      r.terms.push_back(std::move(t));
  }
  std::erase_if(r.terms, [](const Term& t) { return t.coeff == 0; });
  return r;
}

Analyzer::Impl::Sum Analyzer::Impl::times(const Sum& a, int64_t k) {
  if (k == 0) return {};
  Sum r = a;
  r.base = wrap_mul(r.base, k);
  bool zero = false;
  for (Term& t : r.terms) zero = (t.coeff = wrap_mul(t.coeff, k)) == 0 || zero;
  if (zero) std::erase_if(r.terms, [](const Term& t) { return t.coeff == 0; });
  return r;
}

std::optional<Analyzer::Impl::Sum> Analyzer::Impl::times(const Sum& a, const Sum& b) {
  if (b.is_const()) return times(a, b.base);
  if (a.is_const()) return times(b, a.base);
  if ((a.terms.size() + 1) * (b.terms.size() + 1) > 36) return std::nullopt;
  Sum r = plus(times(a, b.base), times(b, a.base));
  r.base = wrap_mul(a.base, b.base);
  for (const Term& t : a.terms) {
    for (const Term& u : b.terms) {
      Term p{t.atoms, wrap_mul(t.coeff, u.coeff)};
      for (const PrimExpr& x : u.atoms)
        p.atoms.insert(
            std::upper_bound(p.atoms.begin(), p.atoms.end(), x,
                             [&](const PrimExpr& l, const PrimExpr& m) { return compare(l, m) < 0; }),
            x);
      if (p.atoms.size() > 8) return std::nullopt;
      add_term(r, std::move(p));
    }
  }
  return r;
}

Analyzer::Impl::Sum Analyzer::Impl::atom(const PrimExpr& e) {
  Sum s;
  if (auto v = tir::as_int(e))
    s.base = *v;
  else
    s.terms.push_back({{e}, 1});
  return s;
}

/// The summands of e, where `leaf` says what one is worth.
template <class F>
Analyzer::Impl::Sum Analyzer::Impl::summands(const PrimExpr& e, F leaf) {
  std::vector<std::pair<PrimExpr, int64_t>> todo{{e, 1}};
  std::vector<std::pair<Sum, int64_t>> parts;
  while (!todo.empty()) {
    const auto [x, k] = std::move(todo.back());
    todo.pop_back();
    if (const auto* n = x.as<tir::Add>()) {
      todo.emplace_back(n->b, k);
      todo.emplace_back(n->a, k);
    } else if (const auto* m = x.as<tir::Sub>()) {
      todo.emplace_back(m->b, wrap_mul(k, -1));
      todo.emplace_back(m->a, k);
    } else {
      parts.emplace_back(leaf(x), k);
    }
  }
  return total_of(std::move(parts));
}

Analyzer::Impl::Sum Analyzer::Impl::parse(const PrimExpr& e) {
  if (!is_index(e)) return atom(e);
  const bool sum = e.is<tir::Add>() || e.is<tir::Sub>();
  if (!sum && !e.is<tir::Mul>()) return atom(e);
  auto product = [&](const PrimExpr& x) {
    const auto* n = x.as<tir::Mul>();
    if (!n || depth > deepest) return atom(x);
    ++depth;
    std::optional<Sum> p = times(parse(n->a), parse(n->b));
    --depth;
    return p ? *p : atom(x);
  };
  return sum ? summands(e, product) : product(e);
}

Analyzer::Impl::Sum Analyzer::Impl::sum_of(const PrimExpr& e) {
  if (!is_index(e)) return parse(simplify(e));
  auto product = [&](const PrimExpr& x) {
    const auto* n = x.as<tir::Mul>();
    if (!n || depth > 240) return parse(n && settling ? x : simplify(x));
    ++depth;
    const Sum a = sum_of(n->a), b = sum_of(n->b);
    --depth;
    if (std::optional<Sum> p = times(a, b)) return *p;
    return atom(expr_of(a) * expr_of(b));
  };
  return e.is<tir::Add>() || e.is<tir::Sub>() ? summands(e, product) : product(e);
}

PrimExpr Analyzer::Impl::expr_of(const Term& t) {
  PrimExpr r = t.atoms[0];
  for (size_t i = 1; i < t.atoms.size(); ++i) r = r * t.atoms[i];
  return t.coeff == 1 ? r : r * imm(t.coeff);
}

PrimExpr Analyzer::Impl::expr_of(const Sum& s) {
  PrimExpr r;
  for (const Term& t : s.terms)
    if (t.coeff > 0) r = r ? r + expr_of(t) : expr_of(t);
  const bool base_first = !r && s.base > 0;
  if (base_first) r = imm(s.base);
  for (const Term& t : s.terms) {
    if (t.coeff > 0) continue;
    if (!r)
      r = expr_of(t);
    else if (t.coeff == neg_inf)
      r = r + expr_of(t);
    else
      r = r - expr_of(Term{t.atoms, -t.coeff});
  }
  if (!r) return imm(s.base);
  if (base_first || s.base == 0) return r;
  return s.base > 0 || s.base == neg_inf ? r + imm(s.base) : r - imm(-s.base);
}

// ---------------------------------------------------------------- terms from data
bool Analyzer::Impl::tame(const Sum& s) {
  for (const Term& t : s.terms)
    for (const PrimExpr& a : t.atoms)
      if (!tame(a)) return false;
  return true;
}

bool Analyzer::Impl::tame(const PrimExpr& e) {
  return e.is<tir::IntImm>() || e.is<Var>() ? find_tame(e) : recall(e, &Found::tame, &Impl::find_tame);
}

bool Analyzer::Impl::find_tame(const PrimExpr& e) {
  if (e.is<tir::IntImm>()) return true;
  if (const auto* v = e.as<Var>()) {
    auto it = vars.find(v);
    return it == vars.end() || !it->second.wild || finite(it->second.bound);
  }
  if (!is_index(e) && !e.dtype().is_bool()) return e.dtype().is_integer() && e.dtype().bits < 64;
  if (e.is<tir::BufferLoad>() || e.is<tir::ProducerLoad>() || e.is<tir::Call>() || e.is<tir::Let>() ||
      e.is<tir::Reduce>() || e.is<tir::Shuffle>())
    return finite(bound(e));
  if (e.is<tir::Cast>()) {
    const ConstBound b = bound(e);
    return finite(b) || (is_index(e.as<tir::Cast>()->value) && tame(e.as<tir::Cast>()->value));
  }
  if (++depth > deepest) {
    --depth, ++too_deep;
    return false;
  }
  bool ok = true;
  for (const FieldInfo& f : type_of(e)->fields) {  // none of those left has a list of operands
    const auto* c = f.is_ref ? f.ref(e.get())->as<tir::PrimExprNode>() : nullptr;
    if (c && !tame(PrimExpr(Ref<tir::PrimExprNode>(c)))) {
      ok = false;
      break;
    }
  }
  --depth;
  return ok;
}

}  // namespace tenon
