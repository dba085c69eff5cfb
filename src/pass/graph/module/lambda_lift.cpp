// SPDX-License-Identifier: Apache-2.0
// lambda_lift: closures become functions of the module.
//
//   before   def g(y): return x + y      (inside main, where x is bound);  lv = g(a);  lv1 = map(g, b)
//   after    main_g(x, y): return x + y;  g = R.make_closure(main_g, x);  lv = main_g(x, a);  lv1 = map(g, b)
//
// What a closure uses from outside becomes its first parameters: variables, then one Shape of the symbolic
// sizes that those do not show. Calls of a known closure become direct calls. Closures that call each other
// are the tuple that a closure without parameters gives: they are lifted together, over what any of them
// uses, and call each other directly. A constructor that is used as a value becomes a function.
// Needs: types. Keeps: values, types, order of effects.
#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <optional>
#include <set>

#include "ir/origin.h"
#include "ir/symbols.h"
#include "op/body_rewriter.h"
#include "op/unify.h"

namespace tenon {
namespace graph {
namespace {

/// Symbolic sizes in a type.
void symbols_in(const ObjectRef& type, std::vector<tir::VarRef>& out) {
  if (!type) return;
  post_order(type, [&](const ObjectRef& n) {
    const auto* v = n.as<tir::Var>();
    if (v && std::ranges::none_of(out, [&](const tir::VarRef& o) { return o.get() == v; }))
      out.push_back(tir::VarRef(v));
  });
}

/// Variables and symbolic sizes that a function uses and does not define.
struct FreeVariables {
  std::vector<VarRef> vars;
  std::vector<tir::VarRef> symbols;
};

/// Adds to `out` what is not there yet. `known`: variables that need no value from outside; `is_outer`: a
/// symbol belongs to a function around this one.
void free_in(const Function& f, const std::vector<VarRef>& known,
             FunctionRef<bool(const tir::VarRef&)> is_outer, FreeVariables& out) {
  std::set<const Var*> bound, seen;
  for (const VarRef& v : known) bound.insert(v.get());
  for (const VarRef& v : out.vars) seen.insert(v.get());
  for (const VarRef& p : f.params) bound.insert(p.get());
  auto bind_all = [&](const Expr& value) {
    if (const auto* w = value.as<While>())
      for (const VarRef& v : w->loop_vars) bound.insert(v.get());
    if (const auto* inner = value.as<Function>())
      for (const VarRef& v : inner->params) bound.insert(v.get());
    if (const auto* m = value.as<Match>())
      for (const MatchClause& c : m->clauses) {
        std::vector<VarRef> vars;
        variables_of(c->pattern, vars);
        for (const VarRef& v : vars) bound.insert(v.get());
      }
  };
  for_each_binding(f.body, [&](const Binding& b) {
    bound.insert(b->var.get());
    bind_all(b->value);
  });
  for_each_use(f.body, [&](const VarRef& v) {
    if (!bound.count(v.get()) && seen.insert(v.get()).second) out.vars.push_back(v);
  });
  std::vector<tir::VarRef> used;
  symbols_in(ObjectRef(&f), used);
  for (const tir::VarRef& v : used)
    if (is_outer(v) && std::ranges::none_of(out.symbols, [&](const tir::VarRef& o) { return o.same_as(v); }))
      out.symbols.push_back(v);
}

/// Closures that call each other: what `var`, a closure without parameters, gives as a tuple.
struct ClosureGroup {
  std::vector<VarRef> members;
  std::vector<size_t> items;  ///< members in the order of the tuple
};

/// A closure that makes closures and gives them.
std::optional<ClosureGroup> group_of(const Function& f) {
  const auto* result = result_of(f.body).as<Tuple>();
  if (!f.params.empty() || !f.type_params.empty() || !result) return {};
  ClosureGroup out;
  for (const Binding& b : bindings_of(f.body)) {
    const auto* made = b.as<VarBindingNode>();
    if (!made || !made->value.is<Function>()) return {};
    out.members.push_back(made->var);
  }
  for (const Expr& e : result->items) {
    const auto at = std::ranges::find_if(out.members, [&](const VarRef& v) { return e.same_as(v); });
    if (at == out.members.end()) return {};
    out.items.push_back(size_t(at - out.members.begin()));
  }
  return out;
}

/// The groups of a function. One that is more than called, or whose tuple is more than taken apart, is a
/// closure like any other.
std::map<const Var*, ClosureGroup> groups_in(const Expr& body) {
  std::map<const Var*, ClosureGroup> out;
  for_each_binding(body, [&](const Binding& b) {
    if (const auto* f = b->value.as<Function>())
      if (auto group = group_of(*f)) out.emplace(b->var.get(), std::move(*group));
  });
  if (out.empty()) return out;
  std::map<const Var*, int> uses;  // of groups and of their tuples, but for those that may be
  std::map<const Var*, const Var*> tuples;
  for_each_binding(body, [&](const Binding& b) {
    const auto* c = b->value.as<Call>();
    const auto* callee = c ? c->op.as<Var>() : nullptr;
    if (callee && b.is<VarBindingNode>() && c->args.empty() && out.count(callee)) {
      --uses[callee];
      tuples[b->var.get()] = callee;
    }
  });
  for_each_use(body, [&](const VarRef& v) {
    if (out.count(v.get()) || tuples.count(v.get())) ++uses[v.get()];
  });
  for_each_binding(body, [&](const Binding& b) {
    const auto* item = b->value.as<TupleGetItem>();
    if (item && b.is<VarBindingNode>()) --uses[item->tuple.as<Var>()];
  });
  for (const auto& [tuple, group] : tuples)
    if (uses[tuple] != 0) ++uses[group];
  std::erase_if(out, [&](const auto& entry) { return uses[entry.first] != 0; });
  return out;
}

class Lifter : public BodyRewriter {
 public:
  Lifter(IRModule& module, const std::string& owner) : module_(module), owner_(owner) {}

