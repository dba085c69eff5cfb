// SPDX-License-Identifier: Apache-2.0
#include "ir/symbols.h"

#include <unordered_set>

#include "ir/structural.h"
#include "ir/tir.h"

namespace tenon::graph {

ObjectRef substitute_symbols(const ObjectRef& root, const tir::VarMap& map) {
  if (map.empty() || !root) return root;
  return rewrite_any(
      root,
      [&](const ObjectRef& node) -> ObjectRef {
        if (auto* v = node.as<tir::Var>())
          if (auto it = map.find(v); it != map.end()) return it->second;
        return {};
      },
      [](const ObjectRef& node) {
        return node.is<Op>() || node.is<GlobalVar>() || node.is<Constant>() || node.is<Var>();
      });
}
Expr substitute_symbols(const Expr& e, const tir::VarMap& map) {
  return Expr(static_cast<const ExprNode*>(substitute_symbols(ObjectRef(e), map).get()));
}
Type substitute_symbols(const Type& t, const tir::VarMap& map) {
  return Type(static_cast<const TypeNode*>(substitute_symbols(ObjectRef(t), map).get()));
}

void symbols_of(const ObjectRef& type, std::vector<tir::VarRef>& out) {
  if (!type) return;
  post_order(type, [&](const ObjectRef& node) {
    if (auto* v = node.as<tir::Var>()) {
      for (const tir::VarRef& o : out)
        if (o.get() == v) return;
      out.push_back(tir::VarRef(v));
    }
  });
}

std::vector<SymbolValue> match_symbols(const Function& function, const Array<Expr>& args) {
  std::vector<tir::VarRef> symbols;
  for (const VarRef& p : function.params) symbols_of(p->declared, symbols);
  tir::VarMap values;
  for (size_t i = 0; i < function.params.size() && i < args.size(); ++i) {
    auto formal = known_shape(function.params[i]->declared), actual = known_shape(args[i]->type);
    if (!formal || !actual) continue;
    for (size_t d = 0; d < formal->size() && d < actual->size(); ++d)
      if (auto* v = (*formal)[d].as<tir::Var>()) values.try_emplace(v, (*actual)[d]);
  }
  std::vector<SymbolValue> out;
  for (const tir::VarRef& s : symbols) {
    auto it = values.find(s.get());
    CHECK(it != values.end(), "no argument shows the size " + s->name);
    out.push_back({s, it->second});
  }
  return out;
}

ObjectRef with_sizes(const ObjectRef& root, const tir::VarMap& map) {
  if (map.empty()) return root;
  return rewrite_any(
      root,
      [&](const ObjectRef& node) -> ObjectRef {
        if (const auto* v = node.as<tir::Var>()) {
          auto it = map.find(v);
          return it == map.end() ? ObjectRef() : ObjectRef(it->second);
        }
        // Types that stand beside the fields are facts about the old sizes.
        Expr e = node.is<Var>() ? Expr() : node.cast<ExprNode>();
        if (!e) return {};
        const Type type = substitute_symbols(e->type, map);
        return type.same_as(e->type) ? Expr() : with_type(std::move(e), type);
      },
      [](const ObjectRef& node) { return node.is<Op>() || node.is<Constant>() || node.is<GlobalVar>(); });
}
Ref<Function> with_sizes(const Ref<Function>& f, const tir::VarMap& map) {
  Ref<Function> out = with_sizes(ObjectRef(f), map).cast<Function>();
  if (!map.empty() && out->plan) out.edit()->plan = {};  // its offsets were for other sizes
  return out;
}

uint64_t symbol_hash(const ObjectRef& e) {
  uint64_t h = structural_hash(e);
  for (const tir::VarRef& v : tir::free_vars(e)) h = h * 31 + uint64_t(reinterpret_cast<uintptr_t>(v.get()));
  return h;
}

}  // namespace tenon::graph

namespace tenon {

std::vector<tir::VarRef> kernel_scalars(const tir::PrimFunc& f) {
  std::vector<tir::VarRef> out;
  std::unordered_set<const tir::Var*> seen;
  for (const tir::VarRef& p : f->params) {
    if (f->buffer_map.contains(p) || p->dtype.is_handle()) continue;
    out.push_back(p);
    seen.insert(p.get());
  }
  for (const tir::VarRef& p : f->params) {
    auto b = f->buffer_map.find(p);
    if (!b) continue;
    for (const PrimExpr& d : (*b)->shape)
      if (const auto* v = d.as<tir::Var>(); v && seen.insert(v).second) out.push_back(tir::VarRef(v));
  }
  return out;
}

}  // namespace tenon
