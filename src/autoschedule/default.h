// SPDX-License-Identifier: Apache-2.0
// The schedule every tensor program gets without tuning: rules over iteration kinds and access regions, sized
// by the target record. Never a rule for an operator's name or a model's shape.
#pragma once
#include "schedule/schedule.h"
#include "target/target.h"

namespace tenon {

/// An equal program with loops placed: producers inlined or kept near, contractions tiled in registers, the
/// outer loop parallel, the inner one vectorised. What a rule cannot do legally is left to the next simpler
/// one; the partition of reductions depends on shapes and target only. The trace is attribute "tenon.trace".
tir::PrimFunc default_schedule(const tir::PrimFunc& function, const Target& target);

}  // namespace tenon
