// SPDX-License-Identifier: Apache-2.0
// Instruments around a model, each by name: "compiler.interpret", "compiler.opt", "compiler.reduce",
// "compiler.quantize".
#include <fmt/format.h>

#include <ctime>

#include "autoschedule/default.h"
#include "capi/compiler_function.h"
#include "capi/request_model.h"
#include "interpret/interpret.h"
#include "ir/text.h"
#include "ir/tir.h"
#include "ir/verify.h"
#include "pipeline/dimensions.h"
#include "pipeline/evaluator.h"
#include "pipeline/measure_modules.h"
#include "pipeline/program_entry.h"
#include "tools/explain.h"
#include "tools/module_text.h"
#include "tools/proofs.h"
#include "tools/quantize/quantize.h"
#include "tools/reduce_module.h"
#include "tools/replay_schedules.h"
#include "tools/verify_passes.h"

namespace tenon {
namespace {

using json = nlohmann::ordered_json;

/// Tensors of a result in order; shapes and numbers as the session gives them.
void flatten(const Any& value, Array<NDArray>& out) {
  if (auto array = value.try_as<NDArray>(); array && *array) {
    out.push_back(*array);
  } else if (auto list = value.try_as<Array<Any>>(); list && *list) {
    for (const Any& item : *list) flatten(item, out);
  } else if (auto shape = value.try_as<Shape>(); shape && *shape) {
    const std::vector<int64_t>& dims = (*shape)->dims;
    out.push_back(
        NDArray::from_bytes({int64_t(dims.size())}, i64, dims.data(), dims.size() * sizeof(int64_t)));
  } else if (value.tag() == kInt || value.tag() == kBool || value.tag() == kFloat) {
    NDArray a = NDArray::empty({}, value.tag() == kInt ? i64 : value.tag() == kBool ? boolean : f64);
    value.tag() == kFloat ? a.set_element(0, value.as<double>()) : a.set_element_int(0, value.as<int64_t>());
    out.push_back(a);
  }
}
/// A parameter's value from the tensor that the command has for it.
Any parameter(const NDArray& a, const graph::Type& type) {
  if (type && type.is<graph::PrimType>() && a.size() == 1)
    return a.dtype().is_float() ? Any(a.element(0)) : Any(a.element_int(0));
  if (!type || !type.is<graph::ShapeType>()) return Any(a);
  Shape s = make<ShapeObj>();
  for (int64_t i = 0; i < a.size(); ++i) s.mut()->dims.push_back(a.element_int(i));
  return Any(s);
}

AttrMap interpret_function(const InterpretRequest& r) {
  const IRModule module = with_entry(load_model(r.model, {.dims = r.dims, .bind = r.bind}));
  const auto main = module.find(entry_name(module)).cast<graph::Function>();
  std::vector<Any> inputs;
  for (const NDArray& a : r.inputs) {
    const size_t i = inputs.size();
    inputs.push_back(
        parameter(a, main && i < main->params.size() ? main->params[i]->declared : graph::Type()));
  }
  InterpretOptions options;
  options.float64 = r.float64;
  Array<NDArray> outputs;
  flatten(interpret(module, entry_name(module), inputs, options), outputs);
  return {{"outputs", Any(outputs)}};
}

json explanation_json(const std::vector<KernelExplanation>& kernels) {
  json out = json::array();
  for (const KernelExplanation& k : kernels) {
    json machine = json::array(), nests = json::array();
    for (const MachineLoop& m : k.machine) {
      const InstructionCounts& c = m.counts;
      machine.push_back({{"loop", m.loop},
                         {"innermost", m.innermost},
                         {"iterations", m.rounds},
                         {"vector_bits", c.vector_bits},
                         {"flop", c.flop},
                         {"instructions", c.total},
                         {"fma", c.fma},
                         {"arithmetic", c.arithmetic},
                         {"load", c.load},
                         {"store", c.store},
                         {"spill", c.spill},
                         {"reload", c.reload},
                         {"move", c.move},
                         {"assembly", m.lines}});
    }
    for (const LoopNest& n : k.nests)
      nests.push_back({{"loop", n.loop},
                       {"flop", n.work.flop},
                       {"bytes", n.work.bytes},
                       {"dot_bytes", n.work.dot_bytes},
                       {"dot_bf16", n.work.dot_bf16},
                       {"ms", n.ms}});
    out.push_back({{"name", k.name},
                   {"note", k.note},
                   {"text", k.text},
                   {"loop_lines", k.loop_lines},
                   {"machine_loops", machine},
                   {"nests", nests}});
  }
  return out;
}

/// A register tile as the annotation "tile" gives it: {"j": [2, 16], "i": 6}.
json tile_json(const AttrMap& tile) {
  json out = json::object();
  for (const auto& [axis, steps] : tile) {
    if (const auto rows = steps.try_as<int64_t>())
      out[axis] = *rows;
    else
      out[axis] = steps.as<Array<int64_t>>().vec();
  }
  return out;
}

/// The rules that were tried on a program, in order, each with its outcome.
json schedule_json(const ScheduleReport& report) {
  json attempts = json::array();
  for (const RuleAttempt& a : report.attempts)
    attempts.push_back({{"block", a.block},
                        {"rule", a.rule},
                        {"step", a.step},
                        {"outcome", name_of(a.outcome)},
                        {"why", a.message.empty() ? std::string(text_of(a.outcome)) : a.message},
                        {"code", a.code},
                        {"tile", tile_json(a.tile)},
                        {"cycles", a.cycles},
                        {"given_up", a.given_up}});
  return {{"function", report.function}, {"proof_steps", kProofSteps}, {"attempts", attempts}};
}

/// How much of a program is proved, in numbers.
json proof_counts(std::string_view pass, const Any& found) {
  const auto report = found.as<Ref<ProofReport>>();
  const OpenCounts open = count_open(*report);
  return {{"pass", pass},
          {"function", report->function},
          {"accesses", report->accesses},
          {"iterators", report->iterators},
          {"loops", report->loops},
          {"guarded_data", open.data},
          {"guarded_unknown", open.unknown},
          {"serial", open.serial}};
}

/// Processor time of every pass: that of the wall depends on what else the machine does.
class CpuTimes {
 public:
  /// Of what `f` does, under a name.
  auto of(const std::string& name, auto f) {
    struct Stop {
      CpuTimes& times;
      const std::string& name;
      std::clock_t begin = std::clock();
      ~Stop() { times.add(name, 1e3 * double(std::clock() - begin) / CLOCKS_PER_SEC); }
    } stop{*this, name};
    return f();
  }
  void add(const std::string& name, double ms) { list_.push_back({{"name", name}, {"ms", ms}}); }
  const json& to_json() const { return list_; }

