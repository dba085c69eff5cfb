// SPDX-License-Identifier: Apache-2.0
// What the tests of the default schedule ask of its results.
#pragma once
#include "schedule/schedule.h"

namespace tenon::testing {

/// The steps that made the schedule, as a script.
inline std::string steps_of(const tir::PrimFunc& f) {
  return Trace::from_json(f->attrs.at("tenon.trace").as<std::string>()).to_script();
}

}  // namespace tenon::testing
