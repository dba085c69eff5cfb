// SPDX-License-Identifier: Apache-2.0
// Normal form of one value: its nested parts get names.
#pragma once
#include "ir/graph.h"

namespace tenon::graph {

/// The value over leaves: every call or item of a tuple inside it is given to `bind`, the inner ones first,
/// and what that gives back stands in its place.
Expr bind_nested(const Expr& value, FunctionRef<Expr(Expr)> bind);

}  // namespace tenon::graph
