// SPDX-License-Identifier: Apache-2.0
#include "base/error_codes/error_codes.h"

#include <algorithm>

#include "base/error.h"
#include "base/error_codes/tables.h"

namespace tenon {
namespace {

constexpr std::pair<std::string_view, std::string_view> kGroups[] = {
    {"T00", "bugs of Tenon"},
    {"T01", "registered functions"},
    {"T02", "text of programs"},
    {"T03", "programs: verifier, tensor expressions, interpreter"},
    {"T04", "tensors and memory"},
    {"T05", "running a model"},
    {"T06", "loading and saving artifacts"},
    {"T07", "schedules"},
    {"T08", "lowering and code generation"},
    {"T09", "command line, options and targets"},
    {"T10", "passes"},
    {"T11", "types and operators"},
    {"T20", "ONNX: the model file"},
    {"T21", "ONNX: what is not supported"},
    {"T30", "files and libraries"},
};

std::vector<ErrorGroup> make_groups() {
  std::vector<ErrorGroup> groups;
  for (const auto& [prefix, title] : kGroups) groups.push_back({prefix, title, {}});
  for (auto table : {error_codes::general_codes, error_codes::script_codes, error_codes::program_codes,
                     error_codes::runtime_codes, error_codes::schedule_codes, error_codes::lowering_codes,
                     error_codes::command_codes, error_codes::onnx_codes})
    for (const ErrorCode& c : table()) {
      auto group = std::ranges::find(groups, c.code.substr(0, 3), &ErrorGroup::prefix);
      CHECK(group != groups.end(), "no group has the error code " + std::string(c.code));
      group->codes.push_back(c);
    }
  return groups;
}

}  // namespace

const std::vector<ErrorGroup>& error_groups() {
  static const std::vector<ErrorGroup> groups = make_groups();
  return groups;
}

}  // namespace tenon
