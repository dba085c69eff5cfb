// SPDX-License-Identifier: Apache-2.0
// Statements of tensor programs.
#include <fmt/format.h>

#include "ir/parse_impl.h"

namespace tenon::script {
using namespace tir;

namespace {
Stmt sequence(std::vector<Stmt> reversed) {
  if (reversed.size() == 1) return reversed[0];
  Array<Stmt> list;
  for (size_t i = reversed.size(); i-- > 0;) list.push_back(std::move(reversed[i]));
  return make<SeqStmt>(std::move(list));
}
/// A store converts numbers to what the buffer holds, but none with a fraction to an integer.
bool converts(DataType from, DataType to) {
  return from.lanes == to.lanes && (from.is_integer() || from.is_float()) &&
         (to.is_float() || (to.is_integer() && from.is_integer()));
}
}  // namespace

// ---------------------------------------------------------------- sequences
void Converter::statements(const std::vector<const AstStmt*>& stmts, BlockParts* parts,
                           std::vector<Item>& out) {
  for (const AstStmt* s : stmts) {
    if (!attempt(s, false, [&] { statement(s, parts, out); })) poison_declared(s);
    if (s->kind == StmtKind::failed && !s->name.empty() && !lookup(s->name)) bind(s->name, make<PoisonObj>());
  }
}
Stmt Converter::block_body(const std::vector<const AstStmt*>& stmts, BlockParts* parts) {
  std::vector<Item> items;
  statements(stmts, parts, items);
  // Scopes written flat hold over what follows them.
  std::vector<Stmt> tail;
  for (size_t i = items.size(); i-- > 0;) {
    if (!items[i].wrap) {
      tail.push_back(std::move(items[i].stmt));
      continue;
    }
    Stmt body = sequence(std::move(tail));
    tail = {};
    tail.push_back(items[i].wrap(std::move(body)));
  }
  return sequence(std::move(tail));
}
Stmt Converter::nested_body(const std::vector<const AstStmt*>& stmts) {
  Scope scope(*this);
  return block_body(stmts, nullptr);
}

// ---------------------------------------------------------------- stores
Stmt Converter::store(const Ast* target, const Ast* value_ast, const std::string& op) {
  const DataProducer p = producer_of(target->items[0]);
  const Buffer b = p ? Buffer() : buffer_of(target->items[0]);
  const std::string_view what = p ? "tensor" : "buffer";
  const std::string& name = p ? p->name : b->name;
  const Array<PrimExpr> at = element(target, what, p ? p->shape : b->shape);
  DataType wanted = p ? p->dtype : b->dtype;
  int lanes = 1;
  for (const PrimExpr& i : at) lanes = std::max<int>(lanes, i.dtype().lanes);
  wanted = wanted.with_lanes(wanted.lanes * lanes);
  PrimExpr v;
  if (op.empty())
    v = expr_of(value_ast, wanted);
  else {  // A[i] += v
    Value x{p ? PrimExpr(make<ProducerLoad>(p, at)) : tir::load(b, at)}, y = value(value_ast);
    unify(x, y, value_ast);
    if (op == "+")
      v = make<Add>(x.e, y.e);
    else if (op == "-")
      v = make<Sub>(x.e, y.e);
    else if (op == "*")
      v = make<Mul>(x.e, y.e);
    else if (op == "/")
      v = make<Div>(x.e, y.e);
    else if (op == "//")
      v = make<FloorDiv>(x.e, y.e);
    else if (op == "%")
      v = make<FloorMod>(x.e, y.e);
    else
      fail("T0221", fmt::format("`{}=` has no meaning here", op), target);
  }
  if (v.dtype() != wanted && v.dtype().is_scalar() && v.dtype() == wanted.element())
    v = make<Broadcast>(v, int64_t(wanted.lanes));
  if (v.dtype() != wanted && converts(v.dtype(), wanted)) v = cast(wanted, v);
  if (v.dtype() != wanted)
    fail("T0230",
         fmt::format("a value of type {} is stored to {} `{}` where {} is held", to_string(v.dtype()), what,
                     name, to_string(wanted)),
         value_ast, "convert it with T.cast");
  return p ? Stmt(make<ProducerStore>(p, v, at)) : tir::store(b, v, at);
}

/// `A = T.producer((n, 128), "float32")`: a tensor without a buffer, known from here on.
void Converter::producer(const std::string& name, const Ast* call) {
  only(call, 2, {"shape", "dtype"});
  BufferNode parts;
  const Ast* dtype = argument(call, 1, "dtype");
  buffer_fields(&parts, need(call, 0, "shape"), dtype, call);
  auto p = make<DataProducerNode>();
  p.edit()->shape = parts.shape;
  p.edit()->dtype = parts.dtype;
  p.edit()->name = name;
  bind(name, p);
}

// ---------------------------------------------------------------- one statement
/// T.reads, T.where, … speak about the block or function around them.
bool Converter::directive(const AstStmt* s, BlockParts* parts, std::vector<Item>& out) {
  const Ast* c = s->value;
  const std::string p = path(c->items[0]);
  auto direct = [&]() -> BlockParts& {
    if (!parts) fail("T0235", fmt::format("`{}` stands directly in a block", p), c);
    return *parts;
  };
  const auto once = [&](bool first, const std::string& what, const Ast* at) {
    if (!first) fail("T0235", what + " is given twice", at);
  };
  if (p == "T.func_attr") {
    if (!current_ || levels_.size() - 1 != size_t(function_level_))
      fail("T0235", "T.func_attr stands directly in the function", c);
    for (auto [k, v] : dict(need(c, 0, "attrs"))) {
      once(!current_->attrs.contains(k), fmt::format("the function's attribute `{}`", k), c);
      current_->attrs.set(k, v);
    }
    return true;
  }
  if (p == "T.reads" || p == "T.writes") {
    Array<BufferRegion> regions;
    for (size_t i = 1; i < c->items.size(); ++i)
      for (const Ast* x : c->items[i]->kind == ExprKind::list || c->items[i]->kind == ExprKind::tuple
                              ? c->items[i]->items
                              : std::vector<const Ast*>{c->items[i]})
        regions.push_back(region(x));
    auto& slot = p == "T.reads" ? direct().reads : direct().writes;
    once(!slot, fmt::format("`{}` of this block", p), c);
    slot = regions;
    return true;
  }
  if (p == "T.where") {
    const PrimExpr e = truth(need(c, 0, "predicate"));
    BlockParts& b = direct();
    b.predicate = b.predicate ? PrimExpr(make<And>(b.predicate, e)) : e;
    return true;
  }
  if (p == "T.block_attr" || p == "T.sblock_attr") {
    for (auto [k, v] : dict(need(c, 0, "attrs"))) {
      once(!direct().annotations.contains(k), fmt::format("the block's attribute `{}`", k), c);
      direct().annotations.set(k, v);
    }
    return true;
  }
  if (p == "T.bind" && !named(c, "var")) {
    VarRef v = variable(need(c, 0, "iter_var"));
    BlockParts& b = direct();
    for (size_t i = 0; i < b.iter_vars.size(); ++i)
      if (b.iter_vars[i]->var.get() == v.get()) {
        b.iter_values.set(i, expr_of(need(c, 1, "value"), v->dtype));
        return true;
      }
    fail("T0234", fmt::format("`{}` is no iterator of this block", v->name), c);
  }
  if (p == "T.evaluate") {
    only(c, 1, {"value"});
    out.push_back({with_origin(make<Evaluate>(evaluated(need(c, 0, "value"))), origin(s)), {}});
    return true;
  }
  if (p == "T.prefetch") {
    const BufferRegion r = region(need(c, 0, "region"));
    out.push_back({make<Prefetch>(r->buffer, r->region), {}});
    return true;
  }
  if (c->items[0]->kind == ExprKind::attribute && is_buffer(c->items[0]->items[0]) &&
      c->items[0]->text == "vstore") {
    const Buffer b = buffer_of(c->items[0]->items[0]);
    const Array<PrimExpr> at = exprs(need(c, 0, "indices"));
    if (at.size() != b->shape.size())
      fail("T0233",
           fmt::format("buffer `{}` has {} dimensions and is indexed with {}", b->name, b->shape.size(),
                       at.size()),
           c);
    const Ast* predicate = named(c, "predicate");
    out.push_back(
        {tir::store(b, expr(need(c, 1, "value")), at, predicate ? expr(predicate) : PrimExpr()), {}});
    return true;
  }
  if (std::optional<Item> item = scope_form(c, nullptr, s)) {
    out.push_back(*std::move(item));
    return true;
  }
  return false;
}

void Converter::assignment(const AstStmt* s, BlockParts* parts, std::vector<Item>& out) {
  const Ast* t = s->target;
  if (t->kind == ExprKind::subscript) {
    if (s->annotation || !s->value) fail("T0221", "an element cannot be declared", t);
    Stmt st = store(t, s->value, s->name);
    st.edit()->origin = origin(s);
    out.push_back({st, {}});
    return;
  }
  const Ast* v = s->value;
  const std::string p = v && v->kind == ExprKind::call ? path(v->items[0]) : "";
  if (p.starts_with("T.axis.")) return axis(t, v, parts);
  if (declares_sizes(s)) {
    for (size_t i = 0; i < t->items.size(); ++i)
      declare_size(t->items[i]->text, *declared_size(v->items[i]), function_level_);
    return;
  }
  if (t->kind != ExprKind::name) fail("T0225", "only a name or an element can be assigned", t);
  if (!s->name.empty()) fail("T0221", "only elements of buffers can be updated in place", t);
  const std::string& name = t->text;
  if (p == "T.match_buffer" && v->items.size() > 1) {
    const Ast* from = v->items[1];
    const int outer = implicit_level_;
    implicit_level_ = int(levels_.size()) - 1;
    struct Restore {
      int& x;
      int v;
      ~Restore() { x = v; }
    } restore{implicit_level_, outer};
    if (from->kind == ExprKind::subscript || is_buffer(from)) {
      if (!parts) fail("T0235", "T.match_buffer of a region stands directly in a block", v);
      const BufferRegion r = region(from);
      Buffer b = buffer_decl(name, v, 1);
      parts->match_buffers.push_back(make<MatchBufferRegionNode>(b, r));
      bind(name, b);
      return;
    }
    const VarRef param = variable(from);
    bool is_param = false;
    if (current_)
      for (const VarRef& q : current_->params) is_param = is_param || q.get() == param.get();
    if (!is_param || !param->dtype.is_handle())
      fail("T0238", fmt::format("`{}` is no handle parameter of the function", param->name), from);
    if (current_->buffer_map.contains(param))
      fail("T0238", fmt::format("parameter `{}` is matched twice", param->name), from);
    Buffer b = buffer_decl(name, v, 1);
    current_->buffer_map.set(param, b);
    bind(name, b);
    return;
  }
  if (p == "T.alloc_buffer" || p == "T.sblock_alloc_buffer") {
    Buffer b = buffer_decl(name, v, 0, {"annotations"});
    const Ast* notes = named(v, "annotations");
    const AttrMap annotations = notes && !is_none(notes) ? dict(notes) : AttrMap();
    bind(name, b);
    if (parts && annotations.empty())
      parts->alloc_buffers.push_back(b);
    else  // inside loops, as newer text has it
      out.push_back({{}, [b, annotations](Stmt body) -> Stmt {
                       return make<Allocate>(b, std::move(body), annotations);
                     }});
    return;
  }
  if (p == "T.producer") return producer(name, v);
  if (p == "T.env_thread") {
    const VarRef thread = var(name, i64);
    thread_tags_[thread.get()] = text_of(need(v, 0, "thread_tag"), "a thread tag");
    bind(name, thread);
    return;
  }
  // n = T.int64(): a symbolic size, defined by the buffers that use it.
  if (const auto d = declared_size(v)) return declare_size(name, *d, function_level_);
  if (p == "T.meta_var") {  // a name for an expression, no variable
    bind(name, expr(need(v, 0, "value")));
    return;
  }
  if (v && v->kind == ExprKind::name && names_module(v->text) && !lookup(v->text)) {  // cls = Module
    module_names_.insert(name);
    return;
  }
  if ((p == "T.var" || p == "T.Var") && v->items.size() == 2) {
    bind(name, var(name, dtype_of(v->items[1])));
    return;
  }
  if (v && v->kind == ExprKind::call)
    if (std::optional<Item> item = scope_form(v, t, s)) {
      if (s->annotation) fail("T0221", "a buffer takes no annotation", s->annotation);
      out.push_back(*std::move(item));
      return;
    }
  if (!v) fail("T0221", fmt::format("`{}` is declared without a value", name), t);
  if (producer_of(v)) fail("T0225", fmt::format("tensor `{}` cannot be given a second name", v->text), v);
  if (is_buffer(v))
    fail("T0225", fmt::format("buffer `{}` cannot be given a second name", v->text), v,
         "use T.decl_buffer(shape, dtype, data=A.data)");
  DataType declared;
  const Ast* note = s->annotation;
  if (note && note->kind == ExprKind::subscript && path(note->items[0]) == "T.let") note = note->items[1];
  if (note && note->kind == ExprKind::call) note = note->items[0];
  if (note && path(note) == "T.let") note = nullptr;  // x: T.let = value
  if (note && note->kind == ExprKind::subscript && path(note->items[0]) == "T.Ptr") note = note->items[0];
  if (note) declared = path(note) == "T.Ptr" ? DataType::handle() : dtype_of(note);
  PrimExpr e = note ? expr_of(v, declared) : expr(v);
  if (note && e.dtype() != declared && e.dtype().is_integer() && declared.is_integer() &&
      e.dtype().lanes == declared.lanes)
    e = cast(declared, e);
  if (note && e.dtype() != declared)
    fail("T0230",
         fmt::format("`{}` of type {} is given a value of type {}", name, to_string(declared),
                     to_string(e.dtype())),
         v, "convert it with T.cast");
  VarRef x = var(name, e.dtype());
  bind(name, x);
  const Origin at = origin(s);
  out.push_back({{}, [x, e, at](Stmt body) -> Stmt { return with_origin(make<LetStmt>(x, e, body), at); }});
}

/// "text", or (kind, [parts]) as newer text has it.
std::string Converter::message_of(const Ast* a) {
  if (a->kind == ExprKind::string) return a->text;
  if (a->kind != ExprKind::tuple || a->items.size() != 2) return text_of(a, "a message");
  std::string out = text_of(a->items[0], "the kind of an error") + ": ";
  for (const Ast* part : items_of(a->items[1])) out += text_of(part, "a part of a message");
  return out;
}

void Converter::statement(const AstStmt* s, BlockParts* parts, std::vector<Item>& out) {
  auto evaluate = [&](const PrimExpr& e) { out.push_back({with_origin(make<Evaluate>(e), origin(s)), {}}); };
  switch (s->kind) {
    case StmtKind::pass:
    case StmtKind::failed:
      return;
    case StmtKind::expr: {
      if (is_docstring(s)) return;
      if (const std::string word = path(s->value); word == "break" || word == "continue") {
        return evaluate(tir::call({}, "tir." + word + "_loop", {}));
      }
      if (s->value->kind != ExprKind::call) fail("T0239", "this expression does nothing", s->value);
      if (is_captured_call(s->value)) return captured_statement(s->value, parts, out);
      if (directive(s, parts, out)) return;
      return evaluate(evaluated(s->value));
    }
    case StmtKind::assign:
      return assignment(s, parts, out);
    case StmtKind::for_:
      out.push_back({for_stmt(s, s->target, s->value), {}});
      return;
    case StmtKind::while_: {
      PrimExpr c;
      const bool ok = attempt(s, false, [&] { c = truth(s->value); });
      Stmt body = nested_body(s->body);
      if (!ok) throw Failed();
      out.push_back({with_origin(make<While>(c, body), origin(s)), {}});
      return;
    }
    case StmtKind::if_: {
      PrimExpr c;
      const bool ok = attempt(s, false, [&] { c = truth(s->value); });
      Stmt then_case = nested_body(s->body);
      Stmt else_case = s->orelse.empty() ? Stmt() : nested_body(s->orelse);
      if (!ok) throw Failed();
      auto n = with_origin(make<IfThenElse>(c, then_case, else_case), origin(s));
      out.push_back({n, {}});
      return;
    }
    case StmtKind::with:
      return with_stmt(s, parts, out);
    case StmtKind::assert_: {
      const PrimExpr c = truth(s->value);
      out.push_back(
          {make<AssertStmt>(c, s->target ? message_of(s->target) : std::string("assertion failed")), {}});
      return;
    }
    case StmtKind::return_:
      // Without a value it is that of success.
      return evaluate(tir::call(
          {}, "tir.ret", {s->value && !is_none(s->value) ? expr(s->value) : PrimExpr::int_imm(0, i32)}));
    default:
      fail("T0239", "this statement has no meaning in a tensor program", span(s));
  }
}

}  // namespace tenon::script
