// SPDX-License-Identifier: Apache-2.0
// The verifier of graph functions: normal form, scopes, callees, attributes, and types when asked.
#include <fmt/format.h>

#include <unordered_set>

#include "ir/attr_keys.h"
#include "ir/calls_out.h"
#include "ir/given_layout.h"
#include "ir/memory_plan.h"
#include "ir/tir.h"
#include "ir/verify.h"
#include "ir/verify_impl.h"
#include "ir/walk.h"

namespace tenon {
namespace {
using namespace graph;

/// What is in scope; an inner scope's additions go when it ends.
class Names {
 public:
  bool count(const Object* name) const { return names_.count(name) != 0; }
  void insert(const Object* name) {
    if (names_.insert(name).second) added_.push_back(name);
  }
  void erase(const Object* name) { names_.erase(name); }
  size_t size() const { return added_.size(); }
  void cut(size_t size) {
    for (; added_.size() > size; added_.pop_back()) names_.erase(added_.back());
  }

 private:
  std::unordered_set<const Object*> names_;
  std::vector<const Object*> added_;
};

class GraphVerifier {
 public:
  GraphVerifier(const std::string& name, const IRModule& module, DiagnosticList& problems, bool typed)
      : name_(name), module_(module), problems_(problems), typed_(typed) {}

  void run(const Ref<graph::Function>& f) {
    if (!f->body) return add("T0315", "the function has no body");
    if (const int n = nesting_of(f); n > kMaxNesting)
      return add("T0310", fmt::format("expressions are nested {} deep; the limit is {}", n, kMaxNesting));
    types(f);
    function(*f);
    for (const std::string& problem : memory_plan_problems(*f))
      add("T0332", "the memory plan does not fit the function: " + problem);
  }

 private:
  /// Data types and type parameters that types name exist.
  void types(const Ref<graph::Function>& f) {
    std::unordered_set<std::string> params;
    std::vector<const AdtType*> data_types;
    std::vector<const TypeVar*> type_vars;
    bool open = false;
    post_order(f, [&](const ObjectRef& n) {
      if (const auto* g = n.as<graph::Function>())
        params.insert(g->type_params.begin(), g->type_params.end());
      if (const auto* t = n.as<FuncType>()) params.insert(t->type_params.begin(), t->type_params.end());
      if (const auto* t = n.as<AdtType>()) data_types.push_back(t);
      if (const auto* t = n.as<TypeVar>()) type_vars.push_back(t);
      open = open || n.is<OpenType>();
    });
    for (const AdtType* t : data_types) check_data_type(*t);
    for (const TypeVar* t : type_vars)
      if (!params.count(t->name)) add("T0331", fmt::format("there is no type parameter `{}`", t->name));
    if (open) add("T0332", "a type is still open: inference has not found it");
  }
  void check_data_type(const AdtType& t) {
    const AdtDef def = find(t.name);
    if (!def)
      add("T0331", fmt::format("the module has no data type `{}`", t.name));
    else if (def->params.size() != t.args.size())
      add("T0331", fmt::format("data type `{}` has {} parameters and is given {}", t.name, def->params.size(),
                               t.args.size()));
  }
  AdtDef find(const std::string& name) const { return module_.get() ? module_.find_type(name) : AdtDef(); }
  /// The constructor is what the module says it is.
  void constructor(const graph::Constructor& c, const Expr& at) {
    const AdtDef def = find(c.data_type);
    if (!def) return add("T0331", fmt::format("the module has no data type `{}`", c.data_type), at);
    if (c.tag < 0 || c.tag >= int64_t(def->constructors.size()) ||
        def->constructors[size_t(c.tag)]->name != c.name ||
        int64_t(def->constructors[size_t(c.tag)]->items.size()) != c.arity)
      add("T0331", fmt::format("data type `{}` has no such constructor `{}`", c.data_type, c.name), at);
  }
  void pattern(const Pattern& p) {
    if (!p) return add("T0315", "a pattern is null");
    switch (p->kind) {
      case PatternKind::wildcard:
        return;
      case PatternKind::variable:
        define(p->var);
        if (p->var) define_symbols(p->var->declared);
        return;
      case PatternKind::constructor:
        if (!p->constructor) return add("T0315", "a pattern has no constructor");
        constructor(*p->constructor, p->constructor);
        if (int64_t(p->items.size()) != p->constructor->arity)
          add("T0325", fmt::format("`{}` has {} parts, the pattern has {}", p->constructor->name,
                                   p->constructor->arity, p->items.size()));
        break;
      case PatternKind::tuple:
        break;
    }
    for (const Pattern& i : p->items) pattern(i);
  }
  void match_value(const graph::Match& m, const Expr& e) {
    leaf(m.value, "the value of a match");
    const size_t before = problems_.all().size();
    for (const MatchClause& c : m.clauses) {
      if (!c) {
        add("T0315", "a clause is null");
        continue;
      }
      const size_t outer = vars_.size(), symbols = symbols_.size();
      pattern(c->pattern);
      inner(c->body, "a case");
      vars_.cut(outer);
      symbols_.cut(symbols);
    }
    if (problems_.all().size() != before) return;
    const Type type = m.value ? m.value->type : Type();
    if (auto missing = missing_case(m, type, [&](const std::string& n) { return find(n); }))
      add("T0330", fmt::format("the cases do not cover every value: `{}` is missing", *missing), e);
  }

