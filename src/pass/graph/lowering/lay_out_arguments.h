// SPDX-License-Identifier: Apache-2.0
// Layouts that a schedule chose for parameters of a program reach the graph that calls it.
#pragma once
#include "ir/pass.h"
#include "schedule/schedule.h"

namespace tenon::graph {

/// Calls of `program` pass the tensors of these parameters laid out by their maps, in order. Constants are
/// laid out by `evaluate`, 0 in what is padding; other values by a program in front of the call.
/// DiagnosticError T1038 for a tensor whose shape is not known.
IRModule lay_out_arguments(IRModule module, const std::string& program,
                           const std::vector<ParamLayout>& layouts, const Evaluate& evaluate);

}  // namespace tenon::graph
