// SPDX-License-Identifier: Apache-2.0
// The functions of a module, one after the other.
#include "codegen/vm/vm_codegen.h"

#include <algorithm>
#include <set>

#include "codegen/vm/vm_function.h"
#include "ir/bodies.h"
#include "ir/walk.h"

namespace tenon {
namespace {

using namespace graph;

Ref<Function> module_main(const IRModule& module) { return module.find("main").cast<Function>(); }

Executable run(ModuleCodegen& m) {
  std::set<std::string> called;
  std::vector<std::pair<std::string, Ref<Function>>> functions;
  for (auto [name, object] : m.module().functions()) {
    Ref<Function> f = object.cast<Function>();
    if (!f || is_primitive(*f)) continue;
    m.function_index[name] = int(functions.size());
    functions.emplace_back(name, f);
    post_order(f, [&](const ObjectRef& n) {
      if (const auto* g = n.as<GlobalVar>()) called.insert(g->name);
    });
  }
  for (auto& [name, f] : functions) find_checked(m, f);
  for (auto& [name, f] : functions) {
    m.exe.functions.push_back(FunctionCodegen(m, name, f, name == "main" || !called.count(name)).run());
    if (f->plan) m.exe.arena_bytes = std::max(m.exe.arena_bytes, f->plan->arena_bytes);
  }
  m.problems.throw_if_any();
  if (const auto main = module_main(m.module()); main && main->plan)
    for (const auto& [symbol, most] : bounds_of(*main->plan))
      m.exe.metadata.emplace_back("bound." + symbol, std::to_string(most));
  return std::move(m.exe);
}

}  // namespace

Executable vm_codegen(const IRModule& module, const Target& target) {
  ModuleCodegen m(module, target);
  return run(m);
}

}  // namespace tenon
