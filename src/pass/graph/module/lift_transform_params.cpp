// SPDX-License-Identifier: Apache-2.0
// lift_transform_params, lazy_transform_params: what is computed from weights alone is computed once.
//
//   before   main(x, w):  lv = R.permute_dims(w);  lv1 = R.matmul(x, lv)                       "num_inputs" =
//   1 after    main_transform_params(w):  lv = R.permute_dims(w);  return (lv,)
//            main(x, lv):  lv1 = R.matmul(x, lv)
//
// Parameters behind "num_inputs" are weights. Pure operators that read weights and constants only move to the
// new function, an entry of its own; what main still needs of them are its parameters now. Constants need no
// such function: fold_constant computes them. Needs: types, normal form. Keeps: values: main(x, transform(w))
// is what main(x, w) was.
//
// lazy_transform_params makes a function of that kind ("transform_params" = 1) fetch each weight when it is
// first needed and hand out each result when it is there, so that not all of them need be in memory at once:
//
//   after    main_transform_params():  w = R.match_cast(R.call_packed("get_item", 0, "w"), …);  lv = …
//            R.call_packed("set_item", 0, lv);  return ()
//
// The caller registers both functions ("lazy_transform_params.get_item", "….set_item" name others).
#include <unordered_set>

#include "ir/bodies.h"
#include "ir/pass.h"
#include "ir/symbols.h"

