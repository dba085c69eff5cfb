// SPDX-License-Identifier: Apache-2.0
// Rewriting of expressions into canonical form: the walk, and where which rules are tried. The rules
// themselves are in rules.cpp.
#include "analysis/rule_engine.h"
#include "ir/intrinsic.h"
#include "ir/structural.h"

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
  if (depth > 240) return settling ? e : settle(e);
  return simplify_once(e);
}

PrimExpr Analyzer::Impl::simplify_once(const PrimExpr& e) {
  ++depth;
  PrimExpr r = e.dtype().is_vector() ? simplify_vector(e) : simplify_node(e);
  --depth;
  if (r.dtype() != e.dtype()) r = e;
  if (memo.size() > 20000 && !settling) memo.clear();
  memo[e.get()] = {e, r};
  // What replaces e stands as it is from now on.
  memo.try_emplace(r.get(), r, r);
  return r;
}

/// Deeper than the stack should go: from the leaves up, without assumptions of branches.
PrimExpr Analyzer::Impl::settle(const PrimExpr& e) {
  settling = true;
  const int before = std::exchange(deepest, depth + 16);  // asked anew at every level: constant work each
  // Variables of Lets are met before their values: they may be anything.
  std::vector<std::pair<const Var*, std::optional<VarInfo>>> lets;
  pre_order(e, [&](const ObjectRef& n) {
    if (const auto* l = n.as<tir::Let>()) {
      auto it = vars.find(l->var.get());
      lets.emplace_back(l->var.get(), it == vars.end() ? std::nullopt : std::optional(it->second));
      VarInfo info;
      info.var = l->var;
      info.wild = true;
      vars[l->var.get()] = info;
      found.clear();
    }
    return n.is<tir::PrimExprNode>() || n.same_as(e);
  });
  post_order(e, [&](const ObjectRef& n) {
    if (!n.is<tir::PrimExprNode>() || n.is<Var>()) return;
    const PrimExpr x(n.cast<tir::PrimExprNode>());
    if (!memo.count(x.get()) && !x.is<tir::IntImm>() && !x.is<tir::FloatImm>() && !x.is<tir::StringImm>())
      simplify_once(x);
  });
  for (auto it = lets.rbegin(); it != lets.rend(); ++it) {
    if (it->second)
      vars[it->first] = *it->second;
    else
      vars.erase(it->first);
  }
  settling = false;
  deepest = before;
  auto it = memo.find(e.get());
  const PrimExpr r = it == memo.end() ? e : it->second.second;
  // What was found of a Let's inside holds only there.
  if (!lets.empty()) forget();
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
/// "No" also when there is too much to look at, as every level of a deep expression asks.
static bool total(const PrimExpr& e) {
  bool ok = true;
  int seen = 0;
  pre_order(e, [&](const ObjectRef& n) {
    if (++seen > 4000) ok = false;
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
        return foldable(e) ? apply_rules(simplify(n.a) + simplify(n.b)) : simplify_children(e);
      },
      [&](const tir::Sub& n) {
        if (is_index(e)) return expr_of(recombine(sum_of(e)));
        return foldable(e) ? apply_rules(simplify(n.a) - simplify(n.b)) : simplify_children(e);
      },
      [&](const tir::Mul& n) {
        if (is_index(e)) return expr_of(recombine(sum_of(e)));
        return foldable(e) ? apply_rules(simplify(n.a) * simplify(n.b)) : simplify_children(e);
      },
      [&](const tir::FloorDiv& n) {
        if (is_index(e)) return floordiv(recombine(sum_of(n.a)), simplify(n.b));
        return foldable(e) ? apply_rules(tir::floordiv(simplify(n.a), simplify(n.b))) : simplify_children(e);
      },
      [&](const tir::FloorMod& n) {
        if (is_index(e)) return floormod(recombine(sum_of(n.a)), simplify(n.b));
        return foldable(e) ? apply_rules(tir::floormod(simplify(n.a), simplify(n.b))) : simplify_children(e);
      },
      [&](const tir::Div& n) {
        return foldable(e) ? apply_rules(tir::div(simplify(n.a), simplify(n.b))) : simplify_children(e);
      },
      [&](const tir::Mod& n) {
        return foldable(e) ? apply_rules(tir::truncmod(simplify(n.a), simplify(n.b))) : simplify_children(e);
      },
      [&](const tir::Min& n) {
        return foldable(e) ? min_max(simplify(n.a), simplify(n.b), true) : simplify_children(e);
      },
      [&](const tir::Max& n) {
        return foldable(e) ? min_max(simplify(n.a), simplify(n.b), false) : simplify_children(e);
      },
      [&](const tir::EQ&) { return literal(apply_rules(compare_node(e))); },
      [&](const tir::NE&) { return literal(apply_rules(compare_node(e))); },
      [&](const tir::LT&) { return literal(apply_rules(compare_node(e))); },
      [&](const tir::LE&) { return literal(apply_rules(compare_node(e))); },
      [&](const tir::GT&) { return literal(apply_rules(compare_node(e))); },
      [&](const tir::GE&) { return literal(apply_rules(compare_node(e))); },
      [&](const tir::And&) { return literal(apply_rules(logic_node(e))); },
      [&](const tir::Or&) { return literal(apply_rules(logic_node(e))); },
      [&](const tir::Not&) { return literal(apply_rules(logic_node(e))); },
      [&](const tir::Select& n) {
        const PrimExpr c = simplify(n.condition);
        if (auto v = tir::as_int(c)) return simplify(*v ? n.true_value : n.false_value);
        // Both sides are evaluated whatever the condition: memory accesses may not rely on it.
        auto side = [&](const PrimExpr& e, const PrimExpr& known) {
          if (settling || !total(e)) return simplify(e);
          Local in(*this, known);
          return simplify(e);
        };
        const PrimExpr t = side(n.true_value, c), f = side(n.false_value, tir::logical_not(c));
        return apply_rules(tir::select(c, t, f));
      },
      [&](const tir::Cast& n) {
        const PrimExpr v = simplify(n.value);
        return apply_rules(v.same_as(n.value) ? e : tir::cast(e.dtype(), v));
      },
      [&](const tir::Let& n) {
        if (settling) return simplify_children(e);
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
        found.clear();
        const PrimExpr body = simplify(n.body);
        if (outer)
          vars[n.var.get()] = *outer;
        else
          vars.erase(n.var.get());
        found.clear();
        memo = std::move(kept);
        if (value.same_as(n.value) && body.same_as(n.body)) return e;
        return PrimExpr(make<tir::Let>(n.var, value, body));
      },
      [&](const tir::Call& n) {
        if (n.op == "tir.if_then_else") {
          const PrimExpr c = simplify(n.args[0]);
          if (auto v = tir::as_int(c)) return simplify(*v ? n.args[1] : n.args[2]);
          if (settling) return tir::if_then_else(c, simplify(n.args[1]), simplify(n.args[2]));
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
/// Digits of one number come together: (y // c)·c·k + (y % c)·k becomes y·k.
/// Both digits of a value by a symbolic size are the value: k·(e % n) + k·n·(e / n) = k·e, where n may be a
/// sum.
std::optional<Analyzer::Impl::Sum> Analyzer::Impl::rejoin(const Sum& s, size_t i, size_t j) {
  const Term& term = s.terms[i];
  const auto& m = *term.atoms[j].as<tir::FloorMod>();
  if (!is_index(m.a)) return std::nullopt;
  Sum rest;  // the term without the digit
  Term others{term.atoms, term.coeff};
  others.atoms.erase(others.atoms.begin() + ptrdiff_t(j));
  if (others.atoms.empty())
    rest.base = others.coeff;
  else
    rest.terms.push_back(std::move(others));
  std::optional<Sum> upper = times(rest, parse(floordiv(parse(m.a), m.b)));
  if (upper) upper = times(*upper, parse(m.b));
  std::optional<Sum> whole = times(rest, parse(m.a));
  if (!upper || !whole || upper->base != 0 || upper->terms.empty()) return std::nullopt;
  for (const Term& t : upper->terms) {
    bool there = false;
    for (const Term& u : s.terms) there = there || (u.coeff == t.coeff && compare(u.atoms, t.atoms) == 0);
    if (!there) return std::nullopt;
  }
  Sum r = plus(s, *upper, -1);
  add_term(r, {term.atoms, wrap_mul(term.coeff, -1)});
  return plus(r, *whole, 1);
}

/// x p + -x % c p, in which x may be a sum: x rounded up to a multiple of c, which is (x + c - 1) // c (c p).
std::optional<Analyzer::Impl::Sum> Analyzer::Impl::round_up(const Sum& s, size_t i) {
  const Term& term = s.terms[i];
  const auto* m = term.atoms.size() == 1 ? term.atoms[0].as<tir::FloorMod>() : nullptr;
  const auto c = m ? tir::as_int(m->b) : std::nullopt;
  if (!c || *c <= 0 || !is_index(m->a)) return std::nullopt;
  const Sum negative = parse(m->a);
  Sum rest = plus(s, negative, term.coeff);
  add_term(rest, {term.atoms, wrap_mul(term.coeff, -1)});
  if (negative.is_const() || rest.terms.size() + negative.terms.size() + 1 != s.terms.size())
    return std::nullopt;
  Sum above = times(negative, -1);
  above.base = wrap_add(above.base, *c - 1);
  return plus(rest, parse(floordiv(above, m->b)), wrap_mul(term.coeff, *c));
}

/// Two neighbouring digits are one: k·(y % c) + k·c·((x + y // c) % b) = k·((x c + y) % (b c)). Digits of 16
/// i + j in rows of 12 look like this, because (16 i + j) // 12 is i + (4 i + j) // 12.
std::optional<Analyzer::Impl::Sum> Analyzer::Impl::join_digits(const Sum& s, size_t i, size_t k) {
  if (s.terms[i].atoms.size() != 1 || s.terms[k].atoms.size() != 1) return std::nullopt;
  const auto& low = *s.terms[i].atoms[0].as<tir::FloorMod>();
  const auto* high = s.terms[k].atoms[0].as<tir::FloorMod>();
  const auto c = tir::as_int(low.b), b = high ? tir::as_int(high->b) : std::nullopt;
  int64_t size = 0;
  if (!b || *b <= 0 || !is_index(low.a) || __builtin_mul_overflow(*b, *c, &size)) return std::nullopt;
  const Sum y = parse(low.a), quotient = divide(y, low.b, true, false), digit = parse(high->a);
  if (quotient.terms.size() != 1) return std::nullopt;
  const Sum x = plus(digit, quotient, -1);
  if (x.terms.size() >= digit.terms.size()) return std::nullopt;  // the quotient is not among them
  const Sum above = times(x, *c);
  const Sum whole = plus(above, y);
  if (!tame(whole)) return std::nullopt;
  Sum out = s;
  add_term(out, {s.terms[i].atoms, wrap_mul(s.terms[i].coeff, -1)});
  add_term(out, {s.terms[k].atoms, wrap_mul(s.terms[k].coeff, -1)});
  return plus(out, divide(whole, imm(size), false, false), s.terms[i].coeff);
}

Analyzer::Impl::Sum Analyzer::Impl::recombine(Sum s) {
  const auto& rules = rule_index().sum[kind_of<tir::Add>() - kPrimExprBase];
  for (int round = 0; round < 64; ++round) {
    std::optional<Sum> next;
    for (size_t i = 0; !next && i < s.terms.size(); ++i) {
      for (size_t j = 0; !next && j < s.terms[i].atoms.size(); ++j) {
        const auto* m = s.terms[i].atoms[j].as<tir::FloorMod>();
        const auto c = m ? tir::as_int(m->b) : std::nullopt;
        if (m && !tir::as_int(m->b)) next = rejoin(s, i, j);
        if (!c || *c <= 0) continue;
        if ((next = round_up(s, i))) break;
        const int64_t want = wrap_mul(s.terms[i].coeff, *c);
        PrimExpr quotient;
        for (size_t k = 0; !next && k < s.terms.size(); ++k) {
          if (k == i || s.terms[k].coeff != want) continue;
          if ((next = join_digits(s, i, k))) break;
          if (!quotient) {
            const Sum q = parse(floordiv(parse(m->a), m->b));
            if (q.terms.size() != 1 || q.base != 0 || q.terms[0].coeff != 1 || q.terms[0].atoms.size() != 1)
              break;
            quotient = q.terms[0].atoms[0];
          }
          RuleMatch match(*this);
          for (const ReadyRule* rule : rules)
            if ((next = match.pair(*rule, s, i, j, k, quotient))) break;
        }
      }
    }
    if (!next) break;
    s = std::move(*next);
  }
  return s;
}

Analyzer::Impl::Sum Analyzer::Impl::divide(const Sum& a, const PrimExpr& b, bool quotient, bool known_tame) {
  auto plain = [&] { return atom(quotient ? tir::floordiv(expr_of(a), b) : tir::floormod(expr_of(a), b)); };
  if (a.is_const() && b.is<tir::IntImm>()) return plain();
  if (!known_tame && (!tame(a) || !tame(b))) return plain();
  const uint32_t kind = quotient ? kind_of<tir::FloorDiv>() : kind_of<tir::FloorMod>();
  RuleMatch match(*this);
  for (const ReadyRule* rule : rule_index().sum[kind - kPrimExprBase])
    if (std::optional<Sum> s = match.divide(*rule, a, b)) return *s;
  return plain();
}

PrimExpr Analyzer::Impl::floordiv(const Sum& a, const PrimExpr& b) {
  return expr_of(recombine(divide(a, b, true, false)));
}
PrimExpr Analyzer::Impl::floormod(const Sum& a, const PrimExpr& b) {
  return expr_of(recombine(divide(a, b, false, false)));
}

PrimExpr Analyzer::Impl::min_max(const PrimExpr& a, const PrimExpr& b, bool is_min) {
  const bool swap = b.is<tir::IntImm>() ? false : a.is<tir::IntImm>() || compare(a, b) > 0;
  const PrimExpr &l = swap ? b : a, &r = swap ? a : b;
  const PrimExpr e = is_min ? tir::min(l, r) : tir::max(l, r);
  if (e.is<tir::IntImm>()) return e;
  // Nothing lies beyond the last value of a type, whose distance to others need not fit the type either.
  if (r.is<tir::IntImm>() &&
      structural_equal(r, is_min ? tir::max_value(r.dtype()) : tir::min_value(r.dtype())))
    return l;
  const PrimExpr next = apply_rules(e);
  if (!next.same_as(e) || !is_index(e)) return next;
  const uint32_t kind = is_min ? kind_of<tir::Min>() : kind_of<tir::Max>();
  const Sum x = parse(l), y = parse(r);
  if (!tame(x) || !tame(y)) return e;
  RuleMatch match(*this);
  for (const ReadyRule* rule : rule_index().sum[kind - kPrimExprBase])
    if (std::optional<Sum> s = match.min_max(*rule, x, y)) return expr_of(*s);
  return e;
}

// ---------------------------------------------------------------- conditions
PrimExpr Analyzer::Impl::less(const Sum& d) {
  if (d.is_const()) return PrimExpr::int_imm(d.base < 0, boolean);
  if (!tame(d)) return {};
  RuleMatch match(*this);
  for (const ReadyRule* rule : rule_index().sum[kind_of<tir::LT>() - kPrimExprBase])
    if (PrimExpr r = match.compare(*rule, d)) return r;
  // Every term on the side where it is positive.
  Sum left, right;
  for (const Term& t : d.terms) {
    if (t.coeff > 0)
      left.terms.push_back(t);
    else
      right.terms.push_back({t.atoms, wrap_mul(t.coeff, -1)});
  }
  if (left.terms.empty()) {
    left.base = wrap_add(d.base, 1);
    return make<tir::LE>(expr_of(left), expr_of(right));
  }
  right.base = wrap_mul(d.base, -1);
  return make<tir::LT>(expr_of(left), expr_of(right));
}

PrimExpr Analyzer::Impl::equal(const Sum& d, bool negated) {
  if (negated) {
    const PrimExpr r = equal(d, false);
    if (!r) return r;
    if (const auto* n = r.as<tir::EQ>()) return make<tir::NE>(n->a, n->b);
    return tir::logical_not(r);
  }
  if (d.is_const()) return PrimExpr::int_imm(d.base == 0, boolean);
  if (!tame(d)) return {};
  RuleMatch match(*this);
  for (const ReadyRule* rule : rule_index().sum[kind_of<tir::EQ>() - kPrimExprBase])
    if (PrimExpr r = match.compare(*rule, d)) return r;
  const int64_t sign = d.terms[0].coeff < 0 ? -1 : 1;
  Sum left, right;
  for (const Term& t : d.terms) {
    const int64_t k = wrap_mul(sign, t.coeff);
    if (k > 0)
      left.terms.push_back({t.atoms, k});
    else
      right.terms.push_back({t.atoms, wrap_mul(k, -1)});
  }
  right.base = wrap_mul(-sign, d.base);
  return make<tir::EQ>(expr_of(left), expr_of(right));
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
      // Modulo 2^64 a difference says nothing about wild values, nor about literals further apart than int64
      // reaches.
      int64_t distance;
      const bool wraps = __builtin_sub_overflow(x.base, y.base, &distance) || distance <= INT64_MIN + 1 ||
                         d.base == INT64_MIN;
      r = wraps || !tame(x) || !tame(y) ? PrimExpr() : less(d);
    }
    if (r) return r;
    a = expr_of(x), b = expr_of(y);
  } else {
    a = simplify(a), b = simplify(b);
  }
  if (eq) return tir::eq(a, b);
  if (ne) return tir::ne(a, b);
  return strict ? tir::lt(a, b) : tir::le(a, b);
}

PrimExpr Analyzer::Impl::logic_node(const PrimExpr& e) {
  // Both operands are evaluated: the second may use what the first says only if that cannot harm.
  auto under = [&](const PrimExpr& known, const PrimExpr& x) {
    if (settling || !total(x)) return simplify(x);
    Local in(*this, known);
    return simplify(x);
  };
  if (const auto* n = e.as<tir::And>()) {
    const PrimExpr a = simplify(n->a);
    return tir::is_zero(a) ? a : tir::logical_and(a, under(a, n->b));
  }
  if (const auto* n = e.as<tir::Or>()) {
    const PrimExpr a = simplify(n->a);
    return tir::is_one(a) ? a : tir::logical_or(a, under(tir::logical_not(a), n->b));
  }
  return tir::logical_not(simplify(e.as<tir::Not>()->a));
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
PrimExpr Analyzer::Impl::simplify_vector(const PrimExpr& e) { return apply_rules(simplify_children(e)); }

}  // namespace tenon
