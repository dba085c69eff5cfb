// SPDX-License-Identifier: Apache-2.0
// The generic walker: compiled once, driven by the field lists, with its own stack.
#include "ir/walk.h"

#include <algorithm>
#include <array>
#include <unordered_set>

#include "ir/tir.h"
#include "ir/verify_impl.h"

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

/// Addresses of objects and a number for each, by open addressing; the first few without memory from the
/// heap. Programs of millions of nodes are walked by every pass: what a node costs here is what a walk costs.
class NodeTable {
 public:
  NodeTable() : slots_(few_.data()) {}
  NodeTable(const NodeTable&) = delete;
  NodeTable& operator=(const NodeTable&) = delete;

  static constexpr uint32_t kNone = ~uint32_t(0);
  uint32_t find(const Object* o) const {
    for (size_t i = home(o);; i = (i + 1) & mask_) {
      if (slots_[i].key == o) return slots_[i].value;
      if (!slots_[i].key) return kNone;
    }
  }
  /// False when o is there already.
  bool insert(const Object* o, uint32_t value) {
    size_t i = home(o);
    for (; slots_[i].key; i = (i + 1) & mask_)
      if (slots_[i].key == o) return false;
    slots_[i] = {o, value};
    if (++size_ * 2 > mask_ + 1) grow();
    return true;
  }

 private:
  struct Slot {
    const Object* key = nullptr;
    uint32_t value = 0;
  };
  size_t home(const Object* o) const {
    return size_t((uint64_t(reinterpret_cast<uintptr_t>(o)) * 0x9e3779b97f4a7c15ull) >> 32) & mask_;
  }
  void grow() {
    std::vector<Slot> larger((mask_ + 1) * 4);
    const Slot* old = slots_;
    const size_t n = mask_ + 1;
    mask_ = larger.size() - 1;
    slots_ = larger.data();
    for (size_t k = 0; k < n; ++k) {
      if (!old[k].key) continue;
      size_t i = home(old[k].key);
      while (slots_[i].key) i = (i + 1) & mask_;
      slots_[i] = old[k];
    }
    many_ = std::move(larger);  // moving a vector keeps its items where they are
  }

  std::array<Slot, 32> few_{};
  std::vector<Slot> many_;
  Slot* slots_;
  size_t mask_ = 31, size_ = 0;
};

/// May be met a second time: held more than once. Of what is held once there is one way only.
bool shared(const Object* o) { return o->ref_count.load(std::memory_order_relaxed) > 1; }

/// Visited nodes of a walk.
class Seen {
 public:
  bool first(const Object* o) { return !shared(o) || table_.insert(o, 0); }

 private:
  NodeTable table_;
};

/// What became of the objects of a walk. Of an object that is held once and stayed as it is nothing is kept.
class Memo {
 public:
  bool has(const Object* o) const { return table_.find(o) != NodeTable::kNone; }
  /// What replaces o, or null when it stays.
  const ObjectRef* changed(const Object* o) const {
    const uint32_t k = table_.find(o);
    return k == NodeTable::kNone || k == kSame ? nullptr : &values_[k];
  }
  void set(const Object* o, bool is_shared, ObjectRef to) {
    if (to.get() == o) {
      if (is_shared) table_.insert(o, kSame);
      return;
    }
    table_.insert(o, uint32_t(values_.size()));
    values_.push_back(std::move(to));
  }

 private:
  static constexpr uint32_t kSame = NodeTable::kNone - 1;
  NodeTable table_;
  std::vector<ObjectRef> values_;
};

Any mapped(const Any& a, const Memo& memo) {
  const ObjectRef* to = a.is_object() ? memo.changed(a.object()) : nullptr;
  return to ? Any(*to) : a;
}

/// The object with what is below it replaced through the memo; itself when nothing changed.
ObjectRef rebuild(const Object* o, const Memo& memo) {
  auto differs = [&](const Any& a) { return a.is_object() && memo.changed(a.object()); };
  if (is_type_index<ArrayObj>(o->type_index)) {
    const auto& items = static_cast<const ArrayObj*>(o)->items;
    if (std::none_of(items.begin(), items.end(), differs)) return ref(o);
    auto copy = make<ArrayObj>();
    copy.edit()->items.reserve(items.size());
    for (const Any& a : items) copy.edit()->items.push_back(mapped(a, memo));
    return copy;
  }
  if (is_type_index<MapObj>(o->type_index)) {
    bool changed = false;
    for (const auto& [k, v] : static_cast<const MapObj*>(o)->items)
      changed = changed || differs(k) || differs(v);
    if (!changed) return ref(o);
    auto copy = make<MapObj>();
    for (const auto& [k, v] : static_cast<const MapObj*>(o)->items)
      map_detail::set(copy.edit(), mapped(k, memo), mapped(v, memo));
    return copy;
  }
  const TypeInfo* info = type_of(o);
  Object* copy = nullptr;
  ObjectRef keep;
  for (const FieldInfo& f : info->fields) {
    if (!f.is_ref) continue;
    const Object* c = f.ref(o)->get();
    const ObjectRef* to = c ? memo.changed(c) : nullptr;
    if (!to) continue;
    if (!copy) {
      copy = info->clone(o);
      keep = ObjectRef(copy);
    }
    f.set(copy, Any(*to));
  }
  if (!copy) return ref(o);
  if (info->finish) info->finish(copy);
  return keep;
}

