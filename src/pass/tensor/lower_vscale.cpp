// SPDX-License-Identifier: Apache-2.0
// lower_vscale
//   before: A[T.Ramp(i, 1, T.vscale() * 4)] = …   (float32xvscalex4)
//   after:  A[T.Ramp(i, 1, 8)] = …                (float32x8, on a machine of 256-bit vectors)
// vscale is how often 128 bits fit into the target's vectors (1 without a target: any is right); all further
// passes see vectors of fixed length. Needs: nothing. Keeps: what runs, for the programs that may run with
// any vscale.
#include "ir/scalable.h"
#include "pass/tensor/lowering.h"
#include "target/target.h"

namespace tenon {

static IRModule lower_vscale(IRModule module, PassContext& context) {
  const auto target = context.target.cast<TargetNode>();
  const int64_t vscale = target ? std::max<int64_t>(1, target->vector_bits / 128) : 1;
  return module.map_prim([&](const std::string&, const tir::PrimFunc& f) -> ObjectRef {
    return tir::uses_vscale(f) ? ObjectRef(tir::fix_vscale(f, vscale)) : ObjectRef();
  });
}

const Pass& lower_vscale_pass = register_pass({
    .name = "lower_vscale",
    .run = lower_vscale,
    .level = 0,
    .summary = "scalable vectors get the machine's length",
});

}  // namespace tenon
