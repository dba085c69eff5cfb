// SPDX-License-Identifier: Apache-2.0
// The compiler by name: packed functions "compiler.NAME" that take a map of named values and return one. The
// command, and later other languages, reach the compiler through these alone. What each takes and gives is
// said in capi/requests.h.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <cstdio>
#include <ctime>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "autoschedule/default.h"
#include "base/clock.h"
#include "base/function.h"
#include "base/nearest.h"
#include "capi/compiled.h"
#include "capi/compiler_function.h"
#include "codegen/debug_source.h"
#include "import/onnx/load.h"
#include "interpret/interpret.h"
#include "ir/text.h"
#include "ir/tir.h"
#include "ir/verify.h"
#include "ir/walk.h"
#include "op/op_def.h"
#include "pipeline/bind_inputs.h"
#include "pipeline/compile.h"
#include "pipeline/compile_cache.h"
#include "pipeline/dimensions.h"
#include "pipeline/emit.h"
#include "pipeline/evaluator.h"
#include "pipeline/measure_modules.h"
#include "pipeline/metadata.h"
#include "pipeline/program_entry.h"
#include "runtime/vm.h"
#include "target/variants.h"
#include "tools/explain.h"
#include "tools/extract_kernel.h"
#include "tools/lint.h"
#include "tools/module_text.h"
#include "tools/proofs.h"
#include "tools/quantize/quantize.h"
#include "tools/reduce_module.h"
#include "tools/replay_schedules.h"
#include "tools/strategy_report.h"
#include "tools/verify_passes.h"

