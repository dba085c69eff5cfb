// SPDX-License-Identifier: Apache-2.0
#include "analysis/inside.h"

#include <algorithm>

#include "analysis/condition.h"
#include "ir/find_node.h"
#include "ir/structural.h"
#include "ir/tir.h"

namespace tenon {

using namespace tir;

namespace {

/// The value without conversions that keep it.
PrimExpr stripped(PrimExpr e) {
  while (const auto* c = e.as<Cast>()) {
    const DataType from = c->value.dtype(), to = c->dtype;
    const bool keeps =
        from.is_scalar() && to.is_int() &&
        (from.is_int() ? from.bits <= to.bits : from.is_uint() && !from.is_bool() && from.bits < to.bits);
    if (!keeps) return e;
    e = c->value;
  }
  return e;
}

/// e = first * second with a positive constant; null when it is none.
std::pair<PrimExpr, int64_t> factor(const PrimExpr& e) {
  const auto* n = e.as<Mul>();
  const auto c = n ? as_int(n->b) : std::nullopt;
  return c && *c > 0 ? std::pair(n->a, *c) : std::pair(PrimExpr(), int64_t(0));
}
/// a / b where b's factors are factors of a; null otherwise.
PrimExpr divided(const PrimExpr& a, const PrimExpr& b) {
  auto factors_of = [](const PrimExpr& e, int64_t& constant) {
    std::vector<PrimExpr> out, todo{e};
    while (!todo.empty()) {
      const PrimExpr x = todo.back();
      todo.pop_back();
      if (const auto* n = x.as<Mul>())
        todo.insert(todo.end(), {n->a, n->b});
      else if (const auto c = as_int(x);
               c && *c > 0 && *c < (int64_t(1) << 31) && constant < (int64_t(1) << 31))
        constant *= *c;
      else
        out.push_back(x);
    }
    return out;
  };
  int64_t whole = 1, part = 1;
  std::vector<PrimExpr> left = factors_of(a, whole);
  for (const PrimExpr& f : factors_of(b, part)) {
    const auto at = std::ranges::find_if(left, [&](const PrimExpr& x) { return structural_equal(x, f); });
    if (at == left.end()) return {};
    left.erase(at);
  }
  if (whole % part != 0) return {};
  PrimExpr out = PrimExpr(whole / part);
  for (const PrimExpr& f : left) out = out * f;
  return out;
}

/// What a ≤ b (strict: a < b) says of a dividend where one of them is a quotient by a constant; null:
/// neither.
PrimExpr of_dividends(const PrimExpr& a, const PrimExpr& b, bool strict) {
  const auto *x = a.as<FloorDiv>(), *y = b.as<FloorDiv>();
  const auto c = x ? as_int(x->b) : y ? as_int(y->b) : std::nullopt;
  if (!c || *c < 1 || a.dtype() != i64) return {};
  if (x) return lt(x->a, (strict ? b : b + 1) * *c);
  return le((strict ? a + 1 : a) * *c, y->a);
}

/// small ≤ big, strict: small < big.
struct Order {
  PrimExpr small, big;
  bool strict = false;
};
/// The order of two integers that a condition says; nullopt: it says none.
std::optional<Order> order_of(PrimExpr c) {
  bool negated = false;
  while (const auto* n = c.as<Not>()) {
    c = n->a;
    negated = !negated;
  }
  std::optional<Order> out;
  if (const auto* lt = c.as<LT>()) out = {lt->a, lt->b, true};
  if (const auto* le = c.as<LE>()) out = {le->a, le->b, false};
  if (const auto* gt = c.as<GT>()) out = {gt->b, gt->a, true};
  if (const auto* ge = c.as<GE>()) out = {ge->b, ge->a, false};
  if (!out || !out->small.dtype().is_integer()) return std::nullopt;
  return negated ? Order{out->big, out->small, !out->strict} : *out;
}

PrimExpr wide(const PrimExpr& e) { return e.dtype() == i64 ? e : cast(i64, e); }

}  // namespace

void Inside::define(const VarRef& v, const PrimExpr& value) {
  analyzer_.bind(v, value, true);
  if (!from_data(value)) return;
  values_[v.get()] = value;
  from_data_.insert(v.get());
}

void Inside::define(const VarRef& v, const Range& range) {
  analyzer_.bind(v, range, true);
  if (v->dtype == i64 && is_zero(range->min)) extents_[v.get()] = range->extent;
  if (from_data(range->min) || from_data(range->extent)) from_data_.insert(v.get());
}

bool Inside::from_data(const PrimExpr& e) const {
  return any_node(e, not_in_buffers, [&](const ObjectRef& n) {
    const auto* c = n.as<tir::Call>();
    return n.is<BufferLoad>() || n.is<ProducerLoad>() ||
           (c && c->op != "tir.if_then_else" && c->op != "tir.likely") ||
           (n.is<Var>() && from_data_.count(n.as<Var>()));
  });
}

// ---------------------------------------------------------------- what is known
/// Comparisons of integers are kept as they stand; what speaks of memory that changes is dropped, the rest is
/// joined to `plain` for the analyzer.
void Inside::learn(const PrimExpr& condition, const std::unordered_set<const Var*>& written,
                   PrimExpr& plain) {
  std::vector<PrimExpr> todo{condition};
  while (!todo.empty()) {
    const PrimExpr c = todo.back();
    todo.pop_back();
    if (!c.dtype().is_scalar()) continue;
    if (split_conjunction(c, todo)) continue;
    // A lazy "and", as definitions write it.
    if (const auto* n = c.as<tir::Call>(); n && n->op == "tir.if_then_else" && is_zero(n->args[2])) {
      todo.push_back(n->args[1]);
      todo.push_back(n->args[0]);
      continue;
    }
    const bool stale = any_node(c, not_in_buffers, [&](const ObjectRef& n) {
      const auto* l = n.as<BufferLoad>();
      return n.is<ProducerLoad>() || (l && written.count(l->buffer->data.get()));
    });
    if (stale) continue;
    PrimExpr x = c;
    bool negated = false;
    while (const auto* n = x.as<Not>()) {
      x = n->a;
      negated = !negated;
    }
    if (const auto* n = x.as<Or>(); n && negated) {
      todo.push_back(logical_not(n->b));
      todo.push_back(logical_not(n->a));
      continue;
    }
    auto keep = [&](const Order& o) {
      if (from_data(c))
        known_.push_back({stripped(o.small), stripped(o.big), o.strict});
      else if (const PrimExpr more = of_dividends(o.small, o.big, o.strict))
        plain = plain ? logical_and(plain, more) : more;
    };
    if (const auto order = order_of(c)) keep(*order);
    if (const auto* either = x.as<Or>(); either && !negated && !from_data(x))
      either_.push_back({either->a, either->b});
    if (const auto* eq = x.as<EQ>(); eq && !negated && eq->a.dtype().is_integer()) {
      keep({eq->a, eq->b, false});
      keep({eq->b, eq->a, false});
      if (eq->a.dtype() == i64 && !from_data(x)) equal_.emplace_back(eq->a, eq->b);
    }
    plain = plain ? logical_and(plain, c) : c;
  }
}

Inside::Scope Inside::assume(const PrimExpr& condition, const std::unordered_set<const Var*>& written) {
  const size_t known = known_.size(), either = either_.size(), equal = equal_.size();
  PrimExpr plain;
  learn(condition, written, plain);
  return Scope(this, analyzer_.assume(plain ? plain : true_()), known, either, equal);
}

bool Inside::never(const PrimExpr& condition) {
  std::vector<PrimExpr> todo{condition};
  while (!todo.empty()) {
    const PrimExpr c = todo.back();
    todo.pop_back();
    if (!c.dtype().is_scalar() || split_conjunction(c, todo) || from_data(c)) continue;
    const auto order = order_of(c);
    const PrimExpr more = order ? of_dividends(order->small, order->big, order->strict) : PrimExpr();
    if (analyzer_.can_prove(logical_not(more ? more : c))) return true;
  }
  return false;
}

bool Inside::is_false(const PrimExpr& condition) {
  // A product is 0 where a factor is.
  const auto* zero = condition.as<EQ>();
  if (!zero || !is_zero(zero->b) || zero->a.dtype() != i64)
    return analyzer_.can_prove(logical_not(condition));
  std::vector<PrimExpr> factors{zero->a};
  while (!factors.empty()) {
    const PrimExpr e = factors.back();
    factors.pop_back();
    if (const auto* n = e.as<Mul>())
      factors.insert(factors.end(), {n->a, n->b});
    else if (!analyzer_.can_prove_ge(e, 1))
      return false;
  }
  return true;
}

void Inside::decide(std::vector<size_t>& decided, std::vector<Analyzer::Scope>& follows) {
  for (size_t i = 0; i < either_.size(); ++i) {
    if (either_[i].decided) continue;
    const Either e = either_[i];
    const PrimExpr other = is_false(e.second) ? e.first : is_false(e.first) ? e.second : PrimExpr();
    if (!other) continue;
    either_[i].decided = true;
    decided.push_back(i);
    follows.push_back(analyzer_.assume(other));
  }
}

// ---------------------------------------------------------------- proofs
bool Inside::choice(const PrimExpr& condition, FunctionRef<bool()> yes, FunctionRef<bool()> no) {
  {
    const Scope in = assume(condition, {});
    if (!yes()) return false;
  }
  const Scope in = assume(logical_not(condition), {});
  return no();
}

bool Inside::at_most(const PrimExpr& a, const PrimExpr& b, int depth) {
  if (depth <= 0) return false;
  const PrimExpr x = stripped(a), y = stripped(b);
  const bool data = from_data(x) || from_data(y);
  if (const auto v = as_int(y); v && analyzer_.bound(x).max <= *v) return true;
  if (const auto v = as_int(x); v && analyzer_.bound(y).min >= *v) return true;
  if (!data && x.dtype().is_integer() && y.dtype().is_integer() && analyzer_.can_prove(le(wide(x), wide(y))))
    return true;
  if (data && x.dtype() == y.dtype() && structural_equal(x, y)) return true;
  if (upper(x, y, depth - 1) || lower(x, y, depth - 1)) return true;
  if (x.dtype() != i64 || y.dtype() != i64) return false;
  // One side at a time, so that what is the same on both stays.
  auto proved = [&](const PrimExpr& small, const PrimExpr& big) {
    return !from_data(small) && !from_data(big) && analyzer_.can_prove(le(small, big));
  };
  const PrimExpr most = extreme(x, true, depth - 1);
  if (!most.same_as(x) && proved(most, y)) return true;
  const PrimExpr least = extreme(y, false, depth - 1);
  return !least.same_as(y) && proved(x, least);
}

PrimExpr Inside::extent_of(const PrimExpr& e) const {
  if (const auto* v = e.as<Var>()) {
    auto it = extents_.find(v);
    return it == extents_.end() ? PrimExpr() : it->second;
  }
  if (const auto* n = e.as<FloorMod>()) return n->b;
  const auto* n = e.as<FloorDiv>();
  const PrimExpr whole = n ? extent_of(n->a) : PrimExpr();
  return whole ? divided(whole, n->b) : PrimExpr();
}

PrimExpr Inside::extreme(const PrimExpr& e, bool above, int depth) {
  if (depth <= 0 || e.dtype() != i64) return e;
  --depth;
  if (const auto* n = e.as<FloorMod>())
    return at_most(PrimExpr(1), n->b, depth) ? (above ? n->b - 1 : PrimExpr(0)) : e;
  if (const auto* n = e.as<FloorDiv>()) {
    if (!at_most(PrimExpr(1), n->b, depth)) return e;
    if (!above) return at_most(PrimExpr(0), n->a, depth) ? PrimExpr(0) : e;
    const PrimExpr extent = extent_of(e);
    return extent ? extent - 1 : e;
  }
  auto bounded_parts = [&](const auto* n) { return both_bounded(n->a, depth) && both_bounded(n->b, depth); };
  if (const auto* n = e.as<Add>(); n && bounded_parts(n))
    return extreme(n->a, above, depth) + extreme(n->b, above, depth);
  if (const auto* n = e.as<Sub>(); n && bounded_parts(n))
    return extreme(n->a, above, depth) - extreme(n->b, !above, depth);
  if (const auto* n = e.as<Mul>(); n && bounded_parts(n)) {
    for (const auto& [x, k] : {std::pair(n->a, n->b), std::pair(n->b, n->a)}) {
      if (k.is<FloorMod>() || k.is<FloorDiv>() || !at_most(PrimExpr(0), k, depth)) continue;
      const PrimExpr end = extreme(x, above, depth);
      if (!end.same_as(x)) return end * k;
    }
    return e;
  }
  // Where data are clamped, the clamp decides.
  auto clamped = [&](const auto* n) {
    return from_data(n->a) == from_data(n->b) ? PrimExpr() : from_data(n->a) ? n->b : n->a;
  };
  if (const auto* n = e.as<tir::Min>()) {
    if (const PrimExpr limit = above ? clamped(n) : PrimExpr()) return extreme(limit, above, depth);
    return tir::min(extreme(n->a, above, depth), extreme(n->b, above, depth));
  }
  if (const auto* n = e.as<tir::Max>()) {
    if (const PrimExpr limit = above ? PrimExpr() : clamped(n)) return extreme(limit, above, depth);
    return tir::max(extreme(n->a, above, depth), extreme(n->b, above, depth));
  }
  return e;
}

void Inside::parts_at_least(const PrimExpr& e, int64_t least, PrimExpr& out, int depth) {
  if (depth <= 0 || least < 1 || as_int(e) || e.dtype() != i64) return;
  out = out ? logical_and(out, ge(e, PrimExpr(least))) : ge(e, PrimExpr(least));
  --depth;
  if (const auto* n = e.as<Mul>()) {
    // Where one of two numbers is no less than 0 and their product is above it, both are.
    const auto c = as_int(n->b);
    if (at_most(PrimExpr(0), n->a, kDepth) || at_most(PrimExpr(0), n->b, kDepth)) {
      parts_at_least(n->a, c && *c > 0 ? (least + *c - 1) / *c : 1, out, depth);
      parts_at_least(n->b, 1, out, depth);
    } else if (const auto* m = n->a.as<Mul>()) {  // x · y · z, as x · (y · z)
      parts_at_least(m->a * simplify(m->b * n->b), 1, out, depth);
    }
  } else if (const auto* d = e.as<FloorDiv>()) {
    if (const auto c = as_int(d->b); c && *c > 0 && *c < (int64_t(1) << 31) && least < (int64_t(1) << 31))
      parts_at_least(d->a, least * *c, out, depth);
  } else if (const auto* a = e.as<Add>()) {
    if (const auto c = as_int(a->b)) return parts_at_least(a->a, least - *c, out, depth);
    // Sizes without which e would be less, as n of n + (n + 1) // 2.
    std::vector<VarRef> sizes;
    pre_order(e, [&](const ObjectRef& n) {
      const auto* v = n.as<Var>();
      if (v && std::ranges::none_of(sizes, [&](const VarRef& s) { return s.get() == v; }))
        sizes.push_back(VarRef(Ref<Var>(v)));
      return true;
    });
    for (const VarRef& v : sizes) {
      const VarMap none{{v.get(), PrimExpr::int_imm(0, v->dtype)}};
      if (v->dtype != i64 || !analyzer_.can_prove_ge(v, 0) ||
          !analyzer_.can_prove_lt(analyzer_.simplify(substitute(e, none)), least))
        continue;
      out = logical_and(out, ge(v, PrimExpr(1)));
    }
  } else if (const auto* m = e.as<tir::Min>()) {
    parts_at_least(m->a, least, out, depth);
    parts_at_least(m->b, least, out, depth);
  }
}

PrimExpr Inside::missing(const PrimExpr& a, const PrimExpr& b) {
  if (at_most(a, b)) return {};
  const PrimExpr x = stripped(a), y = stripped(b);
  const auto* most = x.as<tir::Max>();
  const auto* least = y.as<tir::Min>();
  if (!most && !least) return le(wide(x), wide(y));
  const PrimExpr first = most ? missing(most->a, y) : missing(x, least->a),
                 second = most ? missing(most->b, y) : missing(x, least->b);
  return !first ? second : !second ? first : logical_and(first, second);
}

PrimExpr Inside::within(const VarRef& v, const PrimExpr& extent) {
  const bool decided = std::ranges::any_of(either_, &Either::decided);
  if ((equal_.empty() && !decided) || as_int(extent) || v->dtype != i64) return {};
  const PrimExpr size = analyzer_.simplify(extent);
  // The range of v may have been bound before a size was known.
  PrimExpr out = decided && !structural_equal(size, extent) ? lt(v, size) : PrimExpr();
  for (const auto& [a, b] : equal_)
    for (const auto& [same, other] : {std::pair(a, b), std::pair(b, a)}) {
      if (!structural_equal(same, extent) && !structural_equal(analyzer_.simplify(same), size)) continue;
      const PrimExpr more = lt(v, other);
      out = out ? logical_and(out, more) : more;
    }
  return out;
}

PrimExpr Inside::runs(const PrimExpr& extent) {
  PrimExpr out;
  parts_at_least(analyzer_.simplify(extent), 1, out, kDepth);
  return out ? out : ge(extent, PrimExpr::int_imm(1, extent.dtype()));
}

bool Inside::upper(const PrimExpr& a, const PrimExpr& b, int depth) {
  // Conversions that keep the value are gone: what is left of other types is bounded by its type alone.
  if (const auto* n = a.as<tir::Min>()) {
    if (at_most(n->a, b, depth) || at_most(n->b, b, depth)) return true;
    // The smaller one is no more than half of their sum.
    return n->dtype == i64 && !from_data(a) && at_most(n->a + n->b, wide(b) * 2 + 1, depth);
  }
  if (const auto* n = a.as<tir::Max>()) return at_most(n->a, b, depth) && at_most(n->b, b, depth);
  if (const auto* n = a.as<Select>(); n && n->condition.dtype().is_scalar())
    return choice(
        n->condition, [&] { return at_most(n->true_value, b, depth); },
        [&] { return at_most(n->false_value, b, depth); });
  if (const auto* n = a.as<tir::Call>(); n && n->op == "tir.if_then_else")
    return choice(
        n->args[0], [&] { return at_most(n->args[1], b, depth); },
        [&] { return at_most(n->args[2], b, depth); });
  if (const auto* v = a.as<Var>()) {
    if (auto it = values_.find(v); it != values_.end() && at_most(it->second, b, depth)) return true;
  }
  if (const auto* n = a.as<FloorMod>(); n && !from_data(n->b) && at_most(PrimExpr(1), n->b, depth))
    return at_most(n->b - PrimExpr::int_imm(1, n->b.dtype()), b, depth);
  // x // d ≤ b where x ≤ b · d + d - 1.
  if (const auto* n = a.as<FloorDiv>(); n && !from_data(n->b) && at_most(PrimExpr(1), n->b, depth)) {
    const PrimExpr d = wide(n->b);
    return at_most(n->a, wide(b) * d + (d - 1), depth);
  }
  if (!from_data(a)) {
    const auto* n = a.as<Add>();
    if (n && n->a.is<FloorDiv>()) return at_most(n->a, wide(b) - n->b, depth);
    return n && n->b.is<FloorDiv>() && at_most(n->b, wide(b) - n->a, depth);
  }
  for (const Known& k : known_)
    if (k.small.dtype() == a.dtype() && structural_equal(k.small, a)) {
      const PrimExpr limit = k.strict ? wide(k.big) - 1 : wide(k.big);
      if (!from_data(limit) && at_most(limit, b, depth)) return true;
    }
  if (a.dtype() != i64) return false;
  if (const auto* n = a.as<Add>()) {
    for (const auto& [x, k] : {std::pair(n->a, n->b), std::pair(n->b, n->a)})
      if (!from_data(k)) return bounded(x, false, depth) && at_most(x, wide(b) - k, depth);
  }
  if (const auto* n = a.as<Sub>()) {
    if (!from_data(n->b)) return bounded(n->a, false, depth) && at_most(n->a, wide(b) + n->b, depth);
    if (!from_data(n->a)) return bounded(n->b, true, depth) && at_most(n->a - wide(b), n->b, depth);
  }
  if (const auto [x, c] = factor(a); x)
    return bounded(x, false, depth) && at_most(x, floordiv(wide(b), PrimExpr(c)), depth);
  return false;
}

bool Inside::lower(const PrimExpr& a, const PrimExpr& b, int depth) {
  if (const auto* n = b.as<tir::Max>()) return at_most(a, n->a, depth) || at_most(a, n->b, depth);
  if (const auto* n = b.as<tir::Min>()) return at_most(a, n->a, depth) && at_most(a, n->b, depth);
  if (const auto* n = b.as<Select>(); n && n->condition.dtype().is_scalar())
    return choice(
        n->condition, [&] { return at_most(a, n->true_value, depth); },
        [&] { return at_most(a, n->false_value, depth); });
  if (const auto* n = b.as<tir::Call>(); n && n->op == "tir.if_then_else")
    return choice(
        n->args[0], [&] { return at_most(a, n->args[1], depth); },
        [&] { return at_most(a, n->args[2], depth); });
  if (const auto* v = b.as<Var>()) {
    if (auto it = values_.find(v); it != values_.end() && at_most(a, it->second, depth)) return true;
  }
  if (const auto* n = b.as<FloorMod>(); n && !from_data(n->b) && at_most(PrimExpr(1), n->b, depth))
    return at_most(a, PrimExpr(0), depth);
  if (const auto* n = b.as<FloorDiv>(); n && !from_data(n->b) && at_most(PrimExpr(1), n->b, depth))
    return at_most(wide(a) * wide(n->b), n->a, depth);
  if (!from_data(b)) return false;
  for (const Known& k : known_)
    if (k.big.dtype() == b.dtype() && structural_equal(k.big, b)) {
      const PrimExpr limit = k.strict ? wide(k.small) + 1 : wide(k.small);
      if (!from_data(limit) && at_most(a, limit, depth)) return true;
    }
  if (b.dtype() != i64) return false;
  if (const auto* n = b.as<Add>()) {
    for (const auto& [x, k] : {std::pair(n->a, n->b), std::pair(n->b, n->a)})
      if (!from_data(k)) return bounded(x, true, depth) && at_most(wide(a) - k, x, depth);
  }
  if (const auto* n = b.as<Sub>()) {
    if (!from_data(n->b)) return bounded(n->a, true, depth) && at_most(wide(a) + n->b, n->a, depth);
    if (!from_data(n->a)) return bounded(n->b, false, depth) && at_most(n->b, n->a - wide(a), depth);
  }
  if (const auto [x, c] = factor(b); x)
    return bounded(x, true, depth) && at_most(floordiv(wide(a) + (c - 1), PrimExpr(c)), x, depth);
  return false;
}

bool Inside::bounded(const PrimExpr& e, bool above, int depth) {
  const PrimExpr x = stripped(e);
  if (!from_data(x)) return true;
  const ConstBound b = analyzer_.bound(x);
  if (above ? b.max != ConstBound::pos_inf : b.min != ConstBound::neg_inf) return true;
  if (depth <= 0) return false;
  --depth;
  auto any = [&](const auto* n) { return bounded(n->a, above, depth) || bounded(n->b, above, depth); };
  auto all = [&](const auto* n) { return bounded(n->a, above, depth) && bounded(n->b, above, depth); };
  if (const auto* n = x.as<tir::Min>()) return above ? any(n) : all(n);
  if (const auto* n = x.as<tir::Max>()) return above ? all(n) : any(n);
  if (const auto* n = x.as<Select>())
    return bounded(n->true_value, above, depth) && bounded(n->false_value, above, depth);
  if (const auto* n = x.as<tir::Call>(); n && n->op == "tir.if_then_else")
    return bounded(n->args[1], above, depth) && bounded(n->args[2], above, depth);
  if (const auto* n = x.as<FloorMod>()) return !from_data(n->b) && at_most(PrimExpr(1), n->b, depth);
  if (const auto* n = x.as<FloorDiv>())
    return !from_data(n->b) && at_most(PrimExpr(1), n->b, depth) && bounded(n->a, above, depth);
  // Both ends: a sum or multiple that overflows has none.
  auto both = [&](const auto* n) { return both_bounded(n->a, depth) && both_bounded(n->b, depth); };
  if (const auto* n = x.as<Mul>()) return both(n);
  if (const auto* n = x.as<Add>()) return both(n);
  if (const auto* n = x.as<Sub>()) return both(n);
  if (const auto* v = x.as<Var>()) {
    if (auto it = values_.find(v); it != values_.end() && bounded(it->second, above, depth)) return true;
  }
  for (const Known& k : known_) {
    const PrimExpr &self = above ? k.small : k.big, &other = above ? k.big : k.small;
    if (!from_data(other) && self.dtype() == x.dtype() && structural_equal(self, x)) return true;
  }
  return false;
}

}  // namespace tenon
