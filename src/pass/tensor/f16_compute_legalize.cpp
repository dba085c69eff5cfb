// SPDX-License-Identifier: Apache-2.0
// f16_compute_legalize
//   before: B[i] = A[i] * A[i] + C[i]                                  (float16)
//   after:  B[i] = T.Cast("float16", T.Cast("float32", T.Cast("float16", T.Cast("float32", A[i]) * …)) + …)
// Each operation on float16 is done in float32 and rounded once, as the types' meaning says; what only moves
// values keeps the type.
// Needs: nothing; kernels too. Keeps: every bit.
#include "pass/tensor/legalize.h"

namespace tenon {

static IRModule f16_compute_legalize(IRModule module, PassContext& context) {
  return tensor_detail::legalize_compute(std::move(module), [](DataType t) { return t == f16; }, context);
}

const Pass& f16_compute_legalize_pass = register_pass({
    .name = "f16_compute_legalize",
    .run = f16_compute_legalize,
    .level = 0,
    .summary = "operations on float16 are done in float32",
});

}  // namespace tenon
