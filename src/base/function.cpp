// SPDX-License-Identifier: Apache-2.0
#include "base/function.h"

#include <map>
#include <mutex>

namespace tenon {

template const TypeInfo* type_info<FunctionObj>();

void argument_count_error(const std::string& name, size_t wanted, size_t given) {
  throw Error(
      ErrorKind::usage, "T0101",
      name + " takes " + std::to_string(wanted) + " arguments, " + std::to_string(given) + " were given");
}

void argument_kind_error(const std::string& name, size_t position, const std::string& found) {
  throw Error(ErrorKind::usage, "T0102",
              name + ": argument " + std::to_string(position) + " has the wrong kind: " + found);
}

namespace registry {
namespace {
struct Table {
  std::mutex mutex;
  std::map<std::string, Entry, std::less<>> entries;
  static Table& get() {
    static Table* table = new Table;
    return *table;
  }
};
}  // namespace

void add(Entry entry, bool override_) {
  Table& table = Table::get();
  std::lock_guard lock(table.mutex);
  auto it = table.entries.find(entry.name);
  if (it != table.entries.end() && !override_)
    throw Error(ErrorKind::usage, "T0103", "function `" + entry.name + "` is registered twice",
                entry.file + ":" + std::to_string(entry.line),
                "first registered at " + it->second.file + ":" + std::to_string(it->second.line) +
                    "; pass override to replace it");
  std::string name = entry.name;
  table.entries.insert_or_assign(std::move(name), std::move(entry));
}

Function find(std::string_view name) {
  Table& table = Table::get();
  std::lock_guard lock(table.mutex);
  auto it = table.entries.find(name);
  return it == table.entries.end() ? Function() : it->second.function;
}

std::optional<Entry> entry(std::string_view name) {
  Table& table = Table::get();
  std::lock_guard lock(table.mutex);
  auto it = table.entries.find(name);
  if (it == table.entries.end()) return std::nullopt;
  return it->second;
}

std::vector<std::string> names(std::string_view prefix) {
  Table& table = Table::get();
  std::lock_guard lock(table.mutex);
  std::vector<std::string> out;
  for (auto it = table.entries.lower_bound(prefix);
       it != table.entries.end() && it->first.starts_with(prefix); ++it)
    out.push_back(it->first);
  return out;
}

void remove(std::string_view name) {
  Table& table = Table::get();
  std::lock_guard lock(table.mutex);
  if (auto it = table.entries.find(name); it != table.entries.end()) table.entries.erase(it);
}
}  // namespace registry

}  // namespace tenon
