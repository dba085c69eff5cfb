// SPDX-License-Identifier: Apache-2.0
// The ordered pass lists of a compilation. The order is written here once; each pass states what it needs.
#include <mutex>

#include "autoschedule/default.h"
#include "base/diagnostic.h"
#include "ir/scalable.h"
#include "ir/walk.h"
#include "pass/graph/passes.h"
#include "pass/tensor/passes.h"
#include "pipeline/compile.h"

namespace tenon {
namespace {

struct ScheduleRules {
  std::mutex mutex;
  std::map<std::string, ScheduleRule> rules{
      {"default", [](const tir::PrimFunc& f, const Target& target) { return default_schedule(f, target); }},
      {"none", [](const tir::PrimFunc& f, const Target&) { return f; }}};
  static ScheduleRules& get() {
    static auto* all = new ScheduleRules;
    return *all;
  }
};

ScheduleRule schedule_rule(const std::string& name) {
  ScheduleRules& all = ScheduleRules::get();
  std::lock_guard lock(all.mutex);
  auto it = all.rules.find(name);
  if (it == all.rules.end())
    fail("T0790", "there is no schedule rule `" + name + "`", {}, "register_schedule_rule adds one");
  return it->second;
}

/// default_schedule: loops of every program placed from the model of the machine, or by the rule that its
/// implementation names.
IRModule run_default_schedule(IRModule module, PassContext& context) {
  Target target = context.target.cast<TargetNode>();
  if (!target) target = host_target();
  return module.map_prim([&](const std::string&, const tir::PrimFunc& f) -> ObjectRef {
    if (f->attrs.contains("tenon.trace") || f->attrs.contains("tenon.kernel") ||
        f->attrs.contains("tenon.memory_only") || tir::uses_vscale(f))
      return {};
    if (auto rule = f->attrs.find("tenon.schedule_rule"))
      return schedule_rule(rule->as<std::string>())(f, target);
    return default_schedule(f, target);
  });
}

void announce_once() {
  static const bool done = [] {
    announce_passes(graph_passes());
    announce_passes(schedule_passes());
    announce_passes(tensor_passes());
    announce_passes(device_pipeline());
    announce_passes(optional_tensor_passes());
    return true;
  }();
  (void)done;
}

}  // namespace

std::span<const Pass> graph_passes() { return graph_pipeline(); }

std::span<const Pass> schedule_passes() {
  static const Pass list[] = {
      {"default_schedule", run_default_schedule, 1, "tiles, vectors, threads from the model of the machine"},
  };
  return list;
}

std::span<const Pass> tensor_passes() { return tensor_pipeline(); }

void announce_all_passes() { announce_once(); }

void register_schedule_rule(const std::string& name, ScheduleRule rule) {
  ScheduleRules& all = ScheduleRules::get();
  std::lock_guard lock(all.mutex);
  all.rules.insert_or_assign(name, std::move(rule));
}

}  // namespace tenon