  Ref<Function> lift(const Ref<Function>& f) {
    for (const VarRef& p : f->params) define(p->declared, nullptr);
    collect(f->body, nullptr);
    groups_ = groups_in(f->body);
    for (const auto& [var, group] : groups_)
      for (const VarRef& v : group.members) members_.insert(v.get());
    return run(f);
  }

 protected:
  Expr visit(const Expr& value, const VarRef& var) override {
    if (value.is<Function>()) {
      if (members_.count(var.get())) return value;  // lifted with its group
      if (groups_.count(var.get())) return group(*value.as<Function>(), var);
      return lifted({{value.cast<Function>(), var}})[0];
    }
    if (const auto* item = value.as<TupleGetItem>())
      if (auto it = groups_.find(item->tuple.as<Var>()); it != groups_.end()) {
        const size_t at = it->second.items.at(size_t(item->index));
        const auto made = made_.find(it->first);
        return made == made_.end() ? Expr(it->second.members[at]) : made->second[at];
      }
    // The tuple of a group goes by the group's variable, which has no other use.
    if (const auto* c = value.as<Call>(); c && c->op.is<Var>() && groups_.count(c->op.as<Var>()))
      return c->op;
    if (const auto* c = value.as<Call>(); c && c->op.is<Var>())
      if (const Call* made = definition_call(c->op, "make_closure")) {
        Array<Expr> args;
        for (size_t i = 1; i < made->args.size(); ++i) args.push_back(made->args[i]);
        for (const Expr& a : c->args) args.push_back(a);
        const auto* g = made->args[0].as<GlobalVar>();
        if (const auto f = g ? module_.find(g->name).cast<Function>() : Ref<Function>();
            f && f->params.size() != args.size())
          fail("T0325",
               fmt::format("`{}` takes {} arguments and is given {}, {} of them by its closure", g->name,
                           f->params.size(), args.size(), made->args.size() - 1),
               place(c->origin));
        return with_type(call(made->args[0], args, {}, c->type_args),
                         value->type ? value->type : var->declared, c->origin);
      }
    return value;
  }

