// SPDX-License-Identifier: Apache-2.0
// Objects: what crosses a boundary or sits in the IR. A header of 8 bytes (reference count, run-time type
// index), no virtual functions, so that nodes stay aggregates. The type table knows how to destroy, clone
// and read the fields of each type. Used by every stage.
#pragma once
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>
#include <type_traits>
#include <utility>

namespace tenon {

struct Object;
struct FieldInfo;
class FieldList;

/// What the process knows about one object type. Entries live for ever.
struct TypeInfo {
  uint32_t index = 0;     ///< this type's own index
  uint32_t end = 0;       ///< one past the slots reserved for child types: [index, end)
  bool overflow = false;  ///< some child was placed outside the reserved slots
  const TypeInfo* parent = nullptr;
  std::string_view key;  ///< for example "tir.Add"; unique
  void (*destroy)(Object*) = nullptr;
  Object* (*clone)(const Object*) = nullptr;  ///< shallow copy with reference count 0; null if not copyable
  void (*finish)(Object*) = nullptr;  ///< checks fields and derives what follows; null if nothing does
  Object* (*create)() = nullptr;      ///< default value with reference count 0; null if there is none
  std::span<const FieldInfo> fields;  ///< from the node's one field list; empty for opaque objects
};

/// The header of every object.
struct Object {
  mutable std::atomic<uint32_t> ref_count{0};
  uint32_t type_index = 0;

  static constexpr std::string_view type_key = "Object";
  Object() = default;
  Object(const Object& other) : type_index(other.type_index) {}  // a copy starts unreferenced
  Object& operator=(const Object&) { return *this; }
};

namespace type_table {
/// Registers a type; `index` 0 asks for a dynamic slot (inside the parent's range while there is room).
/// `reserve` is the number of child slots kept behind it. Registering the same key twice returns the first.
const TypeInfo* add(TypeInfo info, uint32_t reserve);
const TypeInfo* find(uint32_t index);
const TypeInfo* find(std::string_view key);                 ///< null if the key is unknown
bool is_derived(uint32_t index, const TypeInfo* ancestor);  ///< slow path: walks the parents
}  // namespace type_table

inline constexpr uint32_t kFirstObjectIndex = 64;  ///< below: plain values of Any
inline constexpr uint32_t kFirstStaticNodeIndex = 256;
inline constexpr uint32_t kFirstDynamicIndex = 2048;

template <class T>
const TypeInfo* type_info();

namespace detail {
template <class T>
struct parent_of {
  using type = Object;
};
template <class T>
  requires requires { typename T::parent_type; }
struct parent_of<T> {
  using type = typename T::parent_type;
};

template <class T>
constexpr uint32_t static_index() {
  // A member first: it inherits what its base says of the whole set.
  if constexpr (requires { typename T::node_set; })
    return T::node_set::template index_of<T>();
  else if constexpr (requires { T::node_set_first(); })
    return T::node_set_first();  // base of a closed set
  else
    return 0;
}
template <class T>
constexpr uint32_t child_slots() {
  if constexpr (requires { typename T::node_set; })
    return 0;
  else if constexpr (requires {
                       T::child_slots;
                       parent_of<T>::type::child_slots;
                     })
    // Inherited from the parent, it speaks of the parent's children.
    return static_cast<const void*>(&T::child_slots) == &parent_of<T>::type::child_slots ? 0 : T::child_slots;
  else if constexpr (requires { T::child_slots; })
    return T::child_slots;
  else
    return 0;
}
template <class T>
const TypeInfo* reflected_type();  // defined once, by DefineTypes (base/define_type.h)
void release(Object* object);      // runs the destructor through the deferred free list
}  // namespace detail

/// A node: lists its fields for reflection.
template <class T>
concept Reflected = requires(FieldList& f) { T::fields(f); };

namespace detail {
template <class T>
TypeInfo describe();
}  // namespace detail

/// The entry of T in the type table, registered on first use. For a node with fields it is defined once, by
/// `DefineTypes` in the .cpp file that owns the node.
template <class T>
const TypeInfo* type_info() {
  if constexpr (Reflected<T>) {
    return detail::reflected_type<T>();
  } else {
    static const TypeInfo* info = type_table::add(detail::describe<T>(), detail::child_slots<T>());
    return info;
  }
}

/// All of the entry but its fields.
template <class T>
TypeInfo detail::describe() {
  TypeInfo t;
  t.index = static_index<T>();
  t.key = T::type_key;
  if constexpr (!std::is_same_v<T, Object>) t.parent = type_info<typename parent_of<T>::type>();
  t.destroy = [](Object* o) { delete static_cast<T*>(o); };
  if constexpr (std::is_copy_constructible_v<T>)
    t.clone = [](const Object* o) -> Object* { return new T(*static_cast<const T*>(o)); };
  if constexpr (std::is_default_constructible_v<T>)
    t.create = []() -> Object* {
      auto* o = new T();
      o->type_index = type_info<T>()->index;
      return o;
    };
  if constexpr (requires(T& n) { n.finish(); }) t.finish = [](Object* o) { static_cast<T*>(o)->finish(); };
  return t;
}

template <class T>
bool is_type_index(uint32_t index) {
  if constexpr (std::is_same_v<T, Object>)
    return true;
  else if constexpr (detail::static_index<T>() != 0 && detail::child_slots<T>() == 0)
    return index == detail::static_index<T>();
  else {
    const TypeInfo* t = type_info<T>();
    if (index >= t->index && index < t->end) return true;
    return t->overflow && type_table::is_derived(index, t);
  }
}

/// What programs are made of: nodes, and what heads them. Others may hold the same one, so it changes through
/// `edit()`.
template <class T>
concept ChangesThroughEdit = Reflected<T> || std::is_same_v<T, Object> || requires { T::node_set_first(); };

/// The one smart handle. Null is allowed and means "none". Objects are shared and treated as immutable;
/// `edit()` copies unless this handle is the only one.
template <class T>
class Ref {
 public:
  using element_type = T;
  Ref() = default;
  Ref(std::nullptr_t) {}
  explicit Ref(const T* object) : object_(const_cast<T*>(object)) { retain(); }
  Ref(const Ref& other) : object_(other.object_) { retain(); }
  Ref(Ref&& other) noexcept : object_(std::exchange(other.object_, nullptr)) {}
  template <class U>
    requires std::is_base_of_v<T, U>
  Ref(const Ref<U>& other) : object_(const_cast<T*>(static_cast<const T*>(other.get()))) {
    retain();
  }
  template <class U>
    requires(std::is_base_of_v<T, U> && !std::is_same_v<T, U>)
  Ref(Ref<U>&& other) noexcept : object_(static_cast<T*>(other.leak())) {}
  ~Ref() { drop(); }
  Ref& operator=(const Ref& other) {
    Ref copy(other);
    std::swap(object_, copy.object_);
    return *this;
  }
  Ref& operator=(Ref&& other) noexcept {
    std::swap(object_, other.object_);
    return *this;
  }

