// SPDX-License-Identifier: Apache-2.0
// Compile small modules and run them here, in turns: what passes choose by (PassContext::measure).
#pragma once
#include "pipeline/compile.h"

namespace tenon {

/// Measures as a compilation with these options would compile, without the libraries of its target. Nothing
/// is run that this machine cannot run, or that has a size without a value: `why_not` says so. Each module
/// runs for a tenth of a second, on all cores, as a session does. Null for a target whose code is not loaded
/// here.
Measure make_measure(const CompileOptions& options, const Target& target);

}  // namespace tenon
