// SPDX-License-Identifier: Apache-2.0
// defuse_ops: calls of primitive functions become the operators inside them; the inverse of fuse_ops.
//
//   before   lv1 = fused_add_relu(x, b)                  # "primitive" = 1
//   after    lv = R.add(x, b);  lv1 = R.nn.relu(lv)
//
// Functions that nothing calls any more go. Needs: types. Keeps: values; fuse_ops makes the same groups
// again.
#include "ir/symbols.h"
#include "op/body_rewriter.h"
#include "pass/graph/fusion/programs.h"

namespace tenon {
namespace graph {
namespace {

class DefuseOps : public BodyRewriter {
 public:
  explicit DefuseOps(const IRModule& module) : module_(module) {}

 protected:
  Expr visit(const Expr& value, const VarRef& var) override {
    const auto* c = value.as<Call>();
    const auto* g = c ? c->op.as<GlobalVar>() : nullptr;
    const auto f = g ? module_.find(g->name).cast<Function>() : Ref<Function>();
    if (!f || !is_primitive(*f)) return value;
    tir::VarMap sizes;
    for (const SymbolValue& s : match_symbols(*f, c->args)) sizes[s.symbol.get()] = s.value;
    std::unordered_map<const Object*, Expr> outer;
    for (size_t i = 0; i < f->params.size(); ++i) outer[f->params[i].get()] = c->args[i];
    auto map = [&](auto& self, const Expr& e) -> Expr {
      if (auto it = e ? outer.find(e.get()) : outer.end(); it != outer.end()) return it->second;
      if (const auto* t = e.as<Tuple>())
        return make<Tuple>(t->items.map([&](const Expr& i) { return self(self, i); }));
      if (e && (e.is<ShapeExpr>() || e.is<PrimValue>())) return substitute_symbols(e, sizes);
      return e;
    };
    const Expr result = result_of(f->body);
    for (const Binding& b : bindings_of(f->body)) {
      const Expr inner = b->value;
      Expr copy;
      if (const auto* k = inner.as<Call>()) {
        Array<Type> types = k->type_args.map([&](const Type& t) { return substitute_symbols(t, sizes); });
        copy = call(k->op, k->args.map([&](const Expr& a) { return map(map, a); }),
                    with_symbols(k->attrs, sizes), types);
      } else if (const auto* t = inner.as<TupleGetItem>()) {
        copy = make<TupleGetItem>(map(map, t->tuple), t->index);
      } else {
        copy = map(map, inner);
      }
      if (!is_leaf(copy))
        copy = with_type(std::move(copy), substitute_symbols(b->var->declared, sizes),
                         inner->origin ? inner->origin : c->origin);
      if (b->var.same_as(result)) return copy;
      outer[b->var.get()] = emit(copy, b->var->name);
    }
    Expr out = map(map, result);
    if (out.is<Tuple>()) out.edit()->type = var->declared;
    return out;
  }

 private:
  static ObjectRef with_symbols(const ObjectRef& attrs, const tir::VarMap& sizes) {
    if (!attrs || sizes.empty()) return attrs;
    return rewrite_any(attrs, [&](const ObjectRef& n) -> ObjectRef {
      const auto* v = n.as<tir::Var>();
      auto it = v ? sizes.find(v) : sizes.end();
      return it == sizes.end() ? ObjectRef() : ObjectRef(it->second);
    });
  }
  const IRModule& module_;
};

}  // namespace
}  // namespace graph

static IRModule defuse_ops(IRModule module, PassContext&) {
  using namespace graph;
  const IRModule whole = module;
  IRModule out = rewrite_functions<DefuseOps>(std::move(module), whole);
  if (out.same_as(whole)) return out;
  std::set<std::string> used;
  for (const auto& [name, f] : graph_functions(out))
    post_order(f, [&](const ObjectRef& n) {
      if (const auto* g = n.as<GlobalVar>()) used.insert(g->name);
    });
  std::set<std::string> gone;
  for (const auto& [name, f] : graph_functions(out))
    if (is_primitive(*f) && !used.count(name)) gone.insert(name);
  erase_functions(out, gone);
  return out;
}

const Pass& defuse_ops_pass = register_pass({
    .name = "defuse_ops",
    .run = defuse_ops,
    .summary = "primitive functions become their operators again",
    .needs = {"infer_types"},
});

}  // namespace tenon
