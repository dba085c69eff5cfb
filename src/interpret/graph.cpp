// SPDX-License-Identifier: Apache-2.0
// Meaning of graph programs: every expression and binding. An operator means its tensor definition, run by
// the tensor-program interpreter at the concrete shapes of the call.
#include "interpret/evaluate.h"
#include "interpret/graph_impl.h"
#include "ir/text.h"
#include "ir/walk.h"
#include "op/infer.h"

namespace tenon {
namespace graph::interpreter {

Value GraphInterpreter::run(const Ref<Function>& f, const std::vector<Value>& args) {
  Value out;
  try {
    out = call_function(f, args, {});
  } catch (...) {
    cells_.clear();
    throw;
  }
  cells_.clear(std::span(&out, 1));
  return out;
}

Value GraphInterpreter::call_function(Ref<Function> f, std::vector<Value> args, Environment env) {
  struct Depth {
    int& n;
    ~Depth() { --n; }
  } depth{++depth_};
  if (depth_ > options_.max_depth)
    error("T0352", fmt::format("calls nest deeper than {}", options_.max_depth), {},
          "the recursion has no end, or the limit is too low");
  for (int64_t calls = 0;; ++calls) {
    if (calls > int64_t(options_.max_depth) * 1000)
      error("T0352", fmt::format("more than {} tail calls", int64_t(options_.max_depth) * 1000));
    if (args.size() != f->params.size())
      error("T0353",
            fmt::format("the function takes {} arguments, {} were given", f->params.size(), args.size()));
    // A parameter may show its sizes in terms of those that a later one binds.
    std::vector<LateSize> late;
    for (size_t i = 0; i < args.size(); ++i) {
      const auto& p = f->params[i];
      if (p->declared) match_type(p->declared, args[i], env.symbols, p->name, &late);
      env.vars[p.get()] = args[i];
    }
    for (const LateSize& l : late)
      if (interpret_detail::evaluate(l.size, env.symbols)[0].i != l.actual)
        error("T0357", fmt::format("{}: a size of {} does not match {}", l.what, l.actual, print(l.size)));
    std::optional<TailCall> next;
    Value out = tail(f->body, env, next);
    if (!next) return out;
    f = std::move(next->function);
    args = std::move(next->args);
    env = std::move(next->env);
  }
}

Value GraphInterpreter::tail(const Expr& e, Environment& env, std::optional<TailCall>& next) {
  Expr at = e;
  for (;;) {
    const auto* s = at.as<SeqExpr>();
    if (!s) return eval(at, env);
    const VarBindingNode* last = nullptr;
    if (!s->blocks.empty() && !s->blocks[s->blocks.size() - 1]->bindings.empty()) {
      const auto& all = s->blocks[s->blocks.size() - 1]->bindings;
      last = all[all.size() - 1].as<VarBindingNode>();
      if (last && !last->var.same_as(s->body)) last = nullptr;
    }
    for (const BindingBlock& block : s->blocks)
      for (const Binding& b : block->bindings)
        if (b.get() != last) bind(b, env);
    if (!last) return eval(s->body, env);
    if (const auto* i = last->value.as<If>()) {
      at = truth(eval(i->condition, env), i->origin) ? i->true_branch : i->false_branch;
    } else if (const auto* m = last->value.as<graph::Match>()) {
      at = clause(*m, env);
    } else {
      const auto* c = last->value.as<graph::Call>();
      if (!c || c->op.is<Op>() || c->op.is<Constructor>()) return eval(last->value, env);
      const Value callee = eval(c->op, env);
      const auto* f = as_object<FunctionValue>(callee);
      if (!f || f->constructor) return eval(last->value, env);
      std::vector<Value> args = f->captured;
      for (const Expr& a : c->args) args.push_back(eval(a, env));
      next = TailCall{f->function, std::move(args), environment_of(callee, *f)};
      return {};
    }
  }
}

Environment GraphInterpreter::environment_of(const Value& callee, const FunctionValue& f) {
  Environment env = *f.environment;
  if (f.self) env.vars[f.self.get()] = callee;
  return env;
}

void GraphInterpreter::bind(const Binding& b, Environment& env) {
  Value v = eval(b->value, env);
  if (const auto* m = b.as<MatchCastNode>()) match_type(m->type, v, env.symbols, m->var->name);
  if (const auto* f = as_object<FunctionValue>(v); f && b->value.is<Function>())
    const_cast<FunctionValue*>(f)->self = b->var;
  env.vars[b->var.get()] = std::move(v);
}

Expr GraphInterpreter::clause(const graph::Match& m, Environment& env) {
  const Value v = eval(m.value, env);
  for (const MatchClause& c : m.clauses)
    if (takes(*c->pattern, v)) {
      bind_pattern(*c->pattern, v, env);
      return c->body;
    }
  error("T0358", "no case takes this value: " + describe(v), m.origin);
}

bool GraphInterpreter::takes(const PatternNode& p, const Value& v) {
  if (p.kind == PatternKind::wildcard || p.kind == PatternKind::variable) return true;
  const std::vector<Value>* items = nullptr;
  if (p.kind == PatternKind::constructor) {
    const auto* d = as_object<DataObj>(v);
    if (!d) error("T0357", "this value has no constructor: " + describe(v), p.constructor->origin);
    if (d->tag != p.constructor->tag) return false;
    items = &d->items;
  } else {
    const ArrayObj* t = as_tuple(v);
    if (!t) error("T0357", "this value is no tuple: " + describe(v));
    items = &t->items;
  }
  if (items->size() != p.items.size())
    error("T0357", fmt::format("a pattern of {} parts meets a value of {}", p.items.size(), items->size()));
  for (size_t i = 0; i < items->size(); ++i)
    if (!takes(*p.items[i], (*items)[i])) return false;
  return true;
}

void GraphInterpreter::bind_pattern(const PatternNode& p, const Value& v, Environment& env) {
  if (p.var) {
    if (p.var->declared) match_type(p.var->declared, v, env.symbols, p.var->name);
    env.vars[p.var.get()] = v;
  }
  const auto* d = as_object<DataObj>(v);
  const auto& items = d ? d->items : as_tuple(v) ? as_tuple(v)->items : std::vector<Value>();
  for (size_t i = 0; i < p.items.size(); ++i) bind_pattern(*p.items[i], items[i], env);
}

int64_t GraphInterpreter::integer(const PrimExpr& e, const Environment& env) {
  return interpret_detail::evaluate(e, env.symbols)[0].i;
}

NDArray GraphInterpreter::as_stored(const NDArray& a) const {
  if (stored(a.dtype()) == a.dtype()) return a;
  NDArray out = NDArray::empty(a.shape(), f64);
  for (int64_t i = 0; i < a.size(); ++i) out.set_element(i, a.element(i));
  return out;
}

void GraphInterpreter::match_type(const Type& type, const Value& v, Symbols& symbols, const std::string& what,
                                  std::vector<LateSize>* late) {
  auto dims = [&](const Array<PrimExpr>& wanted, const std::vector<int64_t>& actual) {
    bool ok = wanted.size() == actual.size();
    for (size_t i = 0; ok && i < actual.size(); ++i) {
      const auto* s = wanted[i].as<tir::Var>();
      if (s && !symbols.count(s))
        symbols[s] = actual[i];
      else if (late && !s && unbound(wanted[i], symbols))
        late->push_back({wanted[i], actual[i], what});
      else
        ok = interpret_detail::evaluate(wanted[i], symbols)[0].i == actual[i];
    }
    if (!ok)
      error("T0357",
            fmt::format("{}: shape ({}) does not match {}", what, fmt::join(actual, ", "), print(type)));
  };
  if (const auto* t = type.as<TensorType>()) {
    auto a = as_array(v);
    if (!a) error("T0357", fmt::format("{}: {} where a tensor is needed", what, describe(v)));
    if (!t->dtype.is_void() && a->dtype() != stored(t->dtype))
      error("T0357", fmt::format("{}: {} where {} is needed", what, describe(v), print(type)));
    if (t->ndim >= 0 && a->ndim() != t->ndim)
      error("T0357", fmt::format("{}: {} does not match {}", what, describe(v), print(type)));
    if (auto s = known_shape(type)) dims(*s, a->shape());
  } else if (const auto* t = type.as<ShapeType>()) {
    const ShapeObj* s = as_shape(v);
    if (!s) error("T0357", fmt::format("{}: {} where a shape is needed", what, describe(v)));
    if (t->known) dims(t->values, s->dims);
  } else if (const auto* t = type.as<TupleType>()) {
    const ArrayObj* a = as_tuple(v);
    if (!a || a->items.size() != t->items.size())
      error("T0357", fmt::format("{}: {} where {} is needed", what, describe(v), print(type)));
    for (size_t i = 0; i < t->items.size(); ++i) match_type(t->items[i], a->items[i], symbols, what, late);
  } else if (type.is<AdtType>()) {
    if (!as_object<DataObj>(v))
      error("T0357", fmt::format("{}: {} where {} is needed", what, describe(v), print(type)));
  } else if (type.is<RefType>()) {
    if (!as_object<RefCellObj>(v))
      error("T0357", fmt::format("{}: {} where {} is needed", what, describe(v), print(type)));
  } else if (const auto* t = type.as<PrimType>()) {
    if (const auto* s = t->value.as<tir::Var>(); s && !symbols.count(s))
      if (auto n = v.try_as<int64_t>()) symbols[s] = *n;
  }
}

bool GraphInterpreter::unbound(const PrimExpr& e, const Symbols& symbols) {
  for (const tir::VarRef& v : tir::free_vars(e))
    if (!symbols.count(v.get())) return true;
  return false;
}

bool GraphInterpreter::truth(const Value& v, const Origin& origin) {
  if (auto a = as_array(v)) {
    if (a->size() != 1) error("T0357", "a condition must be one value, not " + describe(v), origin);
    return a->element(0) != 0;
  }
  if (auto i = v.try_as<int64_t>()) return *i != 0;
  error("T0357", "a condition must be a scalar, not " + describe(v), origin);
}

Value GraphInterpreter::eval(const Expr& e, Environment& env) {
  return match<Value>(
      e,
      [&](const graph::Var& n) -> Value {
        auto it = env.vars.find(&n);
        if (it == env.vars.end())
          error("T0350", fmt::format("variable {} has no value here", n.name), n.origin);
        return it->second;
      },
      [&](const GlobalVar& n) -> Value {
        if (auto f = module_.find(n.name).cast<Function>()) {
          auto c = make<FunctionValue>();
          c.edit()->function = f;
          c.edit()->environment = std::make_shared<Environment>();
          return Any(c);
        }
        error("T0350", fmt::format("no graph function `{}` in the module", n.name), n.origin);
      },
      [&](const Constant& n) -> Value { return Any(as_stored(n.data)); },
      [&](const graph::Tuple& n) -> Value {
        std::vector<Value> items;
        for (const Expr& i : n.items) items.push_back(eval(i, env));
        return tuple_value(items);
      },
      [&](const TupleGetItem& n) -> Value {
        const Value v = eval(n.tuple, env);
        const ArrayObj* a = as_tuple(v);
        if (!a || n.index < 0 || n.index >= int64_t(a->items.size()))
          error("T0357", fmt::format("no item {} in {}", n.index, describe(v)), n.origin);
        return a->items[size_t(n.index)];
      },
      [&](const graph::Call& n) -> Value { return call(n, env); },
      [&](const Op& n) -> Value { error("T0350", fmt::format("operator `{}` is not a value", n.name)); },
      [&](const ExternFunc& n) -> Value {
        PackedFunction f = find_function(n.symbol);
        if (!f) error("T0350", fmt::format("no function `{}` is registered", n.symbol), n.origin);
        return Any(f);
      },
      [&](const Function& n) -> Value {
        auto c = make<FunctionValue>();
        c.edit()->function = Ref<Function>(&n);
        c.edit()->environment = std::make_shared<Environment>(env);
        return Any(c);
      },
      [&](const If& n) -> Value {
        return eval(truth(eval(n.condition, env), n.origin) ? n.true_branch : n.false_branch, env);
      },
      [&](const graph::While& n) -> Value {
        std::vector<Value> state;
        for (const Expr& i : n.init) state.push_back(eval(i, env));
        // Sizes that an iteration binds are its own.
        const Symbols outside = env.symbols;
        struct Restore {
          Symbols& symbols;
          const Symbols& outside;
          ~Restore() { symbols = outside; }
        } restore{env.symbols, outside};
        for (int64_t steps = 0;; ++steps) {
          env.symbols = outside;
          if (steps > options_.max_steps)
            error("T0351", fmt::format("more than {} steps", options_.max_steps), n.origin);
          for (size_t i = 0; i < state.size(); ++i) env.vars[n.loop_vars[i].get()] = state[i];
          if (!truth(eval(n.condition, env), n.origin)) return tuple_value(state);
          const Value next = eval(n.body, env);
          const ArrayObj* t = as_tuple(next);
          if (!t || t->items.size() != state.size())
            error("T0357", "the loop's body must give one value per loop variable", n.origin);
          state = t->items;
        }
      },
      [&](const SeqExpr& n) -> Value {
        for (const BindingBlock& block : n.blocks)
          for (const Binding& b : block->bindings) bind(b, env);
        return eval(n.body, env);
      },
      [&](const ShapeExpr& n) -> Value {
        std::vector<int64_t> dims;
        for (const PrimExpr& d : n.values) dims.push_back(integer(d, env));
        return shape_value(dims);
      },
      [&](const PrimValue& n) -> Value {
        const auto v = interpret_detail::evaluate(n.value, env.symbols);
        return n.value.dtype().is_float()  ? Any(v[0].d)
               : n.value.dtype().is_bool() ? Any(v[0].i != 0)
                                           : Any(v[0].i);
      },
      [&](const graph::StringImm& n) -> Value { return Any(n.value); },
      [&](const DataTypeImm& n) -> Value { return Any(n.value); },
      [&](const Constructor& n) -> Value {
        auto c = make<FunctionValue>();
        c.edit()->constructor = Ref<Constructor>(&n);
        return Any(c);
      },
      [&](const graph::Match& n) -> Value { return eval(clause(n, env), env); });
}

namespace {
/// What the VM computes itself, for modules behind lower_to_call_tir.
const bool builtins_registered = [] {
  registry::add("vm.builtin.reshape", PackedFunction([](Arguments a) -> Any {
                  std::vector<int64_t> dims;
                  if (const auto* shape = a.size() == 2 ? as_shape(a[1]) : nullptr)
                    dims = shape->dims;
                  else
                    for (size_t i = 1; i < a.size(); ++i) dims.push_back(a[i].as<int64_t>());
                  const auto x = a[0].as<NDArray>();
                  if (dims == std::vector<int64_t>{-1}) dims = {x.size()};
                  return Any(x.reshape(dims));
                }),
                false, "a tensor's elements in another shape (tensor, sizes…)");
  return true;
}();
}  // namespace

}  // namespace graph::interpreter

Value interpret(const IRModule& module, const std::string& function, const std::vector<Value>& args,
                const InterpretOptions& options) {
  auto f = module.find(function).cast<graph::Function>();
  if (!f) graph::interpreter::error("T0350", fmt::format("no graph function `{}` in the module", function));
  return graph::interpreter::GraphInterpreter(module, options).run(f, args);
}

}  // namespace tenon
