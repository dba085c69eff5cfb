// SPDX-License-Identifier: Apache-2.0
// Where slices of a value's channels begin, so that what makes it can let its blocks begin there.
#pragma once
#include <set>

#include "ir/bodies.h"

namespace tenon::graph {

/// Of each variable the channels at which slices of it begin, or slices of what follows it channel by
/// channel; 0 and variables without a slice are left out.
std::unordered_map<const Var*, std::set<int64_t>> channel_cuts(const Function& function);

}  // namespace tenon::graph
