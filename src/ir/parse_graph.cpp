// SPDX-License-Identifier: Apache-2.0
// Graph functions of script text, brought into normal form on the way: what is nested is bound to a name.
#include <fmt/format.h>

#include <algorithm>

#include "ir/parse_impl.h"

namespace tenon::script {
using namespace graph;

namespace {
bool is_leaf(const Expr& e) {
  if (!e || e.is<graph::Var>() || e.is<GlobalVar>() || e.is<Constant>() || e.is<Op>() || e.is<ExternFunc>() ||
      e.is<ShapeExpr>() || e.is<PrimValue>() || e.is<graph::StringImm>() || e.is<DataTypeImm>() ||
      e.is<Constructor>())
    return true;
  if (const auto* t = e.as<Tuple>()) {
    for (const Expr& x : t->items)
      if (!is_leaf(x)) return false;
    return true;
  }
  return false;
}
}  // namespace

// ---------------------------------------------------------------- expressions
Expr Converter::normal(Expr e, Sequence& seq, const Ast* at) {
  if (is_leaf(e)) return e;
  return bind_value("lv", e->type, e, seq, origin(at));
}
Expr Converter::leaf(const Ast* a, Sequence& seq) { return normal(graph_expr(a, seq), seq, a); }

graph::VarRef Converter::bind_value(const std::string& name, Type declared, Expr value, Sequence& seq,
                                    const Origin& o) {
  if (value && !value->origin && !value.is<graph::Var>() && value.use_count() == 1) value.edit()->origin = o;
  graph::VarRef v = with_origin(graph::var(name, std::move(declared)), o);
  seq.plain.push_back(make<VarBindingNode>(v, std::move(value)));
  return v;
}

Expr Converter::graph_expr(const Ast* a, Sequence& seq, const Ast* annotation) {
  try {
    switch (a->kind) {
      case ExprKind::name: {
        if (a->text == "None") return {};
        if (a->text == "True" || a->text == "False") return make<PrimValue>(expr(a));
        if (Expr c = constructor(a)) return c;
        if (Expr f = callee(a)) return f;
        const ObjectRef o = name_of(a);
        if (const auto* fresh = o.as<AllocatedObj>()) return unwritten(a->text, *fresh, seq, origin(a));
        if (o.is<ExprNode>()) return o.cast<ExprNode>();
        if (o.is<tir::Var>()) return make<PrimValue>(expr(a));
        fail("T0225", fmt::format("`{}` is no graph value", a->text), a);
      }
      case ExprKind::attribute: {
        if (Expr c = constructor(a)) return c;
        if (Expr f = callee(a)) return f;
        const std::string p = path(a);
        if (p.starts_with("R."))
          if (Ref<Op> op = find_op(p.substr(2))) return op;
        fail("T0220", fmt::format("`{}` is unknown", p), a);
      }
      case ExprKind::integer:
      case ExprKind::number:
        return make<PrimValue>(expr(a));
      case ExprKind::string:
        return make<graph::StringImm>(a->text);
      case ExprKind::unary:
        if (is_size(a) || a->items[0]->kind == ExprKind::number) return make<PrimValue>(expr(a));
        if (a->text == "-")
          if (Ref<Op> op = find_op("negative")) return graph::call(op, {leaf(a->items[0], seq)});
        fail("T0221", fmt::format("`{}` has no meaning in a graph function", a->text), a);
      case ExprKind::compare:
        return comparison(a, seq);
      case ExprKind::logic:
        fail("T0221", fmt::format("`{}` has no meaning in a graph function", a->text), a,
             "use R.less(a, b), R.logical_and(a, b), …");
      case ExprKind::binary: {
        if (is_size(a)) return make<PrimValue>(expr(a));
        static constexpr std::pair<std::string_view, std::string_view> ops[] = {
            {"+", "add"},           {"-", "subtract"},  {"*", "multiply"}, {"/", "divide"},
            {"//", "floor_divide"}, {"%", "floor_mod"}, {"**", "power"}};
        for (auto [symbol, name] : ops)
          if (symbol == a->text)
            if (Ref<Op> op = find_op(name)) {
              Expr x = leaf(a->items[0], seq);
              return graph::call(op, {x, leaf(a->items[1], seq)});
            }
        fail("T0221", fmt::format("`{}` has no meaning in a graph function", a->text), a);
      }
      case ExprKind::tuple:
      case ExprKind::list: {
        bool sizes = !a->items.empty();
        for (const Ast* x : a->items) sizes = sizes && is_size(x);
        if (sizes) return shape_expr(shape_values(a));
        Array<Expr> items;
        for (const Ast* x : a->items) items.push_back(leaf(x, seq));
        return make<Tuple>(items);
      }
      case ExprKind::subscript: {
        Expr base = leaf(a->items[0], seq);
        if (a->items.size() != 2) fail("T0233", "an item of a tuple is taken by one number", a);
        const Expr item = item_of(base, integer_of(a->items[1], "the number of an item"), seq);
        return item.is<TupleGetItem>() ? with_origin(item, origin(a)) : item;
      }
      case ExprKind::call:
        return graph_call(a, seq, annotation);
      case ExprKind::object:
        return captured_graph(a, seq);
      default:
        fail("T0221", "this has no meaning in a graph function", a);
    }
  } catch (const DiagnosticError& e) {
    note(e, span(a));
    throw Failed();
  }
}

Expr Converter::comparison(const Ast* a, Sequence& seq) {
  if (is_size(a->items[0]) && is_size(a->items[1])) return make<PrimValue>(expr(a));
  static constexpr std::pair<std::string_view, std::string_view> ops[] = {
      {"==", "equal"},      {"!=", "not_equal"}, {"<", "less"},
      {"<=", "less_equal"}, {">", "greater"},    {">=", "greater_equal"}};
  const auto* op = std::find_if(std::begin(ops), std::end(ops), [&](auto& o) { return o.first == a->text; });
  CHECK(op != std::end(ops), "a comparison of another kind");
  const Expr x = leaf(a->items[0], seq);
  return graph::call(get_op(op->second), {x, leaf(a->items[1], seq)});
}

// ---------------------------------------------------------------- statements
void Converter::graph_assign(const std::string& name, const Ast* annotation, const Ast* v, const AstStmt* s,
                             Sequence& seq) {
  // n = T.int64() declares a symbolic size.
  if (const auto d = declared_size(v)) return declare_size(name, *d, graph_level_);
  if (v->kind == ExprKind::name && names_module(v->text) && !lookup(v->text)) {  // cls = Module
    module_names_.insert(name);
    return;
  }
  if (planned_memory(v, annotation, name, seq)) return;
  const bool cast = is_call(v, "R.match_cast"), match = is_call(v, "R.match_shape");
  if (cast || match) {
    Expr value = leaf(need(v, 0, "value"), seq);
    const int outer = implicit_level_;
    struct Restore {
      int& x;
      int v;
      ~Restore() { x = v; }
    } restore{implicit_level_, outer};
    implicit_level_ = int(levels_.size()) - 1;
    Type t;
    if (cast)
      t = type(need(v, 1, "struct_info"));
    else {
      const Ast* pattern = need(v, 1, "pattern");
      Array<PrimExpr> sizes = shape_values(pattern);
      const bool of_shape = value && ((value->type && value->type.is<ShapeType>()) || value.is<ShapeExpr>());
      const Ast* head = annotation
                            ? (annotation->kind == ExprKind::call || annotation->kind == ExprKind::subscript
                                   ? annotation->items[0]
                                   : annotation)
                            : nullptr;
      const std::string note = head ? path(head) : "";
      if (of_shape || note == "R.Shape" || note == "Shape") {
        const int64_t n = int64_t(sizes.size());
        t = make<ShapeType>(sizes, n, true);
      } else {
        DataType d;
        if (value && value->type)
          if (const auto* known = value->type.as<TensorType>()) d = known->dtype;
        if (annotation) {
          const Type noted = type(annotation);
          if (const auto* known = noted.as<TensorType>(); known && !known->dtype.is_void()) d = known->dtype;
        }
        t = graph::tensor_type(sizes, d);
      }
    }
    implicit_level_ = outer;
    Type declared = t;
    if (cast && annotation) declared = is_none(annotation) ? Type() : type(annotation);
    graph::VarRef var = with_origin(graph::var(name, declared), origin(s));
    seq.plain.push_back(make<MatchCastNode>(var, value, t));
    bind(name, var);
    return;
  }
  Type declared;
  const Expr value = graph_expr(v, seq, annotation);
  if (!value) fail("T0221", "None cannot be bound to a name", v);
  if (annotation) declared = type(annotation);
  bind(name, bind_value(name, declared, value, seq, origin(s)));
}

Expr Converter::branch(const std::vector<const AstStmt*>& stmts, std::string* name, Type* declared,
                       bool* annotated, Span where) {
  Scope scope(*this);
  Sequence seq;
  const AstStmt* last = stmts.empty() ? nullptr : stmts.back();
  const bool names_value =
      last && ((last->kind == StmtKind::assign && last->target->kind == ExprKind::name && last->value) ||
               last->kind == StmtKind::if_ || last->kind == StmtKind::match_);
  if (!names_value)
    fail("T0241", "a branch ends with the assignment of its value", last ? span(last) : where);
  for (const AstStmt* s : stmts) {
    if (s == last && s->kind == StmtKind::assign) break;
    if (!attempt(s, true, [&] { graph_stmt(s, seq, nullptr); })) poison_declared(s);
  }
  if (last->kind != StmtKind::assign) {  // the inner if or match binds the name
    if (seq.plain.empty()) throw Failed();
    graph::VarRef v = seq.plain.back()->var;
    *name = v->name;
    *declared = v->declared;
    *annotated = bool(v->declared);
    seq.close();
    return make<SeqExpr>(seq.blocks, Expr(v));
  }
  *name = last->target->text;
  Expr result;
  if (!attempt(last, true,
               [&] { result = normal(graph_expr(last->value, seq, last->annotation), seq, last->value); }))
    throw Failed();
  if (!result) fail("T0221", "None cannot be bound to a name", last->value);
  if (last->annotation) {
    *declared = type(last->annotation);
    *annotated = true;
  }
  seq.close();
  return with_type(make<SeqExpr>(seq.blocks, result), result->type);
}

void Converter::graph_if(const AstStmt* s, Sequence& seq) {
  Expr condition;
  bool ok = attempt(s, true, [&] {
    condition = leaf(s->value, seq);
    if (!condition) fail("T0221", "None is no condition", s->value);
  });
  if (s->orelse.empty())
    fail("T0241", "an if of a graph function has an else", span(s), "both branches assign the same name");
  std::string first, second;
  Type declared, other;
  bool annotated = false;
  Expr t, f;
  ok = attempt(span(s), [&] { t = branch(s->body, &first, &declared, &annotated, span(s)); }) && ok;
  ok =
      attempt(span(s),
              [&] { f = branch(s->orelse, &second, annotated ? &other : &declared, &annotated, span(s)); }) &&
      ok;
  if (!ok) throw Failed();
  if (first != second)
    fail("T0241", fmt::format("the branches assign different names, `{}` and `{}`", first, second), span(s),
         "both branches assign the same name");
  Expr value = make<graph::If>(condition, t, f);
  bind(first, bind_value(first, declared, value, seq, origin(s)));
}

/// A closure; its body may call it by its name.
void Converter::graph_closure(const AstStmt* s, const Ast* decorator, Sequence& seq) {
  std::optional<Type> declared;
  if (decorator->kind == ExprKind::call)
    if (const Ast* given = named(decorator, "declared")) declared = type(given);
  graph::VarRef self;
  const Ref<graph::Function> f = graph_function(s, &self, declared);
  seq.plain.push_back(make<VarBindingNode>(self, f));
  bind(s->name, self);
}

namespace {
/// A loop over one variable may return its value as it is: the body of a loop is a tuple.
Expr as_tuple_of_one(const Expr& body) {
  const auto* seq = body.as<SeqExpr>();
  const Expr result = seq ? seq->body : body;
  if (!result || result.is<graph::Tuple>()) return body;
  Type t = result->type;
  if (const auto* v = result.as<graph::Var>()) {
    if (v->declared) t = v->declared;
    if (seq && !t)
      for (const BindingBlock& block : seq->blocks)
        for (const Binding& b : block->bindings)
          if (b->var.get() == v && (b->value.is<graph::Tuple>() || b->value.is<graph::While>())) return body;
  }
  if (t.is<TupleType>()) return body;
  const Expr one = make<graph::Tuple>(Array<Expr>{result});
  return seq ? Expr(make<SeqExpr>(seq->blocks, one)) : one;
}
}  // namespace

/// `@R.loop(x, y) def result(i: …, s: …) -> type:` with `with R.condition(): … return c` in front of the
/// body.
void Converter::graph_loop(const AstStmt* s, Sequence& seq) {
  Array<Expr> init;
  const Ast* head = s->decorators[0];
  const bool starts = attempt(s, true, [&] {
    for (size_t i = 1; i < head->items.size(); ++i) init.push_back(leaf(head->items[i], seq));
    if (init.size() != s->params.size())
      fail("T0241",
           fmt::format("the loop has {} variables and {} initial values", s->params.size(), init.size()),
           span(s));
  });
  Array<graph::VarRef> vars;
  Expr condition, body;
  {
    Scope scope(*this);
    for (const AstParam& p : s->params) {
      const int outer = implicit_level_;
      implicit_level_ = int(levels_.size()) - 1;
      Type t;
      const bool ok = attempt(Span{tree_->source, p.begin, p.end}, [&] {
        if (p.annotation) t = type(p.annotation);
      });
      implicit_level_ = outer;
      if (!ok) {
        bind(p.name, make<PoisonObj>());
        continue;
      }
      graph::VarRef v = graph::var(p.name, t);
      bind(p.name, v);
      vars.push_back(v);
    }
    std::vector<const AstStmt*> rest;
    for (const AstStmt* x : s->body) {
      if (x->kind == StmtKind::with && x->contexts.size() == 1 && is_call(x->contexts[0], "R.condition")) {
        if (condition) fail("T0241", "the loop has two conditions", span(x));
        Scope inner(*this);
        Sequence tests;
        condition = graph_body(x->body, tests, true, span(x));
      } else {
        rest.push_back(x);
      }
    }
    if (!condition)
      fail("T0241", "the loop has no condition", span(s), "write `with R.condition():` and return it");
    Sequence steps;
    body = graph_body(rest, steps, true, span(s));
  }
  if (s->params.size() == 1) body = as_tuple_of_one(body);
  if (!starts || vars.size() != s->params.size()) throw Failed();
  Type declared;
  if (s->annotation) declared = type(s->annotation);
  Expr value = make<graph::While>(vars, init, condition, body);
  bind(s->name, bind_value(s->name, declared, value, seq, origin(s)));
}

/// `with R.dataflow():`.
void Converter::graph_region(const AstStmt* s, Sequence& seq) {
  if (s->contexts.size() != 1 ||
      !(is_call(s->contexts[0], "R.dataflow") || is_call(s->contexts[0], "R.block")))
    fail("T0237", "after `with` stands R.dataflow()", s->contexts[0]);
  const bool dataflow = is_call(s->contexts[0], "R.dataflow");
  if (seq.in_region) fail("T0241", "a dataflow region stands in another one", s->contexts[0]);
  seq.close();
  Sequence inner;
  inner.in_region = true;
  Array<graph::VarRef> outputs;
  for (const AstStmt* x : s->body) {
    const bool is_output =
        x->kind == StmtKind::expr && (is_call(x->value, "R.output") || is_call(x->value, "R.outputs"));
    if (!attempt(x, true, [&] {
          if (!is_output) return graph_stmt(x, inner, nullptr);
          for (size_t i = 1; i < x->value->items.size(); ++i) {
            const Ast* n = x->value->items[i];
            const ObjectRef o = n->kind == ExprKind::name ? name_of(n) : ObjectRef();
            if (!o.is<graph::Var>()) fail("T0225", "a variable of the region was expected", n);
            outputs.push_back(o.cast<graph::Var>());
          }
        }))
      poison_declared(x);
  }
  seq.blocks.push_back(make<BindingBlockNode>(inner.plain, dataflow, outputs));
}

void Converter::graph_stmt(const AstStmt* s, Sequence& seq, Expr* result) {
  switch (s->kind) {
    case StmtKind::pass:
      return;
    case StmtKind::failed:
      if (!s->name.empty() && !lookup(s->name)) bind(s->name, make<PoisonObj>());
      return;
    case StmtKind::expr: {
      if (is_docstring(s)) return;
      if (s->value->kind != ExprKind::call) fail("T0239", "this expression does nothing", s->value);
      const std::string p = path(s->value->items[0]);
      if (p == "R.func_attr") {
        if (!function_attrs_) fail("T0235", "R.func_attr stands directly in the function", s->value);
        for (auto [k, v] : dict(need(s->value, 0, "attrs"))) function_attrs_->set(k, v);
        return;
      }
      if (p == "R.memory_plan") {
        if (!function_plan_) fail("T0235", "R.memory_plan stands directly in the function", s->value);
        *function_plan_ = memory_plan(s->value);
        return;
      }
      if (p == "R.output" || p == "R.outputs")
        fail("T0235", fmt::format("`{}` ends a dataflow region", p), s->value);
      if (planned_memory(s->value, nullptr, {}, seq)) return;
      Expr e = graph_expr(s->value, seq);
      const Op* op = op_of(e);
      if (is_leaf(e) || (op && op->pure && op->rules && !op->name.starts_with("call_")))
        fail("T0239", "this expression does nothing", s->value);
      bind_value("_", {}, e, seq, origin(s));
      return;
    }
    case StmtKind::assign: {
      if (!s->value) fail("T0221", "a name is declared without a value", s->target);
      if (!s->name.empty())
        fail("T0221",
             fmt::format("`{}=` has no meaning in a graph function: every name is bound once", s->name),
             span(s));
      if (s->target->kind == ExprKind::name)
        return graph_assign(s->target->text, s->annotation, s->value, s, seq);
      if (declares_sizes(s)) {
        for (size_t i = 0; i < s->target->items.size(); ++i)
          declare_size(s->target->items[i]->text, *declared_size(s->value->items[i]), graph_level_);
        return;
      }
      if (s->target->kind != ExprKind::tuple && s->target->kind != ExprKind::list)
        fail("T0225", "only a name can be bound", s->target,
             "tensors of graph functions are not changed in place");
      Expr t = leaf(s->value, seq);  // a, b = t
      for (size_t i = 0; i < s->target->items.size(); ++i) {
        const Ast* n = s->target->items[i];
        if (n->kind != ExprKind::name) fail("T0225", "only a name can be bound", n);
        if (n->text == "_") continue;
        bind(n->text, bind_value(n->text, {}, item_of(t, int64_t(i), seq), seq, origin(s)));
      }
      return;
    }
    case StmtKind::def: {
      for (const Ast* d : s->decorators) {
        const std::string p = path(d->kind == ExprKind::call ? d->items[0] : d);
        if (p == "R.loop") return graph_loop(s, seq);
        if (p != "R.function") fail("T0211", fmt::format("the decorator `{}` has no meaning here", p), d);
        return graph_closure(s, d, seq);
      }
      fail("T0211", fmt::format("function `{}` has no decorator", s->name), span(s), "mark it @R.function");
    }
    case StmtKind::if_:
      return graph_if(s, seq);
    case StmtKind::match_:
      return graph_match(s, seq);
    case StmtKind::with:
      return graph_region(s, seq);
    case StmtKind::return_:
      if (!result) fail("T0241", "a return stands at the end of the function", span(s));
      if (!s->value || is_none(s->value)) fail("T0241", "a graph function returns a value", span(s));
      *result = leaf(s->value, seq);
      return;
    default:
      fail("T0239", "this statement has no meaning in a graph function", span(s),
           s->kind == StmtKind::while_ || s->kind == StmtKind::for_ ? "loops are written @R.loop(…)" : "");
  }
}

Expr Converter::graph_body(const std::vector<const AstStmt*>& stmts, Sequence& seq, bool needs_return,
                           Span where) {
  Expr result;
  bool returned = false;
  std::vector<size_t> groups;
  size_t row = 0;  // where they begin
  for (size_t i = 0; i < stmts.size(); ++i) {
    const AstStmt* s = stmts[i];
    if (returned) {
      problems_.add("T0241", "nothing follows a return", span(s));
      break;
    }
    returned = s->kind == StmtKind::return_;
    if (i >= row + groups.size()) groups = closure_groups(stmts, row = i);
    if (const size_t n = groups[i - row]; n > 1) {
      const std::span closures(stmts.data() + i, n);
      if (!attempt(span(s), [&] { graph_group(closures, seq); }))
        for (const AstStmt* c : closures)
          if (!lookup(c->name)) bind(c->name, make<PoisonObj>());
      i += n - 1;
      continue;
    }
    if (!attempt(s, true, [&] { graph_stmt(s, seq, &result); })) poison_declared(s);
  }
  seq.close();
  if (needs_return && !returned)
    fail("T0241", "the function has no return", where, "end it with `return value`");
  if (!result) throw Failed();
  return with_type(make<SeqExpr>(seq.blocks, result), result->type);
}

/// What is private is called by nobody outside, so it has no symbol.
void Converter::check_private(const AstStmt* s, const AttrMap& attrs) {
  if (!attrs.contains("global_symbol")) return;
  for (const Ast* d : s->decorators)
    for (const auto& [n, v] : d->named)
      if (n == "private" && v->text == "True") fail("T0235", "a private function has no global symbol", v);
}

Ref<graph::Function> Converter::graph_function(const AstStmt* s, graph::VarRef* self,
                                               const std::optional<Type>& declared) {
  Scope scope(*this);
  type_parameters(s);
  const Array<std::string> type_params(s->type_params.begin(), s->type_params.end());
  const int level = int(levels_.size()) - 1, outer = implicit_level_;
  AttrMap attrs;
  Ref<graph::MemoryPlan> plan;
  struct Restore {
    Converter& c;
    AttrMap* attrs;
    Ref<graph::MemoryPlan>* plan;
    int level;
    ~Restore() { c.function_attrs_ = attrs, c.function_plan_ = plan, c.graph_level_ = level; }
  } restore{*this, function_attrs_, function_plan_, graph_level_};
  graph_level_ = level;
  function_attrs_ = &attrs;
  function_plan_ = &plan;
  Array<graph::VarRef> params;
  std::unordered_set<std::string> seen;
  bool ok = true;
  for (const AstParam& p : s->params) {
    const Span where{tree_->source, p.begin, p.end};
    if (!seen.insert(p.name).second) {
      problems_.add("T0212", fmt::format("parameter `{}` is defined twice", p.name), where);
      ok = false;
    }
    implicit_level_ = level;
    Type t;
    const bool typed = attempt(where, [&] {
      if (p.annotation) t = type(p.annotation);
    });
    implicit_level_ = outer;
    if (!typed) {
      bind(p.name, make<PoisonObj>());
      ok = false;
      continue;
    }
    graph::VarRef v = with_origin(graph::var(p.name, t), make<OriginObj>(std::string(), where));
    bind(p.name, v);
    params.push_back(v);
  }
  Type ret;
  implicit_level_ = level;
  if (s->annotation) ok = attempt(span(s->annotation), [&] { ret = type(s->annotation); }) && ok;
  implicit_level_ = -1;
  if (self) {
    Array<Type> types;
    for (const graph::VarRef& v : params) types.push_back(v->declared);
    const Type own = declared ? *declared : make<FuncType>(types, ret, false, type_params);
    *self = with_origin(graph::var(s->name, own), origin(s));
    if (!seen.count(s->name)) bind(s->name, *self);
  }
  Sequence seq;
  Expr body;
  ok = attempt(span(s), [&] { body = graph_body(s->body, seq, true, span(s)); }) && ok;
  implicit_level_ = outer;
  if (!ok) throw Failed();
  check_private(s, attrs);
  return with_origin(make<graph::Function>(params, body, ret, attrs, type_params, plan), origin(s));
}

}  // namespace tenon::script
