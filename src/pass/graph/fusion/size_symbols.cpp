// SPDX-License-Identifier: Apache-2.0
#include "pass/graph/fusion/size_symbols.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <unordered_set>

#include "analysis/analyzer.h"
#include "ir/bodies.h"
#include "ir/find_node.h"
#include "ir/structural.h"
#include "op/infer.h"

namespace tenon::graph {
namespace {

/// Which sizes are one: what a function says of its sizes, each of them looked at once however often it
/// stands in types.
class EqualSizes {
 public:
  void assume_not_negative(const PrimExpr& size) {
    assumed_.push_back(analyzer_.assume(tir::ge(size, PrimExpr(0))));
  }
  void assume_size(const tir::VarRef& v) { analyzer_.assume_size(v); }

  /// The canonical form, one object for each.
  PrimExpr spelled(const PrimExpr& size) {
    if (const auto known = spelled_.find(size.get()); known != spelled_.end()) return known->second.second;
    PrimExpr form = analyzer_.simplify(size);
    std::vector<PrimExpr>& alike = forms_[structural_hash(form)];
    const auto same =
        std::ranges::find_if(alike, [&](const PrimExpr& f) { return structural_equal(f, form); });
    if (same == alike.end())
      alike.push_back(form);
    else
      form = *same;
    spelled_.emplace(size.get(), std::pair(size, form));
    return form;
  }
  bool equal(const PrimExpr& a, const PrimExpr& b) {
    const PrimExpr x = spelled(a), y = spelled(b);
    if (x.same_as(y)) return true;
    const auto [known, fresh] = proofs_.try_emplace({x.get(), y.get()}, false);
    if (fresh) known->second = analyzer_.can_prove_equal(x, y);
    return known->second;
  }

 private:
  Analyzer analyzer_;
  std::vector<Analyzer::Scope> assumed_;
  std::unordered_map<const Object*, std::pair<PrimExpr, PrimExpr>> spelled_;  ///< size → itself, its form
  std::unordered_map<uint64_t, std::vector<PrimExpr>> forms_;
  std::map<std::pair<const Object*, const Object*>, bool> proofs_;  ///< of forms
};

/// A product (h · w) whose factors the function has as sizes of their own stays a product, or indices that
/// are taken apart would stay divisions.
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
    collect(*f);
    assume_sizes();
    Array<VarRef> params;
    for (const VarRef& p : f->params) {
      VarRef q = with_origin(var(p->name, general(p->declared)), p->origin);
      mapped_[p.get()] = q;
      params.push_back(q);
    }
    if (sizes_.empty()) return f;
    add_hidden(params);
    for (auto& [e, v] : sizes_) back_[v.get()] = e;
    for (const tir::VarRef& v : shown_) facts_.assume_size(v);
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

  /// Sizes of what the function makes and takes.
  void collect(const Function& f) {
    std::unordered_set<const Object*> seen;
    auto add = [&](const VarRef& v, std::vector<PrimExpr>& out) {
      if (const auto shape = known_shape(v->declared); shape && v->declared.is<TensorType>())
        for (const PrimExpr& d : *shape)
          if (seen.insert(d.get()).second) out.push_back(d);
    };
    for (const Binding& b : bindings_of(f.body)) add(b->var, inside_);
    all_ = inside_;
    for (const VarRef& p : f.params) add(p, all_);
  }
  /// Tensors that are there have no negative sizes: max(n - 1, 0) and n - 1 are one size.
  void assume_sizes() {
    if (std::ranges::none_of(all_, [](const PrimExpr& d) { return has_node<tir::Max>(d); })) return;
    std::unordered_map<uint64_t, std::vector<PrimExpr>> assumed;
    for (const PrimExpr& d : all_) {
      if (tir::as_int(d) || d.is<tir::Max>()) continue;
      std::vector<PrimExpr>& alike = assumed[structural_hash(d)];
      if (std::ranges::any_of(alike, [&](const PrimExpr& e) { return structural_equal(d, e); })) continue;
      alike.push_back(d);
      facts_.assume_not_negative(d);
    }
  }

  PrimExpr symbol(const PrimExpr& size) {
    for (auto& [known, v] : sizes_)
      if (facts_.equal(known, size)) return v;
    return {};
  }

