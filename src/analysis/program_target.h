// SPDX-License-Identifier: Apache-2.0
// The processor that a program of a module is for.
#pragma once
#include "base/diagnostic.h"
#include "ir/tir.h"
#include "target/target.h"

namespace tenon {

/// What the attribute "target" of a program names, or `whole`, the target of the compilation (null: this
/// machine). A kind without options names no other processor. DiagnosticError T0949 when the program is for
/// another kind of code or another architecture, T0901 for words that are not known.
Target program_target(const tir::PrimFuncNode& f, const Target& whole);

/// T0949: graph functions become programs that others share, so that none is for a processor of its own.
void check_graph_targets(const IRModule& module, const Target& whole);

/// Features that programs for other processors need beside those of `whole`.
Array<std::string> more_features(const IRModule& module, const Target& whole);

}  // namespace tenon