  const T* get() const { return object_; }
  const T* operator->() const { return object_; }
  const T& operator*() const { return *object_; }
  explicit operator bool() const { return object_ != nullptr; }
  bool same_as(const Ref<Object>& other) const { return static_cast<const Object*>(object_) == other.get(); }
  uint32_t use_count() const { return object_ ? object_->ref_count.load(std::memory_order_relaxed) : 0; }

  template <class U>
  bool is() const {
    return object_ && is_type_index<U>(object_->type_index);
  }
  /// Borrowed pointer to the object as U, or null.
  template <class U>
  const U* as() const {
    return is<U>() ? static_cast<const U*>(object_) : nullptr;
  }
  /// Handle to the object as U, or a null handle.
  template <class U>
  Ref<U> cast() const {
    return Ref<U>(as<U>());
  }

  /// Copy on write: a mutable view of the object, cloned first when someone else holds it too. Through a
  /// handle that stays, as the clone is its own.
  T* edit() & {
    if (object_ && object_->ref_count.load(std::memory_order_acquire) != 1) {
      const TypeInfo* info = type_table::find(object_->type_index);
      *this = Ref(static_cast<T*>(info->clone(object_)));
    }
    return object_;
  }
  /// Mutable access without a copy, for types that are shared and mutable by design (runtime objects).
  T* mut() const
    requires(!ChangesThroughEdit<T>)
  {
    return object_;
  }
  T* leak() { return std::exchange(object_, nullptr); }  ///< gives up the reference without dropping it

 private:
  void retain() {
    if (object_) object_->ref_count.fetch_add(1, std::memory_order_relaxed);
  }
  void drop() {
    if (object_ && object_->ref_count.fetch_sub(1, std::memory_order_acq_rel) == 1) detail::release(object_);
  }
  T* object_ = nullptr;
};

using ObjectRef = Ref<Object>;

/// Creates a node from its fields in declaration order. A type with `finish()` has it called then: it
/// checks the fields and derives what follows from them (a dtype).
template <class T, class... Args>
Ref<T> make(Args&&... args) {
  T* object;
  if constexpr (requires { new T{{}, std::forward<Args>(args)...}; })
    object = new T{{}, std::forward<Args>(args)...};
  else
    object = new T(std::forward<Args>(args)...);
  object->type_index = type_info<T>()->index;
  Ref<T> ref(object);
  if constexpr (requires { object->finish(); }) object->finish();
  return ref;
}

/// A closed set of node types with consecutive static indices from `First`; listed once.
template <uint32_t First, class... Ts>
struct NodeSet {
  static constexpr uint32_t first = First;
  static constexpr uint32_t size = sizeof...(Ts);
  template <class T>
  static constexpr uint32_t index_of() {
    uint32_t i = First, found = 0;
    ((std::is_same_v<T, Ts> ? (found = i, ++i) : ++i), ...);
    return found;
  }
};

}  // namespace tenon
