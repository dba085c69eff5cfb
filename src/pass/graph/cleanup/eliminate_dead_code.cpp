// SPDX-License-Identifier: Apache-2.0
// eliminate_dead_code: bindings of pure values that nothing uses go, nested bodies included.
//
//   before   lv = R.exp(x);  lv1 = R.add(x, y);  return lv1
//   after    lv1 = R.add(x, y);  return lv1
//
// With eliminate_dead_code.inline_once, functions of the module that one call names, and nothing else does,
// take the place of this call, and go: the passes behind see through it.
//
// Keeps: impure calls, loops that hold one, match_cast (it checks at run time), order, unread results of If.
#include <unordered_set>

#include "ir/find_node.h"
#include "ir/pass.h"
#include "ir/regions.h"
#include "ir/walk.h"
#include "pass/graph/module/inline_functions.h"

namespace tenon {
namespace graph {
namespace {

class DeadCode {
 public:
  DeadCode(const IRModule& module) : module_(module) {}

  Expr body(const Expr& e) {
    std::vector<Binding> bindings = bindings_of(e);
    used_.reserve(used_.size() + bindings.size());
    use(result_of(e));
    bool changed = false;
    // Backwards: a binding is needed when a kept one below uses its variable.
    for (size_t i = bindings.size(); i-- > 0;) {
      Binding& b = bindings[i];
      if (b.is<VarBindingNode>() && !used_.count(b->var.get()) && pure(b->value)) {
        changed = true;
        b = Binding();
        continue;
      }
      changed |= map_bodies(b, [&](const Expr& x) { return body(x); });
      use(b->value);
    }
    return changed ? in_regions(e, bindings, result_of(e)) : e;
  }

 private:
  void use(const Expr& e) {
    for_each_use(e, [&](const VarRef& v) { used_.insert(v.get()); });
  }

  bool pure(const Expr& value) {
    bool result = true;
    auto check = [&](const Expr& v) {
      if (auto* c = v.as<Call>()) {
        const Op* op = c->op.as<Op>();
        if (op)
          result = result && op->pure;
        else
          result = result && (c->op.is<Constructor>() ||
                              (c->op.is<GlobalVar>() && pure_function(c->op.as<GlobalVar>()->name)));
      } else if (v.is<While>()) {
        result = false;  // it may not end
      }
    };
    auto all = [&](const Expr& b) {
      for_each_binding(b, [&](const Binding& x) {
        check(x->value);
        result = result && x.is<VarBindingNode>();
      });
    };
    if (value.is<If>() || value.is<Match>()) {
      for (const Expr& b : bodies_of(value)) all(b);
    } else if (value.is<Function>())
      return true;
    else
      check(value);
    return result;
  }

  /// A function is pure when every call in it is; one that calls itself is taken as impure: it may not end.
  bool pure_function(const std::string& name) {
    auto [it, fresh] = functions_.emplace(name, false);
    if (!fresh) return it->second;
    Ref<Function> f = module_.find(name).cast<Function>();
    bool result = bool(f);
    if (f) {
      for_each_binding(
          f->body, [&](const Binding& b) { result = result && b.is<VarBindingNode>() && pure(b->value); });
    }
    return functions_[name] = result;
  }

  const IRModule& module_;
  std::unordered_set<const Var*> used_;
  std::map<std::string, bool> functions_;
};

/// Functions that one call names, which is no call of their own, and that nobody outside knows.
std::map<std::string, Ref<Function>> used_once(const IRModule& module) {
  std::map<std::string, int> named, called;
  std::map<std::string, Ref<Function>> out;
  for (auto [name, object] : module.functions())
    post_order(object, [&, caller = name](const ObjectRef& n) {
      if (const auto* g = n.as<GlobalVar>()) ++named[g->name];
      const auto* c = n.as<Call>();
      if (const auto* g = c ? c->op.as<GlobalVar>() : nullptr; g && g->name != caller) ++called[g->name];
    });
  for (const auto& [name, f] : graph_functions(module))
    if (!is_entry(name, *f) && !is_primitive(*f) && f->type_params.empty() && called[name] == 1)
      out.emplace(name, f);
  // Of functions that call one another in a circle no one is inlined: nothing calls the circle from outside.
  std::erase_if(out, [&](const auto& entry) {
    return any_node(entry.second, [&](const ObjectRef& n) {
      const auto* g = n.as<GlobalVar>();
      return g && out.count(g->name);
    });
  });
  return out;
}

IRModule inline_once(IRModule module) {
  for (auto functions = used_once(module); !functions.empty(); functions = used_once(module)) {
    module = inline_calls(std::move(module), functions);
    bool any = false;
    for (const auto& [name, f] : functions) {
      bool left = false;
      for (auto [caller, object] : module.functions())
        post_order(object, [&, key = name](const ObjectRef& n) {
          const auto* g = n.as<GlobalVar>();
          left = left || (g && g->name == key);
        });
      if (left) continue;  // its sizes cannot be told there
      module.erase(name);
      any = true;
    }
    if (!any) break;
  }
  return module;
}

}  // namespace
}  // namespace graph

static const Option<bool> kInlineOnce("eliminate_dead_code.inline_once", false,
                                      "functions that one call names become the bindings of this call");

static IRModule eliminate_dead_code(IRModule module, PassContext& context) {
  using namespace graph;
  if (context.options.get(kInlineOnce)) module = inline_once(std::move(module));
  const IRModule whole = module;
  return module.map_graph([&](const std::string&, const Ref<Function>& f) -> ObjectRef {
    Expr body = DeadCode(whole).body(f->body);
    if (body.same_as(f->body)) return {};
    return with_bodies(f, {body});
  });
}

const Pass& eliminate_dead_code_pass = register_pass({
    .name = "eliminate_dead_code",
    .run = eliminate_dead_code,
    .level = 1,
    .summary = "bindings that nothing needs go",
    .options = {kInlineOnce},
});

}  // namespace tenon
