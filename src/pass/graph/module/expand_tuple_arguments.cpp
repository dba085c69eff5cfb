// SPDX-License-Identifier: Apache-2.0
// expand_tuple_arguments: a private function takes the items of a tuple instead of the tuple.
//
//   before   g(t: R.Tuple(A, B)): lv = t[0]; …            lv = g((x, y))
//   after    g(t_0: A, t_1: B): t = (t_0, t_1); lv = t[0]  lv = g(x, y)
//
// For functions that are called directly only; one level in one run. Behind it remove_unused_parameters sees
// the items. Needs: types. Keeps: values.
#include <set>

#include "ir/bodies.h"
#include "ir/pass.h"
#include "pass/graph/module/private_functions.h"

namespace tenon {

static IRModule expand_tuple_arguments(IRModule module, PassContext&) {
  using namespace graph;
  std::map<std::string, std::vector<size_t>> widths;  // items of each old parameter; 0: no tuple
  std::set<std::string> changed;
  for (const auto& [name, f] : private_functions(module)) {
    Array<VarRef> params;
    std::vector<Binding> bindings;
    std::vector<size_t> width;
    bool any = false;
    for (const VarRef& p : f->params) {
      const auto* tuple = p->declared.as<TupleType>();
      width.push_back(tuple ? tuple->items.size() : 0);
      if (!tuple || tuple->items.empty()) {
        width.back() = 0;
        params.push_back(p);
        continue;
      }
      any = true;
      Array<Expr> items;
      for (size_t i = 0; i < tuple->items.size(); ++i) {
        params.push_back(var(p->name + "_" + std::to_string(i), tuple->items[i]));
        items.push_back(params[params.size() - 1]);
      }
      Expr whole = with_type(make<Tuple>(items), p->declared);
      bindings.push_back(make<VarBindingNode>(p, whole));
    }
    if (!any) continue;
    for (const Binding& b : bindings_of(f->body)) bindings.push_back(b);
    Ref<graph::Function> out = f;
    out.edit()->params = params;
    set_body(out, make_body(bindings, result_of(f->body)));
    module.set(name, out);
    widths[name] = width;
    changed.insert(name);
  }
  const IRModule after = module;
  return rewrite_calls(
      std::move(module), changed, [&](const Call& c, const VarRef& v, EmitBefore emit) -> Expr {
        const std::string& name = c.op.as<GlobalVar>()->name;
        const std::vector<size_t>& width = widths[name];
        Array<Expr> args;
        for (size_t i = 0; i < c.args.size(); ++i) {
          if (width[i] == 0) {
            args.push_back(c.args[i]);
            continue;
          }
          if (const auto* t = c.args[i].as<Tuple>()) {
            for (const Expr& item : t->items) args.push_back(item);
            continue;
          }
          for (size_t k = 0; k < width[i]; ++k)
            args.push_back(emit(make<TupleGetItem>(c.args[i], int64_t(k)), v->name + "_item"));
        }
        return with_type(call(typed_global(after, name), args, c.attrs, c.type_args), v->declared);
      });
}

const Pass& expand_tuple_arguments_pass = register_pass({
    .name = "expand_tuple_arguments",
    .run = expand_tuple_arguments,
    .summary = "private functions take the items of a tuple",
    .needs = {"infer_types"},
});

}  // namespace tenon
