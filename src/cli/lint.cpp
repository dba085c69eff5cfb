// SPDX-License-Identifier: Apache-2.0
// tenon lint: every problem of a model in one listing, without compiling it.
#include <fmt/format.h>

#include <algorithm>

#include "cli/compiler.h"
#include "cli/model.h"
#include "cli/verbs.h"

namespace tenon::cli {
namespace {

void lint(const LintRequest& o, Console& console, int& exit_code) {
  const json report = ask_compiler("lint", o);
  const json& problems = report.at("problems");
  const auto count = [&](const char* kind) {
    return std::ranges::count_if(problems, [&](const json& p) { return p.at("kind") == kind; });
  };
  for (const json& p : problems) {
    console.print(fmt::format("{}[{}]: {}", p.at("kind").get<std::string>(), p.at("rule").get<std::string>(),
                              p.at("message").get<std::string>()));
    if (const auto place = p.at("place").get<std::string>(); !place.empty())
      console.print(fmt::format("  --> {}", place));
    if (const auto hint = p.at("hint").get<std::string>(); !hint.empty())
      console.print(fmt::format("  = help: {}", hint));
  }
  console.print(fmt::format("{}: {} that keep it from compiling, {} that make it slow, {} about its numbers",
                            o.model, count("error"), count("slow"), count("numeric")));
  console.result(report);
  if (count("error")) exit_code = int(ErrorKind::model);
}

}  // namespace

void add_lint(CLI::App& app, Console& console, int& exit_code) {
  auto options = std::make_shared<LintRequest>();
  CLI::App* verb =
      add_verb(app, console, "lint", "every problem of a model in one listing, without compiling it",
               "tenon lint model.onnx");
  verb->add_option("MODEL", options->model, "ONNX file or module in script text (-: standard input)")
      ->required();
  add_sizes_option(*verb, "--dim", options->dims, "value of a symbolic dimension, repeatable");
  add_custom_option(*verb);
  verb->callback([options, &console, &exit_code] { lint(*options, console, exit_code); });
}

}  // namespace tenon::cli
