// SPDX-License-Identifier: Apache-2.0
// tenon opt: apply passes to a module in text (or a model) and print it.
#include <fmt/format.h>

#include "cli/compiler.h"
#include "cli/verbs.h"

namespace tenon::cli {
namespace {

struct OptOptions {
  std::string file, target, output, schedule, function;
  std::vector<std::string> passes;
  bool list = false, verify = false, explain = false;
};

void opt(const OptOptions& o, Console& console) {
  if (o.list) {
    const json passes = ask_compiler("passes", {});
    console.result(passes);
    for (const json& p : passes.at("passes"))
      console.print(fmt::format("{:<30} {:<7} {}", p.at("name").get<std::string>(),
                                p.at("kind").get<std::string>(), p.at("doc").get<std::string>()));
    return;
  }
  if (o.file.empty())
    throw Error(ErrorKind::usage, "T0916", "no module is given", {},
                "tenon opt FILE --pass NAME, or tenon opt --list");
  const AttrMap reply = call_compiler("opt", {{"model", o.file},
                                              {"passes", Any(Array<std::string>(o.passes))},
                                              {"schedule", o.schedule},
                                              {"function", o.function},
                                              {"target", o.target},
                                              {"verify", o.verify},
                                              {"explain", o.explain},
                                              {"output", o.output}});
  const std::string text = reply.at("text").as<std::string>();
  if (o.output.empty()) console.print(text);
  console.result({{"text", text}});
}

}  // namespace

void add_opt(CLI::App& app, Console& console) {
  auto options = std::make_shared<OptOptions>();
  CLI::App* verb = add_verb(app, console, "opt", "apply passes to a module in text and print it",
                            "echo '…' | tenon opt - --pass fuse_ops --pass lower_to_call_tir");
  verb->add_option("FILE", options->file, "module in script text, or any model (-: standard input)");
  verb->add_option("--pass", options->passes, "a pass, repeatable, applied in this order")
      ->type_name("NAME")
      ->allow_extra_args(false);
  verb->add_option("--schedule", options->schedule,
                   "then the steps of a trace (JSON), or of the traces that the programs of a module carry")
      ->type_name("FILE");
  verb->add_option("--function", options->function, "the program that --schedule is for")->type_name("NAME");
  verb->add_option("--target", options->target, "as for compile")->type_name("TARGET");
  verb->add_option("-o,--output", options->output, "write the text here, its large constants beside it")
      ->type_name("FILE");
  verb->add_flag("--list", options->list, "name all passes");
  verb->add_flag("--verify", options->verify, "execute the module before and after every pass");
  verb->add_flag("--explain", options->explain, "say why operators were fused");
  verb->callback([options, &console] { opt(*options, console); });
}

}  // namespace tenon::cli
