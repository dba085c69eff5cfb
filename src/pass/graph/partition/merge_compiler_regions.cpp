// SPDX-License-Identifier: Apache-2.0
// merge_compiler_regions: regions of one code generator that feed one another become one region.
//
//   before   a = cutlass_region(x, w); b = cutlass_region_1(a)      both with Codegen = "cutlass"
//   after    b = cutlass_region_2(x, w)
//
// Two regions stay apart where a value outside needs the one and is needed by the other: that would be a
// cycle. Needs: types. Keeps: values.
#include "ir/bodies.h"
#include "ir/pass.h"
#include "ir/walk.h"
#include "pass/graph/module/inline_functions.h"
#include "pass/graph/partition/outline.h"

namespace tenon {
namespace graph {
namespace {

/// The generator of the region that the binding calls, or "".
std::string codegen_of(const Binding& b, const IRModule& module) {
  const auto* call = b->value.as<Call>();
  const auto* g = call ? call->op.as<GlobalVar>() : nullptr;
  const auto f = g ? module.find(g->name).cast<Function>() : Ref<Function>();
  if (!f) return {};
  return f->attrs.get_or(std::string(kCodegen), Any("")).as<std::string>();
}

class RegionMerger {
 public:
  Expr run(const Expr& body, IRModule& module) {
    RegionGraph graph(body, module);
    std::vector<std::string> codegen;
    for (size_t i = 0; i < graph.size(); ++i) codegen.push_back(codegen_of(graph.binding(i), module));
    for (size_t i = 0; i < graph.size(); ++i)
      for (size_t n : graph.needs(i))
        if (!codegen[i].empty() && codegen[i] == codegen[n]) graph.merge(n, i);
    std::vector<Region> regions;
    for (size_t i = 0; i < graph.size(); ++i) {
      const auto& members = graph.members(i);
      if (members.size() < 2) continue;
      Region region{{}, codegen[i] + "_region", {}};
      region.attrs.set(std::string(kCodegen), Any(codegen[i]));
      for (size_t m : members) {
        region.members.push_back(graph.binding(m)->var);
        const std::string callee = graph.binding(m)->value.as<Call>()->op.as<GlobalVar>()->name;
        merged_[callee] = module.find(callee).cast<Function>();
      }
      regions.push_back(std::move(region));
    }
    return outline(body, regions, module);
  }
  const std::map<std::string, Ref<Function>>& merged() const { return merged_; }

 private:
  std::map<std::string, Ref<Function>> merged_;
};

}  // namespace
}  // namespace graph

static IRModule merge_compiler_regions(IRModule module, PassContext&) {
  graph::RegionMerger merger;
  module =
      graph::map_bodies(std::move(module), {std::string(graph::kComposite), std::string(graph::kCodegen)},
                        [&](const graph::Expr& body, IRModule& m) { return merger.run(body, m); });
  if (merger.merged().empty()) return module;
  module = graph::inline_calls(std::move(module), merger.merged());
  std::set<std::string> called;
  for (const auto& [name, f] : graph::graph_functions(module))
    post_order(f, [&](const ObjectRef& n) {
      if (const auto* g = n.as<graph::GlobalVar>()) called.insert(g->name);
    });
  for (const auto& [name, f] : merger.merged())
    if (!called.contains(name)) module.erase(name);
  return module;
}

const Pass& merge_compiler_regions_pass = register_pass({
    .name = "merge_compiler_regions",
    .run = merge_compiler_regions,
    .summary = "regions of one code generator that feed one another become one",
    .needs = {"infer_types"},
});

}  // namespace tenon
