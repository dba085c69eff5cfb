// SPDX-License-Identifier: Apache-2.0
// lower_vscale
//   before: A[T.Ramp(i, 1, T.vscale() * 4)] = …   (float32xvscalex4)
//   after:  A[T.Ramp(i, 1, 8)] = …                (float32x8, on a machine of 256-bit vectors)
// vscale is how often 128 bits fit into the target's vectors (1 without a target: any is right); all further
// passes see vectors of fixed length. Needs: nothing. Keeps: what runs, for the programs that may run with
// any vscale.
#include "analysis/program_target.h"
#include "ir/scalable.h"
#include "pass/tensor/lowering.h"

namespace tenon {

static IRModule lower_vscale(IRModule module, PassContext& context) {
  return module.map_prim([&](const std::string&, const tir::PrimFunc& f) -> ObjectRef {
    if (!tir::uses_vscale(f)) return {};
    const bool any = !context.target && !f->attrs.contains("target");
    const Target target = any ? Target() : program_target(*f, context.target.cast<TargetNode>());
    return tir::fix_vscale(f, any ? 1 : std::max<int64_t>(1, target->vector_bits / 128));
  });
}

const Pass& lower_vscale_pass = register_pass({
    .name = "lower_vscale",
    .run = lower_vscale,
    .level = 0,
    .summary = "scalable vectors get the machine's length",
});

}  // namespace tenon
