// SPDX-License-Identifier: Apache-2.0
// How long statements take on one core: what the runtime is told of parallel loops, and what decides which of
// them share one.
#pragma once
#include "ir/module.h"
#include "ir/tir.h"
#include "target/target.h"

namespace tenon::cost {

/// The time of one run on one core, by its vector operations, accesses and touched bytes; programs that it
/// calls are those of the module.
double nanoseconds(const tir::Stmt& statement, const IRModule& module, int64_t vector_bits);
/// Iterations; an estimate where only the call knows them.
double trips_of(const tir::For& loop);
/// Of the vectors of the processor that a program is for; of a usual one where none is named.
int64_t usual_vector_bits(const tir::PrimFuncNode& f, const Target& target);

}  // namespace tenon::cost
