// SPDX-License-Identifier: Apache-2.0
// Rewriting of expressions into canonical form: sums, quotients and remainders, comparisons, logic, vectors.
#include "analysis/analyzer_impl.h"
#include "ir/intrinsic.h"

namespace tenon {

using namespace analysis_detail;

PrimExpr Analyzer::Impl::simplify(const PrimExpr& e) {
  if (!e || e.is<tir::IntImm>() || e.is<tir::FloatImm>() || e.is<tir::StringImm>()) return e;
  if (const auto* v = e.as<Var>()) {
    auto it = vars.find(v);
    if (it == vars.end()) return e;
    if (it->second.value) return it->second.value;
    const ConstBound& b = it->second.bound;
    return b.min == b.max && (e.dtype().is_int() || e.dtype().is_bool()) ? PrimExpr::int_imm(b.min, e.dtype())
                                                                         : e;
  }
  if (auto it = memo.find(e.get()); it != memo.end()) return it->second.second;
  if (depth > 500) return e;
  ++depth;
  PrimExpr r = e.dtype().is_vector() ? simplify_vector(e) : simplify_node(e);
  --depth;
  if (r.dtype() != e.dtype()) r = e;
  if (memo.size() > 20000) memo.clear();
  memo[e.get()] = {e, r};
  return r;
}

/// The node with its expressions simplified; buffers and reducers stay as they are.
PrimExpr Analyzer::Impl::simplify_children(const PrimExpr& e) {
  ObjectRef r = map_children(e, [&](const ObjectRef& c) -> ObjectRef {
    return c.is<tir::PrimExprNode>() ? ObjectRef(simplify(PrimExpr(c.cast<tir::PrimExprNode>()))) : c;
  });
  return PrimExpr(r.cast<tir::PrimExprNode>());
}

/// Evaluates without harm for any values of its variables: no access to memory, no division that may trap.
static bool total(const PrimExpr& e) {
  bool ok = true;
  pre_order(e, [&](const ObjectRef& n) {
    auto divisor = [&](const PrimExpr& d) {
      if (!d.dtype().is_float() && !(tir::as_int(d) && *tir::as_int(d) != 0)) ok = false;
    };
    if (n.is<tir::BufferLoad>() || n.is<tir::ProducerLoad>())
      ok = false;
    else if (const auto* d = n.as<tir::FloorDiv>())
      divisor(d->b);
    else if (const auto* d = n.as<tir::FloorMod>())
      divisor(d->b);
    else if (const auto* d = n.as<tir::Div>())
      divisor(d->b);
    else if (const auto* d = n.as<tir::Mod>())
      divisor(d->b);
    return ok;
  });
  return ok;
}

static bool foldable(const PrimExpr& e) { return e.dtype().is_integer(); }

PrimExpr Analyzer::Impl::simplify_node(const PrimExpr& e) {
  return match<PrimExpr>(
      e,
      [&](const tir::Add& n) {
        if (is_index(e)) return expr_of(recombine(sum_of(e)));
        return foldable(e) ? simplify(n.a) + simplify(n.b) : simplify_children(e);
      },
      [&](const tir::Sub& n) {
        if (is_index(e)) return expr_of(recombine(sum_of(e)));
        return foldable(e) ? simplify(n.a) - simplify(n.b) : simplify_children(e);
      },
      [&](const tir::Mul& n) {
        if (is_index(e)) return expr_of(recombine(sum_of(e)));
        return foldable(e) ? simplify(n.a) * simplify(n.b) : simplify_children(e);
      },
      [&](const tir::FloorDiv& n) {
        if (is_index(e)) return floordiv(sum_of(n.a), simplify(n.b));
        return foldable(e) ? tir::floordiv(simplify(n.a), simplify(n.b)) : simplify_children(e);
      },
      [&](const tir::FloorMod& n) {
        if (is_index(e)) return floormod(sum_of(n.a), simplify(n.b));
        return foldable(e) ? tir::floormod(simplify(n.a), simplify(n.b)) : simplify_children(e);
      },
      [&](const tir::Div& n) {
        if (!foldable(e)) return simplify_children(e);
        const PrimExpr a = simplify(n.a), b = simplify(n.b);
        if (is_index(e) && bound(a).min >= 0 && bound(b).min > 0) return floordiv(parse(a), b);
        return tir::div(a, b);
      },
      [&](const tir::Mod& n) {
        if (!foldable(e)) return simplify_children(e);
        const PrimExpr a = simplify(n.a), b = simplify(n.b);
        if (is_index(e) && bound(a).min >= 0 && bound(b).min > 0) return floormod(parse(a), b);
        return tir::truncmod(a, b);
      },
      [&](const tir::Min& n) {
        return foldable(e) ? min_max(simplify(n.a), simplify(n.b), true) : simplify_children(e);
      },
      [&](const tir::Max& n) {
        return foldable(e) ? min_max(simplify(n.a), simplify(n.b), false) : simplify_children(e);
      },
      [&](const tir::EQ&) { return literal(compare_node(e)); },
      [&](const tir::NE&) { return literal(compare_node(e)); },
      [&](const tir::LT&) { return literal(compare_node(e)); },
      [&](const tir::LE&) { return literal(compare_node(e)); },
      [&](const tir::GT&) { return literal(compare_node(e)); },
      [&](const tir::GE&) { return literal(compare_node(e)); },
      [&](const tir::And&) { return literal(logic_node(e)); },
      [&](const tir::Or&) { return literal(logic_node(e)); },
      [&](const tir::Not&) { return literal(logic_node(e)); },
      [&](const tir::Select& n) {
        const PrimExpr c = simplify(n.condition);
        if (auto v = tir::as_int(c)) return simplify(*v ? n.true_value : n.false_value);
        // Both sides are evaluated whatever the condition: memory accesses may not rely on it.
        auto side = [&](const PrimExpr& e, const PrimExpr& known) {
          if (!total(e)) return simplify(e);
          Local in(*this, known);
          return simplify(e);
        };
        const PrimExpr t = side(n.true_value, c), f = side(n.false_value, tir::logical_not(c));
        if (compare(t, f) == 0) return t;
        return tir::select(c, t, f);
      },
      [&](const tir::Cast& n) {
        const PrimExpr v = simplify(n.value);
        // A widening that is narrowed back to where it came from.
        if (const auto* inner = v.as<tir::Cast>()) {
          const DataType a = inner->value.dtype(), b = v.dtype();
          const bool widens =
              (a.is_int() && b.is_int() && b.bits >= a.bits) || (a.is_bool() && b.is_integer());
          if (widens && a == e.dtype()) return inner->value;
        }
        return v.same_as(n.value) ? e : tir::cast(e.dtype(), v);
      },
      [&](const tir::Let& n) {
        const PrimExpr value = simplify(n.value);
        if (value.is<tir::IntImm>() || value.is<tir::FloatImm>() || value.is<Var>())
          return simplify(tir::substitute(n.body, {{n.var.get(), value}}));
        VarInfo info;
        info.var = n.var;
        info.bound = bound(value);
        info.modular = modular(value);
        info.wild = is_index(value) && !tame(value);
        // The same variable may stand in several copies of a Let: what is found inside stays inside.
        Memo kept = std::move(memo);
        memo.clear();
        auto old = vars.find(n.var.get());
        std::optional<VarInfo> outer;
        if (old != vars.end()) outer = old->second;
        vars[n.var.get()] = info;
        const PrimExpr body = simplify(n.body);
        if (outer)
          vars[n.var.get()] = *outer;
        else
          vars.erase(n.var.get());
        memo = std::move(kept);
        if (value.same_as(n.value) && body.same_as(n.body)) return e;
        return PrimExpr(make<tir::Let>(n.var, value, body));
      },
      [&](const tir::Call& n) {
        if (n.op == "tir.if_then_else") {
          const PrimExpr c = simplify(n.args[0]);
          if (auto v = tir::as_int(c)) return simplify(*v ? n.args[1] : n.args[2]);
          PrimExpr t, f;
          {
            Local in(*this, c);
            t = simplify(n.args[1]);
          }
          {
            Local in(*this, tir::logical_not(c));
            f = simplify(n.args[2]);
          }
          if (compare(t, f) == 0) return t;
          return tir::if_then_else(c, t, f);
        }
        const PrimExpr r = simplify_children(e);
        const auto* c = r.as<tir::Call>();
        if (c->op == "tir.likely" && c->args[0].is<tir::IntImm>()) return c->args[0];
        return r;
      },
      [&](const tir::PrimExprNode&) { return simplify_children(e); });
}

// ---------------------------------------------------------------- sums
/// (y // c)·c·k + (y % c)·k becomes y·k, and nested remainders of one iterator become one.
Analyzer::Impl::Sum Analyzer::Impl::recombine(Sum s) {
  for (int round = 0; round < 64; ++round) {
    bool changed = false;
    for (size_t i = 0; !changed && i < s.terms.size(); ++i) {
      for (size_t j = 0; !changed && j < s.terms[i].atoms.size(); ++j) {
        const auto* m = s.terms[i].atoms[j].as<tir::FloorMod>();
        const auto c = m ? tir::as_int(m->b) : std::nullopt;
        if (!c || *c <= 0) continue;
        Term low = s.terms[i];
        const PrimExpr keep = low.atoms[j];
        low.atoms.erase(low.atoms.begin() + ptrdiff_t(j));
        const Sum quotient = parse(floordiv(parse(m->a), m->b));
        if (quotient.terms.size() != 1 || quotient.base != 0 || quotient.terms[0].coeff != 1 ||
            quotient.terms[0].atoms.size() != 1)
          continue;
        const PrimExpr q = quotient.terms[0].atoms[0];
        auto with = [&](const PrimExpr& a) {
          Term t{low.atoms, 0};
          t.atoms.insert(
              std::upper_bound(t.atoms.begin(), t.atoms.end(), a,
                               [&](const PrimExpr& l, const PrimExpr& r) { return compare(l, r) < 0; }),
              a);
          return t.atoms;
        };
        const std::vector<PrimExpr> high = with(q);
        const int64_t want = wrap_mul(low.coeff, *c);
        for (size_t k = 0; k < s.terms.size(); ++k) {
          const Term& other = s.terms[k];
          if (k == i || other.coeff != want) continue;
          PrimExpr whole;
          if (compare(other.atoms, high) == 0) {
            whole = m->a;
          } else {
            // (q % d)·c + y % c = y % (c·d)
            for (const PrimExpr& a : other.atoms) {
              const auto* n = a.as<tir::FloorMod>();
              const auto d = n ? tir::as_int(n->b) : std::nullopt;
              if (!d || *d <= 0 || compare(n->a, q) != 0 || compare(other.atoms, with(a)) != 0) continue;
              const __int128 modulus = __int128(*c) * *d;
              if (modulus < pos_inf && tame(m->a)) whole = floormod(parse(m->a), imm(int64_t(modulus)));
              break;
            }
            // (z // c)·c + y % c = z when y and z leave the same remainder
            for (const PrimExpr& a : other.atoms) {
              const auto* n = a.as<tir::FloorDiv>();
              if (whole || !n || !tir::is_const_int(n->b, *c) || compare(other.atoms, with(a)) != 0) continue;
              if (compare(floormod(parse(n->a), m->b), keep) == 0) whole = n->a;
            }
          }
          if (!whole) continue;
          Sum factor;
          if (low.atoms.empty())
            factor.base = low.coeff;
          else
            factor.terms.push_back(low);
          const std::optional<Sum> p = times(parse(whole), factor);
          if (!p) continue;
          Sum rest;
          rest.base = s.base;
          for (size_t t = 0; t < s.terms.size(); ++t)
            if (t != i && t != k) rest.terms.push_back(s.terms[t]);
          s = plus(rest, *p);
          changed = true;
          break;
        }
      }
    }
    if (!changed) break;
  }
  return s;
}

namespace {
/// a = c·q + r, with the coefficients of r smaller than c and its base in [0, c).
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

PrimExpr Analyzer::Impl::floordiv(const Sum& a, const PrimExpr& b) {
  auto plain = [&] { return tir::floordiv(expr_of(a), b); };
  const auto divisor = tir::as_int(b);
  if (divisor && a.is_const()) return plain();
  if (!tame(a) || !tame(b)) return plain();
  if (divisor) {
    const int64_t c = *divisor;
    if (c == 1) return expr_of(a);
    if (c <= 0) return plain();
    Sum q, r;
    split(a, c, q, r);
    const ConstBound range = bound(r);
    if (finite(range) && floor_div(range.min, c) == floor_div(range.max, c)) {
      q.base = wrap_add(q.base, floor_div(range.min, c));
      return expr_of(recombine(q));
    }
    int64_t g = c;
    for (const Term& t : r.terms) g = gcd(g, t.coeff);
    Sum x;
    for (const Term& t : r.terms) x.terms.push_back({t.atoms, t.coeff / g});
    x.base = r.base / g;
    const int64_t d = c / g;
    if (d == 1) return expr_of(recombine(plus(q, x)));
    // (y // e + f) // d = (y + f·e) // (d·e);  (y % m) // d = (y // d) % (m / d)
    if (x.terms.size() == 1 && x.terms[0].coeff == 1 && x.terms[0].atoms.size() == 1) {
      const PrimExpr only = x.terms[0].atoms[0];
      if (const auto* n = only.as<tir::FloorDiv>()) {
        const auto e = tir::as_int(n->b);
        if (e && *e > 0 && __int128(*e) * c < pos_inf && tame(n->a)) {
          Sum y = parse(n->a);
          y.base = wrap_add(y.base, x.base * *e);
          return expr_of(recombine(plus(q, parse(floordiv(y, imm(d * *e))))));
        }
      }
      if (const auto* n = only.as<tir::FloorMod>(); n && x.base == 0) {
        const auto m = tir::as_int(n->b);
        if (m && *m > 0 && *m % d == 0 && tame(n->a)) {
          const PrimExpr y = floormod(parse(floordiv(parse(n->a), imm(d))), imm(*m / d));
          return expr_of(recombine(plus(q, parse(y))));
        }
      }
    }
    return expr_of(recombine(plus(q, atom(make<tir::FloorDiv>(expr_of(x), imm(d))))));
  }
  // A symbolic divisor n > 0: n·q + r with 0 ≤ r < n.
  const Sum n = parse(b);
  if (n.terms.size() != 1 || n.base != 0 || n.terms[0].coeff != 1 || bound(n).min <= 0) return plain();
  Sum q, r;
  r.base = a.base;
  for (const Term& t : a.terms) {
    Term rest = t;
    bool all = true;
    for (const PrimExpr& x : n.terms[0].atoms) {
      auto it = std::find_if(rest.atoms.begin(), rest.atoms.end(),
                             [&](const PrimExpr& y) { return compare(x, y) == 0; });
      if (it == rest.atoms.end()) {
        all = false;
        break;
      }
      rest.atoms.erase(it);
    }
    if (!all)
      add_term(r, t);
    else if (rest.atoms.empty())
      q.base = wrap_add(q.base, t.coeff);
    else
      add_term(q, rest);
  }
  Sum room = plus(n, r, -1);
  room.base = wrap_add(room.base, -1);
  if (nonnegative(r, 3) && nonnegative(room, 4)) return expr_of(recombine(q));
  return plain();
}

PrimExpr Analyzer::Impl::floormod(const Sum& a, const PrimExpr& b) {
  auto plain = [&] { return tir::floormod(expr_of(a), b); };
  const auto divisor = tir::as_int(b);
  if (divisor && a.is_const()) return plain();
  if (!tame(a) || !tame(b)) return plain();
  if (divisor) {
    const int64_t c = *divisor;
    if (c == 1) return imm(0);
    if (c <= 0) return plain();
    Sum q, r;
    split(a, c, q, r);
    // Remainders inside are redundant when their modulus is a multiple of what counts.
    for (size_t i = 0; i < r.terms.size(); ++i) {
      for (size_t j = 0; j < r.terms[i].atoms.size(); ++j) {
        const auto* m = r.terms[i].atoms[j].as<tir::FloorMod>();
        const auto k = m ? tir::as_int(m->b) : std::nullopt;
        if (!k || *k <= 0 || (__int128(r.terms[i].coeff) * *k) % c != 0 || !tame(m->a)) continue;
        Term rest = r.terms[i];
        rest.atoms.erase(rest.atoms.begin() + ptrdiff_t(j));
        Sum factor;
        if (rest.atoms.empty())
          factor.base = rest.coeff;
        else
          factor.terms.push_back(rest);
        const std::optional<Sum> p = times(parse(m->a), factor);
        if (!p) continue;
        Sum next;
        next.base = r.base;
        for (size_t t = 0; t < r.terms.size(); ++t)
          if (t != i) next.terms.push_back(r.terms[t]);
        return floormod(plus(next, *p), b);
      }
    }
    const ConstBound range = bound(r);
    if (finite(range) && floor_div(range.min, c) == floor_div(range.max, c)) {
      r.base = wrap_add(r.base, wrap_mul(floor_div(range.min, c), -c));
      return expr_of(recombine(r));
    }
    const ModularSet known = modular(r);
    if (known.coeff % c == 0) return imm(floor_mod(known.base, c));
    int64_t g = c;
    for (const Term& t : r.terms) g = gcd(g, t.coeff);
    if (g > 1) {
      // (g·x + f) % (g·d) = g·((x + f // g) % d) + f % g
      Sum x, out;
      for (const Term& t : r.terms) x.terms.push_back({t.atoms, t.coeff / g});
      x.base = r.base / g;
      if (c / g > 1) out = times(parse(floormod(x, imm(c / g))), g);
      out.base = wrap_add(out.base, r.base % g);
      return expr_of(recombine(out));
    }
    return make<tir::FloorMod>(expr_of(r), b);
  }
  const Sum n = parse(b);
  if (n.terms.size() == 1 && n.base == 0 && n.terms[0].coeff == 1 && bound(n).min > 0) {
    Sum r;
    r.base = a.base;
    for (const Term& t : a.terms) {
      Term rest = t;
      bool all = true;
      for (const PrimExpr& x : n.terms[0].atoms) {
        auto it = std::find_if(rest.atoms.begin(), rest.atoms.end(),
                               [&](const PrimExpr& y) { return compare(x, y) == 0; });
        if (it == rest.atoms.end()) {
          all = false;
          break;
        }
        rest.atoms.erase(it);
      }
      if (!all) add_term(r, t);
    }
    Sum room = plus(n, r, -1);
    room.base = wrap_add(room.base, -1);
    if (nonnegative(r, 3) && nonnegative(room, 4)) return expr_of(recombine(r));
    return tir::floormod(expr_of(r), b);
  }
  return plain();
}

PrimExpr Analyzer::Impl::min_max(const PrimExpr& a, const PrimExpr& b, bool is_min) {
  if (compare(a, b) == 0) return a;
  const ConstBound x = bound(a), y = bound(b);
  const bool wraps = a.dtype().is_uint() && a.dtype().bits == 64;
  if (!wraps) {
    if (x.max <= y.min && x.max != pos_inf && y.min != neg_inf) return is_min ? a : b;
    if (y.max <= x.min && y.max != pos_inf && x.min != neg_inf) return is_min ? b : a;
  }
  if (is_index(a)) {
    const Sum d = plus(parse(b), parse(a), -1);
    if (tame(d)) {
      if (nonnegative(d, 2)) return is_min ? a : b;
      if (nonnegative(times(d, -1), 2)) return is_min ? b : a;
    }
  }
  const bool swap = b.is<tir::IntImm>() ? false : a.is<tir::IntImm>() || compare(a, b) > 0;
  const PrimExpr &l = swap ? b : a, &r = swap ? a : b;
  return is_min ? tir::min(l, r) : tir::max(l, r);
}

// ---------------------------------------------------------------- conditions
PrimExpr Analyzer::Impl::less(const Sum& d) {
  if (d.is_const()) return PrimExpr::int_imm(d.base < 0, boolean);
  auto show = [&](const Sum& s) -> PrimExpr {  // s < 0
    Sum left, right;
    for (const Term& t : s.terms) {
      if (t.coeff > 0)
        left.terms.push_back(t);
      else
        right.terms.push_back({t.atoms, wrap_mul(t.coeff, -1)});
    }
    if (left.terms.empty()) {
      left.base = wrap_add(s.base, 1);
      return make<tir::LE>(expr_of(left), expr_of(right));
    }
    right.base = wrap_mul(s.base, -1);
    return make<tir::LT>(expr_of(left), expr_of(right));
  };
  if (!tame(d)) return {};
  if (nonnegative(d, 2)) return PrimExpr::int_imm(0, boolean);
  Sum negative = times(d, -1);
  negative.base = wrap_add(negative.base, -1);
  if (nonnegative(negative, 2)) return tir::true_();
  // g·x + r < 0 with 0 ≤ r < g is x < 0.
  std::vector<int64_t> steps;
  for (const Term& t : d.terms)
    if (t.coeff > 1 || t.coeff < -1) steps.push_back(t.coeff == neg_inf ? 1 : std::abs(t.coeff));
  std::sort(steps.rbegin(), steps.rend());
  for (int64_t g : steps) {
    if (g <= 1) continue;
    Sum x, r;
    for (const Term& t : d.terms) {
      if (t.coeff % g == 0)
        x.terms.push_back({t.atoms, t.coeff / g});
      else
        r.terms.push_back(t);
    }
    const ConstBound b = bound(r);
    if (!finite(b)) continue;
    x.base = floor_div(wrap_add(d.base, b.min), g);
    const int64_t low = floor_mod(wrap_add(d.base, b.min), g);
    if (__int128(low) + (__int128(b.max) - b.min) >= g || x.terms.empty()) continue;
    return less(x);
  }
  return show(d);
}

PrimExpr Analyzer::Impl::equal(const Sum& d, bool negated) {
  auto constant = [&](bool v) { return PrimExpr::int_imm(v != negated, boolean); };
  if (d.is_const()) return constant(d.base == 0);
  if (!tame(d)) return {};
  const ConstBound b = bound(d);
  if (b.min > 0 || b.max < 0) return constant(false);
  const ModularSet m = modular(d);
  if (m.coeff > 0 ? m.base != 0 : m.coeff == 0 && m.base != 0) return constant(false);
  const Sum minus = times(d, -1);
  Sum above = d, below = minus;
  above.base = wrap_add(above.base, -1);
  below.base = wrap_add(below.base, -1);
  if (nonnegative(above, 2) || nonnegative(below, 2)) return constant(false);
  if (nonnegative(d, 2) && nonnegative(minus, 2)) return constant(true);
  int64_t g = 0;
  for (const Term& t : d.terms) g = gcd(g, t.coeff);
  if (g <= 0 || d.base % g != 0) return g > 0 ? constant(false) : PrimExpr();
  const int64_t sign = d.terms[0].coeff < 0 ? -1 : 1;
  Sum left, right;
  for (const Term& t : d.terms) {
    const int64_t k = sign * (t.coeff / g);
    if (k > 0)
      left.terms.push_back({t.atoms, k});
    else
      right.terms.push_back({t.atoms, -k});
  }
  right.base = -sign * (d.base / g);
  const PrimExpr l = expr_of(left), r = expr_of(right);
  return negated ? PrimExpr(make<tir::NE>(l, r)) : PrimExpr(make<tir::EQ>(l, r));
}

PrimExpr Analyzer::Impl::compare_node(const PrimExpr& e) {
  PrimExpr a, b;
  match<void>(
      e, [&](const tir::EQ& n) { a = n.a, b = n.b; }, [&](const tir::NE& n) { a = n.a, b = n.b; },
      [&](const tir::LT& n) { a = n.a, b = n.b; }, [&](const tir::LE& n) { a = n.a, b = n.b; },
      [&](const tir::GT& n) { a = n.a, b = n.b; }, [&](const tir::GE& n) { a = n.a, b = n.b; },
      [&](const tir::PrimExprNode&) {});
  const bool eq = e.is<tir::EQ>(), ne = e.is<tir::NE>();
  const bool flip = e.is<tir::GT>() || e.is<tir::GE>(), strict = e.is<tir::LT>() || e.is<tir::GT>();
  if (flip) std::swap(a, b);
  if (is_index(a)) {
    const Sum x = sum_of(a), y = sum_of(b);
    Sum d = recombine(plus(x, y, -1));
    PrimExpr r;
    if (eq || ne) {
      r = equal(d, ne);
    } else {
      if (!strict) d.base = wrap_add(d.base, -1);
      // Modulo 2^64 a constant difference says nothing about wild values.
      if (!tame(x) || !tame(y))
        r = {};
      else
        r = less(d);
    }
    if (r) return r;
    a = expr_of(x), b = expr_of(y);
  } else {
    a = simplify(a), b = simplify(b);
  }
  const DataType t = a.dtype();
  if ((t.is_int() || t.is_bool()) || (t.is_uint() && t.bits < 64)) {
    const ConstBound x = bound(a), y = bound(b);
    auto constant = [](bool v) { return PrimExpr::int_imm(v, boolean); };
    if (eq || ne) {
      if (x.max < y.min || y.max < x.min) return constant(ne);
      if (compare(a, b) == 0) return constant(eq);
    } else if (strict) {
      if (x.max < y.min) return tir::true_();
      if (x.min >= y.max && x.min != neg_inf && y.max != pos_inf) return constant(false);
    } else {
      if (x.max <= y.min && x.max != pos_inf && y.min != neg_inf) return tir::true_();
      if (x.min > y.max) return constant(false);
    }
  }
  if (eq) return tir::eq(a, b);
  if (ne) return tir::ne(a, b);
  return strict ? tir::lt(a, b) : tir::le(a, b);
}

PrimExpr Analyzer::Impl::logic_node(const PrimExpr& e) {
  // Both operands are evaluated: the second may use what the first says only if that cannot harm.
  auto under = [&](const PrimExpr& known, const PrimExpr& x) {
    if (!total(x)) return simplify(x);
    Local in(*this, known);
    return simplify(x);
  };
  if (const auto* n = e.as<tir::And>()) {
    const PrimExpr a = simplify(n->a);
    if (tir::is_zero(a)) return a;
    const PrimExpr b = under(a, n->b);
    if (compare(a, b) == 0) return a;
    return tir::logical_and(a, b);
  }
  if (const auto* n = e.as<tir::Or>()) {
    const PrimExpr a = simplify(n->a);
    if (tir::is_one(a)) return a;
    const PrimExpr b = under(tir::logical_not(a), n->b);
    if (compare(a, b) == 0) return a;
    return tir::logical_or(a, b);
  }
  const PrimExpr a = simplify(e.as<tir::Not>()->a);
  if (const auto* n = a.as<tir::Not>()) return n->a;
  // Inverted comparisons of floats would answer differently for NaN.
  auto ordered = [](const PrimExpr& x) { return !x.dtype().is_float(); };
  if (const auto* n = a.as<tir::EQ>()) return tir::ne(n->a, n->b);
  if (const auto* n = a.as<tir::NE>()) return tir::eq(n->a, n->b);
  if (const auto* n = a.as<tir::LT>(); n && ordered(n->a)) return simplify(tir::le(n->b, n->a));
  if (const auto* n = a.as<tir::LE>(); n && ordered(n->a)) return simplify(tir::lt(n->b, n->a));
  if (const auto* n = a.as<tir::GT>(); n && ordered(n->a)) return simplify(tir::le(n->a, n->b));
  if (const auto* n = a.as<tir::GE>(); n && ordered(n->a)) return simplify(tir::lt(n->a, n->b));
  if (const auto* n = a.as<tir::And>())
    return tir::logical_or(simplify(tir::logical_not(n->a)), simplify(tir::logical_not(n->b)));
  return tir::logical_not(a);
}

/// A condition that is known to hold, or not to hold.
PrimExpr Analyzer::Impl::literal(const PrimExpr& e) {
  if (literals.empty() || e.is<tir::IntImm>()) return e;
  for (const PrimExpr& l : literals) {
    if (compare(l, e) == 0) return tir::true_();
    if (const auto* n = l.as<tir::Not>(); n && compare(n->a, e) == 0) return PrimExpr::int_imm(0, boolean);
    if (const auto* n = e.as<tir::Not>(); n && compare(n->a, l) == 0) return PrimExpr::int_imm(0, boolean);
    const auto *x = l.as<tir::NE>(), *y = e.as<tir::NE>();
    const auto *p = l.as<tir::EQ>(), *q = e.as<tir::EQ>();
    if (x && q && compare(x->a, q->a) == 0 && compare(x->b, q->b) == 0) return PrimExpr::int_imm(0, boolean);
    if (p && y && compare(p->a, y->a) == 0 && compare(p->b, y->b) == 0) return PrimExpr::int_imm(0, boolean);
  }
  return e;
}

// ---------------------------------------------------------------- vectors
PrimExpr Analyzer::Impl::simplify_vector(const PrimExpr& e) {
  const int lanes = e.dtype().lanes;
  if (e.is<tir::Ramp>()) {
    const PrimExpr r = simplify_children(e);
    const auto* n = r.as<tir::Ramp>();
    return tir::is_zero(n->stride) ? PrimExpr(make<tir::Broadcast>(n->base, n->lanes)) : r;
  }
  const bool integer = e.dtype().element() == i64 || (e.dtype().is_bool());
  PrimExpr r = simplify_children(e);
  if (!integer) return r;
  PrimExpr a, b;
  match<void>(
      r, [&](const tir::Add& n) { a = n.a, b = n.b; }, [&](const tir::Sub& n) { a = n.a, b = n.b; },
      [&](const tir::Mul& n) { a = n.a, b = n.b; }, [&](const tir::FloorDiv& n) { a = n.a, b = n.b; },
      [&](const tir::FloorMod& n) { a = n.a, b = n.b; }, [&](const tir::Min& n) { a = n.a, b = n.b; },
      [&](const tir::Max& n) { a = n.a, b = n.b; }, [&](const tir::EQ& n) { a = n.a, b = n.b; },
      [&](const tir::NE& n) { a = n.a, b = n.b; }, [&](const tir::LT& n) { a = n.a, b = n.b; },
      [&](const tir::LE& n) { a = n.a, b = n.b; }, [&](const tir::GT& n) { a = n.a, b = n.b; },
      [&](const tir::GE& n) { a = n.a, b = n.b; }, [&](const tir::And& n) { a = n.a, b = n.b; },
      [&](const tir::Or& n) { a = n.a, b = n.b; }, [&](const tir::PrimExprNode&) {});
  if (!a || a.dtype().is_float()) return r;
  const auto *ba = a.as<tir::Broadcast>(), *bb = b.as<tir::Broadcast>();
  auto again = [&](const PrimExpr& x, const PrimExpr& y) -> PrimExpr {  // the same operation on scalars
    return match<PrimExpr>(
        r, [&](const tir::Add&) { return x + y; }, [&](const tir::Sub&) { return x - y; },
        [&](const tir::Mul&) { return x * y; }, [&](const tir::FloorDiv&) { return tir::floordiv(x, y); },
        [&](const tir::FloorMod&) { return tir::floormod(x, y); },
        [&](const tir::Min&) { return tir::min(x, y); }, [&](const tir::Max&) { return tir::max(x, y); },
        [&](const tir::EQ&) { return tir::eq(x, y); }, [&](const tir::NE&) { return tir::ne(x, y); },
        [&](const tir::LT&) { return tir::lt(x, y); }, [&](const tir::LE&) { return tir::le(x, y); },
        [&](const tir::GT&) { return tir::gt(x, y); }, [&](const tir::GE&) { return tir::ge(x, y); },
        [&](const tir::And&) { return tir::logical_and(x, y); },
        [&](const tir::Or&) { return tir::logical_or(x, y); },
        [&](const tir::PrimExprNode&) { return PrimExpr(); });
  };
  auto spread = [&](const PrimExpr& x) { return PrimExpr(make<tir::Broadcast>(x, int64_t(lanes))); };
  if (ba && bb) return spread(simplify(again(ba->value, bb->value)));
  if (r.is<tir::And>() || r.is<tir::Or>()) {
    const bool is_and = r.is<tir::And>();
    for (const auto* side : {ba, bb})
      if (side)
        if (auto v = tir::as_int(side->value))
          return (*v != 0) == is_and ? (side == ba ? b : a) : (side == ba ? a : b);
    return r;
  }
  if (a.dtype().element() != i64) return r;
  const auto *ra = a.as<tir::Ramp>(), *rb = b.as<tir::Ramp>();
  if (!ra && !rb) return r;
  const PrimExpr a0 = ra   ? ra->base
                      : ba ? ba->value
                           : PrimExpr(),
                 b0 = rb   ? rb->base
                      : bb ? bb->value
                           : PrimExpr();
  if (!a0 || !b0) return r;
  const PrimExpr as = ra ? ra->stride : imm(0), bs = rb ? rb->stride : imm(0);
  auto ramp = [&](const PrimExpr& base, const PrimExpr& stride) {
    const PrimExpr s = simplify(stride), x = simplify(base);
    return tir::is_zero(s) ? spread(x) : PrimExpr(make<tir::Ramp>(x, s, int64_t(lanes)));
  };
  if (r.is<tir::Add>()) return ramp(a0 + b0, as + bs);
  if (r.is<tir::Sub>()) return ramp(a0 - b0, as - bs);
  if (r.is<tir::Mul>() && !(ra && rb)) return ramp(a0 * b0, ra ? as * b0 : bs * a0);
  const auto c = bb ? tir::as_int(bb->value) : std::nullopt;
  const auto step = tir::as_int(as);
  if ((r.is<tir::FloorDiv>() || r.is<tir::FloorMod>()) && c && step && *c > 0 && *step > neg_inf / 65536 &&
      *step < pos_inf / 65536 && tame(a0)) {
    const bool is_div = r.is<tir::FloorDiv>();
    if (*step % *c == 0)
      return is_div ? ramp(tir::floordiv(a0, imm(*c)), imm(*step / *c))
                    : spread(simplify(tir::floormod(a0, imm(*c))));
    // All lanes in one period of c.
    const ConstBound first = bound(simplify(tir::floormod(a0, imm(*c))));
    const int64_t reach = *step * (lanes - 1);
    if (finite(first) && first.min + std::min<int64_t>(reach, 0) >= 0 &&
        first.max + std::max<int64_t>(reach, 0) < *c)
      return is_div ? spread(simplify(tir::floordiv(a0, imm(*c)))) : ramp(tir::floormod(a0, imm(*c)), as);
    return r;
  }
  // Comparisons that go one way in the first and the last lane go that way in all.
  const bool less_like = r.is<tir::LT>() || r.is<tir::LE>() || r.is<tir::GT>() || r.is<tir::GE>();
  if (less_like || r.is<tir::Min>() || r.is<tir::Max>()) {
    const PrimExpr an = a0 + as * imm(lanes - 1), bn = b0 + bs * imm(lanes - 1);
    if (less_like) {
      const PrimExpr first = simplify(again(a0, b0)), last = simplify(again(an, bn));
      if (first.is<tir::IntImm>() && last.is<tir::IntImm>() && compare(first, last) == 0)
        return spread(first);
    } else {
      const bool is_min = r.is<tir::Min>();
      if (prove(tir::le(a0, b0), 2) && prove(tir::le(an, bn), 2)) return is_min ? a : b;
      if (prove(tir::le(b0, a0), 2) && prove(tir::le(bn, an), 2)) return is_min ? b : a;
    }
  }
  return r;
}

}  // namespace tenon
