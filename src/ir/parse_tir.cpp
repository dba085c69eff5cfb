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
}  // namespace

// ---------------------------------------------------------------- sequences
void Converter::statements(const std::vector<const AstStmt*>& stmts, BlockParts* parts,
                           std::vector<Item>& out) {
  for (const AstStmt* s : stmts) {
    if (!attempt(span(s), [&] { statement(s, parts, out); })) {
      poison(s->target);
      if (s->kind == StmtKind::with)
        for (const Ast* t : s->targets) poison(t);
    }
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

// ---------------------------------------------------------------- blocks
void Converter::axis(const Ast* target, const Ast* call, BlockParts* parts) {
  if (!parts || parts->function)
    fail("T0235", "a block's iterators are declared directly in the block", call);
  const std::string kind = path(call->items[0]).substr(7);
  auto add = [&](const Ast* name, Range dom, PrimExpr value, IterKind k, std::string tag) {
    if (name->kind != ExprKind::name) fail("T0225", "a variable's name was expected", name);
    VarRef v = var(name->text, dom->extent.dtype());
    bind(v->name, v);
    parts->iter_vars.push_back(make<IterVarNode>(dom, v, k, std::move(tag)));
    if (value) parts->iter_values.push_back(value);
  };
  if (kind == "remap") {
    only(call, 2, {"kinds", "bindings"});
    const std::string kinds = text_of(need(call, 0, "kinds"), "the kinds");
    const auto values = items_of(need(call, 1, "bindings"));
    const auto names = items_of(target);
    if (kinds.size() != names.size() || values.size() != names.size())
      fail("T0234",
           fmt::format("{} iterators are given {} kinds and {} values", names.size(), kinds.size(),
                       values.size()),
           call);
    for (size_t i = 0; i < names.size(); ++i) {
      if (kinds[i] != 'S' && kinds[i] != 'R')
        fail("T0234", fmt::format("`{}` is no kind of iterator: S (spatial) or R (reduce)", kinds[i]), call);
      VarRef loop = variable(values[i]);
      auto it = loop_ranges_.find(loop.get());
      if (it == loop_ranges_.end())
        fail("T0234", fmt::format("`{}` is no loop variable, so remap cannot know its domain", loop->name),
             values[i], "use T.axis.spatial(extent, value)");
      add(names[i], it->second, loop, kinds[i] == 'S' ? IterKind::spatial : IterKind::reduce, "");
    }
    return;
  }
  static constexpr std::pair<std::string_view, IterKind> kinds[] = {{"spatial", IterKind::spatial},
                                                                    {"S", IterKind::spatial},
                                                                    {"reduce", IterKind::reduce},
                                                                    {"R", IterKind::reduce},
                                                                    {"scan", IterKind::scan},
                                                                    {"opaque", IterKind::opaque},
                                                                    {"thread_index", IterKind::thread_index}};
  for (auto [name, k] : kinds) {
    if (name != kind) continue;
    only(call, 2, {"dom", "value", "binding", "thread", "dtype"});
    const Ast *value = argument(call, 1, "value") ? argument(call, 1, "value") : named(call, "binding"),
              *tag = named(call, "thread");
    Range dom = range(need(call, 0, "dom"));
    PrimExpr v = value ? expr_of(value, dom->extent.dtype()) : PrimExpr();
    // A bare extent takes the type of the value bound to it.
    if (v && dom->extent.is<IntImm>() && v.dtype() != dom->extent.dtype() && v.dtype().is_integer() &&
        is_zero(dom->min) && argument(call, 0, "dom")->kind == ExprKind::integer)
      dom = tir::range(PrimExpr::int_imm(0, v.dtype()), PrimExpr::int_imm(*as_int(dom->extent), v.dtype()));
    if (v && v.dtype() != dom->extent.dtype() && v.dtype().is_int() && dom->extent.dtype().is_int()) {
      if (v.dtype().bits < dom->extent.dtype().bits)
        v = cast(dom->extent.dtype(), v);
      else
        dom = tir::range(cast(v.dtype(), dom->min), cast(v.dtype(), dom->extent));
    }
    if (v && v.dtype() != dom->extent.dtype())
      fail("T0230",
           fmt::format("an iterator over {} is given a value of type {}", to_string(dom->extent.dtype()),
                       to_string(v.dtype())),
           call);
    return add(target, dom, v, k, tag ? text_of(tag, "a thread tag") : "");
  }
  fail("T0222", fmt::format("there is no `T.axis.{}`", kind), call, "spatial, reduce, scan, opaque or remap");
}

/// `with T.block("name"):`, and the older `with T.block([128, T.reduce_axis(0, 128)], "name") as [vi, vk]:`.
Stmt Converter::block_stmt(const AstStmt* s, const Ast* call, const Ast* as) {
  saw_block_ = true;
  Scope scope(*this);
  BlockParts parts;
  std::string name;
  only(call, 2, {"name_hint", "name", "no_realize"});
  const Ast* domains = nullptr;
  for (size_t i = 1; i < call->items.size(); ++i)
    if (call->items[i]->kind == ExprKind::string)
      name = call->items[i]->text;
    else
      domains = call->items[i];
  if (const Ast* n = named(call, "name_hint") ? named(call, "name_hint") : named(call, "name"))
    name = text_of(n, "a block's name");
  const Ast* bare = named(call, "no_realize");
  if (domains) {
    const auto list = items_of(domains);
    const auto names = as ? items_of(as) : std::vector<const Ast*>();
    if (names.size() != list.size())
      fail("T0234", fmt::format("the block has {} domains and {} names for them", list.size(), names.size()),
           call);
    for (size_t i = 0; i < list.size(); ++i) {
      IterKind kind = IterKind::spatial;
      Range dom;
      const std::string p = list[i]->kind == ExprKind::call ? path(list[i]->items[0]) : "";
      if (p == "T.reduce_axis" || p == "T.scan_axis" || p == "T.opaque_axis" || p == "reduce_axis") {
        kind = p == "T.scan_axis"     ? IterKind::scan
               : p == "T.opaque_axis" ? IterKind::opaque
                                      : IterKind::reduce;
        Value lo = value(need(list[i], 0, "begin")), hi = value(need(list[i], 1, "end"));
        unify(lo, hi, list[i]);
        dom = tir::range(lo.e, is_zero(lo.e) ? hi.e : hi.e - lo.e);
      } else {
        dom = range(list[i]);
      }
      VarRef v = var(names[i]->text, dom->extent.dtype());
      bind(v->name, v);
      parts.iter_vars.push_back(make<IterVarNode>(dom, v, kind, std::string()));
    }
    parts.iter_values.resize(list.size());
  }
  Stmt body = block_body(s->body, &parts);
  for (size_t i = 0; i < parts.iter_values.size(); ++i)
    if (!parts.iter_values[i])
      fail("T0234", fmt::format("iterator `{}` is never bound to a value", parts.iter_vars[i]->var->name),
           span(s), "write T.bind(iterator, value)");
  if (!bare && parts.iter_values.size() != parts.iter_vars.size())
    fail("T0234", "an iterator of the block is given no value", span(s),
         "write T.axis.spatial(extent, value)");
  Array<BufferRegion> reads, writes;
  const bool plain_root = name == "root" && parts.iter_vars.empty();
  if ((!parts.reads || !parts.writes) && !plain_root) infer_regions(parts, body, &reads, &writes);
  if (parts.reads) reads = *parts.reads;
  if (parts.writes) writes = *parts.writes;
  auto block = with_origin(make<Block>(parts.iter_vars, reads, writes, name, body, parts.init,
                                       parts.alloc_buffers, parts.match_buffers, parts.annotations),
                           origin(s));
  if (bare) return block;
  return with_origin(
      make<BlockRealize>(parts.iter_values, parts.predicate ? parts.predicate : true_(), block),
      block->origin);
}

// ---------------------------------------------------------------- loops
Stmt Converter::for_stmt(const AstStmt* s, const Ast* target, const Ast* iterable) {
  if (!iterable || iterable->kind != ExprKind::call)
    fail("T0236", "a loop runs over range(…), T.grid(…), T.serial(…), T.parallel(…), …",
         iterable ? span(iterable) : span(s));
  std::string p = path(iterable->items[0]);
  const auto names = items_of(target);
  struct Loop {
    Range dom;
    ForKind kind;
    std::string tag;
    AttrMap annotations;
  };
  std::vector<Loop> loops;
  if (p == "T.grid" || p == "grid") {
    for (size_t i = 1; i < iterable->items.size(); ++i)
      loops.push_back({range(iterable->items[i]), ForKind::serial, "", {}});
    if (!iterable->named.empty()) fail("T0223", "T.grid takes extents only", iterable);
  } else {
    static constexpr std::pair<std::string_view, ForKind> kinds[] = {
        {"range", ForKind::serial},
        {"T.serial", ForKind::serial},
        {"T.range", ForKind::serial},
        {"T.parallel", ForKind::parallel},
        {"T.vectorized", ForKind::vectorized},
        {"T.vectorize", ForKind::vectorized},
        {"T.unroll", ForKind::unrolled},
        {"T.unrolled", ForKind::unrolled},
        {"T.thread_binding", ForKind::thread_binding}};
    const auto* kind =
        std::find_if(std::begin(kinds), std::end(kinds), [&](auto& k) { return k.first == p; });
    if (kind == std::end(kinds))
      fail("T0236", fmt::format("`{}` is no kind of loop", p), iterable,
           "range, T.grid, T.serial, T.parallel, T.vectorized, T.unroll or T.thread_binding");
    const bool bound = kind->second == ForKind::thread_binding;
    only(iterable, bound ? 3 : 2, {"begin", "start", "end", "stop", "extent", "thread", "annotations"});
    const Ast *a = argument(iterable, 0, "begin"), *b = argument(iterable, 1, "end"),
              *n = named(iterable, "extent"),
              *thread = bound ? argument(iterable, 2, "thread") : named(iterable, "thread"),
              *notes = named(iterable, "annotations");
    if (b && b->kind == ExprKind::string && !thread) {
      thread = b;
      b = nullptr;
    }
    if (!b) b = named(iterable, "stop");
    if (!a && !n) fail("T0223", fmt::format("`{}` lacks its extent", p), iterable);
    Loop l{{}, kind->second, thread ? text_of(thread, "a thread tag") : "", notes ? dict(notes) : AttrMap()};
    if (a && b) {
      Value lo = value(a), hi = value(b);
      unify(lo, hi, iterable);
      l.dom = tir::range(lo.e, is_zero(lo.e) ? hi.e : hi.e - lo.e);
    } else if (n) {
      Value extent = value(n), lo = a ? value(a) : Value{PrimExpr(0), true};
      unify(lo, extent, iterable);
      l.dom = tir::range(lo.e, extent.e);
    } else {
      l.dom = range(a);
    }
    loops.push_back(std::move(l));
  }
  if (names.size() != loops.size())
    fail("T0236", fmt::format("the loop has {} variables over {} domains", names.size(), loops.size()),
         target);
  Scope scope(*this);
  std::vector<VarRef> vars;
  for (size_t i = 0; i < names.size(); ++i) {
    if (names[i]->kind != ExprKind::name) fail("T0225", "a loop variable is a name", names[i]);
    if (!loops[i].dom->extent.dtype().is_integer())
      fail("T0230", fmt::format("a loop over {}", to_string(loops[i].dom->extent.dtype())), iterable);
    vars.push_back(var(names[i]->text, loops[i].dom->extent.dtype()));
    bind(vars.back()->name, vars.back());
    loop_ranges_[vars.back().get()] = loops[i].dom;
  }
  Stmt body = block_body(s->body, nullptr);
  for (size_t i = loops.size(); i-- > 0;) {
    auto loop = with_origin(make<For>(vars[i], loops[i].dom->min, loops[i].dom->extent, loops[i].kind, body,
                                      loops[i].tag, loops[i].annotations),
                            origin(s));
    body = loop;
  }
  return body;
}

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

// ---------------------------------------------------------------- scopes written flat or with `with`
std::optional<Converter::Item> Converter::scope_form(const Ast* call, const Ast* name, const AstStmt* s) {
  if (call->kind != ExprKind::call) return std::nullopt;
  const std::string p = path(call->items[0]);
  const Origin at = origin(s);
  auto named_target = [&] {
    if (!name || name->kind != ExprKind::name)
      fail("T0225", fmt::format("what `{}` makes needs a name", p), call);
    return name->text;
  };
  if (p == "T.allocate") {
    Ast declared = *call;  // the older order is (extents, dtype, scope)
    if (call->items.size() > 3 && call->items[3]->kind == ExprKind::string) {
      declared.items.resize(3);
      declared.named.emplace_back("scope", call->items[3]);
    }
    Buffer b = buffer_decl(named_target(), &declared, 0, {"annotations", "condition", "extents"});
    const Ast* notes = named(call, "annotations");
    AttrMap annotations = notes ? dict(notes) : AttrMap();
    bind(b->name, b);
    allocated_.insert(b.get());
    return Item{{}, [b, annotations, at](Stmt body) -> Stmt {
                  return with_origin(make<Allocate>(b, body, annotations), at);
                }};
  }
  if (p == "T.allocate_const") {
    const Ast* data = need(call, 0, "data");
    const bool bare = data->kind == ExprKind::list || data->kind == ExprKind::tuple;
    if (!bare && !(data->kind == ExprKind::call && path(data->items[0]).starts_with("I.ndarray")))
      fail("T0224", "constant data is written I.ndarray(values, dtype), or as a list of numbers", data);
    Ast list;  // as I.ndarray has it
    list.items = {call->items[0], data, need(call, 1, "dtype")};
    list.named = {
        {"shape", argument(call, 2, "extents") ? argument(call, 2, "extents") : need(call, 2, "shape")}};
    NDArray values = ndarray(bare ? &list : data);
    Ast declared = *call;  // the older order is (data, dtype, shape)
    if (bare) declared.items = {call->items[0], data, list.named[0].second, list.items[2]};
    Buffer b = buffer_decl(named_target(), &declared, 1, {"extents", "annotations"});
    bind(b->name, b);
    return Item{{}, [b, values](Stmt body) -> Stmt { return make<AllocateConst>(b, values, body); }};
  }
  if (p == "T.Buffer" && !argument(call, 2, "data")) {  // what follows defines it: T.realize, or an attribute
    const Buffer b = buffer_decl(named_target(), call, 0);
    bind(b->name, b);
    return Item{{}, [](Stmt body) -> Stmt { return body; }};
  }
  if (p == "T.decl_buffer" || p == "T.buffer_decl" || p == "T.Buffer") {
    Buffer b;
    if (!name && call->items.size() == 2 && is_buffer(call->items[1]))
      b = buffer_of(call->items[1]);
    else {
      b = buffer_decl(named_target(), call, 0);
      const bool fresh = !argument(call, 2, "data");
      bind(b->name, b);
      if (fresh)
        return Item{
            {}, [b](Stmt body) -> Stmt { return make<Allocate>(b, make<DeclBuffer>(b, body), AttrMap()); }};
    }
    return Item{{}, [b, at](Stmt body) -> Stmt { return with_origin(make<DeclBuffer>(b, body), at); }};
  }
  if (p == "T.realize" && call->items.size() > 1 && call->items[1]->kind == ExprKind::subscript) {
    only(call, 3, {"storage_scope", "condition"});
    const BufferRegion r = region(call->items[1]);
    const Ast *scope = argument(call, 1, "storage_scope"), *condition = argument(call, 2, "condition");
    if (scope && !text_of(scope, "a scope").empty() && scope->text != r->buffer->scope)
      fail("T0235", fmt::format("buffer `{}` is declared in scope \"{}\"", r->buffer->name, r->buffer->scope),
           scope);
    const PrimExpr c = condition ? truth(condition) : true_();
    return Item{{}, [r, c](Stmt body) -> Stmt { return make<BufferRealize>(r->buffer, r->region, c, body); }};
  }
  if (p == "T.realize") {
    Buffer b = buffer_decl(named_target(), call, 0, {"bounds", "condition"});
    const Ast *bounds = named(call, "bounds"), *condition = named(call, "condition");
    Array<Range> ranges;
    if (bounds)
      for (const Ast* r : items_of(bounds)) ranges.push_back(range(r));
    else
      for (const PrimExpr& d : b->shape) ranges.push_back(tir::range(PrimExpr::int_imm(0, d.dtype()), d));
    if (ranges.size() != b->shape.size()) fail("T0233", "a realize has one bound for each dimension", call);
    PrimExpr c = condition ? truth(condition) : true_();
    bind(b->name, b);
    return Item{{}, [b, ranges, c](Stmt body) -> Stmt { return make<BufferRealize>(b, ranges, c, body); }};
  }
  if (p == "T.LetStmt" || p == "T.let") {
    const Ast* d = named(call, "dtype");
    const bool variable_first = call->items.size() == 3;
    const Ast* x = variable_first ? call->items[2] : need(call, 0, "value");
    if (const Ast* given = variable_first ? call->items[1] : named(call, "var")) {  // declared before
      const VarRef variable = this->variable(given);
      const PrimExpr v = expr_of(x, variable->dtype);
      return Item{{}, [variable, v, at](Stmt body) -> Stmt {
                    return with_origin(make<LetStmt>(variable, v, body), at);
                  }};
    }
    const std::string n = named_target();
    PrimExpr v = d ? expr_of(x, dtype_of(d)) : expr(x);
    VarRef variable = var(n, d ? dtype_of(d) : v.dtype());
    if (v.dtype() != variable->dtype)
      fail("T0230",
           fmt::format("`{}` of type {} is given a value of type {}", n, to_string(variable->dtype),
                       to_string(v.dtype())),
           x);
    bind(n, variable);
    return Item{{}, [variable, v, at](Stmt body) -> Stmt {
                  return with_origin(make<LetStmt>(variable, v, body), at);
                }};
  }
  if (p == "T.attr") {
    only(call, 3, {"node", "attr_key", "key", "value"});
    const Any node = any(need(call, 0, "node"));
    const std::string key =
        text_of(argument(call, 1, "key") ? argument(call, 1, "key") : need(call, 1, "attr_key"),
                "an attribute's key");
    const PrimExpr v = expr(need(call, 2, "value"));
    ObjectRef holder = node.try_as<ObjectRef>().value_or(ObjectRef());
    if (node.tag() == kInt) holder = PrimExpr(node.as<int64_t>());
    return Item{{}, [holder, key, v](Stmt body) -> Stmt { return make<AttrStmt>(holder, key, v, body); }};
  }
  if (p == "T.launch_thread") {
    const Ast* thread = need(call, 0, "thread");
    const PrimExpr extent = expr(need(call, 1, "extent"));
    IterVar iv;
    if (thread->kind == ExprKind::string) {
      VarRef v = var(named_target(), extent.dtype());
      bind(v->name, v);
      iv = make<IterVarNode>(tir::range(PrimExpr::int_imm(0, extent.dtype()), extent), v,
                             IterKind::thread_index, thread->text);
    } else {
      VarRef v = variable(thread);
      iv = make<IterVarNode>(tir::range(PrimExpr::int_imm(0, extent.dtype()), extent), v,
                             IterKind::thread_index, v->name);
    }
    return Item{
        {}, [iv, extent](Stmt body) -> Stmt { return make<AttrStmt>(iv, "thread_extent", extent, body); }};
  }
  return std::nullopt;
}

void Converter::with_stmt(const AstStmt* s, BlockParts* parts, std::vector<Item>& out) {
  // Several contexts on one line nest from left to right.
  Scope scope(*this);
  std::vector<Item> frames;
  for (size_t i = 0; i < s->contexts.size(); ++i) {
    const Ast *c = s->contexts[i], *as = s->targets[i];
    if (c->kind != ExprKind::call)
      fail("T0237", "after `with` stands T.block(…), T.init(), T.allocate(…), …", c);
    const std::string p = path(c->items[0]);
    const bool last = i + 1 == s->contexts.size();
    if (p == "T.init") {
      if (!parts || !last) fail("T0235", "T.init() stands directly in a block", c);
      if (parts->init) fail("T0235", "the block has two T.init()", c);
      parts->init = nested_body(s->body);
      return;
    }
    if (p == "T.block" || p == "T.sblock") {
      if (!last) fail("T0237", "nothing follows T.block(…) in one `with`", c);
      out.push_back({block_stmt(s, c, as), {}});
      break;
    }
    if (p == "T.grid" || p == "T.serial" || p == "T.parallel" || p == "T.vectorized" ||
        p == "T.unroll") {  // with T.grid(n) as i:
      if (!as || !last) fail("T0237", "a loop is written `for i in T.grid(n):`", c);
      out.push_back({for_stmt(s, as, c), {}});
      break;
    }
    if (p == "T.Assert" || p == "T.assert_") {
      Stmt check =
          make<AssertStmt>(truth(need(c, 0, "condition")), text_of(need(c, 1, "message"), "a message"));
      frames.push_back({{}, [check](Stmt body) { return tir::seq({check, body}); }});
    } else if (std::optional<Item> item = scope_form(c, as, s)) {
      frames.push_back(*std::move(item));
    } else {
      fail("T0237", fmt::format("`{}` cannot stand after `with`", p), c);
    }
    if (last) out.push_back({nested_body(s->body), {}});
  }
  for (size_t i = frames.size(); i-- > 0;) out.back().stmt = frames[i].wrap(out.back().stmt);
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
  if (p == "T.func_attr") {
    if (!current_ || levels_.size() - 1 != size_t(function_level_))
      fail("T0235", "T.func_attr stands directly in the function", c);
    for (auto [k, v] : dict(need(c, 0, "attrs"))) current_->attrs.set(k, v);
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
    for (auto [k, v] : dict(need(c, 0, "attrs"))) direct().annotations.set(k, v);
    return true;
  }
  if (p == "T.bind") {
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
    out.push_back({make<Evaluate>(expr(need(c, 0, "value"))), {}});
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
    if (!parts)
      fail("T0235", "T.alloc_buffer stands directly in a block or function", v,
           "inside loops use T.allocate");
    Buffer b = buffer_decl(name, v, 0);
    parts->alloc_buffers.push_back(b);
    bind(name, b);
    return;
  }
  if (p == "T.producer") return producer(name, v);
  if (p == "T.env_thread") {
    bind(name, var(name, i64));
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
  if (note && note->kind == ExprKind::call) note = note->items[0];
  if (note) declared = dtype_of(note);
  const PrimExpr e = note ? expr_of(v, declared) : expr(v);
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

void Converter::statement(const AstStmt* s, BlockParts* parts, std::vector<Item>& out) {
  switch (s->kind) {
    case StmtKind::pass:
    case StmtKind::failed:
      return;
    case StmtKind::expr: {
      if (is_docstring(s)) return;
      if (s->value->kind != ExprKind::call) fail("T0239", "this expression does nothing", s->value);
      if (is_captured_call(s->value)) return captured_statement(s->value, parts, out);
      if (directive(s, parts, out)) return;
      out.push_back({make<Evaluate>(expr(s->value)), {}});
      return;
    }
    case StmtKind::assign:
      return assignment(s, parts, out);
    case StmtKind::for_:
      out.push_back({for_stmt(s, s->target, s->value), {}});
      return;
    case StmtKind::while_: {
      const PrimExpr c = truth(s->value);
      out.push_back({make<While>(c, nested_body(s->body)), {}});
      return;
    }
    case StmtKind::if_: {
      PrimExpr c;
      const bool ok = attempt(span(s->value), [&] { c = truth(s->value); });
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
          {make<AssertStmt>(c, s->target ? text_of(s->target, "a message") : std::string("assertion failed")),
           {}});
      return;
    }
    case StmtKind::return_:
      if (s->value && !is_none(s->value))
        out.push_back({make<Evaluate>(tir::call({}, "tir.ret", {expr(s->value)})), {}});
      return;
    default:
      fail("T0239", "this statement has no meaning in a tensor program", span(s));
  }
}

}  // namespace tenon::script
