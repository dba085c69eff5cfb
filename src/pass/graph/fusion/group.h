// SPDX-License-Identifier: Apache-2.0
// Bindings cut out of a body as a closed function: what fusion makes and what one kernel computes.
#pragma once
#include "ir/graph.h"

namespace tenon::graph {

struct Group {
  Ref<Function> function;  ///< parameters in order of first use, then one Shape for sizes no parameter shows
  Array<Expr> args;        ///< of the call, in the same order
};

/// The function that computes `result` (bound by one of `members`, in order). Variables and tensors from
/// outside become parameters; constants of one element stay inside, unless they are scales behind sums of
/// products of integers. Its symbolic sizes are its own.
Group make_group(const std::vector<Binding>& members, const VarRef& result);

/// "fused_conv2d_add_relu": at most 80 characters, longer ones are cut and marked by a hash.
std::string kernel_name(const std::string& prefix, const std::vector<Binding>& members);
}  // namespace tenon::graph