  /// At `at`, or at the binding that is being looked at, as far as these tell where they come from.
  void add(std::string code, std::string message, const Expr& at = {}) {
    std::string where = "function `" + name_ + "`";
    if (binding_) where += ", binding of `" + binding_->name + "`";
    const Origin origin = at && at->origin ? at->origin : binding_ ? binding_->origin : Origin();
    if (origin && !origin->span && !origin->text.empty()) where += ", " + origin->text;
    const Span span = origin ? origin->span : Span{};
    if (span) where = span.to_string() + ", " + where;
    problems_.add(Diagnostic{std::move(code), std::move(message), std::move(where), {}, span});
  }
  void define(const VarRef& v) {
    if (!v) return add("T0315", "a binding has no variable");
    if (!ever_.insert(v.get()).second) add("T0322", fmt::format("variable `{}` is bound twice", v->name));
    vars_.insert(v.get());
    if (typed_ && !v->type && !v->declared) add("T0327", fmt::format("variable `{}` has no type", v->name));
  }
  void define_symbols(const ObjectRef& type) {
    if (!type) return;
    post_order(type, [&](const ObjectRef& n) {
      if (n.is<tir::Var>()) symbols_.insert(n.get());
    });
  }
  void use_symbols(const ObjectRef& e) {
    post_order(e, [&](const ObjectRef& n) {
      if (const auto* v = n.as<tir::Var>(); v && !symbols_.count(v))
        add("T0329", fmt::format("the symbolic size `{}` has no value here", v->name));
    });
  }

  void function(const graph::Function& f) {
    const size_t outer_vars = vars_.size(), outer_symbols = symbols_.size();
    for (const VarRef& p : f.params) {
      define(p);
      if (p) define_symbols(p->declared ? p->declared : p->type);
    }
    body(f.body, "a function");
    vars_.cut(outer_vars);
    symbols_.cut(outer_symbols);
  }

  /// A Var, constant or other leaf, or a tuple of those; null stands for an optional argument left out.
  void leaf(const Expr& e, std::string_view what, bool optional = false) {
    if (!e) {
      if (!optional) add("T0315", fmt::format("{} is null", what));
      return;
    }
    if (const auto* v = e.as<graph::Var>()) {
      if (!vars_.count(v)) add("T0323", fmt::format("variable `{}` is used before it is bound", v->name), e);
      return;
    }
    if (const auto* t = e.as<Tuple>()) {
      for (const Expr& x : t->items) leaf(x, "an item of a tuple");
      return;
    }
    if (e.is<ShapeExpr>() || e.is<PrimValue>()) return use_symbols(e);
    if (const auto* g = e.as<GlobalVar>()) {
      if (!module_.get() || !module_.functions().contains(g->name))
        add("T0324", fmt::format("the module has no function `{}`", g->name), e);
      return;
    }
    if (const auto* c = e.as<graph::Constructor>()) return constructor(*c, e);
    if (e.is<Constant>() || e.is<Op>() || e.is<ExternFunc>() || e.is<graph::StringImm>() ||
        e.is<DataTypeImm>())
      return;
    add("T0321", fmt::format("{} is a {}, which is not bound to a variable first", what, type_key_of(e)), e);
  }

