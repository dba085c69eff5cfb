// SPDX-License-Identifier: Apache-2.0
// Attributes of the operator in trees.cpp.
#pragma once
#include "op/attrs.h"

namespace tenon::op {

struct TreesAttrs : Attrs<TreesAttrs> {
  int64_t depth = 1;
  static constexpr std::string_view type_key = "attrs.Trees";
  static void fields(auto& f) { f.add("depth", &TreesAttrs::depth, "most nodes between a root and a leaf"); }
};

}  // namespace tenon::op