 private:
  /// A symbol belongs to the outermost function that defines it; a function is known by its variable.
  void define(const ObjectRef& type, const Var* owner) {
    std::vector<tir::VarRef> found;
    symbols_in(type, found);
    for (const tir::VarRef& v : found) owner_of_.emplace(v.get(), owner);
  }
  void collect(const Expr& body, const Var* owner) {
    for (const Binding& b : bindings_of(body)) {
      const Expr value = b->value;
      if (const auto* m = b.as<MatchCastNode>()) define(m->type, owner);
      if (const auto* w = value.as<While>())
        for (const VarRef& v : w->loop_vars) define(v->declared, owner);
      if (const auto* m = value.as<Match>())
        for (const MatchClause& c : m->clauses) {
          std::vector<VarRef> vars;
          variables_of(c->pattern, vars);
          for (const VarRef& v : vars) define(v->declared, owner);
        }
      const Var* inner = owner;
      if (const auto* f = value.as<Function>()) {
        inner = b->var.get();
        parent_[inner] = owner;
        for (const VarRef& p : f->params) define(p->declared, inner);
      }
      for (const Expr& e : bodies_of(value)) collect(e, inner);
    }
  }
  bool is_outer(const tir::VarRef& symbol, const Var* function) const {
    auto it = owner_of_.find(symbol.get());
    if (it == owner_of_.end()) return false;
    for (const Var* f = function; f;) {
      auto up = parent_.find(f);
      f = up == parent_.end() ? nullptr : up->second;
      if (it->second == f) return true;
    }
    return false;
  }

  struct Closure {
    Ref<Function> function;
    VarRef var;
  };

  /// Closures that are bound to the group's variable no more: its tuple's items stand for themselves.
  Expr group(const Function& f, const VarRef& var) {
    std::vector<Closure> closures;
    for (const Binding& b : bindings_of(f.body)) closures.push_back({b->value.cast<Function>(), b->var});
    std::vector<Expr>& made = made_[var.get()];
    for (const Expr& e : lifted(closures)) made.push_back(emit(e, closures[made.size()].var->name));
    return var;
  }

  /// Functions of the module for closures that may call each other; what makes them closures again.
  std::vector<Expr> lifted(const std::vector<Closure>& closures) {
    FreeVariables free;
    std::vector<VarRef> known;
    for (const Closure& c : closures) known.push_back(c.var);
    std::vector<Expr> callees;
    for (const Closure& c : closures) {
      free_in(*c.function, known, [&](const tir::VarRef& s) { return is_outer(s, c.var.get()); }, free);
      const std::string name = module_.fresh_name(owner_ + "_" + c.var->name);
      module_.set(name, c.function);  // holds the name
      callees.push_back(global(name));
    }
    std::vector<tir::VarRef> shown;
    Array<Expr> captured;
    for (const VarRef& v : free.vars) {
      captured.push_back(v);
      if (const auto shape = known_shape(v->declared ? v->declared : v->type))
        for (const PrimExpr& d : *shape)
          if (d.is<tir::Var>()) symbols_in(d, shown);
    }
    Array<PrimExpr> sizes;
    for (const tir::VarRef& s : free.symbols)
      if (std::ranges::none_of(shown, [&](const tir::VarRef& o) { return o.same_as(s); })) sizes.push_back(s);
    if (!sizes.empty()) {
      // First, so that tensors of these sizes are compared with them.
      Array<Expr> all{shape_expr(sizes)};
      for (const Expr& e : captured) all.push_back(e);
      captured = all;
    }
    std::vector<Ref<Function>> functions;
    std::unordered_map<const Object*, Expr> typed;
    for (size_t i = 0; i < closures.size(); ++i) {
      functions.push_back(over_captured(closures, callees, i, free.vars, sizes));
      typed[callees[i].get()] =
          with_type(global(callees[i].as<GlobalVar>()->name), op::function_type(*functions[i]));
    }
    std::vector<Expr> out;
    for (size_t i = 0; i < closures.size(); ++i) {
      const ObjectRef f = rewrite_any(functions[i], [&](const ObjectRef& n) -> ObjectRef {
        auto it = typed.find(n.get());
        return it == typed.end() ? ObjectRef() : ObjectRef(it->second);
      });
      module_.set(callees[i].as<GlobalVar>()->name, f);
      out.push_back(
          make_closure(typed[callees[i].get()], captured, op::function_type(*closures[i].function)));
    }
    return out;
  }

