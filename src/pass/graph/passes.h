// SPDX-License-Identifier: Apache-2.0
// The passes over graph functions, one file each, and their order in a compilation.
#pragma once
#include "ir/pass.h"

namespace tenon {

IRModule infer_types(IRModule module, PassContext& context);
IRModule check_types(IRModule module, PassContext& context);
IRModule lambda_lift(IRModule module, PassContext& context);
IRModule inline_functions(IRModule module, PassContext& context);
IRModule check_sizes(IRModule module, PassContext& context);
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

// On request, or without effect unless configured.
IRModule fold_batchnorm_to_conv2d(IRModule module, PassContext& context);
IRModule backward_fold_scale_axis(IRModule module, PassContext& context);
IRModule forward_fold_scale_axis(IRModule module, PassContext& context);
IRModule fast_math(IRModule module, PassContext& context);
IRModule canonicalize_ops(IRModule module, PassContext& context);
IRModule canonicalize_cast(IRModule module, PassContext& context);
IRModule eta_expand(IRModule module, PassContext& context);
IRModule dynamic_to_static(IRModule module, PassContext& context);
IRModule to_a_normal_form(IRModule module, PassContext& context);
IRModule to_basic_block_normal_form(IRModule module, PassContext& context);
IRModule bind_params(IRModule module, PassContext& context);
IRModule bind_symbolic_vars(IRModule module, PassContext& context);
IRModule update_param_type(IRModule module, PassContext& context);
IRModule bundle_model_params(IRModule module, PassContext& context);
IRModule flexible_shape_dispatch(IRModule module, PassContext& context);
IRModule remove_unused_parameters(IRModule module, PassContext& context);
IRModule remove_unused_outputs(IRModule module, PassContext& context);
IRModule expand_tuple_arguments(IRModule module, PassContext& context);
IRModule use_libraries(IRModule module, PassContext& context);
IRModule defuse_ops(IRModule module, PassContext& context);
IRModule horizontal_fusion(IRModule module, PassContext& context);
IRModule split_args(IRModule module, PassContext& context);
IRModule div_to_mul(IRModule module, PassContext& context);
IRModule flatten_atrous_conv(IRModule module, PassContext& context);
IRModule label_ops(IRModule module, PassContext& context);
IRModule annotate_used_memory(IRModule module, PassContext& context);
IRModule plan_devices(IRModule module, PassContext& context);
IRModule convert_to_dataflow(IRModule module, PassContext& context);
IRModule topological_sort(IRModule module, PassContext& context);
IRModule normalize_global_var(IRModule module, PassContext& context);
IRModule decompose_ops_for_inference(IRModule module, PassContext& context);
IRModule alter_op_impl(IRModule module, PassContext& context);
IRModule annotate_tir_op_pattern(IRModule module, PassContext& context);
IRModule fuse_tir(IRModule module, PassContext& context);
IRModule split_call_tir_by_pattern(IRModule module, PassContext& context);
IRModule dataflow_use_inplace_calls(IRModule module, PassContext& context);
IRModule lift_transform_params(IRModule module, PassContext& context);
IRModule lazy_transform_params(IRModule module, PassContext& context);

/// All of them in the order of a compilation; some stand in it twice.
std::span<const Pass> graph_pipeline();

}  // namespace tenon
