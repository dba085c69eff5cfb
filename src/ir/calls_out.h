// SPDX-License-Identifier: Apache-2.0
// Calls of code that is not seen where they stand.
#pragma once
#include <string_view>

#include "ir/graph.h"

namespace tenon::tir {

/// `tir.call_extern`, `tir.call_packed`, `tir.call_prim_func`: a call keeps its place, and may use whatever
/// its arguments point to.
bool calls_out(std::string_view op);

}  // namespace tenon::tir

namespace tenon::graph {

/// A call of `call_tir`, or of `call_tir_impure`, which keeps its place.
bool is_call_tir(const Expr& call);

}  // namespace tenon::graph
