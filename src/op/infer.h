// SPDX-License-Identifier: Apache-2.0
// Types of graph expressions: operators by their own rule, everything else here.
#pragma once
#include "ir/op.h"

namespace tenon::op {

/// Type of any expression whose parts are typed (variables carry theirs). DiagnosticError "T1101", or "T1103"
/// for a wrong number of arguments. A function's own body must have been inferred first.
graph::Type infer_type(const graph::Expr& e);
/// The most exact type that both have: what cannot be agreed on is unknown. infer_error kinds are the
/// caller's.
graph::Type join(const graph::Type& a, const graph::Type& b);
/// Sets the types of all bindings of a function, in order, where they are missing (`again`: all of them), and
/// its result type.
void infer_function(const Ref<graph::Function>& f, bool again = false);
/// A builder that infers the type of what it emits.
graph::BlockBuilder make_builder();

}  // namespace tenon::op
