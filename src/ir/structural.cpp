// SPDX-License-Identifier: Apache-2.0
// One comparison and one hash for everything made of fields. Both keep their own stack, and both take a node
// that several others hold once, so that their time grows with the graph of nodes and not with its paths.
#include "ir/structural.h"

#include <algorithm>
#include <cstring>
#include <unordered_map>
#include <unordered_set>

#include "ir/tir.h"

namespace tenon {
namespace {

bool is_variable(const Object* o) {
  return is_type_index<tir::Var>(o->type_index) || is_type_index<graph::Var>(o->type_index);
}

bool is_producer(const Object* o) { return is_type_index<tir::DataProducerNode>(o->type_index); }
/// A tensor expression's tensor counts as the declaration of a tensor that stands for it in text.
const TypeInfo* type_in_text(const Object* o) {
  return is_producer(o) ? type_info<tir::DataProducerNode>() : type_of(o);
}

/// No array, no map: the same as an empty one, because a builder may leave either.
bool is_nothing(const Any& a) {
  if (!a.is_object()) return a.is_none();
  if (is_type_index<ArrayObj>(a.tag())) return static_cast<const ArrayObj*>(a.object())->items.empty();
  if (is_type_index<MapObj>(a.tag())) return static_cast<const MapObj*>(a.object())->items.empty();
  return false;
}

/// Someone else holds the object beside its one owner and the walk: it can be met again without its owner.
bool is_shared(const Object* o) { return o->ref_count.load(std::memory_order_relaxed) > 2; }

/// The parts of one object in comparison order; `def` parts may pair fresh variables.
struct Part {
  Any value;
  bool def;
  std::string name;
};

void parts_of(const Object* o, bool def, std::vector<Part>& out, bool names) {
  if (is_type_index<ArrayObj>(o->type_index)) {
    const auto& items = static_cast<const ArrayObj*>(o)->items;
    for (size_t i = 0; i < items.size(); ++i)
      out.push_back({items[i], def, names ? "[" + std::to_string(i) + "]" : ""});
    return;
  }
  if (is_type_index<MapObj>(o->type_index)) {
    const auto& items = static_cast<const MapObj*>(o)->items;
    for (const auto& [k, v] : items) {
      const auto text = k.try_as<std::string>();
      out.push_back({k, def, "key"});
      out.push_back({v, def, names && text ? "." + *text : ""});
    }
    return;
  }
  const size_t first = out.size();
  for (const FieldInfo& f : type_in_text(o)->fields)
    if (f.role != FieldRole::ignored)
      out.push_back({f.get(o), def || f.role == FieldRole::def, names ? "." + std::string(f.name) : ""});
  // A closure may use the variable that it is bound to.
  if (is_type_index<graph::VarBindingNode>(o->type_index) &&
      static_cast<const graph::VarBindingNode*>(o)->value.is<graph::Function>())
    std::reverse(out.begin() + int64_t(first), out.end());
}

/// Maps with string keys compare by key, not by order: sorted copies of the items.
bool sorted_map(const Object* o, std::vector<Part>& out, bool names) {
  if (!is_type_index<MapObj>(o->type_index)) return false;
  auto items = static_cast<const MapObj*>(o)->items;
  for (auto& [k, v] : items)
    if (!k.try_as<std::string>()) return false;
  std::sort(items.begin(), items.end(), [](auto& a, auto& b) {
    return a.first.template as<std::string>() < b.first.template as<std::string>();
  });
  for (auto& [k, v] : items) {
    out.push_back({k, false, ".key"});
    out.push_back({v, false, names ? "." + k.as<std::string>() : ""});
  }
  return true;
}

// In a definition's position only variables that are declared there pair: domains and shapes below a
// definition are uses, except a symbolic dimension met for the first time in a parameter.
struct Task {
  Any a, b;
  bool def;
  int32_t parent;
  std::string name;
};

class Compare {
 public:
  Compare(bool map_free, bool names) : map_free_(map_free), names_(names) {}

  bool run(const Any& a, const Any& b) {
    stack_.push_back({a, b, false, -1, ""});
    while (!stack_.empty() || !computed_.empty()) {
      if (stack_.empty() || !stack_.back().def) {
        std::ranges::move(computed_, std::back_inserter(stack_));
        computed_.clear();
      }
      Task t = std::move(stack_.back());
      stack_.pop_back();
      if (waits(t)) {
        t.def = false;
        computed_.push_back(std::move(t));
        continue;
      }
      if (!step(t)) {
        if (names_) difference_ = path(t) + ": " + describe(t.a) + " vs " + describe(t.b);
        return false;
      }
    }
    return true;
  }
  std::string difference_;

