// SPDX-License-Identifier: Apache-2.0
// prove_programs
//   before: for i in T.parallel(n): A[idx[i]] = B[i]
//   after:  for i in range(n): A[idx[i]] = B[i]
// The tensor programs of the module as they came: iterators of blocks are proved to stay in their domain, or
// checked; loops that are parallel or vectors and not proved to be independent run in order; programs that
// schedules change get the checks of their accesses here, too. What is certainly outside is T0337.
// Needs: the module before operators become programs. Keeps: every value of a program that stays inside.
#include "pass/tensor/access_walk.h"

namespace tenon {

static IRModule prove_programs(IRModule module, PassContext& context) {
  return tensor_detail::prove_accesses(module, context, tensor_detail::Proving::given);
}

const Pass& prove_programs_pass = register_pass({
    .name = "prove_programs",
    .run = prove_programs,
    .level = 0,
    .summary = "given programs keep to their domains, and their parallel loops are independent",
});

}  // namespace tenon
