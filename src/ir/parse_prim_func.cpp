// SPDX-License-Identifier: Apache-2.0
// Tensor programs as functions: the signature, buffers and their attributes, the root block.
#include <fmt/format.h>

#include "ir/memory_plan.h"
#include "ir/memory_scope.h"
#include "ir/parse_impl.h"

namespace tenon::script {
using namespace tir;

// ---------------------------------------------------------------- buffers
void Converter::buffer_fields(BufferNode* b, const Ast* shape, const Ast* dtype, const Ast* at) {
  for (const Ast* d : items_of(shape)) {
    const PrimExpr e = expr(d);
    if (!e.dtype().is_integer())
      fail("T0230", fmt::format("a dimension has type {}, not an integer", to_string(e.dtype())), d);
    if (const auto size = as_int(e); size && *size < 0) fail("T0224", "a dimension is negative", d);
    b->shape.push_back(e);
  }
  b->dtype = dtype ? dtype_of(dtype) : f32;
  if (b->dtype.is_void()) fail("T0224", "a buffer has a data type", at);
  if (graph::beyond_memory(b->shape, b->dtype))  // its name is known all the same
    problems_.add("T0401", fmt::format("buffer `{}` takes more than 2^62 bytes", b->name), span(at));
}

/// `call(first…, shape, dtype, data, strides, elem_offset, scope, align, offset_factor, buffer_type,
/// axis_separators)`.
Buffer Converter::buffer_decl(const std::string& name, const Ast* call, size_t first,
                              std::initializer_list<std::string_view> more) {
  auto node = make<BufferNode>();
  BufferNode* b = node.edit();
  b->name = name;
  if (call->kind == ExprKind::subscript) {  // T.Buffer[(128, 128), "float32"]
    if (call->items.size() > 3)
      fail("T0223", "T.Buffer[…] takes a shape and a data type", call, "write T.Buffer((…), \"float32\", …)");
    buffer_fields(b, call->items[1], call->items.size() > 2 ? call->items[2] : nullptr, call);
    b->data = var(name, DataType::handle());
    return node;
  }
  static constexpr std::string_view own[] = {
      "shape", "dtype",         "data",        "strides",         "elem_offset",   "scope",
      "align", "offset_factor", "buffer_type", "axis_separators", "storage_scope", "type"};
  if (call->items.size() - 1 > first + 10) fail("T0223", "too many arguments for a buffer", call);
  for (const auto& [n, v] : call->named)
    if ((n == "layout" || n == "allocated_addr") && !is_none(v))
      fail("T0213", fmt::format("`{}` of a buffer belongs to the thread-tile dialect, which is not read", n),
           v);
    else if (n != "layout" && n != "allocated_addr" &&
             std::find(std::begin(own), std::end(own), n) == std::end(own) &&
             std::find(more.begin(), more.end(), n) == more.end())
      fail("T0223", fmt::format("`{}` has no argument `{}`", path(call->items[0]), n), v);
  auto get = [&](size_t i) -> const Ast* {
    const Ast* a = argument(call, first + i, own[i]);
    return is_none(a) ? nullptr : a;
  };
  if (first == 1 && !argument(call, first, "shape") && call->items[1]->kind == ExprKind::subscript) {
    const BufferRegion source = region(call->items[1]);  // T.match_buffer(A[8:16, 0:4]): all of the region
    b->shape = source->region.map([](const Range& r) { return r->extent; });
    b->dtype = get(1) ? dtype_of(get(1)) : source->buffer->dtype;
  } else {
    buffer_fields(b, need(call, first, "shape"), get(1), call);
  }
  if (const Ast* data = get(2)) {
    b->data = variable(data);
    if (!b->data->dtype.is_handle()) fail("T0230", "a buffer's pointer is a handle", data);
  } else {
    b->data = var(name, DataType::handle());
  }
  if (const Ast* strides = get(3))  // ("s0", "s1"): variables that the buffer defines
    for (const Ast* d : items_of(strides))
      b->strides.push_back(d->kind == ExprKind::string ? quoted_size(d) : expr(d));
  if (const Ast* offset = get(4)) b->elem_offset = expr(offset);
  const Ast* scope = get(5) ? get(5) : named(call, "storage_scope");
  if (scope) b->scope = text_of(scope, "a scope");
  if (scope && !b->scope.empty() && !known_memory_scope(b->scope))
    problems_.add("T0320", fmt::format("\"{}\" is no memory", b->scope), span(scope), known_memories());
  if (b->scope.empty()) b->scope = "global";
  if (const Ast* align = get(6)) {
    b->align = integer_of(align, "an alignment");
    if (b->align == -1) b->align = 64;
    if (b->align <= 0 || (b->align & (b->align - 1))) fail("T0224", "an alignment is a power of two", align);
  }
  if (const Ast* factor = get(7); factor && integer_of(factor, "a factor of offsets") < 0)
    fail("T0224", "a factor of offsets is 0 or more", factor);
  if (const Ast* type = get(8)) {
    const std::string kind = is_none(type) ? "" : text_of(type, "a kind of buffer");
    if (!kind.empty() && kind != "default" && kind != "auto_broadcast" && kind != "auto")
      fail("T0224", fmt::format("\"{}\" is no kind of buffer: default or auto", kind), type);
  }
  if (const Ast* separators = get(9))
    for (const Ast* i : items_of(separators))
      b->axis_separators.push_back(integer_of(i, "an axis separator"));
  if (!b->strides.empty() && b->strides.size() != b->shape.size())
    fail("T0233",
         fmt::format("the buffer has {} dimensions and {} strides", b->shape.size(), b->strides.size()),
         call);
  return node;
}

// ---------------------------------------------------------------- functions
PrimFunc Converter::prim_func(const AstStmt* s) {
  bool rootless = false;
  for (const Ast* d : s->decorators)
    if (d->kind == ExprKind::call && path(d->items[0]) == "T.prim_func")
      for (const auto& [n, v] : d->named) {
        if (n == "root")
          rootless = v->text == "False";
        else if (n != "private" && n != "check_well_formed" && n != "s_tir")
          fail("T0223", fmt::format("T.prim_func has no argument `{}`", n), v);
      }
  auto f = make<PrimFuncNode>();
  struct Current {
    PrimFuncNode*& slot;
    PrimFuncNode* old;
    ~Current() { slot = old; }
  } current{current_, current_};
  current_ = f.edit();
  function_level_ = int(levels_.size()) - 1;
  implicit_level_ = function_level_;
  saw_block_ = false;
  loop_ranges_.clear();
  std::unordered_set<std::string> seen;
  // Scalars first: a shape may use one that comes later.
  auto head = [&](const AstParam& p) -> const Ast* {
    const Ast* a = p.annotation;
    return a && (a->kind == ExprKind::call || a->kind == ExprKind::subscript) ? a->items[0] : a;
  };
  bool ok = true;
  for (const AstParam& p : s->params) {
    const Span where{tree_->source, p.begin, p.end};
    if (!seen.insert(p.name).second) {
      problems_.add("T0212", fmt::format("parameter `{}` is defined twice", p.name), where);
      ok = false;
    }
    const Ast* h = head(p);
    const std::string kind = h ? path(h) : "T.handle";
    VarRef v;
    if (kind == "T.Buffer")
      v = var(p.name + "_handle", DataType::handle());
    else {
      DataType t = DataType::handle();
      const bool known =
          kind == "T.Ptr" || (kind.starts_with("T.") && parse_dtype(spelled_function(kind.substr(2)), &t));
      if (!known) {
        problems_.add("T0224", fmt::format("parameter `{}` has no type of tensor programs", p.name),
                      h ? span(h) : where, "T.Buffer((…), \"float32\"), T.handle, T.int64, …");
        ok = false;
        bind(p.name, make<PoisonObj>());
        continue;
      }
      v = var(p.name, t);
      bind(p.name, v);
    }
    current_->params.push_back(v);
  }
  size_t index = 0;
  for (const AstParam& p : s->params) {
    if (!ok) break;
    const VarRef v = current_->params[index++];
    const Ast* h = head(p);
    if (!h || path(h) != "T.Buffer") continue;
    if (p.annotation == h) {
      problems_.add("T0224", fmt::format("buffer `{}` has no shape", p.name), span(h));
      bind(p.name, make<PoisonObj>());
      continue;
    }
    if (!attempt(span(p.annotation), [&] {
          Buffer b = buffer_decl(p.name, p.annotation, 0);
          current_->buffer_map.set(v, b);
          bind(p.name, b);
        }))
      bind(p.name, make<PoisonObj>());
  }
  implicit_level_ = -1;
  if (s->annotation && !is_none(s->annotation))
    attempt(span(s->annotation), [&] {
      current_->ret_type =
          dtype_of(s->annotation->kind == ExprKind::call ? s->annotation->items[0] : s->annotation);
    });

  BlockParts parts;
  parts.function = true;
  Stmt body = block_body(s->body, &parts);
  // Parameters in order, whether declared in the signature or matched.
  Map<VarRef, Buffer> ordered;
  for (const VarRef& p : current_->params)
    if (auto b = current_->buffer_map.find(p)) ordered.set(p, *b);
  current_->buffer_map = ordered;
  const auto* realize = body.as<BlockRealize>();
  const bool single = realize && realize->block->iter_vars.empty();
  const bool says = !parts.alloc_buffers.empty() || !parts.annotations.empty() || parts.init ||
                    !parts.match_buffers.empty() || parts.reads || parts.writes || parts.predicate;
  if (says || (saw_block_ && !single && !rootless)) {
    auto root = make<Block>(Array<IterVar>(), parts.reads.value_or(Array<BufferRegion>()),
                            parts.writes.value_or(Array<BufferRegion>()), std::string("root"), body,
                            parts.init, parts.alloc_buffers, parts.match_buffers, parts.annotations);
    body = make<BlockRealize>(Array<PrimExpr>(), parts.predicate ? parts.predicate : true_(), root);
  }
  current_->body = body;
  check_private(s, current_->attrs);
  return f;
}

}  // namespace tenon::script
