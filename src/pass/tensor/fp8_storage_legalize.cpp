// SPDX-License-Identifier: Apache-2.0
// fp8_storage_legalize
//   before: B[i] = T.Cast("float8_e4m3fn", T.Cast("float32", A[i]) * …)
//   after:  B_bits = T.decl_buffer((n,), "uint8", data=B.data)
//           B_bits[i] = (the float32 as bits, rounded to nearest even by integer arithmetic)
// Needs: fp8_compute_legalize, flat loops. Keeps: every bit, and the types that callers see.
#include "pass/tensor/legalize.h"

namespace tenon {

static IRModule fp8_storage_legalize(IRModule module, PassContext& context) {
  return tensor_detail::legalize_storage(
      std::move(module), [](DataType t) { return t.is_float8(); }, context,
      [](const Target&) { return std::optional(tensor_detail::NativeConversions()); },
      "fp8_compute_legalize");
}

const Pass& fp8_storage_legalize_pass = register_pass({
    .name = "fp8_storage_legalize",
    .run = fp8_storage_legalize,
    .level = 0,
    .summary = "8-bit floats are bits",
    .needs = {"fp8_compute_legalize", "flatten_buffer"},
});

}  // namespace tenon
