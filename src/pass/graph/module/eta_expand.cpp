// SPDX-License-Identifier: Apache-2.0
// eta_expand: functions of the module and constructors that stand as values become closures that call them.
//
//   before   lv = map(square, xs)                                        # square: a function of the module
//   after    square_fn = fn(x0: …): lv1 = square(x0); return lv1;  lv = map(square_fn, xs)
//
// So what is called is always named where it is called. Functions with type parameters stay. Needs: types.
// Keeps: values.
#include "ir/symbols.h"
#include "op/body_rewriter.h"
#include "op/unify.h"

namespace tenon {
namespace graph {
namespace {

class EtaExpand : public BodyRewriter {
 public:
  explicit EtaExpand(const IRModule& module) : module_(module) {}

 protected:
  Expr visit(const Expr& value, const VarRef&) override {
    if (const auto* t = value.as<Tuple>()) {
      bool changed = false;
      Array<Expr> items = expanded(t->items, changed);
      return changed ? Expr(make<Tuple>(items)) : value;
    }
    // Calls of operators take functions by name: call_tir, make_closure.
    if (const auto* c = value.as<Call>(); c && !c->op.is<Op>()) {
      bool changed = false;
      Array<Expr> args = expanded(c->args, changed);
      if (!changed) return value;
      return with_origin(call(c->op, args, c->attrs, c->type_args), c->origin);
    }
    return value;
  }

 private:
  Array<Expr> expanded(const Array<Expr>& items, bool& changed) {
    return items.map([&](const Expr& e) {
      Expr f = e ? closure(e) : Expr();
      if (!f) return e;
      changed = true;
      return emit(f, name_of(e) + "_fn");
    });
  }
  static std::string name_of(const Expr& e) {
    return e.is<GlobalVar>() ? e.as<GlobalVar>()->name : e.as<Constructor>()->name;
  }

  Expr closure(const Expr& e) {
    Type type;
    if (const auto* g = e.as<GlobalVar>()) {
      const auto f = module_.find(g->name).cast<Function>();
      if (!f || !f->type_params.empty()) return {};
      type = op::function_type(*f);
    } else if (const auto* c = e.as<Constructor>()) {
      const AdtDef def = module_.find_type(c->data_type);
      if (!def || !def->params.empty()) return {};
      type = op::constructor_type(def, size_t(c->tag));
    }
    const auto* f = type.as<FuncType>();
    if (!f || f->opaque) return {};
    // Sizes of its own: they are bound when it is called.
    std::vector<tir::VarRef> symbols;
    symbols_of(type, symbols);
    tir::VarMap own;
    for (const tir::VarRef& s : symbols) own[s.get()] = tir::var(s->name, s->dtype);
    Array<VarRef> params;
    Array<Expr> args;
    for (const Type& t : f->params) {
      params.push_back(var("x" + std::to_string(params.size()), substitute_symbols(t, own)));
      args.push_back(params[params.size() - 1]);
    }
    Expr callee = e;
    if (!callee->type) callee.edit()->type = type;
    const Type ret = substitute_symbols(f->ret, own);
    Expr made = with_type(call(callee, args), ret);
    const VarRef result = var("result", ret);
    Expr out = make<Function>(params, make_body({make<VarBindingNode>(result, made)}, result), ret);
    out.edit()->type = op::function_type(*out.as<Function>());
    return out;
  }

  const IRModule& module_;
};

}  // namespace
}  // namespace graph

static IRModule eta_expand(IRModule module, PassContext&) {
  const IRModule whole = module;
  return graph::rewrite_functions<graph::EtaExpand>(std::move(module), whole);
}

const Pass& eta_expand_pass = register_pass({
    .name = "eta_expand",
    .run = eta_expand,
    .summary = "functions that stand as values become closures",
    .needs = {"infer_types"},
});

}  // namespace tenon