  /// The closure as a function whose first parameters are what it and the others capture.
  Ref<Function> over_captured(const std::vector<Closure>& closures, const std::vector<Expr>& callees,
                              size_t at, const std::vector<VarRef>& vars, const Array<PrimExpr>& sizes) {
    const Ref<Function>& f = closures[at].function;
    // Captured variables are parameters of the new function, under their own names.
    std::unordered_map<const Object*, ObjectRef> map;
    Array<VarRef> params;
    Array<Expr> inside;
    if (!sizes.empty()) {
      params.push_back(graph::var("sizes", make<ShapeType>(sizes, int64_t(sizes.size()), true)));
      inside.push_back(params[0]);
    }
    for (const VarRef& v : vars) {
      const VarRef p = graph::var(v->name, v->declared ? v->declared : v->type);
      map[v.get()] = p;
      params.push_back(p);
      inside.push_back(p);
    }
    const size_t num_captured = params.size();
    for (const VarRef& p : f->params) params.push_back(p);

    // Calls of itself and of the others go to the new functions with what they have captured.
    auto closure_of = [&](const ObjectRef& e) -> std::optional<size_t> {
      for (size_t i = 0; i < closures.size(); ++i)
        if (e.same_as(closures[i].var)) return i;
      return {};
    };
    Expr body = rewrite_any(f->body, [&](const ObjectRef& n) -> ObjectRef {
                  if (auto it = map.find(n.get()); it != map.end()) return it->second;
                  const auto* c = n.as<Call>();
                  const auto callee = c ? closure_of(c->op) : std::nullopt;
                  if (!callee) return {};
                  Array<Expr> args = inside;
                  for (const Expr& a : c->args) args.push_back(a);
                  return with_type(call(callees[*callee], args, {}, c->type_args), c->type, c->origin);
                }).cast<ExprNode>();
    std::map<size_t, VarRef> values;
    for_each_use(body, [&](const VarRef& v) {
      if (const auto i = closure_of(v); i && !values.count(*i))
        values[*i] = graph::var(v->name, op::function_type(*closures[*i].function));
    });
    if (!values.empty()) {
      body = rewrite_any(body, [&](const ObjectRef& n) -> ObjectRef {
               const auto i = closure_of(n);
               return i ? ObjectRef(values.at(*i)) : ObjectRef();
             }).cast<ExprNode>();
      Array<Binding> first;
      for (const auto& [i, own] : values)
        first.push_back(make<VarBindingNode>(own, make_closure(callees[i], inside, own->declared)));
      Array<BindingBlock> blocks{make<BindingBlockNode>(first)};
      for (const BindingBlock& b : body.as<SeqExpr>()->blocks) blocks.push_back(b);
      Expr seq = with_type(make<SeqExpr>(blocks, body.as<SeqExpr>()->body), body->type);
      body = seq;
    }
    AttrMap attrs = f->attrs;
    attrs.set("captured", Any(int64_t(num_captured)));
    return with_origin(own_symbols(make<Function>(params, body, f->ret_type, attrs, outer_params(f))),
                       f->origin);
  }
  /// The function over symbolic sizes of its own.
  static Ref<Function> own_symbols(const Ref<Function>& f) {
    std::vector<tir::VarRef> symbols;
    symbols_in(f, symbols);
    if (symbols.empty()) return f;
    tir::VarMap map;
    for (const tir::VarRef& s : symbols) map[s.get()] = tir::var(s->name, s->dtype);
    return with_sizes(f, map);
  }
  /// Type parameters that are free in a closure become its own.
  Array<std::string> outer_params(const Ref<Function>& f) {
    Array<std::string> out = f->type_params;
    post_order(f, [&](const ObjectRef& n) {
      const auto* v = n.as<TypeVar>();
      if (v && std::find(out.begin(), out.end(), v->name) == out.end()) out.push_back(v->name);
    });
    return out;
  }
  static Expr make_closure(const Expr& function, const Array<Expr>& captured, const Type& type) {
    Array<Expr> args{function};
    for (const Expr& e : captured) args.push_back(e);
    return with_type(call(get_op("make_closure"), args, {}, {type}), type);
  }

