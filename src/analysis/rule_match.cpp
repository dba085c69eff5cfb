// SPDX-License-Identifier: Apache-2.0
// What the variables of a rule stand for, proof of its conditions, and construction of what replaces a match.
#include "analysis/rule_engine.h"

namespace tenon::analysis_detail {

namespace {

using Node = RuleTree::Node;

bool exact_widening(DataType from, DataType to) {
  if (from.is_bool()) return to.is_integer();
  return (from.is_int() && to.is_int() && to.bits >= from.bits) ||
         (from.is_uint() && to.is_integer() && to.bits > from.bits);
}
}  // namespace

// ---------------------------------------------------------------- what variables stand for
void RuleMatch::start(const ReadyRule& rule) {
  rule_ = &rule;
  type_ = DataType();
  for (Slot& s : slots_) s.set = false;
}

void RuleMatch::set(char letter, Sum s) {
  const int i = rule_->slot(letter);
  if (i < 0) return;
  slots_[size_t(i)] = {PrimExpr(), std::move(s), std::nullopt, true};
}
void RuleMatch::set(char letter, int64_t v) {
  const int i = rule_->slot(letter);
  if (i < 0) return;
  Sum s;
  s.base = v;
  slots_[size_t(i)] = {PrimExpr(), std::move(s), v, true};
}

const RuleMatch::Sum& RuleMatch::sum_in(int slot) {
  Slot& s = slots_[size_t(slot)];
  if (!s.sum) s.sum = impl_.parse(s.expr);
  return *s.sum;
}
PrimExpr RuleMatch::expr_in(int slot) {
  Slot& s = slots_[size_t(slot)];
  if (!s.expr)
    s.expr = s.value ? PrimExpr::int_imm(*s.value, type_ == DataType() ? i64 : type_) : impl_.expr_of(*s.sum);
  return s.expr;
}

bool RuleMatch::bind(const Node& n, const PrimExpr& e) {
  const DataType t = e.dtype();
  if (n.dtype.is_bool()) {
    if (!t.is_bool() || (n.dtype.is_vector() && t.lanes != lanes_)) return false;
  } else {
    const DataType element = t.element();
    switch (rule_->rule->domain) {
      case RuleDomain::index:
        if (t != i64) return false;
        break;
      case RuleDomain::integer:
        if (!element.is_integer()) return false;
        break;
      default:
        break;
    }
    if (n.constant && !element.is_integer()) return false;
    if (type_ == DataType())
      type_ = element;
    else if (type_ != element)
      return false;
  }
  Slot& s = slots_[size_t(n.slot)];
  if (n.constant) {
    const auto v = tir::as_int(e);
    if (!v || (s.set && *s.value != *v)) return false;
    if (!s.set) s = {e, std::nullopt, *v, true};
    return true;
  }
  if (s.set) return impl_.compare(expr_in(n.slot), e) == 0;
  s = {e, std::nullopt, std::nullopt, true};
  return true;
}

bool RuleMatch::match(int node, const PrimExpr& e) {
  const Node& n = rule_->pattern[node];
  if (n.slot >= 0) return bind(n, e);
  if (n.closed) {
    const auto v = tir::as_int(e);
    if (!v) return false;
    if (n.kind == kind_of<tir::IntImm>()) return *v == n.value && n.dtype.is_bool() == e.dtype().is_bool();
    // A product of constants, one of them known by now.
    const Node *known = &rule_->pattern[n.child[0]], *open = &rule_->pattern[n.child[1]];
    if (n.kind != kind_of<tir::Mul>() || known->slot < 0 || open->slot < 0) return false;
    if (!slots_[size_t(known->slot)].set) std::swap(known, open);
    if (!slots_[size_t(known->slot)].set) return false;
    const int64_t k = *slots_[size_t(known->slot)].value;
    if (k <= 0 || *v % k != 0) return false;
    return bind(*open, PrimExpr::int_imm(*v / k, e.dtype()));
  }
  if (n.kind != e->type_index) return false;
  const Operands o = operands(e);
  if (n.kind == kind_of<tir::Cast>()) {
    const Node& inner = rule_->pattern[n.child[0]];
    // What is inside is a variable, or a widening of one whose type the outer cast goes back to.
    if (inner.slot >= 0) return exact_widening((*o.a).dtype(), e.dtype()) && bind(inner, *o.a);
    const auto* c = (*o.a).as<tir::Cast>();
    return c && c->value.dtype() == e.dtype() && match(n.child[0], *o.a);
  }
  const bool swapped = n.swap_bit >= 0 && (swapped_ >> n.swap_bit & 1);
  const PrimExpr *a = swapped ? o.b : o.a, *b = swapped ? o.a : o.b;
  if (!match(n.child[0], *a)) return false;
  if (n.child[1] >= 0 && !match(n.child[1], *b)) return false;
  return n.child[2] < 0 || match(n.child[2], *o.c);
}

// ---------------------------------------------------------------- conditions
std::optional<int64_t> RuleMatch::closed(const RuleTree& tree, int node) {
  const Node& n = tree[node];
  if (n.slot >= 0) return slots_[size_t(n.slot)].value;
  if (n.child[0] < 0) return n.value;
  const auto x = closed(tree, n.child[0]), y = closed(tree, n.child[1]);
  if (!x || !y) return std::nullopt;
  const int64_t a = *x, b = *y;
  int64_t r = 0;
  const uint32_t k = n.kind;
  if (k == kind_of<tir::Add>()) return __builtin_add_overflow(a, b, &r) ? std::nullopt : std::optional(r);
  if (k == kind_of<tir::Sub>()) return __builtin_sub_overflow(a, b, &r) ? std::nullopt : std::optional(r);
  if (k == kind_of<tir::Mul>()) return __builtin_mul_overflow(a, b, &r) ? std::nullopt : std::optional(r);
  if (k == kind_of<tir::Min>()) return std::min(a, b);
  if (k == kind_of<tir::Max>()) return std::max(a, b);
  if (k == kind_of<tir::EQ>()) return a == b;
  if (k == kind_of<tir::NE>()) return a != b;
  if (k == kind_of<tir::LT>()) return a < b;
  if (k == kind_of<tir::LE>()) return a <= b;
  if (k == kind_of<tir::GT>()) return a > b;
  if (k == kind_of<tir::GE>()) return a >= b;
  if (b == 0 || b == -1) return std::nullopt;
  if (k == kind_of<tir::FloorDiv>()) return floor_div(a, b);
  if (k == kind_of<tir::FloorMod>()) return floor_mod(a, b);
  return std::nullopt;
}

bool RuleMatch::ordered(const ReadyRule::Condition& c) {
  const Node &a = rule_->condition[c.a], &b = rule_->condition[c.b];
  const bool tree = rule_->rule->shape == RuleShape::tree;
  if (tree && (a.slot >= 0 || a.closed) && (b.slot >= 0 || b.closed)) {
    if (type_.is_uint() && type_.bits == 64) return false;
    auto end = [&](const Node& n, int at) {
      if (n.slot >= 0) return impl_.bound(expr_in(n.slot));
      const int64_t v = closed(rule_->condition, at).value_or(0);
      return ConstBound{v, v};
    };
    const ConstBound x = end(a, c.a), y = end(b, c.b);
    if (c.strict ? x.max < y.min : x.max <= y.min && x.max != pos_inf && y.min != neg_inf) return true;
    const uint32_t root = rule_->pattern.root().kind;
    // Comparisons of sums were tried as such.
    if (type_ != i64 || (rule_->rule->domain == RuleDomain::integer && root >= kind_of<tir::EQ>() &&
                         root <= kind_of<tir::GE>()))
      return false;
  }
  if (impl_.settling) return false;
  Sum d = impl_.plus(grow_sum(rule_->condition, c.b), grow_sum(rule_->condition, c.a), -1);
  if (c.strict) d.base = wrap_add(d.base, -1);
  return impl_.tame(d) && impl_.nonnegative(d, rule_->effort);
}

bool RuleMatch::conditions() {
  if (rule_->rule->shape == RuleShape::tree && rule_->rule->domain == RuleDomain::index)
    for (const Slot& s : slots_)
      if (s.set && s.expr && !impl_.tame(s.expr)) return false;
  for (const ReadyRule::Condition& c : rule_->conditions) {
    bool holds = false;
    switch (c.kind) {
      case ReadyRule::Condition::closed: {
        if (type_.is_uint() && type_.bits == 64) return false;  // its constants are stored as signed
        const auto v = closed(rule_->condition, c.whole);
        holds = v && *v;
        break;
      }
      case ReadyRule::Condition::order:
        holds = ordered(c);
        break;
      case ReadyRule::Condition::equal: {
        const Sum d = impl_.plus(grow_sum(rule_->condition, c.a), grow_sum(rule_->condition, c.b), -1);
        holds = d.is_const() && d.base == 0;
        break;
      }
      case ReadyRule::Condition::congruent: {
        const Node& n = rule_->condition[c.a];
        const auto m = closed(rule_->condition, n.child[1]);
        if (!m || *m <= 0) return false;
        const ModularSet s = impl_.modular(grow_sum(rule_->condition, n.child[0]));
        holds = s.coeff % *m == 0 && s.base % *m == 0;
        break;
      }
    }
    if (!holds) return false;
  }
  return true;
}

// ---------------------------------------------------------------- replacements
RuleMatch::Sum RuleMatch::grow_sum(const RuleTree& tree, int node) {
  const Node& n = tree[node];
  Sum s;
  if (n.closed) {
    const auto v = closed(tree, node);
    failed_ = failed_ || !v;
    s.base = v.value_or(0);
    return s;
  }
  if (n.slot >= 0) return sum_in(n.slot);
  const uint32_t k = n.kind;
  const Sum a = grow_sum(tree, n.child[0]);
  if (k == kind_of<tir::FloorDiv>() || k == kind_of<tir::FloorMod>()) {
    const Sum b = grow_sum(tree, n.child[1]);
    if (failed_) return s;
    return impl_.divide(a, impl_.expr_of(b), k == kind_of<tir::FloorDiv>(),
                        rule_->rule->shape != RuleShape::pair);
  }
  const Sum b = grow_sum(tree, n.child[1]);
  if (k == kind_of<tir::Add>()) return impl_.plus(a, b);
  if (k == kind_of<tir::Sub>()) return impl_.plus(a, b, -1);
  if (k == kind_of<tir::Mul>()) {
    std::optional<Sum> p = impl_.times(a, b);
    failed_ = failed_ || !p;
    return p ? *p : s;
  }
  if (k == kind_of<tir::Min>() || k == kind_of<tir::Max>())
    return impl_.parse(impl_.min_max(impl_.expr_of(a), impl_.expr_of(b), k == kind_of<tir::Min>()));
  CHECK(false, "a rule of sums has another operator");
  return s;
}

PrimExpr RuleMatch::grow(const RuleTree& tree, int node, bool plain) {
  const Node& n = tree[node];
  if (n.slot >= 0) return expr_in(n.slot);
  if (n.closed) {
    const auto v = closed(tree, node);
    failed_ = failed_ || !v;
    return PrimExpr::int_imm(v.value_or(0), n.dtype.is_bool() ? boolean : type_ == DataType() ? i64 : type_);
  }
  PrimExpr o[3];
  for (size_t i = 0; i < 3; ++i)
    if (n.child[i] >= 0) {
      o[i] = grow(tree, n.child[i], plain);
      if (failed_) return {};
    }
  const auto &a = o[0], &b = o[1];
  const uint32_t k = n.kind;
  PrimExpr r;
  if (k == kind_of<tir::Add>())
    r = a + b;
  else if (k == kind_of<tir::Sub>())
    r = a - b;
  else if (k == kind_of<tir::Mul>())
    r = a * b;
  else if (k == kind_of<tir::Div>())
    r = tir::div(a, b);
  else if (k == kind_of<tir::Mod>())
    r = tir::truncmod(a, b);
  else if (k == kind_of<tir::FloorDiv>())
    r = tir::floordiv(a, b);
  else if (k == kind_of<tir::FloorMod>())
    r = tir::floormod(a, b);
  else if (k == kind_of<tir::Min>())
    r = tir::min(a, b);
  else if (k == kind_of<tir::Max>())
    r = tir::max(a, b);
  else if (k == kind_of<tir::EQ>())
    r = tir::eq(a, b);
  else if (k == kind_of<tir::NE>())
    r = tir::ne(a, b);
  else if (k == kind_of<tir::LT>())
    r = tir::lt(a, b);
  else if (k == kind_of<tir::LE>())
    r = tir::le(a, b);
  else if (k == kind_of<tir::GT>())
    r = tir::gt(a, b);
  else if (k == kind_of<tir::GE>())
    r = tir::ge(a, b);
  else if (k == kind_of<tir::And>())
    r = tir::logical_and(a, b);
  else if (k == kind_of<tir::Or>())
    r = tir::logical_or(a, b);
  else if (k == kind_of<tir::Not>())
    r = tir::logical_not(a);
  else if (k == kind_of<tir::Select>())
    r = tir::select(a, b, o[2]);
  else if (k == kind_of<tir::Ramp>())
    r = make<tir::Ramp>(a, b, int64_t(lanes_));
  else if (k == kind_of<tir::Broadcast>())
    r = make<tir::Broadcast>(a, int64_t(lanes_));
  CHECK(r, "a rule's replacement has another operator");
  return plain ? r : impl_.simplify(r);
}

}  // namespace tenon::analysis_detail