  static void factors_of(const PrimExpr& size, std::vector<PrimExpr>& out) {
    if (const auto* m = size.as<tir::Mul>()) {
      factors_of(m->a, out);
      factors_of(m->b, out);
    } else {
      out.push_back(size);
    }
  }
  static bool in_each_term(const tir::Var* v, const PrimExpr& sum) {
    if (const auto* a = sum.as<tir::Add>()) return in_each_term(v, a->a) && in_each_term(v, a->b);
    if (const auto* d = sum.as<tir::Sub>()) return in_each_term(v, d->a) && in_each_term(v, d->b);
    if (const auto* m = sum.as<tir::Mul>()) return in_each_term(v, m->a) || in_each_term(v, m->b);
    return sum.get() == v;
  }
  /// n · m - n as n · (m - 1) where the function has m - 1 as a size, or as a product of two of its sizes.
  PrimExpr as_product(const PrimExpr& size) {
    if (!size.is<tir::Add>() && !size.is<tir::Sub>()) return size;
    const PrimExpr form = facts_.spelled(size);
    if (tir::as_int(form)) return size;
    const auto [known, fresh] = products_.try_emplace(form.get());
    if (fresh) known->second = find_product(size, form);
    return known->second ? known->second : size;
  }
  /// Numbers are none, however they are written: 1 is a factor of everything.
  bool is_factor(const PrimExpr& size) { return !size.is<tir::Mul>() && !tir::as_int(facts_.spelled(size)); }
  PrimExpr find_product(const PrimExpr& size, const PrimExpr& form) {
    for (const tir::VarRef& v : tir::free_vars(size)) {
      if (!in_each_term(v.get(), form)) continue;
      for (const PrimExpr& d : all_)
        if (is_factor(d) && facts_.equal(size, v * d)) return make<tir::Mul>(v, d);
    }
    for (const auto& [product, factors] : products_of_two())
      if (product.same_as(form)) return factors;
    return {};
  }
  /// Canonical forms of the products of two sizes, made once.
  const std::vector<std::pair<PrimExpr, PrimExpr>>& products_of_two() {
    if (!products_of_two_.empty()) return products_of_two_;
    std::vector<PrimExpr> sizes;  // each once
    for (const PrimExpr& d : all_)
      if (is_factor(d) && std::ranges::none_of(sizes, [&](const PrimExpr& e) { return facts_.equal(d, e); }))
        sizes.push_back(d);
    for (size_t i = 0; i < sizes.size(); ++i)
      for (size_t j = i; j < sizes.size(); ++j)
        products_of_two_.emplace_back(facts_.spelled(sizes[i] * sizes[j]),
                                      make<tir::Mul>(sizes[i], sizes[j]));
    return products_of_two_;
  }
  /// The function makes it as a size of its own, or has it as a factor of another size.
  bool stands_apart(const PrimExpr& factor, const PrimExpr& size) {
    auto is_factor = [&](const PrimExpr& d) {
      std::vector<PrimExpr> factors;
      factors_of(as_product(d), factors);
      return factors.size() > 1 &&
             std::ranges::any_of(factors, [&](const PrimExpr& f) { return f.same_as(factor); });
    };
    return std::ranges::any_of(
               inside_, [&](const PrimExpr& d) { return !d.is<tir::Mul>() && facts_.equal(factor, d); }) ||
           std::ranges::any_of(all_,
                               [&](const PrimExpr& d) { return is_factor(d) && !facts_.equal(d, size); });
  }
  /// Factors of a product of which one stands apart; else empty.
  std::vector<PrimExpr> split(const PrimExpr& size) {
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
    for (const PrimExpr& d : *shape) {
      dims.push_back(over_symbols(d, true));
      if (auto v = dims.back().cast<tir::Var>()) shown_.push_back(v);
    }
    return tensor_type(dims, type.as<TensorType>()->dtype);
  }

