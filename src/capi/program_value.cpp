// SPDX-License-Identifier: Apache-2.0
#include "capi/program_value.h"

#include <fmt/format.h>

#include <algorithm>

#include "capi/compiler_function.h"
#include "interpret/interpret.h"
#include "ir/text.h"
#include "pipeline/compile.h"

namespace tenon {

Any program_value(const IRModule& module, const std::string& type, const std::string& expression) {
  IRModule types = module;
  types.edit();
  for (const auto& [name, function] : module.functions()) types.erase(name);
  std::string line = expression;
  std::replace(line.begin(), line.end(), '\n', ' ');
  const std::string name = "tenon_value";
  const IRModule program = parse_module(
      fmt::format("{}\n    @R.function\n    def {}() -> {}:\n        value = {}\n        return value\n",
                  print(types), name, type, line),
      {.constants = nullptr, .name = "<value>"});
  PassContext context;
  return interpret(run_passes(program, std::span(find_pass("infer_types"), 1), context), name, {});
}

namespace {
AttrMap evaluate(const EvaluateRequest& r) {
  return {{"value", program_value(load_model(r.model), r.type, r.expression)}};
}
const bool registered = [] {
  add_compiler_function("evaluate", evaluate, "a value of a program's data types");
  return true;
}();
}  // namespace

}  // namespace tenon
