// SPDX-License-Identifier: Apache-2.0
// Reading values as sums of digits. When every digit of every variable is found again, different variables
// give different values, which is what parallel, vectorised and reordered loops and changes of layout need.
#include "analysis/iter_map.h"

#include <algorithm>

#include "analysis/analyzer_impl.h"
#include "ir/find_node.h"

namespace tenon {

using namespace tir;

namespace {

/// e / c where c, a sum of sizes, divides e as a polynomial; null where it does not.
PrimExpr polynomial_quotient(Analyzer& analyzer, const PrimExpr& e, const PrimExpr& c) {
  using Impl = AnalyzerAccess::Impl;
  if (as_int(c) || e.dtype() != i64 || c.dtype() != i64) return {};
  Impl& a = AnalyzerAccess::of(analyzer);
  Impl::Sum rest = a.sum_of(e), quotient;
  const Impl::Sum by = a.sum_of(c);
  if (by.terms.empty()) return {};
  // Lexicographic order of monomials: products keep it, so leading terms divide one another.
  auto above = [&](const Impl::Term& x, const Impl::Term& y) {
    for (size_t i = 0; i < x.atoms.size() && i < y.atoms.size(); ++i)
      if (const int order = a.compare(x.atoms[i], y.atoms[i])) return order < 0;
    return x.atoms.size() > y.atoms.size();
  };
  auto lead = [&](const Impl::Sum& s) {
    const Impl::Term* best = &s.terms[0];
    for (const Impl::Term& t : s.terms)
      if (above(t, *best)) best = &t;
    return *best;
  };
  const Impl::Term divisor = lead(by);
  for (int round = 0; round < 24 && (!rest.terms.empty() || rest.base != 0); ++round) {
    if (rest.terms.empty()) return {};
    Impl::Term t = lead(rest);
    // The least number has no opposite.
    if (divisor.coeff == -1 ? t.coeff == INT64_MIN : t.coeff % divisor.coeff != 0) return {};
    t.coeff /= divisor.coeff;
    for (const PrimExpr& x : divisor.atoms) {
      auto at = std::find_if(t.atoms.begin(), t.atoms.end(),
                             [&](const PrimExpr& y) { return a.compare(x, y) == 0; });
      if (at == t.atoms.end()) return {};
      t.atoms.erase(at);
    }
    Impl::Sum step;
    if (t.atoms.empty())
      step.base = t.coeff;
    else
      step.terms.push_back(std::move(t));
    const std::optional<Impl::Sum> product = a.times(step, by);
    if (!product) return {};
    rest = a.plus(rest, *product, -1);
    quotient = a.plus(quotient, step);
  }
  return rest.terms.empty() && rest.base == 0 ? a.expr_of(quotient) : PrimExpr();
}

}  // namespace

void IterMap::add(const VarRef& v, const PrimExpr& min, const PrimExpr& extent) {
  known_[v.get()] = {int(marks_.size()), min};
  marks_.push_back({extent, {}});
  mins_.push_back(min);
  names_.push_back(v);
  ++variables_;
}

/// A digit inside of a part of a fused sum as one of the sum: what stands below the part does not reach it.
std::optional<IterMap::Term> IterMap::through(const Term& part, const Term& digit, int sum) {
  if (part.mark != digit.mark) return std::nullopt;
  const auto lower = as_int(digit.lower), extent = as_int(digit.extent), from = as_int(part.lower),
             size = as_int(part.extent), scale = as_int(part.scale);
  if (!lower || !extent || !from || !size || !scale || *from < 1 || *lower % *from != 0) return std::nullopt;
  const int64_t above = *lower / *from;
  if (*extent < 1 || above < 1 || *size % (above * *extent) != 0)
    return std::nullopt;  // what is above would be in it
  return Term{sum, PrimExpr(above * *scale), PrimExpr(*extent), PrimExpr(1)};
}

/// Is `a` what remains of `b` below some number: the same parts, of the last one the lower digits?
bool IterMap::begins(const Mark& a, const Mark& b) {
  if (a.parts.size() != b.parts.size()) return false;
  for (size_t i = 0; i < a.parts.size(); ++i) {
    const Term &x = a.parts[i], &y = b.parts[i];
    if (x.mark != y.mark || !same(x.lower, y.lower) || !same(x.scale, y.scale)) return false;
    const auto low = as_int(x.extent), all = as_int(y.extent);
    if (!low || !all || *low < 1 || (i + 1 < a.parts.size() ? *low != *all : *all % *low != 0)) return false;
  }
  return true;
}

IterMap::Answer IterMap::run(const Array<PrimExpr>& values) {
  Answer out;
  std::vector<Term> used;
  for (const PrimExpr& v : values) {
    std::optional<Sum> s = parse(v, 0);
    if (!s) return out;
    if (!decodable(*s)) return {true, false};
    used.insert(used.end(), s->terms.begin(), s->terms.end());
  }
  out.affine = true;
  // Digits of a fused sum determine it, and it determines the digits of its parts. Composites come after
  // their parts, so a walk backwards settles them first.
  for (size_t m = marks_.size(); m-- > 0;) {
    std::vector<Term> of_mark;
    for (const Term& t : used)
      if (t.mark == int(m)) of_mark.push_back(t);
    if (int(m) < variables_) {
      if (!is_one(marks_[m].extent) && !covers(of_mark, marks_[m].extent)) return out;
    } else {
      for (const Term& part : marks_[m].parts)
        for (const Term& t : used)
          if (const auto digit = through(part, t, int(m))) of_mark.push_back(*digit);
      for (const Term& t : used)
        if (t.mark >= variables_ && t.mark != int(m) && begins(marks_[size_t(t.mark)], marks_[m]) &&
            is_zero(analyzer_.simplify(floormod(marks_[size_t(t.mark)].extent, t.lower * t.extent))))
          of_mark.push_back({int(m), t.lower, t.extent, PrimExpr(1)});
      if (!covers(of_mark, marks_[m].extent)) continue;
      used.insert(used.end(), marks_[m].parts.begin(), marks_[m].parts.end());
    }
  }
  out.injective = true;
  return out;
}

PrimExpr IterMap::end_of(const PrimExpr& value) {
  std::optional<Sum> s = parse(value, 0);
  std::vector<Term> sorted;
  if (!s || (!s->terms.empty() && !sort(*s, false, sorted))) return {};
  PrimExpr end = s->base + 1;
  for (const Term& t : sorted) end = end + (t.extent - 1) * t.scale;
  return analyzer_.simplify(end);
}

PrimExpr IterMap::expr_of(const Term& t, int depth) {
  PrimExpr e;
  if (t.mark < variables_) {
    e = names_[size_t(t.mark)] - mins_[size_t(t.mark)];
  } else {
    e = PrimExpr(0);
    if (depth < 64)
      for (const Term& p : marks_[size_t(t.mark)].parts) e = e + expr_of(p, depth + 1) * p.scale;
  }
  e = floordiv(e, t.lower);
  return t.top ? e : floormod(e, t.extent);
}

PrimExpr IterMap::normalize(const PrimExpr& value) {
  std::optional<Sum> s = parse(value, 0);
  std::vector<Term> sorted;
  if (!s || (!s->terms.empty() && !sort(*s, false, sorted))) return {};
  PrimExpr e = s->base;
  for (const Term& t : sorted) e = e + expr_of(t) * t.scale;
  return analyzer_.simplify(e);
}

std::optional<IterMap::Division> IterMap::divide_digit(const Term& t, const std::vector<bool>& inner,
                                                       int depth) {
  const PrimExpr zero(0), one(1), whole = expr_of(t);
  auto all_outer = [&] { return Division{whole, t.extent, zero, one, zero}; };
  auto all_inner = [&] { return Division{zero, one, whole, t.extent, zero}; };
  if (t.mark < variables_) return inner[size_t(t.mark)] ? all_inner() : all_outer();
  if (depth > 64) return std::nullopt;
  // The parts of the sum that the digit is of, as one outer and one inner number.
  Division sum{zero, one, zero, one, zero};
  bool outer_seen = false;
  for (const Term& p : marks_[size_t(t.mark)].parts) {
    const std::optional<Division> d = divide_digit(p, inner, depth + 1);
    if (!d) return std::nullopt;
    const bool has_inner = !is_one(d->inner_extent), has_outer = !is_one(d->outer_extent);
    if (has_inner) {
      if (outer_seen) return std::nullopt;
      sum.inner = sum.inner + d->inner * p.scale;
      sum.inner_extent = analyzer_.simplify(p.scale * d->inner_extent);
    }
    if (has_outer) {
      outer_seen = true;
      sum.outer = sum.outer + d->outer * floordiv_exact(p.scale * d->inner_extent, sum.inner_extent);
    }
  }
  if (is_one(sum.inner_extent)) return all_outer();
  if (!outer_seen) return all_inner();
  // Digits lower … lower · extent of it, and its inner part ends at `border`.
  const PrimExpr border = sum.inner_extent, upper = analyzer_.simplify(t.lower * t.extent);
  auto divides = [&](const PrimExpr& a, const PrimExpr& b) {
    return is_zero(analyzer_.simplify(floormod(b, a)));
  };
  auto cut = [&](const PrimExpr& e) { return t.top ? e : floormod(e, t.extent); };
  if (at_least(border, upper) && divides(upper, border))
    return Division{zero, one, cut(floordiv(sum.inner, t.lower)), t.extent, zero};
  if (at_least(t.lower, border) && divides(border, t.lower))
    return Division{cut(floordiv(sum.outer, floordiv_exact(t.lower, border))), t.extent, zero, one, zero};
  if (!divides(t.lower, border) || !(t.top || divides(border, upper))) return std::nullopt;
  Division out;
  out.inner_extent = floordiv_exact(border, t.lower);
  out.inner = floordiv(sum.inner, t.lower);
  out.outer_extent = analyzer_.simplify(ceildiv(t.extent, out.inner_extent));
  out.outer = t.top ? sum.outer : floormod(sum.outer, out.outer_extent);
  out.base = zero;
  return out;
}

std::optional<std::vector<IterMap::Division>> IterMap::divide_subspace(const Array<PrimExpr>& values,
                                                                       const std::vector<VarRef>& inner) {
  std::vector<bool> is_inner(static_cast<size_t>(variables_), false);
  for (const VarRef& v : inner)
    if (auto it = known_.find(v.get()); it != known_.end()) is_inner[size_t(it->second.first)] = true;
  std::vector<Division> out;
  for (const PrimExpr& value : values) {
    std::optional<Sum> s = parse(value, 0);
    std::vector<Term> sorted;
    if (!s || (!s->terms.empty() && !sort(*s, true, sorted))) return std::nullopt;
    Division sum{PrimExpr(0), PrimExpr(1), PrimExpr(0), PrimExpr(1), s->base};
    bool outer_seen = false;
    PrimExpr reached(1);
    for (const Term& t : sorted) {
      const std::optional<Division> d = divide_digit(t, is_inner);
      if (!d) return std::nullopt;
      if (!is_one(d->inner_extent)) {
        if (outer_seen) return std::nullopt;
        sum.inner = sum.inner + d->inner * t.scale;
        sum.inner_extent = analyzer_.simplify(t.scale * d->inner_extent);
      }
      if (!is_one(d->outer_extent)) {
        outer_seen = true;
        sum.outer = sum.outer + d->outer * floordiv_exact(t.scale * d->inner_extent, sum.inner_extent);
        reached = analyzer_.simplify(t.scale * d->inner_extent * d->outer_extent);
      }
    }
    if (outer_seen) sum.outer_extent = floordiv_exact(reached, sum.inner_extent);
    sum.outer = analyzer_.simplify(sum.outer);
    sum.inner = analyzer_.simplify(sum.inner);
    sum.base = analyzer_.simplify(sum.base);
    out.push_back(std::move(sum));
  }
  return out;
}

std::optional<Array<PrimExpr>> IterMap::invert(const Array<PrimExpr>& values, const Array<PrimExpr>& at) {
  if (!run(values).injective) return std::nullopt;
  std::vector<std::vector<std::pair<Term, PrimExpr>>> digits(marks_.size());  // a digit of a mark, its value
  auto spread = [&](std::vector<Term> sorted, const PrimExpr& whole) {
    // Below the digits above, in steps of this one; where scales divide one another the next one is enough.
    PrimExpr below = whole;
    bool divide = true;
    for (size_t i = sorted.size(); i-- > 0;) {
      const PrimExpr& scale = sorted[i].scale;
      digits[size_t(sorted[i].mark)].emplace_back(sorted[i], analyzer_.simplify(floordiv(below, scale)));
      divide = divide &&
               (i + 1 == sorted.size() || is_zero(analyzer_.simplify(floormod(sorted[i + 1].scale, scale))));
      below = floormod(divide ? whole : below, scale);
    }
  };
  for (size_t i = 0; i < values.size(); ++i) {
    std::optional<Sum> s = parse(values[i], 0);
    std::vector<Term> sorted;
    if (!s->terms.empty() && !sort(*s, false, sorted)) return std::nullopt;
    spread(sorted, at[i] - s->base);
  }
  Array<PrimExpr> out(std::vector<PrimExpr>(size_t(variables_), PrimExpr(0)));
  for (size_t m = marks_.size(); m-- > 0;) {
    PrimExpr value = PrimExpr(0), reached = PrimExpr(1);
    bool top = false;
    // Of several digits that begin at one place, the one that reaches farthest.
    auto better = [](const Term& a, const Term& b) {
      if (a.top || b.top) return a.top && !b.top;
      return as_int(a.extent).value_or(0) > as_int(b.extent).value_or(0);
    };
    std::vector<std::pair<Term, PrimExpr>> rest = digits[m];
    // From the lowest digit up; a digit that another already gave is left out.
    while (!rest.empty()) {
      size_t pick = rest.size();
      for (size_t i = 0; i < rest.size(); ++i)
        if (same(rest[i].first.lower, reached) &&
            (pick == rest.size() || better(rest[i].first, rest[pick].first)))
          pick = i;
      if (pick == rest.size()) break;
      const auto [term, digit] = rest[pick];
      value = value + digit * term.lower;
      reached = term.lower * term.extent;
      rest.erase(rest.begin() + std::ptrdiff_t(pick));
      if (term.top) {
        top = true;
        break;
      }
    }
    const bool whole = top || at_least(reached, marks_[m].extent);
    if (int(m) < variables_) {
      if (!whole) return std::nullopt;
      out.set(m, analyzer_.simplify(mins_[m] + value));
    } else if (whole) {  // some digits alone do not determine the parts
      spread(marks_[m].parts, value);
    }
  }
  return out;
}

bool IterMap::same(const PrimExpr& a, const PrimExpr& b) {
  auto x = as_int(a), y = as_int(b);
  if (x && y) return *x == *y;
  return a.get() == b.get() || analyzer_.can_prove_equal(a, b);
}
bool IterMap::at_least(const PrimExpr& a, const PrimExpr& b) {
  auto x = as_int(a), y = as_int(b);
  if (x && y) return *x >= *y;
  return same(a, b) || analyzer_.can_prove(ge(a, b));
}
bool IterMap::has_variables(const PrimExpr& e) const { return mentions_any(e, known_); }

std::optional<IterMap::Sum> IterMap::parse(const PrimExpr& e, int depth) {
  if (depth > 64) return std::nullopt;
  if (const auto* v = e.as<Var>()) {
    Sum s;
    auto it = known_.find(v);
    if (it == known_.end()) {
      s.base = e;
    } else {
      s.base = it->second.second;
      s.terms.push_back(
          {it->second.first, PrimExpr(1), marks_[size_t(it->second.first)].extent, PrimExpr(1), true});
    }
    return s;
  }
  if (!has_variables(e)) {
    Sum s;
    s.base = e;
    return s;
  }
  if (const auto* n = e.as<Add>()) {
    const std::optional<Sum> a = parse(n->a, depth + 1), b = parse(n->b, depth + 1);
    if (a && !b) return carried(*a, n->b, depth);
    if (b && !a) return carried(*b, n->a, depth);
    return add(a, b);
  }
  if (const auto* n = e.as<Sub>(); n && !has_variables(n->b)) {
    auto s = parse(n->a, depth + 1);
    if (s) s->base = s->base - n->b;
    return s;
  }
  if (const auto* n = e.as<Mul>()) {
    const bool right = !has_variables(n->b);
    if (!right && has_variables(n->a)) return std::nullopt;
    const PrimExpr factor = right ? n->b : n->a;
    if (!at_least(factor, PrimExpr(1))) return std::nullopt;
    auto s = parse(right ? n->a : n->b, depth + 1);
    if (!s) return s;
    for (Term& t : s->terms) t.scale = t.scale * factor;
    s->base = s->base * factor;
    return s;
  }
  if (const auto* n = e.as<FloorDiv>(); n && !has_variables(n->b))
    return divide(parse(n->a, depth + 1), n->b, true);
  if (const auto* n = e.as<FloorMod>(); n && !has_variables(n->b))
    return divide(parse(n->a, depth + 1), n->b, false);
  return std::nullopt;
}

/// rest + n // c as (rest · c + n) // c: a simplifier takes multiples of c out of n, whose digits are then
/// found in both.
std::optional<IterMap::Sum> IterMap::carried(Sum rest, const PrimExpr& quotient, int depth) {
  const auto* n = quotient.as<FloorDiv>();
  if (!n || has_variables(n->b)) return std::nullopt;
  for (Term& t : rest.terms) t.scale = analyzer_.simplify(t.scale * n->b);
  rest.base = analyzer_.simplify(rest.base * n->b);
  std::optional<Sum> whole = add(parse(n->a, depth + 1), rest);
  if (!whole) return std::nullopt;
  for (Term& t : whole->terms) t.scale = analyzer_.simplify(t.scale);
  return divide(whole, n->b, true);
}

std::optional<IterMap::Sum> IterMap::add(std::optional<Sum> a, std::optional<Sum> b) {
  if (!a || !b) return std::nullopt;
  for (const Term& t : b->terms) {
    bool merged = false;
    for (Term& u : a->terms)
      if (u.mark == t.mark && same(u.lower, t.lower) && same(u.extent, t.extent)) {
        u.scale = u.scale + t.scale;
        merged = true;
        break;
      }
    if (!merged) a->terms.push_back(t);
  }
  a->base = a->base + b->base;
  return a;
}

/// One digit of scale 1 that has the sum's value (without base); nullopt when the sum is no mixed-radix
/// number.
std::optional<IterMap::Term> IterMap::fuse(const Sum& s) {
  std::vector<Term> sorted;
  if (!sort(s, true, sorted)) return std::nullopt;
  if (!same(sorted[0].scale, PrimExpr(1))) return std::nullopt;
  if (sorted.size() == 1) return sorted[0];
  for (size_t m = size_t(variables_); m < marks_.size(); ++m) {
    if (marks_[m].parts.size() != sorted.size()) continue;
    bool equal = true;
    for (size_t i = 0; i < sorted.size() && equal; ++i) {
      const Term &a = marks_[m].parts[i], &b = sorted[i];
      equal =
          a.mark == b.mark && same(a.lower, b.lower) && same(a.extent, b.extent) && same(a.scale, b.scale);
    }
    if (equal) return Term{int(m), PrimExpr(1), marks_[m].extent, PrimExpr(1), true};
  }
  PrimExpr extent = sorted.back().scale * sorted.back().extent;
  marks_.push_back({extent, sorted});
  return Term{int(marks_.size()) - 1, PrimExpr(1), extent, PrimExpr(1), true};
}

/// Terms by rising scale; true when each scale is the product of what is below it (or at least that much,
/// when not `exact`): then the value determines the digits.
bool IterMap::sort(const Sum& s, bool exact, std::vector<Term>& out) {
  std::vector<Term> rest;
  for (const Term& t : s.terms)
    if (!is_one(t.extent)) rest.push_back(t);
  if (rest.empty() && !s.terms.empty()) rest.push_back(s.terms[0]);
  if (rest.empty()) return false;
  auto constant = [](const Term& t) { return as_int(t.scale).value_or(INT64_MAX); };
  // Insertion keeps equal scales in order; there are few.
  for (size_t i = 1; i < rest.size(); ++i)
    for (size_t j = i; j > 0 && constant(rest[j]) < constant(rest[j - 1]); --j)
      std::swap(rest[j], rest[j - 1]);
  while (!rest.empty()) {
    size_t pick = 0;
    if (!out.empty()) {
      const PrimExpr next = out.back().scale * out.back().extent;
      bool found = false;
      for (size_t i = 0; i < rest.size() && !found; ++i)
        if (same(rest[i].scale, next)) pick = i, found = true;
      if (!found && (exact || !at_least(rest[0].scale, next))) return false;
    }
    out.push_back(rest[pick]);
    rest.erase(rest.begin() + std::ptrdiff_t(pick));
  }
  return true;
}
/// The same remainder by c as a mixed-radix number, if there is one: scales count up to multiples of c.
bool IterMap::chain(Sum& s, int64_t c) {
  std::vector<Term> rest = s.terms, out;
  for (int64_t next = 1; !rest.empty();) {
    const auto at = std::find_if(rest.begin(), rest.end(), [&](const Term& t) {
      const auto scale = as_int(t.scale);
      return scale && (*scale - next) % c == 0 && as_int(t.extent);
    });
    // What runs over nothing has no digits.
    if (at == rest.end() || *as_int(at->extent) < 1 ||
        __builtin_mul_overflow(next, *as_int(at->extent), &next))
      return false;
    out.push_back(*at);
    out.back().scale = PrimExpr(next / *as_int(at->extent));
    rest.erase(at);
  }
  s.terms = out;
  return true;
}

bool IterMap::decodable(const Sum& s) {
  std::vector<Term> sorted;
  return s.terms.empty() || sort(s, false, sorted);
}

std::optional<IterMap::Sum> IterMap::divide(std::optional<Sum> s, const PrimExpr& c, bool quotient) {
  if (!s || !at_least(c, PrimExpr(1))) return std::nullopt;
  if (is_one(c)) {
    if (quotient) return s;
    return Sum{};
  }
  // Scales that c divides leave the remainder at once.
  auto divides = [&](const PrimExpr& e) {
    auto x = as_int(e), y = as_int(c);
    if (x && y) return *x % *y == 0;
    return polynomial_quotient(analyzer_, e, c) || is_zero(analyzer_.simplify(floormod(e, c)));
  };
  Sum high, low;
  for (const Term& t : s->terms) (divides(t.scale) ? high : low).terms.push_back(t);
  const bool base_divides = divides(s->base);
  if (!base_divides) {
    // A base below c with nothing else below c does not carry.
    if (!low.terms.empty() || !at_least(s->base, PrimExpr(0)) || !at_least(c - 1, s->base))
      return std::nullopt;
    high.base = PrimExpr(0);
    low.base = s->base;
  } else {
    high.base = s->base;
  }
  if (low.terms.empty()) {
    if (!quotient) return low;
    for (Term& t : high.terms) t.scale = floordiv_exact(t.scale, c);
    high.base = floordiv_exact(high.base, c);
    return high;
  }
  // All low digits together stay below c: the high part is the quotient.
  std::vector<Term> sorted;
  if (sort(low, false, sorted) && at_least(c, sorted.back().scale * sorted.back().extent)) {
    if (!quotient) return low;
    for (Term& t : high.terms) t.scale = floordiv_exact(t.scale, c);
    high.base = floordiv_exact(high.base, c);
    return high;
  }
  if (!base_divides) return std::nullopt;
  // Digits below a scale that divides c do not reach the quotient: (5 x + y) // 35 is x // 7 while y < 5.
  std::vector<Term> digits;
  if (sort(*s, true, digits)) {
    for (size_t k = digits.size(); k-- > 1;) {
      const PrimExpr scale = digits[k].scale;
      auto x = as_int(c), y = as_int(scale);
      if (!x || !y || *y <= 1 || *x % *y != 0) continue;
      Sum upper, below;
      for (size_t i = 0; i < digits.size(); ++i) {
        if (i < k) {
          below.terms.push_back(digits[i]);
        } else {
          Term t = digits[i];
          t.scale = floordiv_exact(t.scale, scale);
          upper.terms.push_back(t);
        }
      }
      std::optional<Sum> part = divide(upper, PrimExpr(*x / *y), quotient);
      if (!part) break;
      if (quotient) {
        part->base = part->base + floordiv_exact(s->base, c);
        return part;
      }
      for (Term& t : part->terms) t.scale = t.scale * scale;
      part->base = part->base * scale;
      part->terms.insert(part->terms.end(), below.terms.begin(), below.terms.end());
      return part;
    }
  }
  Sum whole;
  whole.terms = s->terms;
  std::optional<Term> t = fuse(whole);
  if (const auto by = as_int(c); !t && !quotient && by && chain(whole, *by)) t = fuse(whole);
  if (!t) return std::nullopt;
  const bool top = t->top || at_least(t->lower * t->extent, marks_[size_t(t->mark)].extent);
  auto te = as_int(t->extent), ci = as_int(c);
  const bool even = te && ci ? *te % *ci == 0 : divides(t->extent);
  if (!top && !even) return std::nullopt;
  Sum out;
  if (quotient) {
    out.base = floordiv_exact(s->base, c);
    PrimExpr extent = polynomial_quotient(analyzer_, t->extent, c);
    if (!extent) extent = analyzer_.simplify(ceildiv(t->extent, c));
    out.terms.push_back({t->mark, t->lower * c, extent, PrimExpr(1), top});
  } else {
    out.terms.push_back({t->mark, t->lower, at_least(c, t->extent) ? t->extent : c, PrimExpr(1)});
  }
  return out;
}
PrimExpr IterMap::floordiv_exact(const PrimExpr& e, const PrimExpr& c) {
  if (PrimExpr q = polynomial_quotient(analyzer_, e, c)) return q;
  return analyzer_.simplify(floordiv(e, c));
}

/// The digits chain from 1 up to at least `extent`.
bool IterMap::covers(std::vector<Term> digits, const PrimExpr& extent) {
  PrimExpr reached = PrimExpr(1);
  while (!at_least(reached, extent)) {
    bool found = false;
    for (size_t i = 0; i < digits.size() && !found; ++i)
      if (same(digits[i].lower, reached)) {
        if (digits[i].top) return true;
        reached = digits[i].lower * digits[i].extent;
        digits.erase(digits.begin() + std::ptrdiff_t(i));
        found = true;
      }
    if (!found) return false;
  }
  return true;
}

}  // namespace tenon
