// SPDX-License-Identifier: Apache-2.0
// normalize_global_var: functions that say their symbol stand under it.
//
//   before   def f(x): "global_symbol" = "entry"                   def entry(x): … (private)
//   after    def entry(x): "global_symbol" = "entry"               def entry_1(x): …
//
// A private function whose name is wanted gets another one; every use follows. Two functions of one symbol
// are refused (T1033). Keeps: values; "main" keeps its name. Needs nothing.
#include "ir/function_symbols.h"
#include "ir/pass.h"
#include "ir/tir.h"
#include "ir/walk.h"
#include "pass/graph/fusion/programs.h"

namespace tenon {

static IRModule normalize_global_var(IRModule module, PassContext&) {
  using namespace graph;
  std::map<std::string, std::string> symbols;  // symbol → function
  std::map<std::string, std::string> renamed;
  DiagnosticList problems;
  for (auto [name, object] : module.functions()) {
    const auto* f = object.as<graph::Function>();
    const auto* p = object.as<tir::PrimFuncNode>();
    const AttrMap attrs = f ? f->attrs : p ? p->attrs : AttrMap();
    auto symbol = attrs.find("global_symbol");
    const std::string wanted = symbol ? symbol->as<std::string>() : std::string();
    if (wanted.empty()) continue;
    auto [it, fresh] = symbols.emplace(wanted, name);
    if (!fresh) problems.add(two_of_symbol(wanted, it->second, name, object));
    if (wanted != name && name != "main") renamed[name] = wanted;
  }
  problems.throw_if_any();
  if (renamed.empty()) return module;
  // Who stands where another wants to be makes room.
  std::set<std::string> taken;
  for (const auto& [from, to] : renamed) taken.insert(to);
  for (auto [name, object] : module.functions())
    if (taken.count(name) && !renamed.count(name)) {
      std::string fresh = module.fresh_name(name);
      while (taken.count(fresh)) fresh = module.fresh_name(fresh);
      renamed[name] = fresh;
      taken.insert(fresh);
    }
  IRModule out = module;
  std::set<std::string> gone;
  for (const auto& [from, to] : renamed) gone.insert(from);
  graph::erase_functions(out, gone);
  for (auto [name, object] : module.functions()) {
    const ObjectRef next = rewrite_any(object, [&](const ObjectRef& n) -> ObjectRef {
      const auto* g = n.as<GlobalVar>();
      auto it = g ? renamed.find(g->name) : renamed.end();
      if (it == renamed.end()) return {};
      return with_type(global(it->second), g->type);
    });
    auto it = renamed.find(name);
    if (it != renamed.end() || !next.same_as(object)) out.set(it == renamed.end() ? name : it->second, next);
  }
  return out;
}

const Pass& normalize_global_var_pass = register_pass({
    .name = "normalize_global_var",
    .run = normalize_global_var,
    .summary = "functions stand under their symbols",
});

}  // namespace tenon
