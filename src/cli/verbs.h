// SPDX-License-Identifier: Apache-2.0
// One file per verb; each adds its subcommand.
#pragma once
#include <CLI/CLI.hpp>

#include "cli/console.h"

namespace tenon::cli {

void add_run(CLI::App& app, Console& console);
void add_compile(CLI::App& app, Console& console);
void add_bench(CLI::App& app, Console& console);
void add_compare(CLI::App& app, Console& console, int& exit_code);
void add_inspect(CLI::App& app, Console& console);
void add_lint(CLI::App& app, Console& console, int& exit_code);
void add_opt(CLI::App& app, Console& console);
void add_reduce(CLI::App& app, Console& console, int& exit_code);
void add_quantize(CLI::App& app, Console& console);
void add_ops(CLI::App& app, Console& console);
void add_extract(CLI::App& app, Console& console);
void add_explain(CLI::App& app, Console& console);
void add_doctor(CLI::App& app, Console& console);

/// A subcommand with the flags that every verb has.
CLI::App* add_verb(CLI::App& app, Console& console, const std::string& name, const std::string& description,
                   const std::string& example);

}  // namespace tenon::cli
