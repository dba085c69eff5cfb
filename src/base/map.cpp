// SPDX-License-Identifier: Apache-2.0
// Maps. Running a model needs none: they belong to the compiler and the command, not to the runtime.
#include "base/container.h"

namespace tenon {

template const TypeInfo* type_info<MapObj>();

namespace map_detail {

MapObj* writable(Ref<MapObj>& map) {
  if (!map) map = make<MapObj>();
  return map.edit();
}

static const StringObj* text(const Any& key) {
  return key.is_object() && is_type_index<StringObj>(key.tag()) ? static_cast<const StringObj*>(key.object())
                                                                : nullptr;
}

size_t hash_key(const Any& key) {
  if (const StringObj* s = text(key)) return std::hash<std::string>()(s->value);
  if (key.is_object()) return std::hash<const void*>()(key.object());
  return std::hash<int64_t>()(key.try_as<int64_t>().value_or(0));
}

bool equal_key(const Any& a, const Any& b) {
  const StringObj *x = text(a), *y = text(b);
  return x && y ? x->value == y->value : a.same_as(b);
}

ptrdiff_t find(const MapObj* map, const Any& key) {
  if (map->index.empty()) {
    for (size_t i = 0; i < map->items.size(); ++i)
      if (equal_key(map->items[i].first, key)) return i;
    return -1;
  }
  auto [at, end] = map->index.equal_range(hash_key(key));
  for (; at != end; ++at)
    if (equal_key(map->items[at->second].first, key)) return at->second;
  return -1;
}

static void reindex(MapObj* map) {
  map->index.clear();
  if (map->items.size() <= 8) return;
  for (size_t i = 0; i < map->items.size(); ++i) map->index.emplace(hash_key(map->items[i].first), i);
}

void set(MapObj* map, Any key, Any value) {
  if (ptrdiff_t i = find(map, key); i >= 0) {
    map->items[i].second = std::move(value);
    return;
  }
  map->items.emplace_back(key, std::move(value));
  if (map->index.empty())
    reindex(map);
  else
    map->index.emplace(hash_key(key), map->items.size() - 1);
}

void erase(MapObj* map, const Any& key) {
  ptrdiff_t i = find(map, key);
  if (i < 0) return;
  map->items.erase(map->items.begin() + i);
  reindex(map);
}

}  // namespace map_detail
}  // namespace tenon
