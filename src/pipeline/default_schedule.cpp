// SPDX-License-Identifier: Apache-2.0
// default_schedule: the loops of every tensor program are placed from the model of the machine, or by the
// rule that its implementation or its attribute "tenon.schedule_rule" names. Reports a ScheduleReport for
// each program.
#include "analysis/program_target.h"
#include "autoschedule/default.h"

#include <map>
#include <mutex>

#include "base/diagnostic.h"
#include "base/function.h"
#include "base/nearest.h"
#include "ir/attr_keys.h"
#include "ir/jumps.h"
#include "ir/pass.h"
#include "ir/scalable.h"
#include "ir/walk.h"

namespace tenon {

/// What a rule of a user's own makes of a program: "schedule.rule.NAME"(program, target) → program. T0790.
static tir::PrimFunc by_rule(const std::string& rule, const std::string& name, const tir::PrimFunc& f,
                             const Target& target) {
  const Function function = registry::find("schedule.rule." + rule);
  if (!function) {
    std::vector<std::string> known{"default", "none"};
    for (const std::string& full : registry::names("schedule.rule."))
      known.push_back(full.substr(std::string_view("schedule.rule.").size()));
    fail("T0790", "there is no schedule rule `" + rule + "`", "program `" + name + "`",
         did_you_mean(rule, known, "there are: "));
  }
  const auto made = function(f, target).try_as<tir::PrimFunc>();
  if (!made || !*made)
    fail("T0790", "the schedule rule `" + rule + "` gives no PrimFunc", "program `" + name + "`");
  return *made;
}

static IRModule run_default_schedule(IRModule module, PassContext& context) {
  std::mutex mutex;
  std::map<std::string, Ref<ScheduleReport>> reports;
  IRModule out = module.map_prim([&](const std::string& name, const tir::PrimFunc& f) -> ObjectRef {
    if (f->attrs.contains(kTraceAttr) || f->attrs.contains(kKernelAttr) ||
        f->attrs.contains(kMemoryOnlyAttr) || tir::uses_vscale(f) || tir::find_jump(f->body))
      return {};
    const Target target = program_target(*f, context.target.cast<TargetNode>());
    const auto rule = f->attrs.get_or(kScheduleRuleAttr, Any("default")).as<std::string>();
    if (rule == "none") return {};
    if (rule != "default") return by_rule(rule, name, f, target);
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
