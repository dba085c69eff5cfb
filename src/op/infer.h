// SPDX-License-Identifier: Apache-2.0
// Types of graph expressions: operators by their own rule, everything else here.
#pragma once
#include "op/infer_context.h"

namespace tenon::op {

/// Type of any expression whose parts are typed (variables carry theirs, tuples may have none). Null where it
/// has a mistake, which `run` notes: T1101, T1103 for a wrong number of arguments, T1104 for an argument that
/// a function does not take. A function's own body must have been inferred first.
graph::Type infer_type(Inference& run, const graph::Expr& e);
/// The same of one expression alone; mistakes are thrown (DiagnosticError).
graph::Type infer_type(const graph::Expr& e);
/// What the operator of a call says of the type of argument i (OpDef::parameter); null where it says nothing
/// or does not know argument 0.
graph::Type parameter_type(Inference& run, const graph::Call& call, size_t i);
/// Whether the operator computes element by element, with operands spread as NumPy does, where they have
/// these element types.
bool spreads(const graph::Call& call, const std::vector<DataType>& dtypes);
/// The expression with its type, and one on every tuple among its arguments; others who hold it see nothing
/// of it. Its type stays null where it has a mistake.
graph::Expr typed(Inference& run, graph::Expr e);
graph::Expr typed(graph::Expr e);  ///< mistakes are thrown
/// The most exact type that both have: what cannot be agreed on is unknown.
graph::Type join(const graph::Type& a, const graph::Type& b);
/// A builder that infers the type of what it emits.
graph::BlockBuilder make_builder();

}  // namespace tenon::op
