// SPDX-License-Identifier: Apache-2.0
#include "pass/graph/module/private_functions.h"

#include "op/body_rewriter.h"
#include "op/unify.h"

namespace tenon::graph {
namespace {

class CallRewriter : public BodyRewriter {
 public:
  CallRewriter(const std::set<std::string>& names,
               FunctionRef<Expr(const Call&, const VarRef&, EmitBefore)> rewrite)
      : names_(names), rewrite_(rewrite) {}

 protected:
  Expr visit(const Expr& value, const VarRef& var) override {
    const auto* c = value.as<Call>();
    const auto* g = c ? c->op.as<GlobalVar>() : nullptr;
    if (!g || !names_.count(g->name)) return value;
    auto emit_before = [&](Expr v, const std::string& name) { return emit(std::move(v), name); };
    Expr out = rewrite_(*c, var, emit_before);
    if (!out) return value;
    if (!is_leaf(out) && !out->origin) out.edit()->origin = c->origin;
    return out;
  }

 private:
  const std::set<std::string>& names_;
  FunctionRef<Expr(const Call&, const VarRef&, EmitBefore)> rewrite_;
};

}  // namespace

std::map<std::string, Ref<Function>> private_functions(const IRModule& module) {
  std::map<std::string, Ref<Function>> out;
  for (const auto& [name, f] : graph_functions(module))
    if (!is_entry(name, *f) && !is_primitive(*f) && f->type_params.empty() && !f->attrs.contains("captured"))
      out[name] = f;
  // A name anywhere but as a callee is a value that others may call.
  for (const auto& [name, f] : graph_functions(module)) {
    post_order(f, [&](const ObjectRef& n) {
      auto gone = [&](const Expr& e) {
        if (const auto* g = e.as<GlobalVar>()) out.erase(g->name);
      };
      auto all = [&](const Array<Expr>& items) {
        for (const Expr& e : items) gone(e);
      };
      if (const auto* c = n.as<Call>()) all(c->args);
      if (const auto* t = n.as<Tuple>()) all(t->items);
      if (const auto* w = n.as<While>()) all(w->init);
      if (const auto* s = n.as<SeqExpr>()) gone(s->body);
      if (const auto* b = n.as<BindingNode>()) gone(b->value);
      if (const auto* m = n.as<Match>()) gone(m->value);
    });
  }
  return out;
}

IRModule rewrite_calls(IRModule module, const std::set<std::string>& names,
                       FunctionRef<Expr(const Call&, const VarRef&, EmitBefore)> rewrite) {
  if (names.empty()) return module;
  return module.map_graph([&](const std::string&, const Ref<Function>& f) -> ObjectRef {
    if (!f->body) return {};
    CallRewriter rewriter(names, rewrite);
    Ref<Function> out = rewriter.run(f);
    return out.same_as(f) ? ObjectRef() : ObjectRef(out);
  });
}

Expr typed_global(const IRModule& module, const std::string& name) {
  Expr g = global(name);
  if (const auto f = module.find(name).cast<Function>()) g.edit()->type = op::function_type(*f);
  return g;
}

}  // namespace tenon::graph
