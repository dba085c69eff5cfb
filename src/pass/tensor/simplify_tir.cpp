// SPDX-License-Identifier: Apache-2.0
// simplify_tir
//   before: for i in 1: if i * 4 + 3 < 16: B[i // 4 * 4 + i % 4] = …
//   after:  B[0] = …
// Indices and conditions in canonical form under the ranges of the loops; dead branches, empty loops and
// statements without effect are gone.
// Needs: nothing. Keeps: everything observable.
#include "pass/tensor/lowering.h"

namespace tenon {

static IRModule simplify_tir(IRModule module, PassContext&) {
  return tensor_detail::map_bodies(module, [](const std::string&, const tir::PrimFunc& f) {
    return simplify(f->body, true, tensor_detail::sizes_of(f));
  });
}

const Pass& simplify_tir_pass = register_pass({
    .name = "simplify_tir",
    .run = simplify_tir,
    .level = 0,
    .summary = "canonical indices and conditions, dead code gone",
});

}  // namespace tenon
