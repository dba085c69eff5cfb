// SPDX-License-Identifier: Apache-2.0
// f16_storage_legalize
//   before: B[i] = T.Cast("float16", T.Cast("float32", A[i]) * …)
//   after:  B_bits = T.decl_buffer((n,), "uint16", data=B.data)
//           B_bits[i] = (the float32 as bits, rounded to nearest even by integer arithmetic)
// Where both conversions are instructions (f16c, AArch64) nothing is to be done.
// Needs: f16_compute_legalize, flat loops. Keeps: every bit, and the types that callers see.
#include "pass/tensor/legalize.h"

namespace tenon {

static IRModule f16_storage_legalize(IRModule module, PassContext& context) {
  return tensor_detail::legalize_storage(
      std::move(module), [](DataType t) { return t == f16; }, context,
      [](const Target& target) -> std::optional<tensor_detail::NativeConversions> {
        if (converts_f16(target)) return std::nullopt;
        return tensor_detail::NativeConversions();
      },
      "f16_compute_legalize");
}

const Pass& f16_storage_legalize_pass = register_pass({
    .name = "f16_storage_legalize",
    .run = f16_storage_legalize,
    .level = 0,
    .summary = "float16 values are bits where no instruction converts",
    .needs = {"f16_compute_legalize", "flatten_buffer"},
});

}  // namespace tenon
