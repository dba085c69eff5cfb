// SPDX-License-Identifier: Apache-2.0
#include "pass/graph/fusion/group.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <unordered_set>

#include "analysis/analyzer.h"
#include "ir/bodies.h"
#include "ir/symbols.h"
#include "op/infer.h"
#include "op/op_def.h"

namespace tenon::graph {
namespace {

/// Sizes of parameters that are expressions ((h - 1) // 2 + 1) become symbols of the function, so that its
/// index arithmetic stays simple and layers of one kind share a program. A product (h · w) whose factors the
/// function has as sizes of their own stays a product, or indices that are taken apart would stay divisions.
/// Types inside follow from the operators again; where they cannot be shown to be the same sizes, the
/// function stays as it is.
class SizeSymbols {
 public:
  /// The function over symbols, or the function itself. `hidden`: values, over the sizes of `f`, of the
  /// symbols that no tensor shows alone; then its first parameter takes these and what the last one took.
  static Ref<Function> of(const Ref<Function>& f, bool takes_sizes, std::vector<PrimExpr>& hidden) {
    SizeSymbols symbols;
    symbols.takes_sizes_ = takes_sizes;
    Ref<Function> out = symbols.run(f);
    if (!out.same_as(f)) hidden = std::move(symbols.hidden_);
    return out;
  }

 private:
  Ref<Function> run(const Ref<Function>& f) {
    for (const Binding& b : bindings_of(f->body)) collect(b);
    assume_sizes(*f);
    Array<VarRef> params;
    for (const VarRef& p : f->params) {
      VarRef q = with_origin(var(p->name, general(p->declared)), p->origin);
      mapped_[p.get()] = q;
      params.push_back(q);
    }
    if (sizes_.empty()) return f;
    add_hidden(params);
    for (auto& [e, v] : sizes_) back_[v.get()] = e;
    Array<Binding> bindings;
    for (const Binding& b : bindings_of(f->body)) {
      const Binding copy = binding(b);
      if (!copy) return f;
      bindings.push_back(copy);
    }
    const Expr out = map(result_of(f->body));
    Ref<SeqExpr> body =
        with_type(make<SeqExpr>(Array<BindingBlock>{make<BindingBlockNode>(bindings)}, out), out->type);
    return make<Function>(params, body, out->type, f->attrs);
  }

  /// Symbols that no tensor has as a size, and the sizes that the last parameter was for.
  void add_hidden(Array<VarRef>& params) {
    std::unordered_set<const Object*> shown;
    for (const VarRef& p : params)
      if (auto shape = known_shape(p->declared); shape && p->declared.is<TensorType>())
        for (const PrimExpr& d : *shape) shown.insert(d.get());
    Array<PrimExpr> values;
    if (takes_sizes_) values = params.back()->declared.as<ShapeType>()->values;
    for (auto& [e, v] : sizes_)
      if (!shown.count(v.get())) {
        values.push_back(v);
        hidden_.push_back(e);
      }
    if (hidden_.empty()) return;
    // In front: a size stands as itself before it stands in a product.
    Array<VarRef> all{var("sizes", make<ShapeType>(values, int64_t(values.size()), true))};
    for (size_t i = 0; i + (takes_sizes_ ? 1 : 0) < params.size(); ++i) all.push_back(params[i]);
    params = all;
  }

  /// Tensors that are there have no negative sizes: max(n - 1, 0) and n - 1 are one size.
  void assume_sizes(const Function& f) {
    all_ = inside_;
    for (const VarRef& p : f.params)
      if (const auto shape = known_shape(p->declared); shape && p->declared.is<TensorType>())
        for (const PrimExpr& d : *shape) all_.push_back(d);
    auto clamped = [](const PrimExpr& d) {
      bool found = false;
      pre_order(d, [&](const ObjectRef& n) { return !(found = found || n.is<tir::Max>()); });
      return found;
    };
    if (std::ranges::none_of(all_, clamped)) return;
    for (const PrimExpr& d : all_)
      if (!tir::as_int(d) && !clamped(d)) assumed_.push_back(analyzer_.assume(tir::ge(d, PrimExpr(0))));
  }

  PrimExpr symbol(const PrimExpr& size) const {
    for (auto& [known, v] : sizes_)
      if (analyzer_.can_prove_equal(known, size)) return v;
    return {};
  }

