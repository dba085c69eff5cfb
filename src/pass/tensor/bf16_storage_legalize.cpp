// SPDX-License-Identifier: Apache-2.0
// bf16_storage_legalize
//   before: B[i] = T.Cast("bfloat16", T.Cast("float32", A[i]) * …)
//   after:  B_bits = T.decl_buffer((n,), "uint16", data=B.data)
//           B_bits[i] = (the float32 as bits, rounded to nearest even by integer arithmetic)
// With avx512_bf16 (or bf16 of AArch64) the rounding is an instruction; the one of x86 takes subnormals for
// zero, so that lanes with such go the long way, behind a branch, unless values below 2⁻¹²⁶ do not matter
// (`drop_subnormals`). Dot products of the target keep bfloat16.
// Needs: bf16_compute_legalize, flat loops. Keeps: every bit, and the types that callers see.
#include "pass/tensor/legalize.h"

namespace tenon {

static const Option<bool> kDropSubnormals("bf16_storage_legalize.drop_subnormals", false,
                                          "may an instruction round values below 2^-126 to 0?");

static IRModule bf16_storage_legalize(IRModule module, PassContext& context) {
  const bool drop = context.options.get(kDropSubnormals);
  return tensor_detail::legalize_storage(
      std::move(module), [](DataType t) { return t.code == TypeCode::BFloat; }, context,
      [drop](const Target& target) -> std::optional<tensor_detail::NativeConversions> {
        return tensor_detail::NativeConversions{false, rounds_to_bf16(target),
                                                bf16_rounding_flushes(target) && !drop};
      },
      "bf16_compute_legalize");
}

const Pass& bf16_storage_legalize_pass = register_pass({
    .name = "bf16_storage_legalize",
    .run = bf16_storage_legalize,
    .level = 0,
    .summary = "bfloat16 values are bits",
    .needs = {"bf16_compute_legalize", "flatten_buffer"},
    .options = {kDropSubnormals},
});

}  // namespace tenon
