// SPDX-License-Identifier: Apache-2.0
// Index maps: where an element goes when a buffer (or an iteration space) is laid out anew.
#pragma once
#include "analysis/analyzer.h"

namespace tenon {

/// lambda inputs: outputs, for example lambda i, j: (i // 4, j, i % 4).
struct IndexMapNode : Object {
  static constexpr std::string_view type_key = "tir.IndexMap";
  Array<tir::VarRef> inputs;
  Array<PrimExpr> outputs;
  static void fields(auto& f) {
    f.def("inputs", &IndexMapNode::inputs).add("outputs", &IndexMapNode::outputs);
  }
};
using IndexMap = Ref<IndexMapNode>;

IndexMap index_map(int rank, FunctionRef<Array<PrimExpr>(const Array<tir::VarRef>&)> f);
/// Where `indices` go.
Array<PrimExpr> apply(const IndexMap& map, const Array<PrimExpr>& indices, Analyzer& analyzer);
/// The box that holds all of what a box of `shape` becomes; null when an output is no sum of digits of the
/// inputs.
std::optional<Array<PrimExpr>> map_shape(const IndexMap& map, const Array<PrimExpr>& shape,
                                         Analyzer& analyzer);

struct InverseMap {
  IndexMap map;        ///< its inputs are new: an element's new position
  PrimExpr inside;     ///< over the same inputs: an element of the old box lands here
  bool exact = false;  ///< `inside` always holds: no padding
};
/// Null unless different elements of a box of `shape` provably get different positions.
std::optional<InverseMap> invert(const IndexMap& map, const Array<PrimExpr>& shape, Analyzer& analyzer);

/// "lambda i, j: (i // 4, j, i % 4)"
std::string to_text(const IndexMap& map);

}  // namespace tenon
