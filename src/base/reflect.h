// SPDX-License-Identifier: Apache-2.0
// Reflection from the one field list of a node: `static constexpr auto fields = std::tuple{field("a",
// &Add::a), …}`. Children, rewriting, equality, hashing, printing and JSON walk these records, so a new node
// needs nothing else.
#pragma once
#include <array>
#include <tuple>

#include "base/container.h"

namespace tenon {

/// What a field means for structural equality and hashing.
enum class FieldRole : uint8_t {
  normal,
  def,      ///< defines variables: a variable met here may differ in name from its twin, and is mapped to it
  ignored,  ///< a name or a span: not part of the meaning
};

struct FieldInfo {
  std::string_view name;
  std::string_view doc;
  FieldRole role = FieldRole::normal;
  bool is_ref = false;  ///< holds an object handle: the field can be a child; see `ref`
  Any (*get)(const Object*) = nullptr;
  void (*set)(Object*, const Any&) = nullptr;        ///< InternalError if the kind does not fit
  const ObjectRef* (*ref)(const Object*) = nullptr;  ///< the handle in place (is_ref only), no count change
  /// Makes a value from outside (text, JSON) fit the field's type, items of arrays and maps included:
  /// integers become expressions where those are held, names of data types data types. False: it does not
  /// fit.
  bool (*coerce)(const Any& in, Any* out) = nullptr;
};

template <class C, class M>
struct Field {
  std::string_view name;
  M C::* member;
  FieldRole role;
  std::string_view doc;
};

template <class C, class M>
constexpr Field<C, M> field(std::string_view name, M C::* member, std::string_view doc = {}) {
  return {name, member, FieldRole::normal, doc};
}
template <class C, class M>
constexpr Field<C, M> def_field(std::string_view name, M C::* member, std::string_view doc = {}) {
  return {name, member, FieldRole::def, doc};
}
template <class C, class M>
constexpr Field<C, M> ignored_field(std::string_view name, M C::* member, std::string_view doc = {}) {
  return {name, member, FieldRole::ignored, doc};
}

namespace detail {
template <class M>
constexpr bool is_ref_like = requires { typename M::element_type; };

template <class M>
struct Coerce {
  static bool to(const Any& in, Any* out) {
    if constexpr (std::is_same_v<M, Any>) {
      *out = in;
      return true;
    } else if constexpr (std::is_enum_v<M>) {
      auto v = in.template try_as<int64_t>();
      if (v) *out = Any(*v);
      return v.has_value();
    } else if constexpr (std::is_same_v<M, DataType>) {
      if (in.tag() == kDataType) {
        *out = in;
        return true;
      }
      auto text = in.template try_as<std::string>();
      DataType t;
      if (!text || !parse_dtype(*text, &t)) return false;
      *out = Any(t);
      return true;
    } else {
      if (auto v = in.template try_as<M>()) {
        *out = Any(std::move(*v));
        return true;
      }
      if constexpr (is_ref_like<M> && requires { M(int64_t(1)); }) {
        if (in.tag() == kInt) {
          *out = Any(M(in.template as<int64_t>()));
          return true;
        }
        if (in.tag() == kFloat) {
          *out = Any(M(in.template as<double>()));
          return true;
        }
      }
      return false;
    }
  }
};
template <class T>
struct Coerce<Array<T>> {
  static bool to(const Any& in, Any* out) {
    auto list = in.template try_as<Ref<ArrayObj>>();
    if (!list) return false;
    auto fitting = list->get() ? make<ArrayObj>() : Ref<ArrayObj>();
    if (list->get())
      for (const Any& item : (*list)->items) {
        Any fit;
        if (!Coerce<T>::to(item, &fit)) return false;
        fitting.mut()->items.push_back(std::move(fit));
      }
    *out = Any(std::move(fitting));
    return true;
  }
};
template <class K, class V>
struct Coerce<Map<K, V>> {
  static bool to(const Any& in, Any* out) {
    auto map = in.template try_as<Ref<MapObj>>();
    if (!map) return false;
    auto fitting = map->get() ? make<MapObj>() : Ref<MapObj>();
    if (map->get())
      for (const auto& [key, value] : (*map)->items) {
        Any k, v;
        if (!Coerce<K>::to(key, &k) || !Coerce<V>::to(value, &v)) return false;
        map_detail::set(fitting.mut(), std::move(k), std::move(v));
      }
    *out = Any(std::move(fitting));
    return true;
  }
};

template <class T, size_t I>
FieldInfo field_info() {
  constexpr auto f = std::get<I>(T::fields);
  using M = std::remove_cvref_t<decltype(std::declval<const T&>().*(f.member))>;
  FieldInfo info{f.name, f.doc, f.role, is_ref_like<M>, nullptr, nullptr, nullptr};
  info.get = [](const Object* o) -> Any {
    const M& m = static_cast<const T*>(o)->*(std::get<I>(T::fields).member);
    if constexpr (std::is_enum_v<M>)
      return Any(static_cast<int64_t>(m));
    else
      return Any(m);
  };
  info.coerce = &Coerce<M>::to;
  info.set = [](Object* o, const Any& v) {
    static_cast<T*>(o)->*(std::get<I>(T::fields).member) = v.as<M>();
  };
  if constexpr (is_ref_like<M>) {
    static_assert(sizeof(M) == sizeof(ObjectRef));
    info.ref = [](const Object* o) {
      return reinterpret_cast<const ObjectRef*>(
          &(static_cast<const T*>(o)->*(std::get<I>(T::fields).member)));
    };
  }
  return info;
}

template <class T>
std::span<const FieldInfo> fields_of() {
  constexpr size_t n = std::tuple_size_v<std::remove_cvref_t<decltype(T::fields)>>;
  static const std::array<FieldInfo, n> table = []<size_t... I>(std::index_sequence<I...>) {
    return std::array<FieldInfo, n>{field_info<T, I>()...};
  }(std::make_index_sequence<n>());
  return table;
}
}  // namespace detail

inline const TypeInfo* type_of(const Object* o) { return type_table::find(o->type_index); }
inline const TypeInfo* type_of(const ObjectRef& o) { return type_of(o.get()); }
/// Name of the object's type, for example "tir.Add"; "none" for a null handle.
inline std::string_view type_key_of(const ObjectRef& o) { return o ? type_of(o)->key : "none"; }

}  // namespace tenon
