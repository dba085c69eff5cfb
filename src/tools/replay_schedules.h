// SPDX-License-Identifier: Apache-2.0
// Recorded schedules applied to a module's tensor programs: what `tenon opt --schedule` does.
#pragma once
#include <string>

#include "ir/module.h"

namespace tenon {

/// Tensor programs scheduled as recorded: `path` is a trace (JSON) for `function` (empty: the only program),
/// or a module whose programs carry traces ("tenon.trace"). Error "T0923" when there is nothing to apply.
IRModule replay_schedules(IRModule module, const std::string& path, const std::string& function = {});

}  // namespace tenon
