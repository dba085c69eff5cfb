// SPDX-License-Identifier: Apache-2.0
// The `tenon` command: verbs, help, and the one place where errors become exit codes.
#include <fmt/format.h>

#include <csignal>
#include <new>

#include "base/nearest.h"
#include "cli/verbs.h"

#ifndef TENON_VERSION
#define TENON_VERSION "unknown"
#endif

namespace tenon::cli {

CLI::App* add_verb(CLI::App& app, Console& console, const std::string& name, const std::string& description,
                   const std::string& example) {
  CLI::App* verb = app.add_subcommand(name, description);
  verb->add_flag("--json", console.as_json, "print one JSON document");
  verb->add_flag("-q,--quiet", console.quiet, "no progress, no remarks");
  verb->add_flag("-v,--verbose", console.verbose, "say more");
  verb->footer(example.empty() ? "" : "Example:\n  " + example);  // not that of the command
  return verb;
}

}  // namespace tenon::cli

namespace {
using namespace tenon;

std::vector<std::string> verb_names(const CLI::App& app) {
  std::vector<std::string> out;
  for (const CLI::App* verb : app.get_subcommands({})) out.push_back(verb->get_name());
  return out;
}

/// What a mistake in the words of the command is, and what helps.
Error usage_error(const CLI::App& app, const CLI::ParseError& e, int argc, char** argv) {
  const auto verbs = app.get_subcommands();
  if (verbs.empty()) {
    if (argc < 2)
      return Error(ErrorKind::usage, "T0900", "no verb is given", {},
                   did_you_mean("", verb_names(app), "verbs: "));
    return Error(ErrorKind::usage, "T0900", fmt::format("there is no verb `{}`", argv[1]), {},
                 did_you_mean(argv[1], verb_names(app), "verbs: "));
  }
  const CLI::App* verb = verbs.front();
  const std::vector<std::string> extra = verb->remaining(true);
  const std::string help = fmt::format("tenon {} --help", verb->get_name());
  if (extra.empty() || !extra.front().starts_with("-"))
    return Error(ErrorKind::usage, "T0900", e.what(), {}, help);
  std::vector<std::string> options;
  for (const CLI::Option* option : verb->get_options()) {
    for (const std::string& name : option->get_lnames()) options.push_back("--" + name);
    for (const std::string& name : option->get_snames()) options.push_back("-" + name);
  }
  const std::string given = extra.front().substr(0, extra.front().find('='));
  const std::string near = nearest_name(given, options);
  return Error(ErrorKind::usage, "T0900", fmt::format("`{}` has no option `{}`", verb->get_name(), given), {},
               near.empty() ? help : fmt::format("did you mean `{}`?", near));
}

int report(const cli::Console& console, const Error& e) {
  if (console.as_json)
    fmt::print("{}\n", cli::error_json(e).dump(2, ' ', false, cli::json::error_handler_t::replace));
  std::fflush(stdout);
  fmt::print(stderr, "{}\n", e.what());
  return int(e.kind);
}

/// Help without the empty lines that no reader needs: it fits a screen.
struct HelpFormatter : CLI::Formatter {
  std::string make_positionals(const CLI::App* app) const override {
    const std::string text = Formatter::make_positionals(app);
    return text.substr(std::min(text.find_first_not_of('\n'), text.size()));
  }
  std::string make_help(const CLI::App* app, std::string name, CLI::AppFormatMode mode) const override {
    std::string text = Formatter::make_help(app, std::move(name), mode);
    while (text.ends_with("\n\n")) text.pop_back();
    return text;
  }
};

extern "C" void interrupted(int) { std::_Exit(int(ErrorKind::interrupted)); }
}  // namespace

int main(int argc, char** argv) {
  std::signal(SIGINT, interrupted);
  std::signal(SIGPIPE, SIG_DFL);
  CLI::App app("Tenon compiles trained models to native code and runs them.", "tenon");
  app.set_version_flag("--version", "tenon " TENON_VERSION);
  app.require_subcommand(1);
  app.formatter(std::make_shared<HelpFormatter>());
  app.get_formatter()->column_width(26);
  app.footer(
      "Example:\n  tenon run model.onnx -i x=@photo.npy -o out/\n\n`tenon VERB --help` shows a verb's "
      "options. Exit codes: 0 ok, 1 comparison failed,\n"
      "2 usage, 3 model invalid or unsupported, 4 limit, 5 input/output, 70 our bug.");
  cli::Console console;
  int exit_code = 0;
  cli::add_run(app, console);
  cli::add_compile(app, console);
  cli::add_bench(app, console);
  cli::add_compare(app, console, exit_code);
  cli::add_inspect(app, console);
  cli::add_lint(app, console, exit_code);
  cli::add_extract(app, console);
  cli::add_opt(app, console);
  cli::add_reduce(app, console, exit_code);
  cli::add_quantize(app, console);
  cli::add_ops(app, console);
  cli::add_explain(app, console);
  cli::add_doctor(app, console);
  try {
    app.parse(argc, argv);
    console.end_progress();
    return exit_code;
  } catch (const CLI::ParseError& e) {
    if (e.get_exit_code() == 0) return app.exit(e);  // --help, --version
    return report(console, usage_error(app, e, argc, argv));
  } catch (const Error& e) {
    console.end_progress();
    return report(console, e);
  } catch (const std::bad_alloc&) {
    return report(console, Error(ErrorKind::limit, "T0401", "out of memory", {},
                                 "use a smaller input or model, or --memory-limit to be refused earlier"));
  } catch (const std::exception& e) {
    return report(console, InternalError(e.what()));
  }
}
