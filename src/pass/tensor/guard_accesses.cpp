// SPDX-License-Identifier: Apache-2.0
// guard_accesses
//   before: for i in range(n): B[i] = A[idx[i]]
//   after:  for i in range(n): assert 0 <= idx[i] and idx[i] < m, "index 0 of buffer `A` …"
//           for i in range(n): B[i] = A[idx[i]]
// Every access is proved to be inside of its buffer, or checked before it is made. A check leaves the loops
// around its access as far as it may, so that these stay what they are. What is certainly outside is T0337.
// What `T.assume` says is relied on; with check_assumptions it is asserted, and the run ends where it is
// wrong. Needs: nothing; blocks and buffers of several dimensions are where most can be proved. Keeps: every
// value of a program that stays inside. Reports a ProofReport for each program.
#include "pass/tensor/access_walk.h"

namespace tenon {

using namespace tir;

static const Option<bool> kCheckAssumptions("guard_accesses.check_assumptions", false,
                                            "what T.assume says is checked when the program runs");

static IRModule guard_accesses(IRModule module, PassContext& context) {
  return tensor_detail::prove_accesses(module, context, tensor_detail::Proving::scheduled,
                                       context.options.get(kCheckAssumptions));
}

const Pass& guard_accesses_pass = register_pass({
    .name = "guard_accesses",
    .run = guard_accesses,
    .level = 0,
    .summary = "accesses are proved to be inside of their buffers, or checked",
    .options = {kCheckAssumptions},
});

}  // namespace tenon
