// SPDX-License-Identifier: Apache-2.0
// How iterators are bound to loops: each binding is read as a sum of digits (x // lower) % extent * scale of
// loops or of fused loops. When every digit of every loop is found again, different loop values run different
// block instances, which is what parallel, vectorised and reordered loops need.
#include <algorithm>

#include "schedule/state.h"

namespace tenon::sched {

using namespace tir;

namespace {

struct Term {  // (mark // lower) % extent * scale
  int mark = -1;
  PrimExpr lower, extent, scale;
  bool top = false;  ///< lower * extent reaches the mark's extent: nothing lies above
};
struct Sum {
  std::vector<Term> terms;
  PrimExpr base = PrimExpr(0);
};
struct Mark {
  PrimExpr extent;
  std::vector<Term> parts;
};  // parts: empty for a loop, else a fused sum

class Detector {
 public:
  explicit Detector(Analyzer& a) : analyzer_(a) {}

  void add_loop(const VarRef& v, const PrimExpr& min, const PrimExpr& extent) {
    loops_[v.get()] = {int(marks_.size()), min};
    marks_.push_back({extent, {}});
    ++loop_count_;
  }

  Binding run(const Array<PrimExpr>& values) {
    Binding out;
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
      if (int(m) < loop_count_) {
        if (!is_one(marks_[m].extent) && !covers(of_mark, marks_[m].extent)) return out;
      } else if (covers(of_mark, marks_[m].extent)) {
        used.insert(used.end(), marks_[m].parts.begin(), marks_[m].parts.end());
      }
    }
    out.injective = true;
    return out;
  }

 private:
  bool same(const PrimExpr& a, const PrimExpr& b) {
    auto x = as_int(a), y = as_int(b);
    if (x && y) return *x == *y;
    return a.get() == b.get() || analyzer_.can_prove_equal(a, b);
  }
  bool at_least(const PrimExpr& a, const PrimExpr& b) {
    auto x = as_int(a), y = as_int(b);
    if (x && y) return *x >= *y;
    return same(a, b) || analyzer_.can_prove(ge(a, b));
  }
  bool has_loops(const PrimExpr& e) const {
    bool found = false;
    post_order(e, [&](const ObjectRef& n) {
      if (const auto* v = n.as<Var>()) found = found || loops_.count(v);
    });
    return found;
  }

  std::optional<Sum> parse(const PrimExpr& e, int depth) {
    if (depth > 64) return std::nullopt;
    if (const auto* v = e.as<Var>()) {
      Sum s;
      auto it = loops_.find(v);
      if (it == loops_.end()) {
        s.base = e;
      } else {
        s.base = it->second.second;
        s.terms.push_back(
            {it->second.first, PrimExpr(1), marks_[size_t(it->second.first)].extent, PrimExpr(1), true});
      }
      return s;
    }
    if (!has_loops(e)) {
      Sum s;
      s.base = e;
      return s;
    }
    if (const auto* n = e.as<Add>()) return add(parse(n->a, depth + 1), parse(n->b, depth + 1));
    if (const auto* n = e.as<Sub>(); n && !has_loops(n->b)) {
      auto s = parse(n->a, depth + 1);
      if (s) s->base = s->base - n->b;
      return s;
    }
    if (const auto* n = e.as<Mul>()) {
      const bool right = !has_loops(n->b);
      if (!right && has_loops(n->a)) return std::nullopt;
      const PrimExpr factor = right ? n->b : n->a;
      if (!at_least(factor, PrimExpr(1))) return std::nullopt;
      auto s = parse(right ? n->a : n->b, depth + 1);
      if (!s) return s;
      for (Term& t : s->terms) t.scale = t.scale * factor;
      s->base = s->base * factor;
      return s;
    }
    if (const auto* n = e.as<FloorDiv>(); n && !has_loops(n->b))
      return divide(parse(n->a, depth + 1), n->b, true);
    if (const auto* n = e.as<FloorMod>(); n && !has_loops(n->b))
      return divide(parse(n->a, depth + 1), n->b, false);
    return std::nullopt;
  }