namespace tenon {
namespace graph {
namespace {

bool movable(const Binding& b) {
  const Expr value = b->value;
  if (!b.is<VarBindingNode>()) return false;
  if (value.is<Tuple>() || value.is<TupleGetItem>()) return true;
  const Op* op = op_of(value);
  return op && op->pure && op->name != "call_pure_packed" && op->name != "call_dps_packed" &&
         op->name != "make_closure";
}

void lift(IRModule& module, const std::string& name, const Ref<Function>& f) {
  auto inputs = f->attrs.find("num_inputs");
  const size_t n = inputs ? size_t(inputs->as<int64_t>()) : f->params.size();
  if (n >= f->params.size()) return;
  std::unordered_set<const Var*> known;  // weights, and what is made of them
  for (size_t i = n; i < f->params.size(); ++i) {
    std::vector<tir::VarRef> symbols;
    symbols_of(f->params[i]->declared, symbols);
    if (symbols.empty()) known.insert(f->params[i].get());
  }
  std::vector<Binding> lifted, left;
  bool computes = false;
  for (const Binding& b : bindings_of(f->body)) {
    bool ready = movable(b), reads = false;
    for_each_use(b->value, [&](const VarRef& v) { ready = ready && known.count(v.get()), reads = true; });
    std::vector<tir::VarRef> symbols;
    symbols_of(b->var->declared, symbols);
    if (ready && reads && symbols.empty()) {
      known.insert(b->var.get());
      lifted.push_back(b);
      computes = computes || b->value.is<Call>();
    } else {
      left.push_back(b);
    }
  }
  if (!computes) return;
  // What main still reads of weights and lifted values, in order of first use.
  Array<VarRef> wanted;
  std::unordered_map<const Var*, VarRef> own;
  auto need = [&](const VarRef& v) {
    if (!known.count(v.get()) || own.count(v.get())) return;
    own[v.get()] = var(v->name, v->declared);
    wanted.push_back(v);
  };
  for (const Binding& b : left) for_each_use(b->value, need);
  for_each_use(result_of(f->body), need);
  Array<VarRef> weights, params;
  for (size_t i = 0; i < n; ++i) params.push_back(f->params[i]);
  for (size_t i = n; i < f->params.size(); ++i) {
    if (known.count(f->params[i].get()))
      weights.push_back(f->params[i]);
    else
      params.push_back(f->params[i]);
  }
  Array<Expr> items;
  Array<Type> types;
  for (const VarRef& v : wanted) {
    items.push_back(v);
    types.push_back(v->declared);
    params.push_back(own[v.get()]);
  }
  Expr tuple = with_type(make<Tuple>(items), tuple_type(types));
  const std::string transform = module.fresh_name(name + "_transform_params");
  AttrMap attrs;
  attrs.set("global_symbol", Any(transform));
  attrs.set("transform_params", Any(int64_t(1)));
  module.set(transform, make<Function>(weights, make_body(lifted, tuple), tuple->type, attrs));
  // main's own variables for what it is given.
  Expr body = rewrite_any(make_body(left, result_of(f->body)), [&](const ObjectRef& node) -> ObjectRef {
                const auto* v = node.as<Var>();
                auto it = v ? own.find(v) : own.end();
                return it == own.end() ? ObjectRef() : ObjectRef(it->second);
              }).cast<ExprNode>();
  if (!body->type) body.edit()->type = f->body->type;
  Ref<Function> out = f;
  out.edit()->params = params;
  set_body(out, body);
  out.edit()->attrs.erase("input_names");
  module.set(name, out);
}

Ref<Function> lazy(const Ref<Function>& f, const std::string& get, const std::string& set) {
  const Expr result = result_of(f->body);
  const auto* tuple = result.as<Tuple>();
  if (!tuple) return f;
  std::vector<Binding> out;
  std::unordered_set<const Var*> fetched;
  std::unordered_map<const Var*, size_t> parameter;
  for (size_t i = 0; i < f->params.size(); ++i) parameter[f->params[i].get()] = i;
  auto number = [](size_t i) { return Expr(make<PrimValue>(PrimExpr(int64_t(i)))); };
  auto fetch = [&](const VarRef& v) {
    auto it = parameter.find(v.get());
    if (it == parameter.end() || !fetched.insert(v.get()).second) return;
    Expr name = make<graph::StringImm>(v->name);
    Expr made = with_type(call(get_op("call_packed"), {Expr(make<ExternFunc>(get)), number(it->second), name},
                               {}, {object_type()}),
                          object_type());
    const VarRef raw = var(v->name + "_item", object_type());
    out.push_back(make<VarBindingNode>(raw, made));
    out.push_back(make<MatchCastNode>(v, raw, v->declared));
  };
  auto give = [&](size_t i) {
    Expr made =
        with_type(call(get_op("call_packed"), {Expr(make<ExternFunc>(set)), number(i), tuple->items[i]}, {},
                       {object_type()}),
                  object_type());
    out.push_back(make<VarBindingNode>(var("given", object_type()), made));
  };
  std::vector<bool> given(tuple->items.size(), false);
  for (const Binding& b : bindings_of(f->body)) {
    for_each_use(b->value, fetch);
    out.push_back(b);
    for (size_t i = 0; i < given.size(); ++i)
      if (tuple->items[i].same_as(b->var)) give(i), given[i] = true;
  }
  for (size_t i = 0; i < given.size(); ++i) {
    if (given[i]) continue;
    for_each_use(tuple->items[i], fetch);
    give(i);
  }
  Expr nothing = with_type(make<Tuple>(Array<Expr>()), tuple_type({}));
  Ref<Function> next = f;
  next.edit()->params = {};
  set_body(next, make_body(out, nothing));
  next.edit()->ret_type = nothing->type;
  next.edit()->attrs.set("transform_params", Any(int64_t(2)));  // it is lazy already
  return next;
}

}  // namespace
}  // namespace graph

static IRModule lift_transform_params(IRModule module, PassContext&) {
  using namespace graph;
  for (const auto& [name, f] : graph_functions(module))
    if (is_entry(name, *f)) lift(module, name, f);
  return module;
}

static const Option<std::string> kGetItem("lazy_transform_params.get_item", "get_item",
                                          "packed function that gives weight i");
static const Option<std::string> kSetItem("lazy_transform_params.set_item", "set_item",
                                          "packed function that takes result i");

static IRModule lazy_transform_params(IRModule module, PassContext& context) {
  using namespace graph;
  const auto get = context.options.get(kGetItem);
  const auto set = context.options.get(kSetItem);
  for (const auto& [name, f] : graph_functions(module)) {
    auto mark = f->attrs.find("transform_params");
    if (!mark || mark->try_as<int64_t>().value_or(0) != 1) continue;
    Ref<graph::Function> out = lazy(f, get, set);
    if (!out.same_as(f)) module.set(name, out);
  }
  return module;
}

const Pass& lift_transform_params_pass = register_pass({
    .name = "lift_transform_params",
    .run = lift_transform_params,
    .summary = "what is computed from weights alone becomes a function of its own",
    .needs = {"infer_types"},
});
const Pass& lazy_transform_params_pass = register_pass({
    .name = "lazy_transform_params",
    .run = lazy_transform_params,
    .summary = "that function fetches weights and hands out results one by one",
    .needs = {"lift_transform_params"},
    .options = {kGetItem, kSetItem},
});

}  // namespace tenon
