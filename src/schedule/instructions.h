// SPDX-License-Identifier: Apache-2.0
// The instructions of a schedule as a table: what each is called, which handles it takes and makes, what it
// does. Traces, docs/schedule.md and the tests of coverage are driven by it.
#pragma once
#include <string_view>
#include <vector>

namespace tenon {

enum class StepKind { query, sample, change, note };

/// Inputs and outputs by letter: b block, l loop, v number, e block or loop; a trailing * repeats the last.
struct PrimitiveInfo {
  std::string_view name, inputs, outputs;
  std::vector<std::string_view> attrs;  ///< in the order in which the script shows them
  StepKind kind = StepKind::change;
  std::string_view reference;  ///< row of the inventory; empty for instructions of our own
  std::string_view does;       ///< one clause for people
};
/// All of them, in the order of the inventory.
const std::vector<PrimitiveInfo>& instructions();
const PrimitiveInfo* find_instruction(std::string_view name);

}  // namespace tenon
