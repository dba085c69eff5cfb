// SPDX-License-Identifier: Apache-2.0
// Any: a 16-byte tagged value that holds none, bool, int, float, data type, pointer or an object.
#pragma once
#include <cstring>
#include <optional>
#include <string>

#include "base/dtype.h"
#include "base/error.h"
#include "base/object.h"

namespace tenon {

/// Text as an object. Nodes hold std::string fields; String is text inside an Any.
struct StringObj : Object {
  static constexpr std::string_view type_key = "String";
  static constexpr uint32_t child_slots = 1;  // Bytes of other languages (ffi/objects.h)
  explicit StringObj(std::string value) : value(std::move(value)) {}
  std::string value;
};
using String = Ref<StringObj>;
extern template const TypeInfo* type_info<StringObj>();

enum AnyTag : uint32_t {
  kNone = 0,
  kBool = 1,
  kInt = 2,
  kFloat = 3,
  kDataType = 4,
  kPointer = 5
};  // ≥ 64: object

class Any {
 public:
  Any() = default;
  Any(std::nullptr_t) {}
  Any(bool v) : tag_(kBool) { u_.i = v; }
  template <class T>
    requires(std::is_integral_v<T> && !std::is_same_v<T, bool>)
  Any(T v) : tag_(kInt) {
    u_.i = static_cast<int64_t>(v);
  }
  Any(double v) : tag_(kFloat) { u_.d = v; }
  Any(DataType v) : tag_(kDataType) {
    u_.i = 0;
    std::memcpy(&u_.i, &v, sizeof v);
  }
  explicit Any(void* v) : tag_(kPointer) { u_.p = v; }
  Any(std::string_view v) : Any(make<StringObj>(std::string(v))) {}
  Any(const std::string& v) : Any(std::string_view(v)) {}
  Any(const char* v) : Any(std::string_view(v)) {}
  template <class T>
  Any(const Ref<T>& v) {
    set(const_cast<T*>(v.get()));
    retain();
  }
  template <class T>
  Any(Ref<T>&& v) {
    set(v.leak());
  }
  Any(const Any& other) : tag_(other.tag_), u_(other.u_) { retain(); }
  Any(Any&& other) noexcept : tag_(std::exchange(other.tag_, 0u)), u_(other.u_) {}
  Any& operator=(Any other) noexcept {
    std::swap(tag_, other.tag_);
    std::swap(u_, other.u_);
    return *this;
  }
  ~Any() {
    if (is_object() && u_.o->ref_count.fetch_sub(1, std::memory_order_acq_rel) == 1) detail::release(u_.o);
  }

  uint32_t tag() const { return tag_; }
  bool is_none() const { return tag_ == kNone; }
  bool is_object() const { return tag_ >= kFirstObjectIndex; }
  explicit operator bool() const { return !is_none(); }

  /// The value as T, or nullopt. T: bool, an integer, double (ints convert), std::string, DataType, void*,
  /// Ref<X> and classes derived from it (none converts to a null handle).
  template <class T>
  std::optional<T> try_as() const {
    if constexpr (std::is_same_v<T, Any>)
      return *this;
    else if constexpr (std::is_same_v<T, bool>) {
      if (tag_ == kBool || tag_ == kInt) return u_.i != 0;
    } else if constexpr (std::is_integral_v<T> || std::is_enum_v<T>) {
      if (tag_ == kInt || tag_ == kBool) return static_cast<T>(u_.i);
    } else if constexpr (std::is_floating_point_v<T>) {
      if (tag_ == kFloat) return static_cast<T>(u_.d);
      if (tag_ == kInt) return static_cast<T>(u_.i);
    } else if constexpr (std::is_same_v<T, DataType>) {
      if (tag_ == kDataType) {
        DataType t;
        std::memcpy(static_cast<void*>(&t), &u_.i, sizeof t);
        return t;
      }
    } else if constexpr (std::is_same_v<T, void*>) {
      if (tag_ == kPointer) return u_.p;
    } else if constexpr (std::is_same_v<T, std::string>) {
      if (is_object() && is_type_index<StringObj>(tag_)) return static_cast<StringObj*>(u_.o)->value;
    } else {
      using Node = typename T::element_type;
      if (tag_ == kNone) return T();
      if (is_object() && is_type_index<Node>(tag_)) {
        T r;
        static_cast<Ref<Node>&>(r) = Ref<Node>(static_cast<Node*>(u_.o));
        return r;
      }
    }
    return std::nullopt;
  }
  /// The value as T; InternalError if it is something else.
  template <class T>
  T as() const {
    std::optional<T> v = try_as<T>();
    CHECK(v.has_value(), "a value of another kind was stored here: " + kind_name());
    return *std::move(v);
  }
  const Object* object() const { return is_object() ? u_.o : nullptr; }
  /// Same tag and same bits (objects: the same object).
  bool same_as(const Any& other) const { return tag_ == other.tag_ && (tag_ == kNone || u_.i == other.u_.i); }
  std::string kind_name() const;
  /// Storage of the object pointer, for typed containers.
  Object* const& object_slot() const { return u_.o; }

 private:
  void set(Object* o) {
    if (o) {
      tag_ = o->type_index;
      u_.o = o;
    }
  }
  void retain() {
    if (is_object()) u_.o->ref_count.fetch_add(1, std::memory_order_relaxed);
  }
  uint32_t tag_ = kNone;
  union {
    int64_t i;
    double d;
    void* p;
    Object* o;
  } u_{0};
};
static_assert(sizeof(Any) == 16);

}  // namespace tenon
