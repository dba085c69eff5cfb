// SPDX-License-Identifier: Apache-2.0
// The one runner of passes.
#include "ir/pass.h"

#include <fmt/format.h>

#include <ctime>
#include <filesystem>
#include <fstream>
#include <map>
#include <mutex>

#include "ir/text.h"
#include "ir/verify.h"

namespace tenon {
namespace {

struct Table {
  std::mutex mutex;
  std::map<std::string_view, const Pass*> passes;
  static Table& get() {
    static Table* table = new Table;
    return *table;
  }
};

bool enabled(const Pass& pass, const PassContext& context) {
  if (context.disabled.count(pass.name)) return false;
  return context.required.count(pass.name) || context.opt_level >= pass.level;
}

void verify_after(const Pass& pass, const IRModule& module) {
  DiagnosticList problems;
  verify(module, problems);
  if (problems.empty()) return;
  std::string text;
  for (const Diagnostic& d : problems.all()) text += "\n" + render(d);
  throw InternalError(fmt::format("pass `{}` left a module that the verifier refuses:{}", pass.name, text));
}

void dump(const PassContext& context, const std::string& stem, const IRModule& module) {
  ConstantTable constants;
  PrintOptions options;
  options.constants = &constants;
  std::error_code ignored;  // writing says what is wrong
  std::filesystem::create_directories(context.dump_dir, ignored);
  const std::string path = context.dump_dir + "/" + stem;
  std::ofstream out(path + ".tir");
  out << print(module, options);
  out.close();
  if (!out) throw Error(ErrorKind::io, "T3003", "cannot write " + path + ".tir");
  if (!constants.empty()) save_constants(path + ".constants", constants);
}

}  // namespace

void announce_passes(std::span<const Pass> passes) {
  Table& table = Table::get();
  std::lock_guard lock(table.mutex);
  for (const Pass& p : passes) table.passes.emplace(p.name, &p);
}
const Pass* find_pass(std::string_view name) {
  Table& table = Table::get();
  std::lock_guard lock(table.mutex);
  auto it = table.passes.find(name);
  return it == table.passes.end() ? nullptr : it->second;
}
std::vector<const Pass*> all_passes() {
  Table& table = Table::get();
  std::lock_guard lock(table.mutex);
  std::vector<const Pass*> out;
  for (auto& [name, pass] : table.passes) out.push_back(pass);
  return out;
}

/// The module and its functions, to see whether a pass put others in their place.
static std::vector<const void*> parts_of(const IRModule& module) {
  std::vector<const void*> out{module.get()};
  for (const auto& [name, function] : module.functions()) out.push_back(function.get());
  return out;
}

IRModule run_passes(IRModule module, std::span<const Pass> passes, PassContext& context) {
#ifndef NDEBUG
  const bool verify_each = true;
#else
  const bool verify_each = context.verify;
#endif
  for (const Pass& pass : passes) {
    if (!enabled(pass, context)) continue;
    if (context.cancelled && context.cancelled())
      throw Error(ErrorKind::interrupted, "T1003", "compilation was cancelled");
    bool run = true;
    for (PassInstrument* i : context.instruments) run = i->should_run(pass, module) && run;
    if (!run) continue;
    for (PassInstrument* i : context.instruments) i->before(pass, module);
    // No references: a pass may take apart what nobody else holds.
    const std::vector<const void*> before = parts_of(module);
    // Processor time, of all threads: what a pass costs, whatever else the machine does.
    const std::clock_t start = std::clock();
    module = pass.run(std::move(module), context);
    const double ms = 1e3 * double(std::clock() - start) / CLOCKS_PER_SEC;
    const size_t number = context.timings.size();
    context.timings.push_back({std::string(pass.name), ms, parts_of(module) != before});
    if (verify_each) verify_after(pass, module);
    if (context.print_sink && (context.print_after.count(pass.name) || context.print_after.count("all")))
      context.print_sink(std::string(pass.name), print(module));
    if (!context.dump_dir.empty()) dump(context, fmt::format("{:02}_{}", number, pass.name), module);
    for (PassInstrument* i : context.instruments) i->after(pass, module);
  }
  return module;
}

}  // namespace tenon
