// SPDX-License-Identifier: Apache-2.0
// remove_unused_outputs: a private function does not return what no caller reads.
//
//   before   g(x): …; return (lv, lv1)         t = g(a);  y = t[0]
//   after    g(x): …; return (lv,)             t = g(a);  y = t[0]
//
// For functions that are called directly only, when every use of a call's result takes one item of it. What
// the function computed for the items that are gone goes with eliminate_dead_code. Keeps: values.
#include <set>

#include "op/body_rewriter.h"
#include "pass/graph/module/private_functions.h"

namespace tenon {
namespace graph {
namespace {

/// Items that are read of each function's result; functions whose result is read as a whole are left out.
class OutputUses {
 public:
  explicit OutputUses(std::map<std::string, Ref<Function>> functions) : functions_(std::move(functions)) {
    std::erase_if(functions_, [](const auto& f) {
      const Expr result = result_of(f.second->body);
      return !f.second->ret_type.template is<TupleType>() || !items_of(*f.second, result);
    });
  }
  /// The tuple that the result is: written there, or bound in the body.
  static const Tuple* items_of(const Function& f, const Expr& result) {
    if (const auto* t = result.as<Tuple>()) return t;
    for (const Binding& b : bindings_of(f.body))
      if (b->var.same_as(result)) return b->value.as<Tuple>();
    return nullptr;
  }

  void scan(const Function& f) {
    std::unordered_map<const Var*, std::string> made;
    for_each_binding(f.body, [&](const Binding& b) {
      const auto* c = b->value.as<Call>();
      const auto* g = c ? c->op.as<GlobalVar>() : nullptr;
      if (g && functions_.count(g->name) && b.is<VarBindingNode>()) made[b->var.get()] = g->name;
    });
    std::unordered_map<const Var*, int> taken;
    for_each_binding(f.body, [&](const Binding& b) {
      const auto* item = b->value.as<TupleGetItem>();
      auto it = item ? made.find(item->tuple.as<Var>()) : made.end();
      if (it == made.end()) return;
      read_[it->second].insert(item->index);
      ++taken[it->first];
    });
    const auto uses = count_uses(f);
    for (const auto& [v, name] : made)
      if (auto n = uses.find(v); n != uses.end() && n->second != taken[v]) functions_.erase(name);
  }

  std::map<std::string, Ref<Function>> functions_;
  std::map<std::string, std::set<int64_t>> read_;
};

class RenumberItems : public BodyRewriter {
 public:
  RenumberItems(const std::map<std::string, std::map<int64_t, int64_t>>& places, const IRModule& after)
      : places_(places), after_(after) {}

 protected:
  Expr visit(const Expr& value, const VarRef&) override {
    if (const auto* c = value.as<Call>()) {
      const auto* g = c->op.as<GlobalVar>();
      if (!g || !places_.count(g->name)) return value;
      return with_origin(call(typed_global(after_, g->name), c->args, c->attrs, c->type_args), c->origin);
    }
    const auto* item = value.as<TupleGetItem>();
    if (!item) return value;
    const Expr made = definition(item->tuple);
    const auto* c = made ? made.as<Call>() : nullptr;
    const auto* g = c ? c->op.as<GlobalVar>() : nullptr;
    auto it = g ? places_.find(g->name) : places_.end();
    if (it == places_.end()) return value;
    auto at = it->second.find(item->index);
    if (at == it->second.end() || at->second == item->index) return value;
    return make<TupleGetItem>(item->tuple, at->second);
  }

 private:
  const std::map<std::string, std::map<int64_t, int64_t>>& places_;
  const IRModule& after_;
};

}  // namespace
}  // namespace graph

static IRModule remove_unused_outputs(IRModule module, PassContext&) {
  using namespace graph;
  OutputUses uses(private_functions(module));
  for (const auto& [name, f] : graph_functions(module)) uses.scan(*f);
  std::map<std::string, std::map<int64_t, int64_t>> places;
  for (const auto& [name, f] : uses.functions_) {
    const Tuple* items = OutputUses::items_of(*f, result_of(f->body));
    const std::set<int64_t>& read = uses.read_[name];
    if (read.empty() || read.size() == items->items.size()) continue;
    Array<Expr> kept;
    Array<Type> types;
    for (int64_t i : read) {
      places[name][i] = int64_t(kept.size());
      kept.push_back(items->items[size_t(i)]);
      types.push_back(f->ret_type.as<TupleType>()->items[size_t(i)]);
    }
    Expr result = with_type(make<Tuple>(kept), tuple_type(types));
    Ref<graph::Function> out = f;
    set_body(out, make_body(bindings_of(f->body), result));
    out.edit()->ret_type = result->type;
    module.set(name, out);
  }
  if (places.empty()) return module;
  const IRModule after = module;
  return rewrite_functions<RenumberItems>(std::move(module), places, after);
}

const Pass& remove_unused_outputs_pass = register_pass({
    .name = "remove_unused_outputs",
    .run = remove_unused_outputs,
    .summary = "private functions do not return what nobody reads",
    .needs = {"infer_types"},
});

}  // namespace tenon
