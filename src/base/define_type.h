// SPDX-License-Identifier: Apache-2.0
// Makes the records of nodes with fields: `template struct tenon::DefineTypes<Add, Sub>;` in the one .cpp
// file that owns them. It costs a second of compile time, so no header includes it.
#pragma once
#include <bit>

#include "base/reflect.h"

namespace tenon {

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
        fitting.edit()->items.push_back(std::move(fit));
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
        map_detail::set(fitting.edit(), std::move(k), std::move(v));
      }
    *out = Any(std::move(fitting));
    return true;
  }
};

/// The name of a C++ type in other languages: of an object its type key, of an enumeration "int".
template <class M>
struct TypeName {
  static std::string get() {
    if constexpr (std::is_same_v<M, Any>)
      return "Any";
    else if constexpr (std::is_same_v<M, bool>)
      return "bool";
    else if constexpr (std::is_integral_v<M> || std::is_enum_v<M>)
      return "int";
    else if constexpr (std::is_floating_point_v<M>)
      return "float";
    else if constexpr (std::is_same_v<M, std::string>)
      return "str";
    else if constexpr (std::is_same_v<M, DataType>)
      return "dtype";
    else
      return std::string(M::element_type::type_key);
  }
};
template <class T>
struct TypeName<Array<T>> {
  static std::string get() { return "Array[" + TypeName<T>::get() + "]"; }
};
template <class K, class V>
struct TypeName<Map<K, V>> {
  static std::string get() { return "Map[" + TypeName<K>::get() + ", " + TypeName<V>::get() + "]"; }
};

/// One record for each C++ type of members, shared by all fields that have it.
template <class M>
constexpr MemberType member_type{
    is_ref_like<M>,
    [](const void* m) -> Any {
      if constexpr (std::is_enum_v<M>)
        return Any(static_cast<int64_t>(*static_cast<const M*>(m)));
      else
        return Any(*static_cast<const M*>(m));
    },
    [](void* m, const Any& v) { *static_cast<M*>(m) = v.as<M>(); },
    &Coerce<M>::to,
    &TypeName<M>::get,
};
}  // namespace detail

/// What a node's `fields` is called with; keeps the list.
class FieldList {
 public:
  template <class C, class M>
  FieldList& add(std::string_view name, M C::* member, std::string_view doc = {}) {
    return put(name, member, FieldRole::normal, doc);
  }
  template <class C, class M>
  FieldList& def(std::string_view name, M C::* member, std::string_view doc = {}) {
    return put(name, member, FieldRole::def, doc);
  }
  template <class C, class M>
  FieldList& body(std::string_view name, M C::* member, std::string_view doc = {}) {
    return put(name, member, FieldRole::body, doc);
  }
  template <class C, class M>
  FieldList& ignored(std::string_view name, M C::* member, std::string_view doc = {}) {
    return put(name, member, FieldRole::ignored, doc);
  }
  std::vector<FieldInfo> list;

 private:
  template <class C, class M>
  FieldList& put(std::string_view name, M C::* member, FieldRole role, std::string_view doc) {
    if constexpr (detail::is_ref_like<M>) static_assert(sizeof(M) == sizeof(ObjectRef));
    // A pointer to a data member is its offset (Itanium C++ ABI, section 2.3); Object is the first base of
    // all.
    static_assert(sizeof member == sizeof(ptrdiff_t));
    list.push_back(
        {name, doc, role, detail::is_ref_like<M>, std::bit_cast<ptrdiff_t>(member), &detail::member_type<M>});
    return *this;
  }
};

// Used: other files call it, even where this one has all of its own calls inlined.
template <class T>
[[gnu::used]] const TypeInfo* detail::reflected_type() {
  static const TypeInfo* info = [] {
    TypeInfo t = describe<T>();
    static FieldList all;  // lives as long as the table
    T::fields(all);
    t.fields = all.list;
    return type_table::add(t, child_slots<T>());
  }();
  return info;
}

/// Instantiated explicitly, it defines `type_info` of these node types (or of a NodeSet) for the process and
/// registers them before `main`.
template <class... Ts>
struct DefineTypes {
  using Entry = const TypeInfo* (*)();
  static constexpr Entry entries[] = {&detail::reflected_type<Ts>...};
  static const bool registered;
};
template <class... Ts>
const bool DefineTypes<Ts...>::registered = [] {
  for (const Entry entry : entries) entry();
  return true;
}();
template <uint32_t First, class... Ts>
struct DefineTypes<NodeSet<First, Ts...>> : DefineTypes<Ts...> {
  static const bool registered;
};
template <uint32_t First, class... Ts>
const bool DefineTypes<NodeSet<First, Ts...>>::registered = DefineTypes<Ts...>::registered;

}  // namespace tenon
