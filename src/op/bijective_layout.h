// SPDX-License-Identifier: Apache-2.0
// Two layouts of the same axes as an object: where an element of one lies in the other, as indices, shapes
// and index maps, for schedules (transform_layout), for programs about programs, and for other languages.
#pragma once
#include "analysis/index_map.h"
#include "op/layout.h"

namespace tenon::op {

struct BijectiveLayoutNode : Object {
  static constexpr std::string_view type_key = "tir.BijectiveLayout";
  std::string src, dst;
  static void fields(auto& f) {
    f.add("src", &BijectiveLayoutNode::src).add("dst", &BijectiveLayoutNode::dst);
  }
};
using BijectiveLayout = Ref<BijectiveLayoutNode>;

/// DiagnosticError T1107 for what are no two layouts of the same letters.
BijectiveLayout bijective_layout(const std::string& src, const std::string& dst);
/// The place in dst of the element at `index` in src, and back. T1107 for another number of indices.
Array<PrimExpr> forward_index(const BijectiveLayout& layout, const Array<PrimExpr>& index);
Array<PrimExpr> backward_index(const BijectiveLayout& layout, const Array<PrimExpr>& index);
/// The sizes in dst of a tensor whose sizes in src are `shape`, and back; blocks are filled up.
Array<PrimExpr> forward_shape(const BijectiveLayout& layout, const Array<PrimExpr>& shape);
Array<PrimExpr> backward_shape(const BijectiveLayout& layout, const Array<PrimExpr>& shape);
/// `forward_index` as a map over variables named like the axes: "lambda n, c, h, w: (n, c // 4, h, w, c %
/// 4)".
IndexMap forward_map(const BijectiveLayout& layout);

}  // namespace tenon::op