  /// Sizes of what the binding makes.
  void collect(const Binding& b) {
    if (const auto shape = known_shape(b->var->declared); shape && b->var->declared.is<TensorType>())
      for (const PrimExpr& d : *shape) inside_.push_back(d);
  }
  static void factors_of(const PrimExpr& size, std::vector<PrimExpr>& out) {
    if (const auto* m = size.as<tir::Mul>()) {
      factors_of(m->a, out);
      factors_of(m->b, out);
    } else {
      out.push_back(size);
    }
  }
  /// n · m - n as n · (m - 1) where the function has m - 1 as a size.
  PrimExpr as_product(const PrimExpr& size) const {
    if (!size.is<tir::Add>() && !size.is<tir::Sub>()) return size;
    for (const tir::VarRef& v : tir::free_vars(size))
      for (const PrimExpr& d : all_)
        if (!tir::as_int(d) && !d.is<tir::Mul>() && analyzer_.can_prove_equal(size, v * d))
          return make<tir::Mul>(v, d);
    return size;
  }
  /// The function makes it as a size of its own, or has it as a factor of another size.
  bool stands_apart(const PrimExpr& factor, const PrimExpr& size) const {
    return std::ranges::any_of(inside_,
                               [&](const PrimExpr& d) {
                                 return !d.is<tir::Mul>() && analyzer_.can_prove_equal(factor, d);
                               }) ||
           std::ranges::any_of(all_, [&](const PrimExpr& d) {
             std::vector<PrimExpr> factors;
             factors_of(as_product(d), factors);
             return factors.size() > 1 && !analyzer_.can_prove_equal(d, size) &&
                    std::ranges::any_of(factors, [&](const PrimExpr& f) { return f.same_as(factor); });
           });
  }
  /// Factors of a product of which one stands apart; else empty.
  std::vector<PrimExpr> split(const PrimExpr& size) const {
    std::vector<PrimExpr> factors;
    factors_of(as_product(size), factors);
    if (factors.size() < 2) return {};
    const bool apart = std::ranges::any_of(
        factors, [&](const PrimExpr& f) { return !tir::as_int(f) && stands_apart(f, size); });
    return apart ? factors : std::vector<PrimExpr>();
  }
  /// The size over symbols, which are made when `make` is set; null without one.
  PrimExpr over_symbols(const PrimExpr& size, bool make) {
    if (tir::as_int(size) || size.is<tir::Var>()) return size;
    if (const PrimExpr known = symbol(size)) return known;
    PrimExpr all;
    for (const PrimExpr& f : split(size)) {
      const PrimExpr one = over_symbols(f, make);
      if (!one) return {};
      all = all ? all * one : one;
    }
    if (all || !make) return all;
    sizes_.emplace_back(size, tir::var(fmt::format("s{}", sizes_.size()), size.dtype()));
    return sizes_.back().second;
  }

  Type general(const Type& type) {
    auto shape = known_shape(type);
    if (!shape || !type.is<TensorType>()) return type;
    Array<PrimExpr> dims;
    for (const PrimExpr& d : *shape) dims.push_back(over_symbols(d, true));
    return tensor_type(dims, type.as<TensorType>()->dtype);
  }

  bool same(const Type& now, const Type& before) const {
    const auto *t = now.as<TupleType>(), *u = before.as<TupleType>();
    if (t || u) {
      if (!t || !u || t->items.size() != u->items.size()) return false;
      for (size_t i = 0; i < t->items.size(); ++i)
        if (!same(t->items[i], u->items[i])) return false;
      return true;
    }
    const auto *a = as_tensor(now), *b = as_tensor(before);
    auto p = known_shape(now), q = known_shape(before);
    if (!a || !b || a->dtype != b->dtype || !p || !q || p->size() != q->size()) return false;
    for (size_t i = 0; i < p->size(); ++i)
      if (!analyzer_.can_prove_equal(tir::substitute((*p)[i], back_), (*q)[i])) return false;
    return true;
  }

  Expr map(const Expr& e) {
    if (auto it = mapped_.find(e.get()); it != mapped_.end()) return it->second;
    if (const auto* t = e.as<Tuple>())
      return make<Tuple>(t->items.map([&](const Expr& i) { return map(i); }));
    if (const auto* s = e.as<ShapeExpr>())
      return shape_expr(s->values.map([&](const PrimExpr& d) -> PrimExpr {
        const PrimExpr v = over_symbols(d, false);
        return v ? v : d;
      }));
    return e;
  }

  /// Null where the types do not follow.
  Binding binding(const Binding& b) {
    const Expr value = b->value;
    const VarRef old = b->var;
    Expr copy;
    if (const auto* c = value.as<Call>()) {
      if (!c->type_args.empty()) return {};
      const Array<Expr> args = c->args.map([&](const Expr& a) { return map(a); });
      copy = make<Call>(c->op, args, c->attrs, c->type_args);
    } else if (const auto* t = value.as<TupleGetItem>()) {
      copy = make<TupleGetItem>(map(t->tuple), t->index);
    } else {
      copy = map(value);
    }
    if (copy->origin.get() != value->origin.get()) copy.edit()->origin = value->origin;
    op::Inference run;
    if (!copy->type) copy = op::typed(run, copy);
    // Without a type: an operator cannot see that two of the symbols are one size.
    if (!copy->type || !same(copy->type, old->declared)) return {};
    VarRef v = var(old->name, copy->type);
    v.edit()->origin = old->origin;
    mapped_[old.get()] = v;
    return make<VarBindingNode>(v, copy);
  }

  std::vector<PrimExpr> inside_;  ///< sizes of what the function makes
  std::vector<PrimExpr> all_;     ///< and of what it takes
  std::vector<PrimExpr> hidden_;
  bool takes_sizes_ = false;  ///< the last parameter is for sizes
  std::vector<std::pair<PrimExpr, tir::VarRef>> sizes_;
  tir::VarMap back_;
  std::unordered_map<const Object*, Expr> mapped_;
  mutable Analyzer analyzer_;
  std::vector<Analyzer::Scope> assumed_;
};

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
    group_.function = SizeSymbols::of(make<Function>(params_, body, out->type, attrs), takes_sizes, hidden);
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
    if (auto* t = e.as<Tuple>()) return make<Tuple>(t->items.map([&](const Expr& i) { return map(i); }));
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
