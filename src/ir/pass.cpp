// SPDX-License-Identifier: Apache-2.0
// The one runner of passes.
#include "ir/pass.h"

#include <fmt/format.h>

#include <algorithm>
#include <ctime>
#include <filesystem>
#include <fstream>
#include <map>
#include <mutex>
#include <ranges>

#include "base/nearest.h"
#include "base/source_file.h"
#include "base/time_limit.h"
#include "ir/text.h"
#include "ir/verify.h"

namespace tenon {
namespace {

struct Table {
  std::mutex mutex;
  std::map<std::string, Pass, std::less<>> passes;
  static Table& get() {
    static Table* table = new Table;
    return *table;
  }
};

bool enabled(const Pass& pass, const PassContext& context) {
  if (context.disabled.count(pass.name)) return false;
  return context.required.count(pass.name) || context.opt_level >= pass.level;
}

void verify_after(const Pass& pass, const IRModule& module, VerifiedPrograms& verified) {
  DiagnosticList problems;
  verify(module, problems, false, verified);
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

std::string_view to_string(Changes changes) {
  switch (changes) {
    case Changes::nothing:
      return "nothing";
    case Changes::sum_order:
      return "sum_order";
    case Changes::rounding:
      return "rounding";
  }
  return "?";
}

const Pass& register_pass(Pass pass, std::source_location where) {
  pass.file = source_file(where.file_name());
  pass.line = int(where.line());
  for (const PassOption& o : pass.options)
    CHECK(o.name.starts_with(pass.name + "."), "an option of `" + pass.name + "` is called `" + o.name + "`");
  Table& table = Table::get();
  std::lock_guard lock(table.mutex);
  const auto [it, fresh] = table.passes.emplace(pass.name, pass);
  CHECK(fresh,
        fmt::format("pass `{}` is registered twice: {} and {}", pass.name, it->second.file, pass.file));
  return it->second;
}
const Pass* find_pass(std::string_view name) {
  Table& table = Table::get();
  std::lock_guard lock(table.mutex);
  auto it = table.passes.find(name);
  return it == table.passes.end() ? nullptr : &it->second;
}
Diagnostic no_such_pass(std::string_view name) {
  std::vector<std::string> names;
  for (const Pass* p : all_passes()) names.push_back(p->name);
  const std::string nearest = nearest_name(name, names);
  return {
      .code = "T0919",
      .message = fmt::format("there is no pass `{}`", name),
      .hint = nearest.empty() ? "`tenon opt --list` names them" : fmt::format("did you mean `{}`?", nearest)};
}
const Pass& get_pass(std::string_view name) {
  if (const Pass* pass = find_pass(name)) return *pass;
  throw DiagnosticError(ErrorKind::usage, {no_such_pass(name)});
}
std::vector<const Pass*> all_passes() {
  Table& table = Table::get();
  std::lock_guard lock(table.mutex);
  std::vector<const Pass*> out;
  for (auto& [name, pass] : table.passes) out.push_back(&pass);
  return out;
}

/// The module and its functions, to see whether a pass put others in their place.
static std::vector<const void*> parts_of(const IRModule& module) {
  std::vector<const void*> out{module.get()};
  for (const auto& [name, function] : module.functions()) out.push_back(function.get());
  return out;
}

std::vector<const Pass*> running_passes(std::span<const Pass> passes, const PassContext& context,
                                        DiagnosticList& problems) {
  std::vector<const Pass*> out;
  std::map<std::string_view, const Pass*> needed;  // by whom
  std::set<std::string_view> refused;
  for (const Pass& pass : passes | std::views::reverse) {
    const auto by = needed.find(pass.name);
    if (by != needed.end() && context.disabled.count(pass.name)) {
      if (refused.insert(pass.name).second)
        problems.add("T1004",
                     fmt::format("the pass `{}` needs `{}`, which is disabled", by->second->name, pass.name),
                     {}, fmt::format("disable `{}` too, or neither", by->second->name));
      continue;
    }
    if (by == needed.end() && !enabled(pass, context)) continue;
    for (const std::string& need : pass.needs) needed.emplace(need, &pass);
    out.push_back(&pass);
  }
  std::ranges::reverse(out);
  return out;
}

IRModule run_pass(std::string_view name, IRModule module, PassContext& context) {
  return get_pass(name).run(std::move(module), context);
}

IRModule run_passes(IRModule module, std::span<const Pass> passes, PassContext& context) {
#ifndef NDEBUG
  const bool verify_each = true;
#else
  const bool verify_each = context.verify;
#endif
  DiagnosticList problems(ErrorKind::usage);
  const std::vector<const Pass*> running = running_passes(passes, context, problems);
  problems.throw_if_any();
  VerifiedPrograms verified;
  for (const Pass* next : running) {
    const Pass& pass = *next;
    if (context.cancelled && context.cancelled())
      throw Error(ErrorKind::interrupted, "T1003", "compilation was cancelled");
    const AtWork at([&] { return fmt::format("the pass `{}`", pass.name); });
    TimeLimit::check();
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
    context.timings.push_back({pass.name, ms, parts_of(module) != before});
    if (verify_each) verify_after(pass, module, verified);
    if (context.print_sink && (context.print_after.count(pass.name) || context.print_after.count("all")))
      context.print_sink(pass.name, print(module));
    if (!context.dump_dir.empty()) dump(context, fmt::format("{:02}_{}", number, pass.name), module);
    for (PassInstrument* i : context.instruments) i->after(pass, module);
  }
  return module;
}

}  // namespace tenon
