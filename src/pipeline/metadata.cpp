// SPDX-License-Identifier: Apache-2.0
#include "pipeline/metadata.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <tenon/tenon.h>

#include "analysis/kernel_work.h"
#include "codegen/calls.h"
#include "codegen/vm/result_types.h"
#include "ir/attr_keys.h"
#include "pipeline/dimensions.h"

namespace tenon {
namespace {

std::string symbol_of(const std::string& name, const tir::PrimFuncNode& f) {
  return f.attrs.get_or("global_symbol", Any(name)).as<std::string>();
}

int64_t least_memory(const IRModule& planned) {
  int64_t bytes = 0;
  for (auto [name, object] : planned.functions())
    if (const auto* f = object.as<graph::Function>())
      if (f->plan) bytes = std::max(bytes, f->plan->lower_bound);
  return bytes;
}

}  // namespace

Metadata work_of_kernels(const IRModule& module) {
  Metadata out;
  for (auto [name, object] : module.functions()) {
    const tir::PrimFunc f = object.cast<tir::PrimFuncNode>();
    if (!f) continue;
    // An overridden kernel has its loops placed already.
    if (const auto known = f->attrs.find(kWorkAttr))
      out.emplace_back("work." + symbol_of(name, *f), known->as<std::string>());
    else if (const auto work = kernel_work(f))
      out.emplace_back("work." + symbol_of(name, *f), work_text(*work));
  }
  return out;
}

Metadata describe_compilation(const Compiled& compiled, const CompileOptions& options) {
  Metadata out{{"compiler", fmt::format("tenon {}", tenon_version())},
               {"target", to_string(compiled.target)},
               {"target.record", to_json(compiled.target)},
               {"memory.lower_bound", std::to_string(least_memory(compiled.planned))}};
  for (auto& entry : describe_result(compiled.planned)) out.push_back(std::move(entry));
  // Of inputs and outputs that are no tensors of numbers, a line each ("" for the others).
  if (const auto main = compiled.planned.find("main").cast<graph::Function>()) {
    for (const char* key : {"input", "output"})
      if (const auto kinds = main->attrs.find(fmt::format("{}_kinds", key)))
        out.emplace_back(fmt::format("{}s", key),
                         fmt::format("{}", fmt::join(kinds->as<Array<std::string>>().vec(), "\n")));
    if (const auto names = main->attrs.find("value_inputs"))
      out.emplace_back("value_inputs",
                       fmt::format("{}", fmt::join(names->as<Array<std::string>>().vec(), "\n")));
    if (const auto bound = main->attrs.find("bound_inputs"))
      for (const auto& [name, value] : bound->as<AttrMap>())
        out.emplace_back("bound_input." + name, value.as<std::string>());
  }
  out.emplace_back("flags",
                   fmt::format("-O{}{}{}", options.opt_level, options.schedule ? "" : " --no-schedule",
                               options.debug_file.empty() ? "" : " -g"));
  for (const auto& [name, value] : sizes_of(options.dims))
    out.emplace_back("dim." + name, std::to_string(value));
  for (const auto& [kernel, names] : codegen::packed_functions(compiled.lowered))
    out.emplace_back("calls." + kernel, fmt::format("{}", fmt::join(names, "\n")));
  for (const auto& [kernel, names] : codegen::external_functions(compiled.lowered))
    out.emplace_back("externals." + kernel, fmt::format("{}", fmt::join(names, "\n")));
  for (auto [name, object] : compiled.lowered.functions()) {
    const auto* f = object.as<tir::PrimFuncNode>();
    if (const auto how = f ? f->attrs.find(kOverrideAttr) : std::nullopt)
      out.emplace_back("override." + symbol_of(name, *f), how->as<std::string>());
    const auto asserts = f ? f->attrs.find(kAssertsAttr) : std::nullopt;
    const auto lines = asserts ? asserts->try_as<Array<std::string>>() : std::nullopt;
    if (lines && !lines->empty())
      out.emplace_back("asserts." + symbol_of(name, *f), fmt::format("{}", fmt::join(*lines, "\n")));
  }
  return out;
}

}  // namespace tenon
