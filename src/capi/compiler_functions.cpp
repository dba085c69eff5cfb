// SPDX-License-Identifier: Apache-2.0
// The compiler by name: packed functions "compiler.NAME" that take a map of named values and return one. The
// command, and later other languages, reach the compiler through these alone.
//
//   compile       model, target, opt_level, threads, memory_limit, verify, dump, print_after, dims, emit,
//                 output, progress(stage, done, total), print(pass, text), cache (a folder, or "default"),
//                 note(text) → compile_ms, passes (JSON), bytes and, for emit "jit", artifact and whether it
//                 was cached; with no output, text. A key left out means its default. stage and function: the
//                 module behind that pass as "tir", "dot" or "svg"; dim_bounds: the most of symbolic sizes
//   inspect       model → json: kind, inputs, outputs, operators, parameters, flop, …; with strategies,
//                 target, opt_level, dims: the implementation of every call (tools/strategy_report.h)
//   interpret     model, inputs, dims → outputs
//   opt           model, passes, schedule, function, target, verify, explain, measure, time, dims, emit,
//                 output → text, passes (with time: processor time of each, JSON), and with explain kernels
//                 (JSON) and fusion (text)
//   passes, operators, onnx_operators, target, emit_kinds → json
//   read_tensor   path (ONNX TensorProto) → tensor
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <cstdio>
#include <ctime>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "base/clock.h"
#include "base/function.h"
#include "base/nearest.h"
#include "import/onnx/load.h"
#include "interpret/interpret.h"
#include "ir/text.h"
#include "ir/tir.h"
#include "ir/verify.h"
#include "ir/walk.h"
#include "pass/tensor/passes.h"
#include "pipeline/compile.h"
#include "pipeline/compile_cache.h"
#include "pipeline/emit.h"
#include "pipeline/evaluator.h"
#include "pipeline/program_entry.h"
#include "runtime/vm.h"
#include "tools/explain.h"
#include "tools/module_text.h"
#include "tools/reduce_module.h"
#include "tools/replay_schedules.h"
#include "tools/strategy_report.h"
#include "tools/verify_passes.h"