/// Visitors recurse into it.
bool nests(uint32_t type) {
  return is_type_index<tir::StmtNode>(type) || is_type_index<tir::PrimExprNode>(type) ||
         is_type_index<graph::ExprNode>(type) || is_type_index<graph::TypeNode>(type);
}

struct Frame {
  const Object* node;
  bool entered;
};
struct RewriteFrame {
  const Object* node;
  bool entered, shared;
};

}  // namespace

void post_order(const ObjectRef& root, FunctionRef<void(const ObjectRef&)> f) {
  if (!root) return;
  Seen seen;
  std::vector<Frame> stack{{root.get(), false}};
  std::vector<const Object*> below;
  while (!stack.empty()) {
    Frame frame = stack.back();
    stack.pop_back();
    if (frame.entered) {
      if (is_node(frame.node)) f(ref(frame.node));
      continue;
    }
    if (!seen.first(frame.node)) continue;
    stack.push_back({frame.node, true});
    below.clear();
    push_below(frame.node, below);
    for (size_t i = below.size(); i-- > 0;) stack.push_back({below[i], false});
  }
}

void pre_order(const ObjectRef& root, FunctionRef<bool(const ObjectRef&)> f) {
  if (!root) return;
  Seen seen;
  std::vector<const Object*> stack{root.get()}, below;
  while (!stack.empty()) {
    const Object* node = stack.back();
    stack.pop_back();
    if (!seen.first(node)) continue;
    if (is_node(node) && !f(ref(node))) continue;
    below.clear();
    push_below(node, below);
    for (size_t i = below.size(); i-- > 0;) stack.push_back(below[i]);
  }
}

int nesting_of(const ObjectRef& root) {
  struct Chain {
    const Object* node;
    size_t below;  ///< what is left to look at: the objects from here on
    uint32_t longest;
  };
  if (!root) return 0;
  NodeTable known;  // of objects that may be met again
  std::vector<const Object*> below;
  std::vector<Chain> stack{{root.get(), 0, 0}};
  push_below(root.get(), below);
  for (;;) {
    Chain& top = stack.back();
    if (below.size() > top.below) {
      const Object* next = below.back();
      below.pop_back();
      const uint32_t length = shared(next) ? known.find(next) : NodeTable::kNone;
      if (length != NodeTable::kNone) {
        top.longest = std::max(top.longest, length);
      } else {
        stack.push_back({next, below.size(), 0});
        push_below(next, below);
      }
      continue;
    }
    const uint32_t length = top.longest + (nests(top.node->type_index) ? 1 : 0);
    if (shared(top.node)) known.insert(top.node, length);
    stack.pop_back();
    if (stack.empty()) return int(length);
    stack.back().longest = std::max(stack.back().longest, length);
  }
}

ObjectRef rewrite_any(const ObjectRef& root, FunctionRef<ObjectRef(const ObjectRef&)> f) {
  return rewrite_any(root, f, [](const ObjectRef&) { return false; });
}

ObjectRef rewrite_any(const ObjectRef& root, FunctionRef<ObjectRef(const ObjectRef&)> f,
                      FunctionRef<bool(const ObjectRef&)> skip) {
  if (!root) return root;
  Memo memo;
  std::vector<RewriteFrame> stack{{root.get(), false, shared(root.get())}};
  std::vector<const Object*> below;
  while (!stack.empty()) {
    const RewriteFrame frame = stack.back();
    stack.pop_back();
    if (frame.shared && memo.has(frame.node)) continue;
    if (!frame.entered) {
      if (is_node(frame.node) && skip(ref(frame.node))) {
        memo.set(frame.node, frame.shared, ref(frame.node));
        continue;
      }
      stack.push_back({frame.node, true, frame.shared});
      below.clear();
      push_below(frame.node, below);
      for (size_t i = below.size(); i-- > 0;) {
        const bool again = shared(below[i]);
        if (!again || !memo.has(below[i])) stack.push_back({below[i], false, again});
      }
      continue;
    }
    ObjectRef next = rebuild(frame.node, memo);
    if (!is_container(frame.node) && is_node(frame.node))
      if (ObjectRef replaced = f(next)) next = std::move(replaced);
    memo.set(frame.node, frame.shared, std::move(next));
  }
  const ObjectRef* out = memo.changed(root.get());
  return out ? *out : root;
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
  std::vector<RewriteFrame> stack;
  std::vector<const Object*> below;
  push_below(node.get(), below);
  for (const Object* o : below) stack.push_back({o, false, shared(o)});
  while (!stack.empty()) {
    const RewriteFrame frame = stack.back();
    stack.pop_back();
    if (frame.shared && memo.has(frame.node)) continue;
    if (!is_container(frame.node)) {
      memo.set(frame.node, frame.shared, is_node(frame.node) ? f(ref(frame.node)) : ref(frame.node));
    } else if (frame.entered) {
      memo.set(frame.node, frame.shared, rebuild(frame.node, memo));
    } else {
      stack.push_back({frame.node, true, frame.shared});
      below.clear();
      push_below(frame.node, below);
      for (const Object* o : below) stack.push_back({o, false, shared(o)});
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
