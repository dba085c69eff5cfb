// SPDX-License-Identifier: Apache-2.0
// partition_graph: regions get the names by which other compilers know them.
//
//   before   lv = cutlass_region(x, w)                 with Codegen = "cutlass"
//   after    lv = tenon_cutlass_main_0(x, w)           with global_symbol = "tenon_cutlass_main_0", too
//
// Numbers count from 0 in each function that calls regions, in order. Keeps: values.
#include <fmt/format.h>

#include "ir/bodies.h"
#include "ir/pass.h"
#include "pass/graph/module/private_functions.h"
#include "pass/graph/partition/outline.h"

namespace tenon {
namespace {

const Option<bool> kBindRegions{"partition_graph.bind_constants", false,
                                "constants belong to the regions and are no arguments"};

IRModule partition_graph(IRModule module, PassContext& context) {
  using namespace graph;
  std::map<std::string, std::string> names;  // of regions, old → new
  std::vector<std::string> order;
  for (const auto& [caller, f] : graph_functions(module)) {
    int number = 0;
    for_each_binding(f->body, [&](const Binding& b) {
      const auto* call = b->value.as<Call>();
      const auto* g = call ? call->op.as<GlobalVar>() : nullptr;
      const auto region = g ? module.find(g->name).cast<graph::Function>() : Ref<graph::Function>();
      const auto codegen = region ? region->attrs.find(std::string(kCodegen)) : std::nullopt;
      if (!codegen || region->attrs.contains("global_symbol") || names.contains(g->name)) return;
      names[g->name] =
          module.fresh_name(fmt::format("tenon_{}_{}_{}", codegen->as<std::string>(), caller, number++));
      order.push_back(g->name);
    });
  }
  std::set<std::string> old;
  for (const std::string& name : order) {
    if (context.options.get(kBindRegions)) module = bind_constants(std::move(module), name);
    auto f = module.find(name).cast<graph::Function>();
    f.edit()->attrs.set("global_symbol", Any(names[name]));
    module.set(names[name], f);
    old.insert(name);
  }
  module = rewrite_calls(module, old, [&](const Call& c, const VarRef&, EmitBefore) -> Expr {
    const std::string name = names.at(c.op.as<GlobalVar>()->name);
    return with_type(make<Call>(typed_global(module, name), c.args), c.type);
  });
  for (const std::string& name : order) module.erase(name);
  return module;
}

}  // namespace

const Pass& partition_graph_pass = register_pass({
    .name = "partition_graph",
    .run = partition_graph,
    .summary = "regions of external code generators get a global symbol",
    .needs = {"infer_types"},
    .options = {kBindRegions},
});

}  // namespace tenon
