// SPDX-License-Identifier: Apache-2.0
// The generic walker: compiled once, driven by the field lists, with its own stack.
#include "ir/walk.h"

#include <algorithm>
#include <unordered_set>

namespace tenon {
namespace {

bool is_node(const Object* o) {
  const TypeInfo* info = type_of(o);
  return !info->fields.empty() || o->type_index == kTypeBase + 6 /* ObjectType: a node without fields */;
}

/// Objects directly below one: field handles, items of arrays, keys and values of maps.
void push_below(const Object* o, std::vector<const Object*>& out) {
  if (is_type_index<ArrayObj>(o->type_index)) {
    for (const Any& a : static_cast<const ArrayObj*>(o)->items)
      if (a.is_object()) out.push_back(a.object());
    return;
  }
  if (is_type_index<MapObj>(o->type_index)) {
    for (const auto& [k, v] : static_cast<const MapObj*>(o)->items) {
      if (k.is_object()) out.push_back(k.object());
      if (v.is_object()) out.push_back(v.object());
    }
    return;
  }
  for (const FieldInfo& f : type_of(o)->fields)
    if (f.is_ref)
      if (const Object* c = f.ref(o)->get()) out.push_back(c);
}

bool is_container(const Object* o) {
  return is_type_index<ArrayObj>(o->type_index) || is_type_index<MapObj>(o->type_index);
}

ObjectRef ref(const Object* o) { return ObjectRef(o); }

using Memo = std::unordered_map<const Object*, ObjectRef>;

Any mapped(const Any& a, const Memo& memo, bool& changed) {
  if (!a.is_object()) return a;
  auto it = memo.find(a.object());
  if (it == memo.end() || it->second.get() == a.object()) return a;
  changed = true;
  return Any(it->second);
}

/// The object with what is below it replaced through the memo; itself when nothing changed.
ObjectRef rebuild(const Object* o, const Memo& memo) {
  bool changed = false;
  if (is_type_index<ArrayObj>(o->type_index)) {
    auto copy = make<ArrayObj>();
    const auto& items = static_cast<const ArrayObj*>(o)->items;
    copy.mut()->items.reserve(items.size());
    for (const Any& a : items) copy.mut()->items.push_back(mapped(a, memo, changed));
    return changed ? ObjectRef(copy) : ref(o);
  }
  if (is_type_index<MapObj>(o->type_index)) {
    auto copy = make<MapObj>();
    for (const auto& [k, v] : static_cast<const MapObj*>(o)->items) {
      Any key = mapped(k, memo, changed), value = mapped(v, memo, changed);
      map_detail::set(copy.mut(), std::move(key), std::move(value));
    }
    return changed ? ObjectRef(copy) : ref(o);
  }
  const TypeInfo* info = type_of(o);
  Object* copy = nullptr;
  ObjectRef keep;
  for (const FieldInfo& f : info->fields) {
    if (!f.is_ref) continue;
    const Object* c = f.ref(o)->get();
    if (!c) continue;
    auto it = memo.find(c);
    if (it == memo.end() || it->second.get() == c) continue;
    if (!copy) {
      copy = info->clone(o);
      keep = ObjectRef(copy);
    }
    f.set(copy, Any(it->second));
  }
  if (!copy) return ref(o);
  if (info->finish) info->finish(copy);
  return keep;
}

struct Frame {
  const Object* node;
  bool entered;
};

}  // namespace

void post_order(const ObjectRef& root, FunctionRef<void(const ObjectRef&)> f) {
  if (!root) return;
  std::unordered_set<const Object*> seen;
  std::vector<Frame> stack{{root.get(), false}};
  std::vector<const Object*> below;
  while (!stack.empty()) {
    Frame frame = stack.back();
    stack.pop_back();
    if (frame.entered) {
      if (is_node(frame.node)) f(ref(frame.node));
      continue;
    }
    if (!seen.insert(frame.node).second) continue;
    stack.push_back({frame.node, true});
    below.clear();
    push_below(frame.node, below);
    for (size_t i = below.size(); i-- > 0;) stack.push_back({below[i], false});
  }
}

void pre_order(const ObjectRef& root, FunctionRef<bool(const ObjectRef&)> f) {
  if (!root) return;
  std::unordered_set<const Object*> seen;
  std::vector<const Object*> stack{root.get()}, below;
  while (!stack.empty()) {
    const Object* node = stack.back();
    stack.pop_back();
    if (!seen.insert(node).second) continue;
    if (is_node(node) && !f(ref(node))) continue;
    below.clear();
    push_below(node, below);
    for (size_t i = below.size(); i-- > 0;) stack.push_back(below[i]);
  }
}

ObjectRef rewrite_any(const ObjectRef& root, FunctionRef<ObjectRef(const ObjectRef&)> f) {
  return rewrite_any(root, f, [](const ObjectRef&) { return false; });
}

ObjectRef rewrite_any(const ObjectRef& root, FunctionRef<ObjectRef(const ObjectRef&)> f,
                      FunctionRef<bool(const ObjectRef&)> skip) {
  if (!root) return root;
  Memo memo;
  std::vector<Frame> stack{{root.get(), false}};
  std::vector<const Object*> below;
  while (!stack.empty()) {
    Frame frame = stack.back();
    stack.pop_back();
    if (memo.count(frame.node)) continue;
    if (!frame.entered) {
      if (is_node(frame.node) && skip(ref(frame.node))) {
        memo.emplace(frame.node, ref(frame.node));
        continue;
      }
      stack.push_back({frame.node, true});
      below.clear();
      push_below(frame.node, below);
      for (size_t i = below.size(); i-- > 0;)
        if (!memo.count(below[i])) stack.push_back({below[i], false});
      continue;
    }
    ObjectRef next = rebuild(frame.node, memo);
    if (!is_container(frame.node) && is_node(frame.node))
      if (ObjectRef replaced = f(next)) next = replaced;
    memo.emplace(frame.node, next);
  }
  return memo.at(root.get());
}

std::vector<ObjectRef> children(const ObjectRef& node) {
  std::vector<ObjectRef> out;
  std::vector<const Object*> stack, below;
  push_below(node.get(), stack);
  std::reverse(stack.begin(), stack.end());
  while (!stack.empty()) {
    const Object* o = stack.back();
    stack.pop_back();
    if (!is_container(o)) {
      if (is_node(o)) out.push_back(ref(o));
      continue;
    }
    below.clear();
    push_below(o, below);
    stack.insert(stack.end(), below.rbegin(), below.rend());
  }
  return out;
}

ObjectRef map_children(const ObjectRef& node, FunctionRef<ObjectRef(const ObjectRef&)> f) {
  Memo memo;
  std::vector<Frame> stack;
  std::vector<const Object*> below;
  push_below(node.get(), below);
  for (const Object* o : below) stack.push_back({o, false});
  while (!stack.empty()) {
    Frame frame = stack.back();
    stack.pop_back();
    if (memo.count(frame.node)) continue;
    if (!is_container(frame.node)) {
      memo.emplace(frame.node, is_node(frame.node) ? f(ref(frame.node)) : ref(frame.node));
    } else if (frame.entered) {
      memo.emplace(frame.node, rebuild(frame.node, memo));
    } else {
      stack.push_back({frame.node, true});
      below.clear();
      push_below(frame.node, below);
      for (const Object* o : below) stack.push_back({o, false});
    }
  }
  return rebuild(node.get(), memo);
}

namespace tir {
namespace {
template <class T>
T typed(const ObjectRef& r) {
  T t;
  static_cast<Ref<typename T::element_type>&>(t) =
      Ref<typename T::element_type>(static_cast<const typename T::element_type*>(r.get()));
  return t;
}
}  // namespace

static ObjectRef substitute_any(const ObjectRef& e, const VarMap& map) {
  if (map.empty() || !e) return e;
  return rewrite_any(e, [&](const ObjectRef& n) -> ObjectRef {
    if (const auto* v = n.as<Var>())
      if (auto it = map.find(v); it != map.end()) return it->second;
    return {};
  });
}
PrimExpr substitute(const PrimExpr& e, const VarMap& map) { return typed<PrimExpr>(substitute_any(e, map)); }
Stmt substitute(const Stmt& s, const VarMap& map) { return typed<Stmt>(substitute_any(s, map)); }

Stmt replace_buffers(const Stmt& s, const BufferMap& map) {
  std::unordered_map<const Var*, VarRef> data;
  for (auto& [from, to] : map)
    if (from->data.get() != to->data.get()) data.emplace(from->data.get(), to->data);
  ObjectRef out = rewrite_any(
      s,
      [&](const ObjectRef& n) -> ObjectRef {
        if (const auto* v = n.as<Var>()) {
          auto it = data.find(v);
          return it == data.end() ? ObjectRef() : ObjectRef(it->second);
        }
        return {};
      },
      [&](const ObjectRef& n) { return n.is<BufferNode>() && map.count(n.as<BufferNode>()); });
  // A second walk, because the first must not rebuild the buffers that are replaced as a whole.
  out = rewrite_any(out, [&](const ObjectRef& n) -> ObjectRef {
    if (const auto* b = n.as<BufferNode>())
      if (auto it = map.find(b); it != map.end()) return it->second;
    return {};
  });
  return typed<Stmt>(out);
}

std::vector<VarRef> free_vars(const ObjectRef& e) {
  std::unordered_set<const Var*> defined;
  std::vector<VarRef> used;
  post_order(e, [&](const ObjectRef& n) {
    if (auto v = n.cast<Var>()) {
      used.push_back(v);
      return;
    }
    for (const FieldInfo& f : type_of(n)->fields) {
      if (f.role != FieldRole::def || !f.is_ref || !f.ref(n.get())->get()) continue;
      const ObjectRef& d = *f.ref(n.get());
      if (const auto* v = d.as<Var>())
        defined.insert(v);
      else
        post_order(d, [&](const ObjectRef& m) {
          if (const auto* v = m.as<Var>()) {
            // Under a definition only what is itself defined counts: iterators and data pointers, not their
            // domains.
            if (n.is<PrimFuncNode>() || n.is<CommReducerNode>()) defined.insert(v);
          } else if (const auto* i = m.as<IterVarNode>())
            defined.insert(i->var.get());
          else if (const auto* b = m.as<BufferNode>())
            defined.insert(b->data.get());
        });
    }
  });
  std::vector<VarRef> out;
  for (const VarRef& v : used)
    if (!defined.count(v.get()) && !(v->dtype.is_handle())) out.push_back(v);
  return out;
}

static ObjectRef rename(const ObjectRef& root) {
  // Everything defined inside: loop and let variables, iterators, and the data of allocated buffers.
  std::unordered_set<const Var*> defined;
  auto define = [&](const ObjectRef& d) {
    post_order(d, [&](const ObjectRef& m) {
      if (const auto* i = m.as<IterVarNode>())
        defined.insert(i->var.get());
      else if (const auto* b = m.as<BufferNode>()) {
        defined.insert(b->data.get());
      }
    });
    if (const auto* v = d.as<Var>()) defined.insert(v);
  };
  post_order(root, [&](const ObjectRef& n) {
    if (const auto* f = n.as<PrimFuncNode>()) {
      for (const VarRef& p : f->params) defined.insert(p.get());
      for (auto [p, b] : f->buffer_map) {
        defined.insert(b->data.get());
        for (const PrimExpr& d : b->shape)
          if (const auto* v = d.as<Var>()) defined.insert(v);
      }
      return;
    }
    if (n.is<CommReducerNode>()) {
      for (const VarRef& v : n.as<CommReducerNode>()->lhs) defined.insert(v.get());
      for (const VarRef& v : n.as<CommReducerNode>()->rhs) defined.insert(v.get());
    }
    for (const FieldInfo& f : type_of(n)->fields)
      if (f.role == FieldRole::def && f.is_ref && f.ref(n.get())->get() && !n.is<BufferNode>())
        define(*f.ref(n.get()));
  });
  return rewrite_any(root, [&](const ObjectRef& n) -> ObjectRef {
    const auto* v = n.as<Var>();
    return v && defined.count(v) ? ObjectRef(var(v->name, v->dtype)) : ObjectRef();
  });
}
PrimFunc rename_all(const PrimFunc& f) { return typed<PrimFunc>(rename(f)); }
Stmt rename_definitions(const Stmt& s) { return typed<Stmt>(rename(s)); }

PrimFunc specialize(const PrimFunc& f, const VarMap& values) {
  Array<VarRef> params;
  for (const VarRef& p : f->params)
    if (!values.count(p.get())) params.push_back(p);
  // One walk over the whole function, so that the body's buffers stay the parameters' buffers.
  PrimFunc rebuilt = f;
  rebuilt.edit()->params = params;
  return typed<PrimFunc>(substitute_any(rebuilt, values));
}
}  // namespace tir

}  // namespace tenon
