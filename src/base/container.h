// SPDX-License-Identifier: Apache-2.0
// Array and Map: shared, immutable by habit, copied on write. Map keeps the order of insertion, so that
// every walk over it is deterministic.
#pragma once
#include <initializer_list>
#include <string>
#include <unordered_map>
#include <vector>

#include "base/any.h"

namespace tenon {

struct ArrayObj : Object {
  static constexpr std::string_view type_key = "Array";
  std::vector<Any> items;
};
extern template const TypeInfo* type_info<ArrayObj>();

// What arrays of all item types share, compiled once.
namespace array_detail {
ArrayObj* writable(Ref<ArrayObj>& array);  ///< made if null, copied if shared
void push_back(Ref<ArrayObj>& array, Any value);
void insert(Ref<ArrayObj>& array, size_t i, Any value);
void erase(Ref<ArrayObj>& array, size_t i);
[[noreturn]] void index_error(size_t i, size_t size);
}  // namespace array_detail

/// A sequence of T, where T is a Ref-like class, an integer, double, std::string, DataType or Any.
template <class T>
class Array : public Ref<ArrayObj> {
 public:
  static constexpr bool holds_refs = requires { typename T::element_type; };
  using Item = std::conditional_t<holds_refs, const T&, T>;
  Array() = default;
  Array(std::initializer_list<T> items) {
    for (const T& t : items) push_back(t);
  }
  Array(const std::vector<T>& items) {
    for (const T& t : items) push_back(t);
  }
  template <class It>
    requires requires(It it) {
      *it;
      ++it;
    }
  Array(It first, It last) {
    for (; first != last; ++first) push_back(*first);
  }
  explicit Array(Ref<ArrayObj> ref) : Ref<ArrayObj>(std::move(ref)) {}

  size_t size() const { return get() ? get()->items.size() : 0; }
  bool empty() const { return size() == 0; }
  Item operator[](size_t i) const {
    if (i >= size()) array_detail::index_error(i, size());
    return at_unchecked(i);
  }
  Item front() const { return (*this)[0]; }
  Item back() const { return (*this)[size() - 1]; }
  void push_back(T value) { array_detail::push_back(*this, Any(std::move(value))); }
  void set(size_t i, T value) {
    if (i >= size()) array_detail::index_error(i, size());
    array_detail::writable(*this)->items[i] = Any(std::move(value));
  }
  void resize(size_t n, T value = T()) { array_detail::writable(*this)->items.resize(n, Any(value)); }
  void insert(size_t i, T value) { array_detail::insert(*this, i, Any(std::move(value))); }
  void erase(size_t i) { array_detail::erase(*this, i); }
  void pop_back() { array_detail::writable(*this)->items.pop_back(); }
  template <class F>
  auto map(F f) const {
    using R = std::decay_t<decltype(f((*this)[0]))>;
    Array<R> out;
    for (size_t i = 0; i < size(); ++i) out.push_back(f((*this)[i]));
    return out;
  }
  std::vector<T> vec() const {
    std::vector<T> v;
    v.reserve(size());
    for (size_t i = 0; i < size(); ++i) v.push_back((*this)[i]);
    return v;
  }

  struct iterator {
    using iterator_category = std::random_access_iterator_tag;
    using value_type = T;
    using difference_type = std::ptrdiff_t;
    using pointer = void;
    using reference = Item;
    const Array* array;
    size_t i;
    Item operator*() const { return array->at_unchecked(i); }
    iterator& operator++() {
      ++i;
      return *this;
    }
    iterator& operator--() {
      --i;
      return *this;
    }
    iterator operator+(std::ptrdiff_t n) const { return {array, i + n}; }
    std::ptrdiff_t operator-(const iterator& o) const { return std::ptrdiff_t(i) - std::ptrdiff_t(o.i); }
    bool operator==(const iterator& o) const { return i == o.i; }
    bool operator!=(const iterator& o) const { return i != o.i; }
  };
  iterator begin() const { return {this, 0}; }
  iterator end() const { return {this, size()}; }

 private:
  Item at_unchecked(size_t i) const {
    const Any& a = get()->items[i];
    // A Ref-like class is one pointer, so the pointer inside the Any can be seen as one (null when none).
    if constexpr (holds_refs)
      return *reinterpret_cast<const T*>(&a.object_slot());
    else
      return a.as<T>();
  }
};

struct MapObj : Object {
  static constexpr std::string_view type_key = "Map";
  std::vector<std::pair<Any, Any>> items;
  std::unordered_multimap<size_t, size_t> index;  ///< hash of key → position, kept from 9 entries on
};
extern template const TypeInfo* type_info<MapObj>();

namespace map_detail {
MapObj* writable(Ref<MapObj>& map);  ///< made if null, copied if shared
size_t hash_key(const Any& key);     ///< strings by text, objects by address
bool equal_key(const Any& a, const Any& b);
ptrdiff_t find(const MapObj* map, const Any& key);  ///< position or -1
void set(MapObj* map, Any key, Any value);
void erase(MapObj* map, const Any& key);
}  // namespace map_detail

/// Keys: std::string (by text), integers, or Ref-like (by address). Order of insertion is kept.
template <class K, class V>
class Map : public Ref<MapObj> {
 public:
  Map() = default;
  Map(std::initializer_list<std::pair<K, V>> items) {
    for (auto& [k, v] : items) set(k, v);
  }
  explicit Map(Ref<MapObj> ref) : Ref<MapObj>(std::move(ref)) {}
  size_t size() const { return get() ? get()->items.size() : 0; }
  bool empty() const { return size() == 0; }
  bool contains(const K& key) const { return get() && map_detail::find(get(), Any(key)) >= 0; }
  V at(const K& key) const {
    ptrdiff_t i = get() ? map_detail::find(get(), Any(key)) : -1;
    CHECK(i >= 0, "no such key in the map");
    return get()->items[i].second.template as<V>();
  }
  std::optional<V> find(const K& key) const {
    ptrdiff_t i = get() ? map_detail::find(get(), Any(key)) : -1;
    if (i < 0) return std::nullopt;
    return get()->items[i].second.template as<V>();
  }
  V get_or(const K& key, V otherwise) const {
    auto v = find(key);
    return v ? *v : otherwise;
  }
  void set(const K& key, V value) {
    map_detail::set(map_detail::writable(*this), Any(key), Any(std::move(value)));
  }
  void erase(const K& key) {
    if (contains(key)) map_detail::erase(map_detail::writable(*this), Any(key));
  }
  struct iterator {
    const MapObj* map;
    size_t i;
    std::pair<K, V> operator*() const {
      return {map->items[i].first.template as<K>(), map->items[i].second.template as<V>()};
    }
    iterator& operator++() {
      ++i;
      return *this;
    }
    bool operator!=(const iterator& o) const { return i != o.i; }
  };
  iterator begin() const { return {get(), 0}; }
  iterator end() const { return {get(), size()}; }
};

using AttrMap = Map<std::string, Any>;

}  // namespace tenon
