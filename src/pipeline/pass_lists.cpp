// SPDX-License-Identifier: Apache-2.0
// The ordered pass lists of a compilation. The order is written here once; each pass states what it needs.
#include "ir/walk.h"
#include "pass/graph/passes.h"
#include "pipeline/compile.h"

namespace tenon {
tir::PrimFunc default_schedule(const tir::PrimFunc& f, const Target& target);
std::span<const Pass> tensor_pipeline();
std::span<const Pass> device_pipeline();
std::span<const Pass> optional_tensor_passes();
namespace {

/// default_schedule: loops of every program placed from the model of the machine.
IRModule run_default_schedule(IRModule module, PassContext& context) {
  Target target = context.target.cast<TargetNode>();
  if (!target) target = host_target();
  return module.map_prim([&](const std::string&, const tir::PrimFunc& f) -> ObjectRef {
    if (f->attrs.contains("tenon.trace") || f->attrs.contains("tenon.kernel") ||
        f->attrs.contains("tenon.memory_only"))
      return {};
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

}  // namespace tenon
