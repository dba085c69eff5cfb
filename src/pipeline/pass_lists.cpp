// SPDX-License-Identifier: Apache-2.0
// The ordered pass lists of a compilation. The order is written here once; each pass states what it needs.
#include <map>
#include <mutex>

#include "autoschedule/default.h"
#include "base/diagnostic.h"
#include "base/function.h"
#include "base/nearest.h"
#include "ir/scalable.h"
#include "ir/walk.h"
#include "pass/graph/passes.h"
#include "pass/tensor/passes.h"
#include "pipeline/compile.h"

namespace tenon {
namespace {

/// default_schedule: loops of every program placed from the model of the machine, or by the rule that its
/// implementation names. Configuration: "default_schedule.explain" (a packed function that receives a
/// ScheduleReport for each program).
IRModule run_default_schedule(IRModule module, PassContext& context) {
  Target target = context.target.cast<TargetNode>();
  if (!target) target = host_target();
  Function explain;
  if (const auto given = context.config.find("default_schedule.explain")) explain = given->as<Function>();
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
    if (!explain) return default_schedule(f, target);
    auto report = make<ScheduleReport>();
    report.mut()->function = name;
    const tir::PrimFunc scheduled = default_schedule(f, target, &report.mut()->attempts);
    std::lock_guard lock(mutex);
    reports[name] = report;
    return scheduled;
  });
  for (const auto& [name, report] : reports) explain(report);
  return out;
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

std::vector<Pass> passes_named(const Array<std::string>& names) {
  announce_all_passes();
  std::vector<Pass> out;
  std::vector<std::string_view> known;
  for (const Pass* p : all_passes()) known.push_back(p->name);
  DiagnosticList problems(ErrorKind::usage);
  for (const std::string& name : names) {
    if (const Pass* p = find_pass(name)) {
      out.push_back(*p);
      continue;
    }
    const std::string near = nearest_name(name, known);
    problems.add("T0919", "there is no pass `" + name + "`", {},
                 near.empty() ? "`tenon opt --list` names them" : "did you mean `" + near + "`?");
  }
  problems.throw_if_any();
  return out;
}

}  // namespace tenon
