// SPDX-License-Identifier: Apache-2.0
// Expressions of Relay text, brought into normal form on the way: what is nested is bound to a name.
#include <algorithm>

#include "import/relay/converter.h"
#include "import/relay/operators.h"

namespace tenon::relay {
using namespace graph;

namespace {

bool is_leaf(const Expr& e) {
  if (const auto* t = e.as<Tuple>()) return std::all_of(t->items.begin(), t->items.end(), is_leaf);
  return !e.is<Call>() && !e.is<Function>() && !e.is<If>() && !e.is<Match>() && !e.is<TupleGetItem>() &&
         !e.is<SeqExpr>();
}

/// A leaf's type is known.
bool is_known(const Expr& e) {
  if (const auto* t = e.as<Tuple>()) return std::all_of(t->items.begin(), t->items.end(), is_known);
  return !e || bool(e->type);
}

/// As many levels as a reader follows; the number of operators is what counts, not names nearby.
constexpr size_t kMaxSuggested = 3;

}  // namespace

void Converter::note(std::string code, std::string message, const Placed& at, std::string hint) {
  problems_.add(std::move(code), std::move(message), span(at), std::move(hint));
}
void Converter::fail(std::string code, std::string message, const Placed& at, std::string hint) {
  note(std::move(code), std::move(message), at, std::move(hint));
  throw Failed();
}
Origin Converter::origin(const Placed& at) const { return make<OriginObj>(std::string(), span(at)); }

Type Converter::type_of(const Expr& value) const {
  if (const auto* f = value.as<Function>()) {
    Array<Type> params;
    for (const VarRef& p : f->params) {
      if (!p->declared) return {};
      params.push_back(p->declared);
    }
    const Expr result = result_of(f->body);
    const Type given = f->ret_type ? f->ret_type : result.is<Tuple>() ? type_of(result) : result->type;
    return given ? make<FuncType>(params, given, false, f->type_params) : Type();
  }
  if (const auto* call = value.as<Call>()) {
    if (!std::all_of(call->args.begin(), call->args.end(), is_known)) return {};
    const auto* callee = call->op->type.as<FuncType>();
    if (!call->op.is<Op>() && !(callee && callee->ret)) return {};
  } else if (const auto* item = value.as<TupleGetItem>()) {
    if (!is_known(item->tuple)) return {};
  } else if (const auto* tuple = value.as<Tuple>()) {
    if (!is_known(value) || tuple->items.empty()) return {};
  } else {
    return {};
  }
  // Mistakes are told by infer_types, at their place.
  op::Inference run;
  const Type t = op::infer_type(run, value);
  return run.problems.empty() && t && !t.is<ObjectType>() && !op::has_incomplete(t) ? t : Type();
}

Expr Converter::bind(Expr value, const Origin& at, const std::string& name) {
  if (is_leaf(value)) return value;
  if (!value->origin) value.edit()->origin = at;
  VarRef v = with_origin(graph::var(name), at);
  v.edit()->type = type_of(value);
  bindings_->push_back(make<VarBindingNode>(v, std::move(value)));
  return v;
}

bool Converter::is_open(const Expr& e) const {
  const auto* v = e.as<graph::Var>();
  return v && open_.count(v);
}
VarRef Converter::learned(const VarRef& parameter, const Type& type, const Origin& by) {
  VarRef& out = open_[parameter.get()];
  if (out) return out;
  out = with_origin(graph::var(parameter->name, type), parameter->origin ? parameter->origin : by);
  for (Scope& s : scopes_)
    for (auto& [name, value] : s.locals)
      if (value.expr.same_as(parameter)) value.expr = out;
  return out;
}

std::string Converter::suggestion(const std::string& name) const {
  std::string near;
  for (const auto& [other, type] : functions_)
    if (other.size() >= kMaxSuggested && (name.starts_with(other) || other.starts_with(name)))
      near = near.empty() || other < near ? other : near;
  return near.empty() ? "" : fmt::format("is `@{}` meant?", near);
}

// ---------------------------------------------------------------- expressions
Expr Converter::expr(const ExprAst& e) {
  switch (e.kind) {
    case ExprKind::failed:
      throw Failed();
    case ExprKind::literal:
      return constant(e.value);
    case ExprKind::local:
      return local(e);
    case ExprKind::graph:
      return graph_value(e);
    case ExprKind::global:
      return global(e.text, e);
    case ExprKind::name:
      return named(e);
    case ExprKind::meta: {
      std::string why;
      const NDArray data = metadata_.constant(e.text, e.index, why);
      if (!data) fail("T0228", why, e, "only constants of the text's own metadata are read");
      return constant(data);
    }
    case ExprKind::tuple:
      return make<Tuple>(leaves(e.items));
    case ExprKind::item: {
      const Expr tuple = leaf(*e.items[0]);
      if (const auto* known = tuple.as<Tuple>(); known && uint64_t(e.index) < known->items.size())
        return known->items[size_t(e.index)];
      return make<TupleGetItem>(tuple, e.index);
    }
    case ExprKind::call:
      return call(e);
    case ExprKind::infix:
      return convert_operator(*this, e.text, leaves(e.items), {}, e);
    case ExprKind::function:
      return function(*e.function);
    case ExprKind::if_:
      return if_expr(e);
    case ExprKind::match:
      return match(e);
    case ExprKind::block:
      return block(e);
  }
  return {};
}

/// Values one after another; each tells its own mistakes.
Array<Expr> Converter::leaves(std::span<const ExprAst* const> values) {
  Array<Expr> out;
  bool ok = true;
  for (const ExprAst* e : values) ok = attempt(*e, [&] { out.push_back(leaf(*e)); }) && ok;
  if (!ok) throw Failed();
  return out;
}

Expr Converter::local(const ExprAst& e) {
  for (size_t i = scopes_.size(); i-- > 0;)
    if (const auto it = scopes_[i].locals.find(e.text); it != scopes_[i].locals.end()) {
      if (!it->second.expr) throw Failed();
      return it->second.expr;
    }
  fail("T0220", fmt::format("nothing is called `%{}` here", e.text), e);
}

/// A numbered value that another branch bound is computed here again: the text's scopes are those of a graph.
Expr Converter::graph_value(const ExprAst& e) {
  for (size_t i = scopes_.size(); i-- > 0;)
    if (const auto it = scopes_[i].graph.find(e.index); it != scopes_[i].graph.end()) {
      if (computing_.contains(e.index)) fail("T0220", fmt::format("`%{}` is made of itself", e.index), e);
      if (!it->second.expr) throw Failed();
      return it->second.expr;
    }
  const auto it = graph_.find(e.index);
  if (it == graph_.end()) fail("T0220", fmt::format("nothing is called `%{}` here", e.index), e);
  const ExprAst* definition = it->second;
  if (!definition) throw Failed();
  // A value that refers to itself ends here.
  graph_.erase(it);
  Expr value;
  const bool ok = attempt(e, [&] { value = leaf(*definition); });
  graph_.emplace(e.index, ok ? definition : nullptr);
  scopes_.back().graph[e.index] = {value};
  if (!ok) throw Failed();
  return value;
}

Expr Converter::global(const std::string& name, const Placed& at) {
  const auto it = functions_.find(name);
  if (it == functions_.end())
    fail("T0220", fmt::format("the text defines no function `@{}`", name), at, suggestion(name));
  return it->second ? with_type(make<GlobalVar>(name), it->second) : make<GlobalVar>(name);
}

Expr Converter::constructor(const Constructor& c, const std::string& name) const {
  return make<graph::Constructor>(c.type, name, c.tag, int64_t(c.arity));
}

/// A word alone: a constructor or an operator as a function.
Expr Converter::named(const ExprAst& e) {
  if (const auto it = constructors_.find(e.text); it != constructors_.end()) {
    const Expr c = with_origin(constructor(it->second, e.text).cast<graph::Constructor>(), origin(e));
    return it->second.arity == 0 ? graph::call(c, {}) : c;
  }
  const size_t arity = operator_arity(*this, e.text, e);
  Array<VarRef> params;
  Array<Expr> args;
  for (size_t i = 0; i < arity; ++i) {
    params.push_back(graph::var(fmt::format("x{}", i)));
    args.push_back(params.back());
  }
  Array<Binding>* const outer = std::exchange(bindings_, nullptr);
  Array<Binding> inside;
  bindings_ = &inside;
  Expr value;
  const bool ok = attempt(e, [&] { value = bind(convert_operator(*this, e.text, args, {}, e), origin(e)); });
  bindings_ = outer;
  if (!ok) throw Failed();
  Array<BindingBlock> blocks{make<BindingBlockNode>(inside, false, Array<VarRef>())};
  return make<graph::Function>(params, make<SeqExpr>(blocks, value), Type(), AttrMap(), Array<std::string>(),
                               Ref<MemoryPlan>());
}

Expr Converter::call(const ExprAst& e) {
  const ExprAst& head = *e.items[0];
  const std::span<const ExprAst* const> given = std::span(e.items).subspan(1);
  if (head.kind == ExprKind::name) {
    if (const auto it = constructors_.find(head.text); it != constructors_.end()) {
      const Array<Expr> parts = leaves(given);
      if (parts.size() != it->second.arity)
        fail("T0242",
             fmt::format("`{}` has {} parts and is given {}", head.text, it->second.arity, parts.size()), e);
      return graph::call(constructor(it->second, head.text), parts);
    }
    if (head.text == "ref" || head.text == "ref_read" || head.text == "ref_write") return reference(e);
    Array<Expr> args;
    const bool ok = attempt(e, [&] { args = leaves(given); });
    check_operator(*this, head.text, e);
    if (!ok) throw Failed();
    return convert_operator(*this, head.text, std::move(args), e.attrs, e);
  }
  for (const NamedAttr& a : e.attrs)
    note("T0226", fmt::format("the call of a function has no attribute `{}`", a.name), a);
  const Array<Expr> all = leaves(e.items);
  return graph::call(all[0], Array<Expr>(all.begin() + 1, all.end()));
}

Expr Converter::reference(const ExprAst& e) {
  const std::string& word = e.items[0]->text;
  const size_t want = word == "ref_write" ? 2 : 1;
  if (e.items.size() != want + 1 || !e.attrs.empty())
    fail("T0223", fmt::format("`{}` takes {} value{}", word, want, want == 1 ? "" : "s"), e);
  return graph::call(get_op(word == "ref" ? "ref_create" : word), leaves(std::span(e.items).subspan(1)));
}

Expr Converter::body(const ExprAst& e) {
  const ScopeGuard scope(*this);
  Array<Binding>* const outer = bindings_;
  Array<Binding> inside;
  bindings_ = &inside;
  Expr result;
  const bool ok = attempt(e, [&] { result = leaf(e); });
  bindings_ = outer;
  if (!ok) throw Failed();
  Array<BindingBlock> blocks;
  if (!inside.empty()) blocks.push_back(make<BindingBlockNode>(inside, false, Array<VarRef>()));
  return make<SeqExpr>(blocks, result);
}

Expr Converter::if_expr(const ExprAst& e) {
  const Expr condition = leaf(*e.items[0]);
  Expr branches[2];
  bool ok = true;
  for (size_t i : {0, 1}) ok = attempt(*e.items[i + 1], [&] { branches[i] = body(*e.items[i + 1]); }) && ok;
  if (!ok) throw Failed();
  return make<If>(condition, branches[0], branches[1]);
}

Expr Converter::block(const ExprAst& e) {
  const ScopeGuard scope(*this);
  bool ok = true;
  for (const StepAst& s : e.steps) ok = attempt(s, [&] { step(s); }) && ok;
  const Expr value = expr(*e.items[0]);
  if (!ok) throw Failed();
  return value;
}

void Converter::step(const StepAst& s) {
  switch (s.kind) {
    case StepKind::failed:
      throw Failed();
    case StepKind::value:
      leaf(*s.value);
      return;
    case StepKind::let:
      return let(s);
    case StepKind::graph: {
      graph_[s.number] = s.value;
      scopes_.back().graph[s.number] = {};
      const bool fresh = computing_.insert(s.number).second;
      Expr value;
      const bool ok = attempt(s, [&] { value = leaf(*s.value); });
      if (fresh) computing_.erase(s.number);
      scopes_.back().graph[s.number] = {value};
      if (ok) return;
      graph_[s.number] = nullptr;
      throw Failed();
    }
  }
}

void Converter::let(const StepAst& s) {
  Expr value;
  Type declared;
  const bool ok = attempt(s, [&] {
    declared = type(s.type, Unknown::rank);
    if (s.value->kind == ExprKind::function) {
      VarRef self;
      const Ref<graph::Function> f = function(*s.value->function, &self, s.name, declared);
      bindings_->push_back(make<VarBindingNode>(self, f));
      value = self;
      return;
    }
    value = expr(*s.value);
    const bool named = !is_leaf(value) || declared;
    if (!named) return;
    const Type known = is_leaf(value) ? value->type : type_of(value);
    if (!value->origin && !is_leaf(value)) value.edit()->origin = origin(s);
    VarRef v = with_origin(graph::var(s.name, declared), origin(s));
    if (!declared) v.edit()->type = known;
    bindings_->push_back(make<VarBindingNode>(v, value));
    value = v;
  });
  define(s.name, value);
  if (!ok) throw Failed();
}

// ---------------------------------------------------------------- match
Expr Converter::match(const ExprAst& e) {
  const Expr value = leaf(*e.items[0]);
  Type type = value->type;
  if (value.is<Tuple>()) type = type_of(value);
  Array<MatchClause> clauses;
  bool ok = true;
  for (const ClauseAst& c : e.clauses) {
    const Placed where{c.pattern->begin, c.body->end};
    ok = attempt(where,
                 [&] {
                   const ScopeGuard scope(*this);
                   const Pattern p = pattern(*c.pattern, type);
                   clauses.push_back(make<MatchClauseNode>(p, body(*c.body)));
                 }) &&
         ok;
  }
  if (!ok) throw Failed();
  const auto match = make<graph::Match>(value, clauses);
  auto definition = [&](const std::string& name) { return types_.get_or(name, AdtDef()); };
  if (e.index == 0 || (type && !missing_case(*match, type, definition))) return match;
  clauses.push_back(no_case(clauses, e));
  return make<graph::Match>(value, clauses);
}

MatchClause Converter::no_case(const Array<MatchClause>& clauses, const ExprAst& e) {
  Type type;
  for (const MatchClause& c : clauses) {
    const Expr result = result_of(c->body);
    if (!type) type = result.is<Tuple>() ? type_of(result) : result->type;
  }
  if (!type)
    fail("T0245", "the type of what `match?` gives must be known", e,
         "write the types of functions and parameters");
  const std::string text = fmt::format("no case of `match?` takes the value ({})", span(e).to_string());
  const VarRef end = with_origin(graph::var("lv"), origin(e));
  const Expr call = with_origin(
      graph::call(get_op("call_packed"),
                  {Expr(make<ExternFunc>("tenon.refuse")), Expr(make<StringImm>(text))}, {}, {type}),
      origin(e));
  const Array<Binding> only{make<VarBindingNode>(end, call)};
  const Array<BindingBlock> blocks{make<BindingBlockNode>(only, false, Array<VarRef>())};
  return make<MatchClauseNode>(make<PatternNode>(), make<SeqExpr>(blocks, end));
}

/// `type`: of what is compared, as far as it is known.
Pattern Converter::pattern(const PatternAst& p, const Type& type) {
  auto out = make<PatternNode>();
  PatternNode* n = out.edit();
  switch (p.kind) {
    case PatternAstKind::wildcard:
      break;
    case PatternAstKind::variable: {
      n->kind = PatternKind::variable;
      if (scopes_.back().locals.count(p.text))
        fail("T0212", fmt::format("`%{}` stands twice in one pattern", p.text), p);
      const Type declared = this->type(p.type, Unknown::rank);
      VarRef v = with_origin(graph::var(p.text, declared), origin(p));
      if (!declared) v.edit()->type = type;
      n->var = v;
      define(p.text, v);
      break;
    }
    case PatternAstKind::tuple: {
      n->kind = PatternKind::tuple;
      const auto* tuple = type.as<TupleType>();
      for (size_t i = 0; i < p.items.size(); ++i)
        n->items.push_back(pattern(*p.items[i], tuple && i < tuple->items.size() ? tuple->items[i] : Type()));
      break;
    }
    case PatternAstKind::constructor:
      constructor_pattern(p, type, *n);
      break;
  }
  return out;
}

void Converter::constructor_pattern(const PatternAst& p, const Type& type, PatternNode& out) {
  out.kind = PatternKind::constructor;
  const auto it = constructors_.find(p.text);
  if (it == constructors_.end())
    fail("T0242", fmt::format("`{}` is no constructor of a data type", p.text), p,
         fmt::format("a variable is written `%{}`", p.text));
  const Constructor& c = it->second;
  out.constructor = constructor(c, p.text).cast<graph::Constructor>();
  if (p.items.size() != c.arity)
    fail("T0242", fmt::format("`{}` has {} parts, the pattern has {}", p.text, c.arity, p.items.size()), p);
  const AdtDef def = types_.at(c.type);
  const auto* given = type.as<AdtType>();
  std::map<std::string, Type> map;
  for (size_t i = 0; given && i < given->args.size() && i < def->params.size(); ++i)
    map[def->params[i]] = given->args[i];
  const auto& parts = def->constructors[size_t(c.tag)]->items;
  for (size_t i = 0; i < p.items.size(); ++i)
    out.items.push_back(
        pattern(*p.items[i], given && i < parts.size() ? substitute_types(parts[i], map) : Type()));
}

}  // namespace tenon::relay
