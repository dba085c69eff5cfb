// SPDX-License-Identifier: Apache-2.0
// tenon compile: a model becomes an artifact, or any of the stages on the way to it.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <filesystem>

#include "base/nearest.h"
#include "cli/compiler.h"
#include "cli/model.h"
#include "cli/verbs.h"
#include "runtime/libraries/measure.h"

namespace tenon::cli {
namespace {

struct CompileVerbOptions {
  ModelOptions model;
  std::string out, emit = "artifact", stage, function, system;
  bool debug_info = false;
  std::vector<std::string> emit_options;
};

/// The kinds of `--emit`: the compiler's own, and those that code generators offer.
json emit_kinds() { return ask_compiler("emit_kinds").at("kinds"); }

json emit_kind(const std::string& name) {
  std::vector<std::string> names;
  for (const json& kind : emit_kinds()) {
    names.push_back(kind.at("name"));
    if (names.back() == name) return kind;
  }
  throw Error(ErrorKind::usage, "T0920", fmt::format("there is nothing of the kind `{}` to emit", name), {},
              did_you_mean(name, names, "kinds: "));
}

std::string help_on_kinds() {
  std::vector<std::string> kinds;
  for (const json& kind : emit_kinds()) {
    std::vector<std::string> options;
    for (const json& option : kind.at("options")) options.push_back(option.at("name"));
    kinds.push_back(kind.at("name"));
    if (!options.empty()) kinds.back() += fmt::format(" ({})", fmt::join(options, ", "));
  }
  return fmt::format(
      "Kinds (--emit-option): {}\nExample: tenon compile model.onnx -o model.so && tenon bench model.so",
      fmt::join(kinds, ", "));
}

void compile_verb(const CompileVerbOptions& o, Console& console) {
  const json kind = emit_kind(o.emit);
  std::string out = o.out;
  if (out.empty())
    out = std::filesystem::path(o.model.model == "-" ? "model" : o.model.model).stem().string() +
          kind.at("ending").get<std::string>();
  if (!o.stage.empty() && o.emit != "dot" && o.emit != "svg" && o.emit != "png" && o.emit != "tir")
    throw Error(ErrorKind::usage, "T0921",
                "--stage shows a module between two passes: as tir, dot, svg or png", {}, "add --emit dot");
  if (out == "-" && !kind.at("text").get<bool>())
    throw Error(ErrorKind::usage, "T0921", "the " + o.emit + " cannot go to standard output", {},
                "name a file with -o");
  CompileRequest request = compile_request(o.model, console);
  if (!o.model.bound.empty()) {
    Signature signature = is_compiled(o.model.model) ? Signature() : signature_of(o.model);
    request.bind = bound_values(o.model, signature);
  }
  request.emit = o.emit;
  request.stage = o.stage;
  request.function = o.function;
  request.system = o.system;
  request.debug_info = o.debug_info;
  for (const std::string& option : o.emit_options) request.emit_options.push_back(option);
  request.output = out == "-" ? "" : out;
  const AttrMap reply = call_compiler("compile", request);
  console.end_progress();
  if (out == "-") {
    console.print(reply.at("text").as<std::string>());
    console.result({{"text", reply.at("text").as<std::string>()}});
    return;
  }
  const json passes = json::parse(reply.at("passes").as<std::string>());
  tell_note(reply, console);
  const json overrides = tell_overrides(reply, console);
  const int64_t bytes = reply.at("bytes").as<int64_t>();
  const double ms = reply.at("compile_ms").as<double>();
  if (o.model.time_passes)
    for (const json& pass : passes)
      console.print(
          fmt::format("{:>10.3f} ms  {}", pass.at("ms").get<double>(), pass.at("name").get<std::string>()));
  bool cached = false;
  if (auto found = reply.find("cached")) cached = found->as<bool>();
  console.print(fmt::format("wrote {} ({}) in {}{}", out, bytes_text(double(bytes)), time_text(ms),
                            cached ? ", from the compile cache" : ""));
  json result = {{"output", out},
                 {"bytes", bytes},
                 {"compile_ms", ms},
                 {"cached", cached},
                 {"peak_rss_bytes", peak_memory_bytes()},
                 {"passes", passes}};
  if (!overrides.empty()) result["overrides"] = overrides;
  if (const auto note = reply.find("note")) result["note"] = note->as<std::string>();
  console.result(result);
}

}  // namespace

void add_compile(CLI::App& app, Console& console) {
  auto options = std::make_shared<CompileVerbOptions>();
  CLI::App* verb =
      add_verb(app, console, "compile", "write an artifact, an object, text of a program or a drawing", {});
  verb->footer(help_on_kinds);
  add_compile_options(*verb, options->model);
  verb->add_option("-o,--output", options->out,
                   "the file to write (default: the model's name in this folder)")
      ->type_name("FILE");
  verb->add_option("--emit", options->emit, "what to write, of the kinds below")
      ->capture_default_str()
      ->type_name("KIND");
  verb->add_flag("-g,--debug-info", options->debug_info,
                 "instructions have the lines of FILE.kernels.tir, written beside it, for perf and gdb");
  verb->add_option("--system-lib", options->system,
                   "obj or c that registers itself as system:NAME when linked in")
      ->type_name("NAME");
  verb->add_option("--emit-option", options->emit_options, "how it is written, repeatable")->type_name("K=V");
  verb->add_option("--stage", options->stage,
                   "tir, dot, svg or png of the module behind this pass (or: import)")
      ->type_name("PASS");
  verb->add_option("--function", options->function, "dot, svg or png of this function alone, with --stage")
      ->type_name("NAME");
  verb->callback([options, &console] { compile_verb(*options, console); });
}

}  // namespace tenon::cli
