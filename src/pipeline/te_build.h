// SPDX-License-Identifier: Apache-2.0
// Tensor expressions compiled and run in this process: the last line of every TE program.
#pragma once
#include "pipeline/runner.h"
#include "schedule/te/te_schedule.h"

namespace tenon::te {

/// `module` (from te::lower) with a graph function `main` that takes the program's inputs and returns its
/// outputs (its last parameters). Error "T0347" for a size that no input has.
IRModule runnable(IRModule module, const std::string& program);

/// The scheduled program, compiled for `options.target`; `run` takes the inputs in the order of `args`. Calls
/// of registered functions (te::external_packed) stand between tensor programs.
Runner build(const Schedule& schedule, const Array<Tensor>& args, CompileOptions options = {},
             SessionOptions session = {}, const Array<tir::VarRef>& symbolic = {});

}  // namespace tenon::te
