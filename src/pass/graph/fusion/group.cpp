// SPDX-License-Identifier: Apache-2.0
#include "pass/graph/fusion/group.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <unordered_set>

#include "ir/bodies.h"
#include "ir/symbols.h"
#include "op/build.h"
#include "op/op_def.h"
#include "pass/graph/fusion/size_symbols.h"

namespace tenon::graph {
namespace {

std::string short_name(const std::string& op) {
  auto dot = op.rfind('.');
  return dot == op.npos ? op : op.substr(dot + 1);
}

}  // namespace

std::string kernel_name(const std::string& prefix, const std::vector<Binding>& members) {
  std::string name = prefix;
  for (const Binding& b : members)
    if (const Op* op = op_of(b->value)) name += (name.empty() ? "" : "_") + short_name(op->name);
  constexpr size_t limit = 80;
  if (name.size() <= limit) return name;
  return name.substr(0, limit - 9) + fmt::format("_{:08x}", uint32_t(hash_bytes(name.data(), name.size())));
}

namespace {

class GroupBuilder {
 public:
  explicit GroupBuilder(const std::vector<Binding>& members) : members_(members) {}

  Group run(const VarRef& result) {
    for (const Binding& b : members_) inside_[b->var.get()] = Expr();
    find_parameters();
    find_symbols();
    add_parameters();
    const Array<Binding> bindings = copies();
    const Expr out = inside_[result.get()];
    Ref<SeqExpr> body =
        with_type(make<SeqExpr>(Array<BindingBlock>{make<BindingBlockNode>(bindings)}, out), out->type);
    AttrMap attrs;
    attrs.set("primitive", Any(int64_t(1)));
    std::vector<PrimExpr> hidden;
    const bool takes_sizes = !group_.args.empty() && group_.args.back().is<ShapeExpr>();
    group_.function = over_size_symbols(make<Function>(params_, body, out->type, attrs), takes_sizes, hidden);
    give(hidden, takes_sizes);
    return group_;
  }

 private:
  /// Sums of products of integers: scales and zero points behind them are numbers of one layer, and kernels
  /// that differ in nothing else are one kernel when these come from outside.
  static bool sums_integers(const Binding& b) {
    const Op* op = op_of(b->value);
    const auto* t = as_tensor(b->var);
    return op && t && t->dtype == i32 &&
           op::definition(*op).fusion == op::FusionKind::out_element_wise_fusable;
  }
  bool stays_inside(const Constant& c) const {
    if (c.data.size() != 1) return false;
    const double v = std::abs(c.data.element(0));
    return !quantised_ || c.data.dtype() != f32 || v == 0 ||
           v == 1;  // those two are often no operation at all
  }

  void parameter(const Expr& e, const std::string& name) {
    if (known_.insert(e.get()).second) outside_.emplace_back(e, var(name, e->type));
  }
  void scan(const Expr& e) {
    if (auto* v = e.as<Var>()) {
      if (!inside_.count(v)) parameter(e, v->name);
    } else if (auto* c = e.as<Constant>()) {
      if (!stays_inside(*c)) parameter(e, "const");
    } else if (auto* t = e.as<Tuple>()) {
      for (const Expr& i : t->items) scan(i);
    }
  }
  void find_parameters() {
    quantised_ = std::any_of(members_.begin(), members_.end(), sums_integers);
    for (const Binding& b : members_) {
      const Expr value = b->value;
      if (auto* c = value.as<Call>())
        for (const Expr& a : c->args) scan(a);
      else if (auto* t = value.as<TupleGetItem>())
        scan(t->tuple);
      else
        scan(value);
    }
  }

  /// The sizes that stand in the members, each with a symbol of the function's own.
  void find_symbols() {
    for (auto& [e, p] : outside_) symbols_of(e->type, symbols_);
    for (const Binding& b : members_) {
      symbols_of(b->var->declared, symbols_);
      if (auto* c = b->value.as<Call>()) {
        for (const Expr& a : c->args)
          if (a.is<ShapeExpr>() || a.is<PrimValue>()) symbols_of(a, symbols_);
        if (c->attrs) symbols_of(c->attrs, symbols_);
      }
    }
    for (const tir::VarRef& s : symbols_) own_[s.get()] = tir::var(s->name, s->dtype);
  }

