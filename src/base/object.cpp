// SPDX-License-Identifier: Apache-2.0
#include "base/object.h"

#include <array>
#include <mutex>
#include <unordered_map>
#include <vector>

#include "base/error.h"

namespace tenon {
namespace {

struct Table {
  std::mutex mutex;
  std::vector<std::atomic<const TypeInfo*>> by_index{1 << 14};
  std::unordered_map<std::string_view, TypeInfo*> by_key;
  uint32_t next_dynamic = kFirstDynamicIndex;
  static Table& get() {
    static Table* table = new Table;
    return *table;
  }  // outlives every static object
};

}  // namespace

const TypeInfo* type_table::add(TypeInfo info, uint32_t reserve) {
  Table& table = Table::get();
  std::lock_guard lock(table.mutex);
  if (auto it = table.by_key.find(info.key); it != table.by_key.end()) return it->second;
  auto* entry = new TypeInfo(info);
  auto free_range = [&](uint32_t first, uint32_t count) {
    for (uint32_t i = first; i < first + count; ++i)
      if (table.by_index[i].load()) return false;
    return true;
  };
  if (entry->index == 0) {
    // Inside the parent's reserved slots while there is room, behind everything otherwise.
    auto* parent = const_cast<TypeInfo*>(info.parent);
    uint32_t slot = 0;
    if (parent && parent->index >= kFirstDynamicIndex)
      for (uint32_t i = parent->index + 1; i + reserve < parent->end && !slot; ++i)
        if (free_range(i, reserve + 1)) slot = i;
    if (!slot) {
      slot = table.next_dynamic;
      table.next_dynamic += reserve + 1;
      for (auto* p = parent; p; p = const_cast<TypeInfo*>(p->parent)) p->overflow = true;
    }
    entry->index = slot;
  }
  CHECK(entry->index + reserve < table.by_index.size(), "the type table is full");
  entry->end = entry->index + reserve + 1;
  CHECK(!table.by_index[entry->index].load(), "type index taken twice: " + std::string(info.key) + " and " +
                                                  std::string(table.by_index[entry->index].load()->key));
  table.by_index[entry->index].store(entry, std::memory_order_release);
  table.by_key.emplace(entry->key, entry);
  return entry;
}

const TypeInfo* type_table::find(uint32_t index) {
  Table& table = Table::get();
  return index < table.by_index.size() ? table.by_index[index].load(std::memory_order_acquire) : nullptr;
}

const TypeInfo* type_table::find(std::string_view key) {
  Table& table = Table::get();
  std::lock_guard lock(table.mutex);
  auto it = table.by_key.find(key);
  return it == table.by_key.end() ? nullptr : it->second;
}

bool type_table::is_derived(uint32_t index, const TypeInfo* ancestor) {
  for (const TypeInfo* t = find(index); t; t = t->parent)
    if (t == ancestor) return true;
  return false;
}

// A chain of a million nodes must not be destroyed by a million nested calls: objects released while
// another is being destroyed wait in a list. It is the thread's own: each destroys what it has released, and
// no release pays for a lock.
void detail::release(Object* object) {
  thread_local std::vector<Object*>* pending = nullptr;
  const auto destroy = [](Object* o) { type_table::find(o->type_index)->destroy(o); };
  if (pending) {
    try {
      return pending->push_back(object);
    } catch (const std::bad_alloc&) {
      return destroy(object);  // the list has no memory: nested, which gives some back
    }
  }
  std::vector<Object*> list;
  pending = &list;
  destroy(object);
  while (!list.empty()) {
    Object* next = list.back();
    list.pop_back();
    destroy(next);
  }
  pending = nullptr;
}

}  // namespace tenon