 private:
  json list_ = json::array();
};

/// Programs of a module beside their assembly, as JSON.
json explained(const IRModule& module, const OptRequest& r) {
  ExplainOptions how;
  how.opt_level = int(r.opt_level);
  how.function = r.function;
  how.measure = r.measure;
  how.seconds = r.seconds;
  how.dims = sizes_of(r.dims);
  bool programs = false;
  for (const auto& [name, f] : module.functions()) programs = programs || f.is<tir::PrimFuncNode>();
  return explanation_json(programs ? explain(module, target_of(r), how) : std::vector<KernelExplanation>());
}

AttrMap opt(const OptRequest& r) {
  CpuTimes times;
  // The sizes of a program that is measured are its own business.
  IRModule module = times.of("load", [&] {
    return load_model(r.model, {.dims = r.explain ? Map<std::string, int64_t>() : r.dims, .bind = r.bind});
  });
  // What a pass finds wrong later would count as its own mistake.
  times.of("verify", [&] { verify_or_throw(module); });
  DiagnosticList problems(ErrorKind::usage);
  const std::vector<Pass> passes = passes_named(r.passes, problems);
  PassContext context;
  context.target = target_of(r);
  context.opt_level = INT_MAX;  // what is named runs
  context.verify = true;        // behind each pass, in time of its own
  context.evaluate = make_evaluator();
  context.measure = make_measure(options_of<ModelSettings>(r), context.target.cast<TargetNode>());
  for (const std::string& text : r.pass_options) context.options.set_text(text, problems);
  check_pass_requests(context, problems, passes);
  problems.throw_if_any();
  const auto checker = r.verify ? verify_passes() : nullptr;
  if (checker) context.instruments.push_back(checker.get());
  std::string fusion;
  json schedule = json::array(), given_up = json::array(), proofs = json::array(), sentences = json::array();
  if (r.explain)
    context.report = [&](std::string_view pass, const Any& report) {
      if (const auto proofs = report.try_as<int64_t>())
        given_up.push_back({{"pass", pass}, {"proofs", *proofs}, {"steps", kProofSteps}});
      if (const auto text = report.try_as<std::string>(); text && pass == "fuse_ops")
        fusion += *text;  // a picture of many lines
      else if (text)
        sentences.push_back({{"pass", pass}, {"what", *text}});
      if (pass == "prove_programs" || pass == "guard_accesses") proofs.push_back(proof_counts(pass, report));
      if (pass == "default_schedule") schedule.push_back(schedule_json(*report.as<Ref<ScheduleReport>>()));
    };
  module = run_passes(std::move(module), passes, context);
  for (const PassTiming& t : context.timings) times.add(t.name, t.ms);
  if (!r.schedule.empty()) module = replay_schedules(std::move(module), r.schedule, r.function);
  ConstantTable constants;
  const std::string text = times.of("print", [&] {
    return module_text(r.emit, module, r.function, r.output.empty() ? nullptr : &constants);
  });
  AttrMap reply;
  write_or_reply(reply, text, r.output, constants);
  reply.set("text", text);
  reply.set("passes", times.to_json().dump());
  if (r.explain) {
    reply.set("fusion", fusion);
    reply.set("sentences", sentences.dump());
    reply.set("schedule", schedule.dump());
    reply.set("given_up", given_up.dump());
    reply.set("proofs", proofs.dump());
    reply.set("kernels", explained(module, r).dump());
  }
  return reply;
}

AttrMap reduce(const ReduceRequest& r) {
  CompileOptions options = options_of<PassSettings>(r);
  DiagnosticList problems(ErrorKind::usage);
  std::vector<Pass> passes = passes_named(r.passes, problems);
  PassContext context =
      r.passes.empty() ? context_of(options, problems) : context_of(options, problems, passes);
  problems.throw_if_any();
  const IRModule module = with_entry(load_with_dims(r.model, options));
  const bool whole = passes.empty();
  if (whole)
    for (const auto& list : {graph_passes(), schedule_passes()})
      passes.insert(passes.end(), list.begin(), list.end());
  else
    context.opt_level = INT_MAX;  // what is named runs
  VerifyPassesOptions verify;
  verify.seed = uint64_t(r.seed);
  const auto first = find_failure(module, passes, context, verify, whole, context.evaluate);
  if (!first) return {{"pass", ""}};
  ReduceOptions how;
  if (r.reduced) how.progress = [&](int tries, size_t values) { r.reduced(int64_t(tries), int64_t(values)); };
  const IRModule small = reduce_module(
      module,
      [&](const IRModule& m) {
        const auto again = find_failure(m, passes, context, verify, whole, context.evaluate);
        return again && again->same_as(*first);
      },
      how);
  ConstantTable constants;
  const std::string text = module_text("tir", small, {}, &constants);
  AttrMap reply{{"pass", first->pass}, {"code", first->code}, {"message", first->message}, {"text", text}};
  if (!r.output.empty()) write_or_reply(reply, text, r.output, constants);
  return reply;
}

AttrMap quantize(const QuantizeRequest& r) {
  if (r.names.size() != r.samples.size() || r.labels.size() > 1)
    throw Error(ErrorKind::usage, "T0951",
                fmt::format("{} names of inputs and {} tensors of samples", r.names.size(), r.samples.size()),
                r.model);
  if (!(r.percentile > 0 && r.percentile <= 100))
    throw Error(ErrorKind::usage, "T0950", fmt::format("the percentile {} is not in (0, 100]", r.percentile));
  QuantizeOptions options;
  options.form.excluded = r.excluded.vec();
  options.form.symmetric = r.symmetric, options.form.equalize = r.equalize;
  options.form.per_channel = !r.per_tensor;
  options.method = parse_range_method(r.method);
  options.share = r.percentile / 100;
  options.threads = int(r.threads);
  if (r.progress)
    options.progress = [&](std::string_view step, int done, int total) {
      r.progress(std::string(step), int64_t(done), int64_t(total));
    };
  SampleSet samples;
  for (size_t i = 0; i < r.names.size(); ++i) samples.emplace(r.names[i], r.samples[i]);
  const QuantizeReport report =
      quantize_model(r.model, samples, r.labels.empty() ? std::nullopt : std::optional(r.labels[0]), options);
  write_text_file(r.output, report.model);
  json layers = json::array();
  for (const LayerError& l : report.layers)
    layers.push_back({{"name", l.layer.name}, {"op", l.layer.op}, {"error", l.error}, {"own_error", l.own}});
  auto or_null = [](const std::optional<double>& v) { return v ? json(*v) : json(); };
  return reply_json({{"output", r.output},
                     {"bytes", report.model.size()},
                     {"samples", report.samples},
                     {"accuracy_before", or_null(report.accuracy_before)},
                     {"accuracy_after", or_null(report.accuracy_after)},
                     {"leave_in_float", report.leave_in_float},
                     {"layers", layers}});
}

const bool opt_registered = [] {
  add_compiler_function("interpret", interpret_function, "runs a model on the interpreter");
  add_compiler_function("opt", opt, "applies passes to a module and prints it");
  add_compiler_function("reduce", reduce, "the smallest module on which a pass still fails the same way");
  add_compiler_function("quantize", quantize,
                        "a model that computes on bytes, from a float model and samples");
  return true;
}();

}  // namespace
}  // namespace tenon
