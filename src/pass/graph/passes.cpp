// SPDX-License-Identifier: Apache-2.0
// The order of the graph passes. Rewrites come before fusion, because fused calls hide the operators.
#include "pass/graph/passes.h"

#include <map>

#include "pass/graph/rounding.h"

namespace tenon {

namespace {
constexpr int kOnRequest = 4;  ///< above every -O: runs when required by name
}

double rounding_of(const Pass& pass) {
  static const std::map<std::string_view, double> list{{"to_mixed_precision", 0x1p-8}};  // bf16
  const auto it = list.find(pass.name);
  return it == list.end() ? 0 : it->second;
}

std::span<const Pass> graph_pipeline() {
  static const Pass list[] = {
      {"to_a_normal_form", to_a_normal_form, kOnRequest, "nested expressions become bindings"},
      {"infer_types", infer_types, 0, "types of all values, from the parameters on"},
      {"check_types", check_types, 0, "what declared types say and inference cannot compare is checked"},
      {"normalize_global_var", normalize_global_var, kOnRequest, "functions stand under their symbols"},
      {"label_ops", label_ops, kOnRequest, "calls of operators that come from nowhere get names"},
      {"bind_params", bind_params, kOnRequest, "parameters become constants"},
      {"bind_symbolic_vars", bind_symbolic_vars, kOnRequest, "symbolic sizes become numbers"},
      {"update_param_type", update_param_type, kOnRequest, "parameters get more exact types"},
      {"eta_expand", eta_expand, kOnRequest, "functions that stand as values become closures"},
      // Early, so that every pass below sees the bodies of closures as functions.
      {"lambda_lift", lambda_lift, 0, "closures become functions of the module"},
      {"inline_functions", inline_functions, 1,
       "lifted closures, and functions that ask, where they are called"},
      {"check_sizes", check_sizes, 0, "what operators take for granted of symbolic sizes is checked"},
      // Before what folds: the functions for a size are worth it because their sizes are known.
      {"flexible_shape_dispatch", flexible_shape_dispatch, kOnRequest,
       "functions for given sizes, chosen at run time"},
      {"expand_tuple_arguments", expand_tuple_arguments, kOnRequest,
       "private functions take the items of a tuple"},
      {"remove_unused_parameters", remove_unused_parameters, kOnRequest,
       "private functions are not given what they do not read"},
      {"remove_unused_outputs", remove_unused_outputs, kOnRequest,
       "private functions do not return what nobody reads"},
      {"lift_transform_params", lift_transform_params, kOnRequest,
       "what is computed from weights alone becomes a function of its own"},
      {"lazy_transform_params", lazy_transform_params, kOnRequest,
       "that function fetches weights and hands out results one by one"},
      {"fold_batchnorm_to_conv2d", fold_batchnorm_to_conv2d, kOnRequest,
       "batch_norm goes into the weight of the convolution before it"},
      {"decompose_ops_for_inference", decompose_ops_for_inference, kOnRequest,
       "normalisations are written out"},
      {"simplify_inference", simplify_inference, 1, "batch_norm becomes scale and shift, dropout goes"},
      {"canonicalize", canonicalize, 1,
       "one spelling for equal things: casts, reshapes, transposes, identities"},
      {"canonicalize_ops", canonicalize_ops, kOnRequest,
       "operators that are others in short are written out"},
      {"dynamic_to_static", dynamic_to_static, kOnRequest, "sizes computed from constants become numbers"},
      // What is constant folds before patterns look for constants.
      {"fold_constant", fold_constant, 1, "operators on constants become constants"},
      {"simplify_expr", simplify_expr, 2, "algebra on operators: pads, slices, concatenations, chains"},
      {"flatten_atrous_conv", flatten_atrous_conv, kOnRequest,
       "convolutions between batches of phases are dilated ones"},
      {"div_to_mul", div_to_mul, kOnRequest, "division by constants becomes multiplication"},
      {"backward_fold_scale_axis", backward_fold_scale_axis, kOnRequest,
       "scales behind contractions move back into constant weights"},
      {"forward_fold_scale_axis", forward_fold_scale_axis, kOnRequest,
       "scales in front of contractions move forward into constant weights"},
      {"fold_scale_axis", fold_scale_axis, 2, "scales around contractions move into constant weights"},
      {"reorder_permute_dims_after_concat", reorder_permute_dims_after_concat, 2,
       "transposed parts are put together before they are transposed"},
      {"adjust_matmul_order", adjust_matmul_order, 3, "chains of products in the cheaper order"},
      {"expand_matmul_of_sum", expand_matmul_of_sum, kOnRequest, "x·(A + B·C) becomes x·A + (x·B)·C"},
      {"reorder_take_after_matmul", reorder_take_after_matmul, kOnRequest,
       "columns are taken from the product, not from its matrix"},
      {"combine_parallel_conv2d", combine_parallel_conv2d, kOnRequest,
       "convolutions of one tensor become one wider convolution"},
      {"combine_parallel_dense", combine_parallel_dense, kOnRequest,
       "products of one matrix with several become one wider product"},
      {"combine_parallel_batch_matmul", combine_parallel_batch_matmul, kOnRequest,
       "batched products of one tensor with several become one wider product"},
      {"to_mixed_precision", to_mixed_precision, kOnRequest,
       "contractions compute on 16-bit floats (--precision)"},
      {"fold_constant", fold_constant, 1, "the scaled weights become constants"},
      {"eliminate_dead_code", eliminate_dead_code, 1, "what folding left unused goes"},
      {"fast_math", fast_math, kOnRequest, "exponentials become their cheaper forms"},
      // Before layouts and panels, which libraries do not know.
      {"use_libraries", use_libraries, 0, "what a library of the target computes becomes a call of it"},
      {"narrow_conv", narrow_conv, 2, "convolutions of quantised values become convolutions of bytes"},
      {"convert_layout", convert_layout, 2, "channels of convolutions in blocks as wide as a vector"},
      {"eliminate_dead_code", eliminate_dead_code, 1, "moves that nobody needs go"},
      {"pack_weights", pack_weights, 2, "constant matrices are laid out in panels for the register tile"},
      {"fold_constant", fold_constant, 1, "weights are packed"},
      {"canonicalize", canonicalize, 1, "what folding left behind"},
      {"eliminate_common_subexpr", eliminate_common_subexpr, 2, "equal pure values are computed once"},
      {"eliminate_dead_code", eliminate_dead_code, 1, "bindings that nothing needs go"},
      {"to_basic_block_normal_form", to_basic_block_normal_form, kOnRequest,
       "a value that only one branch reads is computed in that branch"},
      {"canonicalize_cast", canonicalize_cast, kOnRequest, "each user of a wider value widens it itself"},
      {"bundle_model_params", bundle_model_params, kOnRequest, "parameters behind the inputs become a tuple"},
      {"split_args", split_args, kOnRequest, "concatenations of very many tensors are made in steps"},
      {"plan_devices", plan_devices, kOnRequest, "every value gets a device; copies where values cross"},
      {"topological_sort", topological_sort, kOnRequest, "values stand where they are first needed"},
      {"annotate_used_memory", annotate_used_memory, kOnRequest, "bytes alive at each binding"},
      {"convert_to_dataflow", convert_to_dataflow, kOnRequest, "stretches of pure bindings are marked"},
      // What a module brings fused is fused anew.
      {"defuse_ops", defuse_ops, kOnRequest, "primitive functions become their operators again"},
      {"fuse_ops", fuse_ops, 1, "operators that one kernel computes become one function"},
      {"horizontal_fusion", horizontal_fusion, kOnRequest,
       "kernels that read one tensor side by side become one"},
      {"lower_to_call_tir", lower_to_call_tir, 0, "operators and fused functions become tensor programs"},
      {"annotate_tir_op_pattern", annotate_tir_op_pattern, kOnRequest, "how tensor programs may be fused"},
      {"alter_op_impl", alter_op_impl, kOnRequest, "programs of one kind are replaced by another"},
      {"split_call_tir_by_pattern", split_call_tir_by_pattern, kOnRequest,
       "programs are cut behind the stages that a pattern finds"},
      {"fuse_tir", fuse_tir, kOnRequest, "programs that only one other reads become part of it"},
      {"eliminate_dead_code", eliminate_dead_code, 1, "what lowering left unused goes"},
      {"remove_unused_functions", remove_unused_functions, 0, "functions that nothing calls go"},
      {"dataflow_use_inplace_calls", dataflow_use_inplace_calls, kOnRequest,
       "programs write over arguments that nobody needs any more"},
      {"plan_memory", plan_memory, 0, "places of intermediate tensors in one arena"},
  };
  return list;
}

}  // namespace tenon
