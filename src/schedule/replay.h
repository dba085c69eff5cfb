// SPDX-License-Identifier: Apache-2.0
// Runs the steps of a trace on a schedule; shared by Schedule::replay and by whoever edits traces.
#pragma once
#include "schedule/schedule.h"

namespace tenon::sched {

/// Handles of the trace are mapped to the schedule's by the steps that made them. T0790 for a step that is
/// unknown or does not fit, T0791 for a handle that no earlier step made.
void replay_steps(Schedule& s, const Trace& trace);

}  // namespace tenon::sched
