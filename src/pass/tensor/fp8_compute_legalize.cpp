// SPDX-License-Identifier: Apache-2.0
// fp8_compute_legalize
//   before: B[i] = A[i] * A[i] + C[i]                                  (float8_e4m3fn)
//   after:  p = fp8(f32(A[i]) * f32(A[i])); B[i] = fp8(f32(p) + f32(C[i]))     (fp8, f32: T.Cast to them)
// Each operation on an 8-bit float is done in float32 and rounded once, as the types' meaning says; what only
// moves values keeps the type. Needs: nothing; kernels too. Keeps: every bit.
#include "pass/tensor/legalize.h"

namespace tenon {

static IRModule fp8_compute_legalize(IRModule module, PassContext& context) {
  return tensor_detail::legalize_compute(
      std::move(module), [](DataType t) { return t.is_float8(); }, context);
}

const Pass& fp8_compute_legalize_pass = register_pass({
    .name = "fp8_compute_legalize",
    .run = fp8_compute_legalize,
    .level = 0,
    .summary = "operations on 8-bit floats are done in float32",
});

}  // namespace tenon