 private:
  bool pair(const Object* x, const Object* y) {
    // What was equal because a variable stood for itself has to be compared again once it stands for another.
    if (x != y && (free_.contains(x) || free_.contains(y))) done_.clear();
    auto [ix, fx] = left_.emplace(x, y);
    auto [iy, fy] = right_.emplace(y, x);
    return ix->second == y && iy->second == x;
  }
  /// A size that is computed may come before the parameter whose size it is computed from.
  static bool waits(const Task& t) {
    const Object* x = t.def && t.a.is_object() ? t.a.object() : nullptr;
    return x && is_type_index<tir::PrimExprNode>(x->type_index) && !keeps_def(x);
  }
  /// Buffers that nothing here defines, as those of a load alone: other memory is another buffer.
  bool is_free_elsewhere(const Object* x, const Object* y) const {
    if (map_free_ || inside_function_) return false;
    const Object* data[] = {static_cast<const tir::BufferNode*>(x)->data.get(),
                            static_cast<const tir::BufferNode*>(y)->data.get()};
    return data[0] != data[1] && !left_.contains(data[0]) && !right_.contains(data[1]);
  }
  bool step(const Task& t) {
    if (is_nothing(t.a) && is_nothing(t.b)) return true;
    const bool producers =
        t.a.is_object() && t.b.is_object() && is_producer(t.a.object()) && is_producer(t.b.object());
    if (t.a.tag() != t.b.tag() && !producers) return false;
    if (!t.a.is_object()) {
      if (t.a.tag() == kFloat) {  // by bits, so that NaN equals itself and -0 differs from 0
        double x = t.a.as<double>(), y = t.b.as<double>();
        return std::memcmp(&x, &y, sizeof x) == 0 || (x != x && y != y);
      }
      return t.a.same_as(t.b);
    }
    const Object *x = t.a.object(), *y = t.b.object();
    if (is_variable(x)) {
      auto l = left_.find(x);
      auto r = right_.find(y);
      if (l != left_.end() || r != right_.end())
        return l != left_.end() && r != right_.end() && l->second == y && r->second == x;
      if (!(t.def || map_free_)) {
        if (x == y) free_.insert(x);
        return x == y;
      }
      if (!pair(x, y)) return false;
      push(x, y, t);
      return true;
    }
    // Identical subtrees are equal when no variable inside was paired with another one. Tensors without a
    // buffer are defined by the function they stand in, so inside one they pair like variables.
    if (x == y && left_.empty() && !inside_function_) return true;
    if (producers && !left_.contains(x)) {
      if (!inside_function_ && !map_free_) return x == y;
      return pair(x, y) && push(x, y, t);
    }
    if (is_type_index<tir::PrimFuncNode>(x->type_index)) inside_function_ = true;
    if (auto it = left_.find(x); it != left_.end()) return it->second == y && right_.at(y) == x;
    if (is_type_index<StringObj>(x->type_index))
      return static_cast<const StringObj*>(x)->value == static_cast<const StringObj*>(y)->value;
    if (is_type_index<NDArrayObj>(x->type_index)) {
      NDArray p(Ref<NDArrayObj>(static_cast<const NDArrayObj*>(x))),
          q(Ref<NDArrayObj>(static_cast<const NDArrayObj*>(y)));
      return x == y || (p.dtype() == q.dtype() && p.shape() == q.shape() && p.hash() == q.hash() &&
                        std::memcmp(p.data(), q.data(), p.byte_size()) == 0);
    }
    if (is_type_index<graph::Op>(x->type_index)) return x == y;
    const TypeInfo* info = type_of(x);
    if (info->fields.empty() && !is_type_index<ArrayObj>(x->type_index) &&
        !is_type_index<MapObj>(x->type_index))
      return x == y || is_type_index<graph::ObjectType>(x->type_index);
    // Buffers are compared once per pair: their variables pair where the buffer is first met.
    if (is_type_index<tir::BufferNode>(x->type_index)) {
      if (!t.def && is_free_elsewhere(x, y)) return false;
      if (!pair(x, y)) return false;
    }
    // Pairs only grow, so two nodes found equal once stay equal.
    if ((is_shared(x) || is_shared(y)) && !done_.insert({x, y, t.def}).second) return true;
    return push(x, y, t);
  }
  bool push(const Object* x, const Object* y, const Task& t) {
    std::vector<Part> p, q;
    if (!(sorted_map(x, p, names_) && sorted_map(y, q, names_))) {
      p.clear();
      q.clear();
      parts_of(x, t.def && keeps_def(x), p, names_);
      parts_of(y, t.def && keeps_def(y), q, names_);
    }
    if (p.size() != q.size()) return false;
    int32_t parent = -1;
    if (names_) {
      parent = int32_t(trail_.size());
      trail_.push_back({t.parent, t.name});
    }
    for (size_t i = p.size(); i-- > 0;)
      stack_.push_back({p[i].value, q[i].value, p[i].def && q[i].def, parent, p[i].name});
    return true;
  }
  // Definitions reach variables through arrays, maps, buffers, types, iterators; not through arithmetic.
  static bool keeps_def(const Object* x) {
    return !(is_type_index<tir::PrimExprNode>(x->type_index) && !is_type_index<tir::Var>(x->type_index)) &&
           !is_type_index<tir::RangeNode>(x->type_index);
  }
  std::string path(const Task& t) const {
    std::string p = t.name;
    for (int32_t i = t.parent; i >= 0; i = trail_[i].first) p = trail_[i].second + p;
    return p.empty() ? "root" : p[0] == '.' ? p.substr(1) : p;
  }
  static std::string describe(const Any& a) {
    if (auto i = a.try_as<int64_t>()) return std::to_string(*i);
    if (auto s = a.try_as<std::string>()) return '"' + *s + '"';
    if (auto d = a.try_as<DataType>()) return to_string(*d);
    return a.kind_name();
  }
  bool map_free_, names_, inside_function_ = false;
  std::vector<Task> stack_;
  std::vector<Task> computed_;  ///< sizes among definitions, compared behind them
  std::vector<std::pair<int32_t, std::string>> trail_;
  std::unordered_map<const Object*, const Object*> left_, right_;
  struct Met {
    const Object *x, *y;
    bool def;
    bool operator==(const Met&) const = default;
  };
  struct MetHash {
    size_t operator()(const Met& m) const {
      return std::hash<const Object*>()(m.x) * 31 + std::hash<const Object*>()(m.y) * 2 + m.def;
    }
  };
  std::unordered_set<Met, MetHash> done_;   // compared, or being compared: a difference ends the whole walk
  std::unordered_set<const Object*> free_;  // variables that stood for themselves
};

uint64_t mix(uint64_t h, uint64_t v) {
  h ^= v + 0x9e3779b97f4a7c15ull + (h << 12) + (h >> 4);
  h *= 0xff51afd7ed558ccdull;
  return h ^ (h >> 29);
}
uint64_t hash_text(std::string_view s) {
  uint64_t h = 14695981039346656037ull;
  for (unsigned char c : s) h = (h ^ c) * 1099511628211ull;
  return h;
}

}  // namespace

bool structural_equal(const ObjectRef& a, const ObjectRef& b, bool map_free) {
  return Compare(map_free, false).run(Any(a), Any(b));
}

std::string first_difference(const ObjectRef& a, const ObjectRef& b, bool map_free) {
  Compare c(map_free, true);
  return c.run(Any(a), Any(b)) ? "" : c.difference_;
}

// Bottom-up. Variables and buffers count by the order in which they are first met, which sharing does not
// change: a node met again brings no new ones, and so has the hash that it had.
// A free variable that may not be mapped is only equal to itself; counting it by order keeps equal objects
// equal, which is all that a hash owes.
uint64_t structural_hash(const ObjectRef& root, bool) {
  struct Frame {
    Any value;
    std::vector<Part> parts;
    size_t next;
    uint64_t h;
    bool keep;
  };
  std::vector<Frame> stack;
  std::unordered_map<const Object*, uint64_t> known;
  uint64_t numbered = 0, result = 0;
  // Leaves and what is known end in `result`; anything else begins a frame.
  auto enter = [&](Any a) {
    if (is_nothing(a)) a = Any();
    if (!a.is_object()) {
      if (auto d = a.try_as<DataType>())
        result = hash_text(to_string(*d));
      else if (a.tag() == kFloat) {
        double v = a.as<double>();
        uint64_t bits;
        std::memcpy(&bits, &v, 8);
        result = mix(kFloat, v != v ? 0x7ff8 : bits);
      } else
        result = mix(a.tag(), a.is_none() ? 0 : uint64_t(a.as<int64_t>()));
      return true;
    }
    const Object* o = a.object();
    if (auto it = known.find(o); it != known.end()) {
      result = it->second;
      return true;
    }
    uint64_t h = hash_text(type_in_text(o)->key);
    if (is_type_index<StringObj>(o->type_index)) {
      result = mix(h, hash_text(static_cast<const StringObj*>(o)->value));
      return true;
    }
    if (is_type_index<NDArrayObj>(o->type_index)) {
      result = mix(h, NDArray(Ref<NDArrayObj>(static_cast<const NDArrayObj*>(o))).hash());
      return true;
    }
    if (is_type_index<graph::Op>(o->type_index)) {
      result = mix(h, hash_text(static_cast<const graph::Op*>(o)->name));
      return true;
    }
    const bool binds = is_variable(o) || is_producer(o) || is_type_index<tir::BufferNode>(o->type_index);
    if (binds) h = mix(h, ++numbered);
    std::vector<Part> parts;
    if (!sorted_map(o, parts, false)) {
      parts.clear();
      parts_of(o, false, parts, false);
    }
    h = mix(h, parts.size());
    const bool keep = binds || is_shared(o);
    stack.push_back({std::move(a), std::move(parts), 0, h, keep});
    return false;
  };
  enter(Any(root));
  while (!stack.empty()) {
    Frame& top = stack.back();
    if (top.next < top.parts.size()) {
      if (enter(std::move(top.parts[top.next++].value))) stack.back().h = mix(stack.back().h, result);
      continue;
    }
    result = top.h;
    if (top.keep) known.emplace(top.value.object(), result);
    stack.pop_back();
    if (!stack.empty()) stack.back().h = mix(stack.back().h, result);
  }
  return result;
}

}  // namespace tenon
