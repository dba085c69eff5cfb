// SPDX-License-Identifier: Apache-2.0
// remove_unused_parameters: what a private function does not read is not handed to it.
//
//   before   g(x, y): return R.exp(x)      lv = g(a, b)
//   after    g(x): return R.exp(x)         lv = g(a)
//
// For functions that are called directly only. A parameter whose type is the only place that shows a symbolic
// size stays. Keeps: values; entries as they are. Needs: types.
#include <algorithm>
#include <set>

#include "ir/bodies.h"
#include "ir/pass.h"
#include "ir/symbols.h"
#include "pass/graph/module/private_functions.h"

namespace tenon {

static IRModule remove_unused_parameters(IRModule module, PassContext&) {
  using namespace graph;
  std::map<std::string, std::vector<size_t>> kept;
  std::set<std::string> changed;
  for (const auto& [name, f] : private_functions(module)) {
    const auto uses = count_uses(*f);
    std::vector<tir::VarRef> used;  // sizes that the rest of the function names
    symbols_of(f->body, used);
    symbols_of(f->ret_type, used);
    auto shows = [](const VarRef& p, const tir::VarRef& s) {
      auto shape = known_shape(p->declared);
      return shape &&
             std::any_of(shape->begin(), shape->end(), [&](const PrimExpr& d) { return d.same_as(s); });
    };
    std::vector<size_t> keep;
    for (size_t i = 0; i < f->params.size(); ++i) {
      const VarRef& p = f->params[i];
      bool needed = uses.count(p.get()) > 0;
      std::vector<tir::VarRef> own;
      symbols_of(p->declared, own);
      for (const tir::VarRef& s : own) {
        bool elsewhere = false;
        for (size_t k = 0; k < f->params.size(); ++k)
          elsewhere = elsewhere || (k != i && uses.count(f->params[k].get()) && shows(f->params[k], s));
        const bool named =
            std::any_of(used.begin(), used.end(), [&](const tir::VarRef& u) { return u.same_as(s); });
        bool in_parameter = false;
        for (size_t k = 0; k < f->params.size(); ++k) {
          std::vector<tir::VarRef> others;
          if (k != i) symbols_of(f->params[k]->declared, others);
          for (const tir::VarRef& o : others) in_parameter = in_parameter || o.same_as(s);
        }
        needed = needed || ((named || in_parameter) && !elsewhere);
      }
      if (needed) keep.push_back(i);
    }
    if (keep.size() == f->params.size()) continue;
    Array<VarRef> params;
    for (size_t i : keep) params.push_back(f->params[i]);
    Ref<graph::Function> out = f;
    out.edit()->params = params;
    module.set(name, out);
    kept[name] = keep;
    changed.insert(name);
  }
  const IRModule after = module;
  return rewrite_calls(std::move(module), changed, [&](const Call& c, const VarRef& v, EmitBefore) -> Expr {
    const std::string& name = c.op.as<GlobalVar>()->name;
    Array<Expr> args;
    for (size_t i : kept[name]) args.push_back(c.args[i]);
    return with_type(call(typed_global(after, name), args, c.attrs, c.type_args), v->declared);
  });
}

const Pass& remove_unused_parameters_pass = register_pass({
    .name = "remove_unused_parameters",
    .run = remove_unused_parameters,
    .summary = "private functions are not given what they do not read",
    .needs = {"infer_types"},
});

}  // namespace tenon
