// SPDX-License-Identifier: Apache-2.0
// Circular buffers that rolling_buffer made: what touches one stays where it is. The block that fills one
// carries the annotation kRing.
#pragma once
#include "schedule/state.h"

namespace tenon::sched {

inline constexpr const char* kRing = "rolling_buffer";
/// T0706 when the block reads or writes a circular buffer.
void require_no_ring(const State& s, int32_t id);

}  // namespace tenon::sched
