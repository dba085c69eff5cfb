// SPDX-License-Identifier: Apache-2.0
// The ordered pass lists of a compilation. The order is written here once; each pass states what it needs.
#include "ir/walk.h"
#include "pass/graph/passes.h"
#include "pipeline/compile.h"
#if __has_include("pass/tensor/passes.h")
#include "pass/tensor/passes.h"
#endif

namespace tenon {
tir::PrimFunc default_schedule(const tir::PrimFunc& f, const Target& target);
#if !__has_include("pass/tensor/passes.h")
IRModule lower_block_init(IRModule, PassContext&);
IRModule plan_buffer_allocation(IRModule, PassContext&);
IRModule convert_blocks_to_opaque(IRModule, PassContext&);
IRModule lower_match_buffer(IRModule, PassContext&);
IRModule compact_buffer_allocation(IRModule, PassContext&);
IRModule lower_opaque_block(IRModule, PassContext&);
IRModule flatten_buffer(IRModule, PassContext&);
IRModule vectorize_loop(IRModule, PassContext&);
IRModule unroll_loop(IRModule, PassContext&);
IRModule loop_partition(IRModule, PassContext&);
IRModule simplify(IRModule, PassContext&);
IRModule storage_rewrite(IRModule, PassContext&);
IRModule lower_intrin(IRModule, PassContext&);
IRModule make_packed_api(IRModule, PassContext&);
#endif
namespace {

/// Resolved when called, not when the library is loaded.
template <IRModule (*f)(IRModule, PassContext&)> IRModule late(IRModule module, PassContext& context) { return f(std::move(module), context); }

/// default_schedule: loops of every program placed from the model of the machine.
IRModule run_default_schedule(IRModule module, PassContext& context) {
  Target target = context.target.cast<TargetNode>();
  if (!target) target = host_target();
  return module.map_prim([&](const std::string&, const tir::PrimFunc& f) -> ObjectRef {
    if (f->attrs.contains("tenon.trace") || f->attrs.contains("tenon.kernel")) return {};
    return default_schedule(f, target);
  });
}

void announce_once() {
  static const bool done = [] {
    announce_passes(graph_passes());
    announce_passes(schedule_passes());
    announce_passes(tensor_passes());
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

std::span<const Pass> tensor_passes() {
  static const Pass list[] = {
      {"lower_block_init", late<lower_block_init>, 0, "a block's init becomes an if on its first iteration"},
      {"plan_buffer_allocation", late<plan_buffer_allocation>, 0, "buffers move to where all uses are below"},
      {"convert_blocks_to_opaque", late<convert_blocks_to_opaque>, 0, "block iterators become their bindings"},
      {"lower_match_buffer", late<lower_match_buffer>, 0, "matched regions become accesses of the source"},
      {"compact_buffer_allocation", late<compact_buffer_allocation>, 0, "buffers shrink to the region that is used"},
      {"lower_opaque_block", late<lower_opaque_block>, 0, "blocks vanish, their buffers become allocations"},
      {"flatten_buffer", late<flatten_buffer>, 0, "all buffers have one dimension"},
      {"vectorize_loop", late<vectorize_loop>, 0, "vector loops become vector operations"},
      {"unroll_loop", late<unroll_loop>, 0, "unrolled loops become their iterations"},
      {"loop_partition", late<loop_partition>, 2, "conditions on loop variables split loops"},
      {"simplify", late<simplify>, 0, "canonical indices and conditions"},
      {"storage_rewrite", late<storage_rewrite>, 1, "allocations share memory"},
      {"lower_intrin", late<lower_intrin>, 0, "what no code generator knows is spelled out"},
      {"make_packed_api", late<make_packed_api>, 0, "the kernel's calling convention"},
  };
  return list;
}

void announce_all_passes() { announce_once(); }

}  // namespace tenon