  std::optional<Sum> add(std::optional<Sum> a, std::optional<Sum> b) {
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
  std::optional<Term> fuse(const Sum& s) {
    std::vector<Term> sorted;
    if (!sort(s, true, sorted)) return std::nullopt;
    if (!same(sorted[0].scale, PrimExpr(1))) return std::nullopt;
    if (sorted.size() == 1) return sorted[0];
    for (size_t m = size_t(loop_count_); m < marks_.size(); ++m) {
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
  bool sort(const Sum& s, bool exact, std::vector<Term>& out) {
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
  bool decodable(const Sum& s) {
    std::vector<Term> sorted;
    return s.terms.empty() || sort(s, false, sorted);
  }

  std::optional<Sum> divide(std::optional<Sum> s, const PrimExpr& c, bool quotient) {
    if (!s || !at_least(c, PrimExpr(1))) return std::nullopt;
    if (is_one(c)) {
      if (quotient) return s;
      return Sum{};
    }
    // Scales that c divides leave the remainder at once.
    auto divides = [&](const PrimExpr& e) {
      auto x = as_int(e), y = as_int(c);
      if (x && y) return *x % *y == 0;
      return is_zero(analyzer_.simplify(floormod(e, c)));
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
    if (!t) return std::nullopt;
    const bool top = t->top || at_least(t->lower * t->extent, marks_[size_t(t->mark)].extent);
    auto te = as_int(t->extent), ci = as_int(c);
    const bool even = te && ci ? *te % *ci == 0 : is_zero(analyzer_.simplify(floormod(t->extent, c)));
    if (!top && !even) return std::nullopt;
    Sum out;
    if (quotient) {
      out.base = floordiv_exact(s->base, c);
      out.terms.push_back(
          {t->mark, t->lower * c, analyzer_.simplify(ceildiv(t->extent, c)), PrimExpr(1), top});
    } else {
      out.terms.push_back({t->mark, t->lower, at_least(c, t->extent) ? t->extent : c, PrimExpr(1)});
    }
    return out;
  }
  PrimExpr floordiv_exact(const PrimExpr& e, const PrimExpr& c) { return analyzer_.simplify(floordiv(e, c)); }

  /// The digits chain from 1 up to at least `extent`.
  bool covers(std::vector<Term> digits, const PrimExpr& extent) {
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

  Analyzer& analyzer_;
  std::vector<Mark> marks_;
  int loop_count_ = 0;
  std::unordered_map<const Var*, std::pair<int, PrimExpr>> loops_;
};

}  // namespace

bool writes_apart(const Ref<Block>& b) {
  Analyzer analyzer;
  for (const IterVar& v : b->iter_vars) analyzer.bind(v->var, v->dom, true);
  for (const BufferRegion& w : b->writes) {
    Detector d(analyzer);
    for (const IterVar& v : b->iter_vars)
      if (v->kind == IterKind::spatial) d.add_loop(v->var, v->dom->min, v->dom->extent);
    Array<PrimExpr> at;
    for (const Range& r : w->region) {
      if (!is_one(r->extent)) return false;
      at.push_back(r->min);
    }
    if (!d.run(at).injective) return false;
  }
  return true;
}

Binding State::binding(int32_t block, const std::vector<int32_t>& loops) {
  Ref<BlockRealize> r = realize(block);
  std::vector<ObjectRef> key;
  for (int32_t l : loops) key.push_back(loop(l)->loop_var), key.push_back(loop(l)->extent);
  auto& known = facts->bindings[r.get()];
  for (const auto& f : known)
    if (f.realize.same_as(r) && f.ranges.size() == key.size() &&
        std::equal(key.begin(), key.end(), f.ranges.begin(),
                   [](const ObjectRef& a, const ObjectRef& b) { return a.get() == b.get(); }))
      return f.value;
  Analyzer analyzer;
  bind_loops(*this, analyzer, block);
  Detector d(analyzer);
  for (int32_t l : loops) d.add_loop(loop(l)->loop_var, loop(l)->min, loop(l)->extent);
  Binding value = d.run(r->iter_values);
  // What tells all loops apart tells some of them apart while the others stand still.
  if (const std::vector<int32_t> all = loops_of(block); !value.injective && all.size() > loops.size()) {
    Detector whole(analyzer);
    for (int32_t l : all) whole.add_loop(loop(l)->loop_var, loop(l)->min, loop(l)->extent);
    Binding of_all = whole.run(r->iter_values);
    if (of_all.injective) value = of_all;
  }
  known.push_back({r, key, value});
  return value;
}

}  // namespace tenon::sched
