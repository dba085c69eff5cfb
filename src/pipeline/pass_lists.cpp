// SPDX-License-Identifier: Apache-2.0
// The order of the passes of a compilation, written here once. A pass says itself what it needs; the comments
// say what else the order is for.
#include "pipeline/pass_lists.h"

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <climits>
#include <mutex>
#include <set>

#include "base/diagnostic.h"

namespace tenon {
namespace {

/// What graph functions go through.
const Chapter kGraph[] = {
    {"types", {"infer_types", "check_types"}},
    // Programs that the module brings, before operators become more of them.
    // Jumps first: nothing else knows them.
    {"given programs", {"lower_jumps", "prove_programs", "mark_effects"}},
    // Early, so that every pass below sees the bodies of closures as functions.
    {"functions", {"lambda_lift", "inline_functions", "check_sizes"}},
    // Everything below knows the plain layouts only.
    {"one layout", {"plain_layouts"}},
    // While weights are still bytes: fold_constant would make wide numbers of them, also of those that
    // nobody needs any more. Tables first: behind them a byte is no sum that could stay a real number.
    {"quantised networks",
     {"tabulate_bytes", "fake_quantization_to_integer", "qnn_canonicalize", "narrow_contraction",
      "narrow_product", "scale_after_product", "eliminate_dead_code"}},
    {"one spelling", {"simplify_inference", "einsum_to_matmul", "dft_to_matmul", "canonicalize"}},
    // What is constant folds before patterns look for constants.
    {"constants", {"fold_constant", "simplify_expr"}},
    {"algebra",
     {"fold_scale_axis", "reorder_permute_dims_after_concat", "adjust_matmul_order", "drop_padding_taps"}},
    // Behind what folds factors into weights: it does not see through a rounding.
    // Parts of a convolution want the type of its operands and constant weights.
    {"new weights",
     {"combine_parallel", "promote_f16", "fold_constant", "split_dilated_conv", "eliminate_dead_code"}},
    // Libraries first: they do not know the layouts and panels.
    {"layout",
     {"use_libraries", "convert_layout", "eliminate_dead_code", "fold_transpose_into_product",
      "pack_weights"}},
    {"packed weights", {"fold_constant", "canonicalize", "eliminate_common_subexpr", "eliminate_dead_code"}},
    {"fusion", {"fuse_ops"}},
    {"lowering", {"lower_to_call_tir"}},
    {"programs", {"eliminate_dead_code", "fuse_rows", "inline_transpose", "remove_unused_functions"}},
    // Before memory is planned: what runs side by side is alive together.
    {"branches", {"parallelize_branches"}},
    {"memory", {"plan_memory"}},
};

/// Passes that graph functions go through when they are required by name: in front of the chapter's own.
const std::pair<std::string_view, std::vector<std::string_view>> kGraphOnRequest[] = {
    {"types", {"to_a_normal_form"}},
    {"functions",
     {"normalize_global_var", "label_ops", "bind_params", "bind_symbolic_vars", "update_param_type",
      "eta_expand", "fuse_ops_by_pattern", "annotate_target", "merge_compiler_regions", "partition_graph",
      "run_codegen", "partial_evaluate"}},
    // Functions for a size are worth it because what comes behind knows it.
    {"one spelling",
     {"flexible_shape_dispatch", "expand_tuple_arguments", "remove_unused_parameters",
      "remove_unused_outputs", "lift_transform_params", "lazy_transform_params", "fold_batchnorm_to_conv2d",
      "decompose_ops_for_inference"}},
    {"constants", {"canonicalize_ops", "dynamic_to_static"}},
    {"algebra", {"flatten_atrous_conv", "div_to_mul", "backward_fold_scale_axis", "forward_fold_scale_axis"}},
    {"new weights",
     {"expand_matmul_of_sum", "reorder_take_after_matmul", "combine_parallel_conv2d",
      "combine_parallel_dense", "combine_parallel_batch_matmul", "to_mixed_precision"}},
    {"layout", {"fast_math"}},
    // What a module brings fused is fused anew.
    {"fusion",
     {"to_basic_block_normal_form", "canonicalize_cast", "bundle_model_params", "split_args", "plan_devices",
      "topological_sort", "annotate_used_memory", "convert_to_dataflow", "defuse_ops"}},
    {"lowering", {"horizontal_fusion"}},
    {"programs", {"annotate_tir_op_pattern", "alter_op_impl", "split_call_tir_by_pattern", "fuse_tir"}},
    // Behind all that names and changes programs, before memory is planned for them.
    {"memory", {"override_kernels", "dataflow_use_inplace_calls"}},
};

const Chapter kSchedule[] = {{"schedule", {"one_row_versions", "default_schedule"}}};

/// What tensor programs for processors go through. Every part of it that keeps the order gives programs of
/// the same meaning.
const Chapter kTensor[] = {
    {"other spellings",
     {"lower_jumps", "apply_pragmas", "lower_vscale", "lower_producer", "storage_flatten",
      "inject_prefetch"}},
    // While buffers have their dimensions and blocks their predicates.
    {"proofs", {"guard_accesses"}},
    {"blocks",
     {"lower_block_init", "plan_buffer_allocation", "convert_blocks_to_opaque", "lower_match_buffer",
      // Before local tensors shrink to what one run of a block touches, and have places of their own.
      "reuse_result_buffer", "compact_buffer_allocation", "lower_opaque_block"}},
    {"loops",
     {"flatten_buffer", "inject_virtual_thread", "inject_double_buffer", "inject_software_pipeline",
      // Unrolled loops inside vector loops are cheaper to copy once they are vectors.
      "vectorize_loop", "unroll_loop", "simplify_tir", "hoist_if_then_else",
      // Before loop_partition, which then finds fewer conditions in the inner loops.
      "split_edge_tiles",
      // Behind all that makes loops vectors or unrolls them: digits and conditions cut what is left of scalar
      // loops into vectors. Before conditions cut loops of vectors: rows of few of them, which have fewer
      // conditions then.
      "carry_digits", "chain_digits", "vectorize_runs", "vectorize_loop", "few_vectors", "loop_partition",
      "block_wide_sums", "order_maxima",
      // Loops as they will run, so that their times are known; before memory is shared by what then runs
      // side by side.
      "fuse_parallel_loops", "narrow_data_type"}},
    {"memory", {"storage_rewrite", "annotate_parallel_cost"}},
    // Passes in front of lower_intrin plan by the names of functions, those behind see no mathematics.
    {"operations",
     {"f16_compute_legalize", "bf16_compute_legalize", "fp8_compute_legalize", "lower_intrin",
      // While both versions have parameters of their own.
      "join_versions", "make_packed_api"}},
    // Scalars of a kernel have their types by now, too.
    {"values", {"f16_storage_legalize", "bf16_storage_legalize", "fp8_storage_legalize", "int4_legalize"}},
};

const Chapter kDevice[] = {
    // Reductions over threads are taken apart while blocks still say what a reduction is.
    {"blocks",
     {"lower_cross_thread_reduction", "lower_block_init", "plan_buffer_allocation",
      "convert_blocks_to_opaque", "lower_match_buffer", "compact_buffer_allocation", "lower_opaque_block"}},
    {"threads", {"canonicalize_loop", "lift_thread_binding", "unify_thread_binding"}},
    {"loops",
     {"flatten_buffer", "inject_virtual_thread", "inject_double_buffer", "inject_software_pipeline",
      "vectorize_loop", "unroll_loop", "simplify_tir", "remove_no_op"}},
    {"memory of threads",
     {"verify_memory", "thread_sync", "lower_thread_allreduce", "merge_shared_memory_allocations",
      "lower_warp_memory"}},
    {"kernels", {"split_host_device"}},
};

/// The passes of the chapters in order, those on request in front.
std::vector<Pass> passes_of(std::span<const Chapter> chapters) {
  std::vector<Pass> out;
  for (const Chapter& c : chapters)
    for (const auto* names : {&c.on_request, &c.passes})
      for (std::string_view name : *names) {
        const Pass* pass = find_pass(name);
        CHECK(pass, fmt::format("the list of passes names `{}`, which is none", name));
        CHECK((pass->level == kOnRequest) == (names == &c.on_request),
              fmt::format("the level of pass `{}` is not that of its list", name));
        out.push_back(*pass);
      }
  return out;
}

std::span<const Chapter> graph_chapters() {
  static const std::vector<Chapter> all = [] {
    std::vector<Chapter> out(std::begin(kGraph), std::end(kGraph));
    for (const auto& [title, names] : kGraphOnRequest) {
      const auto c = std::ranges::find(out, title, &Chapter::title);
      CHECK(c != out.end(), fmt::format("no chapter `{}`", title));
      c->on_request = names;
    }
    return out;
  }();
  return all;
}

}  // namespace

namespace {
/// A list that may get passes of other languages. What was given out stays as it is.
struct PassList {
  explicit PassList(std::span<const Chapter> chapters) : now(new std::vector<Pass>(passes_of(chapters))) {}
  std::span<const Pass> get() const { return *now.load(); }
  void set(std::vector<Pass> next) { now = new std::vector<Pass>(std::move(next)); }
  std::atomic<const std::vector<Pass>*> now;
};
PassList& graph_list() {
  static PassList list(graph_chapters());
  return list;
}
PassList& schedule_list() {
  static PassList list(kSchedule);
  return list;
}
PassList& tensor_list() {
  static PassList list(kTensor);
  return list;
}

/// Names of passes that were inserted.
struct Inserted {
  std::mutex mutex;
  std::set<std::string> names;
  static Inserted& get() {
    static Inserted inserted;
    return inserted;
  }
};

/// One of the lists, or one of `named`, or any that is registered; null when there is none.
const Pass* pass_in_lists(std::string_view name, std::optional<std::span<const Pass>> named) {
  for (const std::span<const Pass> list :
       {named.value_or(std::span<const Pass>()), graph_passes(), schedule_passes(), tensor_passes()})
    if (const auto at = std::ranges::find(list, name, &Pass::name); at != list.end()) return &*at;
  return find_pass(name);
}
}  // namespace

std::span<const Pass> graph_passes() { return graph_list().get(); }
std::span<const Pass> schedule_passes() { return schedule_list().get(); }
std::span<const Pass> tensor_passes() { return tensor_list().get(); }
std::span<const Pass> device_passes() {
  static const std::vector<Pass> list = passes_of(kDevice);
  return list;
}

void insert_pass(const Pass& pass, const std::string& before) {
  Inserted& inserted = Inserted::get();
  std::lock_guard lock(inserted.mutex);
  if (pass_in_lists(pass.name, {}))
    fail("T0948", fmt::format("there is a pass `{}` already", pass.name), {}, {}, ErrorKind::usage);
  for (PassList* list : {&graph_list(), &schedule_list(), &tensor_list()}) {
    std::vector<Pass> next(list->get().begin(), list->get().end());
    const auto at = std::ranges::find(next, before, &Pass::name);
    if (at == next.end()) continue;
    next.insert(at, pass);
    list->set(std::move(next));
    inserted.names.insert(pass.name);
    return;
  }
  get_pass(before);  // T0919
  fail("T0947", fmt::format("the pass `{}` stands in no list of a compilation", before), {}, {},
       ErrorKind::usage);
}

void remove_pass(const std::string& name) {
  Inserted& inserted = Inserted::get();
  std::lock_guard lock(inserted.mutex);
  if (!inserted.names.erase(name)) return;
  for (PassList* list : {&graph_list(), &schedule_list(), &tensor_list()}) {
    std::vector<Pass> next(list->get().begin(), list->get().end());
    if (std::erase_if(next, [&](const Pass& p) { return p.name == name; })) list->set(std::move(next));
  }
}

bool has_inserted_passes() {
  Inserted& inserted = Inserted::get();
  std::lock_guard lock(inserted.mutex);
  return !inserted.names.empty();
}

std::vector<std::pair<std::string_view, std::span<const Chapter>>> all_pass_lists() {
  return {{"graph", graph_chapters()}, {"schedule", kSchedule}, {"tensor", kTensor}, {"device", kDevice}};
}

std::vector<Pass> passes_named(const Array<std::string>& names, DiagnosticList& problems) {
  std::vector<Pass> out;
  for (const std::string& name : names) {
    if (const Pass* p = find_pass(name))
      out.push_back(*p);
    else
      problems.add(no_such_pass(name));
  }
  return out;
}

void check_pass_requests(const PassContext& context, DiagnosticList& problems,
                         std::optional<std::span<const Pass>> named) {
  std::vector<std::span<const Pass>> lists{graph_passes(), schedule_passes(), tensor_passes()};
  if (named) lists = {*named};
  std::set<std::string_view> listed, running;
  for (const auto& list : lists)
    for (const Pass& p : list) listed.insert(p.name);
  for (const auto* names : {&context.disabled, &context.required})
    for (const std::string& name : *names) {
      if (!pass_in_lists(name, named))
        problems.add(no_such_pass(name));
      else if (!listed.count(name))
        problems.add("T0947", fmt::format("the pass `{}` is none of those that could run", name), {},
                     fmt::format("`tenon opt --pass {}` runs it alone", name));
    }
  PassContext possible;
  possible.opt_level = named ? INT_MAX : context.opt_level;  // what is named runs
  possible.required = context.required;
  for (const std::string& name : context.disabled) {
    if (!named && listed.count(name) && pass_in_lists(name, named)->level == 0)
      problems.add("T0946", fmt::format("no compilation can do without the pass `{}`", name));
    else
      possible.disabled.insert(name);
  }
  for (const auto& list : lists)
    for (const Pass* p : running_passes(list, possible, problems)) running.insert(p->name);
  for (const auto& [option, value] : context.options.given()) {
    const std::string name = option.substr(0, option.rfind('.'));
    if (running.count(name)) continue;
    problems.add(
        "T0945", fmt::format("the option `{}` is for a pass that does not run", option), {},
        !named && listed.count(name) ? fmt::format("`--require-pass {}` runs it", name) : std::string());
  }
}

}  // namespace tenon