  IRModule& module_;
  std::string owner_;
  std::map<const tir::Var*, const Var*> owner_of_;
  std::map<const Var*, const Var*> parent_;
  std::map<const Var*, ClosureGroup> groups_;  ///< of the function, by the closure that gives them
  std::set<const Var*> members_;
  std::map<const Var*, std::vector<Expr>> made_;  ///< closures of the groups whose scope is open
};

/// Constructors outside callee position become functions that call them.
class ConstructorValues {
 public:
  explicit ConstructorValues(IRModule& module) : module_(module) {}

  Ref<Function> run(const Ref<Function>& f) {
    bool any = false;
    post_order(f->body, [&](const ObjectRef& n) {
      if (any || n.is<PatternNode>()) return;
      auto is_constructor = [&](const Expr& e) { any = any || (e && e.is<Constructor>()); };
      auto all = [&](const Array<Expr>& items) {
        for (const Expr& e : items) is_constructor(e);
      };
      if (const auto* c = n.as<Call>()) all(c->args);
      if (const auto* t = n.as<Tuple>()) all(t->items);
      if (const auto* s = n.as<SeqExpr>()) is_constructor(s->body);
      if (const auto* b = n.as<VarBindingNode>()) is_constructor(b->value);
      if (const auto* w = n.as<While>()) all(w->init);
    });
    if (!any) return f;
    Expr body = rewrite_any(
                    f->body,
                    [&](const ObjectRef& n) -> ObjectRef {
                      if (n.is<Constructor>()) return function(n.cast<Constructor>());
                      const auto* c = n.as<Call>();
                      if (!c || !c->op.is<GlobalVar>()) return {};
                      auto it = constructors_.find(c->op.as<GlobalVar>()->name);
                      if (it == constructors_.end()) return {};
                      return with_type(call(it->second, c->args, c->attrs, c->type_args), c->type, c->origin);
                    },
                    [](const ObjectRef& n) { return n.is<PatternNode>() || n.is<TypeNode>(); })
                    .cast<ExprNode>();
    Ref<Function> out = f;
    set_body(out, body);
    return out;
  }

 private:
  Expr function(const Ref<Constructor>& c) {
    for (auto& [name, known] : constructors_)
      if (known->data_type == c->data_type && known->tag == c->tag) return use(name);
    const AdtDef def = module_.find_type(c->data_type);
    const Type type = op::constructor_type(def, size_t(c->tag));
    Array<VarRef> params;
    Array<Expr> args;
    for (const Type& t : type.as<FuncType>()->params) {
      params.push_back(var("x" + std::to_string(params.size()), t));
      args.push_back(params[params.size() - 1]);
    }
    Expr made = with_type(call(c, args), type.as<FuncType>()->ret);
    const VarRef result = var("made", type.as<FuncType>()->ret);
    Array<Binding> bindings{Binding(make<VarBindingNode>(result, made))};
    Array<BindingBlock> blocks{make<BindingBlockNode>(bindings)};
    Expr body = with_type(make<SeqExpr>(blocks, result), result->type);
    const std::string name = module_.fresh_name("make_" + c->name);
    module_.set(name, make<Function>(params, body, result->type, AttrMap(), def->params));
    constructors_.emplace(name, c);
    return use(name);
  }
  Expr use(const std::string& name) {
    return with_type(global(name), op::function_type(*module_.find(name).as<Function>()));
  }

  IRModule& module_;
  std::map<std::string, Ref<Constructor>> constructors_;
};

}  // namespace
}  // namespace graph

static IRModule lambda_lift(IRModule module, PassContext&) {
  using namespace graph;
  std::vector<std::pair<std::string, Ref<graph::Function>>> functions;
  for (auto [name, object] : module.functions())
    if (auto f = object.cast<graph::Function>()) functions.emplace_back(name, f);
  ConstructorValues constructors(module);
  for (auto& [name, f] : functions) {
    if (!f->body) continue;
    // Inner closures of a lifted function are lifted before it: what remains has none.
    Ref<graph::Function> out = Lifter(module, name).lift(constructors.run(f));
    if (!out.same_as(f)) module.set(name, out);
  }
  return module;
}

const Pass& lambda_lift_pass = register_pass({
    .name = "lambda_lift",
    .run = lambda_lift,
    .level = 0,
    .summary = "closures become functions of the module",
    .needs = {"infer_types"},
});

}  // namespace tenon
