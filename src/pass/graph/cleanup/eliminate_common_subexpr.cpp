// SPDX-License-Identifier: Apache-2.0
// eliminate_common_subexpr: equal pure values are computed once.
//
//   before   lv = R.exp(x);  lv1 = R.exp(x);  lv2 = R.add(lv, lv1)
//   after    lv = R.exp(x);  lv2 = R.add(lv, lv)
//
// Values of an outer body serve the branches inside it, not the other way round. Keeps: order, impure calls,
// allocations by call_packed. Constants are equal by content.
#include "ir/structural.h"
#include "ir/symbols.h"
#include "op/body_rewriter.h"

namespace tenon {
namespace graph {
namespace {

class CommonSubexpr : public BodyRewriter {
 protected:
  void enter_scope() override { scopes_.emplace_back(); }
  void leave_scope() override {
    for (uint64_t h : scopes_.back()) known_[h].pop_back();
    scopes_.pop_back();
  }

  Expr visit(const Expr& value, const VarRef& var) override {
    const Op* op = op_of(value);
    const bool shareable =
        value.is<TupleGetItem>() || (op && op->pure && op->name != "call_pure_packed" &&
                                     op->name != "call_dps_packed" && op->name != "call_tir_inplace");
    if (!shareable) return value;
    const uint64_t hash = key(value);
    for (const auto& [other, owner] : known_[hash])
      if (equal(other, value) && structural_equal(owner->declared, var->declared)) return owner;
    known_[hash].emplace_back(value, var);
    scopes_.back().push_back(hash);
    return value;
  }

 private:
  /// Variables count by identity: the hash of a value is made of its parts' addresses where those are shared.
  static uint64_t key(const Expr& e) {
    std::vector<uint64_t> words;
    add(e, words);
    return hash_bytes(words.data(), words.size() * sizeof(uint64_t));
  }
  static void add(const Expr& e, std::vector<uint64_t>& words) {
    if (!e) return words.push_back(0);
    words.push_back(e->type_index);
    if (e.is<Var>() || e.is<Op>()) return words.push_back(uint64_t(reinterpret_cast<uintptr_t>(e.get())));
    if (const auto* t = e.as<Tuple>()) {
      for (const Expr& i : t->items) add(i, words);
    } else if (const auto* g = e.as<TupleGetItem>()) {
      add(g->tuple, words);
      words.push_back(uint64_t(g->index));
    } else if (const auto* c = e.as<Call>()) {
      add(c->op, words);
      for (const Expr& a : c->args) add(a, words);
      words.push_back(c->attrs ? structural_hash(c->attrs, true) : 0);
    } else if (const auto* k = e.as<Constant>()) {
      words.push_back(k->data.hash());
    } else {
      words.push_back(symbol_hash(e));
    }
  }
  static bool equal(const Expr& a, const Expr& b) {
    if (a.same_as(b)) return true;
    if (!a || !b || a->type_index != b->type_index || a.is<Var>()) return false;
    auto all = [](const Array<Expr>& x, const Array<Expr>& y) {
      if (x.size() != y.size()) return false;
      for (size_t i = 0; i < x.size(); ++i)
        if (!equal(x[i], y[i])) return false;
      return true;
    };
    if (const auto* t = a.as<Tuple>()) return all(t->items, b.as<Tuple>()->items);
    if (const auto* g = a.as<TupleGetItem>())
      return g->index == b.as<TupleGetItem>()->index && equal(g->tuple, b.as<TupleGetItem>()->tuple);
    if (const auto* c = a.as<Call>()) {
      const auto* d = b.as<Call>();
      return equal(c->op, d->op) && all(c->args, d->args) && structural_equal(c->attrs, d->attrs) &&
             structural_equal(c->type_args, d->type_args);
    }
    return structural_equal(a, b);
  }

  std::unordered_map<uint64_t, std::vector<std::pair<Expr, VarRef>>> known_;
  std::vector<std::vector<uint64_t>> scopes_;
};

}  // namespace
}  // namespace graph

const Pass& eliminate_common_subexpr_pass = register_pass({
    .name = "eliminate_common_subexpr",
    .run = graph::each_function<graph::CommonSubexpr>,
    .level = 2,
    .summary = "equal pure values are computed once",
});

}  // namespace tenon