namespace tenon {
namespace {

using json = nlohmann::ordered_json;

/// Options of a compilation that say what a request says.
template <class Settings>
CompileOptions options_of(const Settings& settings) {
  CompileOptions o;
  static_cast<Settings&>(o) = settings;
  return o;
}

/// The model, with the values of its dimensions and inputs: the importer takes them, so the options have none
/// behind it, and no bounds of dimensions that have a value.
IRModule load_with_dims(const std::string& model, CompileOptions& o,
                        std::vector<std::string>* files = nullptr) {
  for (const auto& [name, value] : o.dims) o.dim_bounds.erase(name);
  return load_model(model, {.dims = std::exchange(o.dims, {}),
                            .bind = std::exchange(o.bind, {}),
                            .overridden = {},
                            .external_files = files});
}

/// The model of a request, in memory or in a file.
IRModule load_with_dims(const CompileRequest& r, CompileOptions& o, std::vector<std::string>* files) {
  if (!r.module) return load_with_dims(r.model, o, files);
  const auto module = r.module.cast<IRModuleNode>();
  if (!module) fail("T0942", "compiler.compile: `module` is no IRModule", {}, {}, ErrorKind::usage);
  PassContext context;
  IRModule typed = run_pass("infer_types", IRModule(module), context);
  if (!o.dims.empty()) typed = specialize_dims(with_entry(std::move(typed)), sizes_of(o.dims));
  return o.bind.empty() ? typed : bind_inputs(with_entry(std::move(typed)), std::exchange(o.bind, {}));
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

AttrMap emit_kinds_function(const NoRequest&) {
  json list = json::array();
  for (const EmitKind& k : all_emit_kinds()) {
    json options = json::array();
    for (const codegen::TextOption& o : k.options) options.push_back({{"name", o.name}, {"doc", o.doc}});
    list.push_back({{"name", k.name},
                    {"ending", k.ending},
                    {"doc", k.doc},
                    {"target", k.target},
                    {"text", k.is_text},
                    {"options", options}});
  }
  return reply_json({{"kinds", list}});
}

/// The compile cache of a request; without a folder there is none.
CacheOptions cache_of(const CompileRequest& r) {
  CacheOptions cache;
  // Who wants to see the passes wants them to run.
  const bool looks = r.verify || r.debug_info || !r.dump.empty() || !r.print_after.empty();
  const bool whole = r.emit == "jit" || (r.emit == "artifact" && !r.output.empty());
  const bool variants = r.emit == "artifact" && parse_targets(r.target).size() > 1;
  if (whole && !looks && !variants) cache.folder = r.cache == "default" ? default_cache_folder() : r.cache;
  if (!cache.folder.empty()) cache.limit_bytes = cache_limit();
  if (r.note) cache.note = [note = r.note](const std::string& text) { note(text); };
  return cache;
}

/// The name to register the model under; an executable always has one.
std::string system_name_of(const CompileRequest& r, const EmitKind& kind) {
  if (!r.system.empty() && r.system != system_name(r.system))
    fail("T0921", "the name of a system library has letters, digits and _ only, not `" + r.system + "`",
         "--system-lib", {}, ErrorKind::usage);
  if (!r.system.empty() && !kind.registers)
    fail("T0921", "a system library is emitted as obj or c", "--system-lib", "add --emit obj",
         ErrorKind::usage);
  return r.emit == "exe" ? system_name(r.output) : r.system;
}

/// A module's text into the file or the reply, with its size.
void emit_module(AttrMap& reply, const CompileRequest& r, const IRModule& module,
                 const std::string& function) {
  ConstantTable constants;
  const std::string text = module_text(r.emit, module, function, r.output.empty() ? nullptr : &constants);
  write_or_reply(reply, text, r.output, constants);
  reply.set("bytes", int64_t(text.size()));
}

/// What was compiled, as the request wants it.
void emit_compiled(AttrMap& reply, const CompileRequest& r, Compiled compiled, const std::string& system,
                   const codegen::TextOptions& emit_as, CompileCache& cache,
                   const std::vector<std::string>& files) {
  reply.set("bytes", int64_t(0));
  if (r.emit == "jit") {
    const Artifact stored = cache.store(compiled, files);
    reply.set("artifact", Any(stored ? stored : jit_artifact(compiled)));
    reply.set("compiled", Any(make<CompiledObj>(std::move(compiled))));
  } else if (is_module_text(r.emit)) {
    emit_module(reply, r, r.emit == "tir" ? compiled.lowered : compiled.planned, {});
  } else if (r.output.empty()) {
    const std::string text = emit_text(r.emit, compiled, system, emit_as);
    reply.set("bytes", int64_t(text.size()));
    reply.set("text", text);
  } else {
    reply.set("bytes", write_emitted(r.emit, r.output, compiled, system, emit_as));
    if (const auto source = codegen::debug_source(compiled.lowered))
      write_text_file(source->file, source->text);
    if (r.emit == "artifact") cache.store(compiled, files);
  }
}

/// The file of the programs' text beside what is written: instructions point into it.
std::string debug_file_of(const CompileRequest& r, const EmitKind& kind, const Target& target) {
  if (!r.debug_info) return {};
  if (r.output.empty() || kind.name == "jit" || is_module_text(kind.name) || kind.name == "json" ||
      !codegen::code_generator(target).debug_lines)
    fail("T0921", "debug information belongs to machine code in a file: artifact, obj, exe, asm or llvm",
         "-g", "name a file with -o, and a target of the kind llvm", ErrorKind::usage);
  return std::filesystem::absolute(r.output).lexically_normal().replace_extension(".kernels.tir").string();
}

/// What an earlier compilation left in the cache.
AttrMap cached_reply(const CompileRequest& r, const CompileCache& cache, const Artifact& found) {
  const bool to_file = r.emit == "artifact";
  const std::string* passes = found.metadata(kCachedPasses);
  AttrMap reply{{"cached", true},
                {"bytes", to_file ? cache.copy_to(r.output) : int64_t(0)},
                {"passes", to_file && passes ? *passes : std::string("[]")}};
  if (!to_file) reply.set("artifact", Any(found));
  return reply;
}

/// How each edited kernel was found to compute the same, as the artifact says it.
AttrMap overrides_of(const Metadata& metadata) {
  constexpr std::string_view prefix = "override.";
  AttrMap out;
  for (const auto& [key, value] : metadata)
    if (key.starts_with(prefix)) out.set(key.substr(prefix.size()), Any(value));
  return out;
}

AttrMap compile_function(const CompileRequest& r) {
  const auto start = std::chrono::steady_clock::now();
  const EmitKind kind = find_emit_kind(r.emit);
  CompileOptions options = options_of<CompileSettings>(r);
  if (r.progress)
    options.progress = [&](std::string_view step, int done, int total) { r.progress(step, done, total); };
  if (r.cancelled) options.context.cancelled = [cancelled = r.cancelled] { return cancelled().as<bool>(); };
  if (r.print)
    options.context.print_sink = [&](const std::string& pass, const std::string& text) {
      r.print(pass, text);
    };
  options.code = kind.code;
  const std::vector<Target> targets = parse_targets(r.target);
  const bool variants = targets.size() > 1 && r.emit == "artifact";
  if (targets.size() > 1 && !variants && r.emit != "jit") refuse_variants(r.emit);
  if (!variants) options.target = to_json(target_for(r.emit, best_for_host(targets)));
  options.debug_file = debug_file_of(r, kind, variants ? targets[0] : target_of(options));
  const std::string system = system_name_of(r, kind);
  const codegen::TextOptions emit_as = emit_options(kind, r.emit_options.vec());
  const auto prefix = emit_as.find("prefix");
  if (prefix != emit_as.end() && !r.system.empty())
    fail("T0921", "a system library's names begin with its own name", "--emit-option",
         "leave out prefix, or --system-lib", ErrorKind::usage);
  if (!r.system.empty()) options.symbol_prefix = r.system + "_";
  if (prefix != emit_as.end()) options.symbol_prefix = prefix->second + "_";
  std::unique_ptr<PassInstrument> checker;
  if (r.verify) {
    VerifyPassesOptions how;
    how.inputs = r.verify_inputs.vec();
    options.context.evaluate = make_evaluator();
    checker = verify_passes(options.context.evaluate, how);
    options.context.instruments.push_back(checker.get());
  }
  CompileCache cache(cache_of(r), r.model, options);
  AttrMap reply;
  if (const Artifact found = cache.find()) {
    reply = cached_reply(r, cache, found);
    reply.set("overrides", Any(overrides_of(found.executable().metadata)));
  } else {
    std::vector<std::string> files;
    IRModule module = load_with_dims(r, options, &files);
    if (!r.stage.empty()) {
      emit_module(reply, r, module_at_stage(std::move(module), options, r.stage), r.function);
      reply.set("passes", "[]");
    } else {
      if (kind.whole_model || !entry_name(module).empty()) module = with_entry(std::move(module));
      Compiled compiled = compile(std::move(module), options);
      reply.set("passes", timings_json(compiled.timings).dump());
      reply.set("overrides", Any(overrides_of(compiled.executable.metadata)));
      emit_compiled(reply, r, std::move(compiled), system, emit_as, cache, files);
    }
  }
  reply.set("compile_ms", ms_since(start));
  return reply;
}

/// A program's text into a file of the folder, its large constants beside it.
void write_program(const std::filesystem::path& file, const std::string& text,
                   const ConstantTable& constants) {
  std::error_code failure;
  std::filesystem::create_directories(file.parent_path(), failure);
  if (failure)
    throw Error(ErrorKind::io, "T3003", "the folder cannot be made: " + failure.message(),
                file.parent_path().string());
  AttrMap unused;
  write_or_reply(unused, text, file.string(), constants);
}

AttrMap extract_function(const ExtractRequest& r) {
  CompileOptions options = options_of<CompileSettings>(r);
  IRModule module = load_with_dims(r.model, options);
  module = with_entry(std::move(module));
  const ExtractedKernel kernel = extract_kernel(std::move(module), options, r.kernel, r.inputs.vec());
  ConstantTable constants, unscheduled_constants;
  const std::string program = module_text("tir", kernel.scheduled, {}, &constants),
                    unscheduled = module_text("tir", kernel.unscheduled, {}, &unscheduled_constants);
  if (!r.output.empty()) {
    const std::filesystem::path folder = r.output;
    write_program(folder / (r.kernel + ".tir"), program, constants);
    write_program(folder / "unscheduled" / (r.kernel + ".tir"), unscheduled, unscheduled_constants);
    write_text_file(folder / (r.kernel + ".trace.json"), kernel.trace + "\n");
  }
  return {{"program", program},
          {"unscheduled", unscheduled},
          {"trace", kernel.trace},
          {"inputs", Any(Array<NDArray>(kernel.inputs.begin(), kernel.inputs.end()))},
          {"outputs", Any(Array<NDArray>(kernel.outputs.begin(), kernel.outputs.end()))},
          {"from_run", kernel.from_run}};
}

AttrMap load_function(const LoadRequest& r) {
  const LoadModelOptions options{.dims = r.dims, .bind = r.bind, .overridden = r.overridden.vec()};
  return {{"module", Any(r.bytes.empty() ? load_model(r.model, options)
                                         : load_model_bytes(r.bytes, r.model, r.folder, options))}};
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
  json out = {{"name", v.name},
              {"dtype", v.dtype.empty() ? "void" : v.dtype},
              {"shape", v.has_shape ? dims_json(v.shape) : json()}};
  if (!v.container.empty()) out["container"] = v.container;
  return out;
}

json inspect_onnx(const onnx::OnnxInfo& info) {
  json out = {{"kind", "onnx"},
              {"producer", fmt::format("{} {}", info.producer, info.producer_version)},
              {"ir_version", info.ir_version},
              {"opset", info.opset},
              {"graph", info.graph},
              {"description", info.description},
              {"graph_description", info.graph_description},
              {"producer_name", info.producer},
              {"domain", info.domain},
              {"model_version", info.model_version},
              {"metadata", info.metadata},
              {"inputs", json::array()},
              {"outputs", json::array()},
              {"overridable", json::array()},
              {"operators", json::object()},
              {"parameters", info.parameters},
              {"parameter_bytes", info.parameter_bytes},
              {"flop", info.flops},
              {"flop_unknown_nodes", info.flops_unknown},
              {"unsupported", json::array()},
              {"nodes", json::array()}};
  for (const auto& v : info.inputs) {
    out["inputs"].push_back(value_json(v));
    out["inputs"].back()["read_as"] = info.value_inputs.count(v.name) ? "value" : "data";
  }
  for (const auto& v : info.outputs) out["outputs"].push_back(value_json(v));
  for (const auto& v : info.overridable) out["overridable"].push_back(value_json(v));
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

AttrMap inspect(const InspectRequest& r) {
  if (r.proofs) {
    CompileOptions options = options_of<ModelSettings>(r);
    IRModule module = load_with_dims(r.model, options);
    return {{"json", proofs_json(std::move(module), std::move(options))}};
  }
  if (!r.strategies && !r.bytes.empty())
    return reply_json(model_kind(r.bytes) == ModelKind::onnx
                          ? inspect_onnx(onnx::read_onnx_info_bytes(r.bytes, r.model))
                          : inspect_module(load_model_bytes(r.bytes, r.model)));
  if (!r.strategies)
    return reply_json(is_onnx(r.model) ? inspect_onnx(onnx::read_onnx_info(r.model))
                                       : inspect_module(load_model(r.model)));
  CompileOptions options = options_of<ModelSettings>(r);
  const IRModule module = load_with_dims(r.model, options);
  return {{"json", strategies_json(module, target_of(r), context_of(options))}};
}

/// The module to lint, or nothing behind the errors that keep it from being read.
IRModule read_for_lint(const LintRequest& r, json& problems) {
  try {
    LoadModelOptions options;
    options.dims = r.dims;
    const IRModule module = r.module          ? IRModule(r.module.cast<IRModuleNode>())
                            : r.bytes.empty() ? load_model(r.model, options)
                                              : load_model_bytes(r.bytes, r.model, {}, options);
    return with_entry(module);
  } catch (const DiagnosticError& e) {
    for (const Diagnostic& d : e.diagnostics)
      problems.push_back({{"kind", "error"},
                          {"rule", d.code},
                          {"message", d.message},
                          {"place", d.location},
                          {"hint", d.hint}});
    return {};
  }
}

AttrMap lint_function(const LintRequest& r) {
  json problems = json::array();
  if (const IRModule module = read_for_lint(r, problems))
    for (const LintRemark& m : lint(module))
      problems.push_back({{"kind", to_string(m.kind)},
                          {"rule", m.rule},
                          {"message", m.message},
                          {"place", m.place},
                          {"hint", m.hint}});
  return reply_json({{"problems", std::move(problems)}});
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
  json schedule = json::array(), given_up = json::array(), proofs = json::array(), libraries = json::array(),
       branches = json::array();
  if (r.explain)
    context.report = [&](std::string_view pass, const Any& report) {
      if (const auto proofs = report.try_as<int64_t>())
        given_up.push_back({{"pass", pass}, {"proofs", *proofs}, {"steps", kProofSteps}});
      if (pass == "fuse_ops") fusion += report.as<std::string>();
      if (pass == "use_libraries") libraries.push_back(report.as<std::string>());
      if (pass == "parallelize_branches" || pass == "fuse_parallel_loops")
        branches.push_back({{"pass", pass}, {"what", report.as<std::string>()}});
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
    reply.set("libraries", libraries.dump());
    reply.set("branches", branches.dump());
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
    throw Error(
        ErrorKind::usage, "T0951",
        fmt::format("{} names of inputs and {} tensors of samples", r.names.size(), r.samples.size()));
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

AttrMap target_function(const TargetRequest& r) {
  return {{"json", to_json(r.target.empty() ? host_target() : parse_target(r.target))}};
}
AttrMap read_value(const ReadValueRequest& r) { return {{"value", onnx::read_value_proto(r.path, r.type)}}; }

const bool registered = [] {
  add_compiler_function("compile", compile_function,
                        "compiles a model to an artifact in memory, or to a file of the kind `emit`");
  add_compiler_function("extract", extract_function,
                        "one kernel of a model: its program, its schedule, inputs");
  add_compiler_function("load", load_function, "a model as an IRModule");
  add_compiler_function("inspect", inspect, "facts about a model, without compiling");
  add_compiler_function("lint", lint_function,
                        "what keeps a model from compiling, makes it slow, or endangers its numbers");
  add_compiler_function("interpret", interpret_function, "runs a model on the interpreter");
  add_compiler_function("opt", opt, "applies passes to a module and prints it");
  add_compiler_function("reduce", reduce, "the smallest module on which a pass still fails the same way");
  add_compiler_function("quantize", quantize,
                        "a model that computes on bytes, from a float model and samples");
  add_compiler_function("emit_kinds", emit_kinds_function, "what `compile` can emit");
  add_compiler_function("target", target_function, "a target record");
  add_compiler_function("read_value", read_value, "a value of ONNX's test data");
  return true;
}();

}  // namespace
}  // namespace tenon
