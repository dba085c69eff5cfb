// SPDX-License-Identifier: Apache-2.0
// The most of symbolic sizes, which the user gives (--dim-max).
#pragma once
#include "ir/pass.h"

namespace tenon {

inline const Option<Map<std::string, int64_t>> kSizeBounds("plan_memory.bounds", {},
                                                           "the most of symbolic sizes (--dim-max)",
                                                           {.least = 0});

}  // namespace tenon
