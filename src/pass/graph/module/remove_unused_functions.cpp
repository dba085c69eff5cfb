// SPDX-License-Identifier: Apache-2.0
// remove_unused_functions: functions that no entry reaches go.
//
//   before   main, helper (called by main), old (called by none, and no entry)
//   after    main, helper
//
// Entries: `main`, and graph functions with the attribute "global_symbol"; without any entry everything
// stays. Keeps: order and content of what stays.
#include <set>

#include "ir/pass.h"
#include "ir/walk.h"
#include "pass/graph/fusion/programs.h"

namespace tenon {

static IRModule remove_unused_functions(IRModule module, PassContext&) {
  using namespace graph;
  std::vector<std::string> work;
  for (auto [name, object] : module.functions()) {
    const auto* f = object.as<graph::Function>();
    if (f && (name == "main" || f->attrs.contains("global_symbol"))) work.push_back(name);
  }
  if (work.empty()) return module;
  std::set<std::string> reached(work.begin(), work.end());
  while (!work.empty()) {
    const std::string name = work.back();
    work.pop_back();
    auto reach = [&](const std::string& callee) {
      if (module.functions().contains(callee) && reached.insert(callee).second) work.push_back(callee);
    };
    post_order(module.find(name), [&](const ObjectRef& node) {
      if (const auto* g = node.as<GlobalVar>()) reach(g->name);
      if (const auto* c = node.as<tir::Call>(); c && c->op == "tir.call_prim_func" && !c->args.empty())
        if (const auto* s = c->args[0].as<tir::StringImm>()) reach(s->value);
    });
  }
  std::set<std::string> gone;
  for (auto [name, object] : module.functions())
    if (!reached.count(name)) gone.insert(name);
  graph::erase_functions(module, gone);
  return module;
}

const Pass& remove_unused_functions_pass = register_pass({
    .name = "remove_unused_functions",
    .run = remove_unused_functions,
    .level = 0,
    .summary = "functions that nothing calls go",
});

}  // namespace tenon
