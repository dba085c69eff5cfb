// SPDX-License-Identifier: Apache-2.0
// A region's tensor program that calls a function of imported text.
#pragma once
#include "ir/graph.h"
#include "ir/imported_code.h"

namespace tenon::graph {

/// A program of the region's tensors, its results and the given sizes, which calls the function and asserts
/// that it gives 0. Error T1154 for a region that takes or gives anything but tensors of known rank, or for a
/// language that is neither "c" nor "llvm".
tir::PrimFunc imported_program(const Function& region, const Array<tir::VarRef>& sizes,
                               const tir::ImportedFunction& function);

}  // namespace tenon::graph
