// SPDX-License-Identifier: Apache-2.0
// Rewrite rules made ready for matching: their trees as arrays of nodes, their conditions by kind, all of
// them by operator.
#include "analysis/rule_engine.h"

namespace tenon::analysis_detail {

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

bool has_kind(const RuleTree& t, uint32_t kind) {
  for (const RuleTree::Node& n : t.nodes)
    if (n.kind == kind) return true;
  return false;
}

namespace {

using Node = RuleTree::Node;

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

}  // namespace

const RuleIndex& rule_index() {
  static const RuleIndex index = build_index();
  return index;
}

}  // namespace tenon::analysis_detail
