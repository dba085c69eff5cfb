// SPDX-License-Identifier: Apache-2.0
// What reading, printing and replaying a trace share. Used by trace.cpp and replay.cpp only.
#pragma once
#include <map>

#include "schedule/instructions.h"
#include "schedule/schedule.h"

namespace tenon::sched {

/// T0790.
[[noreturn]] void bad_trace(const std::string& why);
/// T0790 for a name that is no instruction.
const PrimitiveInfo& signature(const std::string& name);
/// The letter of the i-th handle of a pattern such as "bl*".
char kind_of(std::string_view pattern, size_t i);
/// What the handles of a trace are: known from the step that made them.
std::map<int32_t, char> kinds_of(const Trace& t);
/// "b3", "l7", "v2".
std::string handle_text(char kind, int32_t id);
/// -1 for what is no handle.
int32_t handle_id(std::string_view text);

}  // namespace tenon::sched