  /// The size, with symbols for the sizes that it holds.
  PrimExpr named(const PrimExpr& size) {
    if (const PrimExpr known = over_symbols(size, false)) return known;
    const PrimExpr form = facts_.spelled(size);
    PrimExpr& out = named_[form.get()];
    if (!out) out = product_of_symbols(form);
    if (!out) out = with_symbols(form).cast<tir::PrimExprNode>();
    return out.same_as(form) ? size : out;
  }
  /// Also where the size has a symbol, one that tells nothing of others.
  PrimExpr by_parts(const PrimExpr& size) {
    return map_children(facts_.spelled(size), [&](const ObjectRef& c) { return with_symbols(c); })
        .cast<tir::PrimExprNode>();
  }
  /// What a reshape makes of two dimensions; null: it is none.
  PrimExpr product_of_symbols(const PrimExpr& form) {
    if (!form.is<tir::Add>() && !form.is<tir::Sub>() && !form.is<tir::Mul>()) return {};
    if (pairs_.empty())
      for (size_t i = 0; i < sizes_.size(); ++i)
        for (size_t j = i; j < sizes_.size(); ++j)
          pairs_.emplace_back(facts_.spelled(sizes_[i].first * sizes_[j].first),
                              sizes_[i].second * sizes_[j].second);
    for (const auto& [product, symbols] : pairs_)
      if (product.same_as(form)) return symbols;
    return {};
  }
  ObjectRef with_symbols(const ObjectRef& e) {
    const auto known = rewritten_.find(e.get());
    if (known != rewritten_.end()) return known->second;
    ObjectRef out;
    for (const auto& [size, v] : sizes_)
      if (!out && structural_equal(facts_.spelled(size), e)) out = v;
    if (!out) out = map_children(e, [&](const ObjectRef& c) { return with_symbols(c); });
    return rewritten_[e.get()] = out;
  }

  bool same(const PrimExpr& now, const PrimExpr& before) {
    const PrimExpr wanted = named(before);
    return now.same_as(wanted) || facts_.equal(now, wanted) || facts_.equal(now, by_parts(before)) ||
           facts_.equal(tir::substitute(now, back_), before);
  }
  bool same(const Type& now, const Type& before) {
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
      if (!same((*p)[i], (*q)[i])) return false;
    return true;
  }

  Expr map(const Expr& e) {
    if (auto it = mapped_.find(e.get()); it != mapped_.end()) return it->second;
    if (const auto* t = e.as<Tuple>())
      return make<Tuple>(t->items.map([&](const Expr& i) { return map(i); }));
    if (const auto* s = e.as<ShapeExpr>())
      return shape_expr(s->values.map([&](const PrimExpr& d) { return named(d); }));
    return e;
  }

  /// Attributes with symbols for the sizes that they hold (ends of slices).
  ObjectRef over_names(const ObjectRef& attrs) {
    if (!attrs) return attrs;
    return map_children(attrs, [&](const ObjectRef& c) -> ObjectRef {
      return c.is<tir::PrimExprNode>() ? named(PrimExpr(c.cast<tir::PrimExprNode>())) : c;
    });
  }

  /// Null where the types do not follow.
  Binding binding(const Binding& b) {
    const Expr value = b->value;
    const VarRef old = b->var;
    Expr copy;
    if (const auto* c = value.as<Call>()) {
      if (!c->type_args.empty()) return {};
      const Array<Expr> args = c->args.map([&](const Expr& a) { return map(a); });
      copy = make<Call>(c->op, args, over_names(c->attrs), c->type_args);
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
  std::vector<std::pair<PrimExpr, PrimExpr>> products_of_two_;
  std::vector<PrimExpr> hidden_;
  bool takes_sizes_ = false;  ///< the last parameter is for sizes
  std::vector<std::pair<PrimExpr, tir::VarRef>> sizes_;
  tir::VarMap back_;
  std::unordered_map<const Object*, Expr> mapped_;
  std::vector<tir::VarRef> shown_;                                ///< symbols that are sizes of parameters
  std::unordered_map<const Object*, PrimExpr> products_, named_;  ///< by canonical form
  std::unordered_map<const Object*, ObjectRef> rewritten_;        ///< parts of these
  std::vector<std::pair<PrimExpr, PrimExpr>> pairs_;  ///< products of two sizes, and of their symbols
  EqualSizes facts_;
};

}  // namespace

Ref<Function> over_size_symbols(const Ref<Function>& f, bool takes_sizes, std::vector<PrimExpr>& hidden) {
  return SizeSymbols::of(f, takes_sizes, hidden);
}

}  // namespace tenon::graph