namespace tenon {
namespace {

using json = nlohmann::ordered_json;

template <class T>
T get_or(const AttrMap& request, const std::string& key, T otherwise) {
  auto v = request.find(key);
  return v && !v->is_none() ? v->as<T>() : otherwise;
}
AttrMap reply_json(const json& j) { return {{"json", j.dump()}}; }

std::map<std::string, int64_t> dims_of(const AttrMap& request) {
  std::map<std::string, int64_t> dims;
  for (const auto& [name, value] : get_or(request, "dims", AttrMap())) dims[name] = value.as<int64_t>();
  return dims;
}
Target target_of(const AttrMap& request) {
  const auto text = get_or<std::string>(request, "target", "");
  return text.empty() ? host_target() : parse_target(text);
}

CompileOptions compile_options(const AttrMap& request) {
  announce_all_passes();
  CompileOptions o;
  o.target = target_of(request);
  o.opt_level = get_or(request, "opt_level", 2);
  o.threads = get_or(request, "threads", 0);
  o.memory_limit = get_or<int64_t>(request, "memory_limit", 0);
  // The importer takes the values of dimensions: those with one have no bound any more.
  const auto values = dims_of(request);
  for (const auto& [name, value] : get_or(request, "dim_bounds", AttrMap()))
    if (!values.count(name)) o.dim_bounds[name] = value.as<int64_t>();
  if (const auto precision = get_or<std::string>(request, "precision", ""); !precision.empty()) {
    o.context.required.insert("to_mixed_precision");
    o.context.config.set("to_mixed_precision.dtype", precision);
  }
  o.context.dump_dir = get_or<std::string>(request, "dump", "");
  for (const std::string& pass : get_or(request, "print_after", Array<std::string>())) {
    if (pass != "all" && !find_pass(pass))
      fail("T0919", fmt::format("there is no pass `{}`", pass), "--print-after",
           "`tenon opt --list` names them", ErrorKind::usage);
    o.context.print_after.insert(pass);
  }
  if (Function print = get_or(request, "print", Function()))
    o.context.print_sink = [print](const std::string& pass, const std::string& text) { print(pass, text); };
  if (Function progress = get_or(request, "progress", Function()))
    o.progress = [progress](std::string_view step, int done, int total) { progress(step, done, total); };
  return o;
}

json timings_json(const std::vector<PassTiming>& timings) {
  json out = json::array();
  for (const PassTiming& t : timings) out.push_back({{"name", t.name}, {"ms", t.ms}, {"changed", t.changed}});
  return out;
}

/// Text into the file, large constants beside it; without a file, into the reply.
void write_or_reply(AttrMap& reply, const std::string& text, const std::string& output,
                    const ConstantTable& constants) {
  if (output.empty()) return reply.set("text", text);
  write_text_file(output, text);
  if (!constants.empty())
    save_constants(std::filesystem::path(output).replace_extension(".constants"), constants);
}

/// Everything that `--emit` takes.
std::vector<EmitKind> all_emit_kinds() {
  std::vector<EmitKind> out = emit_kinds();
  out.insert(out.end(), module_text_kinds().begin(), module_text_kinds().end());
  return out;
}
bool is_module_text(const std::string& kind) {
  return std::ranges::count(module_text_kinds(), kind, &EmitKind::name) != 0;
}
EmitKind find_emit_kind(const std::string& name) {
  if (name == "jit")
    return {.name = "jit", .code = CodeForm::objects, .whole_model = true};  // into this process
  std::vector<std::string> names;
  for (EmitKind& kind : all_emit_kinds()) {
    names.push_back(kind.name);
    if (kind.name == name) return std::move(kind);
  }
  fail("T0920", fmt::format("there is nothing of the kind `{}` to emit", name), {},
       did_you_mean(name, names, "kinds: "), ErrorKind::usage);
}
AttrMap emit_kinds_function(const AttrMap&) {
  json list = json::array();
  for (const EmitKind& k : all_emit_kinds())
    list.push_back(
        {{"name", k.name}, {"ending", k.ending}, {"doc", k.doc}, {"target", k.target}, {"text", k.is_text}});
  return reply_json({{"kinds", list}});
}

AttrMap compile_function(const AttrMap& request) {
  const auto start = std::chrono::steady_clock::now();
  const std::string emit = get_or<std::string>(request, "emit", "artifact");
  CompileOptions options = compile_options(request);
  const EmitKind form = find_emit_kind(emit);
  options.code = form.code;
  options.target = target_for(emit, options.target);
  const std::string model = request.at("model").as<std::string>();
  std::unique_ptr<PassInstrument> checker;
  if (get_or(request, "verify", false)) {
    VerifyPassesOptions how;
    for (const Any& a : get_or(request, "verify_inputs", Array<Any>())) how.inputs.push_back(a);
    options.context.evaluate = make_evaluator(options.target);
    checker = verify_passes(options.context.evaluate, how);
    options.context.instruments.push_back(checker.get());
  }
  const std::string output = get_or<std::string>(request, "output", "");
  CacheOptions cache_options;
  // Who wants to see the passes wants them to run.
  const bool looks = checker || !options.context.dump_dir.empty() || !options.context.print_after.empty();
  const bool to_file = emit == "artifact" && !output.empty();
  if ((emit == "jit" || to_file) && !looks) cache_options.folder = get_or<std::string>(request, "cache", "");
  if (cache_options.folder == "default") cache_options.folder = default_cache_folder();
  if (!cache_options.folder.empty()) cache_options.limit_bytes = cache_limit();
  if (Function note = get_or(request, "note", Function()))
    cache_options.note = [note](const std::string& text) { note(text); };
  std::string system = get_or<std::string>(request, "system", "");
  if (!system.empty() && system != system_name(system))
    fail("T0921", "the name of a system library has letters, digits and _ only, not `" + system + "`",
         "--system-lib", {}, ErrorKind::usage);
  if (!system.empty() && !form.registers)
    fail("T0921", "a system library is emitted as obj or c", "--system-lib", "add --emit obj",
         ErrorKind::usage);
  if (!system.empty()) options.symbol_prefix = system + "_";
  if (emit == "exe") system = system_name(output);
  CompileOptions key = options;
  key.dims = dims_of(request);  // the importer takes them
  CompileCache cache(std::move(cache_options), model, key);
  AttrMap reply;
  if (Artifact found = cache.find()) {
    if (!to_file) reply.set("artifact", Any(found));
    reply.set("cached", true);
    reply.set("bytes", to_file ? cache.copy_to(output) : int64_t(0));
    const std::string* passes = found.metadata(kCachedPasses);
    reply.set("passes", to_file && passes ? *passes : "[]");
    reply.set("compile_ms", ms_since(start));
    return reply;
  }
  std::vector<std::string> external_files;
  IRModule module = load_model(model, dims_of(request), &external_files);
  if (const auto stage = get_or<std::string>(request, "stage", ""); !stage.empty()) {
    ConstantTable constants;
    const std::string text =
        module_text(emit, module_at_stage(std::move(module), options, stage),
                    get_or<std::string>(request, "function", ""), output.empty() ? nullptr : &constants);
    write_or_reply(reply, text, output, constants);
    reply.set("bytes", int64_t(text.size()));
    reply.set("passes", "[]");
    reply.set("compile_ms", ms_since(start));
    return reply;
  }
  if (form.whole_model || !entry_name(module).empty()) module = with_entry(std::move(module));
  Compiled compiled = compile(std::move(module), options);
  int64_t bytes = 0;
  if (emit == "jit") {
    Artifact artifact = cache.store(compiled, external_files);
    reply.set("artifact", Any(artifact ? artifact : jit_artifact(compiled)));
  } else if (is_module_text(emit)) {
    ConstantTable constants;
    const std::string text = module_text(emit, emit == "tir" ? compiled.lowered : compiled.planned, {},
                                         output.empty() ? nullptr : &constants);
    bytes = int64_t(text.size());
    write_or_reply(reply, text, output, constants);
  } else if (output.empty()) {
    std::string text = emit_text(emit, compiled, system);
    bytes = int64_t(text.size());
    reply.set("text", text);
  } else {
    bytes = write_emitted(emit, output, compiled, system);
  }
  reply.set("bytes", bytes);
  reply.set("passes", timings_json(compiled.timings).dump());
  reply.set("compile_ms", ms_since(start));
  if (to_file) cache.store(compiled, external_files);
  return reply;
}

// ---------------------------------------------------------------- inspect
json dims_json(const std::vector<std::string>& shape) {
  json out = json::array();
  for (const std::string& d : shape) {
    const bool number = !d.empty() && d.find_first_not_of("0123456789") == std::string::npos;
    out.push_back(number ? json(std::stoll(d)) : json(d));
  }
  return out;
}
json value_json(const onnx::OnnxValueInfo& v) {
  return {{"name", v.name},
          {"dtype", v.dtype.empty() ? "void" : v.dtype},
          {"shape", v.has_shape ? dims_json(v.shape) : json()}};
}

json inspect_onnx(const std::string& model) {
  const onnx::OnnxInfo info = onnx::read_onnx_info(model);
  json out = {{"kind", "onnx"},
              {"producer", fmt::format("{} {}", info.producer, info.producer_version)},
              {"ir_version", info.ir_version},
              {"opset", info.opset},
              {"inputs", json::array()},
              {"outputs", json::array()},
              {"operators", json::object()},
              {"parameters", info.parameters},
              {"parameter_bytes", info.parameter_bytes},
              {"flop", info.flops},
              {"flop_unknown_nodes", info.flops_unknown},
              {"unsupported", json::array()},
              {"nodes", json::array()}};
  for (const auto& v : info.inputs) out["inputs"].push_back(value_json(v));
  for (const auto& v : info.outputs) out["outputs"].push_back(value_json(v));
  for (const auto& op : info.operators) {
    const std::string name = op.domain.empty() ? op.name : op.domain + "." + op.name;
    out["operators"][name] = op.count;
    if (!op.supported) out["unsupported"].push_back(name);
  }
  for (const auto& n : info.nodes)
    if (n.flops > 0) out["nodes"].push_back({{"name", n.name}, {"op", n.op}, {"flop", n.flops}});
  return out;
}

json type_json(const std::string& name, const graph::Type& type) {
  json shape;
  std::string dtype = "void";
  if (const auto* t = type.as<graph::TensorType>()) {
    dtype = to_string(t->dtype);
    if (auto dims = graph::known_shape(type)) {
      shape = json::array();
      for (const PrimExpr& d : *dims) shape.push_back(as_int(d) ? json(*as_int(d)) : json(print(d)));
    }
  }
  json out = {{"name", name}, {"dtype", dtype}, {"shape", shape}};
  if (const auto* t = type.as<graph::ShapeType>()) {  // given and shown as a vector of its sizes
    out["dtype"] = "int64";
    if (t->ndim >= 0) out["shape"] = json::array({t->ndim});
  } else if (const auto* t = type.as<graph::PrimType>()) {
    out["dtype"] = to_string(t->dtype);
    out["shape"] = json::array();
  } else if (type && !type.is<graph::TensorType>() && !type.is<graph::ObjectType>()) {
    out["value"] = print(type);
  }
  return out;
}

json inspect_module(IRModule module) {
  try {
    module = with_entry(module);
  } catch (const DiagnosticError&) {
    // There is something to see of a module that cannot run.
  }
  json out = {{"kind", "module"},         {"inputs", json::array()},
              {"outputs", json::array()}, {"operators", json::object()},
              {"parameters", 0},          {"flop", nullptr}};
  std::map<std::string, int64_t> counts;
  int64_t parameters = 0;
  for (const auto& [name, f] : module.functions())
    post_order(f, [&](const ObjectRef& o) {
      if (const auto* call = o.as<graph::Call>())
        if (const graph::Op* op = call->op.as<graph::Op>()) ++counts[op->name];
      if (const auto* c = o.as<graph::Constant>()) parameters += c->data.size();
    });
  for (const auto& [name, count] : counts) out["operators"][name] = count;
  out["parameters"] = parameters;
  if (auto main = module.find(entry_name(module)).cast<graph::Function>()) {
    for (const auto& p : main->params) out["inputs"].push_back(type_json(p->name, p->type));
    const graph::Type result = main->body->type;
    if (const auto* t = result ? result.as<graph::TupleType>() : nullptr)
      for (size_t i = 0; i < t->items.size(); ++i)
        out["outputs"].push_back(type_json(fmt::format("output_{}", i), t->items[i]));
    else if (result)
      out["outputs"].push_back(type_json("output_0", result));
  }
  return out;
}

bool is_onnx(const std::string& path) {
  FILE* file = path == "-" ? nullptr : std::fopen(path.c_str(), "rb");
  if (!file) return false;  // loading it says why
  char head[4096];
  const size_t n = std::fread(head, 1, sizeof head, file);
  std::fclose(file);
  return model_kind({head, n}) == ModelKind::onnx;
}

AttrMap inspect(const AttrMap& request) {
  const std::string model = request.at("model").as<std::string>();
  if (get_or(request, "strategies", false)) {
    CompileOptions options = compile_options(request);
    return {{"json", strategies_json(load_model(model, options.dims), options.target, options.context)}};
  }
  return reply_json(is_onnx(model) ? inspect_onnx(model) : inspect_module(load_model(model)));
}

// ---------------------------------------------------------------- interpret, opt
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

AttrMap interpret_function(const AttrMap& request) {
  const IRModule module = with_entry(load_model(request.at("model").as<std::string>(), dims_of(request)));
  const auto main = module.find(entry_name(module)).cast<graph::Function>();
  std::vector<Any> inputs;
  for (const NDArray& a : request.at("inputs").as<Array<NDArray>>()) {
    const size_t i = inputs.size();
    inputs.push_back(
        parameter(a, main && i < main->params.size() ? main->params[i]->declared : graph::Type()));
  }
  InterpretOptions options;
  options.float64 = get_or(request, "float64", false);
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
      nests.push_back({{"loop", n.loop}, {"flop", n.flop}, {"bytes", n.bytes}, {"ms", n.ms}});
    out.push_back({{"name", k.name},
                   {"note", k.note},
                   {"text", k.text},
                   {"loop_lines", k.loop_lines},
                   {"machine_loops", machine},
                   {"nests", nests}});
  }
  return out;
}

/// Processor time of every pass: that of the wall depends on what else the machine does.
struct CpuTimes {
  std::vector<std::pair<std::string, double>> times;
  void start() { begin_ = std::clock(); }
  void stop(std::string name) {
    times.emplace_back(std::move(name), 1e3 * double(std::clock() - begin_) / CLOCKS_PER_SEC);
  }
  json to_json() const {
    json out = json::array();
    for (const auto& [name, ms] : times) out.push_back({{"name", name}, {"ms", ms}});
    return out;
  }

