// SPDX-License-Identifier: Apache-2.0
// Sizes of a function's parameters that are expressions ((h - 1) // 2 + 1) become symbols of the function, so
// that its index arithmetic stays simple and layers of one kind share a program.
#pragma once
#include "ir/graph.h"

namespace tenon::graph {

/// The function over symbols; the function itself where there is nothing to name, or where types inside,
/// which follow from the operators again, cannot be shown to be the same sizes. `takes_sizes`: the last
/// parameter is for sizes that no tensor shows. `hidden` is given the values, over the sizes of `f`, of the
/// symbols that no tensor shows alone; then the first parameter takes these and what the last one took.
Ref<Function> over_size_symbols(const Ref<Function>& f, bool takes_sizes, std::vector<PrimExpr>& hidden);

}  // namespace tenon::graph