  /// One for each value from outside, and one for the sizes that none of these shows.
  void add_parameters() {
    std::unordered_set<const Object*> shown;
    for (auto& [e, p] : outside_) {
      VarRef q = var(p->name, substitute_symbols(e->type, own_));
      params_.push_back(q);
      group_.args.push_back(e);
      inside_[e.get()] = q;
      if (auto shape = known_shape(e->type))
        for (const PrimExpr& d : *shape)
          if (d.is<tir::Var>()) shown.insert(d.get());
    }
    Array<PrimExpr> hidden, hidden_own;
    for (const tir::VarRef& s : symbols_)
      if (!shown.count(s.get())) {
        hidden.push_back(s);
        hidden_own.push_back(own_[s.get()]);
      }
    if (hidden.empty()) return;
    params_.push_back(var("sizes", make<ShapeType>(hidden_own, int64_t(hidden_own.size()), true)));
    group_.args.push_back(shape_expr(hidden));
  }

  /// Gives values of such sizes, which are over the function's own symbols.
  void give(const std::vector<PrimExpr>& hidden, bool joins) {
    if (hidden.empty()) return;
    tir::VarMap outside;
    for (const tir::VarRef& s : symbols_) outside[own_[s.get()].cast<tir::Var>().get()] = s;
    Array<PrimExpr> values;
    if (joins) values = group_.args.back().as<ShapeExpr>()->values;
    for (const PrimExpr& e : hidden) values.push_back(tir::substitute(e, outside));
    Array<Expr> all{shape_expr(values)};
    for (size_t i = 0; i + (joins ? 1 : 0) < group_.args.size(); ++i) all.push_back(group_.args[i]);
    group_.args = all;
  }

  Expr map(const Expr& e) const {
    if (auto it = inside_.find(e.get()); it != inside_.end() && it->second) return it->second;
    if (auto* t = e.as<Tuple>()) return op::tuple(t->items.map([&](const Expr& i) { return map(i); }));
    if (e.is<ShapeExpr>() || e.is<PrimValue>()) return substitute_symbols(e, own_);
    return e;
  }
  Array<Binding> copies() {
    Array<Binding> out;
    for (const Binding& b : members_) {
      const Expr value = b->value;
      const VarRef old = b->var;
      Expr copy;
      if (auto* c = value.as<Call>()) {
        Array<Type> type_args = c->type_args.map([&](const Type& t) { return substitute_symbols(t, own_); });
        copy = make<Call>(c->op, c->args.map([&](const Expr& a) { return map(a); }),
                          substitute_symbols(c->attrs, own_), type_args);
      } else if (auto* t = value.as<TupleGetItem>()) {
        copy = make<TupleGetItem>(map(t->tuple), t->index);
      } else {
        copy = map(value);
      }
      VarRef v = with_origin(var(old->name, substitute_symbols(old->declared, own_)),
                             value->origin ? value->origin : old->origin);
      if (!is_leaf(copy)) copy = with_type(std::move(copy), v->declared, value->origin);
      out.push_back(make<VarBindingNode>(v, copy));
      inside_[old.get()] = v;
    }
    return out;
  }

  const std::vector<Binding>& members_;
  bool quantised_ = false;
  Group group_;
  std::unordered_map<const Object*, Expr>
      inside_;  // of the members → of the function; null until it is known
  std::vector<std::pair<Expr, VarRef>>
      outside_;  // argument, parameter (its type still in the caller's sizes)
  std::unordered_set<const Object*> known_;
  std::vector<tir::VarRef> symbols_;
  tir::VarMap own_;
  Array<VarRef> params_;
};

}  // namespace

Group make_group(const std::vector<Binding>& members, const VarRef& result) {
  return GroupBuilder(members).run(result);
}

}  // namespace tenon::graph
