// SPDX-License-Identifier: Apache-2.0
// tenon compile: a model becomes an artifact, or any of the stages on the way to it.
#include <fmt/format.h>

#include <filesystem>

#include "cli/measure.h"
#include "cli/model.h"
#include "cli/verbs.h"

namespace tenon::cli {
namespace {

struct CompileVerbOptions {
  ModelOptions model;
  std::string out, emit = "artifact", stage, function, system;
};

void compile_verb(const CompileVerbOptions& o, Console& console) {
  std::string out = o.out;
  if (out.empty()) {
    static const std::map<std::string, std::string> endings = {
        {"artifact", ".so"}, {"obj", ".o"},   {"asm", ".s"},     {"llvm", ".ll"}, {"c", ".c"},
        {"tir", ".tir"},     {"dot", ".dot"}, {"json", ".json"}, {"svg", ".svg"}, {"exe", ""}};
    out = std::filesystem::path(o.model.model == "-" ? "model" : o.model.model).stem().string() +
          endings.at(o.emit);
  }
  std::map<std::string, int64_t> dims = dims_of(o.model, {}, {});
  AttrMap request = compile_request(o.model, dims, console);
  request.set("emit", o.emit);
  if (!o.stage.empty() && o.emit != "dot" && o.emit != "svg" && o.emit != "tir")
    throw Error(ErrorKind::usage, "T0921", "--stage shows a module between two passes: as tir, dot or svg",
                {}, "add --emit dot");
  request.set("stage", o.stage);
  request.set("function", o.function);
  request.set("system", o.system);
  if (out == "-" && (o.emit == "artifact" || o.emit == "exe"))
    throw Error(ErrorKind::usage, "T0921", "an " + o.emit + " cannot go to standard output", {},
                "name a file with -o");
  request.set("output", out == "-" ? "" : out);
  const AttrMap reply = call_compiler("compile", request);
  console.end_progress();
  if (out == "-") {
    console.print(reply.at("text").as<std::string>());
    console.result({{"text", reply.at("text").as<std::string>()}});
    return;
  }
  const json passes = json::parse(reply.at("passes").as<std::string>());
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
  console.result({{"output", out},
                  {"bytes", bytes},
                  {"compile_ms", ms},
                  {"cached", cached},
                  {"peak_rss_bytes", peak_memory_bytes()},
                  {"passes", passes}});
}

}  // namespace

void add_compile(CLI::App& app, Console& console) {
  auto options = std::make_shared<CompileVerbOptions>();
  CLI::App* verb =
      add_verb(app, console, "compile", "write an artifact, object, assembly, LLVM, C or tensor programs",
               "tenon compile model.onnx -o model.so && tenon bench model.so");
  add_compile_options(*verb, options->model);
  verb->add_option("-o,--output", options->out,
                   "the file to write (default: the model's name in this folder)")
      ->type_name("FILE");
  verb->add_option("--emit", options->emit, "artifact, obj, exe, asm, llvm, c, tir, dot, svg or json")
      ->check(CLI::IsMember({"artifact", "obj", "exe", "asm", "llvm", "c", "tir", "dot", "svg", "json"}))
      ->capture_default_str()
      ->type_name("KIND");
  verb->add_option("--system-lib", options->system,
                   "obj or c that registers itself as system:NAME when linked in")
      ->type_name("NAME");
  verb->add_option("--stage", options->stage, "tir, dot or svg of the module behind this pass (or: import)")
      ->type_name("PASS");
  verb->add_option("--function", options->function, "dot or svg of this function alone, with --stage")
      ->type_name("NAME");
  verb->callback([options, &console] { compile_verb(*options, console); });
}

}  // namespace tenon::cli