  void body(const Expr& e, std::string_view what) {
    const auto* s = e.as<SeqExpr>();
    if (!s)
      return add("T0321",
                 fmt::format("the body of {} is a {}, not a sequence of bindings", what, type_key_of(e)), e);
    for (const BindingBlock& b : s->blocks) {
      std::unordered_set<const Object*> here;
      for (const Binding& x : b->bindings) {
        binding(x);
        here.insert(x->var.get());
      }
      for (const VarRef& v : b->outputs)
        if (!here.count(v.get()))
          add("T0328",
              fmt::format("the dataflow region gives out `{}`, which it does not bind", v ? v->name : "?"));
    }
    binding_ = {};
    leaf(s->body, fmt::format("the result of {}", what));
  }
  void inner(const Expr& e, std::string_view what) {
    const size_t outer = vars_.size();
    const VarRef outer_binding = binding_;
    body(e, what);
    vars_.cut(outer);
    binding_ = outer_binding;
  }

  void binding(const Binding& b) {
    if (!b) return add("T0315", "a binding is null");
    binding_ = b->var;
    if (const auto* m = b.as<MatchCastNode>()) {
      leaf(b->value, "the value of a match_cast");
      if (!m->type) add("T0315", "a match_cast has no type");
      define_symbols(m->type);
      return define(b->var);
    }
    // A closure may call itself.
    const bool recursive = b->value && b->value.is<graph::Function>() && b->var;
    if (recursive) vars_.insert(b->var.get());
    value(b->value);
    if (recursive) vars_.erase(b->var.get());
    if (typed_ && b->value && !b->value->type) add("T0327", "the value has no type", b->value);
    define(b->var);
  }

  void value(const Expr& e) {
    if (!e) return add("T0315", "the value is null");
    if (const auto* c = e.as<graph::Call>()) return call(*c, e);
    if (const auto* g = e.as<TupleGetItem>()) {
      leaf(g->tuple, "the tuple");
      const auto* t = g->tuple && g->tuple->type ? g->tuple->type.as<TupleType>() : nullptr;
      if (g->index < 0 || (t && size_t(g->index) >= t->items.size()))
        add("T0325",
            fmt::format("item {} is taken from a tuple of {}", g->index,
                        t ? std::to_string(t->items.size()) : "?"),
            e);
      return;
    }
    if (const auto* f = e.as<graph::Function>()) {
      const VarRef outer_binding = binding_;
      function(*f);
      binding_ = outer_binding;
      return;
    }
    if (const auto* m = e.as<graph::Match>()) return match_value(*m, e);
    if (const auto* i = e.as<If>()) {
      leaf(i->condition, "the condition");
      inner(i->true_branch, "a branch");
      inner(i->false_branch, "a branch");
      return;
    }
    if (const auto* w = e.as<graph::While>()) {
      for (const Expr& x : w->init) leaf(x, "an initial value");
      if (w->init.size() != w->loop_vars.size())
        add("T0325",
            fmt::format("the loop has {} variables and {} initial values", w->loop_vars.size(),
                        w->init.size()),
            e);
      const size_t outer = vars_.size();
      const size_t symbols = symbols_.size();
      for (const VarRef& v : w->loop_vars) {
        define(v);
        if (v) define_symbols(v->declared);
      }
      inner(w->condition, "a loop condition");
      inner(w->body, "a loop");
      vars_.cut(outer);
      symbols_.cut(symbols);
      return;
    }
    leaf(e, "the value");
  }

