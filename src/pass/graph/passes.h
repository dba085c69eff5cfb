// SPDX-License-Identifier: Apache-2.0
// The passes over graph functions, one file each, and their order in a compilation.
#pragma once
#include "ir/pass.h"

namespace tenon {

IRModule infer_types(IRModule module, PassContext& context);
IRModule lambda_lift(IRModule module, PassContext& context);
IRModule inline_functions(IRModule module, PassContext& context);
IRModule canonicalize(IRModule module, PassContext& context);
IRModule simplify_inference(IRModule module, PassContext& context);
IRModule fold_constant(IRModule module, PassContext& context);
IRModule to_mixed_precision(IRModule module, PassContext& context);
IRModule combine_parallel_conv2d(IRModule module, PassContext& context);
IRModule combine_parallel_dense(IRModule module, PassContext& context);
IRModule combine_parallel_batch_matmul(IRModule module, PassContext& context);
IRModule adjust_matmul_order(IRModule module, PassContext& context);
IRModule expand_matmul_of_sum(IRModule module, PassContext& context);
IRModule reorder_permute_dims_after_concat(IRModule module, PassContext& context);
IRModule reorder_take_after_matmul(IRModule module, PassContext& context);
IRModule fold_scale_axis(IRModule module, PassContext& context);
IRModule narrow_conv(IRModule module, PassContext& context);
IRModule convert_layout(IRModule module, PassContext& context);
IRModule pack_weights(IRModule module, PassContext& context);
IRModule simplify_expr(IRModule module, PassContext& context);
IRModule eliminate_common_subexpr(IRModule module, PassContext& context);
IRModule eliminate_dead_code(IRModule module, PassContext& context);
IRModule fuse_ops(IRModule module, PassContext& context);
IRModule lower_to_call_tir(IRModule module, PassContext& context);
IRModule remove_unused_functions(IRModule module, PassContext& context);
IRModule plan_memory(IRModule module, PassContext& context);

/// All of them in the order of a compilation; some stand in it twice.
std::span<const Pass> graph_pipeline();

}  // namespace tenon
