// SPDX-License-Identifier: Apache-2.0
// inline_functions: calls of lifted closures, and of functions that ask for it, become the callee's bindings.
//
//   before   lv = main_g(x, a)                    with main_g(x, y): w = x + y; return w
//   after    w = R.add(x, a)                      and lv is w
//
// A function asks by its attribute "inline" = 1; lifted closures ("captured") are inlined where they are
// called directly, and so are private functions whose parameters leave a rank or an element type open, which
// each call tells. Functions that reach themselves stay, as do calls whose sizes are not known. Needs: types.
// Keeps: values, order of effects. Behind it every pass, fusion above all, sees through the call.
#include "pass/graph/module/inline_functions.h"

#include <algorithm>
#include <set>
#include <unordered_set>

#include "ir/structural.h"
#include "ir/symbols.h"
#include "op/body_rewriter.h"
#include "op/infer.h"
#include "op/unify.h"

namespace tenon {
namespace graph {
namespace {

constexpr size_t kMaxBindings = 200;

/// Everything that a function binds, nested bodies included.
void bound_in(const Function& f, std::vector<VarRef>& out) {
  for (const VarRef& p : f.params) out.push_back(p);
  for_each_binding(f.body, [&](const Binding& b) {
    out.push_back(b->var);
    const Expr value = b->value;
    if (const auto* w = value.as<While>())
      for (const VarRef& v : w->loop_vars) out.push_back(v);
    if (const auto* inner = value.as<Function>())
      for (const VarRef& v : inner->params) out.push_back(v);
    if (const auto* m = value.as<Match>())
      for (const MatchClause& c : m->clauses) variables_of(c->pattern, out);
  });
}

/// A tensor of unknown rank or element type, or a tuple with one.
bool leaves_open(const Type& type) {
  if (const auto* t = type.as<TensorType>()) return t->ndim < 0 || t->dtype.is_void();
  const auto* tuple = type.as<TupleType>();
  return tuple && std::any_of(tuple->items.begin(), tuple->items.end(), leaves_open);
}
bool takes_any_tensor(const Function& f) {
  return std::any_of(f.params.begin(), f.params.end(),
                     [](const VarRef& p) { return leaves_open(p->declared ? p->declared : p->type); });
}

class Inliner : public BodyRewriter {
 public:
  explicit Inliner(const std::map<std::string, Ref<Function>>& candidates) : candidates_(candidates) {}

 protected:
  Expr visit(const Expr& value, const VarRef&) override {
    const auto* c = value.as<Call>();
    const auto* g = c ? c->op.as<GlobalVar>() : nullptr;
    auto it = g ? candidates_.find(g->name) : candidates_.end();
    if (it == candidates_.end()) return value;
    const Expr body = inlined_body(*it->second, c->args);
    if (!body) return value;
    for (const Binding& b : bindings_of(body)) splice(b);
    return replaced(result_of(body));
  }
  /// What is computed with an argument of a known type has a known one, too.
  Expr typed(const Expr& value, bool changed) override {
    if (!value->type || !leaves_open(value->type) || value.is<Function>())
      return BodyRewriter::typed(value, changed);
    Expr open = value;
    open.edit()->type = Type();
    open = op::typed(std::move(open));
    return open->type && !structural_equal(open->type, value->type, false) ? open : value;
  }
  Type variable_type(const Expr& value, const VarRef& var, bool changed) override {
    return BodyRewriter::variable_type(value, var, changed || (var->type && leaves_open(var->type)));
  }

