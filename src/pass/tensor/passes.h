// SPDX-License-Identifier: Apache-2.0
// The lowering of tensor programs: blocks → loops → flat buffers → vectors → the kernel's calling convention.
// Each pass is a free function in the file of its name; `tensor_pipeline` lists them in order. Every sub-list
// that keeps the order gives a program of the same meaning.
#pragma once
#include "ir/pass.h"

namespace tenon {

IRModule lower_block_init(IRModule, PassContext&);
IRModule plan_buffer_allocation(IRModule, PassContext&);
IRModule convert_blocks_to_opaque(IRModule, PassContext&);
IRModule lower_match_buffer(IRModule, PassContext&);
IRModule compact_buffer_allocation(IRModule, PassContext&);
IRModule lower_opaque_block(IRModule, PassContext&);
IRModule flatten_buffer(IRModule, PassContext&);
IRModule vectorize_loop(IRModule, PassContext&);
IRModule unroll_loop(IRModule, PassContext&);
IRModule hoist_condition(IRModule, PassContext&);
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

/// All of them, in order.
std::span<const Pass> tensor_pipeline();

/// The scalars that a kernel takes, in order: scalar parameters, then the symbolic dimensions of its buffers
/// that are no parameters, by first appearance. Callers of kernels follow it.
std::vector<tir::VarRef> kernel_scalars(const tir::PrimFunc& f);

}  // namespace tenon
