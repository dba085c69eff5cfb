// SPDX-License-Identifier: Apache-2.0
// Analyzer: what is known about variables, and the public face over simplify, bounds and proofs.
#include <algorithm>

#include "analysis/analyzer_impl.h"
#include "analysis/condition.h"
#include "base/time_limit.h"

namespace tenon {

using namespace analysis_detail;

Analyzer::Impl& AnalyzerAccess::of(Analyzer& a) { return *a.impl_; }

// ---------------------------------------------------------------- known facts
int Analyzer::Impl::id_of(const Object* o) {
  auto [it, made] = order.try_emplace(o, int(order.size()));
  if (made) ordered.push_back(ObjectRef(o));
  return it->second;
}

void Analyzer::Impl::forget() {
  memo.clear();
  found.clear();
  allowed.reset();
}

void Analyzer::Impl::set_var(const tir::Var* v, VarInfo info) {
  Undo u;
  u.var = v;
  auto it = vars.find(v);
  u.existed = it != vars.end();
  if (u.existed) u.old = it->second;
  if (scopes) log.push_back(std::move(u));
  vars[v] = std::move(info);
  forget();
}

void Analyzer::Impl::undo_to(size_t mark) {
  while (log.size() > mark) {
    Undo u = std::move(log.back());
    log.pop_back();
    if (!u.var) {
      facts.resize(u.facts);
      literals.resize(u.literals);
      --scopes;
    } else if (u.existed) {
      vars[u.var] = std::move(u.old);
    } else {
      vars.erase(u.var);
    }
  }
  forget();
}

void Analyzer::Impl::add_fact(Sum s) {
  if (!tame(s)) return;
  // Each variable that stands alone in a term is bounded by what the others can be.
  for (const Term& t : s.terms) {
    if (t.atoms.size() != 1 || !t.atoms[0].is<Var>()) continue;
    Sum rest = s;
    add_term(rest, {t.atoms, -t.coeff});
    const ConstBound r = bound(rest, 0);
    if (r.max == pos_inf) continue;
    // coeff·v + rest ≥ 0  →  coeff·v ≥ -max(rest)
    const auto* v = t.atoms[0].as<Var>();
    auto it = vars.find(v);
    VarInfo info = it == vars.end() ? VarInfo() : it->second;
    info.var = VarRef(Ref<Var>(v));
    ConstBound b = info.bound;
    if (r.max == neg_inf || t.coeff == neg_inf) continue;
    if (t.coeff > 0)
      b.min = std::max(b.min, -floor_div(r.max, t.coeff));
    else
      b.max = std::min(b.max, floor_div(r.max, -t.coeff));
    if (b.min > b.max || (b.min == info.bound.min && b.max == info.bound.max)) continue;
    info.bound = b;
    set_var(v, std::move(info));
  }
  std::vector<Sum> more = positive_factors(s);
  facts.push_back(std::move(s));
  forget();
  for (Sum& f : more) add_fact(std::move(f));
}

/// Of n · m + n · k > 0, sizes that are not negative: n > 0 and m + k > 0.
std::vector<Analyzer::Impl::Sum> Analyzer::Impl::positive_factors(const Sum& s) {
  if (s.base >= 0 || s.terms.empty() || (s.terms.size() == 1 && s.terms[0].atoms.size() == 1)) return {};
  for (const Term& t : s.terms) {
    if (t.coeff <= 0) return {};
    for (const PrimExpr& a : t.atoms)
      if (bound(a).min < 0) return {};
  }
  std::vector<Sum> out;
  std::vector<Term> rest = s.terms;
  for (const PrimExpr& a : s.terms[0].atoms) {
    auto find = [&](const Term& t) {
      return std::ranges::find_if(t.atoms, [&](const PrimExpr& b) { return compare(a, b) == 0; });
    };
    if (std::ranges::any_of(rest, [&](const Term& t) { return find(t) == t.atoms.end(); })) continue;
    for (Term& t : rest) t.atoms.erase(find(t));
    out.push_back(plus(parse(a), Sum{{}, -1}));
  }
  if (out.empty() || rest.size() == 1) return out;
  Sum left{{}, -1};
  for (Term& t : rest) {
    if (t.atoms.empty())
      left.base = wrap_add(left.base, t.coeff);
    else
      add_term(left, std::move(t));
  }
  out.push_back(std::move(left));
  return out;
}

/// What the remainder of a division says of the variable in it, (v + n) % m == r, where it has one alone.
void Analyzer::Impl::add_remainder(const PrimExpr& remainder, const PrimExpr& is) {
  const auto* mod = remainder.as<tir::FloorMod>();
  const auto m = mod ? tir::as_int(mod->b) : std::nullopt, r = tir::as_int(is);
  if (!m || *m <= 1 || !small(*m) || !r || !small(*r)) return;
  const Sum s = parse(mod->a);
  if (s.terms.size() != 1 || s.terms[0].coeff != 1 || s.terms[0].atoms.size() != 1) return;
  const auto* v = s.terms[0].atoms[0].as<Var>();
  if (!v || !small(s.base) || !tame(s)) return;
  auto it = vars.find(v);
  VarInfo info = it == vars.end() ? VarInfo() : it->second;
  if (info.modular.coeff % *m == 0) return;
  info.var = VarRef(Ref<Var>(v));
  info.modular = {*m, floor_mod(wrap_add(*r, -s.base), *m)};
  ConstBound& b = info.bound;
  if (small(b.min)) b.min += floor_mod(info.modular.base - b.min, *m);
  if (small(b.max)) b.max -= floor_mod(b.max - info.modular.base, *m);
  if (b.min <= b.max) set_var(v, std::move(info));
}

void Analyzer::Impl::assume(const PrimExpr& condition) {
  ++scopes;
  Undo u;
  u.facts = facts.size();
  u.literals = literals.size();
  log.push_back(std::move(u));
  std::vector<PrimExpr> todo{condition};
  for (int taken = 0; !todo.empty() && taken < 256; ++taken) {  // of a longer conjunction, the first
    PrimExpr c = todo.back();
    todo.pop_back();
    // Conjunctions are split before their parts are simplified: each part once, however they nest.
    if (!c.is<tir::And>()) c = simplify(c);
    if (c.dtype().is_vector() || c.is<tir::IntImm>()) continue;
    if (split_conjunction(c, todo)) continue;
    // What is odd or even is one of them.
    if (const auto* n = c.as<tir::NE>()) {
      const auto* mod = n->a.as<tir::FloorMod>();
      const auto r = tir::as_int(n->b);
      if (mod && r && tir::is_const_int(mod->b, 2) && (*r == 0 || *r == 1)) {
        todo.push_back(tir::eq(n->a, PrimExpr(1 - *r)));
        continue;
      }
    }
    if (const auto* n = c.as<tir::Not>()) {
      if (const auto* o = n->a.as<tir::Or>()) {
        todo.push_back(tir::logical_not(o->b));
        todo.push_back(tir::logical_not(o->a));
        continue;
      }
    }
    if (const auto* n = c.as<tir::LT>(); n && is_index(n->a)) {
      Sum d = plus(parse(n->b), parse(n->a), -1);
      d.base = wrap_add(d.base, -1);
      add_fact(std::move(d));
    } else if (const auto* l = c.as<tir::LE>(); l && is_index(l->a)) {
      add_fact(plus(parse(l->b), parse(l->a), -1));
    } else if (const auto* q = c.as<tir::EQ>(); q && is_index(q->a)) {
      Sum d = plus(parse(q->a), parse(q->b), -1);
      add_remainder(q->a, q->b);
      add_fact(times(d, -1));
      add_fact(std::move(d));
    } else {
      literals.push_back(c);
    }
  }
  forget();
}

// ---------------------------------------------------------------- the face
Analyzer::Analyzer() : impl_(std::make_unique<Impl>()) {}
Analyzer::Analyzer(GivenUpProofs& given_up, std::string_view asker) : Analyzer() {
  impl_->given_up = &given_up;
  impl_->asker = asker;
}
Analyzer::~Analyzer() = default;

void Analyzer::bind(const tir::VarRef& v, const tir::Range& range, bool) {
  Impl::VarInfo info;
  info.var = v;
  impl_->id_of(v.get());
  const PrimExpr min = impl_->simplify(range->min), extent = impl_->simplify(range->extent);
  if (tir::is_one(extent)) return bind(v, min, true);
  info.range = tir::range(min, extent);
  const ConstBound lo = impl_->bound(min), n = impl_->bound(extent);
  info.bound = add(lo, {0, n.max == pos_inf ? pos_inf : std::max<int64_t>(n.max - 1, 0)});
  if (info.bound.max < info.bound.min) info.bound.max = info.bound.min;
  info.bound = intersect(info.bound, of_type(v->dtype));
  info.wild = !impl_->tame(min);
  impl_->set_var(v.get(), std::move(info));
}

void Analyzer::bind(const tir::VarRef& v, const PrimExpr& value, bool) {
  Impl::VarInfo info;
  info.var = v;
  impl_->id_of(v.get());
  info.value = impl_->simplify(value);
  info.bound = impl_->bound(info.value);
  info.modular = impl_->modular(info.value);
  info.wild = is_index(value) && !impl_->tame(info.value);
  impl_->set_var(v.get(), std::move(info));
}

void Analyzer::assume_size(const tir::VarRef& v, int64_t at_least) {
  Impl::VarInfo info;
  info.var = v;
  impl_->id_of(v.get());
  info.bound = intersect({at_least, pos_inf}, of_type(v->dtype));
  impl_->set_var(v.get(), std::move(info));
}

Analyzer::Scope::Scope(Analyzer* owner, size_t mark) : owner_(owner), mark_(mark) {}
Analyzer::Scope::Scope(Scope&& other) noexcept
    : owner_(std::exchange(other.owner_, nullptr)), mark_(other.mark_) {}
Analyzer::Scope::~Scope() {
  if (owner_) owner_->impl_->undo_to(mark_);
}
Analyzer::Scope Analyzer::assume(const PrimExpr& condition) {
  const size_t mark = impl_->log.size();
  impl_->assume(condition);
  return Scope(this, mark);
}

PrimExpr Analyzer::simplify(const PrimExpr& e) {
  TimeLimit::check();
  return impl_->simplify(e);
}
bool Analyzer::can_prove(const PrimExpr& condition) {
  TimeLimit::check();
  return impl_->prove(condition, 6);
}

bool Analyzer::can_prove_equal(const PrimExpr& a, const PrimExpr& b) {
  if (a.same_as(b)) return true;
  if (a.dtype() != b.dtype()) return false;
  if (!is_index(a) || !is_index(b)) return impl_->compare(impl_->simplify(a), impl_->simplify(b)) == 0;
  const Impl::Sum d = impl_->recombine(impl_->plus(impl_->sum_of(a), impl_->sum_of(b), -1));
  if (d.is_const()) return d.base == 0;
  if (impl_->value(d).value_or(0) != 0 && impl_->point_is_allowed()) return false;
  return impl_->tame(d) && impl_->nonnegative(d, 4) && impl_->nonnegative(impl_->times(d, -1), 4);
}
bool Analyzer::can_prove_ge(const PrimExpr& e, int64_t bound) {
  if (impl_->bound(e).min >= bound) return true;
  if (!is_index(e)) return false;
  Impl::Sum s = impl_->sum_of(e);
  if (!impl_->tame(s)) return false;
  s.base = wrap_add(s.base, wrap_mul(bound, -1));
  return impl_->nonnegative(s, 6);
}
bool Analyzer::can_prove_lt(const PrimExpr& e, int64_t bound) {
  if (impl_->bound(e).max < bound) return true;
  if (!is_index(e)) return false;
  Impl::Sum s = impl_->times(impl_->sum_of(e), -1);
  if (!impl_->tame(s)) return false;
  s.base = wrap_add(s.base, wrap_add(bound, -1));
  return impl_->nonnegative(s, 6);
}
ConstBound Analyzer::bound(const PrimExpr& e) {
  return intersect(impl_->bound(e), impl_->bound(impl_->simplify(e)));
}
ModularSet Analyzer::modular(const PrimExpr& e) { return impl_->modular(impl_->simplify(e)); }

void Analyzer::observe_rules(RuleObserver* observer) { impl_->observer = observer; }

PrimExpr simplify(const PrimExpr& e) { return Analyzer().simplify(e); }

}  // namespace tenon
