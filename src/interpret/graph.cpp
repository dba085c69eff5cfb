// SPDX-License-Identifier: Apache-2.0
// Meaning of graph programs: every expression and binding. An operator means its tensor definition, run by
// the tensor-program interpreter at the concrete shapes of the call.
#include <fmt/format.h>

#include <cmath>

#include "interpret/evaluate.h"
#include "interpret/interpret.h"
#include "interpret/memo.h"
#include "ir/origin.h"
#include "ir/text.h"
#include "ir/tir.h"
#include "ir/walk.h"
#include "op/infer.h"
#include "op/op_def.h"
#include "runtime/executable.h"
#include "runtime/library.h"
#include "te/te.h"

namespace tenon {
namespace graph {
namespace {

using interpret_detail::Symbols;
using PackedFunction = tenon::Function;

[[noreturn]] void error(std::string code, std::string message, const Origin& origin = {},
                        std::string hint = {}) {
  throw Error(ErrorKind::model, std::move(code), std::move(message), place(origin), std::move(hint));
}

struct Environment {
  std::unordered_map<const graph::Var*, Value> vars;
  Symbols symbols;
};

/// A function value: what it closes over is copied, since values never change. `self`: the variable under
/// which its body calls it. A constructor as a value has no function.
struct FunctionValue : Object {
  static constexpr std::string_view type_key = "interpret.Function";
  Ref<Function> function;
  std::shared_ptr<Environment> environment;
  graph::VarRef self;
  Ref<Constructor> constructor;
  std::vector<Value> captured;  ///< first arguments
};

Value data_value(int64_t tag, std::vector<Value> items) {
  auto d = make<DataObj>();
  d.edit()->tag = tag;
  d.edit()->items = std::move(items);
  return Any(d);
}
template <class T>
const T* as_object(const Value& v) {
  return v.is_object() && is_type_index<T>(v.tag()) ? static_cast<const T*>(v.object()) : nullptr;
}

Value tuple_value(const std::vector<Value>& items) {
  auto a = make<ArrayObj>();
  a.edit()->items = items;
  return Any(a);
}
std::optional<NDArray> as_array(const Value& v) {
  auto a = v.try_as<NDArray>();
  return a && *a ? a : std::nullopt;
}
const ArrayObj* as_tuple(const Value& v) {
  return v.is_object() && is_type_index<ArrayObj>(v.tag()) ? static_cast<const ArrayObj*>(v.object())
                                                           : nullptr;
}
const ShapeObj* as_shape(const Value& v) {
  return v.is_object() && is_type_index<ShapeObj>(v.tag()) ? static_cast<const ShapeObj*>(v.object())
                                                           : nullptr;
}
Value shape_value(std::vector<int64_t> dims) {
  auto s = make<ShapeObj>();
  s.edit()->dims = std::move(dims);
  return Any(s);
}
std::string describe(const Value& v) {
  if (auto a = as_array(v))
    return fmt::format("tensor {}({})", to_string(a->dtype()), fmt::join(a->shape(), ", "));
  if (const ShapeObj* s = as_shape(v)) return fmt::format("shape ({})", fmt::join(s->dims, ", "));
  return v.kind_name();
}

class GraphInterpreter {
 public:
  GraphInterpreter(const IRModule& module, const InterpretOptions& options)
      : module_(module), options_(options) {}

