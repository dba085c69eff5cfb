// SPDX-License-Identifier: Apache-2.0
// eliminate_dead_code: bindings of pure values that nothing uses go, nested bodies included.
//
//   before   lv = R.exp(x);  lv1 = R.add(x, y);  return lv1
//   after    lv1 = R.add(x, y);  return lv1
//
// Keeps: impure calls, loops that hold one, match_cast (it checks at run time), order, unread results of If.
#include "ir/bodies.h"
#include "ir/pass.h"

#include <unordered_set>

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
    std::vector<Binding> kept;
    kept.reserve(bindings.size());
    bool changed = false;
    // Backwards: a binding is needed when a kept one below uses its variable.
    for (size_t i = bindings.size(); i-- > 0;) {
      Binding& b = bindings[i];
      if (b.is<VarBindingNode>() && !used_.count(b->var.get()) && pure(b->value)) {
        changed = true;
        continue;
      }
      changed |= map_bodies(b, [&](const Expr& x) { return body(x); });
      use(b->value);
      kept.push_back(b);
    }
    if (!changed) return e;
    Array<Binding> out(kept.rbegin(), kept.rend());
    Array<BindingBlock> blocks;
    if (!out.empty()) blocks.push_back(make<BindingBlockNode>(out));
    return with_type(make<SeqExpr>(blocks, result_of(e)), e->type);
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

}  // namespace
}  // namespace graph

static IRModule eliminate_dead_code(IRModule module, PassContext&) {
  using namespace graph;
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
});

}  // namespace tenon
