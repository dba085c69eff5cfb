// SPDX-License-Identifier: Apache-2.0
// The `tenon` command: verbs, help, and the one place where errors become exit codes.
#include <fmt/format.h>

#include <csignal>
#include <new>

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
  verb->footer("Example:\n  " + example);
  return verb;
}

}  // namespace tenon::cli

namespace {
using namespace tenon;

int report(const cli::Console& console, const Error& e) {
  if (console.as_json)
    fmt::print("{}\n", cli::error_json(e).dump(2, ' ', false, cli::json::error_handler_t::replace));
  std::fflush(stdout);
  fmt::print(stderr, "{}\n", e.what());
  return int(e.kind);
}

extern "C" void interrupted(int) { std::_Exit(int(ErrorKind::interrupted)); }
}  // namespace

int main(int argc, char** argv) {
  std::signal(SIGINT, interrupted);
  std::signal(SIGPIPE, SIG_DFL);
  CLI::App app("Tenon compiles trained models to native code and runs them.", "tenon");
  app.set_version_flag("--version", "tenon " TENON_VERSION);
  app.require_subcommand(1);
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
  cli::add_opt(app, console);
  cli::add_reduce(app, console, exit_code);
  cli::add_ops(app, console);
  cli::add_explain(app, console);
  cli::add_doctor(app, console);
  try {
    app.parse(argc, argv);
    console.end_progress();
    return exit_code;
  } catch (const CLI::ParseError& e) {
    if (e.get_exit_code() == 0) return app.exit(e);  // --help, --version
    fmt::print(stderr, "error[T0900]: {}\n  = help: {} --help\n", e.what(),
               app.get_subcommands().empty() ? "tenon" : "tenon " + app.get_subcommands()[0]->get_name());
    return int(ErrorKind::usage);
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
