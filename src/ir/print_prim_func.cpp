// SPDX-License-Identifier: Apache-2.0
// Script text of a tensor program as a whole: the signature, what is declared before the body, the root
// block.
#include <fmt/format.h>

#include "ir/find_node.h"
#include "ir/print_impl.h"
#include "ir/walk.h"

namespace tenon::print_detail {
using namespace tir;

/// Values of attributes may name parameters, in lists and maps.
static bool attributes_mention(const Any& value, const Object* what) {
  if (!value.is_object()) return false;
  const ObjectRef o(value.object());
  if (const auto* list = o.as<ArrayObj>()) {
    for (const Any& x : list->items)
      if (attributes_mention(x, what)) return true;
    return false;
  }
  if (const auto* map = o.as<MapObj>()) {
    for (const auto& [k, v] : map->items)
      if (attributes_mention(v, what)) return true;
    return false;
  }
  return o.get() == what || (!type_of(o)->fields.empty() && mentions(o, what));
}
static bool mentions(const PrimFunc& f, const Object* what) {
  for (const auto& [key, value] : f->attrs)
    if (attributes_mention(value, what)) return true;
  return mentions(ObjectRef(f->body), what);
}

/// Tensors without a buffer have no statement that makes them: they are declared first, in order of use.
void Printer::declare_producers(const Stmt& body) {
  std::unordered_set<const Object*> seen;
  if (!body) return;
  pre_order(body, [&](const ObjectRef& n) {
    const auto* load = n.as<ProducerLoad>();
    const auto* store = n.as<ProducerStore>();
    const DataProducer p = load ? load->producer : store ? store->producer : DataProducer();
    if (!p || !seen.insert(p.get()).second) return true;
    line();
    out_ += producer_name(p) + " = T.producer(";
    shape_tuple(p->shape);
    out_ += ", \"" + to_string(p->dtype) + "\")";
    return true;
  });
}

/// A buffer among the attributes is no parameter's.
static bool names_memory_of_body(const PrimFunc& f) {
  bool found = false;
  pre_order(ObjectRef(f->attrs), [&](const ObjectRef& n) {
    const auto* b = n.as<BufferNode>();
    if (!b) return true;
    bool given = false;
    for (const auto& [p, buffer] : f->buffer_map) given = given || buffer.get() == b;
    found = found || !given;
    return false;
  });
  return found;
}

void Printer::function_attrs(const AttrMap& attrs) {
  line();
  out_ += "T.func_attr(";
  map(attrs);
  out_ += ')';
}

void Printer::prim_func(const std::string& name, const PrimFunc& f) {
  // A root block that says nothing is left out, and put back when the text has blocks or alloc_buffer.
  const bool blocks = has_node<Block>(f->body, in_statements);
  auto zero_iter_block = [](const Stmt& s) {
    const auto* r = s.as<BlockRealize>();
    return r && r->block->iter_vars.empty();
  };
  const auto* realize = f->body.as<BlockRealize>();
  const Block* root = nullptr;
  if (realize && realize->iter_values.empty() && is_one(realize->predicate)) {
    const Block& b = *realize->block;
    const bool inner_blocks = has_node<Block>(b.body, in_statements);
    if (b.name == "root" && b.iter_vars.empty() && b.reads.empty() && b.writes.empty() &&
        b.match_buffers.empty() && b.annotations.empty() && !b.init &&
        (inner_blocks || !b.alloc_buffers.empty()) && (!zero_iter_block(b.body) || !b.alloc_buffers.empty()))
      root = &b;
  }
  const bool rootless = blocks && !zero_iter_block(f->body);
  out_ += rootless ? "@T.prim_func(root=False)" : "@T.prim_func";
  line();
  begins_here(f.get());
  out_ += "def " + name + "(";

  // Scalars are named first: a shape may use one that comes later.
  std::vector<std::pair<VarRef, Buffer>> matched;
  for (const VarRef& p : f->params) {
    auto b = f->buffer_map.find(p);
    const bool hidden = b && (*b)->data.get() != p.get() && !mentions(f, p.get());
    if (!hidden) names_.get(p.get(), p->name);
    if (b && !hidden) matched.emplace_back(p, *b);
    if (b && hidden) buffer_name(*b);
  }
  implicit_ = true;
  list(f->params, [&](const VarRef& p) {
    auto b = f->buffer_map.find(p);
    if (b && !names_.known(p.get())) {
      out_ += buffer_name(*b) + ": T.Buffer(";
      declare_buffer(*b);
      out_ += ')';
    } else {
      out_ += names_.get(p.get(), p->name) + ": T." + to_string(p->dtype);
    }
  });
  out_ += ')';
  if (!f->ret_type.is_void()) out_ += " -> T." + to_string(f->ret_type);
  out_ += ':';
  Indented in(*this);
  for (const auto& [p, b] : matched) {
    line();
    const std::string buffer = buffer_name(b);
    out_ += fmt::format("{} = T.match_buffer({}, ", buffer, names_.get(p.get(), p->name));
    declare_buffer(b);
    out_ += ')';
  }
  implicit_ = false;
  if (names_memory_of_body(f))
    late_attrs_ = &f->attrs;
  else if (!f->attrs.empty())
    function_attrs(f->attrs);
  declare_producers(f->body);
  if (!root) return sequence(f->body);
  line();
  out_ += "# with T.block(\"root\"):";
  for (const Buffer& a : root->alloc_buffers) {
    line();
    out_ += buffer_name(a) + " = T.alloc_buffer(";
    declare_buffer(a);
    out_ += ')';
  }
  sequence(root->body);
}

}  // namespace tenon::print_detail
