// SPDX-License-Identifier: Apache-2.0
// The order of the graph passes. Rewrites come before fusion, because fused calls hide the operators.
#include "pass/graph/passes.h"

namespace tenon {

namespace {
constexpr int kOnRequest = 4;  ///< above every -O: runs when required by name
}

std::span<const Pass> graph_pipeline() {
  static const Pass list[] = {
      {"infer_types", infer_types, 0, "types of all values, from the parameters on"},
      // Early, so that every pass below sees the bodies of closures as functions.
      {"lambda_lift", lambda_lift, 0, "closures become functions of the module"},
      {"inline_functions", inline_functions, 1,
       "lifted closures, and functions that ask, where they are called"},
      {"simplify_inference", simplify_inference, 1, "batch_norm becomes scale and shift, dropout goes"},
      {"canonicalize", canonicalize, 1,
       "one spelling for equal things: casts, reshapes, transposes, identities"},
      // What is constant folds before patterns look for constants.
      {"fold_constant", fold_constant, 1, "operators on constants become constants"},
      {"simplify_expr", simplify_expr, 2, "algebra on operators: pads, slices, concatenations, chains"},
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
      {"narrow_conv", narrow_conv, 2, "convolutions of quantised values become convolutions of bytes"},
      {"convert_layout", convert_layout, 2, "channels of convolutions in blocks as wide as a vector"},
      {"eliminate_dead_code", eliminate_dead_code, 1, "moves that nobody needs go"},
      {"pack_weights", pack_weights, 2, "constant matrices are laid out in panels for the register tile"},
      {"fold_constant", fold_constant, 1, "weights are packed"},
      {"canonicalize", canonicalize, 1, "what folding left behind"},
      {"eliminate_common_subexpr", eliminate_common_subexpr, 2, "equal pure values are computed once"},
      {"eliminate_dead_code", eliminate_dead_code, 1, "bindings that nothing needs go"},
      {"fuse_ops", fuse_ops, 1, "operators that one kernel computes become one function"},
      {"lower_to_call_tir", lower_to_call_tir, 0, "operators and fused functions become tensor programs"},
      {"eliminate_dead_code", eliminate_dead_code, 1, "what lowering left unused goes"},
      {"remove_unused_functions", remove_unused_functions, 0, "functions that nothing calls go"},
      {"plan_memory", plan_memory, 0, "places of intermediate tensors in one arena"},
  };
  return list;
}

}  // namespace tenon