  Value run(const Ref<Function>& f, const std::vector<Value>& args) {
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

 private:
  /// A call whose value is the caller's value: it takes the caller's place.
  struct TailCall {
    Ref<Function> function;
    std::vector<Value> args;
    Environment env;
  };

  Value call_function(Ref<Function> f, std::vector<Value> args, Environment env) {
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

  /// The value of a body; its last call is left to the caller when it ends the body.
  Value tail(const Expr& e, Environment& env, std::optional<TailCall>& next) {
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
  static Environment environment_of(const Value& callee, const FunctionValue& f) {
    Environment env = *f.environment;
    if (f.self) env.vars[f.self.get()] = callee;
    return env;
  }

  void bind(const Binding& b, Environment& env) {
    Value v = eval(b->value, env);
    if (const auto* m = b.as<MatchCastNode>()) match_type(m->type, v, env.symbols, m->var->name);
    if (const auto* f = as_object<FunctionValue>(v); f && b->value.is<Function>())
      const_cast<FunctionValue*>(f)->self = b->var;
    env.vars[b->var.get()] = std::move(v);
  }

  /// The body of the clause that takes the value; its variables are bound.
  Expr clause(const graph::Match& m, Environment& env) {
    const Value v = eval(m.value, env);
    for (const MatchClause& c : m.clauses)
      if (takes(*c->pattern, v)) {
        bind_pattern(*c->pattern, v, env);
        return c->body;
      }
    error("T0358", "no case takes this value: " + describe(v), m.origin);
  }
  bool takes(const PatternNode& p, const Value& v) {
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
  void bind_pattern(const PatternNode& p, const Value& v, Environment& env) {
    if (p.var) {
      if (p.var->declared) match_type(p.var->declared, v, env.symbols, p.var->name);
      env.vars[p.var.get()] = v;
    }
    const auto* d = as_object<DataObj>(v);
    const auto& items = d ? d->items : as_tuple(v) ? as_tuple(v)->items : std::vector<Value>();
    for (size_t i = 0; i < p.items.size(); ++i) bind_pattern(*p.items[i], items[i], env);
  }

  int64_t integer(const PrimExpr& e, const Environment& env) {
    return interpret_detail::evaluate(e, env.symbols)[0].i;
  }
  DataType stored(DataType t) const { return options_.float64 && t.is_float() ? f64 : t; }
  NDArray as_stored(const NDArray& a) const {
    if (stored(a.dtype()) == a.dtype()) return a;
    NDArray out = NDArray::empty(a.shape(), f64);
    for (int64_t i = 0; i < a.size(); ++i) out.set_element(i, a.element(i));
    return out;
  }

  /// A size in symbols that are not bound yet.
  struct LateSize {
    PrimExpr size;
    int64_t actual;
    std::string what;
  };
  /// Binds the symbols that `type` introduces and checks the rest; what cannot be checked yet goes to `late`.
  void match_type(const Type& type, const Value& v, Symbols& symbols, const std::string& what,
                  std::vector<LateSize>* late = nullptr) {
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

  static bool unbound(const PrimExpr& e, const Symbols& symbols) {
    for (const tir::VarRef& v : tir::free_vars(e))
      if (!symbols.count(v.get())) return true;
    return false;
  }

  bool truth(const Value& v, const Origin& origin) {
    if (auto a = as_array(v)) {
      if (a->size() != 1) error("T0357", "a condition must be one value, not " + describe(v), origin);
      return a->element(0) != 0;
    }
    if (auto i = v.try_as<int64_t>()) return *i != 0;
    error("T0357", "a condition must be a scalar, not " + describe(v), origin);
  }

  Value eval(const Expr& e, Environment& env) {
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

  NDArray allocate(const Type& type, Environment& env) {
    const auto* t = type.as<TensorType>();
    auto shape = known_shape(type);
    if (t && !shape && t->shape)
      if (const ShapeObj* dims = as_shape(eval(t->shape, env)))
        return NDArray::zeros(dims->dims, stored(t->dtype));
    if (!t || !shape)
      error("T0357", "the output shape of a destination-passing call must be known: " + print(type));
    std::vector<int64_t> dims;
    for (const PrimExpr& d : *shape) dims.push_back(integer(d, env));
    return NDArray::zeros(dims, stored(t->dtype));
  }

  Value call(const graph::Call& n, Environment& env) {
    if (const auto* op = n.op.as<Op>()) {
      if (op->name == "call_tir" || op->name == "call_tir_impure" || op->name == "call_tir_inplace" ||
          op->name == "call_dps_packed")
        return call_destination(n, *op, env);
      if (op->name == "call_packed" || op->name == "call_pure_packed") {
        std::vector<Value> args;
        for (size_t i = 1; i < n.args.size(); ++i) args.push_back(eval(n.args[i], env));
        return eval(n.args[0], env).as<PackedFunction>().call_packed(args);
      }
      return call_operator(n, *op, env);
    }
    std::vector<Value> args;
    for (const Expr& a : n.args) args.push_back(eval(a, env));
    if (const auto* c = n.op.as<Constructor>()) return construct(*c, std::move(args));
    const Value callee = eval(n.op, env);
    if (auto f = callee.try_as<PackedFunction>(); f && *f) return f->call_packed(args);
    const auto* closure = as_object<FunctionValue>(callee);
    if (!closure) error("T0357", "this value cannot be called: " + describe(callee), n.origin);
    if (closure->constructor) return construct(*closure->constructor, std::move(args));
    args.insert(args.begin(), closure->captured.begin(), closure->captured.end());
    return call_function(closure->function, args, environment_of(callee, *closure));
  }
  static Value construct(const Constructor& c, std::vector<Value> args) {
    if (int64_t(args.size()) != c.arity)
      error("T0353", fmt::format("`{}` has {} parts, {} were given", c.name, c.arity, args.size()), c.origin);
    return data_value(c.tag, std::move(args));
  }

  Value call_destination(const graph::Call& n, const Op& op, Environment& env) {
    const Value packed = eval(n.args[1], env);
    const ArrayObj* tuple = as_tuple(packed);
    const std::vector<Value> given = tuple ? tuple->items : std::vector<Value>{packed};
    if (op.name == "call_dps_packed") return call_packed_destination(n, given, env);
    std::vector<NDArray> arrays;
    for (const Value& a : given) {
      const auto array = a.try_as<NDArray>();
      if (!array || !*array) error("T0353", "a tensor program is given " + describe(a), n.origin);
      arrays.push_back(*array);
    }
    Array<int64_t> inplace;
    if (op.name == "call_tir_inplace" && n.attrs)
      for (const FieldInfo& f : type_of(n.attrs)->fields)
        if (f.name == "inplace_indices") inplace = f.get(n.attrs.get()).as<Array<int64_t>>();
    std::vector<Value> outputs;
    for (size_t i = 0; i < n.type_args.size(); ++i) {
      if (i < inplace.size() && inplace[i] >= 0) {
        NDArray& a = arrays.at(size_t(inplace[i]));
        a = a.copy();
        outputs.push_back(Any(a));
      } else {
        outputs.push_back(Any(allocate(n.type_args[i], env)));
        arrays.push_back(outputs.back().as<NDArray>());
      }
    }
    if (n.args.size() > 2) {
      const Value symbolic = eval(n.args[2], env);
      for (int64_t d : as_shape(symbolic)->dims) {
        NDArray s = NDArray::empty({}, i64);
        s.set_element_int(0, d);
        arrays.push_back(s);
      }
    }
    const std::string& name = n.args[0].as<GlobalVar>()->name;
    auto f = module_.find(name).cast<tir::PrimFuncNode>();
    if (!f) error("T0350", fmt::format("no tensor function `{}` in the module", name), n.origin);
    run_program(f, arrays, outputs, inplace);
    return results_of(n, outputs);
  }

  /// A packed function is given shapes and numbers, too, and then the tensors that it fills.
  Value call_packed_destination(const graph::Call& n, std::vector<Value> args, Environment& env) {
    std::vector<Value> outputs;
    for (const Type& t : n.type_args) outputs.push_back(Any(allocate(t, env)));
    args.insert(args.end(), outputs.begin(), outputs.end());
    eval(n.args[0], env).as<PackedFunction>().call_packed(args);
    return results_of(n, outputs);
  }

  /// A tuple of one stays a tuple.
  static Value results_of(const graph::Call& n, const std::vector<Value>& outputs) {
    const bool one = outputs.size() == 1 && !(n.type && n.type.is<TupleType>());
    return one ? outputs[0] : tuple_value(outputs);
  }

  /// Runs or remembers a program. `outputs` are the last arrays, but for those that are arguments, too.
  void run_program(const tir::PrimFunc& f, const std::vector<NDArray>& arrays, std::vector<Value>& outputs,
                   const Array<int64_t>& inplace) {
    std::optional<InterpretMemo::Key> key;
    if (options_.memo && inplace.empty()) {
      std::vector<Value> given;
      std::string forms;
      for (const NDArray& a : arrays) {
        const bool made = std::any_of(outputs.begin(), outputs.end(),
                                      [&](const Value& v) { return v.object() == a.get(); });
        forms += made ? 'o' : 'a';
        if (!made) given.push_back(Any(a));
        if (made) forms += fmt::format("{}({})", to_string(a.dtype()), fmt::join(a.shape(), ","));
      }
      key = options_.memo->key(f, {}, std::move(given), std::move(forms));
      if (const auto* known = key ? options_.memo->find(*key) : nullptr) {
        for (size_t i = 0; i < outputs.size(); ++i) outputs[i] = Any(known->outputs[i]);
        return;
      }
    }
    interpret_prim_func(f, arrays, module_, options_);
    if (!key) return;
    std::vector<NDArray> results;
    for (const Value& v : outputs) results.push_back(v.as<NDArray>());
    options_.memo->store({*std::move(key), std::move(results)});
  }

  /// What rules may see of an argument beside its value.
  static void form_of(const Expr& e, std::string& out) {
    if (!e) return void(out += '-');
    if (e.is<Constant>()) out += 'c';
    if (const auto* t = e.as<graph::Tuple>()) {
      out += '(';
      for (const Expr& i : t->items) form_of(i, out);
      out += ')';
    } else {
      out += e->type && e->type.is<PrimType>() ? to_string(e->type.as<PrimType>()->dtype) : "v";
    }
  }

  /// A variable of the concrete type of `v`; tuples become tuples of variables.
  Expr concrete(const Expr& e, const Value& v, std::vector<NDArray>& arrays) {
    if (auto a = as_array(v)) {
      arrays.push_back(*a);
      if (e.is<Constant>()) return e;
      const auto* t = e->type ? as_tensor(e->type) : nullptr;
      Array<PrimExpr> shape;
      for (int64_t d : a->shape()) shape.push_back(d);
      return graph::var("x", tensor_type(shape, t && !t->dtype.is_void() ? t->dtype : a->dtype()));
    }
    if (const ArrayObj* items = as_tuple(v)) {
      Array<Expr> out;
      Array<Type> types;
      const auto* tuple = e.as<graph::Tuple>();
      const auto* type = e->type ? e->type.as<TupleType>() : nullptr;
      for (size_t i = 0; i < items->items.size(); ++i) {
        Expr item = tuple ? tuple->items[i] : Expr(graph::var("x", type ? type->items[i] : Type()));
        out.push_back(concrete(item, items->items[i], arrays));
        types.push_back(out.back()->type);
      }
      return with_type(make<graph::Tuple>(out), tuple_type(types));
    }
    if (const ShapeObj* s = as_shape(v)) {
      Array<PrimExpr> dims;
      for (int64_t d : s->dims) dims.push_back(d);
      return shape_expr(dims);
    }
    if (v.tag() == kFloat)
      return make<PrimValue>(PrimExpr::float_imm(
          v.as<double>(), e->type && e->type.is<PrimType>() ? e->type.as<PrimType>()->dtype : f32));
    if (auto i = v.try_as<int64_t>())
      return make<PrimValue>(
          PrimExpr::int_imm(*i, e->type && e->type.is<PrimType>() ? e->type.as<PrimType>()->dtype : i64));
    return e;
  }

  Value call_operator(const graph::Call& n, const Op& op, Environment& env) {
    std::vector<Value> values;  // none for an operand that is left out
    for (const Expr& a : n.args) values.push_back(a ? eval(a, env) : Value());
    if (op.name == "make_closure") {
      const auto* f = as_object<FunctionValue>(values.at(0));
      if (!f) error("T0357", "this value is no function: " + describe(values[0]), n.origin);
      auto c = make<FunctionValue>();
      c.edit()->function = f->function;
      c.edit()->environment = f->environment;
      c.edit()->self = f->self;
      c.edit()->captured = f->captured;
      c.edit()->captured.insert(c.edit()->captured.end(), values.begin() + 1, values.end());
      return Any(c);
    }
    if (op.name == "ref_create") return Any(cells_.create(values.at(0)));
    if (op.name == "ref_read" || op.name == "ref_write") {
      const auto* cell = as_object<RefCellObj>(values.at(0));
      if (!cell) error("T0357", "this value is no reference: " + describe(values[0]), n.origin);
      if (op.name == "ref_read") return cell->value;
      const_cast<RefCellObj*>(cell)->value = values.at(1);
      return tuple_value({});
    }
    const op::OpDef& def = op::definition(op);
    if (def.evaluate) {
      // Rules know shapes as lists of sizes.
      std::vector<Any> given = values;
      for (Any& v : given)
        if (const ShapeObj* s = as_shape(v)) v = Any(Array<int64_t>(s->dims.begin(), s->dims.end()));
      const Any result = def.evaluate(n, given);
      if (auto sizes = result.try_as<Array<int64_t>>()) return shape_value(sizes->vec());
      return result;
    }
    if (!def.tensor_def)
      error("T0350", fmt::format("the interpreter cannot run operator `{}`", op.name), n.origin);
    ObjectRef attrs = rewrite_any(n.attrs, [&](const ObjectRef& o) -> ObjectRef {
      const auto* v = o.as<tir::Var>();
      if (!v) return {};
      auto it = env.symbols.find(v);
      return it == env.symbols.end() ? ObjectRef() : ObjectRef(PrimExpr::int_imm(it->second, v->dtype));
    });
    std::optional<InterpretMemo::Key> key;
    if (options_.memo && op.pure && n.type_args.empty()) {
      std::string forms;
      for (const Expr& a : n.args) form_of(a, forms);
      key = options_.memo->key(n.op, attrs, values, std::move(forms));
      if (const auto* known = key ? options_.memo->find(*key) : nullptr) {
        std::vector<Value> outputs(known->outputs.begin(), known->outputs.end());
        return known->tuple ? tuple_value(outputs) : outputs[0];
      }
    }
    std::vector<NDArray> arrays;
    Array<Expr> args;
    for (size_t i = 0; i < values.size(); ++i) args.push_back(concrete(n.args[i], values[i], arrays));
    auto concrete_call = make<graph::Call>(n.op, args, attrs, n.type_args);
    concrete_call.edit()->origin = n.origin;
    concrete_call.edit()->type = op::infer_type(concrete_call);

    Array<te::Tensor> params;
    std::vector<te::Tensor> inputs;
    for (const Expr& a : args) {
      if (!a) continue;
      const auto* t = a.as<graph::Tuple>();
      const bool tensor = as_tensor(a->type);
      for (const Expr& x : t ? t->items : tensor ? Array<Expr>{a} : Array<Expr>()) {
        inputs.push_back(te::placeholder(*known_shape(x), as_tensor(x)->dtype));
        params.push_back(inputs.back());
      }
    }
    for (const te::Tensor& t : def.tensor_def(*concrete_call, inputs)) {
      params.push_back(t);
      std::vector<int64_t> dims;
      for (const PrimExpr& d : t.shape()) dims.push_back(integer(d, env));
      arrays.push_back(NDArray::zeros(dims, stored(t.dtype())));
    }
    interpret_prim_func(te::create_prim_func(params), arrays, module_, options_);
    std::vector<Value> outputs;
    for (size_t i = inputs.size(); i < arrays.size(); ++i) outputs.push_back(Any(arrays[i]));
    const bool tuple = concrete_call->type.is<TupleType>();
    if (key) {
      arrays.erase(arrays.begin(), arrays.begin() + std::ptrdiff_t(inputs.size()));
      options_.memo->store({*std::move(key), std::move(arrays), tuple});
    }
    return tuple ? tuple_value(outputs) : outputs[0];
  }

  const IRModule& module_;
  const InterpretOptions& options_;
  int depth_ = 0;
  RefCells cells_;
};

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
}  // namespace graph

Value interpret(const IRModule& module, const std::string& function, const std::vector<Value>& args,
                const InterpretOptions& options) {
  auto f = module.find(function).cast<graph::Function>();
  if (!f) graph::error("T0350", fmt::format("no graph function `{}` in the module", function));
  return graph::GraphInterpreter(module, options).run(f, args);
}

}  // namespace tenon