 private:
  std::clock_t begin_ = 0;
};

AttrMap opt(const AttrMap& request) {
  CompileOptions options = compile_options(request);
  const bool explains = get_or(request, "explain", false);
  const bool timed = get_or(request, "time", false);
  CpuTimes times;
  times.start();
  // The sizes of a program that is measured are its own business.
  IRModule module = load_model(request.at("model").as<std::string>(),
                               explains ? std::map<std::string, int64_t>() : dims_of(request));
  times.stop("load");
  // What a pass finds wrong later would count as its own mistake.
  times.start();
  verify_or_throw(module);
  times.stop("verify");
  std::vector<Pass> passes;
  DiagnosticList problems(ErrorKind::usage);
  for (const std::string& name : get_or(request, "passes", Array<std::string>())) {
    if (const Pass* p = find_pass(name))
      passes.push_back(*p);
    else
      problems.add("T0919", fmt::format("there is no pass `{}`", name), {}, "`tenon opt --list` names them");
  }
  problems.throw_if_any();
  PassContext& context = options.context;
  context.target = options.target;
  context.opt_level = INT_MAX;  // what is named runs
  context.verify = true;
  const auto checker = get_or(request, "verify", false) ? verify_passes() : nullptr;
  if (checker) context.instruments.push_back(checker.get());
  std::string fusion;
  if (explains)
    context.config.set("fuse_ops.explain", Any(Function([&fusion](Arguments a) -> Any {
                         fusion += a[0].as<std::string>();
                         return {};
                       })));
  if (timed) {
    // The passes alone: the runner verifies behind each.
    for (const Pass& p : passes) {
      times.start();
      module = p.run(std::move(module), context);
      times.stop(std::string(p.name));
    }
  } else {
    module = run_passes(std::move(module), passes, context);
  }
  if (const auto trace = get_or<std::string>(request, "schedule", ""); !trace.empty())
    module = replay_schedules(std::move(module), trace, get_or<std::string>(request, "function", ""));
  ConstantTable constants;
  if (timed) {
    times.start();
    verify_or_throw(module);
    times.stop("verify");
  }
  times.start();
  const std::string text = module_text(get_or<std::string>(request, "emit", "tir"), module,
                                       get_or<std::string>(request, "function", ""), &constants);
  times.stop("print");
  AttrMap reply;
  write_or_reply(reply, text, get_or<std::string>(request, "output", ""), constants);
  reply.set("text", text);
  reply.set("passes", times.to_json().dump());
  if (explains) {
    reply.set("fusion", fusion);
    ExplainOptions how;
    how.opt_level = get_or(request, "opt_level", 2);
    how.function = get_or<std::string>(request, "function", "");
    how.measure = get_or(request, "measure", false);
    how.dims = dims_of(request);
    bool programs = false;
    for (const auto& [name, f] : module.functions()) programs = programs || f.is<tir::PrimFuncNode>();
    reply.set("kernels", explanation_json(programs ? explain(module, options.target, how)
                                                   : std::vector<KernelExplanation>())
                             .dump());
  }
  return reply;
}

AttrMap reduce(const AttrMap& request) {
  CompileOptions options = compile_options(request);
  IRModule module = with_entry(load_model(request.at("model").as<std::string>(), options.dims));
  std::vector<Pass> passes;
  for (const std::string& name : get_or(request, "passes", Array<std::string>())) {
    const Pass* p = find_pass(name);
    if (!p)
      fail("T0919", fmt::format("there is no pass `{}`", name), {}, "`tenon opt --list` names them",
           ErrorKind::usage);
    passes.push_back(*p);
  }
  PassContext& context = options.context;
  context.target = options.target;
  context.opt_level = options.opt_level;
  const bool whole = passes.empty();
  if (whole)
    for (const auto& list : {graph_passes(), schedule_passes()})
      passes.insert(passes.end(), list.begin(), list.end());
  else
    context.opt_level = INT_MAX;
  const Evaluate evaluate = make_evaluator(options.target);
  context.evaluate = evaluate;
  VerifyPassesOptions verify;
  verify.seed = uint64_t(get_or<int64_t>(request, "seed", 1));
  const auto first = find_failure(module, passes, context, verify, whole, evaluate);
  if (!first) return {{"pass", ""}};
  ReduceOptions reduce_options;
  if (Function progress = get_or(request, "reduced", Function()))
    reduce_options.progress = [progress](int tries, size_t values) {
      progress(int64_t(tries), int64_t(values));
    };
  const IRModule small = reduce_module(
      module,
      [&](const IRModule& m) {
        const auto again = find_failure(m, passes, context, verify, whole, evaluate);
        return again && again->same_as(*first);
      },
      reduce_options);
  ConstantTable constants;
  PrintOptions print_options;
  print_options.constants = &constants;
  const std::string text = print(small, print_options);
  if (const std::string output = get_or<std::string>(request, "output", ""); !output.empty()) {
    write_text_file(output, text);
    if (!constants.empty())
      save_constants(std::filesystem::path(output).replace_extension(".constants"), constants);
  }
  return {{"pass", first->pass}, {"code", first->code}, {"message", first->message}, {"text", text}};
}

// ---------------------------------------------------------------- lists
AttrMap passes(const AttrMap&) {
  announce_all_passes();
  json out = json::array();
  auto contains = [](std::span<const Pass> list, const Pass* p) {
    for (const Pass& q : list)
      if (q.name == p->name) return true;
    return false;
  };
  for (const Pass* p : all_passes()) {
    const char* kind = contains(graph_passes(), p)      ? "graph"
                       : contains(schedule_passes(), p) ? "schedule"
                                                        : "tensor";
    out.push_back({{"name", p->name}, {"kind", kind}, {"level", p->level}, {"doc", p->summary}});
  }
  json order = json::object();
  auto in_order = [&](const char* name, std::span<const Pass> list) {
    order[name] = json::array();
    for (const Pass& p : list) order[name].push_back(p.name);
  };
  in_order("graph", graph_passes());
  in_order("schedule", schedule_passes());
  in_order("tensor", tensor_passes());
  in_order("device", device_pipeline());
  in_order("optional", optional_tensor_passes());
  return reply_json({{"passes", out}, {"pipelines", order}});
}

/// A default value as people write it.
std::string default_text(const Any& v) {
  if (v.is_none()) return "[]";
  if (v.tag() == kBool) return v.as<bool>() ? "true" : "false";
  if (v.tag() == kInt) return std::to_string(v.as<int64_t>());
  if (v.tag() == kFloat) return fmt::format("{}", v.as<double>());
  if (v.tag() == kDataType) return to_string(v.as<DataType>());
  if (auto text = v.try_as<std::string>()) return "'" + *text + "'";
  if (auto list = v.try_as<Array<Any>>()) {
    std::vector<std::string> items;
    for (const Any& item : *list) items.push_back(default_text(item));
    return fmt::format("[{}]", fmt::join(items, ", "));
  }
  return print(v.as<ObjectRef>());
}

AttrMap operators(const AttrMap&) {
  json list = json::array();
  for (const Ref<graph::Op>& op : graph::all_ops()) {
    json arguments = json::array(), attributes = json::array();
    for (const auto& a : op->arguments)
      arguments.push_back({{"name", a.name}, {"type", a.type}, {"doc", a.doc}, {"optional", a.optional}});
    if (op->attrs_type) {
      const auto* own = op->attr<ObjectRef>("default_attrs");
      const ObjectRef defaults = own ? *own : ObjectRef(op->attrs_type->create());
      for (const FieldInfo& f : op->attrs_type->fields)
        attributes.push_back(
            {{"name", f.name}, {"default", default_text(f.get(defaults.get()))}, {"doc", f.doc}});
    }
    list.push_back({{"name", op->name},
                    {"doc", op->doc},
                    {"arguments", arguments},
                    {"attributes", attributes},
                    {"fusion", graph::to_string(op->fusion)},
                    {"pure", op->pure},
                    {"file", op->file},
                    {"line", op->line}});
  }
  return reply_json({{"operators", list}});
}

AttrMap onnx_operators(const AttrMap&) {
  json list = json::array();
  for (const auto& op : onnx::onnx_coverage())
    list.push_back({{"name", op.name},
                    {"opsets", fmt::format("{}-{}", op.first_opset, op.last_opset)},
                    {"note", op.note}});
  return reply_json({{"operators", list}});
}

AttrMap target_function(const AttrMap& request) { return {{"json", to_json(target_of(request))}}; }
AttrMap read_tensor(const AttrMap& request) {
  return {{"tensor", Any(onnx::read_tensor_proto(request.at("path").as<std::string>()))}};
}

const bool registered = [] {
  auto add = [](const char* name, AttrMap (*f)(const AttrMap&), const char* doc) {
    registry::add(std::string("compiler.") + name,
                  TypedFunction<AttrMap(AttrMap)>([f](AttrMap request) { return f(request); },
                                                  std::string("compiler.") + name)
                      .packed(),
                  false, doc);
  };
  add("compile", compile_function,
      "compiles a model to an artifact in memory, or to a file of the kind `emit`");
  add("inspect", inspect, "facts about a model, without compiling");
  add("interpret", interpret_function, "runs a model on the interpreter");
  add("opt", opt, "applies passes to a module and prints it");
  add("reduce", reduce, "the smallest module on which a pass still fails the same way");
  add("passes", passes, "all passes");
  add("operators", operators, "all graph operators");
  add("onnx_operators", onnx_operators, "what the ONNX importer covers");
  add("target", target_function, "a target record");
  add("emit_kinds", emit_kinds_function, "what `compile` can emit");
  add("read_tensor", read_tensor, "an ONNX TensorProto file");
  return true;
}();

}  // namespace
}  // namespace tenon
