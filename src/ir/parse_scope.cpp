// SPDX-License-Identifier: Apache-2.0
// Statements of tensor programs that hold over what follows, or over the body of a `with`: memory, views,
// names, attributes, threads.
#include <fmt/format.h>

#include "ir/parse_impl.h"

namespace tenon::script {
using namespace tir;

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
    allocated_.insert(b.get());
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
  // x = T.bind(value) and T.bind(value, var=x) of newer text; T.bind(iterator, value) is a block's.
  const bool binds = p == "T.bind" && (name || named(call, "var"));
  if (p == "T.LetStmt" || p == "T.let" || binds) {
    const Ast* d = named(call, "dtype");
    const bool variable_first = call->items.size() == 3 && !binds;
    const Ast* x = variable_first ? call->items[2] : need(call, 0, "value");
    const Ast* of_type = named(call, "var");  // var=T.handle("float32"): a new variable
    if (of_type && of_type->kind == ExprKind::call) {
      d = of_type->items[0];
      of_type = nullptr;
    }
    if (const Ast* given = variable_first ? call->items[1] : of_type) {  // declared before
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
      // A thread that T.env_thread named: each launch has a variable of its own.
      const auto tag = thread_tags_.find(variable(thread).get());
      if (tag == thread_tags_.end())
        fail("T0225", fmt::format("`{}` is no thread of T.env_thread", thread->text), thread);
      const std::string thread_tag = tag->second;
      VarRef v = var(thread->text, extent.dtype());
      thread_tags_[v.get()] = thread_tag;
      bind(thread->text, v);
      iv = make<IterVarNode>(tir::range(PrimExpr::int_imm(0, extent.dtype()), extent), v,
                             IterKind::thread_index, thread_tag);
    }
    return Item{{}, [iv, extent, at](Stmt body) -> Stmt {
                  return with_origin(make<AttrStmt>(iv, "thread_extent", extent, body), at);
                }};
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

}  // namespace tenon::script
