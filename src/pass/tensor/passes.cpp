// SPDX-License-Identifier: Apache-2.0
// The list of the tensor passes, and what they share.
#include "pass/tensor/passes.h"

#include "pass/tensor/legalize.h"

namespace tenon {

IRModule split_edge_tiles(IRModule, PassContext&);

std::span<const Pass> tensor_pipeline() {
  static const Pass list[] = {
      {"lower_vscale", lower_vscale, 0, "scalable vectors get the machine's length"},
      {"lower_producer", lower_producer, 0, "tensors without a buffer get one"},
      {"storage_flatten", storage_flatten, 0, "realized regions become allocations"},
      {"inject_prefetch", inject_prefetch, 0, "announced regions become hints for each cache line"},
      {"lower_block_init", lower_block_init, 0, "a block's init becomes an if on its first iteration"},
      {"plan_buffer_allocation", plan_buffer_allocation, 0, "buffers move to where all uses are below"},
      {"convert_blocks_to_opaque", convert_blocks_to_opaque, 0, "block iterators become their bindings"},
      {"lower_match_buffer", lower_match_buffer, 0, "matched regions become accesses of the source"},
      {"compact_buffer_allocation", compact_buffer_allocation, 1,
       "buffers shrink to the region that is used"},
      {"lower_opaque_block", lower_opaque_block, 0, "blocks vanish, their buffers become allocations"},
      {"flatten_buffer", flatten_buffer, 0, "all buffers have one dimension"},
      {"inject_virtual_thread", inject_virtual_thread, 0, "virtual threads run statement by statement"},
      {"inject_double_buffer", inject_double_buffer, 0,
       "the next iteration's data comes while this one's is used"},
      {"inject_software_pipeline", inject_software_pipeline, 0,
       "statements of a loop overlap between iterations"},
      // Unrolled loops inside vector loops are cheaper to copy once they are vectors.
      {"vectorize_loop", vectorize_loop, 0, "vector loops become vector operations"},
      {"unroll_loop", unroll_loop, 0, "unrolled loops become their iterations"},
      {"simplify_tir", simplify_tir, 0, "canonical indices and conditions, dead code gone"},
      {"hoist_if_then_else", hoist_if_then_else, 1, "conditions that a loop does not change move out of it"},
      // Before loop_partition, which then finds fewer conditions in the inner loops.
      {"split_edge_tiles", split_edge_tiles, 2, "tiles inside of a symbolic size lose clamps and masks"},
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
      {"int4_legalize", int4_legalize, 0, "integers of 4 and 2 bits are parts of bytes"},
  };
  return list;
}

std::span<const Pass> device_pipeline() {
  static const Pass list[] = {
      // Reductions over threads are taken apart while blocks still say what a reduction is.
      {"lower_cross_thread_reduction", lower_cross_thread_reduction, 0,
       "threads reduce their parts, then together"},
      {"lower_block_init", lower_block_init, 0, "a block's init becomes an if on its first iteration"},
      {"plan_buffer_allocation", plan_buffer_allocation, 0, "buffers move to where all uses are below"},
      {"convert_blocks_to_opaque", convert_blocks_to_opaque, 0, "block iterators become their bindings"},
      {"lower_match_buffer", lower_match_buffer, 0, "matched regions become accesses of the source"},
      {"compact_buffer_allocation", compact_buffer_allocation, 1,
       "buffers shrink to the region that is used"},
      {"lower_opaque_block", lower_opaque_block, 0, "blocks vanish, their buffers become allocations"},
      {"canonicalize_loop", canonicalize_loop, 0, "loops begin at 0"},
      {"lift_thread_binding", lift_thread_binding, 0, "a kernel has one loop for each axis of threads"},
      {"unify_thread_binding", unify_thread_binding, 0,
       "a loop inside another over the same threads is one of them"},
      {"flatten_buffer", flatten_buffer, 0, "all buffers have one dimension"},
      {"inject_virtual_thread", inject_virtual_thread, 0, "virtual threads run statement by statement"},
      {"inject_double_buffer", inject_double_buffer, 0,
       "the next iteration's data comes while this one's is used"},
      {"inject_software_pipeline", inject_software_pipeline, 0,
       "statements of a loop overlap between iterations"},
      {"vectorize_loop", vectorize_loop, 0, "vector loops become vector operations"},
      {"unroll_loop", unroll_loop, 0, "unrolled loops become their iterations"},
      {"simplify_tir", simplify_tir, 0, "canonical indices and conditions, dead code gone"},
      {"remove_no_op", remove_no_op, 0, "statements without an effect go"},
      {"verify_memory", verify_memory, 0, "the device's memory is accessed by its threads only"},
      {"thread_sync", thread_sync, 0, "barriers between accesses of different threads"},
      {"lower_thread_allreduce", lower_thread_allreduce, 0, "threads combine their values in shared memory"},
      {"merge_shared_memory_allocations", merge_shared_memory_allocations, 0,
       "shared memory of a kernel is one allocation"},
      {"lower_warp_memory", lower_warp_memory, 0, "memory of a warp lies in the registers of its threads"},
      {"split_host_device", split_host_device, 0, "what runs on the device becomes functions of its own"},
  };
  return list;
}

std::span<const Pass> optional_tensor_passes() {
  static const Pass list[] = {
      {"annotate_entry_func", annotate_entry_func, 0, "the function that a user calls is marked"},
      {"annotate_irregular_loop", annotate_irregular_loop, 0, "loops that may be left early are marked"},
      {"common_subexpr_elim", common_subexpr_elim, 2, "what is computed twice is computed once"},
      {"hoist_expression", hoist_expression, 2, "values and conditions that a loop does not change leave it"},
      {"instrument_bound_checkers", instrument_bound_checkers, 0,
       "accesses are asserted to be inside their buffers"},
      {"renormalize_split_pattern", renormalize_split_pattern, 2, "digits of split indices have one form"},
      {"rewrite_unsafe_select", rewrite_unsafe_select, 0,
       "choices evaluate only the side that may be evaluated"},
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

bool is_plain(const PrimExpr& e) {
  using namespace tir;
  bool ok = true;
  pre_order(e, [&](const ObjectRef& n) {
    if (n.is<BufferLoad>() || n.is<Call>()) ok = false;
    auto constant = [](const PrimExpr& d) { return as_int(d) && *as_int(d) != 0; };
    if (const auto* d = n.as<FloorDiv>()) ok = ok && constant(d->b);
    if (const auto* d = n.as<FloorMod>()) ok = ok && constant(d->b);
    if (const auto* d = n.as<Div>()) ok = ok && constant(d->b);
    if (const auto* d = n.as<Mod>()) ok = ok && constant(d->b);
    return ok;
  });
  return ok;
}

bool has_threads(const tir::Stmt& s) {
  bool found = false;
  pre_order(s, [&](const ObjectRef& n) {
    const auto* f = n.as<tir::For>();
    found = found || (f && f->kind == tir::ForKind::thread_binding &&
                      (f->thread_tag.starts_with("threadIdx.") || f->thread_tag.starts_with("blockIdx.")));
    return !found && (n.is<tir::StmtNode>() || n.is<ArrayObj>());
  });
  return found;
}

tir::Stmt moved(const tir::Stmt& s, const tir::Buffer& from, const tir::Buffer& to, const PrimExpr& place) {
  auto shifted = [&](const Array<PrimExpr>& at) {
    return Array<PrimExpr>{simplify(at[0] + tir::cast(at[0].dtype().element(), place))};
  };
  return rewrite(
      s,
      [&](const tir::BufferLoad& n) -> PrimExpr {
        return n.buffer.same_as(from) ? tir::load(to, shifted(n.indices), n.predicate) : PrimExpr();
      },
      [&](const tir::BufferStore& n) -> tir::Stmt {
        return n.buffer.same_as(from) ? tir::store(to, n.value, shifted(n.indices), n.predicate)
                                      : tir::Stmt();
      });
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
