// SPDX-License-Identifier: Apache-2.0
#include "tools/extract_kernel.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <thread>

#include "analysis/region.h"
#include "base/nearest.h"
#include "ir/attr_keys.h"
#include "ir/bodies.h"
#include "ir/calls_out.h"
#include "ir/parallel.h"
#include "ir/program_results.h"
#include "pass/graph/lowering/program_trials.h"
#include "pipeline/evaluator.h"
#include "pipeline/program_entry.h"
#include "schedule/schedule.h"

namespace tenon {
namespace {

constexpr size_t kNamesOffered = 10;

[[noreturn]] void no_such_kernel(const IRModule& module, const std::string& name) {
  std::vector<std::pair<double, std::string>> kernels;
  std::vector<std::string> names;
  for (const auto& [other, object] : module.functions())
    if (const auto f = object.cast<tir::PrimFuncNode>()) {
      const WorkEstimate w = estimate_work(f->body);
      kernels.emplace_back(w.flop + w.bytes, other);
      names.push_back(other);
    }
  std::ranges::stable_sort(kernels, std::greater(), [](const auto& k) { return k.first; });
  std::vector<std::string> first;
  for (const auto& [work, other] : kernels)
    if (first.size() < kNamesOffered) first.push_back(other);
  const std::string near = nearest_name(name, names);
  throw Error(ErrorKind::usage, "T0923", fmt::format("the model has no kernel `{}`", name), {},
              !near.empty() ? fmt::format("did you mean `{}`?", near)
              : names.empty()
                  ? "it has none: nothing is computed when it runs"
                  : fmt::format("of its {} these have most to do: {}", names.size(), fmt::join(first, ", ")));
}

IRModule alone(const std::string& name, const tir::PrimFunc& f) {
  IRModule out = IRModule::create();
  out.set(name, f);
  return out;
}

/// The entry up to the kernel's first call among its own bindings, giving what that call takes and gives;
/// null where there is none such.
Ref<graph::Function> up_to_call(const Ref<graph::Function>& main, const std::string& kernel) {
  const auto* body = main->body.as<graph::SeqExpr>();
  std::vector<graph::Binding> bindings;
  for (const graph::BindingBlock& block : body->blocks)
    for (const graph::Binding& b : block->bindings) {
      bindings.push_back(b);
      const auto* call = b->value.as<graph::Call>();
      if (!call || !graph::is_call_tir(b->value)) continue;
      const auto* g = call->args[0].as<graph::GlobalVar>();
      const auto* args = call->args[1].as<graph::Tuple>();
      if (!g || g->name != kernel || !args) continue;
      Array<graph::Expr> values = args->items;
      values.push_back(b->var);
      const auto result = graph::var("kernel_values");
      bindings.push_back(make<graph::VarBindingNode>(result, graph::Expr(make<graph::Tuple>(values))));
      AttrMap attrs = main->attrs;
      for (const char* key : {"output_names", "output_kinds"}) attrs.erase(key);
      return make<graph::Function>(main->params, graph::make_body(bindings, result), graph::Type(), attrs,
                                   main->type_params);
    }
  return {};
}

/// Positions of the parameters that every call of the kernel gives a constant: weights, which may lie as a
/// schedule wants them.
Array<Any> constant_parameters(const IRModule& lowered, const std::string& kernel) {
  std::optional<std::vector<bool>> constant;
  for (const auto& [name, f] : graph::graph_functions(lowered))
    graph::for_each_binding(f->body, [&](const graph::Binding& b) {
      const graph::Expr value = b->value;
      const auto* call = value.as<graph::Call>();
      if (!call || !graph::is_call_tir(value)) return;
      const auto* g = call->args[0].as<graph::GlobalVar>();
      const auto* args = call->args[1].as<graph::Tuple>();
      if (!g || g->name != kernel || !args) return;
      if (!constant) constant.emplace(args->items.size(), true);
      for (size_t i = 0; i < args->items.size(); ++i)
        if (!args->items[i].is<graph::Constant>()) (*constant)[i] = false;
    });
  Array<Any> out;
  for (size_t i = 0; constant && i < constant->size(); ++i)
    if ((*constant)[i]) out.push_back(Any(int64_t(i)));
  return out;
}

/// What the kernel's first call takes and gives in a run; empty where that cannot be seen.
std::vector<NDArray> values_of_run(const IRModule& lowered, PassContext& context, const std::string& kernel,
                                   const std::vector<NDArray>& inputs) {
  const std::string entry = entry_name(lowered);
  const auto main = entry.empty() ? Ref<graph::Function>() : lowered.find(entry).cast<graph::Function>();
  if (!main || main->params.size() != inputs.size()) return {};
  const Ref<graph::Function> part = up_to_call(main, kernel);
  if (!part) return {};
  IRModule module = lowered;
  module.set(entry, part);
  PassContext typing;
  module = run_pass("infer_types", std::move(module), typing);
  module = run_pass("remove_unused_functions", std::move(module), typing);
  try {
    // Scheduled, it runs as fast as the model does.
    return context.evaluate(run_passes(std::move(module), schedule_passes(), context), entry, inputs);
  } catch (const Error&) {
    return {};  // the inputs are not such as the model takes
  }
}

void draw(ExtractedKernel& out, const std::string& kernel, const tir::PrimFunc& program,
          PassContext& context) {
  const tir::ProgramTrials trials(program, num_outputs(program));
  const tir::Trial trial = trials.trial(1);  // random numbers
  out.inputs = trial.inputs;
  out.outputs = context.evaluate(alone(kernel, tir::at_sizes(program, trial.sizes)), kernel, trial.inputs);
}

}  // namespace

ExtractedKernel extract_kernel(IRModule module, CompileOptions options, const std::string& kernel,
                               const std::vector<NDArray>& inputs) {
  PassContext context = context_of(options);
  const int threads =
      options.threads > 0 ? int(options.threads) : int(std::max(1u, std::thread::hardware_concurrency()));
  const ParallelPrograms parallel(threads, &context.cancelled);
  const IRModule lowered = module_in_front_of(std::move(module), options, "plan_memory");
  tir::PrimFunc program = lowered.find(kernel).cast<tir::PrimFuncNode>();
  if (!program) no_such_kernel(lowered, kernel);
  if (const Array<Any> weights = constant_parameters(lowered, kernel); !weights.empty())
    program.edit()->attrs.set(kLayoutFreeBuffers, Any(weights));
  ExtractedKernel out;
  out.unscheduled = alone(kernel, program);
  const auto scheduled =
      run_passes(out.unscheduled, schedule_passes(), context).find(kernel).cast<tir::PrimFuncNode>();
  out.scheduled = alone(kernel, scheduled);  // without the version for one row, which a compilation adds
  out.trace = scheduled->attrs.get_or(kTraceAttr, Any("[]")).as<std::string>();
  const std::vector<NDArray> values = values_of_run(lowered, context, kernel, inputs);
  const auto results = size_t(num_outputs(program));
  size_t tensors = 0;
  for (const tir::VarRef& p : program->params) tensors += program->buffer_map.find(p).has_value();
  if (values.size() != tensors) {
    draw(out, kernel, program, context);
    return out;
  }
  out.from_run = true;
  out.inputs.assign(values.begin(), values.end() - std::ptrdiff_t(results));
  out.outputs.assign(values.end() - std::ptrdiff_t(results), values.end());
  return out;
}

}  // namespace tenon