 private:
  const std::map<std::string, Ref<Function>>& candidates_;
};

}  // namespace

Expr inlined_body(const Function& f, const Array<Expr>& args) {
  if (args.size() != f.params.size()) return {};
  std::vector<tir::VarRef> shown, all, outer;
  for (const VarRef& p : f.params) symbols_of(p->declared, shown);
  // Sizes inside of a data type or a tuple are none that an argument shows.
  std::unordered_set<const Object*> dims;
  for (const VarRef& p : f.params)
    for (const PrimExpr& d : known_shape(p->declared).value_or(Array<PrimExpr>())) dims.insert(d.get());
  for (const tir::VarRef& s : shown)
    if (!dims.count(s.get())) return {};
  symbols_of(ObjectRef(&f), all);
  for (const Expr& a : args) symbols_of(a->type, outer);
  tir::VarMap sizes;
  for (const SymbolValue& s : match_symbols(f, args))
    if (s.value) sizes[s.symbol.get()] = s.value;
  for (const tir::VarRef& s : shown)
    if (!sizes.count(s.get())) return {};
  for (const tir::VarRef& s : all) {
    for (const tir::VarRef& o : outer)
      if (o.same_as(s)) return {};
    if (!sizes.count(s.get())) sizes[s.get()] = tir::var(s->name, s->dtype);
  }
  std::vector<VarRef> bound;
  bound_in(f, bound);
  op::Unifier types(f.type_params);
  for (size_t i = 0; i < args.size(); ++i)
    if (!f.type_params.empty() && !types.unify(f.params[i]->declared, args[i]->type)) return {};
  std::unordered_map<const Object*, ObjectRef> map;
  for (const VarRef& v : bound) {
    const Type type = v->declared ? v->declared : v->type;
    const VarRef fresh =
        with_origin(var(v->name, f.type_params.empty() || !type ? type : types.apply(type, true)), v->origin);
    map[v.get()] = fresh;
  }
  for (size_t i = 0; i < args.size(); ++i) map[f.params[i].get()] = args[i];
  const ObjectRef renamed = rewrite_any(f.body, [&](const ObjectRef& n) -> ObjectRef {
    auto it = map.find(n.get());
    return it == map.end() ? ObjectRef() : it->second;
  });
  return with_sizes(renamed, sizes).cast<ExprNode>();
}

IRModule inline_calls(IRModule module, const std::map<std::string, Ref<Function>>& functions) {
  return module.map_graph([&](const std::string&, const Ref<Function>& f) -> ObjectRef {
    Ref<Function> out = Inliner(functions).run(f);
    if (out.same_as(f)) return {};
    // A declared result that leaves something open is what the calls were thought to give.
    if (const Type result = result_of(out->body)->type; result && out->ret_type && leaves_open(out->ret_type))
      out.edit()->ret_type = result;
    return out;
  });
}
}  // namespace graph

static IRModule inline_functions(IRModule module, PassContext&) {
  using namespace graph;
  std::map<std::string, Ref<graph::Function>> candidates;
  std::map<std::string, std::set<std::string>> uses;
  for (auto [name, object] : module.functions()) {
    const auto f = object.cast<graph::Function>();
    if (!f || is_primitive(*f)) continue;
    size_t bindings = 0;
    for_each_binding(f->body, [&](const Binding&) { ++bindings; });
    post_order(f, [&, caller = name](const ObjectRef& n) {
      if (const auto* g = n.as<GlobalVar>()) uses[caller].insert(g->name);
    });
    auto wish = f->attrs.find("inline");
    const bool asked = wish && wish->try_as<int64_t>().value_or(0) != 0;
    const bool small = bindings <= kMaxBindings;
    const bool open = !is_entry(name, *f) && takes_any_tensor(*f);
    if (!asked && !(small && (open || f->attrs.contains("captured")))) continue;
    // Type parameters would have to be put in; the call does that at no cost.
    if (f->type_params.empty()) candidates[name] = f;
  }
  std::erase_if(candidates, [&](const auto& entry) {
    std::set<std::string> reached;
    std::vector<std::string> work{entry.first};
    while (!work.empty()) {
      const std::string at = work.back();
      work.pop_back();
      for (const std::string& callee : uses[at]) {
        if (callee == entry.first) return true;
        if (reached.insert(callee).second) work.push_back(callee);
      }
    }
    return false;
  });
  if (candidates.empty()) return module;
  return inline_calls(std::move(module), candidates);
}

const Pass& inline_functions_pass = register_pass({
    .name = "inline_functions",
    .run = inline_functions,
    .level = 1,
    .summary = "lifted closures, and functions that ask, where they are called",
    .needs = {"infer_types"},
});

}  // namespace tenon
