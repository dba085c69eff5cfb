// SPDX-License-Identifier: Apache-2.0
// bf16_storage_legalize
//   before: B[i] = T.Cast("bfloat16", T.Cast("float32", A[i]) * …)
//   after:  B_bits = T.decl_buffer((n,), "uint16", data=B.data)
//           B_bits[i] = (the float32 as bits, rounded to nearest even by integer arithmetic)
// Needs: bf16_compute_legalize, flat loops. Keeps: every bit, and the types that callers see.
#include "pass/tensor/legalize.h"

namespace tenon {

IRModule bf16_storage_legalize(IRModule module, PassContext&) {
  return tensor_detail::legalize_storage(
      std::move(module), [](DataType t) { return t.code == TypeCode::BFloat; }, {}, "bf16_compute_legalize");
}

}  // namespace tenon
