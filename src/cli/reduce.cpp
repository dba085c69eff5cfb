// SPDX-License-Identifier: Apache-2.0
// tenon reduce: a small case of a wrong result, for a report.
#include <fmt/format.h>

#include "cli/compiler.h"
#include "cli/model.h"
#include "cli/verbs.h"

namespace tenon::cli {
namespace {

void reduce(ReduceRequest& o, Console& console, int& exit_code) {
  o.reduced = Function([&console](Arguments a) -> Any {
    console.note(fmt::format("{} values left after {} tries", a[1].as<int64_t>(), a[0].as<int64_t>()));
    return {};
  });
  const AttrMap reply = call_compiler<ReduceRequest>("reduce", o);
  const std::string pass = reply.at("pass").as<std::string>();
  if (pass.empty()) {
    console.print("every pass keeps the results: nothing to reduce");
    console.result({{"pass", nullptr}});
    return;
  }
  exit_code = int(ErrorKind::comparison);
  const std::string text = reply.at("text").as<std::string>(),
                    message = reply.at("message").as<std::string>();
  console.print(fmt::format("# {}: {}", pass, message));
  if (o.output.empty())
    console.print(text);
  else
    console.print(
        fmt::format("wrote {}; `tenon opt {} --pass {} --verify` shows it", o.output, o.output, pass));
  console.result(
      {{"pass", pass}, {"code", reply.at("code").as<std::string>()}, {"message", message}, {"text", text}});
}

}  // namespace

void add_reduce(CLI::App& app, Console& console, int& exit_code) {
  auto options = std::make_shared<ReduceRequest>();
  CLI::App* verb =
      add_verb(app, console, "reduce", "cut a model down to a small case on which a pass is wrong",
               "tenon reduce model.onnx -o case.tir");
  verb->add_option("MODEL", options->model, "ONNX file or module in script text (-: standard input)")
      ->required();
  add_list_option(
      *verb, "--pass", options->passes,
      "only these passes, in this order, repeatable (default: a whole compilation, executed at its end)",
      "NAME");
  add_pass_options(*verb, *options);
  add_target_options(*verb, *options);
  verb->add_option("--seed", options->seed, "of the inputs")->capture_default_str()->type_name("N");
  verb->add_option("-o,--output", options->output, "write the case here, its large constants beside it")
      ->type_name("FILE");
  verb->callback([options, &console, &exit_code] { reduce(*options, console, exit_code); });
}

}  // namespace tenon::cli
