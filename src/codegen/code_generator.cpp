// SPDX-License-Identifier: Apache-2.0
// The code generators by their kinds of targets.
#include <fmt/format.h>

#include <map>
#include <mutex>

#include "base/diagnostic.h"
#include "base/nearest.h"
#include "codegen/codegen.h"

namespace tenon::codegen {
namespace {

struct Generators {
  std::mutex mutex;
  std::map<std::string, std::unique_ptr<const CodeGenerator>> by_target;
  static Generators& get() {
    static auto* all = new Generators;
    return *all;
  }
};

}  // namespace

void register_code_generator(CodeGenerator generator) {
  CHECK(generator.check && generator.object, "a code generator checks programs and makes code of them");
  register_target_kind(generator.target);
  Generators& all = Generators::get();
  std::lock_guard lock(all.mutex);
  const std::string target = generator.target.name;
  all.by_target.emplace(target, std::make_unique<const CodeGenerator>(std::move(generator)));
}

const CodeGenerator& code_generator(const Target& target) {
  Generators& all = Generators::get();
  std::lock_guard lock(all.mutex);
  const auto it = all.by_target.find(target->kind);
  if (it != all.by_target.end()) return *it->second;
  std::vector<std::string> names;
  for (const auto& [name, generator] : all.by_target) names.push_back(name);
  fail("T0941", fmt::format("there is no code generator for the target `{}`", target->kind), {},
       did_you_mean(target->kind, names, "there are: "), ErrorKind::usage);
}

const CodeGenerator& linker_for(const Target& target) {
  const CodeGenerator& own = code_generator(target);
  return own.link && own.load ? own : code_generator(host_target());
}

std::vector<const CodeGenerator*> code_generators() {
  Generators& all = Generators::get();
  std::lock_guard lock(all.mutex);
  std::vector<const CodeGenerator*> out;
  for (const auto& [name, generator] : all.by_target) out.push_back(generator.get());
  return out;
}

}  // namespace tenon::codegen
