// SPDX-License-Identifier: Apache-2.0
// A straight-line executable as the JSON graph of the graph executor: nodes, arg_nodes, heads, node_row_ptr,
// and names, types and shapes of inputs and outputs.
#pragma once
#include "runtime/executable.h"

namespace tenon {

/// Error "T0515" when `main` has branches, loops or calls of other functions.
std::string graph_json(const Executable& executable);

}  // namespace tenon
