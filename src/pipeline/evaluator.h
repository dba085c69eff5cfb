// SPDX-License-Identifier: Apache-2.0
// The naive compiled evaluator: programs lowered without any schedule, compiled once each, run in this
// process. It shares operator definitions with the compiler, so it judges passes and schedules, not
// operators.
#pragma once
#include "ir/pass.h"
#include "target/target.h"

namespace tenon {

/// What PassContext::evaluate is in a compilation. Called with the name of a PrimFunc (inputs only; outputs
/// are made from the shapes) or of a graph function. Small programs are interpreted, because that is faster
/// than compiling them; others are cached by structural hash as long as the returned function lives.
/// Thread-safe.
Evaluate make_evaluator();

}  // namespace tenon
