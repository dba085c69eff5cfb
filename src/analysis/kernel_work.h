// SPDX-License-Identifier: Apache-2.0
// What a kernel has to do at least: for reports that compare it with the time it takes.
#pragma once
#include <optional>

#include "analysis/region.h"

namespace tenon {

/// What a program must do at least: arithmetic operations on its values (a call of a function is one), and
/// the bytes of its parameters that it touches, each once. Empty when sizes are symbolic. To be taken before
/// a schedule changes the loops.
std::optional<WorkEstimate> kernel_work(const tir::PrimFunc& f);

}  // namespace tenon
