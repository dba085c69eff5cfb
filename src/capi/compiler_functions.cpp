// SPDX-License-Identifier: Apache-2.0
// The compiler by name: packed functions "compiler.NAME" that take a map of named values and return one. The
// command, and later other languages, reach the compiler through these alone. What each takes and gives is
// said in capi/requests.h.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <filesystem>
#include <nlohmann/json.hpp>

#include "base/clock.h"
#include "base/function.h"
#include "base/nearest.h"
#include "base/time_limit.h"
#include "capi/compiled.h"
#include "capi/compiler_function.h"
#include "capi/request_model.h"
#include "codegen/debug_source.h"
#include "import/onnx/load.h"
#include "ir/text.h"
#include "op/op_def.h"
#include "pipeline/bind_inputs.h"
#include "pipeline/compile.h"
#include "pipeline/compile_cache.h"
#include "pipeline/dimensions.h"
#include "pipeline/emit.h"
#include "pipeline/evaluator.h"
#include "pipeline/metadata.h"
#include "pipeline/program_entry.h"
#include "runtime/vm.h"
#include "target/variants.h"
#include "tools/extract_kernel.h"
#include "tools/module_text.h"
#include "tools/verify_passes.h"

namespace tenon {
namespace {

using json = nlohmann::ordered_json;

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
  const TimeLimit limit(r.compile_timeout);  // reading the model takes part of it
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
  const std::string system = system_name_of(r, kind);
  if (!variants) options.target = to_json(target_for(r.emit, best_for_host(targets), !system.empty()));
  options.debug_file = debug_file_of(r, kind, variants ? targets[0] : target_of(options));
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
  if (!variants)
    if (const std::string why = precision_fallback(options, target_of(options)); !why.empty())
      reply.set("note", why);
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
  add_compiler_function("emit_kinds", emit_kinds_function, "what `compile` can emit");
  add_compiler_function("target", target_function, "a target record");
  add_compiler_function("read_value", read_value, "a value of ONNX's test data");
  return true;
}();

}  // namespace
}  // namespace tenon
