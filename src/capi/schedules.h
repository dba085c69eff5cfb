// SPDX-License-Identifier: Apache-2.0
// Schedules of tensor programs as objects.
#pragma once
#include "base/function.h"
#include "schedule/schedule.h"

namespace tenon {

/// "tir.Schedule", with a method for each primitive.
ObjectRef schedule_object(Schedule schedule);

}  // namespace tenon
