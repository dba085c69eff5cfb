// SPDX-License-Identifier: Apache-2.0
// The list of the tensor passes, and what they share.
#include "pass/tensor/passes.h"

#include "pass/tensor/lowering.h"

namespace tenon {

std::span<const Pass> tensor_pipeline() {
  static const Pass list[] = {
      {"lower_block_init", lower_block_init, 0, "a block's init becomes an if on its first iteration"},
      {"plan_buffer_allocation", plan_buffer_allocation, 0, "buffers move to where all uses are below"},
      {"convert_blocks_to_opaque", convert_blocks_to_opaque, 0, "block iterators become their bindings"},
      {"lower_match_buffer", lower_match_buffer, 0, "matched regions become accesses of the source"},
      {"compact_buffer_allocation", compact_buffer_allocation, 1,
       "buffers shrink to the region that is used"},
      {"lower_opaque_block", lower_opaque_block, 0, "blocks vanish, their buffers become allocations"},
      {"flatten_buffer", flatten_buffer, 0, "all buffers have one dimension"},
      // Unrolled loops inside vector loops are cheaper to copy once they are vectors.
      {"vectorize_loop", vectorize_loop, 0, "vector loops become vector operations"},
      {"unroll_loop", unroll_loop, 0, "unrolled loops become their iterations"},
      {"simplify_tir", simplify_tir, 0, "canonical indices and conditions, dead code gone"},
      {"hoist_condition", hoist_condition, 1, "conditions that a loop does not change move out of it"},
      {"loop_partition", loop_partition, 2, "conditions on loop variables split loops"},
      {"narrow_data_type", narrow_data_type, 3, "64-bit divisions are done in 32 bits where ranges prove it"},
      {"storage_rewrite", storage_rewrite, 1, "allocations share memory"},
      {"annotate_parallel_cost", annotate_parallel_cost, 0, "parallel loops know what an iteration costs"},
      {"f16_compute_legalize", f16_compute_legalize, 0, "operations on float16 are done in float32"},
      {"bf16_compute_legalize", bf16_compute_legalize, 0, "operations on bfloat16 are done in float32"},
      {"fp8_compute_legalize", fp8_compute_legalize, 0, "operations on 8-bit floats are done in float32"},
      // What follows sees no mathematics; what comes before plans by its names.
      {"lower_intrin", lower_intrin, 0, "mathematical functions become polynomials"},
      {"make_packed_api", make_packed_api, 0, "the kernel's calling convention"},
      // Scalars of a kernel have their types by now, too.
      {"f16_storage_legalize", f16_storage_legalize, 0,
       "float16 values are bits where no instruction converts"},
      {"bf16_storage_legalize", bf16_storage_legalize, 0, "bfloat16 values are bits"},
      {"fp8_storage_legalize", fp8_storage_legalize, 0, "8-bit floats are bits"},
  };
  return list;
}

namespace tensor_detail {

bool mentions(const ObjectRef& e, const tir::Var* v) {
  bool found = false;
  pre_order(e, [&](const ObjectRef& n) {
    found = found || n.get() == v;
    return !found && !n.is<tir::BufferNode>();
  });
  return found;
}

int64_t size_of(const tir::Stmt& s, int64_t limit) {
  int64_t n = 0;
  pre_order(s, [&](const ObjectRef& node) { return !node.is<tir::BufferNode>() && ++n <= limit; });
  return n;
}

std::vector<tir::VarRef> sizes_of(const tir::PrimFunc& f) {
  std::vector<tir::VarRef> out;
  for (const auto& [p, b] : f->buffer_map)
    for (const PrimExpr& d : b->shape)
      if (const auto* v = d.as<tir::Var>(); v && v->dtype == i64)
        out.push_back(tir::VarRef(Ref<tir::Var>(v)));
  return out;
}

void refuse(std::string code, std::string message, const tir::Stmt& at, std::string hint) {
  std::string where;
  if (at && at->origin) where = at->origin->text.empty() ? at->origin->span.to_string() : at->origin->text;
  fail(std::move(code), std::move(message), where, std::move(hint));
}

}  // namespace tensor_detail
}  // namespace tenon
