// SPDX-License-Identifier: Apache-2.0
#include "pass/graph/fusion/group.h"

#include <fmt/format.h>

#include <algorithm>

#include "analysis/analyzer.h"
#include "ir/symbols.h"
#include "op/infer.h"

namespace tenon::graph {
namespace {

/// Sizes of parameters that are expressions ((h - 1) // 2 + 1) become symbols of the function, so that its
/// index arithmetic stays simple and layers of one kind share a program. Types inside follow from the
/// operators again; where they cannot be shown to be the same sizes, the function stays as it is.
void generalise(Group& group) {
  const Function& f = *group.function;
  std::vector<std::pair<PrimExpr, tir::VarRef>> sizes;
  Analyzer analyzer;
  auto general = [&](const Type& type) -> Type {
    auto shape = known_shape(type);
    if (!shape || !type.is<TensorType>()) return type;
    Array<PrimExpr> dims;
    for (const PrimExpr& d : *shape) {
      if (tir::as_int(d) || d.is<tir::Var>()) {
        dims.push_back(d);
        continue;
      }
      tir::VarRef symbol;
      for (auto& [e, v] : sizes)
        if (analyzer.can_prove_equal(e, d)) symbol = v;
      if (!symbol) {
        symbol = tir::var(fmt::format("s{}", sizes.size()), d.dtype());
        sizes.emplace_back(d, symbol);
      }
      dims.push_back(symbol);
    }
    return tensor_type(dims, type.as<TensorType>()->dtype);
  };
  std::unordered_map<const Object*, Expr> mapped;
  Array<VarRef> params;
  for (const VarRef& p : f.params) {
    VarRef q = var(p->name, general(p->declared));
    q.mut()->origin = p->origin;
    mapped[p.get()] = q;
    params.push_back(q);
  }
  if (sizes.empty()) return;
  tir::VarMap back;
  for (auto& [e, v] : sizes) back[v.get()] = e;
  auto same = [&](auto& self, const Type& now, const Type& before) -> bool {
    const auto *t = now.as<TupleType>(), *u = before.as<TupleType>();
    if (t || u) {
      if (!t || !u || t->items.size() != u->items.size()) return false;
      for (size_t i = 0; i < t->items.size(); ++i)
        if (!self(self, t->items[i], u->items[i])) return false;
      return true;
    }
    const auto *a = as_tensor(now), *b = as_tensor(before);
    auto p = known_shape(now), q = known_shape(before);
    if (!a || !b || a->dtype != b->dtype || !p || !q || p->size() != q->size()) return false;
    for (size_t i = 0; i < p->size(); ++i)
      if (!analyzer.can_prove_equal(tir::substitute((*p)[i], back), (*q)[i])) return false;
    return true;
  };
  auto map = [&](auto& self, const Expr& e) -> Expr {
    if (auto it = mapped.find(e.get()); it != mapped.end()) return it->second;
    if (const auto* t = e.as<Tuple>())
      return make<Tuple>(t->items.map([&](const Expr& i) { return self(self, i); }));
    if (const auto* s = e.as<ShapeExpr>())
      return shape_expr(s->values.map([&](const PrimExpr& d) -> PrimExpr {
        if (!tir::as_int(d) && !d.is<tir::Var>())
          for (auto& [known, v] : sizes)
            if (analyzer.can_prove_equal(known, d)) return v;
        return d;
      }));
    return e;
  };
  Array<Binding> bindings;
  for (const Binding& b : bindings_of(f.body)) {
    const Expr value = binding_value(b);
    const VarRef old = binding_var(b);
    Expr copy;
    if (const auto* c = value.as<Call>()) {
      if (!c->type_args.empty()) return;
      const Array<Expr> args = c->args.map([&](const Expr& a) { return map(map, a); });
      copy = make<Call>(c->op, args, c->attrs, c->type_args);
    } else if (const auto* t = value.as<TupleGetItem>()) {
      copy = make<TupleGetItem>(map(map, t->tuple), t->index);
    } else {
      copy = map(map, value);
    }
    if (copy->origin.get() != value->origin.get()) copy.edit()->origin = value->origin;
    op::Inference run;
    if (!copy->type) copy = op::typed(run, copy);
    // Without a type: an operator cannot see that two of the symbols are one size.
    if (!copy->type || !same(same, copy->type, old->declared)) return;
    VarRef v = var(old->name, copy->type);
    v.edit()->origin = old->origin;
    bindings.push_back(make<VarBindingNode>(v, copy));
    mapped[old.get()] = v;
  }
  const Expr out = map(map, result_of(f.body));
  Ref<SeqExpr> body = make<SeqExpr>(Array<BindingBlock>{make<BindingBlockNode>(bindings)}, out);
  body.mut()->type = out->type;
  group.function = make<Function>(params, body, out->type, f.attrs);
}

std::string short_name(const std::string& op) {
  auto dot = op.rfind('.');
  return dot == op.npos ? op : op.substr(dot + 1);
}

}  // namespace

std::string kernel_name(const std::string& prefix, const std::vector<Binding>& members) {
  std::string name = prefix;
  for (const Binding& b : members)
    if (const Op* op = op_of(binding_value(b))) name += (name.empty() ? "" : "_") + short_name(op->name);
  constexpr size_t limit = 80;
  if (name.size() <= limit) return name;
  return name.substr(0, limit - 9) + fmt::format("_{:08x}", uint32_t(hash_bytes(name.data(), name.size())));
}

Group make_group(const std::vector<Binding>& members, const VarRef& result) {
  Group group;
  std::unordered_map<const Object*, Expr> inside;  // of the old body → leaf of the function
  std::vector<std::pair<Expr, VarRef>> outside;  // argument, parameter (its type still in the caller's sizes)
  std::unordered_map<const Object*, size_t> known;
  for (const Binding& b : members) inside[binding_var(b).get()] = Expr();
  std::vector<tir::VarRef> symbols;
  auto parameter = [&](const Expr& e, const std::string& name) {
    if (known.emplace(e.get(), outside.size()).second) outside.emplace_back(e, var(name, e->type));
  };
  auto scan = [&](auto& self, const Expr& e) -> void {
    if (auto* v = e.as<Var>()) {
      if (!inside.count(v)) parameter(e, v->name);
    } else if (auto* c = e.as<Constant>()) {
      if (c->data.size() != 1) parameter(e, "const");
    } else if (auto* t = e.as<Tuple>()) {
      for (const Expr& i : t->items) self(self, i);
    }
  };
  for (const Binding& b : members) {
    Expr value = binding_value(b);
    if (auto* c = value.as<Call>())
      for (const Expr& a : c->args) scan(scan, a);
    else if (auto* t = value.as<TupleGetItem>())
      scan(scan, t->tuple);
    else
      scan(scan, value);
  }
  for (auto& [e, p] : outside) symbols_of(e->type, symbols);
  for (const Binding& b : members) {
    symbols_of(binding_var(b)->declared, symbols);
    if (auto* c = binding_value(b).as<Call>()) {
      for (const Expr& a : c->args)
        if (a.is<ShapeExpr>() || a.is<PrimValue>()) symbols_of(a, symbols);
      if (c->attrs) symbols_of(c->attrs, symbols);
    }
  }

  // The function's own sizes.
  tir::VarMap own;
  for (const tir::VarRef& s : symbols) own[s.get()] = tir::var(s->name, s->dtype);
  std::unordered_map<const Object*, bool> shown;
  Array<VarRef> params;
  for (auto& [e, p] : outside) {
    VarRef q = var(p->name, substitute_symbols(e->type, own));
    params.push_back(q);
    group.args.push_back(e);
    inside[e.get()] = q;
    if (auto shape = known_shape(e->type))
      for (const PrimExpr& d : *shape)
        if (d.is<tir::Var>()) shown[d.get()] = true;
  }
  Array<PrimExpr> hidden, hidden_own;
  for (const tir::VarRef& s : symbols)
    if (!shown.count(s.get())) {
      hidden.push_back(s);
      hidden_own.push_back(own[s.get()]);
    }
  if (!hidden.empty()) {
    params.push_back(var("sizes", make<ShapeType>(hidden_own, int64_t(hidden_own.size()), true)));
    group.args.push_back(shape_expr(hidden));
  }

  auto map = [&](auto& self, const Expr& e) -> Expr {
    if (auto it = inside.find(e.get()); it != inside.end() && it->second) return it->second;
    if (auto* t = e.as<Tuple>())
      return make<Tuple>(t->items.map([&](const Expr& i) { return self(self, i); }));
    if (e.is<ShapeExpr>() || e.is<PrimValue>()) return substitute_symbols(e, own);
    return e;
  };
  Array<Binding> bindings;
  for (const Binding& b : members) {
    Expr value = binding_value(b);
    VarRef old = binding_var(b);
    Expr copy;
    if (auto* c = value.as<Call>()) {
      Array<Type> type_args = c->type_args.map([&](const Type& t) { return substitute_symbols(t, own); });
      copy = make<Call>(c->op, c->args.map([&](const Expr& a) { return map(map, a); }),
                        substitute_symbols(c->attrs, own), type_args);
    } else if (auto* t = value.as<TupleGetItem>()) {
      copy = make<TupleGetItem>(map(map, t->tuple), t->index);
    } else {
      copy = map(map, value);
    }
    VarRef v = var(old->name, substitute_symbols(old->declared, own));
    v.mut()->origin = value->origin ? value->origin : old->origin;
    copy.mut()->type = v->declared;
    copy.mut()->origin = value->origin;
    bindings.push_back(make<VarBindingNode>(v, copy));
    inside[old.get()] = v;
  }
  Expr out = inside[result.get()];
  Ref<SeqExpr> body = make<SeqExpr>(Array<BindingBlock>{make<BindingBlockNode>(bindings)}, out);
  body.mut()->type = out->type;
  AttrMap attrs;
  attrs.set("primitive", Any(int64_t(1)));
  group.function = make<Function>(params, body, out->type, attrs);
  generalise(group);
  return group;
}

}  // namespace tenon::graph
