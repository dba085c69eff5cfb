// SPDX-License-Identifier: Apache-2.0
// default_schedule: the loops of every tensor program are placed from the model of the machine, or by the
// rule that its implementation names. Reports a ScheduleReport for each program.
#include "autoschedule/default.h"

#include <map>
#include <mutex>

#include "base/diagnostic.h"
#include "ir/pass.h"
#include "ir/scalable.h"
#include "ir/walk.h"

namespace tenon {

static IRModule run_default_schedule(IRModule module, PassContext& context) {
  Target target = context.target.cast<TargetNode>();
  if (!target) target = host_target();
  std::mutex mutex;
  std::map<std::string, Ref<ScheduleReport>> reports;
  IRModule out = module.map_prim([&](const std::string& name, const tir::PrimFunc& f) -> ObjectRef {
    if (f->attrs.contains("tenon.trace") || f->attrs.contains("tenon.kernel") ||
        f->attrs.contains("tenon.memory_only") || tir::uses_vscale(f))
      return {};
    const auto rule = f->attrs.get_or("tenon.schedule_rule", Any("default")).as<std::string>();
    if (rule == "none") return {};
    if (rule != "default")
      fail("T0790", "there is no schedule rule `" + rule + "`", "program `" + name + "`", "default or none");
    if (!context.report) return default_schedule(f, target);
    auto report = make<ScheduleReport>();
    report.mut()->function = name;
    const tir::PrimFunc scheduled = default_schedule(f, target, &report.mut()->attempts);
    std::lock_guard lock(mutex);
    reports[name] = report;
    return scheduled;
  });
  for (const auto& [name, report] : reports) context.report("default_schedule", report);
  return out;
}

const Pass& default_schedule_pass =
    register_pass({.name = "default_schedule",
                   .run = run_default_schedule,
                   .level = 1,
                   .summary = "tiles, vectors, threads from the model of the machine",
                   .changes = Changes::sum_order});

}  // namespace tenon
