// SPDX-License-Identifier: Apache-2.0
// The lowering of tensor programs: blocks → loops → flat buffers → vectors → the kernel's calling convention.
// Each pass is a free function in the file of its name; `tensor_pipeline` lists them in order. Every sub-list
// that keeps the order gives a program of the same meaning.
#pragma once
#include "ir/pass.h"

namespace tenon {

IRModule lower_vscale(IRModule, PassContext&);
IRModule lower_block_init(IRModule, PassContext&);
IRModule plan_buffer_allocation(IRModule, PassContext&);
IRModule convert_blocks_to_opaque(IRModule, PassContext&);
IRModule lower_match_buffer(IRModule, PassContext&);
IRModule compact_buffer_allocation(IRModule, PassContext&);
IRModule lower_opaque_block(IRModule, PassContext&);
IRModule flatten_buffer(IRModule, PassContext&);
IRModule vectorize_loop(IRModule, PassContext&);
IRModule unroll_loop(IRModule, PassContext&);
IRModule hoist_if_then_else(IRModule, PassContext&);
IRModule loop_partition(IRModule, PassContext&);
IRModule simplify_tir(IRModule, PassContext&);
IRModule narrow_data_type(IRModule, PassContext&);
IRModule storage_rewrite(IRModule, PassContext&);
IRModule annotate_parallel_cost(IRModule, PassContext&);
IRModule f16_compute_legalize(IRModule, PassContext&);
IRModule bf16_compute_legalize(IRModule, PassContext&);
IRModule fp8_compute_legalize(IRModule, PassContext&);
IRModule lower_intrin(IRModule, PassContext&);
IRModule f16_storage_legalize(IRModule, PassContext&);
IRModule bf16_storage_legalize(IRModule, PassContext&);
IRModule fp8_storage_legalize(IRModule, PassContext&);
IRModule make_packed_api(IRModule, PassContext&);
IRModule lower_producer(IRModule, PassContext&);
IRModule storage_flatten(IRModule, PassContext&);
IRModule inject_prefetch(IRModule, PassContext&);
IRModule inject_virtual_thread(IRModule, PassContext&);
IRModule inject_double_buffer(IRModule, PassContext&);
IRModule inject_software_pipeline(IRModule, PassContext&);
IRModule lower_cross_thread_reduction(IRModule, PassContext&);
IRModule canonicalize_loop(IRModule, PassContext&);
IRModule lift_thread_binding(IRModule, PassContext&);
IRModule unify_thread_binding(IRModule, PassContext&);
IRModule remove_no_op(IRModule, PassContext&);
IRModule verify_memory(IRModule, PassContext&);
IRModule thread_sync(IRModule, PassContext&);
IRModule lower_thread_allreduce(IRModule, PassContext&);
IRModule merge_shared_memory_allocations(IRModule, PassContext&);
IRModule lower_warp_memory(IRModule, PassContext&);
IRModule split_host_device(IRModule, PassContext&);
IRModule annotate_entry_func(IRModule, PassContext&);
IRModule annotate_irregular_loop(IRModule, PassContext&);
IRModule common_subexpr_elim(IRModule, PassContext&);
IRModule hoist_expression(IRModule, PassContext&);
IRModule instrument_bound_checkers(IRModule, PassContext&);
IRModule renormalize_split_pattern(IRModule, PassContext&);
IRModule rewrite_unsafe_select(IRModule, PassContext&);

/// What a program for processors goes through, in order.
std::span<const Pass> tensor_pipeline();
/// What a program whose loops are bound to GPU threads goes through, up to kernels apart from their host;
/// each keeps the meaning that the interpreter's simulated threads give it, but that between
/// lift_thread_binding and thread_sync the barriers are missing.
std::span<const Pass> device_pipeline();
/// Passes that stand in neither list and are asked for by name.
std::span<const Pass> optional_tensor_passes();

}  // namespace tenon
