// SPDX-License-Identifier: Apache-2.0
// Which implementation every call of a model gets, and why: `tenon inspect --strategies`.
#pragma once
#include "ir/pass.h"
#include "target/target.h"

namespace tenon {

/// {"target": …, "calls": [{"function", "value", "operator", "type", "key", "chosen", "priority", "schedule",
/// "library", "why", "rejected": [{"name", "priority", "reason"}]}]}: the calls of operators as the passes
/// before layouts and packing leave them (those two carry out what is chosen here).
std::string strategies_json(IRModule module, const Target& target, PassContext context);

}  // namespace tenon
