// SPDX-License-Identifier: Apache-2.0
// What the two texts of a trace, JSON and script, share.
#pragma once
#include "schedule/primitive.h"

namespace tenon::sched {

/// T0790.
[[noreturn]] void bad_trace(const std::string& why);
std::string handle_text(Handle handle);                    ///< "b3", "l7", "v2", "p1"
std::optional<Handle> read_handle(std::string_view text);  ///< null for what is no handle

}  // namespace tenon::sched
