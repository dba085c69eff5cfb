// SPDX-License-Identifier: Apache-2.0
// Whether iterations of a loop may run in any order, or side by side.
#pragma once
#include "analysis/analyzer.h"
#include "ir/tir.h"

namespace tenon {

/// Why it is not proved that no iteration writes what another reads or writes; empty: it is. Looked at are
/// the elements that accesses name; memory that an iteration allocates is its own, atomic operations on
/// memory that nothing else touches are fine. `analyzer` knows the variables around the loop.
std::string shared_by_iterations(const tir::For& loop, Analyzer& analyzer);

}  // namespace tenon
