// SPDX-License-Identifier: Apache-2.0
// annotate_target: what an external code generator takes becomes a region of one call.
//
//   before   lv = cutlass_dense(x, w)                  with the attribute Composite = "cutlass.dense"
//   after    lv = cutlass_region(x, w)                 with Codegen = "cutlass", and that call inside
//
// A generator NAME takes composites "NAME.…" and the operators for whose calls "tenon.ext.NAME.supports" is
// true. The first generator of the list that takes a call gets it. Needs: types. Keeps: values.
#include <fmt/format.h>

#include "base/function.h"
#include "ir/bodies.h"
#include "ir/pass.h"
#include "pass/graph/partition/outline.h"

namespace tenon {
namespace {

const Option<Array<std::string>> kTargets{"annotate_target.targets", {}, "names of external code generators"};

bool takes(const std::string& target, const graph::Expr& value, const IRModule& module) {
  const auto* call = value.as<graph::Call>();
  if (!call) return false;
  if (const auto* g = call->op.as<graph::GlobalVar>()) {
    const auto f = module.find(g->name).cast<graph::Function>();
    const auto composite = f ? f->attrs.find(std::string(graph::kComposite)) : std::nullopt;
    return composite && composite->as<std::string>().starts_with(target + ".");
  }
  const Function supports = registry::find(fmt::format("tenon.ext.{}.supports", target));
  if (!supports) return false;
  const auto answer = supports(value).try_as<bool>();
  if (!answer)
    fail("T1154", fmt::format("\"tenon.ext.{}.supports\" gives neither true nor false", target), {}, {},
         ErrorKind::usage);
  return *answer;
}

IRModule annotate_target(IRModule module, PassContext& context) {
  const auto targets = context.options.get(kTargets);
  if (targets.empty()) return module;
  for (const std::string& target : targets)
    if (target.empty())
      fail("T1153", "annotate_target.targets holds an empty name, which no generator has", {}, {},
           ErrorKind::usage);
  auto annotate = [&](const graph::Expr& body, IRModule& m) {
    const graph::RegionGraph graph(body, m);
    std::vector<graph::Region> regions;
    for (size_t i = 0; i < graph.size(); ++i)
      for (const std::string& target : targets) {
        if (!graph.can_outline(i) || !takes(target, graph.binding(i)->value, m)) continue;
        graph::Region region{{graph.binding(i)->var}, target + "_region", {}};
        region.attrs.set(std::string(graph::kCodegen), Any(target));
        regions.push_back(std::move(region));
        break;
      }
    return graph::outline(body, regions, m);
  };
  return graph::map_bodies(std::move(module), {std::string(graph::kComposite), std::string(graph::kCodegen)},
                           annotate);
}

}  // namespace

const Pass& annotate_target_pass = register_pass({
    .name = "annotate_target",
    .run = annotate_target,
    .summary = "what external code generators take becomes regions of one call",
    .needs = {"infer_types"},
    .options = {kTargets},
});

}  // namespace tenon
