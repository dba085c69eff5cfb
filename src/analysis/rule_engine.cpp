// SPDX-License-Identifier: Apache-2.0
// Matching of rewrite rules against expressions and against sums of products, proof of their conditions, and
// construction of what replaces a match.
#include "analysis/rule_engine.h"

namespace tenon {

namespace analysis_detail {
namespace {

using Node = RuleTree::Node;

struct Operands {
  const PrimExpr *a = nullptr, *b = nullptr, *c = nullptr;
};
/// The operands that rules look at.
Operands operands(const PrimExpr& e) {
  return match<Operands>(e, [](const auto& n) -> Operands {
    using T = std::decay_t<decltype(n)>;
    if constexpr (std::is_same_v<T, tir::Select>)
      return {&n.condition, &n.true_value, &n.false_value};
    else if constexpr (std::is_same_v<T, tir::Ramp>)
      return {&n.base, &n.stride};
    else if constexpr (std::is_same_v<T, tir::Broadcast> || std::is_same_v<T, tir::Cast>)
      return {&n.value};
    else if constexpr (requires { n.b; })
      return {&n.a, &n.b};
    else if constexpr (requires { n.a; })
      return {&n.a};
    else
      return {};
  });
}

bool commutes(const PrimExpr& e) {
  return e.is<tir::Add>() || e.is<tir::Mul>() || e.is<tir::Min>() || e.is<tir::Max>() || e.is<tir::And>() ||
         e.is<tir::Or>() || e.is<tir::EQ>() || e.is<tir::NE>();
}

class Compiler {
 public:
  explicit Compiler(ReadyRule& rule) : rule_(rule) { rule_.slots.fill(-1); }

  int add(RuleTree& tree, const PrimExpr& e, bool swaps) {
    Node n;
    n.kind = e->type_index;
    n.dtype = e.dtype();
    if (const auto* v = e.as<Var>()) {
      int8_t& slot = rule_.slots[size_t(v->name[0] - 'a')];
      if (slot < 0) slot = int8_t(next_++);
      CHECK(slot < max_slots, "a rule has too many variables");
      n.slot = slot;
      n.constant = n.closed = is_rule_constant(*v);
    } else if (auto value = tir::as_int(e)) {
      n.value = *value;
      n.closed = true;
    } else {
      const Operands o = operands(e);
      n.closed = true;
      int at = 0;
      for (const PrimExpr* c : {o.a, o.b, o.c}) {
        if (!c) continue;
        n.child[size_t(at)] = int16_t(add(tree, *c, swaps));
        n.closed = n.closed && tree[n.child[size_t(at)]].closed;
        ++at;
      }
      if (e.is<tir::Cast>() || e.is<tir::Ramp>() || e.is<tir::Broadcast>()) n.closed = false;
      if (swaps && !n.closed && commutes(e) &&
          !(tree[n.child[0]].slot >= 0 && tree[n.child[1]].slot == tree[n.child[0]].slot))
        n.swap_bit = int8_t(tree.swaps++);
    }
    tree.nodes.push_back(n);
    return int(tree.nodes.size()) - 1;
  }

  void conditions(int node) {
    const Node& n = rule_.condition[node];
    if (n.kind == kind_of<tir::And>()) {
      conditions(n.child[0]);
      conditions(n.child[1]);
      return;
    }
    ReadyRule::Condition c;
    c.whole = node;
    if (n.closed) {
      if (n.kind != kind_of<tir::IntImm>()) rule_.conditions.push_back(c);  // else it is "true"
      return;
    }
    c.a = n.child[0];
    c.b = n.child[1];
    const Node& a = rule_.condition[c.a];
    if (n.kind == kind_of<tir::EQ>()) {
      const bool zero = rule_.condition[c.b].kind == kind_of<tir::IntImm>();
      c.kind = zero && a.kind == kind_of<tir::FloorMod>() ? ReadyRule::Condition::congruent
                                                          : ReadyRule::Condition::equal;
    } else {
      CHECK(n.kind == kind_of<tir::LT>() || n.kind == kind_of<tir::LE>(), "unknown condition of a rule");
      c.kind = ReadyRule::Condition::order;
      c.strict = n.kind == kind_of<tir::LT>();
    }
    rule_.conditions.push_back(c);
  }

 private:
  ReadyRule& rule_;
  int next_ = 0;
};

bool has_kind(const RuleTree& t, uint32_t kind) {
  for (const Node& n : t.nodes)
    if (n.kind == kind) return true;
  return false;
}

RuleIndex build_index() {
  RuleIndex index;
  const std::vector<Rule>& rules = rewrite_rules();
  index.all.resize(rules.size());
  for (size_t i = 0; i < rules.size(); ++i) {
    ReadyRule& r = index.all[i];
    r.rule = &rules[i];
    Compiler c(r);
    c.add(r.pattern, rules[i].pattern, rules[i].shape == RuleShape::tree);
    c.add(r.replacement, rules[i].replacement, false);
    c.conditions(c.add(r.condition, rules[i].condition, false));
    if (rules[i].shape == RuleShape::multiple) r.effort = 4;
    r.vector = has_kind(r.pattern, kind_of<tir::Ramp>()) || has_kind(r.pattern, kind_of<tir::Broadcast>());
    r.lanewise = !r.vector && r.conditions.empty() && r.rule->domain != RuleDomain::index &&
                 !has_kind(r.pattern, kind_of<tir::Cast>());
    for (const RuleTree* t : {&r.pattern, &r.replacement})
      for (const Node& n : t->nodes) r.lanewise = r.lanewise && !n.closed;
    auto& lists = rules[i].shape == RuleShape::tree ? index.tree : index.sum;
    lists[r.pattern.root().kind - kPrimExprBase].push_back(&r);
  }
  return index;
}

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

bool exact_widening(DataType from, DataType to) {
  if (from.is_bool()) return to.is_integer();
  return (from.is_int() && to.is_int() && to.bits >= from.bits) ||
         (from.is_uint() && to.is_integer() && to.bits > from.bits);
}

}  // namespace

const RuleIndex& rule_index() {
  static const RuleIndex index = build_index();
  return index;
}

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

void RuleMatch::observe(const PrimExpr& before) {
  if (!impl_.observer) return;
  const bool failed = std::exchange(failed_, false);
  if (const PrimExpr after = grow(rule_->replacement, int(rule_->replacement.nodes.size()) - 1, true))
    impl_.observer->applied(*rule_->rule, before, after, impl_.scopes);
  failed_ = failed;
}

// ---------------------------------------------------------------- applying
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
      std::vector<int64_t> steps;
      for (const Term& t : a.terms)
        if (t.coeff > 1 || (t.coeff < -1 && t.coeff != neg_inf)) steps.push_back(std::abs(t.coeff));
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