  void call(const graph::Call& c, const Expr& e) {
    if (!c.op) return add("T0315", "a call has no callee", e);
    for (const Expr& a : c.args) leaf(a, "an argument", true);
    if (const auto* op = c.op.as<Op>()) {
      size_t least = 0;
      for (const OpArgument& a : op->arguments) least += !a.optional;
      if (op->variadic && least) --least;
      if (c.args.size() < least || (!op->variadic && c.args.size() > op->arguments.size()))
        add("T0325",
            fmt::format("`{}` takes {}{} arguments and is given {}", op->name,
                        op->variadic || least != op->arguments.size() ? "at least " : "", least,
                        c.args.size()),
            e);
      for (size_t i = 0; i < c.args.size() && i < op->arguments.size(); ++i)
        if (!c.args[i] && !op->arguments[i].optional)
          add("T0325", fmt::format("argument `{}` of `{}` is missing", op->arguments[i].name, op->name), e);
      const TypeInfo* given = c.attrs ? type_of(c.attrs) : nullptr;
      if (given != op->attrs_type)
        add("T0326",
            fmt::format("`{}` needs attributes of type {} and has {}", op->name,
                        op->attrs_type ? op->attrs_type->key : "none", given ? given->key : "none"),
            e);
      if (is_call_tir(e)) call_tir(c, e);
      return;
    }
    if (const auto* g = c.op.as<GlobalVar>()) {
      const ObjectRef f = module_.get() ? module_.find(g->name) : ObjectRef();
      if (!f)
        add("T0324", fmt::format("the module has no function `{}`", g->name), e);
      else if (const auto* callee = f.as<graph::Function>()) {
        if (callee->params.size() != c.args.size())
          add("T0325",
              fmt::format("`{}` takes {} arguments and is given {}", g->name, callee->params.size(),
                          c.args.size()),
              e);
      } else if (f.is<tir::PrimFuncNode>())
        add("T0324", fmt::format("`{}` is a tensor program: it is called through call_tir", g->name), e);
      return;
    }
    if (const auto* made = c.op.as<graph::Constructor>()) {
      if (made->arity != int64_t(c.args.size()))
        add("T0325", fmt::format("`{}` has {} parts and is given {}", made->name, made->arity, c.args.size()),
            e);
      return constructor(*made, c.op);
    }
    if (c.op.is<ExternFunc>()) return;
    if (c.op.is<graph::Var>()) return leaf(c.op, "the callee");
    if (c.op.is<graph::Function>())
      return add("T0321", "a closure is called before it is bound to a variable", e);
    add("T0324", fmt::format("a {} cannot be called", type_key_of(c.op)), e);
  }

  void call_tir(const graph::Call& c, const Expr& e) {
    const auto* g = c.args.empty() ? nullptr : c.args[0].as<GlobalVar>();
    if (!g) return add("T0324", "call_tir calls a function of the module by name", e);
    const ObjectRef found = module_.get() ? module_.find(g->name) : ObjectRef();
    const auto* f = found.as<tir::PrimFuncNode>();
    if (found && !f)
      return add("T0324", fmt::format("call_tir calls `{}`, which is no tensor program", g->name), e);
    const auto* inputs = c.args.size() > 1 ? c.args[1].as<Tuple>() : nullptr;
    const auto* symbolic = c.args.size() > 2 ? c.args[2].as<ShapeExpr>() : nullptr;
    if (c.type_args.empty())
      add("T0327", fmt::format("the call of `{}` does not tell its output types", g->name), e);
    if (!f || !inputs) return;
    if (f->attrs.contains(kKernelAttr)) return;  // lowered: parameters are three pointers
    const size_t given = inputs->items.size() + c.type_args.size() + (symbolic ? symbolic->values.size() : 0);
    if (given != f->params.size())
      add("T0325",
          fmt::format("`{}` has {} parameters and is given {} inputs, {} outputs and {} sizes", g->name,
                      f->params.size(), inputs->items.size(), c.type_args.size(),
                      symbolic ? symbolic->values.size() : 0),
          e);
    else
      layouts(*f, g->name, c, e);
  }

  /// Parameters are declared as the tensors lie that the call gives.
  void layouts(const tir::PrimFuncNode& f, const std::string& callee, const graph::Call& c, const Expr& e) {
    const auto* sizes = c.args.size() > 2 ? c.args[2].as<ShapeExpr>() : nullptr;
    const size_t before = f.params.size() - (sizes ? sizes->values.size() : 0);
    const auto value = [&](const PrimExpr& x) {
      for (size_t k = before; k < f.params.size(); ++k)
        if (f.params[k].get() == x.get()) return tir::as_int(sizes->values[k - before]);
      return tir::as_int(x);
    };
    for (const tir::VarRef& p : f.params)
      if (const auto b = f.buffer_map.find(p))
        if (const auto problem = tir::unlike_given_tensors(*b, value))
          add("T0363", fmt::format("the buffer `{}` of `{}` {}", (*b)->name, callee, *problem), e);
  }

  const std::string& name_;
  const IRModule& module_;
  DiagnosticList& problems_;
  bool typed_;
  Names vars_, symbols_;
  std::unordered_set<const Object*> ever_;
  VarRef binding_;
};

}  // namespace

void verify_graph_function(const std::string& name, const Ref<graph::Function>& f, const IRModule& module,
                           DiagnosticList& problems, bool typed) {
  GraphVerifier(name, module, problems, typed).run(f);
}

}  // namespace tenon
