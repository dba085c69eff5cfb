// SPDX-License-Identifier: Apache-2.0
#include "target/target_kind.h"

#include <fmt/format.h>

#include <map>
#include <memory>
#include <mutex>
#include <set>

#include "base/diagnostic.h"

namespace tenon {
namespace {

struct Kinds {
  std::mutex mutex;
  std::map<std::string, std::unique_ptr<const TargetKind>, std::less<>> by_name;
  static Kinds& get() {
    static auto* all = new Kinds;
    return *all;
  }
};

}  // namespace

void register_target_kind(TargetKind kind) {
  Kinds& kinds = Kinds::get();
  std::lock_guard lock(kinds.mutex);
  const std::string name = kind.name;
  if (!kinds.by_name.emplace(name, std::make_unique<const TargetKind>(std::move(kind))).second)
    fail("T0940", fmt::format("a target of the name `{}` is registered already", name), {},
         "give the code generator another name", ErrorKind::usage);
}

const TargetKind* find_target_kind(std::string_view name) {
  Kinds& kinds = Kinds::get();
  std::lock_guard lock(kinds.mutex);
  const auto it = kinds.by_name.find(name);
  return it == kinds.by_name.end() ? nullptr : it->second.get();
}

std::vector<const TargetKind*> target_kinds() {
  Kinds& kinds = Kinds::get();
  std::lock_guard lock(kinds.mutex);
  std::vector<const TargetKind*> out;
  for (const auto& [name, kind] : kinds.by_name) out.push_back(kind.get());
  return out;
}

std::string host_kind() {
  const TargetKind* best = nullptr;
  for (const TargetKind* kind : target_kinds())
    if (kind->host_rank > 0 && (!best || kind->host_rank > best->host_rank)) best = kind;
  CHECK(best, "no code generator makes code for this machine");
  return best->name;
}

DeviceKind device_of(const Target& target) {
  const TargetKind* kind = target ? find_target_kind(target->kind) : nullptr;
  return kind ? kind->device : DeviceKind::cpu;
}

bool selects_instructions(const Target& target) {
  const TargetKind* kind = find_target_kind(target->kind);
  return kind && kind->selects_instructions;
}

}  // namespace tenon
