// SPDX-License-Identifier: Apache-2.0
// Constant bounds, modular sets and proofs of non-negativity.
#include "analysis/analyzer_impl.h"
#include "ir/intrinsic.h"

namespace tenon {
namespace analysis_detail {

static int64_t saturate(__int128 v) { return v >= pos_inf ? pos_inf : v <= neg_inf ? neg_inf : int64_t(v); }
static bool infinite(int64_t v) { return v == neg_inf || v == pos_inf; }

static int64_t add_end(int64_t a, int64_t b) {
  if (infinite(a)) return a;
  if (infinite(b)) return b;
  return saturate(__int128(a) + b);
}
static int64_t mul_end(int64_t a, int64_t b) {
  if (a == 0 || b == 0) return 0;
  if (infinite(a) || infinite(b)) return (a < 0) == (b < 0) ? pos_inf : neg_inf;
  return saturate(__int128(a) * b);
}
ConstBound add(const ConstBound& a, const ConstBound& b) {
  return {add_end(a.min, b.min), add_end(a.max, b.max)};
}
ConstBound multiply(const ConstBound& a, const ConstBound& b) {
  const int64_t v[] = {mul_end(a.min, b.min), mul_end(a.min, b.max), mul_end(a.max, b.min),
                       mul_end(a.max, b.max)};
  return {*std::min_element(v, v + 4), *std::max_element(v, v + 4)};
}
ConstBound scale(const ConstBound& a, int64_t k) { return multiply(a, {k, k}); }
ConstBound join(const ConstBound& a, const ConstBound& b) {
  return {std::min(a.min, b.min), std::max(a.max, b.max)};
}
ConstBound intersect(const ConstBound& a, const ConstBound& b) {
  ConstBound r{std::max(a.min, b.min), std::min(a.max, b.max)};
  return r.min > r.max ? a : r;
}
ConstBound of_type(DataType t) {
  if (t.is_bool()) return {0, 1};
  if (t.is_int() && t.bits < 64) return {-(int64_t(1) << (t.bits - 1)), (int64_t(1) << (t.bits - 1)) - 1};
  if (t.is_uint() && t.bits < 64) return {0, (int64_t(1) << t.bits) - 1};
  return {};
}

static int64_t div_end(int64_t a, int64_t b, bool floor) {
  if (infinite(a)) return (a < 0) == (b < 0) ? pos_inf : neg_inf;
  if (infinite(b)) return floor && a != 0 && (a < 0) != (b < 0) ? -1 : 0;
  return floor ? floor_div(a, b) : a / b;
}
/// Quotients over a divisor of one sign.
static ConstBound divide(const ConstBound& a, const ConstBound& b, bool floor) {
  if (b.min <= 0 && b.max >= 0) return {};
  const int64_t v[] = {div_end(a.min, b.min, floor), div_end(a.min, b.max, floor),
                       div_end(a.max, b.min, floor), div_end(a.max, b.max, floor)};
  return {*std::min_element(v, v + 4), *std::max_element(v, v + 4)};
}
static ModularSet join(const ModularSet& a, const ModularSet& b) {
  const int64_t g = gcd(gcd(a.coeff, b.coeff), wrap_add(a.base, wrap_mul(b.base, -1)));
  return {g, g ? floor_mod(a.base, g) : a.base};
}
static ModularSet normal(ModularSet m) {
  if (m.coeff < 0) m.coeff = wrap_mul(m.coeff, -1);
  if (m.coeff < 0 || !small(m.coeff)) return m.coeff == 0 ? m : ModularSet{};
  if (m.coeff) m.base = floor_mod(m.base, m.coeff);
  return m;
}

}  // namespace analysis_detail

using namespace analysis_detail;

// ---------------------------------------------------------------- bounds
ConstBound Analyzer::Impl::bound(const Term& t) {
  ConstBound b{1, 1};
  for (size_t i = 0; i < t.atoms.size(); ++i) {
    const ConstBound x = bound(t.atoms[i]);
    // An even power is not negative.
    if (i + 1 < t.atoms.size() && compare(t.atoms[i], t.atoms[i + 1]) == 0) {
      ConstBound square = multiply(x, x);
      square.min = x.min > 0 || x.max < 0 ? std::max<int64_t>(square.min, 0) : 0;
      b = multiply(b, square);
      ++i;
      continue;
    }
    b = multiply(b, x);
  }
  return scale(b, t.coeff);
}

ConstBound Analyzer::Impl::bound(const Sum& s, int effort) {
  ConstBound r{s.base, s.base};
  for (const Term& t : s.terms) r = add(r, bound(t));
  // min(x, y) - x is at most 0, though neither alone is bounded: try each side in its place.
  if (effort > 0 && s.terms.size() > 1 && s.terms.size() <= 64 && !(finite(r) && r.min == r.max)) {
    for (const Term& t : s.terms) {
      if (t.atoms.size() != 1) continue;
      const auto* lo = t.atoms[0].as<tir::Min>();
      const auto* hi = t.atoms[0].as<tir::Max>();
      if (!lo && !hi) continue;
      const bool upper = (lo != nullptr) == (t.coeff > 0);  // each side bounds the sum from above
      for (const PrimExpr& side : {lo ? lo->a : hi->a, lo ? lo->b : hi->b}) {
        Sum rest = s;
        add_term(rest, {t.atoms, wrap_mul(t.coeff, -1)});
        const ConstBound b = bound(plus(rest, parse(side), t.coeff), effort - 1);
        if (upper)
          r.max = std::min(r.max, b.max);
        else
          r.min = std::max(r.min, b.min);
      }
    }
  }
  if (!finite(r) && !tame(s)) return {};
  return r;
}

ConstBound Analyzer::Impl::bound(const PrimExpr& e) {
  return e.is<tir::IntImm>() || e.is<tir::Var>() ? find_bound(e)
                                                 : recall(e, &Found::bound, &Impl::find_bound);
}

ConstBound Analyzer::Impl::find_bound(const PrimExpr& e) {
  const DataType type = e.dtype();
  if (type.is_float() || type.is_handle() || type.is_void()) return {};
  const ConstBound all = of_type(type);
  auto fits = [&](ConstBound b) { return b.min >= all.min && b.max <= all.max ? b : all; };
  if (++depth > deepest) {
    --depth, ++too_deep;
    return all;
  }
  auto arithmetic = [&](ConstBound b) {
    if (type == i64) return (finite(b) || tame(e)) ? b : ConstBound();
    if (type.bits == 64) return all;  // unsigned values wrap
    return finite(b) ? fits(b) : all;
  };
  const bool wraps_64 = type.is_uint() && type.bits == 64;
  ConstBound r = match<ConstBound>(
      e, [&](const tir::IntImm& n) { return wraps_64 && n.value < 0 ? all : ConstBound{n.value, n.value}; },
      [&](const tir::Var& n) {
        auto it = vars.find(&n);
        return it == vars.end() ? all : intersect(it->second.bound, all);
      },
      [&](const tir::Add& n) { return arithmetic(add(bound(n.a), bound(n.b))); },
      [&](const tir::Sub& n) { return arithmetic(add(bound(n.a), scale(bound(n.b), -1))); },
      [&](const tir::Mul& n) { return arithmetic(multiply(bound(n.a), bound(n.b))); },
      [&](const tir::FloorDiv& n) {
        return wraps_64 ? all : fits(analysis_detail::divide(bound(n.a), bound(n.b), true));
      },
      [&](const tir::Div& n) {
        return wraps_64 ? all : fits(analysis_detail::divide(bound(n.a), bound(n.b), false));
      },
      [&](const tir::FloorMod& n) {
        if (wraps_64) return all;
        const ConstBound a = bound(n.a), b = bound(n.b);
        if (b.min <= 0) return all;
        if (a.min >= 0 && a.max < b.min) return a;
        ConstBound m{0, b.max == pos_inf ? pos_inf : b.max - 1};
        if (a.min >= 0) m.max = std::min(m.max, a.max);
        return m;
      },
      [&](const tir::Mod& n) {
        if (wraps_64) return all;
        const ConstBound a = bound(n.a), b = bound(n.b);
        if (b.min <= 0) return all;
        const int64_t top = b.max == pos_inf ? pos_inf : b.max - 1;
        ConstBound m{a.min >= 0 ? 0 : top == pos_inf ? neg_inf : -top, a.max <= 0 ? 0 : top};
        if (a.min >= 0) m.max = std::min(m.max, a.max);
        return m;
      },
      [&](const tir::Min& n) {
        const ConstBound a = bound(n.a), b = bound(n.b);
        return wraps_64 ? all : ConstBound{std::min(a.min, b.min), std::min(a.max, b.max)};
      },
      [&](const tir::Max& n) {
        const ConstBound a = bound(n.a), b = bound(n.b);
        return wraps_64 ? all : ConstBound{std::max(a.min, b.min), std::max(a.max, b.max)};
      },
      [&](const tir::Select& n) { return analysis_detail::join(bound(n.true_value), bound(n.false_value)); },
      [&](const tir::Broadcast& n) { return bound(n.value); },
      [&](const tir::Ramp& n) {
        if (n.lanes < 0) return all;  // scalable: no number of lanes is known
        const ConstBound b = bound(n.base);
        return arithmetic(analysis_detail::join(b, add(b, scale(bound(n.stride), n.lanes - 1))));
      },
      [&](const tir::Cast& n) {
        const DataType from = n.value.dtype();
        if (!(from.is_integer() || from.is_bool()) || wraps_64) return all;
        const ConstBound b = bound(n.value);
        if (type.is_bool()) return all;
        if (from.is_uint() && from.bits == 64 && !finite(b)) return all;
        return type == i64 ? b : finite(b) ? fits(b) : all;
      },
      [&](const tir::Call& n) {
        if (n.op == "tir.if_then_else") return analysis_detail::join(bound(n.args[1]), bound(n.args[2]));
        if (n.op == "tir.likely") return bound(n.args[0]);
        if (n.op == "tir.bitwise_and" && !wraps_64)
          for (const PrimExpr& a : n.args)
            if (auto v = tir::as_int(a); v && *v >= 0) return ConstBound{0, *v};
        return all;
      },
      [&](const tir::PrimExprNode&) { return all; });
  --depth;
  return r;
}

// ---------------------------------------------------------------- modular sets
ModularSet Analyzer::Impl::modular(const Sum& s) {
  ModularSet m{0, s.base};
  for (const Term& t : s.terms) {
    ModularSet p{0, 1};
    for (const PrimExpr& a : t.atoms) {
      const ModularSet x = modular(a);
      if (!small(x.base) || !small(p.base)) return {};
      // (c1·i + b1)(c2·j + b2)
      const int64_t c =
          gcd(gcd(wrap_mul(p.coeff, x.coeff), wrap_mul(p.coeff, x.base)), wrap_mul(x.coeff, p.base));
      p = normal({c, p.base * x.base});
    }
    if (!small(t.coeff) || !small(p.base)) return {};
    m.coeff = gcd(m.coeff, p.coeff * t.coeff);
    m.base = wrap_add(m.base, p.base * t.coeff);
  }
  return normal(m);
}

ModularSet Analyzer::Impl::modular(const PrimExpr& e) {
  if (!is_index(e)) {
    if (auto v = tir::as_int(e)) return {0, *v};
    return {};
  }
  if (++depth > deepest) {
    --depth;
    return {};
  }
  ModularSet r = match<ModularSet>(
      e, [&](const tir::IntImm& n) { return ModularSet{0, n.value}; },
      [&](const tir::Var& n) {
        auto it = vars.find(&n);
        return it == vars.end() ? ModularSet() : it->second.modular;
      },
      [&](const tir::Add&) { return modular(parse(e)); }, [&](const tir::Sub&) { return modular(parse(e)); },
      [&](const tir::Mul&) { return modular(parse(e)); },
      [&](const tir::FloorDiv& n) {
        const auto c = tir::as_int(n.b);
        const ModularSet a = modular(n.a);
        if (!c || *c <= 0 || a.coeff % *c != 0 || !tame(n.a)) return ModularSet();
        return normal({a.coeff / *c, floor_div(a.base, *c)});
      },
      [&](const tir::FloorMod& n) {
        const auto c = tir::as_int(n.b);
        if (!c || *c <= 0) return ModularSet();
        const ModularSet a = modular(n.a);
        if (a.coeff % *c == 0) return ModularSet{0, floor_mod(a.base, *c)};
        return normal({gcd(a.coeff, *c), a.base});
      },
      [&](const tir::Min& n) { return analysis_detail::join(modular(n.a), modular(n.b)); },
      [&](const tir::Max& n) { return analysis_detail::join(modular(n.a), modular(n.b)); },
      [&](const tir::Select& n) {
        return analysis_detail::join(modular(n.true_value), modular(n.false_value));
      },
      [&](const tir::PrimExprNode&) { return ModularSet(); });
  --depth;
  return r;
}

// ---------------------------------------------------------------- proofs
bool Analyzer::Impl::nonnegative(const Sum& s, int effort) {
  if (proving) return seek(s, effort);
  if (value(s).value_or(0) < 0 && point_is_allowed()) return false;
  proving = true;
  proof_steps = 0;
  // Of numbers m apart, the least that is not negative is no more than m - 1 above what is proved.
  Sum most = s;
  if (const ModularSet m = modular(s); m.coeff > 1) most.base = wrap_add(s.base, m.coeff - 1 - m.base);
  const bool proved = seek(most, effort);
  proving = false;
  if (given_up && proof_steps > kProofSteps) given_up->push_back(asker);
  return proved;
}

bool Analyzer::Impl::seek(const Sum& s, int effort) {
  if (++proof_steps > kProofSteps) return false;
  if (s.is_const()) return s.base >= 0;
  if (bound(s).min >= 0) return true;
  if (effort <= 0 || s.terms.size() > 64) return false;
  // What is known, once or as often as the first shared term asks.
  const size_t first = facts.size() > 24 ? facts.size() - 24 : 0;
  for (size_t i = facts.size(); i-- > first;) {
    const Sum& f = facts[i];
    int64_t k = 0;
    for (const Term& t : f.terms) {
      for (const Term& u : s.terms)
        if (compare(t.atoms, u.atoms) == 0 && u.coeff % t.coeff == 0 && u.coeff / t.coeff > 0)
          k = u.coeff / t.coeff;
      if (k) break;
    }
    if (!k || !small(k)) continue;
    const Sum rest = plus(s, f, -k);
    if (bound(rest).min >= 0) return true;
    if (effort > 3 && rest.terms.size() <= s.terms.size() && seek(rest, effort - 3)) return true;
  }
  // A variable at the end of its symbolic range that makes the sum smallest; later (inner) variables first.
  const Var* best = nullptr;
  bool best_low = false;
  for (const Term& t : s.terms) {
    for (const PrimExpr& a : t.atoms) {
      const auto* v = a.as<Var>();
      if (!v || v == best) continue;
      auto it = vars.find(v);
      if (it == vars.end() || !it->second.range) continue;
      if (best && id_of(v) < id_of(best)) continue;
      bool low = true, high = true;
      for (const Term& u : s.terms) {
        int count = 0;
        ConstBound others{1, 1};
        for (const PrimExpr& x : u.atoms) {
          if (x.as<Var>() == v)
            ++count;
          else
            others = multiply(others, bound(x));
        }
        if (!count) continue;
        const bool positive = others.min >= 0;
        if (count > 1 || !positive) low = high = false;
        if (u.coeff > 0)
          high = false;
        else
          low = false;
      }
      if (low || high) {
        best = v;
        best_low = low;
      }
    }
  }
  if (best) {
    const VarInfo& info = vars.at(best);
    Sum end = parse(info.range->min);
    if (!best_low) {
      end = plus(end, parse(info.range->extent));
      end.base = wrap_add(end.base, -1);
    }
    Sum out;
    out.base = s.base;
    bool ok = true;
    for (const Term& t : s.terms) {
      Term rest{{}, t.coeff};
      bool has = false;
      for (const PrimExpr& x : t.atoms) {
        if (x.as<Var>() == best)
          has = true;
        else
          rest.atoms.push_back(x);
      }
      if (!has) {
        add_term(out, t);
        continue;
      }
      Sum factor;
      if (rest.atoms.empty())
        factor.base = rest.coeff;
      else
        factor.terms.push_back(rest);
      std::optional<Sum> p = times(end, factor);
      if (!p) {
        ok = false;
        break;
      }
      out = plus(out, *p);
    }
    if (ok && seek(out, effort - 1)) return true;
  }
  if (std::optional<Sum> least = without_neighbours(s); least && seek(*least, effort - 1)) return true;
  if (std::optional<Sum> least = without_remainder(s, effort); least && seek(*least, effort - 1)) return true;
  // x // c lies between (x - c + 1) / c and x / c; min and max are replaced by the side that helps.
  for (const Term& t : s.terms) {
    if (t.atoms.size() != 1) continue;
    Sum rest = s;
    add_term(rest, {t.atoms, wrap_mul(t.coeff, -1)});
    if (const auto* d = t.atoms[0].as<tir::FloorDiv>()) {
      const auto c = tir::as_int(d->b);
      if (by_divisor(rest, *d, t.coeff, effort)) return true;
      if (!c || *c <= 1 || !small(*c) || !small(t.coeff)) continue;
      const int64_t m = *c / gcd(*c, t.coeff);
      bool fine = true;
      for (const Term& u : rest.terms) fine = fine && small(u.coeff);
      if (!fine || !small(rest.base)) continue;
      Sum x = parse(d->a);
      if (t.coeff > 0) x.base = wrap_add(x.base, 1 - *c);
      if (seek(plus(times(rest, m), x, t.coeff * m / *c), effort - 1)) return true;
    } else if (const auto* m = t.atoms[0].as<tir::FloorMod>(); m && !tir::as_int(m->b)) {
      // x % b is at least 0 and at most b - 1.
      Sum edge;
      if (t.coeff < 0) edge = parse(m->b), edge.base = wrap_add(edge.base, -1);
      if (positive(m->b, effort) && seek(plus(rest, edge, t.coeff), effort - 1)) return true;
    } else if (const auto* a = t.atoms[0].as<tir::Min>(); a && t.coeff < 0) {
      if (seek(plus(rest, parse(a->a), t.coeff), effort - 1)) return true;
      if (seek(plus(rest, parse(a->b), t.coeff), effort - 1)) return true;
    } else if (const auto* b = t.atoms[0].as<tir::Max>(); b && t.coeff > 0) {
      if (seek(plus(rest, parse(b->a), t.coeff), effort - 1)) return true;
      if (seek(plus(rest, parse(b->b), t.coeff), effort - 1)) return true;
    } else if (const auto* p = t.atoms[0].as<tir::Min>()) {  // positive: both sides must do
      if (seek(plus(rest, parse(p->a), t.coeff), effort - 2) &&
          seek(plus(rest, parse(p->b), t.coeff), effort - 2))
        return true;
    } else if (const auto* q = t.atoms[0].as<tir::Max>()) {
      if (seek(plus(rest, parse(q->a), t.coeff), effort - 2) &&
          seek(plus(rest, parse(q->b), t.coeff), effort - 2))
        return true;
    }
  }
  return false;
}

bool Analyzer::Impl::positive(const PrimExpr& e, int effort) {
  const ConstBound b = bound(e);
  if (b.min >= 1 || b.max < 1) return b.min >= 1;
  Sum s = parse(e);
  s.base = wrap_add(s.base, -1);
  return !facts.empty() && seek(s, std::min(effort - 1, 1));
}

/// (x + d) // c - x // c is d // c or one more.
std::optional<Analyzer::Impl::Sum> Analyzer::Impl::without_neighbours(const Sum& s) {
  auto quotient = [](const Term& t) {
    return t.atoms.size() == 1 ? t.atoms[0].as<tir::FloorDiv>() : nullptr;
  };
  for (const Term& t : s.terms) {
    const auto* upper = t.coeff > 0 ? quotient(t) : nullptr;
    const auto c = upper ? tir::as_int(upper->b) : std::nullopt;
    if (!c || *c <= 1) continue;
    for (const Term& u : s.terms) {
      const auto* lower = u.coeff == -t.coeff ? quotient(u) : nullptr;
      if (!lower || tir::as_int(lower->b) != c) continue;
      const Sum d = plus(parse(upper->a), parse(lower->a), -1);
      if (!d.is_const()) continue;
      Sum rest = s;
      add_term(rest, {t.atoms, -t.coeff});
      add_term(rest, {u.atoms, -u.coeff});
      rest.base = wrap_add(rest.base, wrap_mul(t.coeff, floor_div(d.base, *c)));
      return rest;
    }
  }
  return {};
}

/// x % b in products, all of them together: it is at least 0 and at most b - 1.
std::optional<Analyzer::Impl::Sum> Analyzer::Impl::without_remainder(const Sum& s, int effort) {
  const auto is_remainder = [](const PrimExpr& e) { return e.is<tir::FloorMod>(); };
  for (const Term& t : s.terms) {
    const auto at = std::ranges::find_if(t.atoms, is_remainder);
    if (t.atoms.size() < 2 || at == t.atoms.end()) continue;
    const PrimExpr r = *at;
    Sum times_r, rest;
    rest.base = s.base;
    bool once = true;
    for (Term u : s.terms) {
      const auto same = [&](const PrimExpr& e) { return structural_equal(e, r); };
      const auto there = std::ranges::find_if(u.atoms, same);
      if (there == u.atoms.end()) {
        add_term(rest, u);
        continue;
      }
      u.atoms.erase(there);
      once = once && std::ranges::none_of(u.atoms, same);
      if (u.atoms.empty())
        times_r.base = wrap_add(times_r.base, u.coeff);
      else
        add_term(times_r, u);
    }
    const PrimExpr b = r.as<tir::FloorMod>()->b;
    if (!once || !positive(b, effort)) continue;
    if (seek(times_r, effort - 1)) return rest;
    if (!seek(plus({}, times_r, -1), effort - 1)) continue;
    Sum most = parse(b);
    most.base = wrap_add(most.base, -1);
    if (const std::optional<Sum> least = times(most, times_r)) return plus(rest, *least);
  }
  return {};
}

bool Analyzer::Impl::by_divisor(const Sum& rest, const tir::FloorDiv& d, int64_t coeff, int effort) {
  const bool single = coeff == 1 || coeff == -1;
  if (!(single || (small(coeff) && !tir::as_int(d.b))) || !positive(d.b, effort)) return false;
  // rest ± k · (x // b) is at least k · (rest // k ± x // b).
  const int64_t k = coeff < 0 ? -coeff : coeff;
  Sum steps = single ? rest : parse(floordiv(rest, PrimExpr(k)));
  coeff /= k;
  // rest + x // b ≥ 0 where x ≥ -rest · b, and rest - x // b ≥ 0 where x < (rest + 1) · b.
  if (coeff < 0) steps.base = wrap_add(steps.base, 1);
  const std::optional<Sum> edge = times(steps, parse(d.b));
  if (!edge) return false;
  Sum left = plus(*edge, parse(d.a), coeff);
  if (coeff < 0) left.base = wrap_add(left.base, -1);
  return seek(left, effort - 1);
}

bool Analyzer::Impl::prove(const PrimExpr& condition, int effort) {
  const PrimExpr c = simplify(condition);
  if (auto v = tir::as_int(c)) return *v != 0;
  if (const auto* b = c.as<tir::Broadcast>()) return prove(b->value, effort);
  if (c.is<tir::And>() || c.is<tir::Or>()) {
    if (depth > 60) return false;
    ++depth;
    const auto* n = c.as<tir::And>();
    const auto* o = c.as<tir::Or>();
    const bool r =
        n ? prove(n->a, effort) && prove(n->b, effort) : prove(o->a, effort) || prove(o->b, effort);
    --depth;
    return r;
  }
  auto difference = [&](const PrimExpr& big, const PrimExpr& small_, int64_t base) {
    if (!is_index(big)) return false;
    Sum d = plus(parse(big), parse(small_), -1);
    d.base = wrap_add(d.base, base);
    return tame(d) && nonnegative(d, effort);
  };
  if (const auto* n = c.as<tir::LT>()) return difference(n->b, n->a, -1);
  if (const auto* n = c.as<tir::LE>()) return difference(n->b, n->a, 0);
  if (const auto* n = c.as<tir::EQ>()) return difference(n->b, n->a, 0) && difference(n->a, n->b, 0);
  if (const auto* n = c.as<tir::NE>()) return difference(n->b, n->a, -1) || difference(n->a, n->b, -1);
  return false;
}

}  // namespace tenon
